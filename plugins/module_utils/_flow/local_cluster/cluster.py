# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case: a named local cluster that is there as asked for, or is not there at all."""

from __future__ import annotations

import collections.abc
import pathlib
import shutil
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import read_catalogue
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import (
    CRYPTOGRAPHY_IMPORT_ERROR,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster_processes import (
    Processes,
    stop_in_order,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.nodes import list_nodes, summarize
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.real_node import (
    containerd_socket,
    remove_real_node,
    unmount_below,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.reconcile import ClusterRun, connect_admin
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import (
    ClusterState,
    Layout,
    find_clusters,
    read_state,
)
from ansible_collections.muster.kube.plugins.module_utils._host.distribution_programs import find_host_programs
from ansible_collections.muster.kube.plugins.module_utils._host.files import Report, exclusive
from ansible_collections.muster.kube.plugins.module_utils._host.processes import Process, find_marked
from ansible_collections.muster.kube.plugins.module_utils._host.yaml_text import YAML_IMPORT_ERROR
from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import (
    IMPORT_TRACEBACK as KUBERNETES_IMPORT_ERROR,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    REGISTRY,
    ClusterOptions,
    ClusterSpec,
    check_flags,
    check_programs,
    check_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.nodes import Object
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.plan import (
    Action,
    RemoveCluster,
    describe_actions,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.real_node import (
    check_data_path,
    node_address,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import (
    BadInput,
    MissingLibrary,
    MusterError,
)

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


def run(options: ClusterOptions, report: Report) -> Result:
    """Do what is asked for; the result has the same keys whatever that was."""
    check_libraries()
    if options.provider == "existing":
        return check_existing(options)
    return ensure_absent(options, report) if options.state == "absent" else ensure_present(options, report)


def ensure_present(options: ClusterOptions, report: Report) -> Result:
    """Make the cluster be there as asked for; in check mode only tell what would happen."""
    if options.files is None:
        raise BadInput("read", "option files", "it must name the directory with the catalogue and the Go modules")
    catalogue = read_catalogue(options.files)
    check_spec(options.spec, catalogue.operators)
    check_programs(options.spec, catalogue)
    check_flags(options.spec, catalogue.processes(options.spec))
    layout = Layout(options.cache, options.spec.name)
    if options.spec.real_group is not None:
        check_data_path(layout.data)
    host = find_host_programs(catalogue, options.spec)
    if options.check_mode:
        state = read_state(layout) or ClusterState.new(layout.name)
        cluster = ClusterRun(options, options.files, catalogue, host, state, report)
        cluster.processes.adopt()
        found = cluster.look()
        return _result(cluster, cluster.make_plan(found), found.nodes if found.answers else {})
    with exclusive(layout.lock, f"cluster {layout.name}", options.wait_timeout, report):
        recorded = read_state(layout)
        if recorded is None:
            _delete_directory(layout)
        state = recorded or ClusterState.new(layout.name)
        existed = state.complete
        cluster = ClusterRun(options, options.files, catalogue, host, state, report)
        try:
            actions, nodes = cluster.reconcile()
            return _result(cluster, actions, nodes)
        except MusterError:
            if not existed:
                _remove(layout, state)
            raise


def _result(
    cluster: ClusterRun, actions: collections.abc.Iterable[Action], nodes: collections.abc.Mapping[str, Object]
) -> Result:
    """What a run did or would do, and how the cluster is."""
    programs = {name: item.as_result() for name, item in cluster.programs.items()}
    return {**_describe(cluster.processes, nodes), **_shown(actions), "programs": programs}


def _shown(actions: collections.abc.Iterable[Action]) -> Result:
    """The keys of a result that tell of the actions."""
    lines = describe_actions(actions)
    diff = {"diff": {"prepared": "".join(f"{line}\n" for line in lines)}} if lines else {}
    return {"changed": bool(lines), "actions": lines, **diff}


def ensure_absent(options: ClusterOptions, report: Report) -> Result:
    """Stop what the cluster started and remove its directory."""
    layout = Layout(options.cache, options.spec.name)
    if options.check_mode:
        return {**_nothing(layout), **_shown(_plan_removal(layout))}
    with exclusive(layout.lock, f"cluster {layout.name}", options.wait_timeout, report):
        actions = _plan_removal(layout)
        if actions:
            report(f"stopping and removing cluster {layout.name}")
            _remove(layout, read_state(layout))
    return {**_nothing(layout), **_shown(actions)}


def _plan_removal(layout: Layout) -> list[RemoveCluster]:
    """What is left to do until the cluster is gone."""
    return [RemoveCluster(layout.name)] if layout.directory.exists() else []


def describe_clusters(cache: pathlib.Path, name: str | None) -> list[Result]:
    """All known clusters, or the one asked for; nothing is changed."""
    layouts = [Layout(cache, item) for item in (find_clusters(cache) if name is None else [name])]
    states = ((layout, read_state(layout)) for layout in layouts)
    known = [_recorded_processes(layout, state) for layout, state in states if state is not None]
    return [_describe(processes, _live_nodes(processes)) for processes in known]


def _recorded_processes(layout: Layout, state: ClusterState) -> Processes:
    """The processes of a cluster as they were recorded, whatever is wanted of them."""
    return Processes(layout, state, ClusterSpec(layout.name), pathlib.Path(), lambda _text: None)


def check_existing(options: ClusterOptions) -> Result:
    """A cluster that this module does not run: only see whether it answers."""
    client = connect(options.auth)
    version = client.request("GET", "/version").json()
    nodes = list_objects(client, "/api/v1/nodes", keep=lambda node: node).items
    kubeconfig = options.auth.get("kubeconfig")
    return {
        **_nothing(Layout(options.cache, options.spec.name)),
        **_shown(()),
        "kubeconfig": kubeconfig if isinstance(kubeconfig, str) else None,
        "server": client.host,
        "version": version["gitVersion"],
        "nodes": summarize(nodes),
        "kubectl": shutil.which("kubectl"),
    }


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


def _live_nodes(processes: Processes) -> dict[str, Object]:
    """Our nodes if the API server answers, else none."""
    if processes.process("kube-apiserver") is None:
        return {}
    try:
        return list_nodes(connect_admin(processes.layout, processes.state))
    except KubeError:
        return {}


def _describe(processes: Processes, nodes: collections.abc.Mapping[str, Object]) -> Result:
    """The keys that every result has."""
    layout, state = processes.layout, processes.state
    return {
        "name": layout.name,
        "kubeconfig": str(layout.kubeconfig),
        "server": state.server(),
        "version": state.version,
        "components": processes.describe(),
        "nodes": summarize(nodes.values()),
        "operators": list(state.operators),
        "directory": str(layout.directory),
        "kubectl": state.kubectl,
        "registry": f"127.0.0.1:{state.ports[REGISTRY]['http']}" if state.registry else None,
        "audit_log": str(layout.audit_log) if state.audit_log else None,
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
    processes = _recorded_processes(layout, ClusterState.new(layout.name))
    return {**_describe(processes, {}), "kubeconfig": None, "directory": None}
