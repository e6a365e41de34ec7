# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bell: rings when something a cycle decides on has changed, so that a run reacts at once."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Hashable

from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import PHASE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions


class ChangeSignal:
    """Rings until it is silenced; mirrors ring it."""

    def __init__(self) -> None:
        """Nothing rang yet."""
        self._rung = threading.Event()

    def ring(self) -> None:
        """There is something to look at."""
        self._rung.set()

    def silence(self) -> None:
        """Forget what rang so far: a cycle that begins now sees it."""
        self._rung.clear()

    def wait(self, longest: float, *, at_least: float) -> None:
        """Rest until it rings, but some time in any case, so that what changes together is seen together."""
        time.sleep(min(at_least, longest))
        self._rung.wait(max(0.0, longest - at_least))


def record_essence(terms: DispatchOptions, identity: str) -> Callable[[Record], Hashable]:
    """What of a record rings: all but what this holder itself writes into it, and nothing of other namespaces."""

    def essence(record: Record) -> t.Hashable:
        if terms.namespaces is not None and record.namespace not in terms.namespaces:
            return None
        writer = record.state.write_id if record.state is not None else ""
        foreign = "" if writer.startswith(f"{identity}/") else writer
        # The label of the phase is written with the state, and only repeats it.
        labels = tuple(sorted(item for item in record.labels.items() if item[0] != PHASE_LABEL))
        raw = record.raw
        contents = str(raw.get("data")) if "data" in raw else raw["metadata"].get("generation")
        return record.uid, record.terminating, labels, contents, foreign

    return essence
