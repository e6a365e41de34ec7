# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last resize of a gang, as its state remembers it, and the marks that tell how far its object is."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Method
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    INT32,
    Data,
    Fields,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

# How far a resize has come; the last four are ends. A gang is parked when it could not be started at any size. One
# that was planned is missed when no checkpoint came for it.
ResizeStep = t.Literal["planned", "draining", "starting", "verified", "rolled_back", "parked", "missed"]
METHODS: tuple[Method, ...] = t.get_args(Method)
# On an object that gets another size: which patch it has.
RESIZE_ANNOTATION = "muster.kube/resize"
# How the mark of an object ends that was suspended for a resize.
SUSPENDED = ".suspended"


@dataclasses.dataclass(frozen=True, slots=True)
class Resize:
    """From which size to which, how, why and since when; in_vain counts the ones before it that led to nothing.

    began is when the work began that goes on afterwards. lost_seconds is how much work it threw away; 0 too where the
    trainer had told nothing. The rest is about objects that are changed while they are there. id marks their patches.
    back is why the object gets its old size again, empty while it is to have the new one. patched is when an object
    that had been suspended was given its size.
    """

    size: int
    to: int
    method: Method
    why: str
    since: str
    in_vain: int = 0
    began: str | None = None
    lost_seconds: float = 0.0
    id: str = ""
    back: str = ""
    patched: str | None = None

    @property
    def goal(self) -> int:
        """The size that the object is to have."""
        return self.size if self.back else self.to

    @property
    def larger(self) -> int:
        """The size for which room is kept until the end."""
        return max(self.size, self.to)

    @property
    def suspended_mark(self) -> str:
        """What stands on an object that was suspended to be resized."""
        return f"{self._turn}{SUSPENDED}"

    @property
    def sized_mark(self) -> str:
        """What stands on an object that was given its size."""
        return f"{self._turn}.sized"

    @property
    def _turn(self) -> str:
        return f"{self.id}.back" if self.back else self.id

    def as_data(self) -> Data:
        """Plain values from which read_resize makes the same again."""
        told: Data = {"from": self.size, "to": self.to, "method": self.method, "why": self.why, "since": self.since}
        more = {"in_vain": self.in_vain, "began": self.began, "lost_seconds": self.lost_seconds}
        in_place = {"id": self.id, "back": self.back, "patched": self.patched}
        return {**told, **{key: value for key, value in {**more, **in_place}.items() if value}}


def read_resize(value: t.Any, where: str) -> Resize:
    """A resize of plain values; BadInput tells what is wrong with them."""
    fields = Fields(value, where)
    since, began, patched = fields.required_text("since"), fields.text("began"), fields.text("patched")
    for field, text in (("since", since), ("began", began), ("patched", patched)):
        if text is not None and read_time(text) is None:
            raise fields.fail(field, f"{text} is no time")
    return Resize(
        fields.whole("from", 1, INT32 - 1, required=True),
        fields.whole("to", 1, INT32 - 1, required=True),
        fields.choice("method", METHODS, "recreate"),
        fields.text("why") or "",
        since,
        fields.whole("in_vain", 0, INT32 - 1) if "in_vain" in fields.data else 0,
        began,
        fields.number("lost_seconds"),
        fields.text("id") or "",
        fields.text("back") or "",
        patched,
    )
