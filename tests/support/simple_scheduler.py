# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A slow and simple scheduler over raw objects, to hold the fast reckoning against, and random cases for both.

It knows nothing of placement states, rooms or proofs: it asks the filters' questions pod by pod, and tries all orders.
"""

from __future__ import annotations

import copy
import dataclasses
import random
import typing as t

from ansible_collections.muster.kube.tests.support.cluster_model import job, node, pod
from hypothesis import strategies as st

Raw = dict[str, t.Any]
HOST = "kubernetes.io/hostname"
ZONE = "zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclasses.dataclass(frozen=True)
class AllOrders:
    """All orders and choices of one case: whether some place all, whether some get stuck, and if all were tried."""

    full: bool
    stuck: bool
    exhaustive: bool


class SimpleScheduler:
    """Raw nodes, raw pods on them, and the raw pods of a gang by podset."""

    def __init__(self, nodes: list[Raw], pods: list[Raw], wanted: list[tuple[Raw, int]]) -> None:
        """Pods of the gang are given as (pod, count)."""
        self.nodes = {item["metadata"]["name"]: item for item in nodes}
        self.wanted = wanted
        self.standing = [(item, item["spec"]["nodeName"]) for item in pods]

    def choices(self, template: Raw) -> list[str]:
        """The nodes every filter lets the pod onto now."""
        return [name for name in self.nodes if self.feasible(template, name)]

    def feasible(self, incoming: Raw, name: str) -> bool:
        """All filters for one node."""
        target = self.nodes[name]
        return (
            self._selected(incoming, target)
            and not self._tainted(incoming, target)
            and self._has_room(incoming, name)
            and self._ports_free(incoming, name)
            and self._not_repelled(incoming, target)
            and self._attracted(incoming, target)
            and self._spread(incoming, target)
        )

    def _selected(self, incoming: Raw, target: Raw) -> bool:
        labels = target["metadata"]["labels"]
        if any(labels.get(key) != value for key, value in incoming["spec"].get("nodeSelector", {}).items()):
            return False
        affinity = incoming["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
        if affinity is None:
            return True
        return any(
            all(labels.get(item["key"]) in item["values"] for item in term["matchExpressions"])
            for term in affinity["nodeSelectorTerms"]
        )

    def _tainted(self, incoming: Raw, target: Raw) -> bool:
        if target["spec"]["unschedulable"]:
            return True
        tolerated = {item["key"] for item in incoming["spec"].get("tolerations", [])}
        return any(taint["key"] not in tolerated for taint in target["spec"]["taints"])

    def _has_room(self, incoming: Raw, name: str) -> bool:
        allocatable = self.nodes[name]["status"]["allocatable"]
        here = [other for other, place in self.standing if place == name]
        if len(here) + 1 > int(allocatable["pods"]):
            return False
        wanted = _cpu(incoming)
        return not wanted or wanted + sum(_cpu(other) for other in here) <= int(allocatable["cpu"])

    def _ports_free(self, incoming: Raw, name: str) -> bool:
        for other, place in self.standing:
            for one in _ports(incoming) if place == name else ():
                for two in _ports(other):
                    if one[0] == two[0] and (one[1] == two[1] or "0.0.0.0" in (one[1], two[1])):
                        return False
        return True

    def _not_repelled(self, incoming: Raw, target: Raw) -> bool:
        labels = target["metadata"]["labels"]
        for other, place in self.standing:
            there = self.nodes[place]["metadata"]["labels"]
            for owner, subject in ((incoming, other), (other, incoming)):
                for term in _terms(owner, "podAntiAffinity"):
                    key = term["topologyKey"]
                    if _matches(term, subject) and key in labels and labels[key] == there.get(key):
                        return False
        return True

    def _attracted(self, incoming: Raw, target: Raw) -> bool:
        terms = _terms(incoming, "podAffinity")
        labels = target["metadata"]["labels"]
        if any(term["topologyKey"] not in labels for term in terms):
            return False
        friends = [
            self.nodes[place]["metadata"]["labels"]
            for other, place in self.standing
            if all(_matches(term, other) for term in terms)
        ]
        if all(any(there.get(k) == labels[k] for there in friends) for k in (term["topologyKey"] for term in terms)):
            return True
        nobody = not any(term["topologyKey"] in there for term in terms for there in friends)
        return nobody and all(_matches(term, incoming) for term in terms)

    def _spread(self, incoming: Raw, target: Raw) -> bool:
        rules = incoming["spec"].get("topologySpreadConstraints", [])
        for rule in rules:
            key = rule["topologyKey"]
            if key not in target["metadata"]["labels"]:
                return False
            counts: dict[str, int] = {}
            for name, other in self.nodes.items():
                if self._takes_part(incoming, other, rule, rules):
                    domain = other["metadata"]["labels"][key]
                    here = [one for one, place in self.standing if place == name and _matches(rule, one)]
                    alive = [one for one in here if "deletionTimestamp" not in one["metadata"]]
                    counts[domain] = counts.get(domain, 0) + len(alive)
            lowest = min(counts.values(), default=0) if len(counts) >= rule.get("minDomains", 1) else 0
            own = int(_matches(rule, incoming))
            if counts.get(target["metadata"]["labels"][key], 0) + own - lowest > rule["maxSkew"]:
                return False
        return True

    def _takes_part(self, incoming: Raw, other: Raw, rule: Raw, rules: list[Raw]) -> bool:
        if any(one["topologyKey"] not in other["metadata"]["labels"] for one in rules):
            return False
        if rule.get("nodeAffinityPolicy", "Honor") == "Honor" and not self._selected(incoming, other):
            return False
        if rule.get("nodeTaintsPolicy", "Ignore") == "Ignore":
            return True
        tolerated = {item["key"] for item in incoming["spec"].get("tolerations", [])}
        return all(taint["key"] in tolerated for taint in other["spec"]["taints"])

    def try_all(self, most: int = 2500) -> AllOrders:
        """Try all orders and choices, states with the same pods on the same nodes once."""
        seen: set[tuple[t.Any, ...]] = set()
        found = {"full": False, "stuck": False, "cut": False}

        def visit(left: tuple[int, ...], position: tuple[tuple[int, str], ...]) -> None:
            if position in seen or found["cut"]:
                return
            if len(seen) >= most:
                found["cut"] = True
                return
            seen.add(position)
            if not any(left):
                found["full"] = True
                return
            moved = False
            for p, (template, _count) in enumerate(self.wanted):
                for name in self.choices(template) if left[p] else ():
                    moved = True
                    self.standing.append((template, name))
                    fewer = (*left[:p], left[p] - 1, *left[p + 1 :])
                    visit(fewer, tuple(sorted((*position, (p, name)))))
                    self.standing.pop()
            found["stuck"] = found["stuck"] or not moved

        visit(tuple(count for _template, count in self.wanted), ())
        return AllOrders(found["full"], found["stuck"], not found["cut"])

    def play_once(self, rng: random.Random) -> bool:
        """One random order and choice; whether all pods were placed."""
        left = [count for _template, count in self.wanted]
        before = list(self.standing)
        while any(left):
            moves = [
                (p, name)
                for p, (template, _count) in enumerate(self.wanted)
                if left[p]
                for name in self.choices(template)
            ]
            if not moves:
                break
            p, name = rng.choice(moves)
            self.standing.append((self.wanted[p][0], name))
            left[p] -= 1
        self.standing = before
        return not any(left)


def _cpu(item: Raw) -> int:
    return int(item["spec"]["containers"][0]["resources"]["requests"].get("cpu", 0))


def _ports(item: Raw) -> list[tuple[int, str]]:
    ports = item["spec"]["containers"][0].get("ports", [])
    return [(port["hostPort"], port.get("hostIP", "0.0.0.0")) for port in ports]


def _terms(item: Raw, kind: str) -> list[Raw]:
    return item["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])


def _matches(rule: Raw, item: Raw) -> bool:
    labels = item["metadata"]["labels"]
    return all(labels.get(key) == value for key, value in rule["labelSelector"]["matchLabels"].items())


@dataclasses.dataclass(frozen=True)
class Case:
    """Raw objects of one random case."""

    nodes: list[Raw]
    pods: list[Raw]
    jobs: list[Raw]

    def scheduler(self, steering: t.Mapping[str, t.Sequence[str]] | None = None) -> SimpleScheduler:
        """The simple scheduler for this case, podsets confined to the hosts the steering names."""
        wanted = []
        for item in self.jobs:
            template = copy.deepcopy(item["spec"]["template"])
            hosts = (steering or {}).get(item["metadata"]["name"])
            if hosts:
                term = {"matchExpressions": [{"key": HOST, "values": list(hosts)}]}
                affinity = template["spec"].setdefault("affinity", {})
                affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [term]}}
            wanted.append((template, item["spec"]["parallelism"]))
        return SimpleScheduler(self.nodes, self.pods, wanted)


APPS = ("x", "y", "z")


def selector(app: str) -> Raw:
    """The part of a rule that names pods by their app label."""
    return {"labelSelector": {"matchLabels": {"app": app}}}


def _some(draw: t.Any, one_in: int) -> bool:
    """True in one case of so many; false is the simpler one."""
    return draw(st.integers(0, one_in - 1)) == one_in - 1


def _spec(draw: t.Any, *, standing: bool) -> Raw:
    """Placement rules of a pod; pods that stand already keep only those that still matter to others."""
    spec: Raw = {}
    app, key = st.sampled_from(APPS), st.sampled_from((ZONE, HOST))
    affinity: Raw = {}
    if _some(draw, 4):
        affinity["podAntiAffinity"] = {REQUIRED: [{**selector(draw(app)), "topologyKey": draw(key)}]}
    if not standing:
        if _some(draw, 4):
            terms = [{**selector(draw(app)), "topologyKey": draw(key)} for _turn in range(1 + _some(draw, 4))]
            affinity["podAffinity"] = {REQUIRED: terms}
        if _some(draw, 4):
            spec["topologySpreadConstraints"] = [_spread_rule(draw) for _turn in range(1 + _some(draw, 4))]
        if _some(draw, 5):
            spec["nodeSelector"] = {ZONE: draw(st.sampled_from(("a", "b")))}
        if _some(draw, 4):
            spec["tolerations"] = [{"key": "t", "operator": "Exists"}]
    if affinity:
        spec["affinity"] = affinity
    return spec


def _spread_rule(draw: t.Any) -> Raw:
    """A spread constraint that forbids."""
    rule = {
        **selector(draw(st.sampled_from(APPS))),
        "topologyKey": draw(st.sampled_from((ZONE, HOST))),
        "maxSkew": draw(st.integers(1, 2)),
        "whenUnsatisfiable": "DoNotSchedule",
    }
    if _some(draw, 4):
        rule["minDomains"] = 2
    if _some(draw, 4):
        rule["nodeAffinityPolicy"] = "Ignore"
    if _some(draw, 4):
        rule["nodeTaintsPolicy"] = "Honor"
    return rule


def _containers(draw: t.Any, most_cpu: int) -> list[Raw]:
    """One container, sometimes with a host port on some address."""
    cpu = draw(st.integers(0, most_cpu))
    container: Raw = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)} if cpu else {}}}
    if _some(draw, 5):
        port = {"containerPort": 80, "hostPort": 8080}
        address = draw(st.sampled_from((None, "10.0.0.1", "10.0.0.2")))
        container["ports"] = [{**port, "hostIP": address} if address else port]
    return [container]


@st.composite
def cases(draw: t.Any, most_nodes: int = 4, most_podsets: int = 3, most_pods: int = 6) -> Case:
    """A few nodes in zones, pods on them, and a gang of one to three podsets with rules of all sorts."""
    nodes = []
    for i in range(draw(st.integers(1, most_nodes))):
        zone = draw(st.sampled_from(("a", "b", None)))
        made = node(f"n{i}", labels={ZONE: zone} if zone else {}, cpu=str(draw(st.integers(1, 4))))
        if _some(draw, 6):
            made["spec"]["taints"] = [{"key": "t", "effect": "NoSchedule"}]
        if _some(draw, 10):
            made["spec"]["unschedulable"] = True
        if _some(draw, 8):
            made["status"]["allocatable"]["pods"] = "2"
        if _some(draw, 12):
            made["metadata"]["labels"].pop(HOST)
        elif _some(draw, 12):
            made["metadata"]["labels"][HOST] = "n0"
        nodes.append(made)
    pods = []
    for i in range(draw(st.integers(0, 3))):
        on = draw(st.sampled_from(nodes))["metadata"]["name"]
        labels = {"app": draw(st.sampled_from(APPS))}
        spec = {"containers": _containers(draw, 1), **_spec(draw, standing=True)}
        pods.append(pod(f"p{i}", on=on, labels=labels, **spec))
        if _some(draw, 6):
            pods[-1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    jobs = []
    left = most_pods
    for i in range(draw(st.integers(1, most_podsets))):
        count = draw(st.integers(1, min(4, left))) if left else 0
        left -= count
        labels = {"app": draw(st.sampled_from(APPS))}
        spec = {"containers": _containers(draw, 3), **_spec(draw, standing=False)}
        jobs.append(job(f"j{i}", count, labels=labels, **spec))
    return Case(nodes, pods, jobs)
