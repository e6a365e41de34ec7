# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server's clock: ages are reckoned in the time of the cluster, whatever this machine's clock shows."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.clock_readings import TOLERANCE
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError


class ServerClock:
    """Epoch seconds as the API server counts them; between answers it goes on with the client's steady clock."""

    def __init__(self, client: KubeClient, wall: t.Callable[[], float] = time.time) -> None:
        """Nothing is asked; the client must have had an answer before the first reading."""
        self._client = client
        self._readings = client.readings
        self._wall = wall

    @property
    def certain(self) -> bool:
        """Whether enough answers agreed on the time; before that it is the best guess."""
        return self._readings.certain

    def now(self) -> float:
        """The time now; once it is certain it goes backwards only where the server's clock was set back.

        If it stood still until that clock has caught up, a caller that pauses for seconds would wait for as long.
        """
        offset = self._readings.offset
        if offset is None:
            raise KubeError("tell", "the time of the cluster", "the API server has not answered yet")
        return self._client.clock() + offset

    def sure(self) -> float | None:
        """The time that has certainly come, for limits after which something is taken away; None when that is unknown.

        A clock that jumped ahead does not count until it has been right for some minutes.
        """
        ours = self._client.clock()
        offset = self._readings.slowest(ours)
        return None if offset is None else ours + offset

    def stamp(self) -> float:
        """The time now as exactly as possible, to order what is written within one second.

        Headers know whole seconds only, so processes that write one after the other would be in no order. This
        machine's clock knows more, and is used where it agrees with the server's.
        """
        now, ours = self.now(), self._wall()
        return ours if -TOLERANCE < ours - now < TOLERANCE else now
