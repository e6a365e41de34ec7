# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small API server that can be written to, without HTTP: objects by path, versions, preconditions, dry runs.

It collects garbage at once unless told otherwise, so that removals can be tested without waiting.
"""

from __future__ import annotations

import copy
import json
import re
import typing as t
from urllib.parse import parse_qs, urlsplit

if t.TYPE_CHECKING:
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient

Object = dict[str, t.Any]
Answer = tuple[int, Object]
DATE = "Mon, 16 Nov 2026 04:00:00 GMT"
COLLECTIONS = (
    "appwrappers",
    "configmaps",
    "csinodes",
    "jobs",
    "jobsets",
    "limitranges",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "priorityclasses",
    "resourcequotas",
    "runtimeclasses",
    "serviceaccounts",
    "storageclasses",
    "validatingadmissionpolicybindings",
)
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CREATED = "2026-11-16T03:00:00Z"


def discovery(**kinds: tuple[str, bool]) -> Object:
    """The resources of one group version: Kind=(plural, namespaced)."""
    entries = [{"name": plural, "kind": kind, "namespaced": scoped} for kind, (plural, scoped) in kinds.items()]
    return {"kind": "APIResourceList", "resources": entries}


class WritableApi:
    """Objects by their path; answers may be overridden by (method, path)."""

    def __init__(self) -> None:
        """A cluster with the usual kinds and the namespace team."""
        self.objects: dict[str, Object] = {}
        self.fixed: dict[tuple[str, str], list[Answer]] = {}
        self.collects = True
        self.asked: list[tuple[str, str, bool]] = []
        self.now = 1000.0
        self._number = 0
        self.on_sleep: t.Callable[[], None] = lambda: None
        core = discovery(
            ConfigMap=("configmaps", True),
            Pod=("pods", True),
            Secret=("secrets", True),
            Namespace=("namespaces", False),
        )
        self.fixed[("GET", "/api/v1")] = [(200, core)]
        # As a server that does not tell who asks.
        self.fixed[("POST", REVIEWS)] = [(404, _status(404, "NotFound"))]
        self.fixed[("GET", "/apis/batch/v1")] = [(200, discovery(Job=("jobs", True)))]
        self.put("/api/v1/namespaces/team", {"kind": "Namespace", "metadata": {"name": "team"}})

    def put(self, path: str, obj: Object) -> Object:
        """Store an object as if it had always been there."""
        stored = copy.deepcopy(obj)
        self._number += 1
        metadata = stored.setdefault("metadata", {})
        metadata.setdefault("uid", f"uid-{self._number}")
        metadata.setdefault("creationTimestamp", CREATED)
        metadata["resourceVersion"] = str(self._number)
        self.objects[path] = stored
        return stored

    @property
    def writes(self) -> list[tuple[str, str]]:
        """What was asked for that changes something."""
        asked = [(method, path) for method, path, dry in self.asked if method != "GET" and not dry]
        return [(method, path) for method, path in asked if path != REVIEWS]

    def client(self) -> KubeClient:
        """A client of this server; sleeping makes time pass."""
        from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient

        return KubeClient(_Wire(self), sleep=self.sleep, clock=lambda: self.now)

    def sleep(self, seconds: float) -> None:
        """Time passes, and something may happen meanwhile."""
        self.now += max(seconds, 0.01)
        self.on_sleep()

    def date(self) -> str:
        """The server's clock, which stands still."""
        return DATE

    def answer(self, method: str, url: str, body: Object | None) -> Answer:
        """Status and body for one request."""
        address = urlsplit(url)
        path, query = address.path, parse_qs(address.query)
        dry = query.get("dryRun") == ["All"]
        self.asked.append((method, path, dry))
        planned = self.fixed.get((method, path))
        if planned:
            return planned.pop(0) if len(planned) > 1 else planned[0]
        if method == "POST":
            return self._create(path, body or {}, dry)
        if method == "GET" and self._is_collection(path):
            return self._list(path, query.get("labelSelector", [""])[0])
        found = self.objects.get(path)
        if found is None:
            return 404, _status(404, "NotFound")
        if method == "PUT":
            return self._replace(path, found, body or {})
        return self._delete(path, found, body or {}) if method == "DELETE" else (200, copy.deepcopy(found))

    def _create(self, path: str, body: Object, dry: bool) -> Answer:
        """A new object, unless its name is taken."""
        place = f"{path}/{body['metadata']['name']}"
        if place in self.objects:
            return 409, _status(409, "AlreadyExists")
        if dry:
            return 201, body
        return 201, copy.deepcopy(self.put(place, body))

    def _replace(self, path: str, found: Object, body: Object) -> Answer:
        """A changed object, if the version is still the one that was read."""
        if body["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
            return 409, _status(409, "Conflict")
        return 200, copy.deepcopy(self.put(path, body))

    def _delete(self, path: str, found: Object, options: Object) -> Answer:
        """Delete an object and, at once, all that it owned."""
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted not in (None, found["metadata"]["uid"]):
            return 409, _status(409, "Conflict")
        del self.objects[path]
        if self.collects:
            self._collect(found["metadata"]["uid"])
        return 200, found

    def _collect(self, uid: str) -> None:
        """What the garbage collector does."""
        for path, obj in list(self.objects.items()):
            if path in self.objects and any(item["uid"] == uid for item in obj["metadata"].get("ownerReferences", ())):
                del self.objects[path]
                self._collect(obj["metadata"]["uid"])

    def _is_collection(self, path: str) -> bool:
        """Whether a path names a kind rather than an object."""
        return path.rpartition("/")[2] in COLLECTIONS

    def _list(self, path: str, selector: str) -> Answer:
        """The objects of a collection, or of all namespaces, that a selector matches."""
        head, plural = path.rsplit("/", 1)
        parts = [part for part in re.split(r",(?![^(]*\))", selector) if part]
        matching = [
            copy.deepcopy(obj)
            for place, obj in sorted(self.objects.items())
            if place.startswith(f"{head}/")
            and place.rsplit("/", 2)[1] == plural
            and all(_matches(_labels(obj), part) for part in parts)
        ]
        return 200, {"kind": "List", "metadata": {"resourceVersion": str(self._number)}, "items": matching}


class _Wire:
    """The transport of a client, without a wire."""

    base_url = "http://127.0.0.1:1"

    def __init__(self, api: WritableApi) -> None:
        self._api = api

    def send(
        self, method: str, url: str, headers: t.Mapping[str, str], body: bytes | None, timeouts: t.Any
    ) -> tuple[int, t.Mapping[str, str], bytes]:
        """One request."""
        status, answer = self._api.answer(method, url, json.loads(body) if body else None)
        text = answer["text"].encode() if set(answer) == {"text"} else json.dumps(answer).encode()
        return status, {"Date": self._api.date()}, text

    def close(self) -> None:
        """Nothing is open."""


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _matches(labels: dict[str, str], part: str) -> bool:
    """Whether labels meet one part of a selector."""
    among = re.fullmatch(r"(\S+) (in|notin) \((.*)\)", part)
    if among:
        return (labels.get(among[1]) in among[3].split(",")) == (among[2] == "in")
    if part.startswith("!"):
        return part[1:] not in labels
    key, equals, value = part.partition("=")
    return labels.get(key) == value if equals else key in labels


def _status(code: int, reason: str) -> Object:
    return {"kind": "Status", "code": code, "reason": reason, "message": reason}


def refused(code: int, reason: str, message: str) -> Answer:
    """An answer that refuses, to be planned."""
    return code, {"kind": "Status", "code": code, "reason": reason, "message": message}
