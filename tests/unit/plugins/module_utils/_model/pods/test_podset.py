# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Podsets of whole gangs, inferred and declared."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import (
    declared_podsets,
    infer_podsets,
    total_demand,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(100))

Object = dict[str, t.Any]


def job(name: str = "train", parallelism: int = 1, cpu: t.Any = 1, **spec: t.Any) -> Object:
    """A Job of equal pods."""
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": parallelism, "template": {"spec": {"containers": containers, **spec}}},
    }


def ray_cluster(name: str = "raycluster-complete") -> Object:
    """The demo's cluster: a head of 1 cpu and 2G, a worker of 2 cpu and 2G."""

    def sized(cpu: int) -> Object:
        resources = {"requests": {"cpu": cpu, "memory": "2G"}, "limits": {"cpu": cpu, "memory": "2G"}}
        return {"spec": {"containers": [{"name": "ray", "resources": resources}]}}

    workers = [{"groupName": "small-group", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "template": sized(2)}]
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": "demo"},
        "spec": {"headGroupSpec": {"template": sized(1)}, "workerGroupSpecs": workers},
    }


def test_the_demo_gang_has_a_head_and_a_worker() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    head, worker = infer_podsets([config, ray_cluster()], namespace="default")
    assert (head.name, head.count, head.source, head.source_index) == (
        "raycluster-complete/head",
        1,
        "RayCluster demo/raycluster-complete",
        1,
    )
    assert head.requests == head.limits | {"pods": 1} == {"cpu": 1000, "memory": 2 * 10**9, "pods": 1}
    assert worker.name == "raycluster-complete/small-group"
    assert worker.path == ("spec", "workerGroupSpecs", 0, "template")
    assert total_demand([head, worker]) == {"cpu": 3000, "memory": 4 * 10**9, "pods": 2}


def test_inputs_are_never_changed() -> None:
    objects = [ray_cluster(), job(runtimeClassName="kata")]
    before = copy.deepcopy(objects)
    limit_ranges = [{"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}]
    infer_podsets(objects, namespace="n", limit_ranges=limit_ranges, overheads={"kata": {"cpu": "250m"}})
    assert objects == before


def test_names_stay_unique_within_a_gang() -> None:
    gang = [job("a"), job("a"), job("a-2"), job("a")]
    assert [podset.name for podset in infer_podsets(gang, namespace="n")] == ["a", "a-2", "a-2-2", "a-3"]


def test_limit_ranges_and_overhead_complete_the_template() -> None:
    limit_ranges = [{"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}]
    overheads = {"kata": {"cpu": "250m"}, "other": {"cpu": 9}}
    (podset,) = infer_podsets(
        [job(runtimeClassName="kata")], namespace="n", limit_ranges=limit_ranges, overheads=overheads
    )
    assert podset.requests == {"cpu": 1250, "memory": 1024**3, "pods": 1}
    assert podset.limits == {"memory": 1024**3}
    assert podset.template["spec"]["overhead"] == {"cpu": "250m"}
    assert podset.template["spec"]["containers"][0]["resources"]["requests"]["memory"] == "1Gi"


def test_an_overhead_in_the_template_stays() -> None:
    gang = [job(runtimeClassName="kata", overhead={"cpu": "100m"})]
    (podset,) = infer_podsets(gang, namespace="n", overheads={"kata": {"cpu": "250m"}})
    assert podset.requests["cpu"] == 1100


def test_the_template_keeps_labels_and_constraints() -> None:
    obj = job(nodeSelector={"gpu": "yes"})
    obj["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    (podset,) = infer_podsets([obj], namespace="n")
    assert podset.template["metadata"]["labels"] == {
        "app": "x",
        "batch.kubernetes.io/job-name": "train",
        "job-name": "train",
    }
    assert podset.template["spec"]["nodeSelector"] == {"gpu": "yes"}


def test_declared_sizes_of_a_wrapper_win_over_its_template() -> None:
    item = {
        "generictemplate": ray_cluster(),
        "custompodresources": [
            {
                "replicas": 1,
                "requests": {"cpu": 5, "nvidia.com/gpu": 0},
                "limits": {"cpu": 6, "memory": "1Gi", "nvidia.com/gpu": 2},
            },
            {"replicas": 1, "requests": {"cpu": "500m"}},
        ],
    }
    metadata = {"name": "w", "namespace": "demo"}
    spec = {"resources": {"GenericItems": [item]}}
    gang = [{"apiVersion": "workload.codeflare.dev/v1beta1", "kind": "AppWrapper", "metadata": metadata, "spec": spec}]
    head, worker = infer_podsets(gang, namespace="n")
    # A request of zero gives way to the limit, as the dispatcher of that kind counts.
    assert head.requests == {"cpu": 5000, "memory": 1024**3, "nvidia.com/gpu": 2, "pods": 1}
    assert head.limits == {"cpu": 6000, "memory": 1024**3, "nvidia.com/gpu": 2}
    assert worker.requests == {"cpu": 500, "pods": 1}
    assert head.source == "RayCluster demo/raycluster-complete in AppWrapper demo/w"
    item["custompodresources"][1]["requests"] = {"cpu": "lots"}
    with pytest.raises(
        BadInput, match=r"AppWrapper demo/w raycluster-complete/small-group: requests\.cpu: quantity 'lots'"
    ):
        infer_podsets(gang, namespace="n")


def test_an_empty_gang_is_refused() -> None:
    with pytest.raises(BadInput, match="Cannot infer the podsets of the gang: it has no objects"):
        infer_podsets([], namespace="n")


def test_a_gang_without_pods_is_allowed() -> None:
    assert infer_podsets([{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}], namespace="n") == []


@pytest.mark.parametrize(
    ("obj", "target"),
    [
        (job(cpu="1x"), "Job n/train: spec.template.spec.containers[0].resources.requests.cpu"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, "Pod n/p: spec"),
        (
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p"},
                "spec": {"containers": [{"resources": {"limits": {"memory": "1Gb"}}}]},
            },
            "Pod n/p: spec.containers[0].resources.limits.memory",
        ),
        ({"kind": "Job"}, "Job 0: apiVersion"),
        ("text", "object 0"),
    ],
)
def test_problems_name_object_and_field(obj: t.Any, target: str) -> None:
    with pytest.raises(BadInput) as caught:
        infer_podsets([obj], namespace="n")
    assert caught.value.target == target


@steady
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9000)), min_size=1, max_size=5))
def test_the_sum_over_podsets_is_the_sum_over_pods(shapes: list[tuple[int, int]]) -> None:
    gang = [job(f"j{index}", count, f"{milli}m") for index, (count, milli) in enumerate(shapes)]
    podsets = infer_podsets(gang, namespace="n")
    pods = sum(count for count, _milli in shapes)
    expected = {"cpu": sum(count * milli for count, milli in shapes), "pods": pods}
    assert total_demand(podsets) == {name: amount for name, amount in expected.items() if amount}
    assert [podset.source_index for podset in podsets] == list(range(len(shapes)))


def test_declared_podsets_take_their_defaults() -> None:
    first, second = declared_podsets(
        [{"requests": {"cpu": "500m"}}, {"name": "w", "count": 3, "requests": {"cpu": 2}}], namespace="n"
    )
    assert (first.name, first.count, first.requests, first.limits) == ("podset-0", 1, {"cpu": 500, "pods": 1}, {})
    assert (second.count, second.path, second.source, second.source_index) == (3, None, "podset n/w", -1)


def test_declared_requests_win_over_the_spec_and_keep_its_constraints() -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 1}}}
    item = {
        "requests": {"cpu": 4, "memory": 0},
        "limits": {"cpu": 8, "nvidia.com/gpu": 1},
        "spec": {"containers": [container], "nodeSelector": {"a": "b"}},
        "labels": {"app": "x"},
    }
    (podset,) = declared_podsets([item], namespace="n")
    assert podset.requests == {"cpu": 4000, "nvidia.com/gpu": 1, "pods": 1}
    assert podset.limits == {"cpu": 8000, "nvidia.com/gpu": 1}
    assert podset.template["metadata"]["labels"] == {"app": "x"}
    assert podset.template["spec"]["nodeSelector"] == {"a": "b"}


@pytest.mark.parametrize(
    ("item", "target"),
    [
        ({"requests": {"cpu": 1}, "cuont": 2}, "podsets[0].cuont"),
        ({"requests": {"cpu": "x"}}, "podsets[0].requests.cpu"),
        ({"requests": {"cpu": 1}, "limits": {"cpu": "x"}}, "podsets[0].limits.cpu"),
        ({"requests": ["cpu"]}, "podsets[0].requests"),
        ({"requests": {"cpu": 1}, "count": -1}, "podsets[0].count"),
        ({"requests": {"cpu": 1}, "count": "2"}, "podsets[0].count"),
        ({"requests": {"cpu": 1}, "count": True}, "podsets[0].count"),
        ({"requests": {"cpu": 1}, "spec": []}, "podsets[0].spec"),
        ({"requests": {"cpu": 1}, "spec": ["x"]}, "podsets[0].spec"),
        ({"requests": {"cpu": 1}, "labels": "x"}, "podsets[0].labels"),
        ({"name": "empty"}, "podsets[0].requests"),
        (
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}},
            "podsets[0].spec.containers[0].resources.requests.cpu",
        ),
        ("text", "podsets[0]"),
    ],
)
def test_declared_podsets_name_the_field(item: t.Any, target: str) -> None:
    with pytest.raises(BadInput) as caught:
        declared_podsets([item], namespace="n")
    assert caught.value.target == target


def test_no_declared_podsets_is_refused() -> None:
    with pytest.raises(BadInput, match="Cannot read podsets: the list is empty"):
        declared_podsets([], namespace="n")


def test_podsets_are_values() -> None:
    (podset,) = infer_podsets([job()], namespace="n")
    with pytest.raises(dataclasses.FrozenInstanceError):
        podset.count = 2  # type: ignore[misc]
