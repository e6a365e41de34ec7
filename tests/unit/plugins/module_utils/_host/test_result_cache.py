# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Outcomes kept in files."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._host.result_cache import (
    cache_folder,
    read_cached,
    write_cached,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError


def test_the_folder_lies_in_the_cache_of_the_user(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert str(cache_folder("builds")) == "/cache/muster.kube/builds"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert str(cache_folder("builds")) == "/home/me/.cache/muster.kube/builds"


def test_what_was_kept_is_read_and_nothing_else_is_left(tmp_path):
    folder = tmp_path / "a" / "b"
    assert read_cached(folder, "n") is None
    write_cached(folder, "n", {"word": "ä"}, "it")
    write_cached(folder, "n", {"word": "ö"}, "it")
    assert read_cached(folder, "n") == {"word": "ö"}
    assert [path.name for path in folder.iterdir()] == ["n.json"]


@pytest.mark.parametrize("text", ["{", "[]", "1"])
def test_what_cannot_be_read_was_not_kept(tmp_path, text):
    (tmp_path / "n.json").write_text(text)
    assert read_cached(tmp_path, "n") is None


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MusterError, match=r"Cannot store the outcome in .*file"):
        write_cached(tmp_path / "file", "n", {}, "the outcome")
