# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind checkpoint: a training's step and its safely stored work are told, and whether to save now."""

from __future__ import annotations

import dataclasses
import difflib

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.reported import (
    progress_data,
    tell_progress,
    told_time,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.planned import answer_time
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    DISPATCHED_PHASES,
    GangState,
    told_resize,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.checkpoint_wait import asked_after
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records, read_record

# The server's clock is known to whole seconds.
_AHEAD = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """What is told of which gang; None where nothing is."""

    name: str
    namespace: str
    step: int | None = None
    total: int | None = None
    size: int | None = None
    saved: bool = False
    completed: bool = False
    time: str | None = None
    check_mode: bool = False

    def __post_init__(self) -> None:
        """Refuse what makes no sense whatever the cluster says."""
        for name, number in (("step", self.step), ("total_steps", self.total)):
            if number is not None and not 0 <= number < 2**53:
                raise BadInput("read", name, f"{number} is no number of steps")
        if self.step is None and (self.saved or self.total is not None):
            given = "saved" if self.saved else "total_steps"
            raise BadInput("read", "step", f"it is missing; {given} tells nothing without it")

    @property
    def gang(self) -> str:
        """The gang in words."""
        return f"gang {self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """The gang that is told of, while it runs: its state and the size that it has."""

    record: Record
    state: GangState
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class CheckpointAnswer:
    """What is known of a training now, and before."""

    options: CheckpointOptions
    state: GangState
    size: int
    before: Progress
    after: Progress
    warnings: tuple[str, ...] = ()

    def as_result(self, *, diff: bool) -> Data:
        """The keys of the task's result."""
        told = {
            "changed": self.after != self.before,
            "allotment": self.size,
            "progress": progress_data(self.after),
            "resize": told_resize(self.state),
            "save_now": asked_after(self.state.planned, self.after) is not None,
            "warnings": list(self.warnings),
        }
        if not diff:
            return told
        header = f"progress of {self.options.gang}"
        parts = {"before": progress_data(self.before), "after": progress_data(self.after)}
        return {**told, "diff": {"before_header": header, "after_header": header, **parts}}


def run_checkpoint(client: KubeClient, options: CheckpointOptions) -> CheckpointAnswer:
    """Tell of a training; what was told before changes nothing and writes nothing."""
    running = _running(client, options)
    time = _moment(options, ServerClock(client).stamp())
    told = tell_progress(
        client, running.record, time, lambda known: _told(options, running, known, time), check_mode=options.check_mode
    )
    return CheckpointAnswer(options, running.state, running.size, told.before, told.after, told.warnings)


def _running(client: KubeClient, options: CheckpointOptions) -> Running:
    """The gang, if it is elastic and runs."""
    record = read_record(client, "configmap", options.namespace, options.name)
    if record is None:
        raise BadInput("report progress of", options.gang, f"there is no such gang{_nearest(client, options)}")
    if record.spec is None:
        raise BadInput("report progress of", options.gang, record.newer or record.unreadable)
    if record.spec.elastic is None:
        raise BadInput("report progress of", options.gang, "it is not elastic; only those have sizes and progress")
    state = record.state
    if state is None or record.phase not in DISPATCHED_PHASES or state.allotment is None:
        raise BadInput("report progress of", options.gang, f"it does not run, it is {record.phase}")
    size = state.allotment if options.size is None else options.size
    sizes = record.spec.elastic.range.sizes
    if size not in sizes and size != state.allotment:
        allowed = ", ".join(map(str, sizes))
        raise BadInput("report progress of", options.gang, f"size: {size} is none of the allowed sizes {allowed}")
    return Running(record, state, state.allotment)


def _nearest(client: KubeClient, options: CheckpointOptions) -> str:
    """The gang that may have been meant."""
    try:
        names = [record.name for record in Records(client).list([options.namespace], ["configmap"])]
    except Forbidden:
        return ""
    near = difflib.get_close_matches(options.name, names, 1, 0.5)
    return f"; did you mean {near[0]}?" if near else ""


def _moment(options: CheckpointOptions, now: float) -> float:
    """When it was, by the server's clock; a time in the future is refused."""
    if options.time is None:
        return now
    told = read_time(options.time)
    if told is None:
        raise BadInput("read", "time", f"{options.time!r} is no time; write it as 2026-01-01T00:00:00Z")
    if told > now + _AHEAD:
        raise BadInput("read", "time", f"{options.time} has not come yet; for the API server it is {told_time(now)}")
    return told


def _told(options: CheckpointOptions, running: Running, known: Progress, time: float) -> Progress:
    """What is known after this report."""
    total = known.total if options.total is None else options.total
    if options.step is not None and total is not None and options.step > total:
        cause = f"step: {options.step} is more than the total of {total}"
        raise BadInput("report progress of", options.gang, cause)
    told = known
    if options.step is not None:
        told = told.at_step(time, options.step, options.size or running.size, options.total)
    if options.step is not None and options.saved:
        plan = running.state.planned
        answers = plan is not None and plan.waits and options.time is None
        if plan is not None and answers:
            time = answer_time(plan.asked, time)
        told = told.at_checkpoint(time, options.step, answers=answers)
    return told.at_end() if options.completed else told
