# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quota in random courses: trees as plain values, and a slow oracle that counts them without the product's arithmetic.

A tree here is a pool with leaves right below its root: {"extra": cpus, "leaves": {name: {"nominal": cpus, "most": cpus
that may be borrowed, "second": cpus, "namespaces": [...], "default": bool, "stop": word, "reclaim": word}}, "settings":
{...}, "flavored": bool}. Everything may be used that the root has, and by one leaf its nominal and what it may borrow.
A flavored tree counts two kinds of the same nodes: of the second one leaves have "second" cpus, all else is the same.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import json
import random
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, TREE_LABEL, tree_text
from ansible_collections.muster.kube.tests.support.memory_cluster import MemoryCluster

Object = dict[str, t.Any]
Tree = dict[str, t.Any]
# What is used by leaf and flavor; None is nobody's.
Used: t.TypeAlias = "collections.Counter[tuple[str | None, str]]"

HOME = "muster-system"
MAP_NAME = "muster-quota-default"
TREE = "default"
QUEUES = ("x", "y", "z")
# What becomes of a tree besides another one.
BROKEN = "broken"
GONE = "gone"
_BROKEN_TEXT = "{"
# What trees are called that nobody can read, and where there is none.
UNREADABLE = "unreadable"
NO_TREE = "none"
_AS_THEY_ARE = ("namespaces", "default", "stop", "reclaim")
# The kinds of nodes of a flavored tree; a tree without them has one that has no name.
FLAVORS = ("first", "second")
STARTED = ("dispatching", "dispatched", "running", "undoing", "evicting", "resizing", "rescaling", "unknown")


# Drawing.


def draw_tree(chance: random.Random, namespaces: t.Sequence[str]) -> Tree:
    """A tree of a few small leaves: some hard, some for a namespace, perhaps one for all others."""
    leaves: dict[str, Tree] = {}
    free = list(namespaces)
    flavored = chance.random() < 0.3
    for name in QUEUES[: chance.choice((1, 2, 2, 3))]:
        leaf: Tree = {"nominal": chance.choice((0, 1, 2, 3, 4, 4))}
        most = chance.choice((0, 0, 1, None, None))
        if most is not None:
            leaf["most"] = most
        if chance.random() < 0.3:
            chance.shuffle(free)
            leaf["namespaces"] = [free.pop() for _turn in range(min(len(free), chance.choice((1, 1, 2))))]
        if not leaf.get("namespaces"):
            leaf.pop("namespaces", None)
        if chance.random() < 0.05:
            leaf["stop"] = chance.choice(("hold", "drain"))
        if chance.random() < 0.2:
            leaf["reclaim"] = chance.choice(("never", "lower_priority"))
        if flavored:
            leaf["second"] = chance.choice((0, 1, 2, 3))
        leaves[name] = leaf
    open_leaves = [name for name, leaf in leaves.items() if "namespaces" not in leaf]
    if open_leaves and chance.random() < 0.8:
        leaves[chance.choice(open_leaves)]["default"] = True
    settings = {"min_run_time": chance.choice((0, 0, 3, 600)), "nominate_timeout": chance.choice((2, 300, 300))}
    settings["max_evictions"] = chance.choice((1, 10, 10))
    tree = {"extra": chance.choice((0, 0, 1, 2)), "leaves": leaves, "settings": settings}
    return {**tree, "flavored": True} if flavored else tree


def draw_queue(chance: random.Random) -> Tree:
    """What a gang says of its queue: nothing, a queue, perhaps one that nobody knows, in its text or as a label."""
    names: dict[str, t.Any] = {}
    if chance.random() < 0.6:
        names["queue"] = chance.choices((*QUEUES, "all", "none-such"), (12, 6, 3, 1, 1))[0]
    if chance.random() < 0.1:
        names["label"] = chance.choice(QUEUES)
    return names


def stored_tree(tree: Tree) -> Object:
    """The ConfigMap of a tree, as the module writes it."""
    flavors = FLAVORS if tree.get("flavored") else ()

    def amounts(first: int, second: int | None = None) -> Object:
        both = (first, first if second is None else second)
        return {flavor: {"cpu": cpu} for flavor, cpu in zip(flavors, both, strict=True)} if flavors else {"cpu": first}

    queues: list[Object] = [{"name": "all", **({"extra": amounts(tree["extra"])} if tree["extra"] else {})}]
    for name, leaf in tree["leaves"].items():
        queue: Object = {"name": name, "parent": "all", "nominal": amounts(leaf["nominal"], leaf.get("second"))}
        if leaf.get("most") == 0:
            queue["hard"] = True
        elif leaf.get("most"):
            queue["borrowing_limit"] = amounts(leaf["most"])
        queues.append({**queue, **{key: leaf[key] for key in _AS_THEY_ARE if key in leaf}})
    declared = {"queues": queues, "over_capacity": "warn", "settings": tree.get("settings") or {}}
    declared["flavors"] = [{"name": flavor} for flavor in flavors]
    text = tree_text(read_tree(TREE, declared))
    metadata = {"name": MAP_NAME, "namespace": HOME, "labels": {TREE_LABEL: TREE}}
    return {"metadata": metadata, "data": {TREE_KEY: text}}


def change_tree(cluster: MemoryCluster, tree: Tree | str) -> None:
    """An operator stores a tree, breaks its text, or deletes it."""
    there = cluster.get("configmaps", HOME, MAP_NAME) is not None
    if tree == GONE:
        cluster.remove("configmaps", HOME, MAP_NAME)
        return
    wanted = {"data": {TREE_KEY: _BROKEN_TEXT}} if isinstance(tree, str) else stored_tree(tree)
    if there:
        cluster.change("configmaps", HOME, MAP_NAME, lambda raw: raw.update(data=wanted["data"]))
    elif not isinstance(tree, str):
        cluster.add("configmaps", wanted)


def draw_change(chance: random.Random, namespaces: t.Sequence[str]) -> Tree | str:
    """What somebody makes of a tree: another one most of the time."""
    kind = chance.choices(("tree", BROKEN, GONE), (8, 1, 1))[0]
    return draw_tree(chance, namespaces) if kind == "tree" else kind


# The oracle.


@dataclasses.dataclass(frozen=True)
class TreeView:
    """What a tree says at some moment; word is set when there is none or none that can be read."""

    word: str | None = None
    root: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    leaves: t.Mapping[str, Tree] = dataclasses.field(default_factory=dict)
    flavors: tuple[str, ...] = ("",)

    def leaf_of(self, namespace: str, queue: str | None, label: str | None) -> str | None:
        """The leaf that a gang would be charged to; None when no rule gives one."""
        named = label or queue
        if named:
            return named if named in self.leaves else None
        own = [name for name, leaf in self.leaves.items() if namespace in (leaf.get("namespaces") or ())]
        default = [name for name, leaf in self.leaves.items() if leaf.get("default")]
        return (own or default or [None])[0]

    def admits(self, leaf: str | None, namespace: str) -> bool:
        """Whether gangs of a namespace may start in a leaf at all."""
        if leaf is None or leaf not in self.leaves:
            return False
        found = self.leaves[leaf]
        return not found.get("stop") and (not found.get("namespaces") or namespace in found["namespaces"])

    def excess(self, used: Used, leaf: str, flavors: t.Iterable[str] | None = None) -> str | None:
        """By what a leaf or the root is over its limit in these flavors, or in any; None when all is well."""
        words = (self._excess_of(used, leaf, flavor) for flavor in (self.flavors if flavors is None else flavors))
        return next((text for text in words if text is not None), None)

    def _excess_of(self, used: Used, leaf: str, flavor: str) -> str | None:
        """The same in one flavor."""
        found = self.leaves[leaf]
        most = found["most"].get(flavor)
        if most is not None and used[leaf, flavor] > (limit := found["nominal"][flavor] + most):
            return f"{used[leaf, flavor]} of {limit} in {leaf} {flavor}"
        total = sum(amount for (name, kind), amount in used.items() if name is not None and kind == flavor)
        return f"{total} of {self.root[flavor]} in all {flavor}" if total > self.root[flavor] else None

    def exceeds_nominal(self, used: Used, leaf: str) -> bool:
        """Whether a leaf uses more than its own of anything."""
        return any(used[leaf, flavor] > self.leaves[leaf]["nominal"][flavor] for flavor in self.flavors)


def view_of(stored: Object | None) -> TreeView:
    """The tree in a ConfigMap, read as plain JSON."""
    if stored is None:
        return TreeView(NO_TREE)
    try:
        tree = json.loads(stored["data"][TREE_KEY])
        queues = tree["queues"]
    except (ValueError, KeyError):
        return TreeView(UNREADABLE)
    flavors = tuple(item["name"] for item in tree.get("flavors") or ()) or ("",)

    def amount(queue: Object, key: str, flavor: str) -> t.Any:
        given = queue.get(key) or {}
        return (given.get(flavor) or {} if flavor else given).get("cpu")

    leaves = {}
    for queue in queues:
        if queue.get("parent"):
            most = {flavor: 0 if queue.get("hard") else amount(queue, "borrowing_limit", flavor) for flavor in flavors}
            leaves[queue["name"]] = {
                **queue,
                "nominal": {flavor: milli(amount(queue, "nominal", flavor) or 0) for flavor in flavors},
                "most": {flavor: milli(limit) for flavor, limit in most.items() if limit is not None},
            }
    top = next(queue for queue in queues if not queue.get("parent"))
    root = {
        flavor: milli(amount(top, "extra", flavor) or 0) + sum(leaf["nominal"][flavor] for leaf in leaves.values())
        for flavor in flavors
    }
    return TreeView(None, root, leaves, flavors)


def milli(amount: t.Any) -> int:
    """Thousandths of cpu."""
    text = str(amount)
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


@dataclasses.dataclass
class Timeline:
    """Values with the moments since when they hold."""

    moments: list[float] = dataclasses.field(default_factory=list)
    values: list[t.Any] = dataclasses.field(default_factory=list)

    def note(self, at: float, value: t.Any) -> None:
        """From now on; what was there before the beginning is nothing that anybody saw."""
        if at <= 0.0:
            self.moments.clear()
            self.values.clear()
        self.moments.append(at)
        self.values.append(value)

    def within(self, begin: float, end: float) -> list[t.Any]:
        """Everything that held at any moment of a time."""
        first = max(0, bisect.bisect_right(self.moments, begin) - 1)
        return self.values[first : bisect.bisect_right(self.moments, end)]

    @property
    def last(self) -> t.Any:
        """What holds now."""
        return self.values[-1] if self.values else None


class Wish(t.NamedTuple):
    """What a record says of its queue."""

    namespace: str
    queue: str | None
    label: str | None


def wish_of(record: Object) -> Wish:
    """The same, read as plain JSON."""
    labels = record["metadata"].get("labels") or {}
    try:
        queue = json.loads(record["data"]["gang.json"]).get("queue")
    except (ValueError, KeyError):
        queue = None
    return Wish(record["metadata"]["namespace"], queue, labels.get(TREE))


def state_text_of(record: Object) -> str:
    """The state of a record."""
    return (record["metadata"].get("annotations") or {}).get("muster.kube/state") or "{}"


def charged_in(text: str | None) -> str | None:
    """The leaf that a state names."""
    for charge in json.loads(text or "{}").get("charged") or ():
        if charge["tree"] == TREE:
            return str(charge["queue"])
    return None


def flavors_in(text: str | None) -> Object:
    """The flavors of podsets that a state names."""
    charged = json.loads(text or "{}").get("charged") or ()
    return next((item.get("flavors") or {} for item in charged if item["tree"] == TREE), {})


def reserved_in(text: str | None) -> dict[str, int]:
    """What a state says is reserved, by podset."""
    podsets = json.loads(text or "{}").get("reserved") or ()
    return {item["name"]: item["count"] * milli(item["requests"].get("cpu", 0)) for item in podsets}


def by_flavor(view: TreeView, text: str | None, leaf: str | None, living: int = 0) -> collections.Counter[str]:
    """What a state reserves in the flavors of a tree, and no less than what lives; a leaf that is gone had none."""
    named = flavors_in(text) if charged_in(text) == leaf else {}
    known = {podset: flavor for podset, flavor in named.items() if flavor in view.flavors}
    found: collections.Counter[str] = collections.Counter()
    for podset, amount in reserved_in(text).items():
        found[known.get(podset, view.flavors[0])] += amount
    found[next(iter(known.values()), view.flavors[0])] += max(0, living - sum(found.values()))
    return found


class QuotaReplay:
    """The history of trees, records, tickets, Jobs and pods, as far as quota goes."""

    def __init__(self, patience: float, home: str = HOME) -> None:
        """A start may rest on what held so long before its ticket; home is where the tree lies."""
        self.found: list[str] = []
        self._patience = patience
        self._home = home
        self._now = 0.0
        self.trees = Timeline()
        self.trees.note(-1.0, TreeView(NO_TREE))
        self._records: dict[str, Object] = {}
        self._wishes: dict[str, Timeline] = collections.defaultdict(Timeline)
        self._tickets: dict[str, Object] = {}
        # Of each gang: the last ticket with the moment of its creation, also when it is gone.
        self._begun: dict[str, tuple[Object, float]] = {}
        self._jobs: dict[str, Object] = {}
        self._pods: dict[str, Object] = {}
        self._asked: set[tuple[str, str]] = set()

    def take(self, at: float, plural: str, gone: bool, obj: Object) -> None:
        """One change."""
        self._now = at
        labels, uid = obj["metadata"].get("labels") or {}, obj["metadata"]["uid"]
        if plural == "configmaps" and _key(obj) == f"{self._home}/{MAP_NAME}":
            self.trees.note(at, view_of(None if gone else obj))
        elif plural == "configmaps" and labels.get("muster.kube/record") == "gang":
            self._wishes[uid].note(at, wish_of(obj))
            self._compare_charge(self._records.get(uid), obj)
            self._judge_eviction(self._records.get(uid), obj)
            _put(self._records, uid, obj, gone)
        elif plural == "configmaps" and labels.get("muster.kube/ticket") == "true":
            _put(self._tickets, uid, obj, gone)
            # Nobody changes a ticket, so that it is the first time.
            if not gone:
                self._begun[labels["muster.kube/gang"]] = (obj, at)
        elif plural == "jobs" and "muster.kube/gang" in labels:
            _put(self._jobs, uid, obj, gone)
            place = labels["muster.kube/gang"], labels.get("muster.kube/attempt", "")
            owner = (obj["metadata"].get("ownerReferences") or [{}])[0].get("uid")
            if not gone and place not in self._asked and owner in self._tickets:
                self._asked.add(place)
                self._judge_start(place[0])
        elif plural == "pods" and "muster.kube/gang" in labels:
            _put(self._pods, uid, obj, gone)

    def _compare_charge(self, before: Object | None, now: Object) -> None:
        """A started gang is charged to one queue until it is over."""
        if before is None:
            return
        old, new = (json.loads(state_text_of(item)) for item in (before, now))
        started = old.get("phase") in STARTED and new.get("phase") in STARTED
        if started and old.get("attempt") == new.get("attempt") and old.get("charged") != new.get("charged"):
            self.found.append(f"moved: {_key(now)} was charged to {old.get('charged')} and is to {new.get('charged')}")

    def _judge_eviction(self, before: Object | None, now: Object) -> None:
        """Who is evicted uses what is not its own, or is in the queue of whoever asked."""
        old, new = (json.loads(state_text_of(item)) if item is not None else {} for item in (before, now))
        if new.get("phase") != "evicting" or old.get("phase") == "evicting":
            return
        message, leaf = new["transitions"][-1][3], charged_in(state_text_of(now))
        views = self.trees.within(self._now - self._patience, self._now)
        if not any(self._may_go(view, leaf, message) for view in views):
            self.found.append(f"eviction: {_key(now)} of {leaf} was evicted: {message}")

    def _may_go(self, view: TreeView, leaf: str | None, message: str) -> bool:
        """Whether a gang of a leaf may be evicted under a tree."""
        found = view.leaves.get(leaf or "")
        if found is None:
            # Its queue is gone; it is charged to another one now.
            return view.word is None
        if message.endswith("is drained"):
            return bool(found.get("stop") == "drain")
        return f"/{leaf} " in message or view.exceeds_nominal(self.used(view), str(leaf))

    def used(self, view: TreeView, but: str | None = None, *, at_most: bool = False) -> Used:
        """What is used of each leaf of a tree, by flavor, but for one gang.

        At most is what dispatchers count: they do not know the flavors of pods whose records are gone.
        """
        used: Used = collections.Counter()
        for uid in {*self._records, *(gang_of(pod) for pod in self._pods.values())}:
            if uid != but:
                leaf, amounts = self._use_of(view, uid, at_most)
                used.update({(leaf, flavor): amount for flavor, amount in amounts.items()})
        return used

    def _use_of(self, view: TreeView, uid: str, at_most: bool) -> tuple[str | None, t.Mapping[str, int]]:
        """Whose quota a gang uses, and how much of each flavor."""
        record = self._records.get(uid)
        pods = [pod for pod in self._pods.values() if gang_of(pod) == uid]
        living = sum(_cpu(pod) for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed"))
        text = None if record is None else state_text_of(record)
        phase = json.loads(text or "{}").get("phase", "queued")
        ticket = self._begun.get(uid, (None, 0.0))[0]
        told = None if ticket is None else ticket["data"].get("state")
        if record is not None and phase == "queued" and any(gang_of(job) == uid for job in self._jobs.values()):
            text = told
        elif (record is None or phase not in STARTED) and pods:
            usual = next((flavor for flavor in flavors_in(told).values() if flavor in view.flavors), view.flavors[0])
            return self._leaf_left(view, pods[0]), dict.fromkeys(view.flavors if at_most else (usual,), living)
        elif record is None or phase not in STARTED:
            return None, {}
        leaf = charged_in(text)
        if leaf not in view.leaves:
            leaf = view.leaf_of(*self._wishes[uid].last)
        return leaf, by_flavor(view, text, leaf, living)

    def _leaf_left(self, view: TreeView, pod: Object) -> str | None:
        """Whose quota a pod uses whose record is gone: that of the queue in its label, if it is for its namespace."""
        namespace, named = pod["metadata"]["namespace"], pod["metadata"]["labels"].get("muster.kube/queue")
        found = view.leaves.get(named)
        if found is not None and (not found.get("namespaces") or namespace in found["namespaces"]):
            return str(named)
        return view.leaf_of(namespace, None, None)

    def _judge_start(self, uid: str) -> None:
        """The first Job of a start is there: some tree of the time of its ticket must have allowed it."""
        ticket, at = self._begun[uid]
        if uid not in self._records:
            return
        views = self.trees.within(at - self._patience, at)
        words = [self._problem(uid, view, ticket["data"].get("state"), at) for view in views]
        if words and None not in words:
            charged = charged_in(ticket["data"].get("state"))
            self.found.append(f"overshoot: {_key(self._records[uid])}, charged to {charged}, was started: {words[-1]}")

    def _problem(self, uid: str, view: TreeView, text: str | None, at: float) -> str | None:
        """Why a gang could not be started under a tree."""
        if view.word is not None:
            return None if view.word == NO_TREE else "its tree cannot be read"
        leaf = charged_in(text)
        wishes = self._wishes[uid].within(at - self._patience, at + self._patience)
        if not any(view.leaf_of(*wish) == leaf and view.admits(leaf, wish.namespace) for wish in wishes):
            return f"{wishes[-1]} gives no right to {leaf}"
        used = self.used(view, but=uid)
        taken = {flavor: amount for flavor, amount in by_flavor(view, text, leaf).items() if amount}
        used.update({(leaf, flavor): amount for flavor, amount in taken.items()})
        # A changed tree may have left others over their limits in flavors that this gang does not use.
        return None if leaf is None else view.excess(used, leaf, taken)

    def fits_now(self, uid: str, cpu: int) -> bool:
        """Whether quota lets a waiting gang of this size start as things are."""
        view, wish = self.trees.last, self._wishes[uid].last
        if view.word is not None:
            return view.word == NO_TREE
        leaf = view.leaf_of(*wish)
        if leaf is None or not view.admits(leaf, wish.namespace):
            return False
        used = self.used(view, but=uid, at_most=True)
        return any(
            view.excess(used + collections.Counter({(leaf, flavor): cpu}), leaf) is None for flavor in view.flavors
        )

    @property
    def in_force(self) -> bool:
        """Whether there is a tree now."""
        return self.trees.last.word != NO_TREE


def gang_of(obj: Object) -> str:
    """The gang in the label of an object."""
    return (obj["metadata"].get("labels") or {}).get("muster.kube/gang", "")


def _cpu(pod: Object) -> int:
    containers = pod["spec"]["containers"]
    return sum(milli(item.get("resources", {}).get("requests", {}).get("cpu", 0)) for item in containers)


def _key(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _put(table: dict[str, Object], uid: str, obj: Object, gone: bool) -> None:
    if gone:
        table.pop(uid, None)
    else:
        table[uid] = obj
