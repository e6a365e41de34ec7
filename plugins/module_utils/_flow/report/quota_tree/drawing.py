# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section that shows quota trees: one row of bars for each queue, and the same data as tables.

Bars are laid out in percent of what each queue is entitled to, so that small queues are as readable as large ones.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import Axis, Tick
from ansible_collections.muster.kube.plugins.module_utils._flow.report.quota_tree.entries import read_quota_tree
from ansible_collections.muster.kube.plugins.module_utils._flow.report.section import Figure, Section, Table
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import NOTHING, amount_text, counted
from ansible_collections.muster.kube.plugins.module_utils._model.report.quota import (
    AmountRow,
    QueueRow,
    QuotaTreeSection,
    TreeRows,
)

# Bars end here, in percent of what a queue is entitled to; the axis goes on, since words stand behind the bars.
MOST, _END = 150.0, 270.0
_TICKS = (0.0, 50.0, 100.0, 150.0)
BAR, _GAP = 12, 5
_INDENT = 0.9
_LEAST_FAIR = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaBar:
    """The bar of one resource: places and widths in percent of the chart; cut says that it is longer than it looks."""

    top: int
    own: float
    used: float
    borrowed_from: float
    borrowed: float
    lent_from: float
    lent: float
    cut: bool
    words: str
    words_at: float
    hover: str


@dataclasses.dataclass(frozen=True, slots=True)
class QueueBars:
    """One row: the queue, how far its name is moved in, what is told beside it, and its bars."""

    queue: QueueRow
    indent: float
    context: str
    height: int
    bars: tuple[QuotaBar, ...]


AXIS = Axis(0.0, _END)
_LAID = dataclasses.replace(AXIS, ticks=tuple(Tick(at, AXIS.place(at), f"{at:.0f} %") for at in _TICKS))


def draw_quota_tree(section: QuotaTreeSection) -> dict[str, t.Any]:
    """What the template shows."""
    return {
        "lede": _lede(section),
        "figures": _figures(section),
        "trees": [(tree, [lay_queue(queue) for queue in tree.queues], _tables(tree)) for tree in section.trees],
        "axis": _LAID,
        "bar_height": BAR,
        "several_trees": len(section.trees) > 1,
        "legend": (
            ("own", "entitled to"),
            ("used", "used of its own"),
            ("borrowed", "borrowed"),
            ("lent", "lent to others"),
        ),
    }


def lay_queue(queue: QueueRow) -> QueueBars:
    """The row of one queue; resources that it neither has nor uses are left out."""
    shown = [item for item in queue.amounts if item.matters]
    bars = tuple(_lay(item, _GAP + place * (BAR + _GAP)) for place, item in enumerate(shown))
    height = max(1, len(shown)) * (BAR + _GAP) + _GAP
    return QueueBars(queue, queue.depth * _INDENT, _context(queue), height, bars)


def _lay(item: AmountRow, top: int) -> QuotaBar:
    """One bar: what is used of the queue's own from the left, what it lent up to its end, what it borrowed behind."""
    own = min(item.own, item.entitled)
    used, lent = _share(own, item), _share(min(item.lent or 0, max(0, item.entitled - own)), item)
    whole = 100.0 if item.entitled else 0.0
    borrowed = _share(item.borrowed or 0, item) if item.entitled else (MOST if item.borrowed else 0.0)
    end = min(MOST, whole + borrowed)
    return QuotaBar(
        top=top,
        own=AXIS.place(whole),
        used=AXIS.place(used),
        borrowed_from=AXIS.place(whole),
        borrowed=AXIS.place(end) - AXIS.place(whole),
        lent_from=AXIS.place(whole - lent),
        lent=AXIS.place(whole) - AXIS.place(whole - lent),
        cut=whole + borrowed > MOST,
        words=_amount_words(item),
        words_at=AXIS.place(MOST) + 1.5,
        hover=_hover(item),
    )


def _share(amount: int, item: AmountRow) -> float:
    """An amount in percent of what the queue is entitled to."""
    return 100.0 * amount / item.entitled if item.entitled else 0.0


def _amount_words(item: AmountRow) -> str:
    """What stands behind a bar."""
    if item.used is None:
        return f"{amount_text(item.resource, item.entitled)} {item.name}"
    more = f", {amount_text(item.resource, item.borrowed)} borrowed" if item.borrowed else ""
    lent = f", {amount_text(item.resource, item.lent)} lent" if item.lent else ""
    used, entitled = (amount_text(item.resource, amount) for amount in (item.used, item.entitled))
    return f"{used} of {entitled} {item.name}{more}{lent}"


def _hover(item: AmountRow) -> str:
    """Everything about one resource of a queue."""
    words = ("entitled", "used", "borrowed", "lent", "headroom", "idle")
    amounts = [(word, getattr(item, word)) for word in words]
    return "\n".join(
        [item.name, *(f"{word}: {amount_text(item.resource, value)}" for word, value in amounts if value is not None)]
    )


def _context(queue: QueueRow) -> str:
    """What is told beside the name of a queue."""
    parts = [queue.stop and f"stop: {queue.stop}"]
    if queue.started is not None:
        parts.append(f"{queue.started} started")
    if queue.waiting:
        parts.append(f"{queue.waiting} waiting")
    return " · ".join(part for part in parts if part)


def _lede(section: QuotaTreeSection) -> str:
    """What the section is about, in one line."""
    parts = [counted(len(section.trees), "tree"), counted(section.queues, "queue")]
    moments = sorted({tree.as_of for tree in section.trees if tree.as_of})
    if moments:
        parts.append(f"as of {moments[0]}")
    if any(tree.published for tree in section.trees):
        parts.append("amounts as a dispatcher published them")
    return " · ".join(parts)


def _figures(section: QuotaTreeSection) -> list[Figure]:
    """The numbers a reader asks for first."""
    queues = [queue for tree in section.trees for queue in tree.queues]
    started, waiting = (sum(getattr(queue, key) or 0 for queue in queues) for key in ("started", "waiting"))
    borrowing = [queue for queue in queues if any(item.borrowed for item in queue.amounts)]
    starved = {(tree.name, pair[0]) for tree in section.trees for pair in tree.pairs}
    known = [(index, name) for tree in section.trees for name, index in tree.fairness.items() if index is not None]
    least = min(known, default=None)
    return [
        Figure("Queues", str(len(queues)), counted(len(section.trees), "tree")),
        Figure("Started", str(started), "gangs"),
        Figure("Waiting", str(waiting), "gangs"),
        Figure("Borrowing", str(len(borrowing)), "queues"),
        Figure("Starved", str(len(starved)), "queues", bool(starved)),
        Figure(
            "Jain's index",
            NOTHING if least is None else f"{least[0]:.2f}",
            "nothing is used" if least is None else f"{least[1]}; 1 is even",
            least is not None and least[0] < _LEAST_FAIR,
        ),
    ]


def _tables(tree: TreeRows) -> list[Table]:
    """What an administrator should look at; tables that would be empty are left out."""
    index = [[name, NOTHING if value is None else f"{value:.4f}"] for name, value in sorted(tree.fairness.items())]
    drift = [_drift_row(row) for row in tree.drift]
    found = [
        Table(
            "Who lacks what others borrowed",
            ["Starved queue", "Resource", "Short", "Waiting gangs", "Borrower", "Borrowed"],
            tree.pairs,
        ),
        Table("Pods outside of gangs, not counted", ["Namespace", "Queue", "Pods", "Ask for"], tree.unqueued),
        Table(
            "Gangs that are not what their records say",
            ["Gang", "Queue", "What differs", "Charged", "Pods ask for"],
            drift,
        ),
        Table("How evenly it is used (Jain's index)", ["Resource", "Index"], index),
    ]
    return [table for table in found if table.rows]


def _drift_row(row: t.Sequence[str]) -> list[str]:
    gang, queue, what, resource, charged, used = row
    return [gang, queue, "the queue is gone" if what == "queue_gone" else resource, charged, used]


QUOTA_TREE = Section(
    read=read_quota_tree,
    draw=draw_quota_tree,
    summary=lambda section: {"trees": len(section.trees), "queues": section.queues},
    options={"trees": {"type": "list", "elements": "dict", "default": []}},
)
