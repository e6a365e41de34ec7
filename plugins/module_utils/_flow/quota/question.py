# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers about one gang, namespace, user or queue: the layer quota of its verdict, and who holds what there."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Mapping
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import gang_of
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource, read_gang
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.runtimes import Runtimes
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import (
    needs_of,
    read_snapshot,
    require_namespace,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.namespace import read_rules, rules_data
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.view import Naming, QuotaView
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import authenticated_user, get_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.stores import STORES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import Verdict, verdict_text
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import NO_FLAVOR, QuotaAmounts, QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.nearest import nearest_hint, unknown_name
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import quantity_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import (
    demand_of,
    reachable_podsets,
    spec_of,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import has_nodes, judge
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import (
    charged_leaf,
    known_flavors,
    queue_named_by,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import charged_amounts
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import find_leaf, named_queue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.limits import (
    NOBODY,
    Claimant,
    as_recorded,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.user_limits import UserKey
from ansible_collections.muster.kube.plugins.module_utils._store.appwrapper_kind import wrapper_problem
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records

Data = dict[str, t.Any]


# Gangs.


def read_request(connect: t.Callable[[], KubeClient], source: GangSource | None) -> GangRequest | None:
    """The gang that is not queued yet; whatever is wrong with it is told before anything else is read."""
    if source is None:
        return None
    request = read_gang(source, 0, Runtimes(connect))
    gang_of(request, Snapshot())
    return request


def find_record(client: KubeClient, namespace: str, name: str) -> Record:
    """The record of a gang that is asked about; for one that is not there the nearest is named."""
    records = Records(client, every_wrapper=wrapper_problem(client) is None)
    for store in STORES:
        found = records.read(store, namespace, name) if records.served(store) else None
        if found is not None:
            return found
    hint = nearest_hint(name, (item.name for item in records.list([namespace])))
    raise BadInput("find", f"gang {namespace}/{name}", f"it does not exist; {hint}")


def answer_record(client: KubeClient, view: QuotaView, record: Record) -> tuple[Data, Snapshot | None]:
    """What quota says to a queued gang, or where a started one is charged; and what was read of its namespace."""
    holders = view.use.holders
    known = record if holders is None else holders.records.get(record.uid, record)
    promised = holders is not None and record.uid in holders.promises
    data: Data = {
        "name": known.name,
        "namespace": known.namespace,
        "phase": known.phase,
        "user": known.user or None,
        "charged": [],
        "verdict": None,
        "verdict_text": None,
        "as_of": view.as_of,
    }
    if known.finished:
        return data, None
    if known.phase in STARTED_PHASES or promised:
        return {**data, "charged": list(charges_data(view, known))}, None
    memory = Memory()
    rough, problem = memory.rough_size(known)
    if rough is None:
        raise BadInput("read", f"the gang {known.key}", problem or known.unreadable)
    snapshot = read_snapshot(client, needs_of([rough]), pods=False).snapshot
    gang = memory.size(known, snapshot)[0] or rough
    asked, reachable = demand_of(known, gang), reachable_podsets(spec_of(known))
    verdict = quota_verdict(
        client, view, asked, snapshot, lambda tree: queue_named_by(tree, known), reachable, Claimant.of(known)
    )
    return {**data, **_verdict_data(as_recorded(verdict, known, view.now))}, snapshot


def answer_request(
    client: KubeClient, view: QuotaView, request: GangRequest, queue: str | None, user: str | None
) -> tuple[Data, Snapshot]:
    """What quota would say to a gang that is not queued yet, if it named this queue, or none.

    It is that of the user who is asked about, else of the caller.
    """
    rough = gang_of(request, Snapshot())
    snapshot = read_snapshot(client, needs_of([rough]), pods=False).snapshot
    if request.namespace not in snapshot.namespaces:
        require_namespace(client, request.namespace)
    gang = gang_of(request, snapshot)
    reachable = reachable_podsets(request)
    claimant = claimant_of(view, gang.namespace, lambda: user or authenticated_user(client))
    verdict = quota_verdict(client, view, gang, snapshot, lambda tree: naming_of(tree, queue), reachable, claimant)
    data: Data = {"name": gang.name, "namespace": gang.namespace, "phase": None, "user": user, "charged": []}
    return {**data, **_verdict_data(verdict), "as_of": view.as_of}, snapshot


def claimant_of(view: QuotaView, namespace: str, name_of: t.Callable[[], str | None]) -> Claimant:
    """Whose gang that would be which is not queued yet; the name of its user is asked for only if it matters."""
    if view.limits.users is None:
        return NOBODY
    name = name_of()
    return Claimant(UserKey(name) if name else UserKey("", namespace))


def naming_of(tree: QuotaTree, queue: str | None) -> str | None:
    """The queue that is meant in a tree: a name of the tree that is asked about, or of the usual one."""
    return queue if queue in tree.by_name else named_queue(tree, {}, queue)


def quota_verdict(
    client: KubeClient,
    view: QuotaView,
    gang: Gang,
    snapshot: Snapshot,
    naming: Naming,
    reachable: t.Collection[str],
    claimant: Claimant,
) -> Verdict:
    """The verdict of quota tree and namespace; nodes are not looked at, so that what fits is not proven to find any.

    Flavors without nodes are left out all the same. reachable are the podsets whose templates can be changed.
    """
    said = judge(Room(dataclasses.replace(snapshot, nodes=(), pods=(), nodes_visible=False)), gang)
    told = dataclasses.replace(said, not_modelled=())
    view = with_labels(client, view, gang.namespace)
    ways = view.ways(naming, gang, reachable, partial(has_nodes, Room(snapshot)))
    layer: QuotaLayer | None
    if ways is None:
        layer, advice = view.layer(naming, gang.namespace, gang.podsets, claimant)
    else:
        layer, advice = view.told(ways.first.layer, gang, claimant)
    if layer is None:
        return told
    verdict = dataclasses.replace(told.with_quota(layer), advice=advice)
    borrows = verdict.answer == "fits" and layer.borrows
    return dataclasses.replace(verdict, how="borrowing") if borrows else verdict


def with_labels(client: KubeClient, view: QuotaView, namespace: str) -> QuotaView:
    """The view with the labels of one namespace, which many may read who may not list all of them."""
    if namespace in view.use.namespace_labels or not view.trees:
        return view
    try:
        found = get_object(client, resource_path("v1", "namespaces", name=namespace))
    except Forbidden:
        return view
    labels = (found or {"metadata": {}})["metadata"].get("labels") or {}
    use = dataclasses.replace(view.use, namespace_labels={**view.use.namespace_labels, namespace: labels})
    return dataclasses.replace(view, use=use)


def _verdict_data(verdict: Verdict) -> Data:
    told = verdict.as_dict()
    return {"verdict": told, "verdict_text": verdict_text(told)}


def charges_data(view: QuotaView, record: Record) -> t.Iterator[Data]:
    """Where a started gang is charged, tree by tree, and with what."""
    for seen, tree, leaf, amounts in _charges(view, record):
        if leaf is not None:
            yield {"tree": seen, "queue": tree.path(leaf), "resources": amounts_list(amounts)}


def _charges(view: QuotaView, record: Record) -> t.Iterator[tuple[str, QuotaTree, str | None, QuotaAmounts]]:
    """The name of each tree that can be told of, the tree, the leaf of a gang in it, and what it is charged with."""
    holders = view.use.holders
    for seen in view.trees:
        tree = seen.stored.tree
        if tree is None or seen.charged is None:
            continue
        leaf, flavors = charged_leaf(seen.charged.usage, record, view.use.namespace_labels)
        if holders is not None and record.uid in holders.promises:
            flavors = holders.promises[record.uid].flavors.get(tree.name, flavors)
        started = holders is not None and (record.phase in STARTED_PHASES or record.uid in holders.promises)
        demands = holders.used_by(record) if holders is not None and started else {}
        yield tree.name, tree, leaf, charged_amounts(tree, demands, known_flavors(tree, flavors))


def amounts_list(amounts: QuotaAmounts) -> list[Data]:
    """Amounts as results carry them."""
    return [
        {
            "flavor": None if key.flavor == NO_FLAVOR else key.flavor,
            "resource": key.resource,
            "amount": quantity_text(key.resource, amount),
        }
        for key, amount in sorted(amounts.items())
    ]


# Namespaces, users, queues.


def answer_namespace(
    client: KubeClient, view: QuotaView, namespace: str, snapshot: Snapshot | None = None
) -> tuple[Data, tuple[str, ...]]:
    """The queue of a namespace in each tree, its gangs, and its own rules; with notes on what could not be read."""
    view = with_labels(client, view, namespace)
    labels = view.use.namespace_labels.get(namespace)
    rules = snapshot.rules.get(namespace) if snapshot is not None else None
    notes: tuple[str, ...] = ()
    if rules is None:
        rules, notes = read_rules(client, namespace)
    queues = []
    for seen in view.trees:
        tree = seen.stored.tree
        choice = None if tree is None else find_leaf(tree, None, namespace, labels)
        if tree is not None and choice is not None:
            path = tree.path(choice.leaf.name) if choice.leaf is not None else None
            queues.append({"tree": tree.name, "queue": path, "reason": choice.reason, "detail": choice.detail or None})
    gangs = _counts(view, lambda record: record.namespace == namespace)
    return {"name": namespace, "queues": queues, **gangs, **rules_data(rules)}, notes


def require_known(client: KubeClient, view: QuotaView, namespace: str) -> None:
    """Refuse a namespace that does not exist, with the nearest one that does."""
    known = view.use.namespace_labels
    if known and namespace not in known:
        raise unknown_name("find", "namespace", namespace, known)
    if not known:
        require_namespace(client, namespace)


def answer_user(view: QuotaView, user: str) -> tuple[Data, tuple[str, ...]]:
    """What a user holds in each queue, and the limits of one user there."""
    holders = view.use.holders
    if holders is None:
        return {"name": user, "started": None, "waiting": None, "queues": []}, ()
    mine = [record for record in holders.records.values() if record.user == user]
    users = {record.user for record in holders.records.values() if record.user}
    notes = () if mine else (f"no gang is that of user {user}; {nearest_hint(user, users)}",)
    counts = _counts(view, lambda record: record.user == user)
    return {"name": user, **counts, "queues": [*_by_queue(view, mine)]}, notes


def answer_queue(view: QuotaView, queue: str) -> list[Data]:
    """The gangs of a queue and of those below it in each tree that has it."""
    holders = view.use.holders
    trees = [seen.stored.tree for seen in view.trees if seen.stored.tree is not None]
    if not any(queue in tree.by_name for tree in trees):
        raise unknown_name("find", "queue", queue, (name for tree in trees for name in tree.by_name))
    found = []
    for record in () if holders is None else holders.records.values():
        for _name, tree, leaf, amounts in _charges(view, record):
            if leaf is not None and queue in tree.ancestry(leaf):
                found.append(
                    {
                        "name": record.name,
                        "namespace": record.namespace,
                        "user": record.user or None,
                        "phase": record.phase,
                        "tree": tree.name,
                        "queue": tree.path(leaf),
                        "resources": amounts_list(amounts),
                    }
                )
    return sorted(found, key=lambda item: (item["tree"], item["queue"], item["namespace"], item["name"]))


def _by_queue(view: QuotaView, records: Iterable[Record]) -> t.Iterator[Data]:
    """What gangs hold and how many wait, by tree and leaf, with the limits of one user."""
    sums: dict[tuple[str, str], dict[t.Any, int]] = {}
    counts: dict[tuple[str, str], list[int]] = {}
    trees: dict[str, QuotaTree] = {}
    for record in records:
        for name, tree, leaf, amounts in _charges(view, record):
            if leaf is None:
                continue
            trees[name] = tree
            place = name, leaf
            held = sums.setdefault(place, {})
            for key, amount in amounts.items():
                held[key] = held.get(key, 0) + amount
            counted = counts.setdefault(place, [0, 0])
            counted[0 if _is_started(view, record) else 1] += 1
    for (name, leaf), held in sorted(sums.items(), key=lambda item: item[0]):
        limits = trees[name].by_name[leaf].user_limits
        yield {
            "tree": name,
            "queue": trees[name].path(leaf),
            "started": counts[name, leaf][0],
            "waiting": counts[name, leaf][1],
            "resources": amounts_list(held),
            "limits": {
                "running": limits.running,
                "pending": limits.pending,
                "resources": {key: quantity_text(key, amount) for key, amount in sorted(limits.resources.items())},
            },
        }


def _is_started(view: QuotaView, record: Record) -> bool:
    holders = view.use.holders
    return record.phase in STARTED_PHASES or (holders is not None and record.uid in holders.promises)


def _counts(view: QuotaView, chosen: t.Callable[[Record], bool]) -> Mapping[str, int | None]:
    """How many of the chosen gangs are started and wait; None where records may not be seen."""
    holders = view.use.holders
    if holders is None:
        return {"started": None, "waiting": None}
    mine = [record for record in holders.records.values() if chosen(record)]
    started = sum(_is_started(view, record) for record in mine)
    return {"started": started, "waiting": len(mine) - started}
