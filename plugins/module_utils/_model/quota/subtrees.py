# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MCAD's trees of QuotaSubtrees as declarations of ours: the quota of a leaf is nominal, that of others a capacity.

MCAD lets whoever is below a queue use all of its quota, whatever the quotas below it come to. So a queue above others
gets as a pool of its own what those leave of it. What MCAD did otherwise than its objects say is told in the notes.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    parse_quantity,
    quantity_text,
    scaled,
)

SUBTREE_KIND = "QuotaSubtree"
# The newest first.
SUBTREE_APIS = ("quota.codeflare.dev/v1alpha1", "ibm.com/v1")
# The label of a QuotaSubtree that says of which tree it is a part.
SUBTREE_LABEL = "tree"

# MCAD counts these and no others, and takes what a quota leaves out for nothing.
_MCAD_RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
_DEFAULT_LEAF = "default"
_UNREAD = ("disabled", "namespace", "path")


@dataclasses.dataclass(frozen=True, slots=True)
class ImportedTree:
    """The queues of a tree and the label by which gangs name them, and what is otherwise than with MCAD."""

    declaration: Data
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    """A queue as a QuotaSubtree describes it."""

    name: str | None
    parent: str | None
    requests: Data
    hard: bool
    unread: tuple[str, ...]


def import_subtrees(tree: str, mcad_tree: str, subtrees: Sequence[Mapping[str, t.Any]]) -> ImportedTree:
    """The tree of which these QuotaSubtrees are parts; whatever is wrong with it is told when it is read."""
    if not subtrees:
        cause = f"no {SUBTREE_KIND} has the label {SUBTREE_LABEL}={mcad_tree}"
        raise BadTree(tree, [Problem("from_quota_subtrees", "", cause)])
    entries = [entry for item in sorted(subtrees, key=_place) for entry in _entries(item)]
    inner = {entry.parent for entry in entries}
    below = {name: [entry.requests for entry in entries if entry.parent == name] for name in inner if name is not None}
    queues = [_queue(entry, below.get(entry.name or "")) for entry in entries]
    notes = (*_notes(mcad_tree, entries, inner), *_whole_notes(mcad_tree, entries, inner))
    return ImportedTree({"queues": queues, "label": mcad_tree}, notes)


def _place(raw: Mapping[str, t.Any]) -> tuple[str, str]:
    return str(raw["metadata"].get("namespace")), str(raw["metadata"]["name"])


def _entries(raw: Mapping[str, t.Any]) -> Iterator[_Entry]:
    """The queues of one QuotaSubtree, all below one; anybody may have written it."""
    spec = raw.get("spec") if isinstance(raw.get("spec"), Mapping) else {}
    children = (spec or {}).get("children")
    for child in children if isinstance(children, list) else ():
        if not isinstance(child, Mapping):
            continue
        quotas = child.get("quotas") if isinstance(child.get("quotas"), Mapping) else {}
        requests = (quotas or {}).get("requests")
        told = {**child, **(quotas or {})}
        yield _Entry(
            name=_text(child.get("name")),
            parent=_text((spec or {}).get("parent")),
            requests={
                **dict.fromkeys(_MCAD_RESOURCES, 0),
                **(requests if isinstance(requests, Mapping) else {}),
            },
            hard=(quotas or {}).get("hardLimit") is True,
            unread=tuple(key for key in _UNREAD if told.get(key)),
        )


def _text(value: t.Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _queue(entry: _Entry, below: Sequence[Data] | None) -> Data:
    """One queue as a user would declare it; nobody is beside a root to borrow from, so it is not hard."""
    queue: Data = {"name": entry.name, "parent": entry.parent}
    if entry.hard and entry.parent is not None:
        queue["hard"] = True
    if below is None:
        default = {"default": True} if entry.name == _DEFAULT_LEAF else {}
        return {**queue, "nominal": entry.requests, **default}
    extra = {name: _left(name, entry.requests, below) for name in entry.requests}
    pool = {name: quantity_text(name, amount) for name, amount in extra.items() if amount > 0}
    return {**queue, "capacity": entry.requests, **({"extra": pool} if pool else {})}


def _left(name: str, quota: Data, below: Sequence[Data]) -> int:
    """What the quotas below leave of a quota; nothing where one of them is no quantity, which is told elsewhere."""
    try:
        own, *rest = (scaled(name, parse_quantity(item.get(name, 0))) for item in (quota, *below))
    except BadInput:
        return 0
    return own - sum(rest)


def _notes(tree: str, entries: Sequence[_Entry], inner: set[str | None]) -> Iterator[str]:
    """What is otherwise than with MCAD at single queues."""
    for entry in entries:
        where = f"{tree} {entry.name}"
        if entry.hard and entry.parent is None:
            yield f"{where}: hardLimit of a root says nothing, since nobody is beside it"
        elif entry.hard and entry.name in inner:
            yield (
                f"{where}: it is hard and above others. MCAD never takes back there what one of them has borrowed from "
                "another; here that keeps nobody from taking back the own"
            )
        if entry.unread:
            yield f"{where}: {', '.join(entry.unread)} is not read, as with MCAD"
        more = sorted(set(entry.requests) - set(_MCAD_RESOURCES))
        if more:
            yield f"{where}: {', '.join(more)} is counted, which MCAD never did"


def _whole_notes(tree: str, entries: Sequence[_Entry], inner: set[str | None]) -> Iterator[str]:
    """What is to be known of the tree."""
    leaves = {entry.name for entry in entries} - inner
    if _DEFAULT_LEAF not in leaves:
        yield (
            f"{tree}: no leaf is called {_DEFAULT_LEAF}. A gang without the label {tree} waits, as with MCAD, until a "
            "leaf has default: true or names its namespace"
        )
    yield f"{tree}: this is a copy; what is changed in QuotaSubtrees later counts when this task runs again"
