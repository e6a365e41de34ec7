# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing what an attempt created, and telling when nothing of it is left.

Annotations and labels can be forged by whoever may edit the record, so neither is a right to delete anything: a ticket
must be owned by the record and named after it, a child must be owned by such a ticket, and every DELETE names a uid.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Allowance, settle_delete
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import digest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import MOST_LEFT, UNDOING
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    TICKET_LABEL,
    Key,
    Plan,
    from_older_attempt,
    owner_of,
    plan_objects,
    ticket_keys,
    ticket_name,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import is_finite

Object = dict[str, t.Any]

# A bare pod that nobody restarts ends by itself; others would not be gone.
_ENDS = {"restartPolicy": "Never"}


def attempt_of_ticket(ticket: Mapping[str, t.Any], record_uid: str) -> int | None:
    """The attempt of a ticket of this record; None for anything that only looks like one."""
    labels = ticket["metadata"].get("labels") or {}
    number = str((ticket.get("data") or {}).get("attempt", ""))
    own = labels.get(TICKET_LABEL) == "true" and labels.get(GANG_LABEL) == record_uid
    if not own or owner_of(ticket, None, record_uid)[0] != "record" or not re.fullmatch(r"[0-9]{1,10}", number):
        return None
    return int(number) if ticket["metadata"].get("name") == ticket_name(record_uid, int(number)) else None


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


def ticket_path(namespace: str, name: str) -> str:
    """Where a ticket lies."""
    return resource_path("v1", "configmaps", namespace, name)


def remove_ticket(client: KubeClient, ticket: Object, record_uid: str, allowance: Allowance) -> None:
    """Delete a ticket of this record; anything that only looks like one is left alone."""
    metadata = ticket["metadata"]
    if attempt_of_ticket(ticket, record_uid) is not None:
        settle_delete(
            client, ticket_path(metadata["namespace"], metadata["name"]), metadata["uid"], allowance=allowance
        )


def started_keys(removal: Removal, record: Record) -> tuple[Key, ...]:
    """The objects of a record's attempt as they were started, whatever is edited until they are gone; not too many.

    The ticket is asked only where the record says something else by now.
    """
    state, spec = record.state, record.spec
    if state is None or state.phase in UNDOING:
        return () if state is None else state.left
    if spec is not None and state.digest == digest(spec):
        keys = tuple(item.key for item in plan_objects(spec, record.uid, record.attempt) if not item.keep)
    else:
        ticket = removal.find_ticket(record.attempt)
        keys = () if ticket is None else ticket_keys(ticket)
    return keys[:MOST_LEFT]


class Owner(t.Protocol):
    """What is known of a record even when it is gone."""

    @property
    def uid(self) -> str:
        """By which its tickets know it."""

    @property
    def namespace(self) -> str:
        """Where everything of it lies."""


@dataclasses.dataclass(frozen=True, slots=True)
class GoneRecord:
    """A record that was deleted."""

    uid: str
    namespace: str


class Removal:
    """One attempt of one record on its way out; our own client for tickets, the actor for the user's objects.

    Our own account sees most, but what the actor may create, it may be the only one to see. What neither may see or
    delete is left to the collector, which needs nobody's rights once the ticket is gone.
    """

    def __init__(self, client: KubeClient, actor: KubeClient, allowance: Allowance, record: Owner) -> None:
        """Nothing is removed yet."""
        self._client = client
        self._actor = actor
        self._allowance = allowance
        self._record = record

    def find_ticket(self, attempt: int) -> Object | None:
        """The ticket of an attempt, if it is one of this record."""
        found = get_object(self._client, ticket_path(self._record.namespace, ticket_name(self._record.uid, attempt)))
        return found if found is not None and attempt_of_ticket(found, self._record.uid) == attempt else None

    def remove_attempt(self, attempt: int) -> bool:
        """Delete the ticket of an attempt, then what it lists; without its ticket the collector takes late ones too.

        False when there is no such ticket.
        """
        ticket = self.find_ticket(attempt)
        if ticket is None:
            return False
        remove_ticket(self._client, ticket, self._record.uid, self._allowance)
        for key in reversed(ticket_keys(ticket)):
            with contextlib.suppress(Forbidden):
                child = self._child(ticket, key)
                if child is not None:
                    self._remove(*child)
        return True

    def owns_anything(self, ticket: Object) -> bool:
        """Whether any object that a ticket lists was created under it."""
        return any(self._child(ticket, key) is not None for key in reversed(ticket_keys(ticket)))

    def gone_from(self, ticket: Object, *, whole: bool) -> str | None:
        """An object of a ticket that must have been created and is gone, in words; None if none is.

        A later one exists, or all were created (whole); else what is missing at the end may never have been there.
        """
        keys = ticket_keys(ticket)
        there = [self._child(ticket, key) is not None for key in keys]
        last = len(keys) if whole else max((index for index, found in enumerate(there) if found), default=-1)
        missing = [key for key, found in zip(keys[: last + 1], there, strict=False) if not found]
        finite = [key for key in missing if is_finite({"apiVersion": key[0], "kind": key[1], "spec": _ENDS})]
        return f"{finite[0][1]} {finite[0][3]}" if finite else None

    def _child(self, ticket: Object, key: Key) -> tuple[str, Object] | None:
        """An object that a ticket lists, with its path, if it exists and is the ticket's own."""
        path = self._path(key)
        found = None if path is None else self._get(path)
        if path is None or found is None or owner_of(found, ticket["metadata"]["uid"], None)[0] != "ticket":
            return None
        return path, found

    def nothing_left(self, plan: Plan, attempt: int, started: Iterable[Key] = ()) -> bool:
        """Whether all objects and pods of the attempts up to this one are gone; those found are deleted once more.

        The plan is that of now, which may have been edited; started is what the undo noted when it began.
        """
        if self.remove_attempt(attempt):
            return False
        keys = dict.fromkeys((*(item.key for item in plan if not item.keep), *started))
        left = list(self._left_objects(keys, attempt))
        for path, obj in left:
            with contextlib.suppress(Forbidden):
                self._remove(path, obj)
        return not left and not self._labelled_pods() and not self._bereaved_pods(keys)

    def _left_objects(self, keys: Iterable[Key], attempt: int) -> Iterator[tuple[str, Object]]:
        """Objects of these kinds that a ticket of this record owned, with their paths."""
        kinds: dict[tuple[str, str], list[Key]] = {}
        for key in keys:
            kinds.setdefault((key[0], key[1]), []).append(key)
        for (api_version, kind), known in sorted(kinds.items()):
            info = find_resource(self._client, api_version, kind)
            if info is None:
                continue
            found = self._list(info.path(self._record.namespace), f"{GANG_LABEL}={self._record.uid}")
            for obj in self._named(known) if found is None else found:
                if from_older_attempt(obj, self._record.uid, attempt + 1):
                    yield info.path(self._record.namespace, obj["metadata"]["name"]), obj

    def _named(self, keys: Iterable[Key]) -> Iterator[Object]:
        """Objects of a kind that nobody may list, one by one."""
        for key in keys:
            path = self._path(key)
            with contextlib.suppress(Forbidden):
                found = None if path is None else self._get(path)
                if found is not None:
                    yield found

    def _labelled_pods(self) -> list[Object]:
        """Pods with the gang's label; one without an owner was made by somebody who copied the label."""
        path, selector = resource_path("v1", "pods", self._record.namespace), f"{GANG_LABEL}={self._record.uid}"
        return [pod for pod in self._list(path, selector) or () if pod["metadata"].get("ownerReferences")]

    def _bereaved_pods(self, keys: Iterable[Key]) -> list[Object]:
        """Pods without the label, since nobody could reach their template, whose owner was one of these objects.

        Where an object with the owner's uid still lives it is not ours: ours are gone by now.
        """
        owners = {(key[1], key[3]): key for key in keys}
        found: list[Object] = []
        for pod in self._list(resource_path("v1", "pods", self._record.namespace)) or ():
            for owner in pod["metadata"].get("ownerReferences") or ():
                key = owners.get((str(owner.get("kind")), str(owner.get("name"))))
                if key is not None and not self._lives(key, owner.get("uid")):
                    found.append(pod)
        return found

    def _lives(self, key: Key, uid: str | None) -> bool:
        """Whether the object with this key has this uid; one that nobody may see holds no undo up."""
        path = self._path(key)
        try:
            obj = None if path is None else self._get(path)
        except Forbidden:
            return True
        return obj is not None and obj["metadata"]["uid"] == uid

    def _path(self, key: Key) -> str | None:
        """Where an object of this gang lies; None when its kind is not served any more."""
        info = find_resource(self._client, key[0], key[1])
        return None if info is None else info.path(self._record.namespace, key[3])

    def _get(self, path: str) -> Object | None:
        """An object as whoever made it sees it, else as we do."""
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

    def _remove(self, path: str, obj: Object) -> None:
        """Have one object deleted, with all that it owns; one on its way out needs no second order."""
        if not obj["metadata"].get("deletionTimestamp"):
            settle_delete(self._actor, path, obj["metadata"]["uid"], allowance=self._allowance)


def _whole(raw: Object) -> Object:
    """Keep an object as it is."""
    return raw
