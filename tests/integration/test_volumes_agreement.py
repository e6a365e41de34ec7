# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods with volumes: the verdict against what the real scheduler does with bound, unbound and crowded volumes."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import decide, gang_of
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import needs_of, read_snapshot
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest, made_of
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.tests.support.live_cluster import is_bound, wait_until

NAMESPACE = "volumes"
POOL = "volume-pool"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.example.com"
CLASSES = {"volumes-now": "Immediate", "volumes-late": "WaitForFirstConsumer"}


@dataclasses.dataclass(frozen=True)
class Case:
    """What exists, which pods are asked about, and what must come of it."""

    answer: str
    reason: str | None = None
    dropped: str | None = None
    unsaid: str = "unbound_volumes"
    placed: int | None = None
    limits: tuple[int, ...] = (0,)
    volumes: tuple[dict, ...] = ()
    claims: tuple[dict, ...] = ()
    tenants: tuple[tuple[int, tuple[str, ...]], ...] = ()
    pods: tuple[tuple[str, ...], ...] = (("data",),)
    selector: dict[str, str] = dataclasses.field(default_factory=dict)
    cpu: str = "1"


def volume(name, *, only: dict[str, str] | None = None, zone=None, mode="ReadWriteOnce", storage_class=""):
    """A PersistentVolume of the driver; only= are the node labels from which it can be reached."""
    spec: dict[str, t.Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [mode],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"},
    }
    if only:
        wanted = [{"key": key, "operator": "In", "values": [value]} for key, value in only.items()]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": wanted}]}}
    labels = {ZONE: zone} if zone else {}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": labels}, "spec": spec}


def claim(name, *, bound_to=None, mode="ReadWriteOnce", storage_class=""):
    """A PersistentVolumeClaim, bound to a volume by name or left to its class."""
    spec = {"accessModes": [mode], "storageClassName": storage_class, "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": name, "namespace": NAMESPACE}
    body = {**spec, "volumeName": bound_to} if bound_to else spec
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": body}


def pair(name, **options):
    """A volume and the claim bound to it, under one name."""
    mode = options.get("mode", "ReadWriteOnce")
    return volume(name, **options), claim(name, bound_to=name, mode=mode)


def with_pairs(*pairs, **fields):
    """A case with these volumes and claims."""
    return Case(volumes=tuple(item[0] for item in pairs), claims=tuple(item[1] for item in pairs), **fields)


ONCE = "ReadWriteOncePod"
CASES = {
    "reachable": with_pairs(
        pair("reach", only={HOSTNAME: "vol-reachable-1"}), limits=(0, 0), answer="fits", pods=(("reach",),)
    ),
    "unreachable": with_pairs(
        pair("far", only={HOSTNAME: "elsewhere"}),
        limits=(0, 0),
        answer="never",
        reason="no_matching_node",
        dropped="volume_affinity",
        pods=(("far",),),
    ),
    "reachable-but-full": with_pairs(
        pair("full", only={HOSTNAME: "vol-reachable-but-full-0"}),
        limits=(0, 0),
        tenants=((0, ()),),
        answer="waits",
        reason="insufficient",
        pods=(("full",),),
        cpu="4",
    ),
    "zone": with_pairs(
        pair("zoned", zone="z1"),
        limits=(0, 0),
        selector={ZONE: "z0"},
        answer="never",
        reason="no_matching_node",
        dropped="volume_zone",
        pods=(("zoned",),),
    ),
    "same-zone": with_pairs(pair("near", zone="z1"), limits=(0, 0), answer="fits", pods=(("near",),)),
    "once-free": with_pairs(pair("free", mode=ONCE), answer="fits", pods=(("free",),)),
    "once-in-use": with_pairs(
        pair("used", mode=ONCE), tenants=((0, ("used",)),), answer="waits", reason="claim_in_use", pods=(("used",),)
    ),
    "once-for-two": with_pairs(
        pair("twice", mode=ONCE), answer="never", reason="claim_in_use", placed=1, pods=(("twice",), ("twice",))
    ),
    "missing": Case(answer="waits", reason="claim_missing", pods=(("no-such-claim",),)),
    "unbound": Case(
        claims=(claim("unbound", storage_class="volumes-now"),),
        answer="waits",
        reason="claim_unbound",
        pods=(("unbound",),),
    ),
    "late": Case(
        volumes=(volume("late", storage_class="volumes-late"),),
        claims=(claim("late", storage_class="volumes-late"),),
        answer="unproven",
        placed=1,
        pods=(("late",),),
    ),
    "late-in-vain": Case(
        claims=(claim("vain", mode=ONCE, storage_class="volumes-late"),),
        answer="unproven",
        placed=0,
        pods=(("vain",),),
    ),
    "attach-room": with_pairs(
        pair("room-a"), pair("room-b"), limits=(2,), tenants=((0, ("room-a",)),), answer="fits", pods=(("room-b",),)
    ),
    "attach-full": with_pairs(
        pair("over-a"),
        pair("over-b"),
        pair("over-c"),
        limits=(2,),
        tenants=((0, ("over-a", "over-b")),),
        answer="waits",
        reason="no_matching_node",
        dropped="volume_limit",
        pods=(("over-c",),),
    ),
    "attach-shared": with_pairs(
        pair("shared", mode="ReadWriteMany"),
        limits=(1,),
        tenants=((0, ("shared",)),),
        answer="fits",
        pods=(("shared",),),
    ),
    "attach-one-pod-too-many": with_pairs(
        pair("three-a"),
        pair("three-b"),
        pair("three-c"),
        limits=(2,),
        answer="never",
        reason="no_matching_node",
        dropped="volume_limit",
        pods=(("three-a", "three-b", "three-c"),),
    ),
    "attach-two-pods": with_pairs(
        pair("own-a"),
        pair("own-b"),
        limits=(1,),
        answer="unproven",
        unsaid="attach_limits",
        placed=1,
        pods=(("own-a",), ("own-b",)),
    ),
    "attach-two-pods-two-nodes": with_pairs(
        pair("each-a"),
        pair("each-b"),
        limits=(1, 1),
        answer="unproven",
        unsaid="attach_limits",
        placed=2,
        pods=(("each-a",), ("each-b",)),
    ),
}


def nodes_of(name, case):
    """The case's own nodes, each in a zone of its own."""
    for i in range(len(case.limits)):
        labels = {POOL: name, HOSTNAME: f"vol-{name}-{i}", ZONE: f"z{i}"}
        meta = {"name": f"vol-{name}-{i}", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
        size = {"cpu": "4", "memory": "8Gi", "pods": "20"}
        status = {"allocatable": size, "capacity": size}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def driver_on(node, limit):
    """The CSINode that says how many volumes may be attached to a node; 0 stands for no limit."""
    driver: dict[str, t.Any] = {"name": DRIVER, "nodeID": node}
    if limit:
        driver["allocatable"] = {"count": limit}
    meta = {"name": node}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": meta, "spec": {"drivers": [driver]}}


def pod(name, case, claims, *, cpu, selector=None, node=None):
    """A pod of a case that mounts these claims; bound at once if a node is given."""
    spec = {
        "nodeSelector": {POOL: case, **(selector or {})},
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
        "volumes": [{"name": item, "persistentVolumeClaim": {"claimName": item}} for item in claims],
    }
    meta = {"name": name, "namespace": NAMESPACE, "labels": {"case": case}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {**spec, "nodeName": node} if node else spec,
    }


def asked_pods(name, case):
    """The pods a case asks about."""
    return [
        pod(f"{name}-{i}", name, claims, cpu=case.cpu, selector=case.selector) for i, claims in enumerate(case.pods)
    ]


def storage_class(name, mode):
    """A StorageClass that provisions nothing."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": mode,
    }


@pytest.fixture(scope="module")
def played(cluster):
    """Verdicts of all cases from one snapshot, then the number of pods the scheduler placed for each."""
    cluster.namespace(NAMESPACE)
    nodes = [node for name, case in CASES.items() for node in nodes_of(name, case)]
    limits = [limit for case in CASES.values() for limit in case.limits]
    classes = [storage_class(*item) for item in CLASSES.items()]
    volumes = [item for case in CASES.values() for item in case.volumes]
    drivers = [driver_on(node["metadata"]["name"], limit) for node, limit in zip(nodes, limits, strict=True)]
    cluster.add_nodes(nodes)
    cluster.create(*classes, *drivers, *volumes)
    cluster.create(*(item for case in CASES.values() for item in case.claims))
    wait_until("the claims to be bound", lambda: all(bound(cluster, case) for case in CASES.values()))
    cluster.create(*tenants())
    wait_until("the tenants to run", lambda: all(is_running(item) for item in cluster.pods(NAMESPACE)))
    verdicts = judged(cluster)
    cluster.create(*(item for name, case in CASES.items() for item in asked_pods(name, case)))
    wait_until("the scheduler to decide", lambda: all(decided(item) for item in cluster.pods(NAMESPACE)))
    placed = {name: placed_pods(cluster, name) for name in CASES}
    yield verdicts, placed
    cluster.drop_namespace(NAMESPACE)
    wait_until("the pods to end", lambda: not cluster.pods(NAMESPACE))
    for item in (*classes, *drivers, *volumes):
        if get_object(cluster.client, cluster.path(item)) is not None:
            cluster.client.request("DELETE", cluster.path(item))
    cluster.remove_nodes(node["metadata"]["name"] for node in nodes)


def tenants():
    """The pods that run already."""
    return [
        pod(f"{name}-tenant-{i}", name, claims, cpu="100m", node=f"vol-{name}-{number}")
        for name, case in CASES.items()
        for i, (number, claims) in enumerate(case.tenants)
    ]


def judged(cluster):
    """The verdict of each case, each judged alone."""
    requests = [GangRequest(name, NAMESPACE, tuple(asked_pods(name, case)), None) for name, case in CASES.items()]
    assert all(not made_of(request.objects).claims for request in requests)
    rough = [gang_of(request, Snapshot()) for request in requests]
    snapshot = read_snapshot(cluster.client, needs_of(rough)).snapshot
    gangs = [gang_of(request, snapshot) for request in requests]
    return dict(zip(CASES, decide(snapshot, gangs, cumulative=False, advice=False), strict=True))


def bound(cluster, case):
    """Whether the claims that name a volume have it."""
    named = [item for item in case.claims if "volumeName" in item["spec"]]
    found = (get_object(cluster.client, cluster.path(item)) for item in named)
    return all((item.get("status") or {}).get("phase") == "Bound" for item in found)


def is_running(item):
    """Whether a pod runs."""
    return item["status"].get("phase") == "Running"


def decided(item):
    """Whether the scheduler bound the pod or said that it cannot."""
    conditions = item["status"].get("conditions") or ()
    return is_bound(item) or any(
        entry["type"] == "PodScheduled" and entry["status"] == "False" and entry["reason"] == "Unschedulable"
        for entry in conditions
    )


def placed_pods(cluster, name):
    """How many of the pods a case asks about have a node."""
    names = {item["metadata"]["name"] for item in asked_pods(name, CASES[name])}
    return sum(
        1 for item in cluster.pods(NAMESPACE, f"case={name}") if item["metadata"]["name"] in names and is_bound(item)
    )


@pytest.mark.parametrize("name", CASES)
def test_verdict_and_scheduler_agree(played, name):
    verdicts, placed = played
    verdict, case = verdicts[name], CASES[name]
    said = (verdict.answer, verdict.how, verdict.reason, verdict.detail)
    if case.answer == "unproven":
        assert verdict.how == "unproven", said
        assert verdict.not_modelled == (case.unsaid,)
    else:
        assert (verdict.answer, verdict.reason) == (case.answer, case.reason), said
    if case.dropped:
        assert case.dropped in verdict.podsets[0].dropped
    wanted = case.placed
    if wanted is None:
        wanted = len(case.pods) if case.answer == "fits" else 0
    assert placed[name] == wanted
    if verdict.answer == "fits" and verdict.how != "unproven":
        assert placed[name] == len(case.pods)
