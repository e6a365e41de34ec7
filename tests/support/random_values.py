# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values that nobody would write on purpose, and data that are right but for one of them."""

from __future__ import annotations

import copy
import random
import typing as t

Path = tuple[str | int, ...]

TEXTS = (
    *("", " ", "0", "-1", "1e9999", "NaN", "null", "true", "~", "{}", "[", "{{ x }}", "a: b: c", "- a\nb", "\t"),
    *(
        "\x00",
        "a\x00b",
        "\ud800",
        "\udcff",
        "\u202e",
        "ｅ",
        "é" * 300,
        "x" * 70_000,
        "a/b/c",
        "../../x",
        "/",
        "%s%n",
        "1h30",
        "-5m",
    ),
    *(
        "9" * 400,
        "1" * 5000,
        "0x10",
        "1_000",
        "١٢",
        "inf",
        "2Gi",
        "500m",
        "1e3",
        "!!python/object:os.system",
        "&a [*a]",
        "*a",
    ),
)
NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.0, -0.0, 1.5, 1e308, 5e-324, True, False)


def encodable(value: t.Any) -> t.Any:
    """The value without halves of characters, which Ansible itself refuses before any module is asked."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    return [encodable(item) for item in value] if isinstance(value, list) else value


def odd_value(chance: random.Random, depth: int = 3) -> t.Any:
    """Any value that JSON can carry."""
    kind = chance.randrange(10 if depth else 7)
    if kind < 3:
        return chance.choice(TEXTS)
    if kind < 5:
        return chance.choice(NUMBERS)
    if kind == 5:
        return None
    if kind == 6:
        return "".join(
            chr(chance.choice((chance.randrange(32, 127), chance.randrange(0x250))))
            for _round in range(chance.randrange(12))
        )
    if kind == 7:
        return [odd_value(chance, depth - 1) for _round in range(chance.randrange(4))]
    if kind == 8:
        return {str(odd_value(chance, 0)): odd_value(chance, depth - 1) for _round in range(chance.randrange(4))}
    return deep(chance)


def deep(chance: random.Random) -> t.Any:
    """Lists or mappings within each other, deeper than anybody needs."""
    value: t.Any = chance.choice(TEXTS)
    for _round in range(chance.choice((5, 50, 150))):
        value = [value] if chance.random() < 0.5 else {"a": value}
    return value


def places(value: t.Any, here: Path = ()) -> list[Path]:
    """The paths of all parts of a value."""
    found: list[Path] = []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        found += [(*here, key), *places(item, (*here, key))]
    return found


def damage(chance: random.Random, good: t.Any) -> tuple[t.Any, Path]:
    """The value with one part replaced, removed or repeated, or one that nobody knows added; and where."""
    changed = copy.deepcopy(good)
    path = chance.choice(places(changed))
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    how = chance.random()
    if how < 0.75:
        holder[path[-1]] = odd_value(chance)
    elif how < 0.85:
        del holder[path[-1]]
    elif isinstance(holder, list):
        holder += [copy.deepcopy(holder[path[-1]])] * chance.choice((1, 30))
    else:
        key = chance.choice(("unknown", "", "Name", "x" * 300, "\udcff"))
        holder[key] = odd_value(chance)
        path = (*path[:-1], key)
    return changed, path
