# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A resize that waits for a checkpoint, as the state of its gang remembers it; nothing is reserved for it yet."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, Fields, without_none
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

# Why a plan changed, in one word.
PLANNED = "Planned"
PLAN_DROPPED = "PlanDropped"
NO_CHECKPOINT = "NoCheckpoint"
# Clocks are compared that are read from whole seconds: what was saved before the plan was made may seem so much later.
_SLACK = 1.0
# What was saved since the trainer was asked counts as saved so long after the question, whatever the clocks say.
_AFTER = 1e-3


@dataclasses.dataclass(frozen=True, slots=True)
class ResizePlan:
    """From which size to which, why, and since when the trainer is asked to save.

    missed is when the plan was given up since no checkpoint came; the gang is left alone until it has saved again.
    asker is the uid of the gang that it shrinks for.
    """

    size: int
    to: int
    why: str
    since: str
    missed: str | None = None
    asker: str | None = None

    @property
    def waits(self) -> bool:
        """Whether it still waits for a checkpoint."""
        return self.missed is None

    @property
    def asked(self) -> float:
        """A checkpoint after this moment is one for the plan, in seconds since 1970; who answers names it."""
        return (read_time(self.since) or 0.0) + _SLACK

    @property
    def missed_at(self) -> float | None:
        """When it was given up, in seconds since 1970; None for one that was not."""
        return read_time(self.missed)

    def as_data(self) -> Data:
        """Plain values from which read_plan makes the same again."""
        told = {"from": self.size, "to": self.to, "why": self.why, "since": self.since}
        return without_none({**told, "missed": self.missed, "for": self.asker})


def answer_time(asked: float, saved: float) -> float:
    """The time of a checkpoint after which nothing was done before the question was heard."""
    return max(saved, asked + _AFTER)


def saved_before(saved: float) -> float:
    """Since when a plan has to ask for which a checkpoint of this time counts."""
    return saved - _SLACK - _AFTER


def read_plan(value: t.Any, where: str) -> ResizePlan:
    """A plan of plain values; BadInput tells what is wrong with them."""
    fields = Fields(value, where)
    since, missed = fields.required_text("since"), fields.text("missed")
    for key, moment in (("since", since), ("missed", missed)):
        if moment is not None and read_time(moment) is None:
            raise fields.fail(key, f"{moment} is no time")
    sizes = [fields.whole(key, 1, INT32 - 1, required=True) for key in ("from", "to")]
    return ResizePlan(sizes[0], sizes[1], fields.text("why") or "", since, missed, fields.text("for"))
