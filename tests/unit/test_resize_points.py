# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever happens at one write of a resize, no GPU is given twice, no job is lost, and the resize comes to an end.

The scenes grow and shrink a gang by each method: at once, after a checkpoint, when the owner of its quota comes, and
with elastic_balance beside the dispatcher. At each write the dispatcher dies before or after it, stands still with
it until others took over, the answer is lost or late, the server refuses, or a user does something just then.
"""

from __future__ import annotations

import dataclasses
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support.explorer import Operation
from ansible_collections.muster.kube.tests.support.explorer_quota import Tree
from ansible_collections.muster.kube.tests.support.memory_wire import Fault
from ansible_collections.muster.kube.tests.support.resize_runs import (
    HELD,
    Happening,
    Method,
    ResizeRun,
    Scene,
    Trainer,
    at_write,
    gang,
)

SCALE = float(os.environ.get("MUSTER_SCALE", "0.1"))
SEED = int(os.environ.get("MUSTER_SEED", "1"))
# So many of the points of each scene are enough to see that nothing broke.
SAMPLE = 6

# The writes of the steps of a resize.
BEGUN = "PUT record"
STEPS: dict[Method, tuple[str, ...]] = {
    "scale": (BEGUN, "PATCH job"),
    "suspend": (BEGUN, "PATCH job", "PATCH job", "PUT record"),
    "recreate": (BEGUN, "DELETE ticket", "DELETE job", "PUT record", "POST a ConfigMap", "POST a Job"),
}
ENDED = "PUT record"
# Before that, where a trainer is asked to save: the plan, what it is asked for, and that it is asked no more.
PLANNED = ("PUT record", "PUT progress", "PUT progress")
METHODS: tuple[Method, ...] = t.get_args(Method)
AXES: dict[Method, str] = {"scale": "pods", "suspend": "per_pod", "recreate": "per_pod"}
BALANCE: Operation = ("balance", {}, 10.0)
FULL: Operation = ("submit", gang("full", 4), 8.0)
SAVES = {"timing": "at_checkpoint"}
IS_SILENT = {"timing": "at_checkpoint", "checkpoint_timeout": 30}


def growing(method: Method, *after: Operation, **terms: t.Any) -> tuple[Operation, ...]:
    """One node is full, and on the other one somebody ends."""
    elastic = gang("e", 2, min=2, max=4, axis=AXES[method], **terms)
    other: Operation = ("submit", gang("h", 2, seconds=60), 8.0)
    return FULL, other, ("submit", elastic, 45.0), ("arm", {}, 100.0), *after


def shrinking(method: Method, *after: Operation, **terms: t.Any) -> tuple[Operation, ...]:
    """One node is full, and somebody comes for whom there is room if the gang on the other one shrinks."""
    elastic = gang("e", 2, min=2, max=4, axis=AXES[method], **terms)
    return FULL, ("submit", elastic, 60.0), ("arm", {}, 0.0), ("submit", gang("new", 2), 100.0), *after


def resized(method: Method, operations: tuple[Operation, ...], trainer: Trainer | None = None) -> Scene:
    """A scene in which gang e gets its size by a method."""
    before = () if trainer is None else PLANNED
    # What starts a gang anew is written by others too, for whom it makes room.
    steps = STEPS[method][:3] if operations == shrinking(method) and method == "recreate" else STEPS[method]
    return Scene(operations, (*before, *steps, ENDED), method != "recreate", trainer=trainer)


def in_tree(name: str, queue: str, pods: int, **job: t.Any) -> dict[str, t.Any]:
    """A gang of a queue whose pods have a cpu each."""
    return {"namespace": "b", "name": name, "queue": queue, "jobs": [{"pods": pods, "cpu": "1", **job}]}


def borrowed(*, grows: bool, **terms: t.Any) -> tuple[Operation, ...]:
    """A gang has borrowed two of eight cpus, or is just about to, and their owner comes, who has six of its own."""
    elastic = gang("e", 2, min=2, max=4, axis="pods", **terms) | {"queue": "x"}
    elastic["jobs"][0]["cpu"] = "1"
    if not grows:
        return ("submit", elastic, 60.0), ("arm", {}, 0.0), ("submit", in_tree("new", "y", 6), 100.0)
    first: Operation = ("submit", in_tree("g", "y", 2), 8.0)
    second: Operation = ("submit", in_tree("h", "y", 4, seconds=60), 8.0)
    new: Operation = ("submit", in_tree("new", "y", 4), 100.0)
    return first, second, ("submit", elastic, 45.0), ("arm", {}, 7.6), new


TREE: Tree = {
    "extra": 0,
    "leaves": {"x": {"nominal": 2}, "y": {"nominal": 6}},
    "settings": {"min_run_time": 0},
}
SCENES: dict[str, Scene] = {
    **{f"grow-{method}": resized(method, growing(method)) for method in METHODS},
    **{f"shrink-{method}": resized(method, shrinking(method)) for method in METHODS},
    "planned-grow": resized("suspend", growing("suspend", **SAVES), "saves"),
    "planned-shrink": resized("scale", shrinking("scale", **SAVES), "saves"),
    "planned-recreate": resized("recreate", growing("recreate", **SAVES), "saves"),
    "silent": Scene(shrinking("scale", **IS_SILENT), (*PLANNED[:2], *PLANNED[:2]), trainer="is silent"),
    "evicted": Scene(
        borrowed(grows=False, **IS_SILENT), (*PLANNED[:2], BEGUN, *STEPS["recreate"]), trainer="is silent", tree=TREE
    ),
    "taken-back": Scene(borrowed(grows=False), STEPS["scale"], tree=TREE),
    "taken-back-saved": Scene(
        borrowed(grows=False, **SAVES), (*PLANNED[:2], *STEPS["scale"]), trainer="saves", tree=TREE
    ),
    "evicted-grow": Scene(borrowed(grows=True, cooldown=1000), STEPS["scale"], tree=TREE),
    "taken-back-grow": Scene(borrowed(grows=True), STEPS["scale"], tree=TREE),
    "balance-grow": resized("suspend", growing("suspend", BALANCE)),
    "balance-shrink": resized("scale", shrinking("scale", BALANCE, BALANCE)),
}
# Where it is not the end of a resize that is told: nobody saved for one, there was none, or its size was lost again.
ENDS = {"silent": "missed", "evicted": None, "evicted-grow": "rolled_back"}
# Whoever stands still with a write, or whose write arrives late, has a rival that takes over meanwhile.
ALONE, RIVALS = ("all",), ("all", "other")
STATUSES = (403, 404, 409, 410, 422, 429, 500)
# What a server may say for good, of one verb and one account.
FOR_GOOD = (403, 422, 500)
# Whose paths are served or not whatever objects there are.
MADE = ("POST a ConfigMap", "POST a Job", "PATCH job", "DELETE ticket", "DELETE job")


@dataclasses.dataclass(frozen=True)
class Point:
    """Trouble of a kind at a write, by its words and its place among those of the same words."""

    scene: str
    trouble: str
    word: str
    occurrence: int
    status: int = 503
    times: int = 1
    seconds: float = 2.0
    happens: Happening | None = None
    dispatchers: tuple[str, ...] = ALONE

    @property
    def name(self) -> str:
        """For whoever reads what failed."""
        what = self.happens or (f"{self.status}x{self.times}" if self.trouble == "refuse" else self.trouble)
        late = "-held" if self.seconds == HELD else ""
        return f"{self.scene}-{what}{late}-{self.word.replace(' ', '_')}-{self.occurrence}"

    def fault(self, run: ResizeRun) -> Fault:
        """The fault of a run."""
        happens = None if self.happens is None else lambda: run.happen(self.happens)
        more = {"times": self.times, "status": self.status, "seconds": self.seconds, "happens": happens}
        return at_write(self.word, self.occurrence, self.trouble, **more)

    def play(self) -> ResizeRun:
        """The run, before it has begun."""
        return ResizeRun(SCENES[self.scene], self.fault, seed=SEED, dispatchers=self.dispatchers)


def points_of(scene: str) -> t.Iterator[Point]:
    """All points of a scene."""
    writes = ("PUT lease", *SCENES[scene].writes)
    for index, word in enumerate(writes):
        place = scene, word, writes[: index + 1].count(word)

        def point(trouble: str, place: tuple[str, str, int] = place, **more: t.Any) -> Point:
            return Point(place[0], trouble, place[1], place[2], **more)

        for trouble in ("kill_before", "kill_after", "kill_late", "cut", "lose", "delay"):
            yield point(trouble)
        yield point("kill_late", seconds=HELD, dispatchers=RIVALS)
        yield point("delay", seconds=HELD, dispatchers=RIVALS)
        yield point("call", happens="stop", dispatchers=RIVALS)
        # That there is no such object is said of one that was deleted; users do that below.
        yield from (point("refuse", status=status) for status in STATUSES if status != 404 or word in MADE)
        if word != "PUT lease":
            yield from (point("refuse", status=status, times=1000) for status in FOR_GOOD)
            yield from (point("call", happens=what) for what in USERS)


USERS: tuple[Happening, ...] = ("delete_record", "delete_job", "edit", "finish", "unsuspend", "relabel")
POINTS = {scene: tuple(points_of(scene)) for scene in SCENES}


def drawn() -> list[Point]:
    """All points in full runs, else some of each scene."""
    if SCALE >= 1:
        return [point for points in POINTS.values() for point in points]
    return [
        point for name, points in POINTS.items() for point in random.Random(f"{SEED}/{name}").sample(points, SAMPLE)
    ]


@pytest.mark.parametrize("name", SCENES)
def test_a_resize_takes_these_writes_and_is_verified(name: str) -> None:
    run = ResizeRun(SCENES[name], seed=SEED)
    assert run.run() == []
    assert run.step() == ENDS.get(name, "verified")
    written = iter(run.written())
    assert all(word in written for word in SCENES[name].writes), run.written()


def test_there_are_many_points() -> None:
    assert all(len(set(points)) == len(points) >= 60 for points in POINTS.values())


@pytest.mark.parametrize("point", drawn(), ids=lambda point: point.name)
def test_nothing_is_lost_or_given_twice_whatever_happens_at_a_write(point: Point) -> None:
    run = point.play()
    found = run.run()
    if point.word == "PUT record" and point.trouble == "refuse":
        # The number of an attempt that was taken back could not be written, so the next one has it again.
        found = [text for text in found if not text.startswith("twice: ")]
    assert found == []
    assert run.struck or point.times > 1
    assert run.step() in (None, "missed", "verified", "rolled_back", "parked")
