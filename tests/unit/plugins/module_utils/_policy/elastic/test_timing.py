# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a resize is carried out, and what it costs."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob, informed
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.speed import SpeedCurve
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.timing import (
    LONGEST_WAIT,
    lost_seconds,
    resize_moment,
)
from ansible_collections.muster.kube.tests.support.elastic_jobs import sizes_from

SAVED = Progress().at_checkpoint(100.0, 10).at_checkpoint(200.0, 20)


@pytest.mark.parametrize("timing", ["now", "on_sigterm"])
def test_some_wait_for_nothing(timing):
    assert resize_moment(timing, Progress(), 0.0, 0.0) == "go"


@pytest.mark.parametrize(
    ("planned", "now", "options", "moment"),
    [
        # A checkpoint from before the plan is no reason.
        (200.0, 210.0, {}, "wait"),
        (199.0, 200.0, {}, "go"),
        # It is safe only some time after it was reported.
        (199.0, 210.0, {"settle": 30.0}, "wait"),
        (199.0, 230.0, {"settle": 30.0}, "go"),
        # Usually there is one every 100 seconds.
        (210.0, 410.0, {}, "wait"),
        (210.0, 411.0, {}, "give_up"),
        (210.0, 411.0, {"otherwise": "go"}, "go"),
        (210.0, 411.0, {"timeout": 300.0}, "wait"),
        (210.0, 221.0, {"timeout": 10.0}, "give_up"),
        # One that is settling is waited for.
        (199.0, 220.0, {"timeout": 10.0, "settle": 30.0}, "wait"),
    ],
)
def test_a_checkpoint_is_waited_for(planned, now, options, moment):
    assert resize_moment("at_checkpoint", SAVED, planned, now, **options) == moment


def test_where_no_interval_is_known_the_wait_ends_as_well():
    assert resize_moment("at_checkpoint", Progress(), 0.0, LONGEST_WAIT) == "wait"
    assert resize_moment("at_checkpoint", Progress(), 0.0, LONGEST_WAIT + 1) == "give_up"


def test_only_a_resize_that_does_not_wait_loses_work():
    assert lost_seconds("at_checkpoint", None, 500.0, 1000.0) == 0.0
    assert lost_seconds("on_sigterm", 1.0, 500.0, 1000.0) == 0.0
    assert lost_seconds("now", None, 500.0, 1000.0) == 500.0
    assert lost_seconds("now", 900.0, 500.0, 1000.0) == 100.0
    assert lost_seconds("now", 100.0, 500.0, 1000.0) == 500.0
    assert lost_seconds("now", 1001.0, 500.0, 1000.0) == 0.0


def test_a_job_is_informed_by_its_trainer():
    told = SAVED.at_step(190.0, 18, 2, total=100).at_step(230.0, 26, 2)
    curve = SpeedCurve(profile={1: 1.0, 4: 3.0})
    job = informed(ElasticJob("a", sizes_from(1, 4), 2, curve, timing="now", ran=230.0), told, 240.0)
    assert job.curve.measured == {2: 0.2}
    assert job.curve.profile == {1: 1.0, 4: 3.0}
    assert (job.remaining, job.total, job.checkpointed, job.restart) == (74, 100, 200.0, 100.0)
    nothing = informed(ElasticJob("a", sizes_from(1, 4)), Progress(), 240.0)
    assert (nothing.curve.known, nothing.remaining, nothing.checkpointed, nothing.restart) == (False, None, None, 60.0)
