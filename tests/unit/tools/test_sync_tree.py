# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The copy of the tree holds what git would track, no more and no less."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "sync_tree.py"
SPEC = importlib.util.spec_from_file_location("sync_tree", PATH)
sync_tree = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(sync_tree)


def files_of(folder: pathlib.Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    (root / "sub").mkdir(parents=True)
    subprocess.run(
        ["git", "-c", "init.defaultBranch=main", "init", "-q", str(root)], check=True, stdin=subprocess.DEVNULL
    )
    (root / ".gitignore").write_text("*.log\n")
    (root / "sub/new").write_text("new")
    (root / "kept").write_text("kept")
    (root / "noise.log").write_text("noise")
    return root


def test_untracked_files_are_copied_and_ignored_ones_are_not(repository, tmp_path):
    sync_tree.sync(repository, tmp_path / "copy")
    assert files_of(tmp_path / "copy") == {".gitignore", "kept", "sub/new"}


def test_a_second_copy_follows_changes_and_removals_and_leaves_the_rest_alone(repository, tmp_path):
    copy = tmp_path / "copy"
    sync_tree.sync(repository, copy)
    before = (copy / "kept").stat().st_mtime_ns
    (repository / "sub/new").unlink()
    (repository / "other").write_text("other")
    (copy / "stray").write_text("stray")
    sync_tree.sync(repository, copy)
    assert files_of(copy) == {".gitignore", "kept", "other"}
    assert not (copy / "sub").exists()
    assert (copy / "kept").stat().st_mtime_ns == before


def test_only_what_users_get_and_the_settings_of_ansible_test(repository, tmp_path):
    (repository / "galaxy.yml").write_text('name: x\nbuild_ignore:\n  - tests\n  - "*.tar.gz"\n  - .gitignore\n')
    (repository / "tests/unit").mkdir(parents=True)
    for name in ("tests/unit/test_x.py", "tests/config.yml", "sub/old.tar.gz", "sub/tests"):
        (repository / name).write_text(name)
    sync_tree.sync(repository, tmp_path / "copy", shipped=True)
    assert files_of(tmp_path / "copy") == {"galaxy.yml", "kept", "sub/new", "sub/tests", "tests/config.yml"}
