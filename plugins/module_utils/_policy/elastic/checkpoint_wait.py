# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of a resize that waits for a checkpoint: it is planned, kept, dropped, given up or carried out."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.planned import ResizePlan, saved_before
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.terms import ElasticTerms, Timing
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.timing import (
    CLOCKS_DIFFER,
    LONGEST_WAIT,
    longest_wait,
    lost_seconds,
    resize_moment,
)

# A checkpoint is used so long after it was reported.
SETTLE = 1.0


class Wanted(t.NamedTuple):
    """A change of size that the policies want now, and for whom."""

    size: int
    to: int
    why: str
    asker: str | None = None


class Wait(t.NamedTuple):
    """The plan as it is to be from now on, whether it is carried out, and when time alone may change that."""

    plan: ResizePlan | None
    goes: bool = False
    look: float | None = None


def for_owners(terms: ElasticTerms) -> ElasticTerms:
    """The terms of a gang that gives back what it borrowed: its owner does not wait for longer than is usual.

    A borrower that sets a limit of years would keep what it has.
    """
    timeout = terms.checkpoint_timeout
    short = timeout is None or timeout <= LONGEST_WAIT
    return terms if short else dataclasses.replace(terms, checkpoint_timeout=LONGEST_WAIT)


def go_on_waiting(
    plan: ResizePlan | None,
    wanted: Wanted | None,
    terms: ElasticTerms,
    progress: Progress,
    now: float,
    *,
    of_others: bool = False,
) -> Wait:
    """What becomes of the plan of a gang; plan is the one it has, wanted what the policies want of it now.

    Whatever is wanted by now is what a checkpoint leads to: the trainer is asked once for all of it. A plan of_others
    is one that this run cannot judge, since the gang that it is made for is not one of its own: it is left as it is.
    """
    if wanted is None and of_others:
        return Wait(plan)
    if wanted is None:
        # That nothing came for the last one is remembered until there is another.
        return Wait(plan if plan is not None and not plan.waits else None)
    if plan is None or not plan.waits or plan.asked > now + CLOCKS_DIFFER:
        # One that is told of a moment ahead was not written by us.
        at = micro_time_text(int(_asks_since(plan, progress, now) * 1_000_000))
        plan = ResizePlan(wanted.size, wanted.to, wanted.why, at, asker=wanted.asker)
        return Wait(plan, look=_ends(plan, terms, progress))
    plan = dataclasses.replace(plan, size=wanted.size, to=wanted.to, why=wanted.why, asker=wanted.asker)
    moment = resize_moment(
        "at_checkpoint",
        progress,
        plan.asked,
        now,
        timeout=terms.checkpoint_timeout,
        settle=SETTLE,
        otherwise="go" if terms.on_timeout == "now" else "give_up",
    )
    if moment == "give_up":
        return Wait(dataclasses.replace(plan, missed=micro_time_text(int(now * 1_000_000))))
    settled = [item.time + SETTLE for item in progress.checkpoints if item.time > plan.asked]
    return Wait(plan, moment == "go", None if moment == "go" else min([*settled, _ends(plan, terms, progress)]))


def _asks_since(missed: ResizePlan | None, progress: Progress, now: float) -> float:
    """Since when a new plan asks; what was saved just now, too late for the last one, counts for this one."""
    saved = progress.checkpoint
    return saved_before(saved.time) if missed is not None and saved is not None and now - saved.time < SETTLE else now


def is_saved(plan: ResizePlan, progress: Progress) -> bool:
    """Whether a checkpoint has come for a plan."""
    return progress.checkpoint is not None and progress.checkpoint.time > plan.asked


def asked_after(plan: ResizePlan | None, progress: Progress) -> float | None:
    """The moment after which a checkpoint is asked for; None where none is, or it is there."""
    return plan.asked if plan is not None and plan.waits and not is_saved(plan, progress) else None


def lost_by(timing: Timing, plan: ResizePlan | None, progress: Progress, *, ran: float, now: float) -> float:
    """How many seconds of work a resize throws away that is carried out now; one without its checkpoint too."""
    waited = timing == "at_checkpoint" and plan is not None and is_saved(plan, progress)
    saved = None if progress.checkpoint is None else progress.checkpoint.time
    return lost_seconds("now" if timing == "at_checkpoint" and not waited else timing, saved, ran, now)


def _ends(plan: ResizePlan, terms: ElasticTerms, progress: Progress) -> float:
    """When a checkpoint is not waited for any longer."""
    timeout = terms.checkpoint_timeout
    return plan.asked + (longest_wait(progress) if timeout is None else timeout) + SETTLE
