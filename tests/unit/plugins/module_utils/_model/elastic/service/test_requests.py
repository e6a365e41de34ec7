# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What callers send: every wrong value is refused by its name, and epochs become steps."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import (
    Checkpoint,
    Progress,
    StepSeen,
    read_progress,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service import requests
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.epochs import (
    epochs_of,
    steps_of,
    with_epochs,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.requests import AskedJob
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.routes import Route, match_route
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.trainer_report import (
    TrainerReport,
    is_older,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields


def route(method: str, path: str) -> Route:
    """A route that exists."""
    return t.cast(t.Any, match_route(method, path)).route


def body(path: str, told: t.Any, method: str = "PUT") -> Fields:
    """A body as it is read."""
    return requests.read_body(route(method, path), told if isinstance(told, bytes) else json.dumps(told).encode())


CHECKPOINT = {"job_name": "a", "last_checkpoint_time": 5.5, "completed_epochs": 1.5}


def test_a_checkpoint() -> None:
    found = requests.read_checkpoint(body("/update_last_checkpoint", CHECKPOINT))
    assert found == requests.CheckpointReport(AskedJob("a"), 5.5, 1.5, None)
    # Fractions that were added up may be a little more than all.
    over = {**CHECKPOINT, "completed_epochs": 3.0000001, "total_epochs": 3}
    assert requests.read_checkpoint(body("/update_last_checkpoint", over)).completed_epochs == 3
    assert requests.read_checkpoint(body("/update_last_checkpoint", {**over, "total_epochs": 0})).total_epochs is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"job_name": None}, "job_name"),
        ({"job_name": 7}, "job_name"),
        ({"job_name": "a/b/c"}, "job_name"),
        ({"job_name": "A"}, "job_name"),
        ({"job_name": "/a"}, "job_name"),
        ({"last_checkpoint_time": None}, "last_checkpoint_time"),
        ({"last_checkpoint_time": "now"}, "last_checkpoint_time"),
        ({"last_checkpoint_time": True}, "last_checkpoint_time"),
        ({"completed_epochs": -1}, "completed_epochs"),
        ({"completed_epochs": 1e12}, "completed_epochs"),
        ({"completed_epochs": 4, "total_epochs": 3}, "completed_epochs"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_checkpoint_that_makes_no_sense(change: dict[str, t.Any], named: str) -> None:
    with pytest.raises(BadInput, match=named):
        requests.read_checkpoint(body("/update_last_checkpoint", {**CHECKPOINT, **change}))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b"null", b'"a"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object(text: bytes) -> None:
    with pytest.raises(BadInput, match="body"):
        body("/update_last_checkpoint", text)


def test_no_body_is_needed_where_nothing_has_to_be_said() -> None:
    assert body("/scale/a", b"", "POST").data == {}
    with pytest.raises(BadInput, match="size"):
        body("/scale/a", {"size": 4}, "POST")


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "٣", "99999999", "9" * 5000])
def test_numbers_of_gpus(text: str) -> None:
    assert requests.gpus_of("12") == 12
    with pytest.raises(BadInput):
        requests.gpus_of(text)


def test_names_of_jobs() -> None:
    assert requests.asked_job("ns/a.b", "x") == AskedJob("a.b", "ns")
    assert requests.asked_job("a", "x", "ns") == requests.asked_job("ns/a", "x", "ns") == AskedJob("a", "ns")
    assert str(AskedJob("a", "ns")) == "ns/a"
    for wrong in ("ns/a", "a.b/a", "a/", "a" * 254):
        with pytest.raises(BadInput):
            requests.asked_job(wrong, "x", "other" if wrong == "ns/a" else None)
    assert requests.asked_jobs(["a", "a", "b"], None) == [AskedJob("a"), AskedJob("b")]
    for names in ([], ["a"] * 101):
        with pytest.raises(BadInput):
            requests.asked_jobs(names, None)


def test_a_job() -> None:
    told = {"definition": {"kind": "Job"}, "range": {"min": 2}, "global_batch": {"value": 8}, "timing": "now"}
    found = requests.read_job(body("/jobs", told, "POST"))
    assert found.terms == {"timing": "now", "range": {"min": 2, "global_batch": {"value": 8}}}
    assert requests.read_job(body("/jobs", {"definition": [{"kind": "Job"}]}, "POST")).terms == {}
    # A text could be YAML, in which a few lines stand for gigabytes.
    texts = ("kind: Job", ["kind: Job"], [[]], [])
    for wrong in (
        *({"definition": item} for item in texts),
        {"definition": 7},
        {**told, "range": []},
        {**told, "src": "/etc/passwd"},
        {**told, "rerun": "yes"},
    ):
        with pytest.raises(BadInput):
            requests.read_job(body("/jobs", wrong, "POST"))


# Epochs.


def test_epochs_alone_are_kept_in_thousandths() -> None:
    known = with_epochs(Progress(), 3)
    assert (known.total, steps_of(known, 1.5), epochs_of(known, 1500)) == (3000, 1500, 1.5)
    assert with_epochs(Progress(), None).total is None
    assert read_progress(known.as_data(), "x") == known


def test_epochs_of_a_training_that_tells_its_steps() -> None:
    stepping = Progress(StepSeen(1.0, 50, 2), total=600)
    known = with_epochs(stepping, 3)
    assert (known.epoch_steps, known.total, steps_of(known, 1.5)) == (200, 600, 300)
    # Later it may leave the total out.
    assert steps_of(with_epochs(known, None), 2) == 400
    for unknown, total in ((stepping, None), (Progress(StepSeen(1.0, 50, 2)), 3.0)):
        with pytest.raises(BadInput, match="epochs"):
            with_epochs(unknown, total)


@pytest.mark.parametrize("total", [5e-324, 1e-9, 0.001, 1.0, 1e9])
@pytest.mark.parametrize("steps", [0, 1, 2**53])
def test_numbers_that_were_made_up_stay_readable(total: float, steps: int) -> None:
    try:
        known = with_epochs(Progress(StepSeen(1.0, 0, 2), total=steps), total)
    except BadInput:
        return
    for epochs in (0.0, total, 1e9):
        told = (
            with_epochs(known, 1e9).at_step(2.0, steps_of(known, epochs), 2).at_checkpoint(2.0, steps_of(known, epochs))
        )
        assert read_progress(told.as_data(), "x") == told
        assert epochs_of(told, told.total) >= 0


def test_nobody_told_epochs() -> None:
    assert epochs_of(Progress(StepSeen(1.0, 50, 2), total=600), 50) == 0
    assert epochs_of(with_epochs(Progress(), 3), None) == 0


# Which report of the file for trainings is older.


@pytest.mark.parametrize(
    ("report", "older"),
    [
        (TrainerReport(100.0, 7), True),
        (TrainerReport(100.5, 8), False),
        (TrainerReport(99.5, 8), False),
        (TrainerReport(99.5, 7, checkpoint=Checkpoint(99.5, 7)), False),
        (TrainerReport(99.5, 7, completed=True), False),
        (TrainerReport(99.5, 6), True),
        (TrainerReport(98.0, 8), True),
        (TrainerReport(101.0, 3), False),
    ],
)
def test_reports_of_the_same_second(report: TrainerReport, older: bool) -> None:
    assert is_older(report, TrainerReport(100.0, 7), 100.0) == older


def test_a_report_of_a_clock_that_was_ahead_keeps_none_from_being_taken() -> None:
    ahead = TrainerReport(900.0, 7)
    assert not is_older(TrainerReport(100.0, 3), ahead, 100.0)
    # Those of the same clock are in order all the same.
    assert is_older(TrainerReport(800.0, 9), ahead, 100.0)
    assert is_older(ahead, ahead, 100.0)
