# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which size elastic gangs that wait would have if they started now, so that none takes what others could start with.

Counted are GPUs alone: where they lie, quota and rules are looked at when a gang is judged, from this size down.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import Range
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.terms import ElasticTerms
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import (
    QueuedGang,
    effective_priority,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import GpuPool
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.plan import plan_sizes
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import DEFAULT_RULES, SizeSettings
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.speed import SpeedCurve
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room

_T = t.TypeVar("_T")
# So many sizes are tried one by one.
_FEW = 16


class SizeRequest(t.NamedTuple):
    """A gang that waits; terms are None for one of fixed size. The gang is as small as it may be.

    most is the size beyond which it does not ask for more, if there is one, attained are the GPU-seconds that it had.
    """

    item: QueuedGang
    gang: Gang
    terms: ElasticTerms | None
    most: int | None = None
    attained: float = 0.0


def best_sizes(
    requests: Iterable[SizeRequest], room: Room, now: float, settings: SizeSettings = DEFAULT_RULES.settings
) -> dict[str, int]:
    """The size of each elastic gang by uid; 0 for those that would not start."""
    waiting = list(requests)
    sizes: dict[str, int] = {}
    for resource in sorted({request.terms.range.resource for request in waiting if request.terms is not None}):
        jobs = [job for request in waiting if (job := waiting_job(request, resource, now)) is not None]
        free = sum(max(0, amounts.get(resource, 0)) for amounts in room.free)
        planned = plan_sizes(jobs, GpuPool(free), now=now, policy=settings.policy, terms=settings.terms).sizes
        mine = (
            request for request in waiting if request.terms is not None and request.terms.range.resource == resource
        )
        sizes.update((request.item.uid, planned[request.item.uid]) for request in mine)
    return sizes


def largest_of(sizes: Sequence[int], fitting: Callable[[int], _T | None]) -> _T | None:
    """What the largest of these sizes that fits comes to; None if none does.

    Of few sizes each is tried. Of many the largest one, then halves: sizes go into thousands, and what does not fit
    rarely fits when it is larger.
    """
    if not sizes:
        return None
    found, left = fitting(sizes[-1]), sizes[:-1]
    if found is not None:
        return found
    while len(left) > _FEW:
        middle = len(left) // 2
        tried = fitting(left[middle])
        found, left = (found, left[:middle]) if tried is None else (tried, left[middle + 1 :])
    return next((tried for size in reversed(left) if (tried := fitting(size)) is not None), found)


def waiting_job(request: SizeRequest, resource: str, now: float) -> ElasticJob | None:
    """A gang as one that waits for GPUs; None if it asks for none of these."""
    item, terms = request.item, request.terms
    if terms is None or terms.range.resource != resource:
        gpus = sum(podset.count * podset.requests.get(resource, 0) for podset in request.gang.podsets)
        if not gpus:
            return None
        range_ = Range((1,), resource, "", "pods", unit=gpus)
    else:
        range_ = terms.wanted if request.most is None else terms.wanted.up_to(request.most)
    gained = effective_priority(item, now) - item.priority
    return ElasticJob(
        item.uid,
        range_,
        curve=SpeedCurve(profile=dict(terms.profile) if terms is not None else {}),
        priority=item.priority,
        gained=gained,
        submitted=item.submitted,
        attained=request.attained,
        deadline=terms.due if terms is not None else None,
    )
