# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds and inspections whose process is killed at any of their writes, and which are then run again.

At ordinary size three points of each are tried, in full runs all: before and after every write.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._store.run_records import list_records, read_outcome
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.build_site import BuildSite, small
from ansible_collections.muster.kube.tests.support.fault_points import When, chosen
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE
from ansible_collections.muster.kube.tests.support.recorded_process import (
    RecordedOrders,
    Survived,
    Task,
    kill_and_run_again,
)

# The record, its contents, the Job, the outcome, the end of the Job.
WRITES = ("POST configmaps", "POST configmaps", "POST jobs", "PUT configmaps", "DELETE jobs")
SIDES: tuple[When, ...] = ("before", "after")
RUNS = 2
# At once; a build waits for disk and registry as much as for a processor.
WIDTH = 3


class Scene:
    """One task that dies once, in a namespace of its own, with a repository of its own."""

    # For each task its Jobs, each with as many pods, and so its writes; an inspection builds its stack first.
    pods: t.ClassVar[dict[Task, list[int]]] = {"image_build": [1], "inspection": [1, RUNS]}

    def __init__(self, site: BuildSite, directory: pathlib.Path, task: Task, number: int, when: When) -> None:
        """Make the place."""
        self.site = site
        self.task = task
        self.number = number
        self.when = when
        self.namespace = f"{task.replace('_', '-')}-{number}-{when}"
        self.repository = f"deaths/{self.namespace}"
        self.directory = directory / self.namespace
        self.directory.mkdir()

    def options(self) -> dict[str, t.Any]:
        """The options of the task."""
        build = self.site.options(namespace=self.namespace, image=f"{self.site.registry}/{self.repository}")
        stack = small(self.site, "mortal")
        if self.task == "image_build":
            return {**build, "stack": stack}
        settings = {name: value for name, value in build.items() if name not in ("namespace", "image")}
        return {
            "namespace": self.namespace,
            "stack": stack,
            "build": {**settings, "repository": build["image"]},
            "run": {"requests": {"cpu": "50m", "memory": "32Mi"}, "hardware": {"node_selector": ON_REAL_NODE}},
            "script": "cat '/etc/odd name'; cat /proc/sys/kernel/random/uuid >&2",
            "repetitions": RUNS,
            "parallelism": RUNS,
        }

    def play(self) -> None:
        """Die, go on, and look at everything that is left."""
        live = self.site.cluster.live
        live.namespace(self.namespace)
        kubeconfig, options = self.site.cluster.kubeconfig, self.options()
        survived = kill_and_run_again(kubeconfig, self.directory, self.task, options, self.number, self.when)
        assert without_results(survived.applied) == WRITES * len(self.pods[self.task]), survived.applied
        self.check_result(survived)
        self.check_cluster()
        with ApiProxy(kubeconfig, self.directory) as proxy:
            again = RecordedOrders(str(proxy.kubeconfig), self.task, options).run()
            assert_no_writes(proxy)
        key = "digest" if self.task == "image_build" else "runs"
        assert (again["changed"], again["cached"], again[key]) == (False, True, survived.result[key])
        live.drop_namespace(self.namespace)

    def check_result(self, survived: Survived) -> None:
        """One image, one attempt, nothing lost."""
        result = survived.result
        assert (result["reason"], result["attempt"]) == (None, 1), result
        digest = result["digest"] if self.task == "image_build" else result["image_digest"]
        assert self.site.digests(self.repository) == {result["image"].rpartition(":")[2]: digest}
        if self.task == "inspection":
            assert [item["stdout"] for item in result["runs"]] == ["mortal"] * RUNS
            assert len({item["stderr"] for item in result["runs"]}) == RUNS

    def check_cluster(self) -> None:
        """No Job is left, the outcomes are stored, and no pod was started a second time."""
        client = self.site.cluster.client
        assert self.site.jobs(self.namespace) == []
        records = list_records(client, self.namespace, "muster.kube/build")
        records += list_records(client, self.namespace, "muster.kube/inspection")
        assert [record.attempt for record in records] == [1] * len(self.pods[self.task]), records
        outcomes = [read_outcome(client, record) for record in records]
        assert [outcome["reason"] if outcome else "lost" for outcome in outcomes] == [None] * len(records)
        wanted = sorted(self.pods[self.task])
        wait_until("the events of all pods", lambda: sum(self.pods_created()) >= sum(wanted))
        assert sorted(self.pods_created()) == wanted

    def pods_created(self) -> list[int]:
        """How many pods each Job got, as the Job controller says in its Events."""
        path = resource_path("v1", "events", self.namespace)
        events = list_objects(self.site.cluster.client, path, keep=lambda event: event).items
        made = [event for event in events if event["reason"] == "SuccessfulCreate"]
        jobs = [event["involvedObject"]["uid"] for event in made for _one in range(event.get("count") or 1)]
        return [jobs.count(uid) for uid in sorted(set(jobs))]


def without_results(applied: tuple[str, ...]) -> tuple[str, ...]:
    """The writes without those that keep the results of repetitions while others run, which depend on who is faster."""
    kept: list[str] = []
    for label in applied:
        after_job = bool(kept) and kept[-1] == "POST jobs" and label == "POST configmaps"
        if not after_job and label != "DELETE configmaps":
            kept.append(label)
    return tuple(kept)


@pytest.fixture(scope="module")
def site(real_cluster) -> BuildSite:
    """The cluster with its images."""
    return BuildSite(real_cluster, "deaths")


@pytest.mark.parametrize("task", list(Scene.pods))
def test_killed_at_a_write_and_run_again(site, tmp_path, scale, seed, task):
    last = len(WRITES) * len(Scene.pods[task])
    points = chosen([(number, when) for number in range(1, last + 1) for when in SIDES], scale, seed, task)
    scenes = [Scene(site, tmp_path, task, number, when) for number, when in points]
    with concurrent.futures.ThreadPoolExecutor(WIDTH) as pool:
        futures = {scene.namespace: pool.submit(scene.play) for scene in scenes}
    troubles = {name: future.exception() for name, future in futures.items()}
    assert {name: str(error) for name, error in troubles.items() if error is not None} == {}
