# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Proofs and searches against a simple scheduler that tries everything."""

from __future__ import annotations

import hypothesis
from ansible_collections.muster.kube.plugins.module_utils._policy.fit import open_case
from ansible_collections.muster.kube.plugins.module_utils._policy.proof import (
    Outcome,
    arithmetic_proof,
    explore,
    find_full,
)
from ansible_collections.muster.kube.tests.support.cluster_model import gang, room
from ansible_collections.muster.kube.tests.support.simple_scheduler import cases


def board_of(case):
    """The board of a random case."""
    return open_case(gang(*case.jobs), room(case.nodes, case.pods)).board


@hypothesis.settings(max_examples=600)
@hypothesis.given(cases(most_pods=5))
def test_exploration_and_search_agree_with_trying_everything(case):
    truth = case.scheduler().play_all()
    hypothesis.assume(truth.exhaustive)
    board = board_of(case)
    assert (explore(board) is Outcome.SAFE) == (not truth.stuck)
    placement, exhaustive = find_full(board)
    assert exhaustive
    assert (placement is not None) == truth.full


@hypothesis.settings(max_examples=600)
@hypothesis.given(cases(most_pods=5))
def test_a_proof_by_arithmetic_never_overlooks_a_dead_end(case):
    board = board_of(case)
    if arithmetic_proof(board):
        truth = case.scheduler().play_all()
        hypothesis.assume(truth.exhaustive)
        assert not truth.stuck
        assert truth.full
