# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of the distribution that a registry and a real node need, found or named as missing."""

from __future__ import annotations

import collections.abc
import dataclasses
import os
import pathlib
import shutil

from ansible_collections.muster.kube.plugins.module_utils._host.processes import CLUSTER_MARK
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    Catalogue,
    ClusterSpec,
    ProcessSpec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

# Where system programs lie, which the PATH of a plain login may not name.
SYSTEM_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")
CNI_DIRECTORIES = ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")
CNI_PLUGINS = ("bridge", "host-local", "loopback")
CNI_PACKAGE = "containernetworking-plugins"
TOOLS = {"runc": "runc", "ctr": "containerd", "ip": "iproute2", "umount": "mount"}


@dataclasses.dataclass(frozen=True, slots=True)
class HostPrograms:
    """Where the programs of the distribution lie: those of processes by their names, tools, and the network plugins."""

    processes: collections.abc.Mapping[str, pathlib.Path] = dataclasses.field(default_factory=dict)
    tools: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)
    cni_plugins: str = ""


def find_host_programs(catalogue: Catalogue, spec: ClusterSpec) -> HostPrograms:
    """Everything that must be there already; refused with all that is missing and the packages that bring it."""
    real = spec.real_group is not None
    if real:
        _check_machine()
    shipped = [process for process in catalogue.on_demand(spec) if process.package]
    processes = {process.name: _find_program(process) for process in shipped}
    tools = {name: find_tool(name) for name in TOOLS} if real else {}
    plugins = _find_cni_plugins() if real else ""
    missing = [f"{item.binary} (Debian package {item.package})" for item in shipped if processes[item.name] is None]
    missing += [f"{name} (Debian package {TOOLS[name]})" for name, path in tools.items() if path is None]
    if plugins is None:
        missing.append(f"the network plugins {', '.join(CNI_PLUGINS)} (Debian package {CNI_PACKAGE})")
    if missing:
        what = "a real node" if real else "a registry"
        raise MusterError("start", what, f"not installed: {'; '.join(missing)}")
    return HostPrograms(
        {name: path for name, path in processes.items() if path},
        {name: path for name, path in tools.items() if path},
        plugins or "",
    )


def find_tool(name: str) -> str | None:
    """The path of a program."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_PATH])
    return shutil.which(name, path=path)


def _find_program(process: ProcessSpec) -> pathlib.Path | None:
    """The program of a process, under any of the names distributions give it."""
    found = (find_tool(name) for name in (process.binary, *process.alternatives))
    return next((pathlib.Path(path) for path in found if path is not None), None)


def _find_cni_plugins() -> str | None:
    """The directory that has all network plugins we use."""
    for directory in CNI_DIRECTORIES:
        if all(os.access(f"{directory}/{name}", os.X_OK) for name in CNI_PLUGINS):
            return directory
    return None


def _check_machine() -> None:
    """Refuse a machine that cannot be a node: without root, or one that is a node of another cluster."""
    if os.geteuid() != 0:
        cause = (
            "it needs root, for this machine's own kubelet, containerd and network bridge; use simulated nodes instead"
        )
        raise MusterError("start", "a real node", cause)
    foreign = find_foreign_kubelet(pathlib.Path("/proc"))
    if foreign is not None:
        cause = f"process {foreign} is a kubelet of somebody else, and two of them on one machine disturb each other"
        raise MusterError("start", "a real node", cause)


def find_foreign_kubelet(proc: pathlib.Path) -> int | None:
    """The process id of a kubelet that no local cluster started."""
    mark = f"{CLUSTER_MARK}=".encode()
    for entry in sorted(proc.iterdir()):
        try:
            if not entry.name.isdigit() or (entry / "comm").read_text(encoding="utf-8").strip() != "kubelet":
                continue
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if not any(variable.startswith(mark) for variable in variables):
            return int(entry.name)
    return None
