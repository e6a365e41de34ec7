# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A release planned and carried out in a cluster in memory; killed anywhere, the next run finishes it."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.chart import Chart
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_plan import (
    plan_release,
    plan_removal,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_work import (
    carry_out,
    remove_release,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.tests.support.helm_cases import COMPONENT, HOME, RELEASE
from ansible_collections.muster.kube.tests.support.memory_cluster import Kind, MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_helm import MemoryHelm
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault, Killed, Line

CHART = Chart("/charts/widget", "widget", "1.2.3", "9", "sha256:0")
ONE, TWO = {"size": 1, "extra": False}, {"size": 2, "extra": True}


def chart(values, upgrade):
    """A definition, objects of a kind that helm knows and of one that it does not, one that comes and goes, a hook."""
    names = {"kind": "Widget", "plural": "widgets"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [{"name": "v1", "served": True}]}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    yield "widget/crds/widgets.yaml", {**crd, "metadata": {"name": "widgets.example.com"}}
    yield "widget/templates/map.yaml", obj("v1", "ConfigMap", "settings", data={"size": str(values["size"])})
    yield "widget/templates/widget.yaml", obj("example.com/v1", "Widget", "one", spec={"size": values["size"]})
    yield "widget/templates/role.yaml", obj("rbac.authorization.k8s.io/v1", "ClusterRole", "widget-reader", rules=[])
    if values.get("extra"):
        yield "widget/templates/extra.yaml", obj("v1", "ConfigMap", "extra", data={"a": "b"})
    else:
        yield "widget/templates/plain.yaml", obj("v1", "ConfigMap", "plain", data={"a": "b"})
    hook = obj("batch/v1", "Job", "setup")
    hook["metadata"]["annotations"] = {"helm.sh/hook": "pre-install,pre-upgrade"}
    yield "widget/templates/hook.yaml", hook


def obj(api_version, kind, name, **more):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


class Stage:
    """A cluster, a helm, and runs on one release."""

    def __init__(self, rendered=chart):
        self.cluster = MemoryCluster()
        self.cluster.server_version = (1, 36)
        self.cluster.add("namespaces", {"metadata": {"name": HOME}})
        self.cluster.listeners.append(self._establish)
        self.helm = MemoryHelm(self.cluster, rendered)
        self.line = Line(self.cluster)
        self.client = self.line.client()

    def _establish(self, change):
        if change.plural == "customresourcedefinitions" and change.before is None:
            self.cluster.serve(Kind("example.com/v1", "Widget", "widgets"))

    def source(self, values=ONE, **more):
        return HelmSource(
            **{"component": COMPONENT, "chart": "c", "release": RELEASE, "namespace": HOME, "values": values, **more}
        )

    def plan(self, values=ONE, **more):
        return plan_release(self.client, self.helm, CHART, self.source(values, **more))

    def run(self, values=ONE, **more):
        """One run as a component makes it: definitions first."""
        plan = self.plan(values, **more)
        if plan.decision.action not in ("found", "refused", "unchanged"):
            for crd in plan.render.definitions:
                if self.cluster.get("customresourcedefinitions", "", crd["metadata"]["name"]) is None:
                    self.cluster.add("customresourcedefinitions", crd)
        carry_out(self.client, self.helm, plan, 60)
        return plan.decision.action

    def remove(self):
        plan = plan_removal(self.client, self.source())
        remove_release(self.client, self.helm, plan, 60)
        return plan.decision.action

    def inventory(self):
        """All objects there are but for revisions, without what the server counts."""
        found = {}
        for plural in self.cluster.kinds:
            for item in self.cluster.all(plural):
                metadata = {key: value for key, value in item["metadata"].items() if key in ("labels", "annotations")}
                if plural != "events" and metadata.get("labels", {}).get("owner") != "helm":
                    place = f"{plural} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
                    found[place] = {**item, "metadata": metadata}
        return found

    def statuses(self):
        return [item.revision.status for item in self.helm.history(self.source())]


@pytest.fixture
def stage():
    return Stage()


def test_a_release_is_installed_once(stage):
    assert stage.run() == "installed"
    assert (stage.statuses(), stage.helm.hooks) == (["deployed"], ["pre-install"])
    stage.line.sent.clear()
    runs, before = stage.helm.runs, stage.inventory()
    assert stage.run() == "unchanged"
    assert (stage.helm.runs, stage.line.writes, stage.inventory()) == (runs, [], before)


def test_a_plan_writes_nothing_and_tells_what_the_run_does(stage):
    for values in (ONE, TWO):
        before = stage.inventory()
        foretold = stage.plan(values)
        assert (stage.inventory(), stage.helm.writes * (values is ONE)) == (before, 0)
        changes = {change.obj["metadata"]["name"] for change in foretold.changes if change.action != "unchanged"}
        assert stage.run(values) == foretold.decision.action
        assert changes >= {"settings", "one"}
    assert stage.statuses() == ["superseded", "deployed"]


def test_new_values_are_an_upgrade_and_what_went_is_gone(stage):
    stage.run()
    assert stage.run(TWO) == "upgraded"
    assert stage.cluster.get("configmaps", HOME, "plain") is None
    assert stage.cluster.get("widgets", HOME, "one")["spec"] == {"size": 2}
    assert stage.helm.hooks == ["pre-install", "pre-upgrade"]
    assert stage.run(TWO) == "unchanged"


def test_no_values_at_all_are_not_those_of_before(stage):
    stage = Stage(lambda values, upgrade: chart({"size": 1, **values}, upgrade))
    stage.run({"size": 1, "extra": True})
    assert stage.run({}) == "upgraded"
    assert stage.cluster.get("configmaps", HOME, "extra") is None


@pytest.mark.parametrize(
    ("drift", "runs"),
    [
        (lambda it: it.change("configmaps", HOME, "settings", lambda obj: obj["data"].update(size="9")), 1),
        (lambda it: it.change("configmaps", HOME, "settings", lambda obj: obj["metadata"]["labels"].clear()), 1),
        (lambda it: it.remove("configmaps", HOME, "plain"), 1),
        (lambda it: it.remove("widgets", HOME, "one"), 1),
        (lambda it: it.change("widgets", HOME, "one", lambda obj: obj["spec"].update(size=9)), 0),
    ],
)
def test_what_was_changed_by_hand_is_put_right(stage, drift, runs):
    stage.run()
    before, ran = stage.inventory(), stage.helm.runs
    drift(stage.cluster)
    assert stage.inventory() != before
    assert stage.run() == "repaired"
    assert (stage.inventory(), stage.helm.runs - ran) == (before, runs)
    assert stage.run() == "unchanged"


def test_what_helm_leaves_wrong_is_written_afterwards(stage):
    stage.run()
    stage.cluster.change("widgets", HOME, "one", lambda item: item["spec"].update(size=9))
    stage.cluster.remove("configmaps", HOME, "plain")
    before = stage.plan()
    outcome = carry_out(stage.client, stage.helm, before, 60)
    assert [change.obj["kind"] for change in outcome.rest] == ["Widget"]
    assert stage.run() == "unchanged"


def test_what_each_render_makes_anew_is_no_reason_to_upgrade():
    numbers = itertools.count()

    def random_chart(values, upgrade):
        yield from chart(values, upgrade)
        yield "widget/templates/secret.yaml", obj("v1", "Secret", "password", data={"p": f"n{next(numbers)}"})

    stage = Stage(random_chart)
    stage.run()
    before = stage.inventory()
    assert stage.run() == "unchanged"
    assert stage.inventory() == before
    stage.cluster.remove("secrets", HOME, "password")
    assert stage.run() == "repaired"
    assert stage.run(TWO) == "upgraded"
    assert stage.run(TWO) == "unchanged"


def test_a_chart_that_tells_upgrades_from_installs_is_left_alone_after_either():
    def telling(values, upgrade):
        yield from chart(values, upgrade)
        yield "widget/templates/told.yaml", obj("v1", "ConfigMap", "told", data={"upgrade": str(upgrade)})

    stage = Stage(telling)
    for values, action in ((ONE, "installed"), (ONE, "unchanged"), (TWO, "upgraded"), (TWO, "unchanged")):
        assert stage.run(values) == action


def test_a_release_that_somebody_upgraded_by_hand_is_put_back(stage):
    stage.run()
    mark = stage.helm.history(stage.source())[-1].revision.mark
    stage.helm.upgrade("", stage.source(TWO), mark, 60)
    assert stage.run() == "upgraded"
    assert stage.run() == "unchanged"


def test_the_same_made_again_by_hand_is_no_reason_to_upgrade(stage):
    stage.run()
    mark = stage.helm.history(stage.source())[-1].revision.mark
    stage.helm.upgrade("", stage.source(), mark, 60)
    assert stage.run() == "unchanged"


def test_a_release_of_somebody_else_is_named_and_left_as_it_is(stage):
    Stage.run(stage, component="gadgets")
    before, writes = stage.inventory(), stage.helm.writes
    plan = stage.plan(TWO)
    assert (plan.decision.action, plan.release.chart_version) == ("found", "1.2.3")
    assert "is of component gadgets" in plan.decision.words
    with pytest.raises(MusterError, match=r"Cannot install release home/widget-operator: .* is of component gadgets"):
        stage.run(TWO)
    with pytest.raises(MusterError, match="Cannot remove release"):
        stage.remove()
    assert (stage.inventory(), stage.helm.writes) == (before, writes)


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        ({}, "nobody that it tells of"),
        (
            {
                "labels": {"app.kubernetes.io/managed-by": "Helm"},
                "annotations": {"meta.helm.sh/release-name": "x", "meta.helm.sh/release-namespace": "y"},
            },
            "the helm release y/x",
        ),
    ],
)
def test_an_object_of_somebody_else_is_named_before_anything_is_written(stage, metadata, owner):
    stage.cluster.add("configmaps", {"metadata": {"name": "settings", "namespace": HOME, **metadata}})
    before = stage.inventory()
    plan = stage.plan()
    assert (plan.decision.action, plan.decision.words) == ("found", f"ConfigMap home/settings is of {owner}")
    with pytest.raises(MusterError):
        stage.run()
    assert (stage.inventory(), stage.helm.writes) == (before, 0)


def test_an_upgrade_that_would_take_what_is_not_ours_is_refused_before_anything_is_written(stage):
    stage.run()
    stage.cluster.add("configmaps", {"metadata": {"name": "extra", "namespace": HOME}})
    before = stage.inventory()
    assert stage.plan(TWO).decision.action == "refused"
    with pytest.raises(MusterError, match="ConfigMap home/extra is of nobody"):
        stage.run(TWO)
    assert stage.inventory() == before


def undisturbed(*values):
    """What runs with these values come to when nothing happens to them."""
    stage = Stage()
    for item in values:
        stage.run(item)
    return stage.inventory()


def deaths(course, with_us):
    """Stages in which the last run of a course died, before each of its writes by helm and by us."""
    for by_helm in (True, False):
        for number in itertools.count():
            stage = Stage()
            for step in course[:-1]:
                stage.run(step)
            if by_helm:
                stage.helm.killed_at, stage.helm.killed_with_us = stage.helm.writes + number, with_us
            else:
                trouble = "kill_before" if number % 2 else "kill_after"
                stage.line.faults.append(Fault(trouble, WRITES, skip=number // 2, dry=False))
            try:
                (stage.remove if course[-1] is None else lambda stage=stage: stage.run(course[-1]))()
            except (Killed, MusterError):
                stage.helm.killed_at = None
                stage.line.faults.clear()
                yield stage
            else:
                break


COURSES = ([ONE], [ONE, TWO], [TWO, ONE], [ONE, TWO, ONE])


@pytest.mark.parametrize("course", COURSES, ids=str)
@pytest.mark.parametrize("with_us", [True, False])
@pytest.mark.parametrize("then", [ONE, TWO], ids=["one", "two"])
def test_a_run_that_was_killed_anywhere_is_finished_by_the_next(course, with_us, then):
    expected = undisturbed(then)
    points = 0
    for stage in deaths(course, with_us):
        points += 1
        stage.run(then)
        assert stage.inventory() == expected, stage.statuses()
        assert stage.statuses().count("deployed") == 1
        assert not any(status.startswith("pending") for status in stage.statuses())
        assert stage.run(then) == "unchanged"
    assert points >= 5


@pytest.mark.parametrize("course", COURSES, ids=str)
@pytest.mark.parametrize("with_us", [True, False])
def test_a_run_that_was_killed_anywhere_can_be_taken_away(course, with_us):
    for stage in deaths(course, with_us):
        stage.remove()
        assert stage.statuses() == []
        assert not [
            place for place in stage.inventory() if place.split()[0] in ("configmaps", "widgets", "clusterroles")
        ]
        assert stage.remove() == "unchanged"


@pytest.mark.parametrize("with_us", [True, False])
def test_a_removal_that_was_killed_anywhere_is_finished_by_a_removal_and_by_an_install(with_us):
    gone = Stage()
    gone.run()
    gone.remove()
    expected = gone.inventory()
    for stage in deaths([ONE, None], with_us):
        stage.remove()
        assert (stage.inventory(), stage.statuses()) == (expected, [])
    for stage in deaths([ONE, None], with_us):
        stage.run(TWO)
        assert stage.inventory() == undisturbed(TWO)
        assert stage.statuses() == ["deployed"] or "superseded" in stage.statuses()


def test_an_unfinished_upgrade_of_somebody_else_is_not_ended(stage):
    stage.run()
    mark = stage.helm.history(stage.source())[-1].revision.mark
    stage.helm.killed_at = stage.helm.writes + 2
    with pytest.raises(MusterError, match="signal 9"):
        stage.helm.upgrade("", stage.source(TWO), mark, 60)
    stage.helm.killed_at = None
    before = stage.inventory()
    with pytest.raises(MusterError, match="is pending-upgrade, and not by us"):
        stage.run()
    with pytest.raises(MusterError, match="is pending-upgrade, and not by us"):
        stage.remove()
    assert (stage.inventory(), stage.statuses()) == (before, ["deployed", "pending-upgrade"])


def test_what_a_chart_wants_to_keep_is_told_when_its_release_goes():
    def keeping(values, upgrade):
        for file, item in chart(values, upgrade):
            if item["metadata"]["name"] == "settings":
                item["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
            yield file, item

    stage = Stage(keeping)
    stage.run()
    plan = plan_removal(stage.client, stage.source())
    assert [item["metadata"]["name"] for item in plan.kept] == ["settings"]


def test_a_release_that_failed_is_tried_again(stage):
    stage.run()
    stage.helm._set_status(stage.source(), 1, "failed")
    assert stage.run() == "installed"
    stage.run(TWO)
    stage.helm._set_status(stage.source(), 2, "failed")
    assert stage.run(TWO) == "repaired"
    assert dataclasses.astuple(stage.plan(TWO).decision)[0] == "unchanged"
