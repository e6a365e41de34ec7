# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A build context written into a folder: the bytes the builder in a cluster gets, and nothing twice."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build.job import context_files
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import run_build
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import build_context
from ansible_collections.muster.kube.tests.support.build_site import ODD, build_terms_of

STACK = {
    "base": "debian:13",
    "packages": ["hello"],
    "python": {"packages": ["six"]},
    "environment": {"A": 'b "c" $d'},
    "files": [
        {"path": "/etc/odd name", "content": ODD, "mode": "0640"},
        {"path": "/opt/bytes", "content_base64": base64.b64encode(bytes(range(256))).decode(), "mode": "0755"},
    ],
    "secrets": [{"id": "pip", "use": "pip_config", "secret": "s"}],
}


def nobody():
    raise AssertionError("no cluster is needed")


def write(dest, *, check_mode=False, **changes):
    options = {"stack": STACK, "image": "localhost/x", "context_dest": str(dest), **changes}
    return run_build(nobody, build_terms_of(options, check_mode=check_mode), lambda _text: None)


def given_to_builder(terms):
    """Names, modes and contents as the builder's script lays them out, by the index it is given."""
    context = build_context(terms.spec.stack)
    files = context_files(context, "script")
    lines = files["index"].decode().splitlines()
    found = {name: (int(mode, 8), files[key]) for mode, key, name in zip(*[iter(lines)] * 3, strict=True)}
    return {"Dockerfile": (0o644, files["Dockerfile"]), **found}


def written_below(folder):
    return {
        str(path.relative_to(folder)): (path.stat().st_mode & 0o7777, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_folder_holds_what_the_builder_in_a_cluster_gets(tmp_path):
    dest = tmp_path / "a" / "context"
    answer = write(dest)
    assert written_below(dest) == given_to_builder(build_terms_of({"stack": STACK, "image": "localhost/x"}))
    assert (answer["changed"], answer["context_dest"]) == (True, str(dest))
    assert sorted(answer["context_files"]) == sorted(written_below(dest))
    assert answer["dockerfile"] == (dest / "Dockerfile").read_text(encoding="utf-8")


def test_what_is_right_is_left_alone_and_what_is_wrong_is_written_again(tmp_path):
    assert write(tmp_path / "x", check_mode=True)["changed"]
    assert not (tmp_path / "x").exists()
    write(tmp_path)
    before = written_below(tmp_path)
    assert not write(tmp_path)["changed"]
    (tmp_path / "own.txt").write_text("mine")
    (tmp_path / "files" / "0001").write_text("spoiled")
    (tmp_path / "files" / "0002").chmod(0o600)
    assert write(tmp_path, check_mode=True)["changed"]
    assert write(tmp_path)["changed"]
    assert written_below(tmp_path) == {**before, "own.txt": (0o644, b"mine")}


def test_a_link_is_replaced_and_not_followed(tmp_path):
    target = tmp_path / "precious"
    target.write_text("kept")
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "Dockerfile").symlink_to(target)
    write(tmp_path / "context")
    assert target.read_text() == "kept"
    assert not (tmp_path / "context" / "Dockerfile").is_symlink()


def test_places_that_cannot_be_written_are_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match=r"context_dest .*file: it is no folder"):
        write(tmp_path / "file")
    with pytest.raises(MusterError, match="context_dest"):
        write("/proc/none")
    with pytest.raises(BadInput, match="context_dest: there is nothing to write"):
        write(tmp_path, state="absent")
