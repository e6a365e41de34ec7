# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of single tokens are found where they make sense, and tests are those that look at the file."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.muster.kube.tests.support.tool_program import load_tool

mutants = load_tool("mutants")


def changed(source: str) -> set[str]:
    """All texts that one change makes."""
    data = source.encode()
    return {mutant.applied(data).decode() for mutant in mutants.changes_of("x.py", data)}


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("a < b", {"a <= b"}),
        ("a is not b", {"a is b"}),
        ("a in b or c", {"a not in b or c", "a in b and c"}),
        ("é + not_ * 2", {"é - not_ * 2", "é + not_ / 2", "é + not_ * 3"}),
        ("not a", {"a"}),
        ("min(a)", {"max(a)"}),
        (
            "def f(x: int = 1) -> 2:\n    return x",
            {"def f(x: int = 2) -> 2:\n    return x", "def f(x: int = 1) -> 2:\n    return None"},
        ),
        ("@d(frozen=True)\nclass A:\n    x: 'a | b' = False", {"@d(frozen=True)\nclass A:\n    x: 'a | b' = True"}),
        ("def f():\n    return False", {"def f():\n    return True"}),
        ("zip(a, b + 1, strict=True)", {"zip(a, b - 1, strict=True)", "zip(a, b + 2, strict=True)"}),
        ("f(strict=True)", {"f(strict=False)"}),
        ("'a' + b", set()),
        ("f'{a + 1}'", set()),
    ],
)
def test_changes(source: str, texts: set[str]) -> None:
    assert changed(source) == texts


def test_a_sample_is_the_same_for_the_same_seed(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "a.py").write_text("\n".join(f"x{number} = {number} < y" for number in range(50)))
    first = mutants.drawn(tmp_path, ["plugins"], 1, 10)
    assert first == mutants.drawn(tmp_path, ["plugins/a.py"], 1, 10)
    assert first != mutants.drawn(tmp_path, ["plugins"], 2, 10)
    assert len(first) == 10
    assert first[0].text().startswith("plugins/a.py:")


@pytest.mark.parametrize("import_of_a", ["plugins.module_utils._model.a", ".a", ".._model.a"])
def test_tests_are_the_mirror_those_that_import_the_file_and_those_of_its_users(
    tmp_path: pathlib.Path, import_of_a: str
) -> None:
    def write(path: str, *imports: str) -> None:
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        names = (name if name.startswith(".") else mutants.PACKAGE + name for name in imports)
        place.write_text("".join(f"from {name} import x\n" for name in names))

    room = "plugins.module_utils._model"
    write("plugins/module_utils/_model/a.py")
    write("plugins/module_utils/_model/b.py", import_of_a)
    write("tests/unit/plugins/module_utils/_model/test_a.py")
    write("tests/unit/plugins/module_utils/_model/test_b.py", f"{room}.b")
    write("tests/unit/test_c.py", f"{room}.a")
    tests = mutants.Tests(tmp_path)
    assert tests.near("plugins/module_utils/_model/a.py") == [
        "tests/unit/plugins/module_utils/_model/test_a.py",
        "tests/unit/test_c.py",
    ]
    assert tests.far("plugins/module_utils/_model/a.py") == ["tests/unit/plugins/module_utils/_model/test_b.py"]


def test_of_many_tests_the_nearest_are_run() -> None:
    names = ["tests/unit/test_all.py", "tests/unit/plugins/a/b/test_x.py", "tests/unit/plugins/a/test_y.py"]
    assert mutants.nearest("plugins/a/b/x.py", names) == [names[1], names[2], names[0]]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("..\nexit code 0\n", ""),
        ("FAILED tests/a.py::b - no\nexit code 1\n", "tests/a.py::b"),
        ("", "a limit of its process"),
    ],
)
def test_what_noticed_a_change_is_told(tmp_path: pathlib.Path, output: str, told: str) -> None:
    (tmp_path / "log").write_text(output)
    assert mutants.verdict(tmp_path / "log") == told
