# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What sections about gangs read in the same way from what gang_info and its like return."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity, scaled
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import LAST_MOMENT, read_time


def gang_key(entry: Fields) -> tuple[str, str]:
    """Namespace and name of the gang an entry is about; decisions may write both as one."""
    name = words_of(entry, "name") or words_of(entry, "gang")
    if not name:
        raise entry.fail("name", "it is missing; entries as returned by gang_info or dispatch are needed")
    namespace = words_of(entry, "namespace")
    if not namespace and "/" in name:
        namespace, _slash, name = name.partition("/")
    return namespace, name


def words_of(entry: Fields, key: str) -> str:
    """A text, empty when missing; numbers are taken as they look."""
    value = entry.get(key)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise entry.fail(key, f"a text is needed, this is a {type(value).__name__}")
    return str(value)


def moment_of(entry: Fields, key: str) -> float:
    """A moment: RFC 3339 as the API server writes it, as YAML prints it, or seconds since 1970."""
    value = entry.get(key)
    if isinstance(value, str):
        seconds = read_time(re.sub(r"^([-\d]{10}) ", r"\1T", value.strip()))
        if seconds is None and re.fullmatch(r"\d+(\.\d+)?", value.strip()):
            seconds = float(value)
    else:
        seconds = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if seconds is None or not 0 <= seconds <= LAST_MOMENT:
        wanted = f"a time such as 2026-01-31T12:00:00Z is needed, not {value!r}"
        raise entry.fail(key, "it is missing" if value is None else wanted)
    return seconds


def read_at(gangs: Iterable[Fields]) -> float | None:
    """When gang_info read the gangs, to the second: it gives how long each has been in its present phase."""
    moments = []
    for entry in gangs:
        timeline = entry.sequence("timeline")
        last = Fields(timeline[-1], f"{entry.where}.timeline[{len(timeline) - 1}]") if timeline else None
        if last is not None and last.get("seconds") is not None:
            moments.append(math.floor(moment_of(last, "at") + last.number("seconds")))
    return max(moments, default=None)


def capacity_of(section: Fields) -> dict[str, int]:
    """What all nodes have, in scaled units."""
    found = {}
    for name, amount in section.mapping("capacity").items():
        try:
            found[str(name)] = scaled(str(name), parse_quantity(amount))
        except (BadInput, TypeError) as error:
            raise section.fail(f"capacity.{name}", f"a quantity such as 8 or 64Gi is needed, not {amount!r}") from error
    return found


def demand_of(entry: Fields) -> dict[str, int]:
    """What all pods of a gang ask for, by the podsets of gang_info; empty when it has none."""
    spec = entry.get("spec")
    podsets = spec.get("podsets") if isinstance(spec, Mapping) else None
    total: dict[str, int] = {}
    for podset in podsets if isinstance(podsets, list) else ():
        requests = podset.get("requests") if isinstance(podset, Mapping) else None
        count = podset.get("count") if isinstance(podset, Mapping) else None
        if not isinstance(requests, Mapping) or not isinstance(count, int):
            continue
        for name, amount in requests.items():
            try:
                total[str(name)] = total.get(str(name), 0) + count * scaled(str(name), parse_quantity(amount))
            except (BadInput, TypeError):
                continue
    return total
