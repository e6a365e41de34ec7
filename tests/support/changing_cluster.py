# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small cluster, as values, in which things happen: what did not change is the same object in the next snapshot."""

from __future__ import annotations

import dataclasses
import random
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    NamespaceRules,
    Node,
    Pod,
    RuntimeClass,
    Snapshot,
    node_from_api,
    pod_from_api,
)
from ansible_collections.muster.kube.tests.support.cluster_model import job, node, pod

HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
Object = dict[str, t.Any]


def required(labels: t.Mapping[str, str], key: str) -> Object:
    """A required pod (anti-)affinity with one term."""
    term = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


@dataclasses.dataclass(frozen=True)
class Shape:
    """What the pods of a podset ask for; gangs of one course share a few."""

    requests: t.Mapping[str, str]
    spec: t.Mapping[str, t.Any]
    labels: t.Mapping[str, str]


def draw_shape(chance: random.Random, rules: float) -> Shape:
    """A size, and with this chance a rule of each sort."""
    requests = {"cpu": chance.choice(("1", "1", "2", "3"))}
    spec: Object = {}
    labels = {"app": chance.choice("xyz")}
    if chance.random() < 0.15:
        requests[GPU] = chance.choice("12")
    if chance.random() < 0.2:
        spec["nodeSelector"] = {"disk": chance.choice(("ssd", "hdd"))}
    if chance.random() < 0.3:
        spec["tolerations"] = [{"key": "team", "operator": "Exists", "effect": "NoSchedule"}]
    if chance.random() < rules:
        spec["affinity"] = {
            "podAntiAffinity": required({"app": chance.choice("xyz")}, chance.choice((HOSTNAME, "zone")))
        }
    elif chance.random() < rules:
        spec["affinity"] = {"podAffinity": required({"app": chance.choice("xyz")}, "zone")}
    if chance.random() < rules:
        spread = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": labels["app"]}}}
        spec["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": "DoNotSchedule"}]
    if chance.random() < 0.1:
        spec["runtimeClassName"] = "boxed"
    if chance.random() < 0.2:
        spec["priority"] = chance.choice((-1, 5))
    return Shape(requests, spec, labels)


def draw_job(chance: random.Random, name: str, shapes: t.Sequence[Shape], most: int = 5) -> Object:
    """A Job of one of the shapes that runs something of its own."""
    shape = chance.choice(shapes)
    container = {"name": name, "image": name, "args": [name], "resources": {"requests": dict(shape.requests)}}
    if chance.random() < 0.05:
        container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    labels = {**shape.labels, "run": name}
    return job(name, chance.randint(0, most), labels=labels, containers=[container], **shape.spec)


class ChangingCluster:
    """Nodes, foreign pods and rules of namespaces."""

    def __init__(self, chance: random.Random, *, rules: float, nodes: int = 6, gpus: str | None = None) -> None:
        """A few nodes; rules is the chance that pods have rules about each other. Without gpus some nodes have two."""
        self.chance = chance
        self.gpus = gpus
        self.rules = rules
        self.made = 0
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.namespaces: dict[str, NamespaceRules] = {}
        self.runtime_classes = {"boxed": RuntimeClass({}, {}, ())}
        for _turn in range(nodes):
            self.add_node()
        for _turn in range(chance.randrange(8)):
            self.add_pod()

    def name(self, kind: str) -> str:
        """A name that was not given before."""
        self.made += 1
        return f"{kind}{self.made}"

    def add_node(self, name: str | None = None) -> None:
        """A node of some size, or another one of the same name."""
        chance, name = self.chance, name or self.name("n")
        labels = {"disk": chance.choice(("ssd", "hdd")), "zone": chance.choice("ab")}
        if chance.random() < 0.1:
            del labels["zone"]
        taints = [{"key": "team", "value": "a", "effect": "NoSchedule"}] if chance.random() < 0.15 else []
        amounts = {"cpu": chance.choice(("2", "4", "8")), "memory": "8Gi", "pods": chance.choice(("3", "110", "110"))}
        if self.gpus is not None or chance.random() < 0.5:
            amounts[GPU] = self.gpus or "2"
        cordoned = chance.random() < 0.1
        self.nodes[name] = node_from_api(node(name, labels=labels, taints=taints, unschedulable=cordoned, **amounts))

    def add_pod(self) -> None:
        """A foreign pod, mostly on a node; some belong to it."""
        chance, name = self.chance, self.name("p")
        spec: Object = {}
        if chance.random() < self.rules:
            spec["affinity"] = {"podAntiAffinity": required({"app": chance.choice("xyz")}, HOSTNAME)}
        if chance.random() < 0.3:
            spec["priority"] = chance.choice((-5, 0, 7))
        on = chance.choice([*self.nodes, "lost"]) if chance.random() < 0.85 else None
        raw = pod(
            name, on=on, labels={"app": chance.choice("xyz")}, requests={"cpu": chance.choice(("500m", "1", "2"))}
        )
        raw["spec"].update(spec)
        if chance.random() < 0.1:
            raw["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        if chance.random() < 0.1:
            raw["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": chance.choice("uv")}}]
        if chance.random() < 0.2:
            raw["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "controller": True}]
        if chance.random() < 0.05:
            raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.keep(raw)

    def keep(self, raw: Object) -> None:
        """Note a pod as the server shows it."""
        view = pod_from_api(raw)
        key = f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
        if view is None:
            self.pods.pop(key, None)
        else:
            self.pods[key] = view

    def remove_pod(self) -> None:
        """A foreign pod goes."""
        foreign = [key for key in self.pods if "/p" in key]
        if foreign:
            del self.pods[self.chance.choice(foreign)]

    def change_quota(self) -> None:
        """A namespace gets a quota, another one, or none."""
        hard = {"pods": self.chance.choice("259"), "requests.cpu": self.chance.choice("49")}
        used = {"pods": self.chance.choice("01"), "requests.cpu": "0", "configmaps": "1"}
        if self.chance.random() < 0.5:
            hard["configmaps"] = self.chance.choice("2359")
        quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}}
        quotas = (quota,) if self.chance.random() < 0.6 else ()
        self.namespaces = {**self.namespaces, self.chance.choice("ab"): NamespaceRules(quotas)}

    def change_runtime_class(self) -> None:
        """What a RuntimeClass asks of nodes changes."""
        selector = self.chance.choice(({}, {"disk": "ssd"}))
        self.runtime_classes = {"boxed": RuntimeClass({}, selector, ())}

    def happen(self) -> None:
        """Something changes."""
        events = (self.add_pod, self.remove_pod, self.remove_pod, self.change_quota)
        self.chance.choices(events, (4, 3, 3, 1))[0]()
        if self.chance.random() < 0.06:
            self.add_node(self.chance.choice(list(self.nodes)))
        if self.chance.random() < 0.03:
            self.add_node()
        if self.chance.random() < 0.03 and len(self.nodes) > 2:
            del self.nodes[self.chance.choice(list(self.nodes))]
        if self.chance.random() < 0.05:
            self.change_runtime_class()

    def snapshot(self) -> Snapshot:
        """The cluster as it is; sometimes read anew, so that everything is another object."""
        nodes, pods = tuple(self.nodes.values()), tuple(self.pods.values())
        if self.chance.random() < 0.1:
            nodes = tuple(map(dataclasses.replace, nodes))
        if self.chance.random() < 0.05:
            pods = tuple(map(dataclasses.replace, pods))
        rules, classes = dict(self.namespaces), dict(self.runtime_classes)
        return Snapshot(nodes=nodes, pods=pods, rules=rules, runtime_classes=classes)
