# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From pods to results: one for each repetition, whatever became of its pod."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.harvest import Harvester
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import FinishedRun
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import HardwareAsk
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import ITEM_KEYS, RunSpec
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    ContainerFacts,
    PodFacts,
    RunFacts,
    RunState,
    digest_in,
)
from ansible_collections.muster.kube.tests.support.frames import framed

DIGEST = "sha256:" + "a" * 64


class KnownNodes:
    """Nodes without an API server."""

    def __init__(self, **labels):
        self.labels = labels

    def find(self, name):
        return None if name is None else {"metadata": {"name": name, "labels": self.labels}}


def container(code=0, ended_as=None):
    return ContainerFacts(
        "run", image_id=f"registry/x@{DIGEST}", exit_code=code, started=1.0, finished=2.0, ended_as=ended_as
    )


def pod(index=0, phase="Succeeded", code=0, **more):
    name = more.pop("name", f"p{index}")
    containers = more.pop("containers", (container(code, more.pop("ended_as", None)),))
    return PodFacts(name, f"uid-{name}", phase, index, "n", containers=containers, **more)


def result(code=0, **more):
    return framed({"exit_code": code, "wall_seconds": 1.5, "start": 1.0, "end": 2.5, **more})


def harvest(pods, logs, state=None, ask=None, **spec):
    ended = FinishedRun(
        state or RunState("succeeded"), RunFacts(None, tuple(pods)), lambda name, _container: logs.get(name)
    )
    run = RunSpec("i:1", b"x", **spec)
    return Harvester(run, ask or HardwareAsk(), KnownNodes(disk="fast"), ("disk",)).outcome(ended)


def test_a_pod_with_a_frame_is_a_complete_result():
    found = harvest([pod()], {"p0": result()})
    (item,) = found["items"]
    assert tuple(item) == ITEM_KEYS
    assert (item["reason"], item["image_digest"], item["wall_seconds"]) == (None, DIGEST, 1.5)
    assert item["hwinfo"]["node"]["labels"] == {"disk": "fast"}
    assert (found["reason"], found["message"]) == (None, "")


def test_of_several_pods_the_one_that_succeeded_counts():
    pods = [pod(name="a", phase="Failed", code=137, disrupted="Eviction"), pod(name="b")]
    assert harvest(pods, {"b": result()})["reason"] is None


@pytest.mark.parametrize(
    ("made", "log", "reason"),
    [
        (pod(phase="Failed", code=3), result(3), "script_failed"),
        (pod(phase="Failed", code=137, ended_as="OOMKilled"), None, "oom"),
        (pod(phase="Failed", code=143, reason="DeadlineExceeded"), result(143, terminated=True), "timeout"),
        (pod(phase="Failed", code=143), result(143, terminated=True), "evicted"),
        (pod(phase="Running", containers=(), vanished=True), None, "evicted"),
        (pod(phase="Failed", code=143, disrupted="EvictionByEvictionAPI"), None, "evicted"),
        (pod(), None, "lost_result"),
        (pod(), b"no frame", "lost_result"),
        (pod(), result()[:-40], "lost_result"),
    ],
)
def test_reasons(made, log, reason):
    found = harvest([made], {} if log is None else {"p0": log}, RunState("failed", "script_failed"))
    assert (found["items"][0]["reason"], found["reason"]) == (reason, reason)
    assert found["items"][0]["message"]


def test_a_pod_that_never_started_has_the_reason_of_the_run():
    waiting = PodFacts("p0", "u", "Pending", 0, None)
    state = RunState("failed", "unschedulable", "it did not start within 5 s")
    found = harvest([waiting], {}, state)
    assert found["items"][0]["reason"] == "unschedulable"
    assert found["items"][0]["message"] == "it did not start within 5 s"


def test_without_any_pod_every_item_has_the_reason_of_the_run():
    found = harvest([], {}, RunState("failed", "quota", "exceeded quota"), repetitions=2)
    assert [item["reason"] for item in found["items"]] == ["quota", "quota"]
    assert found["message"] == "2 of 2 runs failed; run 0: exceeded quota"


def test_refused_pods_say_who_refused_them_and_why():
    told = 'its pods are refused: pods "x" is forbidden: violates PodSecurity "restricted:latest"'
    found = harvest([], {}, RunState("failed", "refused", told), repetitions=2)
    assert [(item["reason"], item["message"]) for item in found["items"]] == [("refused", told)] * 2
    assert (found["reason"], found["message"]) == ("refused", f"2 of 2 runs failed; run 0: {told}")


def test_runs_after_too_many_failures_were_not_run():
    found = harvest(
        [pod(phase="Failed", code=1)], {"p0": result(1)}, RunState("failed", "script_failed"), repetitions=2
    )
    assert [item["reason"] for item in found["items"]] == ["script_failed", "cancelled"]
    assert "not run" in found["items"][1]["message"]
    assert found["reason"] == "script_failed"


def test_allowed_failures_do_not_fail_the_inspection():
    pods = [pod(0, phase="Failed", code=1), pod(1)]
    logs = {"p0": result(1), "p1": result()}
    found = harvest(pods, logs, RunState("failed", "script_failed"), repetitions=2, allowed_failures=1)
    assert (found["reason"], found["items"][0]["reason"]) == (None, "script_failed")


def test_a_failure_that_no_item_shows_is_told_all_the_same():
    found = harvest([pod()], {"p0": result()}, RunState("failed", "timeout", "nobody ended its Job"))
    assert (found["reason"], found["message"]) == ("timeout", "nobody ended its Job")


@pytest.mark.parametrize(("asked", "verified"), [("fast", True), ("slow", False)])
def test_asked_and_found_hardware_are_compared(asked, verified):
    found = harvest([pod()], {"p0": result()}, ask=HardwareAsk(node_selector=(("disk", asked),)))
    assert found["items"][0]["placement_verified"] is verified
    assert found["placements"][0]["verified"] is verified
    assert found["placements"][0]["found"][0]["asked"] == asked


def test_digests():
    assert digest_in(f"docker-pullable://a/b@{DIGEST}") == DIGEST
    assert digest_in("a/b:1") is None
