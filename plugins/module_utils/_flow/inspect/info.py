# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known about inspections: specification, phase, results, and the logs of build and runs. Reads only."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.build.info import BuildInfoOptions, answer_builds
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.answer import (
    empty_answer,
    run_phase,
    with_outcome,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.objects import CONTAINER
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.plan import IDENTIFIER_LABEL, INSPECTION_LABEL
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.follow import JobReader
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import read_log
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import without_result
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    LOST_RESULT,
    SCRIPT_FAILED,
    PodFacts,
    RunFacts,
    RunState,
    outcome_state,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_result import outcome_problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import judge_run
from ansible_collections.muster.kube.plugins.module_utils._store.run_records import (
    Damaged,
    RunRecord,
    labels_of,
    list_with_damaged,
    read_outcome,
)

# What only a task that inspects has to tell.
_DROPPED = ("cached", "changed", "verdict", "verdict_text", "ignored", "matrix")


@dataclasses.dataclass(frozen=True, slots=True)
class InspectionInfoOptions:
    """Which inspections; None means all."""

    namespace: str | None = None
    inspection_id: str | None = None
    identifier: str | None = None
    labels: str | None = None
    phases: frozenset[str] = frozenset()
    limit: int | None = None
    logs: bool = False
    log_bytes: int = 65536


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """A record with what its outcome or its Job tells."""

    record: RunRecord
    outcome: Data | None
    facts: RunFacts
    state: RunState
    problem: str | None = None

    @property
    def built(self) -> Data:
        """What the record tells of its image."""
        return _mapping(self.record.spec.get("build"))


def answer_inspections(client: KubeClient, question: InspectionInfoOptions) -> Data:
    """The keys of the result of inspection_info."""
    own = f"{INSPECTION_LABEL}={question.inspection_id}" if question.inspection_id else INSPECTION_LABEL
    by_identifier = f"{IDENTIFIER_LABEL}={question.identifier}" if question.identifier else None
    selector = ",".join(part for part in (own, by_identifier, question.labels) if part)
    records, damaged = list_with_damaged(client, question.namespace, selector)
    found = _chosen(client, records, question)
    builds = _builds(client, found, question)
    told = [_entry(client, known, builds, question) for known in found]
    # Their phase is unknown, so they are told whatever was asked for.
    told += [_unreadable(item) for item in damaged]
    return {"inspections": sorted(told, key=lambda entry: (entry["namespace"], entry["inspection_id"]))}


def _unreadable(item: Damaged) -> Data:
    """The entry of a record that says nothing any more."""
    answer = empty_answer(item.namespace) | {"inspection_id": item.name, "problem": item.problem}
    further: Data = dict.fromkeys(("specification", "created", "finished", "ttl", "logs")) | {"labels": {}}
    return {key: value for key, value in answer.items() if key not in _DROPPED} | further


def _chosen(client: KubeClient, records: list[RunRecord], question: InspectionInfoOptions) -> list[_Known]:
    """The inspections of the phases asked for, of these the latest so many, by namespace and name."""
    found: list[_Known] = []
    for record in sorted(records, key=lambda record: record.created or "", reverse=True):
        if question.limit is not None and len(found) >= question.limit:
            break
        known = _known(client, record)
        if not question.phases or run_phase(known.state) in question.phases:
            found.append(known)
    return sorted(found, key=lambda known: (known.record.namespace, known.record.name))


def _known(client: KubeClient, record: RunRecord) -> _Known:
    """One record with its outcome, or where it stands."""
    outcome = read_outcome(client, record)
    problem = None if outcome is None else outcome_problem(outcome)
    if problem is not None:
        problem = f"ConfigMap {record.namespace}/{record.name}: data.outcome: {problem}; run the task again"
        outcome = {"items": [], "reason": LOST_RESULT, "message": problem}
    facts = RunFacts(None) if outcome is not None else _facts(client, record)
    state = outcome_state(outcome) if outcome is not None else _running_state(client, facts)
    return _Known(record, outcome, facts, state, problem)


def _builds(
    client: KubeClient, found: list[_Known], question: InspectionInfoOptions
) -> dict[tuple[str, str, str], Data]:
    """What the records of the builds tell, by namespace, image and hash: all are read with one list."""
    wanted = [known for known in found if known.built.get("spec_hash") is not None]
    if not wanted:
        return {}
    spaces = {known.record.namespace for known in wanted}
    asked = BuildInfoOptions(
        namespace=next(iter(spaces)) if len(spaces) == 1 else question.namespace,
        images=frozenset(str(known.built.get("image")) for known in wanted),
        log=question.logs,
    )
    builds: list[Data] = answer_builds(client, asked)["builds"]
    return {(build["namespace"], build["image"], build["spec_hash"]): build for build in reversed(builds)}


def _entry(
    client: KubeClient, known: _Known, builds: t.Mapping[tuple[str, str, str], Data], question: InspectionInfoOptions
) -> Data:
    """One inspection, with the keys the module inspection returns, and what only this module tells."""
    record, outcome, built = known.record, known.outcome, known.built
    answer = empty_answer(record.namespace)
    build = builds.get((record.namespace, str(built.get("image")), str(built.get("spec_hash"))))
    answer |= {
        "inspection_id": record.name,
        "attempt": record.attempt,
        **{key: built.get(key) for key in ("image", "image_digest", "spec_hash", "dockerfile")},
        "run_hash": record.identity,
        "status": {"build": build, "run": None},
    }
    logs = _item_logs(client, record, known.facts, outcome, question) if question.logs else None
    told = with_outcome(answer, known.state, outcome)
    return {
        **{key: value for key, value in told.items() if key not in _DROPPED},
        "problem": known.problem,
        "labels": labels_of(record),
        "specification": {"run": record.spec.get("run"), "script": record.spec.get("script"), "stack": _stack(build)},
        "created": record.created,
        "finished": None if record.finished is None else time_text(record.finished),
        "ttl": record.ttl,
        "logs": {"build": ((build or {}).get("outcome") or {}).get("log"), "runs": logs} if question.logs else None,
    }


def _mapping(value: object) -> Data:
    """A mapping, empty for anything else: others may have damaged the record."""
    return value if isinstance(value, dict) else {}


def _stack(build: Data | None) -> Data | None:
    """The stack behind the image, as far as the record of its build tells."""
    return None if build is None else build.get("specification")


def _facts(client: KubeClient, record: RunRecord) -> RunFacts:
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
    client: KubeClient, record: RunRecord, facts: RunFacts, outcome: Data | None, question: InspectionInfoOptions
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


def _live_log(client: KubeClient, record: RunRecord, pod: PodFacts, question: InspectionInfoOptions) -> str:
    """The end of what a pod wrote so far; the frame with its result is no output of the script."""
    try:
        found = read_log(client, record.namespace, pod.name, CONTAINER)
    except KubeError as error:
        return f"({error})"
    text = without_result(found)
    return text[max(len(text) - question.log_bytes, 0) :].decode(errors="replace")


def _text(value: object) -> str:
    """The output as text; a value that was JSON is written as such."""
    return value if isinstance(value, str) else json.dumps(value)
