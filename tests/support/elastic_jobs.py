# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic jobs for tests of policies: random ones, and the measured curves of real models at a fixed global batch."""

from __future__ import annotations

import dataclasses
import functools
import random

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import Range
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet, infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Node, Snapshot
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import GpuPool
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.outcome import SizePlan
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.room_capacity import RoomCapacity
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.speed import SpeedCurve
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room

GPU = "nvidia.com/gpu"
# Speed at 1, 2, 4, 8 and 16 GPUs over that at one (ElasticFlow's profiles of A100s).
MODELS = {
    "bert64": (1, 1.43, 1.72, 1.83, 1.82),
    "bert128": (1, 1.59, 2.36, 2.80, 3.01),
    "gpt128": (1, 1.63, 2.28, 2.56, 2.72),
    "gpt256": (1, 1.70, 2.79, 3.82, 4.36),
    "resnet50": (1, 1.87, 3.36, 5.63, 8.22),
    "vgg16": (1, 1.92, 3.53, 6.09, 9.61),
    "inception": (1, 1.82, 3.05, 4.24, 4.99),
    "deepspeech": (1, 1.85, 3.28, 4.63, 5.88),
}


def speeds_of(model: str, most: int) -> dict[int, float]:
    """Speeds at every size up to so many GPUs, in a straight line between those that were measured."""
    shape = SpeedCurve(profile=dict(zip((1, 2, 4, 8, 16), MODELS[model], strict=True)))
    return {size: shape.at(size) for size in range(1, most + 1)}


def sizes_from(low: int, high: int, step: int = 1, *, unit: int = 1) -> Range:
    """A range of GPUs of one pod."""
    return Range(tuple(range(low, high + 1, step)), GPU, "x", "per_pod", unit=unit)


def known_jobs(rng: random.Random, count: int, gpus: int) -> list[ElasticJob]:
    """Waiting jobs of which everything is known, whose minima fit together; every size is allowed."""
    jobs: list[ElasticJob] = []
    for number in range(count):
        spare = gpus - sum(job.range.min for job in jobs) - (count - number - 1)
        low = rng.randint(1, max(1, min(3, spare)))
        range_ = sizes_from(low, rng.randint(low, 8))
        curve = SpeedCurve(speeds_of(rng.choice(sorted(MODELS)), 8))
        work = rng.lognormvariate(8, 1.5)
        jobs.append(ElasticJob(f"j{number}", range_, 0, curve, work, work, submitted=rng.uniform(0, 10), cooldown=0))
    return jobs


def random_range(rng: random.Random) -> Range:
    """Sizes with and without gaps, of GPUs per pod or of pods."""
    low = rng.randint(1, 4)
    sizes = range(low, low + rng.randint(1, 9), rng.choice((1, 1, 2, 3)))
    listed = sorted({low, *rng.sample(sizes, rng.randint(1, len(sizes)))})
    chosen = tuple(listed) if rng.random() < 0.3 else tuple(sizes)
    return Range(chosen, GPU, "x", rng.choice(("per_pod", "pods")), unit=rng.choice((1, 1, 1, 2)))


def random_jobs(rng: random.Random, count: int, *, now: float = 1000.0, under_way: bool = False) -> list[ElasticJob]:
    """Jobs of all kinds: waiting and running, measured and not, hurried, cooling down, busy, resized just now."""
    jobs: list[ElasticJob] = []
    for number in range(count):
        range_ = random_range(rng)
        real = speeds_of(rng.choice(sorted(MODELS)), 16)
        measured = {size: real[size] for size in range_.sizes if rng.random() < 0.4}
        total = rng.choice((None, 10 ** rng.uniform(1, 6)))
        size = rng.choice((0, rng.choice(range_.sizes), range_.max))
        jobs.append(
            ElasticJob(
                f"j{number}",
                range_,
                size,
                SpeedCurve(measured, real if rng.random() < 0.2 else {}),
                remaining=None if total is None else total * rng.random(),
                total=total,
                priority=rng.choice((0, 0, 1)),
                gained=rng.choice((0.0, 0.0, 0.5, 3.0)),
                submitted=now - rng.choice((100, 10_000)) * rng.random(),
                resized=rng.choice((None, None, now - rng.uniform(0, 200))),
                ran=rng.uniform(0, 5000),
                checkpointed=rng.choice((None, now - rng.uniform(0, 900))),
                missed=rng.choice((None, None, None, now - rng.uniform(0, 900))),
                timing=rng.choice(("now", "at_checkpoint", "on_sigterm")),
                attained=rng.uniform(0, 1e5),
                deadline=rng.choice((None, now + rng.uniform(0, 1e4))),
                restart=rng.choice((0.0, 1.0, 1.0)) * rng.uniform(0, 300),
                cooldown=rng.choice((0.0, 60.0)),
                target=rng.choice(range_.sizes) if under_way and size and rng.random() < 0.2 else None,
                busy=rng.choice((None, None, None, None, "not now")),
            )
        )
    return jobs


def pool_for(jobs: list[ElasticJob], spare: int) -> GpuPool:
    """A pool in which the running jobs have what they have, and so many GPUs are free."""
    return GpuPool(spare, {job.uid: job.range.gpus(max(job.size, job.heading)) for job in jobs if job.size})


@functools.cache
def _podsets(count: int, gpus: int) -> tuple[PodSet, ...]:
    """Equal pods with GPUs."""
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: str(gpus)}}}
    spec = {"parallelism": count, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "w"}, "spec": spec}
    return tuple(infer_podsets([job], namespace="default"))


def gang_at(job: ElasticJob, size: int) -> Gang:
    """A gang of equal pods that has the GPUs of a size."""
    count, gpus = (size, job.range.unit) if job.range.axis == "pods" else (job.range.unit, size)
    return Gang(job.uid, "default", _podsets(count, gpus))


def on_nodes(free: dict[str, int], jobs: dict[str, list[ElasticJob]] | None = None) -> RoomCapacity:
    """Nodes that have some free GPUs besides the jobs that run on them."""
    placed, room = jobs or {}, None
    names = sorted({*free, *placed})
    # One node at a time is open, so that jobs are where they should be.
    for name in [*names, None]:
        views = []
        for other in names:
            all_of_it = free.get(other, 0) + sum(job.range.gpus(job.size) for job in placed.get(other, ()))
            labels = {"kubernetes.io/hostname": other}
            views.append(Node(other, labels, (), {GPU: all_of_it, "pods": 110}, name not in (None, other)))
        pods = [] if room is None else [pod for here in room.room.pods_on for pod in here]
        held = {} if room is None else room.held
        room = RoomCapacity(Room(Snapshot(nodes=tuple(views)), pods), held, gang_at, GPU)
        for job in placed.get(name or "", ()):
            room = room.resized(job, job.size)
            assert room is not None
    assert room is not None
    return room


def nodes_for(jobs: list[ElasticJob], rng: random.Random, most: int) -> RoomCapacity:
    """Nodes on which the running jobs have what they have, up to two of them on each, with some free GPUs each."""
    running = [job for job in jobs if job.size]
    placed: dict[str, list[ElasticJob]] = {}
    for job in running:
        placed.setdefault(f"n{rng.randint(0, max(1, len(running) // 2))}", []).append(job)
    free = {node: rng.randint(0, most) for node in placed}
    return on_nodes({**free, "empty": rng.randint(0, 2 * most)}, placed)


def carried_out(jobs: list[ElasticJob], plan: SizePlan, now: float) -> list[ElasticJob]:
    """The jobs once a plan was carried out at once."""
    done = []
    for job in jobs:
        size = plan.sizes[job.uid]
        done.append(job if size == job.size else dataclasses.replace(job, size=size, resized=now))
    return done
