# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counts the calls of the collection's own functions, by file and name."""

from __future__ import annotations

import collections
import sys
import types
import typing as t

_OURS = "plugins/module_utils/"


class CallTracer:
    """Counts inside a with block, in the thread that entered it; a generator counts once, however often it goes on."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self.counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self._generators: set[int] = set()
        self._frames: list[types.FrameType] = []

    def __enter__(self) -> CallTracer:
        """Begin."""
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_exception: object) -> None:
        """End."""
        sys.setprofile(None)
        self._frames.clear()

    def _note(self, frame: types.FrameType, event: str, _argument: t.Any) -> None:
        """One event of the interpreter."""
        code = frame.f_code
        if event != "call" or _OURS not in code.co_filename or code.co_name.startswith("<"):
            return
        if code.co_flags & 0x20:
            if id(frame) in self._generators:
                return
            # Kept alive, so that no other frame takes its place.
            self._generators.add(id(frame))
            self._frames.append(frame)
        self.counts[code.co_filename.partition(_OURS)[2], code.co_qualname] += 1

    @property
    def calls(self) -> int:
        """All of them."""
        return self.counts.total()

    @property
    def files(self) -> set[str]:
        """The files whose functions were called."""
        return {file for file, _name in self.counts}

    def of(self, name: str) -> int:
        """How often a function of this name was called, wherever it is defined."""
        return sum(count for (_file, known), count in self.counts.items() if known == name)
