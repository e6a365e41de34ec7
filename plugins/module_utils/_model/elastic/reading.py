# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read a range strictly, as users write it in options or as it is stored; everything that is wrong is told at once."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import DeclaredRange, GlobalBatch
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Axis
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    INT32,
    Fields,
    finite_number,
    plain_value,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import (
    Attempts,
    Problem,
    SeveralProblems,
)

# Sizes, ascending, each with a speed.
Profile = tuple[tuple[int, float], ...]

RANGE_KEYS = ("min", "max", "step", "sizes", "resource", "podset", "axis", "global_batch")
BATCH_KEYS = ("value", "per_device_env", "accumulation_env")
AXES: tuple[Axis, ...] = ("per_pod", "pods")
MOST = 4096
_WHERE = "range"
# Speeds beyond are no speeds of any training, and what is reckoned with them would be no numbers.
_SLOWEST = 1e-9
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_RESOURCE = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")


class BadRange(SeveralProblems):
    """A range that is refused, with everything that is wrong with it."""

    def __init__(self, problems: t.Sequence[Problem], target: str = "the range") -> None:
        """Say whose range it is."""
        super().__init__(target, problems)


def read_range(declaration: t.Any, *, stored: bool = False) -> DeclaredRange:
    """The range of plain values; BadRange tells everything that is wrong with it.

    An unknown key of a user is a mistake, one of a stored range is a later version's.
    """
    attempts = Attempts()
    fields = Fields(plain_value(declaration, _WHERE), _WHERE)
    if not stored:
        attempts.read(_WHERE, fields, lambda f: f.only(RANGE_KEYS), None)
    sizes = attempts.read(_WHERE, fields, _sizes, None)
    low = attempts.read(_WHERE, fields, lambda f: _bound(f, "min", min(sizes) if sizes else None), None)
    high = attempts.read(_WHERE, fields, lambda f: _bound(f, "max", max(sizes) if sizes else None), None)
    found = DeclaredRange(
        min=low or 1,
        max=high or MOST,
        step=attempts.read(_WHERE, fields, _step, None),
        sizes=sizes,
        resource=attempts.read(_WHERE, fields, _resource, None),
        podset=attempts.read(_WHERE, fields, lambda f: f.text("podset"), None),
        axis=attempts.read(_WHERE, fields, _axis, None),
        batch=_batch(attempts, fields, stored),
    )
    if low is not None and high is not None:
        attempts.problems += _contradictions(found)
    if attempts.problems:
        raise BadRange(attempts.problems)
    return found


def _contradictions(found: DeclaredRange) -> list[Problem]:
    """What is wrong with bounds that are sound each by itself."""
    if found.min > found.max:
        return [Problem(_WHERE, "min", f"{found.min} is more than max, {found.max}")]
    if not found.written_sizes:
        listed = ", ".join(map(str, found.sizes or ()))
        return [Problem(_WHERE, "sizes", f"none of {listed} is from {found.min} to {found.max}")]
    return []


def _bound(fields: Fields, key: str, listed: int | None) -> int | None:
    """One of the bounds; where sizes are listed, they say it."""
    if fields.get(key) is None and fields.get("sizes") is not None:
        return listed
    return fields.whole(key, 1, MOST, required=True)


def _step(fields: Fields) -> int | None:
    """The distance of sizes; sizes that are listed have none."""
    if fields.get("step") is None:
        return None
    if fields.get("sizes") is not None:
        raise fields.fail("step", "sizes are listed as well; give one of both")
    return fields.whole("step", 1, MOST)


def _sizes(fields: Fields) -> tuple[int, ...] | None:
    """Sizes that are listed, ascending, each once."""
    if fields.get("sizes") is None:
        return None
    listed = fields.sequence("sizes")
    if not listed:
        raise fields.fail("sizes", "the list is empty")
    entry = Fields({f"sizes[{index}]": size for index, size in enumerate(listed)}, fields.where)
    return tuple(sorted({entry.whole(key, 1, MOST, required=True) for key in entry.data}))


def _resource(fields: Fields) -> str | None:
    """An extended resource; others cannot be counted in GPUs."""
    resource = fields.text("resource")
    if resource is not None and not _RESOURCE.fullmatch(resource):
        raise fields.fail("resource", f"{resource!r} is no extended resource such as nvidia.com/gpu")
    return resource


def _axis(fields: Fields) -> Axis | None:
    return None if fields.get("axis") is None else fields.choice("axis", AXES, None)


def _batch(attempts: Attempts, fields: Fields, stored: bool) -> GlobalBatch | None:
    """The global batch, if there is one."""
    given = attempts.read(_WHERE, fields, lambda f: f.mapping("global_batch"), t.cast(Mapping[str, t.Any], {}))
    if not given:
        return None
    entry = Fields(given, f"{_WHERE}: global_batch")
    if not stored:
        attempts.read(_WHERE, entry, lambda f: f.only(BATCH_KEYS), None)
    value = attempts.read(_WHERE, entry, lambda f: f.whole("value", 1, INT32 - 1, required=True), 1)
    each = attempts.read(_WHERE, entry, lambda f: _variable(f, "per_device_env"), None)
    times = attempts.read(_WHERE, entry, lambda f: _variable(f, "accumulation_env"), None)
    if each is None and entry.get("per_device_env") is None:
        cause = "name the variable that tells a trainer how many samples a GPU takes at once"
        attempts.problems.append(Problem(_WHERE, "global_batch.per_device_env", cause))
    elif each is not None and each == times:
        attempts.problems.append(Problem(_WHERE, "global_batch.accumulation_env", f"{times} is per_device_env already"))
    return GlobalBatch(value, each or "", times)


def read_profile(fields: Fields) -> Profile:
    """How fast a job is at some sizes, as its user knows it; empty where nothing is said.

    Only ratios count, so one size alone says nothing. Sizes are keys, and thereby texts.
    """
    told = fields.mapping("profile")
    if fields.get("profile") is None:
        return ()
    entry = Fields(told, f"{fields.where}: profile")
    if len(told) < 2:
        raise fields.fail("profile", "speeds of two sizes or more are needed, since only their ratios count")
    return tuple(sorted((_profiled_size(entry, key), _speed(entry, key)) for key in told))


def _profiled_size(profile: Fields, key: str) -> int:
    """The size that a key says, which has one way to be written."""
    if not (key.isascii() and key.isdecimal() and len(key) <= len(str(MOST)) and 1 <= int(key) <= MOST):
        raise profile.fail(key, f"a size is needed, which is a whole number from 1 to {MOST}")
    if key != str(int(key)):
        raise profile.fail(key, f"write {int(key)}")
    return int(key)


def _speed(profile: Fields, key: str) -> float:
    """Steps per second, or any number in proportion to them; options that were templated arrive as text."""
    told = profile.get(key)
    try:
        speed = finite_number(float(told) if isinstance(told, str) else told)
    except ValueError:
        speed = None
    if speed is None or not _SLOWEST <= speed <= 1 / _SLOWEST:
        raise profile.fail(key, f"a number above 0 is needed, such as the steps per second, not {told!r}")
    return speed


def _variable(fields: Fields, key: str) -> str | None:
    """The name of an environment variable."""
    name = fields.text(key)
    if name is not None and not _VARIABLE.fullmatch(name):
        raise fields.fail(key, f"{name!r} cannot be the name of an environment variable")
    return name
