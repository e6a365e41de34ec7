# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Advice: each change is one after which the gang fits."""

from __future__ import annotations

import hypothesis
import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.placement import advice as advice_module
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.advice import with_advice
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import judge, open_case, try_to_fit
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.proof import Budget
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod, room
from ansible_collections.muster.kube.tests.support.simple_scheduler import cases


def advised(place, wanted):
    """The verdict with advice, by kind of change."""
    verdict = with_advice(place, wanted, judge(place, wanted))
    return verdict, {item.change: item for item in verdict.advice}


def follow(place, wanted, item):
    """Room and gang after the advice was followed."""
    counts = item.details.get("counts")
    gone = [one for here in place.pods_on for one in here if one.key in item.details.get("pods", ())]
    assert len(gone) == len(item.details.get("pods", ()))
    if item.details.get("nodes"):
        place = place.opened(item.details["nodes"])
    return place.without(gone), wanted.resized(counts) if counts else wanted


@hypothesis.settings(max_examples=120)
@hypothesis.given(cases(most_pods=5))
def test_following_any_advice_makes_the_gang_fit(case):
    place, wanted = room(case.nodes, case.pods), gang(*case.jobs)
    before = [dict(free) for free in place.free]
    verdict, advice = advised(place, wanted)
    assert place.free == before
    if verdict.answer == "fits":
        assert not advice
    if verdict.answer == "never":
        assert not set(advice) - {"fewer_replicas"}
    for item in advice.values():
        assert try_to_fit(open_case(*reversed(follow(place, wanted, item)))) is not None
        assert item.text


def crowd():
    """Two nodes of two cpus; one full of two pods, the other of one."""
    pods = [
        pod("small-1", on="a", requests={"cpu": "1"}),
        pod("small-2", on="a", requests={"cpu": "1"}),
        pod("large", on="b", requests={"cpu": "2"}),
    ]
    return room([node("a", cpu="2"), node("b", cpu="2")], pods)


def test_the_fewest_pods_are_named():
    _verdict, advice = advised(crowd(), gang(job("j", 1, requests={"cpu": "2"})))
    assert advice["pods_end"].details == {"pods": ["default/large"], "owners": ["Pod/large"]}
    _verdict, advice = advised(crowd(), gang(job("j", 1, requests={"cpu": "1"})))
    assert len(advice["pods_end"].details["pods"]) == 1


def test_daemons_are_never_named_and_owners_are():
    daemon = pod("daemon", on="a", requests={"cpu": "1"})
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "controller": True}]
    worker = pod("worker", on="a", requests={"cpu": "1"})
    worker["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "train", "controller": True}]
    place = room([node("a", cpu="2")], [daemon, worker])
    _verdict, advice = advised(place, gang(job("j", 1, requests={"cpu": "1"})))
    assert advice["pods_end"].details == {"pods": ["default/worker"], "owners": ["Job/train"]}


def test_fewer_replicas_keep_as_many_as_fit():
    place = room([node("a", cpu="4")])
    verdict, advice = advised(place, gang(job("j", 9, requests={"cpu": "1"})))
    assert verdict.answer == "never"
    assert advice["fewer_replicas"].details["counts"] == {"j": 4}
    assert advice["fewer_replicas"].text == "run 4 instead of 9 of j"


def test_all_podsets_are_cut_in_proportion_when_one_is_not_enough():
    place = room([node("a", cpu="4")])
    wanted = gang(job("i", 8, requests={"cpu": "1"}), job("j", 8, requests={"cpu": "1"}))
    _verdict, advice = advised(place, wanted)
    assert advice["fewer_replicas"].details["counts"] == {"i": 2, "j": 2}


def test_a_cordoned_node_is_named():
    place = room([node("a", cpu="4", unschedulable=True), node("b", cpu="1")])
    verdict, advice = advised(place, gang(job("j", 1, requests={"cpu": "2"})))
    assert verdict.answer == "waits"
    assert advice["open_nodes"].details == {"nodes": ["a"]}


def test_a_cordoned_node_whose_pods_must_end_too():
    busy = pod("busy", on="a", requests={"cpu": "4"})
    place = room([node("a", cpu="4", unschedulable=True), node("b", cpu="1")], [busy])
    _verdict, advice = advised(place, gang(job("j", 1, requests={"cpu": "2"})))
    assert advice["open_nodes"].details == {"nodes": ["a"], "pods": ["default/busy"], "owners": ["Pod/busy"]}
    assert "pods_end" not in advice


def test_whole_nodes_are_cleared_where_single_slots_do_not_help():
    # The holder of the port is in the way, not its requests.
    port = [{"name": "c", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}]
    place = room(
        [node("a", cpu="4")], [pod("web", on="a", containers=port), pod("other", on="a", requests={"cpu": "1"})]
    )
    _verdict, advice = advised(place, gang(job("j", 1, containers=port)))
    assert advice["pods_end"].details["pods"] == ["default/web"]


def test_what_is_not_about_nodes_gets_no_advice():
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]
    verdict, advice = advised(room([node("a", cpu="1")]), gang(job("j", 2, requests={"cpu": "1"}, volumes=claim)))
    assert (verdict.reason, advice) == ("claim_missing", {})


def test_too_many_pods_are_no_advice():
    pods = [pod(f"p{i}", on="a", requests={"cpu": "1"}) for i in range(100)]
    _verdict, advice = advised(room([node("a", cpu="100")], pods), gang(job("j", 1, requests={"cpu": "90"})))
    assert "pods_end" not in advice


def pods_of(count, on="a", cpu="1"):
    """So many pods on one node."""
    return [pod(f"p{i:02}", on=on, requests={"cpu": cpu}) for i in range(count)]


@pytest.mark.parametrize(("count", "named"), [(64, True), (65, False)])
def test_up_to_sixty_four_pods_are_a_small_change(count, named):
    place = room([node("a", cpu=str(count))], pods_of(count))
    _verdict, advice = advised(place, gang(job("j", 1, requests={"cpu": str(count)})))
    assert ("pods_end" in advice) is named
    assert not named or len(advice["pods_end"].details["pods"]) == count


@pytest.mark.parametrize(("count", "words"), [(5, "default/p04"), (6, "default/p04 and 1 more"), (9, "p04 and 4 more")])
def test_five_pods_are_told_by_name(count, words):
    place = room([node("a", cpu=str(count))], pods_of(count))
    _verdict, advice = advised(place, gang(job("j", 1, requests={"cpu": str(count)})))
    assert advice["pods_end"].text.startswith(f"wait for, or end, {count} pod(s): default/p00, default/p01, ")
    assert advice["pods_end"].text.endswith(words)


def test_eight_cordoned_nodes_are_told_by_name_and_all_are_listed():
    place = room([node(f"n{i}", cpu="1", unschedulable=True) for i in range(9)])
    _verdict, advice = advised(place, gang(job("j", 9, requests={"cpu": "1"})))
    assert advice["open_nodes"].text == "uncordon, or wait for, n0, n1, n2, n3, n4, n5, n6, n7"
    assert advice["open_nodes"].details == {"nodes": [f"n{i}" for i in range(9)]}


def test_only_the_cordoned_nodes_that_are_needed_are_named():
    nodes = [node("a", cpu="2"), node("b", cpu="2", unschedulable=True), node("c", cpu="1", unschedulable=True)]
    _verdict, advice = advised(room(nodes), gang(job("j", 2, requests={"cpu": "2"})))
    assert advice["open_nodes"].details == {"nodes": ["b"]}


@pytest.mark.parametrize("turned", [False, True])
def test_that_podset_is_cut_which_leaves_most_pods(turned):
    jobs = [job("large", 2, requests={"cpu": "2"}), job("small", 4, requests={"cpu": "1"})]
    _verdict, advice = advised(room([node("a", cpu="6")]), gang(*(reversed(jobs) if turned else jobs)))
    assert advice["fewer_replicas"].details == {"counts": {"large": 1, "small": 4}, "then": "now"}
    assert advice["fewer_replicas"].text == "run 1 instead of 2 of large"


def test_of_cuts_that_leave_as_many_pods_the_first_is_taken():
    jobs = [job(name, 2, requests={"cpu": "1"}) for name in ("i", "j")]
    _verdict, advice = advised(room([node("a", cpu="3")]), gang(*jobs))
    assert advice["fewer_replicas"].details["counts"] == {"i": 1, "j": 2}


@pytest.mark.parametrize(
    ("cpu", "sizes", "counts"),
    [
        ("4", {"i": 8, "j": 4}, {"i": 3, "j": 1}),
        ("4", {"i": 8, "j": 8, "none": 0}, {"i": 2, "j": 2, "none": 0}),
        ("15", {"i": 8, "j": 8, "k": 8}, {"i": 5, "j": 5, "k": 5}),
        ("2", {"i": 3, "j": 3}, {"i": 1, "j": 1}),
        ("2", {"i": 2, "j": 2}, {"i": 1, "j": 1}),
    ],
)
def test_podsets_are_cut_in_proportion_and_keep_one_pod(cpu, sizes, counts):
    jobs = [job(name, count, requests={"cpu": "1"}) for name, count in sizes.items()]
    _verdict, advice = advised(room([node("a", cpu=cpu)]), gang(*jobs))
    assert advice["fewer_replicas"].details["counts"] == counts


@pytest.mark.parametrize(("cpu", "count", "kept"), [("1", 2, 1), ("5", 6, 5), ("1", 9, 1), ("7", 9, 7)])
def test_a_single_podset_keeps_as_many_pods_as_find_room(cpu, count, kept):
    _verdict, advice = advised(room([node("a", cpu=cpu)]), gang(job("j", count, requests={"cpu": "1"})))
    assert advice["fewer_replicas"].details["counts"] == {"j": kept}


def test_no_pod_at_all_is_no_advice():
    _verdict, advice = advised(room([node("a", cpu="1")]), gang(job("j", 3, requests={"cpu": "2"})))
    assert advice == {}


def test_a_smaller_gang_that_has_to_be_steered_is_told_so():
    nodes = [node("a", cpu="4"), node("b", cpu="3")]
    wanted = gang(job("pair", 2, requests={"cpu": "2"}), job("threes", 2, requests={"cpu": "3"}))
    _verdict, advice = advised(room(nodes), wanted)
    assert advice["fewer_replicas"].details == {"counts": {"pair": 2, "threes": 1}, "then": "steered"}


def test_slots_are_freed_where_the_fewest_pods_stand_in_the_way():
    pods = [
        *pods_of(4, "crowded"),
        pod("half", on="b", requests={"cpu": "2"}),
        pod("rest", on="b", requests={"cpu": "2"}),
    ]
    place = room([node("crowded", cpu="4"), node("b", cpu="4")], pods)
    _verdict, advice = advised(place, gang(job("j", 1, requests={"cpu": "4"})))
    assert advice["pods_end"].details["pods"] == ["default/half", "default/rest"]


def test_the_pod_that_takes_most_of_its_node_goes_first():
    pods = [pod("small", on="a", requests={"cpu": "1"}), pod("large", on="a", requests={"cpu": "3"})]
    _verdict, advice = advised(room([node("a", cpu="4")], pods), gang(job("j", 1, requests={"cpu": "2"})))
    assert advice["pods_end"].details["pods"] == ["default/large"]


def test_one_pod_that_ends_may_free_several_slots():
    pods = [pod("large", on="a", requests={"cpu": "4"}), *pods_of(3, "b")]
    place = room([node("a", cpu="4"), node("b", cpu="3")], pods)
    _verdict, advice = advised(place, gang(job("j", 4, requests={"cpu": "1"})))
    assert advice["pods_end"].details["pods"] == ["default/large"]


def test_free_slots_are_used_before_any_pod_has_to_end():
    place = room([node("a", cpu="2"), node("b", cpu="2")], [pod("busy", on="a", requests={"cpu": "2"})])
    _verdict, advice = advised(place, gang(job("j", 3, requests={"cpu": "1"})))
    assert advice["pods_end"].details["pods"] == ["default/busy"]
    _verdict, advice = advised(place, gang(job("j", 2, requests={"cpu": "1"})))
    assert advice == {}


# Single slots: which pods have to end until the last pod of the gang finds room.


def freed(nodes, pods, *jobs):
    """The names of the pods that the search for slots chooses; None where that takes too many."""
    chosen = advice_module._cheapest_slots(room(nodes, pods), gang(*jobs))
    return None if chosen is None else sorted(item.name for item in chosen)


def test_a_slot_on_a_node_with_very_many_pods_needs_only_one_of_them():
    place = room([node("a", cpu="70")], pods_of(70))
    _verdict, advice = advised(place, gang(job("j", 1, requests={"cpu": "1"})))
    assert advice["pods_end"].details["pods"] == ["default/p00"]


def test_as_few_pods_as_possible_end_for_a_slot():
    assert freed([node("a", cpu="2")], pods_of(2), job("j", 1, requests={"cpu": "1"})) == ["p00"]
    assert freed([node("a", cpu="2")], pods_of(2), job("j", 2, requests={"cpu": "1"})) == ["p00", "p01"]
    assert freed([node("a", cpu="4")], pods_of(2), job("j", 2, requests={"cpu": "1"})) == []
    pods = [pod("a-small", on="a", requests={"cpu": "1"}), pod("z-large", on="a", requests={"cpu": "3"})]
    assert freed([node("a", cpu="4")], pods, job("j", 1, requests={"cpu": "2"})) == ["z-large"]


def test_the_size_of_a_pod_is_its_largest_share_of_the_node():
    pods = [pod("a-memory", on="a", requests={"memory": "1Gi"}), pod("z-cpu", on="a", requests={"cpu": "3"})]
    nodes = [node("a", cpu="4", memory="8Gi")]
    assert freed(nodes, pods, job("j", 1, requests={"cpu": "2"})) == ["z-cpu"]


def test_a_pod_that_ends_frees_only_what_it_has():
    nodes = [node(name, cpu="2", nvidia__gpu="1") for name in ("a", "b")]
    pods = [
        item
        for name in ("a", "b")
        for item in (
            pod(f"{name}-cpu", on=name, requests={"cpu": "2"}),
            pod(f"{name}-gpu", on=name, requests={"nvidia/gpu": "1"}),
        )
    ]
    wanted = {"cpu": "1", "nvidia/gpu": "1"}
    assert freed(nodes, pods, job("j", 1, requests=wanted)) == ["a-cpu", "a-gpu"]
    assert freed(nodes, pods, job("j", 2, requests=wanted)) == ["a-cpu", "a-gpu", "b-cpu", "b-gpu"]


def test_the_largest_pods_of_a_gang_get_the_free_room_first():
    nodes = [node("free", cpu="3"), node("busy", cpu="2")]
    jobs = [job("small", 1, requests={"cpu": "1"}), job("large", 1, requests={"cpu": "3"})]
    assert freed(nodes, pods_of(2, "busy"), *jobs) == ["p00"]


def test_nothing_is_chosen_where_no_end_makes_room():
    assert freed([node("a", cpu="2")], pods_of(2), job("j", 3, requests={"cpu": "1"})) is None
    assert freed([node("a", cpu="2")], pods_of(2), job("j", 1, requests={"cpu": "3"})) is None


@pytest.mark.parametrize(("slots", "expected"), [(256, ["large"]), (257, None)])
def test_up_to_two_hundred_and_fifty_six_slots_are_freed(slots, expected):
    large = pod("large", on="a", requests={"cpu": "300"})
    assert freed([node("a", cpu="300", pods="999")], [large], job("j", slots, requests={"cpu": "1"})) == expected


@pytest.mark.parametrize(("count", "chosen"), [(64, True), (65, False)])
def test_up_to_sixty_four_pods_are_chosen_slot_by_slot(count, chosen):
    found = freed([node("a", cpu="70")], pods_of(70), job("j", count, requests={"cpu": "1"}))
    assert found == ([f"p{i:02}" for i in range(count)] if chosen else None)


# Whole nodes: cleared from the least occupied on.


def cleared(occupied, needed):
    """The nodes cleared of those with so many pods each, for a gang that needs so many whole nodes."""
    nodes = [node(f"n{i}", cpu="100") for i in range(len(occupied))]
    pods = [
        pod(f"n{i}-{number}", on=f"n{i}", requests={"cpu": "1"})
        for i, count in enumerate(occupied)
        for number in range(count)
    ]
    wanted = gang(job("j", needed, requests={"cpu": "100"}))
    chosen = advice_module._whole_nodes(room(nodes, pods), wanted, Budget())
    return None if chosen is None else sorted({item.node for item in chosen})


@pytest.mark.parametrize(
    ("occupied", "needed", "expected"),
    [
        ((4, 3, 2, 1), 1, ["n3"]),
        ((4, 3, 2, 1), 2, ["n2", "n3"]),
        ((4, 3, 2, 1), 3, ["n1", "n2", "n3"]),
        ((4, 3, 2, 1), 4, ["n0", "n1", "n2", "n3"]),
        ((4, 3, 2, 1), 5, None),
        ((33, 33, 33, 33), 1, ["n0"]),
        ((33, 33, 33, 33), 2, None),
        ((32, 32, 32), 2, ["n0", "n1"]),
        ((64,), 1, ["n0"]),
        ((65,), 1, None),
    ],
)
def test_as_few_nodes_as_possible_are_cleared(occupied, needed, expected):
    assert cleared(occupied, needed) == expected


def test_only_pods_whose_end_is_needed_stay_chosen(monkeypatch):
    nodes = [node("a", cpu="3"), node("b", cpu="1")]
    place, wanted = room(nodes, [*pods_of(3), pod("z", on="b")]), gang(job("j", 1, requests={"cpu": "2"}))
    chosen = [item for here in place.pods_on for item in here]

    def kept(pods):
        return [item.name for item in advice_module._pruned(place, wanted, pods, Budget())]

    assert kept(chosen) == ["p01", "p02"]
    assert kept(chosen[:2]) == ["p00", "p01"]
    # A try looks at both nodes, and only so many looks are spent.
    monkeypatch.setattr(advice_module, "MOST_NODES_TO_PRUNE", 2)
    assert kept([*chosen[:2], chosen[3]]) == ["p00", "p01", "z"]
    monkeypatch.setattr(advice_module, "MOST_NODES_TO_PRUNE", 6)
    assert kept([*chosen[:2], chosen[3]]) == ["p00", "p01"]


@pytest.mark.parametrize(
    ("many", "details"),
    [
        (2, {"counts": {"pair": 2, "threes": 1}, "then": "steered"}),
        (1, {"counts": {"pair": 1, "threes": 1}, "then": "now"}),
    ],
)
def test_on_very_many_nodes_only_what_counting_proves_is_advised(many, details, monkeypatch):
    monkeypatch.setattr(advice_module, "MANY_NODES", many)
    nodes = [node("a", cpu="4"), node("b", cpu="3")]
    wanted = gang(job("pair", 2, requests={"cpu": "2"}), job("threes", 2, requests={"cpu": "3"}))
    _verdict, advice = advised(room(nodes), wanted)
    assert advice["fewer_replicas"].details == details
