# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running the components of a local cluster: prepared from the catalogue, started in order, restarted on change."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import hashlib
import json
import pathlib
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import ensure_kubeconfig
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import (
    ClusterState,
    Layout,
    ProcessRecord,
    Report,
    used_ports,
    write_state,
)
from ansible_collections.muster.kube.plugins.module_utils._host.files import exclusive, write_file
from ansible_collections.muster.kube.plugins.module_utils._host.processes import (
    Process,
    choose_ports,
    find_marked,
    is_component,
    is_healthy,
    is_running,
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
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

STOP_SECONDS = 10.0
# How long a port of ours may stay in use after its process ended; the kernel needs a moment under load.
PORT_SECONDS = 5.0
# An API server waits for its watchers to leave, and they do not. All it knows is in etcd, so it need not end gently.
API_SERVER_STOP_SECONDS = 2.0
Condition = t.Literal["running", "outdated", "stopped", "absent"]


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A component with everything filled in for one cluster."""

    component: ProcessSpec
    command: list[str]
    environment: dict[str, str]
    files: dict[str, str]
    health_url: str

    @property
    def fingerprint(self) -> str:
        """Changes whenever the process would have to be restarted to be as wanted."""
        text = json.dumps([self.command, self.environment, self.files], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Components:
    """The processes of one cluster."""

    def __init__(
        self, layout: Layout, state: ClusterState, spec: ClusterSpec, files: pathlib.Path, report: Report
    ) -> None:
        """Bind the cluster, the wishes and the catalogue's files."""
        self.layout = layout
        self.state = state
        self.spec = spec
        self.files = files
        self.report = report
        self.node_values: dict[str, str] = {}

    def assign_ports(self, components: collections.abc.Iterable[ProcessSpec]) -> None:
        """Choose the ports that are not chosen yet, and remember them."""
        missing = [
            component
            for component in components
            if set(component.ports) - set(self.state.ports.get(component.name, {}))
        ]
        if not missing:
            return
        own = {port for ports in self.state.ports.values() for port in ports.values()}
        with exclusive(self.layout.cache / "clusters" / ".ports.lock", "the list of ports", 60.0, self.report):
            taken = used_ports(self.layout.cache, self.layout.name) | own
            for component in missing:
                chosen = choose_ports(len(component.ports), taken)
                taken.update(chosen)
                self.state.ports[component.name] = dict(zip(component.ports, chosen, strict=True))
            write_state(self.layout, self.state)

    def placeholders(self, component: ProcessSpec) -> Placeholders:
        """What the placeholders of a component stand for here."""
        layout = self.layout
        return Placeholders(
            component.name,
            {
                "kubeconfig": str(layout.component_kubeconfig(component.name)),
                "certificates": str(layout.certificates),
                "configuration": str(layout.configuration),
                "data": str(layout.data),
                "server": self.state.server(),
                "feature_gates": switches_text(self.spec.feature_gates),
                "runtime_config": switches_text(self.spec.runtime_config),
                **self.node_values,
            },
            self.state.ports,
            lambda name: (layout.certificates / name).read_bytes(),
        )

    def prepare(self, component: ProcessSpec, directory: pathlib.Path) -> Prepared:
        """Fill in everything; the ports must have been assigned."""
        values = self.placeholders(component)
        files = {name: expand(content, values) for name, content in component.files}
        for folder in component.copies:
            for path in sorted((self.files / folder).iterdir()):
                files[f"{folder}/{path.name}"] = path.read_text(encoding="utf-8")
        return Prepared(
            component,
            build_command(component, str(directory), values, self.spec.flags_of(component.name)),
            {name: expand(value, values) for name, value in component.environment},
            files,
            expand(component.health_url, values),
        )

    def process(self, name: str) -> Process | None:
        """The recorded process of a component, if it still runs."""
        record = self.state.processes.get(name)
        if record is None or record.pid is None:
            return None
        process = Process(record.pid, record.born)
        return process if is_running(process) else None

    def condition(self, component: ProcessSpec, directory: pathlib.Path) -> Condition:
        """How a component is compared to how it is wanted."""
        record = self.state.processes.get(component.name)
        if record is None or set(component.ports) - set(self.state.ports.get(component.name, {})):
            return "absent"
        if self.process(component.name) is None:
            return "stopped"
        return "running" if record.fingerprint == self.prepare(component, directory).fingerprint else "outdated"

    def recover(self) -> None:
        """Make the records true after an interrupted run: adopt what was just started, stop what no record knows."""
        known = {(record.pid, record.born) for record in self.state.processes.values()}
        strays: list[Process] = []
        for process, name in find_marked(self.state.uid).items():
            if (process.pid, process.born) in known or not is_component(process):
                continue
            record = self.state.processes.get(name)
            if record is not None and record.pid is None:
                record.pid, record.born = process.pid, process.born
            else:
                strays.append(process)
        stop_in_order(dict.fromkeys(strays, ""))

    def stop(self, names: collections.abc.Iterable[str]) -> None:
        """Stop components; their records are dropped."""
        chosen = list(names)
        found = {name: self.process(name) for name in chosen}
        stop_in_order({process: name for name, process in found.items() if process is not None})
        for name in chosen:
            self.state.processes.pop(name, None)

    def start(self, prepared: Prepared) -> None:
        """Start one component. The state file says so before and after, so that an interruption leaves no unknown."""
        component = prepared.component
        self.stop([component.name])
        for role, port in self.state.ports[component.name].items():
            if not wait_free(port, PORT_SECONDS):
                raise MusterError("start", component.name, f"its {role} port {port} is in use by another process")
        if component.is_client:
            kubeconfig = self.layout.component_kubeconfig(component.name)
            certificate = self.layout.certificates / "clients" / component.name
            ensure_kubeconfig(kubeconfig, self.layout, self.state.server(), certificate)
        for name, content in prepared.files.items():
            write_file(self.layout.configuration / name, content)
        log = self.layout.log(component.name)
        record = ProcessRecord(prepared.fingerprint, str(log))
        self.state.processes[component.name] = record
        write_state(self.layout, self.state)
        process = start_process(prepared.command, prepared.environment, log, self.state.uid, component.name)
        record.pid, record.born = process.pid, process.born
        write_state(self.layout, self.state)

    def wait(self, prepared: Prepared, deadline: float) -> None:
        """Wait until a started component is healthy."""
        name = prepared.component.name
        record = self.state.processes[name]
        process = Process(record.pid or 0, record.born)
        authority = self.layout.certificates / "ca.crt"
        log = pathlib.Path(record.log)
        wait_healthy(name, process, lambda: is_healthy(prepared.health_url, authority), log, deadline, self.report)

    def start_all(self, prepared: collections.abc.Sequence[Prepared], deadline: float) -> None:
        """Start components: servers one after the other, then all clients of the API server together."""
        servers = [item for item in prepared if not item.component.is_client]
        clients = [item for item in prepared if item.component.is_client]
        for item in servers:
            self.report(f"starting {item.component.name}")
            self.start(item)
            self.wait(item, deadline)
        with self.markers(clients):
            if clients:
                self.report(f"starting {', '.join(item.component.name for item in clients)}")
            for item in clients:
                self.start(item)
            for item in clients:
                self.wait(item, deadline)

    @contextlib.contextmanager
    def markers(self, prepared: collections.abc.Iterable[Prepared]) -> t.Iterator[None]:
        """Files outside the cache that programs wait for, there only while they start; one cluster at a time."""
        paths = [pathlib.Path(path) for item in prepared for path in item.component.markers]
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
        """Every recorded component for the result."""
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
    """Stop processes, given with the names of their components: clients first, then the API server, then its store."""
    servers = ("kube-apiserver", "etcd")
    stop_processes([process for process, name in processes.items() if name not in servers], STOP_SECONDS)
    for server, grace in zip(servers, (API_SERVER_STOP_SECONDS, STOP_SECONDS), strict=True):
        stop_processes([process for process, name in processes.items() if name == server], grace)


def deadline_in(seconds: float) -> float:
    """The moment after which waiting ends."""
    return time.monotonic() + seconds
