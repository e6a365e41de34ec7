# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small API server on which Jobs end as the test says, one step at each rest of who waits for them."""

from __future__ import annotations

import re
import typing as t
from urllib.parse import parse_qs, urlsplit

from ansible_collections.muster.kube.tests.support.writable_api import Answer, Object, WritableApi

if t.TYPE_CHECKING:
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient

JOBS = "/apis/batch/v1/namespaces/team/jobs"
PODS = "/api/v1/namespaces/team/pods"
EVENTS = "/api/v1/namespaces/team/events"
MAPS = "/api/v1/namespaces/team/configmaps"
# The server's clock shows 04:00:00.
NOW = "2026-11-16T04:00:00Z"


class Died(BaseException):
    """The process was killed at a write; nothing of it may run after that."""


class JobApi(WritableApi):
    """Objects, Events by field selector, logs by pod or pod/container, and steps that happen while somebody rests."""

    def __init__(self) -> None:
        """No Job yet; logs and steps are the test's."""
        super().__init__()
        self.logs: dict[str, bytes] = {}
        self.log_troubles: dict[str, list[int]] = {}
        self.may_read_logs = True
        self.indexed = False
        self.steps: list[t.Callable[[], object]] = []
        self.die_at: int | None = None
        self.die_after = False
        self.rests = 0

    def timestamp(self) -> str:
        """The server's clock as objects have it."""
        return NOW

    def answer(self, method: str, url: str, body: Object | None) -> Answer:
        """Logs, Events and deaths here, the rest as usual."""
        address = urlsplit(url)
        path = address.path
        if path.endswith("/selfsubjectaccessreviews"):
            return 201, {"status": {"allowed": self.may_read_logs}}
        if method == "GET" and path.endswith("/log"):
            self.asked.append((method, path, False))
            name = path.split("/")[-2]
            if self.log_troubles.get(name):
                return self.log_troubles[name].pop(0), {"kind": "Status", "message": "the node does not answer"}
            own = f"{name}/{parse_qs(address.query).get('container', [''])[0]}"
            name = own if own in self.logs else name
            if name not in self.logs:
                return 404, {"kind": "Status"}
            lines = int(parse_qs(address.query).get("tailLines", ["0"])[0])
            return 200, {"text": b"".join(self.logs[name].splitlines(keepends=True)[-lines:]).decode()}
        if method == "GET" and path.endswith("/events"):
            self.asked.append((method, path, False))
            uid = parse_qs(address.query)["fieldSelector"][0].partition("=")[2]
            found = [obj for place, obj in self.objects.items() if place.startswith(f"{path}/")]
            return 200, {
                "kind": "EventList",
                "metadata": {"resourceVersion": "1"},
                "items": [obj for obj in found if obj["involvedObject"]["uid"] == uid],
            }
        dies = method != "GET" and self.die_at == len(self.writes) + 1
        if dies and not self.die_after:
            raise Died
        answer = super().answer(method, url, body)
        if method == "POST" and answer[0] == 201:
            made = self.objects[f"{path}/{answer[1]['metadata']['name']}"]
            made["metadata"]["creationTimestamp"] = answer[1]["metadata"]["creationTimestamp"] = self.timestamp()
        if dies:
            raise Died
        return answer

    @property
    def written(self) -> list[str]:
        """What was written, in words without hashes."""
        return [re.sub(r"[0-9a-f]{10}", "#", f"{method} {path.partition('/team/')[2]}") for method, path in self.writes]

    def listen(self, _client: KubeClient, _namespace: str, _name: str) -> JobApi:
        """A bell: at each rest the next step happens."""
        return self

    def __enter__(self) -> JobApi:
        """Nothing to start."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing to end."""

    def wait(self, longest: float) -> None:
        """One step; who rests after the last one would rest for ever."""
        self.rests += 1
        if not self.steps:
            raise AssertionError(f"nothing happens any more; {self.written}")
        self.steps.pop(0)()

    def job(self) -> Object:
        """The only Job."""
        (found,) = [obj for path, obj in self.objects.items() if path.startswith(f"{JOBS}/")]
        return found

    def run_pod(self, name: str = "p-0", **status: t.Any) -> Object:
        """A pod of the only Job with this status; changed when it is there already."""
        job = self.job()["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["name"], "uid": job["uid"]}
        known = self.objects.get(f"{PODS}/{name}", {}).get("metadata", {})
        metadata = {
            "name": name,
            "namespace": "team",
            "labels": {"batch.kubernetes.io/job-name": job["name"], **self._index_label(name)},
            "ownerReferences": [owner],
            "creationTimestamp": self.timestamp(),
            **({"uid": known["uid"]} if known else {}),
        }
        pod = {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": "Running", **status}}
        return self.put(f"{PODS}/{name}", pod)

    def _index_label(self, name: str) -> dict[str, str]:
        """Pods named p-3 are those of index 3."""
        number = name.rpartition("-")[2]
        return {"batch.kubernetes.io/job-completion-index": number} if self.indexed else {}

    def end_job(self, condition: str = "Complete", reason: str = "", message: str = "") -> None:
        """What the controller says of the only Job at its end."""
        job = self.job()
        told = {"type": condition, "status": "True", "reason": reason, "message": message}
        job["status"] = {"conditions": [told]}

    def succeed(self, log: bytes = b"", name: str = "p-0") -> None:
        """The pod succeeds, and so does the Job."""
        ended = {"exitCode": 0, "reason": "Completed", "finishedAt": NOW}
        self.run_pod(name, phase="Succeeded", containerStatuses=[{"name": "main", "state": {"terminated": ended}}])
        self.logs[name] = log
        self.end_job()

    def fail(self, log: bytes = b"", name: str = "p-0", code: int = 1, **ended: t.Any) -> None:
        """The pod fails, and so does the Job."""
        state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": NOW, **ended}}
        self.run_pod(name, phase="Failed", containerStatuses=[{"name": "main", "state": state}])
        self.logs[name] = log
        self.end_job("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")

    def say(self, reason: str, message: str, about: Object, kind: str = "Job") -> None:
        """An Event about an object."""
        involved = {"kind": kind, "name": about["metadata"]["name"], "uid": about["metadata"]["uid"]}
        event = {"reason": reason, "message": message, "involvedObject": involved, "lastTimestamp": NOW}
        self.put(f"{EVENTS}/e{len(self.objects)}", event)
