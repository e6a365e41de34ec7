# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known about inspections: specification, phase, results, and the logs of build and runs. Reads only."""

from __future__ import annotations

import dataclasses
import json

from ansible_collections.muster.kube.plugins.module_utils._flow.build.info import BuildQuestion, answer_builds
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.answer import empty_answer, with_outcome
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.objects import CONTAINER
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.plan import IDENTIFIER_LABEL, INSPECTION_LABEL
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.record import (
    Damaged,
    Record,
    labels_of,
    list_with_damaged,
    read_outcome,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.job_watch import JobReader
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import read_log
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.job_run import (
    LOST_RESULT,
    SCRIPT_FAILED,
    PodFacts,
    RunFacts,
    RunState,
    outcome_state,
)
from ansible_collections.muster.kube.plugins.module_utils._model.run_result import outcome_problem
from ansible_collections.muster.kube.plugins.module_utils._model.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.run_failure import judge_run

# What only a task that inspects has to tell.
_DROPPED = ("cached", "changed", "verdict", "verdict_text", "ignored")


@dataclasses.dataclass(frozen=True, slots=True)
class InspectionQuestion:
    """Which inspections; None means all."""

    namespace: str | None = None
    inspection_id: str | None = None
    identifier: str | None = None
    labels: str | None = None
    logs: bool = True
    log_bytes: int = 65536


def answer_inspections(client: KubeClient, question: InspectionQuestion) -> Data:
    """The keys of the result of inspection_info."""
    own = f"{INSPECTION_LABEL}={question.inspection_id}" if question.inspection_id else INSPECTION_LABEL
    by_identifier = f"{IDENTIFIER_LABEL}={question.identifier}" if question.identifier else None
    selector = ",".join(part for part in (own, by_identifier, question.labels) if part)
    records, damaged = list_with_damaged(client, question.namespace, selector)
    told = [_entry(client, record, question) for record in records]
    told += [_unreadable(item) for item in damaged]
    return {"inspections": sorted(told, key=lambda entry: (entry["namespace"], entry["inspection_id"]))}


def _unreadable(item: Damaged) -> Data:
    """The entry of a record that says nothing any more."""
    answer = empty_answer(item.namespace) | {"inspection_id": item.name, "problem": item.problem}
    further: Data = {"labels": {}, "specification": None, "finished": None, "ttl": None, "logs": None}
    return {key: value for key, value in answer.items() if key not in _DROPPED} | further


def _entry(client: KubeClient, record: Record, question: InspectionQuestion) -> Data:
    """One inspection, with the keys the module inspection returns, and what only this module tells."""
    outcome = read_outcome(client, record)
    problem = None if outcome is None else outcome_problem(outcome)
    if problem is not None:
        problem = f"ConfigMap {record.namespace}/{record.name}: data.outcome: {problem}; run the task again"
        outcome = {"items": [], "reason": LOST_RESULT, "message": problem}
    facts = RunFacts(None) if outcome is not None else _facts(client, record)
    state = outcome_state(outcome) if outcome is not None else _running_state(client, facts)
    built = _mapping(record.spec.get("build"))
    answer = empty_answer(record.namespace)
    build = _build(client, record, built.get("spec_hash"), question)
    answer |= {
        "inspection_id": record.name,
        "attempt": record.attempt,
        **{key: built.get(key) for key in ("image", "image_digest", "spec_hash", "dockerfile")},
        "run_hash": record.identity,
        "status": {"build": build, "run": None},
    }
    logs = _item_logs(client, record, facts, outcome, question) if question.logs else None
    told = with_outcome(answer, state, outcome)
    return {
        **{key: value for key, value in told.items() if key not in _DROPPED},
        "problem": problem,
        "labels": labels_of(record),
        "specification": {"run": record.spec.get("run"), "script": record.spec.get("script"), "stack": _stack(build)},
        "finished": None if record.finished is None else time_text(record.finished),
        "ttl": record.ttl,
        "logs": {"build": ((build or {}).get("outcome") or {}).get("log"), "items": logs} if question.logs else None,
    }


def _mapping(value: object) -> Data:
    """A mapping, empty for anything else: others may have damaged the record."""
    return value if isinstance(value, dict) else {}


def _stack(build: Data | None) -> Data | None:
    """The stack behind the image, as far as the record of its build tells."""
    return None if build is None else build.get("specification")


def _build(client: KubeClient, record: Record, spec_hash: str | None, question: InspectionQuestion) -> Data | None:
    """What the record of the build tells; None for a ready image, or when it was removed."""
    if spec_hash is None:
        return None
    asked = BuildQuestion(namespace=record.namespace, spec_hash=spec_hash, log=question.logs)
    builds: list[Data] = answer_builds(client, asked)["builds"]
    image = _mapping(record.spec.get("build")).get("image")
    return next((build for build in builds if build["image"] == image), None)


def _facts(client: KubeClient, record: Record) -> RunFacts:
    """What can be read about the Job of an inspection that is not over."""
    try:
        return JobReader(client, record.namespace, record.job_name).read()
    except KubeError:
        return RunFacts(None)


def _running_state(client: KubeClient, facts: RunFacts) -> RunState:
    """Where an inspection stands that is not over; one without a Job waits for its task to be run again."""
    if facts.job is None:
        return RunState("pending", None, "it has no Job; run the task again", "queued")
    state = judge_run(facts, now=ServerClock(client).now(), start_timeout=None, failed_as=SCRIPT_FAILED)
    # Its results are not harvested yet; who runs the task again gets them.
    return RunState("running", None, "it is over; run the task again for its results") if state.over else state


def _item_logs(
    client: KubeClient, record: Record, facts: RunFacts, outcome: Data | None, question: InspectionQuestion
) -> list[Data]:
    """The output of each repetition: out of its result, or of pods that still run what they wrote so far."""
    if outcome is not None:
        return [
            {"index": item["index"], "stdout": _text(item["stdout"]), "stderr": item["stderr"], "pod": None}
            for item in outcome.get("items") or ()
        ]
    return [
        {"index": pod.index, "stdout": _live_log(client, record, pod, question), "stderr": "", "pod": pod.name}
        for pod in facts.pods
        if pod.started and not pod.vanished
    ]


def _live_log(client: KubeClient, record: Record, pod: PodFacts, question: InspectionQuestion) -> str:
    """The end of what a pod wrote so far."""
    try:
        found = read_log(client, record.namespace, pod.name, CONTAINER, tail_bytes=question.log_bytes)
    except KubeError as error:
        return f"({error})"
    return found.decode(errors="replace")


def _text(value: object) -> str:
    """The output as text; a value that was JSON is written as such."""
    return value if isinstance(value, str) else json.dumps(value)
