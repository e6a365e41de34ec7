# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pods of Kubernetes' own workload kinds, of JobSet and of LeaderWorkerSet."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.kinds_base import (
    ACTION,
    Handler,
    NeedsPodsets,
    Path,
    Reader,
    TemplateUse,
    with_labels,
)


def pod(reader: Reader) -> list[TemplateUse]:
    """A pod is its own template."""
    return [TemplateUse(reader.name, 1, reader.template(()), ())]


def replicated(reader: Reader) -> list[TemplateUse]:
    """Kinds with spec.replicas and spec.template; one replica unless told otherwise."""
    path: Path = ("spec", "template")
    template = reader.template(path)
    claims = reader.items(("spec", "volumeClaimTemplates"), required=False)
    if claims:
        # A StatefulSet makes claims for each pod; to whoever places it they are what ephemeral volumes are.
        volumes = [*(template["spec"].get("volumes") or ()), *({"ephemeral": reader.mapping(item)} for item in claims)]
        template = {**template, "spec": {**template["spec"], "volumes": volumes}}
    return [TemplateUse(reader.name, reader.count(("spec", "replicas"), 1), template, path)]


def job(reader: Reader) -> list[TemplateUse]:
    """The pods of a Job that run at the same time; a suspended Job counts in full because it will be started."""
    path: Path = ("spec", "template")
    labels = {"batch.kubernetes.io/job-name": reader.name, "job-name": reader.name}
    template = with_labels(reader.template(path), labels)
    return [TemplateUse(reader.name, _parallel_pods(reader, ("spec",)), template, path)]


def cron_job(reader: Reader) -> list[TemplateUse]:
    """One run of the job template."""
    spec: Path = ("spec", "jobTemplate", "spec")
    path = (*spec, "template")
    return [TemplateUse(reader.name, _parallel_pods(reader, spec), reader.template(path), path)]


def daemon_set(reader: Reader) -> list[TemplateUse]:
    """A DaemonSet has as many pods as there are nodes for it, so it cannot be part of a gang by itself."""
    raise NeedsPodsets(ACTION, reader.where, "the size of a DaemonSet follows the nodes; declare podsets for it")


def job_set(reader: Reader) -> list[TemplateUse]:
    """Each replicated job: its replicas times the pods one of its jobs runs at the same time."""
    uses: list[TemplateUse] = []
    for entry in reader.items(("spec", "replicatedJobs")):
        name = reader.text((*entry, "name"))
        spec = (*entry, "template", "spec")
        path = (*spec, "template")
        labels = {"jobset.sigs.k8s.io/jobset-name": reader.name, "jobset.sigs.k8s.io/replicatedjob-name": name}
        count = reader.count((*entry, "replicas"), 1) * _parallel_pods(reader, spec)
        uses.append(TemplateUse(f"{reader.name}/{name}", count, with_labels(reader.template(path), {}, labels), path))
    return uses


def leader_worker_set(reader: Reader) -> list[TemplateUse]:
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


def _parallel_pods(reader: Reader, spec: Path) -> int:
    """How many pods of a job specification run at once: never more than there are completions to reach."""
    parallelism = reader.count((*spec, "parallelism"), 1)
    return min(parallelism, reader.count((*spec, "completions"), parallelism))


WORKLOAD_KINDS: dict[tuple[str, str], Handler] = {
    ("", "Pod"): pod,
    ("", "ReplicationController"): replicated,
    ("apps", "ReplicaSet"): replicated,
    ("apps", "Deployment"): replicated,
    ("apps", "StatefulSet"): replicated,
    ("apps", "DaemonSet"): daemon_set,
    ("batch", "Job"): job,
    ("batch", "CronJob"): cron_job,
    ("jobset.x-k8s.io", "JobSet"): job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set,
}
