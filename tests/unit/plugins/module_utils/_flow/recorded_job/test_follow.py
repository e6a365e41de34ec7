# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Following a Job: what is read when, what is remembered, and that a change wakes the reader."""

from __future__ import annotations

import json
import threading

from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.follow import (
    JobReader,
    JobSignal,
    follow_job,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import RunFacts, RunState, job_facts
from ansible_collections.muster.kube.tests.support.job_api import JOBS, PODS, JobApi


def one_job(api: JobApi) -> None:
    api.put(f"{JOBS}/j", {"kind": "Job", "metadata": {"name": "j", "namespace": "team"}, "spec": {}})


def judge(facts, _now):
    if facts.job is None:
        return RunState("failed", "cancelled")
    if facts.job.over:
        return RunState("succeeded")
    return RunState("running") if facts.pods else RunState("pending", waiting_for="queued")


def test_it_reads_and_judges_until_it_is_over_and_reports_each_change():
    api, told, seen = JobApi(), [], []
    one_job(api)
    api.steps = [api.run_pod, lambda: None, api.succeed]

    def noted(facts, now):
        seen.append(facts)
        return judge(facts, now)

    state = follow_job(api.client(), "team", "j", noted, report=told.append, listen=api.listen)
    assert state.phase == "succeeded"
    assert [pod.phase for pod in seen[-1].pods] == ["Succeeded"]
    assert told == ["j: pending (queued)", "j: running", "j: succeeded"]
    assert api.writes == []


def test_pods_that_went_away_are_remembered_and_those_of_other_jobs_ignored():
    api = JobApi()
    one_job(api)
    reader = JobReader(api.client(), "team", "j")
    api.run_pod("p-0")
    other = api.run_pod("p-1")
    other["metadata"]["ownerReferences"][0]["uid"] = "another"
    assert [(pod.name, pod.vanished) for pod in reader.read().pods] == [("p-0", False)]
    del api.objects[f"{PODS}/p-0"]
    assert [(pod.name, pod.vanished, pod.phase) for pod in reader.read().pods] == [("p-0", True, "Running")]


def test_when_a_pods_end_was_asked_for_is_remembered_though_the_server_overwrites_it():
    api = JobApi()
    one_job(api)
    reader = JobReader(api.client(), "team", "j")
    api.run_pod()["metadata"].update(deletionTimestamp="2026-11-16T04:00:30Z", deletionGracePeriodSeconds=30)
    (before,) = reader.read().pods
    ended = {"exitCode": 1, "finishedAt": "2026-11-16T04:00:01Z"}
    pod = api.run_pod(phase="Failed", containerStatuses=[{"name": "main", "state": {"terminated": ended}}])
    pod["metadata"].update(deletionTimestamp="2026-11-16T04:00:03Z", deletionGracePeriodSeconds=0)
    (after,) = reader.read().pods
    assert (after.deleted, after.cut_short) == (before.deleted, True)
    (fresh,) = JobReader(api.client(), "team", "j").read().pods
    assert fresh.cut_short is False


def test_events_are_read_of_the_job_without_pods_and_of_the_pod_that_does_not_start():
    api = JobApi()
    one_job(api)
    reader = JobReader(api.client(), "team", "j")
    api.say("FailedCreate", "exceeded quota", api.job())
    assert [event.message for event in reader.read().events] == ["exceeded quota"]
    pod = api.run_pod(phase="Pending")
    api.say("FailedMount", "no secret", pod, "Pod")
    assert [event.message for event in reader.read().events] == ["no secret"]
    api.run_pod(phase="Running")
    assert reader.read().events == ()


def test_a_job_that_is_gone_or_going_is_none():
    api = JobApi()
    assert JobReader(api.client(), "team", "j").read().job is None
    one_job(api)
    api.job()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert JobReader(api.client(), "team", "j").read().job is None


def test_the_bell_rings_at_a_change_and_not_without(stub, client, reply):
    base = "/apis/batch/v1/namespaces/team/jobs"
    change = {"type": "MODIFIED", "object": {"metadata": {"name": "j", "namespace": "team", "resourceVersion": "7"}}}
    held = threading.Event()
    empty = {"kind": "List", "metadata": {"resourceVersion": "5"}, "items": []}
    denied = reply({"kind": "Status", "code": 403}, status=403)
    stub.answer("GET", "/api/v1/namespaces/team/pods", denied)
    stub.answer("GET", "/api/v1/namespaces/team/events", denied)
    stub.answer("GET", base, reply(empty), reply(chunks=[json.dumps(change).encode() + b"\n"], hold=held))
    with JobSignal(client, "team", "j") as bell:
        bell.wait(60.0)
    held.set()
    queries = [seen.query for seen in stub.seen if seen.path == base]
    assert queries[0]["fieldSelector"] == "metadata.name=j"
    assert queries[1]["watch"] == "true"


def test_what_is_known_is_not_read_before_the_first_rest():
    api, told = JobApi(), []
    one_job(api)
    before = []
    api.steps = [lambda: (before.extend(api.asked), api.succeed())]
    known = RunFacts(job_facts(api.objects[f"{JOBS}/j"]))
    client = api.client()
    client.request("GET", "/api/v1/namespaces/team")
    follow_job(client, "team", "j", judge, report=told.append, listen=api.listen, known=known)
    assert [path for _method, path, _dry in before] == ["/api/v1/namespaces/team"]
    assert told == ["j: pending (queued)", "j: succeeded"]
