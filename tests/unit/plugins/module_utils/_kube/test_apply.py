# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists of objects made as described: their order, what is written, what is refused, and what is left alone."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import (
    Label,
    SeveralRefusals,
    compare,
    in_order,
    write_changes,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict, Forbidden, Invalid, NotFound
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.tests.support.component_stage import (
    WHOLE,
    ComponentStage,
    config_map,
    namespace,
    widget,
    widget_crd,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import Kind, Refused
from ansible_collections.muster.kube.tests.support.memory_wire import Fault

LABEL = Label("muster.kube/component", "widgets")
ORDER = ["CustomResourceDefinition", "Namespace", "Widget", "ConfigMap", "Deployment"]


@pytest.fixture
def stage():
    return ComponentStage()


@pytest.fixture
def client(stage):
    return stage.line.client()


def apply(client, *objects, label=LABEL):
    """Compare and write: what became of each object."""
    changes = compare(client, objects, label)
    write_changes(client, changes, client.clock() + 60)
    return [change.action for change in changes]


def test_definitions_come_first_then_namespaces_then_the_rest_as_given():
    assert [obj["kind"] for obj in in_order(WHOLE)] == ORDER


@pytest.mark.parametrize("objects", list(itertools.permutations((widget(), namespace(), widget_crd()))))
def test_a_kind_a_namespace_and_an_object_of_both_in_one_list(stage, client, objects):
    assert apply(client, *objects) == ["created"] * 3
    assert [path.rpartition("/")[2] for _method, path in stage.line.writes] == ["widgets.example.com", "home", "one"]
    assert apply(client, *objects) == ["unchanged"] * 3
    assert len(stage.line.writes) == 3


def test_what_is_as_described_is_not_written(stage, client):
    objects = [config_map("a", "team"), config_map("b", "team")]
    assert apply(client, *objects) == ["created"] * 2
    stage.line.sent.clear()
    assert apply(client, *objects) == ["unchanged"] * 2
    assert apply(client, *objects, config_map("c", "team")) == ["unchanged", "unchanged", "created"]
    assert stage.line.writes == [("PATCH", "/api/v1/namespaces/team/configmaps/c")]


def test_what_others_changed_is_put_right_and_what_they_added_stays(stage, client):
    apply(client, config_map("a", "team", mine="1"))
    theirs = {"mine": "2", "theirs": "3"}
    stage.cluster.change("configmaps", "team", "a", lambda obj: obj.update(data=theirs))
    (change,) = compare(client, [config_map("a", "team", mine="1")], LABEL)
    assert (change.action, change.before, change.after) == ("changed", {"data": {"mine": "2"}}, {"data": {"mine": "1"}})
    assert apply(client, config_map("a", "team", mine="1")) == ["changed"]
    assert stage.cluster.get("configmaps", "team", "a")["data"] == {"mine": "1", "theirs": "3"}


def test_fields_that_are_described_no_more_go(stage, client):
    apply(client, config_map("a", "team", one="1", two="2"))
    (change,) = compare(client, [config_map("a", "team", one="1")], LABEL)
    assert (change.before, change.after) == ({"data": {"two": "2"}}, {"data": {}})
    apply(client, config_map("a", "team", one="1"))
    assert stage.cluster.get("configmaps", "team", "a")["data"] == {"one": "1"}


def test_comparing_writes_nothing_and_foretells_the_real_run(stage, client):
    before = stage.inventory()
    foretold = compare(client, WHOLE, LABEL)
    assert stage.inventory() == before
    assert stage.line.writes == []
    assert [(change.obj["kind"], change.action, change.untried) for change in foretold] == [
        *((kind, "created", False) for kind in ORDER[:2]),
        *((kind, "created", True) for kind in ORDER[2:]),
    ]
    assert apply(client, *WHOLE) == [change.action for change in foretold]


def test_a_namespace_that_nobody_makes_is_named(stage, client):
    with pytest.raises(NotFound, match=r'Cannot patch ConfigMap nowhere/a: namespaces "nowhere" not found'):
        compare(client, [config_map("a", "nowhere")], LABEL)
    assert stage.line.writes == []


def test_a_kind_that_nobody_serves_is_named(stage, client):
    with pytest.raises(MusterError, match="Cannot create Widget home/one: the API server does not serve this kind"):
        compare(client, [namespace(), widget()], LABEL)


def test_objects_get_the_label_and_a_place(stage, client):
    unplaced = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}}
    stage.cluster.add("namespaces", {"metadata": {"name": "default"}})
    apply(client, unplaced)
    assert stage.cluster.get("configmaps", "default", "a")["metadata"]["labels"] == {"x": "y", LABEL.key: LABEL.value}
    assert unplaced["metadata"]["labels"] == {"x": "y"}


def test_a_namespace_of_somebody_else_is_used_and_left_as_it_is(stage, client):
    wanted = {**namespace("team"), "metadata": {"name": "team", "labels": {"level": "strict"}}}
    before = stage.cluster.get("namespaces", "", "team")
    assert apply(client, wanted, config_map("a", "team")) == ["unchanged", "created"]
    assert stage.cluster.get("namespaces", "", "team") == before
    assert apply(client, wanted, label=None) == ["changed"]


@pytest.mark.parametrize("labels", [{}, {LABEL.key: "gadgets"}])
def test_an_object_of_somebody_else_is_named_and_left_as_it_is(stage, client, labels):
    stage.cluster.add("configmaps", {"metadata": {"name": "a", "namespace": "team", "labels": labels}})
    before = stage.inventory()
    with pytest.raises(MusterError, match=r"Cannot apply ConfigMap team/a: it exists and is not ours") as caught:
        apply(client, namespace(), config_map("a", "team"))
    assert "muster.kube/component=widgets" in str(caught.value)
    assert stage.inventory() == before
    assert apply(client, config_map("a", "team"), label=None) == ["changed"]


def test_an_object_that_is_about_to_go_is_named(stage, client):
    held = config_map("a", "team")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    apply(client, held)
    stage.cluster.remove("configmaps", "team", "a")
    stage.line.sent.clear()
    with pytest.raises(MusterError, match=r"Cannot apply ConfigMap team/a: it is being deleted"):
        apply(client, namespace(), held)
    assert stage.line.writes == []


def test_a_namespace_named_for_a_kind_without_one_means_nothing(client):
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "r", "namespace": "team"},
    }
    (change,) = compare(client, [role], LABEL)
    assert "namespace" not in change.obj["metadata"]


def test_a_namespace_of_ours_is_kept_as_described(stage, client):
    apply(client, namespace())
    wanted = {**namespace(), "metadata": {"name": "home", "labels": {"level": "strict"}}}
    assert apply(client, wanted) == ["changed"]
    assert stage.cluster.get("namespaces", "", "home")["metadata"]["labels"]["level"] == "strict"


def test_what_may_not_be_written_is_named_before_anything_is(stage, client):
    stage.forbid("configmaps", verbs=("patch",))
    with pytest.raises(Forbidden) as caught:
        apply(client, namespace("other"), config_map("a", "team"))
    assert caught.value.target == "ConfigMap team/a"
    assert caught.value.as_result()["error"] | {"cause": ""} == {
        "action": "patch",
        "object": "ConfigMap team/a",
        "cause": "",
        "status": 403,
        "reason": "Forbidden",
        "verb": "patch",
        "resource": "configmaps",
        "namespace": "team",
        "user": "admin",
    }
    assert stage.line.writes == []


def test_all_refusals_are_told_at_once(stage, client):
    stage.forbid("configmaps", verbs=("patch",))
    with pytest.raises(
        SeveralRefusals, match=r"Cannot apply 2 objects: patch ConfigMap team/a: .*; patch ConfigMap team/b"
    ):
        compare(client, [config_map("a", "team"), config_map("b", "team")], LABEL)


def test_of_very_many_refusals_the_message_tells_the_first(stage, client):
    stage.forbid("configmaps", verbs=("patch",))
    with pytest.raises(SeveralRefusals, match=r"Cannot apply 100 objects: .*; and 90 more") as caught:
        compare(client, [config_map(f"c{number}", "team") for number in range(100)], LABEL)
    assert str(caught.value).count("ConfigMap") == 10
    assert len(caught.value.as_result()["error"]["refusals"]) == 100


def test_who_may_not_write_may_still_find_everything_as_described(stage, client):
    apply(client, config_map("a", "team"))
    stage.forbid("configmaps", verbs=("patch",))
    assert apply(client, config_map("a", "team")) == ["unchanged"]
    with pytest.raises(Forbidden):
        apply(client, config_map("a", "team", k="other"))


def test_what_cannot_be_is_refused_before_anything_is_written(stage, client):
    fixed = {**config_map("a", "team"), "immutable": True}
    apply(client, fixed)
    stage.line.sent.clear()
    with pytest.raises(Invalid, match=r"Cannot patch ConfigMap team/a: .*field is immutable"):
        apply(client, namespace(), {**fixed, "data": {"k": "other"}})
    assert stage.line.writes == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault("refuse", "PATCH", status=409, reason="Conflict", times=2),
        Fault("refuse", "PATCH", status=500),
        Fault("refuse", "PATCH", status=429, retry_after=1),
        Fault("lose", "PATCH"),
        Fault("cut", "PATCH"),
    ],
)
@pytest.mark.parametrize("skip", [0, 1])
def test_passing_trouble_is_outlasted(stage, client, fault, skip):
    stage.trouble(Fault(**{**vars(fault), "skip": skip}))
    assert apply(client, config_map("a", "team")) == ["created"]
    assert apply(client, config_map("a", "team")) == ["unchanged"]


def test_a_conflict_that_stays_is_told(stage, client):
    stage.trouble(Fault("refuse", "PATCH", status=409, reason="Conflict", message="always", times=99))
    with pytest.raises(Conflict, match=r"Cannot patch ConfigMap team/a: always"):
        apply(client, config_map("a", "team"))


def test_waiting_for_a_kind_outlasts_a_server_that_is_away_for_a_while(stage, client):
    changes = compare(client, [widget_crd()], LABEL)
    stage.trouble(Fault("lose", "GET", path="/apis/example.com/v1$", times=12))
    write_changes(client, changes, client.clock() + 60)
    assert stage.line.faults[0].times == 0


def test_a_kind_that_is_never_served_ends_the_waiting(stage, client):
    stage.cluster.listeners.clear()
    changes = compare(client, [widget_crd(), widget()], LABEL)
    with pytest.raises(
        MusterError, match=r"Cannot wait for CustomResourceDefinition widgets\.example\.com: the API server"
    ):
        write_changes(client, changes, client.clock() + 10)
    assert 10 < stage.cluster.clock.now < 12


class _NoRole:
    """Who may grant and not bind is told that the role of a binding is not there."""

    cause = "denied"

    def __init__(self, cluster):
        self._cluster = cluster

    def stops(self, request, _now):
        """Never, but a binding without its role is refused."""
        if request.kind.plural == "rolebindings" and self._cluster.get("roles", "team", "reader") is None:
            raise Refused(404, "NotFound", 'roles "reader" not found')
        return False


def rights(kind, name, **more):
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team"},
        **more,
    }


def test_a_binding_whose_role_is_made_beside_it_is_tried_when_it_is_there(stage, client):
    stage.cluster.serve(Kind("rbac.authorization.k8s.io/v1", "Role", "roles"))
    stage.cluster.serve(Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"))
    stage.cluster.barriers.append(_NoRole(stage.cluster))
    bind = rights("RoleBinding", "readers", roleRef={"kind": "Role", "name": "reader"})
    for objects in ([bind], [bind, rights("Role", "reader", rules=[])]):
        with pytest.raises(NotFound):
            compare(client, objects, LABEL)
    changes = compare(client, [rights("Role", "reader", rules=[]), bind], LABEL)
    assert [(change.obj["kind"], change.untried) for change in changes] == [("Role", False), ("RoleBinding", True)]
    write_changes(client, changes, client.clock() + 10)
    assert stage.cluster.get("rolebindings", "team", "readers") is not None
