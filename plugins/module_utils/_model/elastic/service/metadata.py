# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs as the metadata manager of the GenAI workload manager tells them, and its ordered lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

DONE = ("completed", "failed")


@dataclasses.dataclass(frozen=True, slots=True)
class JobMetadata:
    """One job; GPUs are those of all its pods, times are seconds since 1970."""

    job_name: str
    namespace: str
    gpu_req: int
    gpu_lim: int
    gpu_assigned: int
    replicas: int
    total_epochs: float
    job_arrival_time: float
    last_checkpoint_time: float
    completed_epochs: float
    time_bw_checkpoints: float | None
    status: str
    restarts: int
    phase: str
    allotment: int | None
    progress: Data | None

    def as_data(self) -> Data:
        """Plain values."""
        return dataclasses.asdict(self)

    @property
    def runs(self) -> bool:
        """Whether it has GPUs, and goes on."""
        return self.gpu_assigned > 0 and self.status not in DONE


def by_arrival(jobs: Iterable[JobMetadata]) -> list[JobMetadata]:
    """Jobs that are not done, oldest first."""
    waiting = (job for job in jobs if job.status not in DONE)
    return sorted(waiting, key=lambda job: (job.job_arrival_time, job.namespace, job.job_name))


def below_limit(jobs: Iterable[JobMetadata]) -> list[JobMetadata]:
    """Running jobs with fewer GPUs than they may have, latest checkpoint first."""
    return _latest_first(jobs, lambda job: job.gpu_assigned < job.gpu_lim)


def lacking(jobs: Iterable[JobMetadata], gpus: int) -> list[JobMetadata]:
    """Running jobs that have so many GPUs less than they may have, latest checkpoint first."""
    return _latest_first(jobs, lambda job: job.gpu_lim - job.gpu_assigned == gpus)


def able_to_give(jobs: Iterable[JobMetadata], gpus: int) -> list[JobMetadata]:
    """Running jobs that could do with so many GPUs less, latest checkpoint first."""
    return _latest_first(jobs, lambda job: job.gpu_assigned - job.gpu_req >= gpus)


def _latest_first(jobs: Iterable[JobMetadata], meant: Callable[[JobMetadata], bool]) -> list[JobMetadata]:
    found = (job for job in jobs if job.runs and meant(job))
    return sorted(found, key=lambda job: (-job.last_checkpoint_time, job.namespace, job.job_name))


def differences(known: JobMetadata, told: Mapping[str, object]) -> list[str]:
    """Fields in which somebody tells something else than the cluster does; who resizes and restarts knows these."""
    fixed = ("gpu_req", "gpu_lim", "gpu_assigned", "replicas", "restarts")
    return [
        f"{key} is {getattr(known, key)}, not {told[key]}"
        for key in fixed
        if key in told and told[key] != getattr(known, key)
    ]
