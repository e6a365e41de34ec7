# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which entries of the batch still promise something, and how long promises of others are believed."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.recover import (
    evidence_of,
    unknown_until,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Batch, Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.packing import pack
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import advance, new_state
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.open_entries import (
    Evidence,
    began,
    promised_elsewhere,
    usual_patience,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions

NOW = 10_000.0
# How long a start takes at most in these terms, and how long others are given.
PATIENCE = 400.0
AT = "2026-01-01T00:00:00Z"


def entry(uid: str = "u", **more: t.Any) -> Entry:
    """A start that was committed some time ago."""
    return Entry("start", "team", f"gang-{uid}", uid, 1, at=int(NOW - 100), **more)


def batch(*entries: Entry) -> Batch:
    """A batch that promises each of them two pods."""
    made, _surplus = pack([(item, [{"name": "w", "count": 2, "requests": {"cpu": "1"}}]) for item in entries], "e", "b")
    return made


def record(uid: str = "u", **state: t.Any) -> t.Any:
    """A record in some state; none when nothing is given."""
    written = None
    if state:
        phase = state.pop("phase")
        written = advance(new_state(AT, "w/e/1"), phase, AT, "R", "", "w/e/2", **state)
    return types.SimpleNamespace(uid=uid, state=written, phase=written.phase if written else "queued")


class Scene:
    """A cycle as far as these questions look at it."""

    def __init__(self, *entries: Entry, blind: str | None = None, pods: t.Any = None) -> None:
        self.sure: float | None = NOW
        self.known = batch(*entries) if entries else None
        terms = DispatchOptions(start_timeout=PATIENCE)
        self.session = types.SimpleNamespace(
            batch=lambda: types.SimpleNamespace(batch=self.known),
            over=set(),
            workers=types.SimpleNamespace(busy=frozenset()),
            options=terms,
            lease=types.SimpleNamespace(terms=terms.lease),
            clock=types.SimpleNamespace(sure=lambda: self.sure),
            unlisted_since=lambda: NOW - 100,
        )
        self.records: dict[str, t.Any] = {}
        self.elsewhere: dict[str, t.Any] = {}
        self.aside: dict[str, t.Any] = {}
        self.busy: set[str] = set()
        self.gone_tickets: set[str] = set()
        self.sight = types.SimpleNamespace(blind=blind, sees=lambda namespace: blind is None or namespace != "team")
        self.world: t.Any = types.SimpleNamespace(pods=types.SimpleNamespace(by_gang=pods or {}), gangs={}, tickets={})

    @property
    def evidence(self) -> Evidence:
        """What tells how far starts are."""
        return evidence_of(t.cast(t.Any, self), self.world)

    def open(self) -> list[str]:
        """The gangs with open entries."""
        found = self.evidence.open_batch(self.known)
        return [] if found is None else [item.uid for item in found.entries]


def pod(**more: t.Any) -> t.Any:
    """One pod of the gang."""
    usual = {"bound": False, "finished": False, "live": True, "podset": "w", "namespace": "team", "name": "p"}
    return types.SimpleNamespace(**{**usual, **more})


def test_without_a_batch_nothing_is_open() -> None:
    assert Scene().evidence.open_batch(None) is None


def test_an_entry_whose_record_was_not_written_is_open_for_whoever_looks_after_it() -> None:
    scene = Scene(entry())
    scene.records = {"u": record()}
    assert scene.open() == ["u"]
    scene.records, scene.elsewhere = {}, {"u": record()}
    assert scene.open() == []


def test_entries_that_were_given_up_are_over_and_others_are_not() -> None:
    scene = Scene(entry("a"), entry("b"), entry("c", abandoned=True))
    scene.records = {uid: record(uid) for uid in "abc"}
    scene.session.over = {("a", "b"), ("gone", "b"), ("b", "another batch")}
    assert scene.open() == ["b"]
    assert scene.session.over == {("a", "b")}


@pytest.mark.parametrize("where", ["cycle", "workers"])
def test_an_entry_that_is_being_worked_on_is_open_whatever_its_record_says(where: str) -> None:
    scene = Scene(entry())
    if where == "cycle":
        scene.busy = {"u"}
    else:
        scene.session.workers.busy = frozenset({"u"})
    assert scene.open() == ["u"]


def test_an_entry_whose_record_is_gone_is_over_where_records_are_seen() -> None:
    assert Scene(entry()).open() == []
    assert Scene(entry(), blind="forbidden").open() == ["u"]
    aside = Scene(entry())
    aside.aside = {"u": record()}
    assert aside.open() == ["u"]


@pytest.mark.parametrize(
    ("pods", "is_open"),
    [
        ([], True),
        ([{"bound": True}], True),
        ([{"bound": True}, {"bound": False}], True),
        ([{"bound": True}, {"finished": True}], False),
        ([{"bound": True}] * 3, False),
    ],
)
def test_an_entry_that_cannot_be_read_is_over_when_all_its_pods_have_a_node(
    pods: list[dict[str, bool]], is_open: bool
) -> None:
    scene = Scene(entry(), blind="forbidden", pods={("team", "u"): [pod(**item) for item in pods]})
    assert bool(scene.open()) is is_open


def test_promises_of_others_are_believed_for_twice_the_time_of_a_start() -> None:
    scene = Scene(entry(), blind="forbidden")
    scene.sure = NOW - 100 + 2 * PATIENCE
    assert scene.open() == ["u"]
    assert scene.evidence.next_look(scene.known) == NOW - 100 + 2 * PATIENCE + 1
    scene.sure += 0.5
    assert scene.open() == []
    assert scene.evidence.next_look(scene.known) is None
    scene.sure = None
    assert scene.open() == ["u"]


def test_a_promise_to_a_gang_of_this_run_is_never_too_old() -> None:
    scene = Scene(entry())
    scene.records = {"u": record()}
    scene.sure = NOW + 10**6
    assert scene.open() == ["u"]


def test_whoever_lets_a_start_take_longer_is_believed_longer() -> None:
    forgotten = Scene().evidence._is_forgotten
    assert forgotten(NOW - 2 * PATIENCE - 1, 0.0)
    assert not forgotten(NOW - 2 * PATIENCE, 0.0)
    assert not forgotten(NOW - 2 * PATIENCE - 1, 2 * PATIENCE)
    assert forgotten(NOW - 11, 5.0)


def test_where_nobody_says_how_long_a_start_takes_it_is_not_less_than_usual() -> None:
    usual = DispatchOptions().start_timeout
    assert usual_patience(DispatchOptions(start_timeout=usual + 1)) == usual + 1
    assert usual_patience(DispatchOptions(start_timeout=1)) == usual


def test_starts_of_others_that_nobody_looks_after_do_not_count() -> None:
    scene = t.cast(t.Any, Scene(entry("long", patience=10**9)))
    old = {"phase": "dispatching"}
    scene.elsewhere = {
        "old": record("old", **old),
        "long": record("long", **old),
        "waiting": record("waiting"),
        "running": record("running", phase="running"),
    }
    scene.sure = 1_767_225_600.0 + 2 * PATIENCE + 1
    assert scene.evidence.next_look(scene.known) == NOW - 100 + 2 * 10**9 + 1
    assert [item.uid for item in scene.evidence.attended(scene.known)] == ["long", "waiting", "running"]
    scene.sure -= 1
    assert [item.uid for item in scene.evidence.attended(scene.known)] == ["old", "long", "waiting", "running"]


def test_a_record_without_a_history_began_long_ago() -> None:
    assert began(record()) == 0.0
    assert began(record(phase="dispatching")) == 1_767_225_600.0


def test_promises_under_a_new_lease_are_unknown_for_as_long() -> None:
    scene = t.cast(t.Any, Scene(blind="forbidden"))
    end = NOW - 100 + 2 * PATIENCE
    assert unknown_until(scene) == end
    scene.sure = end
    assert unknown_until(scene) is None
    scene.sure = None
    assert unknown_until(scene) == end


@pytest.mark.parametrize("why", ["all is seen", "it is listed", "a lease of its own"])
def test_promises_are_known(why: str) -> None:
    scene = t.cast(t.Any, Scene(blind=None if why == "all is seen" else "forbidden"))
    if why == "it is listed":
        scene.session.unlisted_since = lambda: None
    if why == "a lease of its own":
        scene.session.lease.terms = "another"
    assert unknown_until(scene) is None


def test_what_an_entry_promises_less_what_has_a_node() -> None:
    pods = {("team", "u"): [pod(bound=True), pod(name="q"), pod(name="r", live=False)]}
    scene = Scene(entry(), pods=pods)
    found = promised_elsewhere(scene.known, {}, scene.world)["u"]
    assert (found.counts, found.existing, found.waiting) == ({"w": 1}, {"w": 1}, frozenset({("team", "q")}))
    assert [item.count for item in found.gang.podsets] == [2]


def test_pods_beyond_those_promised_take_nothing_back() -> None:
    scene = Scene(entry(), pods={("team", "u"): [pod(bound=True)] * 5})
    found = promised_elsewhere(scene.known, {}, scene.world)["u"]
    assert (found.counts, found.existing) == ({}, {"w": 0})


def test_only_starts_promise_and_records_that_say_so_speak_for_themselves() -> None:
    stop = Entry("stop", "team", "gang-s", "s", 1)
    scene = Scene(entry("a"), entry("b"), entry("c"), stop)
    records = {"a": record("a", phase="dispatched"), "b": record("b", phase="dispatched"), "c": record("c")}
    scene.world.gangs = {"a": None, "c": None}
    assert list(promised_elsewhere(scene.known, records, scene.world)) == ["b", "c"]
    assert promised_elsewhere(None, records, scene.world) == {}
