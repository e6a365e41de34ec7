# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults at exactly one write, or one watch event, of a dispatcher that keeps the Lease and reads from mirrors.

A scene is a course of the explorer in which one thing happens: a start, an undo, an eviction, a finish, a takeover. At
the point a rival gang is queued, so that the next decision is due just then. The explorer's rules judge the outcome.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import typing as t
from unittest import mock

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch import cycle as cycle_module
from ansible_collections.muster.kube.plugins.module_utils._model.gang import start_size
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set import packing
from ansible_collections.muster.kube.tests.support.explorer import Course, Explorer, Operation, Verdict
from ansible_collections.muster.kube.tests.support.explorer_quota import QuotaReplay, Tree
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault
from ansible_collections.muster.kube.tests.support.served_mirror import (
    LATE_SECONDS,
    ServedMirror,
    Trouble,
    WatchTroubles,
)

Kind = t.Literal[
    "cut_before", "cut_after", "gone", "late", "unseen", "old_mirror", "stray_of_dead", "stray_of_frozen", "full"
]

# The writes of a dispatcher that are counted: to records, tickets and objects of gangs.
COUNTED = r"/namespaces/a/(configmaps|services|jobs)(/|$)"
TICKETS = r"/namespaces/a/configmaps$"
# How long another dispatcher decides while the first one stands still, and how long it takes to have the Lease again.
AWAY_SECONDS = 20.0
RETURN_SECONDS = 10.0
RELIEF = "all"
# The kinds after which another dispatcher takes over.
_RELIEVED = ("old_mirror", "stray_of_dead", "stray_of_frozen")
_ENTRIES = 3


def _gang(name: str, cpu: str, **more: t.Any) -> dict[str, t.Any]:
    """A gang of a Service and a Job of two pods."""
    seconds = more.pop("seconds", None)
    job = {"pods": 2, "cpu": cpu, **({} if seconds is None else {"seconds": seconds})}
    return {"namespace": "a", "name": name, "jobs": [job], "services": 1, **more}


# Too large to run beside what a scene starts.
RIVAL = _gang("rival", "2500m", seconds=5)


def _training(
    name: str, gpus: int, most: int | None = None, seconds: float | None = None, axis: str = "per_pod"
) -> dict[str, t.Any]:
    """A gang of one pod with so many GPUs, or a range of them; or one of a range of pods with a GPU each."""
    job = {"pods": 1, "cpu": "100m", "gpus": gpus, **({} if seconds is None else {"seconds": seconds})}
    if axis == "pods":
        job.update(pods=gpus, gpus=1)
    gang: dict[str, t.Any] = {"namespace": "a", "name": name, "jobs": [job], "services": 1}
    if most is not None:
        gang["elastic"] = {"range": {"min": gpus, "max": most, "axis": axis}, "timing": "now", "cooldown": 0}
    return gang


@dataclasses.dataclass(frozen=True)
class Scene:
    """What comes before a point, what happens around it, and how long that takes when nothing goes wrong.

    before ends with everything at rest. deputy takes over from the first dispatcher when that dies in the middle. At
    the end of a scene that is shared several gangs start at once, and nobody knows in which order.
    """

    before: tuple[Operation, ...]
    then: tuple[Operation, ...]
    seconds: float
    tree: Tree | None = None
    rival: t.Mapping[str, t.Any] = dataclasses.field(default_factory=lambda: RIVAL)
    deputy: bool = False
    shared: bool = False
    # Whether suspended Jobs take other resources.
    suspends: bool = False

    @property
    def who(self) -> str:
        """Whose writes and events are counted."""
        return "two" if self.deputy else "one"


# One gang runs from the beginning, so that there are mirrors of all kinds.
_WARM: Operation = ("submit", _gang("warm", "100m"), 8.0)
_TREE: Tree = {
    "extra": 0,
    "leaves": {"x": {"nominal": 2}, "y": {"nominal": 4}, "z": {"nominal": 1, "default": True}},
    "settings": {"min_run_time": 0},
}

SCENES: dict[str, Scene] = {
    "start": Scene((_WARM,), (("submit", _gang("g", "2500m", seconds=12), 0.0),), 6.0),
    # A quota refuses the Job once, when the Service is there already.
    "undo": Scene(
        (_WARM,),
        (
            ("barrier", {"cause": "quota", "namespace": "a", "plural": "jobs", "seconds": 2.0, "dry": False}, 0.0),
            ("submit", _gang("g", "2500m", seconds=12), 0.0),
        ),
        36.0,
    ),
    "eviction": Scene(
        (
            _WARM,
            ("submit", _gang("own", "1", queue="x"), 8.0),
            ("submit", _gang("b1", "1", queue="x"), 8.0),
            ("submit", _gang("b2", "1", queue="x"), 8.0),
        ),
        (("submit", {"namespace": "a", "name": "owner", "jobs": [{"pods": 4, "cpu": "1"}], "queue": "y"}, 0.0),),
        8.0,
        tree=_TREE,
        rival={**RIVAL, "jobs": [{"pods": 1, "cpu": "1", "seconds": 5}], "priority": 5},
    ),
    "finish": Scene(
        (_WARM, ("submit", _gang("g", "2500m", seconds=12), 8.0), ("submit", _gang("h", "2500m"), 2.0)), (), 14.0
    ),
    # Another gang ends, and one that has run for long gets its GPUs.
    "grow": Scene(
        (
            _WARM,
            ("submit", _training("full", 4), 8.0),
            ("submit", _training("h", 2, seconds=700), 8.0),
            ("submit", _training("e", 2, 4), 690.0),
        ),
        (),
        12.0,
        rival=_training("rival", 2, seconds=5),
    ),
    "shrink": Scene(
        (_WARM, ("submit", _training("full", 4), 8.0), ("submit", _training("e", 2, 4), 700.0)),
        (("submit", _training("new", 2), 0.0),),
        10.0,
        rival=_training("rival", 2, seconds=5),
        shared=True,
    ),
    # The same while the Job is there: more pods, and larger ones.
    "scale": Scene(
        (
            _WARM,
            ("submit", _training("full", 4), 8.0),
            ("submit", _training("h", 2, seconds=700), 8.0),
            ("submit", _training("e", 2, 4, axis="pods"), 690.0),
        ),
        (),
        12.0,
        rival=_training("rival", 2, seconds=5),
    ),
    "suspend": Scene(
        (
            _WARM,
            ("submit", _training("full", 4), 8.0),
            ("submit", _training("h", 2, seconds=700), 8.0),
            ("submit", _training("e", 2, 4), 690.0),
        ),
        (),
        12.0,
        rival=_training("rival", 2, seconds=5),
        suspends=True,
    ),
    "takeover": Scene(
        (_WARM,),
        (
            ("fault", {"who": "one", "trouble": "kill_after", "methods": "POST", "path": "/a/jobs$", "skip": 1}, 0.0),
            ("submit", _gang("g", "2500m", seconds=25), 1.0),
            ("relieve", {"who": "one", "by": "two"}, 0.0),
        ),
        18.0,
        deputy=True,
    ),
}


class PointRun(Explorer):
    """One scene with trouble at one point."""

    def __init__(self, scene: Scene, kind: Kind | None = None, number: int = 0, seconds: float = 0.0) -> None:
        """The number is that of an event, a write or a ticket, or the bytes of a full batch; None is a quiet scene."""
        self.scene, self.kind, self.number, self.seconds = scene, kind, number, seconds
        self.troubles = {name: WatchTroubles() for name in ("one", "two", "all")}
        dispatchers = tuple((name, None) for name in self.troubles)
        more = AWAY_SECONDS + RETURN_SECONDS if kind in (None, *_RELIEVED) else 0.0
        operations = (*scene.before, ("arm", {}, 0.0), *scene.then, ("wait", {}, scene.seconds + more))
        # Entries stay open for a while.
        pace = 0.8 if kind == "full" else 0.01
        course = Course(1, operations, dispatchers, pod_pace=pace, mirrored=True, tree=scene.tree)
        super().__init__(dataclasses.replace(course, suspends=scene.suspends))
        self.retired = {"two", RELIEF}
        self._reached = False
        self._first = self._last = self._lives = 0

    @property
    def reached(self) -> bool:
        """Whether there was the trouble, and whoever was to feel it did."""
        if self.kind in ("cut_before", "cut_after", "late"):
            return self.armed.reached
        if self.kind == "gone":
            return self.armed.reached and self.armed.expired > 0
        if self.kind == "unseen":
            return self.armed.felt
        if self.kind == "old_mirror":
            return self._reached and self.stage.actors[self.scene.who].dispatcher.lives > self._lives
        return self._reached

    @property
    def armed(self) -> WatchTroubles:
        """The troubles of whoever the scene is about."""
        return self.troubles[self.scene.who]

    def run(self) -> Verdict:
        """What is wrong in the end; reached tells whether there was the trouble."""
        with contextlib.ExitStack() as stack:
            if self.kind == "full":
                self._limit_batch(stack)
            return super().run()

    def _limit_batch(self, stack: contextlib.ExitStack) -> None:
        """Leave the batch so many bytes, and notice when something has to wait for room in it."""
        pack = packing.pack

        def noticed(*arguments: t.Any) -> t.Any:
            packed = pack(*arguments[:4])
            self._reached = self._reached or bool(packed[1])
            return packed

        # The sizes are those of batches that do not name the quota trees they were decided on.
        stack.enter_context(mock.patch.object(start_size, "_QUOTA", ""))
        stack.enter_context(mock.patch.object(packing, "START_BYTES", self.number))
        stack.enter_context(mock.patch.object(packing, "BATCH_BYTES", self.number))
        stack.enter_context(mock.patch.object(cycle_module, "pack", noticed))

    # How dispatchers are run.

    def _start(self, name: str, namespaces: tuple[str, ...] | None) -> None:
        """A process that keeps the Lease for as long as it can."""
        if name in self.retired:
            return
        made = self.stage.start(name, namespaces, mirrored=True)
        made.mirror_settings = {"kind": ServedMirror, "troubles": self.troubles[name]}
        made.ring = self.stage.actors[name]._count_news

    def _quota_replay(self) -> QuotaReplay | None:
        """Trees are seen at most as late as an event."""
        return None if self.scene.tree is None else QuotaReplay(LEASE.seconds + LATE_SECONDS)

    def _restart(self) -> None:
        """Those who are dead for good are forgotten; nobody starts another process meanwhile."""
        for name in [name for name, actor in self.stage.actors.items() if actor.over and name in self.retired]:
            self.stage.kill(name)

    def _heal(self) -> bool:
        """What is written from now on is none of the scene's."""
        self._last = len(self._line.sent)
        return super()._heal()

    # Operations.

    def _wait(self) -> None:
        """Let things happen."""

    def _relieve(self, who: str, by: str) -> None:
        """A process has died, and another one takes its place."""
        assert self.stage.actors[who].over, f"{who} was to die"
        self._replace(who, by)
        self._trouble()

    def _replace(self, who: str, by: str) -> None:
        """One is dead for good, another one begins."""
        self.retired.add(who)
        self.retired.discard(by)
        self._start(by, None)

    def _arm(self) -> None:
        """Have the trouble from now on, or when the deputy is there."""
        if not self.scene.deputy:
            self._trouble()

    def _trouble(self) -> None:
        """Count the events and writes of the process, and choose what happens at one of them."""
        dispatcher = self.stage.actors[self.scene.who].dispatcher
        self._line, self._first = dispatcher.line, len(dispatcher.line.sent)
        self._lives = max(1, dispatcher.lives)
        skip, faults = self.number - 1, dispatcher.line.faults
        if self.kind == "old_mirror":
            faults.append(Fault("call", WRITES, COUNTED, skip, happens=self._freeze))
        elif self.kind == "stray_of_dead":
            faults.append(Fault("kill_late", "POST", TICKETS, skip, seconds=self.seconds, happens=self._die))
        elif self.kind == "stray_of_frozen":
            faults.append(Fault("delay", "POST", TICKETS, skip, seconds=self.seconds, happens=self._freeze))
        elif self.kind == "full":
            for number in range(_ENTRIES):
                self._submit(**_gang(f"small{number}", "100m", seconds=5))
        events = self.kind not in (None, "full", *_RELIEVED)
        self.armed.arm(t.cast(Trouble, self.kind) if events else None, self.number if events else 0, self._strike)

    # What happens at a point.

    def _strike(self) -> None:
        """A rival comes, so that something is to be decided just now."""
        self.stage.clock.after(0.0, lambda: self._submit(**self.scene.rival))

    def _freeze(self) -> None:
        """The process stands still until another one has decided for a while and died; what it mirrored is old then."""
        self._reached = True
        self._strike()
        actor = self.stage.actors[self.scene.who]
        actor.stopped, actor.requests_left = True, 0
        self.armed.silence(AWAY_SECONDS + RETURN_SECONDS / 2)
        self.retired.discard(RELIEF)
        self._start(RELIEF, None)
        self.stage.clock.after(AWAY_SECONDS, self._come_back)

    def _come_back(self) -> None:
        """The relief dies at its next request, and the first one goes on where it stood."""
        self.retired.add(RELIEF)
        self.stage.actors[RELIEF].dispatcher.line.faults.append(Fault("kill_before"))
        self.stage.actors[self.scene.who].stopped = False
        self._submit(**_gang("last", "100m", seconds=5))

    def _die(self) -> None:
        """The process is gone for good, and another one begins."""
        self._reached = True
        self._strike()
        self._replace(self.scene.who, RELIEF)

    def written(self) -> list[str]:
        """What was written of gangs from when the trouble began until the scene was over, in words."""
        scene = self._line.sent[self._first : self._last]
        sent = [item for item in scene if item[0] != "GET" and re.search(COUNTED, item[1])]
        return [f"{method} {_noun(path)}{' dry' if dry else ''}" for method, path, dry in sent]


def _noun(path: str) -> str:
    """What a path is about."""
    plural, _slash, name = path.rpartition("/namespaces/a/")[2].partition("/")
    if plural == "configmaps":
        return "record" if name and not name.startswith("muster-ticket-") else "ticket"
    return plural.removesuffix("s")
