# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Usage over time: it counts half after a half-life, and queues that used least by their weight come first."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import (
    Meter,
    OpenGang,
    Owner,
    meter_from_text,
    meter_text,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.accrual import Sighting, accrue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.decay import (
    PRESENT,
    UsageShares,
    averages,
    decayed,
    weighted_seconds,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.order import FairOrder, QueueHead
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.quota_trees import GPU, gpus, queue, small_tree
from ansible_collections.muster.kube.tests.support.random_size import examples

NAME = GPU.resource
DAY = 86_400.0
NOW = 1_800_000_000
ANN = Owner("ann", "a")


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (0, 0, 0.0),
        # The last half-life has as much as all before it together.
        (-DAY, 0, 0.5),
        (-1e9, -DAY, 0.5),
        (-1e9, 0, 1.0),
        (-2 * DAY, -DAY, 0.25),
        (0, -5, 0.0),
    ],
)
def test_seconds_weigh_half_after_each_half_life(begin: float, end: float, expected: float) -> None:
    whole = DAY / math.log(2)
    assert weighted_seconds(NOW + begin, NOW + end, NOW, DAY) == pytest.approx(expected * whole)


def test_what_was_used_counts_half_after_a_half_life() -> None:
    assert decayed({GPU: 1000}, 0, DAY) == {GPU: 1000}
    assert decayed({GPU: 1000}, DAY, DAY) == {GPU: 500}
    assert decayed({GPU: 1000}, 3 * DAY, DAY) == {GPU: 125}
    assert decayed({GPU: 1000}, -5, DAY) == {GPU: 1000}
    assert decayed({GPU: 1}, DAY, DAY) == {}


def test_counting_often_comes_to_the_same_as_counting_once() -> None:
    for seed in range(examples(20)):
        chance = random.Random(seed)
        half_life, end = chance.choice((600.0, DAY, 7 * DAY)), NOW + 50_000
        moments = sorted(chance.sample(range(NOW, end), 10))
        often = Meter("t", "q")
        for moment in [*moments, end]:
            seen = Sighting("u", 1, ANN, {GPU: 4000}, NOW, moment)
            often = accrue(often, [seen], moment, half_life=half_life)
        once = accrue(Meter("t", "q"), [Sighting("u", 1, ANN, {GPU: 4000}, NOW, end)], end, half_life=half_life)
        assert often.recent[GPU] == pytest.approx(once.recent[GPU], rel=1e-4)
        assert meter_from_text(meter_text(often), "it") == often


def test_a_meter_without_a_half_life_keeps_nothing_of_it() -> None:
    seen = Sighting("u", 1, ANN, {GPU: 4}, NOW, NOW + 100)
    meter = accrue(Meter("t", "q", recent={GPU: 7}), [seen], NOW + 100)
    assert meter.recent == {}
    assert "recent" not in meter_text(meter)


def tree(weights: dict[str, int], half_life: float = DAY):
    made = small_tree(
        *(queue(name, weight=weight) for name, weight in weights.items()), queue("pool", nominal={NAME: 16})
    )
    return dataclasses.replace(made, settings=dataclasses.replace(made.settings, fair="usage", half_life=half_life))


def shares(usage: TreeUsage, before: dict[str, float]) -> UsageShares:
    return UsageShares(usage, {name: {NAME: amount} for name, amount in before.items()})


def head(leaf: str, count: int = 1, rank: int = 0) -> QueueHead:
    return QueueHead(leaf, f"{leaf}-{rank}", gpus(count), (rank,))


def test_the_average_is_the_amount_that_was_always_used() -> None:
    made = tree({"a": 1})
    amount = gpus(3)[GPU]
    always = {GPU: math.floor(amount * DAY / math.log(2))}
    meter = Meter(made.name, "a", as_of=NOW, recent=always)
    assert averages(made, [meter], NOW)["a"][NAME] == pytest.approx(amount, rel=1e-4)
    assert averages(made, [meter], NOW + DAY)["a"][NAME] == pytest.approx(amount / 2, rel=1e-4)
    # A gang that is open goes on.
    open_gang = dataclasses.replace(meter, open={"u": OpenGang(1, NOW, ANN, gpus(3))})
    assert averages(made, [open_gang], NOW + DAY)["a"][NAME] == pytest.approx(amount, rel=1e-4)
    assert averages(made, [dataclasses.replace(meter, tree="other")], NOW) == {}


def test_shares_grow_with_usage_and_fall_with_weight() -> None:
    for seed in range(examples(30)):
        chance = random.Random(seed)
        weights = {"a": chance.randint(1, 4), "b": chance.randint(1, 4)}
        usage = TreeUsage(tree(weights))
        less, more = sorted(chance.uniform(0, 16_000) for _turn in range(2))
        one, other = (shares(usage, {"a": amount, "b": amount}) for amount in (less, more))
        assert one.order("a", head("a")) <= other.order("a", head("a"))
        both = {name: other.order(name, head(name))[1] * weights[name] for name in weights}
        assert both["a"] == pytest.approx(both["b"])
        before = one.order("a", head("a"))
        usage.charge("a", gpus(2))
        assert one.order("a", head("a")) > before


def first(usage: TreeUsage, before: dict[str, float], *heads: QueueHead) -> str:
    found = FairOrder(usage, heads, shares(usage, before).order).next()
    assert found is not None
    return found.leaf


def test_with_equal_weights_the_least_used_is_first_whatever_is_borrowed_now() -> None:
    usage = TreeUsage(tree({"a": 1, "b": 1}))
    usage.charge("b", gpus(4))
    amount = gpus(1)[GPU]
    assert first(usage, {"a": 9.0 * amount, "b": 1.0 * amount}, head("a"), head("b")) == "b"
    assert first(usage, {"a": 1.0 * amount, "b": 9.0 * amount}, head("a"), head("b")) == "a"
    # Nobody used anything before: what is used now decides.
    assert first(usage, {}, head("b"), head("a", rank=1)) == "a"


def test_weights_divide_and_weight_zero_is_last() -> None:
    usage, amount = TreeUsage(tree({"a": 1, "b": 4, "c": 0})), gpus(1)[GPU]
    assert first(usage, {"a": 2.0 * amount, "b": 7.0 * amount}, head("a"), head("b"), head("c")) == "b"
    assert first(usage, {"a": 2.0 * amount, "b": 9.0 * amount}, head("a"), head("b"), head("c")) == "a"


def test_own_amounts_go_before_what_is_borrowed_whatever_was_used() -> None:
    usage = TreeUsage(tree({"a": 1}))
    before = {"pool": float(gpus(9)[GPU])}
    assert first(usage, before, head("a"), head("pool", rank=1)) == "pool"


def test_queues_above_have_what_those_below_used() -> None:
    made = small_tree(queue("x"), queue("y"), queue("x1", "x"), queue("y1", "y"), queue("pool", nominal={NAME: 16}))
    usage, amount = TreeUsage(made), float(gpus(1)[GPU])
    found = shares(usage, {"x1": 2 * amount})
    present = PRESENT * amount
    expected = ((1 - PRESENT) * 2 * amount + present) / gpus(16)[GPU]
    assert found.order("x", head("x1"))[1] == pytest.approx(expected)
    assert found.order("y", head("y1"))[1] == pytest.approx(present / gpus(16)[GPU])
