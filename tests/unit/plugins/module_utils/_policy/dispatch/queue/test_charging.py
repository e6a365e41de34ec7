# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is charged for what of a tree."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.charging import Holders, charged_trees
from ansible_collections.muster.kube.tests.support.gang_records import add_record
from ansible_collections.muster.kube.tests.support.quota_trees import CPU, queue, small_tree
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi

RESERVED = ({"name": "w", "count": 2, "requests": {"cpu": "1500m", "pods": "1"}},)


def charged(tree, *records, labels=None):
    """A tree with records given as name, phase and further fields."""
    api = WritableApi()
    made = [
        add_record(api, name, phase=phase, changes={"reserved": RESERVED} if phase != "queued" else {}, **spec)
        for name, phase, spec in records
    ]
    holders = Holders({record.uid: record for record in made}, {})
    return charged_trees(QuotaTrees((tree,), namespaces=labels or {}), holders)[tree.name]


TREE = small_tree(
    queue("a", nominal={"cpu": 4}), queue("b", nominal={"cpu": 4}, default=True), queue("c", namespaces=["x"])
)


def test_started_gangs_are_charged_to_their_queues_until_nothing_is_left_of_them():
    found = charged(
        TREE,
        ("one", "running", {"queue": "a"}),
        ("two", "undoing", {"queue": "a"}),
        ("three", "dispatching", {}),
        ("four", "queued", {"queue": "a"}),
        ("five", "complete", {"queue": "a"}),
    )
    assert [found.usage.used(name, CPU) for name in ("a", "b", "root")] == [6000, 3000, 9000]
    counts = {name: (item.started, item.waiting) for name, item in found.counts.items()}
    assert counts == {"a": (2, 1), "b": (1, 0), "c": (0, 0)}
    assert found.unplaced == ()


def test_gang_is_charged_where_it_may_not_start_any_more():
    found = charged(TREE, ("one", "running", {"queue": "c"}))
    assert found.usage.used("c", CPU) == 3000


def test_started_gang_without_a_queue_is_named():
    found = charged(TREE, ("one", "running", {"queue": "gone"}), ("two", "queued", {"queue": "gone"}))
    assert found.unplaced == ("team/one",)
    assert found.usage.used("root", CPU) == 0


def test_selectors_look_at_the_labels_of_namespaces():
    tree = small_tree(queue("a", nominal={"cpu": 1}, selector={"matchLabels": {"class": "gpu"}}))
    record = ("one", "running", {})
    assert charged(tree, record, labels={"team": {"class": "gpu"}}).counts["a"].started == 1
    assert charged(tree, record).unplaced == ("team/one",)
