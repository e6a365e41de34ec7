# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to be done for a component: compared by the server's dry run, and refused as a whole before any write."""

from __future__ import annotations

import dataclasses
import functools
import typing as t
from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import namespaces_of, unique_keys
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_plan import (
    HelmPlan,
    plan_release,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.target import Target, TargetRelease
from ansible_collections.muster.kube.plugins.module_utils._flow.component.upgrades import require_upgrade
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import (
    DEFINITION,
    NAMESPACE,
    Foreign,
    Known,
    Object,
    ObjectChange,
    SeveralRefusals,
    ask_all,
    compare,
    in_place,
    is_ours,
    object_path,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import (
    LabeledObjects,
    find_labeled,
    is_going,
    try_removals,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object
from ansible_collections.muster.kube.plugins.module_utils._model.component.inventory import (
    ComponentRecord,
    InventoryEntry,
    key_of_object,
    merged_entries,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    describe_object,
    group_and_kind,
    versionless_key,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ownership import (
    BULK,
    owner_of_object,
    version_of_object,
)
from ansible_collections.muster.kube.plugins.module_utils._store.component_records import StoredComponent

ComponentAction = t.Literal["installed", "upgraded", "repaired", "unchanged", "found", "removed"]
# With these would go what others keep in them: they are removed with the whole component only.
KEPT_FROM_PRUNING = (DEFINITION, NAMESPACE, ("", "PersistentVolumeClaim"))


@dataclasses.dataclass(frozen=True, slots=True)
class FoundComponent:
    """A component that somebody else installed, by the object that showed it."""

    owner: str
    version: str | None
    object: str


class ForeignRelease(MusterError):
    """A release that is to be made is somebody else's, or objects of it are."""

    def __init__(self, found: FoundComponent) -> None:
        """Say whose."""
        super().__init__("install", found.object, found.owner)
        self.found = found


@dataclasses.dataclass(frozen=True, slots=True)
class Ahead:
    """What the components before this one in the same task will have made."""

    definitions: tuple[Object, ...] = ()
    namespaces: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class ComponentPlan:
    """What is to be done for one component, or was found instead."""

    target: Target
    action: ComponentAction
    stored: StoredComponent | None = None
    # Of objects that are written here; those of a release are helm's to write.
    changes: tuple[ObjectChange, ...] = ()
    release: HelmPlan | None = None
    # Of objects that come once the component is ready for them.
    late: tuple[ObjectChange, ...] = ()
    leftovers: tuple[Object, ...] = ()
    unseen: tuple[str, ...] = ()
    found: FoundComponent | None = None
    smoke: tuple[Object, ...] = ()
    smoke_due: bool = False

    @property
    def objects(self) -> tuple[Object, ...]:
        """All that it makes, where it will lie."""
        return (*(change.obj for change in (*self.made, *self.late)), *self.smoke)

    @property
    def record(self) -> ComponentRecord | None:
        """The record as it was read."""
        return None if self.stored is None else self.stored.record

    @property
    def writes(self) -> bool:
        """Whether anything has to be written."""
        return self.action not in ("unchanged", "found")

    @property
    def made(self) -> tuple[ObjectChange, ...]:
        """What becomes of all objects that come first, whoever writes them."""
        return self.changes if self.release is None else (*self.changes, *self.release.changes)

    @property
    def uncertain(self) -> bool:
        """Whether something could not be tried yet that has to be before it is written."""
        if self.release is not None:
            # helm asks for everything again by itself; only what is ahead may have changed what the chart renders.
            return bool(self.target.component.depends_on) and any(change.untried for change in self.made)
        return any(change.untried for change in self.changes)

    def coming_record(self) -> ComponentRecord:
        """The record while the work is under way: what there was, and all that is to be."""
        phase: t.Literal["installing", "upgrading"] = "upgrading" if self.action == "upgraded" else "installing"
        used = {
            versionless_key(change.obj)
            for change in self.changes
            if group_and_kind(change.obj) == NAMESPACE and change.action == "unchanged"
        }
        coming = [
            InventoryEntry(key_of_object(obj), made=versionless_key(obj) not in used)
            for obj in (
                *(change.obj for change in (*self.made, *self.late)),
                *(self.target.smoke if self.smoke_due else ()),
            )
        ]
        before = () if self.record is None else self.record.entries
        return dataclasses.replace(
            self.target.as_record(self.record), phase=phase, entries=merged_entries(coming, before)
        )


def plan_component(
    client: KubeClient, target: Target, stored: StoredComponent | None, ahead: Ahead, *, prune: bool, smokes: bool
) -> ComponentPlan:
    """What has to be done; refused where the server refuses a part, or an upgrade would lose something."""
    record = None if stored is None else stored.record
    known = _known(target, record, ahead)
    found_there = _find(client, target, record)
    try:
        changes, release = _compared(client, target, known)
        made = changes if release is None else (*changes, *release.changes)
        late = tuple(compare(client, target.late, target.label, known.after(made)))
    except MusterError as error:
        found = None if record is not None or found_there.objects else _found(error)
        if found is None:
            raise
        return ComponentPlan(target, "found", found=found)
    smoke = tuple(in_place(client, obj) for obj in target.smoke)
    unique_keys([*(change.obj for change in (*made, *late)), *smoke], target.component.where)
    require_upgrade(client, target.component, record, (change.obj for change in made))
    leftovers = _leftovers(found_there, (*made, *late)) if prune else ()
    try_removals(client, leftovers)
    smoke_due = smokes and bool(target.smoke) and (record is None or record.smoke != target.smoke_digest)
    unseen = found_there.unseen
    plan = ComponentPlan(
        target, "unchanged", stored, changes, release, late, leftovers, unseen, smoke=smoke, smoke_due=smoke_due
    )
    return dataclasses.replace(plan, action=_action(plan, adopted=bool(found_there.objects)))


def try_again(client: KubeClient, plan: ComponentPlan) -> ComponentPlan:
    """The plan with the comparison of what had to wait for others."""
    known = dataclasses.replace(_known(plan.target, plan.record, Ahead()), patient=False)
    changes, release = _compared(client, plan.target, known)
    return dataclasses.replace(plan, changes=changes, release=release)


def _compared(client: KubeClient, target: Target, known: Known) -> tuple[tuple[ObjectChange, ...], HelmPlan | None]:
    """What becomes of the objects that come first, and of the release if there is one."""
    wanted = target.release
    if wanted is None:
        return tuple(compare(client, target.main, target.label, known)), None
    helm = wanted.helm if client.guard is None else wanted.helm.held_by(client.guard)
    plan = plan_release(client, helm, wanted.chart, wanted.source, first=target.main, label=target.label, known=known)
    whole = not plan.foreign or any(group_and_kind(live) in BULK for live in plan.foreign)
    if plan.decision.action == "found" and whole:
        raise ForeignRelease(_owner_of_release(wanted, plan))
    if plan.decision.action in ("found", "refused"):
        raise MusterError("install", f"release {wanted.source.full_name}", plan.decision.words)
    return plan.first, plan


def _owner_of_release(wanted: TargetRelease, plan: HelmPlan) -> FoundComponent:
    """Whose the release is, or the objects that it would have."""
    version = next(filter(None, map(version_of_object, plan.foreign)), None)
    if plan.standing.last is not None and plan.release is not None:
        version = plan.release.app_version or plan.release.chart_version
    return FoundComponent(plan.decision.words, version, f"release {wanted.source.full_name}")


def as_it_is_now(client: KubeClient, plan: ComponentPlan) -> ComponentPlan:
    """The plan at the moment of writing: what somebody has made since is not written over, a namespace is used."""
    label, uids = plan.target.label, frozenset() if plan.record is None else plan.record.uids

    def as_it_is(change: ObjectChange) -> ObjectChange:
        """A change, or none if somebody made the namespace first."""
        info = find_resource(client, change.obj["apiVersion"], change.obj["kind"])
        if change.action != "created" or info is None:
            return change
        live = get_object(client, object_path(info, change.obj))
        if live is None or is_ours(live, label, uids):
            return change
        if group_and_kind(change.obj) == NAMESPACE:
            return ObjectChange(change.obj, "unchanged")
        raise Foreign({**live, "apiVersion": change.obj["apiVersion"], "kind": change.obj["kind"]}, label)

    return dataclasses.replace(plan, changes=tuple(ask_all(functools.partial(as_it_is, item) for item in plan.changes)))


def what_is_ahead(plans: Iterable[ComponentPlan]) -> Ahead:
    """What the components of these plans will have made."""
    changes = [change for plan in plans for change in plan.made]
    return Ahead(
        tuple(change.obj for change in changes if group_and_kind(change.obj) == DEFINITION),
        frozenset(
            change.obj["metadata"]["name"]
            for change in changes
            if group_and_kind(change.obj) == NAMESPACE and change.action == "created"
        ),
    )


def _known(target: Target, record: ComponentRecord | None, ahead: Ahead) -> Known:
    """What is known before the comparison: where others are under way, a webhook may not answer yet."""
    uids = frozenset() if record is None else record.uids
    return Known(uids, ahead.definitions, ahead.namespaces, patient=bool(target.component.depends_on))


def _find(client: KubeClient, target: Target, record: ComponentRecord | None) -> LabeledObjects:
    """Everything there is of the component."""
    before = [] if record is None else [entry.as_object() for entry in record.entries]
    objects = [*target.main, *target.late, *target.smoke, *before]
    places = namespaces_of([in_place(client, obj) for obj in objects])
    return find_labeled(client, target.label, objects, places)


def _leftovers(found: LabeledObjects, changes: Iterable[ObjectChange]) -> tuple[Object, ...]:
    """What is there of the component and not described any more."""
    wanted = {versionless_key(change.obj) for change in changes}
    return tuple(
        obj
        for obj in found.objects
        if versionless_key(obj) not in wanted and group_and_kind(obj) not in KEPT_FROM_PRUNING and not is_going(obj)
    )


def _found(error: MusterError) -> FoundComponent | None:
    """Whose component it is, if refusals show that somebody else has it."""
    if isinstance(error, ForeignRelease):
        return error.found
    refusals = error.refusals if isinstance(error, SeveralRefusals) else (error,)
    lives = [item.live for item in refusals if isinstance(item, Foreign) and group_and_kind(item.live) in BULK]
    if not lives:
        return None
    # Workloads know their version, definitions often do not.
    best = max(lives, key=lambda live: (version_of_object(live) is not None, group_and_kind(live)[0] == "apps"))
    return FoundComponent(owner_of_object(best), version_of_object(best), describe_object(best))


def _action(plan: ComponentPlan, *, adopted: bool) -> ComponentAction:
    """What the work is called."""
    record, target = plan.record, plan.target
    release = "unchanged" if plan.release is None else plan.release.decision.action
    if record is None:
        adopted = adopted or (release in ("unchanged", "repaired", "upgraded") and plan.release is not None)
        return "repaired" if adopted else "installed"
    if record.phase in ("installing", "removing"):
        return "installed"
    before = (record.version, record.digest)
    if record.phase == "upgrading" or release == "upgraded" or before != (target.component.version, target.digest):
        return "upgraded"
    changed = release != "unchanged" or any(change.action != "unchanged" for change in (*plan.made, *plan.late))
    other = plan.coming_record().identities - record.identities or record.depends_on != target.component.depends_on
    return "repaired" if changed or plan.leftovers or plan.smoke_due or other else "unchanged"


def planned_all(calls: Iterable[functools.partial[ComponentPlan]]) -> list[ComponentPlan]:
    """The plans of several components; what is refused of any of them is told at once."""
    plans: list[ComponentPlan] = []
    refusals: list[MusterError] = []
    for call in calls:
        try:
            plans.append(call())
        except MusterError as error:
            refusals += error.refusals if isinstance(error, SeveralRefusals) else [error]
    if refusals:
        raise refusals[0] if len(refusals) == 1 else SeveralRefusals(refusals)
    return plans
