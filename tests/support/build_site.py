# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds in tests: the options of a task, its terms, and what is in the cluster and the registry afterwards."""

from __future__ import annotations

import gzip
import io
import json
import pathlib
import tarfile
import typing as t
import urllib.request

from ansible_collections.muster.kube.plugins.module_utils._face.modules.image_build import FACE
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import BuildFailed, BuildOptions, run_build
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE, RealCluster

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "roles/inspection/files/build.sh"
ODD = 'it\'s "quoted" $HOME `id` \\n\n\tzwölf €\n\nEOF\n'
KINDS = "application/vnd.oci.image.manifest.v1+json,application/vnd.docker.distribution.manifest.v2+json"


def build_terms_of(options: t.Mapping[str, t.Any], *, check_mode: bool = False) -> BuildOptions:
    """The terms behind a task's options; the builder's script comes as from the action plugin."""
    params = {name: entry.get("default") for name, entry in FACE.spec.items()}
    params |= {"build_script": SCRIPT.read_text(encoding="utf-8"), **options}
    return FACE.options(params, check_mode)


class BuildSite:
    """The cluster as tests of builds use it; namespace is where builds go unless told otherwise."""

    def __init__(self, cluster: RealCluster, namespace: str) -> None:
        """Have the images ready."""
        self.cluster = cluster
        self.namespace = namespace
        self.registry = cluster.registry
        self.busybox = cluster.busybox_image()
        self.builder = cluster.builder_image()

    def options(self, **changes: t.Any) -> dict[str, t.Any]:
        """Options of the module that fit this site."""
        return {
            "namespace": self.namespace,
            "image": f"{self.registry}/test/stack",
            "builder_image": self.builder,
            "tier": "baseline",
            "host_network": True,
            "insecure_registries": [self.registry],
            "hardware": {"node_selector": ON_REAL_NODE},
            "requests": {"cpu": "50m", "memory": "32Mi"},
            **changes,
        }

    def terms(self, *, check_mode: bool = False, **changes: t.Any) -> BuildOptions:
        """The same as terms of the flow."""
        return build_terms_of(self.options(**changes), check_mode=check_mode)

    def connect(self) -> KubeClient:
        """A new connection, as each task has one."""
        return connect({"kubeconfig": self.cluster.kubeconfig}, environ={})

    def build(self, client: KubeClient | None = None, **changes: t.Any) -> dict[str, t.Any]:
        """Build, and return a failure like any other result."""
        made = client or self.connect()
        try:
            return run_build(lambda: made, self.terms(**changes), lambda _text: None)
        except BuildFailed as error:
            return error.as_result()

    def jobs(self, namespace: str | None = None) -> list[str]:
        """Names of all Jobs in a namespace."""
        path = resource_path("batch/v1", "jobs", namespace or self.namespace)
        return list_objects(self.cluster.client, path, keep=lambda job: job["metadata"]["name"]).items

    def digests(self, repository: str) -> dict[str, str]:
        """The tags of a repository in the registry and their digests."""
        base = f"http://{self.registry}/v2/{repository}"
        with urllib.request.urlopen(f"{base}/tags/list") as answer:
            tags = json.load(answer)["tags"]
        found = {}
        for tag in tags:
            request = urllib.request.Request(f"{base}/manifests/{tag}", headers={"Accept": KINDS}, method="HEAD")
            with urllib.request.urlopen(request) as answer:
                found[tag] = answer.headers["Docker-Content-Digest"]
        return found

    def repositories(self) -> list[str]:
        """The repositories of the registry."""
        with urllib.request.urlopen(f"http://{self.registry}/v2/_catalog") as answer:
            found: list[str] = json.load(answer)["repositories"]
        return found

    def layers(self, reference: str) -> list[bytes]:
        """The unpacked layers of an image in the registry, those of its base (one in all our bases) left out."""
        repository, _colon, tag = reference.removeprefix(f"{self.registry}/").rpartition(":")
        base = f"http://{self.registry}/v2/{repository}"
        request = urllib.request.Request(f"{base}/manifests/{tag}", headers={"Accept": KINDS})
        with urllib.request.urlopen(request) as answer:
            manifest = json.load(answer)
        found = []
        for layer in manifest["layers"][1:]:
            with urllib.request.urlopen(f"{base}/blobs/{layer['digest']}") as answer:
                found.append(gzip.decompress(answer.read()))
        return found

    def names_in(self, layer: bytes) -> list[str]:
        """The paths of all files in a layer."""
        with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
            return [member.name for member in archive if member.isfile()]

    def file_in(self, layers: list[bytes], path: str) -> tuple[bytes, int]:
        """Content and mode of a file, in the last layer that has it."""
        for layer in reversed(layers):
            with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                if path in archive.getnames():
                    content = archive.extractfile(path)
                    assert content is not None
                    return content.read(), archive.getmember(path).mode & 0o7777
        raise AssertionError(f"no layer has {path}")


def small(site: BuildSite, content: str = ODD) -> dict[str, t.Any]:
    """A stack that is built in a few seconds."""
    return {"base": site.busybox, "files": [{"path": "/etc/odd name", "content": content, "mode": "0640"}]}


def own(site: BuildSite, *lines: str) -> dict[str, t.Any]:
    """A stack with a Dockerfile of its own."""
    return {"dockerfile": "\n".join([f"FROM {site.busybox}", *lines, ""])}
