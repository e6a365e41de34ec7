# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two versions of an object: whether one holds what the other says, and in which parts they differ."""

from __future__ import annotations

import typing as t

Object = dict[str, t.Any]

# What the API server keeps about an object, whoever wrote the rest.
_SERVER_METADATA = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
# Where kubectl keeps the whole of what it applied.
_NOTED = "kubectl.kubernetes.io/last-applied-configuration"
_HIDDEN = "(not shown)"
_HIDDEN_AFTER = "(not shown, other than before)"


def covers(live: t.Any, wanted: t.Any) -> bool:
    """True when live holds everything that wanted says; the API server may have added more."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(key in live and covers(live[key], item) for key, item in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(covers, live, wanted))
    return bool(live == wanted)


def described_part(obj: Object) -> Object:
    """An object without its status and without what only the API server writes."""
    kept = {key: value for key, value in obj.items() if key != "status"}
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SERVER_METADATA}
    return {**kept, "metadata": metadata}


def differing_parts(before: Object, after: Object) -> tuple[Object, Object]:
    """Of both only the fields in which they differ; lists are shown whole, since their order counts."""
    one: Object = {}
    other: Object = {}
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if key in before and key in after and old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            one[key], other[key] = differing_parts(old, new)
            continue
        one.update({key: old} if key in before else {})
        other.update({key: new} if key in after else {})
    return one, other


def without_secrets(kind: t.Any, before: Object, after: Object) -> tuple[Object, Object]:
    """Two versions of an object for everybody to see: of Secrets the names of their values only."""
    if kind != "Secret":
        return before, after
    return _hidden(before, {}), _hidden(after, before)


def _hidden(obj: Object, other: Object) -> Object:
    """An object with its secret values replaced by whether they differ from those of the other."""
    shown = dict(obj)
    metadata = obj.get("metadata") or {}
    if _NOTED in (metadata.get("annotations") or {}):
        shown["metadata"] = {**metadata, "annotations": {**metadata["annotations"], _NOTED: _HIDDEN}}
    for field in ("data", "stringData"):
        values, others = obj.get(field), other.get(field)
        if isinstance(values, dict):
            known = others if isinstance(others, dict) else {}
            shown[field] = {key: _HIDDEN_AFTER if key in known else _HIDDEN for key in values}
        elif values is not None:
            shown[field] = _HIDDEN
    return shown
