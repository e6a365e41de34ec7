# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known about builds: from their records, and from the Jobs of those that are not over."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.follow import JobReader
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BUILD_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    BUILD_FAILED,
    RunState,
    outcome_state,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import judge_run
from ansible_collections.muster.kube.plugins.module_utils._store.run_records import (
    Damaged,
    RunRecord,
    list_with_damaged,
    read_outcome,
)


@dataclasses.dataclass(frozen=True, slots=True)
class BuildInfoOptions:
    """Which builds; None and an empty text mean all."""

    namespace: str | None = None
    name: str | None = None
    spec_hash: str | None = None
    image: str | None = None
    labels: str | None = None
    log: bool = True
    images: frozenset[str] | None = None


def answer_builds(client: KubeClient, question: BuildInfoOptions) -> Data:
    """The keys of the result of image_build_info; nothing is ever written."""
    selector = f"{BUILD_LABEL},{question.labels}" if question.labels else BUILD_LABEL
    records, damaged = list_with_damaged(client, question.namespace, selector)
    told = [_entry(client, record, question) for record in records if _wanted(record, question)]
    if (question.spec_hash, question.image) == (None, None):
        told += [_unreadable(item) for item in damaged if question.name in (None, item.name)]
    return {"builds": sorted(told, key=lambda entry: (entry["namespace"], entry["name"]))}


def _unreadable(item: Damaged) -> Data:
    """The entry of a record that says nothing any more."""
    unknown = ("image", "spec_hash", "specification", "attempt", "phase", "waiting_for", "reason", "message")
    told: Data = dict.fromkeys((*unknown, "finished", "ttl", "outcome"))
    return {**told, "name": item.name, "namespace": item.namespace, "problem": item.problem}


def _wanted(record: RunRecord, question: BuildInfoOptions) -> bool:
    """Whether a record is one of those asked for."""
    spec = record.spec
    return (
        question.name in (None, record.name)
        and (question.spec_hash is None or str(spec.get("spec_hash", "")).startswith(question.spec_hash))
        and (question.images is None or spec.get("image") in question.images)
        and question.image in (None, spec.get("image"), str(spec.get("image", "")).rpartition(":")[0])
    )


def _entry(client: KubeClient, record: RunRecord, question: BuildInfoOptions) -> Data:
    """One build: its specification, and its outcome or where it stands."""
    outcome = read_outcome(client, record)
    state = outcome_state(outcome) if outcome is not None else _running_state(client, record)
    told: dict[str, t.Any] = {
        "name": record.name,
        "namespace": record.namespace,
        "image": record.spec.get("image"),
        "spec_hash": record.spec.get("spec_hash"),
        "specification": record.spec.get("stack"),
        "attempt": record.attempt,
        "phase": state.phase,
        "waiting_for": state.waiting_for,
        "reason": state.reason,
        "message": state.message,
        "finished": None if record.finished is None else time_text(record.finished),
        "ttl": record.ttl,
        "outcome": outcome,
        "problem": None,
    }
    if outcome is not None and not question.log:
        told["outcome"] = {key: value for key, value in outcome.items() if key != "log"}
    return told


def _running_state(client: KubeClient, record: RunRecord) -> RunState:
    """Where a build stands that is not over; one without a Job waits for its task to be run again."""
    try:
        facts = JobReader(client, record.namespace, record.job_name).read()
    except KubeError as error:
        return RunState("pending", message=str(error))
    if facts.job is None:
        return RunState("pending", message="it has no Job; run the task again", waiting_for="queued")
    now = ServerClock(client).now()
    return judge_run(facts, now=now, start_timeout=None, failed_as=BUILD_FAILED)
