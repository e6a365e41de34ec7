# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charges as states keep them: written, read back, and damaged."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import (
    Charge,
    charge_data,
    kinds_of,
    read_charge,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaFlavor
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

BIG = QuotaFlavor("big", {"pool": "big"}, ({"operator": "Exists"},))
SPOT = QuotaFlavor("spot", {"price": "low"})
WHOLE = Charge("t", "q", {"a": "big", "b": "any"}, (BIG,))


@pytest.mark.parametrize("charge", [Charge("t", "q"), Charge("t", "q", {"a": "any"}), WHOLE])
def test_a_charge_is_read_as_it_was_written(charge: Charge) -> None:
    assert read_charge(json.loads(json.dumps(charge_data(charge))), "here") == charge


def test_podsets_have_the_kinds_of_all_trees() -> None:
    assert kinds_of([WHOLE, Charge("u", "q", {"a": "spot"}, (SPOT,))]) == {"a": [BIG, SPOT]}
    assert kinds_of([Charge("t", "q", {"a": "any"})]) == {}


@pytest.mark.parametrize(
    "damage",
    [
        {"flavors": {"a": 1}},
        {"kinds": []},
        {"kinds": {"big": 1}},
        {"kinds": {"big": {"node_labels": {"pool": 1}}}},
        {"kinds": {"big": {"tolerations": ["x"]}}},
        {"kinds": {"big": {"tolerations": "x"}}},
    ],
)
def test_a_damaged_charge_is_refused(damage: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        read_charge({**charge_data(WHOLE), **damage}, "here")
