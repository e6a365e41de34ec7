# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a local cluster remembers between runs: its directory, its state file, its lock."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import json
import pathlib
import typing as t
import uuid

from ansible_collections.muster.kube.plugins.module_utils._host.files import write_file
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import NodeGroup
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

STATE_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Where the files of one cluster lie."""

    cache: pathlib.Path
    name: str

    @property
    def directory(self) -> pathlib.Path:
        """Everything of the cluster; removed with it."""
        return self.cache / "clusters" / self.name

    @property
    def lock(self) -> pathlib.Path:
        """Beside the directory, which is removed while the lock is held."""
        return self.cache / "clusters" / f".{self.name}.lock"

    @property
    def state(self) -> pathlib.Path:
        """The state file."""
        return self.directory / "cluster.json"

    @property
    def kubeconfig(self) -> pathlib.Path:
        """The administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def certificates(self) -> pathlib.Path:
        """Keys and certificates."""
        return self.directory / "certificates"

    @property
    def configuration(self) -> pathlib.Path:
        """Files that processes read."""
        return self.directory / "configuration"

    @property
    def data(self) -> pathlib.Path:
        """Data of etcd, of the registry and of the real node."""
        return self.directory / "data"

    def log(self, process: str) -> pathlib.Path:
        """The log file of one process."""
        return self.directory / "logs" / f"{process}.log"

    @property
    def audit_log(self) -> pathlib.Path:
        """Where the API server writes what it was asked for."""
        return self.directory / "logs" / "audit.log"

    def process_kubeconfig(self, process: str) -> pathlib.Path:
        """The kubeconfig with which one process talks to the API server."""
        return self.configuration / f"{process}.kubeconfig"


@dataclasses.dataclass(slots=True)
class ProcessRecord:
    """One process we started. Without pid its start was begun and not yet confirmed."""

    fingerprint: str
    log: str
    pid: int | None = None
    born: str = ""


@dataclasses.dataclass(slots=True)
class ClusterState:
    """The content of the state file."""

    name: str
    uid: str
    complete: bool = False
    version: str = ""
    ports: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    processes: dict[str, ProcessRecord] = dataclasses.field(default_factory=dict)
    operators: list[str] = dataclasses.field(default_factory=list)
    kubectl: str = ""
    registry: bool = False
    audit_log: bool = False
    services: bool = False
    real_node: str = ""
    subnet: str = ""
    # The node groups that were written last; None where an older version wrote the file.
    nodes: list[NodeGroup] | None = None

    @classmethod
    def new(cls, name: str) -> ClusterState:
        """The state of a cluster that does not exist yet; the uid marks its processes."""
        return cls(name=name, uid=uuid.uuid4().hex)

    def server(self) -> str:
        """The url of the API server, empty before its port is chosen."""
        port = self.ports.get("kube-apiserver", {}).get("secure")
        return f"https://127.0.0.1:{port}" if port else ""


def read_state(layout: Layout) -> ClusterState | None:
    """The remembered state, None when there is no such cluster."""
    try:
        data = json.loads(layout.state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise MusterError("read", str(layout.state), str(error)) from error
    if data.pop("state_version", None) != STATE_VERSION:
        raise MusterError("read", str(layout.state), "it was written by another version of the collection")
    # What a newer version adds stands for parts of the cluster that this one would not remove.
    if unknown := sorted(set(data) - {field.name for field in dataclasses.fields(ClusterState)}):
        cause = f"it was written by a newer version of the collection: it holds {', '.join(unknown)}"
        raise MusterError("read", str(layout.state), cause)
    data["processes"] = {name: ProcessRecord(**record) for name, record in data["processes"].items()}
    if data.get("nodes") is not None:
        data["nodes"] = [_node_group(group) for group in data["nodes"]]
    return ClusterState(**data)


def _node_group(data: dict[str, t.Any]) -> NodeGroup:
    """A node group as it was written."""
    pairs = {name: tuple(map(tuple, data[name])) for name in ("extended", "labels")}
    return NodeGroup(**{**data, **pairs, "taints": tuple(Taint(**taint) for taint in data["taints"])})


def write_state(layout: Layout, state: ClusterState) -> None:
    """Replace the state file atomically, so that an interrupted run leaves either the old or the new one."""
    data = {"state_version": STATE_VERSION, **dataclasses.asdict(state)}
    for later in ("audit_log", "services"):
        if not data[later]:
            # Versions that know nothing of it can still read the file.
            del data[later]
    write_file(layout.state, json.dumps(data, indent=2) + "\n")


def find_clusters(cache: pathlib.Path) -> list[str]:
    """Names of all clusters that have a state file."""
    folder = cache / "clusters"
    try:
        return sorted(path.parent.name for path in folder.glob("*/cluster.json"))
    except (OSError, ValueError) as error:
        raise MusterError("read", f"cache {folder}", str(error)) from error


def used_ports(cache: pathlib.Path, except_for: str = "") -> set[int]:
    """Ports remembered by other clusters, running or not, so that a stopped one gets its own back."""
    return {
        port for state in _other_states(cache, except_for) for ports in state.ports.values() for port in ports.values()
    }


def used_subnets(cache: pathlib.Path, except_for: str = "") -> set[str]:
    """Pod networks remembered by other clusters."""
    return {state.subnet for state in _other_states(cache, except_for) if state.subnet}


def _other_states(cache: pathlib.Path, except_for: str) -> collections.abc.Iterator[ClusterState]:
    """What the other clusters remember, as far as it can be read."""
    for name in find_clusters(cache):
        with contextlib.suppress(MusterError):
            state = read_state(Layout(cache, name)) if name != except_for else None
            if state is not None:
                yield state
