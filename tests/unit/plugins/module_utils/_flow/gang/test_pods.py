# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods of gangs, and the first failure among them."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.pods import first_failure, read_pods, seen_pod
from ansible_collections.muster.kube.tests.support.gang_records import add_record
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi, refused

PODS = "/api/v1/namespaces/team/pods"


@pytest.fixture
def api():
    """An empty cluster."""
    return WritableApi()


def ended(code, at, reason="Error"):
    """A container's state after its end."""
    return {"terminated": {"exitCode": code, "finishedAt": at, "reason": reason}}


def pod(name, gang="g", *containers, podset="train", **status):
    """A pod of a gang with these container statuses."""
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": {"muster.kube/gang": gang, "muster.kube/podset": podset},
        },
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "containerStatuses": list(containers), **status},
    }


def container(name="main", restarts=0, **states):
    """The status of a container."""
    return {"name": name, "restartCount": restarts, **states}


def test_pods_are_told_with_their_podsets_own_names(api):
    record = add_record(api, phase="running")
    api.put(f"{PODS}/b", pod("b", record.uid, container(restarts=2), podset="train_worker"))
    api.put(f"{PODS}/a", pod("a", record.uid, phase="Pending"))
    api.put(f"{PODS}/other", pod("other", "another gang"))
    found = read_pods(api.client(), [record]).pods_of(record, ["train", "train/worker"])
    assert [pod.as_dict() for pod in found] == [
        {"name": "a", "podset": "train", "phase": "Pending", "node": "n1", "restarts": 0, "waiting": None},
        {"name": "b", "podset": "train/worker", "phase": "Running", "node": "n1", "restarts": 2, "waiting": None},
    ]


def test_gangs_that_were_never_started_cost_no_list(api):
    read_pods(api.client(), [add_record(api)])
    assert api.asked == []


def test_why_a_pod_does_not_run():
    waiting = container(state={"waiting": {"reason": "ImagePullBackOff"}})
    assert seen_pod(pod("p", "g", waiting)).waiting == "ImagePullBackOff"
    unbound = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    assert seen_pod(pod("p", conditions=[unbound])).waiting == "0/3 nodes are available"
    going = pod("p")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert seen_pod(going).phase == "Terminating"


def failure_of(api, *pods, lines=20):
    """The first failure of these pods."""
    return first_failure(api.client(), [seen_pod(item) for item in pods], lines)


def test_the_earliest_failure_counts(api):
    api.fixed[("GET", f"{PODS}/early/log")] = [(200, {"text": "one\ntwo\nthree\n"})]
    late = pod("late", "g", container(state=ended(1, "2026-01-01T00:00:09Z")))
    early = pod("early", "g", container("helper", state=ended(137, "2026-01-01T00:00:05Z", "OOMKilled")))
    fine = pod("fine", "g", container(state=ended(0, "2026-01-01T00:00:01Z")))
    found = failure_of(api, late, early, fine, lines=2)
    assert (found["pod"], found["container"], found["exit_code"], found["reason"]) == (
        "early",
        "helper",
        137,
        "OOMKilled",
    )
    assert (found["log"], found["log_problem"]) == (["two", "three"], None)


def test_a_restarted_container_tells_with_its_former_log(api, monkeypatch):
    asked = []
    answer = api.answer
    monkeypatch.setattr(api, "answer", lambda method, url, body: asked.append(url) or answer(method, url, body))
    api.fixed[("GET", f"{PODS}/p/log")] = [(200, {"text": "gone wrong"})]
    again = container(restarts=1, state={"running": {}}, lastState=ended(2, "2026-01-01T00:00:05Z"))
    assert failure_of(api, pod("p", "g", again))["log"] == ["gone wrong"]
    assert "previous=true" in asked[0]
    assert "tailLines=20" in asked[0]


def test_a_log_that_cannot_be_read_is_no_reason_to_fail(api):
    api.fixed[("GET", f"{PODS}/p/log")] = [refused(500, "InternalError", "the node is gone")]
    found = failure_of(api, pod("p", "g", container(state=ended(1, "2026-01-01T00:00:05Z"))))
    assert found["log"] == []
    assert "the node is gone" in found["log_problem"]
    assert len(api.asked) == 1


def test_no_lines_no_log(api):
    found = failure_of(api, pod("p", "g", container(state=ended(1, "2026-01-01T00:00:05Z"))), lines=0)
    assert (found["log"], found["log_problem"], api.asked) == ([], None, [])


def test_without_a_failure_there_is_none(api):
    assert failure_of(api, pod("p", "g", container(state={"running": {}}))) is None
