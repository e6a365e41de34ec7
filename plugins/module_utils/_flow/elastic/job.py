# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind elastic_job: gangs whose sizes may change, queued and told as such."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.foresight import foresee_jobs
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.reported import Reported
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.told_job import told_job
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangOptions, GangOutcome, Report
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import RequestedGang
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.run import (
    Connect,
    GangAnswer,
    NotReached,
    run_gangs,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.submit import Found
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.hazards import hazards
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

# What is done with a gang, for messages.
_VERBS = {"present": "queue", "suspended": "suspend", "absent": "remove"}


class JobNotReached(NotReached):
    """A job that is not where its task wants it; the results say where each one stands."""

    def as_result(self) -> Data:
        """The family's keys and the jobs."""
        told = super().as_result()
        return {"jobs": told.pop("gangs"), **told}


@dataclasses.dataclass(frozen=True, slots=True)
class JobAnswer:
    """What became of all jobs of a task, and what is told of each."""

    answer: GangAnswer
    entries: tuple[Data, ...]

    def as_result(self, *, diff: bool = False) -> Data:
        """The keys of the module's result."""
        told = self.answer.as_result(diff=diff)
        del told["gangs"]
        return {**told, "jobs": list(self.entries)}


class _Demands:
    """What is demanded of jobs before anything is written, and what was found meanwhile."""

    def __init__(self, options: GangOptions) -> None:
        """Nothing is known yet."""
        self._options = options
        self.specs: dict[tuple[str, str], GangSpec | None] = {}

    def spec_of(self, outcome: GangOutcome) -> GangSpec | None:
        """What a job is now: one that was left alone is what its record says."""
        if outcome.action == "unchanged" and outcome.record is not None and outcome.record.spec is not None:
            return outcome.record.spec
        return self.specs.get((outcome.namespace, outcome.name))

    def __call__(self, wanted: Sequence[RequestedGang], found: Sequence[Found]) -> None:
        """Look at every job; what is wrong with one of them keeps all from being written."""
        for item, place in zip(wanted, found, strict=True):
            there = place.record.spec if place.record is not None else None
            self.specs[item.namespace, item.name] = item.spec or there
            self._require_elastic(item, place.record)

    def _require_elastic(self, wanted: RequestedGang, record: Record | None) -> None:
        """Refuse a gang of fixed size that has the name of the job, unless it is to be replaced by the job."""
        if record is None or record.spec is None or record.spec.elastic is not None:
            return
        state = self._options.state
        if wanted.spec is not None and state != "absent" and self._options.replace:
            return
        cause = f"a gang of fixed size has this name (it is {record.phase}); use muster.kube.gang for it"
        if wanted.spec is not None and state != "absent":
            cause += ", give the job another name, or use replace: true to have the job in its place"
        raise BadInput(_VERBS[state], f"the elastic job {wanted.namespace}/{wanted.name}", cause)


def run_elastic_jobs(connect_again: Connect, options: GangOptions, report: Report) -> JobAnswer:
    """Do what the task asks; connect_again opens one more connection to the same cluster each time."""
    demands = _Demands(options)
    try:
        answer = run_gangs(connect_again, options, report, demands)
    except NotReached as error:
        results = [told_job(item, demands.specs.get((item["namespace"], item["name"]))) for item in error.results]
        raise JobNotReached(error.target, error.cause, results) from error
    outcomes = tuple(map(_with_hazards, answer.outcomes))
    if options.check_mode and options.state == "present":
        outcomes = foresee_jobs(connect_again(), options, outcomes)
    answer = dataclasses.replace(answer, outcomes=outcomes)
    reported = Reported(connect_again())
    entries = (
        told_job(
            entry,
            demands.spec_of(outcome),
            reported.of(outcome.record) if outcome.record is not None else None,
            suspended_jobs_change=reported.suspended_jobs_change,
        )
        for entry, outcome in zip(answer.entries(), outcomes, strict=True)
    )
    return JobAnswer(answer, tuple(entries))


def _with_hazards(outcome: GangOutcome) -> GangOutcome:
    """The outcome; what in the objects of a job that is written makes resizes lose work is warned of."""
    spec = outcome.after
    if not outcome.changed or spec is None or spec.elastic is None:
        return outcome
    texts = hazards(spec.objects, spec.elastic, spec.namespace)
    told = (f"elastic job {outcome.namespace}/{outcome.name}: {text}" for text in texts)
    return dataclasses.replace(outcome, warnings=(*outcome.warnings, *told))
