# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a local cluster: prepared from the catalogue, started in order, restarted on change."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import hashlib
import json
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import ensure_kubeconfig
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import (
    ClusterState,
    Layout,
    ProcessRecord,
    used_ports,
    write_state,
)
from ansible_collections.muster.kube.plugins.module_utils._host.files import (
    Report,
    exclusive,
    read_if_there,
    write_file,
)
from ansible_collections.muster.kube.plugins.module_utils._host.processes import (
    Process,
    choose_ports,
    find_marked,
    is_healthy,
    is_running,
    is_session_leader,
    start_process,
    stop_processes,
    wait_free,
    wait_healthy,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterSpec,
    Placeholders,
    ProcessSpec,
    build_command,
    expand,
    switches_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.plan import Condition
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

# What the audit log is to hold, among the files of the API server.
AUDIT_POLICY = "audit-policy.yaml"
STOP_SECONDS = 10.0
# How long a port of ours may stay in use after its process ended; the kernel needs a moment under load.
PORT_SECONDS = 5.0
# An API server waits for its watchers to leave, and they do not. All it knows is in etcd, so it need not end gently.
API_SERVER_STOP_SECONDS = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedProcess:
    """A process with everything filled in for one cluster."""

    spec: ProcessSpec
    command: list[str]
    environment: dict[str, str]
    files: dict[str, str]
    health_url: str

    @property
    def fingerprint(self) -> str:
        """Another one means that the process must be restarted to be as wanted."""
        text = json.dumps([self.command, self.environment, self.files], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclasses.dataclass(slots=True)
class Processes:
    """The processes of one cluster."""

    layout: Layout
    state: ClusterState
    spec: ClusterSpec
    files: pathlib.Path
    report: Report
    # The values of the real node are asked for when they are needed; they change once its network is chosen.
    node_values: collections.abc.Callable[[], dict[str, str]] = dict

    def assign_ports(self, wanted: collections.abc.Iterable[ProcessSpec]) -> None:
        """Choose the ports that are not chosen yet, and remember them."""
        missing = {spec.name: roles for spec in wanted if (roles := self._missing_ports(spec))}
        if not missing:
            return
        own = {port for ports in self.state.ports.values() for port in ports.values()}
        with exclusive(self.layout.cache / "clusters" / ".ports.lock", "the list of ports", 60.0, self.report):
            taken = used_ports(self.layout.cache, self.layout.name) | own
            for name, roles in missing.items():
                chosen = choose_ports(len(roles), taken)
                taken.update(chosen)
                self.state.ports.setdefault(name, {}).update(zip(roles, chosen, strict=True))
            write_state(self.layout, self.state)

    def _missing_ports(self, spec: ProcessSpec) -> list[str]:
        """The ports of a process that are not chosen yet."""
        return [role for role in spec.ports if role not in self.state.ports.get(spec.name, {})]

    def placeholders(self, spec: ProcessSpec) -> Placeholders:
        """What the placeholders of a process stand for here."""
        layout = self.layout
        return Placeholders(
            spec.name,
            {
                "kubeconfig": str(layout.process_kubeconfig(spec.name)),
                "certificates": str(layout.certificates),
                "configuration": str(layout.configuration),
                "data": str(layout.data),
                "server": self.state.server(),
                "feature_gates": switches_text(self.spec.feature_gates),
                "runtime_config": switches_text(self.spec.runtime_config),
                "audit_log": str(layout.audit_log) if self.spec.audit_log else "",
                "audit_policy": str(layout.configuration / AUDIT_POLICY) if self.spec.audit_log else "",
                "services": "true" if self.spec.services else "",
                **self.node_values(),
            },
            self.state.ports,
            lambda name: read_if_there(layout.certificates / name),
        )

    def prepare(self, spec: ProcessSpec, directory: pathlib.Path) -> PreparedProcess:
        """Fill in everything; ports and certificates that are not there yet are empty."""
        values = self.placeholders(spec)
        files = {name: expand(content, values) for name, content in spec.files}
        for folder in spec.copies:
            for path in sorted((self.files / folder).iterdir()):
                files[f"{folder}/{path.name}"] = path.read_text(encoding="utf-8")
        return PreparedProcess(
            spec,
            build_command(spec, str(directory), values, self.spec.flags_of(spec.name)),
            {name: expand(value, values) for name, value in spec.environment},
            files,
            expand(spec.health_url, values),
        )

    def process(self, name: str) -> Process | None:
        """The recorded process of this name, if it still runs."""
        record = self.state.processes.get(name)
        if record is None or record.pid is None:
            return None
        process = Process(record.pid, record.born)
        return process if is_running(process) else None

    def condition(self, spec: ProcessSpec, directory: pathlib.Path) -> Condition:
        """How a process is compared to how it is wanted."""
        record = self.state.processes.get(spec.name)
        if record is None or self._missing_ports(spec):
            return "absent"
        if self.process(spec.name) is None:
            return "stopped"
        return "running" if record.fingerprint == self.prepare(spec, directory).fingerprint else "outdated"

    def adopt(self) -> list[Process]:
        """Make the records true after an interrupted run; returns the processes that no record knows."""
        known = {(record.pid, record.born) for record in self.state.processes.values()}
        unknown: list[Process] = []
        for process, name in find_marked(self.state.uid).items():
            if (process.pid, process.born) in known or not is_session_leader(process):
                continue
            record = self.state.processes.get(name)
            if record is not None and record.pid is None:
                record.pid, record.born = process.pid, process.born
            else:
                unknown.append(process)
        return unknown

    def stop(self, name: str) -> None:
        """Stop a process; its record is dropped."""
        process = self.process(name)
        if process is not None:
            stop_in_order({process: name})
        self.state.processes.pop(name, None)

    def start(self, prepared: PreparedProcess) -> None:
        """Start one process. The state file says so before and after, so that an interruption leaves no unknown."""
        spec = prepared.spec
        self.stop(spec.name)
        for role, port in self.state.ports[spec.name].items():
            if not wait_free(port, PORT_SECONDS):
                raise MusterError("start", spec.name, f"its {role} port {port} is in use by another process")
        if spec.is_client:
            certificate = self.layout.certificates / "clients" / spec.name
            ensure_kubeconfig(self.layout.process_kubeconfig(spec.name), self.layout, self.state.server(), certificate)
        for name, content in prepared.files.items():
            write_file(self.layout.configuration / name, content)
        log = self.layout.log(spec.name)
        record = ProcessRecord(prepared.fingerprint, str(log))
        self.state.processes[spec.name] = record
        write_state(self.layout, self.state)
        process = start_process(prepared.command, prepared.environment, log, self.state.uid, spec.name)
        record.pid, record.born = process.pid, process.born
        write_state(self.layout, self.state)

    def is_healthy(self, prepared: PreparedProcess) -> bool:
        """Whether a process says that it is healthy."""
        return is_healthy(prepared.health_url, self.layout.certificates / "ca.crt")

    def wait(self, prepared: PreparedProcess, deadline: float) -> None:
        """Wait until a started process is healthy."""
        name = prepared.spec.name
        record = self.state.processes[name]
        process = Process(record.pid or 0, record.born)
        log = pathlib.Path(record.log)
        wait_healthy(name, process, lambda: self.is_healthy(prepared), log, deadline, self.report)

    def start_all(self, prepared: collections.abc.Iterable[PreparedProcess], deadline: float) -> None:
        """Start processes: servers one after the other, then all clients of the API server together."""
        clients: list[PreparedProcess] = []
        for item in prepared:
            if item.spec.is_client:
                clients.append(item)
            else:
                self._start_together([item], deadline)
        if clients:
            with self.markers(clients):
                self._start_together(clients, deadline)

    def _start_together(self, prepared: list[PreparedProcess], deadline: float) -> None:
        """Start processes and wait until all are healthy."""
        self.report(f"starting {', '.join(item.spec.name for item in prepared)}")
        for item in prepared:
            self.start(item)
        for item in prepared:
            self.wait(item, deadline)

    @contextlib.contextmanager
    def markers(self, prepared: collections.abc.Iterable[PreparedProcess]) -> t.Iterator[None]:
        """Files outside the cache that programs wait for, there only while they start; one cluster at a time."""
        paths = [pathlib.Path(path) for item in prepared for path in item.spec.markers]
        if not paths:
            yield
            return
        with exclusive(self.layout.cache / "clusters" / ".markers.lock", "shared marker files", 300.0, self.report):
            made = [path for path in paths if not path.exists()]
            folders = [folder for path in made for folder in path.parents if not folder.exists()]
            for path in made:
                write_file(path, "")
            try:
                yield
            finally:
                for path in made:
                    path.unlink(missing_ok=True)
                for folder in folders:
                    with contextlib.suppress(OSError):
                        folder.rmdir()

    def describe(self) -> dict[str, dict[str, t.Any]]:
        """Every recorded process for the result."""
        shown = {}
        for name, record in self.state.processes.items():
            running = self.process(name) is not None
            shown[name] = {
                "pid": record.pid if running else None,
                "log": record.log,
                "ports": dict(self.state.ports.get(name, {})),
                "running": running,
            }
        return shown


def stop_in_order(processes: collections.abc.Mapping[Process, str]) -> None:
    """Stop processes, given with their names: clients first, then the API server, then its store."""
    servers = ("kube-apiserver", "etcd")
    stop_processes([process for process, name in processes.items() if name not in servers], STOP_SECONDS)
    for server, grace in zip(servers, (API_SERVER_STOP_SECONDS, STOP_SECONDS), strict=True):
        stop_processes([process for process, name in processes.items() if name == server], grace)
