# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of removal: only what is proved to be ours is deleted, and nothing of it is overlooked."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.removal import Removal, attempt_of_ticket

CONFIGMAPS = "/api/v1/namespaces/team/configmaps"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
PODS = "/api/v1/namespaces/team/pods"
GANG = "muster.kube/gang"


def removal(bench: t.Any, record: t.Any) -> Removal:
    return Removal(bench.client, bench.client, bench.office.write_timeout, record)


def pod(name: str, **metadata: t.Any) -> dict[str, t.Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team", **metadata}}


def reference(kind: str, name: str, uid: str) -> dict[str, str]:
    return {"apiVersion": "x/v1", "kind": kind, "name": name, "uid": uid}


@pytest.mark.parametrize(
    "change",
    [
        lambda ticket: ticket["metadata"]["labels"].pop("muster.kube/ticket"),
        lambda ticket: ticket["metadata"]["labels"].update({GANG: "another"}),
        lambda ticket: ticket["metadata"].pop("ownerReferences"),
        lambda ticket: ticket["metadata"]["ownerReferences"][0].update(uid="another"),
        lambda ticket: ticket["metadata"].update(name="another"),
        lambda ticket: ticket["data"].update(attempt="2"),
        lambda ticket: ticket["data"].update(attempt="one"),
        lambda ticket: ticket.pop("data"),
    ],
)
def test_what_only_looks_like_a_ticket_is_none(bench: t.Any, change: t.Callable[[t.Any], t.Any]) -> None:
    record = bench.start(bench.queue())
    ticket = bench.api.objects[bench.ticket_path(record)]
    assert attempt_of_ticket(ticket, record.uid) == 1
    change(ticket)
    assert attempt_of_ticket(ticket, record.uid) is None
    bench.api.asked.clear()
    bench.engine.remove_ticket(ticket)
    assert not removal(bench, record).remove_attempt(1)
    assert bench.api.writes == []


def test_ticket_goes_first_then_its_children_from_the_last(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    bench.api.asked.clear()
    assert removal(bench, record).remove_attempt(1)
    assert bench.api.writes == [
        ("DELETE", bench.ticket_path(record)),
        ("DELETE", f"{JOBS}/b"),
        ("DELETE", f"{CONFIGMAPS}/a"),
    ]


def test_object_that_took_the_name_of_a_child_is_left_alone(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    bench.api.put(f"{JOBS}/b", bench.job("b"))
    removal(bench, record).remove_attempt(1)
    assert bench.names() == ["b"]
    assert removal(bench, record).nothing_left(bench.plan(record), 1)


def test_kept_objects_stay_and_do_not_count(bench: t.Any) -> None:
    record = bench.start(bench.queue(bench.config("a", annotations={"muster.kube/keep": "true"}), bench.job("b")))
    removal(bench, record).remove_attempt(1)
    assert bench.names() == ["a"]
    assert removal(bench, record).nothing_left(bench.plan(record), 1)


def test_late_child_is_deleted_and_counts(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    late = copy.deepcopy(bench.api.objects[f"{JOBS}/b"])
    removal(bench, record).remove_attempt(1)
    bench.api.put(f"{JOBS}/b", late)
    assert not removal(bench, record).nothing_left(bench.plan(record), 1)
    assert removal(bench, record).nothing_left(bench.plan(record), 1)


def test_labelled_object_that_no_ticket_of_ours_owned_is_left_alone(bench: t.Any) -> None:
    record = bench.queue()
    labels = {GANG: record.uid, "muster.kube/attempt": "1"}
    bench.api.put(f"{JOBS}/b", bench.job("b", labels=labels))
    bench.api.put(f"{JOBS}/c", bench.job("c", labels=labels, ownerReferences=[reference("ConfigMap", "other", "u")]))
    assert removal(bench, record).nothing_left(bench.plan(record), 1)
    assert bench.names() == ["b", "c"]


def test_pods_by_label_count_unless_somebody_copied_the_label(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.put(f"{PODS}/copy", pod("copy", labels={GANG: record.uid}))
    assert removal(bench, record).nothing_left(bench.plan(record), 1)
    owner = [reference("ReplicaSet", "x", "dead")]
    bench.api.put(f"{PODS}/p", pod("p", labels={GANG: record.uid}, ownerReferences=owner))
    assert not removal(bench, record).nothing_left(bench.plan(record), 1)
    assert f"{PODS}/p" in bench.api.objects


def test_pods_without_label_count_by_their_dead_owner(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.put(f"{PODS}/p", pod("p", ownerReferences=[reference("Job", "b", "dead")]))
    assert not removal(bench, record).nothing_left(bench.plan(record), 1)
    # Somebody else's job of the same name lives: then it is that one's pod.
    bench.api.put(f"{JOBS}/b", bench.job("b", uid="dead"))
    assert removal(bench, record).nothing_left(bench.plan(record), 1)


def test_ticket_that_owns_nothing(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    ticket = bench.api.objects[bench.ticket_path(record)]
    assert removal(bench, record).owns_anything(ticket)
    del bench.api.objects[f"{JOBS}/b"], bench.api.objects[f"{CONFIGMAPS}/a"]
    assert not removal(bench, record).owns_anything(ticket)
