# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what quota_info returns to the rows of a quota tree."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.report.quota import (
    AmountRow,
    QueueRow,
    QuotaTreeSection,
    TreeRows,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Fields
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity, scaled

# The columns of what is told beside the amounts, as quota_info names them.
PAIR_KEYS = ("starved", "resource", "short", "waiting", "borrower", "borrowed")
DRIFT_KEYS = ("gang", "queue", "what", "resource", "charged", "used")


def read_quota_tree(data: Mapping[str, t.Any], where: str) -> QuotaTreeSection:
    """A section from the user's values; where names it in complaints."""
    section = Fields(data, where)
    trees = [Fields(entry, f"{where}.trees[{place}]") for place, entry in enumerate(section.sequence("trees"))]
    return QuotaTreeSection(section.text("title") or "Quota", tuple(_tree(entry) for entry in trees))


def _tree(entry: Fields) -> TreeRows:
    """One tree; without the keys of later versions, or of none."""
    queues = [Fields(item, f"{entry.where}.queues[{place}]") for place, item in enumerate(entry.sequence("queues"))]
    return TreeRows(
        name=entry.required_text("name"),
        problem=_words(entry.get("detail")) or _words(entry.get("problem")),
        as_of=_words(entry.get("as_of")),
        published=entry.get("published") is True,
        queues=tuple(_queue(item) for item in queues),
        fairness={str(name): _index(entry, name, value) for name, value in entry.mapping("fairness").items()},
        pairs=_lines(entry, "pairs", PAIR_KEYS),
        unqueued=[_unqueued(entry, item) for item in entry.sequence("unqueued")],
        drift=_lines(entry, "drift", DRIFT_KEYS),
    )


def _queue(entry: Fields) -> QueueRow:
    """One queue; its depth is that of its path."""
    name = entry.required_text("name")
    path = entry.text("path") or name
    amounts = [
        Fields(item, f"{entry.where}.resources[{place}]") for place, item in enumerate(entry.sequence("resources"))
    ]
    stop = entry.text("stop") or "none"
    return QueueRow(
        name=name,
        path=path,
        depth=path.count("/"),
        stop="" if stop == "none" else stop,
        started=_count(entry, "started"),
        waiting=_count(entry, "waiting"),
        amounts=tuple(_amount(item) for item in amounts),
    )


def _amount(entry: Fields) -> AmountRow:
    """The amounts of one resource."""
    resource = entry.required_text("resource")

    def amount(key: str) -> int | None:
        value = entry.get(key)
        try:
            return None if value is None else scaled(resource, parse_quantity(value))
        except (BadInput, TypeError) as error:
            raise entry.fail(key, f"a quantity such as 8 or 64Gi is needed, not {value!r}") from error

    return AmountRow(
        resource,
        entry.text("flavor") or "",
        amount("entitled") or 0,
        *(amount(key) for key in ("used", "borrowed", "lent", "headroom", "idle")),
    )


def _count(entry: Fields, key: str) -> int | None:
    return None if entry.get(key) is None else entry.whole(key, 0, INT32 - 1)


def _index(entry: Fields, name: t.Any, value: t.Any) -> float | None:
    """Jain's index of a resource."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise entry.fail(f"fairness.{name}", f"a number is needed, not {value!r}")
    return float(value)


def _lines(entry: Fields, key: str, columns: tuple[str, ...]) -> list[list[str]]:
    """A list of mappings as rows of texts."""
    items = [Fields(item, f"{entry.where}.{key}[{place}]") for place, item in enumerate(entry.sequence(key))]
    return [[_words(item.get(column)) for column in columns] for item in items]


def _unqueued(entry: Fields, value: t.Any) -> list[str]:
    """What pods of one namespace ask for outside of gangs."""
    item = Fields(value, f"{entry.where}.unqueued")
    amounts = ", ".join(f"{_words(amount)} {name}" for name, amount in item.mapping("resources").items())
    return [_words(item.get("namespace")), _words(item.get("queue")), _words(item.get("pods")), amounts]


def _words(value: t.Any) -> str:
    return "" if value is None else str(value)
