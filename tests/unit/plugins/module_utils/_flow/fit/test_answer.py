# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind fit_info, on a small API server."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import answer_fit, decide, gang_of
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    NamespaceRules,
    RuntimeClass,
    Snapshot,
    node_from_api,
    pod_from_api,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod
from ansible_collections.muster.kube.tests.support.small_api import SmallApi


def request(*objects, podsets=None):
    """A gang as users give it."""
    return GangRequest("g", "default", objects, podsets)


def test_the_result_carries_verdicts_costs_and_notes():
    lists = {
        "/api/v1/nodes": [node("a", cpu="2")],
        "/api/v1/pods": [],
        "/api/v1/namespaces": [{"metadata": {"name": "default"}}],
        "/api/v1/namespaces/default/resourcequotas": [],
        "/api/v1/namespaces/default/limitranges": [],
    }
    api = SmallApi(lists, forbidden={"/apis/scheduling.k8s.io/v1/priorityclasses"})
    wanted = [request(job(name, 1, requests={"cpu": "2"})) for name in ("one", "two")]
    with api.client() as client:
        together = answer_fit(client, wanted, cumulative=True, advice=True).as_result()
        alone = answer_fit(client, wanted, cumulative=False, advice=False).as_result()
    assert json.loads(json.dumps(together)) == together
    assert [item["answer"] for item in together["verdicts"]] == ["fits", "waits"]
    assert not together["fits"]
    assert alone["fits"]
    assert together["snapshot"] == {"nodes": 1, "pods": 0, "notes": ["this account may not list priorityclasses"]}
    assert set(together["seconds"]) == {"list", "decode", "decide"}
    assert {method for method, path in api.asked} == {"GET"}


def test_pods_that_await_the_scheduler_come_first():
    waiting = pod_from_api(pod("p", requests={"cpu": "2"}))
    snapshot = Snapshot(nodes=(node_from_api(node("a", cpu="2")),), pods=(waiting,))
    (verdict,) = decide(snapshot, [gang(job("j", 1, requests={"cpu": "1"}))], cumulative=True, advice=False)
    assert verdict.answer == "waits"


def test_advice_only_when_asked_for():
    snapshot = Snapshot(nodes=(node_from_api(node("a", cpu="2")),))
    wanted = [gang(job("j", 3, requests={"cpu": "1"}))]
    (plain,) = decide(snapshot, wanted, cumulative=True, advice=False)
    (advised,) = decide(snapshot, wanted, cumulative=True, advice=True)
    assert plain.advice == ()
    assert [item.change for item in advised.advice] == ["fewer_replicas"]


def test_sizes_include_what_namespace_and_runtime_class_add():
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}}
    snapshot = Snapshot(
        rules={"default": NamespaceRules(limit_ranges=(limits,))},
        runtime_classes={"kata": RuntimeClass({"cpu": "250m"}, {}, ())},
    )
    found = gang_of(request(job("j", 1, requests={"cpu": "1"}, runtimeClassName="kata")), snapshot)
    assert found.podsets[0].requests == {"cpu": 1250, "memory": 2**30, "pods": 1}


def test_declared_podsets_take_the_place_of_objects():
    unknown = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    found = gang_of(request(unknown, podsets=({"count": 2, "requests": {"cpu": "1"}},)), Snapshot())
    assert [(item.count, item.requests["cpu"]) for item in found.podsets] == [(2, 1000)]


def test_claims_among_the_objects_are_the_gangs_own():
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    assert gang_of(request(job("j", 1), claim), Snapshot()).own_claims == {"data"}


@pytest.mark.parametrize("podsets", [None, ({"count": 0, "requests": {"cpu": "1"}},)])
def test_a_gang_without_pods_is_refused(podsets):
    objects = () if podsets else (job("j", 0),)
    with pytest.raises(BadInput, match="gang default/g: none of its objects runs a pod"):
        gang_of(request(*objects, podsets=podsets), Snapshot())
