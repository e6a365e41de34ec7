# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was asked of inspections (script, arguments, environment, resources), and where the questions differ."""

from __future__ import annotations

import difflib
import hashlib
import json
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.report.inspections import Fact
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields

_TITLES = {
    "args": "Arguments",
    "interpreter": "Interpreter",
    "workdir": "Working directory",
    "repetitions": "Repetitions",
    "parallelism": "Parallelism",
    "warmup": "Warm-up runs",
    "allowed_failures": "Allowed failures",
    "timeout": "Timeout",
    "output_bytes": "Output kept",
    "hardware": "Hardware asked for",
    "runtime_class": "RuntimeClass",
    "security": "Security",
}
SCRIPT = "Script"
_MOST_LINES = 80
_HASH_LENGTH = 12


def differing_questions(entries: Sequence[Fields]) -> tuple[tuple[Fact, ...], tuple[str, ...]]:
    """Facts of the questions that differ, and for each result how its script differs from the first one's.

    Results that do not hold what was asked have no value; without two that do there is nothing to compare.
    """
    asked = [_asked(entry) for entry in entries]
    if sum(bool(one) for one in asked) < 2:
        return (), ()
    names = list(dict.fromkeys(name for one in asked for name in one))
    facts = [Fact(name, tuple(one.get(name, "absent" if one else "") for one in asked)) for name in names]
    scripts = [_script(entry) for entry in entries]
    return tuple(fact for fact in facts if fact.differs), tuple(_changes(scripts[0], script) for script in scripts)


def _asked(entry: Fields) -> dict[str, str]:
    """What was asked of one inspection, by names for people."""
    specification = entry.get("specification")
    if not isinstance(specification, Mapping):
        return {}
    run = specification.get("run")
    found = {}
    script = specification.get("script")
    if isinstance(script, str):
        digest = hashlib.sha256(script.encode(errors="replace")).hexdigest()[:_HASH_LENGTH]
        lines = len(script.splitlines())
        found[SCRIPT] = f"{lines} line{'' if lines == 1 else 's'}, {digest}"
    if not isinstance(run, Mapping):
        return found
    found |= {title: _text(run[key]) for key, title in _TITLES.items() if run.get(key) not in (None, [], {}, "")}
    found |= {f"Environment: {name}": value for name, value in _environment(run).items()}
    for key in ("resources", "requests"):
        amounts = run.get(key)
        if isinstance(amounts, Mapping):
            found |= {f"Requests: {name}": str(amount) for name, amount in amounts.items()}
    found |= {f"File: {path}": digest for path, digest in _files(run).items()}
    return found


def _environment(run: Mapping[str, t.Any]) -> dict[str, str]:
    """Variables by name; of one that comes from elsewhere its source."""
    found = {}
    for item in run.get("environment") or () if isinstance(run.get("environment"), list) else ():
        if isinstance(item, Mapping) and item.get("name"):
            value = item.get("value")
            found[str(item["name"])] = _text(item.get("valueFrom")) if value is None else str(value)
    plain = run.get("env")
    if isinstance(plain, Mapping):
        found |= {str(name): _text(value) for name, value in plain.items()}
    return found


def _files(run: Mapping[str, t.Any]) -> dict[str, str]:
    """The digests of files by their paths."""
    files = run.get("files")
    return {
        str(item["path"]): str(item.get("sha256") or "")[:_HASH_LENGTH]
        for item in (files if isinstance(files, list) else ())
        if isinstance(item, Mapping) and item.get("path")
    }


def _text(value: t.Any) -> str:
    """A value as text; lists and mappings as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _script(entry: Fields) -> str | None:
    """The script of one inspection, if the result holds it."""
    specification = entry.get("specification")
    script = specification.get("script") if isinstance(specification, Mapping) else None
    return script if isinstance(script, str) else None


def _changes(first: str | None, other: str | None) -> str:
    """The lines in which a script differs from the first; empty when it does not."""
    if first is None or other is None or first == other:
        return ""
    lines = list(difflib.unified_diff(first.splitlines(), other.splitlines(), lineterm="", n=1))[2:]
    more = [f"… {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    return "\n".join([*lines[:_MOST_LINES], *more])
