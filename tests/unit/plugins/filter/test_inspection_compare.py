# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter inspection_compare."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.filter.inspection_compare import FilterModule, inspection_compare


def result(name: str, values: t.Sequence[float]) -> dict[str, t.Any]:
    return {"name": name, "runs": [{"exit_code": 0, "stdout": {"rate": value}} for value in values]}


OLD, NEW = result("old", [10, 11, 12, 13]), result("new", [20, 21, 22, 23])


def test_it_compares() -> None:
    answer = inspection_compare([OLD, NEW], "stdout.rate", direction="higher", assertions=[{"target": 10, "lower": 0}])
    assert [(one["name"], one["verdict"]) for one in answer["comparisons"]] == [("new", "better")]
    assert [one["ok"] for one in answer["assertions"]] == [True, True]
    assert answer["passed"] is True
    assert inspection_compare([OLD, NEW], "stdout.rate", threshold=1000)["comparisons"][0]["verdict"] == "same"


@pytest.mark.parametrize(("value", "more"), [(None, {}), ([OLD], {}), ([OLD, NEW], {"direction": "up"})])
def test_errors_become_filter_errors(value: t.Any, more: dict[str, t.Any]) -> None:
    with pytest.raises(AnsibleFilterError, match=r"muster\.kube\.inspection_compare: Cannot "):
        inspection_compare(value, **more)


def test_it_is_registered_under_its_name() -> None:
    assert FilterModule().filters() == {"inspection_compare": inspection_compare}
