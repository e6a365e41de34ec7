# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who starves while others borrow, and where records and pods disagree."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import Charge
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.findings import (
    BorrowerPair,
    Drift,
    borrower_pairs,
    find_drift,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.gang_records import add_record
from ansible_collections.muster.kube.tests.support.quota_trees import GPU, gpus, queue, small_tree
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi

TREE = small_tree(*(queue(name, nominal={"nvidia.com/gpu": 4, "cpu": 8}) for name in ("a", "b", "c")))


def wish(leaf, count):
    return leaf, {"w": {"nvidia.com/gpu": count}}


def test_pairs_name_what_is_short_for_whom_and_who_has_it():
    usage = TreeUsage(TREE)
    usage.charge("a", gpus(7))
    usage.charge("b", gpus(2))
    found = borrower_pairs(usage, [wish("c", 4), wish("c", 5), wish("b", 1), wish("c", 40)])
    assert found == (BorrowerPair(GPU, "a", 3, "c", 1, 2),)


def test_without_borrowers_or_shortage_there_are_no_pairs():
    usage = TreeUsage(TREE)
    usage.charge("a", gpus(4))
    assert borrower_pairs(usage, [wish("b", 4)]) == ()
    usage.charge("b", gpus(4))
    usage.charge("c", gpus(4))
    assert borrower_pairs(usage, [wish("b", 4)]) == ()


def test_drift_is_more_than_charged_in_any_phase_and_less_while_it_runs():
    api = WritableApi()
    reserved = ({"name": "w", "count": 2, "requests": {"cpu": "1"}},)
    changes = {"reserved": reserved, "charged": (Charge("default", "a"),)}
    records = [add_record(api, phase, phase=phase, changes=changes) for phase in ("running", "dispatching", "undoing")]
    less = find_drift(TREE, [(record, {"cpu": 1000}) for record in records])
    assert less == (Drift("team/running", "a", "cpu", 2000, 1000),)
    more = find_drift(TREE, [(record, {"cpu": 3000, "memory": 1}) for record in records])
    assert [item.gang for item in more] == ["team/dispatching", "team/running", "team/undoing"]
    assert find_drift(TREE, [(record, {"cpu": 2000}) for record in records]) == ()


def test_a_charge_to_a_queue_that_is_gone_or_has_queues_below_is_drift():
    api = WritableApi()
    records = [
        add_record(api, name, phase="running", changes={"charged": (Charge("default", leaf), Charge("other", "x"))})
        for name, leaf in (("one", "gone"), ("two", "root"), ("three", "a"))
    ]
    found = find_drift(TREE, [(record, {}) for record in records])
    assert found == (Drift("team/one", "gone"), Drift("team/two", "root"))
