# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A recorded Job: one run for each specification, whatever interrupts it."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import FileBundle, RecordedJob
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.run import (
    Cancelled,
    find_recorded,
    remove_recorded,
    run_recorded,
    sweep_records,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.tests.support.job_api import JOBS, MAPS, Died, JobApi

WRITES = ["POST configmaps", "POST configmaps", "POST jobs", "PUT configmaps/b-1", "DELETE jobs/b-1"]


@pytest.fixture
def api():
    return JobApi()


def manifest(context):
    pod = {"metadata": {"labels": dict(context.labels)}, "spec": {"volumes": [context.bundles["context"]]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pod}}


def harvest(ended):
    logs = [ended.log(pod.name, "main") for pod in ended.facts.pods]
    texts = [None if log is None else log.decode() for log in logs]
    return {"reason": ended.state.reason, "message": ended.state.message, "logs": texts}


TERMS = RecordedJob(
    namespace="team",
    name="b-1",
    labels={"muster.kube/build": "abc"},
    spec={"a": 1},
    identity="id",
    bundles=(FileBundle("context", {"Dockerfile": b"FROM x", "f": b"\xff"}),),
    job=manifest,
    harvest=harvest,
    failed_as="build_failed",
    is_stale=lambda outcome: outcome["reason"] is not None,
    start_timeout=60.0,
)


def run(api, report=lambda _text: None, **changes):
    return run_recorded(api.client(), dataclasses.replace(TERMS, **changes), report, listen=api.listen)


def leftovers(api):
    return sorted(path for path in api.objects if path.startswith(JOBS))


def test_first_run_makes_everything_once_and_leaves_no_job(api):
    api.steps = [api.run_pod, lambda: api.succeed(b"built")]
    told = []
    result = run(api, told.append)
    assert (result.outcome["logs"], result.cached, result.changed, result.attempt) == (["built"], False, True, 1)
    assert api.written == WRITES
    assert leftovers(api) == []
    assert told == ["b-1: pending (queued)", "b-1: running", "b-1: succeeded"]


def test_job_and_contents_belong_to_the_record_and_carry_its_labels(api):
    seen = {}

    def look():
        seen.update({path: obj for path, obj in api.objects.items() if "b-1" in path})
        api.succeed()

    api.steps = [look]
    run(api)
    record = seen.pop(f"{MAPS}/b-1")
    assert len(seen) == 2
    for obj in seen.values():
        assert obj["metadata"]["ownerReferences"][0]["uid"] == record["metadata"]["uid"]
        labels = {key: text for key, text in obj["metadata"]["labels"].items() if key != "muster.kube/part"}
        assert labels == {"muster.kube/build": "abc", "app.kubernetes.io/managed-by": "muster.kube"}
    job = seen.pop(f"{JOBS}/b-1")
    content = next(iter(seen.values()))
    assert job["spec"]["template"]["spec"]["volumes"] == [content["metadata"]["name"]]
    assert content["immutable"] is True
    assert content["metadata"]["labels"]["muster.kube/part"] == "true"


def test_second_run_returns_the_stored_outcome_and_writes_nothing(api):
    api.steps = [lambda: api.succeed(b"built")]
    first = run(api)
    before = len(api.writes)
    again = run(api)
    assert (again.outcome, again.cached, again.changed) == (first.outcome, True, False)
    assert len(api.writes) == before
    assert find_recorded(api.client(), TERMS).result.outcome == first.outcome


def test_nothing_is_found_before_the_first_run(api):
    assert find_recorded(api.client(), TERMS).result is None
    assert api.writes == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, len(WRITES) + 1))
def test_killed_at_any_write_and_run_again(api, number, after):
    api.die_at, api.die_after = number, after
    api.steps = [lambda: api.succeed(b"built")]
    with pytest.raises(Died):
        run(api)
    api.die_at = None
    result = run(api)
    assert result.outcome["logs"] == ["built"]
    assert leftovers(api) == []
    assert sum(line == "POST jobs" for line in api.written) == 1
    assert len([path for path in api.objects if path.startswith(MAPS)]) == 2
    assert result.attempt == 1


def test_a_failure_is_kept_told_and_tried_again(api):
    api.steps = [lambda: api.fail(b"no space")]
    failed = run(api)
    assert (failed.outcome["reason"], failed.state.phase) == ("build_failed", "failed")
    assert failed.outcome["logs"] == ["no space"]
    api.steps = [lambda: api.succeed(b"built", "p-1")]
    result = run(api)
    assert (result.attempt, result.outcome["reason"], result.outcome["logs"]) == (2, None, ["built"])
    assert api.written[-3:] == ["POST jobs", "PUT configmaps/b-1", "DELETE jobs/b-1-a2"]


def test_force_makes_a_new_attempt_but_goes_on_with_one_that_is_not_over(api):
    api.steps = [lambda: api.succeed(b"1")]
    run(api)
    api.die_at = len(api.writes) + 3
    with pytest.raises(Died):
        run(api, force=True)
    api.die_at = None
    api.steps = [lambda: api.succeed(b"2", "p-1")]
    assert (run(api, force=True).attempt, run(api).outcome["logs"]) == (2, ["2"])


def test_without_waiting_the_state_is_told_and_a_later_run_harvests(api):
    started = run(api, wait=False)
    assert (started.outcome, started.state.phase, started.changed) == (None, "pending", True)
    api.succeed(b"built")
    later = run(api, wait=False)
    assert (later.outcome["logs"], later.cached) == (["built"], False)
    assert leftovers(api) == []


def test_a_job_deleted_by_others_is_a_cancelled_run(api):
    api.steps = [lambda: api.objects.pop(f"{JOBS}/b-1")]
    assert run(api).outcome["reason"] == "cancelled"


def test_a_record_removed_meanwhile_ends_the_run_with_an_error(api):
    def remove():
        assert remove_recorded(api.client(), "team", "b-1")

    api.steps = [remove]
    with pytest.raises(Cancelled, match="somebody removed it"):
        run(api)
    assert [path for path in api.objects if "b-1" in path] == []


def test_a_lost_log_is_none(api):
    def end():
        api.succeed()
        api.logs.clear()

    api.steps = [end]
    assert run(api).outcome["logs"] == [None]


def test_a_job_nobody_ends_is_given_up(api):
    def age():
        api.run_pod()
        api.job()["metadata"]["creationTimestamp"] = "2026-11-16T03:00:00Z"

    api.steps = [age]
    assert run(api, deadline_seconds=600.0).outcome["reason"] == "timeout"


@pytest.mark.parametrize("finished", [True, False])
def test_another_specification_with_the_same_short_name_is_refused(api, finished):
    api.steps = [api.succeed]
    run(api, wait=finished)
    with pytest.raises(MusterError, match="another specification"):
        run(api, identity="other")


def test_a_job_of_the_name_that_is_not_ours_is_left_alone(api):
    api.put(f"{JOBS}/b-1", {"kind": "Job", "metadata": {"name": "b-1", "namespace": "team"}})
    with pytest.raises(MusterError, match="not of this record"):
        run(api)
    assert leftovers(api) == [f"{JOBS}/b-1"]


def test_a_leftover_job_of_a_finished_record_is_deleted(api):
    api.steps = [api.succeed]
    api.die_at = len(WRITES)
    with pytest.raises(Died):
        run(api)
    assert leftovers(api) == [f"{JOBS}/b-1"]
    api.die_at = None
    again = run(api)
    assert (again.cached, again.changed, leftovers(api)) == (True, True, [])


def test_another_ttl_is_noted(api):
    api.steps = [api.succeed]
    run(api)
    assert run(api, ttl=60.0).changed
    assert not run(api, ttl=60.0).changed


def test_removal_takes_job_and_record(api):
    assert not remove_recorded(api.client(), "team", "b-1")
    run(api, wait=False)
    assert remove_recorded(api.client(), "team", "b-1", dry=True)
    assert leftovers(api) == [f"{JOBS}/b-1"]
    assert remove_recorded(api.client(), "team", "b-1")
    assert [path for path in api.objects if "b-1" in path] == []


def test_a_sweep_takes_only_what_is_over_time(api):
    for name, ttl in (("b-1", 0.0), ("b-2", 3600.0), ("b-3", None)):
        api.steps = [api.succeed]
        run(api, name=name, ttl=ttl)
    assert sweep_records(api.client(), "team", "muster.kube/build", dry=True) == ["b-1"]
    assert sweep_records(api.client(), "team", "muster.kube/build") == ["b-1"]
    kept = [path.rpartition("/")[2] for path in api.objects if path.startswith(MAPS)]
    assert [name for name in kept if len(name) == 3] == ["b-2", "b-3"]
