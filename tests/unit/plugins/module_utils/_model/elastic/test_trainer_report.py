# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What trainers write: read without trust, and taken in so that what comes twice or late changes nothing."""

from __future__ import annotations

import json
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import (
    KEPT_SIZES,
    Checkpoint,
    Progress,
    read_progress,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.trainer_report import (
    TrainerReport,
    read_report,
    with_report,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support.random_size import examples
from ansible_collections.muster.kube.tests.support.random_values import odd_value
from hypothesis import given, settings
from hypothesis import strategies as st

TIMES = st.floats(0, 1e6)
STEPS = st.integers(0, 1000)
REPORTS = st.lists(
    st.builds(
        TrainerReport,
        TIMES,
        STEPS,
        st.none() | st.integers(1000, 2000),
        st.none() | st.builds(Checkpoint, TIMES, STEPS),
        st.booleans(),
    ),
    max_size=12,
)


def taken_in(reports: list[TrainerReport], progress: Progress | None = None, now: float = 1e6) -> Progress:
    """Progress after these reports."""
    progress = progress or Progress()
    for report in reports:
        progress = with_report(progress, report, size=2, began=100.0, now=now)
    return progress


@settings(max_examples=examples(200))
@given(REPORTS, REPORTS)
def test_what_comes_twice_or_late_changes_nothing(reports: list[TrainerReport], late: list[TrainerReport]) -> None:
    progress = taken_in(reports)
    assert taken_in(reports[-1:], progress) == progress
    seen, saved = progress.seen, progress.checkpoint
    for report in late:
        older = seen is not None and report.time <= seen.time and not report.completed
        kept = report.checkpoint is None or (saved is not None and report.checkpoint.time <= saved.time)
        if older and kept:
            assert with_report(progress, report, size=2, began=100.0, now=1e6) == progress
    text = json.dumps(progress.as_data())
    assert read_progress(json.loads(text), "p") == progress
    assert all(0 < speed < 1e10 for speed in progress.speeds.values())


@settings(max_examples=examples(100))
@given(REPORTS, TIMES)
def test_nothing_is_ever_in_the_future(reports: list[TrainerReport], now: float) -> None:
    progress = taken_in(reports, now=now)
    assert progress.seen is None or progress.seen.time <= now
    assert all(item.time <= now for item in progress.checkpoints)


def test_steps_of_an_earlier_attempt_are_none_of_this_one_but_its_checkpoint_is_there() -> None:
    report = TrainerReport(99.0, 7, 10, Checkpoint(98.0, 6), True)
    assert taken_in([report]) == Progress(checkpoints=(Checkpoint(98.0, 6),))
    assert taken_in([report._replace(time=101.0)]).total == 7


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (None, "a text is needed"),
        ("{", "no JSON"),
        ('{"step": NaN}', "no JSON"),
        ("3", "a mapping is needed"),
        ("{}", "step: it is missing"),
        ('{"step": true}', "a whole number"),
        ('{"step": 5, "total": 4}', "5 is more than the total of 4"),
        ('{"step": 1, "time": -1}', "not negative"),
        ('{"step": 1, "checkpoint": {"time": 1}}', "checkpoint: step: it is missing"),
        ('{"step": 1, "checkpoint": 3}', "a mapping is needed"),
        ('{"step": 1, "completed": 1}', "true or false"),
        ('{"step": 1, "format": 2}', "format 2"),
        ('{"step": 1}' + " " * 5000, "at most 4096"),
        ("[" * 4000, "nested too deeply|no JSON"),
    ],
)
def test_what_is_no_report_is_refused(text: object, cause: str) -> None:
    with pytest.raises(BadInput, match=cause):
        read_report(text, "ConfigMap a/p")


def test_whatever_is_stored_is_read_or_refused() -> None:
    chance = random.Random(1)
    whole = taken_in([TrainerReport(200.0, 3, 9, Checkpoint(190.0, 3)), TrainerReport(300.0, 6, 9)]).as_data()
    for _turn in range(examples(2000)):
        damaged = {**whole, chance.choice(sorted(whole)): odd_value(chance)}
        try:
            progress = read_progress(damaged, "p")
        except MusterError:
            continue
        assert all(0 < speed < 1e10 for speed in progress.speeds.values())


def test_sizes_are_bounded_and_numbers_are_those_of_a_training() -> None:
    progress = Progress()
    for size in range(1, 500):
        progress = progress.at_step(10.0 * size, 0, size).at_step(10.0 * size + 5, 10, size)
    assert len(progress.paces) == KEPT_SIZES
    assert progress.speed(499) == 2.0
    damaged = {"paces": {"9" * 5000: [[1, 1]], "0": [[1, 1]], "2": [[1e17, 1e-300], [1, 1e17], [4, 2]]}}
    assert read_progress(damaged, "p").speeds == {2: 2.0}
    assert Progress().at_step(1, 0, 2).at_step(1 + 1e-9, 10**15, 2).speeds == {}


def test_an_answer_counts_from_the_question_on_whatever_the_clocks_say() -> None:
    told = TrainerReport(500.0, 20, None, Checkpoint(500.0, 20))
    progress = with_report(Progress(), told, size=2, began=100.0, now=500.0, asked=501.0)
    assert progress.checkpoint == (500.0, 20)
    # Told again when the question is known: it is the same checkpoint.
    answer = told._replace(answers=501.0)
    later = with_report(progress, answer, size=2, began=100.0, now=500.0, asked=501.0)
    assert later.checkpoint is not None
    assert (len(later.checkpoints), later.checkpoint.step, 501.0 < later.checkpoint.time < 501.1) == (1, 20, True)
    assert with_report(later, answer, size=2, began=100.0, now=900.0, asked=501.0) == later
    # An answer to a question that nobody asks is none.
    assert with_report(progress, answer, size=2, began=100.0, now=500.0, asked=502.0) == progress


@pytest.mark.parametrize("asked", ["no", [1], True])
def test_a_damaged_answer_is_refused(asked: object) -> None:
    text = json.dumps({"format": 1, "time": 1, "step": 1, "checkpoint": {"time": 1, "step": 1, "asked": asked}})
    with pytest.raises(BadInput):
        read_report(text, "r")
