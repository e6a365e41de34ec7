# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of a job beside what is told of every gang."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.told_job import told_job
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.tests.support import gang_cases as cases

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("phase", "attempt", "restarts"),
    [
        (None, None, 0),
        ("queued", 1, 0),
        ("running", 1, 0),
        ("resizing", 1, 0),
        ("queued", 2, 0),
        ("dispatched", 2, 1),
        ("running", 3, 2),
        ("suspended", 3, 1),
        ("failed", 3, 2),
    ],
)
def test_each_start_after_the_first_counts(phase, attempt, restarts):
    assert told_job({"phase": phase, "attempt": attempt}, None)["restarts"] == restarts


def test_the_range_and_the_method_follow_from_the_specification():
    job = cases.job("j", None, 1, **{"cpu": "1", GPU: "2"})
    data = {"name": "g", "namespace": "a", "objects": [job], "elastic": {"range": {"min": 2, "max": 3}, "size": 3}}
    told = told_job({"name": "g", "phase": "queued", "attempt": 1}, read_spec(data, "gang a/g"))
    assert told == {
        "name": "g",
        "phase": "queued",
        "attempt": 1,
        "range": {"sizes": [2, 3], "resource": GPU, "podset": "j", "axis": "per_pod"},
        "method": "recreate",
        "progress": None,
        "restarts": 0,
        "lost_seconds": None,
    }


def test_nothing_is_known_of_the_sizes_without_one():
    told = told_job({"phase": None, "attempt": None}, None)
    assert (told["range"], told["method"]) == (None, None)
