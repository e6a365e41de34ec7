# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many pods a live object wants now: it may have finished some, been suspended, or scaled itself."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.kinds import describe_object, pod_templates
from ansible_collections.muster.kube.plugins.module_utils._model.kinds_base import TemplateUse
from ansible_collections.muster.kube.plugins.module_utils._model.live import Raw, group_and_kind, item_outcome

_Count = Callable[[Raw, Sequence[TemplateUse]], list["Wanted"]]


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """Pods of one podset of a live object.

    now is how many it wants at this moment. prompt is how many of them it makes without waiting for other pods to be
    ready. spare is how many may succeed before fewer are wanted at once.
    """

    name: str
    now: int
    prompt: int
    spare: int = 0


def expected_pods(obj: Raw, *, namespace: str = "default") -> list[Wanted]:
    """What a live object of a known kind wants now, podset by podset, in the order in which they are inferred."""
    uses = pod_templates(obj, describe_object(obj, namespace), namespace=namespace)
    if _idle(obj):
        return [Wanted(use.name, 0, 0) for use in uses]
    return _KINDS.get(group_and_kind(obj), _as_written)(obj, uses)


def _idle(obj: Raw) -> bool:
    """Whether the object wants no pod at all: it is over, suspended, or about to be deleted."""
    spec = obj.get("spec") or {}
    suspended = spec.get("suspend") is True or _part(spec, "runPolicy").get("suspend") is True
    return suspended or "deletionTimestamp" in (obj.get("metadata") or {}) or item_outcome(obj) is not None


def _as_written(_obj: Raw, uses: Sequence[TemplateUse]) -> list[Wanted]:
    """Kinds that always want what is written in them."""
    return [Wanted(use.name, use.count, use.count) for use in uses]


def _job(obj: Raw, uses: Sequence[TemplateUse]) -> list[Wanted]:
    """A Job runs as many at once as it may, but never more than are still to succeed."""
    spec, status = obj["spec"], obj.get("status") or {}
    now, succeeded = uses[0].count, _whole(status.get("succeeded"))
    completions = spec.get("completions")
    if completions is not None:
        left = max(0, completions - succeeded)
        return [Wanted(uses[0].name, min(now, left), min(now, left), max(0, completions - now))]
    # A work queue: after the first success no pod is made any more.
    now = min(now, _whole(status.get("active"))) if succeeded else now
    return [Wanted(uses[0].name, now, now)]


def _job_set(obj: Raw, uses: Sequence[TemplateUse]) -> list[Wanted]:
    """Replicated jobs without those that succeeded; in an ordered start only the first does not wait."""
    done = {
        item.get("name"): _whole(item.get("succeeded"))
        for item in _part(obj, "status").get("replicatedJobsStatus") or ()
    }
    in_order = _part(obj["spec"], "startupPolicy").get("startupPolicyOrder") == "InOrder"
    wanted: list[Wanted] = []
    for index, (entry, use) in enumerate(zip(obj["spec"]["replicatedJobs"], uses, strict=True)):
        replicas = int(entry.get("replicas", 1))
        per_job = use.count // replicas if replicas else 0
        now = max(0, replicas - done.get(entry["name"], 0)) * per_job
        completions = entry["template"]["spec"].get("completions")
        spare = 0 if completions is None else max(0, completions - per_job) * replicas
        waits = (in_order and index > 0) or bool(entry.get("dependsOn"))
        wanted.append(Wanted(use.name, now, 0 if waits else now, spare))
    return wanted


def _stateful_set(obj: Raw, uses: Sequence[TemplateUse]) -> list[Wanted]:
    """Unless told to work in parallel, a StatefulSet makes its next pod when the last one is ready."""
    parallel = obj["spec"].get("podManagementPolicy") == "Parallel"
    return [Wanted(use.name, use.count, use.count if parallel else min(1, use.count)) for use in uses]


def _leader_worker_set(obj: Raw, uses: Sequence[TemplateUse]) -> list[Wanted]:
    """Workers may have to wait until their leader is ready; without a template of its own it is one of them."""
    if obj["spec"].get("startupPolicy") != "LeaderReady":
        return _as_written(obj, uses)
    groups = int(obj["spec"].get("replicas", 1))
    prompt = [min(use.count, groups) if place == 0 else 0 for place, use in enumerate(uses)]
    return [Wanted(use.name, use.count, first) for use, first in zip(uses, prompt, strict=True)]


def _training_job(obj: Raw, uses: Sequence[TemplateUse]) -> list[Wanted]:
    """Replicas without those that succeeded; a launcher may be made to wait for its workers."""
    done = {
        str(name).lower(): _whole(item.get("succeeded"))
        for name, item in _part(_part(obj, "status"), "replicaStatuses").items()
        if isinstance(item, Mapping)
    }
    launcher_waits = obj["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
    wanted: list[Wanted] = []
    for use in uses:
        role = use.name.rpartition("/")[2]
        now = max(0, use.count - done.get(role, 0))
        wanted.append(Wanted(use.name, now, 0 if launcher_waits and role == "launcher" else now))
    return wanted


def _ray_job(obj: Raw, uses: Sequence[TemplateUse]) -> list[Wanted]:
    """The job's cluster, which may have scaled itself down, and the submitter, which waits for the cluster."""
    submitter = obj["spec"].get("submissionMode", "K8sJobMode") == "K8sJobMode"
    cluster = uses[:-1] if submitter else uses
    left = _desired_workers(obj)
    wanted: list[Wanted] = []
    for place, use in enumerate(cluster):
        now = use.count
        if place > 0 and left is not None:
            now = min(now, left)
            left -= now
        wanted.append(Wanted(use.name, now, now))
    return wanted + [Wanted(use.name, use.count, 0) for use in uses[len(cluster) :]]


def _desired_workers(obj: Raw) -> int | None:
    """How many workers the job's cluster wants, where an autoscaler decides; None when nobody says so."""
    if _part(obj["spec"], "rayClusterSpec").get("enableInTreeAutoscaling") is not True:
        return None
    desired = _part(_part(obj, "status"), "rayClusterStatus").get("desiredWorkerReplicas")
    return desired if isinstance(desired, int) else None


def _part(obj: Raw, key: str) -> Raw:
    """A mapping inside an object, empty when it is missing."""
    value = obj.get(key)
    return value if isinstance(value, Mapping) else {}


def _whole(value: t.Any) -> int:
    """A count of a status, 0 when it is missing."""
    return value if isinstance(value, int) else 0


_KINDS: dict[tuple[str, str], _Count] = {
    ("batch", "Job"): _job,
    ("apps", "StatefulSet"): _stateful_set,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("ray.io", "RayJob"): _ray_job,
    **{
        ("kubeflow.org", kind): _training_job
        for kind in ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
    },
}
