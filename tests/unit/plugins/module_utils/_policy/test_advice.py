# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Advice: each piece is one after which the gang fits."""

from __future__ import annotations

import hypothesis
from ansible_collections.muster.kube.plugins.module_utils._policy.advice import with_advice
from ansible_collections.muster.kube.plugins.module_utils._policy.fit import judge, open_case, try_to_fit
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
