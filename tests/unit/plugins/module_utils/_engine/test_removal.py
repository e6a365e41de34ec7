# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of removal: only what is proved to be ours is deleted, and nothing of it is overlooked."""

from __future__ import annotations

import copy
import re
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.removal import Removal, attempt_of_ticket
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import ticket_name

CONFIGMAPS = "/api/v1/namespaces/team/configmaps"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
PODS = "/api/v1/namespaces/team/pods"
GANG = "muster.kube/gang"


def removal(bench: t.Any, record: t.Any) -> Removal:
    return Removal(bench.client, bench.client, bench.lease.write_timeout, record.uid, record.namespace)


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


class Limited:
    """The wire of somebody who may not do everything."""

    base_url = "http://127.0.0.1:1"

    def __init__(self, api: t.Any, *denied: str) -> None:
        self._wire = api.client()._transport
        self._denied = re.compile("|".join(denied))

    def send(self, method: str, url: str, headers: t.Any, body: t.Any, limits: t.Any) -> t.Any:
        if self._denied.fullmatch(f"{method} {url.partition('?')[0]}"):
            return 403, {}, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"not you"}'
        return self._wire.send(method, url, headers, body, limits)


def limited(bench: t.Any, record: t.Any, own: tuple[str, ...], actor: tuple[str, ...] = ()) -> Removal:
    """A removal whose own client, and whose actor, are refused these requests."""
    clients = [KubeClient(Limited(bench.api, *denied or ("-",)), sleep=bench.api.sleep) for denied in (own, actor)]
    return Removal(*clients, bench.lease.write_timeout, record.uid, record.namespace)


LIST, GET, DELETE = f"GET {JOBS}", f"GET {JOBS}/.*", f"DELETE {JOBS}/.*"


@pytest.mark.parametrize("actor", [(), (LIST,)], ids=["lists", "gets"])
def test_what_only_the_actor_may_see_is_seen(bench: t.Any, actor: tuple[str, ...]) -> None:
    record = bench.start(bench.queue())
    late = copy.deepcopy(bench.api.objects[f"{JOBS}/b"])
    bereaved = pod("p", ownerReferences=[reference("Job", "b", late["metadata"]["uid"])])
    ours = limited(bench, record, (LIST, GET, DELETE), actor)
    assert ours.remove_attempt(1)
    assert bench.names() == []
    bench.api.put(f"{JOBS}/b", late)
    bench.api.put(f"{PODS}/p", bereaved)
    assert not ours.nothing_left(bench.plan(record), 1)
    assert bench.names() == ["p"]
    assert not ours.nothing_left(bench.plan(record), 1)
    del bench.api.objects[f"{PODS}/p"]
    assert ours.nothing_left(bench.plan(record), 1)


@pytest.mark.parametrize("pods", [(), (f"GET {PODS}",)], ids=["sees pods", "sees no pods"])
def test_what_nobody_may_see_is_left_to_the_collector(bench: t.Any, pods: tuple[str, ...]) -> None:
    record = bench.start(bench.queue())
    bench.api.put(f"{PODS}/p", pod("p", ownerReferences=[reference("Job", "b", "dead")]))
    nothing = (LIST, GET, DELETE, *pods)
    blind = limited(bench, record, nothing, nothing)
    with pytest.raises(Forbidden):
        blind.exist(bench.api.objects[bench.ticket_path(record)])
    assert blind.remove_attempt(1)
    assert sorted(bench.names()) == ["b", "p"]
    assert blind.nothing_left(bench.plan(record), 1)


def test_what_nobody_may_delete_is_waited_for(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    powerless = limited(bench, record, (DELETE,), (DELETE,))
    assert powerless.remove_attempt(1)
    assert not powerless.nothing_left(bench.plan(record), 1)
    del bench.api.objects[f"{JOBS}/b"]
    assert powerless.nothing_left(bench.plan(record), 1)


def test_what_was_started_counts_though_the_plan_knows_it_no_more(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    late = copy.deepcopy(bench.api.objects[f"{JOBS}/b"])
    started = tuple(item.key for item in bench.plan(record))
    ours = removal(bench, record)
    ours.remove_attempt(1)
    bench.api.put(f"{JOBS}/b", late)
    assert not ours.nothing_left((), 1, started)
    assert bench.names() == []
    bench.api.put(f"{PODS}/p", pod("p", ownerReferences=[reference("Job", "b", "dead")]))
    assert not ours.nothing_left((), 1, started)
    del bench.api.objects[f"{PODS}/p"]
    assert ours.nothing_left((), 1, started)


def test_ticket_that_owns_nothing(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    ticket = bench.api.objects[bench.ticket_path(record)]
    assert removal(bench, record).exist(ticket) == [True, True]
    del bench.api.objects[f"{JOBS}/b"], bench.api.objects[f"{CONFIGMAPS}/a"]
    assert removal(bench, record).exist(ticket) == [False, False]


def test_what_a_later_attempt_made_is_left_alone(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    removal(bench, record).remove_attempt(1)
    later = bench.job("b", namespace="team", labels={GANG: record.uid, "muster.kube/attempt": "2"})
    later["metadata"]["ownerReferences"] = [reference("ConfigMap", ticket_name(record.uid, 2), "next")]
    bench.api.put(f"{JOBS}/b", later)
    assert removal(bench, record).nothing_left(bench.plan(record), 1)
    assert bench.names() == ["b"]
    assert not removal(bench, record).nothing_left(bench.plan(record), 2)
    assert bench.names() == []
