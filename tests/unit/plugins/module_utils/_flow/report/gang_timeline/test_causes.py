# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a gang waited for, from verdicts of all shapes."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.gang_timeline.causes import (
    cause_of,
    reason_words,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import Cause
from ansible_collections.muster.kube.tests.support.report_cases import waiting_verdict


def test_amounts_that_are_short_in_all_come_with_readable_sizes():
    cause = cause_of(waiting_verdict(cpu="1050m", memory="2924544Ki", pods="0"), "text")
    assert cause == Cause("not enough free resources", ("1050m cpu", "2.8Gi memory"), "text")


def test_quota_tree_comes_before_everything_else():
    verdict = waiting_verdict("quota", cpu="1")
    verdict["layers"].insert(0, {"layer": "quota", "totals": {"cpu": {"short": "250m"}, "memory": 3}})
    cause = cause_of(verdict, "")
    assert cause is not None
    assert cause.short == ("250m cpu of the quota tree", "1 cpu")


def test_quotas_come_first_and_are_named():
    verdict = waiting_verdict("namespace_quota", cpu="1")
    verdict["layers"][0]["quotas"] = [
        {"quota": "team", "resource": "requests.cpu", "short": "500m"},
        {"quota": "team", "resource": "pods", "short": "0"},
    ]
    cause = cause_of(verdict, "")
    assert cause is not None
    assert cause.short == ("500m cpu of quota team", "1 cpu")


def test_where_only_single_nodes_are_too_small_the_nearest_tells():
    verdict = waiting_verdict("fragmentation", cpu="0")
    verdict["layers"][1]["podsets"] = [{"nearest": {"node": "n", "short": {"cpu": "2"}}}, {"nearest": None}]
    assert cause_of(verdict, "") == Cause("enough is free in all, but not on single nodes", ("2 cpu on one node",), "")


def test_a_detail_is_told_with_the_reason():
    verdict = {"answer": "never", "reason": "claim_missing", "detail": "data"}
    assert cause_of(verdict, "") == Cause(
        "can never start as it is: a PersistentVolumeClaim does not exist (data)", never=True
    )


@pytest.mark.parametrize("verdict", [None, {}, [], "waits", {"answer": "fits", "reason": "insufficient"}])
def test_no_waiting_no_cause(verdict):
    assert cause_of(verdict, "text") is None


@pytest.mark.parametrize(
    ("reason", "words"), [("LostRace", "lost race"), ("some_new_reason", "some new reason"), ("Preempted", "preempted")]
)
def test_unexplained_reasons_are_taken_apart(reason, words):
    assert reason_words(reason) == words


WHOLE = {
    **waiting_verdict(cpu="0"),
    "layers": [
        {"layer": "namespace", "passed": False, "quotas": [{"quota": "q", "resource": "pods", "short": "1"}]},
        {
            "layer": "slots",
            "passed": False,
            "totals": {"cpu": {"short": "0"}},
            "podsets": [{"nearest": {"node": "n", "short": {"cpu": "2"}}}],
        },
    ],
}


def damaged(value, junk):
    """The value with one part after the other replaced by something else."""
    yield junk
    if isinstance(value, dict):
        for key, part in value.items():
            yield from ({**value, key: other} for other in damaged(part, junk))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in damaged(part, junk))


@pytest.mark.parametrize("junk", [None, True, -7, 1.5, "x", "", [], [[]], {}, {"x": {}}])
def test_damaged_layers_never_break_the_report(junk):
    causes = [cause_of({**WHOLE, "layers": layers}, "") for layers in damaged(WHOLE["layers"], junk)]
    assert len(causes) > 15
    assert {cause.reason for cause in causes if cause} == {"not enough free resources"}
    assert None not in causes
