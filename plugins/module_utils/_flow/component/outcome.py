# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What became of the components of a task, as its result tells it."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.component.plan import ComponentAction, ComponentPlan
from ansible_collections.muster.kube.plugins.module_utils._flow.component.removal.recorded import RemovalPlan
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import ObjectChange, SeveralRefusals
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import pruned
from ansible_collections.muster.kube.plugins.module_utils._model.component.ladder import StepResult
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ownership import images_of


@dataclasses.dataclass(frozen=True, slots=True)
class ComponentOutcome:
    """What was done for one component, or in check mode would be done."""

    name: str
    version: str | None
    action: ComponentAction
    changes: tuple[ObjectChange, ...] = ()
    ladder: tuple[StepResult, ...] = ()
    # What a catalogue says of it.
    row: Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    # The version that was recorded before.
    before: str | None = None
    # Who has it, if it was found.
    owner: str | None = None
    images: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    problem: MusterError | None = None

    def as_result(self) -> dict[str, t.Any]:
        """The component as results tell it."""
        counts = {
            word: sum(change.action == word for change in self.changes)
            for word in ("created", "changed", "unchanged", "pruned")
        }
        failure = {} if self.problem is None else self.problem.as_result()
        return {
            "name": self.name,
            "version": self.version,
            "action": self.action,
            "owner": self.owner,
            "plan": counts,
            "ladder": [step.as_result() for step in self.ladder],
            "versions": {"before": self.before, "after": None if self.action == "removed" else self.version},
            "images": list(self.images),
            "objects": [change.as_result() for change in self.changes],
            "kept": list(self.kept),
            "unseen": list(self.unseen),
            **({"row": dict(self.row)} if self.row else {}),
            **failure,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class ProvisionResult:
    """What became of all components of a task."""

    outcomes: tuple[ComponentOutcome, ...]
    single: bool = False
    # What preflight found that may do harm.
    warnings: tuple[str, ...] = ()

    def as_result(self, *, diff: bool) -> dict[str, t.Any]:
        """The keys of the module's result."""
        news = [change for outcome in self.outcomes for change in outcome.changes if change.action != "unchanged"]
        shown = {"diff": [change.difference() for change in news]} if diff else {}
        problems = [outcome.problem for outcome in self.outcomes if outcome.problem is not None]
        failure: dict[str, t.Any] = {}
        if problems:
            error = problems[0] if len(problems) == 1 else SeveralRefusals(problems)
            failure = {"failed": True, **error.as_result()}
        alone = self.outcomes[0].as_result() if self.single else {}
        return {
            "changed": any(outcome.action not in ("unchanged", "found") for outcome in self.outcomes),
            "components": [outcome.as_result() for outcome in self.outcomes],
            **{key: alone[key] for key in ("objects", "unseen", "kept") if key in alone},
            **shown,
            **self._warnings(),
            **failure,
        }

    def _warnings(self) -> dict[str, list[str]]:
        """What the reader should know although nothing failed."""
        left = "more may be left, where this account may not look"
        texts = [
            f"of component {outcome.name} {left}: {', '.join(outcome.unseen)}"
            for outcome in self.outcomes
            if outcome.action == "removed" and outcome.unseen
        ]
        texts += self.warnings
        return {"warnings": texts} if texts else {}


def installed_outcome(
    plan: ComponentPlan, ladder: Sequence[StepResult], problem: MusterError | None
) -> ComponentOutcome:
    """What became of a component that was to be there."""
    component = plan.target.component
    if plan.found is not None:
        owner = f"{plan.found.owner} ({plan.found.object})"
        return ComponentOutcome(component.name, plan.found.version, "found", owner=owner, row=component.facts.told)
    changes = (*plan.made, *plan.late, *map(pruned, plan.leftovers))
    return ComponentOutcome(
        component.name,
        component.version,
        plan.action,
        changes,
        tuple(ladder),
        before=None if plan.record is None else plan.record.version,
        images=tuple(sorted({image for change in changes for image in images_of(change.obj)})),
        unseen=plan.unseen,
        problem=problem,
        row=component.facts.told,
    )


def removed_outcome(plan: RemovalPlan, problem: MusterError | None) -> ComponentOutcome:
    """What became of a component that was to go."""
    before = None if plan.stored is None else plan.stored.record.version
    return ComponentOutcome(
        plan.name,
        before,
        "removed" if plan.writes else "unchanged",
        tuple(map(pruned, plan.fresh)),
        before=before,
        kept=tuple(str(obj["metadata"]["name"]) for obj in plan.kept),
        unseen=plan.unseen,
        problem=problem,
    )
