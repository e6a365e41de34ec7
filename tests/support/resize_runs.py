# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs that grow and shrink in a cluster in memory while something goes wrong at one of the writes of that.

A scene is what users do until a gang called e gets another size. A run plays it with one fault; what must never happen
is what the explorer looks for.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import read_state, resize_step
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import progress_name
from ansible_collections.muster.kube.tests.support.explorer import Course, Explorer, Operation
from ansible_collections.muster.kube.tests.support.explorer_quota import Tree
from ansible_collections.muster.kube.tests.support.memory_balance import balance
from ansible_collections.muster.kube.tests.support.memory_cluster import BEGINNING, Change
from ansible_collections.muster.kube.tests.support.memory_controllers import finish
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE
from ansible_collections.muster.kube.tests.support.memory_wire import Fault

Happening = t.Literal["delete_record", "delete_job", "edit", "finish", "unsuspend", "relabel", "stop"]
Method = t.Literal["scale", "suspend", "recreate"]
# How the trainer of a gang answers when it is asked to save.
Trainer = t.Literal["saves", "is silent"]

# A write in words: its method and what it is about. Those of other gangs are none of them.
ABOUT = {
    "lease": r"/leases/dispatch$",
    "record": r"/namespaces/a/configmaps/e$",
    "progress": rf"/namespaces/a/configmaps/{progress_name('e')}$",
    "job": r"/namespaces/a/jobs/e-j0$",
    "ticket": r"/namespaces/a/configmaps/muster-ticket-[0-9a-f]+$",
    # Of what is made the path does not tell the name.
    "a ConfigMap": r"/namespaces/a/configmaps$",
    "a Job": r"/namespaces/a/jobs$",
}
# Saving takes a trainer so long.
SAVING = 3.0
# Longer than a lease.
STANDSTILL = 3 * LEASE.seconds
# Long enough for a takeover and all that follows.
HELD = 60.0


@dataclasses.dataclass(frozen=True)
class Scene:
    """What happens up to the resize and after it; the faults wait from the operation "arm" on.

    writes are those that follow in words when nothing goes wrong; the Lease's are left out.
    """

    operations: tuple[Operation, ...]
    writes: tuple[str, ...]
    suspends: bool = True
    tree: Tree | None = None
    trainer: Trainer | None = None


class ResizeRun(Explorer):
    """A scene with trouble at one of its writes, or without."""

    def __init__(
        self,
        scene: Scene,
        make: t.Callable[[ResizeRun], Fault] | None = None,
        *,
        seed: int = 1,
        dispatchers: t.Sequence[str] = ("all",),
    ) -> None:
        """The fault is made when it is armed; it strikes whichever dispatcher is the first to come to its write."""
        everywhere = tuple((name, None) for name in dispatchers)
        course = Course(seed, scene.operations, everywhere, suspends=scene.suspends, tree=scene.tree, healing=40_000.0)
        super().__init__(course)
        self.make = make
        self.fault: Fault | None = None
        # All requests of all dispatchers since then, in their order.
        self.sent: list[tuple[str, str, bool]] = []
        self._saved = 0.0
        if scene.trainer == "saves":
            self.stage.cluster.listeners.append(self._see_what_is_asked)

    def _arm(self) -> None:
        """The trouble waits for its write from now on."""
        if self.make is not None:
            self.fault = self.make(self)
        for actor in self.stage.actors.values():
            actor.dispatcher.line.sent = self.sent
            if self.fault is not None:
                actor.dispatcher.line.faults.append(self.fault)

    def _balance(self, **options: t.Any) -> None:
        """Somebody runs elastic_balance; while it waits all others go on."""
        balance(self.stage, "balance", **{"wait_timeout": 30.0, **options})

    @property
    def struck(self) -> bool:
        """Whether there was the trouble."""
        return self.fault is None or self.fault.times <= 0

    def written(self) -> list[str]:
        """The writes about gang e and the batch, in words."""
        words = [_words(method, path) for method, path, dry in self.sent if method != "GET" and not dry]
        return [word for word in words if word is not None]

    def state(self) -> dict[str, t.Any]:
        """What the record of the gang says; empty when it is gone."""
        record = self.stage.cluster.get("configmaps", "a", "e")
        text = ((record or {"metadata": {}})["metadata"].get("annotations") or {}).get("muster.kube/state")
        return t.cast("dict[str, t.Any]", json.loads(text or "{}"))

    def step(self) -> str | None:
        """How far the last resize of the gang has come."""
        record = self.stage.cluster.get("configmaps", "a", "e")
        state = None if record is None else read_state(record["metadata"]["annotations"])
        return None if state is None else resize_step(state)

    # What happens just then.

    def happen(self, what: Happening) -> None:
        """A user does something to the gang that is resized, or its dispatcher stands still until others took over."""
        cluster = self.stage.cluster
        job = cluster.get("jobs", "a", "e-j0")
        if what == "stop":
            self._stand_still()
        elif what == "delete_record":
            cluster.remove("configmaps", "a", "e")
        elif what == "edit":
            cluster.change("configmaps", "a", "e", _edit)
        elif job is not None and what == "delete_job":
            self.deeds.deleted.add(job["metadata"]["uid"])
            cluster.remove("jobs", "a", "e-j0")
        elif what == "finish":
            for pod in [pod for pod in cluster.all("pods", "a") if pod["metadata"]["name"].startswith("e-j0")]:
                if pod["status"].get("phase") == "Running":
                    finish(cluster, "a", pod["metadata"]["name"])
        elif what == "unsuspend":
            cluster.change("jobs", "a", "e-j0", lambda copy: copy["spec"].update(suspend=False))
        elif what == "relabel":
            cluster.change("jobs", "a", "e-j0", lambda copy: copy["metadata"].setdefault("labels", {}).update(x="y"))

    def _stand_still(self) -> None:
        """Whoever sends the request stands still with it and goes on long after its lease."""
        next(actor for actor in self.stage.actors.values() if actor.runs_now()).stand_still(STANDSTILL)

    def _see_what_is_asked(self, change: Change) -> None:
        """The trainer saves when its gang's progress says that it is asked to."""
        if change.gone or change.plural != "configmaps" or change.object["metadata"]["name"] != progress_name("e"):
            return
        asked = json.loads((change.object.get("data") or {}).get("asked.json") or "{}").get("save_after")
        if asked is not None and asked > self._saved:
            self._saved = BEGINNING.timestamp() + self.stage.clock.now + SAVING
            self.stage.clock.after(SAVING, self._report)

    def _report(self) -> None:
        """A step that is safely stored."""
        told = {"format": 1, "time": self._saved, "step": 7, "checkpoint": {"time": self._saved, "step": 7}}
        edit = {"report.json": json.dumps(told)}
        self.stage.cluster.change("configmaps", "a", progress_name("e"), lambda raw: raw["data"].update(edit))


def _words(method: str, path: str) -> str | None:
    """A write in words."""
    about = next((word for word, pattern in ABOUT.items() if re.search(pattern, path)), None)
    return None if about is None else f"{method} {about}"


def _edit(record: dict[str, t.Any]) -> None:
    """The gang is to have another argument."""
    data = json.loads(record["data"]["gang.json"])
    data["objects"][0]["spec"]["template"]["spec"]["containers"][0]["args"] = ["edited"]
    record["data"]["gang.json"] = json.dumps(data)


def gang(name: str, gpus: int, *, seconds: float | None = None, **elastic: t.Any) -> dict[str, t.Any]:
    """A gang of one Job; with a range it is one that may have another size at any moment, or when it has saved."""
    job: dict[str, t.Any] = {"pods": 1, "cpu": "100m", "gpus": gpus}
    if seconds is not None:
        job["seconds"] = seconds
    made: dict[str, t.Any] = {"namespace": "a", "name": name, "jobs": [job]}
    terms = {name: elastic.pop(name) for name in ("timing", "checkpoint_timeout", "cooldown") if name in elastic}
    if elastic:
        made["elastic"] = {"range": elastic, "timing": "now", "cooldown": 0, "restart_cost": 0, **terms}
    if elastic.get("axis") == "pods":
        job.update(pods=elastic["min"], gpus=1)
    return made


def at_write(word: str, occurrence: int, trouble: t.Any, **more: t.Any) -> Fault:
    """A fault at the nth write of these words."""
    method, _space, about = word.partition(" ")
    return Fault(trouble, method, ABOUT[about], occurrence - 1, dry=False, **more)
