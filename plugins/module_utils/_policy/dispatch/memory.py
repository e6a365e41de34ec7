# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run remembers of records between cycles: all that follows from a specification that nobody changed.

A queue of thousands is read again in every cycle; working out each gang's podsets again would take most of it.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Collection, Hashable, Iterator

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec, digest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import Plan, plan_objects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import NamespaceRules, Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import Charge
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, unforeseen
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import sized_gang, steered_plan
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.kept import Kept
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.concurrent_starts import (
    LabelKeys,
    Steering,
    demand_class,
)

# apiVersion and kind.
VersionedKind = tuple[str, str]
Watched = dict[int, tuple[VersionedKind, str]]

# What the server refused in a dry run it is asked again no sooner.
REFUSED_SECONDS = 10.0


@dataclasses.dataclass(slots=True)
class _SpecNotes:
    """What is known of one specification; marks say which rules of the namespace the size was worked out with."""

    spec: GangSpec
    gang: Gang | None = None
    problem: str | None = None
    unforeseen: str | None = None
    marks: Hashable = None
    # The objects of one attempt, and the items of it that tell how it is doing, by the attempt's number.
    plans: dict[int, Plan] = dataclasses.field(default_factory=dict)
    watched: dict[int, Watched] = dataclasses.field(default_factory=dict)
    alike: tuple[LabelKeys, Hashable] | None = None
    deadlines: tuple[float | None, ...] | None = None
    permitted: bool = False
    refused: tuple[float, str, str] | None = None
    # The same of an elastic gang at sizes that it was given; base are the notes on the gang as it waits.
    sizes: dict[int, _SpecNotes] = dataclasses.field(default_factory=dict)
    base: _SpecNotes | None = None


class Memory:
    """Notes by record; a record whose specification is another object than before is looked at anew."""

    def __init__(self) -> None:
        """Nothing known yet."""
        self._known: dict[str, _SpecNotes] = {}
        # The last snapshot, and what sizes depend on in each of its namespaces.
        self._marks: tuple[Snapshot, dict[str, Hashable]] = Snapshot(), {}
        # What decisions keep from one cycle to the next.
        self.kept = Kept()

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget records that are gone."""
        self.kept.keep_only(uids)
        for uid in [uid for uid in tuple(self._known) if uid not in uids]:
            self._known.pop(uid, None)

    def rough_size(self, record: Record) -> tuple[Gang | None, str | None]:
        """The gang as far as it is known without a cluster, or what is wrong with it."""
        known = self._of(record)
        if known is None:
            return None, record.unreadable
        if known.gang is None and known.problem is None and known.unforeseen is None:
            self._work_out(record, known, Snapshot(), _marks(record.namespace, Snapshot()))
        return known.gang, known.problem

    def size(self, record: Record, snapshot: Snapshot) -> tuple[Gang | None, str | None]:
        """The gang with what its namespace and RuntimeClasses add, or what is wrong with it."""
        known = self._of(record)
        if known is None:
            return None, record.unreadable
        marks = self._marks_of(record.namespace, snapshot)
        if known.marks is not marks:
            if known.marks != marks:
                self._work_out(record, known, snapshot, marks)
            known.marks = marks
        return known.gang, known.problem

    def at_size(self, record: Record, size: int, snapshot: Snapshot) -> Gang | None:
        """An elastic gang with a size, whatever it has now; None where that cannot be told."""
        spec = record.spec
        if spec is None or spec.elastic is None or spec.podsets is None:
            return self.size(dataclasses.replace(record, state=None, chosen=size), snapshot)[0]
        # One that was edited declares what it was started with. What it has at another size its objects tell.
        undeclared = dataclasses.replace(spec, podsets=None)
        notes = _SpecNotes(undeclared)
        self._work_out(dataclasses.replace(record, spec=undeclared, state=None, chosen=size), notes, snapshot, None)
        return notes.gang

    def unforeseen(self, record: Record) -> str | None:
        """The error of ours that a gang's size came to; nobody can tell then what is wrong with it, or whether."""
        known = self._of(record)
        return known.unforeseen if known is not None else None

    def demand_class(self, record: Record, gang: Gang, keys: LabelKeys) -> Hashable:
        """What makes gangs alike where these labels matter; a gang that grew since is not remembered."""
        known = self._of(record)
        if known is None or known.gang is not gang:
            return demand_class(gang, keys)
        if known.alike is None or known.alike[0] != keys:
            known.alike = keys, demand_class(gang, keys)
        return known.alike[1]

    def deadlines(self, record: Record) -> tuple[float | None, ...]:
        """After how many seconds each item that has pods is ended by force; None where it is not."""
        known = self._of(record)
        if known is None:
            return ()
        if known.deadlines is None:
            known.deadlines = tuple(_deadlines(known.spec))
        return known.deadlines

    def plan(self, record: Record, steering: Steering, charged: Collection[Charge] = ()) -> Plan:
        """The objects of the present attempt as they will be created; BadInput where the record cannot be read.

        They are confined to the nodes of steering, and of the flavors that the start is charged to.
        """
        known = self._of(record)
        if known is None:
            raise BadInput("read", f"the gang {record.key}", record.unreadable)
        return steered_plan(record, _planned(record, known), steering, charged)

    def watched_items(self, record: Record) -> Watched:
        """Kind and name of the items that tell how the present attempt is doing, by their place."""
        known = self._of(record)
        if known is None:
            return {}
        watched = known.watched.get(record.attempt)
        if watched is None:
            watched = _watched(record, known)
            known.watched = {record.attempt: watched}
        return watched

    def digest(self, record: Record) -> str | None:
        """The fingerprint of what would be started, or was; None when the record cannot be read."""
        spec = record.spec_started
        return digest(spec) if spec is not None else None

    def is_permitted(self, record: Record) -> bool:
        """Whether a gang was found to be one that may be started."""
        known = self._known.get(record.uid)
        return known is not None and known.permitted and known.spec is record.spec

    def permitted(self, record: Record, ask: t.Callable[[], str | None]) -> str | None:
        """Why a gang may not be started whoever asks; a yes is remembered, since discovery costs requests."""
        known = self._of(record)
        known = known.base or known if known is not None else None
        if known is None or known.permitted:
            return None
        problem = ask()
        known.permitted = problem is None
        return problem

    def note_refused(self, record: Record, now: float, reason: str, detail: str) -> None:
        """Remember why a dry run refused the gang for a while: a name that somebody else has, a quota, a webhook."""
        known = self._of(record)
        if known is not None:
            (known.base or known).refused = (now, reason, detail)

    def refused(self, record: Record, now: float) -> tuple[str, str] | None:
        """Reason and detail of a refusal of late; until the server is asked again the gang takes no room."""
        known = self._of(record)
        known = known.base or known if known is not None else None
        if known is None or known.refused is None or now >= known.refused[0] + REFUSED_SECONDS:
            return None
        return known.refused[1:]

    def _marks_of(self, namespace: str, snapshot: Snapshot) -> Hashable:
        """The versions of everything outside of its records that sizes in a namespace depend on."""
        if self._marks[0] is not snapshot:
            self._marks = snapshot, {}
        marks = self._marks[1].get(namespace)
        if marks is None:
            marks = self._marks[1][namespace] = _marks(namespace, snapshot)
        return marks

    def _of(self, record: Record) -> _SpecNotes | None:
        """The notes on a record's present specification."""
        spec = record.spec
        if spec is None:
            return None
        plain = spec if spec.allotment is None else spec.with_allotment(None)
        known = self._known.get(record.uid)
        if known is None or known.spec is not plain:
            known = self._known[record.uid] = _SpecNotes(plain)
        return known if spec.allotment is None else _at_size(known, spec, spec.allotment)

    @staticmethod
    def _work_out(record: Record, known: _SpecNotes, snapshot: Snapshot, marks: Hashable) -> None:
        """Size a gang; what is wrong with one record never stops the others."""
        known.marks, known.alike = marks, None
        known.gang = known.problem = known.unforeseen = None
        try:
            known.gang = sized_gang(record, snapshot)
        except BadInput as error:
            known.problem = str(error)
        except Exception as error:  # noqa: BLE001 - it harms no other gang
            known.unforeseen = unforeseen(error)


def _at_size(base: _SpecNotes, spec: GangSpec, size: int) -> _SpecNotes:
    """The notes on an elastic gang with the size that it is given."""
    if size not in base.sizes:
        base.sizes[size] = _SpecNotes(spec, base=base)
    return base.sizes[size]


def _marks(namespace: str, snapshot: Snapshot) -> Hashable:
    """The versions of everything outside of a record that its size depends on."""
    rules = snapshot.rules.get(namespace, NamespaceRules())
    ranges = tuple(
        (item["metadata"].get("uid"), item["metadata"].get("resourceVersion")) for item in rules.limit_ranges
    )
    overheads = tuple(sorted((name, str(value.overhead)) for name, value in snapshot.runtime_classes.items()))
    return ranges, overheads


def _planned(record: Record, known: _SpecNotes) -> Plan:
    """The objects of the present attempt, planned once; another thread may be at another attempt of the record."""
    plan = known.plans.get(record.attempt)
    if plan is None:
        plan = plan_objects(known.spec, record.uid, record.attempt)
        known.plans = {record.attempt: plan}
    return plan


def _watched(record: Record, known: _SpecNotes) -> Watched:
    """The items that make pods, or may, and those that completion asks about."""
    asked = {entry["item"] for entry in known.spec.completion or () if "item" in entry}
    try:
        plan = _planned(record, known)
    except BadInput:
        return {}
    return {
        item.index: (item.key.versioned_kind, item.key.name)
        for item in plan
        if item.index in asked or kind_of(item.object).may_make_pods
    }


def _deadlines(spec: GangSpec) -> Iterator[float | None]:
    """After how many seconds each item that has pods is ended by force; None where it is not."""
    for obj in spec.objects:
        kind = kind_of(obj)
        if kind.may_make_pods:
            yield kind.deadline_seconds(obj)
