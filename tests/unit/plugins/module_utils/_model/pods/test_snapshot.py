# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Snapshot: what is kept of the API's objects."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    RuntimeClass,
    VolumeClaim,
    attach_limits_from_api,
    claim_from_api,
    node_from_api,
    pod_from_api,
    runtime_class_from_api,
    volume_from_api,
)
from ansible_collections.muster.kube.tests.support.cluster_model import node, pod


def test_a_node_keeps_amounts_labels_taints_and_cordon():
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    read = node_from_api(node("n", labels={"zone": "a"}, taints=taints, unschedulable=True, cpu="1500m", memory="1Ki"))
    assert read.allocatable == {"pods": 110, "cpu": 1500, "memory": 1024}
    assert read.labels["zone"] == "a"
    assert (read.name, read.unschedulable, read.taints[0].key) == ("n", True, "gpu")


def test_a_node_that_reports_nothing_yet_has_nothing():
    read = node_from_api({"metadata": {"name": "new", "labels": None}, "spec": None, "status": None})
    assert (read.allocatable, dict(read.labels), read.taints, read.unschedulable) == ({}, {}, (), False)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_are_left_out(phase):
    assert pod_from_api(pod("p", on="n", phase=phase)) is None


def test_a_running_pod_occupies_its_node():
    raw = pod("p", on="n", labels={"app": "x"}, requests={"cpu": "1"}, priority=5)
    raw["metadata"]["ownerReferences"] = [
        {"kind": "Other", "name": "o"},
        {"kind": "Job", "name": "j", "controller": True},
    ]
    read = pod_from_api(raw)
    assert (read.key, read.node, read.requests) == ("default/p", "n", {"cpu": 1000, "pods": 1})
    assert (read.owner, read.stays, read.virtual, read.priority, read.terminating) == ("Job/j", False, False, 5, False)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]}, True),
        ({"ownerReferences": None, "annotations": {"kubernetes.io/config.mirror": "x"}}, True),
        ({"annotations": None}, False),
    ],
)
def test_pods_that_always_come_back(metadata, expected):
    raw = pod("p", on="n")
    raw["metadata"].update(metadata)
    assert pod_from_api(raw).stays is expected


@pytest.mark.parametrize(
    ("spec", "metadata", "awaits"),
    [
        ({}, {}, True),
        ({"schedulingGates": [{"name": "hold"}]}, {}, False),
        ({"schedulerName": "volcano"}, {}, False),
        ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_only_pods_of_the_default_scheduler_await_it(spec, metadata, awaits):
    raw = pod("p", **spec)
    raw["metadata"].update(metadata)
    read = pod_from_api(raw)
    assert read.virtual is awaits
    assert read.node is None


def test_a_nominated_pod_takes_the_place_it_was_promised():
    raw = pod("p")
    raw["status"]["nominatedNodeName"] = "n"
    read = pod_from_api(raw)
    assert (read.node, read.virtual) == ("n", False)


def test_rules_of_standing_pods_that_bind_others_are_kept():
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    raw = pod(
        "p",
        on="n",
        namespace="team",
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        containers=[{"name": "c", "ports": [{"hostPort": 80}]}],
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    )
    read = pod_from_api(raw)
    assert read.anti_affinity[0].matches("team", {"app": "x"}, {})
    assert (read.host_ports[0].port, read.claims) == (80, ("data",))


@pytest.mark.parametrize(
    ("spec", "phase", "expected"),
    [
        ({"volumeName": "pv", "storageClassName": "s", "accessModes": ["ReadWriteOnce"]}, "Bound", ("pv", "s", False)),
        ({"volumeName": "pv", "storageClassName": "s"}, "Pending", (None, "s", False)),
        ({"accessModes": ["ReadWriteOncePod"]}, "Pending", (None, None, True)),
    ],
)
def test_claims(spec, phase, expected):
    raw = {"metadata": {"name": "c", "namespace": "team"}, "spec": spec, "status": {"phase": phase}}
    assert claim_from_api(raw) == (("team", "c"), VolumeClaim(*expected))


def test_volumes_keep_reach_zone_and_handle():
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
    name, volume = volume_from_api(
        {
            "metadata": {"name": "pv", "labels": {"topology.kubernetes.io/zone": "a", "other": "x"}},
            "spec": {
                "csi": {"driver": "d", "volumeHandle": "h"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            },
        }
    )
    assert (name, volume.driver, volume.handle) == ("pv", "d", "h")
    assert dict(volume.zone_labels) == {"topology.kubernetes.io/zone": "a"}
    assert volume.terms[0].matches("n1", {"kubernetes.io/hostname": "n1"})
    _name, plain = volume_from_api({"metadata": {"name": "nfs", "labels": None}, "spec": {"nfs": {}}})
    assert (plain.terms, dict(plain.zone_labels), plain.driver, plain.handle) == (None, {}, None, "nfs")


def test_attach_limits_name_only_drivers_that_have_one():
    drivers = [{"name": "a", "allocatable": {"count": 3}}, {"name": "b"}, {"name": "c", "allocatable": None}]
    assert attach_limits_from_api({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}) == ("n", {"a": 3})
    assert attach_limits_from_api({"metadata": {"name": "n"}, "spec": {"drivers": None}}) == ("n", {})


def test_runtime_classes():
    raw = {
        "metadata": {"name": "kata"},
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    }
    name, read = runtime_class_from_api(raw)
    assert (name, dict(read.overhead), dict(read.node_selector)) == ("kata", {"cpu": "250m"}, {"kata": "yes"})
    assert read.tolerations[0].key == "kata"
    assert runtime_class_from_api({"metadata": {"name": "runc"}}) == ("runc", RuntimeClass({}, {}, ()))
