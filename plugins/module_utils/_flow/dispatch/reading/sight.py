# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which records a run sees: it reads more than it may touch, because room is promised everywhere."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import Sight
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records


def read_records(records: Records, terms: DispatchOptions, blind: str | None = None, *, finished: bool) -> Sight:
    """Read the records of all namespaces, or, where this account may not, of those the run is for.

    Finished ones are left out by the server unless they are asked for.

    blind is what an earlier reading found out; an account does not get more rights during a run.
    """
    namespaces = terms.namespaces
    found: list[Record] | None = None
    if blind is None:
        try:
            found = records.list(None, finished=finished)
        except Forbidden as error:
            if namespaces is None:
                raise
            blind = str(error)
    if found is None:
        found = records.list(namespaces, finished=finished)
    ours = [item for item in found if item.newer is None]
    return Sight(
        namespaces=namespaces,
        mine=tuple(item for item in ours if namespaces is None or item.namespace in namespaces),
        elsewhere=tuple(item for item in ours if namespaces is not None and item.namespace not in namespaces),
        newer=tuple(item for item in found if item.newer is not None),
        blind=blind,
    )
