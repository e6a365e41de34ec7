# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options that say what a gang is made of: its objects, or podsets declared instead."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._face.face import Params, Spec
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import without_none

_PODSET: Spec = {
    "name": {"type": "str"},
    "count": {"type": "int", "default": 1},
    "requests": {"type": "dict"},
    "limits": {"type": "dict"},
    "spec": {"type": "dict"},
    "labels": {"type": "dict"},
}
_SOURCE: Spec = {
    "name": {"type": "str"},
    "namespace": {"type": "str"},
    "definition": {"type": "raw", "aliases": ["inline", "objects"]},
    "src": {"type": "path"},
    "podsets": {"type": "list", "elements": "dict", "options": _PODSET},
}


def source_argument_spec() -> Spec:
    """The options of a task about one gang that is not queued: its namespace, and what it is made of."""
    return {name: option for name, option in _SOURCE.items() if name != "name"}


def one_or_many_gangs(
    settings: Spec, needed: tuple[str, ...], *, listed: str = "gangs", declared: bool = True
) -> tuple[Spec, dict[str, t.Any]]:
    """Options and rules of a task with one gang at the top level, or a list of gangs in the option listed.

    Each gang may have these settings, and must have one of the needed options; declared ones may have podsets instead
    of objects.
    """
    source = {name: option for name, option in _SOURCE.items() if declared or name != "podsets"}
    one = {**source, **settings}
    apart = [("definition", "src")]
    rules = {"mutually_exclusive": apart, "required_one_of": [needed]}
    beside = [(listed, name) for name in ("definition", "src", "podsets", "name") if name in source]
    return (
        {**one, listed: {"type": "list", "elements": "dict", "options": one, **rules}},
        {"mutually_exclusive": [*apart, *beside], "required_one_of": [(listed, *needed)]},
    )


def gang_entries(params: Params, listed: str = "gangs") -> t.Sequence[Params]:
    """The options of each gang of a task."""
    return [params] if params[listed] is None else params[listed]


def gang_source(entry: Params, namespace: str | None) -> GangSource:
    """The source behind validated options; namespace is what holds for entries that name none."""
    podsets = entry.get("podsets")
    return GangSource(
        name=entry["name"],
        namespace=entry["namespace"] or namespace,
        definition=entry["definition"],
        src=entry["src"],
        podsets=None if podsets is None else tuple(without_none(item) for item in podsets),
    )
