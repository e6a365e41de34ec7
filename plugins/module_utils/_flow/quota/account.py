# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tree with what is used of it, as data, as text, and as a table for spreadsheets."""

from __future__ import annotations

import csv
import io
import typing as t
from collections.abc import Collection, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import QueueLevel
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import NO_FLAVOR, QuotaQueue, QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import describe, quantity_text
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import ChargedTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.fairness import tree_fairness
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

Data = dict[str, t.Any]

_OF_QUEUE = ("path", "name", "parent", "leaf", "stop", "started", "waiting", "weighted_share")
_OF_RESOURCE = ("flavor", "resource", "entitled", "used", "borrowed", "lent", "headroom", "idle")
COLUMNS = ("tree", *_OF_QUEUE, *_OF_RESOURCE, "as_of")
# What makes a spreadsheet read a cell as a formula, or look behind a break for one.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_USE = ("used", "borrowed", "lent", "headroom")


def queues_data(tree: QuotaTree, charged: ChargedTree | None) -> list[Data]:
    """Every queue with what it is entitled to, and what is used of that where it may be seen."""
    usage = TreeUsage(tree) if charged is None else charged.usage
    return [_queue(usage, queue, charged) for queue in tree.queues]


def _queue(usage: TreeUsage, queue: QuotaQueue, charged: ChargedTree | None) -> Data:
    """One queue."""
    leaf = not usage.tree.children[queue.name]
    counts = charged.counts.get(queue.name) if charged is not None else None
    return {
        "name": queue.name,
        "path": usage.tree.path(queue.name),
        "parent": queue.parent,
        "leaf": leaf,
        "stop": queue.stop,
        "started": counts.started if counts is not None else None,
        "waiting": counts.waiting if counts is not None else None,
        "weighted_share": None if charged is None else usage.share(queue.name).rounded,
        "resources": [_resource(level, charged is not None) for level in usage.standing(queue.name)],
    }


def _resource(level: QueueLevel, seen: bool) -> Data:
    """One resource of a queue; idle is what it neither uses nor has lent."""
    name = level.key.resource
    amounts = {key: getattr(level, key) for key in _USE} | {"idle": max(0, level.nominal - level.used - level.lent)}
    return {
        "flavor": None if level.key.flavor == NO_FLAVOR else level.key.flavor,
        "resource": name,
        "entitled": quantity_text(name, level.nominal),
        **{key: quantity_text(name, amount) if seen else None for key, amount in amounts.items()},
    }


def fairness_data(charged: ChargedTree | None) -> dict[str, float | None]:
    """Jain's index by resource, rounded as people read it; empty where use may not be seen."""
    if charged is None:
        return {}
    return {
        name: None if index is None else round(float(index), 4) for name, index in tree_fairness(charged.usage).items()
    }


def tree_lines(tree: QuotaTree, charged: ChargedTree | None, shown: Collection[str] | None = None) -> list[str]:
    """The tree for people: one line for each queue, or each that is to be shown, indented by its depth."""
    usage = TreeUsage(tree) if charged is None else charged.usage
    lines = []
    for queue in tree.queues:
        if shown is not None and queue.name not in shown:
            continue
        depth = len(tree.ancestry(queue.name)) - 1
        parts = [_amount_text(level, charged is not None) for level in usage.standing(queue.name)]
        counts = charged.counts.get(queue.name) if charged is not None else None
        gangs = f" ({counts.started} started, {counts.waiting} waiting)" if counts is not None else ""
        held = f" [stop: {queue.stop}]" if queue.stop != "none" else ""
        lines.append(f"{'  ' * depth}{queue.name}{held}: {', '.join(filter(None, parts)) or 'nothing'}{gangs}")
    return lines


def _amount_text(level: QueueLevel, seen: bool) -> str:
    """One resource in words; nothing of what a queue neither has nor uses."""
    if not level.nominal and not level.used:
        return ""
    name = level.key.resource
    of = "" if level.key.flavor == NO_FLAVOR else f" of {level.key.flavor}"
    if not seen:
        return f"{describe(name, level.nominal)} {name}{of}"
    more = [f"{word} {describe(name, amount)}" for word, amount in (("borrowed", level.borrowed), ("lent", level.lent))]
    told = [text for text, amount in zip(more, (level.borrowed, level.lent), strict=True) if amount]
    rest = f" ({', '.join(told)})" if told else ""
    return f"{describe(name, level.used)} of {describe(name, level.nominal)} {name}{of} used{rest}"


def trees_csv(trees: Sequence[Data]) -> str:
    """A row for each queue and resource of these trees, as quota_info tells them; a queue without any has one row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for tree in trees:
        for queue in tree["queues"]:
            for item in queue["resources"] or [{}]:
                cells = {**item, **{key: queue[key] for key in _OF_QUEUE}, "tree": tree["name"], "as_of": tree["as_of"]}
                writer.writerow([harmless(cells.get(column)) for column in COLUMNS])
    return text.getvalue()


def harmless(value: t.Any) -> str:
    """A cell; a text that would be a formula begins with an apostrophe, by which spreadsheets know that it is none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text
