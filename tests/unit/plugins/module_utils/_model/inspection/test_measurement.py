# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A metric of the runs of an inspection, and their hardware."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.measurement import (
    Measurement,
    hardware_differences,
    hardware_facts,
    hardware_unknown,
    metric_value,
    read_measurement,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

CPU = {"arch": "x86_64", "vendor": "GenuineIntel", "family": 6, "model": 85, "level": 4, "flags": ["avx512f"]}
HWINFO = {"cpu": CPU, "limits": {"cpu": 2, "memory_bytes": 1024, "cpuset": None}, "gpus": [], "memory": {"total": 9}}


def item(seconds: t.Any, **more: t.Any) -> dict[str, t.Any]:
    return {"exit_code": 0, "wall_seconds": seconds, "hwinfo": HWINFO, **more}


def test_values_of_runs_that_succeeded() -> None:
    items = [
        item(1.5, index=3),
        item(2, index=4),
        item(9, index=5, exit_code=1),
        item(9, index=6, reason="evicted"),
        item(9, index=7, exit_code=None),
        item(None, index=8),
        {"exit_code": 0, "reason": None},
    ]
    assert read_measurement({"id": "a", "runs": items}, "wall_seconds", 1) == Measurement(
        "a",
        (1.5, 2.0),
        (5, 6, 7),
        (8, 6),
        {
            "cpu.arch": ("x86_64",),
            "cpu.family": ("6",),
            "cpu.level": ("4",),
            "cpu.model": ("85",),
            "cpu.vendor": ("GenuineIntel",),
            "gpus": ("none",),
            "limits.cpu": ("2",),
            "limits.memory_bytes": ("1024",),
        },
    )


def test_a_result_without_a_name_has_its_number() -> None:
    assert read_measurement({"runs": []}, "x", 2).name == "2"
    assert read_measurement({"runs": [], "inspection_id": "i", "identifier": "j"}, "x", 2).name == "i"


@pytest.mark.parametrize(
    ("cpuset", "fact"), [("0-3", "4"), ("4-5,10,12", "4"), ("7", "1"), ("0-", "0-"), ("all", "all"), ("", None)]
)
def test_of_exclusive_cpus_the_number_counts(cpuset: str, fact: str | None) -> None:
    assert hardware_facts({"limits": {"cpuset": cpuset}}).get("limits.cpuset") == fact


def test_results_of_earlier_releases_called_their_runs_items():
    assert read_measurement({"name": "a", "items": [item(1)]}, "wall_seconds", 1).values == (1.0,)


@pytest.mark.parametrize("bad", [None, "x", {"runs": "x"}, {"runs": ["x"]}])
def test_what_is_no_result_is_refused(bad: t.Any) -> None:
    with pytest.raises(BadInput, match="Cannot read result"):
        read_measurement(bad, "wall_seconds", 1)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("usage.user_seconds", 2.0),
        ("stdout.@result.rate", 3.5),
        ("stdout.list.1", 5.0),
        ("stdout.list.2", None),
        ("stdout.list.x", None),
        ("stdout.text", None),
        ("stdout.flag", None),
        ("stdout.nan", None),
        ("stdout", None),
        ("no.such", None),
    ],
)
def test_a_metric_is_a_path(metric: str, value: float | None) -> None:
    stdout = {"@result": {"rate": 3.5}, "list": [4, 5], "text": "1", "flag": True, "nan": float("nan")}
    assert metric_value({"usage": {"user_seconds": 2}, "stdout": stdout}, metric) == value


def test_gpus_are_told_apart() -> None:
    two = [{"vendor": "AMD", "product": "MI300X", "memory_bytes": 5, "uuid": "x"}, {"product": "A"}]
    assert hardware_facts({"gpus": two}) == {"gpus": "A, AMD MI300X 5"}
    assert hardware_facts({"gpus": None, "cpu": None}) == {}
    assert hardware_facts(None) == {}


def measured(name: str, *models: int) -> Measurement:
    items = [item(1, hwinfo={"cpu": {**CPU, "model": model}}) for model in models]
    return read_measurement({"name": name, "runs": items}, "wall_seconds", 1)


def test_differences_are_named() -> None:
    assert hardware_differences([measured("a", 85, 85), measured("b", 85)]) == []
    assert hardware_differences([measured("a", 85), measured("b", 106, 85)]) == [
        "cpu.model is 85 in a, 106 and 85 in b"
    ]
    assert hardware_differences([measured("a", 85, 106)]) == ["cpu.model is 106 and 85 in a"]


def test_what_is_not_known_is_no_difference_but_told() -> None:
    silent = read_measurement({"name": "c", "runs": [item(1, hwinfo=None)]}, "wall_seconds", 1)
    assert hardware_differences([measured("a", 85), silent]) == []
    assert hardware_unknown([measured("a", 85), silent]) == ["c"]


def test_a_number_too_large_to_reckon_with_is_none() -> None:
    assert metric_value({"a": 10**400}, "a") is None
    assert metric_value({"a": -(10**400)}, "a") is None
    assert metric_value({"a": 10**300}, "a") == 1e300


def test_the_number_of_a_run_has_a_limit() -> None:
    assert read_measurement({"id": "a", "runs": [item(None, index=2**31)]}, "x", 1).missing == (2**31,)
    with pytest.raises(BadInput, match="index"):
        read_measurement({"id": "a", "runs": [item(None, index=2**31 + 1)]}, "x", 1)
