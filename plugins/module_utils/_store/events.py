# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events: each transition of a gang told where kubectl describe shows it, best effort."""

from __future__ import annotations

import hashlib
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict, KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import FIELD_MANAGER
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json

EventType = t.Literal["Normal", "Warning"]

COMPONENT = "muster.kube"

# What the API server accepts.
_MESSAGE_BYTES = 1024
_NAME_LENGTH = 253
_HASH_LENGTH = 16
_SECONDS = 5.0
# So many Events of ordinary news at once, and then so many a second; warnings are always told.
NEWS_AT_ONCE = 50
NEWS_PER_SECOND = 5.0


class NewsBudget:
    """How many Events of ordinary news may be posted now: where thousands of gangs start, records tell of all."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Nothing was told yet."""
        self._clock = clock
        self._left = float(NEWS_AT_ONCE)
        self._counted = clock()

    def take(self) -> bool:
        """Whether one more may be posted; it counts then."""
        now = self._clock()
        self._left = min(NEWS_AT_ONCE, self._left + (now - self._counted) * NEWS_PER_SECOND)
        self._counted = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


def post_event(
    client: KubeClient, record_raw: Mapping[str, t.Any], reason: str, message: str, event_type: EventType, now: str
) -> bool:
    """Tell of a transition; True when the Event is there, written now or by an earlier try.

    Its name follows from record, reason and time, so that telling twice is telling once. Trouble is never raised: an
    Event is news, and the record holds the truth.
    """
    event = event_of(record_raw, reason, message, event_type, now)
    path = resource_path("v1", "events", event["metadata"]["namespace"])
    try:
        client.request(
            "POST", path, query={"fieldManager": FIELD_MANAGER}, body=event, timeout=_SECONDS, read_retries=False
        )
    except Conflict as error:
        return error.already_exists
    except KubeError:
        return False
    return True


def why_not_created(client: KubeClient, namespace: str, items: Mapping[str, str]) -> str | None:
    """What a controller last said about pods it could not create for these objects (uid to name); None if nothing.

    Between an object and its pods there may be another one, named after it. An account that may not read Events learns
    nothing.
    """
    path = resource_path("v1", "events", namespace)
    try:
        found = list_objects(client, path, keep=lambda raw: raw, field_selector="reason=FailedCreate").items
    except KubeError:
        return None
    own = [event for event in found if _is_about(event.get("involvedObject") or {}, items)]
    last = max(own, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), default=None)
    return None if last is None else str(last.get("message") or "")


def _is_about(involved: Mapping[str, t.Any], items: Mapping[str, str]) -> bool:
    """Whether an Event is about one of the objects, or about something named after one."""
    name = str(involved.get("name"))
    return involved.get("uid") in items or any(name.startswith(f"{item}-") for item in items.values())


def event_of(
    record_raw: Mapping[str, t.Any], reason: str, message: str, event_type: EventType, now: str
) -> dict[str, t.Any]:
    """The Event itself."""
    metadata = record_raw["metadata"]
    fingerprint = hashlib.sha256(canonical_json([metadata["uid"], reason, now]).encode()).hexdigest()[:_HASH_LENGTH]
    stem = str(metadata["name"])[: _NAME_LENGTH - _HASH_LENGTH - 1].rstrip("-.")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{stem}.{fingerprint}", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": record_raw["apiVersion"],
            "kind": record_raw["kind"],
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "reason": reason,
        "message": message.encode()[:_MESSAGE_BYTES].decode("utf-8", "ignore"),
        "type": event_type,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
