# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starting, finding and stopping the processes of a local cluster."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import http.client
import itertools
import os
import pathlib
import random
import signal
import socket
import ssl
import subprocess
import time
import typing as t
import urllib.parse

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

CLUSTER_MARK = "MUSTER_LOCAL_CLUSTER"
NAME_MARK = "MUSTER_LOCAL_COMPONENT"
# Below the range from which kernels take ports of outgoing connections: a remembered port stays ours while we are down.
PORT_RANGE = (20000, 32000)
POLL_SECONDS = 0.05
# How long a process that was killed may take to be gone.
END_SECONDS = 10.0
# A flag of the kernel in /proc: the process has begun to exit.
_EXITING = 0x4
# States of a process that has ended: zombie and dead.
ENDED = ("Z", "X")
LOG_LINES = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """A process told apart from a later one with the same id by the time at which it was started."""

    pid: int
    born: str


def find_process(pid: int) -> Process | None:
    """The process that has this id now; None when there is none, or it ended and its exit code was not read yet."""
    try:
        stat = _read_stat(pid)
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return None
    # The first thread of an ending process may be gone before the others, which then still hold its ports.
    if stat.state in ENDED and threads <= 1:
        return None
    return Process(pid, f"{boot}:{stat.start_time}")


class _ProcessStat(t.NamedTuple):
    """What the kernel says about a process."""

    state: str
    flags: int
    start_time: str


def _read_stat(pid: int) -> _ProcessStat:
    """The state of a process; raises OSError when there is none."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    # The command name is in parentheses and may hold anything; the fields after it are plain.
    fields = stat.rpartition(")")[2].split()
    return _ProcessStat(fields[0], int(fields[6]), fields[19])


def is_alive(process: Process) -> bool:
    """True when that very process still runs."""
    _collect_child(process.pid)
    return find_process(process.pid) == process


def is_running(process: Process) -> bool:
    """True when that very process still runs; one that is ending is waited for, since it holds its ports until then."""
    deadline = time.monotonic() + END_SECONDS
    while is_alive(process):
        if not _is_ending(process.pid):
            return True
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    return False


def _is_ending(pid: int) -> bool:
    """Whether a process is ending; that of a large one takes a moment in which it still has a state."""
    try:
        stat = _read_stat(pid)
    except OSError:
        return True
    return stat.state in ENDED or bool(stat.flags & _EXITING)


def _collect_child(pid: int) -> None:
    """Read the exit code of a child of ours, which would otherwise stay a zombie; other processes are left alone."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def start_process(
    command: list[str], environment: collections.abc.Mapping[str, str], log: pathlib.Path, cluster: str, name: str
) -> Process:
    """Start a process that outlives us, in a session of its own so that Ctrl-C does not reach it."""
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    variables = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(log.parent),
        **environment,
        CLUSTER_MARK: cluster,
        NAME_MARK: name,
    }
    try:
        with log.open("ab") as stream:
            child = subprocess.Popen(  # pylint: disable=consider-using-with
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=str(log.parent),
                start_new_session=True,
            )
    except OSError as error:
        raise MusterError("start", name, str(error)) from error
    # The child is collected through is_alive; without this, Popen warns that its process still runs.
    child.returncode = 0
    process = find_process(child.pid)
    return process if process is not None else Process(child.pid, "")


def find_marked(cluster: str) -> dict[Process, str]:
    """Processes that carry the mark of a cluster, with the names they were started under."""
    mark = f"{CLUSTER_MARK}={cluster}".encode()
    prefix = f"{NAME_MARK}=".encode()
    found: dict[Process, str] = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in variables:
            process = find_process(int(entry.name))
            name = next((item[len(prefix) :].decode() for item in variables if item.startswith(prefix)), "")
            if process is not None:
                found[process] = name
    return found


def is_session_leader(process: Process) -> bool:
    """True for a process we started ourselves: each leads a session. Its children carry the mark too and do not."""
    try:
        return os.getsid(process.pid) == process.pid
    except ProcessLookupError:
        return False


def stop_processes(processes: collections.abc.Iterable[Process], grace: float) -> None:
    """Ask all to end, wait, and end by force those that did not; nothing else is ever signaled."""
    rest = [process for process in processes if is_alive(process)]
    for name in (signal.SIGTERM, signal.SIGKILL):
        for process in rest:
            _send_signal(process, name)
        deadline = time.monotonic() + grace
        while rest and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            rest = [process for process in rest if is_alive(process)]
        if not rest:
            return
    raise MusterError("stop", f"process {rest[0].pid}", "it did not end after SIGKILL")


def _send_signal(process: Process, number: signal.Signals) -> None:
    """Signal a process if it is still the one we mean; one that ended meanwhile needs none."""
    if find_process(process.pid) == process:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def choose_ports(count: int, taken: collections.abc.Collection[int]) -> list[int]:
    """Free loopback ports, none of them remembered by another cluster."""
    candidates = random.sample(range(*PORT_RANGE), PORT_RANGE[1] - PORT_RANGE[0])
    chosen = list(itertools.islice((port for port in candidates if port not in taken and is_free(port)), count))
    if len(chosen) < count:
        raise MusterError("choose", f"{count} ports", f"no more free ones between {PORT_RANGE[0]} and {PORT_RANGE[1]}")
    return chosen


def wait_free(port: int, seconds: float) -> bool:
    """True as soon as no process listens on the port, False when one still does after that time."""
    deadline = time.monotonic() + seconds
    while not is_free(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def is_free(port: int) -> bool:
    """True when no process listens on the loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def is_healthy(url: str, authority: pathlib.Path) -> bool:
    """True when the url answers 200; certificates are checked against our authority."""
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=str(authority))
        connection = http.client.HTTPSConnection(host, port, timeout=2, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def tail(path: pathlib.Path, lines: int = LOG_LINES) -> str:
    """The last lines of a log, without reading all of it."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - 64 * 1024))
            text = stream.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"


def wait_healthy(
    name: str,
    process: Process,
    probe: collections.abc.Callable[[], bool],
    log: pathlib.Path,
    deadline: float,
    report: collections.abc.Callable[[str], None],
) -> None:
    """Poll until the process is healthy; an exited process is noticed at once."""
    begin = time.monotonic()
    next_report = begin + 5
    pause = POLL_SECONDS
    while not probe():
        if not is_alive(process):
            raise MusterError("start", name, f"it exited. Last lines of {log}:\n{tail(log)}")
        now = time.monotonic()
        if now > deadline:
            cause = f"not healthy after {now - begin:.0f} s. Last lines of {log}:\n{tail(log)}"
            raise MusterError("start", name, cause)
        if now > next_report:
            report(f"waiting for {name} to become healthy ({now - begin:.0f} s so far)")
            next_report = now + 10
        # Most are healthy in a moment; the logs of the others should not be full of our questions.
        time.sleep(pause)
        pause = min(pause * 1.2, 0.5)
