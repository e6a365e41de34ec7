# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What speaks against installing components, found before anything is written: versions, rights and webhooks."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Sequence
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._kube.access.reviews import we_may
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import (
    find_resource,
    get_object,
    list_objects,
    server_version,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    Object,
    group_and_kind,
    resource_of,
    value_at,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.rights import (
    EVERYTHING,
    RBAC,
    KindPlace,
    NeededRights,
    Right,
    RoleKey,
    bound_roles,
    needs_of,
    role_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.versions import (
    ANY,
    SemanticVersion,
    read_range,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.webhook_conflicts import (
    MutatingHook,
    WebhookConflict,
    mutating_hooks,
    webhook_conflicts,
)

_DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")
_NAMESPACE = ("", "Namespace")
_HOOKS = resource_path("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations")
_DEFAULT_NAMESPACE = "default"
_ROLE_NAME = "muster-provision"
_THE_RECORD = "the record of what is installed"
_THE_LEASE = "the Lease by which runs take turns"
# So many rights are told in a message; the result has all.
_MOST_TOLD = 8


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedComponent:
    """A component that is about to be installed, with all its objects."""

    name: str
    objects: Sequence[Object]
    # Those that are there already: nobody needs rights for them, but their webhooks count.
    others: Sequence[Object] = ()
    version: str | None = None
    # Range of server versions that it is known to work with.
    kubernetes: str = ANY
    # Components beside which its mutating webhooks have to be called again.
    reinvoke_beside: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Preflight:
    """What was found."""

    # Components that are not for this server.
    outside: tuple[str, ...]
    # Rights that are not held, each with the object that needs it.
    missing: tuple[tuple[Right, str], ...]
    conflicts: tuple[WebhookConflict, ...]
    # The roles with which no right would be missing.
    role: tuple[Object, ...]
    # What this account may not look at.
    unseen: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may do harm and is no reason to refuse anything."""
        return tuple(str(item) for item in self.conflicts if not item.harmful)

    @property
    def problem(self) -> PreflightRefusal | None:
        """The error that refuses the plan; None if nothing speaks against it."""
        causes = [*self.outside, *(str(item) for item in self.conflicts if item.harmful)]
        if self.missing:
            told = [f"{right} (for {user})" for right, user in self.missing[:_MOST_TOLD]]
            told += [f"{len(self.missing) - _MOST_TOLD} more"] if len(self.missing) > _MOST_TOLD else []
            causes.append(f"rights are missing: {', '.join(told)}")
        return PreflightRefusal("; ".join(causes), self) if causes else None

    def as_result(self) -> dict[str, t.Any]:
        """The keys of a result."""
        return {
            "outside": list(self.outside),
            "missing": [{"right": str(right), "object": user} for right, user in self.missing],
            "conflicts": [{"text": str(item), "harmful": item.harmful} for item in self.conflicts],
            "role": list(self.role),
            "unseen": list(self.unseen),
        }


class PreflightRefusal(MusterError):
    """Something speaks against a plan, and nothing was written."""

    def __init__(self, cause: str, found: Preflight) -> None:
        """Keep what was found for the result."""
        super().__init__("install", "the components", cause)
        self.found = found

    def as_result(self) -> dict[str, t.Any]:
        """The family's keys, and all that was found."""
        return {**super().as_result(), "preflight": self.found.as_result()}


def preflight(client: KubeClient, components: Sequence[PlannedComponent], record_namespace: str) -> Preflight:
    """Look at versions, rights and webhooks; only reads and reviews are sent."""
    objects = [obj for component in components for obj in component.objects]
    places = _Places(client, objects)
    placed = [places.in_place(obj) for obj in objects]
    roles, unseen = _existing_roles(client, placed)
    made = _made(client, placed, record_namespace)
    needs = needs_of(placed, places.place, roles, record_rights(record_namespace, makes=record_namespace in made))
    missing = _missing(client, needs)
    hooks, unseen_hooks = _hooks(client, components)
    beside = {component.name: component.reinvoke_beside for component in components}
    present = {hook.owner for hook in hooks} | {component.name for component in components}
    return Preflight(
        outside=tuple(_outside(client, components)),
        missing=tuple(sorted(missing.items())),
        conflicts=tuple(webhook_conflicts(hooks, beside, present)),
        role=tuple(role_objects(needs.all_rights(), _ROLE_NAME, made)),
        unseen=(*unseen, *unseen_hooks),
    )


def record_rights(namespace: str, *, makes: bool = True) -> dict[Right, str]:
    """The rights that keeping records takes, whatever is installed."""
    records = {
        Right(verb, "", "configmaps", namespace): _THE_RECORD for verb in ("create", "delete", "get", "list", "update")
    }
    lease = {
        Right(verb, "coordination.k8s.io", "leases", namespace): _THE_LEASE for verb in ("create", "get", "update")
    }
    asked = (("create", ""), ("get", namespace)) if makes else (("get", namespace),)
    home = {Right(verb, "", "namespaces", name=name): _THE_RECORD for verb, name in asked}
    return {**records, **lease, **home}


class _Places:
    """How kinds are asked for: as a definition among the objects says, as the server says, or guessed."""

    def __init__(self, client: KubeClient, objects: Iterable[Object]) -> None:
        """Note the kinds that are still to be defined."""
        self._client = client
        self._known: dict[tuple[str, str], KindPlace] = {}
        for obj in objects:
            if group_and_kind(obj) == _DEFINITION:
                group, kind = value_at(obj, ("spec", "group")), value_at(obj, ("spec", "names", "kind"))
                plural = str(value_at(obj, ("spec", "names", "plural")))
                namespaced = value_at(obj, ("spec", "scope")) != "Cluster"
                self._known[str(group), str(kind)] = KindPlace(str(group), plural, namespaced)

    def place(self, obj: Object) -> KindPlace:
        """How the kind of an object is asked for."""
        key = group_and_kind(obj)
        if key not in self._known:
            info = find_resource(self._client, obj["apiVersion"], key[1])
            if info is None:
                self._known[key] = KindPlace(key[0], resource_of(key[1]), "namespace" in obj["metadata"])
            else:
                self._known[key] = KindPlace(key[0], info.plural, info.namespaced)
        return self._known[key]

    def in_place(self, obj: Object) -> Object:
        """The object with the namespace that it will lie in."""
        if not self.place(obj).namespaced or obj["metadata"].get("namespace"):
            return obj
        return {**obj, "metadata": {**obj["metadata"], "namespace": _DEFAULT_NAMESPACE}}


def _missing(client: KubeClient, needs: NeededRights) -> dict[Right, str]:
    """The rights that the server says we do not have; who may do everything is not asked about each thing."""
    if len(_held(client, EVERYTHING)) == len(EVERYTHING):
        return {}
    held = _held(client, needs.first_questions())
    held |= _held(client, [right for right in needs.further_questions(held) if right not in held])
    return needs.missing(held)


def _held(client: KubeClient, rights: Sequence[Right]) -> set[Right]:
    """Those of some rights that we have."""
    answers = parallel([partial(we_may, client, right.attributes(), str(right)) for right in rights])
    return {right for right, allowed in zip(rights, answers, strict=True) if allowed}


def _existing_roles(
    client: KubeClient, objects: Iterable[Object]
) -> tuple[dict[RoleKey, Sequence[Object] | None], list[str]]:
    """The rules of roles in the cluster that the objects bind, and which of them cannot be read."""
    keys = sorted(bound_roles(objects))
    unseen: list[str] = []

    def read(key: RoleKey) -> Sequence[Object] | None:
        """The rules of one role."""
        plural = "roles" if key.kind == "Role" else "clusterroles"
        try:
            role = get_object(client, resource_path(f"{RBAC}/v1", plural, key.namespace or None, key.name))
        except Forbidden:
            unseen.append(f"{key.kind} {key.name}")
            return None
        return None if role is None else role.get("rules") or []

    return dict(zip(keys, parallel([partial(read, key) for key in keys]), strict=True)), sorted(unseen)


def _made(client: KubeClient, objects: Iterable[Object], record_namespace: str) -> set[str]:
    """The namespaces that are still to be made."""
    names = {obj["metadata"]["name"] for obj in objects if group_and_kind(obj) == _NAMESPACE} | {record_namespace}

    def is_there(name: str) -> bool:
        """Whether a namespace exists; one that may not be looked at does, as far as anybody knows."""
        try:
            return get_object(client, resource_path("v1", "namespaces", name=name)) is not None
        except Forbidden:
            return True

    listed = sorted(names)
    return {
        name
        for name, there in zip(listed, parallel([partial(is_there, name) for name in listed]), strict=True)
        if not there
    }


def _outside(client: KubeClient, components: Iterable[PlannedComponent]) -> Iterable[str]:
    """Components that are not for the version of the server, if it tells one."""
    major, minor = server_version(client)
    version = SemanticVersion((major, minor, 0))
    for component in components:
        bounds = read_range(component.kubernetes, f"component {component.name}: kubernetes")
        if (major, minor) != (0, 0) and not bounds.holds(version):
            told = f"{component.name} {component.version}" if component.version else component.name
            yield f"{told} needs Kubernetes {bounds}, the server has {major}.{minor}"


def _hooks(client: KubeClient, components: Sequence[PlannedComponent]) -> tuple[list[MutatingHook], list[str]]:
    """The mutating webhooks that there will be, and what of them cannot be seen."""
    planned = [
        hook
        for component in components
        for hook in mutating_hooks(component.name, [*component.objects, *component.others])
    ]
    coming = {hook.configuration for hook in planned}
    try:
        live = list_objects(client, _HOOKS, keep=lambda obj: obj).items
    except Forbidden:
        return planned, ["mutatingwebhookconfigurations"]
    others = [obj for obj in live if obj["metadata"]["name"] not in coming]
    return planned + [hook for obj in others for hook in mutating_hooks(_owner(obj), [obj])], []


def _owner(obj: Object) -> str:
    """The component whose object it is; nobody's name for one that we did not install."""
    return str(value_at(obj, ("metadata", "labels", "muster.kube/component")) or "")
