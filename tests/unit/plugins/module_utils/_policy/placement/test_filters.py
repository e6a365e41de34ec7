# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node filters: each drops what kube-scheduler's own drops, and is counted under its name."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import read_constraints
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Storage, Volume, VolumeClaim
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import node_terms
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.filters import (
    filter_nodes,
    matches_node,
    rival_volumes,
)
from ansible_collections.muster.kube.tests.support.cluster_model import node, pod, room

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def wish(labels=None, **spec):
    """Constraints of a pod."""
    return read_constraints({"metadata": {"labels": labels or {}}, "spec": spec}, "default")


def names(found, place):
    """Names of the nodes that are left."""
    return [place.nodes[i].name for i in found.allowed]


def anti(app, key):
    """Anti-affinity to an app."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def bound(*volumes, limits=None, pods=(), nodes=()):
    """A room with claims c0, c1... bound to these volumes."""
    claims = {("default", f"c{i}"): VolumeClaim(f"v{i}", "s", False) for i in range(len(volumes))}
    storage = Storage(claims, {f"v{i}": item for i, item in enumerate(volumes)}, frozenset(), limits or {})
    return room(nodes, pods, storage=storage)


def mount(*claims):
    """Volumes of a pod spec."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeName": "b"}, "node_name"),
        ({"nodeSelector": {"disk": "ssd"}}, "node_selector"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
                            ]
                        }
                    }
                }
            },
            "node_affinity",
        ),
    ],
)
def test_selection(spec, reason):
    place = room([node("a"), node("b", labels={"disk": "ssd"})])
    found = filter_nodes(place, wish(**spec))
    assert names(found, place) == ["b"]
    assert found.dropped == {reason: 1}
    if reason != "node_name":
        assert [matches_node(item, wish(**spec)) for item in place.nodes] == [False, True]


@pytest.mark.parametrize(
    ("taint", "tolerations", "reason"),
    [
        (("gpu", "NoSchedule"), [], "taints"),
        (("gpu", "NoSchedule"), [{"key": "gpu", "operator": "Exists"}], None),
        (("gpu", "PreferNoSchedule"), [], None),
        (("gpu", "NoExecute"), [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}], "taints"),
        (("node.kubernetes.io/not-ready", "NoSchedule"), [], "not_ready"),
        (("node.kubernetes.io/not-ready", "NoExecute"), [], None),
        (("node.kubernetes.io/unschedulable", "NoSchedule"), [], "unschedulable"),
    ],
)
def test_taints(taint, tolerations, reason):
    place = room([node("a", taints=[{"key": taint[0], "effect": taint[1]}])])
    found = filter_nodes(place, wish(tolerations=tolerations))
    assert found.dropped == ({reason: 1} if reason else {})


def test_a_cordon_without_its_taint_counts_and_can_be_tolerated():
    place = room([node("a", unschedulable=True)])
    assert filter_nodes(place, wish()).dropped == {"unschedulable": 1}
    assert filter_nodes(place, wish(tolerations=[{"operator": "Exists"}])).allowed == (0,)


@pytest.mark.parametrize("terminating", [False, True])
def test_anti_affinity_closes_whole_domains_both_ways(terminating):
    nodes = [node("a", labels={"zone": "x"}), node("b", labels={"zone": "x"}), node("c", labels={"zone": "y"})]
    nodes.append(node("d"))
    present = pod("p", on="a", labels={"app": "p"}, affinity=anti("q", "zone"))
    if terminating:
        present["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    place = room(nodes, [present])
    by_present, by_own = wish({"app": "q"}), wish({"app": "z"}, affinity=anti("p", "zone"))
    for one in (by_present, by_own):
        found = filter_nodes(place, one)
        assert names(found, place) == ["c", "d"]
        assert found.dropped == {"anti_affinity": 2}
    assert not filter_nodes(place, wish({"app": "other"})).dropped


def test_anti_affinity_on_a_key_the_node_lacks_binds_nobody():
    place = room([node("a")], [pod("p", on="a", labels={"app": "p"}, affinity=anti("q", "zone"))])
    assert filter_nodes(place, wish({"app": "q"}, affinity=anti("p", "zone"))).allowed == (0,)


def test_host_ports_by_address():
    def ports(address):
        return [{"name": "c", "ports": [{"hostPort": 80, **({"hostIP": address} if address else {})}]}]

    place = room([node("a"), node("b")], [pod("p", on="a", containers=ports("10.0.0.1"))])
    assert names(filter_nodes(place, wish(containers=ports(None))), place) == ["b"]
    assert names(filter_nodes(place, wish(containers=ports("10.0.0.2"))), place) == ["a", "b"]


def test_volumes_bind_to_nodes_that_reach_them():
    terms = node_terms({"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]})
    place = bound(Volume(terms, {}, None, "h"), nodes=[node("a"), node("b", labels={"rack": "1"})])
    found = filter_nodes(place, wish(volumes=mount("c0")))
    assert names(found, place) == ["b"]
    assert found.dropped == {"volume_affinity": 1}
    assert filter_nodes(place, wish(volumes=mount("unknown"))).allowed == (0, 1)


def test_zone_labels_of_volumes():
    nodes = [
        node("none"),
        node("both", labels={ZONE: "b", REGION: "r"}),
        node("other", labels={ZONE: "z", REGION: "r"}),
        node("half", labels={ZONE: "a"}),
    ]
    new = bound(Volume(None, {ZONE: "a__b", REGION: "r"}, None, "h"), nodes=nodes)
    found = filter_nodes(new, wish(volumes=mount("c0")))
    # A node that has some topology label must have those of the volume; one that has none is taken as it is.
    assert names(found, new) == ["none", "both"]
    assert found.dropped == {"volume_zone": 2}
    old = bound(Volume(None, {"failure-domain.beta.kubernetes.io/zone": "b"}, None, "h"), nodes=nodes)
    assert names(filter_nodes(old, wish(volumes=mount("c0"))), old) == ["none", "both"]


def test_attach_limits_count_each_volume_once():
    volumes = [Volume(None, {}, "d", f"h{i}") for i in range(3)]
    user = pod("p", on="a", volumes=mount("c0", "c2"))
    place = bound(*volumes, limits={"a": {"d": 2}, "b": {"d": 1, "e": 0}}, pods=[user], nodes=[node("a"), node("b")])
    assert names(filter_nodes(place, wish(volumes=mount("c0"))), place) == ["a", "b"]
    found = filter_nodes(place, wish(volumes=mount("c1")))
    assert names(found, place) == ["b"]
    assert found.dropped == {"volume_limit": 1}


@pytest.mark.parametrize(
    ("limits", "claims", "expected"),
    [
        ({"a": {"d": 1}}, ("c0", "c1"), True),
        ({"a": {"d": 2}}, ("c0", "c1"), False),
        ({"a": {"e": 1}}, ("c0", "c1"), False),
        ({}, ("c0", "c1"), False),
        ({"a": {"d": 0}}, ("c0", "c0"), False),
        ({"a": {"d": 0}}, ("c0",), False),
        ({"a": {"d": 0}}, ("c0", "c2"), False),
    ],
)
def test_podsets_whose_volumes_compete_for_attachments(limits, claims, expected):
    volumes = [Volume(None, {}, "d", "h0"), Volume(None, {}, "d", "h1"), Volume(None, {}, None, "nfs")]
    place = bound(*volumes, limits=limits, nodes=[node("a")])
    assert rival_volumes(place, [wish(volumes=mount(name)) for name in claims]) is expected


def test_volumes_of_other_drivers_and_claims_without_a_volume_take_no_attachment():
    volumes = [Volume(None, {}, "d", "h0"), Volume(None, {}, "other", "h1"), Volume(None, {}, None, "h2")]
    user = pod("p", on="a", volumes=mount("c1", "c2", "unknown"))
    place = bound(*volumes, limits={"a": {"d": 1}}, pods=[user], nodes=[node("a")])
    assert filter_nodes(place, wish(volumes=mount("c0"))).allowed == (0,)
    unbound = Storage(
        {("default", "c0"): VolumeClaim("v0", "s", False), ("default", "late"): VolumeClaim(None, "s", False)},
        {"v0": volumes[0]},
        frozenset(),
        {"a": {"d": 1}},
    )
    place = room([node("a")], [pod("p", on="a", volumes=mount("late"))], storage=unbound)
    assert filter_nodes(place, wish(volumes=mount("c0", "late"))).allowed == (0,)


def test_what_is_attached_already_counts_where_podsets_compete():
    volumes = [Volume(None, {}, "d", f"h{i}") for i in range(3)]
    user = pod("p", on="a", volumes=mount("c2"))
    for limit, expected in ((2, True), (3, False)):
        place = bound(*volumes, limits={"a": {"d": limit}}, pods=[user], nodes=[node("a")])
        assert rival_volumes(place, [wish(volumes=mount(name)) for name in ("c0", "c1")]) is expected


def test_every_label_of_a_node_selector_is_needed():
    place = room([node("half", labels={"disk": "ssd"}), node("both", labels={"disk": "ssd", "net": "fast"})])
    asked = wish(nodeSelector={"disk": "ssd", "net": "fast"})
    assert names(filter_nodes(place, asked), place) == ["both"]
    assert [matches_node(item, asked) for item in place.nodes] == [False, True]


def test_one_term_of_node_affinity_is_enough():
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in ("disk", "net")]
    asked = wish(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    place = room([node("a", labels={"disk": "ssd"}), node("b", labels={"net": "fast"}), node("c")])
    assert names(filter_nodes(place, asked), place) == ["a", "b"]
    assert [matches_node(item, asked) for item in place.nodes] == [True, True, False]


def test_one_term_of_a_volume_is_enough():
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in ("rack", "zone")]
    nodes = [node("a", labels={"rack": "1"}), node("b", labels={"zone": "1"}), node("c")]
    place = bound(Volume(node_terms({"nodeSelectorTerms": terms}), {}, None, "h"), nodes=nodes)
    assert names(filter_nodes(place, wish(volumes=mount("c0"))), place) == ["a", "b"]


def test_one_closed_domain_is_enough_to_block_a_node():
    rules = [{"labelSelector": {"matchLabels": {"app": "p"}}, "topologyKey": key} for key in ("zone", "rack")]
    nodes = [
        node("a", labels={"zone": "x", "rack": "1"}),
        node("same-zone", labels={"zone": "x", "rack": "2"}),
        node("same-rack", labels={"zone": "y", "rack": "1"}),
        node("away", labels={"zone": "y", "rack": "2"}),
    ]
    place = room(nodes, [pod("p", on="a", labels={"app": "p"})])
    found = filter_nodes(place, wish(affinity={"podAntiAffinity": {REQUIRED: rules}}))
    assert names(found, place) == ["away"]


def test_one_port_that_is_taken_is_enough_to_drop_a_node():
    def ports(*numbers):
        return [{"name": "c", "ports": [{"hostPort": number} for number in numbers]}]

    place = room([node("a"), node("b")], [pod("p", on="a", containers=ports(80, 81))])
    found = filter_nodes(place, wish(containers=ports(81, 82)))
    assert names(found, place) == ["b"]
    assert found.dropped == {"host_ports": 1}


def test_a_podset_does_not_compete_with_itself():
    """Its own volumes are counted together where its nodes are filtered."""
    volumes = [Volume(None, {}, "d", "h0"), Volume(None, {}, "d", "h1")]
    place = bound(*volumes, limits={"a": {"d": 1}}, nodes=[node("a")])
    assert rival_volumes(place, [wish(volumes=mount("c0", "c1")), wish()]) is False
    assert filter_nodes(place, wish(volumes=mount("c0", "c1"))).dropped == {"volume_limit": 1}
