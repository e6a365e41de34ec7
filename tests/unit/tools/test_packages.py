# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages are added to a machine without removing or starting anything."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "packages.py"
SPEC = importlib.util.spec_from_file_location("packages", PATH)
packages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(packages)


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """An apt-get that notes how it was called and whether services may start; it fails for the package bad."""
    program = tmp_path / "apt-get"
    policy = tmp_path / "policy-rc.d"
    program.write_text(
        f"#!/bin/sh\nif [ -e {policy} ]; then {policy}; code=$?; fi\n"
        f'echo "$DEBIAN_FRONTEND $code $*" >> {tmp_path}/calls\n'
        'case "$*" in *bad*) exit 100;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_nothing_is_removed_or_started(apt):
    packages.install(["one", "two"], apt / "policy-rc.d")
    assert (apt / "calls").read_text().splitlines() == [
        "noninteractive 101 -qq update",
        "noninteractive 101 -qq -y --no-install-recommends --no-remove --no-upgrade install one two",
    ]
    assert not (apt / "policy-rc.d").exists()


def test_a_policy_of_the_machine_stays(apt):
    policy = apt / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o755)
    packages.install(["one"], policy)
    assert "noninteractive 104 -qq update" in (apt / "calls").read_text()
    assert policy.read_text() == "#!/bin/sh\nexit 104\n"


def test_what_cannot_be_installed_is_left_to_the_user(apt):
    with pytest.raises(SystemExit, match="Please install these packages first: bad"):
        packages.install(["bad"], apt / "policy-rc.d")
    assert not (apt / "policy-rc.d").exists()
