# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods and claims as admission sees them."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import (
    ClaimSize,
    admitted_pod,
    claim_size,
    stated_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import pod_limits, pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import NANO

GI = 2**30 * NANO
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
WHEN = "DuringSchedulingIgnoredDuringExecution"


def container(name="c", **resources):
    """A container; requests= and limits= are its resources."""
    return {"name": name, "resources": resources}


def seen(*containers, **spec):
    """The pod of a spec."""
    whole = {"containers": list(containers), **spec}
    return admitted_pod({"spec": whole}, pod_requests(whole), pod_limits(whole))


@pytest.mark.parametrize(
    ("resources", "spec", "best_effort"),
    [
        ({}, {}, True),
        ({"requests": {"cpu": "1m"}}, {}, False),
        ({"requests": {"memory": "1"}}, {}, False),
        ({"limits": {"memory": "1"}}, {}, False),
        ({"requests": {"cpu": "0"}}, {}, True),
        ({"requests": {"ephemeral-storage": "1"}}, {}, True),
        ({}, {"initContainers": [container("i", requests={"cpu": "1"})]}, False),
        ({}, {"overhead": {"cpu": "1"}}, True),
        ({}, {"resources": {"limits": {"cpu": "1"}}}, False),
        ({"requests": {"cpu": "1"}}, {"resources": {}}, True),
    ],
)
def test_best_effort(resources, spec, best_effort):
    assert seen(container(**resources), **spec).best_effort is best_effort


def test_the_size_that_was_declared_decides_where_containers_do_not_tell_it():
    assert not admitted_pod({}, {"cpu": 1000, "pods": 1}, {}).best_effort
    assert admitted_pod({}, {"example.com/x": 1, "pods": 1}, {}).best_effort
    pod = admitted_pod({}, {"cpu": 1000, "pods": 1}, {"memory": 2})
    assert (pod.requests, pod.limits) == ({"cpu": NANO}, {"memory": 2 * NANO})
    assert (pod.bounded_requests, pod.bounded_limits) == ({"cpu": NANO}, {"cpu": NANO, "memory": 2 * NANO})
    larger = admitted_pod({"spec": {"containers": [container()]}}, {"cpu": 1000, "pods": 1}, {})
    assert (larger.requests, larger.bounded_limits, larger.best_effort) == ({"cpu": NANO}, {}, False)


def test_quotas_count_overhead_and_fractions_and_limit_ranges_no_overhead():
    size = container(requests={"cpu": "1", "memory": "500m"}, limits={"cpu": "2"})
    pod = seen(size, overhead={"cpu": "1", "memory": "1"})
    assert (pod.requests, pod.limits) == ({"cpu": 2 * NANO, "memory": NANO * 3 // 2}, {"cpu": 3 * NANO})
    assert (pod.bounded_requests, pod.bounded_limits) == ({"cpu": NANO, "memory": NANO // 2}, {"cpu": 2 * NANO})


def test_limit_ranges_know_no_huge_pages_of_the_pod_as_a_whole():
    whole = {"requests": {"cpu": "3", "hugepages-2Mi": "8Mi"}, "limits": {"cpu": "4", "hugepages-2Mi": "8Mi"}}
    small = {"cpu": "1", "hugepages-2Mi": "2Mi"}
    pod = seen(container(requests=small, limits=small), resources=whole)
    assert pod.requests == {"cpu": 3 * NANO, "hugepages-2Mi": 2**23 * NANO}
    assert pod.bounded_requests == {"cpu": 3 * NANO, "hugepages-2Mi": 2**21 * NANO}
    assert pod.bounded_limits == {"cpu": 4 * NANO, "hugepages-2Mi": 2**21 * NANO}


@pytest.mark.parametrize(
    ("resources", "whole"),
    [
        (None, False),
        ({"limits": {}}, False),
        ({"requests": {"cpu": "1"}}, True),
        ({"limits": {"memory": "1"}}, True),
        ({"requests": {"hugepages-2Mi": "2Mi"}}, True),
    ],
)
def test_amounts_of_the_pod_as_a_whole(resources, whole):
    assert seen(container(), **({} if resources is None else {"resources": resources})).whole is whole


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(
    ("extra", "crosses"),
    [({}, False), ({"namespaces": []}, False), ({"namespaces": ["own"]}, True), ({"namespaceSelector": {}}, True)],
)
def test_affinity_that_names_namespaces(kind, extra, crosses):
    term = {"topologyKey": "zone", **extra}
    for rules in ({f"required{WHEN}": [term]}, {f"preferred{WHEN}": [{"weight": 1, "podAffinityTerm": term}]}):
        assert seen(container(), affinity={kind: rules}).crosses_namespaces is crosses
    assert not seen(container(), affinity=None).crosses_namespaces


def test_terminating():
    assert seen(container(), activeDeadlineSeconds=0).terminating
    assert not seen(container(), activeDeadlineSeconds=None).terminating


@pytest.mark.parametrize(
    ("resources", "whole", "words"),
    [
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, {}, []),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, {}, ["container c requests more cpu than its limit"]),
        ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "2"}}, []),
        ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, ["the containers request more cpu than the pod"]),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}, ["container c has a higher limit for cpu than the pod"]),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "2"}}, []),
    ],
)
def test_amounts_that_contradict_each_other(resources, whole, words):
    spec = {"containers": [container(**resources)], "resources": whole}
    assert list(admitted_pod({"spec": spec}, {}, {}).contradictions) == words


def test_claims_of_ephemeral_volumes():
    template = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}, {"name": "w", "emptyDir": {}}]
    assert seen(container(), volumes=volumes).claims == (ClaimSize("v", (("storage", GI),), None, ""),)


@pytest.mark.parametrize(
    ("claim", "size"),
    [
        ({}, ClaimSize("c", (), None, "")),
        ({"spec": {"storageClassName": ""}}, ClaimSize("c", (), "", "")),
        ({"spec": {"storageClassName": "a", "volumeAttributesClassName": "b"}}, ClaimSize("c", (), "a", "b")),
        (
            {
                "spec": {"storageClassName": "a"},
                "metadata": {"annotations": {OLD_CLASS: "o"}},
            },
            ClaimSize("c", (), "o", ""),
        ),
        ({"spec": {"resources": {"requests": {"storage": "1Gi"}}}}, ClaimSize("c", (("storage", GI),), None, "")),
        ({"spec": {"resources": {"requests": {"storage": "much"}}}}, ClaimSize("c", (), None, "")),
        ({"spec": ["odd"], "metadata": 7}, ClaimSize("c", (), None, "")),
    ],
)
def test_claims(claim, size):
    assert claim_size("c", claim) == size


@pytest.mark.parametrize(
    "changes",
    [
        {"containers": [container(requests={"cpu": "1"})]},
        {"containers": [container(), container("d")]},
        {"initContainers": [{**container("i"), "restartPolicy": "Always"}]},
        {"resources": {"limits": {"cpu": "1"}}},
        {"overhead": {"cpu": "1"}},
        {"activeDeadlineSeconds": 5},
        {"affinity": {"podAffinity": {f"required{WHEN}": [{"namespaces": ["a"]}]}}},
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
    ],
)
def test_whatever_is_read_tells_templates_apart(changes):
    spec = {"containers": [container()], "initContainers": [container("i")]}
    same = {**spec, "containers": [container("other")], "nodeName": "n", "volumes": [{"name": "v", "emptyDir": {}}]}
    assert stated_text({"spec": spec}, {}) == stated_text({"spec": same}, {})
    assert stated_text({"spec": spec}, {}) != stated_text({"spec": spec}, {"cpu": 1})
    assert stated_text({"spec": spec}, {}) != stated_text({"spec": {**spec, **changes}}, {})
