# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pipfile, lock and pyproject become requirements."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.image import python_requirements
from ansible_collections.muster.kube.plugins.module_utils._model.image.python_requirements import (
    RequirementGroup,
    check_lock,
    locked_groups,
    pipfile_groups,
    pyproject_lines,
    python_of_pipfile,
)
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import Index
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MissingLibrary

PYPI = Index("pypi", "https://pypi.org/simple")
EXTRA = Index("extra", "https://extra.example/simple", verify=False)
LOCK: dict[str, t.Any] = {
    "_meta": {
        "hash": {"sha256": "x"},
        "requires": {"python_version": "3.11"},
        "sources": [
            {"name": "pypi", "url": "https://pypi.org/simple", "verify_ssl": True},
            {"name": "extra", "url": "https://extra.example/simple", "verify_ssl": False},
        ],
    },
    "default": {
        "six": {"version": "==1.17.0", "hashes": ["sha256:bb", "sha256:aa"]},
        "torch": {
            "version": "==2.9.0+cpu",
            "hashes": ["sha256:cc"],
            "index": "extra",
            "extras": ["opt", "x"],
            "markers": "python_version >= '3.10' and sys_platform != 'win32'",
        },
        "idna": {"version": "==3.11", "hashes": ["sha256:dd"], "index": "pypi"},
    },
    "develop": {"pytest": {"version": "==9", "hashes": ["sha256:ee"]}},
}


def test_a_lock_becomes_one_group_for_each_index() -> None:
    assert locked_groups(LOCK, (), "the lock") == (
        RequirementGroup(("six==1.17.0 --hash=sha256:aa --hash=sha256:bb",), (PYPI, EXTRA), True),
        RequirementGroup(("idna==3.11 --hash=sha256:dd",), (PYPI,), True),
        RequirementGroup(
            ("torch[opt,x]==2.9.0+cpu ; python_version >= '3.10' and sys_platform != 'win32' --hash=sha256:cc",),
            (EXTRA,),
            True,
        ),
    )


def test_an_index_of_the_stack_stands_in_for_a_source() -> None:
    private, more = Index("extra", secret="url"), Index("more", "https://more.example")
    groups = locked_groups(LOCK, (private, more), "the lock")
    assert [group.indexes for group in groups] == [(PYPI, private, more), (PYPI,), (private,)]


def test_a_source_with_a_secret_needs_an_index() -> None:
    lock = copy.deepcopy(LOCK)
    lock["_meta"]["sources"][1]["url"] = "https://${USER}:${WORD}@extra.example/simple"
    with pytest.raises(BadInput, match=r"give python\.indexes an index called extra with that secret"):
        locked_groups(lock, (), "the lock")
    assert locked_groups(lock, (Index("extra", secret="url"),), "the lock")[2].indexes[0].secret == "url"


def test_a_lock_without_sources_uses_the_usual_one() -> None:
    lock = {"default": {"six": LOCK["default"]["six"]}}
    assert locked_groups(lock, (), "the lock")[0].indexes == (PYPI,)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"git": "https://host/x", "ref": "a"}, "default.x: git: it comes from a repository, a path or a URL"),
        ({"editable": True, "path": "."}, "default.x: path: it comes from a repository"),
        ({"version": "==1", "hashes": ["sha256:aa", 3]}, "are no hashes"),
        ({"version": "==1", "hashes": ["sha256:aa", "aa"]}, "are no hashes"),
        ({"file": "https://host/x.whl", "hashes": ["sha256:aa"]}, "file: it comes from a repository"),
        ({"version": "==1"}, "hashes: there are none; a lock without hashes pins nothing"),
        ({"version": ">=1", "hashes": ["sha256:aa"]}, "'>=1' is no pin such as ==1.2"),
        ({"version": "*", "hashes": ["sha256:aa"]}, "'*' is no pin"),
        ({"version": "==1 --pre", "hashes": ["sha256:aa"]}, "is no pin"),
        ({"version": "==1", "hashes": ["sha256:aa --x"]}, "are no hashes"),
        ({"version": "==1", "hashes": ["sha256:aa"], "markers": "a --hash=sha256:bb"}, "is no marker"),
        ({"version": "==1", "hashes": ["sha256:aa"], "markers": "a\n-e ."}, "is no marker"),
        ({"version": "==1", "hashes": ["sha256:aa"], "markers": "os_name == 'a --hash=sha256:bb'"}, "is no marker"),
        ({"version": "==1", "hashes": ["sha256:aa"], "markers": "os_name == 'a #'"}, "is no marker"),
        ({"version": "==1", "hashes": ["sha256:aa"], "markers": "os_name == 'a' and"}, "is no marker"),
        ({"version": "==1", "hashes": ["sha256:aa"], "markers": "system == 'linux'"}, "is no marker"),
        ({"version": "==1,>=1", "hashes": ["sha256:aa"]}, "is no pin such as ==1.2"),
        ({"version": "==one", "hashes": ["sha256:aa"]}, "is no pin such as ==1.2"),
        ({"version": "==1", "hashes": ["sha256:aa"], "extras": ["a]b"]}, "are no names of extras"),
        ({"version": "==1", "hashes": ["sha256:aa"], "extras": ["a>=1"]}, "are no names of extras"),
        ({"version": "==1", "hashes": ["sha256:aa"], "index": "other"}, "no source called other; known are pypi"),
        ({"version": "==1", "hashes": ["sha256:aa"], "marker": "a"}, "unknown key; did you mean markers?"),
    ],
)
def test_entries_that_cannot_be_kept_are_refused(entry: dict[str, t.Any], complaint: str) -> None:
    with pytest.raises(BadInput) as error:
        locked_groups({"default": {"x": entry}}, (), "the lock")
    assert complaint in str(error.value)


def test_odd_names_and_sources_are_refused() -> None:
    with pytest.raises(BadInput, match="is no name of a package"):
        locked_groups({"default": {"-e .": LOCK["default"]["six"]}}, (), "the lock")
    with pytest.raises(BadInput, match="is no URL of http, https or file"):
        locked_groups({"_meta": {"sources": [{"url": "a b"}]}}, (), "the lock")
    with pytest.raises(BadInput, match="sources: a list is needed"):
        locked_groups({"_meta": {"sources": "x"}}, (), "the lock")


def test_a_pipfile_without_a_lock() -> None:
    pipfile = {
        "source": [{"name": "extra", "url": "https://extra.example/simple", "verify_ssl": False}],
        "packages": {"six": "*", "idna": ">=3, <4", "torch": {"version": "~=2.0", "index": "extra", "extras": ["a"]}},
    }
    assert pipfile_groups(pipfile, (), "the Pipfile") == (
        RequirementGroup(("idna>=3, <4", "six"), (EXTRA,)),
        RequirementGroup(("torch[a]~=2.0",), (EXTRA,)),
    )
    assert pipfile_groups({"packages": {"six": "*"}}, (), "the Pipfile") == (RequirementGroup(("six",), ()),)
    with pytest.raises(BadInput, match="is no version specifier"):
        pipfile_groups({"packages": {"six": "1.0; x"}}, (), "the Pipfile")


# The hash that pipenv's own library computes for this Pipfile.
PIPFILE = {
    "source": [{"url": "https://pypi.org/simple", "verify_ssl": True, "name": "pypi"}],
    "packages": {"six": "*"},
    "dev-packages": {},
    "requires": {"python_version": "3.11"},
}
PIPFILE_HASH = "9c08ec0f6a4e03ed5801b651cf0217193f017cff330f6575b9958e3300486ba6"


def test_a_lock_belongs_to_its_pipfile() -> None:
    check_lock(PIPFILE, {"_meta": {"hash": {"sha256": PIPFILE_HASH}}}, "python")
    check_lock({**PIPFILE, "scripts": {"a": "b"}}, {"_meta": {"hash": {"sha256": PIPFILE_HASH}}}, "python")
    for other in ({"packages": {"six": "==1"}}, {"docs": {"sphinx": "*"}}):
        with pytest.raises(BadInput, match="lock again or leave out the Pipfile"):
            check_lock({**PIPFILE, **other}, {"_meta": {"hash": {"sha256": PIPFILE_HASH}}}, "python")


def test_the_python_that_is_asked_for() -> None:
    assert python_of_pipfile(LOCK, "x") == "==3.11.*"
    assert python_of_pipfile({"requires": {"python_full_version": "3.11.7"}}, "x") == "==3.11.7"
    assert python_of_pipfile({"requires": {"python_version": "*"}}, "x") is None
    assert python_of_pipfile({}, "x") is None
    with pytest.raises(BadInput, match="is no version of Python"):
        python_of_pipfile({"requires": {"python_version": "3; x"}}, "x")


PYPROJECT = """
[project]
name = "x"
requires-python = ">=3.11,<4"
dependencies = ["six>=1", "idna ; python_version < '4'"]
[project.optional-dependencies]
gpu = ["torch", "six>=1"]
"""


def test_a_pyproject_gives_its_dependencies() -> None:
    assert pyproject_lines(PYPROJECT, (), "p") == (("six>=1", "idna ; python_version < '4'"), ">=3.11,<4")
    assert pyproject_lines(PYPROJECT, ("gpu",), "p")[0] == ("six>=1", "idna ; python_version < '4'", "torch")
    assert pyproject_lines("[project]\nname = 'x'\n", (), "p") == ((), None)


@pytest.mark.parametrize(
    ("text", "extras", "complaint"),
    [
        ("[tool.poetry]\n", (), "dependencies are read from [project] only"),
        ("[project]\ndynamic = ['dependencies']\n", (), "computed by the project's build"),
        ("[project]\ndependencies = ['-e .']\n", (), "dependencies[0]: '-e .' is no requirement"),
        ("[project]\ndependencies = ['a\\n-e .']\n".replace("'", '"'), (), "is no requirement"),
        ("[project]\ndependencies = ['six >= ']\n", (), "'six >= ' is no requirement"),
        ("[project]\ndependencies = ['six>=1 --pre']\n", (), "is no requirement"),
        ("[project]\ndependencies = ['six; os_name == \"a -e .\"']\n", (), "is no requirement"),
        ("[project]\nrequires-python = '3.11'\n", (), "'3.11' is no version specifier"),
        ("[project]\n[tool.uv.sources]\nsix = {path = '.'}\n", (), "tool.uv: sources: they cannot be used here"),
        ("[project]\nrequires-python = '$x'\n", (), "is no version specifier"),
        (PYPROJECT, ("cpu",), "cpu: there is no such extra; known are gpu"),
    ],
)
def test_a_pyproject_that_says_more_than_can_be_done_is_refused(text: str, extras: t.Any, complaint: str) -> None:
    with pytest.raises(BadInput) as error:
        pyproject_lines(text, extras, "p")
    assert complaint in str(error.value)


def test_dependencies_may_come_from_a_url() -> None:
    line = "six @ https://host.example/six-1.0-py3-none-any.whl ; python_version >= '3'"
    assert pyproject_lines(f'[project]\ndependencies = ["{line}"]\n', (), "p")[0] == (line,)


def test_without_the_library_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_requirements, "PACKAGING_IMPORT_ERROR", "Traceback")
    with pytest.raises(MissingLibrary, match="the Python package packaging: it is not installed"):
        locked_groups(LOCK, (), "the lock")
