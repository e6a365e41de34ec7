# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rights that somebody needs to install objects, and the role that holds exactly these.

Kubernetes lets nobody grant what they lack: whoever makes a Role needs each of its rights, or the right to escalate it,
and whoever binds one needs them too, or the right to bind it.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    Object,
    describe_object,
    group_and_kind,
    value_at,
)

RBAC = "rbac.authorization.k8s.io"
_API_VERSION = f"{RBAC}/v1"
_ROLES = {(RBAC, "ClusterRole"): "clusterroles", (RBAC, "Role"): "roles"}
_BINDINGS = ((RBAC, "ClusterRoleBinding"), (RBAC, "RoleBinding"))
# What is done with an object that is kept as described. Only creating it cannot be limited to its name.
_INSTALL_VERBS = ("get", "patch")
_ALL = "*"


class Right(t.NamedTuple):
    """Leave to do something: with objects of a kind (subresources behind a slash), or at an address of the server.

    Without a namespace it is for the whole cluster, without a name for all objects.
    """

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    url: str = ""

    def attributes(self) -> Object:
        """The right in the words of a review."""
        if self.url:
            return {"nonResourceAttributes": {"path": self.url, "verb": self.verb}}
        resource, _slash, subresource = self.resource.partition("/")
        asked = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource}
        place = {"namespace": self.namespace, "name": self.name}
        return {"resourceAttributes": {key: value for key, value in {**asked, **place}.items() if value}}

    def __str__(self) -> str:
        if self.url:
            return f"{self.verb} {self.url}"
        group = f".{self.group}" if self.group else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{group}{name}" + (f" in {self.namespace}" if self.namespace else "")


EVERYTHING = (Right(_ALL, _ALL, _ALL), Right(_ALL, url=_ALL))


class RoleKey(t.NamedTuple):
    """Which role: those for the whole cluster have no namespace."""

    kind: str
    namespace: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """Rights that an object gives away, and the right that makes up for lacking them."""

    giver: str
    excuse: Right
    rights: frozenset[Right]
    # Whether nobody knows which rights they are, or they are too many to give: then only the excuse will do.
    opaque: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class NeededRights:
    """Everything that a plan needs: rights with the object that first needs them, and what it gives away."""

    direct: Mapping[Right, str]
    grants: tuple[Grant, ...] = ()

    def first_questions(self) -> list[Right]:
        """What to ask before it is known which grants need no excuse."""
        return list(dict.fromkeys([*self.direct, *(grant.excuse for grant in self.grants)]))

    def further_questions(self, held: Collection[Right]) -> list[Right]:
        """What to ask about grants that are not excused."""
        open_grants = (grant for grant in self.grants if grant.excuse not in held and not grant.opaque)
        return sorted({right for grant in open_grants for right in grant.rights})

    def missing(self, held: Collection[Right]) -> dict[Right, str]:
        """The rights that are not held, each with the object that needs it."""
        found = {right: user for right, user in self.direct.items() if right not in held}
        for grant in self.grants:
            if grant.excuse in held:
                continue
            lacking = [grant.excuse] if grant.opaque else sorted(grant.rights - set(held))
            for right in lacking:
                found.setdefault(right, grant.giver)
        return found

    def all_rights(self) -> set[Right]:
        """Rights with which nothing is missing: those of grants themselves rather than leave to escalate."""
        found = set(self.direct)
        for grant in self.grants:
            found.update([grant.excuse] if grant.opaque else grant.rights)
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class KindPlace:
    """How a kind is asked for."""

    group: str
    plural: str
    namespaced: bool


Place = Callable[[Object], KindPlace]


def needs_of(
    objects: Sequence[Object],
    place: Place,
    roles: Mapping[RoleKey, Sequence[Object] | None],
    more: Mapping[Right, str] | None = None,
) -> NeededRights:
    """What installing objects takes.

    roles has the rules of roles that are in the cluster already; None stands for one that cannot be read.
    """
    direct: dict[Right, str] = {}
    for obj in objects:
        found = place(obj)
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "") if found.namespaced else ""
        direct.setdefault(Right("create", found.group, found.plural, namespace), describe_object(obj))
        for verb in _INSTALL_VERBS:
            right = Right(verb, found.group, found.plural, namespace, metadata["name"])
            direct.setdefault(right, describe_object(obj))
    for right, user in (more or {}).items():
        direct.setdefault(right, user)
    known = {**roles, **{_role_key(obj): obj.get("rules") or [] for obj in objects if group_and_kind(obj) in _ROLES}}
    aggregated = {_role_key(obj) for obj in objects if group_and_kind(obj) in _ROLES and obj.get("aggregationRule")}
    grants = [grant for obj in objects for grant in _grants(obj, known, aggregated)]
    return NeededRights(direct, tuple(grants))


def bound_roles(objects: Iterable[Object]) -> set[RoleKey]:
    """The roles that bindings among the objects speak of, and that are not among the objects themselves."""
    listed = list(objects)
    made = {_role_key(obj) for obj in listed if group_and_kind(obj) in _ROLES}
    return {_reference(obj) for obj in listed if group_and_kind(obj) in _BINDINGS} - made


def rights_of_rule(rule: Mapping[str, t.Any], namespace: str = "") -> Iterator[Right]:
    """The single rights of one rule of a role."""
    verbs = [str(verb) for verb in rule.get("verbs") or ()]
    for verb in verbs:
        for url in rule.get("nonResourceURLs") or ():
            yield Right(verb, url=str(url))
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for name in rule.get("resourceNames") or ("",):
                    yield Right(verb, str(group), str(resource), namespace, str(name))


def is_covered(right: Right, by: Collection[Right]) -> bool:
    """Whether another right than this one among some implies it."""
    return any(wider in by for wider in _wider(right) if wider != right)


def role_objects(rights: Collection[Right], name: str, made: Collection[str]) -> list[Object]:
    """The roles that hold exactly some rights: one for the whole cluster, and one in each namespace that is there.

    In a namespace that is still to be made nobody can be given a role, so rights in it are given in the whole cluster.
    """
    spread = {right._replace(namespace="") if right.namespace in made else right for right in rights}
    by_namespace: dict[str, set[Right]] = collections.defaultdict(set)
    for right in spread:
        if not is_covered(right, spread):
            by_namespace[right.namespace].add(right)
    objects: list[Object] = []
    for namespace, here in sorted(by_namespace.items()):
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        kind = "Role" if namespace else "ClusterRole"
        objects.append({"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata, "rules": _rules(here)})
    return objects


def _grants(
    obj: Object, roles: Mapping[RoleKey, Sequence[Object] | None], aggregated: Collection[RoleKey]
) -> Iterator[Grant]:
    """What an object gives away."""
    kind, name = group_and_kind(obj), obj["metadata"]["name"]
    namespace = obj["metadata"].get("namespace", "") if kind[1] in ("Role", "RoleBinding") else ""
    if kind in _ROLES:
        excuse = Right("escalate", RBAC, _ROLES[kind], namespace, name)
        if _role_key(obj) in aggregated:
            # It will hold whatever others give it, so only those may make it who may do everything.
            yield Grant(describe_object(obj), excuse, frozenset(EVERYTHING), opaque=True)
        rights = frozenset(right for rule in obj.get("rules") or () for right in rights_of_rule(rule, namespace))
        if rights:
            yield Grant(describe_object(obj), excuse, rights)
    elif kind in _BINDINGS:
        role = _reference(obj)
        plural = _ROLES.get((RBAC, role.kind), "clusterroles")
        excuse = Right("bind", RBAC, plural, namespace, role.name)
        rules = roles.get(role)
        rights = frozenset(right for rule in rules or () for right in rights_of_rule(rule, namespace))
        if rules is None or role in aggregated:
            yield Grant(describe_object(obj), excuse, rights, opaque=True)
        elif rights:
            yield Grant(describe_object(obj), excuse, rights)


def _role_key(role: Object) -> RoleKey:
    namespace = role["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
    return RoleKey(role["kind"], namespace, role["metadata"]["name"])


def _reference(binding: Object) -> RoleKey:
    """The role that a binding gives."""
    kind = str(value_at(binding, ("roleRef", "kind")) or "ClusterRole")
    namespace = binding["metadata"].get("namespace", "") if kind == "Role" else ""
    return RoleKey(kind, namespace, str(value_at(binding, ("roleRef", "name")) or ""))


def _wider(right: Right) -> Iterator[Right]:
    """All rights that imply one, itself among them."""
    for verb in dict.fromkeys((right.verb, _ALL)):
        if right.url:
            urls = (right.url, *(f"{right.url[:end]}{_ALL}" for end in range(len(right.url) + 1)))
            yield from (Right(verb, url=url) for url in dict.fromkeys(urls))
            continue
        _resource, slash, subresource = right.resource.partition("/")
        resources = (right.resource, _ALL, *((f"{_ALL}/{subresource}",) if slash else ()))
        for group in dict.fromkeys((right.group, _ALL)):
            for resource in dict.fromkeys(resources):
                for namespace in dict.fromkeys((right.namespace, "")):
                    for name in dict.fromkeys((right.name, "")):
                        yield Right(verb, group, resource, namespace, name)


def _rules(rights: Iterable[Right]) -> list[Object]:
    """Rights of one place as few rules, in a steady order."""
    verbs: dict[tuple[str, str, str, str], set[str]] = collections.defaultdict(set)
    for right in rights:
        verbs[right.url, right.group, right.resource, right.name].add(right.verb)
    names: dict[tuple[str, str, str, tuple[str, ...]], set[str]] = collections.defaultdict(set)
    for (url, group, resource, name), found in verbs.items():
        names[url, group, resource, tuple(sorted(found))].add(name)
    resources: dict[tuple[bool, str, tuple[str, ...], tuple[str, ...]], set[str]] = collections.defaultdict(set)
    for (url, group, resource, found_verbs), found_names in names.items():
        # All objects of a kind and single ones are two rules: the rights differ, or one would cover the other.
        resources[bool(url), group, found_verbs, tuple(sorted(found_names))].add(url or resource)
    rules: list[Object] = []
    for (is_url, group, found_verbs, named), found_resources in sorted(resources.items()):
        if is_url:
            rules.append({"nonResourceURLs": sorted(found_resources), "verbs": list(found_verbs)})
            continue
        limits = {} if named == ("",) else {"resourceNames": list(named)}
        rule = {"apiGroups": [group], "resources": sorted(found_resources), **limits, "verbs": list(found_verbs)}
        rules.append(rule)
    return rules
