# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quota held for starved gangs: until when, who may start all the same, and that there is enough when it is time."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue import quota_reserve
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quota_reserve import (
    NO_END_OF_USE,
    TOO_MANY_ENDS,
    QuotaReserve,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quotas import Quotas
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reserve import (
    Estimate,
    ReserveOptions,
)
from ansible_collections.muster.kube.tests.support.quota_trees import CPU, queue, small_tree
from ansible_collections.muster.kube.tests.support.random_size import examples

NOW = 1_800_000_000.0
LONG_AGO = NOW - 7200.0
FOREVER = Estimate()


def layer(leaf: str, cpus: int, *trees: str) -> QuotaLayer:
    """What is asked for in each tree."""
    amounts = {CPU: 1000 * cpus}
    return QuotaLayer(
        tuple(QuotaStanding(tree, "waits", leaf, f"root/{leaf}", amounts=amounts) for tree in trees or ("default",))
    )


def until(seconds: float) -> Estimate:
    return Estimate(seconds, True)


class Scene:
    """Trees with started gangs, each with its leaf, its CPUs and the seconds after which it ends."""

    def __init__(self, *started: tuple[str, int, float | None], hold: t.Any = "soft", **nominal: int) -> None:
        names = ("default", "other")
        leaves = [queue(name, nominal={"cpu": cpus}) for name, cpus in nominal.items()]
        self.quotas = Quotas(QuotaTrees(tuple(small_tree(*leaves, name=name) for name in names)))
        self.ends: dict[str, tuple[float | None, bool]] = {}
        for number, (leaf, cpus, seconds) in enumerate(started):
            self.quotas.charge_left(f"s{number}", "ns", leaf, {"cpu": 1000 * cpus})
            self.ends[f"s{number}"] = (None if seconds is None else NOW + seconds, seconds is not None)
        self.reserve = QuotaReserve(self.quotas, NOW, ReserveOptions(3600.0, hold), lambda: self.ends)

    def hold(self, leaf: str, cpus: int) -> str:
        """Let a starved gang ask."""
        assert self.reserve.may_hold(LONG_AGO, layer(leaf, cpus))
        return self.reserve.hold(layer(leaf, cpus), (leaf, cpus))

    def allows(self, leaf: str, cpus: int, estimate: Estimate = FOREVER) -> bool:
        """Whether a later gang may start."""
        return self.reserve.stopping(layer(leaf, cpus), estimate) is None


def by(seconds: float) -> str:
    return f"quota is held for it; expected to be enough by {time_text(NOW + seconds)}"


def test_the_moment_is_the_first_at_which_enough_of_its_own_is_free() -> None:
    # x has 2 of its own 8 in use, and y borrows 6 of it.
    scene = Scene(("x", 2, 50), ("y", 8, None), ("y", 3, 300), ("y", 3, 100), x=8, y=8)
    assert scene.hold("x", 6) == by(300)
    assert Scene(("x", 2, 50), ("y", 8, None), ("y", 3, 300), ("y", 3, 100), x=8, y=8).hold("x", 3) == by(100)


def test_those_that_are_about_to_go_have_gone() -> None:
    scene = Scene(("x", 8, 50), ("y", 8, None), x=8, y=8)
    scene.quotas.going = {"s0"}
    assert scene.hold("x", 8) == by(0)


def test_an_end_that_has_passed_is_now() -> None:
    scene = Scene(("x", 8, -50), x=8)
    assert scene.hold("x", 8) == by(0)


@pytest.mark.parametrize(
    ("leaf", "cpus", "estimate", "allowed"),
    [
        ("x", 1, FOREVER, False),
        ("x", 1, until(33), True),
        # Others end before their limits, so that a hundred seconds are the latest moment.
        ("x", 1, until(34), False),
        ("x", 1, Estimate(20, False), False),
        # What is y's own is not x's.
        ("y", 2, FOREVER, True),
        ("y", 3, FOREVER, False),
        ("y", 3, until(33), True),
    ],
)
def test_later_gangs_start_if_they_end_in_time_or_leave_enough(
    leaf: str, cpus: int, estimate: Estimate, allowed: bool
) -> None:
    scene = Scene(("x", 4, 100), ("y", 6, None), ("y", 2, 50), x=8, y=8)
    assert scene.hold("x", 8) == by(100)
    # By then two of y's own eight are free.
    assert scene.allows(leaf, cpus, estimate) is allowed


def test_what_starts_later_counts() -> None:
    scene = Scene(("x", 8, 180), x=8, y=8)
    assert scene.hold("x", 6) == by(180)
    assert scene.allows("x", 2)
    scene.reserve.start(layer("x", 2), FOREVER)
    assert not scene.allows("x", 1)
    assert scene.allows("x", 1, until(60))
    scene.reserve.start(layer("x", 1), until(60))
    assert scene.allows("x", 1, until(60))


def test_words_name_the_queue_and_no_gang() -> None:
    scene = Scene(("x", 8, 100), x=8, y=8)
    scene.hold("x", 8)
    told = scene.reserve.stopping(layer("x", 1), FOREVER)
    assert told == f"it is held for a gang of queue root/x until {time_text(NOW + 100)}"


@pytest.mark.parametrize(("leaf", "cpus", "submitted"), [("x", 9, LONG_AGO), ("x", 8, NOW - 3600), ("z", 1, LONG_AGO)])
def test_nothing_is_held_for_new_gangs_and_for_those_larger_than_nominal(
    leaf: str, cpus: int, submitted: float
) -> None:
    scene = Scene(("x", 8, 100), x=8, y=8, z=0)
    assert not scene.reserve.may_hold(submitted, layer(leaf, cpus))


def test_one_gang_of_a_queue_holds() -> None:
    scene = Scene(("x", 8, 100), ("y", 8, 100), x=8, y=8)
    scene.hold("x", 8)
    assert not scene.reserve.may_hold(LONG_AGO, layer("x", 4))
    assert scene.reserve.may_hold(LONG_AGO, layer("y", 4))
    scene.hold("y", 4)
    assert len(scene.reserve.held) == 2


def test_a_later_one_finds_what_the_first_leaves() -> None:
    scene = Scene(("z", 8, 100), ("z", 8, 200), x=8, y=8, z=0)
    assert scene.hold("x", 8) == by(100)
    assert scene.hold("y", 8) == by(200)


@pytest.mark.parametrize("hold", ["soft", "hard"])
def test_without_known_ends_only_a_hard_hold_stops_others(hold: str) -> None:
    scene = Scene(("x", 6, None), ("y", 2, None), hold=hold, x=8, y=8)
    assert scene.hold("x", 8) == NO_END_OF_USE
    assert len(scene.reserve.held) == (hold == "hard")
    assert scene.allows("x", 1) is (hold == "soft")
    assert scene.allows("x", 1, until(1)) is (hold == "soft")
    # What is y's own it may have; what it borrows it may not.
    assert scene.allows("y", 6)
    assert scene.allows("y", 7) is (hold == "soft")
    assert scene.reserve.hold(layer("x", 8), ("x", 8)) == NO_END_OF_USE


def test_a_queue_that_borrows_waits_for_what_can_be_borrowed_and_leaves_owners_alone() -> None:
    scene = Scene(("x", 6, 400), ("x", 4, 300), ("y", 2, None), ("z", 4, 100), x=8, y=8, z=0)
    # 16 in all; x has 10 of its 8, so that it borrows 6 more as soon as z's are free.
    assert scene.hold("x", 4) == by(100)
    assert scene.allows("y", 6)
    assert not scene.allows("z", 5)
    assert scene.allows("z", 4, until(33))


def test_a_gang_that_nodes_are_held_for_holds_its_quota_until_then() -> None:
    scene = Scene(("y", 8, 50), ("y", 2, 500), x=8, y=8)
    scene.reserve.hold_until(layer("x", 6), NOW + 200)
    assert not scene.allows("x", 3)
    assert scene.allows("x", 2)
    assert scene.allows("x", 3, until(66))
    # The eight of y that end by then are y's own.
    assert scene.allows("y", 6)


def test_a_gang_that_nodes_are_held_for_may_have_to_borrow() -> None:
    """Of its own it has 4 left, so that its 6 borrow 2; others may have what it leaves, and owners what is theirs."""
    scene = Scene(("x", 4, None), ("y", 2, None), x=8, y=8)
    scene.reserve.hold_until(layer("x", 6), NOW + 200)
    assert len(scene.reserve.held) == 1
    assert scene.allows("x", 4)
    assert not scene.allows("x", 5)
    assert scene.allows("y", 6)
    full = Scene(("x", 4, None), ("y", 8, None), x=8, y=8)
    full.reserve.hold_until(layer("x", 6), NOW + 200)
    assert len(full.reserve.held) == 0


def test_all_trees_have_to_have_enough() -> None:
    scene = Scene(("x", 8, 100), x=8)
    scene.quotas.usages["other"].charge("x", {CPU: 1000})
    quota = layer("x", 8, "default", "other")
    assert scene.reserve.may_hold(LONG_AGO, quota)
    assert scene.reserve.hold(quota, "both") == NO_END_OF_USE
    assert scene.reserve.hold(layer("x", 7, "default", "other"), "fewer") == by(100)
    assert not scene.allows("x", 2)


@pytest.mark.parametrize("hold", ["soft", "hard"])
def test_a_cycle_looks_at_so_many_ends_and_no_more(monkeypatch: pytest.MonkeyPatch, hold: str) -> None:
    """Who comes too late holds nothing: a hold without end would keep short gangs from starting all that time."""
    monkeypatch.setattr(quota_reserve, "MOST_ENDS", 2)
    scene = Scene(("x", 2, 10), ("x", 2, 20), ("x", 2, 30), ("y", 8, None), x=8, y=8, hold=hold)
    assert scene.hold("x", 8) == TOO_MANY_ENDS
    assert scene.reserve.held == {}
    assert scene.allows("x", 1, until(5))


def test_there_is_enough_at_that_moment_whatever_was_allowed_to_start() -> None:
    held = 0
    for seed in range(examples(300)):
        chance = random.Random(seed)
        nominal = {name: chance.randint(0, 8) for name in "xyz"}
        started = [
            (chance.choice("xyz"), chance.randint(1, 4), chance.choice((None, *range(10, 100, 10))))
            for _turn in range(chance.randint(1, 12))
        ]
        scene = Scene(*started, **nominal)
        wanted = chance.randint(1, 8)
        usage = scene.quotas.usages["default"]
        if wanted > nominal["x"] or usage.fits("x", {CPU: 1000 * wanted}):
            continue
        told = scene.hold("x", wanted)
        if told == NO_END_OF_USE:
            continue
        held += 1
        later = []
        for _turn in range(chance.randint(1, 12)):
            leaf, cpus, ends = chance.choice("xyz"), chance.randint(1, 4), chance.choice((None, 5, 30, 60, 90))
            estimate = Estimate() if ends is None else Estimate(float(ends), chance.random() < 0.7)
            fits = usage.fits(leaf, {CPU: 1000 * cpus})
            within = (
                usage.borrows_of("x", {CPU: 1}) and leaf != "x" and not usage.borrows_with(leaf, {CPU: 1000 * cpus})
            )
            # An owner's gang may start whoever holds what can be borrowed: nothing is promised then.
            if fits and not within and scene.allows(leaf, cpus, estimate):
                usage.charge(leaf, {CPU: 1000 * cpus})
                scene.reserve.start(layer(leaf, cpus), estimate)
                later.append((leaf, cpus, estimate.seconds if estimate.enforced else None))
        moment = next(seconds for seconds in range(0, 101, 10) if told == by(seconds))
        for leaf, cpus, seconds in (*started, *later):
            if seconds is not None and seconds <= moment:
                usage.release(leaf, {CPU: 1000 * cpus})
        assert usage.fits("x", {CPU: 1000 * wanted}), seed
    assert held > 20
