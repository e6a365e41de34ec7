# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether there is room for the pods of a Job, asked before it is created."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import answer_fit
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.nodes import Nodes
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data


def room_for(client: KubeClient, namespace: str, job: dict[str, t.Any], nodes: Nodes) -> Data:
    """The verdict on a Job that would be created now; the nodes read for it are noted."""
    request = GangRequest(str(job["metadata"]["name"]), namespace, (job,), None)
    answer = answer_fit(client, [request], cumulative=True, advice=True, on_node=nodes.note)
    return answer.verdicts[0].as_dict()
