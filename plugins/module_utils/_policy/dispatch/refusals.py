# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs that are refused whoever asks: others look after them, or they can never be started as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.status_writers import (
    foreign_status_writer,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.refusal import (
    refuse_forged_labels,
    refuse_objects,
    refuse_other_queue,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.start_size import require_start_fits
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import Plan
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import spec_of

# Whether (apiVersion, kind) lies in a namespace, as far as the server tells.
Scopes = Mapping[tuple[str, str], bool]

FOREIGN_CONTROLLER = "ForeignController"


def foreign_writers(records: Iterable[Record], now: float, *, adopt: bool) -> dict[str, str]:
    """By record who else writes the status of an AppWrapper: two controllers would start its objects twice."""
    if adopt:
        return {}
    wrappers = [record for record in records if record.store == "appwrapper"]
    found = {record.uid: foreign_status_writer(record.raw, now) for record in wrappers}
    return {uid: writer for uid, writer in found.items() if writer is not None}


def foreign_message(writer: str) -> str:
    """What the user of such a wrapper is told."""
    return f"{writer} writes its status; stop it or use adopt: true"


def why_never(record: Record, scopes: Scopes, plan: Callable[[], Plan]) -> str | None:
    """Why a gang may not be started whoever asks; records can be written without passing our modules."""
    try:
        spec = spec_of(record)
        refuse_other_queue(spec, record.labels, store=record.store)
        refuse_objects(spec, store=record.store, namespaced=scopes)
        planned = plan()
        refuse_forged_labels(spec, planned, record.uid)
        require_start_fits(spec, planned)
    except BadInput as error:
        return str(error)
    return None
