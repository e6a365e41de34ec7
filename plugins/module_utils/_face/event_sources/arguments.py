# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments of event sources: what all of them share, read from what a rulebook says."""

from __future__ import annotations

import os
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.libraries import check_libraries
from ansible_collections.muster.kube.plugins.module_utils._flow.events.collection import SourceEnd
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields

# ansible-rulebook puts this beside the arguments where feedback is asked for.
_OF_THE_ENGINE = ("eda_feedback_queue",)
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "str": str,
    "path": str,
    "bool": bool,
    "dict": Mapping,
    "list": list,
    "raw": (str, Mapping),
}


def source_fields(source: str, args: t.Any, known: Sequence[str]) -> Fields:
    """The arguments of a source; unknown ones are refused, and empty texts are as if they were not there."""
    fields = Fields({} if args is None else args, f"the arguments of muster.kube.{source}")
    given = {key: value for key, value in fields.data.items() if key not in _OF_THE_ENGINE and value not in (None, "")}
    fields = Fields(given, fields.where)
    fields.only([*known, *_connection_names()])
    return fields


def texts(fields: Fields, key: str) -> tuple[str, ...]:
    """A list of texts; one alone may stand without a list around it."""
    value = fields.get(key)
    found = [value] if isinstance(value, str) else fields.sequence(key)
    for index, text in enumerate(found):
        if not isinstance(text, str) or not text:
            raise fields.fail(f"{key}[{index}]", f"a text is needed, not {text!r}")
    return tuple(found)


def flag_of(fields: Fields, key: str, default: bool) -> bool:
    """True or false."""
    return default if fields.get(key) is None else fields.flag(key)


def open_source_client(fields: Fields, end: SourceEnd) -> KubeClient:
    """A client by the connection options among the arguments, whose pauses end with the source."""
    check_libraries()
    return connect(_connection(fields), sleep=end.sleep)


def _connection_names() -> list[str]:
    """The names of the connection options and their other names."""
    spec = auth_argument_spec()
    return [name for option, entry in spec.items() for name in (option, *entry.get("aliases", ()))]


def _connection(fields: Fields) -> dict[str, t.Any]:
    """The connection options that are given, by their first names."""
    found: dict[str, t.Any] = {}
    for option, entry in auth_argument_spec().items():
        for name in (option, *entry.get("aliases", ())):
            value = fields.get(name)
            if value is None:
                continue
            if not isinstance(value, _TYPES[entry["type"]]):
                raise fields.fail(name, f"it is of the wrong type, {entry['type']} is needed")
            if option in found:
                raise BadInput("read", f"{fields.where}: {name}", f"it is given twice, as {option} too")
            found[option] = os.path.expanduser(str(value)) if entry["type"] == "path" else value
    return found
