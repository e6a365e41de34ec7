# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who uses what: the records of all gangs, and the labels of namespaces that selectors of queues look at."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import ChargedTree, charge_records
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.plugins.module_utils._store.appwrapper_kind import wrapper_problem
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records

Object = dict[str, t.Any]


@dataclasses.dataclass(frozen=True, slots=True)
class UseReading:
    """The gangs of all namespaces, None where they may not be listed, and the labels of namespaces."""

    records: tuple[Record, ...] | None
    namespace_labels: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...] = ()

    def charged(self, tree: QuotaTree) -> ChargedTree | None:
        """What gangs use of a tree; None where they may not be seen."""
        if self.records is None:
            return None
        return charge_records(TreeUsage(tree), self.records, self.namespace_labels)


def read_use(client: KubeClient) -> UseReading:
    """Read what is needed to say what is used of any tree; what may not be seen is told in the notes."""
    notes = []
    records: tuple[Record, ...] | None = None
    labels: dict[str, Mapping[str, str]] = {}
    try:
        store = Records(client, every_wrapper=wrapper_problem(client) is None)
        records = tuple(store.list(None, finished=False))
    except Forbidden:
        notes.append("this account may not list the records of all gangs, so that nobody can tell what is used")
    try:
        found = list_objects(client, resource_path("v1", "namespaces"), keep=_named_labels).items
        labels = dict(found)
    except Forbidden:
        notes.append("this account may not list namespaces, so that no selector of a queue holds any")
    return UseReading(records, labels, tuple(notes))


def _named_labels(raw: Object) -> tuple[str, Mapping[str, str]]:
    """Name and labels of a namespace."""
    return raw["metadata"]["name"], raw["metadata"].get("labels") or {}
