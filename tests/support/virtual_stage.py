# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster in memory behind the interface of a live one: stages, proxies and whole runs work over it as they are.

Runs are those of the product, from the Lease to the result; only threads, watches and the clock are replaced. What is
waited for comes in virtual time, so that a test takes milliseconds however long its gangs run.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import typing as t
from functools import partial
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch import run as run_module
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.change_signal import ChangeSignal
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Session
from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import TransportFault
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import ACCOUNT
from ansible_collections.muster.kube.tests.support import live_cluster
from ansible_collections.muster.kube.tests.support.api_proxy import Recorded, RequestBook, Rule
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster
from ansible_collections.muster.kube.tests.support.memory_cluster import (
    ADMIN,
    BEGINNING,
    Denial,
    MemoryCluster,
    Object,
)
from ansible_collections.muster.kube.tests.support.memory_controllers import Controllers, Pace
from ansible_collections.muster.kube.tests.support.memory_dispatcher import (
    InlineWorkers,
    SteppedLedger,
    StrictJournal,
    inline_calls,
)
from ansible_collections.muster.kube.tests.support.memory_mirror import memory_mirrors
from ansible_collections.muster.kube.tests.support.memory_wire import Answer, Killed, Line

When = t.Literal["before", "after"]

# What each request of a dispatcher takes.
LATENCY = 0.005


class VirtualTime:
    """The module time, for those who wait in a cluster in memory; who holds a Lease renews it while time passes."""

    def __init__(self, memory: MemoryCluster) -> None:
        """Nobody holds a Lease yet."""
        self._memory = memory
        self.ledgers: list[SteppedLedger] = []

    def monotonic(self) -> float:
        """Seconds since the beginning."""
        return self._memory.clock.now

    def time(self) -> float:
        """The time of day."""
        return BEGINNING.timestamp() + self._memory.clock.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        clock = self._memory.clock
        end = clock.now + max(0.0, seconds)
        while True:
            due = [moment for ledger in self.ledgers if (moment := ledger.next_renewal()) is not None]
            clock.advance_to(min([end, *due]))
            self.renew()
            if clock.now >= end:
                return

    def renew(self) -> None:
        """Renew what has to be renewed now."""
        for ledger in self.ledgers:
            ledger.renew_in_time()


class VirtualBell(ChangeSignal):
    """The bell in virtual time."""

    cluster: VirtualCluster

    def wait(self, longest: float, *, at_least: float) -> None:
        """Let time pass until it rings."""
        time, clock = self.cluster.time, self.cluster.memory.clock
        end = clock.now + longest
        time.sleep(min(at_least, longest))
        while not self._rung.is_set() and clock.now < end:
            moment = clock.next_time()
            time.sleep((end if moment is None else min(end, moment)) - clock.now)


class ProxiedLine(Line):
    """A way to the server on which requests are recorded and rules apply."""

    def __init__(self, memory: MemoryCluster, book: RequestBook) -> None:
        """The rules are those of the book."""
        super().__init__(memory, latency=LATENCY)
        self._book = book
        # Once its process is dead nothing leaves it any more, whatever its code does on the way out.
        self.dead = False
        self.dies: When | None = None

    def send(
        self, method: str, url: str, body: bytes | None, user: str, timeout: float, content_type: str = ""
    ) -> Answer:
        """One request, and what the first rule says that is for it."""
        if self.dead:
            raise TransportFault("the process is dead", False)
        address = urlsplit(url)
        request = Recorded(method, address.path, parse_qs(address.query), body or b"")
        rule = self._book.record(request)
        if rule is not None and rule.meanwhile is not None:
            rule.meanwhile()
        self._die("before")
        if rule is not None and rule.cut == "before":
            request.status = 0
            raise TransportFault("cut by the test before it arrived", True)
        answer = self._refusal(rule) if rule is not None and rule.status is not None else None
        if answer is None:
            answer = super().send(method, url, body, user, timeout, content_type)
        if rule is not None and rule.ahead is not None:
            answer = answer[0], {**answer[1], "Date": self.cluster.date(rule.ahead)}, answer[2]
        if rule is not None and rule.cut is not None:
            request.status = 0
            raise TransportFault("cut by the test after it arrived", True)
        request.status = answer[0]
        self._die("after")
        return answer

    def _die(self, when: When) -> None:
        """End here if the process was killed at this side of the request."""
        if self.dies == when:
            self.dead = True
            raise Killed

    def _refusal(self, rule: Rule) -> Answer:
        """The answer of a server that refuses."""
        headers = {"Date": self.cluster.date()}
        if rule.retry_after is not None:
            headers["Retry-After"] = str(rule.retry_after)
        status = {"kind": "Status", "status": "Failure", "message": rule.message, "reason": rule.reason}
        return t.cast(int, rule.status), headers, json.dumps({**status, "code": rule.status}).encode()


class VirtualProxy(RequestBook):
    """A proxy before the cluster in memory; a stage goes through it by the name of its kubeconfig."""

    def __init__(self, cluster: VirtualCluster) -> None:
        """No rules yet."""
        super().__init__()
        self.kubeconfig = pathlib.Path(f"proxy-{len(cluster.ways)}")
        self._line = ProxiedLine(cluster.memory, self)
        cluster.ways[str(self.kubeconfig)] = self._line, ADMIN

    def interrupt(
        self,
        meanwhile: t.Callable[[], None],
        *,
        method: str | None = None,
        path: str = "",
        times: int | None = 1,
        first: int = 1,
    ) -> Rule:
        """Have something happen while a request is under way."""
        rule = self.hold(method=method, path=path, times=times, first=first)
        rule.meanwhile = meanwhile
        return rule

    def kill(self, *, when: When) -> None:
        """End the process behind the proxy at the request that is under way; to be called by what interrupts it."""
        self._line.dies = when


class VirtualCluster(LiveCluster):
    """A cluster in memory as tests of a live one use it."""

    def __init__(self, pace: Pace | None = None) -> None:
        """Controllers at work, and the namespace default."""
        self.memory = MemoryCluster()
        self.controllers = Controllers(self.memory, pace=pace)
        self.time = VirtualTime(self.memory)
        self.ways: dict[str, tuple[Line, str]] = {}
        super().__init__(Line(self.memory).client(), {"kubeconfig": "", "kubectl": "", "components": {}})
        self.namespace("default")

    @contextlib.contextmanager
    def runs(self) -> t.Iterator[None]:
        """Inside the block runs of dispatchers and whoever waits live in virtual time."""
        bell = type("Bell", (VirtualBell,), {"cluster": self})
        with (
            inline_calls(),
            mock.patch.object(live_cluster, "time", self.time),
            mock.patch.object(run_module, "time", self.time),
            mock.patch.object(run_module, "ChangeSignal", bell),
            mock.patch.object(run_module, "Mirrors", partial(memory_mirrors, self.memory)),
            mock.patch.object(run_module, "DispatchLease", self._ledger),
            mock.patch.object(run_module, "Session", self._session),
            mock.patch.object(run_module, "Workers", InlineWorkers),
        ):
            yield

    def _ledger(self, *arguments: t.Any, **settings: t.Any) -> SteppedLedger:
        """A ledger that is renewed while time passes."""
        made = SteppedLedger(*arguments, clock=self.memory.clock, sleep=self.time.sleep, **settings)
        self.time.ledgers.append(made)
        return made

    def _session(self, client: KubeClient, *arguments: t.Any, **settings: t.Any) -> Session:
        """An session in virtual time, in which no error of ours passes."""
        session = Session(client, *arguments, **settings)
        session.journal = StrictJournal()
        session.clock = ServerClock(client, wall=self.time.time)
        return session

    def connect(self, kubeconfig: str | None = None) -> KubeClient:
        """A client of a dispatcher."""
        line, user = self.ways.get(kubeconfig or "") or (Line(self.memory, latency=LATENCY), ADMIN)
        line.wait = self.time.sleep
        line.before = lambda _method, _path: self.time.renew()
        return line.client(user)

    def confine(self, namespace: str, *more: str) -> str:
        """The kubeconfig of somebody who may do all in some namespaces, and elsewhere only see nodes and pods."""
        user, own = f"tenant-{namespace}", (namespace, *more)
        hidden = [plural for plural, kind in self.memory.kinds.items() if kind.namespaced and plural != "pods"]
        others = [item["metadata"]["name"] for item in self.memory.all("namespaces")]
        elsewhere = ["", *(name for name in others if name not in own)]
        self.memory.denials.append(Denial(user, None, hidden, elsewhere))
        self.ways[user] = Line(self.memory, latency=LATENCY), user
        return user

    def namespace(self, name: str) -> str:
        """A namespace with the account that gangs are started with."""
        self.memory.add("namespaces", {"metadata": {"name": name}})
        self.memory.add("serviceaccounts", {"metadata": {"name": ACCOUNT, "namespace": name}})
        return name

    def add_nodes(self, nodes: t.Sequence[Object]) -> None:
        """Nodes are ready at once."""
        self.create(*nodes)
