# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A strict run fails on a skip that nobody expects, and lists every skip with its reason."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.muster.kube.tests.support.random_size import examples

CONFTEST = pathlib.Path(__file__).resolve().parents[1] / "conftest.py"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())

    def run(body: str, strict: str, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_it.py").write_text(f"import pytest\n\ndef test_good():\n    assert True\n\n{body}\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
        environment = {
            "PATH": "/usr/bin:/bin",
            "MUSTER_STRICT": strict,
            "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path),
            # To load plugins takes longer than all that happens here.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **settings,
        }
        return subprocess.run(
            [*command, *options, "test_it.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run


SURPRISE = "@pytest.mark.skip(reason='no time today')\ndef test_skipped():\n    assert False"
EXPECTED_FAILURE = "@pytest.mark.xfail(reason='known to be wrong')\ndef test_known():\n    assert False"
IN_PARALLEL = ("-p", "xdist.plugin", "-n", "2")
WHOLE_FILE = "pytest.skip('nothing works', allow_module_level=True)"


@pytest.mark.parametrize("options", [(), IN_PARALLEL])
def test_an_unexpected_skip_fails_a_strict_run(run, options):
    done = run(SURPRISE, "1", *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "UNEXPECTED: test_it.py::test_skipped: no time today" in done.stdout
    assert "1 passed" in done.stdout


def test_an_expected_failure_counts_as_a_skip(run):
    done = run(EXPECTED_FAILURE, "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "UNEXPECTED: test_it.py::test_known: known to be wrong" in done.stdout
    assert "1 passed" in done.stdout


def test_a_skipped_file_fails_a_strict_run(run):
    done = run(WHOLE_FILE, "1")
    assert done.returncode != 0
    assert "UNEXPECTED: test_it.py: nothing works" in done.stdout


def test_an_expected_skip_is_listed_and_passes(run, tmp_path):
    conftest = tmp_path / "conftest.py"
    text = conftest.read_text().replace("EXPECTED_SKIPS: tuple[str, ...] = ()", 'EXPECTED_SKIPS = ("no time",)')
    conftest.write_text(text)
    done = run(SURPRISE, "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "expected: test_it.py::test_skipped: no time today" in done.stdout


def test_no_test_has_random_examples_of_its_own_making():
    files = [path for path in CONFTEST.parent.rglob("test_*.py") if path != pathlib.Path(__file__).resolve()]
    assert len(files) > 100
    assert [path.name for path in files if "derandomize" in path.read_text()] == []


@pytest.mark.parametrize(("scale", "count"), [("0.1", 7), ("1", 70)])
def test_a_full_run_has_ten_times_the_examples(monkeypatch, scale, count):
    monkeypatch.setenv("MUSTER_SCALE", scale)
    assert examples(7) == count


def test_a_run_that_is_not_strict_only_lists(run):
    done = run(SURPRISE, "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "UNEXPECTED: test_it.py::test_skipped: no time today" in done.stdout


@pytest.mark.parametrize("options", [(), IN_PARALLEL])
def test_what_each_file_took_is_written_down(run, tmp_path, options):
    kept = tmp_path / "durations.json"
    done = run("import time\n\ndef test_slow():\n    time.sleep(0.2)", "0", *options, MUSTER_DURATIONS=str(kept))
    assert done.returncode == 0, done.stdout + done.stderr
    table = json.loads(kept.read_text())
    assert list(table) == ["test_it.py"]
    assert table["test_it.py"] >= 0.2
