# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an inspection with a stack costs: requests to the API server, Dockerfiles generated, records read."""

from __future__ import annotations

from collections import Counter
from urllib.parse import unquote

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build import job as build_job
from ansible_collections.muster.kube.plugins.module_utils._flow.build import run as build_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.tests.support import build_frames
from ansible_collections.muster.kube.tests.support.frames import framed
from ansible_collections.muster.kube.tests.support.inspector import terms_of
from ansible_collections.muster.kube.tests.support.job_api import JOBS, MAPS, NOW, PODS, JobApi

MOST_REQUESTS = 30
TASK = {
    "namespace": "team",
    "stack": {"base": "b:1", "files": [{"path": "/data", "content": "x"}]},
    "build": {"repository": "r.example.com/x", "tier": "baseline"},
    "script": "true",
}
DIGEST = f"sha256:{'d' * 64}"
RESULT = framed({"exit_code": 0, "wall_seconds": 1.0, "start": 1.0, "end": 2.0})


class CountingApi(JobApi):
    """Notes every request with its selector; discovery and reviews count like the others."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: Counter[str] = Counter()
        self.steps = [self.build_ends, self.run_ends]
        node = {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "50"}}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        labels = {"kubernetes.io/arch": "amd64"}
        self.put(
            "/api/v1/nodes/n", {"kind": "Node", "metadata": {"name": "n", "labels": labels}, "status": node | ready}
        )

    def answer(self, method, url, body):
        self.requests[f"{method} {url}"] += 1
        return super().answer(method, url, body)

    def build_ends(self) -> None:
        """A build as it really is: one container builds, the other pushes, and each has a log."""
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": NOW, "finishedAt": NOW}
        builder, pusher = ({"name": name, "state": {"terminated": ended}} for name in ("build", "push"))
        self.run_pod("p-0", phase="Succeeded", initContainerStatuses=[builder], containerStatuses=[pusher])
        built = {"stage": "built", "exit_code": 0, "digest": "", "base_digest": "sha256:2", "image_id": "sha256:3"}
        self.logs["p-0/build"] = build_frames.framed(built)
        self.logs["p-0/push"] = build_frames.framed({**build_frames.DONE, "digest": DIGEST})
        self.end_job()

    def run_ends(self) -> None:
        self.succeed(RESULT, "q-0")
        self.objects[f"{PODS}/q-0"]["status"]["containerStatuses"][0]["name"] = "run"

    def counted(self, part: str) -> int:
        """How many requests have this in their method, path or selector."""
        return sum(count for request, count in self.requests.items() if part in unquote(request))


@pytest.fixture
def api():
    return CountingApi()


@pytest.fixture
def calls(monkeypatch):
    """How often a Dockerfile is generated and a build context is packed."""
    counts: Counter[str] = Counter()

    def count(module, name):
        real = getattr(module, name)

        def call(*args, **named):
            counts[name] += 1
            return real(*args, **named)

        monkeypatch.setattr(module, name, call)

    count(build_flow, "build_context")
    count(build_job, "context_files")
    return counts


def inspect(api, *, check_mode=False, **options):
    terms = terms_of({**TASK, **options}, check_mode=check_mode)
    answer = run_inspection(api.client, terms, lambda _text: None, listen=api.listen)
    assert not answer.get("failed"), answer["message"]
    return answer


def test_a_whole_inspection_with_a_stack(api, calls):
    answer = inspect(api)
    assert (answer["phase"], answer["verdict"]["answer"], answer["image_digest"]) == ("Succeeded", "fits", DIGEST)
    assert answer["runs"][0]["hwinfo"]["node"]["name"] == "n"
    assert sum(api.requests.values()) <= MOST_REQUESTS, "\n".join(f"{n} {r}" for r, n in api.requests.items())
    assert calls == {"build_context": 1, "context_files": 1}
    assert api.counted("muster.kube/expires=true") == 1
    assert api.counted("/selfsubjectaccessreviews") == 1
    assert api.counted("/nodes") == 1


def test_each_record_is_read_once_and_that_of_the_run_looked_at_when_its_job_is_there(api):
    answer = inspect(api)
    assert api.counted(f"GET {MAPS}/{answer['status']['build']['name']}") == 1
    assert api.counted(f"GET {MAPS}/{answer['inspection_id']}") == 2


def test_the_same_inspection_again_reads_records_and_leftover_jobs_only(api, calls):
    first = inspect(api)
    api.requests.clear()
    calls.clear()
    again = inspect(api)
    assert (again["cached"], again["changed"], again["runs"]) == (True, False, first["runs"])
    names = (first["status"]["build"]["name"], first["inspection_id"])
    paths = {f"GET {place}/{name}" for place in (MAPS, JOBS) for name in names}
    assert api.requests == dict.fromkeys(paths, 1)
    assert calls == {"build_context": 1, "context_files": 1}


def test_check_mode_costs_no_more_than_looking(api, calls):
    answer = inspect(api, check_mode=True)
    assert (answer["would_run"], answer["dockerfile"].splitlines()[0]) == (True, "FROM b:1")
    assert sum(api.requests.values()) == 1
    assert calls == {"build_context": 1, "context_files": 1}
