# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress from reports that come twice, late and with gaps between them."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import (
    KEPT_CHECKPOINTS,
    KEPT_PACES,
    Checkpoint,
    Progress,
    StepSeen,
    read_progress,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

REPORTS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200), st.sampled_from((2, 4))), max_size=20)


def reported(*reports: tuple[float, int, int], total: int | None = None) -> Progress:
    """Progress after reports of time, step and size."""
    progress = Progress()
    for time, step, size in reports:
        progress = progress.at_step(time, step, size, total)
    return progress


@settings(max_examples=examples(60))
@given(REPORTS, REPORTS)
def test_reports_that_are_old_or_come_again_change_nothing(reports, late):
    progress = reported(*reports)
    assert reported(*reports, *reports[-1:]) == progress
    for time, step, size in late:
        if progress.seen is not None and time <= progress.seen.time:
            assert progress.at_step(time, step, size) is progress
    assert all(speed > 0 for speed in progress.speeds.values())


@settings(max_examples=examples(60))
@given(REPORTS)
def test_what_is_stored_comes_back(reports):
    progress = reported(*reports, total=300).at_checkpoint(3.5, 7).at_checkpoint(9, 8)
    assert read_progress(json.loads(json.dumps(progress.as_data())), "progress") == progress


def test_speed_is_that_of_steps_without_restarts_and_checkpoints():
    steady = [(30.0 * n, 60 * n, 2) for n in range(6)]
    # A checkpoint took 40 s in one interval; a restart from step 240 came after it; then a step to 4 GPUs.
    gap = [(220.0, 360, 2), (300.0, 240, 2), (330.0, 300, 2)]
    progress = reported(*steady, *gap, (400.0, 310, 4), (430.0, 400, 4))
    assert progress.speeds == {2: 2.0, 4: 3.0}
    assert progress.speed(8) is None
    assert progress.seen == StepSeen(430.0, 400, 4)


def test_a_report_of_the_same_step_at_a_later_time_says_nothing_new():
    progress = reported((0, 0, 2), (10, 20, 2))
    assert progress.at_step(11, 20, 2) is progress
    assert progress.at_step(20, 40, 2).speed(2) == 2.0


def test_checkpoints_only_go_forward_and_tell_their_usual_distance():
    progress = Progress().at_checkpoint(100, 10).at_checkpoint(160, 20).at_checkpoint(400, 30).at_checkpoint(460, 40)
    assert progress.at_checkpoint(460, 50) is progress
    assert progress.at_checkpoint(500, 40) is progress
    assert progress.checkpoint == Checkpoint(460, 40)
    assert progress.checkpoint_interval == 60
    assert Progress().at_checkpoint(1, 1).checkpoint_interval is None
    many = Progress()
    for n in range(1, 50):
        many = many.at_checkpoint(n, n).at_step(n, n, 1)
    assert len(many.checkpoints) == KEPT_CHECKPOINTS
    assert len(many.paces[1]) == KEPT_PACES


def test_what_is_left_and_what_would_be_lost():
    progress = reported((0, 0, 2), (10, 30, 2), total=120)
    assert (progress.remaining, progress.share, progress.unsaved()) == (90, 0.25, 30)
    assert progress.at_checkpoint(11, 20).unsaved() == 10
    assert progress.at_checkpoint(11, 20).unsaved(50) == 30
    assert (Progress().remaining, Progress().share, Progress().unsaved(), Progress().checkpoint) == (
        None,
        None,
        0,
        None,
    )
    assert Progress(total=5).remaining == 5
    assert reported((0, 8, 1), total=5).remaining == 0


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"seen": {"time": -1, "step": 1, "size": 1}}, "seen: time"),
        ({"seen": {"time": 1, "step": 1}}, "seen: size: it is missing"),
        ({"total": "many"}, "total"),
        ({"checkpoints": [[1]]}, r"checkpoints\[0\]: two numbers are needed"),
        ({"paces": {"2": [["a", 1]]}}, "paces"),
        ([], "a mapping is needed"),
        ({"checkpoints": [[1e17, 5]]}, "checkpoints: time: 1e\\+17 is no time"),
        ({"seen": {"time": 1e12, "step": 1, "size": 2}}, "time: 1e\\+12 is no time"),
        ({"epoch_steps": 1e-13}, "epoch_steps: an epoch of 1e-13 steps"),
        ({"epoch_steps": -1}, "epoch_steps"),
    ],
)
def test_damaged_progress_is_refused(data, told):
    with pytest.raises(BadInput, match=told):
        read_progress(data, "progress of x")


def test_intervals_without_time_or_steps_are_left_out_and_newer_formats_are_left_alone():
    assert read_progress({"paces": {"2": [[1, 0], [0, 1], [4, 2]], "x": []}}, "p").speeds == {2: 2.0}
    with pytest.raises(NewerVersion):
        read_progress({"format": 2}, "p")
