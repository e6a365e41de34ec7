# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real node of a local cluster: what its kubelet and containerd need on this machine, and the removal of it."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import ipaddress
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import time

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import (
    ensure_node_certificate,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import (
    ClusterState,
    Layout,
    used_subnets,
    write_state,
)
from ansible_collections.muster.kube.plugins.module_utils._host.commands import run_command
from ansible_collections.muster.kube.plugins.module_utils._host.distribution_programs import HostPrograms, find_tool
from ansible_collections.muster.kube.plugins.module_utils._host.files import Report, exclusive, write_file
from ansible_collections.muster.kube.plugins.module_utils._host.machine_settings import MachineSettings
from ansible_collections.muster.kube.plugins.module_utils._host.processes import find_marked
from ansible_collections.muster.kube.plugins.module_utils._model.image.image_archive import ArchiveFile, build_image
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    CONTAINERD,
    KUBELET,
    NodeGroup,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.real_node import (
    SERVICE_ADDRESS,
    cgroup_directories,
    check_data_path,
    choose_subnet,
    hardware_address,
    mounts_below,
    network_name,
    node_address,
    parse_addresses,
    parse_mounts,
    parse_routes,
    sandbox_ids,
    sandbox_image,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

REMOVE_SECONDS = 20.0
POLL_SECONDS = 0.02
# The controllers that each v2 group must enable for the groups below it, so that pods can be limited.
CONTROLLERS = ("cpu", "cpuset", "memory", "hugetlb", "pids", "io")
CNI_CACHE = pathlib.Path("/var/lib/cni/results")
CONTAINER_LOGS = pathlib.Path("/var/log/containers")
NODE_FOLDERS = ("containerd", "kubelet", "cni", "pod-logs")


@dataclasses.dataclass(slots=True)
class RealNode:
    """The machine as a node of one cluster; `pause` is the directory of that program."""

    layout: Layout
    state: ClusterState
    group: NodeGroup
    host: HostPrograms
    pause: pathlib.Path

    @property
    def network(self) -> str:
        """The bridge, which is also the name of the pod network and of the cgroup."""
        return network_name(self.state.uid)

    def placeholders(self) -> dict[str, str]:
        """What the placeholders of containerd and kubelet stand for."""
        return {
            "node": self.group.node_name(0),
            "node_group": self.group.name,
            "node_ip": node_address(self.state.subnet) if self.state.subnet else "",
            "pods": str(self.group.pods),
            "network": self.network,
            "subnet": self.state.subnet,
            "runc": self.host.tools["runc"],
            "cni_plugins": self.host.cni_plugins,
            "sandbox_image": sandbox_image(self.pause),
            "service_address": SERVICE_ADDRESS,
        }

    def assign_subnet(self, report: Report) -> None:
        """Choose the pod network once, and remember it."""
        check_data_path(self.layout.data)
        if self.state.subnet:
            return
        with exclusive(self.layout.cache / "clusters" / ".ports.lock", "the list of ports", 60.0, report):
            taken = used_subnets(self.layout.cache, self.layout.name)
            self.state.subnet = choose_subnet(taken, parse_routes(_read("/proc/net/route")))
            write_state(self.layout, self.state)

    def prepare(self) -> None:
        """Make what must be there before the processes start."""
        MachineSettings().save(self.layout.directory)
        address = node_address(self.state.subnet)
        ensure_node_certificate(self.layout, self.group.node_name(0), address)
        for folder in NODE_FOLDERS:
            (self.layout.data / folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        ensure_cgroup(self.network)

    def create_bridge(self) -> None:
        """Create the bridge to which the pods are connected; it has the address of the node.

        A bridge without a hardware address of its own has the lowest of its ports: it changes as pods come and go, and
        what other pods send to the address they know is lost. The address of the node comes last: a run that is killed
        before leaves a bridge that is not taken for a whole one.
        """
        if not pathlib.Path("/sys/class/net", self.network).exists():
            hardware = hardware_address(node_address(self.state.subnet))
            self._ip("link", "add", self.network, "address", hardware, "type", "bridge")
        self._ip("link", "set", self.network, "up")
        self._ip("address", "replace", self._own_address(), "dev", self.network)

    def has_bridge(self) -> bool:
        """True when the bridge is there and has the address of the node."""
        return bool(self.state.subnet) and self._own_address() in self._addresses()

    def _own_address(self) -> str:
        """The address of the node and the length of its network's prefix."""
        return f"{node_address(self.state.subnet)}/{ipaddress.IPv4Network(self.state.subnet).prefixlen}"

    def set_service_address(self, present: bool) -> None:
        """Let the bridge have the address at which pods look for the API server, or not have it any more."""
        self._ip("address", "replace" if present else "delete", f"{SERVICE_ADDRESS}/32", "dev", self.network)

    def has_service_address(self) -> bool:
        """True when the bridge is there and has that address."""
        return f"{SERVICE_ADDRESS}/32" in self._addresses()

    def _addresses(self) -> list[str]:
        """The addresses of the bridge; none when it is not there."""
        answer = run_command([self.host.tools["ip"], "-oneline", "-4", "address", "show", "dev", self.network])
        return parse_addresses(answer.stdout)

    def ensure_sandbox_image(self, deadline: float) -> None:
        """Give containerd the image of pause unless it has it."""
        name = sandbox_image(self.pause)
        while (listed := self._ctr("images", "list", "--quiet", f"name=={name}")).returncode != 0:
            if time.monotonic() > deadline:
                raise MusterError("ask", CONTAINERD, listed.stderr.strip())
            time.sleep(0.1)
        if name in listed.stdout.split():
            return
        archive = self.layout.data / "containerd" / "pause.tar"
        content = ArchiveFile("pause", (self.pause / "pause").read_bytes(), 0o755)
        write_file(archive, build_image(name, [content], platform.machine(), ["/pause"]))
        imported = self._ctr("images", "import", str(archive))
        archive.unlink(missing_ok=True)
        if imported.returncode != 0:
            raise MusterError("import", f"image {name}", imported.stderr.strip())

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Ask containerd."""
        address = str(containerd_socket(self.layout))
        return run_command([self.host.tools["ctr"], "--address", address, "--namespace", "k8s.io", *arguments])

    def _ip(self, *arguments: str) -> None:
        """Change an interface."""
        answer = run_command([self.host.tools["ip"], *arguments])
        if answer.returncode != 0:
            raise MusterError("set up", f"network interface {self.network}", answer.stderr.strip())


def containerd_socket(layout: Layout) -> pathlib.Path:
    """Where the containerd of a cluster listens."""
    return layout.data / "containerd" / "containerd.sock"


def ensure_cgroup(name: str) -> None:
    """The cgroup below which the kubelet puts all pods: in v1 one for each controller, in v2 one for all."""
    mounts = parse_mounts(_read("/proc/self/mountinfo"))
    directories = cgroup_directories(mounts, name, ("cgroup",))
    # Where v1 controllers are mounted, a v2 hierarchy beside them has none.
    for directory in directories or cgroup_directories(mounts, name, ("cgroup2",)):
        path = pathlib.Path(directory)
        try:
            path.mkdir(exist_ok=True)
            if not directories:
                _enable_controllers(path.parent)
        except OSError as error:
            raise MusterError("create", f"cgroup {directory}", str(error)) from error


def _enable_controllers(group: pathlib.Path) -> None:
    """Let the groups below a v2 group use all controllers we may need; a kernel may lack some."""
    offered = (group / "cgroup.controllers").read_text(encoding="utf-8").split()
    for controller in CONTROLLERS:
        if controller in offered:
            (group / "cgroup.subtree_control").write_text(f"+{controller}", encoding="utf-8")


def remove_real_node(layout: Layout, state: ClusterState) -> None:
    """Remove the node: processes, cgroups, mounts, interfaces and files, whatever state they were left in.

    Processes are killed, since nothing of them is kept. The API server may be gone already.
    """
    network = network_name(state.uid)
    cgroups = cgroup_directories(parse_mounts(_read("/proc/self/mountinfo")), network, ("cgroup", "cgroup2"))
    _end_processes(state.uid, [pathlib.Path(path) for path in cgroups if os.path.isdir(path)])
    for name in (KUBELET, CONTAINERD):
        state.processes.pop(name, None)
    _remove_shim_sockets(layout)
    unmount_below(layout.directory)
    _remove_links(network)
    _remove_cni_cache(network)
    _remove_log_links(layout)
    for folder in NODE_FOLDERS:
        shutil.rmtree(layout.data / folder, ignore_errors=True)
    for name in ("kubelet-serving", f"clients/{KUBELET}"):
        for suffix in (".crt", ".key"):
            (layout.certificates / f"{name}{suffix}").unlink(missing_ok=True)
    MachineSettings().restore(layout.directory)
    state.real_node = ""


def _end_processes(uid: str, cgroups: collections.abc.Sequence[pathlib.Path]) -> None:
    """Kill kubelet, containerd, its shims and everything in pods until nothing is left, and remove the cgroups."""
    deadline = time.monotonic() + REMOVE_SECONDS
    while True:
        ours = {process.pid for process, name in find_marked(uid).items() if name in (KUBELET, CONTAINERD)}
        inside = {pid for group in cgroups for pid in _members(group)}
        for pid in ours | inside:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for group in cgroups:
            _remove_cgroup(group)
        left = [str(group) for group in cgroups if group.exists()]
        if not ours and not inside and not left:
            return
        if time.monotonic() > deadline:
            what = f"process {min(ours | inside)}" if ours | inside else f"cgroup {left[0]}"
            raise MusterError("remove", what, f"it is still there after {REMOVE_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _members(group: pathlib.Path) -> list[int]:
    """The processes in a cgroup and all below it."""
    found: list[int] = []
    for folder, _subfolders, _files in os.walk(group):
        with contextlib.suppress(OSError):
            found.extend(int(pid) for pid in pathlib.Path(folder, "cgroup.procs").read_text(encoding="utf-8").split())
    # A process of another process namespace has no number here.
    return [pid for pid in found if pid > 0]


def _remove_cgroup(group: pathlib.Path) -> None:
    """Remove a cgroup and those below it, as far as nothing is in them."""
    for folder, _subfolders, _files in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def unmount_below(directory: pathlib.Path) -> None:
    """Unmount everything inside a directory, so that deleting it cannot delete what was mounted there."""
    points = mounts_below(parse_mounts(_read("/proc/self/mountinfo")), directory.resolve())
    umount = find_tool("umount")
    for point in points:
        answer = run_command([umount or "umount", "--lazy", point])
        if answer.returncode != 0 and os.path.ismount(point):
            raise MusterError("unmount", point, answer.stderr.strip())


def _remove_links(network: str) -> None:
    """Remove the bridge and the interfaces of pods that are connected to it."""
    ip = find_tool("ip") or "ip"
    bridge = pathlib.Path("/sys/class/net", network)
    ports = sorted(os.listdir(bridge / "brif")) if bridge.exists() else []
    for link in [*ports, *([network] if bridge.exists() else [])]:
        answer = run_command([ip, "link", "delete", link])
        # The interface of a pod that is being deleted may be gone by now.
        if answer.returncode != 0 and pathlib.Path("/sys/class/net", link).exists():
            raise MusterError("delete", f"network interface {link}", answer.stderr.strip())


def _remove_shim_sockets(layout: Layout) -> None:
    """Remove the sockets of killed shims, which lie in a directory that all containerds share."""
    for note in (layout.data / "containerd" / "state").glob("io.containerd.runtime.v2.task/*/*/address"):
        with contextlib.suppress(OSError):
            address = note.read_text(encoding="utf-8").strip().removeprefix("unix://")
            if address.startswith("/run/containerd/s/"):
                pathlib.Path(address).unlink(missing_ok=True)


def _remove_cni_cache(network: str) -> None:
    """Remove the records of the pods' interfaces, which also lie in a shared directory."""
    names = sorted(os.listdir(CNI_CACHE)) if CNI_CACHE.is_dir() else []
    ids = sandbox_ids(network, names)
    for name in names:
        if name.startswith(f"{network}-") or any(f"-{pod}-" in name for pod in ids):
            (CNI_CACHE / name).unlink(missing_ok=True)


def _remove_log_links(layout: Layout) -> None:
    """Remove the links that the kubelet made to the logs of its containers."""
    inside = f"{layout.data}/"
    for link in sorted(CONTAINER_LOGS.iterdir()) if CONTAINER_LOGS.is_dir() else ():
        if link.is_symlink() and os.readlink(link).startswith(inside):
            link.unlink(missing_ok=True)


def _read(path: str) -> str:
    """One of the kernel's tables."""
    return pathlib.Path(path).read_text(encoding="utf-8", errors="surrogateescape")
