# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a dispatcher publishes of a tree: amounts by queue, without names of gangs, users or namespaces.

Whoever may not list the records of all namespaces is answered from it. A dispatcher never relies on it.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    NO_FLAVOR,
    FlavorResource,
    QuotaAmounts,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, Fields, parse_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    parse_quantity,
    quantity_text,
    scaled,
)

STATUS_PREFIX = "muster-quota-status-"
STATUS_LABEL = "muster.kube/quota-status"
STATUS_KEY = "status.json"
STATUS_FORMAT = 1
AMOUNTS = ("nominal", "used", "borrowed", "lent", "headroom")
_KEYS = ("format", "tree", "digest", "as_of", "queues")


@dataclasses.dataclass(frozen=True, slots=True)
class QueueStatus:
    """One queue: how many gangs of it and of those below it are started and wait, and its amounts by what they are."""

    started: int = 0
    waiting: int = 0
    amounts: Mapping[str, QuotaAmounts] = dataclasses.field(default_factory=dict)

    @property
    def used(self) -> QuotaAmounts:
        """What it and those below it use."""
        return self.amounts.get("used", {})


@dataclasses.dataclass(frozen=True, slots=True)
class TreeStatus:
    """The amounts of one tree as they were at some moment; digest names the version of the tree that they are of."""

    tree: str
    digest: str
    as_of: str
    queues: Mapping[str, QueueStatus]
    unknown: Data = dataclasses.field(default_factory=dict)

    def same_amounts(self, other: TreeStatus) -> bool:
        """Whether another one tells the same, whenever that was."""
        return dataclasses.replace(self, as_of="", unknown={}) == dataclasses.replace(other, as_of="", unknown={})


def status_name(tree: str) -> str:
    """The ConfigMap that holds the status of a tree."""
    return f"{STATUS_PREFIX}{tree}"


def status_text(status: TreeStatus) -> str:
    """The text that is stored, always the same for the same amounts."""
    data = {
        **status.unknown,
        "format": STATUS_FORMAT,
        "tree": status.tree,
        "digest": status.digest,
        "as_of": status.as_of,
        "queues": {name: _queue_data(queue) for name, queue in sorted(status.queues.items())},
    }
    return json.dumps(data, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def status_from_text(tree: str, text: t.Any) -> TreeStatus:
    """What a stored text tells of a tree; BadInput, or NewerVersion, where it tells nothing that can be relied on.

    A queue or an amount that somebody damaged makes the whole useless: what is missing would look free.
    """
    fields = Fields(parse_json(text, f"status of the quota tree {tree}"), f"status of the quota tree {tree}")
    fields.require_format(STATUS_FORMAT)
    if fields.required_text("tree") != tree:
        raise fields.fail("tree", f"it is the status of tree {fields.get('tree')!r}")
    queues = {
        str(name): _read_queue(Fields(entry, f"{fields.where}: queues.{name}"))
        for name, entry in fields.mapping("queues").items()
    }
    return TreeStatus(
        tree, fields.required_text("digest"), fields.required_text("as_of"), queues, fields.unknown(_KEYS)
    )


def _queue_data(queue: QueueStatus) -> Data:
    """One queue; each resource with all of its amounts."""
    keys = sorted({key for amounts in queue.amounts.values() for key in amounts})
    resources = []
    for key in keys:
        flavor = {} if key.flavor == NO_FLAVOR else {"flavor": key.flavor}
        texts = {
            word: quantity_text(key.resource, amounts[key]) for word, amounts in queue.amounts.items() if key in amounts
        }
        resources.append({**flavor, "resource": key.resource, **texts})
    return {"started": queue.started, "waiting": queue.waiting, "resources": resources}


def _read_queue(fields: Fields) -> QueueStatus:
    """One queue as it is stored."""
    amounts: dict[str, dict[FlavorResource, int]] = {word: {} for word in AMOUNTS}
    for place, entry in enumerate(fields.sequence("resources")):
        item = Fields(entry, f"{fields.where}.resources[{place}]")
        key = FlavorResource(item.text("flavor") or NO_FLAVOR, item.required_text("resource"))
        for word in AMOUNTS:
            amount = scaled(key.resource, parse_quantity(item.required_text(word)))
            if amount < 0:
                raise item.fail(word, "it is less than nothing")
            amounts[word][key] = amount
    return QueueStatus(fields.whole("started", 0, INT32 - 1), fields.whole("waiting", 0, INT32 - 1), amounts)
