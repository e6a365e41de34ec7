# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode of elastic jobs: the size each would get, and which running jobs would become smaller for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import (
    ForeseenStart,
    Shrink,
    foresee_starts,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangOptions, GangOutcome
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.submit import demand_grew, merged_body
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import (
    SUBMITTED_ANNOTATION,
    build_record,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_of_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions

_REMOVED_FIRST = "its size, and who becomes smaller for it: the gang that is there is removed first"
_Coming = dict[tuple[str, str], Record]


def foresee_jobs(client: KubeClient, options: GangOptions, outcomes: Sequence[GangOutcome]) -> tuple[GangOutcome, ...]:
    """The outcomes; those of jobs that would wait tell what the next cycle of a dispatcher would come to for them."""
    waiting = [item for item in outcomes if _would_wait(item)]
    if not waiting:
        return tuple(outcomes)
    # Any answer tells the server's time.
    find_resource(client, "v1", "ConfigMap")
    now = ServerClock(client).now()
    coming = {
        (item.namespace, item.name): record
        for turn, item in enumerate(waiting)
        if (record := _record(item, turn, now)) is not None
    }
    found, note = _asked(client, options, coming) if coming else ({}, None)
    named = None if note is None else {item.namespace for item in outcomes}
    return tuple(
        _told(item, coming.get((item.namespace, item.name)), found, note, named) if item in waiting else item
        for item in outcomes
    )


def _would_wait(outcome: GangOutcome) -> bool:
    """Whether the preview looked at the gang as one that waits."""
    return outcome.extra.get("phase") == "queued"


def _record(outcome: GangOutcome, turn: int, now: float) -> Record | None:
    """The record as the task would write it; None where the gang that is there would have to go before."""
    spec, there = outcome.after, outcome.record
    if spec is None or outcome.action == "recreated":
        return None
    if there is None:
        at = micro_time_text(int(now * 1_000_000))
        body = build_record(spec)
        # Among those of one moment a new record sorts behind all others, in its turn.
        added = {"uid": f"~{turn:06}", "resourceVersion": "0", "creationTimestamp": at, "annotations": _dated(at)}
        return record_of_spec("configmap", {**body, "metadata": {**body["metadata"], **added}}, spec, None)
    if outcome.action == "unchanged":
        return there
    raw = _replaced(there, spec, now)
    return record_of_spec(there.store, raw, spec, None, state=there.state)


def _replaced(record: Record, spec: GangSpec, now: float) -> Data:
    """A record that waits with another specification; one that asks for more loses its place."""
    body = build_record(spec)
    if demand_grew(record.spec, spec):
        body["metadata"]["annotations"] = _dated(micro_time_text(int(now * 1_000_000)))
    return merged_body(record, body)


def _dated(at: str) -> dict[str, str]:
    """When a gang was submitted."""
    return {SUBMITTED_ANNOTATION: at}


def _asked(client: KubeClient, options: GangOptions, coming: _Coming) -> tuple[dict[str, ForeseenStart], str | None]:
    """What a dispatcher would decide, and what this account cannot know of it."""
    records = list(coming.values())
    namespaces = tuple(sorted({record.namespace for record in records}))
    of_task = DispatchOptions(lease=options.lease, namespaces=namespaces)
    try:
        if options.dispatch:
            only = frozenset(record.uid for record in records)
            found, unseen = foresee_starts(client, dataclasses.replace(of_task, only=only), records)
        else:
            found, unseen = foresee_starts(client, DispatchOptions(lease=options.lease), records)
    except (Forbidden, BadInput) as error:
        if options.dispatch:
            return {}, f"its size, and who becomes smaller for it: {error}"
        return _asked_within(client, of_task, records, error)
    return found, _words(unseen)


def _asked_within(
    client: KubeClient, terms: DispatchOptions, records: Sequence[Record], trouble: Exception
) -> tuple[dict[str, ForeseenStart], str | None]:
    """The same for a dispatcher of these namespaces, where one of all cannot be foreseen, or would start nothing."""
    try:
        found, unseen = foresee_starts(client, terms, records)
    except (Forbidden, BadInput) as error:
        return {}, f"its size, and who becomes smaller for it: {error}"
    return found, _words(unseen or [str(trouble)])


def _words(unseen: Sequence[str]) -> str | None:
    """What could not be seen, if anything."""
    return f"what a dispatcher of all namespaces would do ({'; '.join(unseen)})" if unseen else None


def _told(
    outcome: GangOutcome,
    record: Record | None,
    found: dict[str, ForeseenStart],
    note: str | None,
    named: Collection[str] | None,
) -> GangOutcome:
    """An outcome with what is foreseen of it."""
    foreseen = found.get(record.uid) if record is not None else None
    notes = [*outcome.extra.get("not_checked", ()), *([note] if note is not None else [])]
    if record is None:
        notes.append(_REMOVED_FIRST)
    extra = {
        "allotment": foreseen.size if foreseen is not None else None,
        "would_shrink": [] if foreseen is None else [shrunk_entry(item, named) for item in foreseen.shrunk],
        "not_checked": notes,
    }
    return dataclasses.replace(outcome, extra={**outcome.extra, **extra})


def shrunk_entry(shrunk: Shrink, namespaces: Collection[str] | None) -> Data:
    """A gang that would become smaller; where not all namespaces may be read, those of others have no names."""
    record = shrunk.record
    named = namespaces is None or record.namespace in namespaces
    return {
        "name": record.name if named else None,
        "namespace": record.namespace if named else None,
        "queue": record.spec.queue if record.spec is not None else None,
        "from": shrunk.size,
        "to": shrunk.to,
    }
