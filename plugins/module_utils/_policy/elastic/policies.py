# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who gets GPUs that are free: one table of policies, each a pure function of the steps that are possible."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob, SizeStep

# The larger, the earlier; compared part by part.
Score = tuple[float, ...]
# What a shrink does to a job; of different jobs never the same.
Harm = tuple[float, float, float, str]
Scored = Callable[[SizeStep, float], Score]
PolicyName = t.Literal[
    "latest_checkpoint",
    "least_progress",
    "shortest_remaining",
    "marginal_gain",
    "relative_speedup",
    "afs",
    "max_min",
    "attained_service",
    "deadline",
]


def _latest_checkpoint(step: SizeStep, _now: float) -> Score:
    """Whose work is safest."""
    return (-math.inf if step.job.checkpointed is None else step.job.checkpointed,)


def _least_progress(step: SizeStep, _now: float) -> Score:
    """Who has done the smallest part of its work; those of which nobody knows come last."""
    return (-math.inf if step.job.share is None else -step.job.share,)


def _shortest_remaining(step: SizeStep, _now: float) -> Score:
    return (-step.job.left(step.size),)


def _marginal_gain(step: SizeStep, _now: float) -> Score:
    """Who ends earlier by most, for each GPU."""
    return (step.saved / max(1, step.gpus),)


def _relative_speedup(step: SizeStep, _now: float) -> Score:
    return (step.speedup,)


def _max_min(step: SizeStep, _now: float) -> Score:
    """Who has the smallest part of its range."""
    range_ = step.job.range
    return (-(step.size - range_.min) / max(1, range_.max - range_.min),)


def _attained_service(step: SizeStep, _now: float) -> Score:
    return (-step.job.attained,)


def _deadline(step: SizeStep, now: float) -> Score:
    """Who would be late as it is but not at its largest size, the most urgent first; then by gain."""
    job = step.job
    if job.deadline is not None and now + job.left(job.range.max) <= job.deadline < now + job.left(step.size):
        return 1.0, -job.deadline
    return 0.0, *_marginal_gain(step, now)


def _efficiency(step: SizeStep, _now: float) -> Score:
    """The part of the new speed that the step brings; what AFS compares."""
    return (_gained(step, step.to),)


def _gained(step: SizeStep, base: int) -> float:
    """The gain in speed of a step for each GPU, relative to the speed at a size."""
    job = step.job
    return (job.speed(step.to) - job.speed(step.size)) / job.speed(base) / max(1, step.gpus)


@dataclasses.dataclass(frozen=True, slots=True)
class RankedStep:
    """A step with all that it is compared by, so that this is worked out once.

    key is smallest for whoever is first. left is how long the job lasts without the step. gains are what the step adds
    to the speed for each GPU, as a part of the speed before it and after it.
    """

    step: SizeStep
    key: tuple[t.Any, ...]
    left: float
    gains: tuple[float, float]


def _first(steps: Sequence[RankedStep]) -> RankedStep:
    """The step of the best score; then the one that speeds up most, and whoever came first."""
    return min(steps, key=operator.attrgetter("key"))


def _afs(steps: Sequence[RankedStep]) -> RankedStep:
    """Of two jobs the shorter one, unless the longer one makes more of it (AFS-L, NSDI'21).

    The relation is not transitive, so the jobs are compared in one fixed order, from the shortest on.
    """
    return functools.reduce(_rather, sorted(steps, key=lambda item: (item.left, item.step.job.order)))


def _rather(short: RankedStep, long: RankedStep) -> RankedStep:
    """Which one of two; none of two that last as long, or of which nobody knows, has an advantage."""
    return long if long.gains[long.left != short.left] > short.gains[0] else short


@dataclasses.dataclass(frozen=True, slots=True)
class SizePolicy:
    """How steps are scored, and which one of several is taken; the order in which they are given is irrelevant."""

    score: Scored
    choose: Callable[[Sequence[RankedStep]], RankedStep] = _first

    def rank(self, step: SizeStep, now: float) -> RankedStep:
        """A step ready to be compared."""
        key = (*(-part for part in self.score(step, now)), -step.speedup, step.job.order)
        return RankedStep(step, key, step.job.left(step.size), (_gained(step, step.size), _gained(step, step.to)))


POLICIES: Mapping[PolicyName, SizePolicy] = {
    "latest_checkpoint": SizePolicy(_latest_checkpoint),
    "least_progress": SizePolicy(_least_progress),
    "shortest_remaining": SizePolicy(_shortest_remaining),
    "marginal_gain": SizePolicy(_marginal_gain),
    "relative_speedup": SizePolicy(_relative_speedup),
    "afs": SizePolicy(_efficiency, _afs),
    "max_min": SizePolicy(_max_min),
    "attained_service": SizePolicy(_attained_service),
    "deadline": SizePolicy(_deadline),
}


def harm(step: SizeStep) -> Harm:
    """What a shrink does to its job, the smaller the better.

    First by how much it slows the job down for each GPU, then how safe its work is, then how new it is.
    """
    job: ElasticJob = step.job

    def found() -> Harm:
        saved = -math.inf if job.checkpointed is None else job.checkpointed
        return -step.speedup, -saved, -job.submitted, job.uid

    return job.noted(("harm", step.size, step.to), found)


def least_harm(job: ElasticJob) -> Harm:
    """The least that any shrink does to a job."""
    sizes = [size for size in job.range.sizes if size < job.size]
    return job.noted("least harm", lambda: min(harm(SizeStep(job, job.size, size)) for size in sizes))
