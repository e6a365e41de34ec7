# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What became of an entry of the batch: pure, from the state its record has now."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.batch import Entry
from ansible_collections.muster.kube.plugins.module_utils._model.state import GangState

Standing = t.Literal["not_begun", "open", "over"]


def standing_of(entry: Entry, state: GangState | None) -> Standing:
    """How far an entry is whose record exists.

    not_begun: the record was not touched since the commit. open: the start goes on, or its pods are not bound yet.
    over: the pods are bound, or the gang ended, was undone or refused.
    """
    if entry.abandoned:
        return "over"
    if state is None or state.attempt < entry.attempt:
        return "not_begun"
    if state.attempt > entry.attempt:
        return "over"
    carried = state.batch == entry.batch
    if entry.op == "start":
        if state.phase == "queued":
            return "over" if carried else "not_begun"
        return "open" if state.phase in ("dispatching", "dispatched") else "over"
    return "over" if carried or state.phase not in ("dispatching", "dispatched", "running") else "not_begun"
