# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Components under attack: forged and damaged records, objects of others in the way, careless tasks."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.info import (
    ComponentQuestion,
    answer_components,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support.component_stage import (
    config_map,
    deployment,
    namespace,
    widget,
    widget_crd,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import Request
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Killed, Line
from ansible_collections.muster.kube.tests.support.stack_stage import (
    BASE,
    MIDDLE,
    StackStage,
    changed,
    hooks,
    placed,
    service,
)

ABSENT = {"name": "base"}
BARE = {**config_map("c"), "metadata": {"name": "c"}}


@pytest.fixture
def stage():
    return StackStage()


def forge(stage, *objects, name="base", **fields):
    """A record in which somebody has written further objects, as if the component had made them."""

    def write(obj):
        """With uids that everybody can read."""
        record = {**json.loads(obj["data"]["record"]), **fields}
        record["entries"] += [
            {
                "apiVersion": item["apiVersion"],
                "kind": item["kind"],
                "namespace": item["metadata"].get("namespace", ""),
                "name": item["metadata"]["name"],
                "uid": item["metadata"]["uid"],
                "made": True,
            }
            for item in objects
        ]
        obj["data"]["record"] = json.dumps(record)

    stage.cluster.change("configmaps", "muster-system", f"muster-component-{name}", write)


def foreign(stage, *objects):
    """Objects of somebody else."""
    plurals = {"Namespace": "namespaces", "Deployment": "deployments", "ConfigMap": "configmaps", "Service": "services"}
    plurals |= {"Widget": "widgets", "ValidatingWebhookConfiguration": "validatingwebhookconfigurations"}
    plurals |= {"Lease": "leases"}
    return [stage.cluster.add(plurals[obj["kind"]], obj) for obj in objects]


def test_a_forged_record_deletes_nothing_of_others(stage):
    stage.course(BASE)
    theirs = foreign(
        stage, namespace("prod"), config_map("theirs", "team"), placed(deployment("theirs"), "team"), widget("theirs")
    )
    forge(stage, *theirs)
    stage.line.sent.clear()
    with pytest.raises(MusterError, match="users have 1 objects of its kinds: Widget home/theirs"):
        stage.task(ABSENT, state="absent")
    stage.cluster.remove("widgets", "home", "theirs")
    stage.course(ABSENT, state="absent")
    deleted = {path.rpartition("/")[2] for method, path in stage.line.writes if method == "DELETE"}
    assert not deleted & {"prod", "theirs"}


def test_a_forged_record_takes_over_nothing_of_others(stage):
    stage.course(BASE)
    theirs = foreign(stage, config_map("settings", "team", mine="yes"))
    forge(stage, *theirs)
    more = changed(BASE, definition=[*BASE["definition"], config_map("settings", "team")])
    with pytest.raises(MusterError, match="ConfigMap team/settings: it exists and is not ours"):
        stage.task(more)
    assert stage.cluster.get("configmaps", "team", "settings")["data"] == {"mine": "yes"}


def test_an_object_that_somebody_gave_another_component_is_not_taken_back_by_its_uid(stage):
    stage.course(BASE)
    stage.cluster.change(
        "services", "home", "hook", lambda obj: obj["metadata"]["labels"].update({"muster.kube/component": "other"})
    )
    with pytest.raises(MusterError, match="Service home/hook: it exists and is not ours"):
        stage.task(BASE)
    stage.course(ABSENT, state="absent")
    assert stage.cluster.get("services", "home", "hook") is not None


def test_services_of_others_in_a_record_cost_nobody_webhooks_leases_or_apis(stage):
    stage.course(BASE)
    theirs = foreign(stage, service("hook", "team"), placed(deployment("theirs"), "team"))
    stage.cluster.add("validatingwebhookconfigurations", hooks("theirs", "team"))
    lease = {
        "metadata": {"name": "theirs", "namespace": "team"},
        "spec": {"holderIdentity": "theirs-7c4f9d5b8-bxk4z_1"},
    }
    stage.cluster.add("leases", lease)
    forge(stage, *theirs)
    stage.course(ABSENT, state="absent")
    assert stage.cluster.get("validatingwebhookconfigurations", "", "theirs") is not None
    assert stage.cluster.get("leases", "team", "theirs") is not None


def test_a_removal_with_resources_that_was_killed_leaves_users_objects_theirs(stage):
    stage.course(BASE)
    theirs = foreign(stage, placed(widget("theirs"), "team"))
    forge(stage, *theirs, phase="removing")
    assert stage.course(BASE) == {"base": "installed"}
    assert "theirs" not in {entry.key.name for entry in stage.record("base").entries}
    with pytest.raises(MusterError, match="users have 1 objects"):
        stage.task(ABSENT, state="absent")


def test_what_the_controller_of_a_like_name_holds_stays(stage):
    operator = placed(deployment(), "team")
    stage.course({"name": "base", "definition": [operator]})
    for name, holder in (("ours", "operator-7c4f9d5b8-bxk4z_1"), ("theirs", "operator-extra-7c4f9d5b8-bxk4z_1")):
        lease = {"metadata": {"name": name, "namespace": "team"}, "spec": {"holderIdentity": holder}}
        stage.cluster.add("leases", lease)
    stage.course(ABSENT, state="absent")
    assert [obj["metadata"]["name"] for obj in stage.cluster.all("leases", "team")] == ["theirs"]


@pytest.mark.parametrize(
    "containers", [{"main": {"image": "i"}}, ["main"], [None], 7, [{"image": {"repository": "i", "tag": "1"}}]]
)
def test_custom_objects_may_have_containers_of_any_form(stage, containers):
    odd = {**widget(), "spec": {"template": {"spec": {"containers": containers}}}}
    definition = [odd if obj["kind"] == "Widget" else obj for obj in BASE["definition"]]
    assert stage.course(changed(BASE, definition=definition)) == {"base": "installed"}


def role(home=None):
    """An object without a namespace, as charts name it after themselves."""
    metadata = {"name": "leader-election", **({"namespace": home} if home else {})}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": []}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"namespace": "team", "definition": [role()]}, {"namespace": "home", "definition": [role()]}),
        ({"definition": [config_map("c", "default")]}, {"definition": [BARE]}),
        ({"definition": [role("a")]}, {"definition": [config_map("x", "team")], "resources": [role("b")]}),
    ],
)
def test_an_object_belongs_to_one_component_wherever_it_is_said_to_lie(stage, one, other):
    stage.cluster.add("namespaces", {"metadata": {"name": "default"}})
    stage.cluster.add("namespaces", {"metadata": {"name": "home"}})
    with pytest.raises(BadInput, match="component one has it too"):
        stage.task({"name": "one", **one}, {"name": "two", **other})
    assert stage.line.writes == []


def test_the_smoke_test_is_no_object_of_the_component(stage):
    stage.cluster.add("namespaces", {"metadata": {"name": "default"}})
    with pytest.raises(BadInput, match="is there twice"):
        stage.task({"name": "one", "definition": [config_map("c", "default")], "smoke": {"definition": [BARE]}})
    assert stage.line.writes == []


def test_what_is_being_removed_is_not_there_for_others(stage):
    stage.course(BASE)
    forge(stage, phase="removing")
    with pytest.raises(BadInput, match="there is no component base"):
        stage.task(MIDDLE)


def test_what_goes_while_the_lease_is_waited_for_is_missed(stage):
    stage.course(BASE)
    other = Line(stage.cluster)
    removed = []

    def remove(change):
        """Another run removes it between the plan of this one and its Lease."""
        if change.plural == "leases" and not removed and change.object["spec"].get("holderIdentity"):
            removed.append(True)
            stage.cluster.remove("configmaps", "muster-system", "muster-component-base")

    stage.cluster.listeners.append(remove)
    needy = changed(MIDDLE, definition=[config_map("n", "team")], resources=None)
    with pytest.raises(MusterError, match="there is no component base"):
        stage.task(needy, line=other)
    assert stage.cluster.get("configmaps", "team", "n") is None


def test_what_somebody_made_while_a_component_waited_for_its_turn_is_not_overwritten(stage):
    needy = changed(MIDDLE, definition=[config_map("n", "team")], resources=None)

    def make(change):
        """Somebody makes an object of that name meanwhile."""
        if change.plural == "deployments" and change.before is None:
            stage.cluster.add("configmaps", config_map("n", "team", mine="yes"))

    stage.cluster.listeners.append(make)
    result = stage.task(BASE, needy).as_result(diff=False)
    assert "ConfigMap team/n: it exists and is not ours" in result["msg"]
    assert stage.cluster.get("configmaps", "team", "n")["data"] == {"mine": "yes"}


def secret(value):
    """A Secret with a value that could be guessed."""
    metadata = {"name": "s", "namespace": "team"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"pin": value}}


def test_no_digest_tells_who_guesses_a_secret_that_he_is_right(stage):
    told = []
    for value in ("1234", "4321"):
        component = {"name": "base", "definition": [secret(value)], "smoke": {"definition": [secret(value)]}}
        component["smoke"]["definition"][0]["metadata"]["name"] = "t"
        told.append(stage.course(component)["base"])
        told.append((stage.record("base").digest, stage.record("base").smoke))
    assert told[1] == told[3]
    assert (told[0], told[2]) == ("installed", "repaired")
    assert "4321" not in json.dumps(stage.cluster.all("configmaps"))
    assert stage.course(component) == {"base": "unchanged"}


def ask(stage, **question):
    """The answer of component_info."""
    return answer_components(stage.line.client, ComponentQuestion(**question), stage.programs)


def test_a_damaged_record_hides_no_other_component(stage):
    stage.course(BASE)
    data = {"record": '{"format": 1, "name": "hurt"'}
    labels = {"muster.kube/component-record": "hurt"}
    metadata = {"name": "muster-component-hurt", "namespace": "muster-system", "labels": labels}
    stage.cluster.add("configmaps", {"metadata": metadata, "data": data})
    told = {item["name"]: item for item in ask(stage)["components"]}
    assert told["base"]["phase"] == "installed"
    assert "ConfigMap muster-system/muster-component-hurt" in told["hurt"]["problem"]


def test_who_may_not_see_a_part_is_told_of_the_rest(stage):
    stage.course(BASE)
    stage.forbid("services", verbs=("get", "list"))
    (told,) = ask(stage)["components"]
    assert told["name"] == "base"
    assert "services" in told["problem"]


class _Strict:
    """A webhook that judges every write of widgets, deletions too, and cannot while it has no endpoint."""

    cause = "webhook"
    deletions = True

    def __init__(self, stage):
        self._stage = stage

    def stops(self, request: Request, _now: float) -> bool:
        """Whether nobody answers."""
        cluster = self._stage.cluster
        hooked = cluster.get("validatingwebhookconfigurations", "", "widgets-hook") is not None
        return request.kind.plural == "widgets" and hooked and cluster.get("endpointslices", "home", "hook") is None


def test_a_dead_webhook_of_its_own_does_not_keep_a_component_from_being_removed(stage):
    stage.course(BASE)
    stage.cluster.remove("deployments", "home", "operator")
    stage.cluster.clock.advance(1.0)
    stage.cluster.barriers.append(_Strict(stage))
    assert stage.course(ABSENT, state="absent", remove_definitions=True) == {"base": "removed"}
    assert stage.cluster.all("widgets") == []


@pytest.mark.parametrize(
    "odd",
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": None},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": []},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": "text"},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 7}},
        {"apiVersion": 1, "kind": "ConfigMap", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": []}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": 5}},
        {**widget_crd(), "spec": None},
    ],
)
def test_odd_objects_are_refused_in_words(stage, odd):
    with pytest.raises(BadInput, match="component odd"):
        stage.task({"name": "odd", "definition": [odd]})
    assert stage.line.writes == []


@pytest.mark.parametrize(
    "fields",
    [
        {"depends_on": [None, {}]},
        {"version": 7},
        {"entries": 5},
        {"entries": [{"apiVersion": "../../v1", "kind": "..", "name": "../x"}]},
        {"entries": [{"apiVersion": "v1", "kind": "Pod/../..", "name": "?a=b", "namespace": "../kube-system"}]},
        {"entries": [{"apiVersion": "a/b/c/d", "kind": "X", "name": "x"}]},
        {"entries": [{"apiVersion": "v1", "kind": "Pod", "name": "x" * 100000}]},
        {"source": {"a": 1}, "digest": [1], "smoke": None},
        {"unheard": {"of": [1, 2, {"x": None}]}},
    ],
)
def test_a_hostile_record_is_refused_in_words_or_does_no_harm(stage, fields):
    stage.course(BASE)
    team = foreign(stage, config_map("theirs", "team"))

    def write(obj):
        """Somebody's text."""
        obj["data"]["record"] = json.dumps({**json.loads(obj["data"]["record"]), **fields})

    stage.cluster.change("configmaps", "muster-system", "muster-component-base", write)
    for task in ({"components": [BASE]}, {"components": [ABSENT], "state": "absent"}):
        try:
            stage.task(*task["components"], **{key: task[key] for key in task if key != "components"})
        except MusterError:
            continue
    assert stage.cluster.get("configmaps", "team", "theirs") == team[0]


def with_certificates(stage):
    """An operator in a namespace of others, which writes the Secret that its pods mount."""
    operator = placed(deployment(), "team")
    volume = {"name": "certs", "secret": {"secretName": "certs"}}
    operator["spec"]["template"] = {"spec": {**operator["spec"]["template"]["spec"], "volumes": [volume]}}
    stage.course({"name": "base", "definition": [operator]})
    stage.cluster.clock.advance(2.0)
    stage.cluster.add("secrets", {"metadata": {"name": "certs", "namespace": "team"}})


def test_a_secret_of_the_operator_goes_although_a_run_was_killed_when_its_workloads_were_gone(stage):
    with_certificates(stage)
    stage.trouble(Fault("kill_after", "DELETE", "/deployments/operator", dry=False))
    with pytest.raises(Killed):
        stage.task(ABSENT, state="absent")
    assert stage.cluster.get("deployments", "team", "operator") is None
    stage.line.faults.clear()
    stage.cluster.clock.advance(60.0)
    assert stage.task(ABSENT, state="absent", line=Line(stage.cluster)).as_result(diff=False)["changed"]
    assert stage.cluster.all("secrets") == []


def test_what_users_make_while_a_component_goes_keeps_its_definitions(stage):
    stage.course(BASE)

    def make(change):
        """Somebody makes an object when the operator is gone."""
        if change.plural == "deployments" and change.gone:
            stage.cluster.add("widgets", placed(widget("late"), "team"))

    stage.cluster.listeners.append(make)
    result = stage.task(ABSENT, state="absent", remove_definitions=True).as_result(diff=False)
    assert "users have 1 objects of its kinds: Widget team/late" in result["msg"]
    assert stage.cluster.get("widgets", "team", "late") is not None
    assert stage.cluster.get("customresourcedefinitions", "", "widgets.example.com") is not None


@pytest.mark.parametrize("timeout", [0.0, 1e12, float("inf")])
def test_any_time_to_wait_will_do(stage, timeout):
    stage.cluster.add("namespaces", {"metadata": {"name": "home"}})
    objects = [config_map(f"c{number}") for number in range(500)]
    component = {"name": "base", "definition": objects}
    assert stage.course(component, wait_timeout=timeout) == {"base": "installed"}
    stage.line.sent.clear()
    assert stage.course(component, wait_timeout=timeout) == {"base": "unchanged"}
    assert stage.line.writes == []
    stage.course(ABSENT, state="absent", wait_timeout=timeout)
    assert stage.cluster.all("configmaps") == []
