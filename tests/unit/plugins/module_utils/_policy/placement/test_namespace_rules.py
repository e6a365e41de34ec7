# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceQuota and LimitRange as admission judges them."""

from __future__ import annotations

import collections
import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import made_of
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NamespaceFit
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import read_constraints
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets, infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    NamespaceRules,
    Snapshot,
    Storage,
    VolumeClaim,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    NANO,
    format_quantity,
    parse_quantity,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import (
    judge_namespace,
    quota_use,
)
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st


def quota(hard, used=None, **spec):
    """A ResourceQuota."""
    status = {"hard": hard, "used": used or {}}
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": status}


def limit_range(**item):
    """A LimitRange with one entry."""
    return {"metadata": {"name": "l"}, "spec": {"limits": [item]}}


def ask(wanted, quotas=(), limit_ranges=(), taken=None, **snapshot):
    """The namespace's answer."""
    pairs = [(podset, read_constraints(podset.template, wanted.namespace)) for podset in wanted.podsets]
    rules = {wanted.namespace: NamespaceRules(tuple(quotas), tuple(limit_ranges))}
    return judge_namespace(wanted, pairs, Snapshot(rules=rules, **snapshot), taken or {})


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


def test_a_pod_that_states_anything_for_the_whole_need_not_state_more():
    wanted = sized({}, resources={"requests": {"memory": "1Gi"}})
    assert ask(wanted, [quota({"cpu": "9", "limits.memory": "9Gi"})])[0].passed


def test_whoever_does_not_state_an_amount_is_named():
    init = [{"name": "setup", "image": "i"}]
    space, _hopeful = ask(sized({"cpu": "1"}, initContainers=init), [quota({"requests.cpu": "9", "limits.cpu": "9"})])
    assert space.problems == (
        "ResourceQuota q wants limits.cpu stated by each container of j, but not by c, setup",
        "ResourceQuota q wants requests.cpu stated by each container of j, but not by setup",
    )


def test_quotas_in_force_decide_what_has_to_be_stated():
    """The server goes by the status: a change of the specification takes effect a moment later."""
    status = {"hard": {"pods": "9"}, "used": {}}
    changing = {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "9"}}, "status": status}
    space, _hopeful = ask(sized({}), [changing])
    assert (space.problems, [line.resource for line in space.quotas]) == ((), ["pods"])


def test_podsets_without_pods_are_refused_by_nobody():
    rules = {"quotas": [quota({"cpu": "0", "pods": "0"})], "limit_ranges": [limit_range(type="Pod", max={"cpu": "1"})]}
    assert ask(sized({}, count=0), **rules) == (NamespaceFit(True), True)


@pytest.mark.parametrize(
    ("scope", "spec", "inside"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, True),
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["BestEffort"]}, {}, False),
        ({"scopes": ["NotBestEffort"]}, {}, True),
        ({"scopes": ["SomethingNew"]}, {}, False),
        ({"scopes": ["VolumeAttributesClass"]}, {}, False),
        ({"scopes": ["NotTerminating", "NotBestEffort"]}, {}, True),
        ({"scopes": ["NotTerminating", "BestEffort"]}, {}, False),
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


@pytest.mark.parametrize(("named", "inside"), [(None, True), ("low", False)])
def test_pods_without_a_priority_class_get_the_default_one(named, inside):
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["usual"]}]}
    wanted = sized({"cpu": "1"}, **({"priorityClassName": named} if named else {}))
    space, _hopeful = ask(wanted, [quota({"cpu": "0"}, scopeSelector=scope)], default_priority_class="usual")
    assert space.passed is not inside


@pytest.mark.parametrize(
    ("extra", "inside"),
    [
        ({}, False),
        ({"namespaces": ["default"]}, True),
        ({"namespaces": ["a"]}, True),
        ({"namespaceSelector": {}}, True),
    ],
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


def thing(kind, name="x", **spec):
    """An object of the core API."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def claim(name="x", storage="1Gi", **spec):
    """A PersistentVolumeClaim."""
    return thing("PersistentVolumeClaim", name, resources={"requests": {"storage": storage}}, **spec)


def making(*objects, pods=1):
    """A gang of so many pods of one cpu and these objects."""
    one = sized({"cpu": "1"}, count=pods)
    return dataclasses.replace(one, made=made_of([job("j", pods), *objects]))


def told(space):
    """Resource by resource what is asked for, as a result tells it."""
    return {line.resource: line.as_dict()["requested"] for line in space.quotas}


@pytest.mark.parametrize(
    ("objects", "resource", "asked"),
    [
        ([], "configmaps", "1"),
        ([], "count/configmaps", "1"),
        ([thing("ConfigMap")], "configmaps", "2"),
        ([thing("Secret"), thing("Secret", "y")], "secrets", "2"),
        ([thing("Service", type="NodePort", ports=[{}, {}])], "services.nodeports", "2"),
        ([thing("Service", type="LoadBalancer")], "services.loadbalancers", "1"),
        ([], "count/jobs.batch", "1"),
        ([claim(), claim("y", "512Mi")], "persistentvolumeclaims", "2"),
        ([claim()], "count/persistentvolumeclaims", "1"),
        ([claim(), claim("y", "512Mi")], "requests.storage", "1536Mi"),
        ([claim(storage="1500m")], "requests.storage", "2"),
        ([claim(storageClassName="fast")], "fast.storageclass.storage.k8s.io/requests.storage", "1Gi"),
        ([claim(storageClassName="fast")], "fast.storageclass.storage.k8s.io/persistentvolumeclaims", "1"),
        ([claim()], "usual.storageclass.storage.k8s.io/requests.storage", "1Gi"),
    ],
)
def test_objects_and_storage_against_a_quota(objects, resource, asked):
    storage = Storage(default_class="usual")
    space, _hopeful = ask(making(*objects), [quota({resource: "9Ti"})], storage=storage)
    assert told(space) == {resource: asked}
    amount = parse_quantity(asked)
    enough, less = (quota({resource: format_quantity(size)}, {resource: "1"}) for size in (amount + NANO, amount))
    assert ask(making(*objects), [enough], storage=storage)[0].passed
    space, hopeful = ask(making(*objects), [less], storage=storage)
    assert ([line.short for line in space.quotas], space.passed, hopeful) == ([NANO], False, True)
    assert not ask(making(*objects), [quota({resource: format_quantity(amount - NANO)})], storage=storage)[1]


@pytest.mark.parametrize("resource", ["usual", "fast", "", "None"])
def test_claims_of_no_class_count_for_none(resource):
    name = f"{resource}.storageclass.storage.k8s.io/persistentvolumeclaims"
    storage = Storage(default_class="usual")
    assert told(ask(making(claim(storageClassName="")), [quota({name: "9"})], storage=storage)[0]) == {}
    assert told(ask(making(claim()), [quota({name: "9"})])[0]) == {}


@pytest.mark.parametrize("scope", ["NotBestEffort", "NotTerminating", "VolumeAttributesClass"])
def test_scopes_are_about_no_other_objects(scope):
    objects = (thing("Secret"), thing("Service"))
    assert told(ask(making(*objects), [quota({"secrets": "9", "services": "9"}, scopes=[scope])])[0]) == {}


@pytest.mark.parametrize(
    ("operator", "values", "name", "inside"),
    [
        ("In", ["gold"], "gold", True),
        ("In", ["gold"], None, False),
        ("NotIn", ["gold"], "gold", False),
        ("NotIn", ["gold"], None, True),
        ("Exists", None, "gold", True),
        ("Exists", None, None, False),
        ("DoesNotExist", None, None, True),
        ("DoesNotExist", None, "gold", False),
    ],
)
def test_volume_attributes_class_scope(operator, values, name, inside):
    scope = {"matchExpressions": [{"scopeName": "VolumeAttributesClass", "operator": operator, "values": values}]}
    wanted = making(claim(**({"volumeAttributesClassName": name} if name else {})))
    space, _hopeful = ask(wanted, [quota({"requests.storage": "9Gi", "pods": "9"}, scopeSelector=scope)])
    assert told(space) == ({"requests.storage": "1Gi"} if inside else {})


def test_claims_that_exist_are_not_made_again():
    there = VolumeClaim(None, None, False)
    storage = Storage(claims={("default", "x"): there, ("other", "y"): there})
    wanted = making(claim(), claim("y"))
    space, _hopeful = ask(wanted, [quota({"persistentvolumeclaims": "9"})], storage=storage)
    assert told(space) == {"persistentvolumeclaims": "1"}
    bound = [limit_range(type="PersistentVolumeClaim", max={"storage": "1"})]
    assert ["PersistentVolumeClaim y" in text for text in ask(wanted, (), bound, storage=storage)[0].problems] == [True]


def test_claims_nobody_may_see_are_taken_to_be_there_after_the_first_attempt():
    unseen = {"unread": frozenset({"persistentvolumeclaims"})}
    wanted, limits = making(claim()), [quota({"persistentvolumeclaims": "9"})]
    again = dataclasses.replace(wanted, made=wanted.made.once_more())
    assert told(ask(wanted, limits, **unseen)[0]) == told(ask(again, limits)[0]) == {"persistentvolumeclaims": "1"}
    assert told(ask(again, limits, **unseen)[0]) == {}


def test_ephemeral_volumes_make_a_claim_for_each_pod():
    template = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    wanted = sized({"cpu": "1"}, count=3, volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}])
    space, _hopeful = ask(wanted, [quota({"requests.storage": "9Gi", "persistentvolumeclaims": "9"})])
    assert told(space) == {"requests.storage": "3Gi", "persistentvolumeclaims": "3"}
    space, _hopeful = ask(wanted, limit_ranges=[limit_range(type="PersistentVolumeClaim", max={"storage": "1"})])
    assert len(space.problems) == 1


@pytest.mark.parametrize(
    ("bounds", "storage", "words"),
    [
        ({"min": {"storage": "1Gi"}}, "1Gi", None),
        ({"min": {"storage": "1Gi"}}, "1073741823", "requests 1073741823 of storage, the minimum is 1Gi"),
        ({"max": {"storage": "1Gi"}}, "1Gi", None),
        ({"max": {"storage": "1Gi"}}, "1073741825", "requests 1073741825 of storage, the maximum is 1Gi"),
        ({"max": {"gold": "1"}}, "1Gi", "requests nothing of gold, the maximum is 1"),
        ({"min": {"gold": "1"}}, "1Gi", "requests nothing of gold, the minimum is 1"),
    ],
)
def test_bounds_of_claims(bounds, storage, words):
    item = limit_range(type="PersistentVolumeClaim", **bounds)
    space, hopeful = ask(making(claim(storage=storage)), limit_ranges=[item])
    expected = (f"LimitRange l: PersistentVolumeClaim x {words}",) if words else ()
    assert (space.problems, space.passed, hopeful) == (expected, not words, not words)


def test_a_request_without_a_limit_is_held_to_the_pods_maximum_too():
    """Limits add up over those containers that have one."""
    containers = [
        {"name": "a", "image": "i", "resources": {"requests": {"cpu": "3"}}},
        {"name": "b", "image": "i", "resources": {"limits": {"cpu": "1"}}},
    ]
    wanted = gang(job("j", 1, containers=containers))
    space, _hopeful = ask(wanted, limit_ranges=[limit_range(type="Pod", max={"cpu": "2"})])
    assert space.problems == ("LimitRange l: a pod of j requests 4 of cpu, the maximum is 2",)
    assert ask(wanted, limit_ranges=[limit_range(type="Pod", max={"cpu": "4"})])[0].passed
    space, _hopeful = ask(wanted, limit_ranges=[limit_range(type="Pod", min={"cpu": "2"})])
    assert space.problems == ("LimitRange l: a pod of j has a limit of 1 for cpu, the minimum is 2",)


def test_overhead_is_none_of_a_limit_ranges_business():
    wanted = sized({"cpu": "1"}, {"cpu": "1"}, overhead={"cpu": "5"})
    assert ask(wanted, limit_ranges=[limit_range(type="Pod", max={"cpu": "1"})])[0].passed
    assert told(ask(wanted, [quota({"cpu": "99", "limits.cpu": "99"})])[0]) == {"cpu": "12", "limits.cpu": "12"}


def test_a_default_limit_below_a_request_makes_pods_invalid():
    item = {"type": "Container", "default": {"cpu": "1"}}
    podsets = infer_podsets(
        [job("j", 1, containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}])],
        namespace="default",
        limit_ranges=[{"limits": [item]}],
    )
    space, hopeful = ask(Gang("g", "default", tuple(podsets)), limit_ranges=[limit_range(**item)])
    assert space.problems == (
        "LimitRange l: with its defaults container c requests more cpu than its limit in a pod of j",
    )
    assert not hopeful


AMOUNTS = st.integers(0, 3000).map(lambda number: f"{number}m")
SIZES = st.fixed_dictionaries({"cpu": AMOUNTS, "memory": st.sampled_from(("1", "0.1Ki", "500m", "1Gi", "3M"))})
RESOURCES = (
    *("pods", "count/pods", "cpu", "requests.memory", "limits.memory"),
    *("secrets", "requests.storage", "configmaps"),
)


@settings(max_examples=examples(60), deadline=None)
@given(
    pods=st.lists(st.tuples(SIZES, st.integers(0, 4)), min_size=1, max_size=4),
    secrets=st.integers(0, 3),
    claims=st.lists(st.sampled_from(("1Gi", "1500m", "0.3Gi")), max_size=3),
    used=st.lists(st.integers(0, 5), min_size=len(RESOURCES), max_size=len(RESOURCES)),
    spare=st.integers(-2, 2),
)
def test_a_gang_counts_what_its_parts_count_one_after_the_other(pods, secrets, claims, used, spare):
    """Whole or piece by piece, in whatever order: the same amounts, and a limit binds at exactly one unit less."""
    jobs = [job(f"j{i}", count, containers=[_container(size)]) for i, (size, count) in enumerate(pods)]
    objects = [thing("Secret", f"s{i}") for i in range(secrets)]
    objects += [claim(f"c{i}", size) for i, size in enumerate(claims)]
    present = {name: str(number) for name, number in zip(RESOURCES, used, strict=True)}
    plenty = [quota(dict.fromkeys(RESOURCES, "7Ei"), present)]
    whole = dataclasses.replace(gang(*jobs), made=made_of([*jobs, *objects]))
    space, _hopeful = ask(whole, plenty)
    taken = {}
    for part in reversed(_parts(jobs, objects)):
        said, _hopeful = ask(part, plenty, taken=taken)
        for key, amount in quota_use(part, said).items():
            taken[key] = taken.get(key, 0) + amount
    assert quota_use(whole, space) == taken
    for line in space.quotas:
        hard = max(0, line.used + line.requested + spare * NANO)
        after, hopeful = ask(whole, [quota({line.resource: format_quantity(hard)}, present)])
        missing = max(0, line.used + line.requested - hard)
        assert [item.short for item in after.quotas] == [missing]
        assert (after.passed, hopeful) == (not missing, line.requested <= hard)


def _container(size):
    """A container that states all."""
    return {"name": "c", "image": "i", "resources": {"requests": size, "limits": size}}


def _parts(jobs, objects):
    """A gang of each pod, of each object, and of the ticket."""
    names = [item["metadata"]["name"] for item in jobs for _pod in range(gang(item).podsets[0].count)]
    by_name = {item["metadata"]["name"]: gang(item) for item in jobs}
    pods = [by_name[name].resized({name: 1}) for name in names]
    nothing = Gang("g", "default", ())
    ticket = collections.Counter(dict(made_of([thing("Pod")]).counts))
    made = []
    for item in objects:
        one = made_of([item])
        counts = collections.Counter(dict(one.counts)) - ticket
        made.append(dataclasses.replace(nothing, made=dataclasses.replace(one, counts=tuple(counts.items()))))
    return [*pods, *made, dataclasses.replace(nothing, made=made_of([thing("Pod")]))]
