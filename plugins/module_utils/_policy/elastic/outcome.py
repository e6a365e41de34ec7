# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a decision about sizes came to: for each job its size and why, for each idle GPU why nobody has it."""

from __future__ import annotations

import dataclasses
import functools
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import Capacity
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import Guard
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import Score

# What happens to a job, or what keeps it as it is.
SizeReason = t.Literal["starts", "grows", "shrinks", "waits", "behind", "at_max", "no_room", Guard]
IdleReason = t.Literal["no_jobs", "too_few", SizeReason]
# When that is: at once, as soon as the training has saved its work, or once others have made room.
When = t.Literal["now", "at_checkpoint", "after_others"]

# Of several reasons for an idle GPU the first one that some job has is told.
_TOLD: tuple[SizeReason, ...] = (
    "no_room",
    "too_many",
    "busy",
    "cooldown",
    "no_checkpoint",
    "not_measured",
    "not_worth",
    "near_end",
    "quota",
    "no_gain",
    "at_max",
)


@dataclasses.dataclass(frozen=True, slots=True)
class SizeDecision:
    """One job: the size it had or was on its way to (0: it waited), the one it is to have, its score, and why.

    when is None where nothing changes. for_uid is the gang that it shrinks for, or that it may not pass in the queue.
    wanted is the next size it could not get.
    """

    uid: str
    before: int
    size: int
    reason: SizeReason
    when: When | None = None
    score: Score | None = None
    for_uid: str | None = None
    wanted: int | None = None

    @property
    def changes(self) -> bool:
        """Whether anything is to be done."""
        return self.size != self.before


@dataclasses.dataclass(frozen=True, slots=True)
class IdleGpus:
    """GPUs of one place that nobody gets, why, and the jobs of which that is true."""

    place: str
    count: int
    reason: IdleReason
    jobs: tuple[str, ...] = ()


class SizeDecisions(Mapping[str, SizeDecision]):
    """What became of each job by uid, put into words once somebody asks: of most jobs nobody does."""

    def __init__(self, uids: Sequence[str], decide: Callable[[str], SizeDecision]) -> None:
        """Take the jobs in the order in which they are told, and how to find out about one."""
        self._uids, self._decide = uids, decide
        self._known: dict[str, SizeDecision] = {}

    def __getitem__(self, uid: str) -> SizeDecision:
        """The decision about one job."""
        known = self._known.get(uid)
        if known is None:
            known = self._known[uid] = self._decide(uid)
        return known

    def __iter__(self) -> Iterator[str]:
        """The uids of all jobs."""
        return iter(self._uids)

    def __len__(self) -> int:
        return len(self._uids)


@dataclasses.dataclass(frozen=True)
class SizePlan:
    """All jobs by uid, and what is free once all of it is done.

    sizes are those of all jobs, 0 for those that wait. changed are the jobs of which anything is to be done.
    """

    decisions: Mapping[str, SizeDecision]
    sizes: Mapping[str, int]
    changed: Sequence[str]
    capacity: Capacity = dataclasses.field(compare=False)

    @functools.cached_property
    def idle(self) -> tuple[IdleGpus, ...]:
        """The GPUs that are left, and why nobody has them."""
        return idle_gpus(self.capacity, list(self.decisions.values()))

    @property
    def changes(self) -> tuple[SizeDecision, ...]:
        """What is to be done, shrinks first: others need their room."""
        changed = [self.decisions[uid] for uid in self.changed]
        return tuple(sorted(changed, key=lambda decision: (decision.size > decision.before, decision.uid)))


def idle_gpus(capacity: Capacity, decisions: Sequence[SizeDecision]) -> tuple[IdleGpus, ...]:
    """A reason for each GPU that nobody gets."""
    reason, jobs = next(_reasons(decisions))
    return tuple(IdleGpus(place, count, reason, jobs) for place, count in capacity.idle.items())


def _reasons(decisions: Sequence[SizeDecision]) -> Iterator[tuple[IdleReason, tuple[str, ...]]]:
    """The reasons that apply, the first one first: gangs that wait need more than there is, or no job may take it."""
    waiting = tuple(item.uid for item in decisions if not item.size)
    if waiting:
        yield "too_few", waiting
    kept = [(item.uid, _kept_by(item)) for item in decisions if item.size]
    for reason in _TOLD:
        jobs = tuple(uid for uid, its in kept if its == reason)
        if jobs:
            yield reason, jobs
    yield "no_jobs", ()


def _kept_by(decision: SizeDecision) -> SizeReason:
    """Why a job has no more: what changes now is not changed a second time."""
    if not decision.changes:
        return decision.reason
    return "at_max" if decision.wanted is None else "cooldown" if decision.size < decision.before else "no_room"
