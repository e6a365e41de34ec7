# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What rings, and what does not."""

from __future__ import annotations

import copy
import time

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.change_signal import (
    ChangeSignal,
    record_essence,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.pod_table import (
    essence_of,
    mirrored_pod,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.sources import live_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    new_state,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import node_from_api
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.cluster_model import node, pod


def with_uid(obj, uid="u"):
    obj["metadata"]["uid"] = uid
    return obj


def changed(obj, path, value):
    other = copy.deepcopy(obj)
    place = other
    for step in path[:-1]:
        place = place.setdefault(step, {})
    place[path[-1]] = value
    return other


def pod_essence(raw):
    return essence_of(mirrored_pod(copy.deepcopy(raw)))


def item_essence(api_version, kind):
    return lambda raw: live_object({**copy.deepcopy(raw), "apiVersion": api_version, "kind": kind}).essence


POD = with_uid(pod("p", on="n", labels={"muster.kube/gang": "g"}))
NODE = with_uid(node("n", cpu="4"))
ITEM = with_uid({"kind": "Job", "metadata": {"name": "j", "generation": 1}, "status": {"succeeded": 1}})
JOB_ITEM = item_essence("batch/v1", "Job")
RAY_JOB_ITEM = item_essence("ray.io/v1", "RayJob")


@pytest.mark.parametrize(
    ("essence", "obj", "path", "value"),
    [
        (pod_essence, POD, ("status", "phase"), "Succeeded"),
        (pod_essence, POD, ("spec", "nodeName"), "m"),
        (pod_essence, POD, ("metadata", "deletionTimestamp"), "2026-01-01T00:00:00Z"),
        (pod_essence, POD, ("status", "conditions"), [{"type": "PodScheduled", "reason": "Unschedulable"}]),
        (node_from_api, NODE, ("spec", "unschedulable"), True),
        (node_from_api, NODE, ("spec", "taints"), [{"key": "x"}]),
        (node_from_api, NODE, ("status", "allocatable"), {"cpu": "5"}),
        (node_from_api, NODE, ("metadata", "labels"), {"gpu": "yes"}),
        (JOB_ITEM, ITEM, ("status", "succeeded"), 2),
        (JOB_ITEM, ITEM, ("metadata", "generation"), 2),
        (JOB_ITEM, ITEM, ("status", "conditions"), [{"type": "Complete", "status": "True"}]),
        (RAY_JOB_ITEM, ITEM, ("status", "jobDeploymentStatus"), "Complete"),
    ],
)
def test_what_decisions_rest_on_rings(essence, obj, path, value):
    assert essence(obj) != essence(changed(obj, path, value))


@pytest.mark.parametrize(
    ("essence", "obj", "path", "value"),
    [
        (pod_essence, POD, ("status", "startTime"), "2026-01-01T00:00:00Z"),
        (pod_essence, POD, ("metadata", "resourceVersion"), "9"),
        (node_from_api, NODE, ("status", "conditions"), [{"type": "Ready", "lastHeartbeatTime": "now"}]),
        (JOB_ITEM, ITEM, ("status", "lastUpdateTime"), "2026-01-01T00:00:00Z"),
        (JOB_ITEM, ITEM, ("metadata", "annotations"), {"a": "b"}),
    ],
)
def test_heartbeats_and_the_like_do_not(essence, obj, path, value):
    assert essence(obj) == essence(changed(obj, path, value))


def record(write_id, namespace="n", **data):
    state = state_text(new_state("2026-01-01T00:00:00Z", write_id))
    return {
        "metadata": {"name": "g", "namespace": namespace, "uid": "u", "annotations": {STATE_ANNOTATION: state}},
        "data": data or {"gang.json": "{}"},
    }


def essence(raw, **terms):
    return record_essence(DispatchOptions(**terms), "me_1")(record_from_api(raw))


def test_our_own_writes_do_not_ring_and_those_of_others_do():
    assert essence(record("me_1/e.1/1")) == essence(record("me_1/e.1/2"))
    labelled = changed(record("me_1/e.1/2"), ("metadata", "labels"), {"muster.kube/phase": "running"})
    assert essence(record("me_1/e.1/1")) == essence(labelled)
    assert essence(record("me_1/e.1/1")) != essence(record("other_2/e.2/1"))
    assert essence(record("me_1/e.1/1")) != essence(record("me_1/e.1/1", **{"gang.json": "{} "}))


def test_records_of_other_namespaces_do_not_ring():
    assert essence(record("other_2/e.2/1"), namespaces=("n",)) is not None
    assert essence(record("other_2/e.2/1", "elsewhere"), namespaces=("n",)) is None


def test_a_rest_ends_when_it_rings():
    signal = ChangeSignal()
    signal.ring()
    started = time.monotonic()
    signal.wait(60.0, at_least=0.0)
    assert time.monotonic() - started < 30.0
    signal.silence()
    signal.wait(0.01, at_least=0.01)
