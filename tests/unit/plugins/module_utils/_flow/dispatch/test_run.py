# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of a run: what a single cycle leaves to nobody else, and what a result holds."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch import run
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import (
    LONGEST_WARNING,
    MOST_WARNINGS,
    DispatchResult,
    run_dispatch,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.dispatch_session import LEASE
from ansible_collections.muster.kube.tests.support.faulty_api import FaultyApi
from ansible_collections.muster.kube.tests.support.gang_records import add_record

JOBS = "/apis/batch/v1/namespaces/team/jobs"
SHORT = 0.05


@pytest.fixture
def api() -> FaultyApi:
    made = FaultyApi()
    room = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    status = {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    made.put("/api/v1/nodes/n0", {"kind": "Node", "metadata": {"name": "n0"}, "spec": {}, "status": status})
    return made


def test_single_cycle_tells_of_a_start_that_took_longer_than_it_waits(
    api: FaultyApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LINGER", SHORT)
    late = threading.Event()
    record = add_record(api)

    def slow() -> None:
        """Longer than anybody waits for a call; the dry run was quick."""
        late.wait(10 * SHORT)

    api.before("POST", f"{JOBS}$", lambda: None)
    api.before("POST", f"{JOBS}$", slow)
    terms = DispatchOptions(namespaces=("team",), lease=LEASE)
    result = run_dispatch(api.client(), api.client(), terms, lambda _text: None)
    assert result.cycles == 2
    assert result.phases[record.uid] == "dispatched"
    assert [item.action for item in result.decisions if item.uid == record.uid] == ["start"]


def test_result_keeps_each_warning_once_and_not_too_many() -> None:
    result = DispatchResult()
    assert result.warn("one")
    assert not result.warn("one")
    told = [result.warn(f"number {number}") for number in range(2 * MOST_WARNINGS)]
    assert all(told)
    assert len(result.warnings) == MOST_WARNINGS + 1
    assert "left out" in result.warnings[-1]


def test_result_keeps_the_beginning_of_a_long_warning_once() -> None:
    result = DispatchResult()
    assert result.warn("x" * 100_000)
    assert not result.warn("x" * 200_000)
    assert [len(text) for text in result.warnings] == [LONGEST_WARNING]
