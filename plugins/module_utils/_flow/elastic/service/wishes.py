# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A wish for another size of a job, as its record keeps it until it is over, and how far it is."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import ResizeStep
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import told_resize
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    Data,
    Fields,
    canonical_json,
    parse_json,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

SCALE_ANNOTATION = "muster.kube/scale"
# Times in states are whole seconds.
_ROUNDED = 1.0
# It stands in addresses.
_ID = re.compile("[0-9a-f]{1,64}")
_ENDS: tuple[ResizeStep, ...] = ("verified", "rolled_back", "parked", "missed")


@dataclasses.dataclass(frozen=True, slots=True)
class ScaleWish:
    """Somebody's wish, known by its id; the first resize since the moment is the one that is meant."""

    id: str
    at: str

    def as_text(self) -> str:
        """The annotation."""
        return canonical_json({"format": 1, "id": self.id, "at": self.at})


def read_wish(record: Record) -> ScaleWish | None:
    """The last wish that a record keeps; None without one, or where somebody damaged it."""
    text = (record.raw["metadata"].get("annotations") or {}).get(SCALE_ANNOTATION)
    if text is None:
        return None
    try:
        fields = Fields(parse_json(text, SCALE_ANNOTATION), SCALE_ANNOTATION)
        found = ScaleWish(fields.required_text("id"), fields.required_text("at"))
    except BadInput:
        return None
    return found if _ID.fullmatch(found.id) and read_time(found.at) is not None else None


class WishState(t.NamedTuple):
    """How far a wish is; done when nothing more becomes of it."""

    step: str
    done: bool
    resize: Data


def wish_state(record: Record, wish: ScaleWish) -> WishState:
    """How far the resize has come that a wish meant; `asked` until a dispatcher has begun one."""
    resize = told_resize(record.state) or {}
    since, asked = read_time(str(resize.get("since") or "")), read_time(wish.at)
    if since is None or asked is None or since < asked - _ROUNDED:
        return WishState("over" if record.finished else "asked", record.finished, {})
    step = str(resize["step"])
    return WishState(step, step in _ENDS or record.finished, resize)
