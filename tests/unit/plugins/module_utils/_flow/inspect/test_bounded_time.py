# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long repetitions take at most whose nodes all die: time passes here only when somebody waits for something."""

from __future__ import annotations

import datetime
import email.utils
import math
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect import run as run_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job import run as recorded_job
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.tests.support.inspector import terms_of
from ansible_collections.muster.kube.tests.support.job_api import JOBS, JobApi

FITS = Verdict("g", "team", "fits", "now", None, NamespaceFit(True), 0, (), {}).as_dict()
TIMEOUT, START_TIMEOUT, GRACE = 63, 41, 120
# Further Jobs are made for repetitions that were not tried, but not for ever.
MOST_JOBS = 5
EPOCH = datetime.datetime(2026, 11, 16, 4, tzinfo=datetime.UTC)


class DyingCluster(JobApi):
    """A server whose clock goes with the waiting, and whose nodes die as soon as a pod has begun on them."""

    def __init__(self, delays):
        super().__init__()
        self.indexed = True
        self.delays = delays
        self.began = self.now
        self.begins = []
        self.ended = []
        self.due = []

    def date(self):
        return email.utils.format_datetime(self.clock(), usegmt=True)

    def timestamp(self):
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    def clock(self):
        return EPOCH + datetime.timedelta(seconds=math.floor(self.now - self.began))

    def answer(self, method, url, body):
        """A new Job has pods at once, which begin when their time has come."""
        answer = super().answer(method, url, body)
        path = url.partition("?")[0]
        if method == "POST" and path == JOBS:
            for number in range(body["spec"]["parallelism"]):
                self.run_pod(f"p-{number}", phase="Pending")
                self.due.append((self.now + next(self.delays), number))
        if method == "DELETE" and path.startswith(JOBS):
            self.ended.append(self.now)
            self.due.clear()
        return answer

    def wait(self, longest):
        """Time goes on to the begin of the next pod, of which nothing is heard after that, or as long as is waited."""
        end = self.now + longest
        begin, number = min(self.due, default=(math.inf, 0))
        if begin > end:
            self.now = end
            return
        self.now = math.ceil(begin)
        self.due.remove((begin, number))
        self.begins.append(self.now)
        running = {"name": "run", "state": {"running": {"startedAt": self.timestamp()}}}
        self.run_pod(f"p-{number}", startTime=self.timestamp(), containerStatuses=[running])

    def inspect(self, **options):
        task = {"namespace": "team", "image": "registry.example.com/x:1", "script": "true", "timeout": str(TIMEOUT)}
        terms = terms_of({**task, "start_timeout": str(START_TIMEOUT), **options})
        return run_inspection(self.client, terms, lambda _text: None, listen=self.listen)


@pytest.fixture(autouse=True)
def room(monkeypatch):
    monkeypatch.setattr(run_flow, "room_for", lambda _client, _namespace, _job, _nodes: FITS)


def delays(seed, longest):
    """When pods begin after their Job was made."""
    chance = random.Random(seed)
    while True:
        yield chance.uniform(0, longest)


@pytest.fixture
def verdicts(monkeypatch):
    """How long after its begin each pod was given up."""
    found = {}

    def watched(facts, *, now, **more):
        marked = usual(facts, now=now, **more)
        for pod in marked.pods:
            if pod.lost is not None:
                found.setdefault(pod.uid, now - pod.begun)
        return marked

    usual = recorded_job.with_lost_pods
    monkeypatch.setattr(recorded_job, "with_lost_pods", watched)
    return found


@pytest.mark.parametrize("node", ["not ready", "gone"])
@pytest.mark.parametrize(("repetitions", "parallelism"), [(1, 1), (3, 1), (4, 2), (20, 4), (20, 20), (50, 7)])
def test_dead_nodes_hold_up_no_repetition_and_no_run_longer_than_is_bounded(repetitions, parallelism, node, verdicts):
    cluster = DyingCluster(delays(f"{repetitions} {parallelism}", START_TIMEOUT - 3))
    if node == "not ready":
        down = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
        cluster.put("/api/v1/nodes/n", {"kind": "Node", "metadata": {"name": "n"}, "status": down})
    answer = cluster.inspect(repetitions=repetitions, parallelism=parallelism)
    waves = min(math.ceil(repetitions / parallelism), MOST_JOBS)
    tried = min(repetitions, waves * parallelism)
    assert [run["reason"] for run in answer["runs"]][:tried] == ["evicted"] * tried
    assert len(cluster.ended) == waves
    assert len(verdicts) == len(cluster.begins) == tried
    assert max(verdicts.values()) <= TIMEOUT + GRACE
    assert cluster.now - cluster.began <= waves * (START_TIMEOUT + TIMEOUT + GRACE)


def test_repetitions_that_find_no_node_after_the_first_ones_died_are_not_waited_for_longer_than_to_start(verdicts):
    never = (wait for waits in ([0.0] * 4, [math.inf] * 100) for wait in waits)
    cluster = DyingCluster(never)
    answer = cluster.inspect(repetitions=20, parallelism=4)
    assert [run["reason"] for run in answer["runs"]][:4] == ["evicted"] * 4
    assert len(verdicts) == 4
    assert cluster.now - cluster.began <= TIMEOUT + GRACE + START_TIMEOUT
