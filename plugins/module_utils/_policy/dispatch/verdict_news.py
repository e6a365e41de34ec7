# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is news about a waiting gang: when its verdict is worth telling, or writing into its record."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

# Numbers that changed but mean the same are written no more often than this.
VERDICT_SECONDS = 60.0


def worth_writing(told: Data | None, verdict: Data, now: float) -> bool:
    """Whether a record should carry the new verdict: another answer, layer or short resource, or old numbers."""
    if told is None or _gist(told) != _gist(verdict):
        return True
    written = read_time(told.get("decided_at")) or 0.0
    before = {key: value for key, value in told.items() if key != "decided_at"}
    return before != verdict and now - written > VERDICT_SECONDS


def _gist(verdict: Data) -> tuple[t.Any, ...]:
    """What a reader has to know at once."""
    listed = verdict.get("layers")
    layers = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    failing = [layer.get("layer") for layer in layers if not layer.get("passed")]
    short = {name for layer in layers for name in _short(layer.get("totals"))}
    return verdict.get("answer"), verdict.get("reason"), tuple(failing), tuple(sorted(short))


def _short(totals: t.Any) -> list[str]:
    """The resources that are short; what a record says can be written by anybody who may edit it."""
    amounts = totals.items() if isinstance(totals, Mapping) else ()
    return [name for name, total in amounts if isinstance(total, Mapping) and total.get("short") not in (None, "0")]


def gist_of_verdict(verdict: Verdict) -> tuple[t.Any, ...]:
    """The same of a verdict that was not written out yet, which takes longer than most verdicts themselves."""
    short = tuple(sorted(name for name, total in verdict.totals.items() if total.short))
    quota = None if verdict.quota is None else (verdict.quota.passed, tuple(sorted(verdict.quota.short)))
    return verdict.answer, verdict.reason, verdict.detail, verdict.space.passed, short, quota
