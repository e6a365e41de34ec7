# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Trouble while repetitions run: nothing that finished is lost, nothing runs twice, and no hang outlives its bound.

Each repetition leaves a mark outside of the cluster when it begins and when it ends.
"""

from __future__ import annotations

import collections
import contextlib
import http.server
import os
import threading
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import HANG_SECONDS
from ansible_collections.muster.kube.tests.support.accounts import EVERYTHING, RBAC, tenant_kubeconfig
from ansible_collections.muster.kube.tests.support.inspector import Inspector
from ansible_collections.muster.kube.tests.support.live_cluster import wait_for_end, wait_until
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE

FULL = float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1
COUNT = 20 if FULL else 4
# The trouble comes when so many have ended.
TROUBLE = COUNT // 4
CUT_OFF = 60.0 if FULL else 4.0
OUTAGE = 90.0 if FULL else 4.0
SECONDS = 5 if FULL else 2
TIMEOUT = 60
# Shorter than the node is cut off in full runs, so that its pods are over time when it is back.
SHORT_TIMEOUT = 45
# All that is no trouble: starts of pods on a busy machine.
USUAL = 600.0
HERE = {"requests": {"cpu": "10m", "memory": "64Mi"}, "hardware": {"node_selector": ON_REAL_NODE}}
# Rights to all that an inspection needs, but for logs.
WITHOUT_LOGS = [
    {
        "apiGroups": ["*"],
        "resources": ["configmaps", "events", "jobs", "limitranges", "pods", "resourcequotas", "serviceaccounts"],
        "verbs": ["*"],
    }
]
Trouble = contextlib.AbstractContextManager[t.Any]
SCRIPT = """
mark() { wget -q -O /dev/null "http://$PLACE/$1/$MUSTER_INDEX" || exit 9; }
mark begin
sleep $SECONDS_EACH
mark end
echo $MUSTER_INDEX
"""


class Marks:
    """Counts what repetitions say of themselves, on an address that pods reach."""

    def __init__(self, address: str) -> None:
        """Nobody said anything yet."""
        self.counted = {sort: collections.Counter[int]() for sort in ("begin", "end")}
        marks = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """One mark."""

            def do_GET(self) -> None:
                sort, index = self.path.strip("/").split("/")
                marks.counted[sort][int(index)] += 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments: t.Any) -> None:
                """Nobody reads it."""

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.place = f"{address}:{self.server.server_address[1]}"


@pytest.fixture
def marks(real_cluster):
    """The counter of begins and ends."""
    made = Marks(real_cluster.address)
    threading.Thread(target=made.server.serve_forever, daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Course:
    """One inspection with many repetitions, and trouble in the midst of it."""

    def __init__(self, inspector: Inspector, marks: Marks) -> None:
        """Nothing runs yet."""
        self.inspector = inspector
        self.marks = marks
        self.reached = threading.Event()
        inspector.on_report = self._heard
        self.task = {
            "script": SCRIPT,
            "env": {"PLACE": marks.place, "SECONDS_EACH": str(SECONDS)},
            "repetitions": COUNT,
            "parallelism": max(COUNT // 5, 2),
            "timeout": str(TIMEOUT),
            "start_timeout": "300",
        }

    def _heard(self, text: str) -> None:
        """Whether enough have ended for the trouble to begin."""
        told = text.rpartition("running: ")[2].split(" of ")[0]
        if told.isdecimal() and int(told) >= TROUBLE:
            self.reached.set()

    def run(self, trouble: Trouble, seconds: float) -> dict[str, t.Any]:
        """The answer of a run during which there is trouble for so many seconds."""
        return self.run_through([trouble], seconds)

    def run_through(self, troubles: t.Sequence[Trouble], seconds: float) -> dict[str, t.Any]:
        """The answer of a run during which there is one trouble after another."""
        answers: list[t.Any] = []

        def inspect() -> None:
            try:
                answers.append(self.inspector.run(**self.task))
            except Exception as error:  # noqa: BLE001
                answers.append(error)

        thread = threading.Thread(target=inspect, name="the inspection", daemon=True)
        thread.start()
        wait_until("some repetitions to end", self.reached.is_set, USUAL)
        begun = time.monotonic()
        for trouble in troubles:
            with trouble:
                thread.join(seconds)
        wait_for_end(thread, TIMEOUT + HANG_SECONDS + USUAL)
        print(f"{COUNT} repetitions; the run ended {time.monotonic() - begun:.0f} s after the trouble began")
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    def check(self, answer: dict[str, t.Any]) -> None:
        """What ended has its result and ran once; what the trouble broke off is run by the next task, and only that."""
        broken = [item["index"] for item in answer["runs"] if item["reason"] is not None]
        begun = collections.Counter(self.marks.counted["begin"])
        print(f"{len(broken)} were broken off: {sorted({answer['runs'][index]['reason'] for index in broken})}")
        assert max(begun.values()) == 1, begun
        assert all(begun[index] for index in range(COUNT) if index not in broken)
        whole = self.inspector.run(**self.task) if broken else answer
        assert [item["reason"] for item in whole["runs"]] == [None] * COUNT, whole["message"]
        assert [item["stdout"] for item in whole["runs"]] == list(range(COUNT))
        again = {index: begun[index] + (index in broken) for index in range(COUNT)}
        assert self.marks.counted["begin"] == again
        assert self.inspector.names("batch/v1", "jobs") == []

    def check_whole(self, answer: dict[str, t.Any]) -> None:
        """Nothing was broken off that had begun."""
        begun = self.marks.counted["begin"]
        broken = [item for item in answer["runs"] if item["reason"] is not None and begun[item["index"]]]
        assert broken == [], (self.marks.counted, [(item["message"], item["stderr"]) for item in broken])
        self.check(answer)


@pytest.fixture
def course(real_cluster, real_namespace, marks):
    """An inspection in busybox on the real node."""
    inspector = Inspector(real_cluster.kubeconfig, real_namespace, image=real_cluster.busybox_image(), run=HERE)
    return Course(inspector, marks)


@pytest.mark.full  # a shorter test has one trouble after another
def test_a_kubelet_that_is_cut_off(course, real_cluster):
    course.task["timeout"] = str(SHORT_TIMEOUT)
    course.check_whole(course.run(real_cluster.suspended("kubelet"), CUT_OFF))


@pytest.mark.full
def test_an_api_server_that_is_gone(course, real_cluster):
    course.check_whole(course.run(real_cluster.suspended("kube-apiserver"), OUTAGE))


@contextlib.contextmanager
def collected(real_cluster, namespace: str) -> t.Iterator[None]:
    """Finished pods are deleted while the block lasts and after it, a few seconds after their end."""
    over = threading.Event()

    def collect() -> None:
        while not over.wait(1.0):
            for pod in real_cluster.live.pods(namespace):
                states = [item.get("state", {}) for item in pod["status"].get("containerStatuses", ())]
                ends = [read_time(state["terminated"]["finishedAt"]) for state in states if "terminated" in state]
                if pod["status"].get("phase") == "Succeeded" and ends and time.time() - max(ends) > 3:
                    with contextlib.suppress(NotFound):
                        delete(real_cluster.client, resource_path("v1", "pods", namespace, pod["metadata"]["name"]))

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.full
def test_pods_that_are_collected_while_others_run(course, real_cluster):
    course.check_whole(course.run(collected(real_cluster, course.inspector.namespace), USUAL))


@contextlib.contextmanager
def no_logs(real_cluster, namespace: str) -> t.Iterator[None]:
    """The right to read logs is taken away while the block lasts."""
    role = resource_path(RBAC, "roles", namespace, f"{namespace}-own")
    patch(real_cluster.client, role, {"rules": WITHOUT_LOGS}, patch_type="merge")
    yield
    patch(real_cluster.client, role, {"rules": EVERYTHING}, patch_type="merge")


@pytest.fixture
def tenant(course, real_cluster, tmp_path):
    """The inspection of somebody with rights in this namespace only."""
    namespace = course.inspector.namespace
    course.inspector.kubeconfig = tenant_kubeconfig(real_cluster.live, namespace, namespace, tmp_path)
    # Nothing may be broken off, however long a busy machine takes for two seconds of work.
    course.task["timeout"] = str(int(USUAL))
    return course


@pytest.mark.full
def test_logs_that_may_not_be_read_for_a_while(tenant, real_cluster):
    tenant.check_whole(tenant.run(no_logs(real_cluster, tenant.inspector.namespace), CUT_OFF))


def test_one_trouble_after_another(tenant, real_cluster):
    namespace = tenant.inspector.namespace
    troubles = [
        # First, since what nobody could read yet would be lost with its pod.
        collected(real_cluster, namespace),
        real_cluster.suspended("kubelet"),
        no_logs(real_cluster, namespace),
        real_cluster.suspended("kube-apiserver"),
    ]
    tenant.check_whole(tenant.run_through(troubles, CUT_OFF))


@pytest.mark.full  # the logs are asked for during two minutes
def test_logs_that_may_not_be_read_any_more_are_there_for_the_next_task(tenant, real_cluster):
    with pytest.raises(Forbidden):
        tenant.run(no_logs(real_cluster, tenant.inspector.namespace), USUAL)
    tenant.check_whole(tenant.inspector.run(**tenant.task))


@pytest.mark.full  # what ran on the node is waited for until its time and two minutes are over
def test_a_node_that_is_stopped(course, real_cluster):
    answer = course.run(real_cluster.node_stopped(), TIMEOUT + HANG_SECONDS + 15)
    lost = [item["index"] for item in answer["runs"] if item["reason"] == "evicted"]
    assert 0 < len(lost) <= course.task["parallelism"], answer["message"]
    course.check(answer)


@pytest.mark.full
def test_a_node_that_is_started_again_at_once(course, real_cluster):
    answer = course.run(real_cluster.node_stopped(), 1)
    assert {item["reason"] for item in answer["runs"]} <= {None, "evicted", "cancelled"}, answer["message"]
    course.check(answer)
