# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What MCAD got wrong and nobody may get wrong again: one test for each of the bugs found in it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_micros, read_time
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, actions, short_of, told
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, service
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualCluster, VirtualProxy

Object = dict[str, t.Any]


def condition(stage: Stage, name: str, kind: str) -> Object:
    """The last condition of a type in an AppWrapper's status."""
    found = [item for item in stage.record(name).raw["status"]["conditions"] if item["type"] == kind]
    assert found, f"{name} has no condition {kind}"
    return t.cast(Object, found[-1])


def test_b3_the_requeue_limit_holds(stage: Stage) -> None:
    stage.add_nodes(1)
    requeuing = {"timeInSeconds": 1, "growthType": "none", "maxNumRequeuings": 1}
    stage.wrap(
        "flaky",
        stage.job("flaky", 1, exit_code=1, backoff_limit=6),
        scheduling={"minAvailable": 1, "requeuing": requeuing},
    )
    result = stage.run_until({"flaky": "failed"})
    assert actions(result, "flaky").count("start") == 2
    state = stage.state("flaky")
    assert (state.requeues, state.transitions[-1].reason) == (1, "RequeueLimit")
    stage.run()
    status = stage.record("flaky").raw["status"]
    assert (status["state"], status["numberOfRequeueings"]) == ("Deleted", 1)
    assert stage.find(stage.job("flaky")) is None


def test_b4_the_time_limit_counts_from_the_dispatch_and_needs_no_minimum(stage: Stage) -> None:
    node = stage.add_nodes(1, cpu="1")[0]
    blocker = stage.occupy("blocker", node, cpu="1")
    stage.wrap("limited", stage.job("limited", 1, cpu="1"), scheduling={"dispatchDuration": {"limit": 2}})
    assert told(stage.run(), "limited").action == "wait"
    stage.cluster.client.request("DELETE", stage.cluster.path(blocker))
    stage.run_until({"limited": "failed"})
    began = next(item for item in stage.state("limited").transitions if item.phase == "dispatched")
    ended = next(item for item in stage.state("limited").transitions if item.phase == "undoing")
    assert ended.reason == "TimeLimit"
    assert (read_time(ended.at) or 0) - (read_time(began.at) or 0) >= 2
    stage.run()
    assert condition(stage, "limited", "PreemptCandidate")["reason"] == "DispatchDeadlineExceeded"


def test_b5_failed_stays_failed(stage: Stage) -> None:
    stage.add_nodes(1)
    stage.wrap("short", stage.job("short"), scheduling={"minAvailable": 1, "dispatchDuration": {"limit": 1}})
    stage.run_until({"short": "failed"})
    stage.run()
    before = stage.record("short").raw
    # The next event about it made MCAD clean up and queue it again.
    patch(stage.client, stage.cluster.path(before), {"metadata": {"labels": {"touched": "true"}}}, patch_type="merge")
    results = [stage.run() for _turn in range(3)]
    after = stage.record("short").raw
    assert [result.changed for result in results] == [False, False, False]
    assert after["status"] == before["status"]
    assert after["status"]["state"] == "Failed"
    assert stage.pods() == []


def test_b6_a_foreign_object_is_neither_adopted_nor_deleted(proxied: Stage, proxy: VirtualProxy) -> None:
    proxied.add_nodes(1)
    foreign = service("shared")
    foreign["metadata"].update({"namespace": proxied.namespace, "labels": {"of": "somebody"}})
    before = proxied.cluster.create(foreign)[0]
    proxied.submit("gang", proxied.job("gang"), service("shared"))
    decision = told(proxied.run(), "gang")
    assert (decision.action, decision.reason, decision.attempt) == ("wait", "name_taken", 1)
    assert "shared" in decision.message
    assert proxied.find(service("shared")) == before
    assert proxied.pods() == []


def test_b6_a_foreign_object_that_comes_in_between_is_left_alone(proxied: Stage, proxy: VirtualProxy) -> None:
    proxied.add_nodes(1)
    proxied.submit("gang", proxied.job("gang"), service("late"))
    # The first request for the Service only pretends.
    foreign = service("late")
    foreign["metadata"]["namespace"] = proxied.namespace
    made: list[Object] = []
    proxy.interrupt(lambda: made.extend(proxied.cluster.create(foreign)), method="POST", path="/services$", first=2)
    proxied.run()
    assert [proxied.find(service("late"))] == made
    wait_until("the gang's Job to be undone", lambda: proxied.find(proxied.job("gang")) is None)
    assert proxied.phase("gang") in ("undoing", "queued")
    assert "late" in next(item.message for item in proxied.state("gang").transitions if item.phase == "undoing")


def test_b7_after_a_failed_item_nothing_is_created_and_the_rest_is_undone(proxied: Stage, proxy: VirtualProxy) -> None:
    proxied.add_nodes(1)
    proxied.submit("gang", service("gang-s"), proxied.job("gang-a"), proxied.job("gang-b"))
    # Two pretend; the third is the first real one.
    proxy.fail(status=422, method="POST", path="/jobs$", first=3, message="made invalid by the test")
    proxied.run_until({"gang": "failed"})
    created = [item for item in proxy.writes if item.method == "POST" and item.path.endswith("/jobs")]
    assert [item.status for item in created] == [422]
    assert [proxied.find(obj) for obj in (service("gang-s"), proxied.job("gang-a"), proxied.job("gang-b"))] == [
        None
    ] * 3
    assert proxied.tickets() == []
    assert "made invalid by the test" in proxied.state("gang").transitions[-1].message


def test_b8_conditions_that_come_again_are_dated_anew(stage: Stage) -> None:
    stage.add_nodes(1)
    requeuing = {"timeInSeconds": 1, "growthType": "none", "maxNumRequeuings": 1}
    stage.wrap("again", stage.job("again", 1, exit_code=1), scheduling={"requeuing": requeuing})
    stage.run()
    kinds = ("Queueing", "HeadOfLine", "Dispatched")
    before = {kind: read_micros(condition(stage, "again", kind)["lastUpdateMicroTime"]) for kind in kinds}
    stage.run_until({"again": "failed"})
    after = {kind: read_micros(condition(stage, "again", kind)["lastUpdateMicroTime"]) for kind in kinds}
    assert all((after[kind] or 0) > (before[kind] or 0) > 0 for kind in kinds), (before, after)
    listed = [item["type"] for item in stage.record("again").raw["status"]["conditions"]]
    assert [listed.count(kind) for kind in kinds] == [1, 1, 1]


def test_b9_gangs_of_one_name_in_two_namespaces_both_count(cluster: VirtualCluster, stage: Stage) -> None:
    stage.add_nodes(1, cpu="4")
    other = cluster.namespace("other")
    both = (stage.namespace, other)
    stage.submit("same", stage.podless_job("same", 1, cpu="3"))
    assert told(stage.run(namespaces=both), "same").action == "start"
    cluster.create(gang_record("same", other, [stage.podless_job("same", 1, cpu="3")]))
    decision = told(stage.run(namespaces=both), "same")
    assert (decision.gang, decision.action, short_of(decision)) == (f"{other}/same", "wait", ("3", "1"))


def test_b10_a_failing_list_of_pods_ends_the_cycle(proxied: Stage, proxy: VirtualProxy) -> None:
    proxied.add_nodes(1)
    proxied.submit("gang", proxied.job("gang"))
    proxied.run(max_starts=0)
    proxy.forget()
    proxy.fail(status=500, method="GET", path="^/api/v1/pods$", times=None)
    with pytest.raises(ServerFault):
        proxied.run()
    assert {item.path for item in proxy.writes} == {proxied.lease_path}
    proxy.clear()
    assert told(proxied.run(), "gang").action == "start"
