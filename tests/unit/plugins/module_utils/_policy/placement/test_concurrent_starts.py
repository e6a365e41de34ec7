# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs of one cycle among each other."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import made_of
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import placement_fields
from ansible_collections.muster.kube.plugins.module_utils._policy.placement import concurrent_starts
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.concurrent_starts import (
    MOST_CLASSES,
    ConcurrentStarts,
    demand_class,
    label_keys,
    steered,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import judge, occupy, open_case
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod, room
from ansible_collections.muster.kube.tests.support.random_size import examples
from ansible_collections.muster.kube.tests.support.scheduler_cases import make_case
from ansible_collections.muster.kube.tests.support.simple_scheduler import Case, cases
from hypothesis import given, settings

steady = settings(max_examples=examples(150))

SMALL = {"cpu": "1"}
LARGE = {"cpu": "3"}
ALL_LABELS = frozenset({"app"})
PREFERRED = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaces": ["a"]}}


def test_the_first_gang_always_joins():
    assert ConcurrentStarts(room([node("n1", cpu="1")]), ALL_LABELS).admits(gang(job("big", 9, requests=LARGE)), {})


def test_pods_of_one_class_are_counted_exactly():
    together = ConcurrentStarts(room([node("n1", cpu="4"), node("n2", cpu="4")]), ALL_LABELS)
    together.add(gang(job("a", 5, requests=SMALL)), {})
    assert together.admits(gang(job("b", 3, requests=SMALL)), {})
    assert not together.admits(gang(job("b", 4, requests=SMALL)), {})


def test_small_pods_that_could_fill_the_hole_of_a_large_one_keep_it_waiting():
    """Alone each fits: the verdicts place two small pods on one node and the large one on the other."""
    nodes = [node("n1", cpu="3"), node("n2", cpu="3")]
    small, large = gang(job("a", 2, requests=SMALL)), gang(job("b", 1, requests=LARGE))
    assert judge(room(nodes), small).answer == judge(room(nodes), large).answer == "fits"
    together = ConcurrentStarts(room(nodes), ALL_LABELS)
    together.add(small, {})
    assert not together.admits(large, {})


def test_with_room_to_spare_nobody_waits():
    nodes = [node(f"n{number}", cpu="8") for number in range(6)]
    together = ConcurrentStarts(room(nodes), ALL_LABELS)
    together.add(gang(job("a", 2, requests=SMALL)), {})
    assert together.admits(gang(job("b", 1, requests=LARGE)), {})


def test_steering_takes_the_conflict_away():
    nodes = [node("n1", cpu="3"), node("n2", cpu="3")]
    together = ConcurrentStarts(room(nodes), ALL_LABELS)
    together.add(gang(job("a", 2, requests=SMALL)), {"a": ["n1"]})
    assert together.admits(gang(job("b", 1, requests=LARGE)), {"b": ["n2"]})


def test_a_steered_gang_is_confined_and_the_original_is_left_alone():
    original = gang(job("a", 2, requests=SMALL))
    confined = steered(original, {"a": ["n2"]})
    state = open_case(confined, room([node("n1", cpu="3"), node("n2", cpu="3")])).state
    assert list(state.podsets[0].allowed) == [1]
    assert "affinity" not in original.podsets[0].template["spec"]


def apart(app):
    """Pods that repel those of an app on the same host."""
    rule = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}}


def test_rules_about_neighbors_are_read_in_the_namespace_they_belong_to():
    """Two pods keep apart where the rule speaks of both; in another namespace it speaks of nobody."""
    shy = gang(job("a", 1, requests=SMALL, labels={"app": "x"}, **apart("x")), namespace="one")
    lone = ConcurrentStarts(room([node("n1", cpu="9")]), ALL_LABELS)
    lone.add(shy, {})
    same = job("b", 1, requests=SMALL, labels={"app": "x"})
    assert not lone.admits(gang(same, namespace="one"), {})
    assert lone.admits(gang(same, namespace="two"), {})


def many_sizes(together, count):
    """Agree to pods of so many different sizes."""
    for number in range(count):
        together.add(gang(job("a", 1, requests={"cpu": f"{number + 1}m"})), {})


def test_many_kinds_of_pods_join_where_there_is_room_to_spare():
    together = ConcurrentStarts(room([node(f"n{number}", cpu="900", pods="1000") for number in range(9)]), ALL_LABELS)
    many_sizes(together, 3 * MOST_CLASSES)
    assert together.admits(gang(job("b", 1, requests={"cpu": "500m"})), {})


def test_more_kinds_of_pods_than_are_worth_searching_wait_where_it_is_tight():
    together = ConcurrentStarts(room([node("n1", cpu="2"), node("n2", cpu="2")]), ALL_LABELS)
    many_sizes(together, MOST_CLASSES + 1)
    assert not together.admits(gang(job("b", 1, requests={"cpu": "1"})), {})


def test_more_kinds_of_pods_than_are_worth_counting_wait_for_the_next_cycle(monkeypatch):
    monkeypatch.setattr(concurrent_starts, "MOST_COUNTED", 5)
    together = ConcurrentStarts(room([node("n1", cpu="900")]), ALL_LABELS)
    many_sizes(together, 6)
    assert not together.admits(gang(job("b", 1, requests={"cpu": "500m"})), {})


def pool(name):
    """Pods for the nodes of one pool."""
    return {"nodeSelector": {"pool": name}}


def test_pods_that_never_meet_do_not_matter_to_each_other():
    nodes = [node(f"n{name}", cpu="3", labels={"pool": name}) for name in "abc"]
    together = ConcurrentStarts(room(nodes), ALL_LABELS)
    for number in range(MOST_CLASSES + 1):
        together.add(gang(job("a", 1, requests={"cpu": f"{number + 50}m"}, **pool("a"))), {})
    assert not together.admits(gang(job("b", 1, requests=LARGE, **pool("a"))), {})
    assert together.admits(gang(job("b", 1, requests=LARGE, **pool("b"))), {})


def test_pods_that_meet_through_others_do_matter():
    """The pod that may use both nodes finds a place beside either of the others, but not beside both."""
    nodes = [node("n1", cpu="3", labels={"pool": "a"}), node("n2", cpu="3", labels={"pool": "b"})]
    together = ConcurrentStarts(room(nodes), ALL_LABELS)
    together.add(gang(job("one", 1, requests=LARGE, **pool("a"))), {})
    together.add(gang(job("either", 1, requests=LARGE)), {})
    assert not together.admits(gang(job("two", 1, requests=LARGE, **pool("b"))), {})


def test_nodes_without_room_for_a_pod_are_no_place_to_meet():
    nodes = [node("n1", cpu="1"), node("n2", cpu="3")]
    together = ConcurrentStarts(room(nodes, [pod("p", on="n2", requests=LARGE)]), ALL_LABELS)
    assert together.nodes(gang(job("a", 1, requests=SMALL)), {}) == {0}
    assert together.nodes(gang(job("a", 1, requests=LARGE)), {}) == frozenset()


def test_pods_that_repel_others_matter_in_all_their_domains():
    nodes = [node(f"n{number}", cpu="3", labels={"zone": zone}) for number, zone in enumerate("aab")]
    rule = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    shy = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}}
    here = {"nodeSelector": {"kubernetes.io/hostname": "n0"}}
    together = ConcurrentStarts(room(nodes), ALL_LABELS)
    assert together.nodes(gang(job("a", 1, requests=SMALL, **shy, **here)), {}) == {0, 1}


def test_gangs_without_pods_join_whatever_was_agreed():
    together = ConcurrentStarts(room([node("n1", cpu="1")]), None)
    together.add(gang(job("a", 9, requests=LARGE)), {})
    assert together.admits(Gang("podless", "default", ()), {})


def test_without_sight_of_nodes_gangs_start_one_after_the_other():
    together = ConcurrentStarts(room([], nodes_visible=False), None)
    assert together.admits(gang(job("a", 1, requests=SMALL)), {})
    together.add(gang(job("a", 1, requests=SMALL)), {})
    assert not together.admits(gang(job("b", 1, requests=SMALL)), {})


@steady
@given(cases(most_nodes=4, most_podsets=3, most_pods=6))
def test_what_was_admitted_is_placed_in_whatever_order(case):
    """Every podset of a case is a gang of its own; a simple scheduler plays what was agreed at random."""
    gangs = [gang(item, name=item["metadata"]["name"]) for item in case.jobs]
    taken, base = room(case.nodes, case.pods), room(case.nodes, case.pods)
    together = ConcurrentStarts(base, label_keys(base.snapshot, gangs))
    agreed, steering = [], {}
    for item, one in zip(case.jobs, gangs, strict=True):
        verdict = judge(taken, one)
        if verdict.answer == "fits" and together.admits(one, verdict.steering):
            together.add(one, verdict.steering)
            occupy(taken, one, verdict)
            agreed.append(item)
            steering.update(verdict.steering)
    scheduler = Case(case.nodes, case.pods, agreed).scheduler(steering)
    rng = random.Random(len(agreed))
    assert all(scheduler.play_once(rng) for _turn in range(10)), steering


def reduced(one):
    """The gang with only what decides where its pods may go."""
    podsets = []
    for podset in one.podsets:
        template = {"metadata": podset.template["metadata"], "spec": placement_fields(podset.template)}
        podsets.append(dataclasses.replace(podset, template=json.loads(json.dumps(template))))
    return dataclasses.replace(one, podsets=tuple(podsets))


@pytest.mark.parametrize("crowded", [False, True])
def test_verdicts_need_no_more_of_a_template_than_its_placement_fields(crowded):
    for index in range(150):
        case = make_case(7, index, "default", crowded=crowded)
        one = gang(*case.jobs)
        assert judge(room(case.nodes, case.pods), reduced(one)) == judge(room(case.nodes, case.pods), one)


@steady
@given(cases())
def test_rules_of_all_sorts_are_among_the_placement_fields(case):
    one = gang(*case.jobs)
    assert judge(room(case.nodes, case.pods), reduced(one)) == judge(room(case.nodes, case.pods), one)


def alike(one, other, keys=None):
    return demand_class(one, keys) == demand_class(other, keys)


def container(name="main", **changes):
    """A list of one container."""
    return [{"name": name, "image": "none", "resources": {"requests": SMALL}, **changes}]


def test_gangs_are_alike_whatever_they_are_called():
    one = gang(job("a", 2, requests=SMALL), name="x")
    assert alike(one, gang(job("b", 2, requests=SMALL), name="y"))
    assert not alike(one, gang(job("a", 3, requests=SMALL)))
    assert not alike(one, gang(job("a", 2, requests=LARGE)))
    assert not alike(one, gang(job("a", 2, requests=SMALL), namespace="elsewhere"))
    assert alike(Gang("empty", "default", ()), Gang("other", "default", ()))


@pytest.mark.parametrize(
    "changes",
    [
        {"containers": container("other")},
        {"containers": container(image="another", args=["--seed", "7"], command=["run"])},
        {"containers": container(env=[{"name": "SEED", "value": "7"}], ports=[{"containerPort": 80}])},
        {"containers": container(), "volumes": [{"name": "v", "emptyDir": {}}], "serviceAccountName": "me"},
        {"containers": container(), "terminationGracePeriodSeconds": 5, "schedulerName": "default-scheduler"},
    ],
)
def test_gangs_are_alike_whatever_they_run(changes):
    assert alike(gang(job("a", 2, containers=container())), gang(job("a", 2, **changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"nodeName": "n1"},
        pool("a"),
        apart("x"),
        {"tolerations": [{"key": "t", "operator": "Exists"}]},
        {"priorityClassName": "high"},
        {"schedulerName": "another"},
        {"activeDeadlineSeconds": 5},
        {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERRED]}}},
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "a"}}}}]},
        {"initContainers": [{"name": "i", "image": "none", "restartPolicy": "Always"}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"containers": container(ports=[{"containerPort": 80, "hostPort": 80}])},
        {"containers": container(resources={"requests": SMALL, "limits": {"cpu": "2"}})},
        {"containers": [*container(), {"name": "second", "image": "none"}]},
    ],
)
def test_what_a_verdict_depends_on_tells_gangs_apart(changes):
    one = gang(job("a", 2, containers=container()))
    assert not alike(one, gang(job("a", 2, **{"containers": container(), **changes})))


def test_objects_that_a_gang_makes_tell_it_apart():
    one = gang(job("a", 1, requests=SMALL))
    secret, service = ({"apiVersion": "v1", "kind": kind} for kind in ("Secret", "Service"))
    made = [dataclasses.replace(one, made=made_of(objects)) for objects in ([], [secret], [secret] * 2, [service])]
    assert [[alike(item, other) for other in made] for item in made] == [[i == j for j in range(4)] for i in range(4)]
    kept = {**secret, "metadata": {"annotations": {"keep": "true"}}}
    marked = dataclasses.replace(one, made=made_of([kept], "keep"))
    assert not alike(made[1], marked)


def test_claims_that_a_gang_makes_itself_tell_it_apart():
    one = gang(job("a", 1, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]))
    assert not alike(one, dataclasses.replace(one, own_claims=frozenset({"c"})))
    assert alike(one, dataclasses.replace(one, own_claims=frozenset({"unused"})))


def test_labels_tell_pods_apart_where_somebody_looks_at_them():
    one, other = (gang(job("a", 2, requests=SMALL, labels={"app": app, "run": app})) for app in "xy")
    assert alike(one, other)
    assert alike(one, other, frozenset({"team"}))
    assert not alike(one, other, ALL_LABELS)


def test_labels_matter_when_pods_have_rules_about_each_other():
    shy = apart("x")
    empty = room([node("n1", cpu="4")])
    plain = gang(job("a", 2, requests=SMALL))
    assert label_keys(empty.snapshot, [plain]) is None
    assert label_keys(empty.snapshot, [plain, gang(job("b", 1, requests=SMALL, **shy))]) == {"app"}
    assert label_keys(room([node("n1", cpu="4")], [pod("p", on="n1", **shy)]).snapshot, [plain]) == {"app"}
    assert label_keys(room([node("n1", cpu="4")], [pod("waits", **shy)]).snapshot, [plain]) == {"app"}


@pytest.mark.parametrize(("agreed", "searched"), [(23, True), (24, False)])
def test_up_to_twenty_four_kinds_of_pods_are_searched_for_an_order_that_fails(agreed, searched, monkeypatch):
    monkeypatch.setattr(concurrent_starts, "order_free", lambda state, budget: True)
    together = ConcurrentStarts(room([node("n1", cpu="1")]), ALL_LABELS)
    many_sizes(together, agreed)
    assert together.admits(gang(job("b", 1, requests={"cpu": "900m"})), {}) is searched


@pytest.mark.parametrize(("agreed", "counted"), [(4, True), (5, False)])
def test_kinds_of_pods_are_counted_up_to_their_limit(agreed, counted, monkeypatch):
    assert concurrent_starts.MOST_COUNTED == 400
    monkeypatch.setattr(concurrent_starts, "MOST_COUNTED", 5)
    together = ConcurrentStarts(room([node("n1", cpu="900")]), ALL_LABELS)
    many_sizes(together, agreed)
    assert together.admits(gang(job("b", 1, requests={"cpu": "500m"})), {}) is counted


@pytest.mark.parametrize(("nodes", "asked"), [(3, False), (2, True)])
def test_room_to_spare_is_counted_exactly_before_any_search(nodes, asked, monkeypatch):
    """Two small pods may each spoil one of the large pod's places, so that it needs a third."""
    searches = []
    monkeypatch.setattr(concurrent_starts, "order_free", lambda state, budget: searches.append(state) or True)
    together = ConcurrentStarts(room([node(f"n{i}", cpu="3") for i in range(nodes)]), ALL_LABELS)
    together.add(gang(job("a", 1, requests=SMALL)), {})
    together.add(gang(job("b", 1, requests=SMALL)), {})
    assert together.admits(gang(job("large", 1, requests=LARGE)), {})
    assert bool(searches) is asked


def test_a_search_knows_how_many_pods_of_each_kind_there_are(monkeypatch):
    searches = []
    monkeypatch.setattr(concurrent_starts, "order_free", lambda state, budget: searches.append(state) or True)
    together = ConcurrentStarts(room([node("n1", cpu="6")]), ALL_LABELS)
    together.add(gang(job("a", 2, requests=SMALL)), {})
    together.add(gang(job("b", 1, requests=LARGE)), {})
    assert together.admits(gang(job("c", 3, requests=SMALL)), {})
    (state,) = searches
    assert sorted((podset.count, podset.cost[0]) for podset in state.podsets) == [(1, 3000), (5, 1000)]


def test_an_overdrawn_node_has_no_slots_rather_than_less_than_none():
    busy = pod("busy", on="n1", requests={"cpu": "9"})
    together = ConcurrentStarts(room([node("n1", cpu="3"), node("n2", cpu="3")], [busy]), ALL_LABELS)
    together.add(gang(job("a", 1, requests=SMALL)), {})
    assert together.admits(gang(job("b", 2, requests=SMALL)), {})
    assert not together.admits(gang(job("b", 3, requests=SMALL)), {})
