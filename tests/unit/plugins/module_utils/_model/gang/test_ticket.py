# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tickets and plans: fixed names, labels on every reachable pod template, owners, adoption."""

from __future__ import annotations

import copy
import json
import re

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import digest, read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    adopts,
    build_ticket,
    from_older_attempt,
    made_by,
    owned_by_record,
    owned_by_ticket,
    owner_of,
    plan_objects,
    podset_label,
    ticket_keys,
    ticket_name,
    ticket_places,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(100))

UID = "0b5a1d3e-5a44-4b0e-a7f1-6d6a7d1f0001"
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

TEMPLATE = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}


def job(name="train", **metadata):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {"template": copy.deepcopy(TEMPLATE)},
    }


def generated(kind="Job", stem="train-", **metadata):
    """An object whose name is left to the API server."""
    obj = job()
    version = "batch/v1" if kind == "Job" else "v1"
    return {**obj, "apiVersion": version, "kind": kind, "metadata": {"generateName": stem, **metadata}}


def ray_cluster(name="ray"):
    group = {"groupName": "small", "replicas": 2, "template": copy.deepcopy(TEMPLATE)}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {"headGroupSpec": {"template": copy.deepcopy(TEMPLATE)}, "workerGroupSpecs": [group]},
    }


def unknown(name="thing"):
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}}


def claim(**metadata):
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {}}


def gang(*objects, **more):
    return read_spec({"name": "g", "namespace": "team", "objects": list(objects), **more}, "gang team/g")


def record(spec):
    """The record as the API server would return it."""
    stored = build_record(spec)
    stored["metadata"]["uid"] = UID
    return stored


def labels(template):
    return template["metadata"]["labels"]


@steady
@given(st.text(), st.text(), st.integers(0, 10**9), st.integers(0, 10**9))
def test_ticket_names_are_short_fixed_and_different(uid, other, attempt, later):
    name = ticket_name(uid, attempt)
    assert DNS_LABEL.fullmatch(name)
    assert (ticket_name(other, later) == name) == ((uid, attempt) == (other, later))


@steady
@given(st.text("ab/_.-é", min_size=1, max_size=70), st.text("ab/_.-é", min_size=1, max_size=70))
def test_podset_labels_are_valid_and_different(name, other):
    assert LABEL_VALUE.fullmatch(podset_label(name))
    assert (podset_label(name) == podset_label(other)) == (name == other)


def test_podset_labels_stay_readable():
    assert podset_label("raycluster-complete/head") == "raycluster-complete_head"
    assert podset_label("train") == "train"
    assert podset_label("gpu_workers").startswith("gpu_workers__")


def test_objects_are_copied_labeled_and_put_into_the_namespace():
    spec = gang(job(labels={"a": "b", "muster.kube/gang": "forged"}), ray_cluster())
    before = copy.deepcopy(spec.objects)
    plan = plan_objects(spec, UID, 3)
    assert spec.objects == before
    assert [item.key for item in plan] == [
        ("batch/v1", "Job", "team", "train"),
        ("ray.io/v1", "RayCluster", "team", "ray"),
    ]
    assert [(item.index, item.keep) for item in plan] == [(0, False), (1, False)]
    assert plan[0].object["metadata"]["namespace"] == "team"
    assert labels(plan[0].object) == {"a": "b", "muster.kube/gang": UID, "muster.kube/attempt": "3"}


def test_every_reachable_template_says_whose_pods_it_makes():
    plan = plan_objects(gang(job(), ray_cluster()), UID, 1)
    ray = plan[1].object["spec"]
    templates = [
        plan[0].object["spec"]["template"],
        ray["headGroupSpec"]["template"],
        ray["workerGroupSpecs"][0]["template"],
    ]
    assert [labels(item) for item in templates] == [
        {"muster.kube/gang": UID, "muster.kube/podset": name} for name in ("train", "ray_head", "ray_small")
    ]


def test_a_pod_is_labeled_as_object_and_as_template():
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": None}, **copy.deepcopy(TEMPLATE)}
    plan = plan_objects(gang(pod), UID, 2)
    assert labels(plan[0].object) == {
        "muster.kube/gang": UID,
        "muster.kube/attempt": "2",
        "muster.kube/podset": "p",
    }


def test_a_podset_the_operator_makes_itself_has_no_template_to_label():
    ray_job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "rj"},
        "spec": {"rayClusterSpec": ray_cluster()["spec"]},
    }
    spec = gang(ray_job)
    assert [item.path is None for item in infer_podsets(spec.objects, namespace="team")] == [False, False, True]
    body = plan_objects(spec, UID, 1)[0].object["spec"]
    assert set(body) == {"rayClusterSpec"}
    assert labels(body["rayClusterSpec"]["headGroupSpec"]["template"])["muster.kube/podset"] == "rj_head"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["ray/small", "ray/head"], ["ray_head", "ray_small"]),
        (["first", "second"], ["first", "second"]),
        (["ray/head", "other"], ["ray_head", None]),
        (["one"], [None, None]),
    ],
)
def test_declared_podsets_give_the_names(names, expected):
    podsets = [{"name": name, "count": 1, "requests": {"cpu": "1"}} for name in names]
    plan = plan_objects(gang(unknown(), ray_cluster(), podsets=podsets), UID, 1)
    ray = plan[1].object["spec"]
    found = [labels(ray["headGroupSpec"]["template"]), labels(ray["workerGroupSpecs"][0]["template"])]
    assert [item.get("muster.kube/podset") for item in found] == expected
    assert [item["muster.kube/gang"] for item in found] == [UID, UID]
    assert labels(plan[0].object)["muster.kube/gang"] == UID


def test_an_unknown_kind_alone_is_fine_when_podsets_are_declared():
    podsets = [{"name": "w", "count": 1, "requests": {"cpu": "1"}}]
    assert plan_objects(gang(unknown(), podsets=podsets), UID, 1)[0].key[3] == "thing"
    with pytest.raises(BadInput, match=r"Thing team/thing.*declare podsets"):
        plan_objects(gang(unknown()), UID, 1)


def test_generated_names_are_fixed_by_gang_attempt_and_place():
    spec = gang(generated(), generated())

    def names(uid, attempt):
        return [item.key[3] for item in plan_objects(spec, uid, attempt)]

    assert names(UID, 1) == names(UID, 1)
    every = names(UID, 1) + names(UID, 2) + names("other", 1)
    assert len(set(every)) == 6
    assert all(re.fullmatch(r"train-[0-9a-f]{10}", name) for name in every)
    metadata = plan_objects(spec, UID, 1)[0].object["metadata"]
    assert "generateName" not in metadata
    assert metadata["name"] == names(UID, 1)[0]


def test_long_stems_are_cut():
    name = plan_objects(gang(generated(stem="a" * 80)), UID, 1)[0].key[3]
    assert len(name) == 63


def test_podset_names_do_not_change_with_the_attempt():
    spec = gang(generated())
    found = [labels(plan_objects(spec, UID, n)[0].object["spec"]["template"]) for n in (1, 2)]
    assert found[0] == found[1] == {"muster.kube/gang": UID, "muster.kube/podset": "train"}


def test_kept_items_are_the_same_in_every_attempt():
    marked = {"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": "s-"}, "spec": {}}
    marked["metadata"]["annotations"] = {"muster.kube/keep": "true"}
    unmarked = copy.deepcopy(marked)
    unmarked["metadata"]["annotations"] = {"muster.kube/keep": "false"}
    spec = gang(claim(generateName="data-"), marked, unmarked)
    one, two = (plan_objects(spec, UID, attempt) for attempt in (1, 2))
    assert [item.keep for item in one] == [True, True, False]
    assert one[:2] == two[:2]
    assert one[2].key != two[2].key
    assert "muster.kube/attempt" not in labels(one[0].object)


@pytest.mark.parametrize("version", ["batch/v1", "batch/v1beta1"])
def test_two_objects_of_one_name_are_refused(version):
    with pytest.raises(BadInput, match=r"gang team/g: objects\[2\].metadata.name: Job team/train is objects\[0\] too"):
        plan_objects(gang(job(), job("b"), {**job(), "apiVersion": version}), UID, 1)


def test_equal_names_of_different_kinds_are_fine():
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "train"}}
    assert len(plan_objects(gang(job(), service), UID, 1)) == 2


def test_the_ticket_lists_what_it_will_own():
    spec = gang(claim(name="data"), job())
    ticket = build_ticket(record(spec), 2, digest(spec), plan_objects(spec, UID, 2), "h/e/7")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "g", "uid": UID}
    assert ticket == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "immutable": True,
        "metadata": {
            "name": ticket_name(UID, 2),
            "namespace": "team",
            "labels": {"muster.kube/ticket": "true", "muster.kube/gang": UID},
            "ownerReferences": [{**owner, "controller": False, "blockOwnerDeletion": False}],
        },
        "data": {
            "attempt": "2",
            "digest": digest(spec),
            "objects": '[["batch/v1","Job","team","train"]]',
            "places": "[1]",
            "write_id": "h/e/7",
        },
    }
    assert made_by(ticket) == "h/e/7"
    assert ticket_keys(ticket) == (("batch/v1", "Job", "team", "train"),)


@pytest.mark.parametrize(
    "objects",
    [
        None,
        "{",
        "3",
        "[" * 100_000,
        json.dumps([3, ["v1", "Pod", "team"], ["v1", "Pod", "team", 4], ["", "", "team", ""]]),
    ],
)
def test_a_damaged_list_gives_no_keys(objects):
    assert ticket_keys({"metadata": {"namespace": "team"}, "data": {"objects": objects}}) == ()


def test_keys_of_other_namespaces_are_left_out():
    listed = json.dumps([["v1", "Pod", "victim", "a"], ["v1", "Pod", "team", "b"]])
    ticket = {"metadata": {"namespace": "team"}, "data": {"objects": listed}}
    assert ticket_keys(ticket) == (("v1", "Pod", "team", "b"),)


def test_owners_are_added_to_copies():
    spec = gang(claim(name="data"), job())
    kept, started = plan_objects(spec, UID, 2)
    mine = owned_by_ticket(started.object, "ticket-uid")
    (owner,) = mine["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"]) == (ticket_name(UID, 2), "ticket-uid")
    assert (owner["controller"], owner["blockOwnerDeletion"]) == (False, False)
    assert "ownerReferences" not in started.object["metadata"]
    saved = owned_by_record(kept.object, record(spec))
    (owner,) = saved["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ConfigMap", "g", UID)
    assert (owner["controller"], owner["blockOwnerDeletion"]) == (False, False)


def owned(*uids):
    return {"metadata": {"ownerReferences": [{"uid": uid} for uid in uids]}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({"metadata": {}}, ("none", None)),
        ({"metadata": {"ownerReferences": None}}, ("none", None)),
        (owned("t"), ("ticket", "t")),
        (owned("r"), ("record", "r")),
        (owned("x"), ("foreign", "x")),
        (owned("x", "t"), ("ticket", "t")),
    ],
)
def test_whose_object_it_is(obj, expected):
    assert owner_of(obj, "t", "r") == expected


def test_without_uids_every_owner_is_foreign():
    assert owner_of(owned("None"), None, None) == ("foreign", "None")


def existing(**metadata):
    spec = gang(job())
    ticket = build_ticket(record(spec), 1, "digest", plan_objects(spec, UID, 1))
    ticket["metadata"].update(metadata)
    return ticket


def test_our_own_ticket_is_adopted():
    assert adopts(existing(), UID, 1, "digest") is True


@pytest.mark.parametrize(
    ("ticket", "expected"),
    [
        (existing(), ("other", 1, "digest")),
        (existing(), (UID, 2, "digest")),
        (existing(), (UID, 1, "changed")),
        (existing(deletionTimestamp="2026-01-01T00:00:00Z"), (UID, 1, "digest")),
        (existing(labels={}), (UID, 1, "digest")),
        (existing(labels={"muster.kube/ticket": "true", "muster.kube/gang": "other"}), (UID, 1, "digest")),
        (existing(ownerReferences=[]), (UID, 1, "digest")),
        (existing(ownerReferences=[{"uid": "other"}]), (UID, 1, "digest")),
        (existing(name="another"), (UID, 1, "digest")),
        ({**existing(), "immutable": False}, (UID, 1, "digest")),
        ({**existing(), "data": None}, (UID, 1, "digest")),
    ],
)
def test_other_tickets_are_not_adopted(ticket, expected):
    assert adopts(ticket, *expected) is False


def test_leftovers_of_older_attempts_are_known():
    spec = gang(job())
    (planned,) = plan_objects(spec, UID, 2)
    obj = owned_by_ticket(planned.object, "t2")
    assert [from_older_attempt(obj, UID, attempt) for attempt in (1, 2, 3)] == [False, False, True]
    assert not from_older_attempt(obj, "other", 3)
    assert not from_older_attempt(planned.object, UID, 3)
    for number in ("x", "1", "-1", "9" * 50):
        changed = copy.deepcopy(obj)
        changed["metadata"]["labels"]["muster.kube/attempt"] = number
        assert not from_older_attempt(changed, UID, 3)


def test_a_ticket_tells_the_places_of_what_it_owns():
    """A claim is kept and not listed, but has its place among the objects."""
    spec = gang(claim(name="data"), job("a"), job("b"))
    made = build_ticket(record(spec), 1, "d", plan_objects(spec, UID, 1))
    assert [(place, key[3]) for place, key in ticket_places(made)] == [(1, "a"), (2, "b")]


def test_the_last_place_that_makes_sense():
    spec = gang(job("a"), job("b"))
    made = build_ticket(record(spec), 1, "d", plan_objects(spec, UID, 1))
    made["data"]["places"] = "[0,99999]"
    assert [place for place, _key in ticket_places(made)] == [0, 99999]


@pytest.mark.parametrize("places", [None, "", "{}", "[1]", "[1,1]", "[1,-2]", '["1","2"]', "[1,true]", "[1,100000]"])
def test_places_that_make_no_sense_follow_the_order(places):
    spec = gang(claim(name="data"), job("a"), job("b"))
    made = build_ticket(record(spec), 1, "d", plan_objects(spec, UID, 1))
    made["data"]["places"] = places
    assert [(place, key[3]) for place, key in ticket_places(made)] == [(0, "a"), (1, "b")]


def test_objects_of_one_name_are_told_apart_by_their_group_and_not_by_its_version():
    def thing(version):
        return {"apiVersion": version, "kind": "Thing", "metadata": {"name": "t"}, "spec": {}}

    def planned(*versions):
        declared = [{"name": "p", "count": 1, "requests": {"cpu": "1"}}]
        data = {"name": "g", "namespace": "team", "objects": [thing(item) for item in versions], "podsets": declared}
        return plan_objects(read_spec(data, "gang"), UID, 1)

    assert [item.key[0] for item in planned("a.example/v1", "b.example/v1")] == ["a.example/v1", "b.example/v1"]
    with pytest.raises(BadInput, match=r"is objects\[0\] too"):
        planned("a.example/v1", "a.example/v2")


def test_generated_names_of_kept_items_are_those_of_no_attempt():
    def names(kept, attempt):
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": "s-"}, "spec": {}}
        service["metadata"]["annotations"] = {"muster.kube/keep": kept}
        return {item.key[3] for item in plan_objects(gang(service, job()), UID, attempt)[:1]}

    assert names("true", 1) == names("true", 2)
    assert names("true", 1).isdisjoint(names("false", 1) | names("false", 2))
