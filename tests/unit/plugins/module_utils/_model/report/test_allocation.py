# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who held which GPUs over time: arithmetic, and what stays unknown."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.report.allocation import (
    Allocation,
    AllocationStretch,
    Holding,
    JobRow,
    NotedResize,
    NotedSize,
    OtherPod,
    holdings,
    resize_rows,
    used_share,
)

GPU = "nvidia.com/gpu"


def at(moment: float, size: int | None, *, running: bool = False, to: int | None = None) -> NotedSize:
    """A size that was noted; to is that of a resize that began then."""
    resize = None if to is None or size is None else NotedResize(size, to, "recreate", "why", 0.0)
    return NotedSize(moment, size, size, running, resize)


def job(name: str, *noted: NotedSize, until: float = 100, phase: str = "running") -> JobRow:
    return JobRow(name, "", "", phase, GPU, holdings(noted, until), resizes=resize_rows(noted, open_end="under way"))


def section(*jobs: JobRow, others: tuple[OtherPod, ...] = (), first: float = 0, until: float = 100) -> Allocation:
    return Allocation("t", jobs, others, until, {GPU: 10}, first, until)


def test_what_is_held_begins_and_ends_with_what_was_noted():
    noted = [at(5, 3), at(7, 3, running=True), at(20, 0), at(22, 4), at(30, 0)]
    assert holdings(noted, 100) == (Holding(5, 20, 3, 3), Holding(22, 30, 4, 4))
    assert holdings([at(5, 3)], 9) == (Holding(5, 9, 3, 3),)
    assert holdings([at(5, None), at(8, 2)], 9) == (Holding(5, 8, None, None), Holding(8, 9, 2, 2))
    assert holdings([], 9) == ()


def test_a_clock_that_went_back_gives_no_time():
    assert holdings([at(10, 3), at(8, 4), at(12, 0)], 20) == (Holding(10, 12, 4, 4),)
    assert holdings([at(10, 3)], 5) == ()


def test_stretches_change_with_what_anybody_holds():
    told = section(
        job("a", at(10, 4), at(40, 0)),
        job("b", at(10, 3), at(50, 4)),
        others=(OtherPod("x", GPU, 60, 2), OtherPod("y", "other.com/gpu", 60, 7)),
    )
    assert told.stretches(GPU) == (
        AllocationStretch(0, 10, (), 0),
        AllocationStretch(10, 40, ((0, 4), (1, 3)), 0),
        AllocationStretch(40, 50, ((1, 3),), 0),
        AllocationStretch(50, 60, ((1, 4),), 0),
        AllocationStretch(60, 100, ((1, 4),), 2),
    )
    assert [item.total for item in told.stretches(GPU)] == [0, 7, 3, 4, 6]
    assert used_share(told.stretches(GPU), 10) == pytest.approx((30 * 7 + 10 * 3 + 10 * 4 + 40 * 6) / 1000)


def test_what_nobody_knows_stays_unknown():
    told = section(job("a", at(0, None), at(50, 2)), job("b", at(0, 3)))
    assert told.stretches(GPU) == (
        AllocationStretch(0, 50, ((1, 3),), 0, (0,)),
        AllocationStretch(50, 100, ((0, 2), (1, 3)), 0),
    )
    assert used_share(told.stretches(GPU), 10) is None
    assert used_share(told.stretches(GPU)[1:], None) is None
    assert used_share((), 10) is None
    assert Allocation("t", ()).stretches(GPU) == ()


def test_pods_that_were_there_before_count_from_the_first_moment():
    told = section(job("a", at(10, 4)), others=(OtherPod("x", GPU, 1, 2),), first=10)
    assert told.stretches(GPU) == (AllocationStretch(10, 100, ((0, 4),), 2),)


def test_what_is_taken_back_counts_until_others_have_the_room():
    back = dataclasses.replace(job("a", at(0, 8), at(60, 0)), endings=((40, 60),))
    told = section(back, job("b", at(50, 6)))
    assert told.stretches(GPU) == (
        AllocationStretch(0, 50, ((0, 8),), 0),
        AllocationStretch(50, 100, ((1, 6),), 0),
    )
    roomy = dataclasses.replace(told, capacity={GPU: 20})
    assert [item.total for item in roomy.stretches(GPU)] == [8, 14, 6]
    unknown = dataclasses.replace(told, capacity={})
    assert [item.total for item in unknown.stretches(GPU)] == [8, 14, 6]


def test_a_resize_takes_until_all_pods_have_nodes():
    noted = [at(0, 3), at(2, 3, running=True), at(10, 3, to=4), at(12, 0), at(13, 4), at(16, 4, running=True)]
    (row,) = resize_rows(noted, open_end="under way")
    assert (row.at, row.seconds, row.outcome, row.grows) == (10, 6, "verified", True)


@pytest.mark.parametrize(
    ("following", "seconds", "outcome"),
    [
        ([at(15, 3, running=True)], 5, "rolled back"),
        ([], None, "under way"),
        ([at(12, 0)], None, "under way"),
        ([at(12, None), at(20, 4, running=True)], None, "unknown"),
    ],
)
def test_how_a_resize_ended(following, seconds, outcome):
    (row,) = resize_rows([at(10, 4, to=2), *following], open_end="under way")
    assert (row.seconds, row.outcome, row.grows) == (seconds, outcome, False)


def test_a_resize_that_another_one_followed_was_given_up():
    rows = resize_rows([at(10, 4, to=2), at(12, 0), at(14, 4, to=3)], open_end="unknown")
    assert [row.outcome for row in rows] == ["given up", "unknown"]


def test_stretches_agree_with_a_plain_count():
    chance = random.Random(7)
    jobs = []
    for number in range(12):
        moments = sorted(chance.sample(range(100), chance.randint(1, 12)))
        jobs.append(job(f"j{number}", *(at(moment, chance.choice([0, 1, 2, 5, None])) for moment in moments)))
    found = section(*jobs).stretches(GPU)
    assert [found[0].start, found[-1].end] == [0, 100]
    for moment in range(100):
        (here,) = [item for item in found if item.start <= moment < item.end]
        held = [
            (place, item.gpus) for place, one in enumerate(jobs) for item in one.held if item.start <= moment < item.end
        ]
        assert here.amounts == tuple((place, gpus) for place, gpus in held if gpus)
        assert here.unknown == tuple(place for place, gpus in held if gpus is None)
    assert all(one.end == other.start and one != other for one, other in itertools.pairwise(found))


def test_resources_are_told_by_what_was_held_of_them():
    other = JobRow("o", "", "", "running", "amd.com/gpu", (Holding(0, 100, 8, 8),))
    assert section(job("a", at(0, 1)), other).resources == ["amd.com/gpu", GPU]
