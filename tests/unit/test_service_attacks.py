# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What callers of the HTTP service try that they may not, at its desk before a cluster in memory."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import progress_name
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_service import MemoryService, Right
from ansible_collections.muster.kube.tests.support.reclaim_cases import two_namespaces
from ansible_collections.muster.kube.tests.unit.test_memory_elastic import GPU, one_that_runs, running, submit
from ansible_collections.muster.kube.tests.unit.test_memory_progress import is_asked, now, stored
from ansible_collections.muster.kube.tests.unit.test_memory_service import queue, writes


@pytest.fixture(name="stage")
def one_gang() -> t.Iterator[MemoryStage]:
    """A gang of two to ten GPUs that runs."""
    with one_that_runs(100) as made:
        yield made


@pytest.fixture(name="service")
def a_service(stage: MemoryStage) -> MemoryService:
    """A service, the gang's trainer, somebody who may everything, and somebody of the other namespace."""
    made = MemoryService(stage)
    made.trainer("trainer", "a", "one")
    made.user("boss", "boss", Right("boss"))
    made.user("stranger", "stranger", Right("stranger", None, None, "b"))
    return made


@pytest.mark.parametrize(
    ("method", "address"), [("GET", "/get_job/{}"), ("POST", "/scale/{}"), ("DELETE", "/jobs?name={}")]
)
def test_a_name_alone_tells_nobody_what_other_namespaces_have(
    service: MemoryService, method: str, address: str
) -> None:
    def ask(token: str, name: str) -> tuple[int, str]:
        path, _mark, query = address.format(name).partition("?")
        answer = service.ask(method, path, token, **({"name": name} if query else {}))
        return answer.status, json.dumps(answer.body).replace(name, "NAME")

    there, nowhere = ask("stranger", "one"), ask("stranger", "two")
    assert there == nowhere
    assert there[0] == 403
    assert "namespace a" not in there[1]
    # Who may see all of them is told that there is none.
    assert ask("boss", "two")[0] == 404


def test_a_trainer_of_an_earlier_gang_of_that_name_is_nobody(stage: MemoryStage, service: MemoryService) -> None:
    assert service.ask("GET", "/get_job/one", "trainer").status == 200
    # A moment later the token is still known.
    stage.cluster.remove("configmaps", "a", "one")
    queue(stage, "one", "a")
    before = writes(service)
    path = f"/api/v1/namespaces/a/configmaps/{progress_name('one')}"
    report = {"data": {"report.json": json.dumps({"format": 1, "time": now(stage), "step": 1})}}
    for method, address, body in (
        ("GET", "/get_job/one", None),
        ("PUT", "/update_job", {"job_name": "one", "total_epochs": 3}),
        ("POST", "/scale/one", None),
        ("GET", path, None),
        ("PATCH", path, report),
    ):
        answer = service.ask(method, address, "trainer", body)
        assert answer.status == 403, (address, answer.body)
    assert service.ask("GET", "/get_all_jobs", "trainer").body == []
    assert writes(service) == before


def test_a_report_from_the_future_does_not_silence_those_that_follow(
    stage: MemoryStage, service: MemoryService
) -> None:
    stage.kill("d")
    path = f"/api/v1/namespaces/a/configmaps/{progress_name('one')}"
    assert service.ask("PUT", "/update_job", "trainer", {"job_name": "one", "total_epochs": 3}).status == 200

    def tell(time: float, step: int) -> t.Any:
        text = json.dumps({"format": 1, "time": time, "step": step})
        assert service.ask("PATCH", path, "trainer", {"data": {"report.json": text}}).status == 200
        return stored(stage, "one")["report.json"]["step"]

    assert tell(now(stage) + 1e9, 100) == 100
    stage.run_for(60)
    # It went on from a checkpoint, by a clock that is right.
    assert tell(now(stage), 50) == 50
    assert tell(now(stage) - 50, 40) == 50


@pytest.mark.parametrize(
    ("method", "address", "read"),
    [
        ("GET", "/get_all_jobs", "/api/v1/configmaps"),
        ("GET", "/freegpu", "/api/v1/nodes"),
        ("POST", "/scale/one", "/api/v1/nodes"),
    ],
)
def test_few_at_a_time_read_the_whole_cluster(service: MemoryService, method: str, address: str, read: str) -> None:
    answers: list[int] = []
    left = 3

    def meanwhile(_method: str, path: str) -> None:
        """While one is answered the next one asks."""
        nonlocal left
        if path == read and left:
            left -= 1
            answers.append(service.ask(method, address, "boss").status)

    service.line.before = meanwhile
    answers.append(service.ask(method, address, "boss").status)
    assert answers[0] == 503
    assert set(answers[1:]) <= {200, 409}
    assert len(answers) == 4
    # Then there is room again.
    assert service.ask(method, address, "boss").status == answers[-1]


@pytest.mark.parametrize("wish_id", ["a\r\nSet-Cookie: x", "../../get_job/one", "a?b", "é", "a" * 500])
def test_a_forged_wish_is_none(stage: MemoryStage, service: MemoryService, wish_id: str) -> None:
    text = json.dumps({"format": 1, "id": wish_id, "at": "2026-01-01T00:00:00Z"})
    submit(stage, "two", 2)
    assert stage.run_until(lambda: is_asked(stage, "one"))

    def forge(raw: dict[str, t.Any]) -> None:
        raw["metadata"]["annotations"]["muster.kube/scale"] = text

    stage.cluster.change("configmaps", "a", "one", forge)
    answer = service.ask("POST", "/scale/one", "boss")
    assert answer.status == 202, answer.body
    assert re.fullmatch("/scale/one/[0-9a-f]{16}[?]namespace=a", answer.headers["Location"])


def test_a_forged_state_spoils_nothing_for_other_jobs() -> None:
    def forge(raw: dict[str, t.Any]) -> None:
        notes = raw["metadata"]["annotations"]
        forged = json.loads(notes["muster.kube/state"])
        del forged["reserved"][0]["requests"]
        notes["muster.kube/state"] = json.dumps(forged)
        # What was edited since the start is looked up in the state.
        spec = json.loads(raw["data"]["gang.json"])
        spec["objects"][0]["spec"]["backoffLimit"] = 3
        raw["data"]["gang.json"] = json.dumps(spec)

    with two_namespaces(*cases.node_pool("p", 1, cpu="64", **{GPU: "10"})) as stage:
        for name in ("one", "two"):
            submit(stage, name, 2, (2, 4))
        stage.start("d")
        assert stage.run_until(lambda: running(stage, "one", "two"))
        stage.kill("d")
        stage.cluster.change("configmaps", "a", "one", forge)
        service = MemoryService(stage)
        service.user("boss", "boss", Right("boss"))
        assert service.ask("POST", "/scale/two", "boss").status in (202, 409)
        assert {job["job_name"] for job in service.ask("GET", "/get_all_jobs", "boss").body} == {"one", "two"}
        stage.start("e")
        submit(stage, "three", 2, (2, 2))
        assert stage.run_until(lambda: running(stage, "three"))
