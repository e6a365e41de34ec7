# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A process that was forked behaves like one that was started: own id, own session, own end."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.muster.kube.tests.support.nursery import Nursery

ROOT = pathlib.Path(__file__).resolve().parents[5]
PROGRAM = """
import os, signal, sys, time
from ansible_collections.muster.kube.tests.support.nursery import serve

signal.signal(signal.SIGINT, signal.default_int_handler)
text = serve()
if text is not None:
    print("pid", os.getpid(), "session", os.getsid(0), text)
    print("begun", file=sys.stderr, flush=True)
    if text.startswith("fail"):
        raise ValueError(text)
    if text.startswith("stay"):
        time.sleep(600)
"""


@pytest.fixture
def nursery(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    made = Nursery([sys.executable, str(script)], {**os.environ, "PYTHONPATH": str(ROOT)})
    yield made
    made.close()


@pytest.fixture
def fork(nursery, tmp_path):
    def fork(text: str):
        return nursery.fork(text, tmp_path / f"{text}.log", tmp_path / f"{text}.result")

    return fork


def wait_for(what: str, probe) -> None:
    deadline = time.monotonic() + 60
    while not probe():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_what_it_prints_goes_to_its_files_and_its_end_is_known(fork, tmp_path):
    children = {text: fork(text) for text in ("one", "two")}
    for text, child in children.items():
        assert child.wait(60) == child.poll() == 0
        assert (tmp_path / f"{text}.result").read_text() == f"pid {child.pid} session {child.pid} {text}\n"
        assert (tmp_path / f"{text}.log").read_text() == "begun\n"
    assert children["one"].pid != children["two"].pid


def test_one_that_fails_tells_why_and_the_next_one_starts(fork, tmp_path):
    assert fork("fail").wait(60) == 1
    assert "ValueError: fail" in (tmp_path / "fail.log").read_text()
    assert fork("next").wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_one_it_is_sent_to(fork, tmp_path, number):
    first, other = fork("stay-a"), fork("stay-b")
    wait_for("it to sleep", lambda: (tmp_path / "stay-a.log").read_text() == "begun\n")
    first.send_signal(number)
    assert first.wait(60) == -number
    assert not pathlib.Path(f"/proc/{first.pid}").exists()
    assert other.poll() is None
    first.send_signal(number)


def test_one_that_stands_still_lives(fork):
    child = fork("stay")
    child.send_signal(signal.SIGSTOP)
    status = pathlib.Path(f"/proc/{child.pid}/status")
    wait_for("it to stand still", lambda: "State:\tT" in status.read_text())
    assert child.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.01)
    child.send_signal(signal.SIGKILL)
    assert child.wait(60) == -signal.SIGKILL


def test_none_outlives_the_nursery(nursery, fork):
    child = fork("stay")
    nursery.close()
    assert child.poll() is None, "nobody is told any more"
    assert not pathlib.Path(f"/proc/{child.pid}").exists()
