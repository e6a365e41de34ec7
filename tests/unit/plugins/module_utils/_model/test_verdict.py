# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts as dictionaries and as text."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.verdict import (
    NOT_MODELLED,
    REASONS,
    Advice,
    NamespaceFit,
    PodsetFit,
    QuotaLine,
    Total,
    Verdict,
    base_resource,
    verdict_text,
)


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
    line = QuotaLine("team", "requests.cpu", 4000, 3000, 2000)
    item = verdict(reason="namespace_quota", space=NamespaceFit(False, (line,), ("LimitRange x: no",)))
    text = verdict_text(item.as_dict())
    assert "ResourceQuota team: short 1 of requests.cpu (hard 4, used 3, requested 2)" in text
    assert "LimitRange x: no" in text
    assert QuotaLine("team", "pods", 4, 1, 2).short == 0


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
