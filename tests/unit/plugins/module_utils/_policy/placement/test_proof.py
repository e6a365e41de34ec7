# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Proofs and searches against a simple scheduler that tries everything."""

from __future__ import annotations

import hypothesis
import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import open_case
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.proof import (
    MOST_PODS,
    Budget,
    ProofOutcome,
    alike_nodes,
    arithmetic_proof,
    explore,
    find_full,
)
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod, room
from ansible_collections.muster.kube.tests.support.simple_scheduler import HOST, REQUIRED, ZONE, cases, selector
from hypothesis import strategies as st


def state_of(case):
    """The placement state of a random case."""
    return open_case(gang(*case.jobs), room(case.nodes, case.pods)).state


@hypothesis.settings(max_examples=250)
@hypothesis.given(cases(most_pods=5))
def test_exploration_and_search_agree_with_trying_everything(case):
    truth = case.scheduler().try_all()
    hypothesis.assume(truth.exhaustive)
    state = state_of(case)
    assert (explore(state) is ProofOutcome.SAFE) == (not truth.stuck)
    placement, exhaustive = find_full(state)
    assert exhaustive
    assert (placement is not None) == truth.full


@hypothesis.settings(max_examples=250)
@hypothesis.given(cases(most_pods=5))
def test_a_proof_by_arithmetic_never_overlooks_a_dead_end(case):
    state = state_of(case)
    if arithmetic_proof(state):
        truth = case.scheduler().try_all()
        hypothesis.assume(truth.exhaustive)
        assert not truth.stuck
        assert truth.full


@hypothesis.settings(max_examples=150)
@hypothesis.given(cases(), st.data())
def test_alike_nodes_can_be_swapped(case, data):
    state = state_of(case)
    kinds = alike_nodes(state)
    groups = [[n for n in kinds if kinds[n] == kind] for kind in set(kinds.values())]
    pairs = [(group[0], other) for group in groups for other in group[1:]]
    if not pairs:
        return
    one, two = data.draw(st.sampled_from(pairs))
    nodes = list(case.nodes)
    nodes[one], nodes[two] = nodes[two], nodes[one]
    swapped = open_case(gang(*case.jobs), room(nodes, case.pods)).state
    assert explore(state) is explore(swapped)
    assert (find_full(state)[0] is None) == (find_full(swapped)[0] is None)
    assert arithmetic_proof(state) == arithmetic_proof(swapped)


def zoned(*sizes):
    """Nodes of so many cpus, one to a zone."""
    return [node(f"n{i}", labels={ZONE: str(i)}, cpu=str(size)) for i, size in enumerate(sizes)]


def rules(kind, key=ZONE, app="x"):
    """Affinity or anti-affinity to an app."""
    return {kind: {REQUIRED: [{**selector(app), "topologyKey": key}]}}


def proves(nodes, *jobs, pods=()):
    """Whether counting alone suffices."""
    return arithmetic_proof(open_case(gang(*jobs), room(nodes, pods)).state)


@pytest.mark.parametrize(("count", "expected"), [(3, True), (4, False)])
def test_one_podset_is_counted_exactly(count, expected):
    assert proves(zoned(2, 1), job("j", count, requests={"cpu": "1"})) is expected


def test_rivals_are_counted_at_their_worst():
    small, large = job("s", 2, requests={"cpu": "1"}), job("l", 1, requests={"cpu": "3"})
    # Two small pods can spoil two nodes for the large one, so it needs a third.
    assert not proves(zoned(3, 3), small, large)
    assert proves(zoned(3, 3, 3), small, large)


@pytest.mark.parametrize(("count", "expected"), [(3, True), (4, False)])
def test_pods_that_repel_each_other_take_a_zone_each(count, expected):
    apart = rules("podAntiAffinity")
    assert proves(zoned(9, 9, 9), job("j", count, labels={"app": "x"}, affinity=apart)) is expected


@pytest.mark.parametrize(("count", "expected"), [(2, True), (3, False)])
def test_pods_that_must_be_together_may_pick_the_smallest_zone(count, expected):
    together = rules("podAffinity")
    wanted = job("j", count, labels={"app": "x"}, requests={"cpu": "1"}, affinity=together)
    assert proves(zoned(2, 3), wanted) is expected


@pytest.mark.parametrize(
    ("skew", "domains", "count", "expected"),
    [(1, 1, 3, True), (1, 1, 4, False), (3, 1, 5, True), (1, 3, 2, True), (1, 3, 3, False)],
)
def test_spread_pods_are_bounded_by_the_emptiest_zone(skew, domains, count, expected):
    rule = {**selector("x"), "topologyKey": ZONE, "maxSkew": skew, "minDomains": domains}
    wanted = job("j", count, labels={"app": "x"}, requests={"cpu": "1"}, topologySpreadConstraints=[rule])
    assert proves(zoned(1, 8), wanted) is expected


def test_a_spread_over_nodes_that_do_not_all_take_part_is_left_to_exploration():
    rule = {**selector("x"), "topologyKey": ZONE, "maxSkew": 1, "nodeTaintsPolicy": "Honor"}
    not_own = {**selector("y"), "topologyKey": ZONE, "maxSkew": 1}
    spec = {"labels": {"app": "x"}, "requests": {"cpu": "1"}}
    assert proves(zoned(1, 1), job("j", 2, **spec, topologySpreadConstraints=[rule]))
    other = job("o", 1, labels={"app": "y"})
    assert not proves(zoned(1, 1), job("j", 2, **spec, topologySpreadConstraints=[not_own]), other)
    two_keys = [{**rule, "maxSkew": 9}, {**rule, "topologyKey": "rack", "maxSkew": 9}]
    racked = [node("a", labels={ZONE: "0", "rack": "1"}, cpu="1"), node("b", labels={ZONE: "1"}, cpu="1")]
    assert proves(racked, job("j", 1, **spec, topologySpreadConstraints=two_keys[:1]))
    assert not proves(racked, job("j", 1, **spec, topologySpreadConstraints=two_keys))


def test_affinity_over_two_keys_is_left_to_exploration():
    terms = [{**selector("x"), "topologyKey": key} for key in (ZONE, HOST)]
    wanted = job("j", 1, labels={"app": "x"}, affinity={"podAffinity": {REQUIRED: terms}})
    assert not proves(zoned(1, 1), wanted)
    assert explore(open_case(gang(wanted), room(zoned(1, 1))).state) is ProofOutcome.SAFE


def test_an_affinity_bound_to_hold_is_no_obstacle():
    follower = job("f", 2, affinity=rules("podAffinity", app="leader"))
    leader = job("l", 1, labels={"app": "leader"})
    assert proves([node("a", labels={ZONE: "1"}), node("b", labels={ZONE: "1"})], follower, leader)
    assert not proves(zoned(1, 1), follower, leader)


@pytest.mark.parametrize("standing", [False, True])
def test_the_first_of_its_kind_is_not_free_to_start_where_others_of_the_kind_may_stand_elsewhere(standing):
    # Both match the affinity; the second may start in the other zone, and then the first finds nobody in its own.
    spec = {"labels": {"app": "x"}}
    bound = job("bound", 1, **spec, affinity=rules("podAffinity"), nodeSelector={ZONE: "0"})
    free = job("free", 1, **spec)
    present = [pod("p", on="n1", labels={"app": "x"})] if standing else []
    assert not proves(zoned(1, 1), bound, free, pods=present)
    state = open_case(gang(bound, free), room(zoned(1, 1), present)).state
    assert explore(state) is ProofOutcome.DEAD_END


def test_two_rules_at_once_are_left_to_exploration():
    both = {**rules("podAffinity", app="x"), **rules("podAntiAffinity", app="x")}
    assert not proves(zoned(2, 2), job("j", 1, labels={"app": "x"}, affinity=both))


def test_searches_that_are_too_long_say_so():
    nodes = zoned(*([2] * 6))
    wanted = [job(f"j{i}", 4, requests={"cpu": "1"}, labels={"app": f"a{i}"}) for i in range(3)]
    state = open_case(gang(*wanted), room(nodes)).state
    assert explore(state, Budget(5)) is ProofOutcome.UNKNOWN
    assert find_full(state, Budget(5)) == (None, False)
    assert find_full(state)[1]
    crowd = open_case(gang(job("j", MOST_PODS + 1)), room([node("a", pods="999")])).state
    assert explore(crowd) is ProofOutcome.UNKNOWN
    assert find_full(crowd) == (None, False)


def test_nodes_in_shared_domains_are_told_apart_by_the_domain():
    nodes = [node(f"n{i}", labels={ZONE: "a" if i < 2 else "b"}, cpu="1") for i in range(4)]
    state = open_case(gang(job("j", 1, labels={"app": "x"}, affinity=rules("podAffinity"))), room(nodes)).state
    kinds = alike_nodes(state)
    assert kinds[0] == kinds[1] != kinds[2] == kinds[3]
    alone = open_case(gang(job("j", 1, labels={"app": "x"}, affinity=rules("podAffinity", HOST))), room(nodes)).state
    assert len(set(alike_nodes(alone).values())) == 1


def test_one_large_rival_can_take_several_slots():
    # The rival has a node of its own, but may just as well take three of the four slots here.
    small = job("small", 2, requests={"cpu": "1"}, nodeSelector={ZONE: "0"})
    large = job("large", 1, requests={"cpu": "3"})
    assert not proves(zoned(4, 3), small, large)
    assert proves(zoned(5, 3), small, large)


def test_domains_that_hold_different_pods_are_not_alike():
    rule = {**selector("x"), "topologyKey": ZONE, "maxSkew": 1}
    standing = [pod("p0", on="n0", labels={"app": "x"}), pod("p1", on="n1", labels={"app": "z"})]
    wanted = job("j", 1, labels={"app": "x"}, topologySpreadConstraints=[rule])
    kinds = alike_nodes(open_case(gang(wanted), room(zoned(1, 1), standing)).state)
    assert kinds[0] != kinds[1]
    joining = [job(name, 1, labels={"app": "x"}, affinity=rules("podAffinity")) for name in ("i", "j")]
    kinds = alike_nodes(open_case(gang(*joining), room(zoned(1, 1), standing)).state)
    assert kinds[0] != kinds[1]


def test_nodes_that_count_for_a_spread_are_not_like_those_that_do_not():
    taint = [{"key": "t", "effect": "NoSchedule"}]
    nodes = [
        node("open", labels={ZONE: "0", "disk": "ssd"}),
        node("counted", labels={ZONE: "1", "disk": "ssd"}, taints=taint),
        node("ignored", labels={ZONE: "2"}, taints=taint),
    ]
    rule = {**selector("x"), "topologyKey": ZONE, "maxSkew": 1}
    spread = job("i", 1, labels={"app": "x"}, nodeSelector={"disk": "ssd"}, topologySpreadConstraints=[rule])
    other = job("j", 1, labels={"app": "x"}, tolerations=[{"operator": "Exists"}])
    state = open_case(gang(spread, other), room(nodes)).state
    assert [podset.allowed for podset in state.podsets] == [(0,), (0, 1, 2)]
    kinds = alike_nodes(state)
    assert kinds[1] != kinds[2]


def test_a_node_that_a_rival_may_take_is_not_counted_as_safe():
    def among(*names):
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(names)}]}]
        return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}

    first = job("p", 3, requests={"cpu": "1"}, affinity=among("0", "1"))
    rival = job("q", 1, requests={"cpu": "1"}, affinity=among("1", "2"))
    # The rival has more than enough, but may take the only slot that the third pod of the first can use.
    assert not proves(zoned(2, 1, 8), first, rival)
    assert proves(zoned(3, 1, 8), first, rival)
    assert proves(zoned(2, 2, 8), first, rival)


def test_podsets_that_fill_a_node_exactly_are_not_in_each_others_way():
    assert proves(zoned(3), job("one", 1, requests={"cpu": "1"}), job("two", 1, requests={"cpu": "2"}))
    assert not proves(zoned(3), job("one", 2, requests={"cpu": "1"}), job("two", 1, requests={"cpu": "2"}))


def test_a_resource_that_nobody_asks_for_on_a_node_may_be_overdrawn_there():
    gpu = "nvidia.com/gpu"
    nodes = [node("x", cpu="1", labels={ZONE: "x"}), node("y", cpu="1", labels={ZONE: "y"})]
    nodes[0]["status"]["allocatable"][gpu] = "1"
    asking = job("asking", 1, requests={"cpu": "1", gpu: "1"}, nodeSelector={ZONE: "x"})
    other = job("other", 1, requests={"cpu": "1"}, nodeSelector={ZONE: "y"})
    assert proves(nodes, asking, other, pods=[pod("p", on="y", requests={gpu: "1"})])


@pytest.mark.parametrize(("count", "expected"), [(3, True), (4, False)])
def test_nodes_without_the_label_are_no_domain_to_pods_that_repel_each_other(count, expected):
    nodes = [node("a", labels={ZONE: "1"}, cpu="9"), node("b", cpu="2")]
    wanted = job("j", count, labels={"app": "x"}, requests={"cpu": "1"}, affinity=rules("podAntiAffinity"))
    assert proves(nodes, wanted) is expected


@pytest.mark.parametrize(("count", "expected"), [(6, True), (7, False)])
def test_pods_that_stand_already_count_for_a_spread(count, expected):
    # Zone 0 holds one and takes two more, so zone 1 may get one more than three: two and four in all.
    rule = {**selector("x"), "topologyKey": ZONE, "maxSkew": 1}
    wanted = job("j", count, labels={"app": "x"}, requests={"cpu": "1"}, topologySpreadConstraints=[rule])
    assert proves(zoned(2, 8), wanted, pods=[pod("p", on="n0", labels={"app": "x"})]) is expected


def test_looks_are_spent_on_nodes_that_a_pod_may_use_and_on_nodes_in_use():
    state = open_case(gang(job("j", 1)), room(zoned(1))).state
    for search in (explore, find_full):
        budget = Budget(10)
        search(state, budget)
        assert budget.left == 8


def test_without_looks_left_nothing_is_found_out():
    state = open_case(gang(job("j", 1)), room(zoned(1))).state
    assert explore(state, Budget(0)) is ProofOutcome.UNKNOWN
    assert find_full(state, Budget(0)) == (None, False)
    assert explore(state, Budget(1)) is ProofOutcome.SAFE
    assert find_full(state, Budget(1)) == ([{0: 1}], True)


def test_three_hundred_pods_are_searched_and_one_more_is_not():
    def state(count):
        return open_case(gang(job("j", count)), room([node("a", pods="999")])).state

    assert explore(state(300)) is ProofOutcome.SAFE
    assert find_full(state(300)) == ([{0: 300}], True)
    assert explore(state(301)) is ProofOutcome.UNKNOWN
    assert find_full(state(301)) == (None, False)


def test_a_search_ends_with_the_first_placement():
    """Three nodes are looked at for each of two pods, and one node is in use after either of them."""
    nodes = [node(f"n{cpu}", cpu=str(cpu)) for cpu in (2, 3, 4)]
    budget = Budget(100)
    assert find_full(open_case(gang(job("j", 2, requests={"cpu": "1"})), room(nodes)).state, budget)[0] == [{0: 2}]
    assert budget.left == 100 - 2 * (3 + 1)
