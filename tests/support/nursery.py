# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes forked from one that has imported everything already, since importing takes longer than most of them live.

Each is a process of its own in a session of its own: it can be stopped and killed by its id like any other. Its parent
is the nursery, which tells the test how it ended.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading
import typing as t

# Never reached when things work.
PATIENCE = 120.0


class Forked:
    """One process of a nursery, with as much of the interface of subprocess.Popen as tests use."""

    def __init__(self) -> None:
        """Not begun yet."""
        self.pid = 0
        self.returncode: int | None = None
        self.begun = threading.Event()
        self.ended = threading.Event()

    def poll(self) -> int | None:
        """The exit code, None while it lives."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if not self.ended.wait(timeout) or self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Nursery:
    """The test's side: starts the program that forks, and hears from it."""

    def __init__(self, command: t.Sequence[str], environment: t.Mapping[str, str]) -> None:
        """Start it, in a session of its own so that a Ctrl-C of the test run does not reach it."""
        self._children: dict[int, Forked] = {}
        self._numbers = itertools.count(1)
        self._writing = threading.Lock()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(environment), start_new_session=True
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def fork(self, text: str, log: pathlib.Path, printed: pathlib.Path) -> Forked:
        """Start a process with these orders; what it says goes to the log, its result to the other file."""
        # Both are there before it runs, for whoever looks at once.
        log.touch()
        printed.write_bytes(b"")
        child = Forked()
        with self._writing:
            number = next(self._numbers)
            self._children[number] = child
            order = {"number": number, "text": text, "log": str(log), "printed": str(printed)}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        if not child.begun.wait(PATIENCE):
            raise AssertionError(f"the nursery forks no process; its own end: {self._process.poll()}")
        return child

    def close(self) -> None:
        """End it, and with it all processes that are left."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)

    def _listen(self) -> None:
        """Note what the nursery tells."""
        for line in self._process.stdout or ():
            told = json.loads(line)
            child = self._children[told["number"]]
            if "pid" in told:
                child.pid = told["pid"]
                child.begun.set()
            else:
                child.returncode = told["code"]
                child.ended.set()


def serve() -> str | None:
    """The side of the nursery: returns in each forked process with its orders, and with None when all is over.

    The caller must have no threads. Its standard input and output belong to the conversation with the test.
    """
    inlet, outlet = _take_over_standard_streams()
    living: dict[int, tuple[int, int]] = {}
    waiting = b""
    while True:
        ready = select.select([inlet, *living], [], [])[0]
        for handle in [item for item in ready if item != inlet]:
            number, pid = living.pop(handle)
            os.close(handle)
            _tell(outlet, number=number, code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        if inlet not in ready:
            continue
        chunk = os.read(inlet, 65536)
        if not chunk:
            _end([pid for _number, pid in living.values()])
            return None
        *lines, waiting = (waiting + chunk).split(b"\n")
        for line in lines:
            order = json.loads(line)
            pid = os.fork()
            if pid == 0:
                _become(order, [inlet, outlet, *living])
                return str(order["text"])
            living[os.pidfd_open(pid)] = (order["number"], pid)
            _tell(outlet, number=order["number"], pid=pid)


def _take_over_standard_streams() -> tuple[int, int]:
    """Keep the conversation under other numbers, so that nothing that prints disturbs it."""
    sys.stdout.flush()
    inlet, outlet = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return inlet, outlet


def _become(order: dict[str, t.Any], inherited: t.Sequence[int]) -> None:
    """In the new process: nothing of the nursery, a session of its own, the files it was given."""
    for handle in inherited:
        os.close(handle)
    os.setsid()
    for path, target, flags in ((order["printed"], 1, os.O_TRUNC), (order["log"], 2, os.O_APPEND)):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
        os.dup2(handle, target)
        os.close(handle)


def _tell(outlet: int, **message: int) -> None:
    """One line to the test, which may be gone."""
    with contextlib.suppress(BrokenPipeError):
        os.write(outlet, json.dumps(message).encode() + b"\n")


def _end(pids: t.Iterable[int]) -> None:
    """Kill processes that nobody will ask for any more."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
