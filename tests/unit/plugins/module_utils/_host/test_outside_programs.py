# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of others: nothing of them stays, whatever they and we do, and nobody reads what is secret."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from ansible_collections.muster.kube.plugins.module_utils._host import outside_programs
from ansible_collections.muster.kube.plugins.module_utils._host.outside_programs import (
    InputFile,
    OutsideProgram,
    ProgramNeed,
    find_program,
    run_program,
)
from ansible_collections.muster.kube.plugins.module_utils._host.processes import find_process
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

SHELL = OutsideProgram("sh", "/bin/sh", (1,))
PYTHON = OutsideProgram("python", sys.executable, (3,))
NEED = ProgramNeed("tool", ("version",), (3, 13), (4,))
# Never reached when things work.
LONG = 120.0
USUAL = {"PATH": os.environ["PATH"]}


def run(script, *arguments, program=SHELL, timeout=LONG, environment=USUAL, **more):
    """A script to its end."""
    return run_program(program, ["-c", script, *arguments], environment=environment, timeout=timeout, **more)


def wait_for(probe):
    """Ask until it is so."""
    end = time.monotonic() + LONG
    while not probe():
        assert time.monotonic() < end
        time.sleep(0.01)


def read_pids(path, count):
    """The ids that a script wrote, once all are there."""
    wait_for(lambda: path.exists() and len(path.read_text(encoding="utf-8").split()) == count)
    return [int(word) for word in path.read_text(encoding="utf-8").split()]


def test_a_program_tells_its_output_its_troubles_and_its_code(tmp_path):
    done = run('echo "$1 $PWD"; echo bad >&2; echo worse >&2; exit 3', "x", "word", directory=tmp_path)
    assert (done.code, done.output, done.last_words) == (3, f"word {tmp_path}\n".encode(), "bad; worse")
    assert run("exit 4").last_words == "it failed with code 4"
    assert run("kill -s KILL $$").last_words == "it was ended by signal 9"


def test_a_program_sees_the_environment_it_is_given_and_no_other(monkeypatch):
    monkeypatch.setenv("MUSTER_OF_OURS", "seen")
    done = run("import os; print(sorted(os.environ))", program=PYTHON, environment={"LC_ALL": "C", "ONE": "1"})
    assert "'ONE'" in done.output.decode()
    assert "MUSTER_OF_OURS" not in done.output.decode()


def test_a_program_has_no_input_and_no_terminal():
    script = "import os, sys; print(repr(sys.stdin.read()), os.getsid(0) != int(sys.argv[1]))"
    assert run(script, str(os.getsid(0)), program=PYTHON).output == b"'' True\n"


def test_a_program_gets_none_of_our_open_files():
    script = (
        "import os; print([os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if int(fd) > 2])"
    )
    told = run(script, program=PYTHON).output.decode()
    assert "pipe" not in told


def test_files_of_a_run_are_ours_alone_and_gone_afterwards():
    script = 'cat "$1" "$CONFIG"; stat -c %a "$1" "$(dirname "$1")"; echo "$1"'
    environment = {**USUAL, "CONFIG": InputFile("config", b"two\n")}
    done = run(script, "x", InputFile("values.yaml", "one\n"), environment=environment)
    *said, path = done.output.decode().split()
    assert said == ["one", "two", "600", "700"]
    assert not pathlib.Path(path).parent.exists()


def test_files_of_a_run_are_gone_when_it_fails():
    with pytest.raises(MusterError, match="took longer"):
        run('echo "$1" >&2; exec sleep 600', "x", InputFile("values", "secret"), timeout=0.2)
    missing = OutsideProgram("gone", "/nowhere/gone", (1,))
    before = set(pathlib.Path(outside_programs.tempfile.gettempdir()).glob("muster-kube-*"))
    done = run_program(missing, [InputFile("values", "secret")], environment=USUAL, timeout=LONG)
    assert done.code == 127
    assert set(pathlib.Path(outside_programs.tempfile.gettempdir()).glob("muster-kube-*")) <= before


def test_what_a_program_writes_is_bounded():
    with pytest.raises(MusterError, match="Cannot run python -c: it wrote more than 1000 bytes and was ended"):
        run("while True: print('x' * 100)", program=PYTHON, most_output=1000)
    script = "import sys; sys.stderr.write('y' * 300000 + '\\nlast'); print('z' * 200000)"
    done = run(script, program=PYTHON)
    assert len(done.output) == 200001
    assert len(done.errors) == outside_programs.ERROR_BYTES
    assert done.errors.endswith("last")


TIDY = """
import pathlib, signal, sys
def tidy(*_):
    pathlib.Path(sys.argv[1]).write_text("tidy")
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
print("waiting", file=sys.stderr, flush=True)
while True:
    signal.pause()
"""


def test_a_program_that_takes_too_long_may_tidy_up(tmp_path):
    with pytest.raises(MusterError, match="it took longer than 2 s and was ended: waiting"):
        run(TIDY, str(tmp_path / "note"), program=PYTHON, timeout=2.0)
    assert (tmp_path / "note").read_text(encoding="utf-8") == "tidy"


def test_a_program_that_does_not_want_to_end_is_ended_with_all_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(outside_programs, "GRACE_SECONDS", 0.2)
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 600 & echo $! >> {pids}; echo $$ >> {pids}; while :; do sleep 0.1; done"
    with pytest.raises(MusterError, match="took longer"):
        run(script, timeout=1.0)
    for pid in read_pids(pids, 2):
        wait_for(lambda pid=pid: find_process(pid) is None)


def test_what_a_program_leaves_behind_is_ended_and_not_waited_for(tmp_path):
    pids = tmp_path / "pids"
    assert run(f"sleep 600 & echo $! > {pids}; echo done").output == b"done\n"
    [left] = read_pids(pids, 1)
    wait_for(lambda: find_process(left) is None)


def test_programs_side_by_side_do_not_hold_each_other(tmp_path):
    answers = {}

    def one(number):
        answers[number] = run(f"sleep 0.{number}; echo {number}").output

    threads = [threading.Thread(target=one, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert answers == {number: f"{number}\n".encode() for number in range(1, 7)}


OUTER = """
import os, sys
from ansible_collections.muster.kube.plugins.module_utils._host.outside_programs import (
    InputFile, OutsideProgram, run_program)
script = 'sleep 600 & echo $! $$ "$1" > "$0.new"; mv "$0.new" "$0"; trap "" TERM HUP INT; while :; do sleep 0.1; done'
arguments = ["-c", script, sys.argv[1], InputFile("values", "secret")]
run_program(OutsideProgram("sh", "/bin/sh", (1,)), arguments, environment=dict(os.environ), timeout=600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_of_a_program_outlives_us(tmp_path, number):
    note = tmp_path / "note"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", OUTER, str(note)], stdin=subprocess.DEVNULL, env=environment) as outer:
        wait_for(note.exists)
        *pids, path = note.read_text(encoding="utf-8").split()
        assert pathlib.Path(path).exists()
        outer.send_signal(number)
        outer.wait(LONG)
    for pid in pids:
        wait_for(lambda pid=pid: find_process(int(pid)) is None)
    wait_for(lambda: not pathlib.Path(path).parent.exists())


def test_an_interrupted_run_leaves_nothing(tmp_path, monkeypatch):
    pids = tmp_path / "pids"

    def interrupt(_running, _seconds):
        read_pids(pids, 1)
        raise KeyboardInterrupt

    monkeypatch.setattr(outside_programs._GuardedRun, "_read", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(f"echo $$ > {pids}; exec sleep 600")
    [pid] = read_pids(pids, 1)
    wait_for(lambda: find_process(pid) is None)


def test_a_program_is_ended_when_its_run_loses_the_right_to_it(tmp_path):
    pids = tmp_path / "pids"

    def hold():
        if pids.exists() and pids.read_text(encoding="utf-8"):
            raise MusterError("hold", "the Lease", "somebody else has it")

    with pytest.raises(MusterError, match="somebody else has it"):
        run(f"echo $$ > {pids}; exec sleep 600", hold=hold)
    [pid] = read_pids(pids, 1)
    wait_for(lambda: find_process(pid) is None)
    with pytest.raises(MusterError, match="somebody else has it"):
        run(f"touch {tmp_path}/started", hold=hold)
    assert not (tmp_path / "started").exists()


def tool(directory, text):
    """A program that says this of its version."""
    path = directory / "tool"
    path.write_text(f"#!/bin/sh\n[ \"$1\" = version ] && echo '{text}'\n", encoding="utf-8")
    path.chmod(0o700)
    return str(path)


@pytest.mark.parametrize(
    ("text", "version"), [("v3.22", (3, 22)), ("tool v3.13.0+gabc", (3, 13, 0)), ("3.99.1", (3, 99, 1))]
)
def test_a_program_is_found_with_its_version(tmp_path, text, version):
    path = tool(tmp_path, text)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.defpath}"}
    assert find_program(NEED, environment) == OutsideProgram("tool", path, version)
    assert find_program(NEED, USUAL, path).version == version


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("v3.12.9", "/tool has version 3.12.9; needed is tool 3.13 or newer, older than 4"),
        ("v4.0.0", "/tool has version 4.0.0; needed is tool 3.13 or newer, older than 4"),
        ("hello", "/tool does not tell its version; needed is tool 3.13 or newer, older than 4"),
    ],
)
def test_a_program_of_another_version_is_refused_with_both_versions(tmp_path, text, cause):
    with pytest.raises(MusterError) as told:
        find_program(NEED, USUAL, tool(tmp_path, text))
    assert (told.value.action, told.value.target, told.value.cause) == ("use", "tool", f"{tmp_path}{cause}")


def test_a_program_that_is_missing_is_told_with_what_is_needed():
    with pytest.raises(MusterError, match="it is not installed, or PATH does not lead to it; needed is tool 3"):
        find_program(NEED, {"PATH": "/nowhere"})
    with pytest.raises(MusterError, match="there is no program /nowhere/tool; needed is tool 3"):
        find_program(NEED, {}, "/nowhere/tool")
