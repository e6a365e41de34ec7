# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A local cluster whose pods really run: this machine as a node, two simulated ones, and an image registry."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import read_catalogue
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import ensure_present
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import find_programs
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import Layout, read_state
from ansible_collections.muster.kube.plugins.module_utils._host.distribution_programs import find_host_programs
from ansible_collections.muster.kube.plugins.module_utils._host.processes import find_marked, find_process
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
    NodeGroup,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.real_node import network_name
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.tests.support import images
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.shared_cluster import FILES, cache_directory, running_cluster

REAL = NodeGroup("real", 1, "", "", 110, real=True)
SIMULATED = NodeGroup("simulated", 2, "8", "32Gi", 110)
# For the nodeSelector of pods that must really run.
ON_REAL_NODE = {"muster.kube/real": "true"}


class RealCluster:
    """What tests need of such a cluster."""

    def __init__(self, live: LiveCluster, result: t.Mapping[str, t.Any]) -> None:
        """Keep the connection and the answer of local_cluster."""
        self.live = live
        self.client = live.client
        self.kubeconfig = live.kubeconfig
        self.kubectl = live.kubectl
        self.registry: str = result["registry"]
        self.node: str = result["real_node"]["name"]
        self.address: str = result["real_node"]["address"]

    @contextlib.contextmanager
    def suspended(self, component: str) -> t.Iterator[None]:
        """A component of the cluster that does not answer while the block lasts."""
        process = self.live.components[component]["pid"]
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    @contextlib.contextmanager
    def node_stopped(self) -> t.Iterator[None]:
        """The real node dies with all that runs there, and is back when the block has ended."""
        operators = tuple(self.live.result["operators"])
        services = self.live.result["real_node"]["service_address"] is not None
        name = self.live.result["name"]
        spec = ClusterSpec(name, (REAL, SIMULATED), registry=True, operators=operators, services=services)
        uid = read_state(Layout(cache_directory(), spec.name)).uid
        doomed = {process.pid for process, name in find_marked(uid).items() if name in ("containerd", "kubelet")}
        # The kubelet first, else it would tell of the end of the others.
        for process in (self.live.components["kubelet"]["pid"], *doomed, *in_cgroup(network_name(uid))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        wait_until("the node to end", lambda: not any(find_process(process) for process in doomed))
        try:
            yield
        finally:
            result = ensure_present(ClusterOptions(spec, cache_directory(), FILES, 120.0), lambda _text: None)
            self.live.components = result["components"]

    def base_image(self) -> str:
        """Debian with python3, pip and venv."""
        return images.base_image(self.registry)

    def builder_image(self) -> str:
        """Debian with buildah."""
        return images.builder_image(self.registry)

    def dnf_image(self) -> str:
        """Debian with dnf."""
        return images.dnf_image(self.registry)

    def python_image(self) -> str:
        """Only busybox and a python3 that can make virtual environments."""
        return images.python_image(self.registry)

    def busybox_image(self) -> str:
        """Only busybox."""
        return images.busybox_image(self.registry)

    def program_image(self, program: str, binary: str, place: str) -> str:
        """Only a program of the catalogue, which was built, at its place."""
        [built] = find_programs(read_catalogue(FILES), [program], FILES, cache_directory())[1]
        return images.program_image(self.registry, program, built.directory / binary, place)


def in_cgroup(name: str) -> list[int]:
    """Processes in a cgroup of that name."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            inside = entry.name.isdigit() and f"/{name}/" in (entry / "cgroup").read_text(encoding="utf-8")
        except OSError:
            continue
        # One that is dead and only waits to be collected is nobody's any more.
        if inside and find_process(int(entry.name)) is not None:
            found.append(int(entry.name))
    return found


def reason_to_skip() -> str | None:
    """Why such a cluster cannot run here; None when it can."""
    if os.geteuid() != 0:
        return "real pods need root"
    try:
        find_host_programs(read_catalogue(FILES), ClusterSpec("any", (REAL,), registry=True))
    except MusterError as error:
        return str(error)
    missing = [name for name in images.PROGRAMS if shutil.which(name) is None]
    return f"images for real pods need {', '.join(missing)}" if missing else None


@contextlib.contextmanager
def running_real_cluster(name: str, *operators: str, services: bool = False) -> t.Iterator[RealCluster]:
    """The cluster with these operators, for as long as the block lasts."""
    settings = {"registry": True, "operators": operators, "services": services}
    with running_cluster(name, nodes=(REAL, SIMULATED), **settings) as live:
        yield RealCluster(live, live.result)
    # Another one may get the same address for its registry.
    images.forget_pushed()
