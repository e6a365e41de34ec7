# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Demand of one pod: containers, sidecars, init containers, overhead, pod level resources, defaults, resizes."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods import demand
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import (
    apply_limit_range,
    default_pod_spec,
    pod_limits,
    pod_requests,
    running_pod_requests,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(200))

Spec = dict[str, t.Any]


def container(requests: Spec | None = None, limits: Spec | None = None, **more: t.Any) -> Spec:
    """A container with these resources."""
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"name": "main", "resources": resources, **more}


def sidecar(requests: Spec) -> Spec:
    """An init container that keeps running."""
    return container(requests, restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "demand"),
    [
        pytest.param({"containers": [container()]}, {"pods": 1}, id="nothing asked"),
        pytest.param({"containers": [{"name": "bare"}]}, {"pods": 1}, id="no resources stanza"),
        pytest.param(
            {"containers": [container({"cpu": "500m", "memory": "1Gi"}), container({"cpu": "1.5"})]},
            {"cpu": 2000, "memory": 1024**3, "pods": 1},
            id="containers add up",
        ),
        pytest.param(
            {"containers": [container({"cpu": 0, "nvidia.com/gpu": "0"})]}, {"pods": 1}, id="zeros are dropped"
        ),
        pytest.param(
            {"containers": [container({"cpu": 1})], "initContainers": [container({"cpu": 3}), container({"cpu": 2})]},
            {"cpu": 3000, "pods": 1},
            id="the largest init container",
        ),
        pytest.param(
            {"containers": [container({"cpu": 1})], "initContainers": [sidecar({"cpu": 1}), container({"cpu": 2})]},
            {"cpu": 3000, "pods": 1},
            id="init container after a sidecar",
        ),
        pytest.param(
            {"containers": [container({"cpu": 1})], "initContainers": [container({"cpu": 2}), sidecar({"cpu": 1})]},
            {"cpu": 2000, "pods": 1},
            id="init container before a sidecar",
        ),
        pytest.param(
            {"containers": [container({"memory": "1Gi"})], "overhead": {"memory": "120Mi", "cpu": "250m"}},
            {"memory": 1024**3 + 120 * 1024**2, "cpu": 250, "pods": 1},
            id="overhead of the spec",
        ),
        pytest.param(
            {"containers": [container(limits={"cpu": 2, "nvidia.com/gpu": 4})]},
            {"cpu": 2000, "nvidia.com/gpu": 4, "pods": 1},
            id="request defaults to limit",
        ),
        pytest.param(
            {"containers": [container({"cpu": "100m"}, {"cpu": 2, "memory": "1M"})]},
            {"cpu": 100, "memory": 10**6, "pods": 1},
            id="per resource",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": 1})],
                "resources": {"requests": {"cpu": 4}},
            },
            {"cpu": 4000, "memory": 1024**3, "nvidia.com/gpu": 1, "pods": 1},
            id="pod level replaces the sum",
        ),
        pytest.param(
            {"containers": [container()], "resources": {"limits": {"cpu": 2}}},
            {"cpu": 2000, "pods": 1},
            id="pod level limit alone",
        ),
        pytest.param(
            {"containers": [container({"cpu": "100m"})], "resources": {"limits": {"cpu": 2}}},
            {"cpu": 100, "pods": 1},
            id="pod level limit over container requests",
        ),
        pytest.param(
            {"containers": [container()], "resources": {"requests": {"nvidia.com/gpu": 2}}},
            {"pods": 1},
            id="pod level knows no devices",
        ),
        pytest.param(
            {"containers": [container({"cpu": "100u"}), container({"cpu": "100u"})]},
            {"cpu": 2, "pods": 1},
            id="the server stores milli-units",
        ),
        pytest.param(
            {"containers": [container({"memory": "0.5"}), container({"memory": "0.5"})]},
            {"memory": 1, "pods": 1},
            id="scaled once per pod",
        ),
    ],
)
def test_pod_requests(spec: Spec, demand: dict[str, int]) -> None:
    before = copy.deepcopy(spec)
    assert pod_requests(spec) == demand
    assert spec == before


def test_overhead_of_the_runtime_class_counts_only_without_one_in_the_spec() -> None:
    spec = {"containers": [container({"cpu": 1})]}
    assert pod_requests(spec, {"cpu": "250m"})["cpu"] == 1250
    assert pod_requests({**spec, "overhead": {"cpu": "100m"}}, {"cpu": "250m"})["cpu"] == 1100


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        pytest.param({"containers": [container({"cpu": 1})]}, {}, id="requests are no limits"),
        pytest.param(
            {"containers": [container(limits={"cpu": 1, "memory": "1Gi"}), container(limits={"cpu": 2})]},
            {"cpu": 3000, "memory": 1024**3},
            id="sum",
        ),
        pytest.param(
            {"containers": [container(limits={"cpu": 1})], "overhead": {"cpu": "250m", "memory": "1Gi"}},
            {"cpu": 1250},
            id="overhead widens what exists",
        ),
        pytest.param(
            {"containers": [container(limits={"cpu": 1})], "initContainers": [container(limits={"cpu": 5})]},
            {"cpu": 5000},
            id="init container",
        ),
        pytest.param(
            {"containers": [container(limits={"cpu": 1})], "resources": {"limits": {"cpu": 8}}},
            {"cpu": 8000},
            id="pod level",
        ),
        pytest.param({"containers": [container(limits={"cpu": 0})]}, {"cpu": 0}, id="a limit of zero is one"),
    ],
)
def test_pod_limits(spec: Spec, limits: dict[str, int]) -> None:
    assert pod_limits(spec) == limits


@pytest.mark.parametrize(
    ("spec", "target"),
    [
        ({"containers": [container({"cpu": "1x"})]}, "containers[0].resources.requests.cpu"),
        ({"containers": [container(), container(limits={"memory": "1Gb"})]}, "containers[1].resources.limits.memory"),
        ({"containers": [], "initContainers": [container({"cpu": "-1"})]}, "initContainers[0].resources.requests.cpu"),
        ({"containers": [], "overhead": {"cpu": "many"}}, "overhead.cpu"),
        ({"containers": [], "resources": {"limits": {"cpu": "?"}}}, "resources.limits.cpu"),
        ({"containers": [], "resources": "big"}, "resources"),
        ({"containers": "main"}, "containers"),
        ({"containers": ["main"]}, "containers[0]"),
        ({"containers": [{"resources": ["cpu"]}]}, "containers[0].resources"),
        ({"containers": [{"resources": {"requests": ["cpu"]}}]}, "containers[0].resources.requests"),
        ({"containers": [{"resources": {"requests": {"cpu": None}}}]}, "containers[0].resources.requests.cpu"),
    ],
)
def test_malformed_specs_name_the_field(spec: Spec, target: str) -> None:
    with pytest.raises(BadInput) as caught:
        pod_requests(spec)
    assert caught.value.target == target


def status_of(requests: Spec, allocated: Spec | None = None, name: str = "main") -> Spec:
    """A container status with actual and allocated resources."""
    return {"name": name, "resources": {"requests": requests}, "allocatedResources": allocated or {}}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        pytest.param({}, 1000, id="no status"),
        pytest.param({"containerStatuses": [{"name": "main"}]}, 1000, id="status without resources"),
        pytest.param({"containerStatuses": [status_of({"cpu": 2})]}, 2000, id="shrinking keeps what it has"),
        pytest.param({"containerStatuses": [status_of({"cpu": "500m"}, {"cpu": 3})]}, 3000, id="allocated is more"),
        pytest.param({"containerStatuses": [status_of({"cpu": "500m"})]}, 1000, id="growing counts the wish"),
        pytest.param(
            {
                "containerStatuses": [status_of({"cpu": "500m"}, {"cpu": "500m"})],
                "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
            },
            500,
            id="a refused wish does not count",
        ),
        pytest.param(
            {
                "containerStatuses": [status_of({"cpu": "500m"})],
                "conditions": [{"type": "PodResizePending", "reason": "Deferred"}],
            },
            1000,
            id="a deferred wish does",
        ),
    ],
)
def test_running_pods_hold_the_larger_of_wish_and_reality(status: Spec, cpu: int) -> None:
    assert running_pod_requests({"spec": {"containers": [container({"cpu": 1})]}, "status": status}) == {
        "cpu": cpu,
        "pods": 1,
    }


def test_status_of_an_init_container_counts_only_for_sidecars() -> None:
    status = {"initContainerStatuses": [status_of({"cpu": 5}, name="main")]}
    once = {"containers": [], "initContainers": [container({"cpu": 1})]}
    stays = {"containers": [], "initContainers": [sidecar({"cpu": 1})]}
    assert running_pod_requests({"spec": once, "status": status})["cpu"] == 1000
    assert running_pod_requests({"spec": stays, "status": status})["cpu"] == 5000


def test_pod_level_resources_of_a_running_pod_are_resized_too() -> None:
    spec = {"containers": [container({"cpu": 1})], "resources": {"requests": {"cpu": 2}}}
    status = {"resources": {"requests": {"cpu": 3}}, "allocatedResources": {"cpu": 4}}
    assert running_pod_requests({"spec": spec})["cpu"] == 2000
    assert running_pod_requests({"spec": spec, "status": status})["cpu"] == 4000


def test_limit_range_fills_what_the_container_left_open() -> None:
    limit_range = {
        "limits": [{"type": "Container", "default": {"cpu": 2, "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}]
    }
    spec = {"containers": [container(), container({"cpu": 1}), container(limits={"cpu": 4})]}
    before = copy.deepcopy(spec)
    changed = apply_limit_range(spec, [limit_range])
    assert [item["resources"]["requests"]["cpu"] for item in changed["containers"]] == ["500m", 1, 4]
    assert [item["resources"]["limits"]["cpu"] for item in changed["containers"]] == [2, 2, 4]
    # defaultRequest for memory was not given: the default limit is the default request.
    assert pod_requests(changed)["memory"] == 3 * 1024**3
    assert spec == before


def test_limit_range_falls_back_to_max_and_min() -> None:
    limit_range = {
        "limits": [
            {"type": "Pod", "max": {"cpu": 9}},
            {"type": "Container", "max": {"cpu": 2}, "min": {"memory": "1Mi"}},
        ]
    }
    changed = apply_limit_range({"containers": [container()]}, [limit_range])
    assert changed["containers"][0]["resources"] == {"requests": {"cpu": 2, "memory": "1Mi"}, "limits": {"cpu": 2}}


def test_a_default_limit_is_a_better_default_request_than_min() -> None:
    limit_range = {"limits": [{"type": "Container", "default": {"cpu": 2}, "max": {"cpu": 4}, "min": {"cpu": "100m"}}]}
    changed = apply_limit_range({"containers": [container()]}, [limit_range])
    assert changed["containers"][0]["resources"] == {"requests": {"cpu": 2}, "limits": {"cpu": 2}}


def test_the_first_of_several_limit_ranges_wins() -> None:
    ranges = [{"limits": [{"type": "Container", "defaultRequest": {"cpu": value}}]} for value in ("100m", "900m")]
    assert pod_requests(apply_limit_range({"containers": [container()]}, ranges))["cpu"] == 100


def test_pod_level_defaults_come_before_the_limit_range() -> None:
    spec = {"containers": [container()], "resources": {"limits": {"cpu": 2}}}
    limit_range = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]}
    assert pod_requests(apply_limit_range(spec, [limit_range]))["cpu"] == 2000


def test_host_network_makes_every_port_a_host_port() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]
    spec = {"hostNetwork": True, "containers": [container(ports=ports)]}
    assert [port["hostPort"] for port in default_pod_spec(spec)["containers"][0]["ports"]] == [80, 8081]
    assert "hostPort" not in default_pod_spec({"containers": [container(ports=ports)]})["containers"][0]["ports"][0]


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(1, 10**6), max_size=3)


@steady
@given(st.lists(amounts, max_size=3), st.lists(st.tuples(amounts, st.booleans()), max_size=4))
def test_demand_is_the_peak_over_the_life_of_the_pod(main: list[Spec], initial: list[tuple[Spec, bool]]) -> None:
    spec = {
        "containers": [container(item) for item in main],
        "initContainers": [sidecar(item) if stays else container(item) for item, stays in initial],
    }
    demand = pod_requests(spec)
    for resource in ("cpu", "memory", "nvidia.com/gpu"):
        moments, running = [], 0
        for item, stays in initial:
            moments.append(running + item.get(resource, 0))
            running += item.get(resource, 0) if stays else 0
        moments.append(running + sum(item.get(resource, 0) for item in main))
        assert demand.get(resource, 0) == max(moments) * (1000 if resource == "cpu" else 1)


@steady
@given(amounts, amounts)
def test_defaulting_twice_changes_nothing(requests: Spec, limits: Spec) -> None:
    spec = {"containers": [container(requests, limits)], "resources": {"limits": {"cpu": 7}}}
    once = default_pod_spec(spec)
    assert default_pod_spec(once) == once
    assert pod_requests(once) == pod_requests(spec)


@pytest.mark.parametrize("name", [{"a": 1}, ["x"], 3, None])
def test_a_container_without_a_proper_name_counts_all_the_same(name: t.Any) -> None:
    assert pod_requests({"containers": [container({"cpu": "1"}, name=name)]})["cpu"] == 1000


@pytest.mark.parametrize(
    ("spec", "place", "words"),
    [
        ({"containers": "main"}, "containers", "a list of containers is needed, this is a str"),
        ({"containers": {"a": 1}}, "containers", "a list of containers is needed, this is a dict"),
        ({"containers": [container(), 5]}, "containers[1]", "a container is a mapping, this is a int"),
        ({"containers": [{"resources": [1]}]}, "containers[0].resources", "a mapping is needed, this is a list"),
        ({"containers": [], "resources": "x"}, "resources", "a mapping is needed, this is a str"),
    ],
)
def test_what_is_no_container_is_told_with_what_it_is(spec: Spec, place: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        pod_requests(spec)
    assert caught.value.target == place
    assert caught.value.cause == words


AMOUNTS = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["1", "500m", "0", "2e3"]), "memory": st.sampled_from(["1Gi", "5k", 7])}
)


@st.composite
def running_pods(draw: st.DrawFn) -> Spec:
    """Pods that run, some of them while they are resized, some with more than containers."""
    containers, statuses = [], []
    for name in draw(st.lists(st.sampled_from("abc"), max_size=3)):
        requests = draw(st.none() | AMOUNTS)
        containers.append(container(requests, name=name))
        given = draw(st.sampled_from([requests, requests, None]) | AMOUNTS)
        told = {"name": name, "resources": draw(st.sampled_from([None, {}, {"requests": given}, {"requests": given}]))}
        if draw(st.booleans()):
            told["allocatedResources"] = draw(st.just(requests) | AMOUNTS)
        statuses.append(told)
    refused = [{"type": "PodResizePending", "reason": "Infeasible"}]
    more = {
        "initContainers": [sidecar({"cpu": "1"})],
        "overhead": {"cpu": "1"},
        "resources": {"requests": {"cpu": "3"}},
    }
    spec = {
        "containers": containers,
        **{key: more[key] for key in draw(st.sets(st.sampled_from(sorted(more)), max_size=1))},
    }
    status = {"containerStatuses": statuses, "conditions": draw(st.sampled_from([[], refused]))}
    return {"spec": spec, "status": draw(st.just(status) | st.just({}))}


def told(pod: t.Any) -> t.Any:
    """The demand of a running pod, or what is said of one that nobody can read."""
    try:
        return running_pod_requests(pod)
    except Exception as error:  # noqa: BLE001
        return type(error), str(error)


def told_the_longer_way(pod: t.Any) -> t.Any:
    """The same where no pod is taken for one like others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demand, "_settled_requests", lambda _spec, _status: None)
        return told(pod)


@steady
@given(running_pods())
def test_pods_like_others_demand_what_the_longer_way_finds(pod: Spec) -> None:
    assert told(pod) == told_the_longer_way(pod)


JUNK = st.sampled_from([None, "", "x", 7, True, [], ["x"], [None], {}, {"x": 1}, {"name": "a"}, [{"name": ["a"]}]])


def places_in(value: t.Any) -> t.Iterator[tuple[t.Any, t.Any]]:
    """Each place in nested lists and mappings: what it is in, and its key there."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(item, dict | list) and key != "conditions":
            yield from places_in(item)


@steady
@given(running_pods(), JUNK, st.data())
def test_malformed_pods_are_told_as_the_longer_way_tells_them(pod: Spec, junk: t.Any, data: st.DataObject) -> None:
    """Conditions stay as they are: they tell nothing of a pod that is not being resized, and nobody reads them."""
    broken = copy.deepcopy(pod)
    places = [(outer, key) for outer, key in places_in(broken) if key != "conditions"]
    outer, key = data.draw(st.sampled_from(places))
    outer[key] = junk
    assert told(broken) == told_the_longer_way(broken)


def test_amounts_of_pods_like_others_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[t.Any] = []
    read = demand.stored_quantity
    monkeypatch.setattr(demand, "stored_quantity", lambda value: parsed.append(value) or read(value))
    demand._demand_of_texts.cache_clear()
    requests = {"cpu": "1234m", "memory": "5Gi"}
    status = {"name": "main", "resources": {"requests": dict(requests)}, "allocatedResources": dict(requests)}
    found = [
        running_pod_requests({"spec": {"containers": [container(dict(requests), args=[str(number)])]}, "status": more})
        for number in range(100)
        for more in ({}, {"phase": "Running", "containerStatuses": [dict(status)]})
    ]
    assert parsed == ["1234m", "5Gi"]
    assert all(item is found[0] for item in found)
    assert found[0] == {"cpu": 1234, "memory": 5 * 2**30, "pods": 1}


@pytest.mark.parametrize("amount", ["much", "-1", True, [], None])
def test_bad_amounts_of_running_pods_are_named_whatever_was_read_before(amount: t.Any) -> None:
    assert running_pod_requests({"spec": {"containers": [container({"cpu": 1})]}}) == {"cpu": 1000, "pods": 1}
    with pytest.raises(BadInput, match=r"containers\[0\].resources.requests.cpu"):
        running_pod_requests({"spec": {"containers": [container({"cpu": amount})]}})
