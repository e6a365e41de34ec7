# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ConfigMap that holds a queued gang, its specification as data and its state as an annotation."""

from __future__ import annotations

import hashlib
import json
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec, read_spec, spec_data
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    FINISHED_PHASES,
    STATE_ANNOTATION,
    STATE_BYTES,
    GangState,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import QUEUE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, parse_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import (
    LAST_MOMENT,
    micro_time_text,
    read_time,
)

RECORD_LABEL = "muster.kube/record"
SUBMITTED_ANNOTATION = "muster.kube/submitted"
# Who queued the gang; a label could not hold every name of a user.
USER_ANNOTATION = "muster.kube/user"
# The phase as a label, so that a server can leave out records that are over; the state annotation stays the truth.
PHASE_LABEL = "muster.kube/phase"
# When a finished gang has outlived its own ttl.
EXPIRES_ANNOTATION = "muster.kube/expires"
RECORD_KEY = "gang.json"

_OVER = f"({','.join(FINISHED_PHASES)})"
# Records without the label were submitted by hand or written by an older version: they count as unfinished.
UNFINISHED_SELECTOR = f"{PHASE_LABEL} notin {_OVER}"
FINISHED_SELECTOR = f"{PHASE_LABEL} in {_OVER}"

RECORD_BYTES = 1024 * 1024
# What the API server allows for all annotations of an object together.
ANNOTATION_BYTES = 256 * 1024

# A user's name that is longer is told by its beginning and a fingerprint: it is repeated in meters.
_USER_LENGTH = 253
_FINGERPRINT = 16

# Server and annotation may round differently, and creating takes a moment.
_ROUNDING = 2.0


def build_record(spec: GangSpec) -> Data:
    """The ConfigMap that holds a queued gang; what a ConfigMap cannot hold is refused."""
    text = json.dumps(spec_data(spec), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    size = len(text.encode()) + STATE_BYTES
    if size > RECORD_BYTES:
        raise BadInput(
            "queue",
            f"gang {spec.namespace}/{spec.name}",
            f"its record would need {size} bytes (with {STATE_BYTES} for its state) of at most {RECORD_BYTES}; "
            "put large files into ConfigMaps or volumes of their own that the objects refer to, or split the gang",
        )
    labels = {**spec.labels, RECORD_LABEL: "gang"}
    if spec.queue is not None:
        labels[QUEUE_LABEL] = spec.queue
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": spec.name, "namespace": spec.namespace, "labels": labels},
        "data": {RECORD_KEY: text},
    }


def ended_at(state: GangState) -> float | None:
    """When a finished gang ended, in seconds since 1970; None while it has not, or where nobody knows."""
    if state.phase not in FINISHED_PHASES or not state.transitions:
        return None
    return read_time(state.transitions[-1].at)


def expiry(state: GangState, ttl: float | None) -> str | None:
    """When a finished gang is to be removed because its ttl is over; None when that is no reason to remove it."""
    ended = ended_at(state)
    if ended is None or ttl is None:
        return None
    return micro_time_text(int(min(ended + ttl, LAST_MOMENT) * 1_000_000))


def spec_of_record(configmap: Mapping[str, t.Any]) -> GangSpec:
    """The gang a ConfigMap holds; its name and namespace must be those of the ConfigMap, whoever wrote the text."""
    metadata = configmap["metadata"]
    where = f"ConfigMap {metadata['namespace']}/{metadata['name']}"
    text = (configmap.get("data") or {}).get(RECORD_KEY)
    if text is None:
        raise BadInput("read", f"{where}: data.{RECORD_KEY}", "it is missing")
    spec = read_spec(parse_json(text, f"{where}: data.{RECORD_KEY}"), where, stored=True)
    for key, mine in (("name", spec.name), ("namespace", spec.namespace)):
        if mine != metadata[key]:
            raise BadInput("read", f"{where}: {key}", f"{mine!r} is not that of the ConfigMap, {metadata[key]!r}")
    return spec


def require_headroom(annotations: Mapping[str, str] | None, where: str) -> None:
    """Refuse a record whose other annotations leave no room for the state."""
    used = sum(len(k.encode()) + len(v.encode()) for k, v in (annotations or {}).items() if k != STATE_ANNOTATION)
    free = ANNOTATION_BYTES - used - len(STATE_ANNOTATION)
    if free < STATE_BYTES:
        raise BadInput(
            "queue",
            where,
            f"its annotations leave {max(0, free)} bytes and the state needs {STATE_BYTES}; remove large annotations "
            "(kubectl apply keeps a copy of the object in one: use kubectl create or server-side apply)",
        )


def submission_time(metadata: Mapping[str, t.Any]) -> float:
    """When a gang was queued, in seconds since 1970.

    The server stamps whole seconds only; the annotation tells gangs of one second apart, and a gang that grew from one
    that did not. Nobody gets ahead of the server's own stamp by more than a second's rounding.
    """
    created = read_time(metadata.get("creationTimestamp")) or 0.0
    told = read_time((metadata.get("annotations") or {}).get(SUBMITTED_ANNOTATION))
    return told if told is not None and told >= created - _ROUNDING else created


def user_of(metadata: Mapping[str, t.Any]) -> str:
    """Who a record says has queued the gang, empty where it does not say; anybody who may edit it can claim that."""
    name = str((metadata.get("annotations") or {}).get(USER_ANNOTATION) or "")
    if len(name) <= _USER_LENGTH:
        return name
    return f"{name[: _USER_LENGTH - _FINGERPRINT - 1]}#{hashlib.sha256(name.encode()).hexdigest()[:_FINGERPRINT]}"
