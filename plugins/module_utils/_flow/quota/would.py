# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a change of a tree would come to: who would start or wait and what for, who would be evicted or shrink."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import foresee_under
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import verdict_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import Choice

Data = dict[str, t.Any]


def foresee_change(client: KubeClient, options: QuotaOptions, after: QuotaTree | None) -> tuple[Data | None, list[str]]:
    """What dispatchers would do under the tree, which may be gone, as things are now; None with the reason in words."""
    dispatch = DispatchOptions(lease=LeaseOptions(namespace=options.namespace))
    try:
        found, hidden = foresee_under(client, dispatch, options.tree, after)
    except Forbidden as error:
        return None, [f"nobody can tell what would start: {error}"]
    if hidden is not None:
        return None, [f"nobody can tell what would start: {hidden}"]
    return {
        "start": [choice.record.key for choice in found.starts],
        "wait": [_waiting(choice) for choice in found.waiting],
        "reclaim": [record.key for record in found.evicted],
        "shrink": [{"gang": item.record.key, "from": item.resize.size, "to": item.resize.to} for item in found.shrunk],
    }, []


def _waiting(choice: Choice) -> Data:
    """One gang that would wait."""
    told = choice.told
    return {"gang": choice.record.key, "reason": told["reason"], "text": verdict_text(told)}
