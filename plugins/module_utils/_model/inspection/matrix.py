# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A matrix of inspections: axes of named values, each value some options, and the cells that come of them.

A cell has one value of each axis. exclude takes cells away, include gives options to cells or adds a cell of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields, plain_value

MATRIX_KEYS = ("axes", "include", "exclude", "fail_fast")
MOST_CELLS = 1000
WHERE = "matrix"
_OPTIONS = "options"


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One inspection of a matrix: the value of each axis by name, and the options that follow from them."""

    axes: tuple[tuple[str, str], ...]
    options: Data

    @property
    def name(self) -> str:
        """What the cell is called in results."""
        return " ".join(f"{axis}={value}" for axis, value in self.axes)


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """All cells in their order; with fail_fast those after one that failed are left out."""

    cells: tuple[Cell, ...]
    fail_fast: bool = False


def matrix_from_data(data: t.Any) -> Matrix:
    """Read a matrix strictly, and expand it: first the axes, then exclude, then include."""
    fields = Fields(data, WHERE)
    fields.only(MATRIX_KEYS)
    axes = _axes(fields)
    count = math.prod(len(values) for values in axes.values())
    if count > MOST_CELLS:
        raise fields.fail("axes", f"they have {count} combinations of at most {MOST_CELLS}")
    excluded = [_chosen(entry, axes, where) for entry, where in _entries(fields, "exclude")]
    names = [names for names in _combinations(axes) if not any(_matches(entry, names) for entry in excluded)]
    cells = [Cell(tuple(cell.items()), _merged_options(axes, cell)) for cell in names]
    original = len(cells)
    for entry, where in _entries(fields, "include"):
        cells = _included(cells, original, entry, where, axes)
    if not cells:
        raise fields.fail("exclude", "no cell is left")
    if len({cell.name for cell in cells}) < len(cells):
        raise fields.fail("include", "two cells have the same values; give one of them an axis value of its own")
    return Matrix(tuple(cells), fields.flag("fail_fast"))


def merged(first: Mapping[str, t.Any], second: Mapping[str, t.Any]) -> Data:
    """Two mappings as one; mappings in them are put together, of anything else the second counts."""
    both: Data = dict(first)
    for key, value in second.items():
        known = both.get(key)
        both[key] = merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return both


def _axes(fields: Fields) -> dict[str, dict[str, Data]]:
    """For each axis its values by name, each with its options."""
    found: dict[str, dict[str, Data]] = {}
    for axis, values in fields.mapping("axes").items():
        where = f"{WHERE}: axes.{axis}"
        if not isinstance(axis, str) or not axis or axis == _OPTIONS:
            raise fields.fail("axes", f"{axis!r} cannot be the name of an axis")
        if not isinstance(values, Mapping) or not values:
            raise BadInput("read", where, f"a mapping of names and options is needed, not {values!r}")
        found[axis] = {str(name): _options(options, f"{where}.{name}") for name, options in values.items()}
    if not found:
        raise fields.fail("axes", "there are none")
    return found


def _options(value: t.Any, where: str) -> Data:
    """Options of one value; it may have none, so that the task's own count."""
    plain = plain_value({} if value is None else value, where)
    if not isinstance(plain, dict):
        raise BadInput("read", where, f"a mapping of options is needed, this is a {type(plain).__name__}")
    return plain


def _entries(fields: Fields, key: str) -> t.Iterator[tuple[Mapping[str, t.Any], str]]:
    """The entries of include or exclude, each with its place."""
    for index, entry in enumerate(fields.sequence(key)):
        where = f"{WHERE}: {key}[{index}]"
        if not isinstance(entry, Mapping) or not entry:
            raise BadInput("read", where, "a mapping of axes and names of their values is needed")
        yield entry, where


def _chosen(entry: Mapping[str, t.Any], axes: Mapping[str, Mapping[str, Data]], where: str) -> dict[str, str]:
    """Axes and values that exist; a typing error would else take away nothing."""
    fields = Fields(entry, where)
    fields.only(tuple(axes))
    for axis, name in entry.items():
        if str(name) not in axes[axis]:
            raise fields.fail(axis, f"{name!r} is none of {', '.join(axes[axis])}")
    return {axis: str(name) for axis, name in entry.items()}


def _combinations(axes: Mapping[str, Mapping[str, Data]]) -> t.Iterator[dict[str, str]]:
    """One value of each axis; the last axis changes first."""
    for names in itertools.product(*axes.values()):
        yield dict(zip(axes, names, strict=True))


def _matches(entry: Mapping[str, str], names: Mapping[str, str]) -> bool:
    """Whether a cell has all values that an entry names."""
    return entry.items() <= names.items()


def _merged_options(axes: Mapping[str, Mapping[str, Data]], names: Mapping[str, str]) -> Data:
    """The options of a cell; those of later axes come before those of earlier ones."""
    options: Data = {}
    for axis, name in names.items():
        options = merged(options, axes[axis].get(name, {}))
    return options


def _included(
    cells: Sequence[Cell], original: int, entry: Mapping[str, t.Any], where: str, axes: Mapping[str, Mapping[str, Data]]
) -> list[Cell]:
    """Give the options of an entry to the cells that have its values; when none has, it is a cell of its own."""
    fields = Fields(entry, where)
    fields.only((*axes, _OPTIONS))
    names = {axis: str(entry[axis]) for axis in axes if entry.get(axis) is not None}
    options = _options(entry.get(_OPTIONS), f"{where}.{_OPTIONS}")
    if any(_matches(names, dict(cell.axes)) for cell in cells[:original]):
        return [
            dataclasses.replace(cell, options=merged(cell.options, options))
            if number < original and _matches(names, dict(cell.axes))
            else cell
            for number, cell in enumerate(cells)
        ]
    if not names:
        raise BadInput("read", where, "an axis and the name of a value are needed")
    return [*cells, Cell(tuple(names.items()), merged(_merged_options(axes, names), options))]
