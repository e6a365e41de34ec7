# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inspections that are ended before they are over: what ended by itself keeps its result, the rest is cancelled.

To be cancelled is a circumstance: the same task, run again, runs what has no result.
"""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.harvest import Harvester, is_usable
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import InspectionOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.plan import IDENTIFIER_LABEL, INSPECTION_LABEL
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.follow import JobReader
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import FinishedRun
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.logs import Log
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.nodes import Nodes
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.run import end_job, find_job, share_of
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import LINE_BYTES, read_log
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import hardware_from_data
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import RunSpec, result_lines
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    CANCELLED,
    RunFacts,
    RunState,
    pod_that_counts,
    with_numbers,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_summary import is_result
from ansible_collections.muster.kube.plugins.module_utils._store.run_records import (
    RunRecord,
    drop_results,
    list_records,
    read_document,
    read_record,
    read_results,
    results_by_index,
    store_outcome,
)

_CANCELLED = "somebody cancelled it before it had ended"
# How often others may change the record meanwhile.
_TRIES = 5
_MOST = 1_000_000


def names_of(client: KubeClient, terms: InspectionOptions) -> list[str]:
    """The inspections that a task names, by id and by identifier."""
    names = [terms.inspection_id] if terms.inspection_id else []
    if terms.identifier:
        found = list_records(client, terms.namespace, f"{INSPECTION_LABEL},{IDENTIFIER_LABEL}={terms.identifier}")
        names += [record.name for record in found if record.name not in names]
    return names


def cancel_inspections(client: KubeClient, terms: InspectionOptions) -> Data:
    """Cancel those that are not over; the others stay as they are."""
    cancelled = [name for name in names_of(client, terms) if _cancel(client, terms, name)]
    return {"changed": bool(cancelled), "cancelled": cancelled, "namespace": terms.namespace}


def _cancel(client: KubeClient, terms: InspectionOptions, name: str) -> bool:
    """End one inspection; whether there was something to end. The outcome is there before its Job is gone."""
    for last in (False,) * (_TRIES - 1) + (True,):
        record = read_record(client, terms.namespace, name)
        if record is None or record.stored is not None:
            return False
        if terms.check_mode:
            return True
        outcome = _outcome(client, record)
        try:
            stored = store_outcome(client, record, outcome, ServerClock(client).now())
        except Superseded:
            if last:
                raise
            continue
        drop_results(client, stored)
        end_job(client, stored)
        return True
    return False


def _outcome(client: KubeClient, record: RunRecord) -> Data:
    """The results there are, and the rest as cancelled."""
    spec = _spec_of(record)
    harvester = Harvester(spec, hardware_from_data(dict(spec.hardware), "run: hardware"), Nodes(client), ())
    kept = read_document(client, record, record.kept) or {}
    stored = results_by_index(kept.get("results")) | read_results(client, record)
    results = {index: item for index, item in stored.items() if index < spec.repetitions and is_usable(index, item)}
    results |= _ended_pods(client, record, harvester, results)
    state = RunState("failed", CANCELLED, _CANCELLED)
    outcome = harvester.outcome(FinishedRun(state, RunFacts(None), lambda _pod, _container: None, results))
    own = [result["item"] for result in results.values() if is_result(result["item"])]
    if sum(item["reason"] is not None for item in own) > spec.allowed_failures:
        return outcome
    message = f"{_CANCELLED}; {len(own)} of {spec.repetitions} repetitions have a result"
    return {**outcome, "reason": CANCELLED, "message": message}


def _spec_of(record: RunRecord) -> RunSpec:
    """As much of the run as its results need, out of the record."""
    run = Fields(record.spec.get("run"), f"ConfigMap {record.namespace}/{record.name}: data.spec: run")
    return RunSpec(
        image=run.required_text("image"),
        script=str(record.spec.get("script") or "").encode(),
        repetitions=max(run.whole("repetitions", 0, _MOST), 1),
        allowed_failures=run.whole("allowed_failures", 0, _MOST),
        warmup=run.whole("warmup", 0, _MOST),
        output_bytes=run.whole("output_bytes", 0, _MOST * 2),
        hardware=dict(run.mapping("hardware")),
    )


def _ended_pods(
    client: KubeClient, record: RunRecord, harvester: Harvester, known: t.Mapping[int, Data]
) -> dict[int, Data]:
    """Results of pods that ended by themselves and that nobody has read yet, by repetition."""
    all_of_them = tuple(range(harvester.spec.repetitions))
    share = share_of(find_job(client, record), len(all_of_them)) or all_of_them
    facts = with_numbers(JobReader(client, record.namespace, record.job_name).read(), share)
    log = _log_of(client, record, result_lines(harvester.spec))
    found = {}
    for index in share:
        pod = pod_that_counts(facts.pods, index)
        if index not in known and pod is not None and pod.decided:
            found[index] = harvester.result(index, pod, log)
    return found


def _log_of(client: KubeClient, record: RunRecord, lines: int) -> Log:
    """Reads the end of a log once; one that cannot be had is lost."""

    def read(pod: str, container: str) -> bytes | None:
        try:
            return read_log(client, record.namespace, pod, container, tail_lines=lines, tail_bytes=lines * LINE_BYTES)
        except ApiError:
            return None

    return read
