# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every bench can be started: what it imports is there, and it tells its options."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.muster.kube.bench import quota

PROGRAMS = sorted(pathlib.Path(quota.__file__).parent.glob("*.py"))
ROOT = PROGRAMS[0].parents[4]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_tells_its_options(program):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(program), "--help"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {program.name}")


def test_the_largest_tree_has_a_thousand_queues():
    assert 1000 in quota.read_arguments([]).tree_sizes


def test_deciding_is_measured_with_a_tree_and_without(capsys):
    quota.bench_deciding(quota.read_arguments(["--nodes", "2", "--tree-sizes", "2", "--waiting", "20"]))
    assert "times that without" in capsys.readouterr().out
