# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is created for a gang besides pods, by the names of quotas."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import MadeObjects, made_objects

TICKET = {"configmaps": 1, "count/configmaps": 1}


def thing(api_version, kind, **spec):
    """An object."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def counted(*objects):
    """What quotas count of objects, the ticket aside."""
    amounts = made_objects(objects, str).amounts()
    left = {name: amount - TICKET.get(name, 0) for name, amount in amounts.items()}
    return {name: amount for name, amount in left.items() if amount}


@pytest.mark.parametrize(
    ("obj", "names"),
    [
        (thing("v1", "ConfigMap"), {"configmaps": 1, "count/configmaps": 1}),
        (thing("v1", "Secret"), {"secrets": 1, "count/secrets": 1}),
        (thing("v1", "ReplicationController"), {"replicationcontrollers": 1, "count/replicationcontrollers": 1}),
        (thing("v1", "ResourceQuota"), {"resourcequotas": 1, "count/resourcequotas": 1}),
        (thing("v1", "ServiceAccount"), {"count/serviceaccounts": 1}),
        (thing("batch/v1", "Job"), {"count/jobs.batch": 1}),
        (thing("networking.k8s.io/v1", "NetworkPolicy"), {"count/networkpolicies.networking.k8s.io": 1}),
        (thing("ray.io/v1", "RayCluster"), {"count/rayclusters.ray.io": 1}),
        (thing("serving.knative.dev/v1", "Service", type="LoadBalancer"), {"count/services.serving.knative.dev": 1}),
        (thing("v1", "Pod"), {}),
        ({"apiVersion": "v1"}, {}),
    ],
)
def test_names_of_kinds(obj, names):
    assert counted(obj) == names


@pytest.mark.parametrize(
    ("spec", "ports", "balancers"),
    [
        ({}, 0, 0),
        ({"type": "ClusterIP", "ports": [{}, {}]}, 0, 0),
        ({"type": "NodePort", "ports": [{}, {}]}, 2, 0),
        ({"type": "NodePort", "ports": [{}, {}], "allocateLoadBalancerNodePorts": False}, 2, 0),
        ({"type": "LoadBalancer", "ports": [{}, {}]}, 2, 1),
        ({"type": "LoadBalancer", "ports": [{"nodePort": 3}, {}], "allocateLoadBalancerNodePorts": False}, 1, 1),
        ({"type": "LoadBalancer", "ports": [{}], "allocateLoadBalancerNodePorts": True}, 1, 1),
        ({"type": "NodePort", "ports": "odd"}, 0, 0),
    ],
)
def test_services(spec, ports, balancers):
    wanted = {"services": 1, "count/services": 1, "services.nodeports": ports, "services.loadbalancers": balancers}
    assert counted(thing("v1", "Service", **spec)) == {name: amount for name, amount in wanted.items() if amount}


def test_the_ticket_counts_and_nothing_is_made_of_nothing():
    assert made_objects([thing("v1", "Pod")], str).amounts() == TICKET
    assert made_objects([], str) == MadeObjects()


def test_equal_objects_add_up():
    assert counted(thing("v1", "Secret"), thing("v1", "Secret"))["secrets"] == 2


def named(kind, name, **annotations):
    """An object of the core API with a name."""
    return {**thing("v1", kind), "metadata": {"name": name, "annotations": annotations}}


def name_of(item):
    """The name of an object."""
    return item["metadata"]["name"]


def test_claims_are_kept_with_their_names():
    made = made_objects([named("PersistentVolumeClaim", name) for name in "ab"], name_of)
    assert [item.name for item in made.claims] == ["a", "b"]
    assert made.claim_names == {"a", "b"}
    assert made.amounts() == TICKET


def test_what_was_kept_is_not_made_once_more():
    items = [named("Secret", "a", keep="true"), named("Service", "b", keep="no"), named("PersistentVolumeClaim", "c")]
    made = made_objects(items, name_of, "keep")
    assert made.amounts() == {"secrets": 1, "count/secrets": 1, "services": 1, "count/services": 1, **TICKET}
    assert made_objects(items, name_of).kept == ()
    again = made.once_more()
    assert again.amounts() == {"services": 1, "count/services": 1, **TICKET}
    assert (again.tried, made.tried, again.claims) == (True, False, made.claims)
