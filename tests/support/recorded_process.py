# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A build or an inspection in a process of its own, as a task has one, which tests can kill at any of its writes.

Run as a script it reads its orders as JSON from the first argument and prints the task's result as one line of JSON.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import run_build
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.tests.support.build_site import build_terms_of
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess
from ansible_collections.muster.kube.tests.support.fault_points import Fault, FaultPoints, When, Write
from ansible_collections.muster.kube.tests.support.inspector import terms_of
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until

Task = t.Literal["image_build", "inspection"]
KILLED = -9
# Never reached when things work; a build on a busy machine takes its time.
PATIENCE = 300.0


@dataclasses.dataclass(frozen=True)
class RecordedOrders:
    """A task: the module and its options."""

    kubeconfig: str
    task: Task
    options: dict[str, t.Any]

    def run(self) -> dict[str, t.Any]:
        """Do it in this process; returns the result."""
        auth = {"kubeconfig": self.kubeconfig}
        if self.task == "image_build":
            return run_build(lambda: connect(auth, environ={}), build_terms_of(self.options), _say)
        return run_inspection(lambda: connect(auth, environ={}), terms_of(self.options), _say)


class RecordedProcess(DispatchProcess):
    """The task in a process."""

    script = pathlib.Path(__file__).resolve()


@dataclasses.dataclass(frozen=True)
class Survived:
    """A task that was killed and run again: its result, and what the server was really made to write, in order."""

    result: dict[str, t.Any]
    applied: tuple[str, ...]


def kill_and_run_again(
    kubeconfig: str | pathlib.Path,
    directory: pathlib.Path,
    task: Task,
    options: dict[str, t.Any],
    number: int,
    when: When,
) -> Survived:
    """Run a task that is killed at its nth write, before the server hears of it or before its answer is heard; again.

    Both runs go through one proxy, so that the writes of both are known.
    """
    with FaultPoints(kubeconfig, directory) as points:
        orders = RecordedOrders(str(points.kubeconfig), task, options)
        fault = points.at(number, Fault(signal="kill", when=when))
        with RecordedProcess(orders, directory / "first.log") as first:
            points.process = first
            wait_until("the process to end", lambda: not first.alive, PATIENCE)
            if first.wait() != KILLED:
                first.result()
                raise AssertionError(f"there is no write number {number}: {points.labels}")
            fault.done()
        with RecordedProcess(orders, directory / "second.log") as second:
            result = second.result(PATIENCE)
        return Survived(result, _applied(points, fault))


def _applied(points: FaultPoints, fault: Fault) -> tuple[str, ...]:
    """The writes that changed the cluster, by method and resource."""
    writes = zip(points.numbered, points.writes, strict=True)
    done = [write for write, request in writes if _counts(write, request.status, fault)]
    return tuple(write.label.partition("/")[0] for write in done)


def _counts(write: Write, status: int | None, fault: Fault) -> bool:
    """Whether the server did it; the status of a write whose client died is not known to the proxy's record."""
    if write == fault.write:
        return fault.when == "after"
    return status is not None and 200 <= status < 300


def _say(text: str) -> None:
    """Progress goes to the log."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Read the orders, run, print."""
    print(json.dumps(RecordedOrders(**json.loads(sys.argv[1])).run(), default=str))


if __name__ == "__main__":
    main()
