# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guides are on the documentation site, and as they are in the repository."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest
import yaml

pytest.importorskip("markdown_it", reason="guides are written with markdown-it-py")

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("guides", REPOSITORY / "tests/tools/guides.py")
guides = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(guides)


def body(text):
    """What a guide becomes, below its label."""
    return guides.convert("x", text).partition("docsite.x:\n\n")[2]


@pytest.mark.parametrize("name", guides.GUIDES)
def test_the_guides_of_the_site_are_those_of_the_repository(name):
    written = (REPOSITORY / f"docs/docsite/rst/{name}.rst").read_text()
    assert written == guides.convert(name, (REPOSITORY / f"docs/{name}.md").read_text()), "run make guides"


def test_every_guide_has_its_place_in_the_index():
    index = yaml.safe_load((REPOSITORY / "docs/docsite/extra-docs.yml").read_text())
    listed = [name for section in index["sections"] for name in section["toctree"]]
    pages = {path.stem for path in (REPOSITORY / "docs").glob("*.md")}
    assert (sorted(listed), set(guides.GUIDES)) == (sorted(pages), pages)


def test_marks_become_those_of_restructuredtext():
    assert body("# A\n\nuse `b`s, **c** and *d*: [e](fit.md), [f](../x.md), [g](https://h)\n") == (
        "A\n=\n\nuse ``b``\\ s, **c** and *d*: :ref:`e <ansible_collections.muster.kube.docsite.fit>`, f, "
        "`g <https://h>`__\n"
    )


def test_lists_code_and_tables():
    text = "- a\n  b\n- c\n\n1. d\n\n```yaml\ne: 1\n```\n\n| f | g |\n|---|---|\n| h | `i` |\n"
    assert body(text).split("\n") == [
        *("- a", "  b", "", "- c", "", "#. d", "", ".. code-block:: yaml", "", "    e: 1", ""),
        *(".. list-table::", "   :header-rows: 1", "", "   * - f", "     - g", "   * - h", "     - ``i``", ""),
    ]
