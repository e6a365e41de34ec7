# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs: the pods of started gangs, and what their objects say about how they ended."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.demand import Resources, running_pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.snapshot import FINISHED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.state import Outcome
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import ATTEMPT_LABEL, GANG_LABEL, PODSET_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.timestamp import read_time

Raw = Mapping[str, t.Any]
# The live objects of a gang by their place in it: None is known to be gone, a place that is missing was not read.
Items = Mapping[int, "Raw | None"]

# Condition types that end an object of a kind: success, failure.
_ENDS: dict[tuple[str, str], tuple[str, str]] = {
    ("batch", "Job"): ("Complete", "Failed"),
    ("jobset.x-k8s.io", "JobSet"): ("Completed", "Failed"),
    **{
        ("kubeflow.org", kind): ("Succeeded", "Failed")
        for kind in ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
    },
}


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


def gang_pod_from_api(raw: Raw) -> GangPod | None:
    """Keep of a Pod what a gang's health depends on; None for pods that cannot belong to any gang."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels = meta.get("labels") or {}
    owners = tuple(str(item["uid"]) for item in meta.get("ownerReferences") or () if item.get("uid"))
    if GANG_LABEL not in labels and not owners:
        return None
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    since, message = _unschedulable(status)
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
        requests=running_pod_requests(raw),
        exit_codes=tuple(sorted({code for item in containers for code in _failed_codes(item)})),
        restarts=sum(int(item.get("restartCount") or 0) for item in containers),
        waiting_reason=next(filter(None, (_waiting_reason(item) for item in containers)), None),
        nominated=status.get("nominatedNodeName") or None,
        template=None if spec.get("nodeName") else {"metadata": {"labels": labels}, "spec": spec},
    )


def group_and_kind(obj: Raw) -> tuple[str, str]:
    """API group and kind of an object."""
    group, slash, _version = str(obj.get("apiVersion") or "").rpartition("/")
    return (group if slash else "", str(obj.get("kind") or ""))


def is_finite(obj: Raw) -> bool:
    """Whether objects of this kind end by themselves: jobs, and pods that are not restarted for ever."""
    key = group_and_kind(obj)
    if key == ("", "Pod"):
        return (obj.get("spec") or {}).get("restartPolicy") in ("Never", "OnFailure")
    return key in _ENDS or key == ("ray.io", "RayJob")


def removes_itself(obj: Raw) -> bool:
    """Whether an object goes by itself some time after it has ended; its controller takes it away."""
    spec = obj.get("spec") or {}
    places = (spec, spec.get("runPolicy"))
    ttl = [place.get("ttlSecondsAfterFinished") for place in places if isinstance(place, Mapping)]
    return is_finite(obj) and any(item is not None for item in ttl)


def item_outcome(obj: Raw) -> Outcome | None:
    """How a live object ended, as its kind says it; None while it has not, and for kinds that never end."""
    key = group_and_kind(obj)
    status = obj.get("status") or {}
    if key == ("ray.io", "RayJob"):
        return _ray_job_outcome(status)
    if key == ("", "Pod"):
        if status.get("phase") == "Failed":
            return "failed"
        return "succeeded" if status.get("phase") == "Succeeded" and is_finite(obj) else None
    success, failure = _ENDS.get(key, (None, None))
    if failure is not None and condition_met(obj, failure):
        return "failed"
    return "succeeded" if success is not None and condition_met(obj, success) else None


def outcome_message(obj: Raw) -> str:
    """What a failed object says about it; empty when it says nothing."""
    status = obj.get("status") or {}
    failure = _ENDS.get(group_and_kind(obj), ("", ""))[1]
    told = [item.get("message") for item in conditions(obj) if item.get("type") == failure]
    return str(next(filter(None, (*told, status.get("message"), status.get("reason"))), ""))


def condition_met(obj: Raw, type_: str, status: str = "True") -> bool:
    """Whether the object has a condition of this type, in any case of letters, with this status."""
    wanted = type_.lower()
    return any(str(item.get("type")).lower() == wanted and item.get("status") == status for item in conditions(obj))


def condition_contains(obj: Raw, word: str) -> bool:
    """Whether the type of any true condition contains a word, in any case of letters."""
    wanted = word.lower()
    return any(wanted in str(item.get("type")).lower() and item.get("status") == "True" for item in conditions(obj))


def conditions(obj: Raw) -> Iterator[Raw]:
    """The conditions of an object; kinds that keep something else under that name have none."""
    status = obj.get("status")
    found = status.get("conditions") if isinstance(status, Mapping) else None
    if isinstance(found, list):
        yield from (item for item in found if isinstance(item, Mapping))


def _ray_job_outcome(status: Raw) -> Outcome | None:
    """A RayJob is over when its deployment is; older operators call it complete although the job failed."""
    if status.get("jobDeploymentStatus") == "Failed":
        return "failed"
    if status.get("jobDeploymentStatus") != "Complete":
        return None
    return "failed" if status.get("jobStatus") in ("FAILED", "STOPPED") else "succeeded"


def _created(meta: Raw) -> float:
    """When the object was created."""
    return read_time(meta.get("creationTimestamp")) or 0.0


def _unschedulable(status: Raw) -> tuple[float | None, str]:
    """Since when the scheduler finds no node for a pod, and what it says."""
    for item in status.get("conditions") or ():
        if (item.get("type"), item.get("status"), item.get("reason")) == ("PodScheduled", "False", "Unschedulable"):
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


def _failed_codes(container: Raw) -> Iterator[int]:
    """The exit codes with which a container failed, now and the time before."""
    for when in ("state", "lastState"):
        code = _terminated(container, when).get("exitCode")
        if code:
            yield int(code)


def _waiting_reason(container: Raw) -> str | None:
    """Why a container does not start."""
    return ((container.get("state") or {}).get("waiting") or {}).get("reason")
