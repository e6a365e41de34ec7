# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the replay that counts what must never happen: each wrong is found, and a right history is clean."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, node_pool, pod, service, thief
from ansible_collections.muster.kube.tests.support.invariants import Findings, Seen, judge

Object = dict[str, t.Any]
ROOM = node_pool("p", 1, cpu="4")


class History:
    """Writes a history, one change after the other."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.version = 0

    def put(self, plural: str, obj: Object, uid: str, *, gone: bool = False) -> Object:
        """One change of an object."""
        self.version += 1
        stored: Object = json.loads(json.dumps(obj))
        stored["metadata"].update(uid=uid, resourceVersion=str(self.version))
        stored["metadata"].setdefault("namespace", "ns")
        self.seen.append(Seen(self.version, plural, gone, stored))
        return stored

    def record(
        self,
        name: str,
        phase: str | None,
        *,
        attempt: int = 1,
        pods: int = 1,
        gone: bool = False,
        namespace: str = "ns",
    ) -> None:
        """A gang of one Service and one Job of so many pods of 2 cpu."""
        obj = gang_record(name, namespace, [service(f"{name}-s"), job(f"{name}-j", "p", pods, cpu="2")])
        if phase is not None:
            state = {"phase": phase, "attempt": attempt, "ticket": f"{name}-t{attempt}"}
            obj["metadata"]["annotations"] = {"muster.kube/state": json.dumps(state)}
        self.put("configmaps", obj, name, gone=gone)

    def ticket(self, gang: str, attempt: int = 1, *, gone: bool = False) -> None:
        """The ticket of an attempt."""
        labels = {"muster.kube/ticket": "true", "muster.kube/gang": gang}
        meta = {"name": f"{gang}-t{attempt}", "labels": labels, "ownerReferences": [{"uid": gang}]}
        self.put("configmaps", {"kind": "ConfigMap", "metadata": meta}, f"{gang}-t{attempt}", gone=gone)

    def child(
        self,
        gang: str,
        kind: str,
        attempt: int = 1,
        *,
        gone: bool = False,
        uid: str | None = None,
        condition: str | None = None,
    ) -> None:
        """An object of an attempt: s is the Service, j the Job."""
        labels = {"muster.kube/gang": gang, "muster.kube/attempt": str(attempt)}
        plural, word = {"s": ("services", "Service"), "j": ("jobs", "Job")}[kind]
        owner = [{"uid": f"{gang}-t{attempt}"}]
        meta = {"name": f"{gang}-{kind}", "labels": labels, "ownerReferences": owner}
        conditions = [{"type": condition, "status": "True"}] if condition else []
        obj = {"kind": word, "metadata": meta, "status": {"conditions": conditions}}
        self.put(plural, obj, uid or f"{gang}-{kind}{attempt}", gone=gone)

    def pod(self, gang: str, attempt: int = 1, *, number: int = 0, phase: str = "Running", gone: bool = False) -> None:
        """A pod of the gang's Job on the only node."""
        made = pod(f"{gang}-{attempt}-{number}", "ns", "p", node="p-n0", cpu="2")
        made["metadata"]["labels"] = {"muster.kube/gang": gang, "muster.kube/podset": f"{gang}-j"}
        made["metadata"]["ownerReferences"] = [{"uid": f"{gang}-j{attempt}"}]
        made["status"] = {"phase": phase}
        self.put("pods", made, f"{gang}-p{attempt}-{number}", gone=gone)

    def start(self, gang: str, attempt: int = 1, pods: int = 1) -> None:
        """A start as it should be."""
        self.ticket(gang, attempt)
        self.record(gang, "dispatching", attempt=attempt, pods=pods)
        self.child(gang, "s", attempt)
        self.child(gang, "j", attempt)
        self.record(gang, "dispatched", attempt=attempt, pods=pods)
        for number in range(pods):
            self.pod(gang, attempt, number=number)
        self.record(gang, "running", attempt=attempt, pods=pods)

    def undo(self, gang: str, attempt: int = 1) -> None:
        """An undo as it should be."""
        self.record(gang, "undoing", attempt=attempt)
        self.ticket(gang, attempt, gone=True)
        for kind in "sj":
            self.child(gang, kind, attempt, gone=True)
        self.pod(gang, attempt, gone=True)
        self.record(gang, "queued", attempt=attempt + 1)

    def judged(self, *expected: str, foreign: t.Mapping[str, Object] | None = None) -> Findings:
        """What is found in it."""
        return judge(self.seen, ROOM, foreign or {}, expected)


@pytest.fixture
def history() -> History:
    """A history in which gang a is queued."""
    made = History()
    made.record("a", None)
    return made


def wrongs(findings: Findings) -> set[str]:
    """The kinds of wrong that were found."""
    return {name for name, count in findings.counts().items() if count}


def test_right_history_is_clean(history: History) -> None:
    history.start("a")
    history.undo("a")
    history.start("a", 2)
    history.record("b", None)
    history.start("b")
    findings = history.judged("ns/a", "ns/b")
    assert findings.clean(), str(findings)
    assert findings.phases == {"ns/a": "running", "ns/b": "running"}
    assert findings.attempts == {"ns/a": 2, "ns/b": 1}


def test_missing_object_is_found_when_the_gang_is_called_dispatched(history: History) -> None:
    history.ticket("a")
    history.record("a", "dispatching")
    history.child("a", "s")
    history.record("a", "dispatched")
    history.child("a", "j")
    assert wrongs(history.judged()) == {"partial"}


def test_object_of_another_ticket_does_not_count(history: History) -> None:
    history.start("a")
    history.ticket("a", 2)
    history.record("a", "running", attempt=2)
    assert "ns/a attempt 2 has 0 of 2 objects at the end: []" in history.judged().partial


def test_missing_pod_of_a_running_gang(history: History) -> None:
    history.start("a")
    history.pod("a", gone=True)
    assert history.judged().partial == ["ns/a is running with 0 of 1 pods"]


def test_what_a_queued_gang_still_has(history: History) -> None:
    history.start("a")
    history.record("a", "queued")
    found = history.judged().partial
    assert found == ["ns/a is queued and has jobs ns/a-j, pods ns/a-1-0, services ns/a-s"]


def test_undo_that_does_not_wait_for_the_last_pod(history: History) -> None:
    history.start("a")
    history.record("a", "undoing")
    history.ticket("a", gone=True)
    for kind in "sj":
        history.child("a", kind, gone=True)
    history.record("a", "queued", attempt=2)
    history.pod("a", gone=True)
    assert history.judged().partial == ["ns/a became queued and has pods ns/a-1-0"]


def test_two_attempts_for_a_moment(history: History) -> None:
    history.start("a")
    history.ticket("a", 2)
    history.child("a", "s", 2)
    history.child("a", "s", 2, gone=True)
    history.ticket("a", 2, gone=True)
    assert wrongs(history.judged()) == {"double_starts"}


def test_pod_that_outlives_its_attempt(history: History) -> None:
    history.start("a")
    history.record("a", "undoing")
    history.ticket("a", gone=True)
    for kind in "sj":
        history.child("a", kind, gone=True)
    history.record("a", "queued", attempt=2)
    history.ticket("a", 2)
    history.record("a", "dispatching", attempt=2)
    history.child("a", "s", 2)
    history.child("a", "s", 2, gone=True)
    assert "double_starts" in wrongs(history.judged())


def test_late_object_of_a_dead_ticket_is_no_second_start_but_must_go(history: History) -> None:
    history.start("a")
    history.undo("a")
    history.start("a", 2)
    history.child("a", "s", 1, uid="late")
    assert wrongs(history.judged()) == {"orphans"}
    history.child("a", "s", 1, uid="late", gone=True)
    assert history.judged().clean()


def test_room_given_to_two_gangs(history: History) -> None:
    for name in ("b", "c"):
        history.record(name, None)
        history.start(name)
    assert history.judged().clean()
    history.ticket("a")
    history.record("a", "dispatching")
    history.record("a", "queued")
    history.ticket("a", gone=True)
    assert history.judged().room_twice == ["pool p: 6 cpu of 4 given away when ns/a became dispatching"]


def test_room_given_to_gangs_of_two_namespaces(history: History) -> None:
    history.start("a")
    history.record("b", "dispatching", pods=1, namespace="other")
    assert not history.judged().room_twice
    history.record("c", "dispatched", pods=1, namespace="third")
    assert history.judged().room_twice == ["pool p: 6 cpu of 4 given away when third/c became dispatched"]


def test_room_of_another_namespace_is_free_when_its_gang_is_done(history: History) -> None:
    history.record("b", "dispatching", pods=2, namespace="other")
    history.record("b", "complete", pods=2, namespace="other")
    history.start("a")
    assert not history.judged().room_twice


def test_failed_job_of_a_complete_gang(history: History) -> None:
    history.start("a")
    history.child("a", "j", condition="Failed")
    history.record("a", "failed")
    assert not history.judged().outcomes
    history.record("a", "complete")
    assert history.judged().outcomes == ["ns/a became complete although jobs ns/a-j failed"]


def test_failed_job_that_is_gone_before_its_gang_is_complete(history: History) -> None:
    history.start("a")
    history.child("a", "j", condition="Failed")
    history.child("a", "j", condition="Failed", gone=True)
    history.record("a", "complete")
    assert wrongs(history.judged()) >= {"outcomes"}


def test_failure_of_an_older_attempt_does_not_count(history: History) -> None:
    history.start("a")
    history.child("a", "j", condition="Failed")
    history.undo("a")
    history.start("a", 2)
    history.child("a", "j", 2, condition="Complete")
    history.pod("a", 2, phase="Succeeded")
    history.record("a", "complete", attempt=2)
    assert not history.judged().outcomes


def test_room_of_a_gang_that_is_being_undone_is_not_free_while_its_pods_live(history: History) -> None:
    history.start("a")
    history.record("a", "undoing")
    history.record("b", None, pods=2)
    history.ticket("b")
    history.record("b", "dispatching", pods=2)
    assert "room_twice" in wrongs(history.judged())


def test_room_of_foreign_pods_and_of_thieves(history: History) -> None:
    taken = pod("foreign", "ns", "p", node="p-n0", cpu="3")
    history.put("pods", {**taken, "status": {"phase": "Running"}}, "f")
    history.start("a")
    assert "room_twice" in wrongs(history.judged())
    other = History()
    other.record("a", None)
    other.put("pods", {**thief("thief", "ns", "p-n0", cpu="3"), "status": {"phase": "Running"}}, "f")
    other.start("a")
    assert other.judged().clean()


def test_done_pods_give_their_room_back(history: History) -> None:
    history.start("a")
    history.pod("a", phase="Succeeded")
    history.record("b", None, pods=2)
    history.start("b", pods=2)
    assert history.judged().clean(), str(history.judged())


def test_ticket_without_record_or_not_named_by_it(history: History) -> None:
    history.ticket("nobody")
    history.ticket("a", 7)
    assert history.judged().orphans == [
        "ticket ns/nobody-t1 has no record",
        "ticket ns/a-t7 is not named by ns/a (queued)",
    ]


def test_pod_without_owner(history: History) -> None:
    history.start("a")
    history.child("a", "j", gone=True)
    assert "pods ns/a-1-0 has no living owner" in history.judged().orphans


def test_lost_gangs(history: History) -> None:
    history.record("a", "undoing")
    assert history.judged("ns/a", "ns/b").lost == [
        "ns/a is stuck in phase undoing, attempt 1",
        "ns/b has no record any more",
    ]


def test_unreadable_state_is_a_loss(history: History) -> None:
    obj = gang_record("a", "ns", [service("x")])
    obj["metadata"]["annotations"] = {"muster.kube/state": "{"}
    history.put("configmaps", obj, "a")
    assert wrongs(history.judged("ns/a")) == {"lost"}


@pytest.mark.parametrize("gone", [True, False])
def test_foreign_object_touched(history: History, gone: bool) -> None:
    planted = history.put("services", service("mine"), "f")
    assert history.judged(foreign={"f": planted}).clean()
    history.put("services", service("mine"), "f", gone=gone)
    assert wrongs(history.judged(foreign={"f": planted})) == {"foreign"}
