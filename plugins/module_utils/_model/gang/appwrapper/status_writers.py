# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who else writes the status of an AppWrapper: two controllers over one wrapper would start its objects twice."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

OWN_MANAGER = "muster.kube"
# On first sight a writer that was active within this time counts as alive.
RECENT_SECONDS = 300.0


def foreign_status_writer(raw: Mapping[str, t.Any], now: float) -> str | None:
    """The name of another controller that wrote the status after us, or lately if we never did; None if there is none.

    A wrapper without any condition was touched by nobody: kubectl leaves entries too, but none about the status.
    """
    entries = [item for item in raw["metadata"].get("managedFields") or () if item.get("subresource") == "status"]
    ours = max((_time(item) for item in entries if item.get("manager") == OWN_MANAGER), default=None)
    for item in entries:
        if item.get("manager") == OWN_MANAGER:
            continue
        written = _time(item)
        if written > (now - RECENT_SECONDS if ours is None else ours):
            return str(item.get("manager"))
    return None


def _time(entry: Mapping[str, t.Any]) -> float:
    """When an entry was last written; one without a time is old."""
    return read_time(entry.get("time")) or 0.0
