# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing what an attempt created, and telling when nothing of it is left.

The engine and the module gang both work with it. Annotations and labels can be forged by everybody who may edit the
record, so neither is a right to delete anything: a ticket must be owned by the record and named after it, a child must
be owned by such a ticket, and every DELETE names a uid.
"""

from __future__ import annotations

import contextlib
import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._engine.creation import count_made
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Allowance, settle_delete
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, with_unsaved
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import digest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import MOST_LEFT, UNDOING
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    TICKET_LABEL,
    Plan,
    from_older_attempt,
    owner_of,
    plan_objects,
    state_in_ticket,
    ticket_keys,
    ticket_name,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import is_finite
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import ObjectKey

Object = dict[str, t.Any]

# A bare pod that is not restarted ends by itself; others would not be gone.
_ENDS = {"restartPolicy": "Never"}


def attempt_of_ticket(ticket: Mapping[str, t.Any], record_uid: str) -> int | None:
    """The attempt of a ticket of this record; None for anything that only looks like one."""
    labels = ticket["metadata"].get("labels") or {}
    number = str((ticket.get("data") or {}).get("attempt", ""))
    own = labels.get(TICKET_LABEL) == "true" and labels.get(GANG_LABEL) == record_uid
    if not own or owner_of(ticket, None, record_uid)[0] != "record" or not re.fullmatch(r"[0-9]{1,10}", number):
        return None
    return int(number) if ticket["metadata"].get("name") == ticket_name(record_uid, int(number)) else None


def as_begun(record: Record, tickets: Iterable[Mapping[str, t.Any]]) -> Record:
    """A record as the ticket of its attempt tells it, where it does not say itself yet that its start has begun."""
    if record.phase != "queued":
        return record
    for ticket in tickets:
        own = attempt_of_ticket(ticket, record.uid) == record.attempt
        told = state_in_ticket(ticket) if own and not ticket["metadata"].get("deletionTimestamp") else None
        if told is not None:
            return with_unsaved(record, told)
    return record


def owner_is_gone(client: KubeClient, ticket: Object, record_uid: str) -> bool:
    """Whether the record that a ticket names as its owner does not exist any more; asked of the server itself."""
    for owner in ticket["metadata"].get("ownerReferences") or ():
        if owner.get("uid") != record_uid:
            continue
        info = find_resource(client, str(owner.get("apiVersion")), str(owner.get("kind")))
        if info is None:
            return False
        found = get_object(client, info.path(ticket["metadata"]["namespace"], str(owner.get("name"))))
        return found is None or found["metadata"]["uid"] != record_uid
    return False


def started_keys(removal: Removal, record: Record) -> tuple[ObjectKey, ...]:
    """The objects of a record's attempt as they were started, whatever is edited until they are gone; not too many.

    The ticket is asked only where the record says something else by now.
    """
    state, spec = record.state, record.spec_started
    if state is None or state.phase in UNDOING:
        return () if state is None else state.left
    if spec is not None and state.digest == digest(spec):
        keys = tuple(item.key for item in plan_objects(spec, record.uid, record.attempt) if not item.keep)
    else:
        ticket = removal.find_ticket(record.attempt)
        keys = () if ticket is None else ticket_keys(ticket)
    return keys[:MOST_LEFT]


def holds_ticket(client: KubeClient, record: Record) -> bool:
    """Whether the ticket that a started record names exists, asked of the server itself."""
    ticket = Removal(client, client, None, record.uid, record.namespace).find_ticket(record.attempt)
    return ticket is not None and record.state is not None and ticket["metadata"]["uid"] == record.state.ticket_uid


def lost_object(keys: Sequence[ObjectKey], exist: Sequence[bool], *, whole: bool) -> str | None:
    """An object of a ticket that must have been created, ends by itself and is gone, as text; None if none is.

    A later one exists, or all were created (whole); else what is missing at the end may never have been there.
    """
    made = len(keys) if whole else count_made(len(keys), exist.__getitem__)
    missing = [key for key, found in zip(keys[:made], exist, strict=False) if not found]
    finite = [key for key in missing if is_finite({"apiVersion": key[0], "kind": key[1], "spec": _ENDS})]
    return f"{finite[0][1]} {finite[0][3]}" if finite else None


class Removal:
    """What is left of one record, which may be gone itself; our own client for tickets, the actor for user objects.

    Our own account sees most, but what the actor may create, it may be the only one to see. What neither may see or
    delete is left to the collector, which needs no account's rights once the ticket is gone.
    """

    def __init__(
        self, client: KubeClient, actor: KubeClient, allowance: Allowance | None, record_uid: str, namespace: str
    ) -> None:
        """Nothing is removed yet."""
        self._client = client
        self._actor = actor
        self._allowance = allowance
        self._uid = record_uid
        self._namespace = namespace

    # Tickets.

    def tickets(self) -> list[Object]:
        """The tickets of all attempts that are left."""
        selector = f"{TICKET_LABEL}=true,{GANG_LABEL}={self._uid}"
        path = resource_path("v1", "configmaps", self._namespace)
        found = list_objects(self._client, path, keep=_whole, label_selector=selector).items
        return [ticket for ticket in found if attempt_of_ticket(ticket, self._uid) is not None]

    def find_ticket(self, attempt: int) -> Object | None:
        """The ticket of an attempt, if it is one of this record."""
        path = resource_path("v1", "configmaps", self._namespace, ticket_name(self._uid, attempt))
        found = get_object(self._client, path)
        return found if found is not None and attempt_of_ticket(found, self._uid) == attempt else None

    def remove_ticket(self, ticket: Object) -> None:
        """Delete a ticket of this record; anything that only looks like one is left alone."""
        if attempt_of_ticket(ticket, self._uid) is not None:
            metadata = ticket["metadata"]
            path = resource_path("v1", "configmaps", metadata["namespace"], metadata["name"])
            settle_delete(self._client, path, metadata["uid"], allowance=self._allowance)

    # Objects.

    def owned(self, key: ObjectKey, owner_uid: str) -> tuple[str, Object] | None:
        """The object with this key and its path, if it exists and this ticket or record owns it."""
        path = self._path(key)
        found = None if path is None else self._get(path)
        if path is None or found is None or owner_of(found, owner_uid, None)[0] != "ticket":
            return None
        return path, found

    def exist(self, ticket: Object) -> list[bool]:
        """Of each object that a ticket lists whether it exists and is the ticket's own."""
        return [self.owned(key, ticket["metadata"]["uid"]) is not None for key in ticket_keys(ticket)]

    def remove(self, path: str, obj: Object) -> None:
        """Have one object deleted, with all that it owns; one on its way out needs no second order."""
        if not obj["metadata"].get("deletionTimestamp"):
            settle_delete(self._actor, path, obj["metadata"]["uid"], allowance=self._allowance)

    def remove_attempt(self, attempt: int) -> bool:
        """Delete the ticket of an attempt, then what it lists; without its ticket the collector takes late ones too.

        False when there is no such ticket.
        """
        ticket = self.find_ticket(attempt)
        if ticket is None:
            return False
        self.remove_ticket(ticket)
        for key in reversed(ticket_keys(ticket)):
            with contextlib.suppress(Forbidden):
                child = self.owned(key, ticket["metadata"]["uid"])
                if child is not None:
                    self.remove(*child)
        return True

    def nothing_left(self, plan: Plan, attempt: int, started: Iterable[ObjectKey] = ()) -> bool:
        """Whether all objects and pods of the attempts up to this one are gone; those found are deleted once more.

        The plan is that of now, which may have been edited; started is what the undo noted when it began.
        """
        if self.remove_attempt(attempt):
            return False
        keys = dict.fromkeys((*(item.key for item in plan if not item.keep), *started))
        left = list(self._left_objects(keys, attempt))
        for path, obj in left:
            with contextlib.suppress(Forbidden):
                self.remove(path, obj)
        return not left and not self.labelled_pods() and not self._unlabelled_pods(keys)

    def _left_objects(self, keys: Iterable[ObjectKey], attempt: int) -> Iterator[tuple[str, Object]]:
        """Objects of these kinds that a ticket of this record owned, with their paths."""
        kinds: dict[tuple[str, str], list[ObjectKey]] = {}
        for key in keys:
            kinds.setdefault((key[0], key[1]), []).append(key)
        for (api_version, kind), known in sorted(kinds.items()):
            info = find_resource(self._client, api_version, kind)
            if info is None:
                continue
            found = self._list(info.path(self._namespace), f"{GANG_LABEL}={self._uid}")
            for obj in self._named(known) if found is None else found:
                if from_older_attempt(obj, self._uid, attempt + 1):
                    yield info.path(self._namespace, obj["metadata"]["name"]), obj

    def _named(self, keys: Iterable[ObjectKey]) -> Iterator[Object]:
        """Objects of a kind that neither account may list, one by one."""
        for key in keys:
            path = self._path(key)
            with contextlib.suppress(Forbidden):
                found = None if path is None else self._get(path)
                if found is not None:
                    yield found

    # Pods.

    def labelled_pods(self) -> list[Object]:
        """Pods with the gang's label; in one without an owner the label is a copy. Without rights none is seen."""
        path, selector = resource_path("v1", "pods", self._namespace), f"{GANG_LABEL}={self._uid}"
        return [pod for pod in self._list(path, selector) or () if pod["metadata"].get("ownerReferences")]

    def _unlabelled_pods(self, keys: Iterable[ObjectKey]) -> list[Object]:
        """Pods without the label, since their template is out of reach, whose owner was one of these objects.

        Where an object with the owner's uid still lives it is not ours: ours are gone by now.
        """
        owners = {(key[1], key[3]): key for key in keys}
        found: list[Object] = []
        for pod in self._list(resource_path("v1", "pods", self._namespace)) or ():
            for owner in pod["metadata"].get("ownerReferences") or ():
                key = owners.get((str(owner.get("kind")), str(owner.get("name"))))
                if key is not None and not self._lives(key, owner.get("uid")):
                    found.append(pod)
        return found

    def _lives(self, key: ObjectKey, uid: str | None) -> bool:
        """Whether the object with this key has this uid; one that neither account may see holds no undo up."""
        path = self._path(key)
        try:
            obj = None if path is None else self._get(path)
        except Forbidden:
            return True
        return obj is not None and obj["metadata"]["uid"] == uid

    def _path(self, key: ObjectKey) -> str | None:
        """Where an object of this gang lies; None when its kind is not served any more."""
        info = find_resource(self._client, key[0], key[1])
        return None if info is None else info.path(self._namespace, key[3])

    def _get(self, path: str) -> Object | None:
        """An object as the account sees it that makes the gang's objects, else as we do."""
        try:
            return get_object(self._actor, path)
        except Forbidden:
            return get_object(self._client, path)

    def _list(self, path: str, selector: str | None = None) -> list[Object] | None:
        """The objects of a collection as we see them, else as the actor does; None when neither may look."""
        for client in (self._client, self._actor):
            with contextlib.suppress(Forbidden):
                return list_objects(client, path, keep=_whole, label_selector=selector).items
        return None


def _whole(raw: Object) -> Object:
    """Keep an object as it is."""
    return raw
