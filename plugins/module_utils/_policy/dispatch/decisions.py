# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decisions: what a cycle did or left, one line each."""

from __future__ import annotations

import dataclasses
import typing as t

Action = t.Literal[
    "start",
    "wait",
    "stop",
    "evict",
    "resize",
    "plan",
    "running",
    "complete",
    "fail",
    "queue",
    "suspend",
    "expire",
    "recover",
    "refuse",
]


# Waiting is the usual state of a queue; it is told in results but changes nothing.
SILENT: tuple[Action, ...] = ("wait",)


# A result holds no more decisions than this; the log holds all.
MOST_DECISIONS = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """One decision about one gang and why."""

    gang: str
    uid: str
    action: Action
    reason: str
    message: str
    attempt: int
    phase: str
    at: str
    verdict: dict[str, t.Any] | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """Plain values for results and the log."""
        return dataclasses.asdict(self)

    def line(self) -> str:
        """One line for people: what happens, why, and of a verdict also what is short."""
        words = f"{self.gang}: {self.action}"
        if self.attempt > 1:
            words += f" (attempt {self.attempt})"
        first, *more = (part.strip() for part in self.message.split("\n")[:2])
        told = "; ".join(part for part in (self.reason, first, *more) if part)
        return f"{words}: {told}" if told else words


class DecisionBook:
    """The decisions of a run in order, the last ones if there are too many; of a waiting gang only the last word."""

    def __init__(self, most: int = MOST_DECISIONS) -> None:
        """Nothing decided yet."""
        self._most = most
        self._kept: dict[int, Decision] = {}
        self._waits: dict[str, list[int]] = {}
        self._next = 0
        self.dropped = 0
        self.changed = False

    def __iter__(self) -> t.Iterator[Decision]:
        """Those kept, in order."""
        return iter(self._kept.values())

    def add(self, decisions: t.Sequence[Decision]) -> None:
        """Add the decisions of a cycle; the cost follows from their number, not from that of all before."""
        for uid in {item.uid for item in decisions}:
            for number in self._waits.pop(uid, ()):
                self._kept.pop(number, None)
        for item in decisions:
            self._kept[self._next] = item
            if item.action == "wait":
                self._waits.setdefault(item.uid, []).append(self._next)
            self.changed = self.changed or is_change(item)
            self._next += 1
        while len(self._kept) > self._most:
            gone = self._kept.pop(next(iter(self._kept)))
            self.dropped += 1
            if gone.action == "wait":
                self._waits.pop(gone.uid, None)


def is_change(decision: Decision) -> bool:
    """Whether something happened to a gang."""
    return decision.action not in (*SILENT, "refuse")
