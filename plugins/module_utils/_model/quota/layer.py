# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layer quota of a verdict: what each tree says to a gang, and its lines of text.

Gangs of others are never named here: who holds what is told by queue.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import QueueLevel, QuotaWord
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import NO_FLAVOR, QuotaAmounts
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    describe,
    parse_quantity,
    quantity_text,
    scaled,
)

Data = dict[str, t.Any]

# What each reason of this layer means to a reader, before the numbers.
QUOTA_REASONS = {
    "quota": "the quota tree has too little left",
    "quota_reserved": "it would fit, but the quota is held for a gang that has waited longer",
    "queue_unknown": "the quota tree has no queue for it",
    "queue_forbidden": "its queue is not for its namespace",
    "queue_held": "its queue starts nothing now",
    "user_limit": "its user has as much as one user may have in the queue",
    "budget_spent": "the budget of its queue is spent",
    "nominated": "others are evicted for it, and what they free is held for it",
    "quota_unreadable": "the quota tree cannot be read, so nothing of it starts",
    "quota_not_visible": "not all that is used of the quota tree may be seen",
    "flavor_unreachable": "its pods cannot be confined to the nodes of any flavor",
}
_AMOUNTS = ("nominal", "used", "borrowed", "lent", "headroom", "short")


@dataclasses.dataclass(frozen=True, slots=True)
class ReachedLimit:
    """A limit besides amounts of quota that keeps a gang waiting: of what one user may have, or of a budget.

    kind is running or pending (gangs), resources or budget (resource-hours). used is what counts already, reset when
    that begins anew; None where it does not by itself.
    """

    reason: str
    kind: t.Literal["running", "pending", "resources", "budget"]
    queue: str
    used: str
    limit: str
    words: str
    resource: str | None = None
    reset: str | None = None

    def as_dict(self) -> Data:
        """Plain values for results."""
        return {
            "kind": self.kind,
            "queue": self.queue,
            "resource": self.resource,
            "used": self.used,
            "limit": self.limit,
            "reset": self.reset,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaStanding:
    """What one tree says to a gang: its leaf, whether it fits there, and the numbers of every queue above.

    reason is None when it fits. flavors and amounts are what a start would be charged; borrowers are the queues that
    use more than their own of what is short; reached is the limit besides amounts that it waits for, if any.
    """

    tree: str
    answer: QuotaWord
    leaf: str | None = None
    path: str | None = None
    borrows: bool = False
    reason: str | None = None
    detail: str = ""
    flavors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    amounts: QuotaAmounts = dataclasses.field(default_factory=dict)
    short: QuotaAmounts = dataclasses.field(default_factory=dict)
    levels: tuple[QueueLevel, ...] = ()
    borrowers: tuple[QueueLevel, ...] = ()
    reached: ReachedLimit | None = None

    def limited(self, limit: ReachedLimit | None) -> QuotaStanding:
        """The same of a gang that a limit keeps waiting; one that never fits lacks more than that."""
        if limit is None or self.answer == "never":
            return self
        return dataclasses.replace(self, answer="waits", reason=limit.reason, detail=limit.words, reached=limit)

    def with_podsets(self, names: t.Sequence[str]) -> QuotaStanding:
        """The same with other names of podsets, in their order."""
        if len(self.flavors) != len(names):
            return self
        return dataclasses.replace(self, flavors=dict(zip(names, self.flavors.values(), strict=True)))

    def as_dict(self) -> Data:
        """Plain values for results."""
        return {
            "tree": self.tree,
            "queue": self.path,
            "answer": self.answer,
            "borrows": self.borrows,
            "reason": self.reason,
            "detail": self.detail or None,
            "flavors": {name: flavor for name, flavor in self.flavors.items() if flavor != NO_FLAVOR},
            "levels": [level_data(level) for level in self.levels],
            "borrowers": [level_data(level, ("borrowed",)) for level in self.borrowers],
            "reached": self.reached.as_dict() if self.reached is not None else None,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaLayer:
    """All trees together: each must let the gang start."""

    standings: tuple[QuotaStanding, ...]
    # The tree that keeps the gang from starting: one in which it never fits before one in which it waits.
    refusal: QuotaStanding | None = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Find the refusal once: it is asked for much more often than a layer is made."""
        refusing = [item for item in self.standings if item.answer != "fits"]
        never = next((item for item in refusing if item.answer == "never"), None)
        object.__setattr__(self, "refusal", never or (refusing[0] if refusing else None))

    @property
    def passed(self) -> bool:
        """Whether every tree lets the gang start."""
        return self.refusal is None

    @property
    def borrows(self) -> bool:
        """Whether a start borrows in any tree."""
        return any(item.borrows for item in self.standings)

    def with_podsets(self, names: t.Sequence[str]) -> QuotaLayer:
        """The same for a gang whose podsets are called like this, in the order of those that it was said of."""
        if all(not item.flavors or list(item.flavors) == list(names) for item in self.standings):
            return self
        return QuotaLayer(tuple(item.with_podsets(names) for item in self.standings))

    @property
    def short(self) -> dict[str, int]:
        """How much more of each resource would be needed, at most, in any tree and flavor."""
        most: dict[str, int] = {}
        for standing in self.standings:
            for key, amount in standing.short.items():
                most[key.resource] = max(amount, most.get(key.resource, 0))
        return most

    def as_dict(self) -> Data:
        """The layer as results and records carry it."""
        return {
            "layer": "quota",
            "passed": self.passed,
            "trees": [standing.as_dict() for standing in self.standings],
            "totals": {name: {"short": quantity_text(name, amount)} for name, amount in sorted(self.short.items())},
        }


def level_data(level: QueueLevel, amounts: t.Sequence[str] = _AMOUNTS) -> Data:
    """One resource at one queue as quantities."""
    flavor = {} if level.key.flavor == NO_FLAVOR else {"flavor": level.key.flavor}
    resource = level.key.resource
    texts = {name: quantity_text(resource, getattr(level, name)) for name in amounts}
    return {"queue": level.path, **flavor, "resource": resource, **texts}


def quota_lines(layers: Mapping[str, Mapping[str, t.Any]]) -> list[str]:
    """Where something is short, by how much, and which queues borrow it."""
    lines = []
    for tree in layers["quota"]["trees"]:
        if tree["answer"] == "fits":
            continue
        for level in tree["levels"]:
            if _number(level, "short"):
                known = ", ".join(f"{name} {_said(level, name)}" for name in _AMOUNTS[:-1])
                lines.append(f"  queue {level['queue']}: short {_said(level, 'short')} {_resource(level)} ({known})")
        lines += [
            f"  queue {level['queue']} has borrowed {_said(level, 'borrowed')} {_resource(level)}"
            for level in tree["borrowers"]
        ]
    return lines


def _resource(level: Mapping[str, t.Any]) -> str:
    return f"{level['resource']} of {level['flavor']}" if level.get("flavor") else str(level["resource"])


def _number(level: Mapping[str, t.Any], name: str) -> int:
    return scaled(level["resource"], parse_quantity(level[name]))


def _said(level: Mapping[str, t.Any], name: str) -> str:
    return describe(level["resource"], _number(level, name))
