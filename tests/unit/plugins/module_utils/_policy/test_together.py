# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs of one cycle among each other."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._policy.fit import judge, open_case
from ansible_collections.muster.kube.plugins.module_utils._policy.together import (
    MOST_CLASSES,
    Together,
    demand_class,
    labels_matter,
    steered,
)
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod, room

SMALL = {"cpu": "1"}
LARGE = {"cpu": "3"}


def test_the_first_gang_always_joins():
    assert Together(room([node("n1", cpu="1")]), with_labels=True).admits(gang(job("big", 9, requests=LARGE)), {})


def test_pods_of_one_class_are_counted_exactly():
    together = Together(room([node("n1", cpu="4"), node("n2", cpu="4")]), with_labels=True)
    together.add(gang(job("a", 5, requests=SMALL)), {})
    assert together.admits(gang(job("b", 3, requests=SMALL)), {})
    assert not together.admits(gang(job("b", 4, requests=SMALL)), {})


def test_small_pods_that_could_fill_the_hole_of_a_large_one_keep_it_waiting():
    """Alone each fits: the verdicts place two small pods on one node and the large one on the other."""
    nodes = [node("n1", cpu="3"), node("n2", cpu="3")]
    small, large = gang(job("a", 2, requests=SMALL)), gang(job("b", 1, requests=LARGE))
    assert judge(room(nodes), small).answer == judge(room(nodes), large).answer == "fits"
    together = Together(room(nodes), with_labels=True)
    together.add(small, {})
    assert not together.admits(large, {})


def test_with_room_to_spare_nobody_waits():
    nodes = [node(f"n{number}", cpu="8") for number in range(6)]
    together = Together(room(nodes), with_labels=True)
    together.add(gang(job("a", 2, requests=SMALL)), {})
    assert together.admits(gang(job("b", 1, requests=LARGE)), {})


def test_steering_takes_the_conflict_away():
    nodes = [node("n1", cpu="3"), node("n2", cpu="3")]
    together = Together(room(nodes), with_labels=True)
    together.add(gang(job("a", 2, requests=SMALL)), {"a": ["n1"]})
    assert together.admits(gang(job("b", 1, requests=LARGE)), {"b": ["n2"]})


def test_a_steered_gang_is_confined_and_the_original_is_left_alone():
    original = gang(job("a", 2, requests=SMALL))
    confined = steered(original, {"a": ["n2"]})
    board = open_case(confined, room([node("n1", cpu="3"), node("n2", cpu="3")])).board
    assert list(board.pieces[0].allowed) == [1]
    assert "affinity" not in original.podsets[0].template["spec"]


def test_rules_about_neighbors_are_not_mixed_between_namespaces():
    spread = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ]
    }
    together = Together(room([node("n1", cpu="9"), node("n2", cpu="9")]), with_labels=True)
    together.add(gang(job("a", 1, requests=SMALL, labels={"app": "a"}, **spread), namespace="one"), {})
    assert not together.admits(gang(job("b", 1, requests=SMALL), namespace="two"), {})


def test_too_many_kinds_of_pods_are_left_for_the_next_cycle():
    together = Together(room([node("n1", cpu="900")]), with_labels=True)
    for number in range(MOST_CLASSES):
        together.add(gang(job("a", 1, requests={"cpu": f"{number + 1}m"})), {})
    assert not together.admits(gang(job("b", 1, requests={"cpu": "500m"})), {})


def alike(one, other, *, with_labels=False):
    return demand_class(one, with_labels=with_labels) == demand_class(other, with_labels=with_labels)


def test_gangs_are_alike_whatever_they_are_called():
    one = gang(job("a", 2, requests=SMALL), name="x")
    assert alike(one, gang(job("b", 2, requests=SMALL), name="y"))
    assert not alike(one, gang(job("a", 3, requests=SMALL)))
    assert not alike(one, gang(job("a", 2, requests=LARGE)))
    assert not alike(one, gang(job("a", 2, requests=SMALL), namespace="elsewhere"))
    assert demand_class(Gang("empty", "default", ()), with_labels=True) == ()


def test_labels_tell_pods_apart_where_somebody_looks_at_them():
    one, other = (gang(job("a", 2, requests=SMALL, labels={"app": app})) for app in "xy")
    assert alike(one, other)
    assert not alike(one, other, with_labels=True)


def test_labels_matter_when_pods_have_rules_about_each_other():
    rule = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    shy = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}}
    empty = room([node("n1", cpu="4")])
    plain = gang(job("a", 2, requests=SMALL))
    assert not labels_matter(empty, [plain])
    assert labels_matter(empty, [plain, gang(job("b", 1, requests=SMALL, **shy))])
    assert labels_matter(room([node("n1", cpu="4")], [pod("p", on="n1", **shy)]), [plain])
