# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checker of sizes and habits finds what it should, and only that."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.muster.kube.tests.support.tool_program import load_tool

limits = load_tool("limits")


@pytest.fixture
def collection(tmp_path: pathlib.Path):
    def write(name: str, text: str) -> list[str]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return limits.check_tree(tmp_path)

    return write


def face(code_lines: int) -> str:
    documentation = 'DOCUMENTATION = r"""\n' + "text\n" * 500 + '"""\n'
    return documentation + '"""Docstring\n\nof a few lines.\n"""\n# comment\n\n' + "x = 1\n" * code_lines


def test_face_at_the_limit_passes(collection):
    assert collection("plugins/modules/thing.py", face(120)) == []


def test_face_above_the_limit_is_named(collection):
    assert collection("plugins/modules/thing.py", face(121)) == ["plugins/modules/thing.py:1: a face of 121 code lines"]


def test_only_faces_are_limited_in_code_lines(collection):
    assert collection("plugins/module_utils/_model/thing.py", limits.PRIVATE_NOTICE + "\n" + face(500)) == []


@pytest.mark.parametrize(("lines", "complaints"), [(60, 0), (61, 1)])
def test_function_length(collection, lines, complaints):
    text = "def work():\n" + "    x = 1\n" * (lines - 1)
    found = collection("tests/unit/test_thing.py", text)
    assert len(found) == complaints
    assert all("function work has 61 lines" in complaint for complaint in found)


@pytest.mark.parametrize(
    ("head", "lines", "complaints"),
    [("def work():", 1, 1), ("def _work():", 3, 0), ("def _work():", 4, 1), ("def __eq__(self, other):", 9, 0)],
)
@pytest.mark.parametrize("where", ["", "class _Thing:\n"])
def test_docstrings_of_functions(collection, where, head, lines, complaints):
    indent = "    " if where else ""
    text = where + indent + head + "\n" + f"{indent}    x = 1\n" * lines
    found = collection("bench/thing.py", text)
    assert [complaint.partition(": ")[2].startswith("function") for complaint in found] == [True] * complaints
    assert collection("bench/thing.py", text.replace("x = 1", '"""Text."""', 1)) == []
    assert collection("bench/thing.py", f'def outer():\n    """Text."""\n\n    {head}\n        x = 1\n') == []


def test_tests_need_no_docstrings(collection):
    assert collection("tests/unit/test_thing.py", "def work():\n    x = 1\n") == []


def test_private_notice_is_demanded(collection):
    assert collection("plugins/module_utils/_model/thing.py", "x = 1\n") == [
        "plugins/module_utils/_model/thing.py:1: the first line does not say that the file is private"
    ]


def test_empty_package_file_needs_no_notice(collection):
    assert collection("plugins/module_utils/_model/__init__.py", "") == []


@pytest.mark.parametrize(
    "text", ["def _work(module):\n    return module.params['name']\n", "\ndef _work(params): ...\n"]
)
def test_options_read_below_the_face(collection, text):
    text = f"{limits.PRIVATE_NOTICE}\n\n\n{text}"
    assert collection("plugins/module_utils/_face/thing.py", text) == []
    assert collection("plugins/module_utils/_flow/thing.py", text) == [
        "plugins/module_utils/_flow/thing.py:5: the options of a task are read below the face"
    ]


def test_options_of_others_may_be_read_anywhere(collection):
    text = limits.PRIVATE_NOTICE + "\nx = other.params\n"
    assert collection("plugins/module_utils/_flow/thing.py", text) == []


@pytest.mark.parametrize("line", ["open('x')", "path.read_text()", "path.exists()", "tree.folder.write_bytes(b'')"])
def test_values_and_decisions_touch_no_file(collection, line):
    text = f"{limits.PRIVATE_NOTICE}\n{line}\n"
    assert collection("plugins/module_utils/_host/thing.py", text) == []
    assert collection("plugins/module_utils/_policy/gang/thing.py", text) == [
        "plugins/module_utils/_policy/gang/thing.py:2: a file is touched where nothing but values is known"
    ]


def test_a_folder_holds_fifteen_files(collection):
    collection("plugins/module_utils/_model/gang/__init__.py", "")
    for number in range(14):
        collection(f"plugins/module_utils/_model/gang/f{number}.py", limits.PRIVATE_NOTICE)
    assert collection("plugins/module_utils/_model/gang/f14.py", limits.PRIVATE_NOTICE) == []
    assert collection("plugins/module_utils/_model/gang/f15.py", limits.PRIVATE_NOTICE) == [
        "plugins/module_utils/_model/gang: 16 files, 15 are allowed"
    ]


def test_a_class_name_stands_for_one_class(collection):
    text = f"{limits.PRIVATE_NOTICE}\nclass Step: ...\n"
    assert collection("plugins/module_utils/_flow/a.py", text) == []
    assert collection("plugins/module_utils/_kube/b.py", text) == [
        "plugins/module_utils/_flow/a.py:2: the class Step is also defined in plugins/module_utils/_kube/b.py:2"
    ]


def test_empty_names(collection):
    assert collection("bench/utils.py", "x = 1\n") == ["bench/utils.py:1: the name says nothing"]


@pytest.mark.parametrize("statement", ["import {}.plugins", "from {}.plugins import x"])
def test_kubernetes_core_has_one_importer(collection, statement):
    text = limits.PRIVATE_NOTICE + "\n" + statement.format("ansible_collections.kubernetes.core") + "\n"
    assert collection("plugins/module_utils/_kube/thing.py", text) == []
    assert collection("plugins/module_utils/_flow/thing.py", text) == [
        "plugins/module_utils/_flow/thing.py:2: kubernetes.core is imported outside _kube"
    ]


@pytest.mark.parametrize(
    ("call", "complaints"),
    [
        ("subprocess.run(words, check=False)", 1),
        ("subprocess.Popen(words)", 1),
        ("subprocess.run(words, stdin=subprocess.DEVNULL)", 0),
        ("subprocess.run(words, input=text)", 0),
        ("subprocess.run(words, **settings)", 0),
        ("other.run(words)", 0),
    ],
)
def test_programs_do_not_get_our_standard_input(collection, call, complaints):
    found = collection("plugins/action/thing.py", f"import subprocess\n{call}\n")
    assert found == ["plugins/action/thing.py:2: the program inherits standard input"] * complaints
