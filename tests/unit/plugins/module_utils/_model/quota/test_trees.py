# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The digest of all quota trees that decisions name."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.quota import trees as module
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import (
    DIGEST_LENGTH,
    NO_TREES,
    QuotaTrees,
    TreeDigests,
)
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree

SMALL, LARGE = (small_tree(queue("x", nominal={"cpu": amount})) for amount in (1, 2))


def test_every_change_of_a_tree_is_another_digest():
    digests = TreeDigests()
    broken = [QuotaTrees((SMALL,), {"other": "{"}), QuotaTrees((), {"other": ""})]
    several = [QuotaTrees((SMALL,)), QuotaTrees((LARGE,)), *broken]
    told = [digests.of(trees) for trees in several]
    assert len(set(told)) == len(several)
    assert {len(text) for text in told} == {DIGEST_LENGTH}
    assert TreeDigests().of(several[0]) == told[0]
    assert digests.of(NO_TREES) == ""


def test_that_of_a_tree_is_worked_out_once(monkeypatch):
    calls = []
    monkeypatch.setattr(module, "tree_digest", lambda tree: calls.append(tree) or "x")
    digests = TreeDigests()
    for tree in (SMALL, SMALL, LARGE, LARGE):
        digests.of(QuotaTrees((tree,)))
    assert calls == [SMALL, LARGE]
