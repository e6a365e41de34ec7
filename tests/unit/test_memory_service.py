# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the HTTP service does for whom, at its desk, with a cluster in memory and a dispatcher that works on."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import progress_name
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_service import MemoryService, Right
from ansible_collections.muster.kube.tests.support.memory_wire import Fault
from ansible_collections.muster.kube.tests.unit.test_memory_elastic import GPU, gpus, one_that_runs, running, submit
from ansible_collections.muster.kube.tests.unit.test_memory_progress import is_asked, now, stored

ALL = Right("boss")


@pytest.fixture(name="stage")
def one_gang() -> t.Iterator[MemoryStage]:
    """A gang of two to ten GPUs that runs with all of them."""
    with one_that_runs(1000) as made:
        yield made


@pytest.fixture(name="service")
def a_service(stage: MemoryStage) -> MemoryService:
    """A service, its trainer of the gang, somebody who may everything, and somebody who may nothing."""
    made = MemoryService(stage)
    made.trainer("trainer", "a", "one")
    made.user("boss", "boss", ALL)
    made.user("nobody", "nobody")
    return made


def report(stage: MemoryStage, epochs: float, **more: t.Any) -> dict[str, t.Any]:
    """What the notifier of the original sends."""
    return {"job_name": "one", "last_checkpoint_time": now(stage), "completed_epochs": epochs, **more}


def queue(stage: MemoryStage, name: str, namespace: str) -> None:
    """Queue a gang of two to four GPUs."""
    job = cases.job(f"{name}-j", "p", 1, **{"cpu": "1", GPU: "2"})
    elastic = {"range": {"min": 2, "max": 4}}
    stage.cluster.add("configmaps", cases.gang_record(name, namespace, [job], elastic=elastic))


def writes(service: MemoryService) -> int:
    """The writes that the service has sent."""
    return len(service.line.writes)


def test_a_checkpoint_is_stored_before_it_is_answered(stage: MemoryStage, service: MemoryService) -> None:
    answer = service.ask("PUT", "/update_last_checkpoint", "trainer", report(stage, 1.5, total_epochs=3))
    assert answer.status == 200, answer.body
    assert (answer.body["completed_epochs"], answer.body["total_epochs"], answer.body["save_now"]) == (1.5, 3, False)
    known = stored(stage, "one")["progress.json"]
    assert (known["seen"]["step"], known["total"], known["checkpoints"][-1][1]) == (1500, 3000, 1500)
    # Dispatchers keep it as it is.
    stage.run_for(200)
    assert service.ask("GET", "/get_job/one", "trainer").body["completed_epochs"] == 1.5


def test_duplicates_and_older_reports_change_nothing(stage: MemoryStage, service: MemoryService) -> None:
    first = report(stage, 2.0, total_epochs=3)
    stage.run_for(50)
    later = report(stage, 2.5, total_epochs=3)
    assert service.ask("PUT", "/update_last_checkpoint", "trainer", later).status == 200
    count, kept = writes(service), stored(stage, "one")
    for body in (later, first, later, first, {**later, "last_checkpoint_time": now(stage) + 1}):
        assert service.ask("PUT", "/update_last_checkpoint", "trainer", body).status == 200
    assert (writes(service), stored(stage, "one")) == (count, kept)


def test_the_time_of_a_trainer_does_not_count_ahead_of_the_servers(stage: MemoryStage, service: MemoryService) -> None:
    ahead = {**report(stage, 1.0), "last_checkpoint_time": now(stage) + 10_000}
    assert service.ask("PUT", "/update_last_checkpoint", "trainer", ahead).status == 200
    assert stored(stage, "one")["progress.json"]["checkpoints"][-1][0] <= now(stage) + 1


@pytest.mark.parametrize(
    ("token", "job", "status"),
    [
        (None, "one", 401),
        ("unknown", "one", 401),
        ("nobody", "one", 403),
        ("nobody", "a/one", 403),
        ("nobody", "a/none", 403),
        ("boss", "none", 404),
        ("boss", "a/none", 404),
        ("boss", "one", 200),
        ("trainer", "a/one", 200),
        # By the name of its object, which is all that a training knows.
        ("trainer", "one-j", 200),
        ("trainer", "b/one", 403),
        ("trainer", "a/two", 403),
    ],
)
def test_who_may_report(stage: MemoryStage, service: MemoryService, token: str | None, job: str, status: int) -> None:
    before = writes(service)
    body = {**report(stage, 1.0), "job_name": job}
    assert service.ask("PUT", "/update_last_checkpoint", token, body).status == status
    assert (writes(service) > before) == (status == 200)


def test_the_token_of_a_pod_is_good_for_its_gang_only(stage: MemoryStage, service: MemoryService) -> None:
    submit(stage, "two", 2)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    # Whatever was saved in the very second of the question may have been saved before it.
    stage.run_for(2)
    saved = report(stage, 1.0)
    assert service.ask("PUT", "/update_last_checkpoint", "trainer", saved).status == 200
    assert stage.run_until(lambda: running(stage, "one", "two"), 300)
    assert gpus(stage) == {"one": 8, "two": 2}
    # The pod of before is gone, and with it what its token was good for.
    service.stage.run_for(60)
    assert service.ask("PUT", "/update_last_checkpoint", "trainer", report(stage, 2.0)).status == 403
    service.trainer("next", "a", "one")
    assert service.ask("PUT", "/update_last_checkpoint", "next", report(stage, 2.0)).status == 200


def test_a_planned_resize_asks_in_the_answer(stage: MemoryStage, service: MemoryService) -> None:
    assert service.ask("PUT", "/update_last_checkpoint", "trainer", report(stage, 0.5)).body["save_now"] is False
    stage.run_for(100)
    submit(stage, "two", 2)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    old = {**report(stage, 0.6), "last_checkpoint_time": now(stage) - 500}
    assert service.ask("PUT", "/update_last_checkpoint", "trainer", old).body["save_now"] is True


def test_a_name_that_two_namespaces_have(stage: MemoryStage, service: MemoryService) -> None:
    queue(stage, "one", "b")
    before = writes(service)
    answer = service.ask("PUT", "/update_last_checkpoint", "boss", report(stage, 1.0))
    assert (answer.status, answer.body["namespaces"], writes(service)) == (409, ["a", "b"], before)
    assert service.ask("GET", "/get_job/one", "boss", namespace="b").body["namespace"] == "b"
    assert service.ask("GET", "/get_job/a%2Fone", "boss").body["namespace"] == "a"
    # Who may read neither learns nothing.
    assert service.ask("GET", "/get_job/one", "nobody").status == 403
    # The token of a pod means its own.
    assert service.ask("PUT", "/update_last_checkpoint", "trainer", report(stage, 1.0)).body["namespace"] == "a"
    # Where only one is served there is no doubt.
    narrow = MemoryService(stage, ("b",))
    narrow.user("boss", "boss", ALL)
    assert narrow.ask("GET", "/get_job/one", "boss").body["namespace"] == "b"
    assert narrow.ask("GET", "/get_job/a%2Fone", "boss").status == 404


def test_the_fields_of_a_job(service: MemoryService) -> None:
    told = service.ask("GET", "/get_job/one", "boss").body
    assert {key: told[key] for key in ("gpu_req", "gpu_lim", "gpu_assigned", "replicas", "status", "restarts")} == {
        "gpu_req": 2,
        "gpu_lim": 10,
        "gpu_assigned": 10,
        "replicas": 1,
        "status": "scheduled",
        "restarts": 0,
    }
    assert told["last_checkpoint_time"] == told["job_arrival_time"]
    assert (told["time_bw_checkpoints"], told["total_epochs"], told["completed_epochs"]) == (None, 0, 0)


def test_lists_are_in_order_and_hold_what_somebody_may_read(stage: MemoryStage, service: MemoryService) -> None:
    stage.cluster.remove("configmaps", "a", "one")
    stage.run_for(60)
    for name, namespace in (("x", "a"), ("y", "b"), ("z", "a")):
        queue(stage, name, namespace)
        stage.run_for(5)
    assert stage.run_until(lambda: running(stage, "x", "z"))
    stage.run_for(30)

    def names(address: str, token: str = "boss") -> list[str]:
        answer = service.ask("GET", address, token)
        assert answer.status == 200, answer.body
        return [job["job_name"] for job in answer.body]

    assert names("/get_all_jobs") == ["x", "z", "y"]
    assert names("/get_jobs_by_arrival") == ["x", "y", "z"]
    sizes = {job["job_name"]: job["gpu_assigned"] for job in service.ask("GET", "/get_all_jobs", "boss").body}
    assert sorted(sizes.values()) == [2, 4, 4] or sorted(sizes.values()) == [3, 3, 4]
    short = [name for name in ("z", "y", "x") if sizes[name] < 4]
    assert sorted(names("/get_jobs_by_checkpoint_limit")) == sorted(short)
    body = {**report(stage, 1.0), "job_name": "x"}
    assert service.ask("PUT", "/update_last_checkpoint", "boss", body).status == 200
    giving = names("/get_scale_down_jobs_by_checkpoint/1")
    assert giving == sorted(giving, key=lambda name: name != "x" and sizes[name] > 2)
    assert names("/get_jobs_by_difference/0") == [name for name in giving if sizes[name] == 4]
    service.user("reader", "reader", Right("reader", "list", "configmaps", "b"))
    assert names("/get_all_jobs", "reader") == ["y"]
    assert service.ask("GET", "/get_all_jobs", "nobody").status == 403


def test_what_somebody_tells_of_a_job_has_to_be_so(stage: MemoryStage, service: MemoryService) -> None:
    body = {"job_name": "one", "gpu_req": 2, "gpu_lim": 10, "gpu_assigned": 10}
    assert service.ask("POST", "/add_job", "boss", body).status == 200
    assert service.ask("POST", "/add_job", "boss", {**body, "total_epochs": 4}).status == 201
    assert service.ask("POST", "/add_job", "boss", {**body, "total_epochs": 4}).status == 200
    assert service.ask("GET", "/get_job/one", "boss").body["total_epochs"] == 4
    assert service.ask("POST", "/add_job", "boss", {**body, "gpu_lim": 4}).status == 409
    assert service.ask("POST", "/add_job", "boss", {key: body[key] for key in ("job_name", "gpu_req")}).status == 400
    assert service.ask("PUT", "/update_job", "boss", {"job_name": "one", "gpu_assigned": 4}).status == 409
    assert service.ask("PUT", "/update_job", "boss", {"job_name": "one", "gpu_assigned": 10}).status == 200
    assert service.ask("PUT", "/update_job", "boss", {"job_name": "one", "color": "red"}).status == 400
    assert service.ask("PUT", "/increment_restarts", "boss", {"job_name": "one"}).body["restarts"] == 0


def test_the_end_is_told(stage: MemoryStage, service: MemoryService) -> None:
    done = {"job_name": "one", "status": "completed"}
    assert service.ask("PUT", "/update_job_status", "trainer", done).status == 409
    assert service.ask("PUT", "/update_last_checkpoint", "trainer", report(stage, 3.0)).status == 200
    assert service.ask("PUT", "/update_job_status", "trainer", done).body["status"] == "completed"
    count = writes(service)
    assert service.ask("PUT", "/update_job_status", "trainer", done).status == 200
    assert writes(service) == count
    assert service.ask("PUT", "/update_job_status", "trainer", {**done, "status": "asleep"}).status == 400


def test_steps_and_epochs_cannot_be_mixed_unless_both_totals_are_known(
    stage: MemoryStage, service: MemoryService
) -> None:
    text = json.dumps({"format": 1, "time": now(stage), "step": 50, "total": 200})
    name = progress_name("one")
    path = f"/api/v1/namespaces/a/configmaps/{name}"
    assert service.ask("PATCH", path, "trainer", {"data": {"report.json": text}}).status == 200
    stage.run_for(100)
    body = report(stage, 2.0)
    assert service.ask("PUT", "/update_last_checkpoint", "trainer", body).status == 409
    answer = service.ask("PUT", "/update_last_checkpoint", "trainer", {**body, "total_epochs": 4})
    assert (answer.status, answer.body["progress"]["step"], answer.body["completed_epochs"]) == (200, 100, 2.0)


def test_the_file_for_trainings_may_report_here(stage: MemoryStage, service: MemoryService) -> None:
    path = f"/api/v1/namespaces/a/configmaps/{progress_name('one')}"
    assert set(service.ask("GET", path, "trainer").body["data"]) <= {"report.json", "asked.json"}

    def told(step: int, ahead: float = 0.0) -> dict[str, t.Any]:
        return {"data": {"report.json": json.dumps({"format": 1, "time": now(stage) + ahead, "step": step})}}

    first = told(5)
    assert service.ask("PATCH", path, "trainer", told(7, 1)).status == 200
    count = writes(service)
    assert json.loads(service.ask("PATCH", path, "trainer", first).body["data"]["report.json"])["step"] == 7
    assert writes(service) == count
    assert service.ask("PATCH", path, "boss", told(9)).status == 403
    assert service.ask("PATCH", path, "trainer", {"data": {"progress.json": "{}"}}).status == 400
    assert service.ask("PATCH", path, "trainer", {"data": {"report.json": "{"}}).status == 400
    other = f"/api/v1/namespaces/a/configmaps/{progress_name('two')}"
    assert service.ask("GET", other, "trainer").status == 403
    assert service.ask("GET", "/api/v1/namespaces/a/configmaps/one", "trainer").status == 403


def test_a_job_is_queued_and_removed_with_the_rights_of_the_caller(stage: MemoryStage, service: MemoryService) -> None:
    body = {
        "definition": cases.job("three", "p", 1, **{"cpu": "1", GPU: "2"}),
        "namespace": "a",
        "range": {"min": 2, "max": 4},
    }
    before = len(stage.cluster.history)
    stage.cluster.denials.append(Denial("nobody", None, None, None))
    assert service.ask("POST", "/jobs", "nobody", body).status == 403
    assert service.ask("POST", "/jobs", None, body).status == 401
    for wrong in (
        {**body, "range": {"min": 4, "max": 2}},
        {**body, "src": "/etc/passwd"},
        {**body, "definition": 7},
        b"{",
    ):
        assert service.ask("POST", "/jobs", "boss", wrong).status == 400
    assert len(stage.cluster.history) == before
    made = service.ask("POST", "/jobs", "boss", body)
    assert (made.status, made.body["name"], made.body["range"]["sizes"]) == (201, "three", [2, 3, 4])
    assert service.ask("POST", "/jobs", "boss", body).status == 200
    record = stage.cluster.get("configmaps", "a", "three")
    assert record is not None
    assert service.ask("DELETE", "/jobs", "nobody", name="three").status == 403
    assert service.ask("DELETE", "/jobs", "boss").status == 400
    assert service.ask("DELETE", "/jobs", "boss", name=["three"]).body["jobs"][0]["action"] == "deleted"
    assert stage.cluster.get("configmaps", "a", "three") is None
    assert service.ask("DELETE", "/jobs", "boss", name="a/three").body["jobs"][0]["action"] == "unchanged"
    assert service.ask("DELETE", "/delete_job", "boss", {"job_name": "three"}).status == 404


@pytest.mark.parametrize("trouble", ["cut", "lose"])
def test_an_answer_that_was_lost_is_no_success_and_nothing_is_lost(
    stage: MemoryStage, service: MemoryService, trouble: t.Any
) -> None:
    service.line.faults.append(Fault(trouble, "PUT", "muster-progress"))
    body = report(stage, 1.0)
    answer = service.ask("PUT", "/update_last_checkpoint", "trainer", body)
    assert answer.status in (200, 503, 504)
    if answer.status == 200:
        assert stored(stage, "one")["progress.json"]["seen"]["step"] == 1000
    service.line.faults.clear()
    assert service.ask("PUT", "/update_last_checkpoint", "trainer", body).status == 200
    assert stored(stage, "one")["progress.json"]["seen"]["step"] == 1000


def test_what_the_server_said_is_believed_for_a_moment_only(stage: MemoryStage, service: MemoryService) -> None:
    for _turn in range(20):
        assert service.ask("PUT", "/update_last_checkpoint", "boss", report(stage, 1.0)).status == 200
    assert service.line.reviews == ["tokenreviews", "subjectaccessreviews"]
    del service.line.users["boss"]
    stage.run_for(11)
    assert service.ask("PUT", "/update_last_checkpoint", "boss", report(stage, 1.0)).status == 401


def test_free_gpus_and_quota(stage: MemoryStage, service: MemoryService) -> None:
    assert service.ask("GET", "/freegpu", "nobody").status == 403
    assert service.ask("GET", "/freegpu", "boss").body == {}
    stage.cluster.remove("configmaps", "a", "one")
    stage.run_for(60)
    assert list(service.ask("GET", "/freegpu", "boss").body.values()) == [10]
    assert service.ask("GET", "/resourcequota/a", "boss").body == {"limit": None, "used": None}
    quota = {
        "metadata": {"name": "gpus", "namespace": "a"},
        "spec": {"hard": {f"requests.{GPU}": "8"}},
        "status": {"hard": {f"requests.{GPU}": "8"}, "used": {f"requests.{GPU}": "3"}},
    }
    stage.cluster.add("resourcequotas", quota)
    stage.cluster.change("resourcequotas", "a", "gpus", lambda raw: raw.update(status=quota["status"]))
    assert service.ask("GET", "/resourcequota/a", "boss").body == {"limit": 8, "used": 3}
    assert service.ask("GET", "/resourcequota/Not.A.Namespace", "boss").status == 400


def test_a_wish_for_another_size(stage: MemoryStage, service: MemoryService) -> None:
    answer = service.ask("POST", "/scale/one", "boss")
    assert (answer.status, answer.body["reason"]) == (409, "at_max")
    assert service.ask("POST", "/scale/one", "trainer").status == 403
    assert service.ask("POST", "/scale/one", "nobody").status == 403
    stage.cluster.remove("configmaps", "a", "one")
    stage.run_for(30)
    submit(stage, "big", 6)
    submit(stage, "small", 2, (2, 10))
    assert stage.run_until(lambda: running(stage, "big", "small"))
    stage.run_for(1000)
    before = writes(service)
    assert service.ask("POST", "/scale/small", "boss").status == 409
    assert writes(service) == before
    service.trainer("small", "a", "small")
    stage.cluster.remove("configmaps", "a", "big")
    assert stage.run_until(lambda: is_asked(stage, "small"))
    stage.run_for(100)
    answer = service.ask("POST", "/scale/small", "boss")
    assert (answer.status, answer.body["step"], answer.body["to"]) == (202, "planned", 8), answer.body
    address, _mark, query = answer.headers["Location"].partition("?")
    assert query == "namespace=a"
    # Asked again it is the same wish.
    count = writes(service)
    assert service.ask("POST", "/scale/small", "boss").headers == answer.headers
    assert writes(service) == count
    assert service.ask("GET", address, "boss", namespace="a").body["done"] is False
    assert service.ask("GET", address, "nobody", namespace="a").status == 403
    assert service.ask("GET", "/scale/small/other", "boss").status == 404
    saved = {**report(stage, 1.0), "job_name": "small"}
    assert service.ask("PUT", "/update_last_checkpoint", "small", saved).status == 200
    assert stage.run_until(lambda: gpus(stage) == {"small": 8} and running(stage, "small"), 300)
    over = service.ask("GET", address, "boss").body
    assert (over["step"], over["done"], over["from"], over["to"]) == ("verified", True, 4, 8)


def test_a_wish_that_nobody_has_begun_yet(stage: MemoryStage, service: MemoryService) -> None:
    submit(stage, "big", 6)
    stage.cluster.remove("configmaps", "a", "one")
    submit(stage, "small", 2, (2, 10), timing="on_sigterm", cooldown=1, restart_cost=1)
    assert stage.run_until(lambda: running(stage, "big", "small"))
    stage.run_for(1000)
    stage.kill("d")
    stage.cluster.remove("configmaps", "a", "big")
    stage.run_for(60)
    answer = service.ask("POST", "/scale/small", "boss")
    assert (answer.status, answer.body["step"]) == (202, "asked"), answer.body
    address = answer.headers["Location"].partition("?")[0]
    stage.start("e")
    assert stage.run_until(lambda: service.ask("GET", address, "boss").body["done"], 600)
    assert service.ask("GET", address, "boss").body["step"] == "verified"
    assert gpus(stage) == {"small": 8}


def test_a_pod_of_a_namespace_that_is_not_served_is_like_anybody(stage: MemoryStage) -> None:
    narrow = MemoryService(stage, ("b",))
    narrow.trainer("trainer", "a", "one")
    assert (
        narrow.ask("PUT", "/update_last_checkpoint", "trainer", {**report(stage, 1.0), "job_name": "a/one"}).status
        == 404
    )
    path = f"/api/v1/namespaces/a/configmaps/{progress_name('one')}"
    assert narrow.ask("GET", path, "trainer").status == 403


def test_a_label_alone_makes_no_trainer(stage: MemoryStage, service: MemoryService) -> None:
    record = stage.cluster.get("configmaps", "a", "one")
    assert record is not None
    extra = {"authentication.kubernetes.io/pod-name": ["stray"], "authentication.kubernetes.io/pod-uid": ["?"]}
    for number, (namespace, uid, known) in enumerate(
        [("a", "none", None), ("b", record["metadata"]["uid"], None), ("a", record["metadata"]["uid"], "other")]
    ):
        made = cases.pod(f"stray-{number}", namespace, None, cpu="1")
        made["metadata"]["labels"] = {"muster.kube/gang": uid}
        pod = stage.cluster.add("pods", made)["metadata"]
        names = {
            "authentication.kubernetes.io/pod-name": [pod["name"]],
            "authentication.kubernetes.io/pod-uid": [known or pod["uid"]],
        }
        token = service.user(f"t{number}", f"system:serviceaccount:{namespace}:default", extra={**extra, **names})
        body = {**report(stage, 1.0), "job_name": "a/one"}
        assert service.ask("PUT", "/update_last_checkpoint", token, body).status == 403, number
