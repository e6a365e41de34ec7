# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a task of gang asks for, and what the result says of each gang."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec, spec_data
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    DISPATCHED_PHASES,
    FINISHED_PHASES,
    told_resize,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import plan_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import text_of_verdict
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

State = t.Literal["present", "absent", "suspended"]
Action = t.Literal["created", "changed", "recreated", "unchanged", "deleted"]
Report = t.Callable[[str], None]


@dataclasses.dataclass(frozen=True, slots=True)
class GangSettings:
    """How a gang is queued and run, as its user wrote it; where a field is None its definition decides."""

    queue: str | None = None
    priority: int | None = None
    priority_slope: float | None = None
    min_available: int | str | t.Mapping[str, t.Any] | None = None
    requeue: t.Mapping[str, str | int] | None = None
    max_run_time: str | None = None
    completion: tuple[Data, ...] | None = None
    exit_codes: t.Mapping[str, t.Sequence[int]] | None = None
    ttl: str | None = None
    labels: t.Mapping[str, t.Any] | None = None
    elastic: t.Mapping[str, t.Any] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GangAsk:
    """One gang of the task: what it is made of, and how it is to be run."""

    source: GangSource
    settings: GangSettings = GangSettings()


@dataclasses.dataclass(frozen=True, slots=True)
class GangOptions:
    """The options of the task as values."""

    state: State
    gangs: tuple[GangAsk, ...]
    store: t.Literal["auto", "configmap", "appwrapper"] = "auto"
    replace: bool = False
    rerun: bool = False
    wait: bool = True
    wait_for: str | None = None
    wait_timeout: float = 120.0
    wait_sleep: float = 1.0
    dispatch: bool = False
    lease: LeaseOptions = dataclasses.field(default_factory=LeaseOptions)
    check_mode: bool = False

    @property
    def goal(self) -> str | None:
        """The phase to wait for; None when the record alone is enough."""
        if not self.wait and not self.dispatch:
            return None
        goal = self.wait_for or ("running" if self.dispatch else None)
        return None if goal == "queued" else goal


@dataclasses.dataclass(frozen=True, slots=True)
class GangOutcome:
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
            "allotment": state.allotment if state else None,
            "resize": told_resize(state),
            "position": None,
            "verdict": verdict,
            "verdict_text": text_of_verdict(verdict),
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


def started_objects(record: Record) -> list[Data]:
    """The objects of a started gang by their names; none while it waits."""
    if record.phase not in (*DISPATCHED_PHASES, *FINISHED_PHASES) or record.spec is None:
        return []
    try:
        plan = plan_objects(record.spec, record.uid, record.attempt)
    except BadInput:
        # The record was edited after the start.
        return []
    return [dict(zip(("apiVersion", "kind", "namespace", "name"), item.key, strict=True)) for item in plan]
