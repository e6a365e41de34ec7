# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What quota trees say in the answers of fit_info, and of gang_info where records do not tell it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import typing as t
from collections.abc import Collection, Sequence
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.quota.question import (
    claimant_of,
    naming_of,
    with_labels,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.view import NO_VIEW, Naming, read_view
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import authenticated_user
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, quota_lines
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import demand_of
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.ways import Settled, Way, settle
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import has_nodes, judge
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import QuotaUse
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import queue_named_by
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import podset_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.limits import Claimant, as_recorded

Data = dict[str, t.Any]


class QuotaCompletion:
    """Adds the layer quota to verdicts."""

    def __init__(
        self,
        client: KubeClient,
        lease: LeaseOptions,
        *,
        naming: t.Callable[[Gang], Naming],
        cumulative: bool,
        advice: bool,
        record_of: t.Callable[[Gang], Record | None] = lambda _gang: None,
    ) -> None:
        """Naming tells which queue a gang names, record_of its record if it waits already; others are the caller's.

        Cumulative gangs take what they fit into from those after them.
        """
        self._client = client
        self._lease = lease
        self._naming, self._record_of = naming, record_of
        self._cumulative = cumulative
        self._advice = advice
        self._view = NO_VIEW
        # The way to start the gang that is asked about, where trees have flavors.
        self._settled: Settled | None = None
        self._told = 0

    def prepare(self) -> None:
        """Read all trees and what is used of them; who may not read them knows of none, like a dispatcher."""
        with contextlib.suppress(Forbidden, NotFound):
            self._view = read_view(self._client, self._lease)

    def confine(self, gang: Gang, reachable: Collection[str], room: Room, taken: QuotaUse) -> Gang:
        """The gang confined to the nodes of the flavors that a dispatcher would give it."""
        self._view = with_labels(self._client, self._view, gang.namespace)
        ways = self._view.ways(self._naming(gang), gang, reachable, partial(has_nodes, room))
        self._settled = None
        if ways is None:
            return gang

        def ask(way: Way, _hold: bool) -> Verdict:
            return judge(room, way.gang, taken)

        self._settled = settle(ways, ways.fitting(lambda _layer: True), ask)
        return self._settled.way.gang

    def __call__(self, gang: Gang, verdict: Verdict) -> Verdict:
        """The verdict with what the trees say to the gang; they come before reasons to wait for nodes."""
        view, settled, claimant = self._view, self._settled, self._claimant(gang)
        layer: QuotaLayer | None
        if settled is not None:
            layer, advice = view.told(settled.way.layer, gang, claimant)
            if settled.unreached:
                verdict = verdict.held_back("flavor_unreachable", settled.unreached)
        else:
            layer, advice = view.layer(self._naming(gang), gang.namespace, gang.podsets, claimant)
        if layer is None:
            return verdict
        told = as_recorded(verdict.with_quota(layer), claimant.record, view.now)
        if self._advice:
            told = dataclasses.replace(told, advice=(*advice, *told.advice))
        if self._cumulative:
            self._count(gang, layer, claimant, starts=told.answer == "fits")
        return told

    def _claimant(self, gang: Gang) -> Claimant:
        """Whose gang it is."""
        record = self._record_of(gang)
        if record is not None:
            return Claimant.of(record)
        return claimant_of(self._view, gang.namespace, lambda: self._caller)

    @functools.cached_property
    def _caller(self) -> str | None:
        """The name of whoever asks."""
        return authenticated_user(self._client)

    def _count(self, gang: Gang, layer: QuotaLayer, claimant: Claimant, *, starts: bool) -> None:
        """Let a gang have what it fits into, and count it for its user."""
        charged = {item.stored.name: item.charged for item in self._view.trees}
        users = self._view.limits.users if claimant.user is not None else None
        self._told += 1
        for standing in layer.standings:
            found = charged[standing.tree]
            if standing.leaf is None or found is None:
                continue
            if starts:
                found.usage.charge(standing.leaf, standing.amounts)
            if users is not None and claimant.user is not None:
                if claimant.record is None:
                    users.wait(standing.tree, standing.leaf, claimant.user, f"~{self._told}")
                if starts:
                    users.start(standing.tree, standing.leaf, claimant.user, podset_demands(gang.podsets))

    @property
    def as_of(self) -> str | None:
        """Of which moment published amounts are; None where all was counted now."""
        return self._view.as_of


def one_queue(queue: str | None) -> t.Callable[[Gang], Naming]:
    """All gangs name this queue, if any."""
    return lambda _gang: lambda tree: naming_of(tree, queue)


def untold_standings(client: KubeClient, lease: LeaseOptions, records: Sequence[Record]) -> dict[str, Data]:
    """The layer quota of waiting gangs by uid, of those whose verdicts tell nothing of what is used.

    Nothing is read where all tell it, and nothing is said where this account may not read the trees.
    """
    asked = [record for record in records if _is_untold(record)]
    if not asked:
        return {}
    try:
        view = read_view(client, lease)
    except (Forbidden, NotFound):
        return {}
    memory = Memory()
    found: dict[str, Data] = {}
    for record in asked:
        gang, _problem = memory.rough_size(record)
        if gang is None:
            continue
        view = with_labels(client, view, record.namespace)
        podsets = demand_of(record, gang).podsets
        layer, advice = view.layer(_naming(record), record.namespace, podsets, Claimant.of(record))
        if layer is not None:
            data = layer.as_dict()
            found[record.uid] = {
                **data,
                "advice": [item.as_dict() for item in advice],
                "as_of": view.as_of,
                "text": "\n".join(line.strip() for line in quota_lines({"quota": data})),
            }
    return found


def _naming(record: Record) -> Naming:
    return lambda tree: queue_named_by(tree, record)


def _is_untold(record: Record) -> bool:
    """Whether a gang waits and its record does not say what quota has to do with it."""
    if record.phase != "queued" or record.terminating:
        return False
    verdict = record.state.verdict if record.state is not None else None
    return verdict is None or verdict.get("reason") == "quota_not_visible"
