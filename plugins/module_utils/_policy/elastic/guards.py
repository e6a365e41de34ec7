# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons to leave a running job as it is, although a policy would resize it."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob, SizeStep

Guard = t.Literal[
    "busy",
    "cooldown",
    "no_checkpoint",
    "near_end",
    "not_worth",
    "not_measured",
    "queued_work",
    "too_many",
    "no_gain",
    "quota",
]


@dataclasses.dataclass(frozen=True, slots=True)
class SizeTerms:
    """When a resize is worth its cost.

    worth is how many times its cost a resize has to save. near_end is the part of the work that is too little to be
    worth it. most_resizes is how many running jobs may be resized at a time, those that first wait for a checkpoint not
    counted; None for any number. A gang that has waited for longer than patience is not passed by those behind it.
    """

    worth: float = 3.0
    near_end: float = 0.05
    most_resizes: int | None = 4
    patience: float = 3600.0


def untouchable(job: ElasticJob, now: float, terms: SizeTerms) -> Guard | None:
    """Why a running job is not resized now, in whatever direction; None if it may be."""
    if job.busy is not None or job.target is not None:
        return "busy"
    if job.resized is not None and now - job.resized <= job.cooldown:
        return "cooldown"
    if job.timing == "at_checkpoint" and job.missed is not None and (job.checkpointed or -math.inf) <= job.missed:
        return "no_checkpoint"
    if job.share is not None and 1 - job.share < terms.near_end:
        return "near_end"
    return None


def growth_guard(step: SizeStep, terms: SizeTerms) -> Guard | None:
    """Why a running job does not grow to a size; None if it may."""
    job = step.job
    if job.speed(step.to) <= job.speed(step.size):
        return "no_gain"
    if step.to > job.curve.trusted(job.size):
        return "not_measured"
    return "not_worth" if step.saved <= terms.worth * job.restart else None


def shrink_guard(step: SizeStep, terms: SizeTerms) -> Guard | None:
    """Why a running job does not shrink for another: it ends before that would be worth it."""
    return "not_worth" if step.job.left(step.size) <= terms.worth * step.job.restart else None
