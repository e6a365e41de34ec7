# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs and CronJobs of Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    ExpectedPods,
    Kind,
    Object,
    Path,
    Reader,
    TemplateUse,
    by_conditions,
    count_at,
    with_labels,
)


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


BATCH_KINDS = (
    Kind(
        "batch",
        "Job",
        _job,
        _expected,
        ending=by_conditions("Complete", "Failed", "complete"),
        deadline=("spec", "activeDeadlineSeconds"),
        status_fields=(("succeeded",),),
    ),
    Kind("batch", "CronJob", _cron_job),
)
