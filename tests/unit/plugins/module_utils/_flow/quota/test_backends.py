# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tree that Kueue counts, or that has ceilings, on a server in memory: written, kept, changed and taken away."""

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.run import run_quota
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STATE_ANNOTATION, state_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import read_stored_tree
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job
from ansible_collections.muster.kube.tests.support.gang_records import state_in
from ansible_collections.muster.kube.tests.support.kueue_kinds import LABEL, serve_kueue, workload
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial, MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault, Killed, Line
from ansible_collections.muster.kube.tests.support.quota_trees import queue

AMOUNTS = {"cpu": 4, "memory": "8Gi"}
A = queue("a", "root", nominal=AMOUNTS, namespaces=["red"], hard=True)
B = queue("b", "root", nominal=AMOUNTS, namespaces=["blue"], borrowing_limit=AMOUNTS)
BOTH = [queue("root"), A, B]
KINDS = ("resourceflavors", "workloadpriorityclasses", "cohorts", "clusterqueues", "localqueues")


@pytest.fixture
def cluster():
    """A cluster with Kueue and three namespaces."""
    made = MemoryCluster()
    for name in ("team", "red", "blue", "kube-system"):
        made.add("namespaces", {"metadata": {"name": name}})
    serve_kueue(made)
    return made


@pytest.fixture
def line(cluster):
    return Line(cluster)


def run(line, queues=BOTH, *, state="present", check=False, backends=("kueue",), **rest):
    declaration = {"queues": queues, "backends": list(backends), **rest}
    return run_quota(line.client, QuotaOptions("default", "team", state, declaration, check))


def told(result):
    """What was done with each object, without those that stayed as they were."""
    return {
        (item["kind"], item["namespace"], item["name"]): item["action"]
        for item in result.as_result(diff=False)["objects"]
        if item["action"] != "unchanged"
    }


def names(cluster, plural):
    return sorted((obj["metadata"].get("namespace") or "", obj["metadata"]["name"]) for obj in cluster.all(plural))


def writes(line):
    """What the task wrote; the marks of earlier ones are gone."""
    found = list(line.writes)
    line.sent.clear()
    return found


def test_objects_are_foretold_written_once_and_removed(cluster, line):
    foretold = run(line, check=True, priorities={"urgent": 5}).as_result(diff=True)
    assert writes(line) == []
    real = run(line, priorities={"urgent": 5})
    assert {**real.as_result(diff=True), "would": {"start": [], "wait": [], "reclaim": [], "shrink": []}} == foretold
    assert [names(cluster, plural) for plural in KINDS] == [
        [("", "default")],
        [("", "urgent")],
        [("", "root")],
        [("", "a"), ("", "b")],
        [("blue", "b"), ("red", "a")],
    ]
    writes(line)
    again = run(line, priorities={"urgent": 5})
    assert (again.changed, writes(line)) == (False, [])
    gone = run(line, state="absent", check=True).as_result(diff=True)
    assert writes(line) == []
    assert gone.pop("would") == {"start": [], "wait": [], "reclaim": [], "shrink": []}
    assert run(line, state="absent").as_result(diff=True) == gone
    assert {tuple(names(cluster, plural)) for plural in KINDS} == {()}
    assert not run(line, state="absent").changed


def test_the_configmap_says_that_kueue_counts_before_kueue_is_told(cluster, line):
    line.faults.append(Fault("kill_after", "POST"))
    with pytest.raises(Killed):
        run(line)
    assert read_stored_tree(Line(cluster).client(), "team", "default").tree.counted_by == "kueue"
    assert names(cluster, "clusterqueues") == []
    assert run(line).changed
    assert len(names(cluster, "clusterqueues")) == 2


@pytest.mark.parametrize("trouble", ["kill_before", "kill_after", "lose", "cut"])
def test_whatever_happens_to_one_write_the_next_run_ends_it(cluster, trouble):
    """Written, made smaller and taken away: killed or cut off at each write of each."""
    steps = [{}, {"queues": [queue("root"), B]}, {"state": "absent"}]
    for step in range(3):
        number = 0
        while True:
            fresh = MemoryCluster()
            for name in ("team", "red", "blue"):
                fresh.add("namespaces", {"metadata": {"name": name}})
            serve_kueue(fresh)
            for before in steps[:step]:
                run(Line(fresh), **before)
            line = Line(fresh)
            line.faults.append(Fault(trouble, WRITES, skip=number))
            with contextlib.suppress(Killed):
                run(line, **steps[step])
            met = line.faults[0].times == 0
            counting = names(fresh, "clusterqueues")
            stored = read_stored_tree(Line(fresh).client(), "team", "default")
            if counting:
                assert stored.tree.counted_by == "kueue"
            run(Line(fresh), **steps[step])
            assert not run(Line(fresh), **steps[step]).changed
            assert names(fresh, "clusterqueues") == [[("", "a"), ("", "b")], [("", "b")], []][step]
            assert names(fresh, "localqueues") == [[("blue", "b"), ("red", "a")], [("blue", "b")], []][step]
            number += 1
            if not met:
                break
        assert number > 2


def test_a_changed_tree_changes_what_it_is_about(cluster, line):
    run(line)
    more = {**A, "nominal": {"cpu": 5, "memory": "8Gi"}}
    changed = run(line, [queue("root"), more, B])
    assert told(changed) == {("ClusterQueue", None, "a"): "changed"}
    shown = changed.as_result(diff=True)["diff"]
    assert list(shown["after"]["objects"]) == ["ClusterQueue a"]
    assert list(shown["after"]["queues"]) == ["root/a"]


def test_leaf_and_flavor_that_nobody_uses_go(cluster, line):
    flavors = [{"name": "x"}, {"name": "y"}]
    amounts = {"nominal": {"x": AMOUNTS, "y": AMOUNTS}}
    run(line, [queue("root"), {**A, **amounts}, {**B, **amounts, "borrowing_limit": {}}], flavors=flavors)
    smaller = run(line, [queue("root"), {**A, "nominal": {"x": AMOUNTS}}], flavors=flavors[:1])
    assert told(smaller) == {
        ("Cohort", None, "root"): "changed",
        ("ClusterQueue", None, "a"): "changed",
        ("ResourceFlavor", None, "y"): "pruned",
        ("ClusterQueue", None, "b"): "pruned",
        ("LocalQueue", "blue", "b"): "pruned",
    }


def test_what_admitted_workloads_count_in_is_never_taken_away(cluster, line):
    flavors = [{"name": "x"}, {"name": "y"}]
    amounts = {"nominal": {"x": AMOUNTS, "y": AMOUNTS}, "borrowing_limit": {}}
    start = [queue("root"), {**A, **amounts}, {**B, **amounts}]
    run(line, start, flavors=flavors)
    cluster.add("workloads", workload("runs", "blue", "b", admitted="b", flavor="y"))
    cluster.add("workloads", workload("over", "red", "a", admitted="a", flavor="x", finished=True))
    writes(line)
    without_y = [
        queue("root"),
        {**A, "nominal": {"x": AMOUNTS}},
        {**B, "nominal": {"x": AMOUNTS}, "borrowing_limit": {}},
    ]
    moved = [queue("root"), start[1], {**start[2], "namespaces": ["green"]}]
    for change, where in (
        ({"queues": start[:2], "flavors": flavors}, "root/b"),
        ({"queues": start, "flavors": flavors, "backends": ["embedded"]}, "root/b"),
        ({"queues": moved, "flavors": flavors}, "root/b"),
        ({"queues": without_y, "flavors": flavors[:1]}, "flavors.y"),
        ({"state": "absent"}, "root/b"),
    ):
        with pytest.raises(BadTree, match=r"1 Workloads are admitted by .*; drain it") as failed:
            run(line, **change)
        assert where in [problem.where for problem in failed.value.problems]
    assert writes(line) == []
    cluster.remove("workloads", "blue", "runs")
    assert run(line, state="absent").changed


def test_workloads_that_wait_are_told_of_when_their_queue_goes(cluster, line):
    run(line)
    cluster.add("workloads", workload("waits", "blue", "b"))
    result = run(line, [queue("root"), A])
    assert "1 Workloads wait in LocalQueue blue/b, which goes; they wait on until they are moved" in result.warnings


def test_a_door_that_leads_elsewhere_is_made_anew_unless_it_is_used(cluster, line):
    run(line)
    cluster.change("localqueues", "red", "a", lambda raw: raw["spec"].update(clusterQueue="b"))
    cluster.add("workloads", workload("runs", "red", "a", admitted="b"))
    with pytest.raises(BadTree, match="admitted by LocalQueue red/a"):
        run(line)
    cluster.remove("workloads", "red", "runs")
    old = cluster.get("localqueues", "red", "a")["metadata"]["uid"]
    actions = [item["action"] for item in run(line).as_result(diff=False)["objects"] if item["namespace"] == "red"]
    assert actions == ["created", "pruned"]
    door = cluster.get("localqueues", "red", "a")
    assert (door["spec"]["clusterQueue"], door["metadata"]["uid"] == old) == ("a", False)
    assert not run(line).changed


def test_objects_of_others_are_named_and_left_alone(cluster, line):
    theirs = {
        "clusterqueues": {"metadata": {"name": "a"}, "spec": {"theirs": True}},
        "resourceflavors": {"metadata": {"name": "default", "labels": {LABEL: "other"}}, "spec": {}},
        "cohorts": {"metadata": {"name": "elsewhere"}, "spec": {}},
    }
    for plural, obj in theirs.items():
        cluster.add(plural, obj)
    for check in (True, False):
        with pytest.raises(MusterError) as failed:
            run(line, check=check)
        assert "ClusterQueue a: it exists and is not ours" in str(failed.value)
        assert "ResourceFlavor default" in str(failed.value)
    assert writes(line) == []
    cluster.remove("clusterqueues", "", "a")
    cluster.remove("resourceflavors", "", "default")
    run(line)
    run(line, state="absent")
    assert names(cluster, "cohorts") == [("", "elsewhere")]


def test_without_kueue_the_task_says_what_is_missing():
    bare = MemoryCluster()
    bare.add("namespaces", {"metadata": {"name": "team"}})
    line = Line(bare)
    with pytest.raises(MusterError, match=r"serves no ClusterQueue .* install Kueue"):
        run(line)
    assert writes(line) == []


def test_the_older_version_gets_its_own_words(line):
    cluster = MemoryCluster()
    for name in ("team", "red"):
        cluster.add("namespaces", {"metadata": {"name": name}})
    serve_kueue(cluster, "v1beta1")
    old = Line(cluster)
    run(old, [queue("root"), A])
    made = cluster.get("clusterqueues", "", "a")
    assert (made["apiVersion"], made["spec"]["cohort"], "cohortName" in made["spec"]) == (
        "kueue.x-k8s.io/v1beta1",
        "root",
        False,
    )
    assert not run(old, [queue("root"), A]).changed


def test_kueue_that_is_gone_keeps_nobody_from_removing_a_tree(cluster, line):
    run(line)
    bare = MemoryCluster()
    bare.add("namespaces", {"metadata": {"name": "team"}})
    stored = cluster.get("configmaps", "team", "muster-quota-default")
    bare.add(
        "configmaps", {"metadata": {**stored["metadata"], "uid": None, "resourceVersion": None}, "data": stored["data"]}
    )
    assert run(Line(bare), state="absent").changed


def test_gangs_that_dispatchers_started_keep_the_tree_theirs(cluster, line):
    run(line, backends=("embedded",))
    add_running(cluster, "red")
    with pytest.raises(BadTree, match="root/a: 1 started gangs are charged to it"):
        run(line)
    assert read_stored_tree(line.client(), "team", "default").tree.counted_by == "embedded"
    assert run(line, backends=("embedded",), queues=[*BOTH, queue("c", "root")]).changed


def test_gangs_from_before_a_tree_of_kueue_are_told_of(cluster, line):
    add_running(cluster, "red")
    (warning,) = run(line).warnings
    assert warning == "quota tree default: 1 gangs that dispatchers have started are not counted by Kueue"


def add_running(cluster, namespace):
    """A gang that a dispatcher has started."""
    reserved = ({"name": "w", "count": 1, "requests": {"cpu": "1"}},)
    record = gang_record("runs", namespace, [job("runs", "p", 1)])
    record["metadata"].setdefault("annotations", {})[STATE_ANNOTATION] = state_text(
        state_in("running", reserved=reserved)
    )
    cluster.add("configmaps", record)


def test_back_to_dispatchers_kueue_knows_nothing_of_it_any_more(cluster, line):
    run(line)
    writes(line)
    back = run(line, backends=("embedded",))
    assert set(told(back).values()) == {"pruned"}
    order = [path.rsplit("/", 2)[-2] for method, path in writes(line)]
    assert order[-1] == "configmaps"
    assert names(cluster, "clusterqueues") == []
    assert not run(line, backends=("embedded",)).changed


def test_an_unreadable_tree_leaves_nothing_of_its_behind(cluster, line):
    run(line, backends=("kueue", "resourcequota"))
    cluster.change("configmaps", "team", "muster-quota-default", lambda raw: raw["data"].update({"tree.json": "{"}))
    run(line, backends=("embedded",))
    assert names(cluster, "clusterqueues") == names(cluster, "resourcequotas") == []


def test_what_kueue_counts_is_not_told_as_used(line):
    result = run(line).as_result(diff=False)
    assert {item["started"] for item in result["queues"]} == {None}
    assert result["queues"][1]["resources"][0]["used"] is None


def test_namespaces_that_go_get_no_door_and_those_of_kubernetes_neither(cluster, line):
    open_leaf = queue("open", "root", nominal=AMOUNTS)
    cluster.change(
        "namespaces", "", "blue", lambda raw: raw["metadata"].update(deletionTimestamp="2026-11-16T04:00:00Z")
    )
    run(line, [queue("root"), open_leaf])
    assert names(cluster, "localqueues") == [("red", "open"), ("team", "open")]


def test_who_may_not_see_namespaces_cannot_tell_kueue_of_a_tree(cluster, line):
    cluster.denials.append(Denial("admin", ["list"], ["namespaces"]))
    with pytest.raises(Forbidden):
        run(line)
    assert writes(line) == []


def test_ceilings_are_kept_beside_whoever_counts(cluster, line):
    made = run(line, backends=("embedded", "resourcequota"))
    assert told(made) == {
        ("ResourceQuota", "red", "muster-quota-default"): "created",
        ("ResourceQuota", "blue", "muster-quota-default"): "created",
    }
    hard = {
        name: cluster.get("resourcequotas", name, "muster-quota-default")["spec"]["hard"] for name in ("red", "blue")
    }
    assert hard == {
        "red": {"requests.cpu": "4", "requests.memory": "8Gi"},
        "blue": {"requests.cpu": "8", "requests.memory": "16Gi"},
    }
    writes(line)
    assert not run(line, backends=("embedded", "resourcequota")).changed
    assert writes(line) == []
    assert run(line, backends=("embedded",)).changed
    assert names(cluster, "resourcequotas") == []


def test_all_that_backends_cannot_hold_is_told_before_a_server_is_asked():
    def nobody():
        raise AssertionError("no server is needed")

    queues = [queue("root", capacity={"cpu": 9}), queue("a", "root", nominal={"cpu": 1}), {**A, "name": "B"}]
    options = QuotaOptions("default", "team", "present", {"queues": queues, "backends": ["kueue", "resourcequota"]})
    with pytest.raises(BadTree) as failed:
        run_quota(nobody, options)
    assert {(problem.where, problem.field) for problem in failed.value.problems} == {
        ("root", "capacity"),
        ("root/B", "name"),
        ("root/a", "namespaces"),
        ("root/a", "borrowing_limit.cpu"),
        ("root/a", "borrowing_limit.memory"),
    }
