# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a snapshot: the lists a verdict needs, at once, and only those; what may not be read is said."""

from __future__ import annotations

import collections
import dataclasses
import time
import typing as t
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import Listing, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    NamespaceRules,
    Pod,
    Snapshot,
    Storage,
    attach_limits_from_api,
    claim_from_api,
    node_from_api,
    pod_from_api,
    runtime_class_from_api,
    volume_from_api,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import label_selector

Raw = t.Mapping[str, t.Any]
Keep = t.Callable[[dict[str, t.Any]], t.Any]
NodeObserver = t.Callable[[dict[str, t.Any]], None]
PAGE = 1000
CORE = "/api/v1/"
# From so many namespaces on, their rules are read in two lists of the whole cluster instead of two lists each.
MANY_NAMESPACES = 4
RULE_KINDS = ("resourcequotas", "limitranges")
# Pods that ended take no room, and thousands of them stay for their logs.
LIVING_PODS = "status.phase!=Succeeded,status.phase!=Failed"
NOTHING: Listing[t.Any] = Listing([], "", 0.0)


class PodObserver(t.Protocol):
    """Sees a pod as the server sent it and as it is kept; None for one that is not kept."""

    def __call__(self, raw: dict[str, t.Any], pod: Pod | None, /) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """What the gangs in question make it necessary to read besides nodes and pods."""

    namespaces: tuple[str, ...]
    claims: bool
    runtime_classes: bool
    labels: tuple[Raw, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """A snapshot and what reading it cost."""

    snapshot: Snapshot
    seconds_listing: float
    seconds_decoding: float


def needs_of(gangs: t.Sequence[Gang]) -> Needs:
    """Look at the pods once to see which lists can be left out."""
    wishes = [podset.constraints for gang in gangs for podset in gang.podsets]
    return Needs(
        namespaces=tuple(dict.fromkeys(gang.namespace for gang in gangs)),
        claims=any(wish.claims for wish in wishes),
        runtime_classes=any(wish.runtime_class for wish in wishes),
        labels=tuple(wish.labels for wish in wishes),
    )


def _wanted(needs: Needs) -> dict[str, tuple[str, Keep]]:
    """The lists to read: name, path, and what to keep of each object."""
    wanted: dict[str, tuple[str, Keep]] = {
        "nodes": (resource_path("v1", "nodes"), node_from_api),
        "pods": (resource_path("v1", "pods"), pod_from_api),
        "namespaces": (resource_path("v1", "namespaces"), _namespace),
        "priorityclasses": (resource_path("scheduling.k8s.io/v1", "priorityclasses"), _whole),
        "webhooks": (resource_path("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"), _whole),
        "policies": (resource_path("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies"), _whole),
    }
    for kind in RULE_KINDS:
        if len(needs.namespaces) >= MANY_NAMESPACES:
            wanted[kind] = (resource_path("v1", kind), _whole)
        else:
            for namespace in needs.namespaces:
                wanted[f"{kind} {namespace}"] = (resource_path("v1", kind, namespace), _whole)
    if needs.claims:
        wanted["persistentvolumeclaims"] = (resource_path("v1", "persistentvolumeclaims"), claim_from_api)
        wanted["persistentvolumes"] = (resource_path("v1", "persistentvolumes"), volume_from_api)
        wanted["storageclasses"] = (resource_path("storage.k8s.io/v1", "storageclasses"), _whole)
        wanted["csinodes"] = (resource_path("storage.k8s.io/v1", "csinodes"), attach_limits_from_api)
    if needs.runtime_classes:
        wanted["runtimeclasses"] = (resource_path("node.k8s.io/v1", "runtimeclasses"), runtime_class_from_api)
    return wanted


def read_snapshot(
    client: KubeClient,
    needs: Needs,
    on_pod: PodObserver | None = None,
    *,
    pods: bool = True,
    on_node: NodeObserver | None = None,
) -> Reading:
    """Read all lists; a forbidden one is noted, and without nodes or pods only the namespace can be judged.

    on_pod sees every pod that has not ended, as the server sent it and as it is kept, for callers that want to know
    more of some pods. Without pods the cluster is shown as if none ran. on_node sees every node.
    """
    wanted = _wanted(needs)
    if on_node is not None:
        wanted["nodes"] = (resource_path("v1", "nodes"), _observed(lambda raw, _node: on_node(raw), node_from_api))
    if not pods:
        del wanted["pods"]
    if on_pod is not None:
        wanted["pods"] = (resource_path("v1", "pods"), _observed(on_pod, pod_from_api))
    started = time.perf_counter()
    results = parallel([partial(_read_list, client, name, *how) for name, how in wanted.items()])
    elapsed = time.perf_counter() - started
    lists = {name: listing for name, listing in zip(wanted, results, strict=True) if listing is not None}
    missing = tuple(sorted(name for name in wanted if name not in lists))
    if not pods:
        lists["pods"] = NOTHING
    # The lists are read side by side, so the longest wait is what the answer had to wait for; the rest is decoding.
    waiting = max((listing.seconds_waiting for listing in lists.values()), default=0.0)
    snapshot = _assemble(lists, needs, missing)
    return Reading(snapshot, min(waiting, elapsed), max(0.0, elapsed - waiting))


def _observed(observer: t.Callable[[dict[str, t.Any], t.Any], None], keep: Keep) -> Keep:
    """Keep an object as usual, and show it to the observer as the server sent it and as it is kept."""

    def show_and_keep(raw: dict[str, t.Any]) -> t.Any:
        kept = keep(raw)
        observer(raw, kept)
        return kept

    return show_and_keep


def _read_list(client: KubeClient, name: str, path: str, keep: Keep) -> Listing[t.Any] | None:
    """One list; None when this account may not read it, empty when the server does not serve that API.

    Every API server serves the core API: not finding nodes there means that something else answered.
    """
    try:
        selector = LIVING_PODS if name == "pods" else None
        return list_objects(client, path, keep=keep, limit=PAGE, field_selector=selector)
    except Forbidden:
        return None
    except NotFound:
        if path.startswith(CORE):
            raise
        return NOTHING


def require_namespace(client: KubeClient, namespace: str) -> None:
    """A gang cannot start in a namespace that does not exist; not being allowed to look is no proof of that."""
    try:
        found = get_object(client, resource_path("v1", "namespaces", name=namespace))
    except Forbidden:
        return
    if found is None:
        raise BadInput("use", f"namespace {namespace}", "it does not exist")


def _assemble(lists: t.Mapping[str, Listing[t.Any]], needs: Needs, missing: tuple[str, ...]) -> Snapshot:
    """Put the lists together; missing ones are named in the notes."""
    read: t.Mapping[str, list[t.Any]] = collections.defaultdict(list, {name: lists[name].items for name in lists})

    def rules(kind: str, namespace: str) -> tuple[t.Any, ...]:
        own = read[f"{kind} {namespace}"]
        return (*own, *(item for item in read[kind] if item["metadata"]["namespace"] == namespace))

    namespaces = dict(read["namespaces"])
    classes = {item["metadata"]["name"]: item for item in read["priorityclasses"]}
    visible = "nodes" in lists and "pods" in lists
    return Snapshot(
        nodes=tuple(sorted(read["nodes"], key=lambda node: str(node.name))) if visible else (),
        pods=tuple(read["pods"]) if visible else (),
        namespaces=namespaces,
        rules={
            name: NamespaceRules(rules("resourcequotas", name), rules("limitranges", name)) for name in needs.namespaces
        },
        storage=Storage(
            claims=dict(read["persistentvolumeclaims"]),
            volumes=dict(read["persistentvolumes"]),
            late_binding=frozenset(
                item["metadata"]["name"]
                for item in read["storageclasses"]
                if item.get("volumeBindingMode") == "WaitForFirstConsumer"
            ),
            attach_limits=dict(read["csinodes"]),
        ),
        runtime_classes=dict(read["runtimeclasses"]),
        priorities={name: int(item.get("value", 0)) for name, item in classes.items()},
        default_priority=next((int(item["value"]) for item in classes.values() if item.get("globalDefault")), 0),
        webhooks=_pod_changers(read["webhooks"], read["policies"], needs, namespaces),
        nodes_visible=visible,
        unread=frozenset(_per_namespace(missing, needs)),
        notes=tuple(f"this account may not list {name}" for name in missing),
    )


def _per_namespace(missing: t.Iterable[str], needs: Needs) -> t.Iterator[str]:
    """Names of unread lists; rules of the whole cluster are those of each namespace."""
    for name in missing:
        if name in RULE_KINDS:
            yield from (f"{name} {namespace}" for namespace in needs.namespaces)
        else:
            yield name


def _whole(raw: dict[str, t.Any]) -> dict[str, t.Any]:
    """Keep an object as it is."""
    return raw


def _namespace(raw: Raw) -> tuple[str, dict[str, str]]:
    """Name and labels of a namespace."""
    return raw["metadata"]["name"], raw["metadata"].get("labels") or {}


def _pod_changers(
    webhooks: t.Iterable[Raw], policies: t.Iterable[Raw], needs: Needs, namespaces: t.Mapping[str, t.Mapping[str, str]]
) -> tuple[str, ...]:
    """Names of webhooks and policies that may change the gangs' pods as they are created."""
    found = set()
    for configuration in webhooks:
        for hook in configuration.get("webhooks") or ():
            if _concerns_pods(hook.get("rules")) and _selects(hook, needs, namespaces):
                found.add(f"{configuration['metadata']['name']}/{hook['name']}")
    for policy in policies:
        match = (policy.get("spec") or {}).get("matchConstraints") or {}
        if _concerns_pods(match.get("resourceRules")) and _selects(match, needs, namespaces):
            found.add(policy["metadata"]["name"])
    return tuple(sorted(found))


def _concerns_pods(rules: t.Iterable[Raw] | None) -> bool:
    """Whether any rule covers the creation of pods."""
    return any(
        not {"", "*"}.isdisjoint(rule.get("apiGroups") or ())
        and not {"pods", "*", "*/*"}.isdisjoint(rule.get("resources") or ())
        and not {"CREATE", "*"}.isdisjoint(rule.get("operations") or ())
        for rule in rules or ()
    )


def _selects(match: Raw, needs: Needs, namespaces: t.Mapping[str, t.Mapping[str, str]]) -> bool:
    """Whether the selectors reach any of the gangs' namespaces and pods; an unset selector reaches all."""
    by_namespace = label_selector(match.get("namespaceSelector"))
    by_object = label_selector(match.get("objectSelector"))
    spaces = [namespaces.get(name) or {"kubernetes.io/metadata.name": name} for name in needs.namespaces]
    if by_namespace is not None and not any(by_namespace.matches(labels) for labels in spaces):
        return False
    return by_object is None or any(by_object.matches(labels) for labels in needs.labels)
