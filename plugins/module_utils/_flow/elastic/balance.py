# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind elastic_balance: one decision about the sizes of all elastic gangs, carried out by whoever may.

The decision is that of a dispatcher's cycle (_policy/dispatch/plan.py). While the Lease is free this task takes it and
runs cycles that only resize. While a dispatcher holds it, that one decides, and the task waits for what it does.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import SizesForeseen, preview_sizes
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import (
    DispatchResult,
    OnCycle,
    Until,
    run_dispatch,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.holder import HolderWatch
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.kept_settings import (
    WantedSettings,
    keep_settings,
    want_settings,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.options import BalanceOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.told import (
    JobTold,
    SizeSight,
    resized_since,
    tell_idle,
    tell_jobs,
    under_way,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import SizeRules, SizeSettings
from ansible_collections.muster.kube.plugins.module_utils._store.appwrapper_kind import wrapper_problem
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records

Data = dict[str, t.Any]
Report = Callable[[str], None]
Connect = Callable[[], KubeClient]


class Run(t.Protocol):
    """A run of cycles under the Lease; see run_dispatch."""

    def __call__(
        self,
        client: KubeClient,
        renewal_client: KubeClient,
        options: DispatchOptions,
        report: Report,
        *,
        until: Until | None = None,
        on_cycle: OnCycle | None = None,
    ) -> DispatchResult:
        """Take the Lease and run cycles."""


@dataclasses.dataclass(slots=True)
class BalanceResult:
    """What was decided, and what became of it; records are as they were last seen."""

    settings: WantedSettings
    jobs: Mapping[str, JobTold]
    idle: list[Data]
    records: Mapping[str, Record]
    check_mode: bool
    since: float | None = None
    resized: list[str] = dataclasses.field(default_factory=list)
    carried_out_by: t.Literal["self", "dispatcher"] | None = None
    holder: str | None = None
    acted: bool = False
    warnings: list[str] = dataclasses.field(default_factory=list)
    unseen: Sequence[str] = ()

    @property
    def changed(self) -> bool:
        """Whether settings were written, or anything happened to any gang."""
        return self.settings.changed or self.acted or bool(self.resized)

    def as_result(self, *, diff: bool) -> Data:
        """The keys of the module's result."""
        result: Data = {
            "changed": self.changed,
            "jobs": [item.as_result(self._now(uid, item), self.since) for uid, item in self.jobs.items()],
            "idle": self.idle,
            "resized": self.resized,
            "carried_out_by": self.carried_out_by,
            "holder": self.holder,
            "settings": self.settings.wanted.as_data(),
            "unseen": list(self.unseen),
            "warnings": [*self.settings.warnings, *self.warnings],
        }
        return {**result, "diff": self.settings.difference()} if diff else result

    def _now(self, uid: str, item: JobTold) -> Record | None:
        """A gang as it was last seen."""
        return item.record if self.since is None else self.records.get(uid)


def run_balance(connect: Connect, options: BalanceOptions, report: Report, *, run: Run = run_dispatch) -> BalanceResult:
    """Decide about sizes and have that carried out; in check mode only tell the decision."""
    return _Balance(connect, options, report, run).work()


class _Balance:
    """One task."""

    def __init__(self, connect: Connect, options: BalanceOptions, report: Report, run: Run) -> None:
        """Nothing is sent yet."""
        self._connect = connect
        self._client = connect()
        self._options = options
        self._report = report
        self._run = run
        self._end = self._client.clock() + options.wait_timeout
        self._cycle: Cycle | None = None
        self._told: dict[str, JobTold] = {}
        self._waits_for = ""

    def work(self) -> BalanceResult:
        """Look, store the settings, and act if there is anything to do."""
        settings = want_settings(self._client, self._options)
        foreseen = self._foresee(settings.wanted if settings.changed else None)
        result = self._result(settings, foreseen)
        if self._options.check_mode:
            result.resized = sorted(stop.record.key for stop in foreseen.plan.resized)
            result.acted = bool(foreseen.plan.starts)
            return result
        result.settings = keep_settings(self._client, self._options, settings)
        if not foreseen.plan.resized and not self._under_way(foreseen):
            return result
        result.since = foreseen.now
        self._serve(result)
        known = Records(self._client, every_wrapper=wrapper_problem(self._client) is None)
        result.records = {record.uid: record for record in known.list(self._options.namespaces)}
        result.resized = resized_since(result.records.values(), result.since)
        return result

    def _foresee(self, settings: SizeSettings | None = None) -> SizesForeseen:
        """What would be decided now."""
        return preview_sizes(self._client, self._options.dispatch(None), settings)

    def _result(self, settings: WantedSettings, foreseen: SizesForeseen) -> BalanceResult:
        """What is known before anything is done."""
        sight = self._sight(foreseen.records, foreseen.rules)
        jobs = list(tell_jobs(foreseen.plan, sight))
        return BalanceResult(
            settings,
            {item.record.uid: item for item in jobs},
            tell_idle(foreseen.plan, sight, jobs),
            foreseen.records,
            self._options.check_mode,
            warnings=list(foreseen.warnings),
            unseen=foreseen.unseen,
        )

    def _sight(self, records: Mapping[str, Record], rules: SizeRules) -> SizeSight:
        """What a decision was made on."""
        named = self._options.namespaces
        return SizeSight(records, None if named is None else frozenset(named), rules)

    def _under_way(self, foreseen: SizesForeseen) -> list[Record]:
        """The gangs of this task that are between two sizes."""
        mine = [item for item in foreseen.records.values() if self._is_mine(item)]
        return under_way(mine, foreseen.now, self._options.dispatch(None).start_timeout)

    def _is_mine(self, record: Record) -> bool:
        """Whether a gang lies in the namespaces of the task."""
        return self._options.namespaces is None or record.namespace in self._options.namespaces

    # Acting.

    def _serve(self, result: BalanceResult) -> None:
        """Take the Lease and resize, or wait for its holder, or one after the other."""
        patience: float | None = 0.0
        while patience is not None and not self._lead(result, patience):
            if not self._options.wait:
                result.carried_out_by = "dispatcher"
                return
            patience = self._follow(result)

    def _lead(self, result: BalanceResult, patience: float) -> bool:
        """Run cycles that only resize; False when somebody else has the Lease for so long."""
        left = max(0.0, self._end - self._client.clock())
        options = self._options.dispatch(left if self._options.wait else None, patience)
        self._cycle = None
        done = self._run(
            self._client, self._connect(), options, self._report, until=self._is_over, on_cycle=self._note_cycle
        )
        result.acted = result.acted or done.changed
        result.warnings += [text for text in done.warnings if text not in result.warnings]
        result.holder = done.holder
        result.jobs = {**result.jobs, **self._told}
        if done.holder is not None:
            return False
        result.carried_out_by = "self"
        if self._cycle is not None:
            self._tell_end(result, self._cycle)
        return True

    def _tell_end(self, result: BalanceResult, cycle: Cycle) -> None:
        """What the last own cycle left."""
        if cycle.plan is not None:
            sight = self._sight({**cycle.elsewhere, **cycle.plan.after}, cycle.rules)
            result.idle = tell_idle(cycle.plan, sight, tell_jobs(cycle.plan, sight))
        names = ", ".join(sorted(record.key for record in self._going(cycle)))
        if names:
            result.warnings.append(f"{names}: not at the new size yet; the next dispatcher, or task, goes on with that")

    def _note_cycle(self, cycle: Cycle) -> None:
        """See what a cycle decided: of each gang the last change counts, else the last word."""
        self._cycle = cycle
        if cycle.plan is None:
            return
        sight = self._sight({**cycle.elsewhere, **cycle.plan.after}, cycle.rules)
        for item in tell_jobs(cycle.plan, sight):
            before = self._told.get(item.record.uid)
            # One that comes back with its new size is not told a second time.
            fresh = item.changes and before is not None and item.to != before.to
            if before is None or fresh or not before.changes:
                self._told[item.record.uid] = item
        words = ", ".join(sorted(record.key for record in self._going(cycle)))
        if words and words != self._waits_for:
            self._report(f"between two sizes: {words}")
        self._waits_for = words

    def _going(self, cycle: Cycle) -> list[Record]:
        """Gangs that this cycle left between two sizes."""
        session = cycle.session
        return under_way(list(cycle.records.values()), session.clock.now(), session.options.start_timeout)

    def _is_over(self, _phases: Mapping[str, str]) -> bool:
        """Whether the last cycle resized nobody, and nobody is between two sizes."""
        cycle = self._cycle
        return cycle is not None and cycle.plan is not None and not cycle.plan.resized and not self._going(cycle)

    def _follow(self, result: BalanceResult) -> float | None:
        """Wait for what the holder of the Lease does; how patiently to bid for it once it has gone, None if it acts."""
        watch = HolderWatch(
            self._client,
            self._options,
            since=None if result.settings.changed else result.since,
            version=result.settings.version,
            patience=self._options.dispatch(None).start_timeout,
            report=self._report,
        )
        self._report(f"{result.holder} holds {self._options.lease.target} and decides about sizes")
        end = watch.wait(self._end)
        if end in ("free", "silent"):
            return watch.longest if end == "silent" else 0.0
        result.holder = watch.holder
        if end == "late":
            result.warnings.append(watch.why_late())
        if watch.has_looked:
            result.carried_out_by = "dispatcher"
        result.idle = self._result(result.settings, self._foresee()).idle
        return None
