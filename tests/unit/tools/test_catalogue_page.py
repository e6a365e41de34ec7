# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide of the operator stack shows the catalogue as it is, and no row claims a proof that no test gives."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml
from ansible_collections.muster.kube.tests.support.tool_program import load_tool

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
catalogue_page = load_tool("catalogue_page")
ROWS = {row["name"]: row for row in catalogue_page.rows_of(REPOSITORY)}
GUIDE = (REPOSITORY / catalogue_page.PAGE).read_text()


def test_the_tables_are_those_of_the_catalogue() -> None:
    written = catalogue_page.with_tables(GUIDE, catalogue_page.tables(REPOSITORY))
    assert written == GUIDE, "run make guides"


def test_every_row_lies_in_a_file_of_its_name() -> None:
    files = (REPOSITORY / catalogue_page.FILES / "components").glob("*.yml")
    assert {path.stem for path in files} == set(ROWS)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_each_row_claims_the_proof_that_tests_give(name: str) -> None:
    assert ROWS[name]["proof"] == catalogue_page.proven(REPOSITORY).get(name, "none")


def test_tests_prove_rows_that_there_are() -> None:
    assert set(catalogue_page.proven(REPOSITORY)) <= set(ROWS)


def test_the_best_proof_of_several_tests_counts(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "tests/integration"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text('@pytest.mark.proves("a", "installed")\ndef test_a(): ...\n')
    (folder / "test_b.py").write_text(
        '@pytest.mark.proves("a", "run")\n@pytest.mark.proves("b", "played")\ndef test_b(): ...\n'
    )
    assert catalogue_page.proven(tmp_path) == {"a": "run", "b": "played"}


def test_only_what_is_between_the_marks_is_written_anew() -> None:
    page = "a\n<!-- catalogue: begin -->\nold\n<!-- catalogue: end -->\nb\n"
    assert catalogue_page.with_tables(page, "new") == (
        "a\n<!-- catalogue: begin -->\n\nnew\n\n<!-- catalogue: end -->\nb\n"
    )


def test_the_examples_of_the_guide_speak_of_rows_and_profiles_that_there_are() -> None:
    profiles = yaml.safe_load((REPOSITORY / catalogue_page.FILES / "profiles.yml").read_text())
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)]
    variables = [block for block in blocks if isinstance(block, dict)]
    wanted = {name for block in variables for name in block.get("operator_stack_components", {})}
    chosen = {name for block in variables for name in block.get("operator_stack_profile", [])}
    assert wanted
    assert wanted <= set(ROWS)
    assert chosen
    assert chosen <= set(profiles)
