# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what elastic_job_info and gang_info return to the rows of an allocation.

Sizes are those that a record noted. What its timeline tells besides, as of times of a version that noted none, is held
or not held, but nobody knows at which size.
"""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Collection, Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.report.allocation.pods import read_others
from ansible_collections.muster.kube.plugins.module_utils._flow.report.reading import (
    capacity_of,
    demand_of,
    gang_key,
    moment_of,
    read_at,
    words_of,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    FINISHED_PHASES,
    PHASES,
    STARTED_PHASES,
    UNDOING,
    WAITING_PHASES,
    Phase,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report.allocation import (
    Allocation,
    JobRow,
    NotedResize,
    NotedSize,
    ResizeEnd,
    TrainingRow,
    holdings,
    resize_rows,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Fields, finite_number

_MOST = 2**53
# In the names of resources that a gang of fixed size holds.
_GPU = "gpu"
_Steps = Sequence[tuple[float, Phase]]


def read_allocation(data: Mapping[str, t.Any], where: str) -> Allocation:
    """A section from the user's values; where names it in complaints."""
    section = Fields(data, where)
    entries = [Fields(entry, f"{where}.jobs[{place}]") for place, entry in enumerate(section.sequence("jobs"))]
    steps = [_steps(entry) for entry in entries]
    noted = [_noted(entry, found) for entry, found in zip(entries, steps, strict=True)]
    as_of = read_at(entries) if section.get("as_of") in (None, "") else moment_of(section, "as_of")
    moments = [item.at for items in noted for item in items] + [at for found in steps for at, _phase in found]
    until = max([*moments, *([] if as_of is None else [as_of])], default=None)
    first = min(moments, default=None)
    jobs = [_job(*each, until or 0.0) for each in zip(entries, steps, noted, strict=True)]
    jobs.sort(key=lambda job: (_beginning(job), job.full_name))
    ids = {entry.get("uid") for entry in entries}
    others = () if until is None else read_others(section, {str(uid) for uid in ids if uid}, until)
    resources = {job.resource for job in jobs}
    return Allocation(
        title=words_of(section, "title") or "GPUs over time",
        jobs=tuple(jobs),
        others=tuple(pod for pod in others if pod.resource in resources),
        as_of=as_of,
        capacity=capacity_of(section),
        first=first,
        until=until,
    )


def _beginning(job: JobRow) -> float:
    """When anything is first known of a job; one that was never dated comes last."""
    return min([*(start for start, _end in job.waits), *(item.start for item in job.held)], default=float("inf"))


def _steps(entry: Fields) -> _Steps:
    """The transitions that are known."""
    items = [Fields(item, f"{entry.where}.timeline[{place}]") for place, item in enumerate(entry.sequence("timeline"))]
    return [(moment_of(item, "at"), item.choice("phase", PHASES, None)) for item in items]


def _noted(entry: Fields, steps: _Steps) -> list[NotedSize]:
    """What the record noted of sizes, and from the timeline what it did not; of gangs of fixed size all of it."""
    told = [
        _noted_size(Fields(item, f"{entry.where}.sizes[{place}]")) for place, item in enumerate(entry.sequence("sizes"))
    ]
    fixed = None if _range(entry) is not None else demand_of(entry).get(_resource(entry))
    known, found = {item.at for item in told}, list(told)
    # Of what was before the first transition that is known, sizes may be known all the same.
    earlier = [item for item in told if steps and item.at <= steps[0][0]]
    was = bool(earlier and earlier[-1].size)
    for at, phase in steps:
        started = phase in STARTED_PHASES
        if at not in known and started and (not was or phase == "rescaling"):
            found.append(NotedSize(at, None, fixed))
        elif at not in known and was and not started:
            found.append(NotedSize(at, 0, 0))
        was = started
    return sorted(found, key=lambda item: item.at)


def _noted_size(item: Fields) -> NotedSize:
    """One entry of what was noted; a size whose GPUs are not told is one of which they are unknown."""
    size = item.whole("size", 0, INT32, required=True)
    gpus = item.whole("gpus", 0, _MOST) if item.get("gpus") is not None else None
    resize = None if item.get("resize") is None else Fields(item.mapping("resize"), f"{item.where}.resize")
    begun = None if resize is None else _noted_resize(resize)
    return NotedSize(moment_of(item, "at"), size, gpus if size else 0, item.flag("running"), begun)


def _noted_resize(resize: Fields) -> NotedResize:
    """A resize as it was begun."""
    size, to = (resize.whole(key, 1, INT32, required=True) for key in ("from", "to"))
    return NotedResize(size, to, words_of(resize, "method"), words_of(resize, "why"), resize.number("lost_seconds"))


def _range(entry: Fields) -> Fields | None:
    """The range of a job; None for a gang of fixed size. elastic_job_info and gang_info tell it in two places."""
    told = entry.get("range")
    if told is None and isinstance(entry.get("spec"), Mapping):
        told = entry.mapping("spec").get("elastic")
    return None if told is None else Fields(told, f"{entry.where}: range")


def _resource(entry: Fields) -> str:
    """Which GPUs are meant; empty where a gang asks for none."""
    range_ = _range(entry)
    if range_ is not None:
        return words_of(range_, "resource")
    return next((name for name in sorted(demand_of(entry)) if "/" in name and _GPU in name), "")


def _job(entry: Fields, steps: _Steps, noted: Sequence[NotedSize], until: float) -> JobRow:
    """One job with all that is told of it."""
    namespace, name = gang_key(entry)
    range_ = _range(entry)
    phase = entry.choice("phase", PHASES, steps[-1][1] if steps else "queued")
    resizes = resize_rows(noted, open_end=_open_end(entry, phase))
    training = _training(entry)
    return JobRow(
        name=name,
        namespace=namespace,
        queue=words_of(entry, "queue"),
        phase=phase,
        resource=_resource(entry),
        held=holdings(noted, until),
        sizes=() if range_ is None else _sizes(range_),
        size=_size(entry, phase),
        waits=_within(steps, WAITING_PHASES, until),
        endings=(*_within(steps, UNDOING, until), *_taken_back(noted)),
        resizes=resizes,
        plan=_plan(entry),
        restarts=None if entry.get("restarts") is None else entry.whole("restarts", 0, INT32),
        lost_seconds=_lost([row.begun.lost_seconds for row in resizes], training),
        training=training,
        ended=steps[-1][0] if steps and steps[-1][1] in FINISHED_PHASES else None,
    )


def _size(entry: Fields, phase: Phase) -> int | None:
    """The size that a job has now; None for one that has none."""
    held = phase in STARTED_PHASES and entry.get("allotment") is not None
    return entry.whole("allotment", 1, INT32) if held else None


def _sizes(range_: Fields) -> tuple[int, ...]:
    """The sizes that a job may have."""
    sizes = range_.sequence("sizes")
    if not all(isinstance(size, int) and not isinstance(size, bool) and 0 < size < INT32 for size in sizes):
        raise range_.fail("sizes", "whole numbers above 0 are needed")
    return tuple(sorted(sizes))


def _within(steps: _Steps, phases: Collection[Phase], until: float) -> tuple[tuple[float, float], ...]:
    """The stretches in which a job was in some phases."""
    ends = [*(at for at, _phase in steps[1:]), until]
    return tuple((at, max(at, end)) for (at, phase), end in zip(steps, ends, strict=False) if phase in phases)


def _taken_back(noted: Sequence[NotedSize]) -> Iterable[tuple[float, float]]:
    """The stretches in which a job was taken back for another size, those of forgotten transitions too."""
    for item, after in itertools.pairwise(noted):
        if item.resize is not None and after.size == 0:
            yield item.at, max(item.at, after.at)


def _last_resize(entry: Fields) -> Fields | None:
    """The last resize as results tell it."""
    return None if entry.get("resize") is None else Fields(entry.mapping("resize"), f"{entry.where}: resize")


def _open_end(entry: Fields, phase: Phase) -> ResizeEnd:
    """What became of a resize whose end nobody noted."""
    last = _last_resize(entry)
    if phase in FINISHED_PHASES or (last is not None and last.get("step") == "parked"):
        return "given up"
    return "under way" if phase != "running" else "unknown"


def _plan(entry: Fields) -> str:
    """A change of size that waits for a checkpoint, in words."""
    last = _last_resize(entry)
    if last is None or last.get("step") not in ("planned", "missed"):
        return ""
    sizes = f"{words_of(last, 'from')} → {words_of(last, 'to')}"
    return f"{sizes} planned" if last.get("step") == "planned" else f"{sizes} missed: no checkpoint came"


def _lost(known: Sequence[float], training: TrainingRow | None) -> float | None:
    """The work that resizes threw away; 0 means nothing where no trainer told how far it is."""
    return sum(known) if training is not None or any(known) or not known else None


def _training(entry: Fields) -> TrainingRow | None:
    """How far its training is; None where nobody told."""
    if entry.get("progress") is None:
        return None
    told = Fields(entry.mapping("progress"), f"{entry.where}.progress")
    step, total = (None if told.get(key) is None else told.whole(key, 0, _MOST) for key in ("step", "total"))
    speeds = {_whole_key(told, size): finite_number(speed) for size, speed in told.mapping("speeds").items()}
    saved = [Fields(item, f"{told.where}.checkpoints[{at}]") for at, item in enumerate(told.sequence("checkpoints"))]
    return TrainingRow(
        step=step,
        total=total,
        share=None if told.get("share") is None else min(1.0, told.number("share")),
        speeds={size: speed for size, speed in sorted(speeds.items()) if speed is not None},
        saved=tuple((moment_of(item, "time"), item.whole("step", 0, _MOST)) for item in saved),
    )


def _whole_key(told: Fields, size: t.Any) -> int:
    """A size that is the key of a mapping, which JSON makes a text."""
    text = str(size)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise told.fail(f"speeds.{text}", "its key must be a size")
    return int(text)
