# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MCAD's QuotaSubtrees as trees of ours: what they become, what is told, and what is refused."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.subtrees import import_subtrees
from ansible_collections.muster.kube.tests.support.mcad_forest import (
    ACTINIDES,
    CONTEXT,
    GPU,
    SERVICE,
    child,
    imported_tree,
    mcad_subtrees,
    subtree,
)

ROOT = subtree("t", "a", child("root", "4", "4Gi", 4))


def imported(*subtrees):
    return import_subtrees("t", "t", list(subtrees))


def queues(*subtrees):
    return {item["name"]: item for item in imported(*subtrees).declaration["queues"]}


def problems(*subtrees):
    """Where the tree of these QuotaSubtrees is wrong."""
    with pytest.raises(BadTree) as failed:
        read_tree("t", {**imported(*subtrees).declaration, "over_capacity": "warn"})
    return [(problem.where, problem.field) for problem in failed.value.problems]


def test_quota_of_leaves_is_nominal_and_that_of_others_capacity():
    found = queues(*mcad_subtrees()[CONTEXT])
    assert found["root"] == {
        "name": "root",
        "parent": None,
        "capacity": {"cpu": "1075m", "memory": "1045Mi", GPU: 16},
    }
    assert found["bronze"] == {
        "name": "bronze",
        "parent": "root",
        "nominal": {"cpu": "900m", "memory": "300Mi", GPU: 8},
        "hard": True,
    }
    assert found["default"]["default"]
    assert "hard" not in found["gold"]


def test_gangs_name_their_queue_by_the_label_that_mcad_knows():
    tree = imported_tree(SERVICE)
    assert (tree.name, tree.label, tree.queue_label) == ("quota-service", "quota_service", "quota_service")


def test_what_leaves_do_not_promise_is_there_to_be_borrowed():
    """MCAD places a borrower at the queue above, up to that one's quota; without the pool only Σ leaves were there."""
    found = queues(*mcad_subtrees()[SERVICE])
    assert found["root"]["extra"] == {"memory": "595Mi", GPU: "8"}


def test_pools_are_counted_level_by_level():
    team = subtree("t", "b", child("team", "3", "2Gi", 2), child("b", "2", "1Gi", 0), parent="root")
    below = subtree("t", "c", child("a", "1", "1Gi", 0), parent="team")
    found = queues(below, ROOT, team)
    assert found["team"]["extra"] == {"cpu": "2", "memory": "1Gi", GPU: "2"}
    assert found["root"]["extra"] == {"memory": "1Gi", GPU: "2"}
    tree = read_tree("t", {**imported(below, ROOT, team).declaration, "over_capacity": "warn"})
    assert [tree.path(queue.name) for queue in tree.queues] == ["root", "root/b", "root/team", "root/team/a"]


def test_what_a_quota_leaves_out_is_nothing_as_with_mcad():
    leaf = {"name": "a", "quotas": {"requests": {"cpu": 1}}}
    assert queues(ROOT, subtree("t", "b", leaf, parent="root"))["a"]["nominal"] == {"cpu": 1, "memory": 0, GPU: 0}
    assert queues(ROOT, subtree("t", "b", {"name": "a"}, parent="root"))["a"]["nominal"] == {
        "cpu": 0,
        "memory": 0,
        GPU: 0,
    }


def test_notes_tell_what_is_otherwise_than_with_mcad():
    team = child("team", "1", "1Gi", 1, hard=True)
    leaf = {"name": "a", "namespace": "x", "quotas": {"requests": {"amd.com/gpu": 1}, "disabled": True}}
    root = subtree("t", "a", child("root", "4", "4Gi", 4, hard=True))
    notes = imported(root, subtree("t", "b", team, parent="root"), subtree("t", "c", leaf, parent="team")).notes
    assert [note.split(":")[0] for note in notes] == ["t root", "t team", "t a", "t a", "t", "t"]
    for note, words in zip(
        notes,
        ("nobody is beside", "taking back the own", "disabled, namespace", "amd.com/gpu", "default", "copy"),
        strict=True,
    ):
        assert words in note


def test_a_tree_with_a_default_leaf_has_little_to_tell():
    assert len(import_subtrees("c", CONTEXT, mcad_subtrees()[CONTEXT]).notes) == 1
    assert len(import_subtrees("c", ACTINIDES, mcad_subtrees()[ACTINIDES]).notes) == 2


def test_no_subtrees_are_refused():
    with pytest.raises(BadTree, match="from_quota_subtrees: no QuotaSubtree has the label tree=quota_x"):
        import_subtrees("t", "quota_x", [])


@pytest.mark.parametrize(
    ("subtrees", "where"),
    [
        ([ROOT, subtree("t", "b", child("a", "1", "1Gi", 0), parent="rot")], [("rot/a", "parent")]),
        ([ROOT, subtree("t", "b", child("other", "1", "1Gi", 0))], [("other", "parent")]),
        ([ROOT, ROOT, subtree("t", "b", child("a", "1", "1Gi", 0), parent="root")], [("root", "name")]),
        (
            [
                ROOT,
                subtree("t", "b", child("a", "1", "1Gi", 0), parent="b"),
                subtree("t", "c", child("b", "1", "1Gi", 0), parent="a"),
            ],
            [("a/b/a", "parent")],
        ),
        ([ROOT, subtree("t", "b", child("a", "x", "1Gi", 0), parent="root")], [("root/a", "nominal.cpu")]),
        ([ROOT, subtree("t", "b", child("a", "-1", "1Gi", 0), parent="root")], [("root/a", "nominal.cpu")]),
        ([ROOT, subtree("t", "b", {"quotas": {}}, child("a", "1", "1Gi", 0), parent="root")], [("queues[1]", "name")]),
        ([ROOT, subtree("t", "b", {"name": ["a"]}, child("a", "1", "1", 0), parent="root")], [("queues[1]", "name")]),
        ([{"metadata": {"name": "a"}, "spec": {"children": 3}}], [("queues", "")]),
        ([{"metadata": {"name": "a"}, "spec": {"children": [3]}}, {"metadata": {"name": "b"}}], [("queues", "")]),
    ],
)
def test_what_is_wrong_is_told_by_path_as_of_every_tree(subtrees, where):
    assert problems(*subtrees) == where


def test_leaves_that_promise_more_than_there_is_are_refused_unless_allowed():
    declaration = import_subtrees("c", CONTEXT, mcad_subtrees()[CONTEXT]).declaration
    with pytest.raises(BadTree, match=r"root: capacity\.cpu"):
        read_tree("c", declaration)
