# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceQuota and LimitRange as admission judges them."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import read_constraints
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import NamespaceRules, Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import NANO
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import (
    judge_namespace,
    quota_use,
)
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job


def quota(hard, used=None, **spec):
    """A ResourceQuota."""
    status = {"hard": hard, "used": used or {}}
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": status}


def limit_range(**item):
    """A LimitRange with one entry."""
    return {"metadata": {"name": "l"}, "spec": {"limits": [item]}}


def ask(wanted, quotas=(), limit_ranges=(), taken=None):
    """The namespace's answer."""
    pairs = [(podset, read_constraints(podset.template, wanted.namespace)) for podset in wanted.podsets]
    rules = {wanted.namespace: NamespaceRules(tuple(quotas), tuple(limit_ranges))}
    return judge_namespace(wanted, pairs, Snapshot(rules=rules), taken or {})


def sized(requests, limits=None, count=2, **spec):
    """A gang of pods of this size."""
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    return gang(job("j", count, containers=[{"name": "c", "image": "i", "resources": resources}], **spec))


@pytest.mark.parametrize(
    ("resource", "hard", "used", "short"),
    [
        ("cpu", "4", "2", 0),
        ("requests.cpu", "4", "2500m", NANO // 2),
        ("limits.cpu", "8", "5", NANO),
        ("memory", "2Gi", "1Gi", 2**30 * NANO),
        ("pods", "3", "2", NANO),
        ("count/pods", "3", "1", 0),
        ("requests.nvidia.com/gpu", "3", "2", NANO),
        ("ephemeral-storage", "1G", "0", NANO),
        ("requests.ephemeral-storage", "1000000001", "0", 0),
        ("limits.ephemeral-storage", "4G", "1", NANO),
        ("hugepages-2Mi", "7Mi", "0", 2**20 * NANO),
        ("requests.hugepages-2Mi", "8Mi", "0", 0),
    ],
)
def test_amounts_against_a_quota(resource, hard, used, short):
    wanted = sized(
        {
            "cpu": "1",
            "memory": "1Gi",
            "nvidia.com/gpu": "1",
            "hugepages-2Mi": "4Mi",
            "ephemeral-storage": "500000000500m",
        },
        {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi", "ephemeral-storage": "2G"},
    )
    space, _hopeful = ask(wanted, [quota({resource: hard}, {resource: used})])
    assert [line.short for line in space.quotas] == [short]
    assert space.passed is (short == 0)


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "limits.nvidia.com/gpu",
        "limits.hugepages-2Mi",
        "requests.storage",
        "services",
        "count/services",
    ],
)
def test_names_that_count_no_amount_of_a_pod(resource):
    both = {"nvidia.com/gpu": "1", "hugepages-2Mi": "2Mi"}
    wanted = sized(both, both)
    assert ask(wanted, [quota({resource: "0"})])[0].quotas == ()


def test_waits_while_used_up_but_never_when_too_small():
    wanted = sized({"cpu": "1"})
    assert ask(wanted, [quota({"cpu": "2"}, {"cpu": "1"})])[1]
    assert not ask(wanted, [quota({"cpu": "1"})])[1]


def test_gangs_before_this_one_count():
    wanted = sized({"cpu": "1"})
    space, _hopeful = ask(wanted, [quota({"cpu": "3"})])
    used = quota_use(wanted, space)
    assert used == {("default", "q", "cpu"): 2 * NANO}
    assert not ask(wanted, [quota({"cpu": "3"})], taken=used)[0].passed


def test_a_quota_without_status_counts_from_its_specification():
    bare = {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "1"}}, "status": None}
    assert ask(sized({"cpu": "1"}), [bare])[0].quotas[0].short == NANO


@pytest.mark.parametrize(("resource", "refused"), [("cpu", True), ("limits.memory", True), ("pods", False)])
def test_a_quota_wants_amounts_stated(resource, refused):
    space, hopeful = ask(sized({}), [quota({resource: "99Gi" if "memory" in resource else "99"})])
    assert space.passed is not refused
    assert hopeful is not refused
    assert [resource in text for text in space.problems] == ([True] if refused else [])


def test_amounts_stated_for_the_pod_as_a_whole_suffice():
    wanted = sized({}, resources={"requests": {"cpu": "1"}})
    assert ask(wanted, [quota({"cpu": "9"})])[0].passed


@pytest.mark.parametrize(
    ("scope", "spec", "inside"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, True),
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["BestEffort"]}, {}, False),
        ({"scopes": ["NotBestEffort"]}, {}, True),
        ({"scopes": ["SomethingNew"]}, {}, False),
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, True),
        ({"scopes": ["PriorityClass"]}, {}, False),
        ({"scopes": None, "scopeSelector": None}, {}, True),
    ],
)
def test_scopes(scope, spec, inside):
    space, _hopeful = ask(sized({"cpu": "1"}, **spec), [quota({"cpu": "0"}, **scope)])
    assert space.passed is not inside


@pytest.mark.parametrize(
    ("operator", "values", "name", "inside"),
    [
        ("In", ["high"], "high", True),
        ("In", ["high"], None, False),
        ("NotIn", ["high"], "low", True),
        ("NotIn", ["high"], None, True),
        ("NotIn", ["high"], "high", False),
        ("Exists", None, "low", True),
        ("DoesNotExist", None, None, True),
        ("DoesNotExist", None, "low", False),
    ],
)
def test_priority_class_scope(operator, values, name, inside):
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}
    wanted = sized({"cpu": "1"}, **({"priorityClassName": name} if name else {}))
    assert ask(wanted, [quota({"cpu": "0"}, scopeSelector=scope)])[0].passed is not inside


@pytest.mark.parametrize(
    ("extra", "inside"), [({}, False), ({"namespaces": ["other"]}, True), ({"namespaceSelector": {}}, True)]
)
def test_cross_namespace_affinity_scope(extra, inside):
    term = {"labelSelector": {}, "topologyKey": "zone", **extra}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    wanted = sized({"cpu": "1"}, affinity=affinity)
    space, _hopeful = ask(wanted, [quota({"cpu": "0"}, scopes=["CrossNamespacePodAffinity"])])
    assert space.passed is not inside


@pytest.mark.parametrize("kind", ["Container", "Pod"])
@pytest.mark.parametrize(
    ("bounds", "requests", "limits", "words"),
    [
        ({"max": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2"}, None),
        ({"max": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "3"}, "has a limit of 3 for cpu"),
        ({"max": {"cpu": "2"}}, {"cpu": "1"}, None, "has no limit for cpu"),
        ({"min": {"cpu": "2"}}, {"cpu": "2"}, None, None),
        ({"min": {"cpu": "2"}}, {"cpu": "1"}, None, "requests 1 of cpu"),
        ({"min": {"memory": "1Gi"}}, {"cpu": "1"}, None, "requests nothing of memory"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2"}, None),
        ({"maxLimitRequestRatio": {"cpu": "1500m"}}, {"cpu": "1"}, {"cpu": "2"}, "more than 1500m times"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, None, "needs a request and a limit for cpu"),
    ],
)
def test_limit_ranges(kind, bounds, requests, limits, words):
    space, hopeful = ask(sized(requests, limits), limit_ranges=[limit_range(type=kind, **bounds)])
    assert space.passed is (words is None)
    assert hopeful is (words is None)
    assert [words in text and text.startswith("LimitRange l: ") for text in space.problems] == [True] * bool(words)


def test_limits_of_claims_are_no_business_of_pods():
    assert ask(sized({"cpu": "1"}), limit_ranges=[limit_range(type="PersistentVolumeClaim", max={"storage": "1"})])[
        0
    ].passed


def test_init_containers_are_held_to_limits_too():
    init = [{"name": "setup", "image": "i", "resources": {"requests": {"cpu": "5"}, "limits": {"cpu": "5"}}}]
    wanted = sized({"cpu": "1"}, {"cpu": "1"}, initContainers=init)
    space, _hopeful = ask(wanted, limit_ranges=[limit_range(type="Container", max={"cpu": "2"})])
    assert ["container setup of j" in text for text in space.problems] == [True]


@pytest.mark.parametrize(("cpu", "passed"), [("1", True), ("3", False)])
def test_a_declared_size_is_held_to_the_pod_limits_it_states(cpu, passed):
    podsets = declared_podsets([{"count": 1, "requests": {"cpu": cpu}}], namespace="default")
    wanted = Gang("g", "default", tuple(podsets))
    assert ask(wanted, limit_ranges=[limit_range(type="Pod", max={"cpu": "2"})])[0].passed is passed


def test_empty_rules_pass():
    nulls = {"metadata": {"name": "l"}, "spec": {"limits": None}}
    space, hopeful = ask(sized({"cpu": "1"}), [{"metadata": {"name": "q"}, "spec": None}], [nulls])
    assert (space.passed, hopeful, space.quotas) == (True, True, ())
