# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What rings, and what does not."""

from __future__ import annotations

import copy
import functools

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading import change_signal as bell
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.change_signal import ChangeSignal
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    new_state,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_named
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.cluster_model import node, pod
from ansible_collections.muster.kube.tests.support.small_api import SmallApi


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


POD = with_uid(pod("p", on="n"))
NODE = with_uid(node("n", cpu="4"))
ITEM = with_uid({"kind": "Job", "metadata": {"name": "j", "generation": 1}, "status": {"succeeded": 1}})
JOB_ITEM = functools.partial(bell._item, kind_named("batch/v1", "Job").status_fields)
RAY_JOB_ITEM = functools.partial(bell._item, kind_named("ray.io/v1", "RayJob").status_fields)


@pytest.mark.parametrize(
    ("essence", "obj", "path", "value"),
    [
        (bell._pod, POD, ("status", "phase"), "Succeeded"),
        (bell._pod, POD, ("spec", "nodeName"), "m"),
        (bell._pod, POD, ("metadata", "deletionTimestamp"), "2026-01-01T00:00:00Z"),
        (bell._pod, POD, ("status", "conditions"), [{"type": "PodScheduled", "reason": "Unschedulable"}]),
        (bell._node, NODE, ("spec", "unschedulable"), True),
        (bell._node, NODE, ("spec", "taints"), [{"key": "x"}]),
        (bell._node, NODE, ("status", "allocatable"), {"cpu": "5"}),
        (bell._node, NODE, ("metadata", "labels"), {"gpu": "yes"}),
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
        (bell._pod, POD, ("status", "startTime"), "2026-01-01T00:00:00Z"),
        (bell._pod, POD, ("metadata", "resourceVersion"), "9"),
        (bell._node, NODE, ("status", "conditions"), [{"type": "Ready", "lastHeartbeatTime": "now"}]),
        (JOB_ITEM, ITEM, ("status", "lastUpdateTime"), "2026-01-01T00:00:00Z"),
        (JOB_ITEM, ITEM, ("metadata", "annotations"), {"a": "b"}),
    ],
)
def test_heartbeats_and_the_like_do_not(essence, obj, path, value):
    assert essence(obj) == essence(changed(obj, path, value))


def record(write_id, **data):
    state = state_text(new_state("2026-01-01T00:00:00Z", write_id))
    return {
        "metadata": {"name": "g", "namespace": "n", "uid": "u", "annotations": {STATE_ANNOTATION: state}},
        "data": data or {"gang.json": "{}"},
    }


def test_our_own_writes_do_not_ring_and_those_of_others_do():
    with SmallApi({}).client() as client:
        essence = ChangeSignal(client, DispatchOptions(), "me_1")._record
    assert essence(record("me_1/e.1/1")) == essence(record("me_1/e.1/2"))
    labelled = changed(record("me_1/e.1/2"), ("metadata", "labels"), {"muster.kube/phase": "running"})
    assert essence(record("me_1/e.1/1")) == essence(labelled)
    assert essence(record("me_1/e.1/1")) != essence(record("other_2/e.2/1"))
    assert essence(record("me_1/e.1/1")) != essence(record("me_1/e.1/1", **{"gang.json": "{} "}))
