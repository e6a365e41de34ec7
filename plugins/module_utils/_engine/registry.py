# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engines there are, by name: another one is one file and one entry."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Embedded
from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import Engine
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease


class EngineClass(t.Protocol):
    """Makes the engine of one holder of the Lease."""

    def __call__(
        self, client: KubeClient, lease: DispatchLease, act_as: Callable[[str], KubeClient], now: Callable[[], str]
    ) -> Engine:
        """act_as gives the client for user objects of a namespace, now the server's time as RFC 3339 text."""


ENGINES: dict[str, EngineClass] = {"embedded": Embedded}
