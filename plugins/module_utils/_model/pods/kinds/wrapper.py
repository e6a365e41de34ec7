# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds that hold other objects: Lists, and AppWrappers of both generations."""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    Kind,
    NeedsPodsets,
    Object,
    Path,
    Reader,
    TemplateUse,
    describe_object,
)

WRAPPER_GROUPS = ("workload.codeflare.dev", "mcad.ibm.com")

_PATH_PART = re.compile(r"\.([A-Za-z0-9_-]+)|\[([0-9]+)\]")
_NO_TEMPLATE: Object = {"metadata": {}, "spec": {}}


def _nested(reader: Reader, path: Path, namespace: str) -> list[TemplateUse]:
    """The templates of an object inside another one, with paths from the outer object."""
    inner = reader.mapping(path)
    where = describe_object(inner, namespace, path[-1] if isinstance(path[-1], int) else None)
    uses = reader.infer(inner, f"{where} in {reader.where}", namespace)
    return [dataclasses.replace(use, path=None if use.path is None else (*path, *use.path)) for use in uses]


def _list(reader: Reader) -> list[TemplateUse]:
    """The objects of a List, one after the other."""
    uses: list[TemplateUse] = []
    for item in reader.items(("items",)):
        uses.extend(_nested(reader, item, reader.namespace))
    return uses


def _app_wrapper(reader: Reader) -> list[TemplateUse]:
    """The wrapped objects of an AppWrapper of either generation."""
    reader.require_name()
    inner_namespace = str(reader.mapping(("metadata",)).get("namespace") or reader.namespace)
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


WRAPPER_KINDS = (Kind("", "List", _list), *(Kind(group, "AppWrapper", _app_wrapper) for group in WRAPPER_GROUPS))
