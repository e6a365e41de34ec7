# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What no upgrade may do: go back to an older version, or take away a version of an API that is stored or in use."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import value_at

Object = Mapping[str, t.Any]
_VERSION = re.compile(r"v?(?P<numbers>[0-9]+(\.[0-9]+)*)(?:-(?P<early>[^+]+))?(?:\+.*)?")


def is_downgrade(before: str | None, after: str | None) -> bool:
    """Whether a version is older than the one before it; of those that are no numbers nobody knows."""
    old, new = _read(before), _read(after)
    return old is not None and new is not None and new < old


def _read(version: str | None) -> tuple[t.Any, ...] | None:
    """A version to be compared: one that comes before a release is older than it."""
    found = _VERSION.fullmatch(version or "")
    if found is None:
        return None
    numbers = [int(number) for number in found["numbers"].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    early = re.split(r"[.-]", found["early"]) if found["early"] else []
    parts = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in early)
    return tuple(numbers), not parts, parts


def served_versions(crd: Object) -> tuple[str, ...]:
    """The versions in which objects of a defined kind can be read and written."""
    return tuple(str(item["name"]) for item in value_at(crd, ("spec", "versions")) or () if item.get("served"))


def vanishing_stored(live: Object, coming: Object) -> tuple[str, ...]:
    """The versions in which objects may be stored that a new definition does not know any more."""
    known = {item.get("name") for item in value_at(coming, ("spec", "versions")) or ()}
    return tuple(str(name) for name in value_at(live, ("status", "storedVersions")) or () if name not in known)


def vanishing_served(live: Object, coming: Object) -> tuple[str, ...]:
    """The versions that a new definition does not serve any more."""
    served = served_versions(coming)
    return tuple(name for name in served_versions(live) if name not in served)


def users_of(api_versions: Iterable[str], obj: Object) -> tuple[str, ...]:
    """Who wrote an object in one of these versions, by the names of field managers."""
    wanted = set(api_versions)
    managers = value_at(obj, ("metadata", "managedFields")) or ()
    return tuple(dict.fromkeys(str(item.get("manager")) for item in managers if item.get("apiVersion") in wanted))
