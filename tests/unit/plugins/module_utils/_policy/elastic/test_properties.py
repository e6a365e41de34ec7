# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds of every plan, whatever the jobs, the room and the policy are."""

from __future__ import annotations

import dataclasses
import math
import random

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import Range
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import GpuPool
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import SizeTerms
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.outcome import SizePlan
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.plan import plan_sizes
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import POLICIES
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.room_capacity import RoomCapacity
from ansible_collections.muster.kube.tests.support.elastic_jobs import (
    GPU,
    carried_out,
    nodes_for,
    pool_for,
    random_jobs,
)
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

NOW = 10_000.0
# As many resizes at a time as there are wanted.
ALL = SizeTerms(most_resizes=None)
SMALL = Range((2, 3), GPU, "x", "per_pod")
POLICY = st.sampled_from(sorted(POLICIES))


def drawn(seed: int, most: int = 8, *, under_way: bool = True) -> tuple[random.Random, list[ElasticJob]]:
    """Some jobs, and the dice for the rest."""
    rng = random.Random(seed)
    return rng, random_jobs(rng, rng.randint(0, most), now=NOW, under_way=under_way)


def drawn_case(seed: int) -> tuple[list[ElasticJob], GpuPool | RoomCapacity]:
    """Jobs and the room they are in, without nodes or, one in three, with them; there nothing is under way."""
    nodes = seed % 3 == 0
    rng, jobs = drawn(seed, 6 if nodes else 8, under_way=not nodes)
    return jobs, nodes_for(jobs, rng, 4) if nodes else pool_for(jobs, rng.choice((0, 2, rng.randint(0, 12))))


SEEDS = st.integers(0, 2**32)
CASES = SEEDS.map(drawn_case)


def used(jobs: list[ElasticJob], plan: SizePlan) -> int:
    """The GPUs of all jobs under a plan."""
    return sum(job.range.gpus(size) for job in jobs if (size := plan.sizes[job.uid]))


def whole(room: GpuPool | RoomCapacity) -> int:
    """All GPUs of a room."""
    if isinstance(room, GpuPool):
        return room.free + sum(room.held.values())
    return sum(room.idle.values()) + sum(pod.requests[GPU] for pods in room.held.values() for pod in pods)


@settings(max_examples=examples(150))
@given(CASES, POLICY)
def test_nothing_is_given_twice_and_sizes_are_allowed_ones(case, policy):
    jobs, room = case
    plan = plan_sizes(jobs, room, now=NOW, policy=policy)
    assert used(jobs, plan) + sum(item.count for item in plan.idle) == whole(room)
    for job in jobs:
        decision = plan.decisions[job.uid]
        assert decision.size in (job.range.sizes if job.size else (0, *job.range.sizes))
        assert decision.changes is (decision.when is not None)
        assert decision.changes is (decision.reason in ("starts", "grows", "shrinks"))


@settings(max_examples=examples(150))
@given(CASES, POLICY, SEEDS)
def test_nobody_grows_beyond_what_its_quota_allows(case, policy, seed):
    rng, (jobs, room) = random.Random(seed), case
    limits = [rng.choice((None, job.size, *job.range.sizes)) if job.size else None for job in jobs]
    limited = [dataclasses.replace(job, most=most) for job, most in zip(jobs, limits, strict=True)]
    plan = plan_sizes(limited, room, now=NOW, policy=policy)
    for job in limited:
        assert job.most is None or plan.sizes[job.uid] <= max(job.most, job.size, job.heading)
    assert used(limited, plan) + sum(item.count for item in plan.idle) == whole(room)


@settings(max_examples=examples(150))
@given(CASES, POLICY)
def test_each_job_is_resized_once_at_a_time_and_guards_are_kept(case, policy):
    jobs, room = case
    plan = plan_sizes(jobs, room, now=NOW, policy=policy)
    for job in jobs:
        decision = plan.decisions[job.uid]
        if job.waits or not decision.changes:
            continue
        assert job.busy is None
        assert job.target is None
        assert job.resized is None or NOW - job.resized > job.cooldown
        assert decision.when == "after_others" or (decision.when == "at_checkpoint") is (job.timing == "at_checkpoint")
        if decision.reason == "grows":
            assert decision.size <= job.curve.trusted(job.size)
            assert job.left(job.size) - job.left(decision.size) > 3 * job.restart
            waiting = [other for other in jobs if not plan.sizes[other.uid]]
            assert all(plan.capacity.resized(other, other.range.min) is None for other in waiting)
        else:
            asker = next(other for other in jobs if other.uid == decision.for_uid)
            assert plan.decisions[asker.uid].reason == "starts"
            assert job.priority <= asker.priority
    begun = sum(job.target is not None for job in jobs)
    at_once = [job for job in jobs if job.size and plan.decisions[job.uid].changes and job.timing != "at_checkpoint"]
    assert len(at_once) <= max(0, SizeTerms().most_resizes - begun)


@settings(max_examples=examples(100))
@given(CASES, POLICY, st.randoms(use_true_random=False))
def test_plans_are_the_same_each_time_and_in_any_order_of_jobs(case, policy, rng):
    jobs, room = case
    plan = plan_sizes(jobs, room, now=NOW, policy=policy)
    mixed = list(jobs)
    rng.shuffle(mixed)
    again = plan_sizes(mixed, room, now=NOW, policy=policy)
    assert (again.decisions, again.idle) == (plan.decisions, plan.idle)


@settings(max_examples=examples(150))
@given(CASES, POLICY)
def test_a_plan_that_was_carried_out_is_planned_again(case, policy):
    jobs, room = case
    plan = plan_sizes(jobs, room, now=NOW, policy=policy, terms=ALL)
    done = carried_out(jobs, plan, NOW)
    again = plan_sizes(done, plan.capacity, now=NOW, policy=policy, terms=ALL)
    assert again.changes == ()
    assert again.sizes == plan.sizes


@settings(max_examples=examples(100))
@given(SEEDS, st.integers(0, 12), POLICY)
# What a shrink leaves over was once offered to those behind the asker before those who had to wait before it.
@example(24861, 0, "afs")
def test_what_is_under_way_is_not_planned_a_second_time(seed, spare, policy):
    """While victims shrink the room for the asker is on its way: nobody else shrinks for it, and it keeps its place."""
    _rng, jobs = drawn(seed)
    room = pool_for(jobs, spare)
    plan = plan_sizes(jobs, room, now=NOW, policy=policy, terms=ALL)
    begun = []
    askers = {item.for_uid for item in plan.changes}
    for job in jobs:
        decision = plan.decisions[job.uid]
        resized = job.size and decision.changes and decision.when != "after_others"
        target = decision.size if resized else job.target
        begun.append(dataclasses.replace(job, target=target, nominated=job.uid in askers))
    held = room
    for job in begun:
        held = held.resized(job, max(job.size, job.heading)) or held if job.size else held
    again = plan_sizes(begun, held, now=NOW, policy=policy, terms=ALL)
    assert {uid for uid, size in again.sizes.items() if size} >= {uid for uid, size in plan.sizes.items() if size}
    assert not [item for item in again.changes if item.reason == "shrinks"]


@settings(max_examples=examples(100))
@given(CASES, POLICY)
def test_what_starts_or_grows_at_once_fits_before_anybody_made_room(case, policy):
    jobs, room = case
    plan = plan_sizes(jobs, room, now=NOW, policy=policy)
    larger = [item.uid for item in plan.changes if item.reason in ("starts", "grows")]
    at_once = [job for job in jobs if job.uid in larger and plan.decisions[job.uid].when != "after_others"]
    taken = sum(job.range.gpus(plan.sizes[job.uid]) - (job.range.gpus(job.size) if job.size else 0) for job in at_once)
    assert taken <= sum(room.idle.values())
    assert all(room.resized(job, plan.sizes[job.uid]) is not None for job in at_once)
    made = [item for item in plan.changes if item.reason == "shrinks"] or [job for job in jobs if job.target]
    assert at_once or made or not larger


def plain(jobs: list[ElasticJob]) -> list[ElasticJob]:
    """The same jobs, all waiting, with every size of their ranges; one GPU is one size."""
    return [
        dataclasses.replace(
            job, size=0, target=None, range=Range(tuple(range(job.range.min, job.range.max + 1)), GPU, "x", "per_pod")
        )
        for job in jobs
    ]


@settings(max_examples=examples(100))
@given(SEEDS, st.integers(0, 30), POLICY)
def test_one_gpu_more_makes_no_job_smaller(seed, spare, policy):
    """Once all minima fit; before that a larger gang may start in the place of a smaller one."""
    even = plain(drawn(seed)[1])
    least = sum(job.range.min for job in even)
    fewer, more = (plan_sizes(even, GpuPool(least + room), now=NOW, policy=policy).sizes for room in (spare, spare + 1))
    assert all(more[uid] >= size > 0 for uid, size in fewer.items())


@settings(max_examples=examples(100))
@given(SEEDS, st.integers(0, 30), POLICY, st.booleans())
def test_with_one_gpu_more_as_many_are_used(seed, spare, policy, waiting):
    """Whatever the gaps between sizes are, as long as nobody shrinks or stands in the way: all wait, or all run."""
    jobs = [job for job in drawn(seed, under_way=False)[1] if bool(job.size) is not waiting]
    still = [dataclasses.replace(job, priority=0) for job in jobs]
    terms = SizeTerms(patience=math.inf)
    fewer, more = (
        used(still, plan_sizes(still, pool_for(still, room), now=NOW, policy=policy, terms=terms))
        for room in (spare, spare + 1)
    )
    assert more >= fewer


def large_started(seed: int, policy: str, patience: float) -> float | None:
    """When a large gang starts on twelve GPUs for which small ones come without end, more than there is room for."""
    rng, started, ends = random.Random(seed), {}, {}
    jobs = [ElasticJob("large", Range((10, 12), GPU, "x", "per_pod"), submitted=0.0)]
    for turn in range(75):
        now = 20.0 * turn
        jobs = [job for job in jobs if ends.get(job.uid, now + 1) > now]
        jobs.append(ElasticJob(f"small{turn}", SMALL, submitted=now))
        room = GpuPool(12 - sum(job.size for job in jobs), {job.uid: job.size for job in jobs if job.size})
        if turn < 6:
            # The large one comes while the GPUs are taken.
            room = dataclasses.replace(room, free=2)
        plan = plan_sizes(jobs, room, now=now, policy=policy, terms=SizeTerms(patience=patience))
        for item in plan.changes:
            if item.reason == "starts":
                started[item.uid], ends[item.uid] = now, now + rng.uniform(150, 400)
        jobs = carried_out(jobs, plan, now)
    return started.get("large")


@settings(max_examples=examples(5))
@given(SEEDS, POLICY)
def test_no_job_starves(seed, policy):
    """A gang is passed by others as long as it has patience; then it only waits for those that run."""
    assert large_started(seed, policy, math.inf) is None
    started = large_started(seed, policy, 600.0)
    assert started is not None
    assert started <= 600 + 400 + 200


@settings(max_examples=examples(100))
@given(CASES, POLICY)
def test_whoever_waits_has_no_room_or_may_not_pass_a_gang_before_it(case, policy):
    jobs, room = case
    plan = plan_sizes(jobs, room, now=NOW, policy=policy)
    for job in jobs:
        decision = plan.decisions[job.uid]
        if decision.reason == "waits":
            assert plan.capacity.resized(job, job.range.min) is None
        if decision.reason == "behind":
            first = next(other for other in jobs if other.uid == decision.for_uid)
            assert first.order < job.order
            assert plan.decisions[first.uid].size == 0
            assert NOW - first.submitted > SizeTerms().patience
