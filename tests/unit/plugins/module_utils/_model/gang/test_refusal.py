# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refusals: every object that no gang may hold is named with its field and what to do."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.refusal import (
    object_warnings,
    refuse_forged_labels,
    refuse_objects,
    refuse_other_queue,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import plan_objects
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

FINE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}}


def obj(version, kind, **metadata):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **metadata}}


def gang(*objects):
    return read_spec({"name": "g", "namespace": "team", "objects": list(objects)}, "gang team/g")


def job(**metadata):
    template = {"spec": {"containers": [{"name": "main"}]}}
    return {**obj("batch/v1", "Job", **metadata), "spec": {"template": template}}


@pytest.mark.parametrize(
    ("bad", "field", "advice"),
    [
        (obj("v1", "Namespace"), "kind", "create it beforehand"),
        (obj("v1", "Node"), "kind", "cluster-scoped"),
        (obj("storage.k8s.io/v1", "StorageClass"), "kind", "cluster-scoped"),
        (obj("apiextensions.k8s.io/v1", "CustomResourceDefinition"), "kind", "cluster-scoped"),
        (obj("kueue.x-k8s.io/v1beta1", "ClusterQueue"), "kind", "cluster-scoped"),
        (obj("rbac.authorization.k8s.io/v1", "Role"), "kind", "cannot grant rights"),
        (obj("rbac.authorization.k8s.io/v1", "RoleBinding"), "kind", "have an administrator create the RoleBinding"),
        (obj("rbac.authorization.k8s.io/v1beta1", "ClusterRoleBinding"), "kind", "cannot grant rights"),
        (obj("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"), "kind", "have an administrator"),
        (obj("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"), "kind", "have an administrator"),
        (obj("batch/v1", "Job", namespace="victim"), "metadata.namespace", "leave the field out"),
        (obj("v1", "Service", ownerReferences=[{"uid": "u"}]), "metadata.ownerReferences", "remove the field"),
        (obj("workload.codeflare.dev/v1beta2", "AppWrapper"), "kind", "list the wrapped objects"),
        (obj("mcad.ibm.com/v1beta1", "AppWrapper"), "kind", "list the wrapped objects"),
        (
            obj("v1", "ConfigMap", labels={"muster.kube/record": "gang"}),
            "metadata.labels.muster.kube/record",
            "remove the label",
        ),
        (
            obj("v1", "ConfigMap", labels={"muster.kube/ticket": "true"}),
            "metadata.labels.muster.kube/ticket",
            "remove the label",
        ),
        (job(annotations={"muster.kube/keep": "true"}), "metadata.annotations", "may make no pods"),
    ],
)
@pytest.mark.parametrize("store", ["configmap", "appwrapper"])
def test_what_no_gang_may_hold(store, bad, field, advice):
    with pytest.raises(BadInput) as caught:
        refuse_objects(gang(FINE, bad), store=store)
    namespace = bad["metadata"].get("namespace") or "team"
    assert caught.value.target == f"{bad['kind']} {namespace}/x in gang team/g: objects[1].{field}"
    assert advice in caught.value.cause


def test_secrets_are_refused_in_configmaps_and_warned_of_in_wrappers():
    spec = gang(FINE, obj("v1", "Secret"))
    with pytest.raises(BadInput, match=r"Secret team/x in gang team/g: objects\[1\].kind.*refer to it"):
        refuse_objects(spec, store="configmap")
    assert object_warnings(spec, store="configmap") == ()
    refuse_objects(spec, store="appwrapper")
    (warning,) = object_warnings(spec, store="appwrapper")
    assert warning.startswith("Secret team/x can be read by everybody")
    assert object_warnings(gang(FINE), store="appwrapper") == ()


def test_the_name_of_the_record_is_taken():
    spec = gang({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "g"}})
    with pytest.raises(BadInput, match="rename the object or the gang"):
        refuse_objects(spec, store="configmap")
    assert refuse_objects(spec, store="appwrapper") is None


def scope_by_call(version, kind):
    return {"Wide": False, "Narrow": True}.get(kind)


SCOPES = {("example.com/v1", "Wide"): False, ("example.com/v1", "Narrow"): True, ("v1", "Node"): True}


@pytest.mark.parametrize("scopes", [scope_by_call, SCOPES])
def test_scopes_the_caller_knows_are_used(scopes):
    spec = gang(obj("example.com/v1", "Narrow"), obj("example.com/v1", "Silent"), obj("example.com/v1", "Wide"))
    with pytest.raises(BadInput, match=r"Wide team/x in gang team/g: objects\[2\].kind"):
        refuse_objects(spec, store="configmap", namespaced=scopes)


def test_the_callers_scopes_do_not_allow_what_the_table_refuses():
    with pytest.raises(BadInput, match="cluster-scoped"):
        refuse_objects(gang(obj("v1", "Node")), store="configmap", namespaced=SCOPES)


@pytest.mark.parametrize("store", ["configmap", "appwrapper"])
def test_ordinary_objects_are_accepted(store):
    claim = obj("v1", "PersistentVolumeClaim", namespace="team", ownerReferences=[])
    kept = obj("v1", "Service", annotations={"muster.kube/keep": "true"})
    unknown_kept = obj("example.com/v1", "Thing", annotations={"muster.kube/keep": "true"})
    other = obj("example.com/v1", "AppWrapper", labels={"muster.kube/gang": "overwritten"})
    spec = gang(FINE, job(), claim, kept, unknown_kept, other, obj("v1", "ConfigMap"), obj("v1", "ServiceAccount"))
    assert refuse_objects(spec, store=store) is None


def in_queue(queue, *objects, podsets=None):
    data = {"name": "g", "namespace": "team", "objects": list(objects or [job()]), "queue": queue, "podsets": podsets}
    return read_spec(data, "gang team/g")


@pytest.mark.parametrize(
    ("label", "queue"), [("mine", "yours"), (None, "yours"), ("mine", None), ("", "yours"), ("Yours", "yours")]
)
def test_the_label_of_a_record_names_the_queue_of_its_gang(label, queue):
    labels = {} if label is None else {"muster.kube/queue": label}
    with pytest.raises(BadInput, match=r"gang team/g: metadata.labels.muster.kube/queue: the label names .*queue"):
        refuse_other_queue(in_queue(queue), labels, store="configmap")


@pytest.mark.parametrize(("label", "queue"), [("mine", "mine"), (None, None), ("", None)])
def test_a_label_that_agrees_is_fine(label, queue):
    labels = {} if label is None else {"muster.kube/queue": label}
    assert refuse_other_queue(in_queue(queue), labels, store="configmap") is None


def test_the_queue_of_a_wrapper_is_its_label():
    assert refuse_other_queue(in_queue("mine"), {}, store="appwrapper") is None


def forger(**labels):
    """An object of a kind whose pods nobody here can see."""
    return {**obj("example.com/v1", "Thing"), "spec": {"groups": [{"template": {"metadata": {"labels": labels}}}]}}


UNSEEN = [{"name": "pods", "count": 1, "requests": {"cpu": 1}}]


@pytest.mark.parametrize("label", ["muster.kube/gang", "muster.kube/queue"])
@pytest.mark.parametrize("queue", [None, "mine"])
def test_pods_cannot_pass_for_those_of_others(label, queue):
    spec = in_queue(queue, FINE, forger(**{label: "another"}), podsets=UNSEEN)
    with pytest.raises(BadInput, match=rf"Thing team/x in gang team/g: labels: {label}: 'another'.*remove the label"):
        refuse_forged_labels(spec, plan_objects(spec, "own", 1), "own")


def test_known_templates_have_the_right_labels_whatever_the_user_wrote():
    template = {"metadata": {"labels": {"muster.kube/gang": "a", "muster.kube/queue": "b", "x": "y"}}}
    work = {**job(), "spec": {"template": {**template, "spec": {"containers": [{"name": "main"}]}}}}
    for queue in (None, "mine"):
        spec = in_queue(queue, work)
        plan = plan_objects(spec, "own", 1)
        assert refuse_forged_labels(spec, plan, "own") is None
        labels = plan[0].object["spec"]["template"]["metadata"]["labels"]
        expected = {} if queue is None else {"muster.kube/queue": queue}
        assert labels == {"x": "y", "muster.kube/gang": "own", "muster.kube/podset": "x", **expected}
