# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Creating the objects of one attempt, in order, each exactly once and never over an object of another owner."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._engine.addresses import AddressedObject
from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import Refusal, refusal_of, stripped, taken
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Allowance,
    Created,
    Ownership,
    settle_create,
    settle_delete,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import GangState, gone_unseen
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    from_older_attempt,
    owned_by_record,
    owned_by_ticket,
    owner_of,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import is_finite, removes_itself
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import conditions, describe_object

Object = dict[str, t.Any]

# Each round removes one leftover; more than one only if they keep being made.
_ROUNDS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class NotYet:
    """Creation has to wait for something outside (why); the next call goes on where this one stopped."""

    why: str


def count_made(count: int, exists: t.Callable[[int], bool], least: int = 0) -> int:
    """How many objects of an attempt must have been created, which happens in order: up to the last that exists."""
    return next((made for made in range(count, least, -1) if exists(made - 1)), least)


class Creation:
    """The objects of one attempt on their way into the cluster; every request asks the allowance first.

    It never waits itself: its owner calls go_on again. What ends by itself is created once: when it is gone
    it may have done its work.
    """

    def __init__(self, actor: KubeClient, allowance: Allowance, record: Record, state: GangState) -> None:
        """The actor is the client in whose name the user's objects are made; the state is that of the record."""
        self.attempt = state.attempt
        self.ticket_uid = state.ticket_uid or ""
        self.waits_for: str | None = None
        self.awaited: AddressedObject | None = None
        # When the newest object that was found to be there came to be.
        self.last_made: str | None = None
        self._actor = actor
        self._allowance = allowance
        self._record = record
        # Places: of the next object that is looked at, of the next to be created, and of the next never created before.
        self._ready = 0
        self._made = 0
        self._begun = state.made

    @property
    def made(self) -> int:
        """How many objects of the attempt were created, by any holder."""
        return max(self._made, self._begun)

    def look_back(self, placed: t.Sequence[AddressedObject]) -> None:
        """See how far another holder came with this attempt."""
        self._begun = count_made(len(placed), lambda index: self._find(placed[index]) is None, self._begun)

    def go_on(
        self,
        placed: t.Sequence[AddressedObject],
        succeeded: t.Collection[int] = (),
        announce: t.Callable[[int], None] = lambda _made: None,
    ) -> Refusal | NotYet | None:
        """Create one after the other until one is refused or must be waited for; None when all are there and ours.

        succeeded are the places of those that were seen to end well; announce gets how many objects there will be
        before one is created that may be gone again when the next holder looks. What tells nothing about the object (no
        certain outcome, lost leadership, an overloaded server) is raised.
        """
        self.waits_for = None
        while self._ready < len(placed):
            item = placed[self._ready]
            if self._ready not in succeeded and self._is_new(item) and removes_itself(item.object):
                announce(self._ready + 1)
            try:
                outcome = None if self._ready in succeeded else self._step(item)
            except ApiError as error:
                outcome = refusal_of(error, item.object)
                if outcome is None:
                    raise
            if outcome is not None:
                self.waits_for = outcome.why if isinstance(outcome, NotYet) else None
                return outcome
            self._ready += 1
            self._made = max(self._made, self._ready)
        return None

    def _step(self, item: AddressedObject) -> Refusal | NotYet | None:
        """Create one object unless that was done, and see whether the next one may follow."""
        if self._made == self._ready:
            outcome = self._create(item) if self._is_new(item) else self._find(item)
            if outcome is not None:
                return outcome
            self._made += 1
        if item.ready is None:
            return None
        self.awaited = item
        found = get_object(self._actor, item.path)
        if found is None and is_finite(item.object):
            return _gone(item)
        if not self.is_ready(found or {}):
            return NotYet(_unready(item))
        self.awaited = None
        return None

    def _is_new(self, item: AddressedObject) -> bool:
        """Whether the object to be looked at is to be created: what ends by itself only if no holder has begun that."""
        return self._made == self._ready and not (self._ready < self._begun and is_finite(item.object))

    def _find(self, item: AddressedObject) -> NotYet | None:
        """See that an object is there which must not be created again."""
        found = get_object(self._actor, item.path)
        if found is None or self._judge(item)(found) is not Ownership.OURS:
            return _gone(item)
        self._note_age(found)
        return None

    def _note_age(self, found: Object) -> None:
        """Note when an object came to be; the server writes all such times the same way."""
        self.last_made = max(self.last_made or "", str(found["metadata"].get("creationTimestamp") or "")) or None

    def _create(self, item: AddressedObject) -> Refusal | NotYet | None:
        """Create one object; what an earlier attempt of this record left in its place is removed first."""
        body = self._owned(item)
        for _round in range(_ROUNDS):
            outcome = settle_create(
                self._actor, item.collection, body, is_ours=self._judge(item), allowance=self._allowance
            )
            if isinstance(outcome, Created):
                self._note_age(outcome.obj)
                return None if outcome.read_back else self._take_back_stripped(item, body, outcome.obj)
            if outcome.ownership is Ownership.FOREIGN:
                return taken(item.object, outcome.obj)
            uid = outcome.obj["metadata"]["uid"]
            settle_delete(self._actor, item.path, uid, allowance=self._allowance)
            if not self._gone(item.path, uid):
                break
        return NotYet(f"an earlier attempt left {describe_object(item.object)} and it does not go; see its finalizers")

    def _take_back_stripped(self, item: AddressedObject, body: Object, made: Object) -> Refusal | None:
        """Delete an object that was just made and would not be found again; None when it is as it should be."""
        refusal = stripped(body, made)
        if refusal is not None:
            settle_delete(self._actor, item.path, made["metadata"]["uid"], allowance=self._allowance)
        return refusal

    def _owned(self, item: AddressedObject) -> Object:
        """The object with its owner: the record for what is kept, else the ticket."""
        if item.keep:
            return owned_by_record(item.object, self._record.raw)
        return owned_by_ticket(item.object, self.ticket_uid)

    def _judge(self, item: AddressedObject) -> t.Callable[[Object], Ownership]:
        """Says whose an object is that has the name already."""

        def judge(found: Object) -> Ownership:
            """Kept ones belong to the record whatever the attempt, others to this very ticket."""
            ticket_uid = None if item.keep else self.ticket_uid
            wanted = "record" if item.keep else "ticket"
            if owner_of(found, ticket_uid, self._record.uid)[0] == wanted:
                return Ownership.OURS
            if not item.keep and from_older_attempt(found, self._record.uid, self.attempt):
                return Ownership.OLDER_ATTEMPT
            return Ownership.FOREIGN

        return judge

    def _gone(self, path: str, uid: str) -> bool:
        """Whether the object with this uid is no more."""
        found = get_object(self._actor, path)
        return found is None or found["metadata"]["uid"] != uid

    def is_ready(self, found: Object) -> bool:
        """Whether an object is the one that is waited for, and has the condition it must have."""
        item = self.awaited
        names = (found.get("kind"), (found.get("metadata") or {}).get("name"))
        if item is None or names != (item.key[1], item.key[3]):
            return False
        return any((entry.get("type"), entry.get("status")) == item.ready for entry in conditions(found))


def _gone(item: AddressedObject) -> NotYet:
    """The wait for an object that may have done its work: its noted outcome ends the wait, or the gang fails."""
    return NotYet(gone_unseen(describe_object(item.object)))


def _unready(item: AddressedObject) -> str:
    """What an item is waited for, as text."""
    kind, status = item.ready or ("", "")
    return f"{describe_object(item.object)} is not {kind}={status} yet"
