# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Advice on quota is tried out: fewer pods that fit, and queues that the gang may name."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.advice import (
    another_queue,
    fewer_pods,
    quota_advice,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import podset_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.judgement import judge_quota
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.quota_trees import GPU, gpus, queue, small_tree

NAME = GPU.resource


def podsets(*counts, each=2):
    items = [{"name": f"p{place}", "count": count, "requests": {NAME: each}} for place, count in enumerate(counts)]
    return declared_podsets(items, namespace="mine")


def usage(**charges):
    tree = small_tree(
        queue("a", nominal={NAME: 6}, namespaces=["mine"], hard=True),
        queue("b", nominal={NAME: 10}, borrowing_limit={NAME: 0}),
        queue("c"),
        queue("closed", nominal={NAME: 50}, namespaces=["other"], lending_limit={NAME: 0}),
        queue("held", nominal={NAME: 50}, stop="hold", lending_limit={NAME: 0}),
    )
    found = TreeUsage(tree)
    for leaf, count in charges.items():
        found.charge(leaf, gpus(count))
    return found


def advised(where, *counts, named=None):
    wanted = podsets(*counts)
    standing = judge_quota(where, named, "mine", podset_demands(wanted))
    return {item.change: item for item in quota_advice(where, standing, wanted, "mine")}


def test_largest_number_of_pods_that_fits_is_advised():
    found = advised(usage(), 8, named="a")["fewer_replicas"]
    assert (found.text, found.details) == ("run 3 instead of 8 of p0", {"counts": {"p0": 3}, "then": "now"})


def test_podset_that_is_cut_least_is_chosen():
    found = fewer_pods(usage(), "a", podsets(1, 3))
    assert found is not None
    assert found.details["counts"] == {"p0": 1, "p1": 2}


def test_nobody_is_advised_to_run_nothing():
    assert fewer_pods(usage(a=5), "a", podsets(1)) is None
    assert fewer_pods(usage(a=5), "a", podsets(4)) is None


def test_smaller_gang_that_borrows_is_told_so():
    found = fewer_pods(usage(), "c", podsets(9))
    assert found is not None
    assert found.details == {"counts": {"p0": 8}, "then": "borrowing"}


def test_queue_where_nothing_is_borrowed_is_advised_before_others():
    found = advised(usage(), 5)["another_queue"]
    assert (found.text, found.details["then"]) == ("name queue b (root/b) of the tree default", "now")
    borrowing = advised(usage(b=2), 5)["another_queue"]
    assert (borrowing.details["queue"], borrowing.details["then"]) == ("c", "borrowing")


def test_queues_that_are_held_or_not_for_the_namespace_are_not_advised():
    assert another_queue(usage(), "a", podsets(20), "mine") is None
    assert advised(usage(), 5, named="held")["another_queue"].details["queue"] == "b"
    assert "fewer_replicas" not in advised(usage(), 5, named="held")
    assert advised(usage(), 1, named="gone")["another_queue"].details["queue"] == "a"


def test_gang_that_fits_gets_no_advice():
    assert advised(usage(), 3) == {}
