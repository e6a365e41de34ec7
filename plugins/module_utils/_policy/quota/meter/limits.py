# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What keeps gangs waiting besides amounts of quota: spent budgets, what their users have, and what records tell."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import ReachedLimit
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import Demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.budgets import SpentBudgets, spent_budget
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.user_limits import UserKey, UserUse, user_key


class Claimant(t.NamedTuple):
    """Whose gang is asked about, None where nobody knows, and its record if it waits already."""

    user: UserKey | None = None
    record: Record | None = None

    @classmethod
    def of(cls, record: Record) -> Claimant:
        """A gang that waits."""
        return cls(user_key(record), record)


NOBODY = Claimant()


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The budgets that are spent, and what users have of queues that limit them; None where that may not be seen."""

    spent: SpentBudgets = dataclasses.field(default_factory=dict)
    users: UserUse | None = None

    def reached(self, tree: QuotaTree, leaf: str | None, claimant: Claimant, demands: Demands) -> ReachedLimit | None:
        """The limit that keeps a gang waiting in a leaf; None when none does."""
        spent = spent_budget(self.spent, tree, leaf)
        if spent is not None or self.users is None or claimant.user is None:
            return spent
        uid = claimant.record.uid if claimant.record is not None else ""
        refusal = self.users.refusal(tree.name, leaf, claimant.user, uid, lambda: demands)
        if refusal is not None or claimant.record is not None:
            return refusal
        return self.users.surplus(tree.name, leaf, claimant.user)


NO_LIMITS = Limits()


def as_recorded(verdict: Verdict, record: Record | None, now: float) -> Verdict:
    """A verdict with what only dispatchers know and write into the record of a waiting gang.

    That is whether others go for it, and whether its quota is held for one that has waited longer.
    """
    state = record.state if record is not None else None
    if state is None or record is None or record.phase != "queued" or verdict.answer == "never":
        return verdict
    told = state.verdict or {}
    until = read_time(state.nominated) if state.nominated else None
    if until is not None and now < until and (verdict.answer == "waits" or told.get("reason") == "nominated"):
        held = verdict.held_back("nominated", f"until {time_text(until)}")
        return dataclasses.replace(held, how="after_reclaim")
    if verdict.answer == "fits" and told.get("reason") == "quota_reserved":
        return verdict.held_back("quota_reserved", str(told.get("detail") or ""))
    return verdict
