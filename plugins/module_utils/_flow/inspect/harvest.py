# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the pods of a run to its results: one for each repetition, whatever became of its pod."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.objects import CONTAINER
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import FinishedRun
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.logs import Log
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.nodes import Nodes
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import Frame, read_frames
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import HardwareAsk
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import (
    ItemFacts,
    RunSpec,
    item_from_frame,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    CANCELLED,
    EVICTED,
    LOST_RESULT,
    SCRIPT_FAILED,
    PodFacts,
    RunState,
    digest_in,
    pod_that_counts,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_result import outcome_problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware import Placement, verify_placement
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import pod_failure
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_summary import failure_of, is_result

_DELETED = "its pod was deleted before the script ended"
_WENT = "it ended, but its pod was deleted before its result was read"
_NOT_RUN = "it was not run, since too many other runs failed"


@dataclasses.dataclass(frozen=True, slots=True)
class Harvester:
    """Makes results of pods: of which run, for which hardware, on which nodes, and which of their labels are kept."""

    spec: RunSpec
    ask: HardwareAsk
    nodes: Nodes
    labels: Collection[str]

    def result(self, index: int, pod: PodFacts, log: Log) -> Data:
        """What is kept of a repetition whose pod is over: its item, and how asked and found hardware compare."""
        return self._result(RunState("running"), log, index, pod)

    def outcome(self, run: FinishedRun) -> Data:
        """The outcome of a run: items, how asked and found hardware compare, and the reason if it failed."""
        results = []
        for index in range(self.spec.repetitions):
            pod = pod_that_counts(run.facts.pods, index)
            made = run.results.get(index) or self._result(run.state, run.log, index, pod)
            results.append(_unseen(made) if index not in run.results and _went_unseen(run, index, pod) else made)
        items = [result["item"] for result in results]
        reason, message = failure_of(items, self.spec.allowed_failures)
        if reason is None and run.state.phase == "failed" and all(item["reason"] is None for item in items):
            # Only the Job itself knows of it. Failed items here are those that the task allows.
            reason, message = run.state.reason, run.state.message
        placements = [result["placement"] for result in results]
        return {"items": items, "placements": placements, "reason": reason, "message": message}

    def _result(self, state: RunState, log: Log, index: int, pod: PodFacts | None) -> Data:
        """Item and placement of one repetition."""
        item, placement = _item(self, state, log, index, pod)
        compared = {"index": index, "verified": placement.verified, "found": list(placement.asked_found)}
        return {"item": item, "placement": compared}


def finished_results(outcome: Data) -> dict[int, Data]:
    """The results in a stored outcome that say something about the script, so that they need not be made again."""
    if outcome_problem(outcome) is not None:
        return {}
    placements = outcome.get("placements")
    known = {item.get("index"): item for item in placements or () if isinstance(item, dict)}
    found = {}
    for item in outcome.get("items") or ():
        index = item["index"]
        if is_result(item):
            empty = {"index": index, "verified": item.get("placement_verified"), "found": []}
            found[index] = {"item": item, "placement": known.get(index, empty)}
    return found


def _went_unseen(run: FinishedRun, index: int, pod: PodFacts | None) -> bool:
    """Whether the Job knows of an end of the repetition, but its pod went before anybody read its result."""
    job = run.facts.job
    if job is None or (pod is not None and (pod.decided or not pod.vanished)):
        return False
    return index in job.completed_indexes or (pod is None and index in job.failed_indexes)


def _unseen(result: Data) -> Data:
    """The result of such a repetition: it says nothing about the script."""
    return {**result, "item": {**result["item"], "reason": LOST_RESULT, "message": _WENT}}


def is_usable(index: int, result: Data) -> bool:
    """Whether a stored result is one of that repetition: others may have changed it meanwhile."""
    item, placement = result.get("item"), result.get("placement")
    if not isinstance(item, dict) or not isinstance(placement, dict) or item.get("index") != index:
        return False
    return outcome_problem({"items": [item]}) is None and isinstance(placement.get("found"), list)


def _item(terms: Harvester, state: RunState, log: Log, index: int, pod: PodFacts | None) -> tuple[Data, Placement]:
    """The result of one repetition."""
    spec = terms.spec
    if pod is None:
        return _never_ran(state, spec, index)
    frame = _frame(log, pod)
    node = terms.nodes.find(pod.node)
    reason, message = _pod_reason(pod)
    container = pod.container(CONTAINER)
    facts = ItemFacts(
        index=index,
        image=spec.image,
        image_digest=digest_in(container.image_id) if container else None,
        node=node,
        node_name=pod.node,
        labels=terms.labels,
        exit_code=container.exit_code if container else None,
        started=container.started if container else None,
        finished=container.finished if container else None,
        reason=reason or _not_started(state, pod),
        message=message or ("" if pod.started else state.message),
    )
    item = item_from_frame(frame, facts)
    if item["reason"] == CANCELLED:
        item |= {"reason": EVICTED, "message": _DELETED}
    item["message"] = item["message"].strip("; ")
    placement = verify_placement(terms.ask, node, item["hwinfo"])
    return item | {"placement_verified": placement.verified}, placement


def _never_ran(state: RunState, spec: RunSpec, index: int) -> tuple[Data, Placement]:
    """The result of a repetition for which there never was a pod."""
    waited = state.phase == "failed" and state.reason not in (None, SCRIPT_FAILED)
    reason, message = (state.reason, state.message) if waited else (CANCELLED, _NOT_RUN)
    facts = ItemFacts(index=index, image=spec.image, reason=reason, message=message)
    return item_from_frame(Frame(None), facts) | {"message": message}, Placement(None)


def _frame(log: Log, pod: PodFacts) -> Frame:
    """What the collector wrote last; the node of a lost pod is not asked."""
    if not pod.started or pod.lost is not None:
        return Frame(None)
    found = log(pod.name, CONTAINER)
    return Frame(None, "its log is lost") if found is None else read_frames(found)


def _pod_reason(pod: PodFacts) -> tuple[str | None, str]:
    """Why a pod failed; one that was deleted had no chance to succeed."""
    if pod.lost is not None:
        return pod_failure(pod, SCRIPT_FAILED)
    if pod.cut_short and pod.reason is None and pod.disrupted is None:
        return EVICTED, _DELETED
    if not pod.over:
        return None, ""
    return pod_failure(pod, SCRIPT_FAILED)


def _not_started(state: RunState, pod: PodFacts) -> str | None:
    """Why a pod that is still there did not start, or did not end: what the run as a whole failed for."""
    return None if pod.over else state.reason
