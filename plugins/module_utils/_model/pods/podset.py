# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Podsets: how many equal pods of which size a gang will run, inferred from its objects or declared by the user."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import AdmittedPod, admitted_pod
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import (
    Constraints,
    placement_fields,
    read_constraints,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import (
    Resources,
    apply_limit_range,
    pod_limits,
    pod_requests,
    read_amounts,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    Path,
    TemplateUse,
    describe_object,
    path_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import pod_templates
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import scaled

_DECLARED_KEYS = ("name", "count", "requests", "limits", "spec", "labels")


@dataclasses.dataclass(frozen=True)
class PodSet:
    """Equal pods of a gang."""

    name: str
    count: int
    requests: Resources
    limits: Resources
    # The pod template with the API server's and LimitRange's defaults.
    template: Mapping[str, t.Any]
    # Where the template lies inside the object: empty for a Pod, None when the object holds no template for it.
    path: Path | None
    source: str
    # The object's place in the gang, -1 when the podset was declared.
    source_index: int
    namespace: str

    @functools.cached_property
    def constraints(self) -> Constraints:
        """What its pods demand of a node besides room."""
        return read_constraints(self.template, self.namespace)

    @functools.cached_property
    def admitted(self) -> AdmittedPod:
        """One of its pods as quotas and LimitRanges see it."""
        return admitted_pod(self.template, self.requests, self.limits)

    @functools.cached_property
    def placement(self) -> Mapping[str, t.Any]:
        """The part of the pod spec that the constraints come from, as plain data."""
        return placement_fields(self.template)

    @functools.cached_property
    def shape(self) -> str:
        """Size and constraints of its pods as one text: what they run, and what they are called, is not in it."""
        return json.dumps([self.placement, self.requests], sort_keys=True, default=str)


def infer_podsets(
    objects: Sequence[Mapping[str, t.Any]],
    *,
    namespace: str,
    limit_ranges: Sequence[Mapping[str, t.Any]] = (),
    overheads: Mapping[str, Mapping[str, str]] | None = None,
) -> list[PodSet]:
    """The podsets of a gang's objects, in their order; overheads maps RuntimeClass names to their podFixed amounts."""
    if not objects:
        raise BadInput("infer the podsets of", "the gang", "it has no objects")
    podsets: list[PodSet] = []
    taken: set[str] = set()
    for index, obj in enumerate(objects):
        where = describe_object(obj, namespace, index)
        for use in pod_templates(obj, where, namespace=namespace):
            try:
                name = _free_name(use.name, taken)
                podsets.append(_from_template(use, name, index, namespace, limit_ranges, overheads or {}))
            except BadInput as error:
                raise BadInput(error.action, _field(use, error.target), error.cause) from error
    return podsets


def infer_known(
    objects: Sequence[Mapping[str, t.Any]], *, namespace: str, unknown: type[BadInput]
) -> tuple[list[int], list[PodSet]]:
    """The places of the objects whose pods can be inferred, and their podsets; unknown is the error of the others."""
    known: list[int] = []
    for index, obj in enumerate(objects):
        with contextlib.suppress(unknown):
            infer_podsets([obj], namespace=namespace)
            known.append(index)
    found = infer_podsets([objects[index] for index in known], namespace=namespace) if known else []
    return known, [dataclasses.replace(item, source_index=known[item.source_index]) for item in found]


def declared_podsets(items: Sequence[Mapping[str, t.Any]], *, namespace: str) -> list[PodSet]:
    """Podsets as the user wrote them; requests written there win over those of the spec, per resource."""
    if not items:
        raise BadInput("read", "podsets", "the list is empty")
    taken: set[str] = set()
    podsets: list[PodSet] = []
    for index, item in enumerate(items):
        path = f"podsets[{index}]"
        if not isinstance(item, Mapping):
            raise BadInput("read", path, f"a mapping is needed, this is a {type(item).__name__}")
        try:
            podsets.append(_from_declaration(item, index, taken, namespace))
        except BadInput as error:
            raise BadInput(error.action, f"{path}.{error.target}", error.cause) from error
    return podsets


def require_readable(podset: PodSet) -> None:
    """Refuse a podset whose template has parts of the wrong form: no API server has looked at it before."""
    where = f"the pod template of {podset.name}"
    try:
        wish, _shape = podset.constraints, podset.shape
        hash((wish.tolerations, wish.host_ports, wish.node_terms))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadInput("read", where, f"it has the wrong form: {error}") from error
    texts = (wish.node_name, wish.scheduler, wish.runtime_class, wish.priority_class, *wish.claims)
    wrong = [text for text in texts if text is not None and not isinstance(text, str)]
    if wrong or not isinstance(wish.priority, int | None):
        raise BadInput("read", where, f"it has the wrong form: {wrong[0] if wrong else wish.priority!r}")


def total_demand(podsets: Sequence[PodSet]) -> Resources:
    """What all pods of these podsets ask for together."""
    total: Resources = {}
    for podset in podsets:
        for name, amount in podset.requests.items():
            total[name] = total.get(name, 0) + podset.count * amount
    return {name: amount for name, amount in total.items() if amount}


def _from_template(
    use: TemplateUse,
    name: str,
    index: int,
    namespace: str,
    limit_ranges: Sequence[Mapping[str, t.Any]],
    overheads: Mapping[str, Mapping[str, str]],
) -> PodSet:
    """One podset of an object, its template completed with what admission will add."""
    spec = apply_limit_range(use.template.get("spec") or {}, limit_ranges)
    overhead = overheads.get(str(spec.get("runtimeClassName")))
    if overhead and not spec.get("overhead"):
        spec["overhead"] = dict(overhead)
    requests, limits = pod_requests(spec), pod_limits(spec)
    if use.requests is not None:
        limits = _scaled_list(use.limits, "limits")
        declared = {**limits, **_without_zeros(_scaled_list(use.requests, "requests"))}
        requests = {**_without_zeros(declared), "pods": 1}
    template = {**use.template, "spec": spec}
    return PodSet(name, use.count, requests, limits, template, use.path, use.owner, index, namespace)


def _from_declaration(item: Mapping[str, t.Any], index: int, taken: set[str], namespace: str) -> PodSet:
    """One declared podset; pods of the kind a spec alone describes are counted from the spec."""
    unknown = sorted(str(key) for key in item if key not in _DECLARED_KEYS)
    if unknown:
        raise BadInput("read", unknown[0], f"unknown key; known are {', '.join(_DECLARED_KEYS)}")
    spec = {} if item.get("spec") is None else item["spec"]
    labels = {} if item.get("labels") is None else item["labels"]
    for field, value in (("spec", spec), ("labels", labels)):
        if not isinstance(value, Mapping):
            raise BadInput("read", field, f"a mapping is needed, this is a {type(value).__name__}")
    if not item.get("requests") and not spec.get("containers"):
        raise BadInput("read", "requests", "the size of one pod is missing; give requests or a spec with containers")
    own_limits = _scaled_list(item.get("limits"), "limits")
    own_requests = {**own_limits, **_scaled_list(item.get("requests"), "requests")}
    try:
        requests, limits = pod_requests(spec), pod_limits(spec)
        completed = apply_limit_range(spec, ())
    except BadInput as error:
        raise BadInput(error.action, f"spec.{error.target}", error.cause) from error
    name = _free_name(str(item.get("name") or f"podset-{index}"), taken)
    template = {"metadata": {"labels": dict(labels)}, "spec": completed}
    merged = {**_without_zeros({**requests, **own_requests}), "pods": 1}
    count, all_limits, source = _count(item.get("count", 1)), {**limits, **own_limits}, f"podset {namespace}/{name}"
    return PodSet(name, count, merged, all_limits, template, None, source, -1, namespace)


def _count(value: object) -> int:
    """A number of pods: a whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInput("read", "count", f"a whole number of pods is needed, not {value!r}")
    return value


def _scaled_list(values: t.Any, path: str) -> Resources:
    """A resource list as scaled amounts."""
    return {name: scaled(name, amount) for name, amount in read_amounts(values, path).items()}


def _without_zeros(amounts: Resources) -> Resources:
    """Only the resources that are really wanted."""
    return {name: amount for name, amount in amounts.items() if amount}


def _free_name(name: str, taken: set[str]) -> str:
    """A name not used before in this gang: the name itself, else with the first free number."""
    free = next(candidate for candidate in _candidates(name) if candidate not in taken)
    taken.add(free)
    return free


def _candidates(name: str) -> Iterator[str]:
    """name, name-2, name-3, ..."""
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1


def _field(use: TemplateUse, target: str) -> str:
    """Object and field of a problem inside a pod template."""
    if use.requests is not None and target.split(".")[0] in ("requests", "limits"):
        return f"{use.owner} {use.name}: {target}"
    prefix = path_text((*(use.path or ()), "spec"))
    return f"{use.owner}: {prefix}.{target}"
