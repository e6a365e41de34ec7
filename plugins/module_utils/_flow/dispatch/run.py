# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of the dispatcher: take the Lease, then one cycle, or one whenever something changes for as long as asked."""

from __future__ import annotations

import dataclasses
import os
import socket
import time
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.bell import Bell
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.cycle import run_cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.decisions import SILENT, Decision, DecisionLog
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.office import Cycle, Identity, Office
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.recover import finish_undo
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.terms import ACCOUNT, DispatchTerms
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    ServerFault,
    Unreachable,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.lease import LeaseTerms, Ledger, LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.plugins.module_utils._model.wrapper import MANAGED_LABEL

Coordination = t.Literal["cluster", "namespace"]
Report = Callable[[str], None]
Until = Callable[[Mapping[str, str]], bool]

WRAPPER_CRD = "appwrappers.workload.codeflare.dev"
# How long a single cycle waits for gangs it undid to be gone.
LINGER = 10.0
_POLL = 0.2
# Rests between two cycles of a run: at most, so that time rules are seen; at least, so that changes gather.
LONGEST_REST = 10.0
SHORTEST_REST = 0.05


@dataclasses.dataclass(slots=True)
class DispatchResult:
    """What a run came to; holder is set when somebody else kept the Lease all the time."""

    decisions: list[Decision] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    cycles: int = 0
    coordination: Coordination = "cluster"
    holder: str | None = None
    requests: dict[str, int] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    phases: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether anything happened to any gang."""
        return any(item.action not in (*SILENT, "refuse") for item in self.decisions)

    def as_result(self) -> dict[str, t.Any]:
        """The keys of the module's result."""
        return {
            "changed": self.changed,
            "decisions": [item.as_dict() for item in self.decisions],
            "cycles": self.cycles,
            "coordination": self.coordination,
            "holder": self.holder,
            "requests": self.requests,
            "seconds": {name: round(value, 4) for name, value in self.seconds.items()},
            "warnings": self.warnings,
        }


def run_dispatch(
    client: KubeClient,
    renewal_client: KubeClient,
    terms: DispatchTerms,
    report: Report,
    *,
    until: Until | None = None,
) -> DispatchResult:
    """Run until the duration is over, or one cycle; until sees the phases after each cycle and may end the run."""
    result = DispatchResult()
    log = DecisionLog(terms.decision_log)
    began = time.monotonic()
    before = dict(client.requests)
    end = None if terms.duration is None else began + terms.duration
    try:
        while True:
            ledger, result.coordination = _take_lease(client, renewal_client, terms, end, report, result)
            if ledger is None:
                break
            try:
                _serve(client, ledger, terms, report, result, log, end, until)
                break
            except LostLeadership as error:
                result.warnings.append(str(error))
                if end is None or time.monotonic() >= end:
                    break
            finally:
                ledger.release()
    finally:
        result.requests = {name: count - before.get(name, 0) for name, count in client.requests.items()}
        result.seconds["all"] = time.monotonic() - began
    return result


def _serve(
    client: KubeClient,
    ledger: Ledger,
    terms: DispatchTerms,
    report: Report,
    result: DispatchResult,
    log: DecisionLog,
    end: float | None,
    until: Until | None,
) -> None:
    """Cycle after cycle under one Lease."""
    office = Office(
        client, ledger, terms, every_wrapper=_wrappers_are_ours(client), identity_of=_identity(client, terms)
    )
    if end is None:
        _finish_undos(_one_cycle(office, report, result, log), report, result, log)
        return
    with Bell(client, terms, ledger.identity) as bell:
        while True:
            bell.silence()
            started = time.monotonic()
            try:
                cycle: Cycle | None = _one_cycle(office, report, result, log)
            except (Unreachable, ServerFault) as error:
                # The cluster may come back; the time left decides.
                cycle = None
                result.warnings.append(str(error))
            if time.monotonic() >= end or (until is not None and until(result.phases)):
                return
            if cycle is not None:
                bell.follow(cycle.kinds)
            spent = time.monotonic() - started
            bell.wait(_rest(office, cycle, end), at_least=max(SHORTEST_REST, min(1.0, spent / 4)))


def _rest(office: Office, cycle: Cycle | None, end: float) -> float:
    """How long to wait if nothing rings: until the next time rule may apply."""
    rest = min(LONGEST_REST, end - time.monotonic())
    if cycle is None:
        return min(rest, 1.0)
    undoing = any(record.phase == "undoing" for record in cycle.records.values())
    if undoing or cycle.skipped:
        return min(rest, _POLL)
    if cycle.next_check is not None:
        rest = min(rest, max(_POLL, cycle.next_check - office.clock.now()))
    return max(0.0, rest)


def _one_cycle(office: Office, report: Report, result: DispatchResult, log: DecisionLog) -> Cycle:
    """One cycle and what it adds to the result."""
    started = time.monotonic()
    cycle = run_cycle(office, report)
    result.cycles += 1
    result.seconds["last_cycle"] = time.monotonic() - started
    _collect(cycle, result, log)
    return cycle


def _collect(cycle: Cycle, result: DispatchResult, log: DecisionLog) -> None:
    """Add a cycle's decisions to the result; of waiting gangs only the last word counts."""
    log.add(cycle.decisions)
    told = {item.uid for item in cycle.decisions}
    kept = [item for item in result.decisions if item.action != "wait" or item.uid not in told]
    result.decisions = [*kept, *cycle.decisions]
    result.warnings += [text for text in cycle.warnings if text not in result.warnings]
    result.phases = {uid: record.phase for uid, record in cycle.records.items()}
    cycle.decisions, cycle.warnings = [], []


def _finish_undos(cycle: Cycle, report: Report, result: DispatchResult, log: DecisionLog) -> None:
    """Stay a little while gangs that were undone are going, so that a single cycle leaves them in the queue."""
    end = time.monotonic() + LINGER
    while time.monotonic() < end:
        going = [item for item in cycle.records.values() if item.phase == "undoing" and item.uid not in cycle.skipped]
        if not going:
            break
        for record in going:
            finish_undo(cycle, record)
        time.sleep(_POLL)
    _collect(cycle, result, log)


def _take_lease(
    client: KubeClient,
    renewal_client: KubeClient,
    terms: DispatchTerms,
    end: float | None,
    report: Report,
    result: DispatchResult,
) -> tuple[Ledger | None, Coordination]:
    """Become the holder, in the cluster's Lease or, where this account may not, in the namespace's own."""
    patience = terms.lease_wait if end is None else max(0.0, end - time.monotonic())
    identity = f"{socket.gethostname()}_{os.getpid()}"
    coordination: Coordination = "cluster"
    lease = terms.lease
    while True:
        ledger = Ledger(client, lease, identity, renewal_client=renewal_client)
        try:
            epoch = ledger.acquire(patience, lambda holder: report(f"waiting for the Lease, held by {holder}"))
        except KubeError as error:
            if not _namespace_missing(error) and not isinstance(error, Forbidden):
                raise
            if _namespace_missing(error) and _make_namespace(client, lease):
                continue
            if terms.namespaces is None or len(terms.namespaces) != 1 or coordination == "namespace":
                raise
            lease = LeaseTerms(terms.namespaces[0], lease.name, lease.seconds)
            coordination = "namespace"
            result.warnings.append(f"coordinated by {lease.target} only, others may start gangs elsewhere: {error}")
            continue
        if epoch is None:
            result.holder = ledger.holder
            return None, coordination
        return ledger, coordination


def _namespace_missing(error: KubeError) -> bool:
    """Whether a Lease could not be created because there is no place for it."""
    return isinstance(error.__cause__, NotFound)


def _make_namespace(client: KubeClient, lease: LeaseTerms) -> bool:
    """Create the Lease's namespace where this account may."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lease.namespace}}
    try:
        create(client, resource_path("v1", "namespaces"), namespace)
    except Conflict:
        return True
    except Forbidden:
        return False
    return True


def _wrappers_are_ours(client: KubeClient) -> bool:
    """Whether the AppWrapper definition is ours, so that every wrapper is for us and not only those marked."""
    path = resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions", name=WRAPPER_CRD)
    try:
        definition = get_object(client, path)
    except Forbidden:
        return False
    labels = (definition or {}).get("metadata", {}).get("labels") or {}
    return bool(labels.get(MANAGED_LABEL) == "true")


def _identity(client: KubeClient, terms: DispatchTerms) -> Identity:
    """With whose rights objects are created: the caller's, or those of an account of the gang's namespace."""
    if terms.namespaces is not None:
        return lambda _namespace: client

    def act_as(namespace: str) -> KubeClient:
        """The account may do what its namespace's owner allowed, and nothing else."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return client.acting_as(f"system:serviceaccount:{namespace}:{ACCOUNT}", groups)

    return act_as
