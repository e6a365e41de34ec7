# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Integration tests are dealt out by whole files, the longest first; files with a slow cluster all go to one worker."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "integration"
SPEC = importlib.util.spec_from_file_location("integration_conftest", FOLDER / "conftest.py")
order = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(order)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Four files, two of them with the real node."""
    for name in ("a", "b", "c", "d", "new"):
        argument = "real_cluster" if name in "cd" else "cluster"
        (tmp_path / f"test_{name}.py").write_text(f"def test_one({argument}): ...\n")
    (tmp_path / "durations.json").write_text('{"test_a.py": 5, "test_b.py": 60, "test_c.py": 40, "test_d.py": 30}')
    monkeypatch.setattr(order, "HERE", tmp_path)
    monkeypatch.setattr(order, "DURATIONS", tmp_path / "durations.json")
    return tmp_path


class Item:
    """As much of a collected test as the order looks at."""

    def __init__(self, path: pathlib.Path, name: str = "test_one") -> None:
        self.path = path
        self.name = name
        self.markers = []

    def add_marker(self, marker: object) -> None:
        self.markers.append(marker)


def ordered(items: list[Item]) -> list[str]:
    order.pytest_collection_modifyitems(items)
    return [f"{item.path.stem}::{item.name}" for item in items]


def test_the_longest_files_come_first_and_stay_whole(folder):
    b = folder / "test_b.py"
    items = [Item(folder / "test_a.py"), Item(b), Item(b, "test_two")]
    assert ordered(items) == ["test_b::test_one", "test_b::test_two", "test_a::test_one"]
    assert {marker for item in items for marker in item.markers} == {"integration"}


def test_files_with_the_real_node_are_one_group_and_count_together(folder):
    items = [Item(folder / f"test_{name}.py") for name in "abcd"]
    assert ordered(items) == [f"test_{name}::test_one" for name in "cdba"]


def test_a_file_without_a_record_counts_as_the_longest(folder):
    items = [Item(folder / f"test_{name}.py") for name in ("a", "new", "c")]
    assert ordered(items) == [f"test_{name}::test_one" for name in ("new", "c", "a")]


def test_tests_of_other_folders_are_left_alone(folder):
    other = Item(folder.parent / "test_b.py")
    items = [Item(folder / "test_a.py"), other]
    order.pytest_collection_modifyitems(items)
    assert items[0] is other
    assert other.markers == []


def test_one_worker_gets_a_whole_file_and_all_files_with_the_real_node(folder, pytestconfig):
    # Made without its constructor, which wants workers.
    scheduling = order.GroupScheduling.__new__(order.GroupScheduling)
    scheduling.config = pytestconfig
    relative = os.path.relpath(folder, pytestconfig.rootpath)
    groups = [scheduling._split_scope(f"{relative}/test_{name}.py::test_one[x]") for name in "abcd"]
    assert groups == ["test_a", "test_b", "real-node", "real-node"]


def ended_with(item: Item, following: Item | None) -> list[str]:
    """What goes when a test has been taken down and another one follows."""
    gone = []
    order.GROUP.callback(gone.append, "cluster")
    steps = order.pytest_runtest_teardown(item, following)
    next(steps)
    assert gone == [], "fixtures that need the cluster are taken down first"
    with pytest.raises(StopIteration) as stopped:
        steps.send("kept")
    assert stopped.value.value == "kept"
    order.GROUP.pop_all()
    return gone


def test_the_cluster_of_a_group_goes_after_its_last_test(folder):
    a, b, c, d = (Item(folder / f"test_{name}.py") for name in "abcd")
    assert ended_with(c, d) == []
    assert ended_with(a, Item(a.path, "test_two")) == []
    assert ended_with(d, a) == ["cluster"]
    assert ended_with(a, b) == ["cluster"]
    assert ended_with(d, None) == ["cluster"]


def test_a_run_that_breaks_off_leaves_no_cluster():
    gone = []
    order.GROUP.callback(gone.append, "cluster")
    order.pytest_sessionfinish()
    assert gone == ["cluster"]


def test_files_with_operators_are_one_group(folder):
    paths = [folder / f"test_{name}.py" for name in ("x", "y")]
    for path in paths:
        path.write_text("def cluster(operator_cluster): ...\n")
    assert [order.group_of(path) for path in paths] == ["operators", "operators"]


def test_files_that_build_images_have_a_real_node_to_themselves(folder):
    paths = [folder / f"test_{name}.py" for name in ("x", "y")]
    for path in paths:
        path.write_text("def site(real_cluster): return BuildSite(real_cluster)\n")
    assert [order.group_of(path) for path in paths] == ["image-builds", "image-builds"]


def test_files_of_a_group_share_one_cluster_and_the_next_group_gets_another():
    started, ended = [], []

    @contextlib.contextmanager
    def start():
        started.append(len(started))
        yield started[-1]
        ended.append(len(ended))

    assert [order.cluster_of_group(start), order.cluster_of_group(start), started] == [0, 0, [0]]
    order.GROUP.close()
    assert ended == [0]
    assert order.cluster_of_group(start) == 1
    order.GROUP.close()
    assert ended == [0, 1]


def test_the_record_names_files_that_exist():
    names = json.loads((FOLDER / "durations.json").read_text())
    assert set(names) <= {path.name for path in FOLDER.glob("test_*.py")}
