# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server's clock: ages are reckoned in the time of the cluster, whatever this machine's clock shows."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError

# The header carries whole seconds; a larger difference means that somebody set the server's clock.
_TOLERANCE = 2.0


class ServerClock:
    """Epoch seconds as the API server counts them; between answers it goes on with the steady clock."""

    def __init__(
        self,
        client: KubeClient,
        steady: t.Callable[[], float] = time.monotonic,
        wall: t.Callable[[], float] = time.time,
    ) -> None:
        """Nothing is asked; the client must have had an answer before the first reading."""
        self._client = client
        self._steady = steady
        self._wall = wall
        self._offset: float | None = None
        self._last = 0.0

    def now(self) -> float:
        """The time now; it never goes backwards within one run."""
        shown = self._client.server_time
        if shown is None:
            raise KubeError("tell", "the time of the cluster", "the API server has not answered yet")
        ours = self._steady()
        told = shown.timestamp()
        if self._offset is None or not -_TOLERANCE < told - (ours + self._offset) < _TOLERANCE:
            self._offset = told - ours
        self._last = max(self._last, ours + self._offset)
        return self._last

    def stamp(self) -> float:
        """The time now as finely as it can be told, to keep apart what is written within one second.

        Headers know whole seconds only, so processes that write one after the other would be in no order. This
        machine's clock knows more, and is used where it agrees with the server's.
        """
        now, ours = self.now(), self._wall()
        return ours if -_TOLERANCE < ours - now < _TOLERANCE else now
