# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter dockerfile."""

from __future__ import annotations

import base64
import pathlib
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.filter.dockerfile import FilterModule, dockerfile
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import stack_from_data
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import build_context

STACK = {"base": "debian", "files": [{"path": "/a", "content": "né", "mode": "0600"}]}


def test_it_shows_the_dockerfile() -> None:
    assert dockerfile(STACK) == 'FROM debian\nCOPY --chmod=0600 ["files/0001", "/a"]\n'


def test_it_shows_the_context_when_asked() -> None:
    found = t.cast("dict[str, t.Any]", dockerfile(STACK, context=True))
    assert found["dockerfile"] == dockerfile(STACK)
    assert found["files"] == [{"name": "files/0001", "size": 3, "mode": "0600", "content_base64": "bsOp"}]
    assert len(found["spec_hash"]) == 64


def test_a_context_that_is_written_out_is_the_one_that_is_built(tmp_path: pathlib.Path) -> None:
    stack = {**STACK, "packages": ["gcc"], "python": {"packages": ["numpy"]}}
    found = t.cast("dict[str, t.Any]", dockerfile(stack, context=True))
    for file in found["files"]:
        path = tmp_path / file["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(file["content_base64"]))
    built = build_context(stack_from_data(stack, "it"))
    written = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {file.name: file.content for file in built.files}
    assert all(file.name in found["dockerfile"] for file in built.files)


@pytest.mark.parametrize("value", ["debian", None, 3, [], {}, {"base": "debian", "x": 1}])
def test_errors_become_filter_errors(value: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"muster\.kube\.dockerfile: Cannot read the stack"):
        dockerfile(value)


def test_it_is_registered_under_its_name() -> None:
    assert FilterModule().filters() == {"dockerfile": dockerfile}
