# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AppWrappers as gangs and gangs as AppWrappers: pods, rules and words, and what each cannot say."""

from __future__ import annotations

import copy
import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import (
    MANAGED_LABEL,
    SUSPENDED_ANNOTATION,
    WRAPPER_API,
    spec_of_wrapper,
    wrap,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import Requeue, digest, read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import PODSET_LABEL, plan_objects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets, total_demand
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(50))


def template(cpu="1", **spec):
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **spec}}


def job(name="train", parallelism=2, **spec):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": parallelism, "template": template(**spec)},
    }


def config(name="settings"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}}


def ray(name="ray", **spec):
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": template(**spec)},
            "workerGroupSpecs": [{"groupName": "small", "replicas": 1, "rayStartParams": {}, "template": template()}],
        },
    }


def gizmo(name="gizmo"):
    return {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": name}}


def pods(replicas, limits=None, **requests):
    entry = {"replicas": replicas, "requests": requests}
    return {**entry, "limits": limits} if limits is not None else entry


def item(obj, *declared, **fields):
    return {"generictemplate": obj, **({"custompodresources": list(declared)} if declared else {}), **fields}


def wrapper(*items, labels=None, annotations=None, **spec):
    metadata = {"name": "aw", "namespace": "team", "labels": labels or {}, "annotations": annotations or {}}
    resources = {"GenericItems": list(items)}
    return {
        "apiVersion": WRAPPER_API,
        "kind": "AppWrapper",
        "metadata": metadata,
        "spec": {"resources": resources, **spec},
    }


def sizes(spec):
    """Names, counts and requests of a gang's declared podsets."""
    declared = declared_podsets(spec.podsets, namespace=spec.namespace)
    return {p.name: (p.count, {k: v for k, v in p.requests.items() if k != "pods"}) for p in declared}


def test_a_bare_wrapper_is_a_gang_that_never_completes():
    spec = spec_of_wrapper(wrapper(item(config()), item(job(), replicas=7)))
    assert (spec.name, spec.namespace, spec.objects) == ("aw", "team", (config(), job()))
    assert (spec.podsets, spec.completion, spec.min_available, spec.max_run_time) == (None, (), None, None)
    assert (spec.queue, spec.priority, spec.priority_slope, spec.suspended) == (None, 0, 0.0, False)
    assert spec.requeue == Requeue(300, "exponential", None, None, 0)


def test_rules_and_labels_are_read():
    spec = spec_of_wrapper(
        wrapper(
            item(job(), completionstatus="Complete, failed,,Complete"),
            item(job("b"), completionstatus="SUCCEEDED"),
            labels={"muster.kube/queue": "research", MANAGED_LABEL: "true", "app": "x"},
            annotations={SUSPENDED_ANNOTATION: "true"},
            priority=-3,
            priorityslope=0.5,
            schedulingSpec={
                "minAvailable": 2,
                "nodeSelector": {"never": "read"},
                "requeuing": {
                    "timeInSeconds": 60,
                    "growthType": "linear",
                    "maxTimeInSeconds": 90,
                    "maxNumRequeuings": 4,
                },
                "dispatchDuration": {"limit": 600, "expected": 3},
            },
        )
    )
    assert (spec.queue, spec.labels, spec.suspended) == ("research", {"app": "x"}, True)
    assert (spec.priority, spec.priority_slope, spec.min_available, spec.max_run_time) == (-3, 0.5, 2, 600)
    assert spec.requeue == Requeue(60, "linear", 90, 4, 0)
    assert spec.completion == (
        {"item": 0, "contains": "complete"},
        {"item": 0, "contains": "failed"},
        {"item": 1, "contains": "succeeded"},
    )


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, Requeue()),
        ({"growthType": "none"}, Requeue(growth="none")),
        ({"growthType": "quadratic"}, Requeue(growth="none")),
        ({"timeInSeconds": 0}, Requeue(time=0)),
        ({"timeInSeconds": 7, "maxTimeInSeconds": 0, "maxNumRequeuings": 0}, Requeue(time=7)),
    ],
)
def test_zero_means_none_and_unknown_growth_is_none(given, read):
    rules = {"requeuing": given, "minAvailable": 0, "dispatchDuration": {"limit": 0}}
    spec = spec_of_wrapper(wrapper(item(job()), schedulingSpec=rules))
    assert (spec.requeue, spec.min_available, spec.max_run_time) == (read, None, None)


def test_declared_pods_take_limits_for_what_is_missing_or_zero_and_drop_zeros():
    declared = pods(2, {"cpu": "3", "memory": "2G", "nvidia.com/gpu": 0}, cpu="1", memory=0, **{"nvidia.com/gpu": "0"})
    spec = spec_of_wrapper(wrapper(item(gizmo(), declared)))
    assert sizes(spec) == {"gizmo": (2, {"cpu": 1000, "memory": 2_000_000_000})}


def test_the_seed_wrapper_counts_head_and_worker():
    head = pods(1, {"cpu": "1", "memory": "2G"}, cpu="1", memory="2G", **{"nvidia.com/gpu": 0})
    worker = pods(1, {"cpu": "2", "memory": "2G"}, cpu="2", memory="2G", **{"nvidia.com/gpu": 0})
    spec = spec_of_wrapper(wrapper(item(ray(), head, worker)))
    total = total_demand(declared_podsets(spec.podsets, namespace="team"))
    assert total == {"cpu": 3000, "memory": 4_000_000_000, "pods": 2}
    plan = plan_objects(spec, "uid", 1)
    cluster = plan[0].object["spec"]
    groups = [cluster["headGroupSpec"], cluster["workerGroupSpecs"][0]]
    labels = [group["template"]["metadata"]["labels"][PODSET_LABEL] for group in groups]
    assert labels == [name.replace("/", "_") for name in sizes(spec)]


def test_a_declaration_wins_over_the_template_and_keeps_its_constraints():
    constraints = {
        "nodeSelector": {"gpu": "yes"},
        "tolerations": [{"operator": "Exists"}],
        "initContainers": [{"name": "init", "resources": {"requests": {"memory": "5G"}}}],
        "overhead": {"memory": "1G"},
        "resources": {"requests": {"memory": "9G"}},
    }
    spec = spec_of_wrapper(wrapper(item(job(cpu="8", **constraints), pods(3, cpu="550m"))))
    assert sizes(spec) == {"train": (3, {"cpu": 550})}
    read = declared_podsets(spec.podsets, namespace="team")[0].template["spec"]
    assert (read["nodeSelector"], read["tolerations"]) == (constraints["nodeSelector"], constraints["tolerations"])


def test_the_pods_of_items_without_a_declaration_are_counted_too():
    spec = spec_of_wrapper(
        wrapper(
            item(config()),
            item(job(cpu="2", nodeSelector={"a": "b"})),
            item(gizmo(), pods(1, cpu="1"), pods(4, cpu="3")),
        )
    )
    assert sizes(spec) == {
        "train": (2, {"cpu": 2000}),
        "gizmo/0": (1, {"cpu": 1000}),
        "gizmo/1": (4, {"cpu": 3000}),
    }
    assert declared_podsets(spec.podsets, namespace="team")[0].template["spec"]["nodeSelector"] == {"a": "b"}
    assert plan_objects(spec, "uid", 1)[1].object["spec"]["template"]["metadata"]["labels"][PODSET_LABEL] == "train"


def test_names_stay_unique_and_those_of_templates_are_kept():
    spec = spec_of_wrapper(wrapper(item(gizmo("train"), pods(1, cpu="1")), item(job()), item(job(), pods(5, cpu="1"))))
    assert {name: count for name, (count, _requests) in sizes(spec).items()} == {"train-3": 1, "train": 2, "train-2": 5}


def test_pods_that_ask_for_nothing_still_count():
    spec = spec_of_wrapper(wrapper(item(gizmo(), pods(2, cpu=0))))
    assert declared_podsets(spec.podsets, namespace="team")[0].requests == {"pods": 1}


ITEMS = "AppWrapper team/aw: spec.resources.GenericItems"


@pytest.mark.parametrize(
    ("obj", "target", "hint"),
    [
        (wrapper(), ITEMS.replace(".Generic", ": Generic"), "wraps nothing"),
        (wrapper(item(job()), {"replicas": 1}), f"{ITEMS}[1]: generictemplate", "no object"),
        (wrapper(item(None)), f"{ITEMS}[0]: generictemplate", "no object"),
        (wrapper(item({})), f"{ITEMS}[0]: generictemplate", "no object"),
        (wrapper(item(7)), f"{ITEMS}[0]: generictemplate", "mapping"),
        (wrapper("x"), f"{ITEMS}[0]", "mapping"),
        (wrapper(item({**job(), "kind": None})), f"{ITEMS}[0].generictemplate: kind", "missing"),
        (wrapper(item(job(), completionstatus=3)), f"{ITEMS}[0]: completionstatus", "text"),
        (wrapper(item(job(), pods(-1))), f"{ITEMS}[0].custompodresources[0]: replicas", "whole number"),
        (wrapper(item(job(), pods(1, cpu="x"))), f"{ITEMS}[0].custompodresources[0].requests.cpu", "x"),
        (wrapper(item(gizmo()), item(job(), pods(1))), f"{ITEMS}[0]", "declare its pods as custompodresources"),
        (wrapper(item(job()), priority="high"), "AppWrapper team/aw: spec.priority", "whole number"),
        (wrapper(item(job()), priorityslope=-1), "AppWrapper team/aw: spec.priorityslope", "not negative"),
        (
            wrapper(item(job()), schedulingSpec={"minAvailable": "2"}),
            "AppWrapper team/aw: spec.schedulingSpec: minAvailable",
            "whole",
        ),
        ({**wrapper(), "spec": None}, "AppWrapper team/aw: spec", "missing"),
        ({"spec": {}}, "AppWrapper: metadata", "missing"),
    ],
)
def test_complaints_name_the_field_of_the_wrapper(obj, target, hint):
    with pytest.raises(BadInput) as caught:
        spec_of_wrapper(obj)
    assert caught.value.target == target
    assert hint in caught.value.cause


def gang(**changes):
    values = {"name": "aw", "namespace": "team", "objects": [config(), job()], "completion": [], **changes}
    return read_spec(values, "gang")


options = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.none() | st.just("research"),
        "priority": st.integers(-(2**31), 2**31 - 1),
        "priority_slope": st.floats(0, 100),
        "suspended": st.booleans(),
        "min_available": st.none() | st.integers(1, 99),
        "max_run_time": st.none() | st.integers(1, 10**6),
        "requeue": st.fixed_dictionaries(
            {},
            optional={
                "time": st.integers(0, 10**6),
                "growth": st.sampled_from(["exponential", "linear", "none"]),
                "max_time": st.none() | st.integers(1, 10**6),
                "limit": st.none() | st.integers(1, 99),
            },
        ),
        "completion": st.lists(
            st.builds(lambda i, w: {"item": i, "contains": w}, st.integers(0, 1), st.sampled_from(["a", "b"])),
            max_size=3,
            unique_by=lambda entry: (entry["item"], entry["contains"]),
        ).map(lambda entries: sorted(entries, key=lambda entry: entry["item"])),
        "labels": st.just({"app": "x"}),
    },
)


@steady
@given(options)
def test_what_a_wrapper_can_hold_comes_back(values):
    spec = gang(**values)
    assert spec_of_wrapper(wrap(spec)) == spec


@pytest.mark.parametrize(
    "items",
    [
        (item(job(), pods(3, cpu="550m")),),
        (item(ray(nodeSelector={"a": "b"}), pods(1, cpu="1"), pods(4, {"cpu": "2"}, cpu="2")), item(config())),
        (item(gizmo(), pods(1, cpu="1"), pods(2, memory="1G")), item(job())),
        (item(job(), pods(1, cpu="1"), pods(2, cpu="2")),),
    ],
)
def test_declared_pods_come_back(items):
    spec = spec_of_wrapper(wrapper(*items))
    again = spec_of_wrapper(wrap(spec))
    assert sizes(again) == sizes(spec)
    assert again.objects == spec.objects
    assert digest(spec_of_wrapper(wrap(again))) == digest(again)


def test_pods_declared_for_the_only_object_that_can_have_any_belong_to_it():
    spec = gang(objects=[config(), gizmo()], podsets=[{"name": "w", "count": 2, "requests": {"cpu": "1"}}])
    assert sizes(spec_of_wrapper(wrap(spec))) == {"gizmo": (2, {"cpu": 1000})}


@pytest.mark.parametrize(
    ("obj", "word"),
    [
        (job(), "complete"),
        ({**job(), "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}, "complete"),
        ({**job(), "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}, "succeeded"),
        (ray(), None),
    ],
)
def test_what_kinds_call_done_is_written_out(obj, word):
    wrapped = wrap(gang(objects=[obj], completion=None))
    assert wrapped["spec"]["resources"]["GenericItems"][0].get("completionstatus") == word


PODSET = {"name": "w", "count": 2, "requests": {"cpu": "1"}}
RAY_JOB = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": {}}


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"min_available": {"train": 1}}, "min_available"),
        ({"min_available": 0}, "min_available"),
        ({"requeue": {"limit": 0}}, "requeue.limit"),
        ({"requeue": {"pause": 1}}, "requeue.pause"),
        ({"requeue": {"time": 0.5}}, "requeue.time"),
        ({"requeue": {"max_time": 0}}, "requeue.max_time"),
        ({"max_run_time": 1.5}, "max_run_time"),
        ({"max_run_time": 0}, "max_run_time"),
        ({"max_run_time": 10**11}, "max_run_time"),
        ({"exit_codes": {"terminal": [1]}}, "exit_codes"),
        ({"ttl": 0}, "ttl"),
        ({"completion": [{"pods": True}]}, "completion[0]"),
        ({"completion": [{"item": 1, "jmespath": "a"}]}, "completion[0]"),
        ({"completion": [{"item": 0, "type": "A", "status": "False"}]}, "completion[0]"),
        ({"completion": [{"item": 0, "type": "A,B"}]}, "completion[0]"),
        ({"completion": None, "objects": [RAY_JOB]}, "completion"),
        ({"objects": [job(), job("b")], "podsets": [PODSET]}, "podsets"),
        ({"podsets": [{**PODSET, "name": "train", "spec": {"nodeSelector": {"a": "b"}}}]}, "podsets"),
        ({"objects": [job(), job("b")], "podsets": [{**PODSET, "name": "b"}]}, "podsets"),
    ],
)
def test_what_a_wrapper_cannot_hold_is_named(changes, option):
    spec = gang(**changes)
    with pytest.raises(BadInput) as caught:
        wrap(spec)
    assert caught.value.target == f"gang team/aw: {option}"


def test_nothing_given_is_changed():
    original = wrapper(item(job(), pods(1, cpu="1")), labels={"a": "b"})
    before = copy.deepcopy(original)
    spec = spec_of_wrapper(original)
    wrap(dataclasses.replace(spec, priority=4))
    assert original == before


def test_the_smallest_rules_are_kept():
    rules = {
        "requeuing": {"timeInSeconds": 1, "maxTimeInSeconds": 1, "maxNumRequeuings": 1},
        "minAvailable": 1,
        "dispatchDuration": {"limit": 1},
    }
    spec = spec_of_wrapper(wrapper(item(job()), schedulingSpec=rules))
    assert (spec.requeue, spec.min_available, spec.max_run_time) == (Requeue(1, "exponential", 1, 1, 0), 1, 1)


@pytest.mark.parametrize("option", ["requeue.time", "requeue.max_time", "max_run_time"])
def test_a_wrapper_takes_up_to_a_thousand_million_seconds(option):
    def asked(seconds):
        outer, _dot, inner = option.partition(".")
        return gang(**{outer: {inner: seconds} if inner else seconds})

    assert spec_of_wrapper(wrap(asked(10**9))) == asked(10**9)
    with pytest.raises(BadInput, match="whole seconds up to 1000000000"):
        wrap(asked(10**9 + 1))


def test_rules_that_nobody_gave_are_written_as_zero():
    rules = wrap(gang())["spec"]["schedulingSpec"]
    assert rules["requeuing"] == {
        "timeInSeconds": 300,
        "growthType": "exponential",
        "maxTimeInSeconds": 0,
        "maxNumRequeuings": 0,
    }
    assert set(rules) == {"requeuing"}
