# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods beside the jobs of an allocation: those that hold GPUs now, since they got their nodes.

Of pods that are gone nobody tells anything any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import Resources, running_pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import FINISHED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.report.allocation import OtherPod
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

# What entries that are no pods may lead to.
_FAULTS = (AttributeError, BadInput, LookupError, TypeError, ValueError)


def read_others(section: Fields, gangs: Collection[str], until: float) -> tuple[OtherPod, ...]:
    """The pods of a section that are of none of the gangs, as the Kubernetes API tells them."""
    items = [Fields(item, f"{section.where}.pods[{place}]") for place, item in enumerate(section.sequence("pods"))]
    return tuple(pod for item in items for pod in _holding(item, gangs, until))


def _holding(item: Fields, gangs: Collection[str], until: float) -> Iterator[OtherPod]:
    """What one pod holds, resource by resource; nothing for one without a node, and for one that is over."""
    meta = Fields(item.mapping("metadata"), f"{item.where}.metadata")
    spec, status = item.mapping("spec"), item.mapping("status")
    if not spec.get("nodeName") or status.get("phase") in FINISHED_PHASES:
        return
    if meta.mapping("labels").get(GANG_LABEL) in gangs:
        return
    start = _began(item, meta)
    if start > until:
        return
    name = "/".join(str(meta.get(key)) for key in ("namespace", "name") if meta.get(key))
    yield from (OtherPod(name, resource, start, amount) for resource, amount in _requests(item).items() if amount > 0)


def _requests(item: Fields) -> Resources:
    """What a pod asks for."""
    try:
        return running_pod_requests(item.data)
    except _FAULTS as error:
        raise item.fail("spec", f"a pod as the API returns it is needed: {error}") from error


def _began(item: Fields, meta: Fields) -> float:
    """Since when a pod has its node: by its condition, else since it was started or created."""
    status = item.mapping("status")
    conditions = status.get("conditions")
    bound = [
        one.get("lastTransitionTime")
        for one in (conditions if isinstance(conditions, list) else ())
        if isinstance(one, dict) and (one.get("type"), one.get("status")) == ("PodScheduled", "True")
    ]
    for text in (*bound, status.get("startTime"), meta.get("creationTimestamp")):
        moment = read_time(text)
        if moment is not None:
            return moment
    raise meta.fail("creationTimestamp", "it is missing; pods as the API returns them are needed")
