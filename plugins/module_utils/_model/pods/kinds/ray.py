# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pods of KubeRay's kinds, with everything the operator adds to the templates (checked against KubeRay 1.4.2).

RayCronJob came with KubeRay 1.6; its job template is the specification of a RayJob.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    Axis,
    ExpectedPods,
    ItemOutcome,
    Kind,
    KindEnding,
    Method,
    Object,
    Path,
    PodBounds,
    Reader,
    ResizeTerms,
    Resizing,
    TemplateUse,
    with_container,
    with_labels,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import value_at

_MAX_REPLICAS = 2147483647
_DESIRED_WORKERS: Path = ("rayClusterStatus", "desiredWorkerReplicas")
_GIVEN_AND_LIMITED = {"cpu": "500m", "memory": "512Mi"}
_AUTOSCALER_RESOURCES = {"requests": _GIVEN_AND_LIMITED, "limits": _GIVEN_AND_LIMITED}
_WAIT_RESOURCES = {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"cpu": "200m", "memory": "256Mi"}}
_SUBMITTER = {
    "name": "ray-job-submitter",
    "resources": {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
}
# How a RayJob hands its job to the cluster: by a pod of its own, by a sidecar of the head, or without any pod.
_SUBMISSION_MODES = ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")


def _ray_cluster(reader: Reader) -> list[TemplateUse]:
    """Head and worker groups; a suspended cluster counts in full because a gang is what will run."""
    return _cluster(reader, ("spec",), cluster=reader.name)


def _ray_service(reader: Reader) -> list[TemplateUse]:
    """One cluster; the second one of an upgrade comes later and is not part of the start."""
    return _cluster(reader, ("spec", "rayClusterConfig"))


def _ray_job(reader: Reader) -> list[TemplateUse]:
    """The pods of one job."""
    return _job(reader, ("spec",))


def _ray_cron_job(reader: Reader) -> list[TemplateUse]:
    """One run of the job template, which is the specification of a RayJob."""
    return _job(reader, ("spec", "jobTemplate"))


def _job(reader: Reader, spec: Path) -> list[TemplateUse]:
    """The job's cluster and the pod that submits it; with a cluster selector the cluster exists already."""
    mode = reader.text((*spec, "submissionMode"), "K8sJobMode")
    if mode not in _SUBMISSION_MODES:
        known = ", ".join(_SUBMISSION_MODES)
        raise reader.fail((*spec, "submissionMode"), f"unknown mode {mode!r}; known are {known}")
    uses: list[TemplateUse] = []
    if not reader.mapping((*spec, "clusterSelector"), required=False):
        sidecar = _submitter(reader, spec).template if mode == "SidecarMode" else None
        uses = _cluster(reader, (*spec, "rayClusterSpec"), sidecar=sidecar)
    return [*uses, _submitter(reader, spec)] if mode == "K8sJobMode" else uses


def _cluster(
    reader: Reader, spec: Path, *, cluster: str | None = None, sidecar: Object | None = None
) -> list[TemplateUse]:
    """The pods of a cluster specification at a path."""
    reader.mapping(spec)
    uses = [_head(reader, spec, cluster, sidecar)]
    uses.extend(
        _worker_group(reader, group, cluster) for group in reader.items((*spec, "workerGroupSpecs"), required=False)
    )
    return uses


def _head(reader: Reader, spec: Path, cluster: str | None, sidecar: Object | None) -> TemplateUse:
    """The one head pod; in-tree autoscaling brings a container with it, and so may the submission of a job."""
    path = (*spec, "headGroupSpec", "template")
    template = reader.template(path)
    if reader.flag((*spec, "enableInTreeAutoscaling")):
        options = reader.mapping((*spec, "autoscalerOptions"), required=False)
        resources = options.get("resources")
        scaler = {"name": "autoscaler", "resources": _AUTOSCALER_RESOURCES if resources is None else resources}
        template = with_container(template, "containers", scaler)
    for container in sidecar["spec"]["containers"] if sidecar is not None else ():
        template = with_container(template, "containers", container)
    return TemplateUse(f"{reader.name}/head", 1, _labeled(template, cluster, "head", "headgroup"), path)


def _worker_group(reader: Reader, group: Path, cluster: str | None) -> TemplateUse:
    """The pods of one worker group; each waits for the head in an init container of the operator."""
    name = reader.text((*group, "groupName"))
    path = (*group, "template")
    waiting = {"name": "wait-gcs-ready", "resources": _WAIT_RESOURCES}
    template = _labeled(with_container(reader.template(path), "initContainers", waiting), cluster, "worker", name)
    return TemplateUse(f"{reader.name}/{name}", _worker_pods(reader, group), template, path)


def _worker_pods(reader: Reader, group: Path) -> int:
    """Replicas kept between their bounds, times hosts; the upper bound wins when the bounds cross."""
    if reader.flag((*group, "suspend")):
        return 0
    low = reader.count((*group, "minReplicas"), 0)
    high = reader.count((*group, "maxReplicas"), _MAX_REPLICAS)
    wanted = reader.count((*group, "replicas"), 0)
    return min(max(wanted, low), high) * reader.count((*group, "numOfHosts"), 1)


def _submitter(reader: Reader, spec: Path) -> TemplateUse:
    """The pod that submits a RayJob: the user's template or the operator's own."""
    path = (*spec, "submitterPodTemplate")
    name = f"{reader.name}/submitter"
    if reader.get(path) is None:
        return TemplateUse(name, 1, {"metadata": {}, "spec": {"containers": [_SUBMITTER]}}, None)
    return TemplateUse(name, 1, reader.template(path), path)


def _labeled(template: Object, cluster: str | None, node_type: str, group: str) -> Object:
    """The template with the labels KubeRay sets, since affinity and spread rules may select them."""
    own = {
        "ray.io/is-ray-node": "yes",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    fixed = {"ray.io/node-type": node_type, "ray.io/group": group}
    if cluster is not None:
        fixed["ray.io/cluster"] = cluster
    return with_labels(template, own, fixed)


def _expected(obj: Object, uses: Sequence[TemplateUse]) -> list[ExpectedPods]:
    """The job's cluster, which may have scaled itself down, and the submitter, which waits for the cluster."""
    submitter = obj["spec"].get("submissionMode", "K8sJobMode") == "K8sJobMode"
    cluster = uses[:-1] if submitter else uses
    left = _desired_workers(obj)
    wanted: list[ExpectedPods] = []
    for place, use in enumerate(cluster):
        now = use.count
        if place > 0 and left is not None:
            now = min(now, left)
            left -= now
        wanted.append(ExpectedPods(use.name, now, now))
    return wanted + [ExpectedPods(use.name, use.count, 0) for use in uses[len(cluster) :]]


def _desired_workers(obj: Object) -> int | None:
    """How many workers the job's cluster wants, where an autoscaler decides; None when nobody says so."""
    if value_at(obj, ("spec", "rayClusterSpec", "enableInTreeAutoscaling")) is not True:
        return None
    desired = value_at(obj, ("status", *_DESIRED_WORKERS))
    return desired if isinstance(desired, int) else None


def _outcome(obj: Object) -> ItemOutcome | None:
    """A RayJob is over when its deployment is; older operators call it complete although the job failed."""
    deployment = value_at(obj, ("status", "jobDeploymentStatus"))
    if deployment == "Failed":
        return "failed"
    if deployment != "Complete":
        return None
    return "failed" if value_at(obj, ("status", "jobStatus")) in ("FAILED", "STOPPED") else "succeeded"


def _worker_group_of(obj: Object, template: Path | None) -> Object | None:
    """The worker group that a template belongs to; None for the head and the submitter."""
    if template is None or len(template) < 3 or template[-3] != "workerGroupSpecs":
        return None
    group: t.Any = obj
    for part in template[:-1]:
        group = group[part]
    return t.cast("Object", group)


def _group_counts(obj: Object, template: Path | None) -> tuple[Path, ...]:
    """Replicas of a worker group; where an autoscaler owns them, the most it may make of them goes along."""
    if template is None or _worker_group_of(obj, template) is None:
        return ()
    group, spec = template[:-1], t.cast("tuple[str, ...]", template[:-3])
    autoscaled = value_at(obj, (*spec, "enableInTreeAutoscaling")) is True
    return ((*group, "replicas"), (*group, "maxReplicas")) if autoscaled else ((*group, "replicas"),)


def _group_bounds(obj: Object, template: Path | None) -> PodBounds | None:
    """The bounds of a worker group; an elastic job has at least one worker, and no range without an upper bound."""
    group = _worker_group_of(obj, template)
    high = group.get("maxReplicas") if group is not None else None
    if group is None or template is None or high is None or high == _MAX_REPLICAS:
        return None
    return PodBounds(max(1, group.get("minReplicas") or 0), high, template[:-1])


def _cluster_method(_obj: Object, axis: Axis, terms: ResizeTerms) -> Method:
    """Workers come and go in place; pods that exist keep resources and environment, whatever their template says."""
    return "scale" if axis == "pods" and not terms.environment else "recreate"


_CLUSTER_RESIZING = Resizing(axis="pods", method=_cluster_method, counts=_group_counts, bounds=_group_bounds)
_RESIZING = Resizing(axis="pods", counts=_group_counts, bounds=_group_bounds)

RAY_KINDS = (
    Kind("ray.io", "RayCluster", _ray_cluster, resizing=_CLUSTER_RESIZING, status_fields=(("state",),)),
    Kind(
        "ray.io",
        "RayJob",
        _ray_job,
        _expected,
        ending=KindEnding(_outcome, by_pods=False),
        resizing=_RESIZING,
        deadline=("spec", "activeDeadlineSeconds"),
        status_fields=(("jobDeploymentStatus",), ("jobStatus",), _DESIRED_WORKERS),
        # The job that submits it.
        owners=(("batch/v1", "Job"),),
    ),
    Kind("ray.io", "RayService", _ray_service, resizing=_RESIZING),
    Kind("ray.io", "RayCronJob", _ray_cron_job, owners=(("ray.io/v1", "RayJob"), ("batch/v1", "Job"))),
)
