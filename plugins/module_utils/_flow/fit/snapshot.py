# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a snapshot: the lists a verdict needs, at once, and only those; what may not be read is said."""

from __future__ import annotations

import dataclasses
import operator
import sys
import time
import typing as t
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import FreshLists, Listing, Lists, get_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    NamespaceRules,
    Node,
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

T = t.TypeVar("T")
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
# What the server does not serve it may serve later; it is asked again no sooner.
ABSENT_SECONDS = 30.0
NOTHING: Listing[t.Any] = Listing([], "", 0.0)
_NO_ITEMS: list[t.Any] = NOTHING.items
# The annotation of the default StorageClass, now and once.
_MARKS = ("", "beta.")
_STORAGE = ("persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes")


class PodObserver(t.Protocol):
    """Sees a pod as the server sent it and as it is kept; None for one that is not kept."""

    def __call__(self, raw: dict[str, t.Any], pod: Pod | None, /) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Needs:
    """What the gangs in question make it necessary to read besides nodes and pods."""

    namespaces: tuple[str, ...]
    claims: bool
    # Whether claims are made for single pods, which may be of the default class.
    new_claims: bool
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
        claims=any(wish.claims for wish in wishes) or any(gang.made.claims for gang in gangs),
        new_claims=any(wish.new_claims for wish in wishes),
        runtime_classes=any(wish.runtime_class for wish in wishes),
        labels=tuple(wish.labels for wish in wishes),
    )


def _wanted(needs: Needs) -> dict[str, tuple[str, Keep]]:
    """The lists to read: name, path, and what to keep of each object."""
    wanted: dict[str, tuple[str, Keep]] = {
        "nodes": (resource_path("v1", "nodes"), node_from_api),
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
        wanted["csinodes"] = (resource_path("storage.k8s.io/v1", "csinodes"), attach_limits_from_api)
    if needs.claims or needs.new_claims:
        wanted["storageclasses"] = (resource_path("storage.k8s.io/v1", "storageclasses"), _whole)
    if needs.runtime_classes:
        wanted["runtimeclasses"] = (resource_path("node.k8s.io/v1", "runtimeclasses"), runtime_class_from_api)
    return wanted


class Derived:
    """What was made of lists, kept for as long as the lists are the very same."""

    def __init__(self) -> None:
        """Nothing was made yet."""
        self._made: dict[str, tuple[tuple[t.Any, ...], t.Any]] = {}
        # Lists that the server does not serve, and until when it is not asked again.
        self.absent: dict[str, float] = {}

    def of(self, name: str, sources: tuple[t.Any, ...], make: t.Callable[[], T]) -> T:
        """What is called so, made anew if it is to be made of something else than the last time."""
        known = self._made.get(name)
        if known is None or len(known[0]) != len(sources) or any(map(operator.is_not, known[0], sources)):
            known = self._made[name] = (sources, make())
        return t.cast(T, known[1])


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
    lists = FreshLists(client)
    keep = pod_from_api if on_pod is None else _observed(on_pod, pod_from_api)
    path = resource_path("v1", "pods")

    def living() -> Listing[Pod]:
        return lists.list(path, keep=keep, limit=PAGE, field_selector=LIVING_PODS)

    return snapshot_of(lists, needs, living if pods else lambda: NOTHING, on_node=on_node)


def snapshot_of(
    lists: Lists,
    needs: Needs,
    living: t.Callable[[], Listing[Pod]],
    *,
    on_node: NodeObserver | None = None,
    derived: Derived | None = None,
) -> Reading:
    """The same from these lists and this list of pods; derived is what an earlier snapshot of theirs was made of."""
    derived = derived or Derived()
    wanted = _wanted(needs)
    if on_node is not None:
        wanted["nodes"] = (resource_path("v1", "nodes"), _observed(lambda raw, _node: on_node(raw), node_from_api))
    started = time.perf_counter()
    calls = [partial(_read_list, lists, derived, name, *how) for name, how in wanted.items()]
    results = parallel([*calls, partial(_unless_forbidden, living)])
    elapsed = time.perf_counter() - started
    names = (*wanted, "pods")
    found = {name: listing for name, listing in zip(names, results, strict=True) if listing is not None}
    missing = tuple(sorted(name for name in names if name not in found))
    # The lists are read side by side, so the longest wait is what the answer had to wait for; the rest is decoding.
    waiting = max((listing.seconds_waiting for listing in found.values()), default=0.0)
    snapshot = _assemble(found, needs, missing, derived)
    return Reading(snapshot, min(waiting, elapsed), max(0.0, elapsed - waiting))


def _unless_forbidden(read: t.Callable[[], Listing[t.Any]]) -> Listing[t.Any] | None:
    """What is read; None when this account may not."""
    try:
        return read()
    except Forbidden:
        return None


def _observed(observer: t.Callable[[dict[str, t.Any], t.Any], None], keep: Keep) -> Keep:
    """Keep an object as usual, and show it to the observer as the server sent it and as it is kept."""

    def show_and_keep(raw: dict[str, t.Any]) -> t.Any:
        kept = keep(raw)
        observer(raw, kept)
        return kept

    return show_and_keep


def _read_list(lists: Lists, derived: Derived, name: str, path: str, keep: Keep) -> Listing[t.Any] | None:
    """One list; None when this account may not read it, empty when the server does not serve that API.

    Every API server serves the core API: not finding nodes there means that something else answered. What is kept of
    nodes is what room depends on, so every change of it matters at once; heartbeats change nothing of it.
    """
    if derived.absent.get(name, 0.0) > time.monotonic():
        return NOTHING
    try:
        return lists.list(path, keep=keep, essence=_itself if name == "nodes" else None, limit=PAGE)
    except Forbidden:
        return None
    except NotFound:
        if path.startswith(CORE):
            raise
        derived.absent[name] = time.monotonic() + ABSENT_SECONDS
        return NOTHING


def require_namespace(client: KubeClient, namespace: str) -> None:
    """A gang cannot start in a namespace that does not exist; not being allowed to look is no proof of that."""
    try:
        found = get_object(client, resource_path("v1", "namespaces", name=namespace))
    except Forbidden:
        return
    if found is None:
        raise BadInput("use", f"namespace {namespace}", "it does not exist")


def _assemble(
    lists: t.Mapping[str, Listing[t.Any]], needs: Needs, missing: tuple[str, ...], derived: Derived
) -> Snapshot:
    """Put the lists together; missing ones are named in the notes."""
    read: t.Mapping[str, list[t.Any]] = {name: listing.items for name, listing in lists.items()}
    visible = "nodes" in lists and "pods" in lists

    def made(name: str, make: t.Callable[[list[t.Any]], T]) -> T:
        """What is made of one list."""
        items = read.get(name, _NO_ITEMS)
        return derived.of(name, (items,), lambda: make(items))

    namespaces = made("namespaces", dict)
    classes = made("priorityclasses", lambda items: {item["metadata"]["name"]: item for item in items})
    default: Raw | None = next((item for item in classes.values() if item.get("globalDefault")), None)
    hooks, policies = (read.get(name, _NO_ITEMS) for name in ("webhooks", "policies"))
    return Snapshot(
        nodes=made("nodes", _by_name) if visible else (),
        pods=made("pods", tuple) if visible else (),
        namespaces=namespaces,
        rules=_rules(read, needs, derived),
        storage=derived.of("storage", tuple(read.get(name, _NO_ITEMS) for name in _STORAGE), lambda: _storage(read)),
        runtime_classes=made("runtimeclasses", dict),
        priorities=derived.of("priorities", (classes,), lambda: _priorities(classes)),
        default_priority=int(default["value"]) if default else 0,
        default_priority_class=default["metadata"]["name"] if default else None,
        webhooks=_pod_changers(hooks, policies, needs, namespaces),
        nodes_visible=visible,
        unread=frozenset(_per_namespace(missing, needs)),
        notes=tuple(f"this account may not list {name}" for name in missing),
    )


def _priorities(classes: t.Mapping[str, Raw]) -> dict[str, int]:
    return {name: int(item.get("value", 0)) for name, item in classes.items()}


def _by_name(nodes: t.Iterable[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: str(node.name)))


def _rules(read: t.Mapping[str, list[t.Any]], needs: Needs, derived: Derived) -> dict[str, NamespaceRules]:
    """The rules of each namespace, from lists of its own or of the whole cluster."""
    parts: list[dict[str, tuple[t.Any, ...]]] = []
    for kind in RULE_KINDS:
        own = {name: read[f"{kind} {name}"] for name in needs.namespaces if f"{kind} {name}" in read}
        common = read.get(kind, _NO_ITEMS)
        sources = (common, *map(sys.intern, own), *own.values())
        parts.append(derived.of(kind, sources, partial(_by_namespace, common, own)))
    quotas, ranges = parts
    # Equal names are the very same once they are interned.
    return derived.of(
        "rules",
        (quotas, ranges, *map(sys.intern, needs.namespaces)),
        lambda: {name: NamespaceRules(quotas.get(name, ()), ranges.get(name, ())) for name in needs.namespaces},
    )


def _by_namespace(common: list[t.Any], own: t.Mapping[str, list[t.Any]]) -> dict[str, tuple[t.Any, ...]]:
    """Objects by their namespace, from a list of the whole cluster and from lists of single namespaces."""
    found: dict[str, list[t.Any]] = {name: list(items) for name, items in own.items()}
    for item in common:
        found.setdefault(item["metadata"]["namespace"], []).append(item)
    return {name: tuple(items) for name, items in found.items()}


def _storage(read: t.Mapping[str, list[t.Any]]) -> Storage:
    """Volumes and claims, where they were read."""
    claims, volumes, classes, limits = (read.get(name, _NO_ITEMS) for name in _STORAGE)
    late = (item for item in classes if item.get("volumeBindingMode") == "WaitForFirstConsumer")
    return Storage(
        claims=dict(claims),
        volumes=dict(volumes),
        late_binding=frozenset(item["metadata"]["name"] for item in late),
        default_class=_default_class(classes),
        attach_limits=dict(limits),
    )


def _default_class(classes: t.Iterable[Raw]) -> str | None:
    """The StorageClass that claims without one get: of several the newest, then the first by name."""
    defaults = []
    for item in classes:
        annotations = item["metadata"].get("annotations") or {}
        if any(annotations.get(f"storageclass.{mark}kubernetes.io/is-default-class") == "true" for mark in _MARKS):
            defaults.append(item["metadata"])
    defaults.sort(key=lambda meta: str(meta["name"]))
    return str(max(defaults, key=lambda meta: str(meta.get("creationTimestamp")))["name"]) if defaults else None


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


def _itself(node: Node) -> Node:
    return node


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
