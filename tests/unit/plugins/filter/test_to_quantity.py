# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter to_quantity."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.filter.to_quantity import FilterModule, to_quantity


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        ("1.5Gi", None, "1536Mi"),
        (1.5, None, "1500m"),
        (2048, None, "2048"),
        (2048, "binary", "2Ki"),
        ("4Gi", "decimal", "4294967296"),
        ("12M", "exponent", "12e6"),
        (4294967296, "binary", "4Gi"),
        ("500m", "binary", "500m"),
    ],
)
def test_values_become_canonical_texts(value: t.Any, form: str | None, text: str) -> None:
    assert to_quantity(value, form) == text


@pytest.mark.parametrize(("value", "form"), [("2GB", None), ("1", "roman"), (None, "binary")])
def test_errors_name_filter_and_value(value: t.Any, form: str | None) -> None:
    with pytest.raises(AnsibleFilterError, match=r"muster\.kube\.to_quantity: Cannot (read|write) quantity"):
        to_quantity(value, form)


def test_it_is_registered_under_its_name() -> None:
    assert FilterModule().filters() == {"to_quantity": to_quantity}
