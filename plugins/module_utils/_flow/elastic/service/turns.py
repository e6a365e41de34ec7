# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Questions about the whole cluster are answered few at a time, so that reports find memory and threads."""

from __future__ import annotations

import contextlib
import threading
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.refusals import Declined

# Fewer than the threads of the service.
TURNS = 3


class Turns:
    """Lets some do something at a time; the others are told to come again."""

    def __init__(self, most: int = TURNS) -> None:
        """Nobody does it yet."""
        self._free = threading.BoundedSemaphore(most)

    @contextlib.contextmanager
    def one(self) -> t.Iterator[None]:
        """One of them, as long as the block lasts; 503 where too many are at it."""
        if not self._free.acquire(blocking=False):
            raise Declined(503, "others ask about the whole cluster just now; ask again", headers={"Retry-After": "1"})
        try:
            yield
        finally:
            self._free.release()
