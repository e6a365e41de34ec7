# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a gang waited for, kept after its start."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.past_waits import past_wait, read_waits

AT = "2026-01-01T00:00:00Z"


def quota(number: int, short: t.Any = "1") -> dict[str, t.Any]:
    return {"quota": f"q{number}", "resource": "pods", "short": short, "used": "9"}


def test_what_was_short_is_kept() -> None:
    layers = [
        {"layer": "namespace", "passed": False, "quotas": [quota(1), quota(2, "0"), quota(3, None), "odd"]},
        {"layer": "slots", "totals": {"cpu": {"short": "2", "free": "1"}, "memory": {"short": "0"}, "x": 1}},
        {"layer": "pods", "totals": {"cpu": {"short": "9"}}},
        {"layer": "quota", "totals": {"cpu": {"short": "3"}}, "trees": []},
        "odd",
    ]
    verdict = {"answer": "waits", "reason": "insufficient", "detail": "a" * 300, "layers": layers}
    assert past_wait(verdict, AT) == {
        "until": AT,
        "answer": "waits",
        "reason": "insufficient",
        "detail": "a" * 200,
        "layers": [
            {"layer": "namespace", "quotas": [{"quota": "q1", "resource": "pods", "short": "1"}]},
            {"layer": "slots", "totals": {"cpu": {"short": "2"}}},
            {"layer": "quota", "totals": {"cpu": {"short": "3"}}},
        ],
    }


def test_of_very_many_shortages_eight_are_kept() -> None:
    layers = [
        {"layer": "namespace", "quotas": [quota(number) for number in range(10)]},
        {"layer": "slots", "totals": {f"r{number}": {"short": "1"} for number in range(10)}},
    ]
    kept = past_wait({"answer": "never", "reason": "x", "layers": layers}, AT)
    assert kept is not None
    assert [line["quota"] for line in kept["layers"][0]["quotas"]] == [f"q{number}" for number in range(8)]
    assert list(kept["layers"][1]["totals"]) == [f"r{number}" for number in range(8)]


@pytest.mark.parametrize(
    "layers", [None, [], [{"layer": "slots"}], [{"layer": "slots", "totals": {}}], [{"layer": "namespace"}]]
)
def test_where_nothing_was_short_only_the_reason_is_kept(layers: t.Any) -> None:
    verdict = {"answer": "waits", "reason": "behind", "detail": "", "layers": layers}
    assert past_wait(verdict, AT) == {"until": AT, "answer": "waits", "reason": "behind"}


@pytest.mark.parametrize("verdict", [None, {}, {"answer": "fits"}])
def test_who_did_not_wait_has_nothing_to_tell(verdict: t.Any) -> None:
    assert past_wait(verdict, AT) is None


def test_damaged_waits_are_left_out_and_of_many_the_last_stay() -> None:
    waits = [{"until": str(number)} for number in range(5)]
    assert read_waits([1, {}, {"until": 3}, *waits], 3) == tuple(waits[-3:])
    assert read_waits({"until": "x"}, 3) == ()
    assert read_waits(None, 3) == ()
