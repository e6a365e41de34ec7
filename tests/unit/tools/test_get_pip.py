# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for ansible-test's bootstrap asks for the pinned packages and nothing else."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

PATH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "get_pip.py"
SPEC = importlib.util.spec_from_file_location("get_pip", PATH)
get_pip = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(get_pip)


def test_pip_comes_from_python_and_then_in_the_wanted_version(monkeypatch):
    calls = []
    monkeypatch.setenv("GET_PIP", "text of a script")
    monkeypatch.setattr(get_pip.subprocess, "run", lambda command, **rest: calls.append((command[2:], rest)))
    get_pip.main(["pip==24.2", "--no-setuptools", "--no-wheel"])
    assert [command for command, rest in calls] == [
        ["ensurepip", "--default-pip"],
        ["pip", "install", "-q", "pip==24.2"],
    ]
    assert all("GET_PIP" not in rest["env"] and rest["check"] for command, rest in calls)
    assert get_pip.sys.executable == sys.executable
