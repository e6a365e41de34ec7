# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter from_quantity."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.filter.from_quantity import FilterModule, from_quantity


@pytest.mark.parametrize(
    ("value", "number"),
    [("2Gi", 2147483648), ("1050m", 1.05), ("1000m", 1), ("-1k", -1000), (3, 3), (0.25, 0.25), ("1E", 10**18)],
)
def test_quantities_become_numbers(value: t.Any, number: float) -> None:
    result = from_quantity(value)
    assert result == number
    assert isinstance(result, type(number))


@pytest.mark.parametrize("value", ["2GB", "", None, True, ["1"]])
def test_errors_name_filter_and_value(value: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"muster\.kube\.from_quantity: Cannot read quantity"):
        from_quantity(value)


def test_it_is_registered_under_its_name() -> None:
    assert FilterModule().filters() == {"from_quantity": from_quantity}
