# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counting: whose pods these are, what a started gang lacks, and the room that is kept for it."""

from __future__ import annotations

import dataclasses

import hypothesis
import hypothesis.strategies as st
import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets, infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import (
    Outstanding,
    expected_counts,
    index_pods,
    outstanding_of,
    place_outstanding,
    pods_by_podset,
    pods_of_gang,
    raised,
    started_moment,
    wanted_now,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import judge
from ansible_collections.muster.kube.tests.support.cluster_model import job, node, room
from ansible_collections.muster.kube.tests.support.gang_model import (
    RECORD,
    T0,
    deployment,
    ended,
    gang_pod,
    live,
    raw_pod,
    ray_cluster,
    ray_job,
    spec_of,
    started,
)

CPU = {"cpu": "1"}
THING = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def podsets_of(spec):
    """The podsets of a gang as its dispatcher sees them."""
    if spec.podsets is not None:
        return tuple(declared_podsets(spec.podsets, namespace="default"))
    return tuple(infer_podsets(spec.objects, namespace="default"))


def lacking(spec, items, pods=(), *, state=None, now=T0 + 10):
    """What a started gang of this specification lacks."""
    gang = Gang("default/g", "default", podsets_of(spec))
    state = state or started()
    return outstanding_of(gang, spec, state, list(pods), items, now=now, start_timeout=300)


def free_cpu(space):
    """Milli-CPUs left per node."""
    return [free["cpu"] for free in space.free]


def in_room(nodes, raws, *outstanding):
    """Room after these pods, and those still to come, have their place."""
    space = room(nodes, raws)
    return space, place_outstanding(space, outstanding)


# Whose pods.


def test_equal_gangs_of_two_namespaces_never_share_pods():
    here, there = gang_pod(namespace="default"), gang_pod(namespace="other")
    index = index_pods([here, there])
    assert pods_of_gang(RECORD, "default", [], index) == [here]
    assert pods_of_gang(RECORD, "other", [], index) == [there]
    assert pods_of_gang(RECORD, "third", [], index) == []


def test_a_label_wins_over_an_owner():
    stranger = gang_pod(gang="record-2", owners=["job-1"])
    assert pods_of_gang(RECORD, "default", ["job-1"], index_pods([stranger])) == []


def test_pods_without_label_are_found_through_their_owners():
    pod = gang_pod(None, gang=None, owners=["job-1"])
    parents = {"job-1": ("rayjob-1",), "rayjob-1": ("job-1",)}
    index = index_pods([pod], parents)
    assert [item.name for item in pods_of_gang(RECORD, "default", ["rayjob-1"], index)] == [pod.name]
    assert pods_of_gang(RECORD, "default", ["rayjob-1"], index_pods([pod])) == []
    assert pods_of_gang(RECORD, "other", ["rayjob-1"], index) == []


def test_pods_of_an_earlier_attempt_satisfy_nobody():
    old, new = gang_pod(created=T0 - 100), gang_pod(created=T0)
    numbered = gang_pod(attempt=1, created=T0)
    index = index_pods([old, new, numbered])
    since = started_moment(started())
    assert since == T0 - 1
    assert pods_of_gang(RECORD, "default", [], index, attempt=2, since=since) == [new]
    assert pods_of_gang(RECORD, "default", [], index, attempt=1, since=since) == [new, numbered]


def test_a_state_that_forgot_its_start_tells_no_moment():
    forgetful = dataclasses.replace(started(), transitions=())
    assert started_moment(forgetful) == T0
    assert started_moment(dataclasses.replace(forgetful, started_at=None)) is None


# Which podset.


def test_pods_are_sorted_by_label_and_the_submitter_by_its_owner():
    spec = spec_of(ray_job())
    items = {0: live(ray_job(), uid="rayjob-1")}
    submitter = gang_pod(None, gang=None, owners=["job-1", "rayjob-1"])
    pods = [gang_pod("ray/head"), gang_pod("ray/small"), submitter]
    found = pods_by_podset(podsets_of(spec), pods, items)
    assert {name: len(mine) for name, mine in found.items()} == {"ray/head": 1, "ray/small": 1, "ray/submitter": 1}


def test_pods_with_no_podset_go_where_they_are_missing_and_alike():
    spec = spec_of(
        THING,
        podsets=[{"name": "big", "count": 1, "requests": {"cpu": "2"}}, {"name": "small", "count": 2, "requests": CPU}],
    )
    pods = [gang_pod(None, cpu="2"), gang_pod(None), gang_pod(None)]
    found = pods_by_podset(podsets_of(spec), pods, {})
    assert [[pod.requests["cpu"] for pod in mine] for mine in found.values()] == [[2000], [1000, 1000]]


# How many.


def test_objects_that_were_not_read_want_all_and_those_that_are_gone_nothing():
    spec = spec_of(job("a", 2), job("b", 3))
    assert expected_counts(podsets_of(spec), spec, {}) == {"a": 2, "b": 3}
    assert expected_counts(podsets_of(spec), spec, {0: None, 1: live(job("b", 3))}) == {"a": 0, "b": 3}


def test_equal_names_in_one_gang_are_kept_apart():
    spec = spec_of(job("a", 2), deployment("a", 3))
    items = {0: live(job("a", 2), status=ended("Complete")), 1: live(deployment("a", 3))}
    assert expected_counts(podsets_of(spec), spec, items) == {"a": 0, "a-2": 3}


@pytest.mark.parametrize("names", [("a", "b"), ("first", "second")])
def test_declared_podsets_are_matched_by_name_or_order(names):
    declared = [{"name": name, "count": 2, "requests": CPU} for name in names]
    spec = spec_of(job("a", 2), job("b", 2), podsets=declared)
    items = {0: live(job("a", 2), status={"succeeded": 1}), 1: live(job("b", 2), status=ended("Complete"))}
    assert list(expected_counts(podsets_of(spec), spec, items).values()) == [1, 0]


def test_a_declaration_nothing_matches_counts_until_all_is_over():
    spec = spec_of(
        job("a", 2), podsets=[{"name": "x", "count": 1, "requests": CPU}, {"name": "y", "count": 1, "requests": CPU}]
    )
    assert expected_counts(podsets_of(spec), spec, {0: live(job("a", 2))}) == {"x": 1, "y": 1}
    assert expected_counts(podsets_of(spec), spec, {0: live(job("a", 2), status=ended("Failed"))}) == {"x": 0, "y": 0}


def test_an_unknown_kind_wants_what_was_declared_until_it_goes():
    spec = spec_of(THING, podsets=[{"name": "x", "count": 3, "requests": CPU}])
    thing = {**THING, "metadata": {"name": "t", "uid": "u"}}
    going = {**THING, "metadata": {"name": "t", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert expected_counts(podsets_of(spec), spec, {0: thing}) == {"x": 3}
    assert expected_counts(podsets_of(spec), spec, {}) == {"x": 3}
    assert expected_counts(podsets_of(spec), spec, {0: going}) == {"x": 0}
    assert expected_counts(podsets_of(spec), spec, {0: None}) == {"x": 0}


def test_a_live_object_that_makes_no_sense_wants_what_it_wanted():
    spec = spec_of(job("a", 2))
    broken = live(job("a", 2), template={"spec": {"containers": []}})
    assert wanted_now(podsets_of(spec), spec, {0: broken})["a"].now == 2


# Outstanding.


def test_what_lives_is_not_outstanding():
    spec = spec_of(job("work", 3, requests=CPU))
    items = {0: live(job("work", 3, requests=CPU))}
    assert lacking(spec, items).counts == {"work": 3}
    assert lacking(spec, items, [gang_pod(), gang_pod()]).counts == {"work": 1}
    assert lacking(spec, items, [gang_pod()] * 3).counts == {}
    assert lacking(spec, items, [gang_pod()] * 5).counts == {}


@pytest.mark.parametrize("phase", ["dispatched", "running"])
def test_pods_that_live_without_a_node_are_outstanding_and_exist(phase):
    spec = spec_of(job("work", 3, requests=CPU))
    items = {0: live(job("work", 3, requests=CPU))}
    waiting = [gang_pod(on=None, phase="Pending") for _turn in range(4)]
    found = lacking(spec, items, [gang_pod(), waiting[0]], state=started(phase))
    assert (found.counts, found.existing) == ({"work": 2}, {"work": 1})
    assert found.waiting == {("default", waiting[0].name)}
    late = lacking(spec, items, [gang_pod(), waiting[0]], state=started("running"), now=T0 + 10**6)
    assert (late.counts, late.existing) == ({"work": 1}, {"work": 1})
    more = lacking(spec, items, waiting, state=started(phase))
    assert (more.counts, more.existing) == ({"work": 4}, {"work": 4})


def test_a_pod_that_was_promised_a_node_by_the_scheduler_has_its_place():
    spec = spec_of(job("work", 1, requests=CPU))
    raw = raw_pod(on=None, phase="Pending")
    raw["status"]["nominatedNodeName"] = "a"
    assert lacking(spec, {}, [gang_pod_from_api(raw)]).counts == {}


def test_pods_without_a_node_count_as_large_as_they_are():
    spec = spec_of(THING, podsets=[{"name": "x", "count": 2, "requests": {"cpu": "1", "memory": "1Gi"}}])
    raw = raw_pod("x", on=None, phase="Pending", cpu="3")
    raw["spec"]["nodeSelector"] = {"pool": "own"}
    found = lacking(spec, {}, [gang_pod_from_api(raw)])
    (podset,) = found.gang.podsets
    assert (found.counts, podset.requests["cpu"], podset.requests["memory"]) == ({"x": 2}, 3000, 2**30)
    assert podset.template["spec"]["nodeSelector"] == {"pool": "own"}


@pytest.mark.parametrize("phase", ["queued", "undoing", "suspended", "complete", "failed", "evicting"])
def test_gangs_that_are_not_started_lack_nothing(phase):
    spec = spec_of(job("work", 3))
    assert lacking(spec, {}, state=started(phase)).counts == {}


def test_a_gang_being_started_is_reserved_whole_less_what_is_bound():
    spec = spec_of(job("work", 3))
    state = started("dispatching", steering={"work": ("a",)})
    found = lacking(spec, {}, [], state=state)
    assert (found.counts, found.steering) == ({"work": 3}, {"work": ("a",)})
    found = lacking(spec, {}, [gang_pod(), gang_pod(on=None, phase="Pending")], state=state)
    assert (found.counts, found.existing) == ({"work": 2}, {"work": 1})
    assert lacking(spec, {}, [gang_pod()] * 3, state=state).counts == {}
    assert lacking(spec, {}, [gang_pod(phase="Succeeded")], state=state).counts == {"work": 3}


def test_b1_the_pods_of_a_ray_cluster_are_counted_once():
    cluster = ray_cluster(replicas=2, cpu="1")
    spec = spec_of(cluster)
    items = {0: live(cluster)}
    raws = [raw_pod("ray/head"), raw_pod("ray/small")]
    pods = [gang_pod_from_api(raw) for raw in raws]
    found = lacking(spec, items, pods)
    assert found.counts == {"ray/small": 1}
    space, unplaced = in_room([node("a", cpu="12", memory="8Gi")], raws, found)
    assert (free_cpu(space), unplaced) == ([9000], 0)
    both = [*raws, raw_pod("ray/small")]
    settled, unplaced = in_room(
        [node("a", cpu="12", memory="8Gi")], both, lacking(spec, items, [gang_pod_from_api(raw) for raw in both])
    )
    assert (free_cpu(settled), unplaced) == ([9000], 0)


def test_a_job_in_back_off_keeps_its_room_for_a_while():
    spec = spec_of(job("work", 1, requests=CPU))
    items = {0: live(job("work", 1, requests=CPU), status={"failed": 1})}
    failed = [gang_pod(phase="Failed", finished=T0 + 1000, code=1)]
    state = started("running")
    assert lacking(spec, items, failed, state=state, now=T0 + 1299).counts == {"work": 1}
    assert lacking(spec, items, failed, state=state, now=T0 + 1300).counts == {}
    assert lacking(spec, items, failed, state=started(), now=T0 + 1300).counts == {"work": 1}


def test_a_preempted_pod_occupies_its_node_until_it_goes_and_is_reserved_again():
    spec = spec_of(job("work", 1, requests=CPU))
    items = {0: live(job("work", 1, requests=CPU))}
    raw = raw_pod(deleted=T0 + 5)
    found = lacking(spec, items, [gang_pod_from_api(raw)], state=started("running"))
    assert found.counts == {"work": 1}
    space, unplaced = in_room([node("a", cpu="3")], [raw], found)
    assert (free_cpu(space), unplaced) == ([1000], 0)


def test_a_cluster_that_scaled_down_frees_room():
    spec = spec_of(ray_cluster(replicas=4, cpu="1"))
    small = {0: live(ray_cluster(replicas=1, cpu="1"))}
    raws = [raw_pod("ray/head"), raw_pod("ray/small")]
    found = lacking(spec, small, [gang_pod_from_api(raw) for raw in raws])
    space, _unplaced = in_room([node("a", cpu="8", memory="8Gi")], raws, found)
    assert (found.counts, free_cpu(space)) == ({}, [6000])


def test_the_submitter_of_a_ray_job_has_its_room_until_it_comes():
    spec = spec_of(ray_job(replicas=1))
    items = {0: live(ray_job(replicas=1), uid="rayjob-1")}
    cluster = [gang_pod("ray/head"), gang_pod("ray/small")]
    late = started("running")
    assert lacking(spec, items, cluster, state=late, now=T0 + 9999).counts == {"ray/submitter": 1}
    submitter = gang_pod(None, gang=None, owners=["job-1", "rayjob-1"])
    assert lacking(spec, items, [*cluster, submitter], state=late).counts == {}


def test_a_finished_job_lacks_nothing():
    spec = spec_of(job("work", 3))
    items = {0: live(job("work", 3), status=ended("Complete"))}
    assert lacking(spec, items, [gang_pod(phase="Succeeded")] * 3).counts == {}


# Room.


def outstanding(obj, steering=None, counts=None):
    """Pods of one object still to come."""
    gang = Gang("default/g", "default", podsets_of(spec_of(obj)))
    return Outstanding(gang, counts or {item.name: item.count for item in gang.podsets}, steering or {})


def test_nodes_that_are_not_ready_take_no_one():
    nodes = [node("a", cpu="8", taints=[NOT_READY]), node("b", cpu="2")]
    space, unplaced = in_room(nodes, [], outstanding(job("work", 3, requests=CPU)))
    assert (free_cpu(space), unplaced) == ([8000, 0], 1)


def test_steering_is_honored():
    nodes = [node("a", cpu="8"), node("b", cpu="2"), node("c", cpu="2")]
    found = outstanding(job("work", 3, requests=CPU), {"work": ("b", "c")})
    space, unplaced = in_room(nodes, [], found)
    assert (free_cpu(space)[0], sum(free_cpu(space)[1:]), unplaced) == (8000, 1000, 0)


def test_what_finds_no_place_is_told_and_the_rest_is_kept():
    space, unplaced = in_room([node("a", cpu="2")], [], outstanding(job("work", 5, requests=CPU)))
    assert (free_cpu(space), unplaced) == ([0], 3)


def test_a_gang_is_placed_whole_where_greed_would_fail():
    spec = spec_of(job("small", 1, requests={"cpu": "1"}), job("big", 1, requests={"cpu": "3"}))
    space, unplaced = in_room([node("a", cpu="3"), node("b", cpu="1")], [], lacking(spec, {}, []))
    assert (free_cpu(space), unplaced) == ([0, 0], 0)


def test_only_the_podsets_that_lack_pods_take_room():
    gang = Gang("g", "default", podsets_of(spec_of(job("one", 2, requests=CPU), job("two", 2, requests=CPU))))
    space, unplaced = in_room([node("a", cpu="8")], [], Outstanding(gang, {"two": 1}))
    assert (free_cpu(space), unplaced) == ([7000], 0)


def test_what_is_reserved_is_not_given_twice():
    space, _unplaced = in_room([node("a", cpu="3")], [], outstanding(job("first", 2, requests=CPU)))
    second = Gang("default/h", "default", podsets_of(spec_of(job("second", 2, requests=CPU))))
    assert judge(space, second).answer == "waits"
    assert judge(room([node("a", cpu="3")]), second).answer == "fits"


def test_promised_pods_are_named_after_their_gang():
    space, _unplaced = in_room([node("a", cpu="3")], [], outstanding(job("work", 2, requests=CPU)))
    names = [pod.name for pod in space.pods_on[0]]
    assert len(set(names)) == 2
    assert all(name.startswith("default/g/work/") for name in names)


# Demand.


def test_demand_is_the_larger_of_declared_and_seen():
    declared = declared_podsets(
        [{"name": "x", "count": 2, "requests": {"cpu": "1", "memory": "1Gi"}}], namespace="default"
    )
    seen = [{"name": "x", "count": 3, "requests": {"cpu": "1500m", "memory": "1Mi", "nvidia.com/gpu": "1"}}]
    (found,) = raised(declared, seen)
    assert found.count == 3
    assert found.requests == {"cpu": 1500, "memory": 2**30, "nvidia.com/gpu": 1, "pods": 1}
    assert raised(declared, [{"name": "y", "count": 9, "requests": {}}]) == tuple(declared)


def test_nonsense_in_an_edited_state_counts_nothing():
    declared = declared_podsets([{"name": "x", "count": 2, "requests": CPU}], namespace="default")
    assert raised(declared, [{"name": "x", "count": 1, "requests": {"cpu": "lots"}}]) == tuple(declared)


PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])


@hypothesis.given(
    size=st.integers(0, 6), succeeded=st.integers(0, 6), pods=st.lists(st.tuples(PHASES, st.booleans()), max_size=8)
)
def test_room_and_pods_together_never_exceed_what_is_wanted_or_lives(size, succeeded, pods):
    """Live pods and reservations add up to what the object wants, or to what lives if that is more."""
    obj = job("work", size, requests=CPU)
    spec = spec_of(obj)
    made = [
        gang_pod(phase=phase, on=None if phase == "Pending" else "a", deleted=T0 if going else None)
        for phase, going in pods
    ]
    items = {0: live(obj, status={"succeeded": succeeded})}
    found = lacking(spec, items, made)
    bound = sum(phase == "Running" and not going for phase, going in pods)
    unbound = sum(phase == "Pending" and not going for phase, going in pods)
    wanted = min(size, max(0, size - succeeded))
    assert sum(found.counts.values()) + bound == max(bound + unbound, wanted)
    assert sum(found.existing.values()) == unbound


def test_templates_of_steered_podsets_stay_as_they_were():
    obj = job("work", 1, requests=CPU)
    found = outstanding(obj, {"work": ("a",)})
    in_room([node("a", cpu="2")], [], found)
    assert "affinity" not in found.gang.podsets[0].template["spec"]


# Which attempt, and which podset of several that are alike.


@pytest.mark.parametrize(("age", "counts"), [(5, True), (6, False)])
def test_clocks_of_servers_differ_by_five_seconds_at_most(age, counts):
    index = index_pods([gang_pod(created=T0 - age)])
    assert len(pods_of_gang(RECORD, "default", [], index, attempt=2, since=T0)) == counts


def test_without_a_number_on_either_side_the_age_decides():
    numbered = gang_pod(attempt=7, created=T0)
    index = index_pods([numbered])
    assert pods_of_gang(RECORD, "default", [], index, since=T0) == [numbered]
    assert pods_of_gang(RECORD, "default", [], index, since=T0 + 60) == []
    assert pods_of_gang(RECORD, "default", [], index) == [numbered]


def test_pods_fill_one_of_two_equal_podsets_after_the_other():
    declared = [{"name": name, "count": 1, "requests": CPU} for name in ("x", "y")]
    found = pods_by_podset(podsets_of(spec_of(THING, podsets=declared)), [gang_pod(None), gang_pod(None)], {})
    assert {name: len(mine) for name, mine in found.items()} == {"x": 1, "y": 1}


def test_a_finished_pod_leaves_its_podset_short():
    declared = [{"name": name, "count": 1, "requests": CPU} for name in ("x", "y")]
    pods = [gang_pod("x", phase="Succeeded"), gang_pod(None)]
    found = pods_by_podset(podsets_of(spec_of(THING, podsets=declared)), pods, {})
    assert {name: len(mine) for name, mine in found.items()} == {"x": 2, "y": 0}


def test_labels_of_the_template_tell_pods_apart_before_their_size_does():
    spec = spec_of(*(job(name, 1, labels={"app": name}, requests=CPU) for name in ("a", "b")))
    labels = {"app": "b", "job-name": "b", "batch.kubernetes.io/job-name": "b"}
    found = pods_by_podset(podsets_of(spec), [gang_pod(None, labels=labels, cpu="3")], {})
    assert {name: len(mine) for name, mine in found.items()} == {"a": 0, "b": 1}


def test_pods_of_an_object_go_to_its_podsets_or_to_declared_ones():
    spec = spec_of(job("a", 1, requests=CPU), job("b", 1, requests=CPU))
    items = {0: live(job("a", 1), uid="job-a"), 1: live(job("b", 1), uid="job-b")}
    found = pods_by_podset(podsets_of(spec), [gang_pod(None, owners=["job-b"])], items)
    assert {name: len(mine) for name, mine in found.items()} == {"a": 0, "b": 1}
    declared = podsets_of(spec_of(THING, podsets=[{"name": "x", "count": 1, "requests": CPU}]))
    thing = {**THING, "metadata": {"name": "t", "uid": "thing"}}
    found = pods_by_podset(declared, [gang_pod(None, owners=["thing"])], {0: thing})
    assert {name: len(mine) for name, mine in found.items()} == {"x": 1}


def test_a_declaration_counts_until_known_and_unknown_objects_are_over():
    declared = [{"name": name, "count": 1, "requests": CPU} for name in ("x", "y")]
    spec = spec_of(job("a", 2), THING, podsets=declared)
    over, there = live(job("a", 2), status=ended("Complete")), live(job("a", 2))
    thing = {**THING, "metadata": {"name": "t", "uid": "u"}}
    assert expected_counts(podsets_of(spec), spec, {0: over, 1: thing}) == {"x": 1, "y": 1}
    assert expected_counts(podsets_of(spec), spec, {0: there, 1: None}) == {"x": 1, "y": 1}
    assert expected_counts(podsets_of(spec), spec, {0: over, 1: None}) == {"x": 0, "y": 0}


def test_the_gap_of_a_running_gang_counts_from_the_later_of_its_last_change_and_its_last_pod():
    spec = spec_of(job("work", 1, requests=CPU))
    items = {0: live(job("work", 1, requests=CPU))}
    state = started("running", at=T0 + 500)
    earlier = [gang_pod(phase="Failed", finished=T0 + 100, code=1)]
    assert lacking(spec, items, earlier, state=state, now=T0 + 799).counts == {"work": 1}
    assert lacking(spec, items, earlier, state=state, now=T0 + 800).counts == {}
    several = [gang_pod(phase="Failed", finished=T0 + at, code=1) for at in (700, 600)]
    assert lacking(spec, items, several, state=state, now=T0 + 999).counts == {"work": 1}
    assert lacking(spec, items, several, state=state, now=T0 + 1000).counts == {}
