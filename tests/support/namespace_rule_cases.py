# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random namespaces with quotas and LimitRanges, and random objects to create there. The same seed gives the same."""

from __future__ import annotations

import dataclasses
import random
import typing as t

from ansible_collections.muster.kube.tests.support.pod_cases import GADGET, HUGE, make_pod

Object = dict[str, t.Any]

HIGH, DEFAULT_PRIORITY = "rules-high", "rules-usual"
FAST, DEFAULT_CLASS = "rules-fast", "rules-usual"
GOLD = "rules-gold"
# More than anything asks for.
PLENTY = "1000000"
POD_NAMES = ("pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
MORE_POD_NAMES = (
    *("count/pods", "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"),
    *(f"requests.{GADGET}", HUGE, f"requests.{HUGE}"),
)
CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")
CLASS_NAMES = tuple(
    f"{name}.storageclass.storage.k8s.io/{what}" for name in (FAST, DEFAULT_CLASS) for what in CLAIM_NAMES
)
OBJECT_NAMES = (
    *("configmaps", "count/configmaps", "secrets", "count/secrets", "services", "count/services"),
    *("services.nodeports", "services.loadbalancers", "replicationcontrollers", "count/replicationcontrollers"),
    *("count/persistentvolumeclaims", "count/jobs.batch", "count/deployments.apps", "count/leases.coordination.k8s.io"),
)
ALL_NAMES = (*POD_NAMES, *MORE_POD_NAMES, *CLAIM_NAMES, *CLASS_NAMES, *OBJECT_NAMES)


@dataclasses.dataclass(frozen=True)
class Space:
    """A namespace: what is there, its rules with room for anything, and what is to be created."""

    name: str
    before: tuple[Object, ...]
    limit_ranges: tuple[Object, ...]
    quotas: tuple[Object, ...]
    asked: tuple[Object, ...]


def make_space(seed: int, index: int, name: str) -> Space:
    """The namespace of this seed and index."""
    chance = random.Random(f"{seed}/{index}/space")
    before = [_draw(chance, seed, index, turn, name) for turn in range(chance.randint(0, 4))]
    asked = [_draw(chance, seed, index, 100 + turn, name) for turn in range(chance.randint(2, 7))]
    limit_ranges = [_limit_range(chance, f"l{turn}", name) for turn in range(chance.choice((0, 0, 0, 1, 1, 2)))]
    quotas = [_quota(chance, f"q{turn}", name, wide=not turn) for turn in range(chance.randint(1, 3))]
    return Space(name, tuple(before), tuple(limit_ranges), tuple(quotas), tuple(asked))


def shared_objects() -> list[Object]:
    """The classes that the namespaces speak of."""
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    return [
        _thing("scheduling.k8s.io/v1", "PriorityClass", HIGH, None, value=1000),
        _thing("scheduling.k8s.io/v1", "PriorityClass", DEFAULT_PRIORITY, None, value=0, globalDefault=True),
        *(
            {
                **_thing("storage.k8s.io/v1", "StorageClass", name, None, provisioner="kubernetes.io/no-provisioner"),
                "metadata": {"name": name, "annotations": default if name == DEFAULT_CLASS else {}},
                "volumeBindingMode": "WaitForFirstConsumer",
            }
            for name in (FAST, DEFAULT_CLASS)
        ),
    ]


def _thing(api_version: str, kind: str, name: str, namespace: str | None, **fields: t.Any) -> Object:
    """An object."""
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}


def _draw(chance: random.Random, seed: int, index: int, turn: int, namespace: str) -> Object:
    """One object of any kind; half of them are pods."""
    name = f"o{turn}"
    if chance.random() < 0.5:
        return _pod(chance, seed, index * 1000 + turn, name, namespace)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    once = {"metadata": {}, "spec": {**template["spec"], "restartPolicy": "Never"}}
    labels = {"matchLabels": {"a": "b"}}
    made = {
        "ConfigMap": ("v1", {}),
        "Secret": ("v1", {}),
        "Lease": ("coordination.k8s.io/v1", {}),
        "Service": ("v1", {"spec": _service(chance)}),
        "PersistentVolumeClaim": ("v1", _claim(chance)),
        "Job": ("batch/v1", {"spec": {"parallelism": 0, "template": once}}),
        "ReplicationController": ("v1", {"spec": {"replicas": 0, "selector": {"a": "b"}, "template": template}}),
        "Deployment": ("apps/v1", {"spec": {"replicas": 0, "selector": labels, "template": template}}),
    }
    kind = chance.choice([*made, "PersistentVolumeClaim", "Service"])
    return _thing(made[kind][0], kind, name, namespace, **made[kind][1])


def _pod(chance: random.Random, seed: int, number: int, name: str, namespace: str) -> Object:
    """A pod that no node takes: one that ran would end some day and count no more."""
    pod = make_pod(seed, number, namespace)
    pod["metadata"]["name"] = name
    spec = pod["spec"]
    spec["nodeSelector"] = {"rules-pool": "none"}
    if "runtimeClassName" in spec:
        # The other one has fractions of milli-cores, which admission counts as they are and the quota's controller not.
        spec["runtimeClassName"] = "heavy"
    if chance.random() < 0.3:
        spec["priorityClassName"] = HIGH
    if chance.random() < 0.3:
        spec["activeDeadlineSeconds"] = 3600
    if chance.random() < 0.3:
        term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
        term |= chance.choice(({}, {"namespaces": [namespace]}, {"namespaceSelector": {}}))
        rule = chance.choice(("podAffinity", "podAntiAffinity"))
        when = "DuringSchedulingIgnoredDuringExecution"
        weighted = {f"preferred{when}": [{"weight": 1, "podAffinityTerm": term}]}
        spec["affinity"] = {rule: chance.choice((weighted, {f"required{when}": [term]}))}
    return pod


def _service(chance: random.Random) -> Object:
    """The specification of a Service."""
    ports = [{"name": f"p{port}", "port": port} for port in range(1, chance.randint(2, 4))]
    spec: Object = {"type": chance.choice(("ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer")), "ports": ports}
    if spec["type"] == "LoadBalancer" and chance.random() < 0.5:
        spec["allocateLoadBalancerNodePorts"] = chance.choice((True, False))
    return spec


def _claim(chance: random.Random) -> Object:
    """The specification of a PersistentVolumeClaim."""
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": chance.choice(("1Gi", "1500M", "0.5Gi", "999", "2Gi"))}},
    }
    name = chance.choice((None, None, "", FAST))
    if name is not None:
        spec["storageClassName"] = name
    if chance.random() < 0.3:
        spec["volumeAttributesClassName"] = GOLD
    return {"spec": spec}


def _quota(chance: random.Random, name: str, namespace: str, *, wide: bool) -> Object:
    """A quota of any scope with a few of the names that go with it; a wide one counts something of any gang."""
    scoped, names = ({}, ALL_NAMES) if wide else _scope(chance)
    hard = dict.fromkeys(chance.sample(names, min(len(names), chance.randint(1, 9 if wide else 4))), PLENTY)
    if wide:
        # The ticket of each gang is one.
        hard["configmaps"] = PLENTY
    hard = {resource: f"{PLENTY}Gi" if _is_bytes(resource) else value for resource, value in hard.items()}
    return _thing("v1", "ResourceQuota", name, namespace, spec={"hard": hard, **scoped})


def _scope(chance: random.Random) -> tuple[Object, tuple[str, ...]]:
    """What a quota is about, and the names it may limit."""
    kind = chance.random()
    if kind < 0.55:
        return {}, ALL_NAMES
    if kind < 0.65:
        return {"scopes": [chance.choice(("Terminating", "NotTerminating"))]}, POD_NAMES
    if kind < 0.75:
        name = chance.choice(("BestEffort", "NotBestEffort"))
        return {"scopes": [name]}, POD_NAMES if name == "NotBestEffort" else ("pods",)
    if kind < 0.8:
        return {"scopes": ["CrossNamespacePodAffinity"]}, POD_NAMES
    of_pods = kind < 0.92
    item: Object = {"scopeName": "PriorityClass" if of_pods else "VolumeAttributesClass"}
    item["operator"] = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    if item["operator"] in ("In", "NotIn"):
        item["values"] = [chance.choice((HIGH, DEFAULT_PRIORITY)) if of_pods else GOLD]
    names = POD_NAMES if of_pods else CLAIM_NAMES
    return {"scopeSelector": {"matchExpressions": [item]}}, names


def _is_bytes(resource: str) -> bool:
    """Whether a quota's name is about bytes."""
    return resource.endswith(("memory", "storage")) or "hugepages-" in resource


def _limit_range(chance: random.Random, name: str, namespace: str) -> Object:
    """A LimitRange with one entry of any type."""
    kind = chance.choice(("Container", "Container", "Pod", "PersistentVolumeClaim"))
    item: Object = {"type": kind}
    if kind == "PersistentVolumeClaim":
        item[chance.choice(("min", "max"))] = {"storage": chance.choice(("1Gi", "1200M"))}
    else:
        resource = chance.choice(("cpu", "memory"))
        small, middle, large = {"cpu": ("100m", "1", "4"), "memory": ("64Mi", "256Mi", "4Gi")}[resource]
        bound = chance.choice(("min", "max", "default", "maxLimitRequestRatio"))
        if bound == "default" and kind == "Container":
            item |= {"default": {resource: middle}, "defaultRequest": {resource: small}}
        elif bound == "maxLimitRequestRatio":
            item[bound] = {resource: chance.choice(("2", "1500m", "10"))}
        else:
            item["min" if bound == "min" else "max"] = {resource: chance.choice((small, middle, large))}
    return _thing("v1", "LimitRange", name, namespace, spec={"limits": [item]})
