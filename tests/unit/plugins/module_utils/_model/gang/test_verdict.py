# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts as dictionaries and as text."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import (
    ANOTHER_GANG,
    NOT_MODELLED,
    REASONS,
    Advice,
    NamespaceFit,
    PodsetFit,
    QuotaLine,
    Total,
    Verdict,
    base_resource,
    gang_for_reader,
    verdict_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import QueueLevel
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import NANO
from ansible_collections.muster.kube.tests.support.quota_trees import GPU


def podset(**changes):
    """One podset of two pods of which one finds room."""
    values = {
        "name": "worker",
        "needed": 2,
        "found": 1,
        "requests": {"cpu": 2000, "pods": 1},
        "usable_nodes": 1,
        "dropped": {"taints": 2, "node_selector": 1},
        "short": {"cpu": 500},
        "largest_hole": {"cpu": 1500},
        "nearest_node": "n1",
        "nearest_short": {"cpu": 500},
    }
    return PodsetFit(**{**values, **changes})


def verdict(answer="waits", reason="insufficient", **changes):
    """A verdict with one podset."""
    values = {
        "how": None,
        "space": NamespaceFit(True),
        "total_nodes": 4,
        "podsets": (podset(),),
        "totals": {"cpu": Total(4000, 3500), "pods": Total(2, 110)},
    }
    return Verdict("train", "team", answer, reason=reason, **{**values, **changes})


def layer(item, name):
    """One layer of a verdict."""
    return next(found for found in item.as_dict()["layers"] if found["layer"] == name)


def test_amounts_are_quantities_and_all_of_it_is_json():
    item = verdict(advice=(Advice("fewer_replicas", "run 1", {"counts": {"worker": 1}}),))
    as_dict = item.as_dict()
    assert json.loads(json.dumps(as_dict)) == as_dict
    slots = layer(item, "slots")
    assert slots["totals"]["cpu"] == {"requested": "4", "free": "3500m", "short": "500m"}
    assert slots["podsets"][0]["nearest"] == {"node": "n1", "short": {"cpu": "500m"}}
    assert as_dict["advice"] == [{"change": "fewer_replicas", "text": "run 1", "counts": {"worker": 1}}]
    assert (as_dict["eta"], as_dict["placement"]) == (None, None)


def test_layers_pass_and_fail():
    assert [item["passed"] for item in verdict().as_dict()["layers"]] == [True, True, False]
    nobody = verdict(reason="no_matching_node", podsets=(podset(usable_nodes=0, found=0, nearest_node=None),))
    assert not layer(nobody, "nodes")["passed"]
    fits = verdict("fits", None, how="now", podsets=(podset(found=2, short={}),), totals={})
    assert [item["passed"] for item in fits.as_dict()["layers"]] == [True, True, True]


def test_the_slots_layer_tells_the_truth_when_the_namespace_refuses():
    roomy = {"podsets": (podset(found=2, short={}),), "totals": {"cpu": Total(4000, 4000)}}
    refused = {"reason": "namespace_quota", "space": NamespaceFit(False)}
    assert layer(verdict(**refused, **roomy), "slots")["passed"]
    assert not layer(verdict(**refused), "slots")["passed"]
    assert "500m cpu" in verdict_text(verdict(**refused).as_dict())


def test_without_sight_of_nodes_only_the_namespace_is_a_layer():
    blind = verdict("fits", None, how="unproven", nodes_visible=False, podsets=(), totals={})
    assert [item["layer"] for item in blind.as_dict()["layers"]] == ["namespace"]
    assert verdict_text(blind.as_dict()).startswith("train: seems to fit")


def test_the_text_names_amounts_nodes_filters_and_advice():
    text = verdict_text(verdict(advice=(Advice("pods_end", "end default/busy", {}),)).as_dict())
    lines = text.splitlines()
    assert lines[0] == "train: waits: not enough free resources"
    assert "short in all: 500m cpu" in lines[1]
    assert "worker: 2 x (2 cpu), room for 1" in lines[2]
    assert "1 of 4 nodes usable (dropped: 1 by node_selector, 2 by taints)" in lines[2]
    assert "nearest node n1 is short 500m cpu" in lines[2]
    assert "largest hole 1500m cpu" in lines[2]
    assert lines[3] == "  advice: end default/busy"


def test_a_shortage_of_one_podset_is_named_even_if_the_gang_as_a_whole_is_not_short():
    lone = podset(nearest_node=None, nearest_short={}, short={"nvidia.com/gpu": 1}, dropped={})
    text = verdict_text(verdict(podsets=(lone,), totals={"cpu": Total(1, 2)}).as_dict())
    assert "its nodes together are short 1 nvidia.com/gpu" in text


def test_a_quota_line_says_what_is_hard_used_and_asked():
    line = QuotaLine("team", "requests.cpu", 4 * NANO, 3 * NANO, 2 * NANO)
    item = verdict(reason="namespace_quota", space=NamespaceFit(False, (line,), ("LimitRange x: no",)))
    text = verdict_text(item.as_dict())
    assert "ResourceQuota team: short 1 of requests.cpu (hard 4, used 3, requested 2)" in text
    assert "LimitRange x: no" in text
    assert QuotaLine("team", "pods", 4 * NANO, NANO, 2 * NANO).short == 0


@pytest.mark.parametrize("reason", sorted(REASONS))
@pytest.mark.parametrize("answer", ["waits", "never"])
def test_every_reason_has_words(reason, answer):
    text = verdict_text(verdict(answer, reason, detail="thing").as_dict())
    assert REASONS[reason] in text
    assert "(thing)" in text
    assert text.startswith(f"train: {answer}")


def test_only_nodes_can_be_empty():
    assert "not even on empty nodes" in verdict_text(verdict("never", "insufficient").as_dict())
    assert "empty nodes" not in verdict_text(verdict("never", "limit_range").as_dict())


@pytest.mark.parametrize(
    ("how", "words"),
    [("now", "fits now"), ("steered", "fits when steered"), ("unproven", "seems to fit"), ("borrowing", "borrowing")],
)
def test_how_it_fits_is_said(how, words):
    many = tuple(f"n{i}" for i in range(10))
    item = verdict("fits", None, how=how, steering={"worker": many}, not_modelled=tuple(NOT_MODELLED), may_preempt=many)
    text = verdict_text({**item.as_dict(), "placement": None})
    assert words in text
    assert "steer worker to n0, n1" in text
    assert "and 2 more" in text
    assert all(name in text for name in NOT_MODELLED.values())
    assert "at risk of preemption" in text


@pytest.mark.parametrize(
    ("name", "base"), [("requests.cpu", "cpu"), ("limits.memory", "memory"), ("pods", "pods"), ("requests.a/b", "a/b")]
)
def test_the_resource_behind_a_quota(name, base):
    assert base_resource(name) == base


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (1, "p0"),
        (8, "p0, p1, p2, p3, p4, p5, p6, p7"),
        (9, "p0, p1, p2, p3, p4, p5, p6, p7 and 1 more"),
        (12, "p0, p1, p2, p3, p4, p5, p6, p7 and 4 more"),
    ],
)
def test_of_many_names_eight_are_told(count, told):
    text = verdict_text(verdict(may_preempt=tuple(f"p{number}" for number in range(count))).as_dict())
    assert text.splitlines()[-1] == f"  of lower priority, and at risk of preemption: {told}"


@pytest.mark.parametrize(("needed", "usable", "passed"), [(1, 0, False), (0, 0, True), (1, 1, True), (0, 1, True)])
def test_the_layer_of_nodes_fails_where_a_pod_may_use_none(needed, usable, passed):
    other = podset(name="other")
    item = verdict(podsets=(other, podset(needed=needed, usable_nodes=usable)))
    assert layer(item, "nodes")["passed"] is passed


@pytest.mark.parametrize(
    ("reason", "found", "short", "passed"),
    [
        ("claim_missing", 2, 0, True),
        ("claim_missing", 3, 0, True),
        ("claim_missing", 1, 0, False),
        ("claim_missing", 2, 1, False),
        ("insufficient", 2, 0, False),
    ],
)
def test_a_gang_refused_for_other_reasons_may_have_its_slots(reason, found, short, passed):
    totals = {"pods": Total(2, 110), "cpu": Total(4000 + short, 4000)}
    other = podset(name="other", needed=0, found=0)
    item = verdict(reason=reason, podsets=(podset(found=found), other), totals=totals)
    assert layer(item, "slots")["passed"] is passed


@pytest.mark.parametrize(
    ("used", "requested", "short"), [(1000, 1000, 0), (1000, 1001, 1), (0, 500, 0), (2500, 500, 1000)]
)
def test_a_quota_is_short_by_what_goes_beyond_it(used, requested, short):
    assert QuotaLine("q", "cpu", 2000, used, requested).short == short


@pytest.mark.parametrize(("requested", "free", "short"), [(5, 5, 0), (6, 5, 1), (1, 5, 0)])
def test_a_total_is_short_by_what_is_not_free(requested, free, short):
    assert Total(requested, free).short == short


def test_what_was_held_back_has_no_place_any_more():
    fits = verdict("fits", None, how="steered", steering={"worker": ("n1",)}, placement={"worker": {"n1": 2}})
    held = fits.held_back("reserved", "for another")
    assert (held.answer, held.how, held.reason, held.detail) == ("waits", None, "reserved", "for another")
    assert (held.steering, held.placement) == ({}, None)


def test_podsets_that_found_all_their_slots_are_not_told():
    text = verdict_text(verdict(podsets=(podset(name="full", found=2), podset(name="short"))).as_dict())
    assert "short: 2 x" in text
    assert "full: 2 x" not in text


def test_readers_of_a_namespace_learn_no_name_of_another():
    assert gang_for_reader("team/train", "team") == "team/train"
    assert gang_for_reader("other/train", "team") == ANOTHER_GANG
    assert "/" not in ANOTHER_GANG


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, False),
        ({"nearest_short": {"cpu": 400}}, True),
        ({"nearest_short": {"cpu": 400}, "usable_nodes": 0}, False),
        ({"nearest_short": {"cpu": 400}, "short": {}}, False),
        ({"nearest_node": None, "nearest_short": {}}, True),
    ],
)
def test_what_nodes_lack_together_is_said_unless_the_nearest_one_says_it(changes, said):
    text = verdict_text(verdict(podsets=(podset(**changes),)).as_dict())
    assert ("its nodes together are short 500m cpu" in text) is said


def test_slots_are_told_only_where_they_are_what_is_missing():
    line = QuotaLine("q", "pods", NANO, NANO, 2 * NANO)
    space = NamespaceFit(False, (line,), ("LimitRange l: too large",))
    blind = verdict_text(verdict(reason="namespace_quota", space=space, nodes_visible=False, podsets=()).as_dict())
    enough = {"podsets": (podset(found=2),), "totals": {}}
    seen = verdict_text(verdict(reason="namespace_quota", space=space, **enough).as_dict())
    for text in (blind, seen):
        assert text.splitlines()[1:] == [
            "  LimitRange l: too large",
            "  ResourceQuota q: short 2 of pods (hard 1, used 1, requested 2)",
        ]


def refusing(answer="waits", reason="quota", detail=""):
    """A layer of one tree that lets nothing start."""
    level = QueueLevel("a", "root/a", GPU, 4, 4, 0, 0, 0, short=2)
    standing = QuotaStanding("t", answer, "a", "root/a", False, reason, detail, short={GPU: 2}, levels=(level,))
    return QuotaLayer((standing,))


def borrowing(borrows=True):
    return QuotaLayer((QuotaStanding("t", "fits", "a", "root/a", borrows),))


def test_quota_is_the_first_layer_where_there_is_a_tree():
    names = [found["layer"] for found in verdict().with_quota(borrowing()).as_dict()["layers"]]
    assert names == ["quota", "namespace", "nodes", "slots"]
    unseen = verdict(nodes_visible=False).with_quota(borrowing())
    assert [found["layer"] for found in unseen.as_dict()["layers"]] == ["quota", "namespace"]
    assert verdict().as_dict()["layers"][0]["layer"] == "namespace"


def test_tree_that_refuses_comes_before_other_reasons_to_wait():
    found = verdict("fits", None, how="steered", steering={"w": ("n1",)}).with_quota(refusing(detail="busy"))
    assert (found.answer, found.how, found.reason, found.detail, found.steering) == ("waits", None, "quota", "busy", {})
    assert verdict().with_quota(refusing("never")).answer == "never"
    assert verdict().with_quota(refusing(reason="queue_held")).reason == "queue_held"


def test_gang_that_never_finds_nodes_keeps_that_reason():
    found = verdict("never").with_quota(refusing())
    assert (found.answer, found.reason) == ("never", "insufficient")
    assert verdict("never").with_quota(refusing("never")).reason == "quota"


def test_gang_that_borrows_is_told_so():
    assert verdict("fits", None, how="now").with_quota(borrowing()).how == "borrowing"
    assert verdict("fits", None, how="now").with_quota(borrowing(False)).how == "now"
    assert verdict("fits", None, how="unproven").with_quota(borrowing()).how == "unproven"
    text = verdict_text(verdict("fits", None, how="now").with_quota(borrowing()).as_dict())
    assert text.startswith("train: fits by borrowing quota")


def test_text_tells_at_which_queue_quota_is_short():
    lines = verdict_text(verdict("fits", None, how="now").with_quota(refusing()).as_dict()).splitlines()
    assert lines[:2] == [
        "train: waits: the quota tree has too little left",
        "  queue root/a: short 2 nvidia.com/gpu (nominal 4, used 4, borrowed 0, lent 0, headroom 0)",
    ]
