# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run on a local cluster: find out how it is, plan, and carry the plan out."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import itertools
import pathlib
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import operators
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import (
    ensure_certificates,
    ensure_kubeconfig,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster_processes import (
    Processes,
    stop_in_order,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.nodes import (
    list_nodes,
    settle_real,
    wait_ready,
    write_nodes,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import (
    ensure_programs,
    find_programs,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.real_node import (
    RealNode,
    remove_real_node,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import (
    ClusterState,
    Layout,
    write_state,
)
from ansible_collections.muster.kube.plugins.module_utils._host.distribution_programs import HostPrograms
from ansible_collections.muster.kube.plugins.module_utils._host.files import Report
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import write_changes
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster import plan
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    CONTAINERD,
    KUBELET,
    PAUSE_PROGRAM,
    REGISTRY,
    Catalogue,
    ClusterOptions,
    ProcessSpec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.nodes import Object, build_nodes
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object

DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
# A client may not survive the restart of its server, and an API server that did not run could not be asked.
LOOKS = 2
# How long a server that runs may take until it can be asked; it may have been started a moment ago.
HEALTH_SECONDS = 10.0


class ClusterRun:
    """One cluster, as it is wanted and as it is."""

    def __init__(
        self,
        options: ClusterOptions,
        files: pathlib.Path,
        catalogue: Catalogue,
        host: HostPrograms,
        state: ClusterState,
        report: Report,
    ) -> None:
        """Find the places of the programs; nothing is changed."""
        self.spec = options.spec
        self.catalogue = catalogue
        self.host = host
        self.state = state
        self.report = report
        self.layout = Layout(options.cache, options.spec.name)
        self.files = files
        _go, programs = find_programs(catalogue, catalogue.program_names(self.spec), files, options.cache)
        self.programs = {item.program.name: item for item in programs}
        self.processes = Processes(self.layout, state, self.spec, files, report)
        self.wanted = {process.name: self._resolve(process) for process in catalogue.processes(self.spec)}
        self.nodes = build_nodes(self.spec.nodes)
        self.real_node: RealNode | None = None
        if self.spec.real_group is not None:
            pause = self.programs[PAUSE_PROGRAM].directory
            self.real_node = RealNode(self.layout, state, self.spec.real_group, host, pause)
            self.processes.node_values = self.real_node.placeholders
        self.deadline = time.monotonic() + options.wait_timeout

    def _resolve(self, process: ProcessSpec) -> ProcessSpec:
        """A process with the name that its program has on this machine, and the name of the real node."""
        if process.name in self.host.processes:
            process = dataclasses.replace(process, binary=self.host.processes[process.name].name)
        if self.spec.real_group is not None:
            node = self.spec.real_group.node_name(0)
            process = dataclasses.replace(process, user=process.user.replace("{node}", node))
        return process

    def make_plan(self, found: plan.FoundCluster) -> list[plan.Action]:
        """What is left to do."""
        return plan.plan_cluster(self.catalogue, self.spec, found)

    def look(self) -> plan.FoundCluster:
        """How the cluster is; nothing is changed."""
        client = self._client() if self._can_be_asked() else None
        remembered = build_nodes(self.state.nodes) if self.state.nodes is not None else self.nodes
        return plan.FoundCluster(
            answers=client is not None,
            unbuilt=tuple(item.program for item in self.programs.values() if not item.directory.is_dir()),
            conditions={
                name: self.processes.condition(process, self._directory(process))
                for name, process in self.wanted.items()
            },
            recorded=tuple(dict.fromkeys([*self.state.processes, *self.state.operators])),
            real_node=self.state.real_node,
            has_bridge=self.real_node is not None and self.real_node.has_bridge(),
            has_service_address=self.real_node is not None and self.real_node.has_service_address(),
            differing=tuple(self._differing(client)),
            nodes=list_nodes(client) if client is not None else remembered if self.state.complete else {},
        )

    def _can_be_asked(self) -> bool:
        """Whether API server and store run and are healthy soon, and the administrator's certificate is there."""
        servers = [process for process in self.catalogue.control_plane if not process.is_client]
        running = all(self.processes.process(process.name) is not None for process in servers)
        if not running or not (self.layout.certificates / "admin.key").is_file():
            return False
        prepared = [self.processes.prepare(process, self._directory(process)) for process in servers]
        deadline = time.monotonic() + HEALTH_SECONDS
        while not all(map(self.processes.is_healthy, prepared)):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def _differing(self, client: KubeClient | None) -> collections.abc.Iterator[str]:
        """Objects of the operators that must be written. Those of a program that is not built yet are not known."""
        built = [operator for operator in self._operators() if self._directory(operator).is_dir()]
        yield from (f"the objects of {operator.name}" for operator in self._operators() if operator not in built)
        if client is not None:
            changes = operators.find_changes(client, *self._objects(built))
            yield from (describe_object(change.obj) for change in changes if change.action != "unchanged")
            return
        crds, objects = self._objects([operator for operator in built if operator.name not in self.state.operators])
        yield from map(describe_object, [*crds, *objects])

    def reconcile(self) -> tuple[list[plan.Action], dict[str, Object]]:
        """Make the cluster as wanted; returns what was done, and the live nodes."""
        before = copy.deepcopy(self.state)
        stop_in_order(dict.fromkeys(self.processes.adopt(), ""))
        actions: list[plan.Action] = []
        for _look in range(LOOKS):
            found = self.look()
            todo = self.make_plan(found)
            self._carry_out(todo)
            actions.extend(todo)
            if found.answers and not todo:
                break
        live = self._wait_ready()
        self._remember()
        if self.state != before:
            write_state(self.layout, self.state)
        return actions, live

    def _wait_ready(self) -> dict[str, Object]:
        """Wait until pods can be created and all nodes take them; returns the live nodes."""
        client = self._client()
        while get_object(client, DEFAULT_ACCOUNT) is None:
            if time.monotonic() > self.deadline:
                cause = "the controllers did not make it in time"
                raise MusterError("wait for", "service account default/default", cause)
            time.sleep(0.05)
        return wait_ready(client, self.nodes, self.deadline, self.report)

    def _remember(self) -> None:
        """Note in the state what the cluster is now."""
        kubernetes = self.programs["kubernetes"]
        self.state.complete = True
        self.state.operators = list(self.spec.operators)
        self.state.registry = REGISTRY in self.wanted
        self.state.audit_log = self.spec.audit_log
        self.state.services = self.spec.services
        self.state.nodes = list(self.spec.nodes)
        self.state.version = kubernetes.program.version
        self.state.kubectl = str(kubernetes.directory / "kubectl")

    def _carry_out(self, actions: collections.abc.Sequence[plan.Action]) -> None:
        """Do what was planned. What is made in between changes nothing that runs and is not shown."""
        first = [
            action for action in actions if isinstance(action, (plan.Build, plan.StopProcess, plan.RemoveRealNode))
        ]
        self._carry_out_each(first)
        self._prepare()
        self._carry_out_each(actions[len(first) :])
        if any(isinstance(action, plan.StartProcess) and action.name == KUBELET for action in actions):
            settle_real(self._client(), self.nodes[self.state.real_node], self.deadline)

    def _carry_out_each(self, actions: collections.abc.Iterable[plan.Action]) -> None:
        """Carry actions out in their order; neighbors of one sort are done together."""
        for _sort, group in itertools.groupby(actions, key=self._together):
            batch = list(group)
            match batch[0]:
                case plan.Build():
                    self._build()
                case plan.StopProcess(name) | plan.DropOperator(name):
                    self._stop(name)
                case plan.RemoveRealNode():
                    remove_real_node(self.layout, self.state)
                case plan.StartProcess():
                    self._start([action for action in batch if isinstance(action, plan.StartProcess)])
                case plan.WriteObjects():
                    changes = operators.find_changes(self._client(), *self._objects(self._operators()))
                    write_changes(self._client(), changes, self.deadline)
                case plan.CreateBridge():
                    t.cast("RealNode", self.real_node).create_bridge()
                case plan.SetServiceAddress(present):
                    t.cast("RealNode", self.real_node).set_service_address(present)
                case plan.WriteNodes() as nodes:
                    write_nodes(self._client(), nodes, self.nodes, self.report)

    def _together(self, action: plan.Action) -> object:
        """Actions of equal keys are one step: builds, servers, and their clients, but for those of the real node."""
        if isinstance(action, plan.Build):
            return plan.Build
        if isinstance(action, plan.StartProcess) and action.name not in (CONTAINERD, KUBELET):
            return self.wanted[action.name].is_client
        return action

    def _build(self) -> None:
        """Build the programs that the cache does not hold yet; the time it takes is not that of waiting."""
        begin = time.monotonic()
        self.programs = ensure_programs(
            self.catalogue, self.catalogue.program_names(self.spec), self.files, self.layout.cache, self.report
        )
        self.deadline += time.monotonic() - begin

    def _prepare(self) -> None:
        """Choose what must be chosen once, and make the files that processes read."""
        if not self.layout.state.exists():
            self.layout.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_state(self.layout, self.state)
        self.processes.assign_ports(self.wanted.values())
        if self.real_node is not None:
            self.real_node.assign_subnet(self.report)
        ensure_certificates(self.layout, self.wanted.values())
        ensure_kubeconfig(self.layout.kubeconfig, self.layout, self.state.server(), self.layout.certificates / "admin")
        if self.real_node is not None:
            # From now on a removal has something to take away, even if this run is killed.
            name = self.real_node.group.node_name(0)
            if self.state.real_node != name:
                self.state.real_node = name
                write_state(self.layout, self.state)
            self.real_node.prepare()

    def _stop(self, name: str) -> None:
        """Stop a process that is not wanted; webhooks without their operator would refuse everything."""
        self.processes.stop(name)
        if name in self.catalogue.operators:
            operators.delete_webhooks(self._client(), self.catalogue.operators[name])
        self.state.operators = [other for other in self.state.operators if other != name]

    def _start(self, actions: collections.abc.Iterable[plan.StartProcess]) -> None:
        """Start processes; the kubelet needs the image of which every pod's first container is made."""
        prepared = []
        for action in actions:
            process = self.wanted[action.name]
            if action.name == KUBELET:
                t.cast("RealNode", self.real_node).ensure_sandbox_image(self.deadline)
            if process.clears and action.reason != "absent":
                self.processes.stop(action.name)
                for path in process.clears:
                    seconds = max(self.deadline - time.monotonic(), 1.0)
                    self._client().request("DELETE", path, timeout=seconds)
            prepared.append(self.processes.prepare(process, self._directory(process)))
        self.processes.start_all(prepared, self.deadline)

    def _objects(self, wanted: list[ProcessSpec]) -> tuple[list[Object], list[Object]]:
        """The CustomResourceDefinitions and the objects that operators need."""
        return operators.wanted_crds(wanted, self._directory, self.processes.placeholders), [
            obj
            for operator in wanted
            for obj in operators.wanted_objects(
                operator, self._directory(operator), self.processes.placeholders(operator)
            )
        ]

    def _operators(self) -> list[ProcessSpec]:
        return [self.wanted[name] for name in self.spec.operators]

    def _directory(self, process: ProcessSpec) -> pathlib.Path:
        """Where the program of a process lies."""
        if process.package:
            return self.host.processes[process.name].parent
        return self.programs[process.program].directory

    def _client(self) -> KubeClient:
        return connect_admin(self.layout, self.state)


def connect_admin(layout: Layout, state: ClusterState) -> KubeClient:
    """A client of the API server, with the certificate that is also in the administrator's kubeconfig."""
    files = {"ca_cert": "ca.crt", "client_cert": "admin.crt", "client_key": "admin.key"}
    paths = {option: str(layout.certificates / name) for option, name in files.items()}
    return connect({"host": state.server(), **paths}, environ={})
