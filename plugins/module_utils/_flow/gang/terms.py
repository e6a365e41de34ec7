# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a task of gang asks for, and what is told about each gang afterwards."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.lease import LeaseTerms
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.spec import GangSpec, spec_data
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import plan_objects
from ansible_collections.muster.kube.plugins.module_utils._model.verdict import verdict_text

State = t.Literal["present", "absent", "suspended"]
Action = t.Literal["created", "changed", "recreated", "unchanged", "deleted"]
Report = t.Callable[[str], None]

STARTED = ("dispatched", "running")
FINISHED = ("complete", "failed")
MOVING = ("dispatching", "undoing", "evicting")
# In these a gang needs nobody: it has all its pods, or none.
SETTLED = ("running", "suspended", *FINISHED)
# Where a wait for the first ends; a gang that went further has been there.
REACHED: dict[str, tuple[str, ...]] = {
    "dispatched": ("dispatched", "running", "complete"),
    "running": ("running", "complete"),
    "complete": ("complete",),
}


@dataclasses.dataclass(frozen=True, slots=True)
class GangTerms:
    """The options of the task as values; gangs holds the options of each gang, unset ones left out."""

    state: State
    gangs: tuple[Data, ...]
    store: t.Literal["auto", "configmap", "appwrapper"] = "auto"
    replace: bool = False
    rerun: bool = False
    wait: bool = True
    wait_for: str | None = None
    wait_timeout: float = 120.0
    wait_sleep: float = 1.0
    dispatch: bool = False
    lease: LeaseTerms = dataclasses.field(default_factory=LeaseTerms)
    check_mode: bool = False

    @property
    def goal(self) -> str | None:
        """The phase to wait for; None when the record alone is enough."""
        if not self.wait and not self.dispatch:
            return None
        goal = self.wait_for or ("running" if self.dispatch else None)
        return None if goal == "queued" else goal


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one gang; before and after are specifications, for the difference."""

    name: str
    namespace: str
    action: Action
    record: Record | None
    store: str | None
    store_reason: str | None = None
    message: str | None = None
    before: GangSpec | None = None
    after: GangSpec | None = None
    extra: Data = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the record was written."""
        return self.action != "unchanged"

    def as_result(self) -> Data:
        """One entry of the module's result."""
        record = self.record
        state = record.state if record else None
        verdict = state.verdict if state else None
        return {
            "name": self.name,
            "namespace": self.namespace,
            "uid": record.uid if record else None,
            "action": self.action,
            "changed": self.changed,
            "store": self.store,
            "store_reason": self.store_reason,
            "phase": record.phase if record else None,
            "attempt": record.attempt if record else None,
            "position": None,
            "verdict": verdict,
            "verdict_text": words_of(verdict),
            "objects": started_objects(record) if record else [],
            "message": self.message,
            **self.extra,
        }

    def difference(self) -> Data:
        """What changed in the specification, in the form Ansible shows differences."""
        name = f"gang {self.namespace}/{self.name}"
        return {
            "before_header": name,
            "after_header": name,
            "before": spec_data(self.before) if self.before else {},
            "after": spec_data(self.after) if self.after else {},
        }


def words_of(verdict: Data | None) -> str | None:
    """A verdict's text; None without one, or where somebody damaged the annotation that holds it."""
    if verdict is None:
        return None
    try:
        return verdict_text(verdict)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def started_objects(record: Record) -> list[Data]:
    """The objects of a started gang by their names; none while it waits."""
    if record.phase not in (*STARTED, *FINISHED) or record.spec is None:
        return []
    try:
        plan = plan_objects(record.spec, record.uid, record.attempt)
    except BadInput:
        # Somebody edited the record after the start.
        return []
    return [dict(zip(("apiVersion", "kind", "namespace", "name"), item.key, strict=True)) for item in plan]
