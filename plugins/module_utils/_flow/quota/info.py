# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind quota_info: the trees of a cluster, what is used of each queue, and what was asked besides."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ansible_collections.muster.kube.plugins.module_utils._flow.quota.account import (
    fairness_data,
    queues_data,
    tree_lines,
    trees_csv,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.metered import (
    MeterReading,
    metered_data,
    read_meters,
    with_meters,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.namespace import rules_lines
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions, QuotaQuestion
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.question import (
    answer_namespace,
    answer_queue,
    answer_record,
    answer_request,
    answer_user,
    find_record,
    read_request,
    require_known,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.reading import UseReading
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.reports import (
    drift_data,
    pairs_data,
    report_lines,
    unqueued_data,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.view import QuotaView, SeenTree, read_view
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import capacity_problems
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import tree_data, tree_digest
from ansible_collections.muster.kube.plugins.module_utils._model.values.nearest import nearest_hint
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import list_stored_trees

Data = dict[str, t.Any]


def answer_quota(connect: Callable[[], KubeClient], options: QuotaInfoOptions) -> Data:
    """Everything there is to know about the trees in question, and about what is asked besides; reads only."""
    question = options.question
    request = read_request(connect, question.source)
    client = connect()
    view = read_view(client, options.lease, options.tree)
    notes = [*view.notes, *_unknown_tree(client, view, options)]
    result: Data = {"gang": None, "namespace": None, "user": None, "gangs": None}
    namespace, snapshot = question.namespace, None
    if question.gang is not None:
        namespace = question.gang[0]
        result["gang"], snapshot = answer_record(client, view, find_record(client, *question.gang))
    elif request is not None:
        namespace = request.namespace
        result["gang"], snapshot = answer_request(client, view, request, question.queue, question.user)
    elif namespace is not None:
        require_known(client, view, namespace)
    if question.user is not None:
        result["user"], more = answer_user(view, question.user)
        notes += more
    if question.queue is not None and view.trees:
        result["gangs"] = answer_queue(view, question.queue)
    if namespace is not None:
        result["namespace"], more = answer_namespace(client, view, namespace, snapshot)
        notes += more
    reading = MeterReading(None, 0.0)
    if view.trees:
        reading = view.meters or read_meters(client, options.namespace)
    notes += reading.notes
    trees = [_tree(item, view.use, _shown(item, question), reading) for item in view.trees]
    return {**result, "trees": trees, "text": _text(trees, result), "csv": trees_csv(trees), "notes": notes}


def _unknown_tree(client: KubeClient, view: QuotaView, options: QuotaInfoOptions) -> list[str]:
    """What is told of a tree that is asked for and does not exist."""
    if options.tree is None or view.trees:
        return []
    known = [item.name for item in list_stored_trees(client, options.namespace)]
    return [f"there is no quota tree {options.tree}; {nearest_hint(options.tree, known)}"]


def _shown(seen: SeenTree, question: QuotaQuestion) -> frozenset[str] | None:
    """The queues that are told: those above and below the one that is asked about; None for all."""
    tree, queue = seen.stored.tree, question.queue
    if tree is None or queue is None or queue not in tree.by_name:
        return None
    below = (item.name for item in tree.queues if queue in tree.ancestry(item.name))
    return frozenset((*tree.ancestry(queue), *below))


def _tree(seen: SeenTree, use: UseReading, shown: frozenset[str] | None, reading: MeterReading) -> Data:
    """One tree; of one that cannot be read only why."""
    stored, tree, charged = seen.stored, seen.stored.tree, seen.charged
    if tree is None:
        return {
            "name": stored.name,
            "problem": seen.word,
            "detail": stored.unreadable,
            "as_of": None,
            "published": False,
            "digest": None,
            "definition": None,
            "queues": [],
            "usage": None,
            "fairness": {},
            "unplaced": None,
            "pairs": None,
            "unqueued": None,
            "drift": None,
            "warnings": [],
            "text": f"{stored.name}: {stored.unreadable}",
        }
    pairs = None if charged is None else pairs_data(charged, use)
    unqueued, drift = unqueued_data(tree, use), drift_data(tree, use)
    told = [item for item in queues_data(tree, charged) if shown is None or item["name"] in shown]
    as_of = [f"as of {seen.as_of}, as a dispatcher published it"] if seen.published else []
    return {
        "name": tree.name,
        "problem": seen.word,
        "detail": None,
        "as_of": seen.as_of,
        "published": seen.published,
        "digest": tree_digest(tree),
        "definition": tree_data(tree),
        "queues": with_meters(tree, told, reading),
        "usage": metered_data(tree, reading, use.namespace_labels),
        "fairness": fairness_data(charged),
        "unplaced": None if charged is None or seen.published else len(charged.unplaced),
        "pairs": pairs,
        "unqueued": unqueued,
        "drift": drift,
        "warnings": [str(problem) for problem in capacity_problems(tree)],
        "text": "\n".join([*tree_lines(tree, charged, shown), *as_of]),
    }


def _text(trees: list[Data], result: Data) -> str:
    """The whole answer for people."""
    lines = []
    for tree in trees:
        lines += [tree["text"], *report_lines(tree["unqueued"], tree["pairs"], tree["drift"])]
    gang, user, namespace = result["gang"], result["user"], result["namespace"]
    if gang is not None and gang["verdict_text"] is not None:
        lines.append(gang["verdict_text"])
    elif gang is not None:
        held = [_held(item) for item in gang["charged"]]
        lines.append(f"{gang['name']}: {gang['phase']}{', ' if held else ''}{'; '.join(held)}")
    if user is not None:
        lines += [f"{user['name']}: {_held(item)}" for item in user["queues"]]
    if namespace is not None:
        lines += rules_lines(namespace)
    return "\n".join(lines)


def _held(item: Data) -> str:
    """What is held of a queue."""
    amounts = ", ".join(f"{part['amount']} {part['resource']}" for part in item["resources"]) or "nothing"
    return f"{amounts} of {item['queue']}"
