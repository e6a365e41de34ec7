# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of a local cluster: what is wanted, what can be run, and the pure rules that turn one into the other."""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import json
import pathlib
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import stored_quantity

FAKE_NODE_ANNOTATION = "kwok.x-k8s.io/node"
NODE_GROUP_LABEL = "muster.kube/node-group"
REAL_NODE_LABEL = "muster.kube/real"
MANAGED_ANNOTATION = "muster.kube/managed"
PAUSE_PROGRAM = "pause"
FLAG_NAME = re.compile(r"^[a-z0-9][-a-z0-9]*$")
DNS_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$")
PLACEHOLDER = re.compile(
    r"\{(kubeconfig|certificates|configuration|data|server|feature_gates|runtime_config|port:[^{}]+|base64:[^{}]+"
    r"|node|node_group|node_ip|pods|network|subnet|runc|cni_plugins|sandbox_image)\}"
)


@dataclasses.dataclass(frozen=True, slots=True)
class NodeGroup:
    """A number of equal simulated nodes, or this machine as one real node."""

    name: str
    count: int
    cpu: str
    memory: str
    pods: int
    extended: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    real: bool = False

    def capacity(self) -> dict[str, str]:
        """Every resource we give one node of the group; a real one finds its own cpu and memory."""
        if self.real:
            return dict(self.extended)
        return {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), **dict(self.extended)}

    def node_name(self, index: int) -> str:
        """The name of one node of the group."""
        return f"{self.name}-{index}"


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What the user asked for."""

    name: str
    nodes: tuple[NodeGroup, ...] = ()
    operators: tuple[str, ...] = ()
    feature_gates: tuple[tuple[str, bool], ...] = ()
    runtime_config: tuple[tuple[str, bool], ...] = ()
    registry: bool = False
    component_flags: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    @property
    def real_group(self) -> NodeGroup | None:
        """The group that is this machine itself, if there is one."""
        return next((group for group in self.nodes if group.real), None)

    def flags_of(self, component: str) -> dict[str, str]:
        """The command line flags the user set for a component, without their dashes."""
        return dict(dict(self.component_flags).get(component, ()))


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What to do with which cluster, where its files are, and for how long to wait."""

    spec: ClusterSpec
    cache: pathlib.Path
    files: pathlib.Path | None = None
    wait_timeout: float = 300.0
    check_mode: bool = False
    state: t.Literal["present", "absent"] = "present"
    provider: t.Literal["binaries", "existing"] = "binaries"
    auth: collections.abc.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterInfoOptions:
    """Which clusters of a cache are asked about; all of them without a name."""

    cache: pathlib.Path
    name: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """One Go module of ours and the binaries built from it."""

    name: str
    module: str
    version: str
    binaries: tuple[tuple[str, str], ...]
    source: str = ""

    @property
    def source_name(self) -> str:
        """The directory of its Go module; two programs may be built from one."""
        return self.source or self.name


@dataclasses.dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook configuration of an upstream manifest, reached by url."""

    manifest: str
    kind: str
    name: str
    port: str
    object_selectors: tuple[tuple[str, t.Any], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ServingCertificate:
    """The own authority of an operator and the names its serving certificate is for."""

    authority: str
    names: tuple[str, ...]
    directory: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process of the cluster, as the catalogue describes it."""

    name: str
    program: str
    binary: str
    ports: tuple[str, ...]
    arguments: tuple[str, ...]
    health_url: str
    environment: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    copies: tuple[str, ...] = ()
    user: str = ""
    groups: tuple[str, ...] = ()
    crds: tuple[str, ...] = ()
    certificate: ServingCertificate | None = None
    objects: tuple[dict[str, t.Any], ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    markers: tuple[str, ...] = ()
    package: str = ""
    alternatives: tuple[str, ...] = ()

    @property
    def is_client(self) -> bool:
        """True for a component that talks to the API server, so it starts after it."""
        return bool(self.user)


@dataclasses.dataclass(frozen=True, slots=True)
class Catalogue:
    """All programs and components we know."""

    programs: collections.abc.Mapping[str, Program]
    control_plane: tuple[ProcessSpec, ...]
    operators: collections.abc.Mapping[str, ProcessSpec]
    registry: ProcessSpec | None = None
    real_node: tuple[ProcessSpec, ...] = ()

    def components(self, spec: ClusterSpec) -> tuple[ProcessSpec, ...]:
        """The processes of a cluster, in starting order."""
        return self.control_plane + tuple(self.operators[name] for name in spec.operators) + self.on_demand(spec)

    def on_demand(self, spec: ClusterSpec) -> tuple[ProcessSpec, ...]:
        """The processes of the registry and of the real node, where they are wanted."""
        registry = (self.registry,) if spec.registry and self.registry is not None else ()
        return registry + (self.real_node if spec.real_group is not None else ())

    def all_components(self) -> tuple[ProcessSpec, ...]:
        """Every component there is an entry for."""
        registry = () if self.registry is None else (self.registry,)
        return (*self.control_plane, *self.operators.values(), *registry, *self.real_node)

    def program_names(self, spec: ClusterSpec) -> list[str]:
        """The programs that must be built for a cluster."""
        names = [component.program for component in self.components(spec) if component.program]
        return names + ([PAUSE_PROGRAM] if spec.real_group is not None else [])


@dataclasses.dataclass(frozen=True, slots=True)
class Placeholders:
    """What the placeholders of one component stand for in one cluster."""

    component: str
    paths: collections.abc.Mapping[str, str]
    ports: collections.abc.Mapping[str, collections.abc.Mapping[str, int]]
    read_certificate: collections.abc.Callable[[str], bytes]

    def value(self, key: str) -> str:
        """The value of one placeholder."""
        kind, _separator, rest = key.partition(":")
        if kind == "port":
            owner, _separator, port = rest.rpartition(":")
            return str(self.ports[owner or self.component][port])
        if kind == "base64":
            return base64.b64encode(self.read_certificate(rest)).decode()
        return self.paths[key]


def check_spec(spec: ClusterSpec, known_operators: collections.abc.Collection[str]) -> None:
    """Refuse what an argument spec cannot: bad names, equal groups, negative counts, unknown operators."""
    if not DNS_NAME.match(spec.name):
        raise BadInput(
            "use", "name", f"{spec.name!r} is not made of lower case letters, digits and dashes (at most 42)"
        )
    seen: set[str] = set()
    for index, group in enumerate(spec.nodes):
        if not DNS_NAME.match(group.name):
            raise BadInput("use", f"nodes[{index}].name", f"{group.name!r} is not a lower case DNS label")
        if group.name in seen:
            raise BadInput(
                "use", f"nodes[{index}].name", f"{group.name!r} names two groups; give each group its own name"
            )
        if group.count < 0:
            raise BadInput("use", f"nodes[{index}].count", f"{group.count} is negative")
        _check_real(spec, index)
        for resource, amount in group.capacity().items():
            try:
                stored_quantity(amount)
            except BadInput as error:
                raise BadInput("use", f"nodes[{index}] resource {resource}", error.cause) from error
        seen.add(group.name)
    for index, operator in enumerate(spec.operators):
        if operator not in known_operators:
            known = ", ".join(sorted(known_operators))
            raise BadInput("use", f"operators[{index}]", f"{operator!r} is not in the catalogue; known are {known}")


def check_flags(spec: ClusterSpec, components: collections.abc.Iterable[ProcessSpec]) -> None:
    """Refuse flags of a component that this cluster does not have, and names that could not be flags."""
    known = {component.name for component in components}
    for name, flags in spec.component_flags:
        if name not in known:
            raise BadInput(
                "use", f"component_flags.{name}", f"this cluster has no such component, but {', '.join(sorted(known))}"
            )
        for flag, _value in flags:
            if not FLAG_NAME.match(flag):
                raise BadInput("use", f"component_flags.{name}", f"{flag!r} is not the name of a flag without dashes")


def _check_real(spec: ClusterSpec, index: int) -> None:
    """Refuse a real group that could not be one machine, this one."""
    group = spec.nodes[index]
    if not group.real:
        return
    if group.count != 1:
        raise BadInput(
            "use", f"nodes[{index}].count", f"a real node is this machine, so there is one, not {group.count}"
        )
    if any(other.real for other in spec.nodes[:index]):
        raise BadInput("use", f"nodes[{index}].real", "a cluster can have one real node, and another group is real too")
    if group.cpu or group.memory:
        raise BadInput("use", f"nodes[{index}]", "a real node has the cpu and memory of this machine; leave them out")


def switches_text(switches: collections.abc.Iterable[tuple[str, bool]]) -> str:
    """Feature gates or runtime configuration as one command line value; equal settings give equal text."""
    return ",".join(f"{name}={'true' if on else 'false'}" for name, on in sorted(switches))


def expand(text: str, values: Placeholders) -> str:
    """The text with every placeholder replaced."""
    return PLACEHOLDER.sub(lambda match: values.value(match.group(1)), text)


def expand_object(value: t.Any, values: Placeholders) -> t.Any:
    """A JSON-like value with the placeholders in all its strings replaced."""
    if isinstance(value, str):
        return expand(value, values)
    if isinstance(value, dict):
        return {key: expand_object(item, values) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [expand_object(item, values) for item in value]
    return value


def build_command(
    component: ProcessSpec, directory: str, values: Placeholders, flags: collections.abc.Mapping[str, str]
) -> list[str]:
    """The command line; an argument whose placeholder is empty is left out, one that the user set replaces ours."""
    command = [f"{directory}/{component.binary}"]
    for argument in component.arguments:
        if argument.partition("=")[0].removeprefix("--") in flags:
            continue
        keys = PLACEHOLDER.findall(argument)
        if keys and all(values.value(key) == "" for key in keys):
            continue
        command.append(expand(argument, values))
    return command + [f"--{name}={value}" for name, value in sorted(flags.items())]


def build_node(group: NodeGroup, index: int) -> dict[str, t.Any]:
    """The node object of one simulated node, with its status, as a kubelet would register it."""
    name = group.node_name(index)
    capacity = group.capacity()
    managed = {
        "labels": sorted(key for key, _value in group.labels),
        "resources": sorted(capacity),
        "taints": sorted(f"{taint.key}:{taint.effect}" for taint in group.taints),
    }
    if group.real:
        return _build_real_node(group, name, managed)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE_NODE_ANNOTATION: "fake", MANAGED_ANNOTATION: json.dumps(managed)},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **dict(group.labels),
                NODE_GROUP_LABEL: group.name,
            },
        },
        "spec": {"taints": [taint.as_object() for taint in group.taints]},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "nodeInfo": dict.fromkeys(
                (
                    "bootID",
                    "containerRuntimeVersion",
                    "kernelVersion",
                    "kubeProxyVersion",
                    "kubeletVersion",
                    "machineID",
                    "osImage",
                    "systemUUID",
                ),
                "muster",
            )
            | {"architecture": "amd64", "operatingSystem": "linux"},
        },
    }


def _build_real_node(group: NodeGroup, name: str, managed: dict[str, list[str]]) -> dict[str, t.Any]:
    """What we want of the node that the kubelet registers; the rest of it is the kubelet's."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {MANAGED_ANNOTATION: json.dumps(managed)},
            "labels": {**dict(group.labels), NODE_GROUP_LABEL: group.name, REAL_NODE_LABEL: "true"},
        },
        "spec": {"taints": [taint.as_object() for taint in group.taints]},
        "status": {"capacity": group.capacity(), "allocatable": group.capacity()},
    }


def is_real(node: dict[str, t.Any]) -> bool:
    """True for a node that a kubelet registers, not we."""
    return (node["metadata"].get("labels") or {}).get(REAL_NODE_LABEL) == "true"


def build_nodes(groups: collections.abc.Iterable[NodeGroup]) -> dict[str, dict[str, t.Any]]:
    """All nodes the groups ask for, by name; two groups may not produce the same name."""
    nodes: dict[str, dict[str, t.Any]] = {}
    for group in groups:
        for index in range(group.count):
            node = build_node(group, index)
            name = node["metadata"]["name"]
            if name in nodes:
                raise BadInput("use", f"nodes group {group.name!r}", f"it makes a second node called {name}")
            nodes[name] = node
    return nodes


@dataclasses.dataclass(frozen=True, slots=True)
class NodeChange:
    """What must be patched on one node, in merge patch form; an empty part needs no request."""

    name: str
    node: dict[str, t.Any]
    status: dict[str, t.Any]


def is_ready(node: dict[str, t.Any]) -> bool:
    """True when pods can be placed on the node: ready, and the taint of a node that is not is gone."""
    conditions = node.get("status", {}).get("conditions") or ()
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    taints = node.get("spec", {}).get("taints") or ()
    return ready and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)


def find_change(wanted: dict[str, t.Any], live: dict[str, t.Any]) -> NodeChange | None:
    """The difference between a wanted and a live node.

    Only what we manage counts, which the node's annotation remembers: a label, taint or resource that somebody else
    added stays.
    """
    name = wanted["metadata"]["name"]
    metadata = live["metadata"]
    before = _managed(metadata.get("annotations") or {})
    now = _managed(wanted["metadata"]["annotations"])
    change: dict[str, t.Any] = {}
    labels = _map_change(wanted["metadata"]["labels"], metadata.get("labels") or {}, before["labels"] - now["labels"])
    annotations = _map_change(wanted["metadata"]["annotations"], metadata.get("annotations") or {}, frozenset())
    if labels or annotations:
        change["metadata"] = {"labels": labels, "annotations": annotations}
    taints = live.get("spec", {}).get("taints") or []
    merged = _merge_taints(wanted["spec"]["taints"], taints, before["taints"])
    if merged is not None:
        # The list is replaced whole, so nobody may have touched it since we read it.
        change.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        change["spec"] = {"taints": merged}
    gone = before["resources"] - now["resources"]
    status = {}
    for field in ("capacity", "allocatable"):
        amounts = _amounts_change(wanted["status"][field], live.get("status", {}).get(field) or {}, gone)
        if amounts:
            status[field] = amounts
    return NodeChange(name, change, {"status": status} if status else {}) if change or status else None


def _managed(annotations: dict[str, str]) -> dict[str, frozenset[str]]:
    """The names we wrote on a node, by sort; nothing when the annotation is missing or was spoilt."""
    try:
        data = json.loads(annotations.get(MANAGED_ANNOTATION, "{}"))
    except ValueError:
        data = {}
    return {sort: frozenset(data.get(sort, ())) for sort in ("labels", "resources", "taints")}


def _map_change(wanted: dict[str, str], live: dict[str, str], gone: frozenset[str]) -> dict[str, str | None]:
    """A merge patch of a string map."""
    change: dict[str, str | None] = {key: value for key, value in wanted.items() if live.get(key) != value}
    change.update({key: None for key in gone if key in live})
    return change


def _amounts_change(wanted: dict[str, str], live: dict[str, str], gone: frozenset[str]) -> dict[str, str | None]:
    """A merge patch of a resource list; 8 and 8000m are equal."""
    change: dict[str, str | None] = {
        key: value
        for key, value in wanted.items()
        if key not in live or stored_quantity(live[key]) != stored_quantity(value)
    }
    change.update({key: None for key in gone if key in live})
    return change


def _merge_taints(
    wanted: list[dict[str, str]], live: list[dict[str, str]], before: frozenset[str]
) -> list[dict[str, str]] | None:
    """The new list of taints, None when the live one is right. Taints of others keep their place."""

    def identity(taint: dict[str, str]) -> str:
        """Key and effect: the API allows one taint of each."""
        return f"{taint['key']}:{taint['effect']}"

    ours = {identity(taint): taint for taint in wanted}
    kept = [taint for taint in live if identity(taint) not in before and identity(taint) not in ours]
    current = {
        identity(taint): {key: taint[key] for key in ("key", "effect", "value") if taint.get(key)} for taint in live
    }
    if all(current.get(key) == taint for key, taint in ours.items()) and not (before - set(ours)) & set(current):
        return None
    return kept + list(ours.values())


def rewrite_webhooks(manifest: dict[str, t.Any], webhook: Webhook, port: int, ca_bundle: str) -> dict[str, t.Any]:
    """An upstream webhook configuration that calls a local process by url instead of a service in the cluster."""
    selectors = dict(webhook.object_selectors)
    hooks = []
    for hook in manifest["webhooks"]:
        path = hook["clientConfig"]["service"].get("path", "/")
        changed = {**hook, "clientConfig": {"url": f"https://127.0.0.1:{port}{path}", "caBundle": ca_bundle}}
        if hook["name"] in selectors:
            changed["objectSelector"] = selectors[hook["name"]]
        hooks.append(changed)
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": {"name": webhook.name},
        "webhooks": hooks,
    }
