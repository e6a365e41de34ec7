# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever happens at one watch event or one write of a dispatcher with mirrors, nothing is given twice or lost.

The table names every event that its mirrors hear of and every write that it makes, in nine scenes. A point that is
never reached fails.
"""

from __future__ import annotations

import collections
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support.mirror_points import SCENES, Kind, PointRun

SCALE = float(os.environ.get("MUSTER_SCALE", "0.1"))
SEED = int(os.environ.get("MUSTER_SEED", "1"))

# So many of each kind in each scene are enough to see that nothing broke.
SAMPLE = 2
_PODS_COME = ("job MODIFIED", "pod ADDED", "pod ADDED", "job MODIFIED", "pod MODIFIED", "pod MODIFIED")
_PODS_END = ("pod MODIFIED", "pod MODIFIED", "job MODIFIED", "record DELETED", "ticket DELETED")
_STARTED = ("ticket ADDED", "job ADDED", *_PODS_COME, "record MODIFIED", "pod MODIFIED", "pod MODIFIED")
_MADE = ("POST service dry", "POST job dry", "POST ticket", "POST service", "POST job")

# What mirrors hear of. A record that is over leaves them, and its ticket too.
EVENTS: dict[str, tuple[str, ...]] = {
    "start": ("record ADDED", *_STARTED, *_PODS_END),
    "undo": (
        *("record ADDED", "ticket ADDED", "record MODIFIED", "ticket DELETED", "record MODIFIED", "record MODIFIED"),
        *(*_STARTED, *_PODS_END),
    ),
    "eviction": (
        *("record ADDED", "record MODIFIED"),
        *("record MODIFIED", "ticket DELETED", "job DELETED") * 2,
        *("record MODIFIED", *["pod MODIFIED"] * 4, *["pod DELETED"] * 4, *["record MODIFIED"] * 3),
        *("ticket ADDED", "job ADDED", "record MODIFIED", "job MODIFIED", *["pod ADDED"] * 4, "job MODIFIED"),
        *(*["pod MODIFIED"] * 4, "record MODIFIED", *["pod MODIFIED"] * 4, *["record MODIFIED"] * 2),
    ),
    "finish": (
        *("pod MODIFIED", "pod MODIFIED", "job MODIFIED", "record DELETED"),
        *("ticket ADDED", "job ADDED", "ticket DELETED", *_PODS_COME),
        *("record MODIFIED", "pod MODIFIED", "pod MODIFIED"),
    ),
    "takeover": (*["record MODIFIED"] * 4, *_PODS_END),
    "grow": (
        *("pod MODIFIED", "job MODIFIED", "record DELETED", "record MODIFIED", "ticket DELETED", "job DELETED"),
        *("ticket DELETED", "pod MODIFIED", "pod DELETED", "record MODIFIED"),
        *("ticket ADDED", "job ADDED", "job MODIFIED", "pod ADDED", "job MODIFIED", "pod MODIFIED"),
        *("record MODIFIED", "pod MODIFIED"),
    ),
    "scale": (
        *("pod MODIFIED", "job MODIFIED", "record DELETED", "record MODIFIED", "job MODIFIED", "ticket DELETED"),
        *("pod ADDED", "pod ADDED", "job MODIFIED", *["pod MODIFIED"] * 4, "record MODIFIED"),
    ),
    "suspend": (
        *("pod MODIFIED", "job MODIFIED", "record DELETED", "record MODIFIED", "job MODIFIED", "ticket DELETED"),
        *("pod MODIFIED", "job MODIFIED", "pod DELETED", "job MODIFIED", "job MODIFIED", "record MODIFIED"),
        *("pod ADDED", "job MODIFIED", "pod MODIFIED", "pod MODIFIED", "record MODIFIED"),
    ),
    "shrink": (
        *("record ADDED", "record MODIFIED", "ticket DELETED", "job DELETED", "record MODIFIED"),
        *("pod MODIFIED", "pod DELETED", "record MODIFIED", "ticket ADDED"),
    ),
}
WRITES: dict[str, tuple[str, ...]] = {
    "start": (*_MADE, "PUT record", "PUT record", "PUT ticket"),
    "undo": (
        *(*_MADE, "PUT record", "DELETE ticket", "DELETE service", "PUT record", "PUT record"),
        *(*_MADE, "PUT record", "PUT record", "PUT ticket"),
    ),
    "eviction": (
        *("POST job dry", "PUT record"),
        *("PUT record", "DELETE ticket", "DELETE job", "DELETE service") * 2,
        *(*["PUT record"] * 4, "POST ticket", "POST job", *["PUT record"] * 2),
    ),
    "finish": ("PUT record", *_MADE, "PUT ticket", "PUT record"),
    "takeover": ("PUT record", "PUT record", "POST service", *["PUT record"] * 3, "PUT ticket"),
    "grow": (
        *("PUT record", "PUT record", "DELETE ticket", "DELETE job", "DELETE service", "PUT ticket", "PUT record"),
        *(*_MADE, "PUT record"),
    ),
    "scale": ("PUT record", "PUT record", "PATCH job", "PUT ticket", "PUT record"),
    "suspend": ("PUT record", "PUT record", "PATCH job", "PUT ticket", "PATCH job", "PUT record", "PUT record"),
    "shrink": (
        *("POST service dry", "POST job dry"),
        *("PUT record", "DELETE ticket", "DELETE job", "DELETE service", "PUT record", "PUT record"),
        *_MADE[2:5],
    ),
}
# What the dispatcher itself wrote.
OWN = ("ticket ADDED", "ticket DELETED", "job ADDED", "record MODIFIED", "record DELETED")
# When the ticket of a stale holder lands: before its Lease is over, while it is taken, and after others have decided.
LANDINGS = (1.0, 4.5, 5.5, 8.0, 15.0)
# Room for one to three of the entries of a scene.
BATCHES = (460, 480, 520, 550)


class Point(t.NamedTuple):
    """A fault of a kind at an event, a write or a ticket by number; a full batch has its bytes."""

    scene: str
    kind: Kind
    number: int
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """For whoever reads what failed."""
        if self.kind == "full" or self.seconds:
            what = f"{self.number}-{self.seconds:g}" if self.seconds else f"{self.number}"
        else:
            what = f"{self.number}-{(WRITES if self.kind == 'old_mirror' else EVENTS)[self.scene][self.number - 1]}"
        return f"{self.scene}-{self.kind}-{what}".replace(" ", "_")


def points() -> t.Iterator[Point]:
    """The whole table."""
    kinds: tuple[Kind, ...] = ("cut_before", "cut_after", "gone", "late")
    for scene, events in EVENTS.items():
        for number, event in enumerate(events, 1):
            for kind in kinds:
                yield Point(scene, kind, number)
            if event in OWN:
                yield Point(scene, "unseen", number)
        writes = WRITES[scene]
        for number, write in enumerate(writes, 1):
            if not write.endswith("dry"):
                yield Point(scene, "old_mirror", number)
        for number in range(1, writes.count("POST ticket") + 1):
            for seconds in LANDINGS:
                yield Point(scene, "stray_of_dead", number, seconds)
                yield Point(scene, "stray_of_frozen", number, seconds)
        for size in BATCHES:
            yield Point(scene, "full", size)


POINTS = tuple(points())


def drawn() -> list[Point]:
    """All points in full runs, else some of each kind in each scene."""
    by_kind: dict[tuple[str, str], list[Point]] = collections.defaultdict(list)
    for point in POINTS:
        by_kind[point.scene, point.kind].append(point)
    return [
        item
        for key, items in by_kind.items()
        for item in (items if SCALE >= 1 else random.Random(f"{SEED}/{key}").sample(items, min(SAMPLE, len(items))))
    ]


@pytest.mark.parametrize("scene", sorted(SCENES))
def test_the_table_names_every_event_and_every_write(scene: str) -> None:
    run = PointRun(SCENES[scene])
    assert run.run() == []
    for told, known in ((run.armed.heard, EVENTS[scene]), (run.written(), WRITES[scene])):
        assert tuple(told)[: len(known) if SCENES[scene].shared else None] == known


def test_there_are_many_points_of_every_kind() -> None:
    kinds = collections.Counter(point.kind for point in POINTS)
    assert len(set(POINTS)) == len(POINTS) >= 500
    assert set(kinds) == set(t.get_args(Kind))
    assert min(kinds.values()) >= 20, kinds


@pytest.mark.parametrize("point", drawn(), ids=lambda point: point.name)
def test_nothing_is_lost_or_given_twice_whatever_happens_at_a_point(point: Point) -> None:
    run = PointRun(SCENES[point.scene], point.kind, point.number, point.seconds)
    assert run.run() == []
    assert run.reached
