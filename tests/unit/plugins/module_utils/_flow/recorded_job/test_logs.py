# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logs whose end a runtime writes after it told that the container ended."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.logs import NotNow, PodLogs
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import holds_result
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import PodFacts
from ansible_collections.muster.kube.tests.support.job_api import JobApi

BEGIN = b"text\n-----BEGIN MUSTER RESULT v1 2 ------\n"
WHOLE = BEGIN + b"e30=\n-----END MUSTER RESULT-----\n"


def logs_of(api, *texts):
    """Reads the log of a pod that is as long as the next of these texts after each rest; the last one stays."""
    coming = list(texts)
    api.logs["p-0"] = coming.pop(0)

    def grow():
        if coming:
            api.logs["p-0"] = coming.pop(0)

    api.on_sleep = grow
    return PodLogs(api.client(), "team", 100, lambda _text: None, holds_result)


@pytest.mark.parametrize("parts", [(b"text\n", BEGIN, WHOLE), (BEGIN, BEGIN + b"e3", WHOLE), (WHOLE,)])
def test_a_log_that_grows_is_read_until_its_end_is_there(parts):
    api = JobApi()
    assert logs_of(api, *parts).patiently("p-0", "main") == WHOLE


@pytest.mark.parametrize("cut", [b"", b"killed\n", BEGIN, WHOLE + BEGIN])
def test_a_log_that_stays_without_an_end_is_taken_as_it_is(cut):
    api = JobApi()
    before = api.now
    assert logs_of(api, cut).patiently("p-0", "main") == cut
    assert api.now - before >= 3.0


def test_a_log_without_its_end_is_asked_for_again_later():
    api = JobApi()
    logs, pod = logs_of(api, BEGIN), PodFacts(name="p-0", uid="u", node="n")
    with pytest.raises(NotNow, match="the log of pod p-0 has no end yet"):
        logs.now(pod)("p-0", "main")
    api.logs["p-0"] = WHOLE
    api.now += 2.5
    assert logs.now(pod)("p-0", "main") == WHOLE


def test_where_logs_have_no_known_end_none_is_waited_for():
    api = JobApi()
    api.logs["p-0"] = b"built"
    assert PodLogs(api.client(), "team", 100, lambda _text: None).patiently("p-0", "main") == b"built"
