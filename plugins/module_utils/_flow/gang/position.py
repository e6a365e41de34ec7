# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Places in queues: the order a dispatcher would ask the waiting gangs of each queue in."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.quota.reading import named_labels
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.charging import applicant
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import Applicant, line_up
from ansible_collections.muster.kube.plugins.module_utils._store.appwrapper_kind import wrapper_problem
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import list_stored_trees

Scope = t.Literal["cluster", "namespace"]


@dataclasses.dataclass(frozen=True, slots=True)
class QueueReading:
    """The records of the cluster, or of the namespaces that may be seen (scope), and the server's time.

    trees are the quota trees that say which queue a gang is in, namespaces the labels of namespaces.
    """

    records: list[Record]
    scope: Scope
    now: float
    trees: t.Sequence[QuotaTree] = ()
    namespaces: t.Mapping[str, t.Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def positions(self, gangs: t.Iterable[Applicant | None] | None = None) -> dict[str, int]:
        """Places by uid in each gang's own queue, counted from 1, of these gangs or of the records.

        Gangs that pause have none. Without a quota tree all gangs are one queue.
        """
        asked = map(applicant, self.records) if gangs is None else gangs
        counts: collections.Counter[str | None] = collections.Counter()
        places = {}
        for line, gang in line_up((one for one in asked if one is not None), self.trees, self.namespaces, self.now):
            counts[line] += 1
            places[gang.uid] = counts[line]
        return places


def read_queue(client: KubeClient, namespaces: t.Sequence[str], home: str, *, finished: bool = False) -> QueueReading:
    """All records of the cluster, finished ones if asked for; only of these namespaces where no more may be seen.

    home is the namespace of the Lease, where quota trees are; who may not read them knows of none.
    """
    store = Records(client, every_wrapper=wrapper_problem(client) is None)
    scope: Scope = "cluster"
    try:
        records = store.list(None, finished=finished)
    except Forbidden:
        if not namespaces:
            raise
        records, scope = store.list(namespaces, finished=finished), "namespace"
    now = client.server_time.timestamp() if client.server_time else 0.0
    trees = _read_trees(client, home)
    selecting = any(queue.selector is not None for tree in trees for queue in tree.queues)
    return QueueReading(records, scope, now, trees, _read_labels(client) if selecting else {})


def _read_trees(client: KubeClient, home: str) -> list[QuotaTree]:
    """The trees that can be read and that dispatchers of ours count."""
    with contextlib.suppress(Forbidden, NotFound):
        found = [item.tree for item in list_stored_trees(client, home) if item.tree is not None]
        return [tree for tree in found if tree.counted_by == "embedded"]
    return []


def _read_labels(client: KubeClient) -> dict[str, t.Mapping[str, str]]:
    """The labels of namespaces; none where they may not be listed."""
    with contextlib.suppress(Forbidden):
        return dict(list_objects(client, resource_path("v1", "namespaces"), keep=named_labels).items)
    return {}
