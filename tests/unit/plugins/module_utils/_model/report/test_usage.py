# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gangs held over time, and how queues fared."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.report.page import GangRow, Span
from ansible_collections.muster.kube.plugins.module_utils._model.report.usage import (
    QueueWaits,
    Stretch,
    Usage,
    queue_waits,
    usages,
)


def row(name: str, *phases: tuple[t.Any, float], namespace: str = "", queue: str = "", **demand: int) -> GangRow:
    """A gang with these phases, each ending where the next begins; __ in a resource stands for a slash."""
    ends = [*(start for _phase, start in phases[1:]), None]
    spans = tuple(Span(phase, start, end) for (phase, start), end in zip(phases, ends, strict=True))
    asked = {resource.replace("__", "/"): amount for resource, amount in demand.items()}
    return GangRow(name, namespace, queue, phases[-1][0], spans, demand=asked)


def test_stretches_change_with_their_holders() -> None:
    first = row("a", ("queued", 0), ("dispatching", 10), ("running", 20), ("complete", 50), cpu=2000)
    second = row("b", ("queued", 5), ("running", 30), namespace="team", cpu=1000)
    [usage] = usages([first, second], {"cpu": 8000}, until=100)
    assert usage == Usage(
        "cpu",
        (
            Stretch(10, 30, 2000, ("a",)),
            Stretch(30, 50, 3000, ("a", "team/b")),
            Stretch(50, 100, 1000, ("team/b",)),
        ),
        8000,
    )
    assert usage.peak == 3000


def test_a_pause_between_two_attempts_is_no_stretch() -> None:
    again = row("a", ("running", 0), ("undoing", 10), ("queued", 15), ("running", 20), ("failed", 30), memory=5)
    [usage] = usages([again], {}, until=99)
    assert usage == Usage("memory", (Stretch(0, 10, 5, ("a",)), Stretch(20, 30, 5, ("a",))), None)


def test_nothing_held_has_no_peak() -> None:
    [usage] = usages([row("a", ("queued", 0), cpu=1)], {}, until=9)
    assert (usage.stretches, usage.peak) == ((), 0)


def test_special_resources_are_shown_instead_of_those_that_everybody_asks_for() -> None:
    plain = row("a", ("running", 0), cpu=1, memory=2, pods=3)
    assert [item.resource for item in usages([plain], {}, 9)] == ["cpu", "memory"]
    gpu = row("b", ("running", 0), cpu=1, x__gpu=1, a__gpu=0)
    assert [item.resource for item in usages([plain, gpu], {}, 9)] == ["x/gpu"]


def test_of_many_special_resources_the_first_four_are_shown() -> None:
    many = row("a", ("running", 0), **{f"x__r{number}": 1 for number in (5, 3, 1, 2, 4)})
    assert [item.resource for item in usages([many], {}, 9)] == ["x/r1", "x/r2", "x/r3", "x/r4"]


def test_queues_have_their_waits_and_what_they_used() -> None:
    gangs = [
        row("a", ("queued", 0), ("running", 10), ("complete", 40), queue="fast", cpu=2000),
        row("b", ("queued", 0), ("running", 30), queue="fast", cpu=1000),
        row("c", ("queued", 60), queue="fast"),
        row("d", ("running", 60), queue=""),
    ]
    assert queue_waits(gangs, until=100) == (
        QueueWaits("", 1, 0, None, None, {}),
        QueueWaits("fast", 3, 1, 30, 40, {"cpu": 2000 * 30 + 1000 * 70}),
    )


def test_without_queues_there_is_nothing_to_tell() -> None:
    assert queue_waits([], 9) == ()
    assert queue_waits([row("a", ("queued", 0))], 9) == ()
