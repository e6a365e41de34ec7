# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes: started to stay, told apart, stopped without touching others."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.muster.kube.plugins.module_utils._host import processes
from ansible_collections.muster.kube.plugins.module_utils._host.processes import (
    Process,
    choose_ports,
    find_marked,
    find_process,
    is_alive,
    is_free,
    is_healthy,
    is_running,
    start_process,
    stop_processes,
    tail,
    wait_free,
    wait_healthy,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError


@pytest.fixture
def started(tmp_path):
    """Starts processes and ends them after the test."""
    running = []

    def start(command, component="sleeper"):
        process = start_process(command, {"EXTRA": "1"}, tmp_path / "logs" / "x.log", f"test-{os.getpid()}", component)
        running.append(process)
        return process

    yield start
    stop_processes(running, 5)


def wait_for(probe):
    end = time.monotonic() + 20
    while not probe():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_process_gets_its_own_session_and_log(started, tmp_path):
    process = started(["sh", "-c", "echo $EXTRA $HOME; exec sleep 60"])
    assert is_alive(process)
    assert os.getsid(process.pid) == process.pid
    wait_for(lambda: (tmp_path / "logs" / "x.log").read_text() == f"1 {tmp_path}/logs\n")


def test_another_process_with_the_same_id_is_not_ours(started):
    process = started(["sleep", "60"])
    stranger = Process(process.pid, "another-boot:1")
    assert not is_alive(stranger)
    stop_processes([stranger], 1)
    assert is_alive(process)


def test_an_ended_child_is_not_alive(started):
    process = started(["true"])
    wait_for(lambda: not is_alive(process))
    assert find_process(process.pid) is None


def test_a_zombie_of_somebody_else_is_not_alive():
    code = "import os,time\npid=os.fork()\nif not pid: os._exit(0)\nprint(pid,flush=True)\ntime.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    ) as parent:
        pid = int(parent.stdout.readline())
        wait_for(lambda: find_process(pid) is None)
        assert os.path.exists(f"/proc/{pid}")
        parent.kill()


@contextlib.contextmanager
def without_first_thread():
    """A process whose first thread has ended while another one waits for its input."""
    code = (
        "import ctypes, platform, sys, threading\n"
        "threading.Thread(target=sys.stdin.read).start()\n"
        "ctypes.CDLL(None).syscall({'aarch64': 93}.get(platform.machine(), 60), 0)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        process = find_process(child.pid)
        wait_for(lambda: ") Z " in Path(f"/proc/{child.pid}/stat").read_text())
        yield child, process


def test_a_process_whose_first_thread_ended_is_alive_until_the_others_end(tmp_path):
    with without_first_thread() as (child, process):
        assert find_process(child.pid) == process
        child.kill()
        wait_for(lambda: find_process(child.pid) is None)


def test_a_process_that_ends_does_not_run_any_more(monkeypatch):
    with without_first_thread() as (child, process):
        monkeypatch.setattr(processes, "END_SECONDS", 0.2)
        assert is_alive(process)
        assert not is_running(process)
        monkeypatch.setattr(processes, "END_SECONDS", 60.0)
        # It is waited for: what it holds is free afterwards.
        monkeypatch.setattr(processes.time, "sleep", lambda _seconds: child.kill())
        assert not is_running(process)
        assert not is_alive(process)


def test_a_process_that_works_runs(started):
    assert is_running(started(["sleep", "60"]))


def test_a_program_that_cannot_be_started_is_named(tmp_path):
    with pytest.raises(MusterError, match=r"Cannot start x: .*No such file"):
        start_process(["/nonexistent"], {}, tmp_path / "log", "c", "x")


def test_marked_processes_are_found_by_cluster(started):
    process = started(["sleep", "60"], "etcd")
    # The kernel shows the environment of a new program a moment after the program itself.
    wait_for(lambda: process in find_marked(f"test-{os.getpid()}"))
    assert find_marked(f"test-{os.getpid()}")[process] == "etcd"
    assert find_marked("another") == {}


def test_a_process_that_ignores_the_request_is_ended_by_force(started, tmp_path):
    process = started(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"])
    wait_for(lambda: "ready" in (tmp_path / "logs" / "x.log").read_text())
    stop_processes([process], 0.3)
    assert not is_alive(process)


def test_stopping_asks_politely_first(started, tmp_path):
    process = started(["sh", "-c", "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"])
    wait_for(lambda: "ready" in (tmp_path / "logs" / "x.log").read_text())
    stop_processes([process], 10)
    assert "bye" in (tmp_path / "logs" / "x.log").read_text()


def test_a_process_that_ended_before_the_signal_is_fine(monkeypatch):
    process = find_process(os.getpid())

    def refuse(_pid, _number):
        raise ProcessLookupError

    monkeypatch.setattr(processes.os, "kill", refuse)
    processes._send_signal(process, signal.SIGTERM)
    assert is_alive(process)


def test_ports_are_free_and_not_those_of_others():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert not is_free(listener.getsockname()[1])
    chosen = choose_ports(3, ())
    assert len(set(chosen)) == 3
    assert all(20000 <= port < 32000 for port in chosen)
    everything = set(range(20000, 32000))
    allowed = {chosen[0]}
    assert choose_ports(1, everything - allowed) == [chosen[0]]
    with pytest.raises(MusterError, match="no more free ones"):
        choose_ports(1, everything)


def test_a_port_that_gets_free_is_waited_for():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not wait_free(port, 0.0)
        answers = iter([False, True])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(processes, "is_free", lambda _port: next(answers))
            assert wait_free(port, 10.0)


def test_nobody_there_is_not_healthy(tmp_path):
    port = choose_ports(1, ())[0]
    assert is_healthy(f"http://127.0.0.1:{port}/", tmp_path) is False


def test_the_end_of_a_log_is_shown(tmp_path):
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(20000)))
    assert tail(log).splitlines() == [f"line {number}" for number in range(19980, 20000)]
    log.write_text("")
    assert tail(log) == "(the log is empty)"
    assert "no log" in tail(tmp_path / "missing")


def test_an_exit_is_noticed_and_shown_with_the_log(started, tmp_path):
    process = started(["sh", "-c", "echo unknown flag; exit 3"])
    deadline = time.monotonic() + 60
    with pytest.raises(MusterError, match=r"(?s)Cannot start x: it exited.*unknown flag"):
        wait_healthy("x", process, lambda: False, tmp_path / "logs" / "x.log", deadline, lambda _text: None)


def test_waiting_ends_with_the_deadline(started, tmp_path):
    process = started(["sleep", "60"])
    with pytest.raises(MusterError, match="not healthy after"):
        wait_healthy("x", process, lambda: False, tmp_path / "logs" / "x.log", time.monotonic() - 1, lambda _text: None)


def test_long_waits_are_told(started, tmp_path, monkeypatch):
    now = iter(range(0, 1000, 4))
    monkeypatch.setattr(processes.time, "monotonic", lambda: float(next(now)))
    monkeypatch.setattr(processes.time, "sleep", lambda _seconds: None)
    answers = iter([False] * 5 + [True])
    told = []
    process = find_process(os.getpid())
    wait_healthy("x", process, lambda: next(answers), tmp_path / "log", 1000.0, told.append)
    assert told == ["waiting for x to become healthy (8 s so far)", "waiting for x to become healthy (20 s so far)"]
