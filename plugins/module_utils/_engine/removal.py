# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing what an attempt created, and telling when nothing of it is left.

Annotations and labels can be forged by whoever may edit the record, so neither is a right to delete anything: a ticket
must be owned by the record and named after it, a child must be owned by such a ticket, and every DELETE names a uid.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Allowance, settle_delete
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import (
    GANG_LABEL,
    TICKET_LABEL,
    Key,
    Plan,
    from_older_attempt,
    owner_of,
    ticket_keys,
    ticket_name,
)

Object = dict[str, t.Any]


def attempt_of_ticket(ticket: Mapping[str, t.Any], record_uid: str) -> int | None:
    """The attempt of a ticket of this record; None for anything that only looks like one."""
    labels = ticket["metadata"].get("labels") or {}
    number = str((ticket.get("data") or {}).get("attempt", ""))
    own = labels.get(TICKET_LABEL) == "true" and labels.get(GANG_LABEL) == record_uid
    if not own or owner_of(ticket, None, record_uid)[0] != "record" or not re.fullmatch(r"[0-9]{1,9}", number):
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
    """One attempt of one record on its way out; our own client for tickets, the actor for the user's objects."""

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
        for path, child in self._children(ticket):
            self._remove(path, child)
        return True

    def owns_anything(self, ticket: Object) -> bool:
        """Whether any object that a ticket lists was created under it."""
        return next(self._children(ticket), None) is not None

    def _children(self, ticket: Object) -> Iterator[tuple[str, Object]]:
        """The objects a ticket lists that exist and are its own, the last one first, with their paths."""
        uid = ticket["metadata"]["uid"]
        for api_version, kind, namespace, name in reversed(ticket_keys(ticket)):
            info = find_resource(self._client, api_version, kind)
            path = None if info is None else info.path(namespace, name)
            found = None if path is None else get_object(self._actor, path)
            if path is not None and found is not None and owner_of(found, uid, None)[0] == "ticket":
                yield path, found

    def nothing_left(self, plan: Plan, attempt: int) -> bool:
        """Whether all objects and pods of the attempts up to this one are gone; those found are deleted once more."""
        if self.remove_attempt(attempt):
            return False
        left = list(self._left_objects(plan, attempt))
        for path, obj in left:
            self._remove(path, obj)
        return not left and not self._labelled_pods() and not self._bereaved_pods(plan)

    def _left_objects(self, plan: Plan, attempt: int) -> Iterator[tuple[str, Object]]:
        """Objects of the plan's kinds that a ticket of this record owned, with their paths."""
        selector = f"{GANG_LABEL}={self._record.uid}"
        for api_version, kind in sorted({(item.key[0], item.key[1]) for item in plan if not item.keep}):
            info = find_resource(self._client, api_version, kind)
            if info is None:
                continue
            path = info.path(self._record.namespace)
            for obj in list_objects(self._client, path, keep=_whole, label_selector=selector).items:
                if from_older_attempt(obj, self._record.uid, attempt + 1):
                    yield info.path(self._record.namespace, obj["metadata"]["name"]), obj

    def _labelled_pods(self) -> list[Object]:
        """Pods with the gang's label; one without an owner was made by somebody who copied the label."""
        path, selector = resource_path("v1", "pods", self._record.namespace), f"{GANG_LABEL}={self._record.uid}"
        pods = list_objects(self._client, path, keep=_whole, label_selector=selector).items
        return [pod for pod in pods if pod["metadata"].get("ownerReferences")]

    def _bereaved_pods(self, plan: Plan) -> list[Object]:
        """Pods without the label, since nobody could reach their template, whose owner was an object of the plan.

        Where an object with the owner's uid still lives it is not ours: ours are gone by now.
        """
        owners = {(item.key[1], item.key[3]): item.key for item in plan if not item.keep}
        path = resource_path("v1", "pods", self._record.namespace)
        found: list[Object] = []
        for pod in list_objects(self._client, path, keep=_whole).items:
            for owner in pod["metadata"].get("ownerReferences") or ():
                key = owners.get((str(owner.get("kind")), str(owner.get("name"))))
                if key is not None and not self._lives(key, owner.get("uid")):
                    found.append(pod)
        return found

    def _lives(self, key: Key, uid: str | None) -> bool:
        """Whether the object with this key has this uid."""
        info = find_resource(self._client, key[0], key[1])
        obj = None if info is None else get_object(self._client, info.path(key[2], key[3]))
        return obj is not None and obj["metadata"]["uid"] == uid

    def _remove(self, path: str, obj: Object) -> None:
        """Have one object deleted, with all that it owns; one on its way out needs no second order."""
        if not obj["metadata"].get("deletionTimestamp"):
            settle_delete(self._actor, path, obj["metadata"]["uid"], allowance=self._allowance)


def _whole(raw: Object) -> Object:
    """Keep an object as it is."""
    return raw
