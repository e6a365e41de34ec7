# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs: the pods of started gangs."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    ATTEMPT_LABEL,
    GANG_LABEL,
    PODSET_LABEL,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import Resources, running_pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import FINISHED_PHASES, Pod
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

Raw = Mapping[str, t.Any]
# The live objects of a gang by their place in it: None is known to be gone, a place that is missing was not read.
Items = Mapping[int, "Raw | None"]
# Status and reason of the condition of a pod that the scheduler found no node for.
_FOUND_NO_NODE = ("False", "Unschedulable")


@dataclasses.dataclass(frozen=True, slots=True)
class GangPod:
    """A pod that may belong to a gang.

    gang, attempt and podset are the values of its labels. unavailable_since says when a pod that neither runs nor will
    run was last known to be of use: when its containers finished, when its deletion was asked for, or, while it is
    pending, when it was created; it is None for running pods and for failed ones that never ran. nominated is a node on
    which the scheduler makes room for it; template is what it asks for while it has no node, None afterwards.
    """

    uid: str
    namespace: str
    name: str
    gang: str | None
    attempt: int | None
    podset: str | None
    labels: Mapping[str, str]
    owner_uids: tuple[str, ...]
    phase: str
    node: str | None
    terminating: bool
    unschedulable_since: float | None
    unschedulable_message: str
    created: float
    unavailable_since: float | None
    requests: Resources
    exit_codes: tuple[int, ...]
    restarts: int
    waiting_reason: str | None
    nominated: str | None
    template: Raw | None
    # When its deletion was ordered.
    leaving_since: float | None = None

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good."""
        return self.phase in FINISHED_PHASES

    @property
    def live(self) -> bool:
        """Whether it runs, or will: neither finished nor about to go."""
        return not self.finished and not self.terminating

    @property
    def bound(self) -> bool:
        """Whether it lives and has a node."""
        return self.live and self.node is not None

    @property
    def unplaced(self) -> bool:
        """Whether it lives and nobody knows on which node it will run."""
        return self.live and self.node is None and self.nominated is None

    @property
    def running(self) -> bool:
        """Whether it lives and has begun to run."""
        return self.live and self.phase == "Running"


@dataclasses.dataclass(frozen=True, slots=True)
class PodCounts:
    """Pods by phase, as AppWrappers show them."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


def count_pods(pods: Iterable[GangPod]) -> PodCounts:
    """Pods by phase; pods of a node that does not answer are taken for running."""
    phases = [pod.phase for pod in pods]
    return PodCounts(
        pending=phases.count("Pending"),
        running=phases.count("Running") + phases.count("Unknown"),
        succeeded=phases.count("Succeeded"),
        failed=phases.count("Failed"),
    )


def gang_pod_from_api(raw: Raw, pod: Pod | None = None) -> GangPod | None:
    """Keep of a Pod what a gang's health depends on; None for pods that cannot belong to any gang.

    pod is what fitting keeps of it, when that was read already.
    """
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels = meta.get("labels") or {}
    owners = tuple(str(item["uid"]) for item in meta.get("ownerReferences") or () if item.get("uid"))
    if GANG_LABEL not in labels and not owners:
        return None
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    since, message = _unschedulable(status)
    codes, restarts, reason = _container_ends(containers)
    attempt = str(labels.get(ATTEMPT_LABEL, ""))
    return GangPod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        gang=labels.get(GANG_LABEL),
        attempt=int(attempt) if attempt.isdecimal() else None,
        podset=labels.get(PODSET_LABEL),
        labels=labels,
        owner_uids=owners,
        phase=status.get("phase") or "Pending",
        node=spec.get("nodeName") or None,
        terminating="deletionTimestamp" in meta,
        unschedulable_since=since,
        unschedulable_message=message,
        created=_created(meta),
        unavailable_since=_unavailable_since(meta, status, containers),
        requests=running_pod_requests(raw) if pod is None else pod.requests,
        exit_codes=codes,
        restarts=restarts,
        waiting_reason=reason,
        nominated=status.get("nominatedNodeName") or None,
        template=None if spec.get("nodeName") else {"metadata": {"labels": labels}, "spec": spec},
        leaving_since=_leaving_since(meta),
    )


def _leaving_since(meta: Raw) -> float | None:
    """When the deletion of an object was ordered: its timestamp tells when the time to end in order is over."""
    over = read_time(meta.get("deletionTimestamp"))
    return None if over is None else over - float(meta.get("deletionGracePeriodSeconds") or 0)


def _created(meta: Raw) -> float:
    """When the object was created."""
    return read_time(meta.get("creationTimestamp")) or 0.0


def _unschedulable(status: Raw) -> tuple[float | None, str]:
    """Since when the scheduler finds no node for a pod, and what it says."""
    for item in status.get("conditions") or ():
        if item.get("type") == "PodScheduled" and (item.get("status"), item.get("reason")) == _FOUND_NO_NODE:
            return read_time(item.get("lastTransitionTime")), str(item.get("message") or "")
    return None, ""


def _unavailable_since(meta: Raw, status: Raw, containers: Iterable[Raw]) -> float | None:
    """When a pod was last known to be of use; see GangPod."""
    if "deletionTimestamp" in meta:
        # The server writes when the pod has to be gone: the time of the request and the grace period after it.
        due = read_time(meta["deletionTimestamp"]) or 0.0
        return due - float(meta.get("deletionGracePeriodSeconds") or 0)
    if status.get("phase") in FINISHED_PHASES:
        ends = [read_time(_terminated(item, "state").get("finishedAt")) for item in containers]
        return max((end for end in ends if end is not None), default=None)
    return _created(meta) if (status.get("phase") or "Pending") == "Pending" else None


def _terminated(container: Raw, when: str) -> Raw:
    """How a container ended; empty when it did not."""
    return (container.get(when) or {}).get("terminated") or {}


def _container_ends(containers: Iterable[Raw]) -> tuple[tuple[int, ...], int, str | None]:
    """With which codes containers failed, now and the time before, how often they restarted, and why one waits."""
    codes: set[int] = set()
    restarts, reason = 0, None
    for item in containers:
        restarts += int(item.get("restartCount") or 0)
        for when in ("state", "lastState"):
            if item.get(when):
                code = _terminated(item, when).get("exitCode")
                if code:
                    codes.add(int(code))
        reason = reason or ((item.get("state") or {}).get("waiting") or {}).get("reason")
    return tuple(sorted(codes)), restarts, reason or None
