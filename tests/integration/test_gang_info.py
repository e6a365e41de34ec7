# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gang_info for real: run by ansible-playbook against a real API server with gangs that run, wait and fail."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.info import GangInfoOptions, answer_gangs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, node_pool
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.play import play_tasks

POOL, SPACE = "info-face", "info-face"
RECORDS = [
    gang_record("runs", SPACE, [job("runs", POOL, 2, cpu="1")], queue="research", priority=9),
    gang_record("fails", SPACE, [job("fails", POOL, 1, seconds=1, exit_code=3, cpu="1")], priority=8, completion=[]),
    gang_record("large", SPACE, [job("large", POOL, 1, cpu="64")], labels={"size": "large"}),
    gang_record("behind", SPACE, [job("behind", POOL, 3, cpu="2")], queue="research", priority=-1),
]


def failed(cluster) -> bool:
    """Whether the pod that is to fail has failed."""
    pods = cluster.pods(SPACE, "job-name=fails")
    return any(pod["status"].get("phase") == "Failed" for pod in pods)


@pytest.fixture(scope="module")
def world(cluster):
    """Four gangs after one cycle: two started, one that never fits, one behind it."""
    cluster.add_nodes(node_pool(POOL, 2, cpu="2"))
    cluster.namespace(SPACE)
    cluster.create(*RECORDS)
    auth = {"kubeconfig": cluster.kubeconfig}
    run_dispatch(connect(auth), connect(auth), DispatchOptions(namespaces=(SPACE,), lease_wait=30.0), lambda text: None)
    wait_until("the pod to fail", lambda: failed(cluster))
    wait_until("all pods to have a node", lambda: all(pod["spec"].get("nodeName") for pod in cluster.pods(SPACE)))
    yield cluster
    cluster.drop_namespace(SPACE)
    cluster.remove_nodes([f"{POOL}-n0", f"{POOL}-n1"])


TASKS = {
    "everything": {"muster.kube.gang_info": {"namespace": SPACE}},
    "pretended": {"muster.kube.gang_info": {"namespace": SPACE, "name": "runs"}, "check_mode": True},
    "queue": {"muster.kube.gang_info": {"namespace": SPACE, "queue": "research"}},
    "waiting": {"muster.kube.gang_info": {"namespace": SPACE, "state": ["queued"]}},
    "labelled": {"muster.kube.gang_info": {"namespace": SPACE, "label_selectors": ["size in (large)"]}},
}


@pytest.fixture(scope="module")
def played(world, tmp_path_factory):
    """The answers of one play, with all its requests seen by a proxy."""
    directory = tmp_path_factory.mktemp("play")
    with ApiProxy(world.kubeconfig, directory) as proxy:
        defaults = {"group/muster.kube.kube": {"kubeconfig": str(proxy.kubeconfig)}}
        results = play_tasks(directory, TASKS, module_defaults=defaults)
        assert_no_writes(proxy)
    return results


def named(result, name):
    """One gang of a result."""
    return next(gang for gang in result["gangs"] if gang["name"] == name)


def test_filters(played):
    assert [gang["name"] for gang in played["everything"]["gangs"]] == ["behind", "fails", "large", "runs"]
    assert [gang["name"] for gang in played["queue"]["gangs"]] == ["behind", "runs"]
    assert [gang["name"] for gang in played["waiting"]["gangs"]] == ["behind", "large"]
    assert [gang["name"] for gang in played["labelled"]["gangs"]] == ["large"]
    assert [gang["name"] for gang in played["pretended"]["gangs"]] == ["runs"]
    assert not any(result["changed"] for result in played.results.values())


def test_a_started_gang(played):
    gang = named(played["everything"], "runs")
    assert gang["phase"] in ("dispatched", "running")
    assert (gang["position"], gang["attempt"], gang["failure"]) == (None, 1, None)
    assert {(pod["podset"], pod["phase"]) for pod in gang["pods"]} == {("runs", "Running")}
    assert {pod["node"] for pod in gang["pods"]} <= {f"{POOL}-n0", f"{POOL}-n1"}
    assert [item["phase"] for item in gang["timeline"]][:3] == ["queued", "dispatching", "dispatched"]
    assert all(item["seconds"] is not None and item["seconds"] >= 0 for item in gang["timeline"])
    assert gang["objects"] == [{"apiVersion": "batch/v1", "kind": "Job", "namespace": SPACE, "name": "runs"}]


def test_gangs_that_wait_say_for_what_and_where(played):
    large, behind = (named(played["everything"], name) for name in ("large", "behind"))
    assert (large["verdict"]["answer"], behind["verdict"]["answer"]) == ("never", "never")
    assert "cpu" in large["verdict_text"]
    assert large["position"] < behind["position"]
    assert (large["pods"], large["objects"]) == ([], [])


def test_the_first_failure(played):
    failure = named(played["everything"], "fails")["failure"]
    assert (failure["exit_code"], failure["container"], failure["podset"]) == (3, "main", "fails")
    # A simulated node has no logs to give.
    assert failure["log"] == []
    assert failure["log_problem"]


def test_no_log_is_read_when_none_is_wanted(world, tmp_path):
    with ApiProxy(world.kubeconfig, tmp_path) as proxy:
        client = connect({"kubeconfig": str(proxy.kubeconfig)})
        answer = answer_gangs(client, GangInfoOptions(name="fails", namespace=SPACE, log_lines=0))
        assert not [item for item in proxy.requests if item.path.endswith("/log")]
    assert answer["gangs"][0]["failure"]["log_problem"] is None
