# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How gangs end when their objects go, fail or belong to somebody else, and what is kept for pods without a node."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, told, wait_gone
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster

Object = dict[str, t.Any]


@pytest.fixture(scope="module")
def cluster(operator_cluster: LiveCluster) -> LiveCluster:
    """The one with operators, for some gangs here are Ray clusters."""
    return operator_cluster


@pytest.fixture
def stage(cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A dispatcher over the test's namespace."""
    made = Stage(cluster, namespace)
    yield made
    made.close()


def short_lived(obj: Object, seconds: int = 5) -> Object:
    """A Job that goes so many seconds after it finished."""
    obj["spec"]["ttlSecondsAfterFinished"] = seconds
    return obj


def remove(stage: Stage, obj: Object) -> None:
    """Delete an object as a user would, and wait until it is gone."""
    found = stage.find(obj)
    assert found is not None
    delete(stage.client, stage.cluster.path(found), propagation="Background")
    wait_gone(obj["metadata"]["name"], lambda: stage.find(obj))


def ending(stage: Stage, name: str) -> tuple[str, str]:
    """The phase of a gang and why it came there."""
    state = stage.state(name)
    return state.phase, state.transitions[-1].reason


def test_a_failure_that_nobody_saw_is_no_success(stage: Stage) -> None:
    stage.add_nodes(1)
    made = short_lived(stage.job("gang", 1, exit_code=3))
    stage.submit("gang", made)
    assert told(stage.run(), "gang").action == "start"
    wait_gone("the Job", lambda: stage.find(made))
    decision = told(stage.run(), "gang")
    assert (decision.action, decision.reason) == ("fail", "OutcomeUnknown")
    assert "Job" in decision.message
    assert "gang is gone" in decision.message
    assert ending(stage, "gang") == ("failed", "OutcomeUnknown")


def test_a_ray_cluster_deleted_by_hand_leaves_too_few(stage: Stage) -> None:
    stage.add_nodes(1)
    made = stage.ray_cluster("ray", 1)
    stage.submit("gang", made, requeue={"time": 1, "growth": "none", "limit": 0})
    stage.run_until({"gang": "running"})
    remove(stage, made)
    stage.run_until({"gang": "failed"})
    assert ending(stage, "gang") == ("failed", "RequeueLimit")


def test_a_gang_fails_whole(stage: Stage) -> None:
    stage.add_nodes(1)
    stage.submit("gang", stage.job("good"), stage.job("bad", 1, exit_code=3))
    stage.run_until({"gang": "failed"})
    assert ending(stage, "gang") == ("failed", "ItemFailed")
    assert [stage.find(stage.job(name)) for name in ("good", "bad")] == [None, None]
    wait_gone("the pods", stage.pods)
