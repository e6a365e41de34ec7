# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counting: what started gangs still get, what others hold, and what is left for the next gang, rule by rule.

Most gangs here have objects that no controller looks after, so that a test decides itself which pods exist.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch import health
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, short_of, told, wait_gone
from ansible_collections.muster.kube.tests.support.gang_cases import pod
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a lost race a gang is asked again without a pause."""
    monkeypatch.setattr(health, "RACE_PAUSE", 0.0)


def left_for_others(stage: Stage, cpu: str | None = None, **terms: t.Any) -> str:
    """The cpu that a gang which needs a whole node, or so much, finds free; the gang is taken back again."""
    cpu = cpu or max((node["status"]["allocatable"]["cpu"] for node in stage.nodes()), key=int)
    stage.submit("probe", stage.podless_job("probe", 1, cpu=cpu))
    needed, free = short_of(told(stage.run(**terms), "probe"))
    assert needed == cpu
    delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "probe"))
    return free


def test_a_preempted_pod_leaves_its_room_reserved(stage: Stage) -> None:
    node = stage.add_nodes(1, cpu="4")[0]
    record = stage.submit("gang", stage.podless_job("gang", 2, cpu="1"))
    stage.run()
    for name in ("one", "two"):
        stage.gang_pod(record, name, "gang", node)
    stage.run_until({"gang": "running"})
    assert left_for_others(stage) == "2"
    delete(stage.client, resource_path("v1", "pods", stage.namespace, "one"))
    wait_gone("the preempted pod", lambda: stage.raw("one", "pods"))
    assert left_for_others(stage) == "2"


def test_gangs_of_one_job_that_is_half_done_count_what_is_left(stage: Stage) -> None:
    stage.add_nodes(1, cpu="4")
    stage.submit("gang", stage.podless_job("gang", 3, cpu="1"))
    stage.run()
    assert left_for_others(stage) == "1"
    job = stage.find(stage.job("gang"))
    assert job is not None
    # Nobody's Job: the test plays its controller.
    status = {"status": {"startTime": job["metadata"]["creationTimestamp"], "succeeded": 2, "active": 0}}
    patch(stage.client, f"{stage.cluster.path(job)}/status", status, patch_type="merge")
    assert left_for_others(stage) == "3"


def test_finished_pods_count_nothing(stage: Stage) -> None:
    node = stage.add_nodes(1, cpu="4")[0]
    for name, code in (("good", "0"), ("bad", "1")):
        made = pod(name, stage.namespace, None, node=node, cpu="1")
        made["metadata"]["annotations"] = {"muster.kube/exit-code": code}
        stage.cluster.create(made)
    stage.occupy("other", node, cpu="1")
    wait_until("two pods to end", lambda: {item["status"]["phase"] for item in stage.pods()} >= {"Succeeded", "Failed"})
    assert left_for_others(stage) == "3"


@pytest.mark.usefixtures("at_once")
def test_pods_larger_than_declared_count_as_they_were_seen(stage: Stage) -> None:
    stage.add_nodes(1, cpu="2")
    declared = [{"name": "gang", "count": 1, "requests": {"cpu": "1"}, "spec": {"nodeSelector": _pool(stage)}}]
    stage.submit("gang", stage.job("gang", 1, cpu="3"), podsets=declared)
    assert told(stage.run(), "gang").action == "start"
    stage.run_until({"gang": "queued"}, bind_timeout=0.1)
    state = stage.state("gang")
    assert (state.attempt, state.lost_races, state.requeues) == (2, 1, 0)
    decision = told(stage.run(), "gang")
    assert (decision.action, short_of(decision)) == ("wait", ("3", "2"))
    assert stage.pods() == []


@pytest.mark.usefixtures("at_once")
def test_three_lost_races_of_a_gang_declared_too_small_are_enough(stage: Stage) -> None:
    stage.add_nodes(1, cpu="4")
    declared = [{"name": "gang", "count": 1, "requests": {"cpu": "1"}, "spec": {"nodeSelector": _pool(stage)}}]
    # The declaration does not say either that its pods want a node which is not there.
    made = stage.job("gang", 1, cpu="2")
    made["spec"]["template"]["spec"]["nodeSelector"]["muster-test/late"] = "true"
    stage.submit("gang", made, podsets=declared)
    record = stage.record("gang")

    def given_up(phases: t.Mapping[str, str]) -> bool:
        state = stage.record("gang").state
        return phases.get(record.uid) == "queued" and state is not None and state.lost_races >= 3

    result = stage.run_for(given_up, bind_timeout=0.1)
    assert [item.action for item in result.decisions].count("start") == 3
    decision = told(stage.run(), "gang")
    assert (decision.action, decision.reason) == ("wait", "declared_too_small")
    assert "podset gang is declared with 1 of cpu, its pods ask for 2" in decision.message
    assert stage.pods() == []


def _pool(stage: Stage) -> dict[str, str]:
    """The selector of the stage's nodes."""
    return dict(stage.job("unused")["spec"]["template"]["spec"]["nodeSelector"])
