# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cases of MCAD's own quota tests, on its trees as they are translated: the same wrappers run and wait."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.mcad_forest import (
    ACTINIDES,
    CONTEXT,
    NESTED,
    SERVICE,
    Forest,
    asks,
    imported_tree,
)

GOLD = {CONTEXT: "gold", SERVICE: "gold"}
BRONZE = {CONTEXT: "bronze", SERVICE: "gold"}


@pytest.fixture
def forest():
    return Forest(CONTEXT, SERVICE)


def test_forest_04_to_08(forest):
    """Gold; unknown leaves; gold of higher priority; bronze beside it; one more bronze."""
    assert forest.submit("04", asks(600), **GOLD) == "running"
    assert forest.submit("05", asks(600), quota_context="platinum", quota_service="gold") == "pending"
    assert forest.submit("05b", asks(600), quota_context="gold", quota_service="platinum") == "pending"
    assert forest.submit("06", asks(600), 1000, **GOLD) == "running"
    assert forest.running == {"06"}
    assert forest.submit("07", asks(400), 1000, **BRONZE) == "running"
    assert forest.submit("08", asks(400), 1000, **BRONZE) == "pending"
    assert forest.running == {"06", "07"}


def test_forest_09_two_bronze_jobs_run_one_after_the_other(forest):
    assert forest.submit("first", asks(900), **BRONZE) == "running"
    assert forest.submit("second", asks(900), **BRONZE) == "pending"
    forest.end("first")
    assert forest.submit("second", asks(900), **BRONZE) == "running"


@pytest.mark.parametrize("labels", [{}, {"team": "x"}])
def test_forest_10_and_11_without_the_label_the_default_leaf_borrows(forest, labels):
    assert forest.submit("unlabeled", asks(900), **labels) == "running"


def test_errors_a_wrapper_of_the_same_name_comes_again(forest):
    """MCAD leaked its quota; here nothing of it is left."""
    for _time in range(3):
        assert forest.submit("again", asks(1000), **GOLD) == "running"
        forest.end("again")


def test_borrowing_beyond_its_own_and_taken_back_by_the_owner(forest):
    """Silver has all 16 GPUs, eight of them of leaves that no tree promises to anybody but those below its root."""
    assert forest.submit("silver", asks(1000, 600, 16), quota_context="silver", quota_service="default") == "running"
    assert forest.submit("gold", asks(500, 300, 8), **GOLD) == "running"
    assert forest.running == {"gold"}


def test_deployment_03_a_tree_without_a_default_leaf_rejects_what_names_none_of_its():
    three = Forest(CONTEXT, SERVICE, ACTINIDES)
    assert three.submit("gold", asks(300), **GOLD) == "pending"
    assert three.submit("plutonium", asks(300), quota_actinides="plutonium", **GOLD) == "running"
    assert three.submit("lawrencium", asks(300, 500), quota_actinides="lawrencium", **GOLD) == "pending"


def test_a_hard_node_above_keeps_nobody_from_taking_back_the_own():
    """With MCAD it does."""
    nested = Forest(NESTED)
    assert nested.submit("borrows", asks(900), quota_nested="b") == "running"
    assert nested.submit("owner", asks(500), quota_nested="a") == "running"
    assert nested.running == {"owner"}
    assert nested.submit("beyond", asks(600), quota_nested="b") == "pending"


@pytest.mark.parametrize("tree", [CONTEXT, SERVICE, ACTINIDES])
def test_a_soft_leaf_may_have_what_the_root_has_and_no_more(tree):
    """As with MCAD, which places a borrower at the root."""
    usage = TreeUsage(imported_tree(tree))
    leaf = next(leaf.name for leaf in usage.tree.leaves if not leaf.hard)
    assert usage.fits(leaf, asks(1075, 1045, 16))
    for more in (asks(1076), asks(0, 1046), asks(0, 0, 17)):
        assert usage.never_fits(leaf, more)


@pytest.mark.parametrize("tree", [CONTEXT, ACTINIDES])
def test_a_hard_leaf_has_its_own_and_no_more(tree):
    usage = TreeUsage(imported_tree(tree))
    (leaf,) = (leaf for leaf in usage.tree.leaves if leaf.hard)
    assert usage.fits(leaf.name, leaf.nominal)
    for key, amount in leaf.nominal.items():
        assert usage.never_fits(leaf.name, {key: amount + 1})
