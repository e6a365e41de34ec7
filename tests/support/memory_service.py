# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The desk of the HTTP service over the cluster in memory, with tokens and rights that a test hands out."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.desk import Answered, Asked, Desk
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.routes import Matched, match_route
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Answer, Line

ACCOUNT = "system:serviceaccount:"


@dataclasses.dataclass(frozen=True, slots=True)
class Right:
    """What one user may do; None for whatever there is."""

    user: str
    verb: str | None = None
    resource: str | None = None
    namespace: str | None = None

    def covers(self, user: str, asked: t.Mapping[str, t.Any]) -> bool:
        """Whether it is this that is asked for."""
        mine = (self.verb, self.resource, self.namespace)
        theirs = (asked.get("verb"), asked.get("resource"), asked.get("namespace"))
        return user == self.user and all(own in (None, other) for own, other in zip(mine, theirs, strict=True))


class ReviewLine(Line):
    """A way to the server that answers reviews too; reviews are counted apart."""

    def __init__(self, *arguments: t.Any, **more: t.Any) -> None:
        super().__init__(*arguments, **more)
        self.users: dict[str, dict[str, t.Any]] = {}
        self.rights: list[Right] = []
        self.reviews: list[str] = []

    def send(
        self, method: str, url: str, body: bytes | None, user: str, timeout: float, content_type: str = ""
    ) -> Answer:
        """A review is answered here, everything else by the cluster."""
        kind = url.rpartition("/")[2]
        if kind not in ("tokenreviews", "subjectaccessreviews"):
            return super().send(method, url, body, user, timeout, content_type)
        self.reviews.append(kind)
        spec = json.loads(body or b"{}")["spec"]
        status = self._token(spec) if kind == "tokenreviews" else self._right(spec)
        return 201, {"Date": self.cluster.date()}, json.dumps({"status": status}).encode()

    def _token(self, spec: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        found = self.users.get(spec["token"])
        return {"authenticated": False} if found is None else {"authenticated": True, "user": found}

    def _right(self, spec: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        return {"allowed": any(right.covers(spec["user"], spec["resourceAttributes"]) for right in self.rights)}


class MemoryService:
    """A desk, and callers of it."""

    def __init__(self, stage: MemoryStage, namespaces: tuple[str, ...] | None = None) -> None:
        """Nobody is known yet."""
        self.stage = stage
        self.line = ReviewLine(stage.cluster)
        self.client = self.line.client("service")
        self.desk = Desk(self.client, namespaces=namespaces, lease=LEASE)

    def user(self, token: str, name: str, *rights: Right, **more: t.Any) -> str:
        """Somebody with a token and rights; returns the token."""
        self.line.users[token] = {"username": name, "groups": ["system:authenticated"], **more}
        self.line.tokens[token] = name
        self.line.rights += rights
        return token

    def trainer(self, token: str, namespace: str, gang: str) -> str:
        """The token of a pod of a gang that runs."""
        record = self.stage.cluster.get("configmaps", namespace, gang)
        assert record is not None
        pod = next(
            item
            for item in self.stage.cluster.all("pods", namespace)
            if item["metadata"]["labels"].get("muster.kube/gang") == record["metadata"]["uid"]
        )["metadata"]
        extra = {
            "authentication.kubernetes.io/pod-name": [pod["name"]],
            "authentication.kubernetes.io/pod-uid": [pod["uid"]],
        }
        return self.user(token, f"{ACCOUNT}{namespace}:trainer", extra=extra)

    def ask(
        self, method: str, address: str, token: str | None = None, body: t.Any = None, **query: str | list[str]
    ) -> Answered:
        """One request."""
        matched = match_route(method, address)
        assert isinstance(matched, Matched), address
        header = None if token is None else f"Bearer {token}"
        text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        listed = {name: [value] if isinstance(value, str) else value for name, value in query.items()}
        return self.desk.answer(Asked(matched, header, listed, text))
