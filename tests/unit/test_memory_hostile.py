# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dispatchers in memory whose users write what makes no sense: it harms nobody but their own gangs."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import (
    METER_FORMAT,
    METER_KEY,
    METER_LABEL,
    meter_name,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue import kept
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.gang_cases import POOL_LABEL
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.reclaim_cases import two_namespaces
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare, leaf, phases, state

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DAMAGED: dict[str, cases.Object] = {
    "selector": {"nodeSelector": ["a"]},
    "tolerations": {"tolerations": "text"},
    "affinity": {"affinity": "text"},
    "terms": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": {"a": "b"}}]}}}},
    "priority": {"priority": ["high"]},
    "class": {"priorityClassName": {"name": "high"}},
}


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Room for eight pods, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 2)) as made:
        yield made


def share_out(stage: MemoryStage, kind: str) -> None:
    """Store a tree with a queue for both namespaces, with flavors or without, or none at all."""
    queue = {"namespaces": ["a", "b"]}
    if kind == "plain":
        declare(stage, leaf("x", 4, **queue))
    elif kind == "flavors":
        flavors = [{"name": "f", "node_labels": {POOL_LABEL: "p"}}]
        declare(stage, {"name": "x", "parent": "all", "nominal": {"f": {"cpu": 4}}, **queue}, flavors=flavors)


def submit(stage: MemoryStage, name: str, namespace: str, job: cases.Object, **options: t.Any) -> None:
    """Queue a gang of one Job."""
    stage.cluster.add("configmaps", cases.gang_record(name, namespace, [job], **options))


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("kind", ["none", "flavors"])
@pytest.mark.parametrize("part", DAMAGED)
def test_a_damaged_pod_template_fails_its_own_gang_only(
    stage: MemoryStage, part: str, kind: str, declared: bool
) -> None:
    share_out(stage, kind)
    job = cases.job("bad", None, 1)
    job["spec"]["template"]["spec"].update(DAMAGED[part])
    podsets = {"podsets": [{"name": "bad", "count": 1, "requests": {"cpu": "1"}}]} if declared else {}
    submit(stage, "bad", "a", job, **podsets)
    submit(stage, "good", "b", cases.job("good", None, 1))
    stage.dispatcher("d").cycle()
    assert phases(stage, bad="a", good="b")["bad"] == "failed"
    assert phases(stage, good="b")["good"] != "queued"
    assert "the pod template of bad" in str(state(stage, "bad")["transitions"][-1])


@pytest.mark.parametrize("fair", ["usage", "borrowed"])
def test_a_forged_reservation_beyond_all_measure_ends_no_cycle(stage: MemoryStage, fair: str) -> None:
    """Shares of queues are compared as floats, which end somewhere."""
    amounts = {"cpu": 4, "memory": "8Gi"}
    queues = [{"name": name, "parent": "all", "nominal": amounts, "namespaces": [name]} for name in ("a", "b")]
    declare(stage, *queues, settings={"fair": fair})
    submit(stage, "g", "a", cases.job("g", None, 1))
    stage.start("d")
    assert stage.run_until(lambda: state(stage, "g")["phase"] == "running")

    def forge(raw: cases.Object) -> None:
        annotations = raw["metadata"]["annotations"]
        told = json.loads(annotations["muster.kube/state"])
        told["reserved"][0]["requests"]["cpu"] = "1e330"
        annotations["muster.kube/state"] = json.dumps(told)

    stage.cluster.change("configmaps", "a", "g", forge)
    for name in ("a", "b"):
        job = cases.job(f"late-{name}", None, 1)
        job["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Gi"}}
        submit(stage, f"late-{name}", name, job)
    expected = {"late-a": "running", "late-b": "running"}
    assert stage.run_until(lambda: phases(stage, **{"late-a": "a", "late-b": "b"}) == expected), stage.crashes


FORGED_METERS: dict[str, cases.Object] = {
    "recent": {"recent": {"cpu": 10**400}},
    "as_of": {"as_of": 10**400},
    "until": {"open": {"u": [1, 10**400, 0, 0]}, "amounts": [{"cpu": 10**400}]},
    "amounts": {"open": {"u": [1, 0, 0, 0]}, "amounts": [{"cpu": 10**306}]},
}


@pytest.mark.parametrize("part", FORGED_METERS)
def test_a_forged_meter_ends_no_cycle(stage: MemoryStage, part: str) -> None:
    declare(stage, leaf("x", 4, namespaces=["a"]), settings={"fair": "usage"})
    told = {"format": METER_FORMAT, "tree": "default", "queue": "x", "as_of": 5, **FORGED_METERS[part]}
    metadata = {"name": meter_name("default", "x"), "namespace": "muster-system", "labels": {METER_LABEL: "true"}}
    stage.cluster.add("configmaps", {"metadata": metadata, "data": {METER_KEY: json.dumps(told)}})
    submit(stage, "g", "a", cases.job("g", None, 1))
    stage.start("d", accrue_seconds=5)
    assert stage.run_until(lambda: state(stage, "g")["phase"] == "running"), stage.crashes
    stage.run_for(10)
    assert stage.crashes == []


def test_queues_that_gangs_name_are_not_remembered_for_ever(
    stage: MemoryStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever submits gangs can name any number of queues that do not exist."""
    monkeypatch.setattr(kept, "_MOST_NAMED", 5)
    share_out(stage, "plain")
    one = stage.dispatcher("d")
    one.cycle()
    assert one.session is not None
    memory = one.session.memory.kept
    for number in range(12):
        submit(stage, f"g{number}", "a", cases.job(f"g{number}", None, 1), queue=f"nowhere-{number}")
        one.cycle()
        stage.cluster.remove("configmaps", "a", f"g{number}")
        assert len(memory.classes.leaves) <= 7
