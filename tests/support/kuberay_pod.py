# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeRay as a pod of the real node, installed with its own manifests; only what depends on the cluster is replaced."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import subprocess
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import read_catalogue
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import Authority
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import Builder, find_programs
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE, RealCluster
from ansible_collections.muster.kube.tests.support.shared_cluster import FILES, build_programs, cache_directory

Object = dict[str, t.Any]
PROGRAM = "kuberay"
NAMESPACE = "ray-system"
CONTAINER = "/spec/template/spec/containers/0"
DEPLOYMENT = resource_path("apps/v1", "deployments", NAMESPACE, "kuberay-operator")
WEBHOOKS = resource_path(
    "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    name="kuberay-validating-webhook-configuration",
)
WEBHOOK_SERVICE = f"kuberay-webhook-service.{NAMESPACE}.svc"


@contextlib.contextmanager
def running_kuberay(cluster: RealCluster, folder: pathlib.Path) -> t.Iterator[None]:
    """KubeRay with its webhook, ready, for as long as the block lasts."""
    build_programs(PROGRAM)
    write_kustomization(cluster.program_image(PROGRAM, "ray-operator", "/manager"), folder)
    _kubectl(cluster, "apply", "--server-side", "-k", str(folder))
    try:
        wait_until("KubeRay to be ready", lambda: _available(get_object(cluster.client, DEPLOYMENT)))
        yield
    finally:
        # What acts goes; to delete the definitions too would take as long as to write them.
        for path in (WEBHOOKS, DEPLOYMENT):
            delete(cluster.client, path)


def write_kustomization(image: str, folder: pathlib.Path) -> None:
    """What we change of KubeRay's own kustomization: image, node, and the certificates that cert-manager would make."""
    authority = Authority(folder / "certificates", "kuberay-webhooks")
    authority.ensure_certificate(folder / "certificates" / "tls", WEBHOOK_SERVICE, (), (WEBHOOK_SERVICE,))
    own = _sources() / "config" / "default-with-webhooks"
    name, _separator, tag = image.rpartition(":")
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(own, folder.resolve()), "secret.json"],
        "images": [{"name": "quay.io/kuberay/operator", "newName": name, "newTag": tag}],
        "patches": [
            _deletion("Issuer", "selfsigned-issuer"),
            _deletion("Certificate", "serving-cert"),
            _patch(
                "ValidatingWebhookConfiguration",
                {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": _base64(folder, "ca.crt")},
            ),
            _patch(
                "Deployment",
                {"op": "add", "path": "/spec/template/spec/nodeSelector", "value": ON_REAL_NODE},
                # A tenth of a processor is enough to work, but makes every start last half a minute.
                {"op": "remove", "path": f"{CONTAINER}/resources/limits/cpu"},
                {"op": "replace", "path": f"{CONTAINER}/readinessProbe/initialDelaySeconds", "value": 1},
            ),
        ],
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": "webhook-server-cert", "namespace": NAMESPACE},
        "data": {name: _base64(folder, name) for name in ("tls.crt", "tls.key")},
    }
    (folder / "kustomization.yaml").write_text(json.dumps(kustomization), encoding="utf-8")
    (folder / "secret.json").write_text(json.dumps(secret), encoding="utf-8")


def _sources() -> pathlib.Path:
    """KubeRay's Go module, which is fetched when only the built program is in the cache."""
    catalogue = read_catalogue(FILES)
    program = catalogue.programs[PROGRAM]
    go, _programs = find_programs(catalogue, [PROGRAM], FILES, cache_directory())
    builder = Builder(go, catalogue, FILES, cache_directory(), print, 0)
    ended = subprocess.run(
        [go.path, "mod", "download", "-json", f"{program.module}@{program.version}"],
        cwd=FILES / "go" / program.source_name,
        env=builder.environment(),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == 0, ended.stderr
    return pathlib.Path(json.loads(ended.stdout)["Dir"])


def _deletion(kind: str, name: str) -> Object:
    """A patch that leaves out an object of cert-manager."""
    place = {"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}}
    return {"patch": json.dumps({"$patch": "delete", **place})}


def _patch(kind: str, *operations: Object) -> Object:
    """A patch of the only object of a kind."""
    return {"target": {"kind": kind}, "patch": json.dumps(operations)}


def _base64(folder: pathlib.Path, name: str) -> str:
    return base64.b64encode((folder / "certificates" / name).read_bytes()).decode()


def _available(deployment: Object | None) -> bool:
    """Whether the one pod of the Deployment is ready."""
    return deployment is not None and deployment["status"].get("availableReplicas") == 1


def _kubectl(cluster: RealCluster, *arguments: str) -> None:
    """A kubectl that must work."""
    command = [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ended.returncode == 0, ended.stderr
