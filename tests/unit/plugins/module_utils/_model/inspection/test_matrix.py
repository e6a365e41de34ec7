# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A matrix: which cells come of axes, exclude and include, and with which options."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.matrix import (
    MOST_CELLS,
    matrix_from_data,
    merged,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

AXES = {
    "base": {"py36": {"stack": {"base": "a"}}, "py38": {"stack": {"base": "b"}}},
    "threads": {
        "1": {"env": {"OMP_NUM_THREADS": "1"}, "run": {"requests": {"cpu": "1"}}},
        "2": {"env": {"OMP_NUM_THREADS": "2"}, "run": {"requests": {"cpu": "2"}}},
    },
}


def cells(**more):
    return {cell.name: cell.options for cell in matrix_from_data({"axes": AXES, **more}).cells}


def test_the_last_axis_changes_first_and_options_are_put_together():
    found = cells()
    assert list(found) == [
        "base=py36 threads=1",
        "base=py36 threads=2",
        "base=py38 threads=1",
        "base=py38 threads=2",
    ]
    assert found["base=py38 threads=2"] == {
        "stack": {"base": "b"},
        "env": {"OMP_NUM_THREADS": "2"},
        "run": {"requests": {"cpu": "2"}},
    }


def test_exclude_takes_all_cells_with_its_values():
    assert list(cells(exclude=[{"base": "py36", "threads": 2}])) == [
        "base=py36 threads=1",
        "base=py38 threads=1",
        "base=py38 threads=2",
    ]
    assert list(cells(exclude=[{"base": "py36"}])) == ["base=py38 threads=1", "base=py38 threads=2"]


def test_include_gives_options_to_cells_or_adds_one():
    more = {"repetitions": 50, "env": {"A": "b"}}
    found = cells(include=[{"base": "py36", "options": more}, {"base": "vendor", "options": {"image": "v"}}])
    assert found["base=py36 threads=1"] == {
        **AXES["base"]["py36"],
        "env": {"OMP_NUM_THREADS": "1", "A": "b"},
        "run": {"requests": {"cpu": "1"}},
        "repetitions": 50,
    }
    assert "repetitions" not in found["base=py38 threads=1"]
    assert found["base=vendor"] == {"image": "v"}
    again = cells(exclude=[{"base": "py36"}], include=[{"base": "py36", "threads": "2"}])
    assert list(again) == ["base=py38 threads=1", "base=py38 threads=2", "base=py36 threads=2"]
    assert again["base=py36 threads=2"]["env"] == {"OMP_NUM_THREADS": "2"}


def test_a_cell_that_include_added_is_no_goal_of_later_entries():
    with pytest.raises(BadInput, match="two cells have the same values"):
        cells(include=[{"base": "vendor"}, {"base": "vendor", "options": {"repetitions": 2}}])


@pytest.mark.parametrize(
    ("data", "where", "cause"),
    [
        (None, "matrix", "it is missing"),
        ([], "matrix", "a mapping is needed"),
        ({"axes": {}}, "matrix: axes", "there are none"),
        ({"axis": AXES}, "matrix: axis", "did you mean axes?"),
        ({"axes": {"a": []}}, "matrix: axes.a", "names and options"),
        ({"axes": {"a": {"x": 3}}}, "matrix: axes.a.x", "a mapping of options"),
        ({"axes": {"options": {"x": {}}}}, "matrix: axes", "cannot be the name"),
        ({"axes": AXES, "exclude": [{"bas": "py36"}]}, "matrix: exclude[0]: bas", "did you mean base?"),
        ({"axes": AXES, "exclude": [{"base": "py37"}]}, "matrix: exclude[0]: base", "none of py36, py38"),
        ({"axes": AXES, "exclude": [{}]}, "matrix: exclude[0]", "axes and names"),
        ({"axes": AXES, "exclude": [{"base": "py36"}, {"base": "py38"}]}, "matrix: exclude", "no cell is left"),
        ({"axes": AXES, "include": ["x"]}, "matrix: include[0]", "axes and names"),
        ({"axes": AXES, "include": [{"option": {}}]}, "matrix: include[0]: option", "did you mean options?"),
        ({"axes": AXES, "fail_fast": "yes"}, "matrix: fail_fast", "true or false"),
    ],
)
def test_complaints_name_the_place(data, where, cause):
    with pytest.raises(BadInput) as caught:
        matrix_from_data(data)
    assert caught.value.target == where
    assert cause in caught.value.cause


def test_a_matrix_without_end_is_refused_before_it_is_made():
    axes = {f"a{number}": {str(value): {} for value in range(10)} for number in range(30)}
    with pytest.raises(BadInput, match=f"of at most {MOST_CELLS}"):
        matrix_from_data({"axes": axes})


NAMES = st.text(st.sampled_from("abc"), min_size=1, max_size=2)
VALUES = st.dictionaries(NAMES, st.dictionaries(NAMES, st.integers(0, 9)), min_size=1, max_size=3)
DRAWN_AXES = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)


@settings(max_examples=examples(100))
@given(DRAWN_AXES, st.data())
def test_cells_are_the_combinations_that_nothing_excludes(axes, data):
    every = [tuple(zip(axes, names, strict=True)) for names in itertools.product(*axes.values())]
    entry = st.fixed_dictionaries({}, optional={axis: st.sampled_from(sorted(axes[axis])) for axis in axes})
    excluded = data.draw(st.lists(entry.filter(bool), max_size=3))
    left = [cell for cell in every if not any(item.items() <= dict(cell).items() for item in excluded)]
    task = {"axes": axes, "exclude": excluded}
    if not left:
        with pytest.raises(BadInput, match="no cell is left"):
            matrix_from_data(task)
        return
    found = matrix_from_data(task).cells
    assert [cell.axes for cell in found] == left
    for cell in found:
        for key, value in cell.options.items():
            # The value of the last axis that has the option.
            assert value == [axes[axis][name][key] for axis, name in cell.axes if key in axes[axis][name]][-1]


@settings(max_examples=examples(100))
@given(DRAWN_AXES, st.data())
def test_include_never_takes_a_cell_away_nor_changes_one_it_does_not_name(axes, data):
    before = matrix_from_data({"axes": axes}).cells
    names = {axis: st.sampled_from([*sorted(axes[axis]), "zz"]) for axis in axes}
    entry = {**data.draw(st.fixed_dictionaries({}, optional=names).filter(bool)), "options": {"new": 1}}
    after = matrix_from_data({"axes": axes, "include": [entry]}).cells
    chosen = {axis: name for axis, name in entry.items() if axis != "options"}.items()
    hit = [cell for cell in before if chosen <= dict(cell.axes).items()]
    assert [cell.axes for cell in after[: len(before)]] == [cell.axes for cell in before]
    assert len(after) == len(before) + (not hit)
    for old, new in zip(before, after, strict=False):
        assert new.options == ({**old.options, "new": 1} if old in hit else old.options)


TREES = st.recursive(st.integers(0, 9), lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=8)
MAPPINGS = st.dictionaries(NAMES, TREES, max_size=3)


@settings(max_examples=examples(100))
@given(MAPPINGS, MAPPINGS)
def test_mappings_are_put_together_and_the_second_counts(first, second):
    before = repr((first, second))
    both = merged(first, second)
    assert set(both) == {*first, *second}
    assert merged(first, {}) == first
    assert merged(both, second) == both
    assert repr((first, second)) == before
