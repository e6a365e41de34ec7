# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Components with records taken away: in which order, what refuses it, what stays, and what an operator left behind."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.tests.support.component_stage import config_map, deployment, widget, widget_crd
from ansible_collections.muster.kube.tests.support.stack_stage import BASE, StackStage, changed, hooks, placed

ABSENT = {"name": "base"}


@pytest.fixture
def stage():
    return StackStage()


def remove(stage, **options):
    """The removal of the component: what is told of it."""
    result = stage.task(ABSENT, state="absent", **options).as_result(diff=True)
    assert not result.get("failed"), result["msg"]
    (told,) = result["components"]
    return told


def deleted(stage):
    """The names of what was deleted, in order, without the records and their namespace."""
    paths = [path for method, path in stage.line.writes if method == "DELETE" and "muster-" not in path]
    return [path.rpartition("/")[2] for path in paths]


def test_what_the_operator_acts_on_goes_first_and_namespaces_go_last(stage):
    stage.course(BASE)
    stage.line.sent.clear()
    told = remove(stage, remove_definitions=True)
    assert deleted(stage) == ["one", "widgets-hook", "operator", "hook", "widgets.example.com", "home"]
    assert (told["action"], told["versions"]) == ("removed", {"before": "1.0.0", "after": None})
    assert [item["action"] for item in told["objects"]] == ["pruned"] * 6


def test_check_mode_tells_the_same_and_writes_nothing(stage):
    stage.course(BASE)
    stage.line.sent.clear()
    foretold = remove(stage, check_mode=True)
    assert stage.line.writes == []
    assert remove(stage) == foretold


def test_definitions_stay_unless_asked_for(stage):
    stage.course(BASE)
    told = remove(stage)
    assert told["kept"] == ["widgets.example.com"]
    assert stage.cluster.get("customresourcedefinitions", "", "widgets.example.com") is not None
    assert remove(stage)["action"] == "unchanged"
    assert stage.course(BASE) == {"base": "repaired"}


def test_objects_of_users_refuse_it(stage):
    stage.course(BASE)
    stage.cluster.add("widgets", {"metadata": {"name": "theirs", "namespace": "team"}, "spec": {}})
    stage.line.sent.clear()
    with pytest.raises(MusterError, match="users have 1 objects of its kinds: Widget team/theirs; with_resources"):
        remove(stage)
    assert stage.line.writes == []
    remove(stage, with_resources=True, remove_definitions=True)
    assert deleted(stage)[:2] == ["one", "theirs"]
    assert stage.cluster.all("widgets") == []


def finalized(stage, *, works=True):
    """A widget that its operator lets go a while after its deletion, if it works and still runs."""
    held = widget()
    held["metadata"]["finalizers"] = ["example.com/hold"]

    def release(change):
        """Take the finalizer away."""
        if change.plural == "widgets" and not change.gone and change.object["metadata"].get("deletionTimestamp"):
            stage.cluster.clock.after(3.0, let_go)

    def let_go():
        """If nobody has removed the operator."""
        if works and stage.cluster.get("deployments", "home", "operator") is not None:
            stage.cluster.change("widgets", "home", "one", lambda obj: obj["metadata"].update(finalizers=[]))

    stage.cluster.listeners.append(release)
    return changed(BASE, definition=[*BASE["definition"][1:], held])


def test_finalizers_are_waited_for_while_the_operator_runs(stage):
    stage.course(finalized(stage))
    assert remove(stage)["action"] == "removed"
    assert stage.cluster.all("widgets") == []


def test_a_stuck_finalizer_is_named_and_leaves_the_operator_there(stage):
    stage.course(finalized(stage, works=False))
    result = stage.task(ABSENT, state="absent", wait_timeout=20.0).as_result(diff=False)
    assert "Widget home/one: its finalizers are not done: example.com/hold" in result["msg"]
    assert stage.cluster.get("deployments", "home", "operator") is not None
    assert stage.record("base").phase == "removing"


def test_what_the_operator_made_by_itself_goes_after_it(stage):
    operator = placed(deployment(), "team")
    volume = {"name": "certs", "secret": {"secretName": "certs"}}
    operator["spec"]["template"] = {"spec": {**operator["spec"]["template"]["spec"], "volumes": [volume]}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook", "namespace": "team"}, "spec": {}}
    stage.cluster.add("secrets", {"metadata": {"name": "before", "namespace": "team"}})
    stage.course({"name": "base", "definition": [operator, service, widget_crd()]})
    stage.cluster.clock.advance(2.0)
    made = hooks("made", "team")
    stage.cluster.add("validatingwebhookconfigurations", made)
    client = {"service": {"name": "theirs", "namespace": "team"}}
    stage.cluster.add(
        "validatingwebhookconfigurations",
        {**hooks("mixed", "team"), "webhooks": [*made["webhooks"], {"name": "x.y.z", "clientConfig": client}]},
    )
    stage.cluster.add(
        "apiservices", {"metadata": {"name": "v1.w"}, "spec": {"service": {"name": "hook", "namespace": "team"}}}
    )
    for name, holder in (("leader", "operator-5c4d7f6b9-x2k8z_1"), ("theirs", "operators_2")):
        stage.cluster.add(
            "leases", {"metadata": {"name": name, "namespace": "team"}, "spec": {"holderIdentity": holder}}
        )
    for name in ("certs", "other"):
        stage.cluster.add("secrets", {"metadata": {"name": name, "namespace": "team"}})
    stage.line.sent.clear()
    remove(stage)
    assert deleted(stage) == ["operator", "hook", "certs", "leader", "v1.w", "made"]
    assert [obj["metadata"]["name"] for obj in stage.cluster.all("secrets")] == ["before", "other"]
    assert [obj["metadata"]["name"] for obj in stage.cluster.all("leases", "team")] == ["theirs"]
    assert [obj["metadata"]["name"] for obj in stage.cluster.all("validatingwebhookconfigurations")] == ["mixed"]


def test_a_webhook_that_a_dying_operator_makes_again_goes_too(stage):
    stage.course(BASE)

    def make_again(change):
        """While it is being ended it sees that its configuration is gone."""
        if change.plural == "deployments" and change.gone:
            stage.cluster.add("validatingwebhookconfigurations", hooks("again"))

    stage.cluster.listeners.append(make_again)
    remove(stage)
    assert stage.cluster.all("validatingwebhookconfigurations") == []


def test_pods_of_the_operator_are_waited_for(stage):
    operator = deployment()
    operator["spec"]["selector"] = {"matchLabels": {"app": "operator"}}
    stage.course(
        changed(BASE, definition=[obj if obj["kind"] != "Deployment" else operator for obj in BASE["definition"]])
    )
    stage.cluster.add(
        "pods", {"metadata": {"name": "p", "namespace": "home", "labels": {"app": "operator"}}, "spec": {}}
    )
    seen = []

    def end(change):
        """The pod ends a while after its Deployment."""
        if change.plural == "deployments" and change.gone:
            stage.cluster.clock.after(4.0, lambda: stage.cluster.remove("pods", "home", "p"))
        if change.plural == "namespaces" and change.object["metadata"].get("deletionTimestamp"):
            seen.append(stage.cluster.get("pods", "home", "p"))

    stage.cluster.listeners.append(end)
    remove(stage)
    assert seen[0] is None


@pytest.mark.parametrize(
    ("plural", "metadata"),
    [
        ("deployments", {"name": "theirs"}),
        ("persistentvolumeclaims", {"name": "theirs"}),
        ("configmaps", {"name": "r", "labels": {"muster.kube/record": "gang"}}),
        ("serviceaccounts", {"name": "s", "labels": {"muster.kube/component": "other"}}),
    ],
)
def test_a_namespace_in_which_others_have_something_stays(stage, plural, metadata):
    stage.course(BASE)
    stage.deploys = False
    stage.cluster.add(plural, {"metadata": {**metadata, "namespace": "home"}, "spec": {"replicas": 1}})
    told = remove(stage, remove_definitions=True)
    assert told["kept"] == ["home"]
    assert stage.cluster.get(plural, "home", metadata["name"]) is not None


def test_a_definition_that_stays_calls_nobody_any_more(stage):
    crd = widget_crd()
    webhook = {"clientConfig": {"service": {"name": "hook", "namespace": "home"}}, "conversionReviewVersions": ["v1"]}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    stage.course(changed(BASE, definition=[*BASE["definition"][:-1], crd]), wait_for="workloads")
    remove(stage)
    left = stage.cluster.get("customresourcedefinitions", "", "widgets.example.com")
    assert left["spec"]["conversion"] == {"strategy": "None"}


def test_a_component_that_was_never_there_is_not_removed(stage):
    assert remove(stage)["action"] == "unchanged"
    assert stage.line.writes == []


def test_records_of_others_keep_their_namespace(stage):
    stage.course(BASE, {"name": "other", "definition": [config_map("o", "team")]})
    remove(stage)
    assert stage.record("other").phase == "installed"
    assert stage.cluster.get("leases", "muster-system", "provision") is not None


def test_a_namespace_of_records_that_somebody_else_made_stays(stage):
    stage.cluster.add("namespaces", {"metadata": {"name": "muster-system"}})
    stage.course(BASE)
    remove(stage)
    assert stage.cluster.get("namespaces", "", "muster-system") is not None
