# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A dispatcher in a process of its own, which tests can kill, stop and set to a wrong clock.

Run as a script it reads its orders as JSON from the first argument and prints the result as one line of JSON. A wrong
clock is made by replacing time.time, time.time_ns and the now functions of datetime before anything else is imported;
clocks that only measure how much time passed are left as they are. A dispatcher with the right clock is forked from a
process that has imported everything, which saves most of what its start takes.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import datetime
import functools
import gc
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import typing as t

from ansible_collections.muster.kube.tests.support.nursery import Forked, Nursery, serve

# Never reached when things work.
PATIENCE = 120.0
# Instead of orders: fork a process for each that comes.
NURSERY = "--nursery"


def lease_seconds() -> float:
    """How long a lease lasts in tests: two seconds, more on a machine that is too busy to renew it in time."""
    return min(10.0, max(2.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


@dataclasses.dataclass(frozen=True)
class Orders:
    """What one dispatcher shall do; the first fields are where, the others are those of DispatchOptions."""

    kubeconfig: str
    lease_namespace: str
    namespaces: tuple[str, ...] | None
    lease_name: str = "dispatch"
    lease_seconds: float = dataclasses.field(default_factory=lease_seconds)
    lease_wait: float = 60.0
    duration: float | None = None
    policy: str = "best_effort"
    bind_timeout: float = 60.0
    start_timeout: float = 300.0
    max_starts: int | None = None
    accrue_seconds: float = 300.0
    # Ends a run with a duration as soon as every record of its namespaces, or this one, is in one of these phases.
    until: tuple[str, ...] = ()
    until_of: str | None = None
    # If given, that counts only after a record was seen in one of these: a slow start is told in a later cycle.
    once_seen: tuple[str, ...] = ()
    # Instead of all that: ends it as soon as this gang (namespace, name) runs with this size, or has no record.
    until_sized: tuple[str, str, int] | None = None
    # Ends such a run also when there is no record any more.
    or_gone: bool = False
    clock_offset: float = 0.0
    # Whose code runs: the dispatcher, or the fixed writes with which the harness itself is tested.
    program: str = "dispatch"


class DispatchProcess:
    """One such process; ended by its own id when the with block is left."""

    # What Python runs; orders are a dataclass which that script understands. Collections are found where it lies.
    script = pathlib.Path(__file__).resolve()

    def __init__(self, orders: t.Any, log: pathlib.Path) -> None:
        """Remember what to start; everything it says besides its result goes to the log."""
        self.orders = orders
        self.log = log
        self._printed = log.with_name(f"{log.name}.result")
        self._process: subprocess.Popen[bytes] | Forked | None = None

    def __enter__(self) -> DispatchProcess:
        """Start it."""
        return self.start()

    def __exit__(self, *ignored: object) -> None:
        """End it if it still runs."""
        self.end()

    def start(self) -> DispatchProcess:
        """Start it, in a session of its own so that a Ctrl-C of the test run does not reach it."""
        text = json.dumps(dataclasses.asdict(self.orders))
        if self.script == DispatchProcess.script and not self.orders.clock_offset:
            self._process = nursery().fork(text, self.log, self._printed)
            return self
        # A file, not a pipe: a long result must not keep the process from ending before somebody reads it.
        with self.log.open("ab") as stream, self._printed.open("wb") as printed:
            self._process = subprocess.Popen(
                [sys.executable, str(self.script), text],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=stream,
                env=process_environment(self.script),
                start_new_session=True,
            )
        return self

    @property
    def running(self) -> subprocess.Popen[bytes] | Forked:
        """The started process."""
        if self._process is None:
            raise AssertionError("the process was not started")
        return self._process

    @property
    def alive(self) -> bool:
        """Whether it has not ended; a stopped process is alive."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it without warning; returns when nothing of it is left."""
        self.running.send_signal(signal.SIGKILL)
        self.running.wait(PATIENCE)

    def interrupt(self, grace: float) -> None:
        """Ctrl-C; returns when the process has ended, or has had the signal for so many seconds."""
        self.running.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.running.wait(grace)

    def stop(self) -> None:
        """Freeze it; returns when the kernel says that all of it stands still."""
        pid = self.running.pid
        os.kill(pid, signal.SIGSTOP)
        end = time.monotonic() + PATIENCE
        while any(state not in "TtZX" for state in _thread_states(pid)):
            if time.monotonic() > end:
                raise AssertionError(f"process {pid} did not stop")
            time.sleep(0.005)

    def resume(self) -> None:
        """Let a frozen process go on; one that has ended meanwhile is left alone."""
        if self.alive:
            os.kill(self.running.pid, signal.SIGCONT)

    def end(self) -> None:
        """Make sure that it has ended."""
        if self.alive:
            self.kill()

    def result(self, seconds: float = PATIENCE) -> dict[str, t.Any]:
        """Wait for its end and return what it printed; a process that failed is told with its log."""
        code = self.wait(seconds)
        printed = self._printed.read_text(encoding="utf-8")
        if code != 0 or not printed.strip():
            raise AssertionError(f"the process ended with {self.running.returncode}:\n{self.log.read_text()[-4000:]}")
        return t.cast("dict[str, t.Any]", json.loads(printed.splitlines()[-1]))

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for its end, whatever it is; returns the exit code."""
        return self.running.wait(seconds)


def process_environment(script: pathlib.Path) -> dict[str, str]:
    """The variables of such a process: no connection from outside, and the collections where the script lies."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("K8S_AUTH", "KUBE"))}
    return {**kept, "PYTHONPATH": str(script.parents[5])}


@functools.cache
def nursery() -> Nursery:
    """The one of this test run; it ends with it."""
    script = DispatchProcess.script
    made = Nursery([sys.executable, str(script), NURSERY], process_environment(script))
    atexit.register(made.close)
    return made


def _thread_states(pid: int) -> list[str]:
    """The state letter of every thread of a process, as the kernel names them."""
    states = []
    for entry in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            states.append((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0])
    return states


# The rest runs inside the process.


def shift_clocks(seconds: float) -> None:
    """Make every wall clock of this process wrong by so much."""
    real_time, real_nanoseconds, real_datetime = time.time, time.time_ns, datetime.datetime

    class ShiftedDatetime(real_datetime):
        """The same type with another now."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> t.Any:
            return real_datetime.fromtimestamp(real_time() + seconds, tz)

        @classmethod
        def utcnow(cls) -> t.Any:
            return real_datetime.fromtimestamp(real_time() + seconds, datetime.UTC).replace(tzinfo=None)

    time.time = lambda: real_time() + seconds
    time.time_ns = lambda: real_nanoseconds() + int(seconds * 1e9)
    datetime.datetime = ShiftedDatetime  # type: ignore[misc]


def run_dispatcher(orders: Orders, until: t.Callable[[t.Mapping[str, str]], bool] | None = None) -> dict[str, t.Any]:
    """Run the dispatcher as ordered; until sees the phases after each cycle and may end the run instead."""
    # Imported here: the clocks must be wrong before.
    from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
    from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
    from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions

    terms = DispatchOptions(
        policy=orders.policy,
        lease=LeaseOptions(orders.lease_namespace, orders.lease_name, orders.lease_seconds),
        lease_wait=orders.lease_wait,
        namespaces=None if orders.namespaces is None else tuple(orders.namespaces),
        max_starts=orders.max_starts,
        bind_timeout=orders.bind_timeout,
        start_timeout=orders.start_timeout,
        accrue_seconds=orders.accrue_seconds,
        duration=orders.duration,
    )
    auth = {"kubeconfig": orders.kubeconfig}

    seen: set[str] = set()

    def finished(phases: t.Mapping[str, str]) -> bool:
        seen.update(phases.values())
        if orders.until_sized is not None:
            return has_size(client, *orders.until_sized)
        if not phases:
            return orders.or_gone
        if orders.once_seen and seen.isdisjoint(orders.once_seen):
            return False
        asked = phases.values() if orders.until_of is None else [phases.get(orders.until_of)]
        return bool(orders.until) and all(phase in orders.until for phase in asked)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    client = connect(auth)
    result = run_dispatch(client, connect(auth), terms, say, until=until or finished)
    return dict(result.as_result())


def has_size(client: t.Any, namespace: str, name: str, size: int) -> bool:
    """Whether a gang in a ConfigMap runs with a size, or is gone."""
    from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
    from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
    from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api

    found = get_object(client, resource_path("v1", "configmaps", namespace, name))
    state = None if found is None else record_from_api(found).state
    return found is None or (state is not None and (state.phase, state.allotment) == ("running", size))


def run_fixed_writes(orders: Orders) -> dict[str, t.Any]:
    """A dispatcher's stand-in: takes the Lease, writes a few ConfigMaps, goes on past refusals; tells its clock."""
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
    from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
    from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
    from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete
    from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
    from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease

    auth = {"kubeconfig": orders.kubeconfig}
    client = connect(auth)
    terms = LeaseOptions(orders.lease_namespace, orders.lease_name, orders.lease_seconds)
    ledger = DispatchLease(client, terms, "fixed", renewal_client=connect(auth))
    epoch = ledger.acquire(orders.lease_wait)
    path = resource_path("v1", "configmaps", orders.lease_namespace)
    errors = []
    for number in range(3):
        meta = {"name": f"fixed-{number}", "namespace": orders.lease_namespace}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        try:
            create(client, path, obj, dry_run=True)
            create(client, path, obj)
        except KubeError as error:
            errors.append(str(error))
    ledger.commit("done")
    with contextlib.suppress(KubeError):
        delete(client, f"{path}/fixed-0")
    ledger.release()
    clock = [time.time(), datetime.datetime.now(datetime.UTC).timestamp()]
    return {"epoch": str(epoch), "errors": errors, "clock": clock}


PROGRAMS = {"dispatch": run_dispatcher, "fixed_writes": run_fixed_writes}


def import_everything() -> None:
    """Load what a dispatcher needs before it is forked."""
    ours = "ansible_collections.muster.kube.plugins.module_utils"
    for name in (
        "_flow.dispatch.run",
        "_policy.dispatch.options",
        "_kube.client",
        "_store.dispatch_lease",
        "_kube.writes",
    ):
        importlib.import_module(f"{ours}.{name}")
    # The collector of garbage leaves alone what is there already, so that the memory stays shared.
    gc.freeze()


def main() -> None:
    """Read the orders, set the clocks, run, print."""
    # A shell that runs the tests in the background has made its children deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    text: str | None = sys.argv[1]
    if text == NURSERY:
        import_everything()
        text = serve()
        if text is None:
            return
    orders = Orders(**json.loads(text))
    if orders.clock_offset:
        shift_clocks(orders.clock_offset)
    print(json.dumps(PROGRAMS[orders.program](orders), default=str))


if __name__ == "__main__":
    main()
