# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Groups of jobs and groups of pods: JobSet and LeaderWorkerSet (checked against 0.10.1 and 0.7.0)."""

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
    Reader,
    ResizeTerms,
    Resizing,
    TemplateUse,
    as_written,
    by_conditions,
    count_at,
    replicas_at,
    with_labels,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.batch import parallel_counts, parallel_pods
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import value_at


def _job_set(reader: Reader) -> list[TemplateUse]:
    """Each replicated job: its replicas times the pods one of its jobs runs at the same time."""
    uses: list[TemplateUse] = []
    for entry in reader.items(("spec", "replicatedJobs")):
        name = reader.text((*entry, "name"))
        spec = (*entry, "template", "spec")
        path = (*spec, "template")
        labels = {"jobset.sigs.k8s.io/jobset-name": reader.name, "jobset.sigs.k8s.io/replicatedjob-name": name}
        count = reader.count((*entry, "replicas"), 1) * parallel_pods(reader, spec)
        uses.append(TemplateUse(f"{reader.name}/{name}", count, with_labels(reader.template(path), {}, labels), path))
    return uses


def _expected_of_job_set(obj: Object, uses: Sequence[TemplateUse]) -> list[ExpectedPods]:
    """Replicated jobs without those that succeeded; in an ordered start only the first does not wait."""
    done = succeeded_jobs(value_at(obj, ("status", "replicatedJobsStatus")))
    in_order = value_at(obj, ("spec", "startupPolicy", "startupPolicyOrder")) == "InOrder"
    wanted: list[ExpectedPods] = []
    for index, (entry, use) in enumerate(zip(obj["spec"]["replicatedJobs"], uses, strict=True)):
        replicas = int(entry.get("replicas", 1))
        per_job = use.count // replicas if replicas else 0
        now = max(0, replicas - done.get(entry["name"], 0)) * per_job
        completions = entry["template"]["spec"].get("completions")
        spare = 0 if completions is None else max(0, completions - per_job) * replicas
        waits = (in_order and index > 0) or bool(entry.get("dependsOn"))
        wanted.append(ExpectedPods(use.name, now, 0 if waits else now, spare))
    return wanted


def succeeded_jobs(statuses: t.Any) -> dict[str, int]:
    """How many of its jobs succeeded, by the name of each replicated job."""
    told = statuses if isinstance(statuses, list) else ()
    return {str(value_at(item, ("name",))): count_at(item, ("succeeded",)) for item in told}


def _leader_worker_set(reader: Reader) -> list[TemplateUse]:
    """Groups of one leader and size - 1 workers; without a leader template all pods are made from the workers' one."""
    base: Path = ("spec", "leaderWorkerTemplate")
    groups = reader.count(("spec", "replicas"), 1)
    size = reader.count((*base, "size"), 1)
    if size < 1:
        raise reader.fail((*base, "size"), "a group has at least one pod")
    labels = {"leaderworkerset.sigs.k8s.io/name": reader.name}
    worker_path = (*base, "workerTemplate")
    worker = with_labels(reader.template(worker_path), {}, labels)
    leader_path = (*base, "leaderTemplate")
    if reader.get(leader_path) is None:
        return [TemplateUse(f"{reader.name}/worker", groups * size, worker, worker_path)]
    leader = with_labels(reader.template(leader_path), {}, labels)
    return [
        TemplateUse(f"{reader.name}/leader", groups, leader, leader_path),
        TemplateUse(f"{reader.name}/worker", groups * (size - 1), worker, worker_path),
    ]


def _expected_of_groups(obj: Object, uses: Sequence[TemplateUse]) -> list[ExpectedPods]:
    """Workers may have to wait until their leader is ready; without a template of its own it is one of them."""
    if obj["spec"].get("startupPolicy") != "LeaderReady":
        return as_written(obj, uses)
    groups = int(obj["spec"].get("replicas", 1))
    prompt = [min(use.count, groups) if place == 0 else 0 for place, use in enumerate(uses)]
    return [ExpectedPods(use.name, use.count, first) for use, first in zip(uses, prompt, strict=True)]


def _job_set_counts(obj: Object, template: Path | None) -> tuple[Path, ...]:
    return parallel_counts(obj, template[:-1]) if template else ()


def _groups_method(_obj: Object, axis: Axis, terms: ResizeTerms) -> Method:
    """Groups come and go in place; another template would replace the groups one by one, none of them complete."""
    return "scale" if axis == "pods" and not terms.environment else "recreate"


JOBSET_KINDS = (
    Kind(
        "jobset.x-k8s.io",
        "JobSet",
        _job_set,
        _expected_of_job_set,
        ending=by_conditions("Completed", "Failed", "complete"),
        resizing=Resizing(counts=_job_set_counts),
        status_fields=(("replicatedJobsStatus",),),
    ),
    Kind(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        _leader_worker_set,
        _expected_of_groups,
        resizing=Resizing(axis="pods", method=_groups_method, counts=replicas_at("spec", "replicas")),
    ),
)
