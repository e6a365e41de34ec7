# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ladder: the steps by which a component is judged ready, in their order, and what became of each."""

from __future__ import annotations

import dataclasses
import typing as t

Step = t.Literal["source", "definitions", "listable", "workloads", "webhooks", "condition", "nodes", "smoke"]
Outcome = t.Literal["passed", "failed", "skipped"]

STEPS: tuple[Step, ...] = t.get_args(Step)


def steps_up_to(last: Step) -> tuple[Step, ...]:
    """The steps that have to be passed until one is, itself included."""
    return STEPS[: STEPS.index(last) + 1]


@dataclasses.dataclass(frozen=True, slots=True)
class StepResult:
    """What became of a step: where it failed, the object and why."""

    step: Step
    outcome: Outcome
    reason: str = ""
    object: str | None = None
    seconds: float = 0.0

    def as_result(self) -> dict[str, t.Any]:
        """The step as results tell it."""
        return {**dataclasses.asdict(self), "seconds": round(self.seconds, 1)}
