# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind fit_info: read the cluster once, judge the gangs, say what was read and how long it took."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import (
    NodeObserver,
    Reading,
    needs_of,
    read_snapshot,
    require_namespace,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import without_gc
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest, made_of
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang, sized_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import reachable_podsets
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.advice import with_advice
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import judge_all, place_waiting_pods
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import QuotaUse
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room


class Completion(t.Protocol):
    """Adds to a verdict what others have to say to the gang."""

    def prepare(self) -> None:
        """Read what it needs."""

    def confine(self, gang: Gang, reachable: t.Collection[str], room: Room, taken: QuotaUse) -> Gang:
        """The gang as it would be started; reachable are the podsets whose templates can be changed."""

    def __call__(self, gang: Gang, verdict: Verdict, /) -> Verdict: ...


@dataclasses.dataclass(frozen=True, slots=True)
class FitAnswer:
    """Verdicts in the order of the gangs, and what the answer cost."""

    verdicts: tuple[Verdict, ...]
    reading: Reading
    seconds_deciding: float

    def as_result(self) -> dict[str, t.Any]:
        """The keys of the module's result."""
        snapshot = self.reading.snapshot
        return {
            "verdicts": [verdict.as_dict() for verdict in self.verdicts],
            "fits": all(verdict.answer == "fits" for verdict in self.verdicts),
            "snapshot": {"nodes": len(snapshot.nodes), "pods": len(snapshot.pods), "notes": list(snapshot.notes)},
            "seconds": {
                "list": round(self.reading.seconds_listing, 4),
                "decode": round(self.reading.seconds_decoding, 4),
                "decide": round(self.seconds_deciding, 4),
            },
        }


def answer_fit(
    client: KubeClient,
    requests: t.Sequence[GangRequest],
    *,
    cumulative: bool,
    advice: bool,
    on_node: NodeObserver | None = None,
    complete: Completion | None = None,
) -> FitAnswer:
    """Read what the gangs need to know and judge them in order; on_node sees every node as the server sent it.

    complete adds to each verdict what others have to say, before the next gang is judged.
    """
    needs = needs_of(rough_gangs(requests))
    reading = read_snapshot(client, needs, on_node=on_node)
    for namespace in needs.namespaces:
        if namespace not in reading.snapshot.namespaces:
            require_namespace(client, namespace)
    gangs = [gang_of(request, reading.snapshot) for request in requests]
    if complete is not None:
        complete.prepare()
    started = time.perf_counter()
    # One walk of the garbage collector over a large snapshot takes longer than most decisions.
    with without_gc():
        reachable = [reachable_podsets(request) for request in requests] if complete is not None else []
        verdicts = decide(
            reading.snapshot, gangs, cumulative=cumulative, advice=advice, complete=complete, reachable=reachable
        )
    return FitAnswer(tuple(verdicts), reading, time.perf_counter() - started)


def rough_gangs(requests: t.Sequence[GangRequest]) -> list[Gang]:
    """The gangs as far as they are known without a cluster; whatever is wrong with them shows here already."""
    return [gang_of(request, Snapshot()) for request in requests]


def decide(
    snapshot: Snapshot,
    gangs: t.Sequence[Gang],
    *,
    cumulative: bool,
    advice: bool,
    complete: Completion | None = None,
    reachable: t.Sequence[t.Collection[str]] = (),
) -> list[Verdict]:
    """Judge gangs against a snapshot; pods that await the scheduler come first.

    reachable are the podsets of each gang whose templates can be changed, where others have something to say.
    """
    room = Room(snapshot)
    place_waiting_pods(room, gangs)
    advise = with_advice if advice else _as_it_is

    def finish(room: Room, gang: Gang, verdict: Verdict) -> Verdict:
        advised = advise(room, gang, verdict)
        return advised if complete is None else complete(gang, advised)

    if complete is None:
        return judge_all(room, gangs, cumulative=cumulative, finish=finish)

    def confine(place: int, taken: QuotaUse) -> Gang:
        return complete.confine(gangs[place], reachable[place], room, taken)

    return judge_all(room, gangs, cumulative=cumulative, finish=finish, confine=confine)


def _as_it_is(room: Room, gang: Gang, verdict: Verdict) -> Verdict:
    """A verdict without advice."""
    return verdict


def gang_of(request: GangRequest, snapshot: Snapshot) -> Gang:
    """The gang a user asked about, sized with what the namespace and RuntimeClasses add to its pods."""
    podsets = sized_podsets(request, snapshot)
    if not any(podset.count for podset in podsets):
        raise BadInput("judge", f"gang {request.namespace}/{request.name}", "none of its objects runs a pod")
    made = made_of(request.objects)
    return Gang(request.name, request.namespace, podsets, made.claim_names, made)
