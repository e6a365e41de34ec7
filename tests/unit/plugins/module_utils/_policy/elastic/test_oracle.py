# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans against all that could have been done: up to five jobs on up to twelve GPUs of which everything is known."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import GpuPool
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import SizeTerms
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.plan import plan_sizes
from ansible_collections.muster.kube.tests.support.elastic_jobs import carried_out, known_jobs, pool_for
from ansible_collections.muster.kube.tests.support.random_size import examples

SEED = os.environ.get("MUSTER_SEED", "1")
FREE = SizeTerms(worth=0.0, near_end=0.0)


def best_static(jobs: list[ElasticJob], gpus: int) -> float:
    """The smallest sum of run times of any sizes that all jobs keep to their ends."""
    splits = itertools.product(*(job.range.sizes for job in jobs))
    return min(
        sum(job.left(size) for job, size in zip(jobs, split, strict=True)) for split in splits if sum(split) <= gpus
    )


def replanned(jobs: list[ElasticJob], gpus: int, policy: str) -> float:
    """The sum of the times at which jobs end when sizes are planned anew at each end, at no cost."""
    now, ends, jobs = 0.0, 0.0, [dataclasses.replace(job, restart=0.0) for job in jobs]
    while jobs:
        free = gpus - sum(job.size for job in jobs)
        jobs = carried_out(jobs, plan_sizes(jobs, pool_for(jobs, free), now=now, policy=policy, terms=FREE), now)
        first = min(jobs, key=lambda job: job.left(job.size))
        passed = first.left(first.size)
        now += passed
        ends += now
        jobs = [
            dataclasses.replace(job, remaining=max(0.0, job.remaining - passed * job.curve.at(job.size)))
            for job in jobs
            if job is not first
        ]
    return ends


def cases() -> list[tuple[list[ElasticJob], int]]:
    rng = random.Random(f"{SEED}/oracle")
    found = []
    for _case in range(examples(50)):
        count = rng.randint(1, 5)
        gpus = rng.randint(count, 12)
        found.append((known_jobs(rng, count, gpus), gpus))
    return found


def test_marginal_gain_is_the_best_static_split():
    for jobs, gpus in cases():
        sizes = plan_sizes(jobs, GpuPool(gpus), now=0.0, policy="marginal_gain", terms=FREE).sizes
        total = sum(job.left(sizes[job.uid]) for job in jobs)
        assert total == pytest.approx(best_static(jobs, gpus), rel=1e-9)


def test_afs_planning_anew_at_each_end_is_never_worse_than_it():
    shares = [replanned(jobs, gpus, "afs") / best_static(jobs, gpus) for jobs, gpus in cases()]
    assert max(shares) <= 1 + 1e-9
