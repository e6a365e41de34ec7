# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that can go wrong with the one write of a task: the tree is the old one or the new one, never another."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.run import run_quota
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import read_stored_tree, replace_tree
from ansible_collections.muster.kube.tests.support.memory_cluster import MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault, Killed, Line
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree

OLD, NEW, RIVAL = (small_tree(queue("a", nominal={"cpu": amount})) for amount in (1, 2, 3))
# What a task finds, and what it makes of it.
STEPS = {"create": (None, NEW), "replace": (OLD, NEW), "delete": (OLD, None)}


@pytest.fixture
def line():
    """The way to a cluster with the namespace team."""
    cluster = MemoryCluster()
    cluster.add("namespaces", {"metadata": {"name": "team"}})
    return Line(cluster)


def run(line, tree):
    """One task that wants a tree, or none."""
    queues = [] if tree is None else [queue("root"), queue("a", "root", nominal=amounts(tree))]
    state = "absent" if tree is None else "present"
    return run_quota(line.client, QuotaOptions("default", "team", state, {"queues": queues}))


def amounts(tree):
    return {key.resource: f"{amount}m" for key, amount in tree.by_name["a"].nominal.items()}


def stored(line):
    """The tree that is there."""
    found = read_stored_tree(line.client(), "team", "default")
    return None if found is None else found.tree


@pytest.mark.parametrize("trouble", ["lose", "cut", "refuse"])
@pytest.mark.parametrize("step", STEPS)
def test_write_whose_answer_is_lost_is_settled_by_reading(line, step, trouble):
    before, after = STEPS[step]
    run(line, before)
    line.faults.append(Fault(trouble, WRITES, status=429))
    assert run(line, after).changed
    assert stored(line) == after
    assert line.faults[0].times == 0
    assert not run(line, after).changed


@pytest.mark.parametrize("trouble", ["kill_before", "kill_after"])
@pytest.mark.parametrize("step", STEPS)
def test_task_that_was_killed_at_its_write_is_finished_by_the_next(line, step, trouble):
    before, after = STEPS[step]
    run(line, before)
    line.faults.append(Fault(trouble, WRITES))
    with pytest.raises(Killed):
        run(line, after)
    assert stored(line) == (before if trouble == "kill_before" else after)
    assert run(line, after).changed == (trouble == "kill_before")
    assert stored(line) == after


@pytest.mark.parametrize("step", ["create", "replace"])
def test_tree_that_somebody_else_wrote_meanwhile_is_not_overwritten(line, step):
    before, after = STEPS[step]
    run(line, before)

    def interfere():
        rival = Line(line.cluster)
        found = read_stored_tree(rival.client(), "team", "default")
        if found is None:
            run(rival, RIVAL)
        else:
            replace_tree(rival.client(), found, RIVAL)

    line.faults.append(Fault("call", "POST|PUT", happens=interfere))
    with pytest.raises(KubeError):
        run(line, after)
    assert stored(line) == RIVAL
