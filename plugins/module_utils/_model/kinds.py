# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of kinds whose pods can be inferred; one more kind is one more entry.

A gang is what will run: spec.suspend on an object does not shrink it, since dispatchers start suspended objects. Only a
suspended worker group of a RayCluster counts nothing, because starting the cluster does not start the group.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.kinds_base import (
    ACTION,
    Handler,
    NeedsPodsets,
    Object,
    Path,
    Reader,
    TemplateUse,
)
from ansible_collections.muster.kube.plugins.module_utils._model.kinds_kubeflow import KUBEFLOW_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.kinds_podless import PODLESS_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.kinds_ray import RAY_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.kinds_workloads import WORKLOAD_KINDS

Container = Callable[[Reader, str], list[TemplateUse]]

_PATH_PART = re.compile(r"\.([A-Za-z0-9_-]+)|\[([0-9]+)\]")
_NO_TEMPLATE: Object = {"metadata": {}, "spec": {}}


def pod_templates(obj: Object, where: str, *, namespace: str = "default") -> list[TemplateUse]:
    """The pod templates of one object of a known kind; where names it in messages."""
    if not isinstance(obj, Mapping):
        raise BadInput(ACTION, where, f"an object is a mapping, this is a {type(obj).__name__}")
    reader = Reader(obj, where)
    key = _group_and_kind(reader)
    if key in CONTAINERS:
        return CONTAINERS[key](reader, namespace)
    if key not in KINDS:
        if key in PODLESS_KINDS:
            return []
        group = f" of group {key[0]}" if key[0] else ""
        raise NeedsPodsets(ACTION, where, f"unknown kind {key[1]}{group}; declare podsets for it")
    _require_name(reader)
    return [dataclasses.replace(use, owner=use.owner or where) for use in KINDS[key](reader)]


def describe_object(obj: t.Any, namespace: str, index: int | None = None) -> str:
    """An object's kind, namespace and name for messages; its place in the list when it has no name."""
    if not isinstance(obj, Mapping):
        return f"object {index}" if index is not None else "the object"
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name") or metadata.get("generateName")
    kind = obj.get("kind") or "object"
    if not name:
        return f"{kind} {index}" if index is not None else f"{kind}"
    return f"{kind} {metadata.get('namespace') or namespace}/{name}"


def _group_and_kind(reader: Reader) -> tuple[str, str]:
    """The object's API group and kind; both fields must be there."""
    kind = reader.text(("kind",))
    group, slash, _version = reader.text(("apiVersion",)).rpartition("/")
    return (group if slash else "", kind)


def _require_name(reader: Reader) -> None:
    """An object that makes pods needs a name or the stem of a generated one."""
    metadata = reader.mapping(("metadata",))
    if not metadata.get("name") and not metadata.get("generateName"):
        raise reader.fail(("metadata", "name"), "it is missing")


def _nested(reader: Reader, path: Path, namespace: str) -> list[TemplateUse]:
    """The templates of an object inside another one, with paths from the outer object."""
    inner = reader.mapping(path)
    where = describe_object(inner, namespace, path[-1] if isinstance(path[-1], int) else None)
    uses = pod_templates(inner, f"{where} in {reader.where}", namespace=namespace)
    return [dataclasses.replace(use, path=None if use.path is None else (*path, *use.path)) for use in uses]


def _list(reader: Reader, namespace: str) -> list[TemplateUse]:
    """The objects of a List, one after the other."""
    uses: list[TemplateUse] = []
    for item in reader.items(("items",)):
        uses.extend(_nested(reader, item, namespace))
    return uses


def _app_wrapper(reader: Reader, namespace: str) -> list[TemplateUse]:
    """The wrapped objects of an AppWrapper of either generation."""
    _require_name(reader)
    inner_namespace = str(reader.mapping(("metadata",)).get("namespace") or namespace)
    if reader.text(("apiVersion",)).endswith("/v1beta1"):
        base: Path = ("spec", "resources", "GenericItems")
        wrapped = _generic_item
    else:
        base = ("spec", "components")
        wrapped = _component
    uses: list[TemplateUse] = []
    for item in reader.items(base):
        uses.extend(wrapped(reader, item, inner_namespace))
    return uses


def _generic_item(reader: Reader, item: Path, namespace: str) -> list[TemplateUse]:
    """One wrapped object of MCAD's AppWrapper; pods declared in custompodresources win over the inferred size.

    The template keeps its say about constraints as long as the declaration and the inference see the same podsets.
    """
    path = (*item, "generictemplate")
    declared = reader.items((*item, "custompodresources"), required=False)
    if not declared:
        return _nested(reader, path, namespace)
    try:
        inferred = _nested(reader, path, namespace)
    except NeedsPodsets:
        inferred = []
    counts = [reader.count((*entry, "replicas"), 1) for entry in declared]
    if [use.count for use in inferred] != counts:
        inner = reader.mapping(path)
        owner = f"{describe_object(inner, namespace)} in {reader.where}"
        stem = str((inner.get("metadata") or {}).get("name") or reader.name)
        inferred = [
            TemplateUse(f"{stem}/{index}" if len(counts) > 1 else stem, count, _NO_TEMPLATE, None, owner=owner)
            for index, count in enumerate(counts)
        ]
    return [
        dataclasses.replace(
            use,
            requests=reader.mapping((*entry, "requests")),
            limits=reader.mapping((*entry, "limits"), required=False),
        )
        for use, entry in zip(inferred, declared, strict=True)
    ]


def _component(reader: Reader, item: Path, namespace: str) -> list[TemplateUse]:
    """One wrapped object of AppWrapper v1beta2; its podSets say where the templates are when the kind is unknown."""
    base = (*item, "template")
    try:
        return _nested(reader, base, namespace)
    except NeedsPodsets:
        declared = reader.items((*item, "podSets"), required=False)
        if not declared:
            raise
    inner = reader.mapping(base)
    owner = f"{describe_object(inner, namespace)} in {reader.where}"
    stem = str((inner.get("metadata") or {}).get("name") or reader.name)
    uses: list[TemplateUse] = []
    for index, entry in enumerate(declared):
        path = (*base, *_component_path(reader, (*entry, "path")))
        name = f"{stem}/{index}" if len(declared) > 1 else stem
        uses.append(TemplateUse(name, reader.count((*entry, "replicas"), 1), reader.template(path), path, owner=owner))
    return uses


def _component_path(reader: Reader, field: Path) -> Path:
    """A podSet's path (template, then .name and [n]) as a path inside the wrapped object."""
    text = reader.text(field)
    rest = text.removeprefix("template")
    if rest == text or _PATH_PART.sub("", rest):
        raise reader.fail(field, f"{text!r} is no path; it begins with template, followed by .name and [number]")
    return tuple(int(found[2]) if found[2] else found[1] for found in _PATH_PART.finditer(rest))


KINDS: dict[tuple[str, str], Handler] = {**WORKLOAD_KINDS, **KUBEFLOW_KINDS, **RAY_KINDS}

# Kinds that hold other objects.
CONTAINERS: dict[tuple[str, str], Container] = {
    ("", "List"): _list,
    ("workload.codeflare.dev", "AppWrapper"): _app_wrapper,
    ("mcad.ibm.com", "AppWrapper"): _app_wrapper,
}
