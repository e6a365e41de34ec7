# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One decision over all jobs: the walks of a few, and what holds of any."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import SizeTerms
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.outcome import (
    IdleGpus,
    SizeDecision,
    SizeDecisions,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.plan import plan_sizes
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.speed import SpeedCurve
from ansible_collections.muster.kube.tests.support.elastic_jobs import (
    carried_out,
    on_nodes,
    pool_for,
    sizes_from,
    speeds_of,
)

NOW = 10_000.0
VGG = SpeedCurve(speeds_of("vgg16", 8))


def job(uid: str, size: int = 0, low: int = 2, high: int = 4, **fields: t.Any) -> ElasticJob:
    """A long job of which all is known."""
    known = {"curve": VGG, "remaining": 1e5, "total": 2e5, "restart": 60.0, "resized": 0.0}
    return ElasticJob(uid, sizes_from(low, high), size, **{**known, **fields})


def plan(jobs: list[ElasticJob], spare: int, **options: t.Any):
    return plan_sizes(jobs, pool_for(jobs, spare), now=NOW, **options)


def test_three_jobs_share_ten_gpus_and_both_others_grow_when_one_ends():
    # Nothing is known of gangs that were never started.
    jobs = [ElasticJob(name, sizes_from(2, 4), submitted=place) for place, name in enumerate("abc")]
    first = plan(jobs, 10)
    assert sorted(first.sizes.values()) == [3, 3, 4]
    assert first.idle == ()
    ran = [dataclasses.replace(one, resized=0.0, ran=NOW) for one in carried_out(jobs, first, NOW)]
    left = [one for one in ran if one.size < 4]
    second = plan(left, 4)
    assert set(second.sizes.values()) == {4}
    assert second.idle == (IdleGpus("", 2, "at_max", ("b", "c")),)


def test_the_demonstration_of_one_node_with_ten_gpus():
    """Three jobs of 2 to 4 get 4, 3 and 3; one ends, both others get 4; a foreign pod takes 2; a job of 2 comes."""
    jobs = [ElasticJob(name, sizes_from(2, 4), submitted=place) for place, name in enumerate("abc")]
    room = on_nodes({"node": 10})
    first = plan_sizes(jobs, room, now=0.0)
    assert first.sizes == {"a": 4, "b": 3, "c": 3}
    jobs = [dataclasses.replace(one, ran=1000.0) for one in carried_out(jobs, first, 0.0) if one.uid != "a"]
    freed = first.capacity.resized(ElasticJob("a", sizes_from(2, 4), 4), 0)
    second = plan_sizes(jobs, freed, now=1000.0)
    assert [(item.uid, item.before, item.size, item.when) for item in second.changes] == [
        ("b", 3, 4, "at_checkpoint"),
        ("c", 3, 4, "at_checkpoint"),
    ]
    foreign = ElasticJob("foreign", sizes_from(2, 2), 2, busy="not ours")
    jobs = [*carried_out(jobs, second, 1000.0), ElasticJob("d", sizes_from(2, 2), submitted=1999.0)]
    third = plan_sizes([*jobs, foreign], second.capacity.resized(foreign, 2), now=2000.0)
    assert third.sizes == {"b": 4, "c": 2, "d": 2, "foreign": 2}
    assert [(item.uid, item.reason, item.when) for item in third.changes] == [
        ("c", "shrinks", "at_checkpoint"),
        ("d", "starts", "after_others"),
    ]
    assert third.decisions["c"].for_uid == "d"


def test_while_a_victim_shrinks_nobody_else_has_to_and_the_room_is_kept_for_the_asker():
    begun = [job("a", 4, target=2), job("b", 4), job("new", high=2, submitted=5.0, nominated=True)]
    found = plan([*begun, job("newer", high=2, submitted=1.0, priority=-1)], 0)
    assert found.sizes == {"a": 2, "b": 4, "new": 2, "newer": 0}
    assert (found.decisions["a"].reason, found.decisions["a"].changes) == ("busy", False)
    assert (found.decisions["new"].when, found.decisions["newer"].reason) == ("after_others", "waits")


def test_so_many_are_resized_at_a_time():
    jobs = [job(name, 2, timing="on_sigterm") for name in "abcdef"]
    found = plan(jobs, 12)
    assert sorted(found.sizes.values()) == [2, 2, 4, 4, 4, 4]
    assert sorted({item.reason for item in found.decisions.values()}) == ["grows", "too_many"]
    under_way = [job("x", 2, target=3), job("y", 4, target=3), *jobs]
    assert sorted(plan(under_way, 12).sizes.values()) == [2, 2, 2, 2, 3, 3, 4, 4]
    assert set(plan(jobs, 12, terms=SizeTerms(most_resizes=None)).sizes.values()) == {4}
    # What waits for a checkpoint has not begun.
    assert set(plan([job(name, 2) for name in "abcdef"], 12).sizes.values()) == {4}


def test_a_gang_that_waited_long_is_passed_by_nobody():
    old = job("old", low=8, high=8, submitted=NOW - 3601)
    young = job("young", low=1, high=2, submitted=NOW - 10)
    running = job("a", 6, low=6, high=6)
    found = plan([old, young, running], 4)
    assert found.sizes == {"old": 0, "young": 0, "a": 6}
    assert (found.decisions["young"].reason, found.decisions["young"].for_uid) == ("behind", "old")
    # One that could never start is in nobody's way, neither at a start nor at growth.
    huge = dataclasses.replace(old, range=sizes_from(11, 11))
    assert plan([huge, young, running], 4).sizes == {"old": 0, "young": 2, "a": 6}
    assert plan([huge, job("b", 2)], 8).sizes == {"old": 0, "b": 4}
    # It gets its room from others before those behind it are asked.
    giving = [job("b", 4, submitted=1.0), job("c", 4, submitted=1.0)]
    assert plan([dataclasses.replace(old, range=sizes_from(6, 6)), young, *giving], 2).sizes["old"] == 6


def test_gangs_that_fit_start_before_others_shrink_for_one():
    jobs = [job("a", 4), job("large", low=3, high=3, submitted=NOW - 20), job("small", high=2, submitted=NOW - 10)]
    assert plan(jobs, 2).sizes == {"a": 4, "large": 0, "small": 2}


def test_a_newcomer_gets_its_minimum_from_one_victim():
    jobs = [job("a", 4), job("b", 4), job("new", high=2)]
    found = plan(jobs, 0)
    assert found.sizes in ({"a": 2, "b": 4, "new": 2}, {"a": 4, "b": 2, "new": 2})
    (victim,) = (item for item in found.decisions.values() if item.reason == "shrinks")
    assert victim.for_uid == "new"
    assert [item.reason for item in found.changes] == ["shrinks", "starts"]


def test_several_shrink_when_one_alone_does_not_help_and_nobody_more_than_needed():
    jobs = [job("a", 4), job("b", 4), job("c", 4), job("new", low=4, high=8)]
    found = plan(jobs, 0)
    assert sorted(found.sizes.values()) == [2, 2, 4, 4]
    tight = [job("a", 4), job("b", 3), job("new", low=3, high=3)]
    assert plan(tight, 0).sizes == {"a": 2, "b": 2, "new": 3}


def test_nobody_shrinks_when_that_would_not_be_enough():
    found = plan([job("a", 4), job("b", 3), job("new", low=6, high=6)], 1)
    assert found.sizes == {"a": 4, "b": 3, "new": 0}
    assert found.decisions["new"].reason == "waits"
    assert found.decisions["b"].reason == "queued_work"
    assert found.idle == (IdleGpus("", 1, "too_few", ("new",)),)


def test_a_gang_behind_one_that_does_not_fit_starts():
    jobs = [job("large", low=8, high=8, submitted=1.0), job("small", low=1, high=2, submitted=2.0)]
    assert plan(jobs, 4).sizes == {"large": 0, "small": 2}


@pytest.mark.parametrize(
    ("fields", "options", "reason"),
    [
        ({"busy": "a resize"}, {}, "busy"),
        ({"resized": NOW - 60}, {}, "cooldown"),
        ({"target": 2}, {}, "busy"),
        ({"missed": 500.0}, {}, "no_checkpoint"),
        ({"missed": 500.0, "checkpointed": 400.0}, {}, "no_checkpoint"),
        ({"remaining": 9000.0}, {}, "near_end"),
        ({"remaining": 300.0, "total": 400.0}, {}, "not_worth"),
        ({"curve": SpeedCurve({1: 1.0})}, {}, "not_measured"),
        ({"curve": SpeedCurve({2: 2.0, 3: 1.0, 4: 1.0})}, {}, "no_gain"),
        ({"timing": "now"}, {"terms": SizeTerms(most_resizes=0)}, "too_many"),
        ({"high": 2}, {}, "at_max"),
    ],
)
def test_a_running_job_is_left_as_it_is(fields, options, reason):
    found = plan([job("a", 2, **fields)], 2, **options)
    assert found.sizes == {"a": 2}
    assert found.decisions["a"].reason == reason
    assert found.idle == (IdleGpus("", 2, reason, ("a",)),)


@pytest.mark.parametrize(
    "fields", [{"busy": "a resize"}, {"resized": NOW - 60}, {"remaining": 400.0, "total": 500.0}, {"priority": 1}]
)
def test_some_jobs_shrink_for_nobody(fields):
    assert plan([job("a", 4, **fields), job("new", high=2)], 0).sizes == {"a": 4, "new": 0}
    assert plan([job("a", 4), job("new", high=2)], 0).sizes == {"a": 2, "new": 2}
    assert plan([job("a", 4), job("new", high=2)], 0, may_take=lambda _asker, _victim: False).sizes["new"] == 0
    at_once = job("a", 4, timing="now")
    assert plan([at_once, job("new", high=2)], 0, terms=SizeTerms(most_resizes=0)).sizes["new"] == 0


def test_a_step_that_is_not_worth_it_is_skipped_for_one_that_is():
    slow = SpeedCurve({2: 2.0, 3: 2.02, 4: 4.0})
    assert plan([job("a", 2, curve=slow, remaining=5000.0, total=9000.0)], 2).sizes == {"a": 4}
    found = plan([job("a", 2, curve=slow, remaining=5000.0, total=9000.0)], 1)
    assert (found.sizes, found.decisions["a"].reason) == ({"a": 2}, "no_room")


def test_a_checkpoint_that_came_after_all_ends_the_exclusion():
    assert plan([job("a", 2, missed=500.0, checkpointed=501.0)], 2).sizes == {"a": 4}
    assert plan([job("a", 2, missed=500.0, timing="on_sigterm")], 2).sizes == {"a": 4}


def test_growth_is_capped_and_a_start_is_not():
    unknown = {"curve": SpeedCurve({2: 2.0}), "high": 8}
    assert plan([job("a", 2, **unknown)], 6).sizes == {"a": 4}
    assert plan([job("a", 0, **unknown)], 8).sizes == {"a": 8}


def test_whoever_need_not_leave_its_nodes_grows_first():
    jobs = [job("a", 2, remaining=1e6, total=2e6), job("b", 2)]
    room = on_nodes({"n1": 0, "n2": 2}, {"n1": jobs[:1], "n2": jobs[1:]})
    found = plan_sizes(jobs, room, now=NOW, policy="marginal_gain")
    assert found.sizes == {"a": 2, "b": 4}
    assert found.decisions["a"].reason == "no_room"


def test_a_job_moves_to_another_node_when_its_own_is_full():
    room = on_nodes({"n1": 0, "n2": 4}, {"n1": [job("a", 2)]})
    found = plan_sizes([job("a", 2)], room, now=NOW)
    assert found.sizes == {"a": 4}
    assert found.idle == (IdleGpus("n1", 2, "at_max", ("a",)),)


def test_nothing_runs_and_nothing_waits():
    assert plan([], 3).idle == (IdleGpus("", 3, "no_jobs", ()),)


def test_a_job_is_put_into_words_only_when_somebody_asks():
    plain = plan([job("a", 2), job("b", 4)], 0)
    asked: list[str] = []

    def decide(uid: str) -> SizeDecision:
        asked.append(uid)
        return plain.decisions[uid]

    told = SizeDecisions(["a", "b"], decide)
    assert (list(told), len(told), asked) == (["a", "b"], 2, [])
    assert told["b"] is told["b"]
    assert asked == ["b"]
    assert told == plain.decisions
    assert asked == ["b", "a"]


def test_a_job_at_another_moment_knows_what_does_not_change_and_one_that_is_another_does_not():
    one = job("a", 2)
    assert one.speed(2) == VGG.at(2)
    later = one.at(5.0, 6.0, 7.0)
    assert (later.ran, later.attained, later.restart) == (5.0, 6.0, 7.0)
    assert dataclasses.replace(later, ran=one.ran, attained=one.attained, restart=one.restart) == one
    assert later.notes is one.notes
    assert dataclasses.replace(one, curve=SpeedCurve({2: 9.0})).speed(2) == 9.0
