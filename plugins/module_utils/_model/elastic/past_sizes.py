# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which sizes an elastic gang held, and since when: kept for people beside its transitions; nothing is decided by it.

Transitions tell phases only, the allotment only the present size. A resize takes up to five transitions, so those that
are kept would not tell for long how the sizes came to be.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import METHODS, Resize
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Method
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, Fields
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

# So many entries are kept: a start and a resize in place have two each, a resize by other objects four.
MOST_SIZES = 40
_WHY_LENGTH = 200


@dataclasses.dataclass(frozen=True, slots=True)
class BegunResize:
    """A resize as it was begun; lost_seconds is how much work it threw away, 0 too where nobody had told anything."""

    size: int
    to: int
    method: Method
    why: str
    lost_seconds: float = 0.0

    def as_data(self) -> Data:
        """Plain values, as they are stored and told."""
        told: Data = {"from": self.size, "to": self.to, "method": self.method, "why": self.why}
        return {**told, "lost_seconds": self.lost_seconds}


@dataclasses.dataclass(frozen=True, slots=True)
class PastSize:
    """From when on (server time, RFC 3339) a gang held the room of a size, 0 for none, and the resize begun then.

    While its object gets another size it holds the larger one. running: from then on all its pods had a node.
    """

    at: str
    size: int
    running: bool = False
    resize: BegunResize | None = None

    def as_data(self) -> Data:
        """The entry as it is stored."""
        told: Data = {"at": self.at, "size": self.size}
        if self.running:
            told["running"] = True
        return told if self.resize is None else {**told, "resize": self.resize.as_data()}


def begun(resize: Resize) -> BegunResize:
    """What is kept of a resize that begins."""
    return BegunResize(resize.size, resize.to, resize.method, resize.why[:_WHY_LENGTH], resize.lost_seconds)


def with_size(past: tuple[PastSize, ...], entry: PastSize) -> tuple[PastSize, ...]:
    """The sizes with one more, unless it tells nothing new; a gang that never had one has no entries."""
    last = past[-1].size if past else 0
    if entry.size == last and not entry.running and entry.resize is None:
        return past
    return (*past, entry)[-MOST_SIZES:] if past or entry.size else past


def read_past_sizes(value: t.Any) -> tuple[PastSize, ...]:
    """The sizes that a state carries; what is damaged is left out, since nothing is decided by it."""
    entries = value if isinstance(value, list) else []
    found = (_entry(item) for item in entries[-MOST_SIZES:] if isinstance(item, Mapping))
    return tuple(entry for entry in found if entry is not None)


def _entry(item: Mapping[str, t.Any]) -> PastSize | None:
    """One entry; None for a damaged one."""
    fields = Fields(item, "sizes")
    try:
        at, size = fields.required_text("at"), fields.whole("size", 0, INT32 - 1, required=True)
        resize = None if fields.get("resize") is None else _resize(Fields(fields.mapping("resize"), "sizes"))
        return None if read_time(at) is None else PastSize(at, size, fields.flag("running"), resize)
    except BadInput:
        return None


def _resize(fields: Fields) -> BegunResize:
    """The resize that an entry tells of."""
    why = fields.get("why")
    return BegunResize(
        fields.whole("from", 1, INT32 - 1, required=True),
        fields.whole("to", 1, INT32 - 1, required=True),
        fields.choice("method", METHODS, None),
        why[:_WHY_LENGTH] if isinstance(why, str) else "",
        fields.number("lost_seconds"),
    )
