# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating the objects of one attempt, in order, each exactly once and never over somebody else's."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import Refusal, refusal_of, taken
from ansible_collections.muster.kube.plugins.module_utils._engine.placing import Placed
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Allowance,
    Created,
    Ownership,
    settle_create,
    settle_delete,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import describe_object
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import (
    from_older_attempt,
    owned_by_record,
    owned_by_ticket,
    owner_of,
)

Object = dict[str, t.Any]

LEFTOVER = "Leftover"
NOT_READY = "NotReady"

READY_SECONDS = 300.0
_GONE_SECONDS = 30.0
_POLL_SECONDS = 0.5
# Each round removes one leftover; more than one only if somebody keeps making them.
_ROUNDS = 3


class Creation:
    """The objects of one attempt on their way into the cluster; every request asks the allowance first."""

    def __init__(self, actor: KubeClient, allowance: Allowance, record: Record, attempt: int, ticket_uid: str) -> None:
        """The actor is the client in whose name the user's objects are made."""
        self._actor = actor
        self._allowance = allowance
        self._record = record
        self._attempt = attempt
        self._ticket_uid = ticket_uid

    def create_all(self, placed: t.Iterable[Placed]) -> Refusal | None:
        """Create one after the other until one is refused; None when all are there and ours.

        What tells nothing about the object (no certain outcome, lost leadership, an overloaded server) is raised.
        """
        for item in placed:
            try:
                refusal = self._create(item) or self._wait_until_ready(item)
            except ApiError as error:
                refusal = refusal_of(error, item.object)
                if refusal is None:
                    raise
            if refusal is not None:
                return refusal
        return None

    def _create(self, item: Placed) -> Refusal | None:
        """Create one object; what an earlier attempt of this record left in its place is removed first."""
        body = self._owned(item)
        for _round in range(_ROUNDS):
            outcome = settle_create(
                self._actor, item.collection, body, is_ours=self._judge(item), allowance=self._allowance
            )
            if isinstance(outcome, Created):
                return None
            if outcome.ownership is Ownership.FOREIGN:
                return taken(item.object, outcome.obj)
            uid = outcome.obj["metadata"]["uid"]
            settle_delete(self._actor, item.path, uid, allowance=self._allowance)
            if not self._gone(item.path, uid):
                break
        cause = "an earlier attempt left this object and it does not go away; see its finalizers"
        return Refusal("requeue", LEFTOVER, f"{describe_object(item.object)}: {cause}")

    def _owned(self, item: Placed) -> Object:
        """The object with its owner: the record for what is kept, else the ticket."""
        if item.keep:
            return owned_by_record(item.object, self._record.raw)
        return owned_by_ticket(item.object, self._ticket_uid)

    def _judge(self, item: Placed) -> t.Callable[[Object], Ownership]:
        """Says whose an object is that has the name already."""

        def judge(found: Object) -> Ownership:
            """Kept ones belong to the record whatever the attempt, others to this very ticket."""
            ticket_uid = None if item.keep else self._ticket_uid
            wanted = "record" if item.keep else "ticket"
            if owner_of(found, ticket_uid, self._record.uid)[0] == wanted:
                return Ownership.OURS
            if not item.keep and from_older_attempt(found, self._record.uid, self._attempt):
                return Ownership.OLDER_ATTEMPT
            return Ownership.FOREIGN

        return judge

    def _gone(self, path: str, uid: str) -> bool:
        """Wait until the object with this uid is no more."""

        def probe() -> bool:
            """One look."""
            found = get_object(self._actor, path)
            return found is None or found["metadata"]["uid"] != uid

        return self._wait(probe, _GONE_SECONDS)

    def _wait_until_ready(self, item: Placed) -> Refusal | None:
        """Wait for the condition an item must have before the next one is created."""
        ready = item.ready
        if ready is None:
            return None

        def probe() -> bool:
            """One look."""
            found = get_object(self._actor, item.path) or {}
            conditions = (found.get("status") or {}).get("conditions") or ()
            return any((entry.get("type"), entry.get("status")) == ready for entry in conditions)

        if self._wait(probe, READY_SECONDS):
            return None
        cause = f"it was not {ready[0]}={ready[1]} within {READY_SECONDS:.0f} s"
        return Refusal("requeue", NOT_READY, f"{describe_object(item.object)}: {cause}")

    def _wait(self, probe: t.Callable[[], bool], seconds: float) -> bool:
        """Look again and again as long as the lease lasts; False when the time is over."""
        end = self._actor.clock() + seconds
        while not probe():
            if self._actor.clock() >= end:
                return False
            self._actor.sleep(min(_POLL_SECONDS, self._allowance()))
        return True
