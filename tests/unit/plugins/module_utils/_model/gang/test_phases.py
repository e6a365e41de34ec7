# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Groups of phases have one home: the file of the state."""

from __future__ import annotations

import ast
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang import state

ROOT = pathlib.Path(state.__file__).parents[2]


def groups(path: pathlib.Path) -> t.Iterator[str]:
    """Tuples, lists and sets of nothing but phases in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Tuple | ast.List | ast.Set) and len(node.elts) > 1:
            values = [item.value if isinstance(item, ast.Constant) else None for item in node.elts]
            if all(value in state.PHASES for value in values):
                yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_no_other_file_groups_phases() -> None:
    # Options offer phases to choose from; they group nothing.
    files = [path for path in ROOT.rglob("*.py") if "_face" not in path.parts and path.name != "state.py"]
    assert [place for path in files for place in groups(path)] == []


def test_every_phase_is_in_the_groups_it_belongs_to() -> None:
    ended = {*state.WAITING_PHASES, *state.FINISHED_PHASES}
    assert {*state.STARTED_PHASES}.isdisjoint(ended)
    assert {*state.STARTED_PHASES, *ended} == set(state.PHASES)
    assert {
        *state.HALFWAY_PHASES,
        *state.SETTLED_PHASES,
        *state.WAITING_PHASES,
        *state.PROMISED_PHASES,
        "unknown",
    } == set(state.PHASES)
    assert all(set(phases) <= set(state.PHASES) and goal in phases for goal, phases in state.REACHED.items())
