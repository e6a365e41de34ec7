# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose quota is charged for gangs that no record tells of."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import ReachedLimit
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quotas import Quotas
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.quota_trees import CPU, queue, small_tree

LEAVES = (
    queue("a", nominal={"cpu": 4}),
    queue("b", nominal={"cpu": 4}, namespaces=["x"]),
    queue("c", nominal={"cpu": 4}, namespaces=["y"]),
    queue("d", nominal={"cpu": 4}, default=True),
)


def used(quotas: Quotas, tree: str = "default") -> dict[str, int]:
    """What is used of each leaf of a tree, where anything is."""
    usage = quotas._usages[tree]
    return {leaf["name"]: amount for leaf in LEAVES if (amount := usage.used(leaf["name"], CPU))}


@pytest.fixture
def quotas() -> Quotas:
    """Two trees of the same queues."""
    return Quotas(QuotaTrees((small_tree(*LEAVES), small_tree(*LEAVES, name="other"))))


@pytest.mark.parametrize(
    ("named", "labels", "default", "other"),
    [
        ("a", {}, "a", "b"),
        # What the entry says was charged, whatever the record says by now.
        ("a", {"default": "c", "other": "a"}, "a", "a"),
        (None, {"default": "a"}, "a", "b"),
        (None, {}, "b", "b"),
    ],
)
def test_promise_is_charged_to_the_queue_of_its_entry(
    quotas: Quotas, named: str | None, labels: dict[str, str], default: str, other: str
) -> None:
    gang = Gang("g", "x", tuple(infer_podsets([cases.job("j", None, 2, cpu="1")], namespace="x")))
    quotas.charge_promised(gang, named, labels)
    assert (used(quotas), used(quotas, "other")) == ({default: 2000}, {other: 2000})


@pytest.mark.parametrize(
    ("namespace", "named", "leaf"),
    [("x", "a", "a"), ("x", None, "b"), ("x", "c", "b"), ("x", "gone", "b"), ("z", "b", "d"), ("z", None, "d")],
)
def test_pods_without_a_record_are_charged_to_a_queue_that_is_for_their_namespace(
    quotas: Quotas, namespace: str, named: t.Any, leaf: str
) -> None:
    quotas.charge_left("gone", namespace, named, {"cpu": 500})
    assert used(quotas) == {leaf: 500}


def waiting(name: str, named: str, user: str = "", cpu: str = "1") -> tuple[Record, Gang]:
    """A gang of one pod that waits in a queue."""
    job = cases.job(f"{name}-j", None, 1, cpu=cpu)
    raw = cases.gang_record(name, "x", [job], queue=named)
    raw["metadata"].update(uid=name, resourceVersion="1", annotations={"muster.kube/user": user})
    return record_from_api(raw), Gang(name, "x", tuple(infer_podsets([job], namespace="x")))


def test_a_spent_budget_stops_its_queue_and_all_below() -> None:
    tree = small_tree(
        queue("half"), queue("a", "half", nominal={"cpu": 4}), queue("b", "half"), queue("c", nominal={"cpu": 1})
    )
    quotas = Quotas(QuotaTrees((tree,)))
    limit = ReachedLimit(
        "budget_spent", "budget", "root/half", "10", "10", "all is used", "cpu", "2026-06-01T00:00:00Z"
    )
    quotas.spent = {("default", "half"): limit, ("other", "c"): limit}
    told = {name: quotas.stop(waiting("g", name)[0]) for name in "abc"}
    found = {name: item and (item.path, item.reason, item.detail, item.reached) for name, item in told.items()}
    assert found == {
        "a": ("root/half/a", "budget_spent", "all is used", limit),
        "b": ("root/half/b", "budget_spent", "all is used", limit),
        "c": None,
    }


def test_who_has_enough_does_not_take_the_turn_of_a_queue() -> None:
    """A queue is asked by its first gang that could start, and that is not one of a user who has enough."""
    limits = {"running": 1}
    tree = small_tree(queue("a", nominal={"cpu": 2}, user_limits=limits), queue("b", nominal={"cpu": 1}))
    quotas = Quotas(QuotaTrees((tree,)))
    line = [
        waiting("a1", "a", "ann"),
        waiting("a2", "a", "ann", cpu="2"),
        waiting("a3", "a", "bob"),
        waiting("b1", "b"),
    ]
    asked: list[str] = []
    for record, gang in quotas.in_turn(line, lambda item: item):
        asked.append(record.name)
        if quotas.user_limit(record, gang) is None:
            quotas.start(quotas.ask(record, gang))
            quotas.start_for_user(record, gang)
    assert asked == ["a1", "a2", "a3", "b1"]
    told = quotas.user_limit(*line[2])
    assert told is not None
    assert (told.reason, told.detail) == ("user_limit", "the user bob has 1 of 1 started gangs in queue root/a")
    assert quotas.user_limit(*line[3]) is None
