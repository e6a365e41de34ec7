# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services of a real node: pods reach the API server as in every cluster, and an operator runs as a pod."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import read_catalogue
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import ensure_programs
from ansible_collections.muster.kube.plugins.module_utils._host.processes import choose_ports
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import SERVICE_FORWARDER
from ansible_collections.muster.kube.tests.support.asking_pods import answer_to_pod
from ansible_collections.muster.kube.tests.support.kuberay_pod import NAMESPACE, running_kuberay
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.real_cluster import SIMULATED
from ansible_collections.muster.kube.tests.support.shared_cluster import FILES, cache_directory

Object = dict[str, t.Any]


def allow_to_list_pods(namespace: str, account: str) -> list[Object]:
    """An account that may list the pods of its namespace."""
    metadata = {"name": account, "namespace": namespace}
    rights = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": f"{rights}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
        },
        {
            "apiVersion": f"{rights}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rights, "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    ]


def test_a_pod_asks_the_api_server_at_its_service_address_with_what_every_pod_has(real_cluster, real_namespace):
    real_cluster.live.create(*allow_to_list_pods(real_namespace, "reader"))
    pods = answer_to_pod(
        real_cluster.live,
        real_cluster.python_image(),
        resource_path("v1", "pods", real_namespace),
        namespace=real_namespace,
        serviceAccountName="reader",
    )
    [pod] = pods["items"]
    assert (pod["metadata"]["name"], pod["spec"]["nodeName"]) == ("asks", real_cluster.node)


def ray_cluster(namespace: str, name: str, *groups: str) -> Object:
    """A RayCluster of one worker in each group, on simulated nodes."""
    pod = {
        "containers": [{"name": "ray", "image": "none", "resources": {"limits": {"cpu": "1", "memory": "1G"}}}],
        "nodeSelector": {"muster.kube/node-group": SIMULATED.name},
    }
    common = {"rayStartParams": {}, "template": {"spec": pod}}
    sizes = {"replicas": 1, "minReplicas": 1, "maxReplicas": 1}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "rayVersion": "2.46.0",
            "headGroupSpec": common,
            "workerGroupSpecs": [{"groupName": group, **sizes, **common} for group in groups],
        },
    }


@pytest.fixture(scope="module")
def with_kuberay(real_cluster, tmp_path_factory):
    """The cluster with KubeRay as a pod."""
    with running_kuberay(real_cluster, tmp_path_factory.mktemp("kuberay")):
        yield real_cluster


def test_kuberay_as_a_pod_refuses_a_bad_cluster_and_gives_pods_to_a_good_one(with_kuberay, real_namespace):
    cluster = with_kuberay
    [operator] = cluster.live.pods(NAMESPACE)
    assert operator["spec"]["nodeName"] == cluster.node
    assert "hostNetwork" not in operator["spec"]

    def refusal() -> str | None:
        """What the webhook says; the API server learns where it is a moment after the pod is ready."""
        with pytest.raises(ApiError) as error:
            cluster.live.create(ray_cluster(real_namespace, "bad", "same", "same"))
        return error.value.message if "denied the request" in error.value.message else None

    assert "worker group names must be unique" in wait_until("the webhook to refuse", refusal)
    cluster.live.create(ray_cluster(real_namespace, "good", "one", "other"))

    def running() -> list[str] | None:
        """The groups of all three pods once they run."""
        pods = cluster.live.pods(real_namespace, "ray.io/cluster=good")
        groups = [pod["metadata"]["labels"]["ray.io/group"] for pod in pods if pod["status"].get("phase") == "Running"]
        return sorted(groups) if len(groups) == 3 else None

    assert wait_until("the pods of the good cluster to run", running) == ["headgroup", "one", "other"]
    path = resource_path("ray.io/v1", "rayclusters", real_namespace)
    names = list_objects(cluster.client, path, keep=lambda item: item["metadata"]["name"]).items
    assert names == ["good"]


@pytest.fixture(scope="module")
def forwarder():
    """The program that forwards."""
    catalogue = read_catalogue(FILES)
    built = ensure_programs(catalogue, [SERVICE_FORWARDER], FILES, cache_directory(), print)
    return built[SERVICE_FORWARDER].directory / SERVICE_FORWARDER


@contextlib.contextmanager
def forwarding(program, to: int) -> t.Iterator[int]:
    """The program on the loopback interface, and the port at which it listens."""
    listen, health = choose_ports(2, [to])
    addresses = {"listen": listen, "to": to, "health": health}
    arguments = [f"--{name}=127.0.0.1:{port}" for name, port in addresses.items()]
    with subprocess.Popen([program, "--device=lo", *arguments], stdin=subprocess.DEVNULL) as process:
        try:
            wait_until("the program to listen", lambda: answers(health))
            yield listen
        finally:
            process.kill()


def answers(port: int) -> bool:
    """Whether somebody listens."""
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def read_all(connection: socket.socket) -> bytes:
    """Everything the other side says."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_either_side_may_end_first_and_nothing_is_lost(forwarder):
    content = bytes(range(256)) * 8192
    with socket.create_server(("127.0.0.1", 0)) as server, forwarding(forwarder, server.getsockname()[1]) as port:

        def answer() -> None:
            """Answer only when all was heard, with as much."""
            connection, _address = server.accept()
            with connection:
                connection.sendall(read_all(connection)[::-1])

        serving = threading.Thread(target=answer)
        serving.start()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(content)
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == content[::-1]
        serving.join()

        with socket.create_connection(("127.0.0.1", port)) as client:
            connection, _address = server.accept()
            with connection:
                connection.sendall(b"good bye")
                connection.shutdown(socket.SHUT_WR)
                assert read_all(client) == b"good bye"
                client.sendall(b"so long")
                client.shutdown(socket.SHUT_WR)
                assert read_all(connection) == b"so long"


def test_a_connection_ends_at_once_while_the_api_server_is_down_and_the_next_one_works(forwarder):
    with socket.create_server(("127.0.0.1", 0)) as server:
        to = server.getsockname()[1]
    with forwarding(forwarder, to) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert read_all(client) == b""
        with socket.create_server(("127.0.0.1", to)) as server:
            client = socket.create_connection(("127.0.0.1", port))
            connection, _address = server.accept()
            with client, connection:
                connection.sendall(b"back")
                assert client.recv(4) == b"back"
