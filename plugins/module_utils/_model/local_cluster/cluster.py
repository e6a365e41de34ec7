# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of a local cluster: what is wanted, what can be run, and the rules that turn one into the other."""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import pathlib
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import stored_quantity

PAUSE_PROGRAM = "pause"
CONTAINERD = "containerd"
KUBELET = "kubelet"
SERVICE_FORWARDER = "service-forwarder"
REGISTRY = "registry"
FLAG_NAME = re.compile(r"^[A-Za-z0-9][-A-Za-z0-9]*$")
DNS_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$")
PLACEHOLDER = re.compile(
    r"\{(kubeconfig|certificates|configuration|data|server|feature_gates|runtime_config|port:[^{}]+|base64:[^{}]+"
    r"|audit_log|audit_policy|services|service_address"
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
    audit_log: bool = False
    programs: tuple[str, ...] = ()
    services: bool = False

    @property
    def real_group(self) -> NodeGroup | None:
        """The group that is this machine itself, if there is one."""
        return next((group for group in self.nodes if group.real), None)

    def flags_of(self, process: str) -> dict[str, str]:
        """The command line flags the user set for a process, without their dashes."""
        return dict(dict(self.component_flags).get(process, ()))


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
class Conversion:
    """The kinds whose versions an operator converts, and where it does so."""

    port: str
    path: str
    definitions: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ServingCertificate:
    """The authority that an operator has of its own, and the names its serving certificate is for."""

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
    conversion: Conversion | None = None
    markers: tuple[str, ...] = ()
    package: str = ""
    alternatives: tuple[str, ...] = ()
    clears: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    of_real_node: bool = False
    excludes: tuple[str, ...] = ()

    @property
    def is_client(self) -> bool:
        """True for a process that talks to the API server, so it starts after it."""
        return bool(self.user)


@dataclasses.dataclass(frozen=True, slots=True)
class Catalogue:
    """All programs and processes we know."""

    programs: collections.abc.Mapping[str, Program]
    control_plane: tuple[ProcessSpec, ...]
    operators: collections.abc.Mapping[str, ProcessSpec]
    registry: ProcessSpec | None = None
    services: ProcessSpec | None = None
    real_node: tuple[ProcessSpec, ...] = ()

    def processes(self, spec: ClusterSpec) -> tuple[ProcessSpec, ...]:
        """The processes of a cluster, in starting order."""
        return self.control_plane + tuple(self.operators[name] for name in spec.operators) + self.on_demand(spec)

    def on_demand(self, spec: ClusterSpec) -> tuple[ProcessSpec, ...]:
        """The processes of the registry, of services and of the real node, where they are wanted."""
        registry = (self.registry,) if spec.registry and self.registry is not None else ()
        services = (self.services,) if spec.services and self.services is not None else ()
        return registry + services + (self.real_node if spec.real_group is not None else ())

    def all_processes(self) -> tuple[ProcessSpec, ...]:
        """Every process there is an entry for."""
        single = (process for process in (self.registry, self.services) if process is not None)
        return (*self.control_plane, *self.operators.values(), *single, *self.real_node)

    def program_names(self, spec: ClusterSpec) -> list[str]:
        """The programs that must be built: those of the processes of a cluster, and those asked for by name."""
        names = [process.program for process in self.processes(spec) if process.program]
        return [*names, *([PAUSE_PROGRAM] if spec.real_group is not None else []), *spec.programs]


@dataclasses.dataclass(frozen=True, slots=True)
class Placeholders:
    """What the placeholders of one process stand for in one cluster; a port that is not chosen yet is 0."""

    process: str
    paths: collections.abc.Mapping[str, str]
    ports: collections.abc.Mapping[str, collections.abc.Mapping[str, int]]
    read_certificate: collections.abc.Callable[[str], bytes]

    def value(self, key: str) -> str:
        """The value of one placeholder."""
        kind, _separator, rest = key.partition(":")
        if kind == "port":
            owner, _separator, port = rest.rpartition(":")
            return str(self.ports.get(owner or self.process, {}).get(port, 0))
        if kind == "base64":
            return base64.b64encode(self.read_certificate(rest)).decode()
        return self.paths[key]


def check_spec(spec: ClusterSpec, known_operators: collections.abc.Collection[str]) -> None:
    """Refuse what an argument spec cannot: bad names, equal groups, negative counts, unknown operators."""
    if not DNS_NAME.match(spec.name):
        cause = f"{spec.name!r} is not made of lower case letters, digits and dashes (at most 42)"
        raise BadInput("use", "name", cause)
    seen: set[str] = set()
    for index, group in enumerate(spec.nodes):
        if not DNS_NAME.match(group.name):
            raise BadInput("use", f"nodes[{index}].name", f"{group.name!r} is not a lower case DNS label")
        if group.name in seen:
            cause = f"{group.name!r} names two groups; give each group its own name"
            raise BadInput("use", f"nodes[{index}].name", cause)
        if group.count < 0:
            raise BadInput("use", f"nodes[{index}].count", f"{group.count} is negative")
        _check_real(spec, index)
        for resource, amount in group.capacity().items():
            try:
                stored_quantity(amount)
            except BadInput as error:
                raise BadInput("use", f"nodes[{index}] resource {resource}", error.cause) from error
        seen.add(group.name)
    _check_services(spec)
    for index, operator in enumerate(spec.operators):
        if operator not in known_operators:
            known = ", ".join(sorted(known_operators))
            raise BadInput("use", f"operators[{index}]", f"{operator!r} is not in the catalogue; known are {known}")


def check_operators(spec: ClusterSpec, operators: collections.abc.Mapping[str, ProcessSpec]) -> None:
    """Refuse known operators that lack another one, or that cannot be in one cluster: they define the same kinds."""
    for index, name in enumerate(spec.operators):
        missing = [other for other in operators[name].needs if other not in spec.operators]
        if missing:
            raise BadInput("use", f"operators[{index}]", f"{name} needs {' and '.join(missing)} beside it")
        if operators[name].of_real_node and spec.real_group is None:
            raise BadInput("use", f"operators[{index}]", f"{name} works on a real node, and there is none")
        for other in spec.operators:
            if other in operators[name].excludes:
                cause = f"{name} and {other} define the same kinds differently; give each a cluster of its own"
                raise BadInput("use", f"operators[{index}]", cause)


def check_programs(spec: ClusterSpec, catalogue: Catalogue) -> None:
    """Refuse programs that nobody knows how to build."""
    for index, program in enumerate(spec.programs):
        if program not in catalogue.programs:
            known = ", ".join(sorted(catalogue.programs))
            raise BadInput("use", f"programs[{index}]", f"{program!r} is not in the catalogue; known are {known}")


def check_flags(spec: ClusterSpec, processes: collections.abc.Iterable[ProcessSpec]) -> None:
    """Refuse flags of a process that this cluster does not have, and names that could not be flags."""
    known = {process.name for process in processes}
    for name, flags in spec.component_flags:
        if name not in known:
            cause = f"this cluster has no such component, but {', '.join(sorted(known))}"
            raise BadInput("use", f"component_flags.{name}", cause)
        for flag, _value in flags:
            if not FLAG_NAME.match(flag):
                raise BadInput("use", f"component_flags.{name}", f"{flag!r} is not the name of a flag without dashes")


def _check_real(spec: ClusterSpec, index: int) -> None:
    """Refuse a real group that could not be one machine, this one."""
    group = spec.nodes[index]
    if not group.real:
        return
    if group.count != 1:
        cause = f"a real node is this machine, so there is one, not {group.count}"
        raise BadInput("use", f"nodes[{index}].count", cause)
    if any(other.real for other in spec.nodes[:index]):
        raise BadInput("use", f"nodes[{index}].real", "a cluster can have one real node, and another group is real too")
    if group.cpu or group.memory:
        raise BadInput("use", f"nodes[{index}]", "a real node has the cpu and memory of this machine; leave them out")


def _check_services(spec: ClusterSpec) -> None:
    """Refuse services that no pod could use."""
    if not spec.services:
        return
    if spec.real_group is None:
        raise BadInput("use", "services", "they are for pods that really run; let a group of nodes be real")
    if "service-cluster-ip-range" in spec.flags_of("kube-apiserver"):
        cause = "pods would be told another address of the API server than that of option services"
        raise BadInput("use", "component_flags.kube-apiserver.service-cluster-ip-range", cause)


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
    process: ProcessSpec, directory: str, values: Placeholders, flags: collections.abc.Mapping[str, str]
) -> list[str]:
    """The command line; an argument whose placeholder is empty is left out, one that the user set replaces ours."""
    command = [f"{directory}/{process.binary}"]
    for argument in process.arguments:
        if argument.partition("=")[0].removeprefix("--") in flags:
            continue
        keys = PLACEHOLDER.findall(argument)
        if keys and all(values.value(key) == "" for key in keys):
            continue
        command.append(expand(argument, values))
    return command + [f"--{name}={value}" for name, value in sorted(flags.items())]


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


def convert_by_url(crd: dict[str, t.Any], url: str, ca_bundle: str) -> dict[str, t.Any]:
    """A definition whose versions a local process converts."""
    webhook = {"clientConfig": {"url": url, "caBundle": ca_bundle}, "conversionReviewVersions": ["v1"]}
    return {**crd, "spec": {**crd["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}
