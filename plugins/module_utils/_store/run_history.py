# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history of run times in one ConfigMap beside the Lease: read once, written now and then.

It only makes estimates better, so that losing a part of it is harmless and no trouble with it stops anything.
"""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, Invalid, KubeError, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Ownership
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import ended_at
from ansible_collections.muster.kube.plugins.module_utils._model.gang.history import (
    HISTORY_KEY,
    HISTORY_LABEL,
    HISTORY_NAME,
    RunTimes,
    Work,
    read_run_times,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import work_began
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reserve import (
    name_prefix,
    usual_run_time,
)
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import ObjectStore

Object = dict[str, t.Any]

# Gangs that complete within this time share one write.
SAVE_SECONDS = 10.0


def run_of(record: Record) -> tuple[Work, float] | None:
    """What kind of work a completed gang was and how long it ran; None for any other."""
    state, spec = record.state, record.spec
    if state is None or spec is None or state.phase != "complete":
        return None
    began, ended = read_time(work_began(state)), ended_at(state)
    if began is None or ended is None or ended <= began:
        return None
    return (spec.queue, name_prefix(spec.name)), ended - began


class History:
    """What is known of run times, and what of it the ConfigMap does not say yet."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        # A write that does not succeed soon is left to the next time.
        self._maps = ObjectStore(client, tries=2)
        self._namespace = namespace
        self._known: RunTimes | None = None
        self._usual: dict[Work, float] = {}
        self._unsaved: list[tuple[Work, float]] = []
        self._saved = client.clock()
        self._may_write = True

    def usual(self) -> t.Mapping[Work, float]:
        """What nine of ten runs of each kind of work stayed within."""
        self._load()
        return self._usual

    def note(self, record: Record) -> None:
        """Remember how long a gang ran that has just completed."""
        run = run_of(record)
        if run is not None:
            self._load().note(*run)
            self._usual[run[0]] = usual_run_time(self._load().of(run[0]))
            if self._may_write:
                self._unsaved.append(run)

    def save(self, *, at_once: bool = False) -> None:
        """Write what is new, if the last write was long enough ago; where that cannot be, it is not tried again."""
        due = at_once or self._client.clock() >= self._saved + SAVE_SECONDS
        if not self._unsaved or not self._may_write or not due:
            return
        self._saved = self._client.clock()
        try:
            self._write()
        except (Forbidden, Invalid, NotFound, BadInput):
            self._may_write = False
        except KubeError:
            # It was changed meanwhile, or the server does not answer: the next save tries again.
            return
        self._unsaved = []

    def _write(self) -> None:
        """Add what is new to what the ConfigMap says now: dispatchers of other namespaces write it too."""
        found = self._maps.read(self._namespace, HISTORY_NAME)
        times = read_run_times((found or {}).get("data"))
        for run in self._unsaved:
            times.note(*run)
        data = {HISTORY_KEY: times.text()}
        if found is not None:
            self._maps.replace(found, {**found, "data": data}, data[HISTORY_KEY], _text_of)
            return
        metadata = {"name": HISTORY_NAME, "namespace": self._namespace, "labels": {HISTORY_LABEL: "true"}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        self._maps.create(body, lambda other: Ownership.OURS if other.get("data") == data else Ownership.FOREIGN)

    def _load(self) -> RunTimes:
        """What is known; the ConfigMap is read once."""
        if self._known is None:
            try:
                found = self._maps.read(self._namespace, HISTORY_NAME)
            except KubeError:
                found = None
            self._known = read_run_times((found or {}).get("data"))
            self._usual = {work: usual_run_time(runs) for work, runs in self._known if runs}
        return self._known


def _text_of(raw: Object) -> str | None:
    """What a ConfigMap says of run times."""
    return (raw.get("data") or {}).get(HISTORY_KEY)
