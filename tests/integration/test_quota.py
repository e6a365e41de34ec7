# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""quota and quota_info for real: a tree foretold, made, found, refused, used and removed, by ansible-playbook."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.info import answer_quota
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions, QuotaQuestion
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import create_tree, delete_tree
from ansible_collections.muster.kube.tests.support.accounts import tenant_kubeconfig
from ansible_collections.muster.kube.tests.support.api_proxy import assert_no_writes
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, node_pool
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.play import Played, play_tasks
from ansible_collections.muster.kube.tests.support.role_course import proxies_for

Object = dict[str, t.Any]
SPACE, POOL = "quota-space", "quota"
STORED = resource_path("v1", "configmaps", SPACE, "muster-quota-shared")
NODE_LABELS = {"kubernetes.io/os": "linux"}
QUEUES = [
    {"name": "cluster", "capacity": {"nodes": {"cpu": 8, "memory": "8Gi"}}},
    {"name": "team", "parent": "cluster", "weight": 2},
    {"name": "mine", "parent": "team", "namespaces": [SPACE], "nominal": {"cpu": 1, "memory": "1Gi"}},
    {"name": "spare", "parent": "team", "nominal": {"cpu": 3}, "lending_limit": {"cpu": 2}},
    {"name": "rest", "parent": "cluster", "default": True, "selector": {"matchLabels": {"none": "such"}}},
]
WRONG = [*QUEUES[:4], {**QUEUES[4], "parent": "clutser"}, {"name": "bad", "parent": "team", "nominal": {"cpu": "x"}}]


def quota(queues: list[Object] | None = None, **options: t.Any) -> Object:
    """A task; keywords of the task beside the options begin with an underscore."""
    keywords = {name[1:]: options.pop(name) for name in [*options] if name.startswith("_")}
    given = {} if queues is None else {"queues": queues, "flavors": [{"name": "nodes", "node_labels": NODE_LABELS}]}
    return {"muster.kube.quota": {"tree": "shared", "lease": {"namespace": SPACE}, **given, **options}, **keywords}


def tasks(proxies: t.Mapping[str, t.Any]) -> dict[str, Object]:
    """A tree from its first declaration to its end, while a gang runs in one of its queues."""
    watched = {name: {"kubeconfig": str(proxy.kubeconfig)} for name, proxy in proxies.items()}
    check = {"_check_mode": True, "_diff": True}
    asked = {"namespace": SPACE, "definition": job("more", POOL, 9, cpu="1")}
    info = {"muster.kube.quota_info": {"lease": {"namespace": SPACE}, **asked, **watched["info"]}}
    return {
        "foretold": quota(QUEUES, **check, **watched["foretold"]),
        "made": quota(QUEUES, _diff=True),
        "again": quota(QUEUES[::-1], _diff=True, **watched["again"]),
        "wrong": quota(WRONG, **watched["wrong"]),
        "info": info,
        "in_use": quota([*QUEUES[:2], *QUEUES[3:]], **watched["in_use"]),
        "smaller": quota([*QUEUES[:3], QUEUES[4]], _diff=True),
        "end_in_use": quota(state="absent", **watched["end_in_use"]),
        "gang_ends": {"muster.kube.gang": {"name": "runs", "namespace": SPACE, "state": "absent"}},
        "end_foretold": quota(state="absent", **check),
        "end": quota(state="absent", _diff=True),
        "end_again": quota(state="absent", **watched["end_again"]),
    }


class Course(t.NamedTuple):
    """What a play gave, and the requests of some of its tasks."""

    played: Played
    proxies: t.Mapping[str, t.Any]


@pytest.fixture(scope="module")
def course(cluster: t.Any, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Course]:
    """All tasks in one play, after a gang was started that uses twice the nominal cpu of its queue."""
    directory = tmp_path_factory.mktemp("quota")
    cluster.add_nodes(node_pool(POOL, 1, cpu="4"))
    cluster.namespace(SPACE)
    cluster.create(gang_record("runs", SPACE, [job("runs", POOL, 2, cpu="1")]))
    auth = {"kubeconfig": cluster.kubeconfig}
    run_dispatch(connect(auth), connect(auth), DispatchOptions(namespaces=(SPACE,), lease_wait=30.0), lambda text: None)
    # The default queue of the tree is charged with all gangs of the cluster.
    cluster.wait_for_rest(SPACE)
    with proxies_for(
        cluster, directory, "foretold", "again", "wrong", "info", "in_use", "end_in_use", "end_again"
    ) as proxies:
        defaults = {"group/muster.kube.kube": {"kubeconfig": cluster.kubeconfig}}
        yield Course(play_tasks(directory, tasks(proxies), module_defaults=defaults), proxies)
    cluster.drop_namespace(SPACE)
    cluster.remove_nodes([f"{POOL}-n0"])


def test_check_mode_foretells_what_the_real_run_does_and_writes_nothing(course: Course) -> None:
    assert_no_writes(course.proxies["foretold"])
    for foretold, done in (("foretold", "made"), ("end_foretold", "end")):
        told, real = course.played[foretold], course.played[done]
        assert [told[key] for key in ("changed", "before", "queues", "diff")] == [
            real[key] for key in ("changed", "before", "queues", "diff")
        ]
    assert course.played["made"]["ran"] == "in_process"


def test_second_run_changes_and_writes_nothing(course: Course) -> None:
    assert course.proxies["again"].requests
    assert_no_writes(course.proxies["again"])
    assert not course.played["again"]["changed"]


def test_everything_wrong_is_told_and_nothing_written(course: Course) -> None:
    assert_no_writes(course.proxies["wrong"])
    assert [problem["where"] for problem in course.played["wrong"]["problems"]] == ["clutser/rest", "cluster/team/bad"]


def test_started_gang_is_charged_to_the_queue_of_its_namespace(course: Course) -> None:
    assert_no_writes(course.proxies["info"])
    (tree,) = course.played["info"]["trees"]
    mine = next(queue for queue in tree["queues"] if queue["path"] == "cluster/team/mine")
    cpu = next(amounts for amounts in mine["resources"] if amounts["resource"] == "cpu")
    assert (mine["started"], cpu["flavor"], cpu["entitled"], cpu["used"], cpu["borrowed"]) == (
        1,
        "nodes",
        "1",
        "2",
        "1",
    )
    assert tree["problem"] is None


def test_objects_that_are_not_queued_are_told_what_is_short(course: Course) -> None:
    gang = course.played["info"]["gang"]
    assert (gang["verdict"]["answer"], gang["verdict"]["reason"]) == ("never", "quota")
    assert gang["verdict"]["layers"][0]["trees"][0]["queue"] == "cluster/team/mine"
    assert course.played["info"]["csv"].startswith("tree,path,")
    assert course.played["info"]["namespace"]["started"] == 1


def test_leaf_in_use_is_never_taken_away(course: Course) -> None:
    for name in ("in_use", "end_in_use"):
        assert_no_writes(course.proxies[name])
        assert [problem["where"] for problem in course.played[name]["problems"]] == ["cluster/team/mine"]
    assert course.played["smaller"]["changed"]
    assert list(course.played["smaller"]["diff"]["before"]["queues"]) == ["cluster/team/spare"]


def test_tree_goes_when_nobody_uses_it(cluster: t.Any, course: Course) -> None:
    assert course.played["end"]["changed"]
    assert get_object(cluster.client, STORED) is None
    assert not course.played["end_again"]["changed"]
    assert_no_writes(course.proxies["end_again"])


TOLD = "quota-told"


def test_who_sees_only_his_namespace_is_answered_from_published_amounts_which_go_with_their_tree(
    cluster: t.Any, tmp_path: pathlib.Path
) -> None:
    """The collector removes them, whoever deletes the tree."""
    cluster.namespace(TOLD)
    lease = LeaseOptions(TOLD, "dispatch", 15.0)
    queues = [{"name": "all"}, {"name": "mine", "parent": "all", "nominal": {"cpu": 2}, "namespaces": [TOLD]}]
    made = create_tree(cluster.client, TOLD, read_tree("default", {"queues": queues}))
    cluster.create(gang_record("waits", TOLD, [job("waits", POOL, 3, cpu="1")]))
    auth = {"kubeconfig": cluster.kubeconfig}
    options = DispatchOptions(namespaces=(TOLD,), lease=lease, lease_wait=30.0)
    run_dispatch(connect(auth), connect(auth), options, lambda text: None)
    blind = {"kubeconfig": tenant_kubeconfig(cluster, TOLD, TOLD, tmp_path)}
    question = QuotaQuestion(gang=(TOLD, "waits"))
    answer = answer_quota(lambda: connect(blind), QuotaInfoOptions(TOLD, question=question))
    (tree,) = answer["trees"]
    mine = next(queue for queue in tree["queues"] if queue["name"] == "mine")
    assert (tree["published"], mine["waiting"], mine["resources"][0]["used"]) == (True, 1, "0")
    verdict = answer["gang"]["verdict"]
    assert (verdict["answer"], verdict["reason"], verdict["advice"][0]["change"]) == (
        "never",
        "quota",
        "fewer_replicas",
    )
    status = resource_path("v1", "configmaps", TOLD, "muster-quota-status-default")
    assert get_object(cluster.client, status) is not None
    delete_tree(cluster.client, made)
    wait_until("the published amounts to go", lambda: get_object(cluster.client, status) is None)
    cluster.drop_namespace(TOLD)
