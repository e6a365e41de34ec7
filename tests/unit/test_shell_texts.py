# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shell scripts that modules carry as texts, since they can read no files, are looked at like those in files."""

from __future__ import annotations

import ast
import pathlib
import re
import shutil
import subprocess

import pytest

PLUGINS = pathlib.Path(__file__).resolve().parents[2] / "plugins"
# A script says so in its first line, or is made for others to read.
SCRIPT = re.compile(r"#!/bin/(?:ba)?sh\n|(?:#.*\n)*# shellcheck shell=")
# What no text has that is not a program for a shell.
TELLING = re.compile(r"^\s*(?:set -e|esac$|fi$|done\b)", re.MULTILINE)


def texts() -> dict[str, str]:
    """All texts of several lines in the plugins but documentation, by file and line."""
    found = {}
    for path in sorted(PLUGINS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count("\n") > 2:
                found[f"{path.relative_to(PLUGINS)}:{node.lineno}"] = node.value
    return found


TEXTS = texts()
SCRIPTS = {place: text for place, text in TEXTS.items() if SCRIPT.match(text)}


def complaints(text: str) -> str:
    """What shellcheck says of a script."""
    program = shutil.which("shellcheck")
    assert program, "shellcheck is one of the tools"
    command = [program, "--external-sources", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60).stdout


@pytest.mark.parametrize("place", SCRIPTS)
def test_a_script_in_a_text_passes_shellcheck(place: str) -> None:
    assert complaints(SCRIPTS[place]) == ""


def test_every_shell_text_is_looked_at() -> None:
    assert len(SCRIPTS) == 3
    assert [place for place, text in TEXTS.items() if TELLING.search(text) and place not in SCRIPTS] == []


def test_a_broken_script_would_be_noticed() -> None:
    assert "SC2086" in complaints("#!/bin/sh\nrm $1\n")
