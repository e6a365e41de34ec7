# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real node: pods run with their limits, logs are readable, and nothing is left when it goes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import cluster as cluster_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import Layout, read_state
from ansible_collections.muster.kube.plugins.module_utils._host.machine_settings import KERNEL_SETTINGS, RECORD
from ansible_collections.muster.kube.plugins.module_utils._host.processes import find_marked, find_process
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
    NodeGroup,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.real_node import (
    hardware_address,
    network_name,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.tests.support import images
from ansible_collections.muster.kube.tests.support.asking_pods import answer_to_pod
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.real_cluster import (
    ON_REAL_NODE,
    REAL,
    SIMULATED,
    in_cgroup,
    reason_to_skip,
)
from ansible_collections.muster.kube.tests.support.shared_cluster import (
    FILES,
    build_programs,
    cache_directory,
    running_cluster,
)

Object = dict[str, t.Any]


def pod_spec(image: str, script: str, **settings: t.Any) -> Object:
    """The specification of a pod that runs a script on the real node."""
    container = {"name": "main", "image": image, "command": ["/bin/sh", "-c", script], **settings}
    return {
        "restartPolicy": "Never",
        "nodeSelector": ON_REAL_NODE,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }


def log_of(real_cluster, namespace: str, pod: str) -> str:
    """What a pod printed, read through the API server."""
    path = f"{resource_path('v1', 'pods', namespace, pod)}/log"
    return real_cluster.client.request("GET", path).body.decode()


def test_a_pod_runs_python(real_cluster, real_namespace):
    script = 'python3 -c \'import venv, ensurepip; print("pip is", ensurepip.version() > "2")\''
    real_cluster.live.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "python", "namespace": real_namespace},
            "spec": pod_spec(real_cluster.python_image(), script),
        }
    )
    path = resource_path("v1", "pods", real_namespace, "python")

    def ended() -> Object | None:
        pod = get_object(real_cluster.client, path)
        return pod if pod["status"].get("phase") in ("Succeeded", "Failed") else None

    pod = wait_until("the pod to end", ended)
    assert log_of(real_cluster, real_namespace, "python") == "pip is True\n"
    assert pod["status"]["phase"] == "Succeeded"
    assert pod["spec"]["nodeName"] == real_cluster.node


def test_an_indexed_job_gets_its_cpu_limit_and_its_logs_are_readable(real_cluster, real_namespace):
    script = (
        "echo index $JOB_COMPLETION_INDEX; "
        "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 /sys/fs/cgroup/cpu.max"
    )
    spec = pod_spec(real_cluster.busybox_image(), script, resources={"limits": {"cpu": "500m", "memory": "64Mi"}})
    real_cluster.live.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "many", "namespace": real_namespace},
            "spec": {
                "completions": 2,
                "parallelism": 2,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "template": {"spec": spec},
            },
        }
    )
    path = resource_path("batch/v1", "jobs", real_namespace, "many")
    wait_until("the job to complete", lambda: get_object(real_cluster.client, path)["status"].get("succeeded") == 2)
    pods = real_cluster.live.pods(real_namespace)
    printed = sorted(log_of(real_cluster, real_namespace, pod["metadata"]["name"]) for pod in pods)
    assert printed == ["index 0\n50000\n", "index 1\n50000\n"]


class Own:
    """A cluster of this file's own, driven by the use case itself."""

    def __init__(self, name: str) -> None:
        """Nothing runs yet."""
        self.name = name
        self.layout = Layout(cache_directory(), name)

    def run(self, *nodes: NodeGroup, **settings: t.Any) -> Object:
        """One run with these nodes."""
        options = {key: settings.pop(key) for key in ("check_mode", "state") if key in settings}
        spec = ClusterSpec(self.name, nodes, **settings)
        request = ClusterOptions(spec, cache_directory(), FILES, 120.0, **options)
        return cluster_flow.run(request, lambda _text: None)

    def live(self, result: Object) -> LiveCluster:
        """A connection."""
        return LiveCluster(connect({"kubeconfig": result["kubeconfig"]}), result)

    def node(self, result: Object, name: str) -> Object | None:
        """One node as the API server has it."""
        return get_object(self.live(result).client, f"/api/v1/nodes/{name}")


@pytest.fixture(scope="module")
def own():
    """The cluster's name; it is removed at the end whatever happened."""
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    made = Own(f"node-{os.getpid()}")
    yield made
    made.run(state="absent")


def traces(uid: str, directory: pathlib.Path) -> dict[str, list[str]]:
    """Everything on this machine that belongs to the real node of one cluster."""
    network = network_name(uid)
    shared = [pathlib.Path(name) for name in ("/var/lib/cni/results", "/var/log/containers")]
    entries = [path for folder in shared if folder.is_dir() for path in folder.iterdir()]
    mine = [
        path
        for path in entries
        if network in path.name or str(directory) in str(path.readlink() if path.is_symlink() else "")
    ]
    return {
        "processes": [str(process) for process in find_marked(uid)] + [str(process) for process in in_cgroup(network)],
        "mounts": _lines("/proc/self/mountinfo", str(directory), network),
        "interfaces": _lines("/proc/net/dev", network) + _ports_of(network),
        "cgroups": [str(path) for path in pathlib.Path("/sys/fs/cgroup").glob(f"*/{network}")]
        + [str(path) for path in pathlib.Path("/sys/fs/cgroup").glob(network)],
        "shared": [str(path) for path in mine],
    }


def _ports_of(bridge: str) -> list[str]:
    """Interfaces that hang on a bridge."""
    folder = pathlib.Path("/sys/class/net", bridge, "brif")
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def _lines(path: str, *texts: str) -> list[str]:
    """Lines of one of the kernel's tables that hold any of the texts."""
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if any(text in line for text in texts)]


def settings() -> dict[str, str]:
    """The kernel settings a kubelet changes, and one that network plugins like to change."""
    names = [*KERNEL_SETTINGS, "net/ipv4/ip_forward"]
    return {name: pathlib.Path("/proc/sys", name).read_text(encoding="utf-8").strip() for name in names}


@contextlib.contextmanager
def nobody_comes_or_goes() -> t.Iterator[Object | None]:
    """How the machine was before its first real node, as clusters remember it; meanwhile nobody begins or ends one."""
    descriptor = os.open(RECORD.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else None
    finally:
        os.close(descriptor)


def settings_without_nodes(record: Object | None) -> dict[str, str]:
    """The kernel settings as they are when the machine has no real node: now, or before the first that it has."""
    return settings() if record is None else {**settings(), **record["settings"]}


def start_stubborn_pod(live: LiveCluster, image: str) -> Object:
    """A running pod with volumes and a device, whose processes do not end when asked to."""
    script = "trap '' TERM; setsid sleep 1000 & sleep 1000"
    spec = pod_spec(image, script, resources={"limits": {"nvidia.com/gpu": "1"}})
    spec["tolerations"] = [{"operator": "Exists"}]
    spec["volumes"] = [{"name": "memory", "emptyDir": {"medium": "Memory"}}, {"name": "disk", "emptyDir": {}}]
    spec["containers"][0]["volumeMounts"] = [
        {"name": "memory", "mountPath": "/memory"},
        {"name": "disk", "mountPath": "/disk", "subPath": "part"},
    ]
    metadata = {"name": "stubborn", "namespace": "default"}
    live.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    path = resource_path("v1", "pods", "default", "stubborn")
    wait_until("the pod to run", lambda: get_object(live.client, path)["status"].get("phase") == "Running")
    return get_object(live.client, path)


def test_a_real_node_comes_changes_and_goes_without_a_trace(own, real_cluster, real_namespace):
    with nobody_comes_or_goes() as record:
        before = settings_without_nodes(record)
    labels = (("feature.node.kubernetes.io/cpu-model.vendor_id", "AMD"), ("nvidia.com/gpu.product", "A100"))
    group = NodeGroup("real", 1, "", "", 42, (("nvidia.com/gpu", "2"),), labels, (Taint("k", "NoSchedule"),), real=True)
    wanted = {"registry": True, "services": True}
    predicted = own.run(group, SIMULATED, **wanted, check_mode=True)
    assert not own.layout.directory.exists()
    made = own.run(group, SIMULATED, **wanted)
    assert made["actions"] == predicted["actions"]
    assert (made["nodes"]["count"], made["nodes"]["ready"]) == (3, 3)
    uid = read_state(own.layout).uid

    node = own.node(made, "real-0")
    assert dict(labels).items() <= node["metadata"]["labels"].items()
    assert node["spec"]["taints"] == [{"key": "k", "effect": "NoSchedule"}]
    assert (node["status"]["allocatable"]["nvidia.com/gpu"], node["status"]["capacity"]["pods"]) == ("2", "42")
    assert node["status"]["capacity"]["cpu"] == str(os.cpu_count())

    python = images.python_image(made["registry"])
    live = own.live(made)
    pod = start_stubborn_pod(live, images.busybox_image(made["registry"]))
    # The pods know the bridge by this address, which must not change with its ports.
    bridge = pathlib.Path("/sys/class/net", network_name(uid))
    assert _ports_of(bridge.name)
    assert (bridge / "address").read_text().strip() == hardware_address(made["real_node"]["address"])

    # Another cluster has the same address of services on its own bridge.
    assert real_cluster.live.result["real_node"]["service_address"] == made["real_node"]["service_address"]
    answer = answer_to_pod(live, python, "/version")
    assert answer["gitVersion"] == made["version"]
    other = real_cluster.live, real_cluster.python_image(), "/version"
    assert answer_to_pod(*other, namespace=real_namespace) == answer

    again = own.run(group, SIMULATED, **wanted)
    assert (again["changed"], again["actions"]) == (False, [])
    assert again["components"] == made["components"]
    assert all(traces(uid, own.layout.directory).values())

    ended = ("service-forwarder", "containerd", "kubelet")
    _kill(made, *ended)
    predicted = own.run(group, SIMULATED, **wanted, check_mode=True)
    repaired = own.run(group, SIMULATED, **wanted)
    restarts = [f"restart {name}, which had ended" for name in ended]
    assert repaired["actions"] == predicted["actions"] == restarts
    kept = get_object(live.client, resource_path("v1", "pods", "default", "stubborn"))
    assert kept["status"]["containerStatuses"][0]["containerID"] == pod["status"]["containerStatuses"][0]["containerID"]

    assert answer_to_pod(live, python, "/version", name="asks-again") == answer
    _kill(repaired, *ended)
    own.run(state="absent")
    assert not own.layout.directory.exists()
    left = traces(uid, own.layout.directory)
    assert left == {name: [] for name in left}
    # Another cluster of this machine may have a node now; the last one restores what all of them found.
    with nobody_comes_or_goes() as record:
        assert settings_without_nodes(record) == before
        assert str(own.layout.directory) not in (record or {"clusters": []})["clusters"]


def _kill(result: Object, *names: str) -> None:
    """End processes at once."""
    for name in names:
        pid = result["components"][name]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(f"{name} to end", lambda pid=pid: find_process(pid) is None)


def test_the_node_joins_leaves_and_returns_on_a_running_cluster(own):
    first = own.run(SIMULATED)
    joined = own.run(REAL, SIMULATED, registry=True)
    assert joined["actions"] == [
        "start registry",
        "create the network bridge of the pods",
        "start containerd",
        "start kubelet",
        "create node real-0",
    ]
    assert joined["components"]["kube-apiserver"] == first["components"]["kube-apiserver"]
    delete(own.live(joined).client, "/api/v1/nodes/real-0")
    predicted = own.run(REAL, SIMULATED, registry=True, check_mode=True)
    returned = own.run(REAL, SIMULATED, registry=True)
    assert returned["actions"] == predicted["actions"]
    assert returned["actions"] == ["restart kubelet, whose node was deleted", "create node real-0"]
    _switch_services(own)
    predicted = own.run(SIMULATED, check_mode=True)
    left = own.run(SIMULATED)
    assert left["actions"] == predicted["actions"]
    assert left["actions"] == ["stop registry", "stop kubelet", "stop containerd", "delete node real-0"]
    assert (left["registry"], left["real_node"], left["nodes"]["count"]) == (None, None, 2)
    assert own.node(left, "real-0") is None
    found = traces(read_state(own.layout).uid, own.layout.directory)
    assert found.pop("processes")
    assert found == {name: [] for name in found}


def _switch_services(own: Own) -> None:
    """Have services on the running cluster, take their bridge away, and have none again."""
    restart = "restart kube-apiserver with changed settings"
    served = own.run(REAL, SIMULATED, registry=True, services=True)
    put = "put the address of services on the bridge"
    assert served["actions"][:3] == [restart, put, "start service-forwarder"]
    bridge = network_name(read_state(own.layout).uid)
    subprocess.run(["ip", "link", "delete", bridge], check=True, stdin=subprocess.DEVNULL)
    mended = own.run(REAL, SIMULATED, registry=True, services=True)
    create = "create the network bridge of the pods"
    assert mended["actions"] == [create, put, "restart service-forwarder, whose network bridge is gone"]
    answer = answer_to_pod(own.live(mended), images.python_image(mended["registry"]), "/version")
    assert answer["gitVersion"] == mended["version"]
    ended = own.run(REAL, SIMULATED, registry=True)
    take = "take the address of services from the bridge"
    assert ended["actions"][:3] == ["stop service-forwarder", restart, take]
    assert ended["real_node"]["service_address"] is None


@pytest.mark.full
def test_the_worker_of_node_feature_discovery_finds_the_features_of_this_machine():
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    operators = ("nfd", "nfd-worker")
    build_programs(*operators, nodes=(REAL,))
    with running_cluster(f"features-{os.getpid()}", operators=operators, nodes=(REAL,)) as running:
        path = resource_path("v1", "nodes", None, REAL.node_name(0))

        def kernel() -> str | None:
            """What the label tells of the kernel."""
            label = "feature.node.kubernetes.io/kernel-version.full"
            return get_object(running.client, path)["metadata"]["labels"].get(label)

        assert wait_until("the label of the kernel", kernel) == os.uname().release


def test_the_registry_deletes(real_cluster):
    reference = real_cluster.busybox_image().rpartition(":")[0]
    source = real_cluster.busybox_image()
    copy = f"docker://{reference}-copy:1"
    for command in (
        ["skopeo", "copy", "-q", "--src-tls-verify=false", "--dest-tls-verify=false", f"docker://{source}", copy],
        ["skopeo", "delete", "--tls-verify=false", copy],
    ):
        ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert ended.returncode == 0, ended.stderr
