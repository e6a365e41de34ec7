# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gang and dispatch for real: run by ansible-playbook against a real API server, from queue to end."""

from __future__ import annotations

import re

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.run import run_gangs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease
from ansible_collections.muster.kube.tests.support.gang_cases import app_wrapper, claim, config_map, job, node_pool
from ansible_collections.muster.kube.tests.support.gang_records import ask
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.play import play_tasks
from ansible_collections.muster.kube.tests.support.wrapper_crd import install_wrapper_crd

POOL, SPACE = "gang-face", "gang-face"
FIRST = [config_map("first-settings"), job("first", POOL, 2, cpu="1")]
SECOND = job("second", POOL, 1, cpu="1500m")
BRIEF = job("brief", POOL, 1, seconds=1, cpu="100m")
NEVER = job("never", POOL, 1, cpu="64")
WRAPPER = app_wrapper("wrapped", SPACE, [job("wrapped", POOL, 1, cpu="100m")], managed=False)
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "mine"}, "rules": []}


def gang(definition=None, **options):
    """A task that asks for a gang."""
    given = {} if definition is None else {"definition": definition}
    return {"muster.kube.gang": {"namespace": SPACE, **given, **options}}


def one(result):
    """The one gang of a result."""
    assert "gangs" in result, result
    (entry,) = result["gangs"]
    return entry


@pytest.fixture(scope="module")
def world(cluster):
    """Two nodes of two cpus, our AppWrapper definition, and a namespace."""
    install_wrapper_crd(cluster.client)
    cluster.add_nodes(node_pool(POOL, 2, cpu="2"))
    cluster.namespace(SPACE)
    yield cluster
    cluster.drop_namespace(SPACE)
    cluster.remove_nodes([f"{POOL}-n0", f"{POOL}-n1"])


TASKS = {
    # Before gangs of earlier tests whose namespaces are still going.
    "preview": {**gang(FIRST, name="first", priority=1000), "check_mode": True},
    "queued": gang(FIRST, name="first", queue="research", labels={"team": "a"}),
    "unchanged": gang(FIRST, name="first", queue="research", labels={"team": "a"}),
    "changed": {**gang(FIRST, name="first", queue="research", priority=3), "diff": True},
    "started": gang(FIRST, name="first", queue="research", priority=3, dispatch=True, wait_for="running"),
    "started_again": gang(FIRST, name="first", queue="research", priority=3, dispatch=True, wait_for="running"),
    "waiting": gang([SECOND, NEVER], name="second", dispatch=True, wait_timeout="2s"),
    "impatient": gang([SECOND, NEVER], name="second", wait_for="running", wait_timeout="2s"),
    "cycle": {"muster.kube.dispatch": {"namespaces": [SPACE]}},
    "refused": gang(FIRST, name="first", priority=9),
    "rights": gang([*FIRST, ROLE], name="third"),
    "suspended": gang(name="first", state="suspended", dispatch=True, wait_timeout="1m"),
    "suspended_again": gang(name="first", state="suspended", dispatch=True),
    "resumed": gang(name="first", dispatch=True, wait_for="running", wait_timeout="1m"),
    "detached": {**gang(name="first"), "async": 120, "poll": 1},
    "detached_cycle": {"muster.kube.dispatch": {"namespaces": [SPACE]}, "async": 120, "poll": 1},
    "replaced": gang(FIRST, name="first", priority=1, replace=True, dispatch=True, wait_for="running"),
    "finished": gang(BRIEF, dispatch=True, wait_for="complete"),
    "finished_again": gang(BRIEF, priority=1, dispatch=True),
    "rerun": gang(BRIEF, rerun=True),
    "wrapped": gang(WRAPPER, dispatch=True, wait_for="running"),
    "wrapped_again": gang(WRAPPER),
    "pretended": {**gang(name="first", state="absent"), "check_mode": True},
    "removed": gang(state="absent", gangs=[{"name": name} for name in ("first", "second", "wrapped", "brief")]),
    "removed_again": gang(name="first", state="absent"),
}


@pytest.fixture(scope="module")
def played(world, tmp_path_factory):
    """One play with the whole life of some gangs."""
    directory = tmp_path_factory.mktemp("play")
    defaults = {"group/muster.kube.kube": {"kubeconfig": world.kubeconfig}}
    variables = {"ansible_async_dir": str(directory / "async")}
    return play_tasks(directory, TASKS, module_defaults=defaults, variables=variables)


def test_check_mode_predicts(played):
    told = one(played["preview"])
    assert (told["action"], told["changed"], told["position"], told["verdict"]["answer"]) == (
        "created",
        True,
        1,
        "fits",
    )
    assert [(item["kind"], item["error"]) for item in told["would_create"]] == [("ConfigMap", None), ("Job", None)]
    assert told["would_create"][1]["object"]["spec"]["template"]["metadata"]["labels"]["muster.kube/podset"] == "first"
    assert played["queued"]["gangs"][0]["action"] == "created"


def test_a_queued_gang_is_left_alone_or_changed_in_place(played):
    assert (one(played["queued"])["changed"], one(played["queued"])["phase"]) == (True, "queued")
    assert (played["unchanged"]["changed"], one(played["unchanged"])["action"]) == (False, "unchanged")
    changed = one(played["changed"])
    assert (changed["action"], changed["uid"]) == ("changed", one(played["queued"])["uid"])
    (shown,) = played["changed"]["diff"]
    assert (shown["before"]["priority"], shown["after"]["priority"]) == (0, 3)


def test_it_is_started_whole_and_once(played):
    told = one(played["started"])
    assert (told["phase"], told["changed"], told["action"]) == ("running", True, "unchanged")
    assert [item["kind"] for item in told["objects"]] == ["ConfigMap", "Job"]
    assert played["started"]["coordination"] == "cluster"
    assert (played["started_again"]["changed"], one(played["started_again"])["phase"]) == (False, "running")
    assert played["started"]["ran"] == "in_process"


def test_one_that_does_not_fit_waits_with_a_reason(played):
    told = one(played["waiting"])
    assert (told["phase"], told["position"], told["objects"]) == ("queued", 1, [])
    assert "cpu" in told["verdict_text"]
    assert played["waiting"]["changed"]


def test_waiting_in_vain_fails_with_the_verdict(played):
    assert played["impatient"]["failed"]
    assert "after 2 s it is queued, not running" in played["impatient"]["msg"]
    assert "cpu" in played["impatient"]["msg"]
    assert one(played["impatient"])["position"] == 1


def test_a_cycle_tells_its_decisions(played):
    decisions = {item["gang"]: item for item in played["cycle"]["decisions"]}
    assert decisions[f"{SPACE}/second"]["action"] == "wait"
    assert (played["cycle"]["changed"], played["cycle"]["cycles"]) == (False, 1)
    assert played["cycle"]["requests"]["GET"] > 0


def test_decisions_are_shown_when_they_are_made(played):
    assert re.search(rf"\[localhost\] gang: {SPACE}/first: start", played.output)


def test_refusals_say_what_to_do(played):
    assert "use replace: true" in played["refused"]["msg"]
    assert "have an administrator create the Role beforehand" in played["rights"]["msg"]


def test_a_gang_is_suspended_and_resumed(played):
    assert (one(played["suspended"])["phase"], played["suspended"]["changed"]) == ("suspended", True)
    assert played["suspended_again"]["changed"] is False
    resumed = one(played["resumed"])
    assert (resumed["phase"], resumed["attempt"]) == ("running", 2)


def test_elsewhere_the_module_is_executed(played):
    assert (played["detached"]["ran"], one(played["detached"])["phase"]) == ("module", "running")
    assert (played["detached_cycle"]["ran"], played["detached_cycle"]["cycles"]) == ("module", 1)


def test_a_running_gang_is_replaced_when_asked(played):
    told = one(played["replaced"])
    assert (told["action"], told["phase"], told["attempt"]) == ("recreated", "running", 1)
    assert told["uid"] != one(played["resumed"])["uid"]


def test_a_finished_gang_stays_until_it_is_to_run_again(played):
    assert one(played["finished"])["phase"] == "complete"
    again = one(played["finished_again"])
    assert (again["phase"], again["changed"]) == ("complete", False)
    assert "rerun: true" in again["message"]
    rerun = one(played["rerun"])
    assert (rerun["action"], rerun["phase"]) == ("recreated", "queued")
    assert rerun["uid"] != again["uid"]


def test_a_wrapper_is_kept_as_one(played):
    told = one(played["wrapped"])
    assert (told["store"], told["phase"]) == ("appwrapper", "running")
    assert played["wrapped_again"]["changed"] is False


def test_everything_goes(played, world):
    assert (played["pretended"]["changed"], played["pretended"]["gangs"][0]["action"]) == (True, "deleted")
    assert [item["action"] for item in played["removed"]["gangs"]] == ["deleted"] * 4
    assert played["removed_again"]["changed"] is False
    assert world.pods(SPACE) == []
    assert get_object(world.client, resource_path("batch/v1", "jobs", SPACE, "first")) is None


def run(proxy, *gangs, **options):
    """Run the flow through the proxy."""
    terms = GangOptions(gangs=tuple(map(ask, gangs)), **{"state": "present", **options})
    return run_gangs(lambda: connect({"kubeconfig": str(proxy.kubeconfig)}), terms, lambda text: None)


def test_a_submission_is_one_write_and_its_repetition_one_read(world, proxy):
    wanted = {"namespace": SPACE, "name": "counted", "definition": job("counted", POOL)}
    assert run(proxy, wanted).changed
    assert [(item.method, item.path) for item in proxy.requests if item.write] == [
        ("POST", f"/api/v1/namespaces/{SPACE}/configmaps")
    ]
    proxy.forget()
    assert not run(proxy, wanted).changed
    assert [(item.method, item.path) for item in proxy.requests] == [
        ("GET", f"/api/v1/namespaces/{SPACE}/configmaps/counted")
    ]
    run(proxy, {"namespace": SPACE, "name": "counted"}, state="absent")


def test_check_mode_sends_dry_runs_only(world, proxy):
    wanted = {"namespace": SPACE, "name": "pretend", "definition": [claim("kept"), job("pretend", POOL)]}
    answer = run(proxy, wanted, check_mode=True)
    assert answer.entries()[0]["would_create"][0]["kind"] == "PersistentVolumeClaim"
    assert [item.path for item in proxy.requests if item.write] == []
    assert [item.dry_run for item in proxy.requests if item.method == "POST"] == [True, True]


def test_a_lost_answer_to_the_submission_is_no_second_gang(world, proxy):
    proxy.cut(when="after", method="POST", path="configmaps")
    wanted = {"namespace": SPACE, "name": "lost", "definition": job("lost", POOL)}
    assert run(proxy, wanted).entries()[0]["action"] == "created"
    path = resource_path("v1", "configmaps", SPACE, "lost")
    assert get_object(world.client, path)["metadata"]["labels"]["muster.kube/record"] == "gang"
    run(proxy, {"namespace": SPACE, "name": "lost"}, state="absent")
    wait_until("the record to go", lambda: get_object(world.client, path) is None)


def test_another_holder_of_the_lease_is_waited_for_and_reported(world):
    lease = LeaseOptions(SPACE, "busy", 30.0)
    client = connect({"kubeconfig": world.kubeconfig})
    rival = DispatchLease(client, lease, "rival", renewal_client=client, renew_in_background=False)
    assert rival.acquire(5.0)
    wanted = {"namespace": SPACE, "name": "held", "definition": job("held", POOL, cpu="100m")}
    terms = GangOptions(state="present", gangs=(ask(wanted),), dispatch=True, lease=lease, wait_timeout=1.0)
    told = []
    result = run_gangs(lambda: connect({"kubeconfig": world.kubeconfig}), terms, told.append).as_result()
    assert result["holder"].startswith("rival_")
    assert (one(result)["phase"], one(result)["position"]) == ("queued", 1)
    assert any("held by rival_" in text for text in told)
    rival.release()
