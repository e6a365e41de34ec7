# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event source watch: its arguments, and how it runs."""

from __future__ import annotations

import logging
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._face.event_sources.arguments import (
    flag_of,
    open_source_client,
    source_fields,
    texts,
)
from ansible_collections.muster.kube.plugins.module_utils._face.event_sources.handover import EventQueue, serve
from ansible_collections.muster.kube.plugins.module_utils._flow.events.collection import SourceEnd
from ansible_collections.muster.kube.plugins.module_utils._flow.events.observed import CHANGE_TYPES, Path, ToldFields
from ansible_collections.muster.kube.plugins.module_utils._flow.events.watch import (
    WatchedKind,
    WatchOptions,
    watch_work,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields

_LOG = logging.getLogger("muster.kube.watch")

# What may be said of all kinds together, or of one.
_OF_A_KIND = ("namespaces", "label_selectors", "field_selectors", "types", "fields", "when_changed")
_KNOWN = ("kinds", "existing", *_OF_A_KIND)
_DOT = re.compile(r"(?<!\\)\.")


async def serve_watch(queue: EventQueue, args: t.Any) -> None:
    """Put an event for each change into the queue until the task is cancelled."""
    fields = source_fields("watch", args, _KNOWN)
    options, end = read_watch(fields), SourceEnd()
    await serve(watch_work(open_source_client(fields, end), end, options, _LOG.warning), queue)


def read_watch(fields: Fields) -> WatchOptions:
    """What the arguments say."""
    entries = fields.sequence("kinds")
    if not entries:
        raise fields.fail("kinds", "it is missing; name at least one kind")
    kinds = [_read_kind(fields, entry, index) for index, entry in enumerate(entries)]
    return WatchOptions(kinds, flag_of(fields, "existing", True))


def _read_kind(fields: Fields, entry: t.Any, index: int) -> WatchedKind:
    """One kind; what it does not say is as for all of them."""
    own = Fields(entry, f"{fields.where}: kinds[{index}]")
    own.only(("api_version", "kind", *_OF_A_KIND))
    said = {key: own if own.get(key) is not None else fields for key in _OF_A_KIND}
    paths = _paths(said["fields"], "fields")
    return WatchedKind(
        own.text("api_version") or "v1",
        own.required_text("kind"),
        texts(said["namespaces"], "namespaces"),
        ",".join(texts(said["label_selectors"], "label_selectors")) or None,
        ",".join(texts(said["field_selectors"], "field_selectors")) or None,
        _types(said["types"]),
        ToldFields(paths or None, _paths(said["when_changed"], "when_changed")),
    )


def _types(fields: Fields) -> t.Any:
    """Which changes are told."""
    found = texts(fields, "types") or CHANGE_TYPES
    for word in found:
        if word not in CHANGE_TYPES:
            raise fields.fail("types", f"{word!r} is none of {', '.join(CHANGE_TYPES)}")
    return found


def _paths(fields: Fields, key: str) -> list[Path]:
    """Fields with dots between their names; a dot that belongs to a name has a backslash before it."""
    found = [tuple(part.replace("\\.", ".") for part in _DOT.split(text)) for text in texts(fields, key)]
    for path in found:
        if not all(path):
            raise fields.fail(key, f"{'.'.join(path)!r} is no field; write it like status.phase")
    return found
