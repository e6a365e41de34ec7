# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What takes the place of python in plays runs scripts as python does, in processes that have libraries already."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
import zipfile

import pytest
from ansible_collections.muster.kube.tests.support.preloaded import Preloaded, preloaded

TELL = """
import json, os, sys
told = {
    "arguments": sys.argv, "name": __name__, "file": __file__, "folder": sys.path[0], "here": os.getcwd(),
    "python": sys.executable, "word": os.environ.get("WORD"), "home": os.environ.get("HOME"), "pid": os.getpid(),
    "umask": os.umask(0), "read": sys.stdin.read(),
    "loaded": sorted(name for name in ("kubernetes.client", "ansible", "ansible_collections") if name in sys.modules),
}
print(json.dumps(told))
print("aside", file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture(scope="module")
def python():
    """The one that all plays of this process use."""
    return preloaded()


def run(python, *arguments, **settings):
    """One run of the stand-in."""
    environment = {**os.environ, **python.environment, **settings.pop("environment", {})}
    return subprocess.run(
        [python.python, *arguments], env=environment, capture_output=True, text=True, check=False, **settings
    )


def test_a_script_has_what_it_would_have_in_python(python, tmp_path):
    script = tmp_path / "tell.py"
    script.write_text(TELL)
    ended = run(python, script, "one", "-two", cwd=tmp_path, input="given", environment={"WORD": "w", "HOME": "/h"})
    told = json.loads(ended.stdout)
    assert (ended.returncode, ended.stderr) == (7, "aside\n")
    assert told.pop("pid") != os.getpid()
    assert told == {
        "arguments": [str(script), "one", "-two"],
        "name": "__main__",
        "file": str(script),
        "folder": str(tmp_path),
        "here": str(tmp_path),
        "python": sys.executable,
        "word": "w",
        "home": "/h",
        "umask": told["umask"],
        "read": "given",
        "loaded": ["kubernetes.client"],
    }
    again = json.loads(run(python, script, input="", cwd=tmp_path).stdout)
    assert again["umask"] == told["umask"]
    assert again["word"] == os.environ.get("WORD")


def test_what_is_done_at_the_end_of_a_program_is_done(python, tmp_path):
    script = tmp_path / "late.py"
    script.write_text("import atexit\natexit.register(print, 'late')\nprint('soon', end=' ')\n")
    ended = run(python, script)
    assert (ended.returncode, ended.stdout) == (0, "soon late\n")


@pytest.mark.parametrize(
    ("text", "code"), [("raise ValueError('odd')", 1), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137)]
)
def test_a_script_that_breaks_off(python, tmp_path, text, code):
    script = tmp_path / "broken.py"
    script.write_text(text)
    ended = run(python, script)
    assert ended.returncode == code
    assert ("ValueError: odd" in ended.stderr) is (code == 1)


def test_python_itself_where_there_is_nobody_to_ask(python, tmp_path):
    script = tmp_path / "tell.py"
    script.write_text(TELL)
    for environment in ({"MUSTER_PRELOADED": ""}, {"MUSTER_PRELOADED": str(tmp_path / "nothing")}):
        assert json.loads(run(python, script, input="", environment=environment).stdout)["loaded"] == []
    assert run(python, "-c", "print(6 * 7)").stdout == "42\n"


def test_sources_in_an_archive_are_compiled_once_and_anew_when_they_change(python, tmp_path):
    script = tmp_path / "with_archive.py"
    script.write_text("import sys\nsys.path.insert(0, sys.argv[1])\nimport inside\nprint(inside.WORD)\n")
    compiled = python.python.with_name("compiled")
    counts = []
    for number, word in enumerate(("one", "one", "two")):
        archive = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(archive, "w") as content:
            content.writestr("inside.py", f"WORD = '{word} of {tmp_path}'")
        assert run(python, script, archive).stdout == f"{word} of {tmp_path}\n"
        counts.append(len(list(compiled.iterdir())))
    assert [count - counts[0] for count in counts] == [0, 0, 1]


def test_several_at_once(python, tmp_path):
    script = tmp_path / "meet.py"
    script.write_text(
        "import pathlib, sys, time\nhere = pathlib.Path(sys.argv[1])\n(here / sys.argv[2]).touch()\n"
        "while not all((here / name).exists() for name in 'abc'):\n    time.sleep(0.01)\n"
    )
    command = [python.python, script, tmp_path]
    environment = {**os.environ, **python.environment}
    started = [subprocess.Popen([*command, name], env=environment, stdin=subprocess.DEVNULL) for name in "abc"]
    assert [process.wait(120) for process in started] == [0, 0, 0]


def is_alive(pid):
    """Whether a process runs."""
    try:
        return "State:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_for(what, probe):
    """Wait for something that comes soon."""
    deadline = time.monotonic() + 120
    while not probe():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.mark.parametrize("who", ["client", "server"])
def test_nothing_is_left_of_a_run_that_is_given_up(tmp_path, who):
    script = tmp_path / "wait.py"
    script.write_text("import os, sys, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    made = Preloaded(tmp_path)
    environment = {**os.environ, **made.environment}
    process = subprocess.Popen([made.python, script], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    pid = int(process.stdout.readline())
    assert is_alive(pid)
    if who == "client":
        process.kill()
        wait_for("the script to end", lambda: not is_alive(pid))
    made.close()
    process.wait(120)
    process.stdout.close()
    wait_for("the script to end", lambda: not is_alive(pid))
