# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The terms of a decision about sizes that a task asks for."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions


@dataclasses.dataclass(frozen=True, slots=True)
class BalanceOptions:
    """For which namespaces sizes are decided (None: all), the settings that are given, and for how long it is waited.

    The settings are kept beside the Lease, for all dispatchers; those that are not given stay as they are.
    """

    lease: LeaseOptions = dataclasses.field(default_factory=LeaseOptions)
    namespaces: tuple[str, ...] | None = None
    settings: Data = dataclasses.field(default_factory=dict)
    wait: bool = True
    wait_timeout: float = 600.0
    check_mode: bool = False

    def dispatch(self, duration: float | None, lease_wait: float = 0.0) -> DispatchOptions:
        """A run that only resizes; it removes nothing that another dispatcher may want to keep."""
        return DispatchOptions(
            lease=self.lease,
            lease_wait=lease_wait,
            namespaces=self.namespaces,
            duration=duration,
            keep_finished=None,
            keep_finished_for=None,
            sizes_only=True,
        )
