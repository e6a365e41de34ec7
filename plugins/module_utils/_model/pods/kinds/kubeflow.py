# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pods of Kubeflow's v1 training jobs, with what the operator adds (checked against training-operator 1.9.3)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    Axis,
    ExpectedPods,
    Kind,
    Method,
    Object,
    Path,
    PodBounds,
    Reader,
    ResizeTerms,
    Resizing,
    TemplateUse,
    by_conditions,
    count_at,
    replicas_beside,
    with_container,
    with_labels,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import value_at

_WAIT_FOR_MASTER = {
    "name": "init-pytorch",
    "resources": {"requests": {"cpu": "50m", "memory": "10Mi"}, "limits": {"cpu": "100m", "memory": "20Mi"}},
}
_DELIVERY = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
_SINGLE = ("chief", "evaluator", "launcher", "master")
_KUBECTL_DELIVERY = {"name": "kubectl-delivery", "resources": {"requests": _DELIVERY, "limits": _DELIVERY}}


@dataclasses.dataclass(frozen=True, slots=True)
class _JobKind:
    """Where a kind keeps its replica specs and which replica types it knows, the leading one first."""

    field: str
    types: tuple[str, ...]
    # The labels name the controller in the operator's own words.
    operator: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Replica:
    """One replica type of a job: its name as Kubeflow writes it and where its spec lies."""

    type: str
    path: Path


def _replicas(reader: Reader, kind: _JobKind) -> list[_Replica]:
    """The job's replica types in the kind's order; they may be written in any case."""
    base: Path = ("spec", kind.field)
    known = {name.lower(): name for name in kind.types}
    found: list[_Replica] = []
    for key in reader.mapping(base):
        if str(key).lower() not in known:
            raise reader.fail((*base, str(key)), f"unknown replica type; known are {', '.join(kind.types)}")
        reader.mapping((*base, key))
        found.append(_Replica(known[str(key).lower()], (*base, key)))
    if not found:
        raise reader.fail(base, "it names no replica type")
    return sorted(found, key=lambda replica: kind.types.index(replica.type))


def _use(reader: Reader, kind: _JobKind, replica: _Replica, count: int) -> TemplateUse:
    """The pods of one replica type, labeled as the operator does."""
    labels = {
        "training.kubeflow.org/job-name": reader.name,
        "training.kubeflow.org/operator-name": kind.operator,
        "training.kubeflow.org/replica-type": replica.type.lower(),
    }
    path = (*replica.path, "template")
    template = with_labels(reader.template(path), {}, labels)
    return TemplateUse(f"{reader.name}/{replica.type.lower()}", count, template, path)


def _training_job(kind: _JobKind, reader: Reader) -> list[TemplateUse]:
    """Every replica type, one pod each unless told otherwise; suspended jobs count in full."""
    return [
        _use(reader, kind, replica, reader.count((*replica.path, "replicas"), 1)) for replica in _replicas(reader, kind)
    ]


def _pytorch_job(kind: _JobKind, reader: Reader) -> list[TemplateUse]:
    """Like the others; with a master each worker first waits for it in an init container of the operator."""
    uses = _training_job(kind, reader)
    if not any(use.name.endswith("/master") for use in uses):
        return uses
    return [
        dataclasses.replace(use, template=with_container(use.template, "initContainers", _WAIT_FOR_MASTER))
        if use.name.endswith("/worker")
        else use
        for use in uses
    ]


def _mpi_job(kind: _JobKind, reader: Reader) -> list[TemplateUse]:
    """Exactly one launcher, which in v1 first receives kubectl in an init container; workers default to none."""
    uses: list[TemplateUse] = []
    for replica in _replicas(reader, kind):
        if replica.type == "Worker":
            uses.append(_use(reader, kind, replica, reader.count((*replica.path, "replicas"), 0)))
            continue
        launcher = _use(reader, kind, replica, 1)
        if reader.text(("apiVersion",)).endswith("/v1"):
            template = with_container(launcher.template, "initContainers", _KUBECTL_DELIVERY)
            launcher = dataclasses.replace(launcher, template=template)
        uses.append(launcher)
    if not any(use.name.endswith("/launcher") for use in uses):
        raise reader.fail(("spec", kind.field, "Launcher"), "it is missing")
    return uses


def _expected(obj: Object, uses: Sequence[TemplateUse]) -> list[ExpectedPods]:
    """Replicas without those that succeeded; a launcher may be made to wait for its workers."""
    statuses = value_at(obj, ("status", "replicaStatuses"))
    told = statuses.items() if isinstance(statuses, Mapping) else ()
    done = {str(role).lower(): count_at(item, ("succeeded",)) for role, item in told}
    launcher_waits = obj["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
    wanted: list[ExpectedPods] = []
    for use in uses:
        role = use.name.rpartition("/")[2]
        now = max(0, use.count - done.get(role, 0))
        wanted.append(ExpectedPods(use.name, now, 0 if launcher_waits and role == "launcher" else now))
    return wanted


def _worker_counts(obj: Object, template: Path | None) -> tuple[Path, ...]:
    """Workers may be many; of the leading replica types there is exactly one."""
    single = template is None or str(template[-2]).lower() in _SINGLE
    return () if single else replicas_beside(obj, template)


def _elastic_bounds(obj: Object, template: Path | None) -> PodBounds | None:
    """The bounds of an elastic policy, which are those of the workers."""
    where: Path = ("spec", "elasticPolicy")
    low, high = (value_at(obj, (*where, name)) for name in ("minReplicas", "maxReplicas"))
    if not isinstance(low, int) or not isinstance(high, int) or not _worker_counts(obj, template):
        return None
    return PodBounds(low, high, where)


def _pytorch_method(obj: Object, axis: Axis, terms: ResizeTerms) -> Method:
    """Workers of an elastic policy find new ones; all others have to be stopped, or they keep the old size.

    None of them may leave: the operator takes the whole job for done when a worker that it stops ends with 0.
    """
    elastic = axis == "pods" and not terms.environment and value_at(obj, ("spec", "elasticPolicy")) is not None
    return "scale" if elastic and not terms.shrinks else "suspend"


_RESIZING = Resizing(counts=_worker_counts)
_PYTORCH_RESIZING = Resizing(
    method=_pytorch_method,
    counts=_worker_counts,
    bounds=_elastic_bounds,
    suspend=("spec", "runPolicy", "suspend"),
    autoscaled=("spec", "elasticPolicy", "metrics"),
)


def _kind(
    name: str,
    field: str,
    types: tuple[str, ...],
    templates: Callable[[_JobKind, Reader], list[TemplateUse]] = _training_job,
    resizing: Resizing = _RESIZING,
) -> Kind:
    """One kind of training job; they differ in their replica types only."""
    return Kind(
        "kubeflow.org",
        name,
        functools.partial(templates, _JobKind(field, types, f"{name.lower()}-controller")),
        _expected,
        ending=by_conditions("Succeeded", "Failed", "succeeded", ttl=("spec", "runPolicy", "ttlSecondsAfterFinished")),
        resizing=resizing,
        deadline=("spec", "runPolicy", "activeDeadlineSeconds"),
        status_fields=(("replicaStatuses",),),
    )


_MASTER_WORKER = ("Master", "Worker")

KUBEFLOW_KINDS = (
    _kind("PyTorchJob", "pytorchReplicaSpecs", _MASTER_WORKER, _pytorch_job, _PYTORCH_RESIZING),
    _kind("TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    _kind("XGBoostJob", "xgbReplicaSpecs", _MASTER_WORKER),
    _kind("PaddleJob", "paddleReplicaSpecs", _MASTER_WORKER),
    _kind("JAXJob", "jaxReplicaSpecs", ("Worker",)),
    _kind("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker"), _mpi_job),
)
