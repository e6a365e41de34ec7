# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case: a named local cluster that is there as asked for, or is not there at all."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import pathlib
import shutil
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import read_catalogue
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import (
    CRYPTOGRAPHY_IMPORT_ERROR,
    ensure_certificates,
    ensure_kubeconfig,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.control_plane import (
    Components,
    Prepared,
    deadline_in,
    stop_in_order,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.nodes import (
    NodePlan,
    apply_plan,
    list_nodes,
    plan_nodes,
    settle_real,
    summarize,
    wait_ready,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.operators import (
    delete_webhooks,
    ensure_crds,
    ensure_objects,
    find_differing,
    live_crds,
    outdated_crds,
    wanted_crds,
    wanted_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import (
    BuiltProgram,
    ensure_programs,
    find_programs,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.real_node import (
    CONTAINERD,
    KUBELET,
    RealNode,
    containerd_socket,
    remove_real_node,
    unmount_below,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import (
    ClusterState,
    Layout,
    Report,
    find_clusters,
    read_state,
    write_state,
)
from ansible_collections.muster.kube.plugins.module_utils._host.distribution_programs import (
    HostPrograms,
    find_host_programs,
)
from ansible_collections.muster.kube.plugins.module_utils._host.files import exclusive
from ansible_collections.muster.kube.plugins.module_utils._host.processes import (
    Process,
    find_marked,
)
from ansible_collections.muster.kube.plugins.module_utils._host.yaml_text import YAML_IMPORT_ERROR
from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import (
    IMPORT_TRACEBACK as KUBERNETES_IMPORT_ERROR,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    PAUSE_PROGRAM,
    Catalogue,
    ClusterSpec,
    ProcessSpec,
    build_nodes,
    check_flags,
    check_spec,
    is_real,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import ClusterOptions as Request
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.real_node import (
    check_data_path,
    node_address,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import (
    BadInput,
    MissingLibrary,
    MusterError,
)

DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
REGISTRY = "registry"
BRIDGE_ACTION = "create the network bridge of the pods"
Result = dict[str, t.Any]


def check_libraries() -> None:
    """Raise MissingLibrary for the first Python package that is needed and not there."""
    for name, error in (
        ("kubernetes", KUBERNETES_IMPORT_ERROR),
        ("PyYAML", YAML_IMPORT_ERROR),
        ("cryptography", CRYPTOGRAPHY_IMPORT_ERROR),
    ):
        if error is not None:
            raise MissingLibrary(name, error)


def run(request: Request, report: Report) -> Result:
    """Do what is asked for; the result has the same keys whatever that was."""
    check_libraries()
    if request.provider == "existing":
        result = check_existing(request.spec.name, request.auth)
    elif request.state == "absent":
        result = ensure_absent(request, report)
    else:
        result = ensure_present(request, report)
    if result["actions"]:
        result["diff"] = {"prepared": "".join(f"{action}\n" for action in result["actions"])}
    return result


def ensure_present(request: Request, report: Report) -> Result:
    """Make the cluster be there as asked for; in check mode only tell what would happen."""
    if request.files is None:
        raise BadInput("read", "option files", "it must name the directory with the catalogue and the Go modules")
    catalogue = read_catalogue(request.files)
    check_spec(request.spec, catalogue.operators)
    check_flags(request.spec, catalogue.components(request.spec))
    layout = Layout(request.cache, request.spec.name)
    if request.spec.real_group is not None:
        check_data_path(layout.data)
    host = find_host_programs(catalogue, request.spec)
    if request.check_mode:
        return _Prediction(request, request.files, catalogue, host, report).run()
    with exclusive(layout.lock, f"cluster {request.spec.name}", request.wait_timeout, report):
        names = catalogue.program_names(request.spec)
        programs = ensure_programs(catalogue, names, request.files, request.cache, report)
        state = read_state(layout)
        if state is None:
            _delete_directory(layout)
        change = _Change(
            request, request.files, catalogue, host, programs, state or ClusterState.new(request.spec.name), report
        )
        try:
            return change.run()
        except MusterError:
            if not change.existed:
                _remove(layout, change.state)
            raise


def ensure_absent(request: Request, report: Report) -> Result:
    """Stop what the cluster started and remove its directory."""
    layout = Layout(request.cache, request.spec.name)
    if request.check_mode:
        return {**_nothing(layout), "changed": layout.directory.exists(), "actions": _removal(layout)}
    with exclusive(layout.lock, f"cluster {request.spec.name}", request.wait_timeout, report):
        actions = _removal(layout)
        if actions:
            report(f"stopping and removing cluster {request.spec.name}")
            _remove(layout, read_state(layout))
    return {**_nothing(layout), "changed": bool(actions), "actions": actions}


def describe_clusters(cache: pathlib.Path, name: str | None) -> list[Result]:
    """All known clusters, or the one asked for; nothing is changed."""
    names = find_clusters(cache) if name is None else [name]
    found = []
    for item in names:
        layout = Layout(cache, item)
        state = read_state(layout)
        if state is not None:
            components = Components(layout, state, ClusterSpec(item), pathlib.Path(), lambda _text: None)
            found.append(_describe(layout, state, components, _live_nodes(layout, components)))
    return found


def check_existing(name: str, auth: collections.abc.Mapping[str, t.Any]) -> Result:
    """A cluster that somebody else runs: only look whether it answers; the result has the same keys."""
    client = connect(auth)
    version = client.request("GET", "/version").json()
    nodes = list_objects(client, "/api/v1/nodes", keep=lambda node: node).items
    kubeconfig = auth.get("kubeconfig")
    return {
        "changed": False,
        "actions": [],
        "name": name,
        "kubeconfig": kubeconfig if isinstance(kubeconfig, str) else None,
        "server": client.host,
        "version": version["gitVersion"],
        "components": {},
        "nodes": summarize(nodes),
        "operators": [],
        "directory": None,
        "kubectl": shutil.which("kubectl"),
        "registry": None,
        "real_node": None,
        "programs": {},
    }


class _Change:
    """One run that makes a cluster as wanted."""

    def __init__(
        self,
        request: Request,
        files: pathlib.Path,
        catalogue: Catalogue,
        host: HostPrograms,
        programs: dict[str, BuiltProgram],
        state: ClusterState,
        report: Report,
    ) -> None:
        """Nothing is touched yet."""
        self.request = request
        self.catalogue = catalogue
        self.host = host
        self.programs = programs
        self.state = state
        self.existed = state.complete
        self.report = report
        self.layout = Layout(request.cache, request.spec.name)
        self.actions = [f"build {item.program.name} {item.program.version}" for item in programs.values() if item.built]
        self.components = Components(self.layout, state, request.spec, files, report)
        self.wanted = _resolve(catalogue, request.spec, host)
        self.node = _real_node(self.layout, state, request.spec, host, self._program_directory)
        self.deadline = deadline_in(request.wait_timeout)

    def run(self) -> Result:
        """Converge and describe the outcome."""
        spec = self.request.spec
        before = copy.deepcopy(self.state)
        if not self.existed:
            self.layout.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_state(self.layout, self.state)
        self.components.recover()
        self._drop_on_demand()
        self.components.assign_ports(self.wanted)
        if self.node is not None:
            self.node.assign_subnet(self.report)
            self.components.node_values = self.node.placeholders()
        ensure_certificates(self.layout, self.wanted)
        ensure_kubeconfig(self.layout.kubeconfig, self.layout, self.state.server(), self.layout.certificates / "admin")
        self._start(self.catalogue.control_plane)
        client = connect({"kubeconfig": str(self.layout.kubeconfig)}, environ={})
        if not self.existed:
            self._wait_for_account(client)
        self._drop_operators(client)
        self._ensure_operators(client)
        self._start_on_demand(REGISTRY)
        live = self._ensure_nodes(client)
        self.state.complete = True
        self.state.operators = list(spec.operators)
        kubernetes = self.programs["kubernetes"]
        self.state.version = kubernetes.program.version
        self.state.kubectl = str(kubernetes.directory / "kubectl")
        if self.state != before:
            write_state(self.layout, self.state)
        result = _describe(self.layout, self.state, self.components, live)
        programs = {name: item.as_result() for name, item in self.programs.items()}
        return {**result, "changed": bool(self.actions), "actions": self.actions, "programs": programs}

    def _directory(self, component: ProcessSpec) -> pathlib.Path:
        """Where the program of a component lies."""
        if component.package:
            return self.host.components[component.name].parent
        return self._program_directory(component.program)

    def _program_directory(self, name: str) -> pathlib.Path:
        """Where a built program lies."""
        return self.programs[name].directory

    def _start(self, components: collections.abc.Iterable[ProcessSpec], lost: bool = False) -> None:
        """Start those that do not run as wanted; a second look finds clients that could not bear a restarted server.

        With `lost`, what runs is started anew: the kubelet registers its node only then.
        """
        wanted = list(components)
        for look in range(2):
            todo: list[Prepared] = []
            for component in wanted:
                condition: str = self.components.condition(component, self._directory(component))
                if condition == "running" and lost and look == 0:
                    condition = "lost"
                if condition != "running":
                    todo.append(self.components.prepare(component, self._directory(component)))
                    self.actions.append(_start_action(component.name, condition))
            if not todo:
                return
            self.components.start_all(todo, self.deadline)

    def _wait_for_account(self, client: KubeClient) -> None:
        """Wait for the first account, without which no pod can be created."""
        while get_object(client, DEFAULT_ACCOUNT) is None:
            if time.monotonic() > self.deadline:
                raise MusterError(
                    "wait for", "service account default/default", "the controllers did not make it in time"
                )
            time.sleep(0.05)

    def _drop_on_demand(self) -> None:
        """Stop the registry and take the real node away where they are no longer wanted."""
        dropped = _dropped(self.state, self.request.spec)
        if KUBELET in dropped:
            remove_real_node(self.layout, self.state)
        if REGISTRY in dropped:
            self.components.stop([REGISTRY])
            self.state.registry = False
        self.actions.extend(f"stop {name}" for name in dropped)

    def _start_on_demand(self, name: str, lost: bool = False) -> None:
        """Start one of the components that not every cluster has, if this one has it."""
        chosen = [component for component in self.wanted if component.name == name]
        if chosen and name == REGISTRY:
            self.state.registry = True
        self._start(chosen, lost)

    def _start_real_node(self, plan: NodePlan) -> None:
        """Prepare the machine, then containerd, the image that every pod needs, and the kubelet."""
        if self.node is None:
            return
        name = self.node.group.node_name(0)
        if self.state.real_node != name:
            # From now on a removal has something to take away, even if this run is killed.
            self.state.real_node = name
            write_state(self.layout, self.state)
        if self.node.prepare():
            self.actions.append(BRIDGE_ACTION)
        self._start_on_demand(CONTAINERD)
        self.node.ensure_sandbox_image(self.deadline)
        self._start_on_demand(KUBELET, lost=any(map(is_real, plan.create)))

    def _drop_operators(self, client: KubeClient) -> None:
        """Stop operators that are no longer wanted."""
        for name in [name for name in self.state.operators if name not in self.request.spec.operators]:
            self.components.stop([name])
            operator = self.catalogue.operators.get(name)
            if operator is not None:
                delete_webhooks(client, operator)
            self.actions.append(f"stop {name}")

    def _ensure_operators(self, client: KubeClient) -> None:
        """CRDs first, then objects, then the processes."""
        operators = [self.catalogue.operators[name] for name in self.request.spec.operators]
        directories = {name: item.directory for name, item in self.programs.items()}
        if operators:
            written = ensure_crds(client, wanted_crds(operators, directories), self.deadline)
            self.actions.extend(f"write CustomResourceDefinition {name}" for name in written)
        for operator in operators:
            values = self.components.placeholders(operator)
            objects = wanted_objects(operator, self._directory(operator), self.layout, values)
            self.actions.extend(f"write {name}" for name in ensure_objects(client, objects))
        self._start(operators)

    def _ensure_nodes(self, client: KubeClient) -> dict[str, Result]:
        """Reconcile the nodes and wait until all take pods; of the real one is told how it was before its start."""
        wanted = build_nodes(self.request.spec.nodes)
        plan = plan_nodes(wanted, list_nodes(client))
        self._start_real_node(plan)
        self.actions.extend(plan.actions())
        apply_plan(client, plan, wanted, self.report)
        if self.node is not None:
            settle_real(client, wanted[self.node.group.node_name(0)], self.deadline)
        return wait_ready(client, wanted, self.deadline, self.report)


class _Prediction:
    """What a run would do, found out by reading only."""

    def __init__(
        self, request: Request, files: pathlib.Path, catalogue: Catalogue, host: HostPrograms, report: Report
    ) -> None:
        """Nothing is read yet."""
        self.request = request
        self.files = files
        self.catalogue = catalogue
        self.host = host
        self.layout = Layout(request.cache, request.spec.name)
        state = read_state(self.layout)
        self.state = state or ClusterState.new(request.spec.name)
        self.components = Components(self.layout, self.state, request.spec, files, report)

    def run(self) -> Result:
        """The same keys as a real run."""
        spec = self.request.spec
        names = self.catalogue.program_names(spec)
        _go, programs = find_programs(self.catalogue, names, self.files, self.request.cache)
        directories = {item.program.name: item.directory for item in programs}
        actions = [
            f"build {item.program.name} {item.program.version}" for item in programs if not item.directory.is_dir()
        ]
        actions.extend(f"stop {name}" for name in _dropped(self.state, spec))
        node = _real_node(self.layout, self.state, spec, self.host, directories.__getitem__)
        if node is not None:
            self.components.node_values = node.placeholders()
        nodes, plan, more = self._api_actions(directories)
        for component in _resolve(self.catalogue, spec, self.host):
            if component.name == CONTAINERD and node is not None and not node.has_bridge():
                actions.append(BRIDGE_ACTION)
            condition = self._condition(component, directories, plan)
            if condition != "running":
                actions.append(_start_action(component.name, condition))
        unwanted = set(self.state.operators) - set(spec.operators)
        actions.extend(f"stop {name}" for name in sorted(unwanted))
        result = _describe(self.layout, self.state, self.components, nodes)
        shown = {item.program.name: item.as_result() for item in programs}
        return {**result, "changed": bool(actions + more), "actions": actions + more, "programs": shown}

    def _condition(self, component: ProcessSpec, directories: dict[str, pathlib.Path], plan: NodePlan) -> str:
        """How a component would be found by a real run."""
        if component.name in _dropped(self.state, self.request.spec):
            return "absent"
        host = self.host.components.get(component.name)
        directory = directories[component.program] if host is None else host.parent
        condition: str = self.components.condition(component, directory)
        lost = component.name == KUBELET and any(map(is_real, plan.create))
        return "lost" if lost and condition == "running" else condition

    def _api_actions(self, directories: dict[str, pathlib.Path]) -> tuple[dict[str, Result], NodePlan, list[str]]:
        """What would be written to the API server. One that does not run would get all nodes anew, or keeps its own."""
        wanted = build_nodes(self.request.spec.nodes)
        if self.components.process("kube-apiserver") is None or self.components.process("etcd") is None:
            plan = plan_nodes(wanted, {})
            return {}, plan, plan.actions() if not self.state.complete else []
        client = connect({"kubeconfig": str(self.layout.kubeconfig)}, environ={})
        actions: list[str] = []
        running = [
            operator
            for operator in (self.catalogue.operators[name] for name in self.request.spec.operators)
            if operator.name in self.state.ports and directories[operator.program].is_dir()
        ]
        if running:
            outdated = outdated_crds(wanted_crds(running, directories), live_crds(client))
            actions.extend(f"write CustomResourceDefinition {name}" for name in outdated)
        for operator in running:
            values = self.components.placeholders(operator)
            objects = wanted_objects(operator, directories[operator.program], self.layout, values)
            actions.extend(f"write {obj['kind']} {obj['metadata']['name']}" for obj in find_differing(client, objects))
        live = list_nodes(client)
        plan = plan_nodes(wanted, live)
        return live, plan, actions + plan.actions()


def _resolve(catalogue: Catalogue, spec: ClusterSpec, host: HostPrograms) -> tuple[ProcessSpec, ...]:
    """The components of a cluster, with the names that programs have on this machine and the name of the real node."""
    resolved = []
    for component in catalogue.components(spec):
        if component.name in host.components:
            component = dataclasses.replace(component, binary=host.components[component.name].name)
        if spec.real_group is not None:
            component = dataclasses.replace(
                component, user=component.user.replace("{node}", spec.real_group.node_name(0))
            )
        resolved.append(component)
    return tuple(resolved)


def _real_node(
    layout: Layout,
    state: ClusterState,
    spec: ClusterSpec,
    host: HostPrograms,
    directory: collections.abc.Callable[[str], pathlib.Path],
) -> RealNode | None:
    """The real node, if one is wanted."""
    group = spec.real_group
    return None if group is None else RealNode(layout, state, group, host, directory(PAUSE_PROGRAM))


def _dropped(state: ClusterState, spec: ClusterSpec) -> list[str]:
    """Components on demand that run and are not wanted; a real node of another name is another node."""
    group = spec.real_group
    names = [REGISTRY] if state.registry and not spec.registry else []
    if state.real_node and (group is None or group.node_name(0) != state.real_node):
        names += [KUBELET, CONTAINERD]
    return names


def _start_action(name: str, condition: str) -> str:
    """What starting a component means, by how it was found."""
    return {
        "outdated": f"restart {name} with changed settings",
        "stopped": f"restart {name}, which had ended",
        "lost": f"restart {name}, whose node was deleted",
    }.get(condition, f"start {name}")


def _removal(layout: Layout) -> list[str]:
    """What removing the cluster means; nothing when it is not there."""
    return [f"remove cluster {layout.name}"] if layout.directory.exists() else []


def _remove(layout: Layout, state: ClusterState | None) -> None:
    """Stop every process of the cluster, and only those, and remove its directory."""
    if state is not None:
        if state.real_node:
            remove_real_node(layout, state)
        recorded = {
            Process(record.pid, record.born): name for name, record in state.processes.items() if record.pid is not None
        }
        stop_in_order({**find_marked(state.uid), **recorded})
    _delete_directory(layout)
    if layout.directory.exists():
        raise MusterError("remove", str(layout.directory), "some files could not be deleted")


def _delete_directory(layout: Layout) -> None:
    """Delete everything of a cluster, and nothing that is mounted there."""
    unmount_below(layout.directory)
    shutil.rmtree(layout.directory, ignore_errors=True)


def _live_nodes(layout: Layout, components: Components) -> dict[str, Result]:
    """Our nodes if the API server answers, else none."""
    if components.process("kube-apiserver") is None:
        return {}
    try:
        return list_nodes(connect({"kubeconfig": str(layout.kubeconfig)}, environ={}))
    except KubeError:
        return {}


def _describe(layout: Layout, state: ClusterState, components: Components, nodes: dict[str, Result]) -> Result:
    """The keys that every result has."""
    return {
        "name": layout.name,
        "kubeconfig": str(layout.kubeconfig),
        "server": state.server(),
        "version": state.version,
        "components": components.describe(),
        "nodes": summarize(nodes.values()),
        "operators": list(state.operators),
        "directory": str(layout.directory),
        "kubectl": state.kubectl,
        "registry": f"127.0.0.1:{state.ports[REGISTRY]['http']}" if state.registry else None,
        "real_node": _describe_real_node(layout, state),
        "programs": {},
    }


def _describe_real_node(layout: Layout, state: ClusterState) -> Result | None:
    """Where the parts of the real node are found."""
    if not state.real_node:
        return None
    return {
        "name": state.real_node,
        "address": node_address(state.subnet),
        "containerd": str(containerd_socket(layout)),
        "logs": str(layout.data / "pod-logs"),
    }


def _nothing(layout: Layout) -> Result:
    """The keys of a cluster that is not there."""
    state = ClusterState.new(layout.name)
    components = Components(layout, state, ClusterSpec(layout.name), pathlib.Path(), lambda _text: None)
    return {**_describe(layout, state, components, {}), "kubeconfig": None, "directory": None}
