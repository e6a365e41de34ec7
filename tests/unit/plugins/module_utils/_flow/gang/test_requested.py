# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From options to specifications, and which kind of record holds them."""

from __future__ import annotations

import dataclasses
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import (
    Stores,
    check_objects,
    draft_record,
    read_wanted,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.run import run_gangs
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import spec_of_wrapper
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_of_spec
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.gang_records import TRAIN, gang, serve_wrappers, terms, wrapper
from ansible_collections.muster.kube.tests.support.writable_api import refused


def one(**options):
    """The one gang of these options."""
    (wanted,) = read_wanted(terms(gang(**options)))
    return wanted


def test_options_become_the_specification():
    settings = {
        "queue": "research",
        "priority": 7,
        "priority_slope": 0.5,
        "min_available": 1,
        "requeue": {"time": "1m", "growth": "none", "limit": 3},
        "max_run_time": "1h30m",
        "completion": [{"item": 0, "type": "Complete"}],
        "exit_codes": {"terminal": [2]},
        "ttl": "1h",
        "labels": {"team": "a"},
    }
    spec = one(**settings).spec
    assert (spec.name, spec.namespace, spec.objects) == ("train", "team", (TRAIN,))
    assert (spec.queue, spec.priority, spec.priority_slope, spec.min_available) == ("research", 7, 0.5, 1)
    assert (spec.requeue.time, spec.requeue.growth, spec.requeue.limit) == (60.0, "none", 3)
    assert (spec.max_run_time, spec.ttl, spec.labels) == (5400.0, 3600.0, {"team": "a"})
    assert spec.completion == ({"item": 0, "type": "Complete", "status": "True"},)
    assert (spec.exit_codes_terminal, spec.suspended) == ((2,), False)


def test_kinds_decide_on_completion_unless_told_otherwise():
    assert one().spec.completion is None
    assert one(completion=[]).spec.completion == ()


RAY = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "ray"},
    "spec": {
        "headGroupSpec": {"template": job("h", 1, requests={"cpu": "1"})["spec"]["template"]},
        "workerGroupSpecs": [
            {"groupName": "w", "replicas": 2, "template": job("w", 1, requests={"cpu": "2"})["spec"]["template"]}
        ],
    },
}


def component_wrapper(*components, **metadata):
    """An AppWrapper of the second generation."""
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "sdk", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}, **metadata},
        "spec": {"suspend": True, "components": list(components)},
    }


class TestComponents:
    """AppWrappers as codeflare-sdk writes them."""

    def test_their_objects_become_the_gang(self):
        wanted = one(definition=component_wrapper({"template": RAY, "podSets": []}, {"template": TRAIN}))
        assert (wanted.name, wanted.namespace, wanted.wrapper) == ("sdk", "team", None)
        assert wanted.spec.objects == (RAY, TRAIN)
        assert (wanted.spec.podsets, wanted.spec.queue, wanted.spec.suspended) == (None, "team-a", False)
        assert wanted.spec.labels == {"kueue.x-k8s.io/queue-name": "team-a"}

    def test_options_of_the_task_win(self):
        wanted = one(definition=component_wrapper({"template": TRAIN}), queue="other", name="mine")
        assert (wanted.spec.queue, wanted.spec.name) == ("other", "mine")

    def test_pods_of_unknown_kinds_are_taken_from_their_pod_sets(self):
        thing = {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {"name": "thing"},
            "spec": {"main": TRAIN["spec"]["template"]},
        }
        pods = [{"replicas": 3, "path": "template.spec.main"}]
        wanted = one(definition=component_wrapper({"template": thing, "podSets": pods}, {"template": TRAIN}))
        declared = [(podset["name"], podset["count"]) for podset in wanted.spec.podsets]
        assert declared == [("thing", 3), ("train", 2)]

    def test_an_empty_one_is_refused_by_its_own_field(self):
        with pytest.raises(BadInput, match=r"AppWrapper team/sdk: spec: components: the AppWrapper wraps nothing"):
            one(definition=component_wrapper())
        with pytest.raises(BadInput, match=r"components\[0\]: template: the component holds no object"):
            one(definition=component_wrapper({}))

    def test_what_no_gang_may_hold_is_refused_inside_too(self):
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}
        with pytest.raises(BadInput, match="cannot grant rights"):
            one(definition=component_wrapper({"template": role}))


def test_suspended_is_part_of_the_specification():
    (wanted,) = read_wanted(terms(gang(), state="suspended"))
    assert wanted.spec.suspended


def test_a_name_alone_stands_for_a_gang_that_exists():
    (wanted,) = read_wanted(terms({"name": "train"}))
    assert (wanted.name, wanted.namespace, wanted.spec) == ("train", "default", None)


def test_two_gangs_of_one_name_are_refused():
    with pytest.raises(BadInput, match=r"gangs\[1\]: gang team/train is gangs\[0\] too"):
        read_wanted(terms(gang(), gang()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"definition": {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}}, "Widget"),
        (
            {"definition": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}},
            "a gang cannot grant rights; have an administrator create",
        ),
        ({"definition": {**TRAIN, "metadata": {"name": "train", "namespace": "other"}}}, "lies in namespace other"),
        ({"definition": [wrapper(), TRAIN], "name": "g"}, "a gang cannot hold another gang"),
        ({"max_run_time": "soon"}, "is not a duration"),
        ({"definition": {**TRAIN, "data": "x" * 1_100_000}, "name": "big"}, "split the gang"),
    ],
)
def test_what_cannot_be_queued_is_told_with_a_way_out(options, words):
    def queue():
        wanted = one(**options)
        return draft_record(wanted, wanted.spec, "configmap", None)

    with pytest.raises(BadInput) as caught:
        queue()
    assert words in str(caught.value)


class TestAppWrapper:
    def test_it_stands_for_what_it_wraps(self):
        wanted = one(definition=[wrapper()])
        assert (wanted.spec.objects, wanted.spec.completion) == ((TRAIN,), ())
        assert wanted.wrapper["metadata"]["name"] == "train"

    def test_it_is_kept_as_it_was_written_and_marked(self):
        wanted = one(definition=wrapper(labels={"a": "b"}))
        draft = draft_record(wanted, wanted.spec, "appwrapper", None)
        assert draft.body["spec"] == wrapper()["spec"]
        assert draft.body["metadata"]["labels"] == {"a": "b", "muster.kube/managed": "true"}
        assert draft.spec == wanted.spec

    def test_options_of_the_task_win_over_it(self):
        wanted = one(definition=wrapper(), priority=3)
        draft = draft_record(wanted, wanted.spec, "appwrapper", None)
        assert (draft.body["spec"]["priority"], draft.spec.priority) == (3, 3)

    def test_a_suspended_one_is_annotated(self):
        (wanted,) = read_wanted(terms(gang(definition=wrapper()), state="suspended"))
        draft = draft_record(wanted, wanted.spec, "appwrapper", None)
        assert draft.body["metadata"]["annotations"] == {"muster.kube/suspended": "true"}
        assert draft.spec.suspended

    @pytest.mark.parametrize("by_name", [False, True])
    def test_what_was_written_into_another_record_is_left_out(self, by_name):
        theirs = {"muster.kube/state": "{}", "muster.kube/submitted": "x", "muster.kube/expires": "x", "a": "b"}
        stored = wrapper(annotations=theirs, labels={"muster.kube/phase": "failed"}, finalizers=["c.d/e"])
        stored["metadata"] |= {"uid": "u", "resourceVersion": "7", "creationTimestamp": "x", "managedFields": []}
        known = record_of_spec("appwrapper", stored, spec_of_wrapper(stored), None)
        (wanted,) = read_wanted(terms(gang(definition=None, name="train") if by_name else gang(definition=stored)))
        draft = draft_record(wanted, wanted.spec or known.spec, "appwrapper", known)
        assert draft.body["metadata"] == {
            **{"name": "train", "namespace": "team", "annotations": {"a": "b"}, "finalizers": ["c.d/e"]},
            "labels": {"muster.kube/managed": "true"},
        }

    def test_one_that_leaves_no_room_for_its_state_is_refused(self):
        wanted = one(definition=wrapper(annotations={"large": "x" * 250_000}))
        with pytest.raises(BadInput, match="remove large annotations"):
            draft_record(wanted, wanted.spec, "appwrapper", None)

    def test_one_that_is_too_large_is_refused(self):
        large = wrapper()
        large["spec"]["resources"]["GenericItems"][0]["generictemplate"]["data"] = "x" * 1_100_000
        wanted = one(definition=large)
        with pytest.raises(BadInput, match="split the gang"):
            draft_record(wanted, wanted.spec, "appwrapper", None)


class TestStores:
    def choose(self, api, wanted, option="auto"):
        return Stores(api.client(), option).choose(wanted)

    def test_plain_objects_go_into_a_configmap_without_asking(self, api):
        assert self.choose(api, one()) == ("configmap", None)
        assert api.asked == []

    def test_a_wrapper_stays_one_where_the_definition_is_ours(self, api):
        serve_wrappers(api)
        assert self.choose(api, one(definition=wrapper())) == ("appwrapper", None)

    @pytest.mark.parametrize(
        ("served", "words"),
        [
            (None, "does not serve AppWrapper v1beta1"),
            ({"versions": ("v1beta2",)}, "serves AppWrapper v1beta2, whose schema is another one"),
            ({"versions": ("v1beta1", "v1beta2")}, "serves AppWrapper v1beta2"),
            ({"ours": False}, "was not installed by this collection"),
        ],
    )
    def test_else_a_configmap_holds_it_and_the_reason_is_told(self, api, served, words):
        if served is not None:
            serve_wrappers(api, **served)
        store, reason = self.choose(api, one(definition=wrapper()))
        assert store == "configmap"
        assert words in reason
        with pytest.raises(BadInput, match="use store: configmap"):
            self.choose(api, one(definition=wrapper()), "appwrapper")

    def test_an_account_that_may_not_read_the_definition_is_told(self, api):
        serve_wrappers(api)
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/appwrappers.workload.codeflare.dev"
        api.fixed[("GET", path)] = [refused(403, "Forbidden", "no")]
        assert "may not read the CustomResourceDefinition" in self.choose(api, one(definition=wrapper()))[1]

    def test_an_option_no_wrapper_can_hold_leads_to_a_configmap(self, api):
        serve_wrappers(api)
        store, reason = self.choose(api, one(definition=wrapper(), ttl="1h"))
        assert (store, "ttl" in reason) == ("configmap", True)

    def test_a_configmap_can_be_asked_for(self, api):
        assert self.choose(api, one(definition=wrapper()), "configmap") == ("configmap", "store is configmap")

    def test_the_cluster_is_asked_once(self, api):
        serve_wrappers(api)
        stores = Stores(api.client(), "auto")
        for _turn in range(3):
            stores.choose(one(definition=wrapper()))
        assert len(api.asked) == 2


class TestCheckObjects:
    def test_kinds_the_server_calls_cluster_wide_are_refused(self, api):
        widget = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
        wanted = one()
        spec = type(wanted.spec)(**{**_fields(wanted.spec), "objects": (TRAIN, widget)})
        with pytest.raises(BadInput, match="cluster-scoped"):
            check_objects(api.client(), spec, "configmap")

    def test_a_secret_is_refused_in_a_configmap_and_warned_of_in_a_wrapper(self, api):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        spec = one(definition=[TRAIN, secret]).spec
        with pytest.raises(BadInput, match="create the Secret beforehand"):
            check_objects(api.client(), spec, "configmap")
        (warning,) = check_objects(api.client(), spec, "appwrapper")
        assert "can be read by everybody" in warning


def _fields(spec):
    """A specification's fields."""
    return {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec)}


def jobs(count, name="train-{:05d}".format):
    """So many Jobs of one pod."""
    return [job(name(number), 1, requests={"cpu": "1", "memory": "2Gi"}) for number in range(count)]


def test_a_thousand_jobs_are_a_gang():
    assert len(one(name="large", definition=jobs(1_000)).spec.objects) == 1_000


@pytest.mark.parametrize("check_mode", [False, True])
def test_what_cannot_be_kept_once_it_is_started_is_refused_at_once(api, check_mode):
    letters = random.Random(1)
    many = jobs(1_500, lambda _number: f"j{letters.getrandbits(200):x}")
    with pytest.raises(BadInput, match="use fewer objects with more pods each") as caught:
        run_gangs(api.client, terms(gang(name="large", definition=many), check_mode=check_mode), lambda _text: None)
    assert caught.value.target == "gang team/large"
    assert api.asked == []


def test_objects_that_no_ticket_can_list_are_refused():
    settings = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{'settings-' * 20}{number}"}}
        for number in range(5_000)
    ]
    with pytest.raises(BadInput, match="the list of its 5000 objects needs"):
        one(name="large", definition=settings)
