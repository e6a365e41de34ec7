# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What there is of components: versions, owners, health by step, drift by field, and what points to nobody."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.component.ladder.climb import Climbed, Ladder
from ansible_collections.muster.kube.plugins.module_utils._flow.component.office import Connection
from ansible_collections.muster.kube.plugins.module_utils._flow.component.plan import (
    ComponentPlan,
    plan_component,
    what_is_ahead,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.run import COMPONENT_LABEL
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.programs import (
    AS_FOUND,
    ProgramPaths,
    SourcePrograms,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.target import (
    Target,
    label_of,
    rendered_targets,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import Object
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import read_labeled
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import Component
from ansible_collections.muster.kube.plugins.module_utils._model.component.inventory import ComponentRecord
from ansible_collections.muster.kube.plugins.module_utils._model.component.ladder import STEPS
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.nearest import unknown_name
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object, versionless_key
from ansible_collections.muster.kube.plugins.module_utils._policy.component.dependencies import in_waves
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ownership import (
    ServiceName,
    owner_of_object,
    services_called,
)
from ansible_collections.muster.kube.plugins.module_utils._store.component_records import (
    RECORDS_NAMESPACE,
    ComponentRecords,
    StoredComponent,
)

# Whoever calls somebody: of these one that calls nobody is an orphan.
_CALLERS = (
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class ComponentQuestion:
    """What a task asks: all recorded components, some by name, or some as they should be."""

    names: tuple[str, ...] | None = None
    # With these drift is told by field.
    components: tuple[Component, ...] = ()
    record_namespace: str = RECORDS_NAMESPACE
    programs: ProgramPaths = AS_FOUND


def answer_components(
    connection: Connection, question: ComponentQuestion, programs: SourcePrograms
) -> dict[str, t.Any]:
    """The keys of the module's result; nothing is written."""
    with rendered_targets(question.components, programs) as targets:
        return _answer(connection(), question, targets)


def _answer(client: KubeClient, question: ComponentQuestion, targets: Sequence[Target]) -> dict[str, t.Any]:
    """The same, with the components as they should be."""
    readable, hurt = ComponentRecords(client, question.record_namespace).survey()
    records = {item.record.name: item for item in readable}
    for name in question.names or ():
        if name not in records and name not in hurt:
            raise unknown_name("read", "component", name, {*records, *hurt})
    wanted = question.names if question.names is not None or targets else (*records, *hurt)
    by_name = {target.component.name: target for target in targets}
    there = {*records}
    order = [
        name
        for wave in in_waves({name: by_name[name].component.depends_on for name in by_name}, there)
        for name in wave
    ]
    plans: list[ComponentPlan] = []
    told = [
        _told_record(client, records[name], None) if name in records else _told_hurt(name, hurt[name])
        for name in wanted or ()
        if name not in by_name
    ]
    for name in order:
        stored = records.get(name)
        try:
            if name in hurt:
                raise hurt[name]
            plans.append(plan_component(client, by_name[name], stored, what_is_ahead(plans), prune=True, smokes=False))
        except MusterError as error:
            told.append({**_told_unplanned(client, name, stored), "problem": str(error)})
            continue
        told.append(_told_plan(client, plans[-1]))
    return {"components": told, "orphans": _orphans(client, {*records, *hurt})}


def _told_plan(client: KubeClient, plan: ComponentPlan) -> dict[str, t.Any]:
    """A component that is compared with what it should be."""
    drift = [
        {**change.as_result(), **{key: change.difference()[key] for key in ("before", "after")}}
        for change in (*plan.made, *plan.late)
        if change.action != "unchanged"
    ]
    surplus = [describe_object(obj) for obj in plan.leftovers]
    if plan.found is not None:
        owner = f"{plan.found.owner} ({plan.found.object})"
        return _told(plan.target.component.name, "found", plan.found.version, owner, (), drift=[])
    if plan.stored is None:
        return {**_told(plan.target.component.name, "absent", None, None, (), drift=drift), "surplus": surplus}
    told = _told_record(client, plan.stored, plan.target.component)
    return {**told, "drift": drift, "surplus": surplus}


def _told_unplanned(client: KubeClient, name: str, stored: StoredComponent | None) -> dict[str, t.Any]:
    """A component that the server would refuse as it should be."""
    return _told(name, "absent", None, None, ()) if stored is None else _told_record(client, stored, None)


def _told_hurt(name: str, problem: MusterError) -> dict[str, t.Any]:
    """A component of which nobody knows more than that it has a record."""
    return {**_told(name, "unknown", None, f"component {name}", ()), "problem": str(problem)}


def _told_record(client: KubeClient, stored: StoredComponent, component: Component | None) -> dict[str, t.Any]:
    """A component by its record, with its health as it is now, as far as this account may look."""
    record = stored.record
    try:
        return _told_health(client, record, component)
    except MusterError as error:
        told = _told(record.name, record.phase, record.version, f"component {record.name}", ())
        return {**told, "depends_on": list(record.depends_on), "problem": str(error)}


def _told_health(client: KubeClient, record: ComponentRecord, component: Component | None) -> dict[str, t.Any]:
    """The same, where all of it can be seen."""
    described = [entry.as_object() for entry in record.entries]
    lives = read_labeled(client, label_of(record.name), described, record.uids)
    there = {versionless_key(live) for live in lives}
    missing = [
        describe_object(entry.as_object())
        for entry in record.entries
        if entry.made and versionless_key(entry.as_object()) not in there
    ]
    judged = component or Component(record.name, record.version)
    ladder = Ladder(client, Climbed(judged, lives, record.digest), 0.0, _say_nothing)
    results = ladder.glance(step for step in STEPS if step != "smoke")
    health = [item.as_result() for item in results]
    return {
        **_told(record.name, record.phase, record.version, f"component {record.name}", health),
        "missing": missing,
        "depends_on": list(record.depends_on),
    }


def _told(
    name: str,
    phase: str,
    version: str | None,
    owner: str | None,
    health: Sequence[dict[str, t.Any]],
    *,
    drift: Sequence[dict[str, t.Any]] = (),
) -> dict[str, t.Any]:
    """One component, with every key."""
    return {
        "name": name,
        "phase": phase,
        "version": version,
        "owner": owner,
        "health": list(health),
        "drift": list(drift),
        "missing": [],
        "surplus": [],
        "depends_on": [],
        "problem": None,
    }


def _say_nothing(_text: str) -> None:
    """Nobody waits for a glance."""


def _orphans(client: KubeClient, records: Iterable[str]) -> list[dict[str, t.Any]]:
    """Webhooks, APIs and definitions that call a Service that is not there, and definitions left by a component."""
    known = set(records)
    found = []
    for api_version, kind in _CALLERS:
        for obj in _listed(client, api_version, kind):
            reason = _orphaned(client, obj, known)
            if reason is not None:
                entry = {"kind": kind, "name": obj["metadata"]["name"], "owner": owner_of_object(obj)}
                found.append({**entry, "reason": reason})
    return found


def _orphaned(client: KubeClient, obj: Object, known: set[str]) -> str | None:
    """Why an object is an orphan; None if it is none."""
    for service in services_called(obj):
        if not _is_there(client, service):
            return f"it calls Service {'/'.join(service)}, which does not exist"
    component = (obj["metadata"].get("labels") or {}).get(COMPONENT_LABEL)
    if obj["kind"] == "CustomResourceDefinition" and component is not None and component not in known:
        return f"component {component}, which made it, has no record"
    return None


def _is_there(client: KubeClient, service: ServiceName) -> bool:
    """Whether a Service exists; of one that this account may not look at nobody says that it does not."""
    try:
        return get_object(client, resource_path("v1", "services", service.namespace, service.name)) is not None
    except Forbidden:
        return True


def _listed(client: KubeClient, api_version: str, kind: str) -> list[Object]:
    """All objects of a kind; none where this account may not look."""
    info = find_resource(client, api_version, kind)
    if info is None:
        return []
    try:
        items = list_objects(client, info.path(), keep=lambda raw: raw).items
    except Forbidden:
        return []
    return [{**item, "apiVersion": api_version, "kind": kind} for item in items]
