# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A local cluster in small: programs that only answer health checks, and an API server that only remembers."""

from __future__ import annotations

import json
import pathlib
import re
import sys
import typing as t
from urllib.parse import parse_qsl, urlsplit

import pytest

# Plain sockets and no site packages: such a program starts in a few milliseconds.
PROGRAM = """#!{python} -IS
import signal, socket, sys
options = dict(argument.removeprefix("--").split("=", 1) for argument in sys.argv[1:] if "=" in argument)
print("hello from", sys.argv[0].rpartition("/")[2], flush=True)
if "--nonsense" in sys.argv:
    print("unknown flag: --nonsense", flush=True)
    sys.exit(2)
status = b"503 Sick" if "--sick" in sys.argv else b"200 OK"
server = socket.create_server(("127.0.0.1", int(options["port"])))
while True:
    connection, _address = server.accept()
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 " + status + b"\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
    connection.close()
"""

CATALOGUE: dict[str, t.Any] = {
    "programs": {
        "kubernetes": {"module": "k8s.io/kubernetes", "version": "v1.2.3", "binaries": {"serve": "k8s.io/x/serve"}},
    },
    "control_plane": [
        {
            "name": name,
            "program": "kubernetes",
            "binary": "serve",
            "ports": ["secure"],
            "arguments": ["--port={port:secure}", "--feature-gates={feature_gates}"],
            "health": {"url": "http://127.0.0.1:{port:secure}/readyz"},
        }
        for name in ("etcd", "kube-apiserver")
    ]
    + [
        {
            "name": "kube-scheduler",
            "program": "kubernetes",
            "binary": "serve",
            "ports": ["secure"],
            "identity": {"user": "system:kube-scheduler"},
            "files": {"scheduler.yaml": "server: {server}\n"},
            "arguments": ["--port={port:secure}", "--kubeconfig={kubeconfig}"],
            "health": {"url": "http://127.0.0.1:{port:secure}/readyz"},
        }
    ],
    "operators": {
        "ray": {
            "program": "kubernetes",
            "binary": "serve",
            "ports": ["health", "webhook"],
            "identity": {"user": "ray", "groups": ["system:masters"]},
            "crds": ["crds"],
            "certificates": {"authority": "ray-ca", "names": ["ray.svc"], "directory": "serving"},
            "objects": [
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ray"}},
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "ray", "namespace": "ray"},
                    "data": {"tls.crt": "{base64:ray/tls.crt}"},
                },
            ],
            "webhooks": [
                {
                    "manifest": "webhooks.yaml",
                    "kind": "ValidatingWebhookConfiguration",
                    "name": "ray-hooks",
                    "port": "webhook",
                    "object_selectors": {"pod.ray": {"matchLabels": {"ray": "yes"}}},
                }
            ],
            "arguments": ["--port={port:health}", "--kubeconfig={kubeconfig}"],
            "health": {"url": "http://127.0.0.1:{port:health}/readyz"},
        }
    },
}

RESOURCES: dict[str, list[t.Any]] = {
    "crds": [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "rayclusters.ray.io"},
            "spec": {
                "group": "ray.io",
                "names": {"kind": "RayCluster", "plural": "rayclusters"},
                "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}],
            },
        },
        {"kind": "Kustomization"},
    ],
    "webhooks.yaml": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "upstream"},
            "webhooks": [
                {"name": "pod.ray", "clientConfig": {"service": {"name": "s", "path": "/pods"}}, "rules": []},
                {"name": "cluster.ray", "clientConfig": {"service": {"name": "s"}}, "rules": []},
            ],
        },
        {"kind": "MutatingWebhookConfiguration", "webhooks": []},
    ],
}

DISCOVERY = {
    "/api/v1": [("nodes", "Node", False), ("namespaces", "Namespace", False), ("secrets", "Secret", True)],
    "/apis/admissionregistration.k8s.io/v1": [
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False)
    ],
    "/apis/apiextensions.k8s.io/v1": [("customresourcedefinitions", "CustomResourceDefinition", False)],
    "/apis/ray.io/v1": [("rayclusters", "RayCluster", True)],
}
COLLECTION = re.compile(
    r".*/(nodes|namespaces|secrets|leases|customresourcedefinitions|validatingwebhookconfigurations)$"
)


class FakeApi:
    """A transport that answers like an API server with a memory; nodes are ready as soon as they exist."""

    base_url = "https://127.0.0.1:1"

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, t.Any]] = {
            "/api/v1/namespaces/default/serviceaccounts/default": {"metadata": {"name": "default"}}
        }
        self.writes: list[tuple[str, str]] = []
        self.conflicts: list[str] = []
        self.version = 0

    def send(self, method, url, _headers, body, _timeout):
        """One request."""
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        data = json.loads(body) if body else None
        if method != "GET" and "dryRun" not in query:
            self.writes.append((method, parts.path))
        status, answer = getattr(self, f"_{method.lower()}")(parts.path, query, data)
        return status, {}, json.dumps(answer).encode()

    def close(self) -> None:
        """Nothing is open."""

    def _get(self, path, query, _data):
        if path in self.objects:
            return 200, self.objects[path]
        if path in DISCOVERY:
            keys = ("name", "kind", "namespaced")
            return 200, {"resources": [dict(zip(keys, entry, strict=True)) for entry in DISCOVERY[path]]}
        if COLLECTION.match(path):
            items = [obj for name, obj in sorted(self.objects.items()) if name.rpartition("/")[0] == path]
            wanted = query.get("labelSelector")
            chosen = [obj for obj in items if not wanted or wanted in obj["metadata"].get("labels", {})]
            return 200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": chosen}
        return self._missing(path)

    def _post(self, path, _query, data):
        name = f"{path}/{data['metadata']['name']}"
        if name in self.objects:
            return 409, {"kind": "Status", "reason": "AlreadyExists", "message": "already exists"}
        if data["kind"] == "Node":
            data["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        return 201, self._store(name, data)

    def _put(self, path, _query, data):
        return 200, self._store(path, data)

    def _patch(self, path, query, data):
        name = path.removesuffix("/status")
        if "force" in query:
            return 200, self._applied(path, data, dry="dryRun" in query)
        if name in self.conflicts:
            self.conflicts.remove(name)
            return 409, {"kind": "Status", "reason": "Conflict", "message": "changed meanwhile"}
        return 200, self._store(name, merge(self.objects[name], data))

    def _applied(self, path, data, *, dry):
        """A server-side apply; what was applied before is not remembered."""
        result = merge(self.objects.get(path), data)
        return result if dry else self._store(path, result)

    def _delete(self, path, _query, _data):
        if COLLECTION.match(path):
            self.objects = {name: obj for name, obj in self.objects.items() if not name.startswith(f"{path}/")}
        elif self.objects.pop(path, None) is None:
            return self._missing(path)
        return 200, {"kind": "Status", "status": "Success"}

    def _missing(self, path):
        return 404, {"kind": "Status", "reason": "NotFound", "message": f"{path} not found"}

    def _store(self, name, data):
        self.version += 1
        data["metadata"]["resourceVersion"] = str(self.version)
        self.objects[name] = data
        return data


def merge(old, change):
    """A JSON merge patch."""
    if not isinstance(change, dict):
        return change
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


@pytest.fixture
def api():
    """What the API server holds."""
    return FakeApi()


@pytest.fixture
def client(api):
    """A real client before the fake API server."""
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient

    return KubeClient(api, sleep=lambda _seconds: None)


@pytest.fixture
def catalogue_data():
    """The catalogue of the small cluster; tests may change it."""
    return json.loads(json.dumps(CATALOGUE))


@pytest.fixture
def program_directory(tmp_path) -> pathlib.Path:
    """The built program of the small cluster."""
    directory = tmp_path / "programs" / "kubernetes-0"
    directory.mkdir(parents=True)
    binary = directory / "serve"
    binary.write_text(PROGRAM.replace("{python}", sys.executable))
    binary.chmod(0o755)
    (directory / "resources.json").write_text(json.dumps(RESOURCES))
    return directory
