# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster in memory answers as a cluster does."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import BEGINNING, Denial, MemoryCluster, Object
from ansible_collections.muster.kube.tests.support.memory_controllers import Controllers, Pace
from ansible_collections.muster.kube.tests.support.memory_selectors import label_selector
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Killed, Line

MAPS = "/api/v1/namespaces/a/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/a/leases"
JOBS = "/apis/batch/v1/namespaces/a/jobs"


@pytest.fixture
def cluster() -> MemoryCluster:
    """Namespace a and nothing else."""
    made = MemoryCluster()
    made.add("namespaces", {"metadata": {"name": "a"}})
    return made


def ask(cluster: MemoryCluster, method: str, path: str, body: t.Any = None, user: str = "admin") -> tuple[int, Object]:
    """One request."""
    status, text = cluster.answer(method, path, body, user)
    return status, json.loads(text) if text.startswith("{") else {"text": text}


def config_map(name: str, **metadata: t.Any) -> Object:
    """An object to play with."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"k": "v"}}


def owned(name: str, *owners: Object) -> Object:
    """An object with owners."""
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
        for obj in owners
    ]
    return config_map(name, namespace="a", ownerReferences=references)


# Requests.


def test_create_read_replace_delete(cluster: MemoryCluster) -> None:
    status, made = ask(cluster, "POST", MAPS, config_map("x"))
    assert status == 201
    assert made["metadata"]["namespace"] == "a"
    assert made["metadata"]["creationTimestamp"] == "2026-11-16T04:00:00Z"
    assert ask(cluster, "GET", f"{MAPS}/x") == (200, made)
    status, changed = ask(cluster, "PUT", f"{MAPS}/x", {**made, "data": {"k": "w"}})
    assert status == 200
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert ask(cluster, "DELETE", f"{MAPS}/x")[1]["status"] == "Success"
    status, answer = ask(cluster, "GET", f"{MAPS}/x")
    assert (status, answer["reason"]) == (404, "NotFound")
    assert answer["details"] == {"name": "x", "kind": "configmaps"}


def test_names_are_taken_once(cluster: MemoryCluster) -> None:
    ask(cluster, "POST", MAPS, config_map("x"))
    status, answer = ask(cluster, "POST", MAPS, config_map("x"))
    assert (status, answer["reason"], answer["message"]) == (409, "AlreadyExists", 'configmaps "x" already exists')


def test_dry_run_changes_nothing_and_meets_the_same_refusals(cluster: MemoryCluster) -> None:
    assert ask(cluster, "POST", f"{MAPS}?dryRun=All", config_map("x"))[0] == 201
    assert ask(cluster, "GET", f"{MAPS}/x")[0] == 404
    ask(cluster, "POST", MAPS, config_map("x"))
    assert ask(cluster, "POST", f"{MAPS}?dryRun=All", config_map("x"))[0] == 409
    assert ask(cluster, "DELETE", f"{MAPS}/x?dryRun=All")[0] == 200
    assert ask(cluster, "GET", f"{MAPS}/x")[0] == 200


def test_put_needs_the_version_and_uid_that_were_read(cluster: MemoryCluster) -> None:
    _status, made = ask(cluster, "POST", MAPS, config_map("x"))
    ask(cluster, "PUT", f"{MAPS}/x", {**made, "data": {"k": "w"}})
    status, answer = ask(cluster, "PUT", f"{MAPS}/x", {**made, "data": {"k": "z"}})
    assert (status, answer["reason"]) == (409, "Conflict")
    other = {**config_map("x"), "metadata": {"name": "x", "uid": "another"}}
    assert ask(cluster, "PUT", f"{MAPS}/x", other)[0] == 409
    ask(cluster, "DELETE", f"{MAPS}/x")
    assert ask(cluster, "PUT", f"{MAPS}/x", made)[0] == 404
    assert ask(cluster, "PUT", f"{MAPS}/x", config_map("x"))[0] == 404


def test_put_of_the_same_is_no_change(cluster: MemoryCluster) -> None:
    _status, made = ask(cluster, "POST", MAPS, config_map("x"))
    assert ask(cluster, "PUT", f"{MAPS}/x", made) == (200, made)


def test_leases_are_not_replaced_without_a_version(cluster: MemoryCluster) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    assert ask(cluster, "PUT", f"{LEASES}/l", lease)[0] == 201
    assert ask(cluster, "PUT", f"{LEASES}/l", {**lease, "metadata": {"name": "l"}})[1]["reason"] == "Invalid"


def test_immutable_data_stays(cluster: MemoryCluster) -> None:
    _status, made = ask(cluster, "POST", MAPS, {**config_map("x"), "immutable": True})
    assert ask(cluster, "PUT", f"{MAPS}/x", {**made, "data": {}})[0] == 422
    labeled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    assert ask(cluster, "PUT", f"{MAPS}/x", labeled)[0] == 200


def test_merge_patch(cluster: MemoryCluster) -> None:
    ask(cluster, "POST", MAPS, config_map("x", labels={"a": "1", "b": "2"}))
    _status, patched = ask(cluster, "PATCH", f"{MAPS}/x", {"metadata": {"labels": {"a": None, "c": "3"}}})
    assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}


def test_delete_only_the_very_object(cluster: MemoryCluster) -> None:
    ask(cluster, "POST", MAPS, config_map("x"))
    status, answer = ask(cluster, "DELETE", f"{MAPS}/x", {"preconditions": {"uid": "another"}})
    assert (status, answer["reason"]) == (409, "Conflict")
    assert ask(cluster, "GET", f"{MAPS}/x")[0] == 200


def test_finalizers_keep_an_object_until_they_are_gone(cluster: MemoryCluster) -> None:
    ask(cluster, "POST", MAPS, config_map("x", finalizers=["a/b"]))
    _status, going = ask(cluster, "DELETE", f"{MAPS}/x")
    assert going["metadata"]["deletionTimestamp"]
    assert ask(cluster, "DELETE", f"{MAPS}/x")[0] == 200
    going["metadata"]["finalizers"] = []
    assert ask(cluster, "PUT", f"{MAPS}/x", going)[0] == 200
    assert ask(cluster, "GET", f"{MAPS}/x")[0] == 404


def test_status_is_written_apart(cluster: MemoryCluster) -> None:
    _status, made = ask(cluster, "POST", JOBS, cases.job("j", None))
    _status, same = ask(cluster, "PUT", f"{JOBS}/j", {**made, "status": {"active": 1}})
    assert same["status"] == {}
    _status, changed = ask(cluster, "PUT", f"{JOBS}/j/status", {**made, "status": {"active": 1}})
    assert changed["status"] == {"active": 1}


def test_lists_come_in_pages_of_one_moment(cluster: MemoryCluster) -> None:
    for number in range(5):
        ask(cluster, "POST", MAPS, config_map(f"x{number}"))
    _status, page = ask(cluster, "GET", f"{MAPS}?limit=3")
    ask(cluster, "DELETE", f"{MAPS}/x4")
    _status, rest = ask(cluster, "GET", f"{MAPS}?limit=3&continue={page['metadata']['continue']}")
    names = [item["metadata"]["name"] for item in page["items"] + rest["items"]]
    assert names == ["x0", "x1", "x2", "x3", "x4"]
    assert rest["metadata"] == {"resourceVersion": page["metadata"]["resourceVersion"]}
    assert ask(cluster, "GET", f"{MAPS}?continue=1/9")[0] == 410


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("a", True),
        ("!a", False),
        ("!c", True),
        ("a=1", True),
        ("a==1", True),
        ("a=2", False),
        ("a!=2", True),
        ("c!=2", True),
        ("a in (1, 2)", True),
        ("a notin (1,2)", False),
        ("c notin (1,2)", True),
        ("c in (1)", False),
        ("a=1,b!=3,c notin (x,y),!d", True),
        ("a in (1,2),b=9", False),
        ("muster.kube/x=y", True),
    ],
)
def test_label_selectors(selector: str, matches: bool) -> None:
    assert label_selector(selector)({"a": "1", "b": "2", "muster.kube/x": "y"}) is matches


def test_field_selectors(cluster: MemoryCluster) -> None:
    for name in ("x", "y"):
        ask(cluster, "POST", MAPS, config_map(name))
    _status, found = ask(cluster, "GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Dx")
    assert [item["metadata"]["name"] for item in found["items"]] == ["x"]
    assert ask(cluster, "GET", f"{MAPS}?fieldSelector=data.k%3Dx")[0] == 400


def test_what_is_not_served_is_not_found(cluster: MemoryCluster) -> None:
    for path in ("/apis/nobody/v1", "/apis/batch/v1/namespaces/a/cronjobs", "/apis/workload.codeflare.dev", "/else"):
        assert ask(cluster, "GET", path)[0] == 404
    cluster.serve_wrappers()
    assert ask(cluster, "GET", "/apis/workload.codeflare.dev")[1]["versions"][0]["version"] == "v1beta1"


def test_rights(cluster: MemoryCluster) -> None:
    cluster.denials.append(Denial("eve", ["list"], ["pods"], [""]))
    eve = Line(cluster).client("eve")
    with pytest.raises(Forbidden) as caught:
        list_objects(eve, "/api/v1/pods", keep=lambda pod: pod)
    assert (caught.value.user, caught.value.verb, caught.value.resource) == ("eve", "list", "pods")
    assert list_objects(eve, "/api/v1/namespaces/a/pods", keep=lambda pod: pod).items == []
    assert list_objects(eve.acting_as("bob"), "/api/v1/pods", keep=lambda pod: pod).items == []


def test_real_client_discovers_and_hears_the_time(cluster: MemoryCluster) -> None:
    cluster.clock.advance(90)
    client = Line(cluster).client()
    info = find_resource(client, "batch/v1", "Job")
    assert info is not None
    assert info.path("a", "j") == f"{JOBS}/j"
    assert client.server_time is not None
    assert (client.server_time - BEGINNING).total_seconds() == 90


# What goes wrong on the way.


def test_cut_answers_and_lost_requests(cluster: MemoryCluster) -> None:
    line = Line(cluster)
    client = line.client()
    line.faults += [Fault("cut", "POST"), Fault("lose", "POST")]
    with pytest.raises(Unreachable):
        create(client, MAPS, config_map("x"))
    with pytest.raises(Unreachable):
        create(client, MAPS, config_map("y"))
    assert get_object(client, f"{MAPS}/x") is not None
    assert get_object(client, f"{MAPS}/y") is None


def test_late_request_arrives_although_nobody_waits(cluster: MemoryCluster) -> None:
    line = Line(cluster)
    line.faults.append(Fault("delay", "POST", seconds=20))
    with pytest.raises(Unreachable):
        line.client().request("POST", MAPS, body=config_map("x"), timeout=5)
    assert cluster.clock.now == 5
    assert cluster.get("configmaps", "a", "x") is None
    cluster.clock.advance(15)
    assert cluster.get("configmaps", "a", "x") is not None


def test_slow_request_is_answered_in_the_end(cluster: MemoryCluster) -> None:
    line = Line(cluster)
    line.faults.append(Fault("delay", "POST", seconds=3))
    create(line.client(), MAPS, config_map("x"))
    assert cluster.clock.now == 3


def test_killed_before_and_after(cluster: MemoryCluster) -> None:
    line = Line(cluster)
    line.faults += [Fault("kill_before", "POST"), Fault("kill_after", "POST")]
    for name in ("x", "y"):
        with pytest.raises(Killed):
            create(line.client(), MAPS, config_map(name))
    assert [obj["metadata"]["name"] for obj in cluster.all("configmaps")] == ["y"]


# Controllers.


def test_collector_takes_what_has_no_owner(cluster: MemoryCluster) -> None:
    Controllers(cluster)
    owner = cluster.add("configmaps", config_map("owner", namespace="a"))
    other = cluster.add("configmaps", config_map("other", namespace="a"))
    cluster.add("configmaps", owned("child", owner))
    cluster.add("configmaps", owned("shared", owner, other))
    cluster.clock.advance(10)
    cluster.remove("configmaps", "a", "owner")
    cluster.add("configmaps", owned("late", owner))
    assert cluster.get("configmaps", "a", "child") is not None
    cluster.clock.advance(1)
    assert [obj["metadata"]["name"] for obj in cluster.all("configmaps")] == ["other", "shared"]
    cluster.remove("configmaps", "a", "other", "Orphan")
    cluster.clock.advance(1)
    assert [obj["metadata"]["name"] for obj in cluster.all("configmaps")] == ["shared"]


def test_job_runs_to_its_end(cluster: MemoryCluster) -> None:
    Controllers(cluster)
    cluster.add("nodes", cases.kwok_node("n", "p"))
    job = cases.job("j", "p", 3, seconds=5)
    job["metadata"]["namespace"] = "a"
    cluster.add("jobs", job)
    cluster.clock.advance(1)
    assert [pod["status"]["phase"] for pod in cluster.all("pods")] == ["Running"] * 3
    cluster.clock.advance(6)
    found = cluster.get("jobs", "a", "j")
    assert found is not None
    assert found["status"]["succeeded"] == 3
    assert [entry["type"] for entry in found["status"]["conditions"]] == ["Complete"]


def test_job_fails_when_a_pod_does_or_is_taken_away(cluster: MemoryCluster) -> None:
    controllers = Controllers(cluster)
    cluster.add("nodes", cases.kwok_node("n", "p"))
    for name in ("j", "k"):
        job = cases.job(name, "p", 2)
        job["metadata"]["namespace"] = "a"
        cluster.add("jobs", job)
    cluster.clock.advance(1)
    controllers.finish("a", next(pod["metadata"]["name"] for pod in cluster.all("pods")), 3)
    cluster.clock.advance(1)
    job_found = cluster.get("jobs", "a", "j")
    assert job_found is not None
    assert job_found["status"]["conditions"][0]["type"] == "Failed"
    cluster.remove("nodes", "", "n")
    cluster.clock.advance(1)
    job_found = cluster.get("jobs", "a", "k")
    assert job_found is not None
    assert job_found["status"]["conditions"][0]["type"] == "Failed"


def test_pods_come_at_a_pace_and_wait_for_room(cluster: MemoryCluster) -> None:
    Controllers(cluster, pace=Pace(pod=1.0))
    cluster.add("nodes", cases.kwok_node("n", "p", cpu="2"))
    job = cases.job("j", "p", 3)
    job["metadata"]["namespace"] = "a"
    cluster.add("jobs", job)
    cluster.clock.advance(2.5)
    assert len(cluster.all("pods")) == 2
    cluster.clock.advance(2)
    waiting = [pod for pod in cluster.all("pods") if not pod["spec"].get("nodeName")]
    assert [pod["status"]["conditions"][0]["reason"] for pod in waiting] == ["Unschedulable"]
    cluster.add("nodes", cases.kwok_node("m", "p"))
    cluster.clock.advance(1)
    assert all(pod["spec"].get("nodeName") for pod in cluster.all("pods"))


def test_namespace_takes_everything_with_it(cluster: MemoryCluster) -> None:
    Controllers(cluster)
    cluster.add("configmaps", config_map("x", namespace="a"))
    cluster.remove("namespaces", "", "a")
    status, answer = ask(cluster, "POST", MAPS, config_map("y"))
    assert status == 403
    assert answer["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    cluster.clock.advance(2)
    assert cluster.all("configmaps") == []
    assert cluster.get("namespaces", "", "a") is None
    status, answer = ask(cluster, "POST", MAPS, config_map("y"))
    assert status == 404
    assert answer["details"]["kind"] == "namespaces"


def test_ttl_after_finishing(cluster: MemoryCluster) -> None:
    Controllers(cluster)
    cluster.add("nodes", cases.kwok_node("n", "p"))
    job = cases.job("j", "p", 1, seconds=1)
    job["metadata"]["namespace"], job["spec"]["ttlSecondsAfterFinished"] = "a", 3
    cluster.add("jobs", job)
    cluster.clock.advance(3)
    assert cluster.get("jobs", "a", "j") is not None
    cluster.clock.advance(5)
    assert cluster.get("jobs", "a", "j") is None
    assert cluster.all("pods") == []


def add_job(cluster: MemoryCluster, name: str, pods: int, **settings: t.Any) -> Object:
    """A Job in the namespace a."""
    job = cases.job(name, "p", pods, **settings)
    job["metadata"]["namespace"] = "a"
    return cluster.add("jobs", job)


def test_jobs_have_their_turns_one_pod_after_the_other(cluster: MemoryCluster) -> None:
    Controllers(cluster, pace=Pace(pod=1.0))
    cluster.add("nodes", cases.kwok_node("n", "p", cpu="40"))
    add_job(cluster, "j", 10)
    cluster.clock.advance(0.5)
    add_job(cluster, "k", 10)
    cluster.clock.advance(20.5)
    assert len(cluster.all("pods")) == 20


def test_job_waits_longer_after_each_failure(cluster: MemoryCluster) -> None:
    Controllers(cluster)
    cluster.add("nodes", cases.kwok_node("n", "p"))
    # Without a time to run a pod ends at once.
    add_job(cluster, "j", 1, exit_code=1, backoff_limit=6)
    made = []
    for _second in range(40):
        cluster.clock.advance(1)
        made.append(len(cluster.all("pods")))
    assert [made.count(number) for number in (1, 2)] == [10, 20]


def test_job_of_another_controller_has_no_pods(cluster: MemoryCluster) -> None:
    Controllers(cluster)
    cluster.add("nodes", cases.kwok_node("n", "p"))
    job = cases.job("j", "p", 1)
    job["metadata"]["namespace"], job["spec"]["managedBy"] = "a", "example.com/nobody"
    cluster.add("jobs", job)
    cluster.clock.advance(5)
    assert cluster.all("pods") == []
