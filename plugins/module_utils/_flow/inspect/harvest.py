# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the pods of a run that is over to its results: one for each repetition, whatever became of its pod."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.objects import CONTAINER
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.room import Nodes
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.run import Ended
from ansible_collections.muster.kube.plugins.module_utils._model.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.frame import Frame, read_frames
from ansible_collections.muster.kube.plugins.module_utils._model.hardware import HardwareAsk
from ansible_collections.muster.kube.plugins.module_utils._model.inspection import ItemFacts, RunSpec, item_from_frame
from ansible_collections.muster.kube.plugins.module_utils._model.job_run import (
    CANCELLED,
    EVICTED,
    SCRIPT_FAILED,
    PodFacts,
    RunState,
    digest_in,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.hardware import Placement, verify_placement
from ansible_collections.muster.kube.plugins.module_utils._policy.run_failure import pod_failure
from ansible_collections.muster.kube.plugins.module_utils._policy.run_summary import failure_of

_DELETED = "its pod was deleted before the script ended"
_NOT_RUN = "it was not run, since too many other runs failed"


def harvest_run(ended: Ended, spec: RunSpec, ask: HardwareAsk, nodes: Nodes, labels: Collection[str]) -> Data:
    """The outcome of a run: items, how asked and found hardware compare, and the reason if it failed."""
    items, placements = [], []
    for index in range(spec.repetitions):
        pod = _pod_of(ended.facts.pods, index)
        item, placement = _item(ended, spec, ask, nodes, labels, index, pod)
        items.append(item)
        placements.append({"index": index, "verified": placement.verified, "found": list(placement.asked_found)})
    reason, message = failure_of(items, spec.allowed_failures)
    if reason is None and ended.state.phase == "failed" and all(item["reason"] is None for item in items):
        # Only the Job itself knows of it. Failed items here are those that the task allows.
        reason, message = ended.state.reason, ended.state.message
    return {"items": items, "placements": placements, "reason": reason, "message": message}


def _pod_of(pods: Sequence[PodFacts], index: int) -> PodFacts | None:
    """The pod that counts for a repetition: one that succeeded, else the last one."""
    own = [pod for pod in pods if (pod.index or 0) == index]
    return next((pod for pod in own if pod.phase == "Succeeded"), own[-1] if own else None)


def _item(
    ended: Ended,
    spec: RunSpec,
    ask: HardwareAsk,
    nodes: Nodes,
    labels: Collection[str],
    index: int,
    pod: PodFacts | None,
) -> tuple[Data, Placement]:
    """The result of one repetition."""
    if pod is None:
        return _never_ran(ended.state, spec, index)
    frame = _frame(ended, pod)
    node = nodes.find(pod.node)
    reason, message = _pod_reason(pod)
    container = pod.container(CONTAINER)
    facts = ItemFacts(
        index=index,
        image=spec.image,
        image_digest=digest_in(container.image_id) if container else None,
        node=node,
        node_name=pod.node,
        labels=labels,
        exit_code=container.exit_code if container else None,
        started=container.started if container else None,
        finished=container.finished if container else None,
        reason=reason or _not_started(ended.state, pod),
        message=message or ("" if pod.started else ended.state.message),
    )
    item = item_from_frame(frame, facts)
    if item["reason"] == CANCELLED:
        item |= {"reason": EVICTED, "message": _DELETED}
    item["message"] = item["message"].strip("; ")
    placement = verify_placement(ask, node, item["hwinfo"])
    return item | {"placement_verified": placement.verified}, placement


def _never_ran(state: RunState, spec: RunSpec, index: int) -> tuple[Data, Placement]:
    """The result of a repetition for which there never was a pod."""
    waited = state.phase == "failed" and state.reason not in (None, SCRIPT_FAILED)
    reason, message = (state.reason, state.message) if waited else (CANCELLED, _NOT_RUN)
    facts = ItemFacts(index=index, image=spec.image, reason=reason, message=message)
    return item_from_frame(Frame(None), facts) | {"message": message}, Placement(None)


def _frame(ended: Ended, pod: PodFacts) -> Frame:
    """What the collector wrote last."""
    if not pod.started:
        return Frame(None)
    log = ended.log(pod.name, CONTAINER)
    return Frame(None, "its log is lost") if log is None else read_frames(log)


def _pod_reason(pod: PodFacts) -> tuple[str | None, str]:
    """Why a pod failed; one that was deleted had no chance to succeed."""
    if pod.cut_short and pod.reason is None and pod.disrupted is None:
        return EVICTED, _DELETED
    if not pod.over:
        return None, ""
    return pod_failure(pod, SCRIPT_FAILED)


def _not_started(state: RunState, pod: PodFacts) -> str | None:
    """Why a pod that is still there did not start, or did not end: what the run as a whole failed for."""
    return None if pod.over else state.reason
