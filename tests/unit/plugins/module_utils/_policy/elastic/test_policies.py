# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is favored by each policy."""

from __future__ import annotations

import dataclasses
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob, SizeStep
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import (
    POLICIES,
    PolicyName,
    harm,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.speed import SpeedCurve
from ansible_collections.muster.kube.tests.support.elastic_jobs import random_jobs, sizes_from

GOOD = SpeedCurve({1: 1.0, 2: 1.9, 3: 2.7, 4: 3.4})
BAD = SpeedCurve({1: 1.0, 2: 1.2, 3: 1.3, 4: 1.35})
RANGE = sizes_from(1, 4)


def job(uid: str, size: int = 2, curve: SpeedCurve = GOOD, **fields: t.Any) -> ElasticJob:
    return ElasticJob(uid, RANGE, size, curve, **{"remaining": 1000.0, "total": 2000.0, **fields})


def step(one: ElasticJob) -> SizeStep:
    return SizeStep(one, one.size, one.size + 1)


def favored(policy: PolicyName, *jobs: ElasticJob, now: float = 100.0) -> str:
    return chosen(policy, [step(one) for one in jobs], now).job.uid


def chosen(policy: PolicyName, steps: list[SizeStep], now: float) -> SizeStep:
    rule = POLICIES[policy]
    return rule.choose([rule.rank(one, now) for one in steps]).step


def test_all_policies_are_in_the_table():
    assert set(POLICIES) == set(t.get_args(PolicyName))


@pytest.mark.parametrize(
    ("policy", "other", "winner"),
    [
        ("latest_checkpoint", {"checkpointed": 5.0}, {"checkpointed": 6.0}),
        ("latest_checkpoint", {}, {"checkpointed": 6.0}),
        ("least_progress", {"remaining": 500.0}, {"remaining": 1500.0}),
        ("least_progress", {"total": None}, {"remaining": 1.0}),
        ("shortest_remaining", {}, {"remaining": 900.0}),
        ("shortest_remaining", {}, {"size": 3}),
        ("marginal_gain", {"curve": BAD}, {}),
        ("marginal_gain", {}, {"remaining": 1500.0}),
        ("relative_speedup", {"curve": BAD, "remaining": 1.0}, {}),
        ("relative_speedup", {"size": 3}, {}),
        ("max_min", {"size": 3}, {}),
        ("max_min", {"submitted": 2.0}, {"submitted": 1.0}),
        ("attained_service", {"attained": 50.0}, {"attained": 40.0}),
        ("deadline", {"deadline": 1e6}, {"deadline": 850.0, "curve": BAD}),
        ("deadline", {"deadline": 500.0}, {"deadline": 400.0}),
        # One that cannot be met any more gives no advantage.
        ("deadline", {"deadline": 300.0, "curve": BAD}, {}),
        ("deadline", {"curve": BAD}, {"deadline": 1e6}),
        # Of two alike the shorter; a longer one only if it makes more of it.
        ("afs", {"remaining": 1500.0}, {}),
        ("afs", {"curve": BAD, "remaining": 100.0}, {}),
    ],
)
def test_a_policy_favors(policy, other, winner):
    jobs = job("a", **other), job("b", **winner)
    assert favored(policy, *jobs) == "b"
    renamed = job("z", **other), job("b", **winner)
    assert favored(policy, *reversed(renamed)) == "b"


@pytest.mark.parametrize("policy", POLICIES)
def test_the_order_of_jobs_is_irrelevant(policy):
    rng = random.Random(5)
    for _case in range(30):
        jobs = [dataclasses.replace(item, size=item.range.min) for item in random_jobs(rng, 6)]
        steps = [SizeStep(item, item.size, item.size + 1) for item in jobs]
        first = chosen(policy, steps, 1000.0)
        rng.shuffle(steps)
        assert chosen(policy, steps, 1000.0) == first


def test_steps_of_several_gpus_are_judged_by_the_gpu():
    large = ElasticJob("a", sizes_from(2, 4, 2), 2, GOOD, 1000.0, 2000.0)
    leap = SizeStep(large, 2, 4)
    assert leap.gpus == 2
    assert leap.speedup == pytest.approx((3.4 / 1.9) ** 0.5)
    assert POLICIES["marginal_gain"].score(leap, 0.0) == (pytest.approx((1000 / 1.9 - 1000 / 3.4) / 2),)


def test_what_nobody_knows_is_taken_to_last_as_long_again():
    unknown = job("a", curve=SpeedCurve(), remaining=None, total=None, ran=600.0)
    assert (unknown.left(2), unknown.left(4), unknown.share) == (600.0, 300.0, None)
    assert job("a", curve=GOOD).left(2) == pytest.approx(1000 / 1.9)


def test_whoever_is_harmed_least_shrinks():
    def shrink(one: ElasticJob) -> SizeStep:
        return SizeStep(one, one.size, one.size - 1)

    assert min([shrink(job("a")), shrink(job("b", curve=BAD))], key=harm).job.uid == "b"
    saved = [shrink(job("a", checkpointed=9.0)), shrink(job("b", checkpointed=8.0)), shrink(job("c"))]
    assert min(saved, key=harm).job.uid == "a"
    assert min([shrink(job("a", submitted=1.0)), shrink(job("b", submitted=2.0))], key=harm).job.uid == "b"
