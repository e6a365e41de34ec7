# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""elastic_balance over the cluster in memory: its own cycles by hand, everybody else while it rests."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import DispatchResult
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.balance import BalanceResult, run_balance
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.options import BalanceOptions
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.memory_cluster import ADMIN
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE, MemoryDispatcher, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Line

_REST = 1.0


@dataclasses.dataclass
class Balanced:
    """What a task came to, what it wrote, and its progress."""

    result: BalanceResult
    writes: list[tuple[str, str]]
    reports: list[str]


class _Runs:
    """Runs of cycles as run_dispatch makes them, in virtual time."""

    def __init__(
        self,
        stage: MemoryStage,
        name: str,
        on_cycle: t.Callable[[int, MemoryDispatcher], None],
        faults: t.Iterable[Fault],
    ) -> None:
        """on_cycle hears how many cycles there were, before each; faults are those of the way to the server."""
        self._stage = stage
        self._name = name
        self._on_cycle = on_cycle
        self._faults = list(faults)
        self.writes: list[tuple[str, str]] = []
        self.cycles = 0

    def __call__(
        self,
        client: KubeClient,
        _renewal_client: KubeClient,
        options: DispatchOptions,
        report: t.Callable[[str], None],
        *,
        until: t.Any = None,
        on_cycle: t.Any = None,
    ) -> DispatchResult:
        """Take the Lease and run cycles."""
        result = DispatchResult()
        terms = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
        dispatcher = MemoryDispatcher(self._stage.cluster, self._name, terms.pop("namespaces"), **terms)
        dispatcher.line.wait = self._stage.run_for
        dispatcher.line.faults += self._faults
        dispatcher.reports = t.cast("t.Any", _Reports(report))
        end = None if options.duration is None else client.clock() + options.duration
        if not dispatcher.acquire(options.lease_wait):
            result.holder = "somebody"
            return result
        while True:
            self._on_cycle(self.cycles, dispatcher)
            self.cycles += 1
            cycle = dispatcher.cycle()
            decisions, warnings = cycle.session.journal.take()
            result.decisions += decisions
            for text in warnings:
                result.warn(text)
            on_cycle(cycle)
            if end is None or client.clock() >= end or until({}):
                break
            self._stage.run_for(_REST)
            dispatcher.renew_in_time()
        dispatcher.save()
        dispatcher.release()
        self.writes += dispatcher.line.writes
        return result


class _Reports(list[str]):
    """A list that tells somebody what is added."""

    def __init__(self, report: t.Callable[[str], None]) -> None:
        super().__init__()
        self.append = report  # type: ignore[method-assign,assignment]


def balance(
    stage: MemoryStage,
    name: str = "balance",
    *,
    user: str = ADMIN,
    on_cycle: t.Callable[[int, MemoryDispatcher], None] = lambda _number, _dispatcher: None,
    faults: t.Iterable[Fault] = (),
    rest: t.Callable[[float], None] | None = None,
    **options: t.Any,
) -> Balanced:
    """Run the task; while it rests, dispatchers on the stage and controllers go on, unless something else is to be."""
    line, reports = Line(stage.cluster), list[str]()
    line.wait = rest or stage.run_for
    runs = _Runs(stage, name, on_cycle, faults)
    asked = BalanceOptions(**{"lease": LEASE, **options})
    result = run_balance(lambda: line.client(user), asked, reports.append, run=runs)
    return Balanced(result, [*line.writes, *runs.writes], reports)
