# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The way between a client and the API server in memory, and everything that may go wrong on it."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import typing as t
from urllib.parse import urlsplit

from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import TransportFault
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.tests.support.memory_cluster import ADMIN, MemoryCluster

Wait = t.Callable[[float], None]
Answer = tuple[int, t.Mapping[str, str], bytes]
Trouble = t.Literal["refuse", "lose", "cut", "delay", "kill_before", "kill_after", "kill_late", "call", "date"]
WRITES = "POST|PUT|PATCH|DELETE"


class Killed(BaseException):
    """The end of a process: nothing that it would do on its way out may be relied on."""


@dataclasses.dataclass
class Fault:
    """What happens to some of the requests that match; the first fault whose turn it is takes a request.

    refuse: an answer of this status, nothing is carried out. lose: it never arrives. cut: carried out, the answer is
    lost. delay: it arrives so many seconds later, even if nobody waits for the answer any more. kill_before,
    kill_after: the process that sent it ends. kill_late: so it does, and the request arrives so many seconds later.
    call: something else happens first. date: the answer tells a time that is wrong by so many seconds.
    """

    trouble: Trouble
    methods: str = ".*"
    path: str = ".*"
    skip: int = 0
    times: int = 1
    status: int = 503
    reason: str = ""
    message: str = "made by the test"
    seconds: float = 0.0
    retry_after: int | None = None
    happens: t.Callable[[], None] | None = None
    # Whether it strikes dry runs too.
    dry: bool = True

    def strikes(self, method: str, path: str, dry: bool = False) -> bool:
        """Whether it is this request's turn."""
        if self.times <= 0 or not re.fullmatch(self.methods, method) or not re.search(self.path, path):
            return False
        if dry and not self.dry:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class Line:
    """One process's way to the server: its faults, and the requests it sent (method, path, dry run)."""

    def __init__(self, cluster: MemoryCluster, *, wait: Wait | None = None, latency: float = 0.0) -> None:
        """Wait is how this process lets time pass; every request takes the latency."""
        self.cluster = cluster
        self.wait: Wait = wait or cluster.clock.advance
        self.latency = latency
        self.faults: list[Fault] = []
        self.sent: list[tuple[str, str, bool]] = []
        # Whose tokens these are, for clients that bear somebody else's.
        self.tokens: dict[str, str] = {}
        # Called before each request leaves: whoever runs several processes switches between them here.
        self.before: t.Callable[[str, str], None] = lambda _method, _path: None

    def client(self, user: str = ADMIN) -> KubeClient:
        """A client on this line."""
        return KubeClient(t.cast(t.Any, _Wire(self, user)), sleep=self.wait, clock=self.cluster.clock)

    @property
    def writes(self) -> list[tuple[str, str]]:
        """What was asked for that changes something; reviews of access create nothing."""
        return [
            (method, path)
            for method, path, dry in self.sent
            if method != "GET" and not dry and not path.endswith("/selfsubjectaccessreviews")
        ]

    def send(
        self, method: str, url: str, body: bytes | None, user: str, timeout: float, content_type: str = ""
    ) -> Answer:
        """One request, with what goes wrong with it."""
        path = urlsplit(url).path
        self.before(method, path)
        dry = "dryRun=All" in url
        self.sent.append((method, path, dry))
        if self.latency:
            self.cluster.clock.advance(self.latency)
        fault = next((item for item in self.faults if item.strikes(method, path, dry)), None)

        def arrive() -> Answer:
            """The server gets the request."""
            status, text = self.cluster.answer(method, url, json.loads(body) if body else None, user, content_type)
            return status, {"Date": self.cluster.date()}, text.encode()

        return arrive() if fault is None else self._suffer(fault, arrive, timeout)

    def _suffer(self, fault: Fault, arrive: t.Callable[[], Answer], timeout: float) -> Answer:
        """What a request comes to when a fault strikes it."""
        if fault.happens is not None:
            fault.happens()
        if fault.trouble == "refuse":
            headers = {"Date": self.cluster.date()}
            if fault.retry_after is not None:
                headers["Retry-After"] = str(fault.retry_after)
            body = {"kind": "Status", "code": fault.status, "reason": fault.reason, "message": fault.message}
            return fault.status, headers, json.dumps(body).encode()
        if fault.trouble == "kill_before":
            raise Killed
        if fault.trouble == "kill_late":
            self.cluster.clock.after(fault.seconds, lambda: t.cast(None, arrive()))
            raise Killed
        if fault.trouble == "lose":
            raise TransportFault("cut by the test before it arrived", True)
        if fault.trouble == "delay":
            return self._delayed(fault.seconds, arrive, timeout)
        answer = arrive()
        if fault.trouble == "date":
            return answer[0], {**answer[1], "Date": self.cluster.date(fault.seconds)}, answer[2]
        if fault.trouble == "kill_after":
            raise Killed
        if fault.trouble == "cut":
            raise TransportFault("cut by the test after it arrived", True)
        return answer

    def _delayed(self, seconds: float, arrive: t.Callable[[], Answer], timeout: float) -> Answer:
        """A request that takes its time; it arrives although its sender may be dead by then."""
        answers: list[Answer] = []
        self.cluster.clock.after(seconds, lambda: answers.append(arrive()))
        self.wait(min(seconds, timeout))
        if not answers:
            raise TransportFault("no answer in time", True)
        return answers[0]


class _Wire:
    """The transport of a client, without a wire."""

    base_url = "http://127.0.0.1:1"

    def __init__(self, line: Line, user: str) -> None:
        self._line = line
        self._user = user

    def send(
        self, method: str, url: str, headers: t.Mapping[str, str], body: bytes | None, timeouts: tuple[float, float]
    ) -> Answer:
        """One request."""
        return self._line.send(method, url, body, self._user, timeouts[1], headers.get("Content-Type", ""))

    def acting_as(self, user: str, groups: t.Sequence[str]) -> _Wire:
        """The same line in somebody else's name."""
        other = copy.copy(self)
        other._user = user
        return other

    def bearing(self, token: str) -> _Wire:
        """The same line with somebody else's token."""
        return self.acting_as(self._line.tokens[token], ())

    def credentials_in_words(self) -> str:
        """Who asks."""
        return f"the credentials of {self._user}"

    def stream(self, url: str, headers: t.Mapping[str, str], timeouts: tuple[float, float]) -> t.Any:
        """Watches are not served."""
        raise TransportFault("the server in memory serves no watches", False)

    def close(self) -> None:
        """Nothing is open."""
