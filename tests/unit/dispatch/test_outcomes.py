# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How gangs end when their objects go, fail or belong to somebody else, and what is kept for pods without a node."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, short_of, told, wait_gone
from ansible_collections.muster.kube.tests.support.gang_cases import pod, service
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualCluster, VirtualProxy

Object = dict[str, t.Any]


def short_lived(obj: Object, seconds: int = 5) -> Object:
    """A Job that goes so many seconds after it finished."""
    obj["spec"]["ttlSecondsAfterFinished"] = seconds
    return obj


def bare_pod(stage: Stage, name: str, policy: str = "Never") -> Object:
    """A pod that is an object of its own."""
    made = pod(name, stage.namespace, stage.pool)
    made["spec"]["restartPolicy"] = policy
    return made


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


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "complete", "Completed"), (3, "failed", "ItemFailed")])
def test_an_outcome_is_kept(stage: Stage, code: int, phase: str, reason: str) -> None:
    """The object goes before the rest of the gang is over."""
    stage.add_nodes(1)
    quick = short_lived(stage.job("quick", 1, exit_code=code, seconds=0))
    slow = stage.podless_job("slow")
    rules = [{"item": 1, "type": "Complete"}, {"item": 0, "contains": "complete"}, {"item": 0, "contains": "failed"}]
    stage.submit("gang", quick, slow, completion=rules if code == 0 else None)
    stage.run()
    record = stage.record("gang")

    def noted(_phases: t.Mapping[str, str]) -> bool:
        state = stage.record("gang").state
        return state is not None and bool(state.outcomes)

    stage.run_for(noted)
    wait_gone("the Job", lambda: stage.find(quick))
    if code == 0:
        assert (stage.phase("gang"), stage.state("gang").outcomes) == ("dispatched", {0: "succeeded"})
        play_completion(stage, slow)
    stage.run_for(lambda phases: phases.get(record.uid) == phase)
    assert ending(stage, "gang") == (phase, reason)


def play_completion(stage: Stage, obj: Object) -> None:
    """Say of nobody's Job what its controller would say in the end."""
    found = stage.find(obj)
    assert found is not None
    moment = found["metadata"]["creationTimestamp"]
    conditions = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
    status = {"succeeded": 1, "startTime": moment, "completionTime": moment, "conditions": conditions}
    patch(stage.client, f"{stage.cluster.path(found)}/status", {"status": status}, patch_type="merge")


@pytest.mark.parametrize("ttl", [True, False])
def test_a_job_deleted_by_its_user(stage: Stage, ttl: bool) -> None:
    stage.add_nodes(1)
    made = short_lived(stage.job("gang"), 600) if ttl else stage.job("gang")
    stage.submit("gang", made)
    stage.run_until({"gang": "running"})
    remove(stage, made)
    stage.run_until({"gang": "failed"})
    assert ending(stage, "gang") == ("failed", "OutcomeUnknown")
    wait_gone("the pods", stage.pods)


@pytest.mark.parametrize(
    ("policy", "phase", "reason"), [("Never", "failed", "OutcomeUnknown"), ("Always", "queued", "Requeued")]
)
def test_one_of_three_pods_deleted(stage: Stage, policy: str, phase: str, reason: str) -> None:
    """A pod that ends by itself may have succeeded; one that never ends is missing, and the gang is started again."""
    stage.add_nodes(1)
    pods = [bare_pod(stage, name, policy) for name in ("a", "b", "c")]
    stage.submit("gang", *pods, requeue={"time": 1, "growth": "none", "pause": 3600})
    stage.run_until({"gang": "running"})
    remove(stage, pods[1])
    stage.run_until({"gang": phase})
    assert ending(stage, "gang") == (phase, reason)
    assert stage.pods() == []
    undone = next(item for item in stage.state("gang").transitions if item.phase == "undoing")
    assert undone.message == f"Pod {stage.namespace}/b is gone" + ("" if policy == "Always" else _UNKNOWN)


_UNKNOWN = ", and nobody saw how it ended"


def test_a_failed_job_stays_for_its_logs(stage: Stage) -> None:
    stage.add_nodes(1)
    stage.submit("gang", stage.job("done", 1, exit_code=0), stage.job("bad", 1, exit_code=3))
    wanted = {"gang": "failed"}
    stage.run()
    done = stage.job("done")
    wait_until("the Jobs to end", lambda: all(_conditions(stage, name) for name in ("done", "bad")))
    stage.run_until(wanted)
    assert stage.find(done) is not None
    assert len(stage.pods()) == 2


def _conditions(stage: Stage, name: str) -> list[str]:
    """The conditions by which a Job ended."""
    found = stage.find(stage.job(name)) or {}
    listed = (found.get("status") or {}).get("conditions") or ()
    return [item["type"] for item in listed if item["type"] in ("Complete", "Failed")]


def test_objects_of_another_namespace_change_nothing(cluster: VirtualCluster, stage: Stage) -> None:
    stage.add_nodes(1, cpu="4")
    other = cluster.namespace("other")
    both = (stage.namespace, other)
    record = stage.submit("victim", stage.podless_job("victim", 2, cpu="1"))
    assert told(stage.run(namespaces=both), "victim").action == "start"
    twin = stage.job("victim", 0)
    twin["metadata"].update({"namespace": other, "labels": {GANG_LABEL: record.uid}})
    cluster.create(twin)
    stage.submit("next", stage.podless_job("next", 1, cpu="3"))
    decision = told(stage.run(namespaces=both), "next")
    assert (decision.action, short_of(decision)) == ("wait", ("3", "2"))
    assert stage.phase("victim") == "dispatched"


@pytest.mark.parametrize("trouble", ["scheduler", "gate"])
def test_pods_of_no_scheduler(stage: Stage, trouble: str) -> None:
    stage.add_nodes(1, cpu="4")
    made = stage.job("first", 4, cpu="1")
    spec = made["spec"]["template"]["spec"]
    if trouble == "scheduler":
        spec["schedulerName"] = "nobody"
    else:
        spec["schedulingGates"] = [{"name": "example.com/wait"}]
    stage.submit("first", made)
    assert told(stage.run(), "first").action == "start"
    wait_until("four pods", lambda: len(stage.pods()) == 4)
    assert {item["spec"].get("nodeName") for item in stage.pods()} == {None}
    stage.submit("next", stage.podless_job("next", 1, cpu="1"))
    decision = told(stage.run(), "next")
    assert (decision.action, short_of(decision)) == ("wait", ("1", "0"))


def test_a_record_being_deleted_gives_all_back(stage: Stage) -> None:
    stage.add_nodes(1)
    stage.submit("gang", stage.job("gang"))
    stage.run_until({"gang": "running"})
    path = resource_path("v1", "configmaps", stage.namespace, "gang")
    patch(stage.client, path, {"metadata": {"finalizers": ["example.com/stay"]}}, patch_type="merge")
    delete(stage.client, path, propagation="Background")
    stage.run_until({"gang": "queued"})
    assert [item.reason for item in stage.state("gang").transitions if item.phase == "undoing"] == ["Deleted"]
    assert (stage.find(stage.job("gang")), stage.tickets()) == (None, [])
    stage.run()
    assert (stage.phase("gang"), stage.state("gang").attempt) == ("queued", 2)
    patch(stage.client, path, {"metadata": {"finalizers": None}}, patch_type="merge")
    wait_gone("the record", lambda: stage.raw("gang"))


def test_a_start_without_end_is_taken_back(proxied: Stage, proxy: VirtualProxy) -> None:
    proxied.add_nodes(1)
    proxied.submit("gang", proxied.job("gang"), service("gang-s"))
    # The first request for the Service only pretends.
    proxy.fail(status=500, method="POST", path="/services$", first=2, times=None)
    proxied.run()
    assert (proxied.phase("gang"), proxied.find(proxied.job("gang")) is not None) == ("dispatching", True)
    proxied.run_until({"gang": "queued"}, start_timeout=1.0)
    state = proxied.state("gang")
    assert [item.reason for item in state.transitions if item.phase == "undoing"] == ["StartTimeout"]
    assert (state.lost_races, state.requeues, state.attempt) == (0, 0, 2)
    assert state.not_before is not None
    assert (proxied.find(proxied.job("gang")), proxied.tickets()) == (None, [])
    # When whatever stopped it is over, the gang is started again after a pause.
    proxy.clear()
    proxied.run_until({"gang": "running"}, start_timeout=5.0)
    assert proxied.state("gang").attempt == 2
