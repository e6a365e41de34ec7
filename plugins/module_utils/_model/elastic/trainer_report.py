# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a trainer writes of itself: where it is, and which checkpoint is the last one that is safely stored.

Nobody has to believe it. It is bounded, it is read like any other text of others, and its clock counts only as far as
it is not ahead of ours.
"""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.planned import answer_time
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Checkpoint, Progress
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields, parse_json

REPORT_FORMAT = 1
# A report is a handful of numbers.
REPORT_BYTES = 4096
_MOST = 2**53
# Trainers read the server's clock from headers, which know whole seconds: within so many the order is not known.
_ROUNDED = 1.5


class TrainerReport(t.NamedTuple):
    """The last report of a trainer; times are seconds since 1970 by the clock of the API server, as it knows it.

    answers is the question after a checkpoint that it had heard when it did nothing since its checkpoint.
    """

    time: float
    step: int
    total: int | None = None
    checkpoint: Checkpoint | None = None
    completed: bool = False
    answers: float | None = None


def read_report(text: t.Any, where: str) -> TrainerReport:
    """The report in a text; BadInput for anything else."""
    if isinstance(text, str) and len(text) > REPORT_BYTES:
        raise BadInput("read", where, f"it has {len(text)} characters of at most {REPORT_BYTES}")
    fields = Fields(parse_json(text, where), where)
    fields.require_format(REPORT_FORMAT)
    step = fields.whole("step", 0, _MOST, required=True)
    total = None if fields.get("total") is None else fields.whole("total", 0, _MOST)
    if total is not None and step > total:
        raise fields.fail("step", f"{step} is more than the total of {total}")
    saved, answers = None, None
    if fields.get("checkpoint") is not None:
        entry = Fields(fields.mapping("checkpoint"), f"{where}: checkpoint")
        saved = Checkpoint(entry.number("time"), entry.whole("step", 0, _MOST, required=True))
        answers = None if entry.get("asked") is None else entry.number("asked")
    return TrainerReport(fields.number("time"), step, total, saved, fields.flag("completed"), answers)


def with_report(
    progress: Progress, report: TrainerReport, *, size: int, began: float, now: float, asked: float | None = None
) -> Progress:
    """Progress after a report; one that was written before the present attempt began tells of its checkpoint only.

    asked is the question that the trainer is asked.
    """
    if report.time >= began:
        progress = progress.at_step(min(report.time, now), report.step, size, report.total)
    if report.checkpoint is not None:
        time, answers = min(report.checkpoint.time, now), asked is not None and report.answers == asked
        if asked is not None and answers:
            # A clock that is ahead would say another time whenever it is looked at.
            time = answer_time(asked, report.checkpoint.time if report.checkpoint.time <= now else asked)
        progress = progress.at_checkpoint(time, report.checkpoint.step, answers=answers)
    return progress.at_end() if report.completed and report.time >= began else progress


def is_older(report: TrainerReport, other: TrainerReport, now: float) -> bool:
    """Whether a report was written before another one, or is the same; times alone tell that of far ones only.

    One whose clock was ahead is not waited for until its time has come.
    """
    if report == other:
        return True
    if other.time > now + _ROUNDED >= report.time:
        return False
    if report.time < other.time - _ROUNDED:
        return True
    saved = -1 if report.checkpoint is None else report.checkpoint.step
    known = -1 if other.checkpoint is None else other.checkpoint.step
    further = report.step > other.step or saved > known or (report.completed and not other.completed)
    return report.time <= other.time and not further
