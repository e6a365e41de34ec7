# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A component made, changed, pruned and removed in a cluster in memory; killed anywhere, the next run finishes it."""

from __future__ import annotations

import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support.component_stage import (
    LABELS,
    WHOLE,
    ComponentStage,
    config_map,
    deployment,
    namespace,
    widget,
    widget_crd,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import WRAPPERS
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Killed

MADE = ["CustomResourceDefinition widgets.example.com", "Namespace home", "Widget one", "ConfigMap settings"]
MADE.append("Deployment operator")
# Another version of it: one object less, one more, one changed.
NEXT = (widget(), deployment(image="i:2"), config_map("other"), namespace(), widget_crd())
RECORD = {"name": "r", "namespace": "home", "labels": {"app.kubernetes.io/managed-by": "muster.kube"}}


@pytest.fixture
def stage():
    return ComponentStage()


def test_a_component_is_made_once(stage):
    assert stage.actions(*WHOLE) == dict.fromkeys(MADE, "created")
    stage.line.sent.clear()
    assert stage.actions(*WHOLE) == dict.fromkeys(MADE, "unchanged")
    assert stage.line.writes == []
    assert stage.run(*WHOLE).as_result(diff=True)["diff"] == []


def test_check_mode_writes_nothing_and_tells_what_the_real_run_does(stage):
    before = stage.inventory()
    foretold = stage.actions(*WHOLE, check=True)
    assert stage.inventory() == before
    assert stage.actions(*WHOLE) == foretold
    before = stage.inventory()
    foretold = stage.actions(*NEXT, check=True)
    assert stage.inventory() == before
    assert stage.actions(*NEXT) == foretold
    foretold = stage.actions(state="absent", check=True)
    assert stage.actions(state="absent") == foretold


def test_what_the_definitions_do_not_name_goes(stage):
    stage.run(*WHOLE)
    assert stage.actions(*NEXT) == {
        **dict.fromkeys(MADE[:3], "unchanged"),
        "Deployment operator": "changed",
        "ConfigMap other": "created",
        "ConfigMap settings": "pruned",
    }
    assert stage.cluster.get("configmaps", "home", "settings") is None


def test_without_pruning_it_stays(stage):
    stage.run(*WHOLE)
    assert "ConfigMap settings" not in stage.actions(*NEXT, prune=False)
    assert stage.cluster.get("configmaps", "home", "settings") is not None


def test_namespaces_kinds_and_claims_are_never_pruned(stage):
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "home"}}
    stage.run(*WHOLE, claim)
    assert stage.actions(config_map("a", "team")) == {
        "ConfigMap a": "created",
        "ConfigMap settings": "pruned",
        "Deployment operator": "pruned",
    }
    assert stage.cluster.get("persistentvolumeclaims", "home", "c") is not None


def test_what_has_no_namespace_is_not_pruned_because_its_definition_names_one(stage):
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "r", "namespace": "team"},
    }
    assert stage.actions(role) == {"ClusterRole r": "created"}
    assert stage.actions(role) == {"ClusterRole r": "unchanged"}


def test_an_object_may_be_there_once_wherever_it_is_said_to_lie(stage):
    stage.cluster.add("namespaces", {"metadata": {"name": "default"}})
    unplaced = config_map("a", k="other")
    del unplaced["metadata"]["namespace"]
    with pytest.raises(BadInput, match="ConfigMap default/a is there twice"):
        stage.run(config_map("a", "default"), unplaced)
    assert stage.line.writes == []


def test_another_component_neither_takes_nor_removes_an_object(stage):
    stage.run(config_map("a", "team"))
    with pytest.raises(MusterError, match="Cannot apply ConfigMap team/a: it exists and is not ours"):
        stage.run(config_map("a", "team"), name="gadgets")
    assert stage.actions(state="absent", name="gadgets") == {}
    assert stage.cluster.get("configmaps", "team", "a") is not None


def foreign(stage):
    """What others have: without our label, of another component, and made by a controller for one of our objects."""
    parent = stage.cluster.add("configmaps", {"metadata": {"name": "parent", "namespace": "team"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": parent["metadata"]["uid"]}
    owner = {**reference, "controller": True}
    for name, metadata in {
        "bare": {},
        "other": {"labels": {"muster.kube/component": "gadgets"}},
        "child": {"labels": LABELS, "ownerReferences": [owner]},
    }.items():
        stage.cluster.add("secrets", {"metadata": {"name": name, "namespace": "team", **metadata}})
    return {place: obj for place, obj in stage.inventory().items() if place.startswith("secrets")}


def test_objects_of_others_are_never_touched(stage):
    theirs = foreign(stage)
    stage.run(*WHOLE)
    stage.run(*NEXT)
    stage.run(state="absent")
    assert {place: obj for place, obj in stage.inventory().items() if place.startswith("secrets")} == theirs


def test_removal_leaves_the_cluster_as_it_was(stage):
    before = stage.inventory()
    stage.run(*WHOLE)
    removed = stage.actions(*WHOLE, state="absent")
    assert removed == dict.fromkeys(MADE, "pruned")
    deleted = [path.rpartition("/")[2] for method, path in stage.line.writes if method == "DELETE"]
    assert deleted == ["one", "operator", "settings", "home", "widgets.example.com"]
    assert stage.inventory() == before
    stage.line.sent.clear()
    assert stage.actions(*WHOLE, state="absent") == {}
    assert stage.line.writes == []


def test_a_namespace_of_somebody_else_stays(stage):
    objects = [namespace("team"), config_map("a", "team")]
    stage.run(*objects)
    assert stage.actions(*objects, state="absent") == {"ConfigMap a": "pruned"}
    assert stage.cluster.get("namespaces", "", "team") is not None


def test_a_namespace_with_results_in_it_stays(stage):
    stage.run(*WHOLE)
    stage.cluster.add("configmaps", {"metadata": RECORD})
    result = stage.run(state="absent")
    assert result.kept == ("home",)
    assert stage.cluster.get("namespaces", "", "home") is not None
    assert stage.cluster.get("deployments", "home", "operator") is None
    assert not stage.run(state="absent").as_result(diff=False)["changed"]
    stage.cluster.remove("configmaps", "home", "r")
    assert stage.actions(state="absent") == {"Namespace home": "pruned"}


@pytest.mark.parametrize(
    ("plural", "labels"),
    [
        ("configmaps", {"muster.kube/record": "gang"}),
        ("configmaps", {"muster.kube/quota-tree": "default"}),
        ("appwrappers", {}),
        ("serviceaccounts", {"muster.kube/component": "gadgets"}),
    ],
)
def test_a_namespace_in_which_gangs_or_other_components_are_stays(stage, plural, labels):
    stage.cluster.serve(WRAPPERS)
    stage.run(*WHOLE)
    stage.cluster.add(plural, {"metadata": {"name": "theirs", "namespace": "home", "labels": labels}})
    assert stage.run(state="absent", check=True).kept == ("home",)
    assert stage.run(state="absent").kept == ("home",)
    assert stage.cluster.get(plural, "home", "theirs") is not None
    stage.cluster.remove(plural, "home", "theirs")
    assert stage.actions(state="absent") == {"Namespace home": "pruned"}


@pytest.mark.parametrize("prune", [True, False])
def test_the_definition_of_a_kind_stays_while_others_have_objects_of_it(stage, prune):
    stage.run(*WHOLE)
    stage.cluster.add("widgets", {**widget("theirs"), "metadata": {"name": "theirs", "namespace": "team"}})
    removed = stage.run(widget_crd(), state="absent", prune=prune)
    assert removed.kept == ("widgets.example.com",)
    assert stage.cluster.get("widgets", "team", "theirs") is not None
    assert stage.cluster.get("customresourcedefinitions", "", "widgets.example.com") is not None
    assert (stage.cluster.get("widgets", "home", "one") is None) == prune
    stage.cluster.remove("widgets", "team", "theirs")
    assert stage.actions(widget_crd(), state="absent", prune=prune)[MADE[0]] == "pruned"


def hold_widgets(stage):
    """An operator that lets a widget go a while after its deletion, as long as it runs itself."""

    def release(change):
        """Take the finalizer away."""
        if change.plural == "widgets" and not change.gone and change.object["metadata"].get("deletionTimestamp"):
            stage.cluster.clock.after(3.0, let_go)

    def let_go():
        """If nobody has removed the operator."""
        if stage.cluster.get("deployments", "home", "operator") is not None:
            stage.cluster.change("widgets", "home", "one", lambda obj: obj["metadata"].update(finalizers=[]))

    stage.cluster.listeners.append(release)
    held = widget()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    return [*WHOLE[1:], held]


@pytest.mark.parametrize("named", [True, False])
def test_objects_of_an_operator_go_while_it_still_runs(stage, named):
    before = stage.inventory()
    objects = hold_widgets(stage)
    stage.run(*objects)
    result = stage.run(*(objects if named else ()), state="absent").as_result(diff=False)
    assert "failed" not in result
    assert stage.inventory() == before


def test_an_operator_stays_that_has_not_let_its_objects_go(stage):
    stage.run(*hold_widgets(stage))
    stage.cluster.listeners.pop()
    result = stage.run(state="absent", wait_timeout=5.0).as_result(diff=False)
    assert result["msg"].startswith("Cannot wait for the removal of Widget home/one: its finalizers are not done")
    assert [told["kind"] for told in result["objects"]] == ["Widget"]
    assert stage.cluster.get("deployments", "home", "operator") is not None


def test_single_objects_are_removed_if_they_are_ours(stage):
    stage.run(*WHOLE)
    stage.cluster.add("configmaps", {"metadata": {"name": "theirs", "namespace": "home"}})
    some = [config_map("settings"), config_map("theirs"), config_map("never-there")]
    assert stage.actions(*some, state="absent", prune=False) == {"ConfigMap settings": "pruned"}
    assert stage.actions(*some, state="absent", prune=False) == {}
    assert stage.cluster.get("configmaps", "home", "theirs") is not None


def test_with_rights_in_one_namespace_only_what_lies_there_is_seen(stage):
    stage.run(namespace(), config_map("a", "team"), config_map("b"))
    stage.forbid("namespaces", "clusterroles", "configmaps", verbs=("list",), namespaces=("", "home"))
    result = stage.run(config_map("a", "team"), state="absent")
    assert [change.obj["metadata"]["name"] for change in result.changes] == ["a"]
    assert set(result.unseen) == {"namespaces", "clusterroles", "configmaps outside of team"}
    (warning,) = result.as_result(diff=False)["warnings"]
    assert warning.startswith("of component widgets more may be left, where this account may not look: ")
    assert stage.cluster.get("configmaps", "home", "b") is not None


def test_who_may_look_in_the_default_namespace_only_finds_what_names_none(stage):
    stage.cluster.add("namespaces", {"metadata": {"name": "default"}})
    unplaced = config_map("a")
    del unplaced["metadata"]["namespace"]
    stage.forbid("configmaps", verbs=("list",), namespaces=("",))
    stage.run(unplaced)
    assert stage.actions(unplaced, state="absent") == {"ConfigMap a": "pruned"}


def test_what_may_not_be_deleted_is_named_before_anything_is(stage):
    stage.run(*WHOLE)
    stage.forbid("configmaps", verbs=("delete",))
    stage.line.sent.clear()
    for task in ({"state": "absent"}, {"objects": NEXT}):
        with pytest.raises(Forbidden, match="Cannot delete configmaps home/settings") as caught:
            stage.run(*task.pop("objects", ()), **task)
        assert caught.value.verb == "delete"
    assert stage.line.writes == []


def test_workloads_are_waited_for(stage):
    stage.run(namespace(), deployment())
    assert 2 <= stage.cluster.clock.now < 4
    assert stage.told == ["waiting for Deployment home/operator: its controller has not seen it yet"]


@pytest.mark.parametrize("fault", [{"trouble": "lose"}, {"trouble": "refuse", "status": 503}])
def test_waiting_outlasts_a_server_that_is_away_for_a_while(stage, fault):
    stage.run(namespace(), deployment(), widget_crd(), widget(), wait=False)
    away = {"methods": "GET", "times": 12}
    stage.trouble(Fault(path="deployments/operator", skip=1, **away, **fault))
    assert stage.run(namespace(), deployment(), widget_crd(), widget()).problem is None
    stage.trouble(Fault(path="namespaces/home$", **away, **fault))
    assert stage.run(state="absent").problem is None


def test_slow_answers_leave_the_time_to_wait_whole(stage):
    stage.line.latency = 0.4
    many = [config_map(f"c{number}", "team") for number in range(40)]
    assert stage.run(*many, namespace(), widget_crd(), deployment(), wait_timeout=8.0).problem is None


def test_waiting_for_a_server_that_does_not_come_back_ends(stage):
    stage.run(namespace(), deployment(), wait=False)
    stage.trouble(Fault("lose", "GET", path="deployments/operator", skip=1, times=999))
    started = stage.cluster.clock.now
    result = stage.run(namespace(), deployment(), wait_timeout=30.0).as_result(diff=False)
    assert result["msg"].startswith("Cannot read deployments home/operator: no answer from ")
    assert 30 < stage.cluster.clock.now - started < 40


def test_a_workload_that_is_not_ready_in_time_fails_the_task_that_tells_what_it_did(stage):
    stage.deploys = False
    result = stage.run(namespace(), deployment(), wait_timeout=30.0).as_result(diff=False)
    assert (result["failed"], result["changed"]) == (True, True)
    assert result["msg"] == "Cannot wait for Deployment home/operator: its controller has not seen it yet"
    assert [told["action"] for told in result["objects"]] == ["created", "created"]
    assert 30 < stage.cluster.clock.now < 32
    assert not stage.run(namespace(), deployment(), wait=False).as_result(diff=False).get("failed")


def test_a_removal_that_is_held_up_is_told(stage):
    held = config_map("a", "team")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    stage.run(held)
    result = stage.run(state="absent", wait_timeout=5.0).as_result(diff=False)
    assert (
        result["msg"]
        == "Cannot wait for the removal of ConfigMap team/a: its finalizers are not done: example.com/hold"
    )
    assert stage.actions(state="absent", wait=False) == {}


def test_the_difference_shows_our_fields_only(stage):
    stage.run(namespace(), deployment())
    (shown,) = stage.run(namespace(), deployment(image="i:2")).as_result(diff=True)["diff"]
    containers = [{"name": "main", "image": "i:1"}], [{"name": "main", "image": "i:2"}]
    before, after = ({"spec": {"template": {"spec": {"containers": item}}}} for item in containers)
    assert shown == {
        "before_header": "Deployment home/operator",
        "after_header": "Deployment home/operator",
        "before": before,
        "after": after,
    }
    (gone, *_others) = stage.run(state="absent", check=True).as_result(diff=True)["diff"]
    assert (gone["before"]["metadata"], gone["after"]) == ({"name": "home", "labels": LABELS}, {})


def test_wrong_definitions_are_refused_before_the_cluster_is_asked(stage):
    with pytest.raises(BadInput, match="Cannot read component widgets: definition: it is empty"):
        stage.run(definition=[])
    assert stage.line.sent == []


def tasks(stage):
    """A component made, changed and removed; a task that is killed is run again."""
    for objects, state in ((WHOLE, "present"), (NEXT, "present"), ((), "absent")):
        try:
            stage.run(*objects, state=state)
        except Killed:
            stage.run(*objects, state=state)
        yield stage.inventory()


def try_hard(chance, stage, *objects, **more):
    """A task several times, some of them killed or in trouble."""
    for _attempt in range(3):
        trouble = chance.choice(["kill_before", "kill_after", "lose", "cut", "refuse"])
        stage.trouble(Fault(trouble, skip=chance.randrange(60), status=chance.choice([429, 500, 503])))
        try:
            stage.run(*objects, **more)
        except (Killed, MusterError):
            continue
        finally:
            stage.line.faults.clear()


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happened_before_check_mode_is_right_and_the_second_run_writes_nothing(seed):
    chance = random.Random(seed)
    stage = ComponentStage()
    foreign(stage)
    before = stage.inventory()
    some = [widget(), config_map("settings"), deployment(), config_map("a", "team"), config_map("b", "team")]
    for state in chance.choices(["present", "absent"], [2, 1], k=5):
        objects = [namespace(), widget_crd(), *chance.sample(some, 3)]
        try_hard(chance, stage, *objects, state=state)
        foretold = stage.actions(*objects, state=state, check=True)
        assert stage.actions(*objects, state=state) == foretold
        stage.line.sent.clear()
        stage.run(*objects, state=state)
        assert stage.line.writes == []
        left = stage.inventory()
        assert {place: left[place] for place in before} == before
        assert state == "present" or left == before


def kill(stage, moment, number):
    """Have the process end at one of its writes; dry runs are none."""
    fault = Fault(moment, times=0)
    stage.trouble(fault)
    original = stage.line.send

    def send(method, url, *more):
        """Let the write of that number meet the fault."""
        if method != "GET" and "dryRun=All" not in url and len(stage.line.writes) == number:
            fault.times = 1
        return original(method, url, *more)

    stage.line.send = send


@pytest.mark.parametrize("moment", ["kill_before", "kill_after"])
def test_a_run_killed_at_any_write_is_finished_by_the_next(moment):
    whole = ComponentStage()
    expected = list(tasks(whole))
    assert len(whole.line.writes) == 13
    for number in range(13):
        stage = ComponentStage()
        kill(stage, moment, number)
        assert list(tasks(stage)) == expected, f"{moment} write {number}"
        assert len(stage.line.writes) == (14 if moment == "kill_before" else 13)
