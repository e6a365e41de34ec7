# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator made by itself, without our label: webhooks, APIs, Leases and certificates that point to it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._kube.apply import Object, ask_all, object_path
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import group_and_kind
from ansible_collections.muster.kube.plugins.module_utils._policy.component.helm_render import owner_of
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ladder import WORKLOADS, named_object
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ownership import (
    ServiceName,
    calls_only,
    is_held_by,
    mounted_secrets,
)

_CALLERS = (
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("apiregistration.k8s.io/v1", "APIService"),
)
_LEASE = ("coordination.k8s.io/v1", "Lease")
_COMPONENT_LABEL = "muster.kube/component"


@dataclasses.dataclass(frozen=True, slots=True)
class Operator:
    """By what its own objects are known: its Services, its workloads, and the namespaces that are all its own."""

    services: frozenset[ServiceName]
    workloads: frozenset[tuple[str, str]]
    namespaces: frozenset[str]
    # What it makes besides, by kind and name.
    leaves: tuple[str, ...] = ()


def operator_of(objects: Iterable[Object], namespaces: Iterable[str], leaves: Iterable[str] = ()) -> Operator:
    """The operator among the objects of a component."""
    services, workloads = set(), set()
    for obj in objects:
        place = (str(obj["metadata"].get("namespace") or "default"), str(obj["metadata"]["name"]))
        if group_and_kind(obj) == ("", "Service"):
            services.add(ServiceName(*place))
        elif group_and_kind(obj) in WORKLOADS:
            workloads.add(place)
    return Operator(frozenset(services), frozenset(workloads), frozenset(namespaces), tuple(leaves))


def find_by_products(client: KubeClient, operator: Operator) -> tuple[Object, ...]:
    """What is there of an operator's own making, outside of namespaces that go anyway."""
    callers = [
        obj
        for kind in (_CALLERS if operator.services or operator.namespaces else ())
        for obj in _listed(client, kind, None)
        if calls_only(obj, operator.services, operator.namespaces)
    ]
    places = sorted({namespace for namespace, _name in operator.workloads} - operator.namespaces)
    leases = [
        obj
        for namespace in places
        for obj in _listed(client, _LEASE, namespace)
        if is_held_by(obj, [name for place, name in operator.workloads if place == namespace])
    ]
    secrets = _secrets(client, operator, places)
    found = {obj["metadata"]["uid"]: obj for obj in (*callers, *leases, *secrets, *_left(client, operator.leaves))}
    return tuple(obj for obj in found.values() if _COMPONENT_LABEL not in (obj["metadata"].get("labels") or {}))


def _left(client: KubeClient, names: Iterable[str]) -> list[Object]:
    """What is there of the things that a catalogue names, unless it is of a release."""
    found: list[Object] = []
    for obj in map(named_object, names):
        info = find_resource(client, obj["apiVersion"], obj["kind"])
        live = None if info is None else get_object(client, object_path(info, obj))
        if live is not None and owner_of(live) is None:
            found.append({"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": live["metadata"]})
    return found


def _secrets(client: KubeClient, operator: Operator, places: Iterable[str]) -> list[Object]:
    """Secrets that the operator's pods mount and that came after the operator: nobody made them for it."""
    found: list[Object] = []
    for workload in _workloads(client, operator, places):
        namespace, since = workload["metadata"]["namespace"], workload["metadata"].get("creationTimestamp", "")
        for name in mounted_secrets(workload):
            info = find_resource(client, "v1", "Secret")
            secret = None if info is None else get_object(client, info.path(namespace, name))
            if secret is not None and secret["metadata"].get("creationTimestamp", "") > since:
                found.append({"apiVersion": "v1", "kind": "Secret", "metadata": secret["metadata"]})
    return found


def _workloads(client: KubeClient, operator: Operator, places: Iterable[str]) -> list[Object]:
    """The operator's workloads in these namespaces, as far as they are still there."""
    wanted = set(places)

    def read(namespace: str, name: str) -> list[Object]:
        """Those of a name."""
        objects: tuple[Object, ...] = tuple(
            {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
            for kind in ("Deployment", "StatefulSet", "DaemonSet")
        )
        infos = ((obj, find_resource(client, obj["apiVersion"], obj["kind"])) for obj in objects)
        lives = (get_object(client, object_path(info, obj)) for obj, info in infos if info is not None)
        return [live for live in lives if live is not None]

    calls = [functools.partial(read, *place) for place in sorted(operator.workloads) if place[0] in wanted]
    return [live for lives in ask_all(calls) for live in lives]


def _listed(client: KubeClient, kind: tuple[str, str], namespace: str | None) -> list[Object]:
    """All objects of a kind; none where this account may not look."""
    info = find_resource(client, *kind)
    if info is None:
        return []

    def keep(raw: Object) -> Object:
        """With its kind, which lists of built-in kinds leave out."""
        return {**raw, "apiVersion": kind[0], "kind": kind[1]}

    try:
        return list(list_objects(client, info.path(namespace), keep=keep).items)
    except Forbidden:
        return []
