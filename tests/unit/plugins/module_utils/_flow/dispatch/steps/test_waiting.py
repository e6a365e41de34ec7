# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a verdict is worth a write."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.verdict_news import (
    VERDICT_SECONDS,
    worth_writing,
)

AT = "2026-01-01T00:00:00Z"
NOW = read_time(AT)
VERDICT = {
    "answer": "waits",
    "reason": "insufficient",
    "layers": [
        {"layer": "namespace", "passed": True},
        {"layer": "slots", "passed": False, "totals": {"cpu": {"short": "2"}, "memory": {"short": "0"}}},
    ],
}


def changed(**parts):
    verdict = copy.deepcopy(VERDICT)
    verdict.update(parts)
    return verdict


def short(**amounts):
    verdict = copy.deepcopy(VERDICT)
    for name, amount in amounts.items():
        verdict["layers"][1]["totals"][name] = {"short": amount}
    return verdict


TOLD = {**VERDICT, "decided_at": AT}


def test_the_first_verdict_is_written():
    assert worth_writing(None, VERDICT, NOW)


def test_the_same_verdict_never_is():
    assert not worth_writing(TOLD, VERDICT, NOW + 10 * VERDICT_SECONDS)


@pytest.mark.parametrize(
    "new",
    [changed(answer="never"), changed(reason="fragmentation"), short(memory="1Gi"), short(cpu="0"), changed(layers=[])],
)
def test_what_a_reader_must_know_is_written_at_once(new):
    assert worth_writing(TOLD, new, NOW)


def test_other_numbers_wait_a_minute():
    assert not worth_writing(TOLD, short(cpu="3"), NOW + VERDICT_SECONDS)
    assert worth_writing(TOLD, short(cpu="3"), NOW + VERDICT_SECONDS + 1)


def test_one_more_resource_that_is_not_short_is_no_news():
    for amount in ("0", None):
        assert not worth_writing(TOLD, short(gpu=amount), NOW + VERDICT_SECONDS)


@pytest.mark.parametrize(
    "layers",
    [[1], [None], [{}], "abc", {"a": 1}, [{"layer": [], "totals": {"cpu": 1}}], [{"totals": [1]}]],
    ids=str,
)
def test_verdicts_that_somebody_else_wrote_are_replaced(layers):
    assert worth_writing({**TOLD, "layers": layers}, VERDICT, NOW)
