# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files are written whole, and not when they are as wanted."""

from __future__ import annotations

import os

import pytest
from ansible_collections.muster.kube.plugins.module_utils._host.files import ensure_file, read_if_there, write_file


def test_a_file_is_private_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "folder" / "file"
    write_file(path, "text")
    assert (path.read_text(), path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == ("text", 0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_file(path, "old")

    def refuse(*_args):
        raise OSError("full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="full"):
        write_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_equal_file_is_not_written_again(tmp_path):
    path = tmp_path / "file"
    ensure_file(path, b"a")
    inode = path.stat().st_ino
    ensure_file(path, b"a")
    assert path.stat().st_ino == inode
    ensure_file(path, b"b")
    assert path.read_bytes() == b"b"


def test_a_file_that_is_not_there_holds_nothing(tmp_path):
    assert read_if_there(tmp_path / "file") == b""
    (tmp_path / "file").write_bytes(b"a")
    assert read_if_there(tmp_path / "file") == b"a"
