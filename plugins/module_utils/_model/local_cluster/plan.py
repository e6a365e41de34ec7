# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a local cluster: the actions that lead from what was found to what is wanted.

A run carries the list out, check mode shows it. Nothing else decides what is done to a cluster.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    CONTAINERD,
    KUBELET,
    SERVICE_FORWARDER,
    Catalogue,
    ClusterSpec,
    Program,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.nodes import (
    Object,
    build_nodes,
    find_change,
)

Condition = t.Literal["running", "outdated", "stopped", "absent"]
# A kubelet whose node was deleted is lost: it registers the node only when it starts. A forwarder listens on the bridge
# that was there when it started.
StartReason = t.Literal[Condition, "lost", "unbridged"]
START_SENTENCES: dict[StartReason, str] = {
    "absent": "start {}",
    "outdated": "restart {} with changed settings",
    "stopped": "restart {}, which had ended",
    "lost": "restart {}, whose node was deleted",
    "unbridged": "restart {}, whose network bridge is gone",
}


@dataclasses.dataclass(frozen=True, slots=True)
class FoundCluster:
    """What a run finds out before it does anything."""

    # Whether the API server could be asked; if not, nodes and objects are those that were written last.
    answers: bool = False
    # Programs that must be built first.
    unbuilt: tuple[Program, ...] = ()
    # How each wanted process is.
    conditions: collections.abc.Mapping[str, Condition] = dataclasses.field(default_factory=dict)
    # Names of the processes and operators that an earlier run recorded.
    recorded: tuple[str, ...] = ()
    # The name of the real node that an earlier run prepared; empty when there is none.
    real_node: str = ""
    has_bridge: bool = False
    # Whether the bridge has the address at which pods look for the API server.
    has_service_address: bool = False
    # CustomResourceDefinitions and objects of the wanted operators that are missing or differ.
    differing: tuple[str, ...] = ()
    nodes: collections.abc.Mapping[str, Object] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Build:
    """Build a program from its Go module."""

    program: Program


@dataclasses.dataclass(frozen=True, slots=True)
class StopProcess:
    """Stop a process that is no longer wanted."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class DropOperator:
    """Stop an operator that is no longer wanted and delete its webhooks."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveRealNode:
    """Remove the real node from this machine."""


@dataclasses.dataclass(frozen=True, slots=True)
class StartProcess:
    """Start a process, or stop and start it."""

    name: str
    reason: StartReason


@dataclasses.dataclass(frozen=True, slots=True)
class WriteObjects:
    """Write the objects of the operators that are missing or differ."""

    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CreateBridge:
    """Create the network bridge of the real node."""


@dataclasses.dataclass(frozen=True, slots=True)
class SetServiceAddress:
    """Let the network bridge have the address at which pods look for the API server, or not have it any more."""

    present: bool


@dataclasses.dataclass(frozen=True, slots=True)
class WriteNodes:
    """Create, change and delete nodes, given by their names."""

    create: tuple[str, ...] = ()
    change: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveCluster:
    """Stop everything and remove the directory of the cluster."""

    name: str


# As text: pylint takes a union of dataclasses with slots for an operation that they do not support.
Action: t.TypeAlias = (
    "Build | StopProcess | DropOperator | RemoveRealNode | StartProcess | WriteObjects | CreateBridge"
    " | SetServiceAddress | WriteNodes | RemoveCluster"
)


def describe_actions(actions: collections.abc.Iterable[Action]) -> list[str]:
    """The actions as users see them; some are several lines."""
    return [line for action in actions for line in _lines(action)]


def _lines(action: Action) -> list[str]:
    """The lines of one action."""
    match action:
        case Build(program):
            return [f"build {program.name} {program.version}"]
        case StopProcess(name) | DropOperator(name):
            return [f"stop {name}"]
        case RemoveRealNode():
            return [f"stop {KUBELET}", f"stop {CONTAINERD}"]
        case StartProcess(name, reason):
            return [START_SENTENCES[reason].format(name)]
        case WriteObjects(names):
            return [f"write {name}" for name in names]
        case CreateBridge():
            return ["create the network bridge of the pods"]
        case SetServiceAddress(present):
            return [f"{'put' if present else 'take'} the address of services {'on' if present else 'from'} the bridge"]
        case WriteNodes(created, changed, deleted):
            verbs = {"create": created, "change": changed, "delete": deleted}
            return [f"{verb} {_node_names(names)}" for verb, names in verbs.items() if names]
        case RemoveCluster(name):
            return [f"remove cluster {name}"]


def _node_names(names: tuple[str, ...]) -> str:
    """Node names for a message; long lists are cut."""
    if len(names) == 1:
        return f"node {names[0]}"
    return f"{len(names)} nodes ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"


def plan_cluster(catalogue: Catalogue, spec: ClusterSpec, found: FoundCluster) -> list[Action]:
    """What is left to do until the cluster is as wanted, in the order in which it must be done."""
    nodes = plan_nodes(build_nodes(spec.nodes), found.nodes)
    wanted = [process.name for process in catalogue.processes(spec)]
    control_plane = {process.name for process in catalogue.control_plane}
    node_processes = {process.name for process in catalogue.real_node}
    on_bridge = {SERVICE_FORWARDER, *node_processes}
    real = spec.real_group.node_name(0) if spec.real_group is not None else ""
    # A real node of another name is another node, with another bridge.
    replaced = found.real_node not in ("", real)
    bridged = found.has_bridge and not replaced
    # The processes of a node that is replaced end with it; the forwarder is stopped like any other.
    kept = (set(wanted) - {SERVICE_FORWARDER}) | node_processes if replaced else set(wanted)
    unwanted = [name for name in found.recorded if name not in kept]

    def reason(name: str) -> StartReason:
        """How a process is found when its turn comes."""
        condition = "absent" if replaced and name in on_bridge else found.conditions[name]
        if condition != "running":
            return condition
        if name == SERVICE_FORWARDER and not bridged:
            return "unbridged"
        return "lost" if name == KUBELET and real in nodes.create else "running"

    starts = [StartProcess(name, reason(name)) for name in wanted if reason(name) != "running"]
    return [
        *map(Build, found.unbuilt),
        *(StopProcess(name) for name in unwanted if name not in catalogue.operators),
        *([RemoveRealNode()] if replaced else ()),
        *(start for start in starts if start.name in control_plane),
        *(DropOperator(name) for name in unwanted if name in catalogue.operators),
        *([WriteObjects(found.differing)] if found.differing else ()),
        *(start for start in starts if start.name not in control_plane | on_bridge),
        *(plan_bridge(spec, bridged, found.has_service_address) if real else ()),
        *(start for start in starts if start.name in on_bridge),
        *([nodes] if nodes != WriteNodes() else ()),
    ]


def plan_bridge(
    spec: ClusterSpec, has_bridge: bool, has_service_address: bool
) -> collections.abc.Iterator[CreateBridge | SetServiceAddress]:
    """What the network bridge of a real node lacks; a new one has its own address only."""
    if not has_bridge:
        yield CreateBridge()
    if spec.services != (has_bridge and has_service_address):
        yield SetServiceAddress(spec.services)


def plan_nodes(wanted: collections.abc.Mapping[str, Object], live: collections.abc.Mapping[str, Object]) -> WriteNodes:
    """Compare wanted and live nodes."""
    return WriteNodes(
        tuple(name for name in wanted if name not in live),
        tuple(name for name, node in wanted.items() if name in live and find_change(node, live[name]) is not None),
        tuple(sorted(set(live) - set(wanted))),
    )
