# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The walk down the queue: room with everything promised taken off, then one verdict after the other in order."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.gangs import (
    demand_of,
    plan_of,
    spec_of,
    steerable,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.terms import ACCOUNT, DispatchTerms
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.world import STARTED, World, pods_of
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.kinds import pod_templates
from ansible_collections.muster.kube.plugins.module_utils._model.kinds_base import NeedsPodsets
from ansible_collections.muster.kube.plugins.module_utils._model.snapshot import NamespaceRules, Pod
from ansible_collections.muster.kube.plugins.module_utils._model.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.state import GangState
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import GANG_LABEL, Key, ticket_keys
from ansible_collections.muster.kube.plugins.module_utils._model.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._model.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.plugins.module_utils._policy.accounting import (
    Outstanding,
    outstanding_of,
    place_outstanding,
    whole_gang,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.fit import place_waiting_pods, read_wishes
from ansible_collections.muster.kube.plugins.module_utils._policy.health import declared_too_small
from ansible_collections.muster.kube.plugins.module_utils._policy.namespace_rules import (
    QuotaUse,
    judge_namespace,
    quota_use,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.order import QueuedGang, ordered, walk
from ansible_collections.muster.kube.plugins.module_utils._policy.reserve import (
    Estimate,
    Reserver,
    ReserveTerms,
    estimate_run_time,
    gather_endings,
    name_prefix,
    run_time_history,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.together import Together, labels_matter

# An object's group, kind, namespace and name: two versions of one API show the same object.
Name = tuple[str, str, str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """One waiting gang and the verdict on it; chosen ones are to be started."""

    record: Record
    gang: Gang
    verdict: Verdict
    chosen: bool


class Queue:
    """One cycle's walk; everything it needs to know is given at the start."""

    def __init__(
        self,
        world: World,
        records: Sequence[Record],
        unsettled: frozenset[str],
        *,
        terms: DispatchTerms,
        memory: Memory,
        now: float,
    ) -> None:
        """Unsettled are records with an open entry in the last batch: their demand counts as started."""
        self._world = world
        self._terms = terms
        self._memory = memory
        self._now = now
        self._records = {record.uid: record for record in records}
        self._history = run_time_history(_finished(records))
        self._taken: QuotaUse = {}
        self._names = dict(self._names_in_use())
        self._barrier: str | None = None
        self._choices: list[Choice] = []
        self._starts = 0
        gangs = list(world.gangs.values())
        self._room, base = Room(world.snapshot), Room(world.snapshot)
        self._with_labels = labels_matter(self._room, gangs)
        self._together = Together(base, with_labels=self._with_labels)
        for item in self._promised(unsettled):
            self._promise(item)
        for room in (self._room, base):
            place_waiting_pods(room, gangs, self._is_promised)
        self._reserver = self._open_reserver()

    def decide(self) -> list[Choice]:
        """Verdicts on all waiting gangs that may be asked now, in the order of the queue."""
        waiting = [
            record
            for record in self._records.values()
            if record.phase == "queued" and not record.terminating and record.uid in self._world.gangs
        ]
        able = []
        for record in waiting:
            stopped = self._stopped_beforehand(record)
            if stopped is None:
                able.append(_queued(record))
            else:
                self._choices.append(Choice(record, self._demand(record), stopped, False))
        decisions = walk(self._terms.policy, ordered(able, self._now), self._judge, self._reserver.blocked_by)
        judged = {choice.record.uid for choice in self._choices}
        for item in decisions.waiting:
            if item.gang.uid not in judged:
                self._choices.append(self._behind(item.gang.uid, item.blocked_by))
        return self._choices

    # What is promised already.

    def _demand(self, record: Record) -> Gang:
        """The gang as large as it has to be counted."""
        return demand_of(record, self._world.gangs[record.uid])

    def _promised(self, unsettled: frozenset[str]) -> Iterator[Outstanding]:
        """What started gangs still have to get; phases decide, and open entries of the last batch count whole."""
        for uid, record in self._records.items():
            if uid not in self._world.gangs or record.spec is None:
                continue
            if record.state is not None and record.phase in STARTED:
                yield self._outstanding(record, record.state)
            elif uid in unsettled and record.phase == "queued":
                yield whole_gang(self._demand(record), {})

    def _outstanding(self, record: Record, state: GangState) -> Outstanding:
        """Pods of one started gang that do not exist yet."""
        pods, items = pods_of(record, self._world), self._world.items.get(record.uid, {})
        return outstanding_of(
            self._demand(record),
            spec_of(record),
            state,
            pods,
            items,
            now=self._now,
            start_timeout=self._terms.start_timeout,
        )

    def _is_promised(self, pod: Pod) -> bool:
        """Whether a pod is one of a gang that was started; its room is its own, whatever its priority."""
        record = self._records.get(pod.labels.get(GANG_LABEL, ""))
        return record is not None and record.namespace == pod.namespace and record.phase in STARTED

    def _promise(self, item: Outstanding) -> None:
        """Take what a started gang still gets off the room and off its namespace's quotas."""
        gang = item.gang.resized({podset.name: item.counts.get(podset.name, 0) for podset in item.gang.podsets})
        if not any(podset.count for podset in gang.podsets):
            return
        if not place_outstanding(self._room, [item]):
            # One that found no place loses its race; it must not keep all others waiting besides.
            self._together.add(gang, item.steering)
        rules = self._world.snapshot.rules.get(gang.namespace, NamespaceRules())
        space, _hopeful = judge_namespace(gang, read_wishes(gang, self._room), rules, {})
        self._count_quota(gang, space)

    def _count_quota(self, gang: Gang, space: NamespaceFit) -> None:
        """Remember what a gang will use of its namespace's quotas."""
        for key, amount in quota_use(gang, space).items():
            self._taken[key] = self._taken.get(key, 0) + amount

    def _names_in_use(self) -> Iterator[tuple[Name, str]]:
        """Objects of started gangs and whose they are."""
        for uid, tickets in self._world.tickets.items():
            record = self._records.get(uid)
            for ticket in tickets:
                for key in ticket_keys(ticket):
                    yield _name(key), record.key if record is not None else uid

    # Run times.

    def _open_reserver(self) -> Reserver:
        """The judge of this cycle, with what is known about when started gangs end."""
        ends: dict[str, tuple[float | None, bool]] = {}
        names: dict[tuple[str, str], str] = {}
        for uid, record in self._records.items():
            if record.state is None or record.phase not in STARTED or record.spec is None:
                continue
            estimate = self._estimate(record)
            began = read_time(record.state.started_at) or self._now
            ends[uid] = (None if estimate.seconds is None else began + estimate.seconds, estimate.enforced)
            names[(record.namespace, record.name)] = uid

        def gang_of(pod: Pod) -> str | None:
            """Real pods carry the label; promised ones are named after their gang."""
            return pod.labels.get(GANG_LABEL) or names.get((pod.namespace, pod.name.partition("/")[0]))

        after = self._terms.reserve_after if self._terms.policy == "reserve" else math.inf
        endings = gather_endings(self._room, ends, gang_of)
        return Reserver(self._room, endings, self._now, ReserveTerms(after, self._terms.hold))

    def _estimate(self, record: Record) -> Estimate:
        """How long a gang will run, as far as anybody can tell."""
        spec = spec_of(record)
        history = self._history.get((spec.queue, name_prefix(spec.name)))
        return estimate_run_time(spec.max_run_time, list(_deadlines(spec)), history)

    # One gang after the other.

    def _stopped_beforehand(self, record: Record) -> Verdict | None:
        """A verdict for a gang that room has nothing to do with; it keeps nobody else waiting."""
        if self._world.accounts is not None and record.namespace not in self._world.accounts:
            detail = f"the namespace {record.namespace} has no ServiceAccount {ACCOUNT}"
            return self._waits(record, "no_identity", detail)
        small = declared_too_small(record.state, self._world.gangs[record.uid].podsets) if record.state else None
        if small is not None:
            return self._waits(record, "declared_too_small", small)
        eligible = read_time(record.state.not_before) if record.state is not None else None
        if eligible is not None and eligible > self._now:
            return self._waits(record, "paused", f"until {record.state.not_before}" if record.state else "")
        return None

    def _judge(self, item: QueuedGang) -> bool:
        """Judge one gang in its turn; True when it starts and takes its place."""
        record = self._records[item.uid]
        gang, estimate = self._demand(record), self._estimate(record)
        alike = self._memory.demand_class(record, gang, with_labels=self._with_labels)
        verdict = _renamed(self._reserver.judge(item, gang, estimate, self._taken, demand=alike), gang)
        if verdict.answer == "fits":
            verdict = self._second_thoughts(record, gang, verdict)
        fits = verdict.answer == "fits"
        mine = self._terms.may_touch(record.uid)
        self._choices.append(Choice(record, gang, verdict, fits and mine))
        if fits:
            self._reserver.start(gang, verdict, estimate)
            self._together.add(gang, verdict.steering)
            self._count_quota(gang, verdict.space)
            self._starts += mine
        return fits

    def _second_thoughts(self, record: Record, gang: Gang, verdict: Verdict) -> Verdict:
        """What may keep a gang that fits from starting in this cycle."""
        if not steerable(record, verdict.steering):
            return verdict.held_back("order_dependent", "its pods cannot be steered: no template of theirs is known")
        taken = self._taken_names(record)
        if isinstance(taken, str):
            return verdict.held_back("name_taken", taken)
        if self._barrier is not None:
            return verdict.held_back("after_others", f"behind {self._barrier}")
        if self._terms.max_starts is not None and self._starts >= self._terms.max_starts:
            return verdict.held_back("max_starts", f"{self._starts} started in this cycle")
        if not self._together.admits(gang, verdict.steering):
            # Whoever is behind would only take what this one waits for.
            self._barrier = record.key
            return verdict.held_back("after_others", "until the pods started before it are bound")
        self._names.update(taken)
        return verdict

    def _taken_names(self, record: Record) -> dict[Name, str] | str:
        """The names of the gang's objects, or the first that is somebody else's, in words."""
        names: dict[Name, str] = {}
        for planned in plan_of(record, record.attempt, {}):
            name = _name(planned.key)
            owner = self._names.get(name)
            if owner is not None and owner != record.key:
                return f"{name[1]} {name[3]} belongs to the gang {owner}"
            names[name] = record.key
        return names

    def _behind(self, uid: str, blocker: str | None) -> Choice:
        """A gang that was not asked because of one before it."""
        record = self._records[uid]
        first = self._records.get(blocker or "")
        detail = f"behind {first.key}" if first is not None else ""
        return Choice(record, self._demand(record), self._waits(record, "behind", detail), False)

    def _waits(self, record: Record, reason: str, detail: str) -> Verdict:
        """A verdict without numbers."""
        nodes = len(self._world.snapshot.nodes)
        return Verdict(
            record.name,
            record.namespace,
            "waits",
            None,
            reason,
            NamespaceFit(True),
            nodes,
            (),
            {},
            detail=detail or None,
        )


def _renamed(verdict: Verdict, gang: Gang) -> Verdict:
    """A verdict worked out for a gang that asks for the same, with the names of this one's podsets."""
    names = [podset.name for podset in gang.podsets]
    if [item.name for item in verdict.podsets] == names or len(verdict.podsets) != len(names):
        return verdict
    podsets = tuple(dataclasses.replace(item, name=name) for item, name in zip(verdict.podsets, names, strict=True))
    return dataclasses.replace(verdict, podsets=podsets)


def _queued(record: Record) -> QueuedGang:
    """What the order needs to know of a record."""
    spec = spec_of(record)
    return QueuedGang(record.uid, spec.priority, spec.priority_slope, record.submitted, spec.queue)


def _name(key: Key) -> Name:
    """An object's name whatever version of its API is used."""
    return key[0].rpartition("/")[0], key[1], key[2], key[3]


def _deadlines(spec: GangSpec) -> Iterator[float | None]:
    """The activeDeadlineSeconds of each item that has pods; None where it has none."""
    for obj in spec.objects:
        try:
            makes_pods = bool(pod_templates(obj, "", namespace=spec.namespace))
        except NeedsPodsets:
            makes_pods = True
        except BadInput:
            continue
        if makes_pods:
            limit = (
                (obj.get("spec") or {}).get("activeDeadlineSeconds")
                if obj["kind"] in ("Job", "Pod", "RayJob")
                else None
            )
            yield float(limit) if isinstance(limit, int | float) and not isinstance(limit, bool) else None


def _finished(records: Iterable[Record]) -> Iterator[tuple[str | None, str, float]]:
    """Queue, name and run time of gangs that completed."""
    for record in records:
        if record.phase != "complete" or record.state is None or record.spec is None:
            continue
        began = read_time(record.state.started_at)
        ended = read_time(record.state.transitions[-1].at) if record.state.transitions else None
        if began is not None and ended is not None and ended > began:
            yield record.spec.queue, record.name, ended - began
