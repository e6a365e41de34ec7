# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions as Semantic Versioning orders them, and ranges of them."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

_VERSION = re.compile(
    r"v?(?P<major>[0-9]{1,9})(?:\.(?P<minor>[0-9]{1,9}))?(?:\.(?P<patch>[0-9]{1,9}))?"
    r"(?:-(?P<early>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)
_BOUND = re.compile(r"(?P<sign>>=|<=|!=|>|<|=)?\s*(?P<version>[^\s,<>=!]+)")
_BETWEEN = re.compile(r"[\s,]*")
_NUMBER = re.compile(r"[0-9]{1,18}")
ANY = "*"


@functools.total_ordering
@dataclasses.dataclass(frozen=True, slots=True)
class SemanticVersion:
    """A version; what was not written of it counts as zero."""

    numbers: tuple[int, int, int]
    # The parts of what makes it come before the release of these numbers, such as rc and 1.
    early: tuple[str, ...] = ()
    # How many of the numbers were written.
    written: int = dataclasses.field(default=3, compare=False)

    def __lt__(self, other: SemanticVersion) -> bool:
        return self._place() < other._place()

    def __str__(self) -> str:
        numbers = ".".join(map(str, self.numbers))
        return f"{numbers}-{'.'.join(self.early)}" if self.early else numbers

    @property
    def release(self) -> SemanticVersion:
        """Its numbers alone: providers of Kubernetes write after a dash what they made of a release."""
        return SemanticVersion(self.numbers)

    def _place(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[bool, int, str], ...]]:
        """What versions are ordered by: a release comes after all that lead to it, and numbers before words."""
        parts = tuple((False, int(part), "") if _NUMBER.fullmatch(part) else (True, 0, part) for part in self.early)
        return self.numbers, not self.early, parts


def read_version(text: t.Any, where: str) -> SemanticVersion:
    """The version that a text means; where tells what it belongs to."""
    found = _VERSION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise BadInput("read", where, f"{text!r} is no version such as 1.4.2; quote it if it is one")
    written = [found[name] for name in ("major", "minor", "patch") if found[name] is not None]
    major, minor, patch = (int(number) for number in [*written, "0", "0"][:3])
    early = tuple((found["early"] or "").split(".")) if found["early"] else ()
    return SemanticVersion((major, minor, patch), early, len(written))


class Bound(t.NamedTuple):
    """One condition of a range."""

    sign: str
    version: SemanticVersion

    def holds(self, version: SemanticVersion) -> bool:
        """Whether a version meets it.

        What leads to a release is not below it: 1.37.0-rc.1 is no version that is known to be good for <1.37. And =1.37
        is met by every patch of it.
        """
        if self.sign in ("=", "!="):
            return self._is_same(version) == (self.sign == "=")
        if self.sign in ("<", "<=") and not self.version.early and version.early:
            version = version.release
        return _COMPARE[self.sign](version, self.version)

    def _is_same(self, version: SemanticVersion) -> bool:
        """Whether a version is the one of the bound, as far as that was written."""
        if self.version.early or self.version.written == 3:
            return version == self.version
        return version.numbers[: self.version.written] == self.version.numbers[: self.version.written]


_COMPARE: dict[str, t.Callable[[SemanticVersion, SemanticVersion], bool]] = {
    ">=": lambda one, other: one >= other,
    ">": lambda one, other: one > other,
    "<=": lambda one, other: one <= other,
    "<": lambda one, other: one < other,
}


@dataclasses.dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions that meet all of some bounds; without a bound, all there are."""

    bounds: tuple[Bound, ...] = ()

    def holds(self, version: SemanticVersion) -> bool:
        """Whether a version is in it."""
        return all(bound.holds(version) for bound in self.bounds)

    def __str__(self) -> str:
        return " ".join(f"{sign}{_as_written(version)}" for sign, version in self.bounds) or ANY


def read_range(text: t.Any, where: str) -> VersionRange:
    """The range that a text such as ">=1.29 <1.37" means; an asterisk means all versions."""
    if not isinstance(text, str) or not text.strip():
        raise BadInput("read", where, f'a range of versions such as ">=1.29 <1.37" is needed, not {text!r}')
    if text.strip() == ANY:
        return VersionRange()
    bounds: list[Bound] = []
    place = _skip(text, 0)
    while place < len(text):
        found = _BOUND.match(text, place)
        if found is None:
            raise BadInput("read", where, f"{text!r} is no range of versions: nothing is known about {text[place:]!r}")
        bounds.append(Bound(found["sign"] or "=", read_version(found["version"], where)))
        place = _skip(text, found.end())
    return VersionRange(tuple(bounds))


def _skip(text: str, place: int) -> int:
    """The place behind what separates bounds."""
    found = _BETWEEN.match(text, place)
    return found.end() if found is not None else place


def _as_written(version: SemanticVersion) -> str:
    """A version with as many numbers as it was written with."""
    if version.early:
        return str(version)
    return ".".join(map(str, version.numbers[: version.written]))
