# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Amounts of queues that are declared as a share of what nodes have, taken out of a declaration before it is read."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Iterator, Mapping
from fractions import Fraction

from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import written_path
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem

FROM_NODES = "from_nodes"
SHARE_KEYS = ("share", "resources", "node_selector", "less_daemons")

_SHARE = re.compile(r"[0-9]{1,30}(?:\.[0-9]{1,30})?|[0-9]{1,30}/0*[1-9][0-9]{0,29}")


@dataclasses.dataclass(frozen=True, slots=True)
class NodeShare:
    """How much of some resources of selected nodes; less_daemons leaves out what pods of DaemonSets ask for."""

    share: Fraction
    resources: tuple[str, ...]
    node_selector: Mapping[str, str]
    less_daemons: bool


@dataclasses.dataclass(frozen=True, slots=True)
class SharedQueue:
    """A queue, by its place in the list, that has such a share: nominal of a leaf, capacity of one above others."""

    index: int
    path: str
    field: str
    wanted: NodeShare


@dataclasses.dataclass(frozen=True, slots=True)
class SharedDeclaration:
    """A declaration without its shares, the shares, and what is wrong with them."""

    declaration: Data
    shared: tuple[SharedQueue, ...]
    problems: tuple[Problem, ...]


def take_node_shares(declaration: Mapping[str, t.Any]) -> SharedDeclaration:
    """Take the shares out of a declaration; whatever else is wrong with it is for read_tree to tell."""
    listed = declaration.get("queues")
    queues = listed if isinstance(listed, list) else []
    known = {item["name"]: item.get("parent") for item in queues if _named(item)}
    inner = set(known.values())
    rest, shared, problems = list(queues), [], []
    for index, item in enumerate(queues):
        if not _named(item) or FROM_NODES not in item:
            continue
        rest[index] = {key: value for key, value in item.items() if key != FROM_NODES}
        if item[FROM_NODES] is None:
            continue
        path = written_path(item["name"], known)
        field = "capacity" if item["name"] in inner else "nominal"
        try:
            wanted = _read_share(Fields(item[FROM_NODES], f"{path}: {FROM_NODES}"))
        except BadInput as error:
            told = error.target.removeprefix(f"{path}: ").replace(": ", ".")
            problems.append(Problem(path, told, error.cause))
            continue
        problems += _contradictions(path, field, item.get(field), wanted)
        shared.append(SharedQueue(index, path, field, wanted))
    return SharedDeclaration({**declaration, "queues": rest} if queues else {**declaration}, (*shared,), (*problems,))


def _named(item: t.Any) -> bool:
    """Whether a queue has a name, and perhaps a parent, that others can be found by."""
    return (
        isinstance(item, Mapping)
        and isinstance(item.get("name"), str)
        and isinstance(item.get("parent"), str | type(None))
    )


def _read_share(fields: Fields) -> NodeShare:
    """One share as it was declared."""
    fields.only(SHARE_KEYS)
    text = str(fields.get("share"))
    if not _SHARE.fullmatch(text) or Fraction(text) > 1:
        raise fields.fail("share", f"a part of 1 is needed, such as 0.25 or 1/3, not {text!r}")
    resources = fields.sequence("resources")
    if not resources or not all(isinstance(name, str) and name for name in resources):
        raise fields.fail("resources", "name the resources, such as [cpu, memory, nvidia.com/gpu]")
    selector = fields.mapping("node_selector")
    for key, value in selector.items():
        if not isinstance(value, str):
            raise fields.fail(f"node_selector.{key}", f"a text is needed, not {value!r}; quote it")
    less = True if fields.get("less_daemons") is None else fields.flag("less_daemons")
    return NodeShare(Fraction(text), tuple(dict.fromkeys(resources)), dict(selector), less)


def _contradictions(path: str, field: str, amounts: t.Any, wanted: NodeShare) -> Iterator[Problem]:
    """Resources of which both a share and an amount are declared."""
    given = amounts if isinstance(amounts, Mapping) else {}
    named = {*given, *(name for value in given.values() if isinstance(value, Mapping) for name in value)}
    for name in wanted.resources:
        if name in named:
            yield Problem(path, f"{FROM_NODES}.resources", f"{field} has an amount of {name} too; give one of them")
