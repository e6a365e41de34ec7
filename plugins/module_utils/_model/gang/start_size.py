# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether everything that a start writes has room where it is written: asked before the gang waits for its turn."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import RECORD_BYTES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.packing import pack
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STATE_BYTES, new_state, state_text
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import Plan, build_ticket, plan_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import texts
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import (
    PodSet,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import DIGEST_LENGTH
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, canonical_json

# As long as those that a dispatcher will use.
_UID = "00000000-0000-0000-0000-000000000000"
_WRITE_ID = "-" * 120
_EPOCH = "-" * 40
_QUOTA = "-" * DIGEST_LENGTH
_AT = "2026-01-01T00:00:00.000000Z"
_ADVICE = "use fewer objects with more pods each (a Job of many pods, for example), or split the gang"


def reserved_sizes(podsets: tuple[PodSet, ...]) -> tuple[Data, ...]:
    """Podsets as records and batches keep them."""
    return tuple({"name": item.name, "count": item.count, "requests": texts(item.requests)} for item in podsets)


def require_start_fits(spec: GangSpec, plan: Plan | None = None) -> None:
    """Refuse a gang whose state, batch entry or ticket would be too large for the object that has to hold it.

    A plan of any attempt will do: all are as long.
    """
    where = f"gang {spec.namespace}/{spec.name}"
    reserved = reserved_sizes(spec.demand)
    _require_state(reserved, where)
    entry = Entry("start", spec.namespace, spec.name, _UID, INT32 - 1, spec.queue)
    if not pack([(entry, reserved)], _EPOCH, _WRITE_ID, quota=_QUOTA)[0].entries:
        cause = f"the Lease cannot hold what its {len(reserved)} podsets ask for; {_ADVICE}"
        raise BadInput("queue", where, cause)
    _require_ticket(spec, plan or plan_objects(spec, _UID, 1), where)


def _require_state(reserved: tuple[Data, ...], where: str) -> None:
    """Refuse what would not fit the state annotation once the gang is started."""
    started = dataclasses.replace(
        new_state(_AT, _WRITE_ID), batch=_WRITE_ID, ticket_uid=_UID, digest="-" * 64, reserved=reserved, started_at=_AT
    )
    try:
        state_text(started)
    except BadInput as error:
        raise BadInput("queue", where, f"{error.cause}: {_ADVICE}") from error


def _require_ticket(spec: GangSpec, plan: Plan, where: str) -> None:
    """Refuse what would not fit the ConfigMap that lists the objects of an attempt."""
    metadata = {"name": spec.name, "namespace": spec.namespace, "uid": _UID}
    record = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    ticket = build_ticket(record, INT32 - 1, "-" * 64, plan, _WRITE_ID, "-" * STATE_BYTES)
    size = len(canonical_json(ticket))
    if size > RECORD_BYTES:
        cause = f"the list of its {len(spec.objects)} objects needs {size} bytes of at most {RECORD_BYTES}; {_ADVICE}"
        raise BadInput("queue", where, cause)
