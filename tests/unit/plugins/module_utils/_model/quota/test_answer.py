# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Weighted shares: how they compare, and the number that Kueue publishes."""

from __future__ import annotations

from fractions import Fraction

from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import NO_SHARE, WeightedShare


def test_shares_compare_by_value_and_without_weight_come_last():
    half, whole = WeightedShare(False, Fraction(1, 2)), WeightedShare(False, Fraction(1))
    boundless = WeightedShare(True, Fraction(1, 4))
    assert sorted([boundless, whole, NO_SHARE, half], key=lambda share: share.order) == [
        NO_SHARE,
        half,
        whole,
        boundless,
    ]


def test_published_share_is_rounded_up():
    assert NO_SHARE.rounded == 0
    assert WeightedShare(False, Fraction(1000, 3)).rounded == 334
    assert WeightedShare(False, Fraction(7)).rounded == 7
    assert WeightedShare(True, Fraction(1, 2)).rounded == 2**63 - 1
