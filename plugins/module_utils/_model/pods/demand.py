# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one pod asks for: the amounts kube-scheduler and ResourceQuota count, from a pod spec or a live pod."""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    format_quantity,
    scaled,
    stored_quantity,
)

# Scaled integers: milli-units of cpu, whole units of everything else.
Resources = dict[str, int]
# Exact amounts in nano-units while they are being added up.
Amounts = dict[str, int]
Spec = Mapping[str, t.Any]
_NOTHING: Spec = {}


def pod_requests(spec: Spec, overhead: Mapping[str, str] | None = None) -> Resources:
    """The demand of one pod made from this spec, as kube-scheduler counts it after the API server's defaults.

    overhead is the RuntimeClass's, used when the spec carries none itself.
    """
    return _as_demand(exact_requests(spec, overhead))


def exact_requests(spec: Spec, overhead: Mapping[str, str] | None = None) -> Amounts:
    """The same in nano-units, as ResourceQuota counts it."""
    defaulted = default_pod_spec(spec)
    total = _with_pod_level(_container_requests(defaulted, {}, False), defaulted, {})
    extra = defaulted.get("overhead") or overhead or {}
    _add(total, read_amounts(extra, "overhead"))
    return total


def pod_limits(spec: Spec) -> Resources:
    """The limits of one pod; resources without any limit are absent."""
    return {name: scaled(name, amount) for name, amount in exact_limits(spec).items()}


def exact_limits(spec: Spec) -> Amounts:
    """The same in nano-units, as ResourceQuota counts them."""
    total = summed_amounts(spec, "limits")
    for name, amount in read_amounts(_pod_level(spec, "limits"), "resources.limits").items():
        if _pod_level_supports(name):
            total[name] = amount
    for name, amount in read_amounts(spec.get("overhead"), "overhead").items():
        # Overhead widens limits that exist; it does not create one.
        if total.get(name):
            total[name] += amount
    return total


def summed_amounts(spec: Spec, field: str) -> Amounts:
    """Requests or limits of all containers together, in nano-units, whatever the pod itself states."""
    return _aggregate(
        [_own(container, field, path) for path, container in _containers(spec, "containers")],
        [
            (_own(container, field, path), _restartable(container))
            for path, container in _containers(spec, "initContainers")
        ],
    )


def whole_amounts(spec: Spec, field: str) -> Amounts:
    """Requests or limits that the pod itself states, in nano-units."""
    return read_amounts(_pod_level(spec, field), f"resources.{field}")


def container_amounts(spec: Spec) -> Iterable[tuple[str, Amounts, Amounts]]:
    """Name, requests and limits of each container, those that initialize last, in nano-units."""
    for field in ("containers", "initContainers"):
        for path, container in _containers(spec, field):
            yield str(container.get("name")), _own(container, "requests", path), _own(container, "limits", path)


def sized_as_a_whole(spec: Spec) -> bool:
    """Whether the pod itself states amounts, so that its containers need not."""
    return any(_pod_level_supports(str(name)) for field in ("requests", "limits") for name in _pod_level(spec, field))


def running_pod_requests(pod: Mapping[str, t.Any]) -> Resources:
    """The demand of a live pod: during an in-place resize the larger of what it has and what it asks for.

    Most pods are like many others, so that the demand of those is one value, which is not to be changed.
    """
    spec: Spec = pod.get("spec") or {}
    status: Spec = pod.get("status") or {}
    settled = _settled_requests(spec, status)
    if settled is not None:
        return _demand_of_texts(settled)
    reported = {
        item.get("name"): item
        for item in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
        if item.get("resources") is not None
    }
    refused = _resize_infeasible(status)
    total = _with_pod_level(_container_requests(spec, reported, refused), spec, status)
    _add(total, read_amounts(spec.get("overhead"), "overhead"))
    return _as_demand(total)


def _settled_requests(spec: Spec, status: Spec) -> tuple[str, ...] | None:
    """The requests of each container as one text, if nothing else decides what a live pod demands, else None.

    Something else are init containers, amounts of the pod itself, and containers that do not have what they ask for.
    """
    asked: dict[t.Any, t.Any] = {}
    try:
        if "initContainers" in spec or "resources" in spec or "overhead" in spec:
            return None
        if "initContainerStatuses" in status or "resources" in status:
            return None
        listed = spec["containers"]
        if not isinstance(listed, list):
            return None
        for container in listed:
            asked[container["name"]] = (container.get("resources") or _NOTHING).get("requests", _NOTHING)
        for item in status.get("containerStatuses") or ():
            given = item.get("resources")
            if given is not None:
                wanted = asked[item["name"]]
                if given.get("requests", _NOTHING) != wanted or item.get("allocatedResources", wanted) != wanted:
                    return None
        if len(asked) != len(listed):
            return None
        return tuple(["\0".join((*amounts, *amounts.values())) for amounts in asked.values()])
    except (AttributeError, KeyError, TypeError):
        # Not what a server sends, so the longer way tells what is wrong with it.
        return None


@functools.lru_cache(maxsize=16384)
def _demand_of_texts(containers: tuple[str, ...]) -> Resources:
    """The demand of a pod of such containers; few different ones are asked for very often."""
    total: Amounts = {}
    for index, text in enumerate(containers):
        texts = text.split("\0")
        half = len(texts) // 2
        amounts = dict(zip(texts[:half], texts[half:], strict=False))
        _add(total, read_amounts(amounts, f"containers[{index}].resources.requests"))
    return _as_demand(total)


def default_pod_spec(spec: Spec) -> dict[str, t.Any]:
    """A copy with the defaults the API server sets on a pod that matter for placing it: requests and host ports."""
    defaulted = dict(spec)
    for field in ("containers", "initContainers"):
        if spec.get(field) is not None:
            defaulted[field] = [
                _default_container(container, path, bool(spec.get("hostNetwork")))
                for path, container in _containers(spec, field)
            ]
    limits = read_amounts(_pod_level(spec, "limits"), "resources.limits")
    if limits:
        requests = dict(_pod_level(spec, "requests"))
        own = _container_requests(defaulted, {}, False)
        for name, amount in (*_overcommittable(own), *limits.items()):
            if _pod_level_supports(name):
                requests.setdefault(name, format_quantity(amount))
        defaulted["resources"] = {**spec["resources"], "requests": requests}
    return defaulted


def apply_limit_range(spec: Spec, limit_ranges: Sequence[Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """A copy of the pod spec with the Container defaults of these LimitRange specs, as admission sets them.

    The API server's own defaults come first: a container with a limit and no request never gets a defaultRequest.
    """
    changed = default_pod_spec(spec)
    for limit_range in limit_ranges:
        requests, limits = _limit_range_defaults(limit_range)
        for field in ("containers", "initContainers"):
            if changed.get(field):
                changed[field] = [_with_defaults(container, requests, limits) for container in changed[field]]
    return changed


def read_amounts(values: t.Any, path: str) -> Amounts:
    """A resource list in nano-units as the API server stores it; a bad entry is named by its path."""
    if not values:
        return {}
    if not isinstance(values, Mapping):
        raise BadInput("read", path, f"a mapping of resource names to quantities is needed, this is a {_kind(values)}")
    amounts: Amounts = {}
    for name, value in values.items():
        try:
            amount = stored_quantity(value)
        except BadInput as error:
            raise BadInput("read", f"{path}.{name}", f"{error.target}: {error.cause}") from error
        if amount < 0:
            raise BadInput("read", f"{path}.{name}", f"quantity {value!r} is negative")
        amounts[str(name)] = amount
    return amounts


def _container_requests(spec: Spec, reported: Mapping[t.Any, Spec], resize_refused: bool) -> Amounts:
    """The sum over containers, or what the greediest moment of initialization needs when that is more."""
    main = [
        _effective(container, path, reported.get(str(container.get("name"))), resize_refused)
        for path, container in _containers(spec, "containers")
    ]
    initial: list[tuple[Amounts, bool]] = []
    for path, container in _containers(spec, "initContainers"):
        sidecar = _restartable(container)
        # Only containers that stay can be resized, so only their status counts.
        status = reported.get(str(container.get("name"))) if sidecar else None
        initial.append((_effective(container, path, status, resize_refused), sidecar))
    return _aggregate(main, initial)


def _aggregate(main: Iterable[Amounts], initial: Iterable[tuple[Amounts, bool]]) -> Amounts:
    """Add up containers and sidecars; an init container needs itself plus the sidecars declared before it."""
    total: Amounts = {}
    for amounts in main:
        _add(total, amounts)
    sidecars: Amounts = {}
    peak: Amounts = {}
    for amounts, sidecar in initial:
        moment = dict(amounts)
        _add(moment, sidecars)
        _raise_to(peak, moment)
        if sidecar:
            _add(total, amounts)
            sidecars = moment
    _raise_to(total, peak)
    return total


def _with_pod_level(total: Amounts, spec: Spec, status: Spec) -> Amounts:
    """Requests set on the pod itself replace the containers' sum for cpu, memory and huge pages."""
    declared = read_amounts(_pod_level(spec, "requests"), "resources.requests")
    actual: Amounts | None = None
    if status.get("resources") is not None:
        actual = {} if _resize_infeasible(status) else dict(declared)
        _raise_to(actual, read_amounts(status["resources"].get("requests"), "status.resources.requests"))
        _raise_to(actual, read_amounts(status.get("allocatedResources"), "status.allocatedResources"))
    for name, amount in declared.items():
        if _pod_level_supports(name):
            total[name] = amount if actual is None else actual.get(name, 0)
    return total


def _effective(container: Spec, path: str, status: Spec | None, resize_refused: bool) -> Amounts:
    """One container's requests; a running container holds the larger of desired, actual and allocated."""
    declared = _own(container, "requests", path)
    if status is None:
        return declared
    amounts = {} if resize_refused else declared
    _raise_to(amounts, read_amounts(status["resources"].get("requests"), f"{path}.status.resources.requests"))
    _raise_to(amounts, read_amounts(status.get("allocatedResources"), f"{path}.status.allocatedResources"))
    return amounts


def _default_container(container: Spec, path: str, host_network: bool) -> dict[str, t.Any]:
    """A copy where a missing request is the limit and, on the host network, every port is a host port."""
    defaulted = dict(container)
    limits = _resources(container, path).get("limits")
    if limits:
        read_amounts(limits, f"{path}.resources.limits")
        given = _resources(container, path).get("requests") or {}
        if not isinstance(given, Mapping):
            read_amounts(given, f"{path}.resources.requests")
        requests = {**limits, **given}
        defaulted["resources"] = {**_resources(container, path), "requests": requests}
    if host_network and container.get("ports"):
        defaulted["ports"] = [
            {**port, "hostPort": port.get("hostPort") or port.get("containerPort")} for port in container["ports"]
        ]
    return defaulted


def _limit_range_defaults(limit_range: Mapping[str, t.Any]) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """Default requests and limits for containers, with the fall-backs (max, min) the API server fills in itself."""
    requests: dict[str, t.Any] = {}
    limits: dict[str, t.Any] = {}
    for item in limit_range.get("limits") or ():
        if item.get("type") != "Container":
            continue
        item_limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        item_requests = {**(item.get("min") or {}), **item_limits, **(item.get("defaultRequest") or {})}
        for field, values in (("defaultRequest", item_requests), ("default", item_limits)):
            read_amounts(values, f"LimitRange limits[].{field}")
        limits.update(item_limits)
        requests.update(item_requests)
    return requests, limits


def _with_defaults(container: Spec, requests: Spec, limits: Spec) -> dict[str, t.Any]:
    """A copy of the container where absent requests and limits are filled in."""
    own = _resources(container, "containers[]")
    resources = {
        **own,
        "requests": {**requests, **(own.get("requests") or {})},
        "limits": {**limits, **(own.get("limits") or {})},
    }
    return {**container, "resources": {key: value for key, value in resources.items() if value}}


def _containers(spec: Spec, field: str) -> Iterable[tuple[str, Spec]]:
    """The containers of one list with their paths; what is not a list of mappings is refused by its path."""
    listed = spec.get(field)
    if listed is None:
        return
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise BadInput("read", field, f"a list of containers is needed, this is a {_kind(listed)}")
    for index, container in enumerate(listed):
        path = f"{field}[{index}]"
        if not isinstance(container, Mapping):
            raise BadInput("read", path, f"a container is a mapping, this is a {_kind(container)}")
        yield path, container


def _own(container: Spec, field: str, path: str) -> Amounts:
    """The requests or limits written on one container."""
    return read_amounts(_resources(container, path).get(field), f"{path}.resources.{field}")


def _resources(container: Spec, path: str) -> Spec:
    """The resources stanza of a container, empty when it has none."""
    resources = container.get("resources") or {}
    if not isinstance(resources, Mapping):
        raise BadInput("read", f"{path}.resources", f"a mapping is needed, this is a {_kind(resources)}")
    return resources


def _pod_level(spec: Spec, field: str) -> Mapping[str, t.Any]:
    """Requests or limits set on the pod itself."""
    resources = spec.get("resources") or {}
    if not isinstance(resources, Mapping):
        raise BadInput("read", "resources", f"a mapping is needed, this is a {_kind(resources)}")
    return resources.get(field) or {}


def _pod_level_supports(name: str) -> bool:
    """Whether Kubernetes honors this resource on the pod itself."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _overcommittable(amounts: Amounts) -> Iterable[tuple[str, int]]:
    """The container sums that become pod level requests when the pod has limits only; huge pages never do."""
    return ((name, amount) for name, amount in amounts.items() if not name.startswith("hugepages-"))


def _restartable(container: Spec) -> bool:
    """Whether an init container is a sidecar that keeps running beside the main containers."""
    return container.get("restartPolicy") == "Always"


def _resize_infeasible(status: Spec) -> bool:
    """Whether the kubelet refused the pending resize, so that the desired amounts do not count."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _as_demand(total: Amounts) -> Resources:
    """Scale once per pod, drop zeros, and count the pod itself."""
    demand = {name: scaled(name, amount) for name, amount in total.items() if amount}
    demand["pods"] = 1
    return demand


def _add(total: Amounts, more: Amounts) -> None:
    """Add more to total, per resource."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, floor: Amounts) -> None:
    """Raise total to floor where it is less, per resource."""
    for name, amount in floor.items():
        if amount > total.get(name, -1):
            total[name] = amount


def _kind(value: object) -> str:
    """The name of a value's type for messages."""
    return type(value).__name__
