# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs and CronJobs of Kubernetes."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

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
    read_number,
    with_labels,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import value_at

# Annotations of Kueue's partial admission: how few pods will do, and whether completions follow the number of pods.
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
_COMPLETIONS_FOLLOW = "kueue.x-k8s.io/job-completions-equal-parallelism"


def _job(reader: Reader) -> list[TemplateUse]:
    """The pods of a Job that run at the same time; a suspended Job counts in full because it will be started."""
    path: Path = ("spec", "template")
    labels = {"batch.kubernetes.io/job-name": reader.name, "job-name": reader.name}
    template = with_labels(reader.template(path), labels)
    return [TemplateUse(reader.name, parallel_pods(reader, ("spec",)), template, path)]


def _cron_job(reader: Reader) -> list[TemplateUse]:
    """One run of the job template."""
    spec: Path = ("spec", "jobTemplate", "spec")
    path = (*spec, "template")
    return [TemplateUse(reader.name, parallel_pods(reader, spec), reader.template(path), path)]


def parallel_pods(reader: Reader, spec: Path) -> int:
    """How many pods of a job specification run at once: never more than there are completions to reach."""
    parallelism = reader.count((*spec, "parallelism"), 1)
    return min(parallelism, reader.count((*spec, "completions"), parallelism))


def _expected(obj: Object, uses: Sequence[TemplateUse]) -> list[ExpectedPods]:
    """A Job runs as many at once as it may, but never more than are still to succeed."""
    now, succeeded = uses[0].count, count_at(obj, ("status", "succeeded"))
    completions = obj["spec"].get("completions")
    if completions is not None:
        left = max(0, completions - succeeded)
        return [ExpectedPods(uses[0].name, min(now, left), min(now, left), max(0, completions - now))]
    # A work queue: after the first success no pod is made any more.
    now = min(now, count_at(obj, ("status", "active"))) if succeeded else now
    return [ExpectedPods(uses[0].name, now, now)]


def parallel_counts(obj: Object, spec: Path, *, follow: bool = False) -> tuple[Path, ...]:
    """Where the number of pods of a job specification stands.

    The completions of an Indexed one go with it where both are the same, which is how trainers use them.
    """
    job: t.Any = obj
    for part in spec:
        job = job[part]
    parallelism, completions = (*spec, "parallelism"), (*spec, "completions")
    same = job.get("completions") is not None and job.get("completions") == job.get("parallelism", 1)
    indexed = job.get("completionMode") == "Indexed"
    return (parallelism, completions) if same and (indexed or follow) else (parallelism,)


def _job_counts(obj: Object, _template: Path | None) -> tuple[Path, ...]:
    follow = value_at(obj, ("metadata", "annotations", _COMPLETIONS_FOLLOW)) == "true"
    return parallel_counts(obj, ("spec",), follow=follow)


def _job_bounds(obj: Object, _template: Path | None) -> PodBounds | None:
    """What Kueue's partial admission may make of a Job: from the annotation up to its parallelism."""
    where: Path = ("metadata", "annotations", MIN_PARALLELISM)
    low, parallelism = read_number(value_at(obj, where)), obj["spec"].get("parallelism")
    return None if low is None else PodBounds(low, 1 if parallelism is None else int(parallelism), where)


def _job_method(_obj: Object, axis: Axis, terms: ResizeTerms) -> Method:
    """Parallelism changes in place; resources only while suspended and where the server knows that, variables never."""
    if terms.environment:
        return "recreate"
    if axis == "pods":
        return "scale"
    return "suspend" if terms.suspended_jobs_change else "recreate"


BATCH_KINDS = (
    Kind(
        "batch",
        "Job",
        _job,
        _expected,
        ending=by_conditions("Complete", "Failed", "complete"),
        resizing=Resizing(method=_job_method, counts=_job_counts, bounds=_job_bounds, suspend=("spec", "suspend")),
        deadline=("spec", "activeDeadlineSeconds"),
        status_fields=(("succeeded",),),
    ),
    Kind("batch", "CronJob", _cron_job),
)
