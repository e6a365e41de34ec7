# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A component taken away: users' objects refuse it, its own go while the operator still runs, and nothing is left.

What is to go is recorded first, so that a run that was killed is finished by the next.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import namespaces_of
from ansible_collections.muster.kube.plugins.module_utils._flow.component.removal.by_products import (
    Operator,
    find_by_products,
    operator_of,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.removals import is_used
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_plan import (
    HelmPlan,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_plan import (
    plan_removal as plan_release_removal,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_program import HelmProgram
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_work import remove_release
from ansible_collections.muster.kube.plugins.module_utils._flow.component.target import label_of
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import (
    DEFINITION,
    NAMESPACE,
    Label,
    Object,
    in_place,
    is_ours,
    object_path,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    Conflict,
    NotFound,
    OutcomeUnknown,
    ServerFault,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import (
    find_labeled,
    is_going,
    is_usual,
    list_defined,
    list_in,
    read_labeled,
    remove_objects,
    try_removals,
    wait_until_gone,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_metadata
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import NO_HINTS, RemovalHints
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource
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
    value_at,
    versionless_key,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.helm_render import (
    HelmOwner,
    is_kept,
    owner_of,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ladder import WORKLOADS
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ownership import (
    WEBHOOKS,
    services_called,
)
from ansible_collections.muster.kube.plugins.module_utils._store.component_records import (
    ComponentRecords,
    StoredComponent,
)

_LOOK_SECONDS = 0.5
# So many objects of users are named in a refusal.
_MOST_NAMED = 5
_CALLERS = (*WEBHOOKS, ("apiregistration.k8s.io", "APIService"))
# What somebody runs or keeps in a namespace; the rest may be the operator's own.
_BELONGINGS = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "Pod"),
    ("v1", "PersistentVolumeClaim"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class RemovalTerms:
    """What goes besides the component's own objects, and how long that may take."""

    with_resources: bool
    remove_definitions: bool
    # All components that go with the same task, and those of them that are still there when this one goes.
    names: frozenset[str]
    later: frozenset[str] = frozenset()
    hints: RemovalHints = NO_HINTS


@dataclasses.dataclass(frozen=True, slots=True)
class RemovalPlan:
    """What goes of a component, in the order of going, and what stays."""

    name: str
    stored: StoredComponent | None
    # Objects that the operator has to clean up after: of users, and of the component.
    first: tuple[Object, ...] = ()
    # Kinds of those that go one after the other; all others go at once behind them.
    order: tuple[str, ...] = ()
    callers: tuple[Object, ...] = ()
    rest: tuple[Object, ...] = ()
    by_products: tuple[Object, ...] = ()
    definitions: tuple[Object, ...] = ()
    namespaces: tuple[Object, ...] = ()
    kept: tuple[Object, ...] = ()
    unseen: tuple[str, ...] = ()
    operator: Operator = dataclasses.field(default_factory=lambda: operator_of((), ()))
    # What helm takes away, if the component came from a chart.
    release: HelmPlan | None = None

    @property
    def going(self) -> tuple[Object, ...]:
        """All that goes."""
        parts = (self.first, self.callers, self.rest, self.by_products, self.definitions, self.namespaces)
        return tuple(obj for part in parts for obj in part)

    @property
    def all_callers(self) -> tuple[Object, ...]:
        """What has the server call the component, also what the operator made by itself."""
        return (*self.callers, *(obj for obj in self.by_products if group_and_kind(obj) in _CALLERS))

    @property
    def fresh(self) -> tuple[Object, ...]:
        """What goes and is not on its way yet."""
        return tuple(obj for obj in self.going if not is_going(obj))

    @property
    def writes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.going) or self.stored is not None


def plan_removal(client: KubeClient, name: str, stored: StoredComponent | None, terms: RemovalTerms) -> RemovalPlan:
    """What goes and what stays; refused while users have objects of the component's kinds."""
    label = label_of(name)
    entries = () if stored is None else stored.record.entries
    uids = frozenset() if stored is None else stored.record.uids
    described = [entry.as_object() for entry in entries if entry.made]
    places = namespaces_of([in_place(client, obj) for obj in described])
    labeled = find_labeled(client, label, described, places)
    owner = _helm_owner(stored)
    recorded = read_labeled(client, label, described, uids, is_known=lambda live: _is_of(owner, live))
    found = _each_once((*labeled.objects, *recorded))
    definitions = [obj for obj in found if group_and_kind(obj) == DEFINITION]
    instances = [obj for crd in definitions if not is_going(crd) for obj in list_defined(client, crd)]
    own = [obj for obj in instances if is_ours(obj, label, uids)]
    own += [obj for obj in instances if obj["metadata"]["uid"] in uids and _is_of(owner, obj)]
    # Those of other components that go are removed now, while there is somebody to clean up after them.
    own += [obj for obj in instances if _goes_too(obj, label, terms.names)]
    known = {obj["metadata"]["uid"] for obj in own}
    users = [obj for obj in instances if obj["metadata"]["uid"] not in known]
    if users and not terms.with_resources:
        raise _users_refuse(name, users)
    release = _release_of(client, name, owner)
    namespaces = [obj for obj in found if group_and_kind(obj) == NAMESPACE]
    left = [obj for obj in found if release is not None and is_kept(obj) and group_and_kind(obj) != DEFINITION]
    apart = (DEFINITION, NAMESPACE)
    usual = [obj for obj in found if is_usual(obj) and group_and_kind(obj) not in apart and obj not in left]
    leaving = [obj for obj in definitions if terms.remove_definitions or _goes_with(release, obj)]
    going = [
        obj
        for obj in namespaces
        if is_going(obj) or not _is_needed(client, label, obj, usual, terms.names - terms.later)
    ]
    # Of a component that somebody else installed nothing is ours to take away by its name.
    leaves = terms.hints.leaves if stored is not None else ()
    actors = (*_without_those_of_others(client, described, found), *usual)
    operator = operator_of(actors, (str(obj["metadata"]["name"]) for obj in going), leaves)
    plan = RemovalPlan(
        name,
        stored,
        first=_each_once((*users, *own, *(obj for obj in found if not is_usual(obj)))),
        order=terms.hints.first,
        callers=tuple(obj for obj in usual if group_and_kind(obj) in _CALLERS),
        rest=tuple(obj for obj in usual if group_and_kind(obj) not in _CALLERS),
        by_products=find_by_products(client, operator),
        definitions=tuple(leaving),
        namespaces=tuple(going),
        kept=(
            *(obj for obj in definitions if obj not in leaving),
            *left,
            *(obj for obj in namespaces if obj not in going),
        ),
        unseen=labeled.unseen,
        operator=operator,
        release=release,
    )
    try_removals(client, plan.fresh, patient=bool(plan.all_callers))
    return plan


def _release_of(client: KubeClient, name: str, owner: HelmOwner | None) -> HelmPlan | None:
    """What is to be done about the release of a component; one that somebody else has or is at refuses its removal."""
    if owner is None:
        return None
    plan = plan_release_removal(client, HelmSource(name, chart="", release=owner.name, namespace=owner.namespace))
    if plan.decision.action in ("found", "refused"):
        raise MusterError("remove", f"release {plan.source.full_name}", plan.decision.words)
    return plan


def _helm_owner(stored: StoredComponent | None) -> HelmOwner | None:
    """How helm marks what it made for the component; that the release is ours shows when its removal is planned."""
    if stored is None or not stored.record.release:
        return None
    home, _slash, release = stored.record.release.partition("/")
    return HelmOwner(release, home)


def _is_of(owner: HelmOwner | None, obj: Object) -> bool:
    """Whether helm made an object for this release."""
    return owner is not None and owner_of(obj) == owner


def _goes_with(release: HelmPlan | None, obj: Object) -> bool:
    """Whether an object goes when helm takes its release away."""
    if release is None or is_kept(obj):
        return False
    return _is_of(HelmOwner(release.source.release, release.source.namespace), obj)


def _without_those_of_others(
    client: KubeClient, described: Iterable[Object], found: Iterable[Object]
) -> Iterable[Object]:
    """What is recorded without what is there and not ours: nobody's Services are taken for the component's."""
    ours = {versionless_key(obj) for obj in found}
    for obj in described:
        info = find_resource(client, obj["apiVersion"], obj["kind"]) if versionless_key(obj) not in ours else None
        if info is None or get_object(client, object_path(info, obj)) is None:
            yield obj


def require_unneeded(names: Collection[str], records: Iterable[ComponentRecord]) -> None:
    """Refuse to remove a component that others need which stay."""
    for record in records:
        needed = [name for name in record.depends_on if name in names]
        if needed and record.name not in names and record.phase != "removing":
            raise MusterError("remove", f"component {needed[0]}", f"component {record.name} depends on it")


def remove_component(
    client: KubeClient,
    records: ComponentRecords,
    plan: RemovalPlan,
    open_helm: Callable[[], HelmProgram],
    deadline: float,
) -> None:
    """Take it away in order; when this returns nothing is left of it but what stays."""
    helm = open_helm() if plan.release is not None and plan.release.decision.finish_removal else None
    record = ComponentRecord(plan.name, "removing") if plan.stored is None else plan.stored.record
    entries = merged_entries(record.entries, (_entry(obj) for obj in plan.going))
    stored = plan.stored
    if record.phase != "removing" or entries != record.entries or stored is None:
        stored = records.save(stored, dataclasses.replace(record, phase="removing", entries=entries))
    for stage in _stages(plan.first, plan.order):
        _take_away_past(client, stage, plan.all_callers, deadline)
    _take_away(client, plan.callers, deadline)
    selectors = _selectors(client, plan.rest)
    _release_conversions(client, plan)
    _claim_secrets(client, plan)
    if helm is not None and plan.release is not None:
        held = helm if client.guard is None else helm.held_by(client.guard)
        remove_release(client, held, plan.release, max(1.0, deadline - client.clock()))
    _take_away_past(client, plan.rest, plan.all_callers, deadline)
    for namespace, selector in selectors:
        _wait_for_pods(client, namespace, selector, deadline)
    # As long as the operator ran it may have made them again.
    again = find_by_products(client, plan.operator)
    _take_away(client, _each_once((*again, *plan.by_products)), deadline)
    late = [obj for crd in plan.definitions for obj in list_defined(client, crd)]
    if late:
        raise _users_refuse(plan.name, late)
    _take_away(client, plan.definitions, deadline)
    _take_away(client, plan.namespaces, deadline)
    records.remove(stored)


def remove_namespaces(client: KubeClient, plan: RemovalPlan, deadline: float) -> None:
    """Take away the namespaces of a component that others needed which are gone by now."""
    _take_away(client, plan.namespaces, deadline)


def _take_away(client: KubeClient, objects: Sequence[Object], deadline: float) -> None:
    """Delete objects and wait until they are gone."""
    there = [obj for obj in objects if find_resource(client, obj["apiVersion"], obj["kind"]) is not None]
    remove_objects(client, [obj for obj in there if not is_going(obj)])
    wait_until_gone(client, there, deadline)


def _take_away_past(client: KubeClient, objects: Sequence[Object], callers: Sequence[Object], deadline: float) -> None:
    """Delete objects; if the component's own webhooks are in the way, since nobody answers them any more, without."""
    try:
        _take_away(client, objects, deadline)
    except (OutcomeUnknown, ServerFault):
        if not callers:
            raise
        _take_away(client, callers, deadline)
        _take_away(client, objects, deadline)


def _entry(obj: Object) -> InventoryEntry:
    """An object that goes, as it is recorded."""
    return InventoryEntry(key_of_object(obj), str(obj["metadata"]["uid"]))


def _each_once(objects: Iterable[Object]) -> tuple[Object, ...]:
    """The objects without repetitions."""
    return tuple({obj["metadata"]["uid"]: obj for obj in objects}.values())


def _stages(objects: Iterable[Object], kinds: Sequence[str]) -> list[list[Object]]:
    """The objects kind by kind, where kinds are named, and then all others."""
    stages: dict[str, list[Object]] = {name: [] for name in (*kinds, "")}
    for obj in objects:
        group, kind = group_and_kind(obj)
        name = f"{kind}.{group}"
        stages[name if name in stages else ""].append(obj)
    return [stage for stage in stages.values() if stage]


def _users_refuse(name: str, users: Sequence[Object]) -> MusterError:
    """The refusal because of what users have."""
    more = f" and {len(users) - _MOST_NAMED} more" if len(users) > _MOST_NAMED else ""
    named = ", ".join(map(describe_object, users[:_MOST_NAMED]))
    cause = f"users have {len(users)} objects of its kinds: {named}{more}; with_resources removes them first"
    return MusterError("remove", f"component {name}", cause)


def _goes_too(obj: Object, label: Label, names: Collection[str]) -> bool:
    """Whether an object is of a component that goes with the same task."""
    return (obj["metadata"].get("labels") or {}).get(label.key) in names


def _is_needed(
    client: KubeClient, label: Label, namespace: Object, own: Collection[Object], names: Collection[str]
) -> bool:
    """Whether something in a namespace is somebody else's: records, other components, workloads, claims."""
    if is_used(client, label, namespace, names):
        return True
    place, uids = namespace["metadata"]["name"], {obj["metadata"]["uid"] for obj in own}
    return any(
        not _goes_too(obj, label, names) and obj["metadata"]["uid"] not in uids and not is_going(obj)
        for kind in _BELONGINGS
        for obj in list_in(client, place, *kind, None)
    )


def _selectors(client: KubeClient, objects: Iterable[Object]) -> list[tuple[str, str]]:
    """Where the pods of workloads are, and by which labels they are known."""
    found = []
    for obj in objects:
        info = find_resource(client, obj["apiVersion"], obj["kind"]) if group_and_kind(obj) in WORKLOADS else None
        live = None if info is None else get_object(client, object_path(info, obj))
        labels = value_at(live, ("spec", "selector", "matchLabels"))
        if labels:
            selector = ",".join(f"{key}={value}" for key, value in labels.items())
            found.append((str(obj["metadata"]["namespace"]), selector))
    return found


def _wait_for_pods(client: KubeClient, namespace: str, selector: str, deadline: float) -> None:
    """Return when no pod of a workload is left."""
    path = resource_path("v1", "pods", namespace)
    while True:
        pods = list_metadata(client, path, keep=lambda raw: str(raw["metadata"]["name"]), label_selector=selector).items
        if not pods:
            return
        if client.clock() > deadline:
            raise MusterError("wait for the removal of", f"Pod {namespace}/{pods[0]}", "it is still there")
        client.sleep(_LOOK_SECONDS)


def _claim_secrets(client: KubeClient, plan: RemovalPlan) -> None:
    """Give the operator's own Secrets our label: when its workloads are gone nobody could tell whose they were."""
    for obj in plan.by_products:
        if group_and_kind(obj) == ("", "Secret") and not is_going(obj):
            labels = {label_of(plan.name).key: plan.name}
            change = {"metadata": {"uid": obj["metadata"]["uid"], "labels": labels}}
            info = find_resource(client, obj["apiVersion"], obj["kind"])
            if info is not None:
                with contextlib.suppress(NotFound, Conflict):
                    patch(client, object_path(info, obj), change, target=describe_object(obj))


def _release_conversions(client: KubeClient, plan: RemovalPlan) -> None:
    """Definitions that stay call the operator no more to convert objects: nobody would answer."""
    for obj in plan.kept:
        info = find_resource(client, obj["apiVersion"], obj["kind"]) if group_and_kind(obj) == DEFINITION else None
        live = None if info is None else get_object(client, object_path(info, obj))
        if info is None or live is None:
            continue
        called = services_called({**live, "apiVersion": obj["apiVersion"], "kind": obj["kind"]})
        if called and all(
            item in plan.operator.services or item.namespace in plan.operator.namespaces for item in called
        ):
            change = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
            patch(client, object_path(info, obj), change, target=describe_object(obj))
