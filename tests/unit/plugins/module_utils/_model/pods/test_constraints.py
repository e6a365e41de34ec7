# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Constraints: what is read from a pod template, with the API's defaults for what is missing or null."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import (
    DEFAULT_TOLERATIONS,
    HostPort,
    Taint,
    Toleration,
    placement_fields,
    read_claims,
    read_constraints,
    read_host_ports,
    read_pod_terms,
    read_taints,
    read_tolerations,
)
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def wish(spec=None, labels=None):
    """The constraints of a pod spec."""
    return read_constraints({"metadata": {"labels": labels}, "spec": spec}, "team")


@pytest.mark.parametrize("template", [{}, {"metadata": None, "spec": None}, {"spec": {}}])
def test_an_empty_template_asks_for_nothing(template):
    read = read_constraints(template, "team")
    assert (read.node_name, read.node_terms, dict(read.node_selector), dict(read.labels)) == (None, None, {}, {})
    assert (read.affinity, read.anti_affinity, read.spreads, read.host_ports, read.claims) == ((), (), (), (), ())
    assert (read.scheduler, read.gates, read.new_claims, read.device_claims) == ("default-scheduler", (), False, False)
    assert (read.runtime_class, read.priority_class, read.priority, read.preempts) == (None, None, None, True)
    assert read.tolerations == DEFAULT_TOLERATIONS


def test_fields_that_are_null_are_as_good_as_missing():
    names = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "volumes", "containers")
    nulls = wish(dict.fromkeys((*names, "initContainers", "schedulingGates", "nodeName", "resourceClaims")))
    assert nulls == wish({})


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (("k", "Equal", "v", "NoSchedule"), ("k", "v", "NoSchedule"), True),
        (("k", "", "v", ""), ("k", "v", "NoExecute"), True),
        (("k", "Equal", "w", ""), ("k", "v", "NoSchedule"), False),
        (("k", "Exists", "", "NoExecute"), ("k", "v", "NoSchedule"), False),
        (("k", "Exists", "", ""), ("other", "v", "NoSchedule"), False),
        (("", "Exists", "", ""), ("anything", "v", "NoSchedule"), True),
        (("", "Equal", "", ""), ("k", "", "NoSchedule"), False),
        (("k", "Gt", "1", ""), ("k", "2", "NoSchedule"), False),
    ],
)
def test_tolerations(toleration, taint, expected):
    key, value, effect = taint
    assert Toleration(*toleration).tolerates(Taint(key, effect, value)) is expected


def test_taints_without_value_or_effect():
    assert read_taints([{"key": "a", "effect": "NoSchedule"}, {"key": "b"}]) == (
        Taint("a", "NoSchedule"),
        Taint("b", ""),
    )
    assert read_taints(None) == ()


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (("TCP", "0.0.0.0", 80), ("TCP", "10.0.0.1", 80), True),
        (("TCP", "10.0.0.1", 80), ("TCP", "10.0.0.1", 80), True),
        (("TCP", "10.0.0.1", 80), ("TCP", "10.0.0.2", 80), False),
        (("TCP", "0.0.0.0", 80), ("UDP", "0.0.0.0", 80), False),
        (("TCP", "0.0.0.0", 80), ("TCP", "0.0.0.0", 81), False),
    ],
)
def test_host_ports_conflict(one, two, expected):
    assert HostPort(*one).conflicts(HostPort(*two)) is expected
    assert HostPort(*two).conflicts(HostPort(*one)) is expected


def test_host_ports_of_containers_and_sidecars_but_not_of_passing_init_containers():
    spec = {
        "containers": [{"ports": [{"containerPort": 1, "hostPort": 10}, {"containerPort": 2}]}, {"ports": None}],
        "initContainers": [
            {"restartPolicy": "Always", "ports": [{"containerPort": 3, "hostPort": 30, "protocol": "UDP"}]},
            {"ports": [{"containerPort": 4, "hostPort": 40}]},
        ],
    }
    assert read_host_ports(spec) == (HostPort("TCP", "0.0.0.0", 10), HostPort("UDP", "0.0.0.0", 30))
    on_host = read_host_ports({**spec, "hostNetwork": True})
    assert [port.port for port in on_host] == [10, 2, 30]


def test_claims_and_new_claims():
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "persistentVolumeClaim": None, "ephemeral": None},
    ]
    assert read_claims({"volumes": volumes}) == ("data",)
    assert not wish({"volumes": volumes}).new_claims
    assert wish({"volumes": [{"name": "s", "ephemeral": {"volumeClaimTemplate": {}}}]}).new_claims


def test_a_term_speaks_of_its_own_namespace_unless_told_otherwise():
    selector = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    own, listed, chosen, every, nobody = read_pod_terms(
        {
            REQUIRED: [
                selector,
                {**selector, "namespaces": ["other"]},
                {**selector, "namespaceSelector": {"matchLabels": {"kind": "ai"}}},
                {**selector, "namespaceSelector": {}},
                {"topologyKey": "zone"},
            ]
        },
        "team",
        {},
    )
    assert own.matches("team", {"app": "x"}, {})
    assert not own.matches("other", {"app": "x"}, {})
    assert not own.matches("team", {"app": "y"}, {})
    assert listed.matches("other", {"app": "x"}, {})
    assert not listed.matches("team", {"app": "x"}, {})
    assert chosen.matches("team", {"app": "x"}, {"kind": "ai"})
    assert not chosen.matches("team", {"app": "x"}, {})
    assert every.matches("any", {"app": "x"}, {})
    assert not nobody.matches("team", {"app": "x"}, {})


def test_label_keys_take_their_values_from_the_pod():
    item = {
        "labelSelector": {},
        "topologyKey": "zone",
        "matchLabelKeys": ["job", "missing"],
        "mismatchLabelKeys": ["tenant"],
    }
    (term,) = read_pod_terms({REQUIRED: [item]}, "team", {"job": "one", "tenant": "me"})
    assert term.matches("team", {"job": "one", "tenant": "you"}, {})
    assert not term.matches("team", {"job": "two", "tenant": "you"}, {})
    assert not term.matches("team", {"job": "one", "tenant": "me"}, {})


def test_spread_defaults_and_nulls():
    given = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3}
    nulls = {"topologyKey": "zone", "nodeAffinityPolicy": None, "nodeTaintsPolicy": None, "whenUnsatisfiable": None}
    soft = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    policies = {"topologyKey": "zone", "maxSkew": 1, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    first, second, third = wish({"topologySpreadConstraints": [given, nulls, soft, policies]}).spreads
    assert (first.max_skew, first.min_domains, first.selector) == (2, 3, None)
    assert (first.honor_affinity, first.honor_taints) == (True, False)
    assert (second.max_skew, second.min_domains, second.honor_affinity, second.honor_taints) == (1, 1, True, False)
    assert (third.honor_affinity, third.honor_taints) == (False, True)


def test_the_rest_is_read_as_it_is():
    read = wish(
        {
            "nodeName": "n1",
            "nodeSelector": {"rank": 5},
            "schedulerName": "volcano",
            "schedulingGates": [{"name": "hold"}],
            "runtimeClassName": "kata",
            "priorityClassName": "high",
            "priority": 7,
            "preemptionPolicy": "Never",
            "resourceClaims": [{"name": "gpu"}],
            "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": []}]}}},
        },
        labels={"n": 1},
    )
    assert (read.node_name, dict(read.node_selector), dict(read.labels)) == ("n1", {"rank": "5"}, {"n": "1"})
    assert (read.scheduler, read.gates, read.runtime_class) == ("volcano", ("hold",), "kata")
    assert (read.priority_class, read.priority, read.preempts, read.device_claims) == ("high", 7, False, True)
    assert len(read.node_terms) == 1


TERM = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone", "matchLabelKeys": ["run"]}
NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["2"]}]}]}
LIKES = {PREFERRED: [{"weight": 1}]}
SIDECAR = {"restartPolicy": "Always", "ports": [{"hostPort": 7, "hostIP": "::1"}]}
VOLUMES = [{"emptyDir": {}}, {"ephemeral": {}}, {"persistentVolumeClaim": {"claimName": "c"}}]
# Fields of a pod spec in the ways people write them; with each of them goes what decides nothing.
FIELDS = {
    "nodeName": st.sampled_from([None, "", "n1"]),
    "nodeSelector": st.sampled_from([None, {}, {"disk": "ssd", "rank": 3}]),
    "affinity": st.fixed_dictionaries(
        {},
        optional={
            "nodeAffinity": st.sampled_from([None, {}, {REQUIRED: {}}, {REQUIRED: NODES}, LIKES]),
            "podAffinity": st.sampled_from([None, {REQUIRED: []}, {REQUIRED: [TERM]}, LIKES]),
            "podAntiAffinity": st.sampled_from([{}, {REQUIRED: [TERM, {**TERM, "namespaces": ["n"]}]}]),
        },
    ),
    "tolerations": st.lists(
        st.sampled_from([{}, {"operator": "Exists"}, {"key": "k", "value": "v", "tolerationSeconds": 5}]), max_size=2
    ),
    "hostNetwork": st.sampled_from([None, False, True]),
    "containers": st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from("ab"), "args": st.lists(st.text(max_size=2), max_size=2)},
            optional={"ports": st.sampled_from([None, [{"containerPort": 80}], [{"hostPort": 5, "protocol": "UDP"}]])},
        ),
        max_size=2,
    ),
    "initContainers": st.sampled_from([None, [SIDECAR]]),
    "topologySpreadConstraints": st.lists(
        st.sampled_from(
            [
                {"topologyKey": "zone", "maxSkew": 2, "matchLabelKeys": ["run"], "labelSelector": {}},
                {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
                {"topologyKey": "host", "minDomains": 3, "nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore"},
            ]
        ),
        max_size=2,
    ),
    "volumes": st.lists(st.sampled_from(VOLUMES), max_size=3),
    "resourceClaims": st.sampled_from([None, [], [{"name": "gpu", "resourceClaimName": "g"}]]),
    "schedulerName": st.sampled_from([None, "", "default-scheduler", "another"]),
    "schedulingGates": st.sampled_from([None, [{"name": "gate"}]]),
    "runtimeClassName": st.sampled_from([None, "heavy"]),
    "priorityClassName": st.sampled_from([None, "", "high"]),
    "priority": st.sampled_from([None, 0, 5]),
    "preemptionPolicy": st.sampled_from([None, "PreemptLowerPriority", "Never"]),
}


@settings(max_examples=examples(300))
@given(st.fixed_dictionaries({}, optional=FIELDS))
def test_placement_fields_read_as_the_whole_template_does(spec):
    labels = {"app": "x", "run": "7"}
    fields = placement_fields({"spec": spec})
    assert wish(json.loads(json.dumps(fields)), labels) == wish(spec, labels)
    assert placement_fields({"spec": fields}) == fields


def test_placement_fields_leave_out_what_pods_run():
    container = {"name": "main", "image": "x", "args": ["7"], "env": [], "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "containers": [container],
        "restartPolicy": "Never",
        "serviceAccountName": "me",
        "schedulerName": "default-scheduler",
        "volumes": [{"name": "v", "emptyDir": {}}],
        "affinity": {"podAffinity": LIKES},
    }
    assert placement_fields({"spec": spec}) == {}
    assert placement_fields({}) == {}


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ({}, ("", "", "", "")),
        (dict.fromkeys(("key", "operator", "value", "effect")), ("", "", "", "")),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}, ("k", "Equal", "v", "NoExecute")),
        ({"key": "k", "value": "v"}, ("k", "", "v", "")),
        ({"operator": "Exists", "effect": "NoSchedule"}, ("", "Exists", "", "NoSchedule")),
    ],
)
def test_tolerations_are_read_part_by_part(raw, read):
    assert read_tolerations([raw]) == (Toleration(*read),)
    assert read_tolerations(None) == ()


@pytest.mark.parametrize(
    ("raw", "read"),
    [({"key": "k"}, ("k", "", "")), ({"key": "k", "value": "v", "effect": "NoExecute"}, ("k", "NoExecute", "v"))],
)
def test_taints_are_read_part_by_part(raw, read):
    assert read_taints([raw]) == (Taint(*read),)
