# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture of the rooms is that of the code, and the files that the pages name exist."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.muster.kube.tests.support.tool_program import load_tool

rooms = load_tool("rooms")
ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_a_room_is_that_of_the_package() -> None:
    assert rooms.room_of("module_utils._flow.gang.run") == "_flow"
    assert rooms.room_of("modules.gang") == "modules"
    assert rooms.room_of("doc_fragments._lease") is None


def test_edges_are_read_from_imports(tmp_path: pathlib.Path) -> None:
    for name, imported in (("module_utils/_flow/a", "module_utils._kube.b"), ("modules/m", "module_utils._face.f")):
        path = tmp_path / "plugins" / f"{name}.py"
        path.parent.mkdir(parents=True)
        path.write_text(
            f"from {rooms.PACKAGE}{imported} import x\nfrom {rooms.PACKAGE}{name.replace('/', '.')} import y\n"
        )
    edges = rooms.edges_of(tmp_path)
    assert {room: below for room, below in edges.items() if below} == {"_flow": {"_kube"}, "modules": {"_face"}}
    assert rooms.picture(edges) == "```mermaid\ngraph TD\n  modules --> _face\n  _flow --> _kube\n```"


def test_imports_may_be_relative(tmp_path: pathlib.Path) -> None:
    for name, imported in (("module_utils/_flow/a", ".._kube.b"), ("modules/m", "..module_utils._face.f")):
        path = tmp_path / "plugins" / f"{name}.py"
        path.parent.mkdir(parents=True)
        path.write_text(f"from {imported} import x\nfrom .near import y\n")
    edges = rooms.edges_of(tmp_path)
    assert {room: below for room, below in edges.items() if below} == {"_flow": {"_kube"}, "modules": {"_face"}}


def test_the_picture_of_the_page_is_that_of_the_code() -> None:
    page = (ROOT / rooms.PAGE).read_text(encoding="utf-8")
    assert rooms.with_picture(page, rooms.picture(rooms.edges_of(ROOT))) == page, "run: make guides"


@pytest.mark.parametrize("name", ["architecture", "protocol"])
def test_files_that_the_pages_name_exist(name: str) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:_|plugins/|tests/|roles/|docs/)[\w/.]+(?:\.py|/))`", text))
    assert len(named) > 20
    missing = {
        path for path in named if not (ROOT / path).exists() and not (ROOT / "plugins/module_utils" / path).exists()
    }
    assert missing == set()
