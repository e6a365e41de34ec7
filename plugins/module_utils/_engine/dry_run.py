# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asking the server to pretend: what it would refuse about a gang's objects, before anything is decided.

A dry run is evidence, not proof. What it cannot check (kinds whose webhooks have side effects, references to objects
that the gang itself creates first) is distinguished from what it refuses.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._engine.addresses import AddressedObject
from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import (
    Refusal,
    owner_text,
    refusal_of,
    stripped,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    ApiError,
    Conflict,
    KubeError,
    Unreachable,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import decode, get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Allowance
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import FIELD_MANAGER
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    from_older_attempt,
    owned_by_record,
    owner_of,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object

Object = dict[str, t.Any]

API_TROUBLE = "ApiTrouble"

_UNSUPPORTED = "does not support dry run"


@dataclasses.dataclass(frozen=True, slots=True)
class DryRun:
    """What pretending showed: a refusal, what could not be checked, or an object in the way with its owner."""

    refusal: Refusal | None = None
    not_checked: tuple[str, ...] = ()
    taken: tuple[str, str] | None = None

    @property
    def failure(self) -> str | None:
        """Why the gang can never be started as it is; None when it can, as far as the server tells."""
        return self.refusal.message if self.refusal is not None and self.refusal.kind == "failed" else None

    @property
    def delay(self) -> tuple[str, str] | None:
        """Reason and message for which the gang has to wait; None when nothing is in its way."""
        if self.taken is not None:
            return "name_taken", f"{self.taken[0]} belongs to {self.taken[1]}"
        return None if self.refusal is None else (self.refusal.reason, self.refusal.message)


@dataclasses.dataclass(frozen=True, slots=True)
class Pretended:
    """What pretending to create one object showed: how it would be stored, or one of the reasons why not."""

    stored: Object | None = None
    refusal: Refusal | None = None
    not_checked: str | None = None
    # Whose the object is that has the name.
    taken_by: str | None = None


def dry_run(
    actor: KubeClient,
    record: Object,
    attempt: int,
    placed: tuple[AddressedObject, ...],
    allowance: Allowance | None = None,
) -> DryRun:
    """Pretend to create the objects one by one; ends at the first that is refused or whose name is taken."""
    not_checked: list[str] = []
    earlier: list[str] = []
    for item in placed:
        shown = pretend(actor, record, attempt, item, earlier, allowance)
        if shown.refusal is not None:
            return DryRun(shown.refusal, tuple(not_checked))
        if shown.taken_by is not None:
            return DryRun(None, tuple(not_checked), (describe_object(item.object), shown.taken_by))
        if shown.not_checked is not None:
            not_checked.append(shown.not_checked)
        earlier.append(item.object["metadata"]["name"])
    return DryRun(None, tuple(not_checked))


def pretend(
    actor: KubeClient,
    record: Object,
    attempt: int,
    item: AddressedObject,
    earlier: t.Sequence[str],
    allowance: Allowance | None = None,
) -> Pretended:
    """Pretend to create one object of an attempt; earlier are the names of those that would be created before it."""
    try:
        return _pretend(actor, record, item, allowance)
    except Conflict as error:
        if not error.already_exists:
            return Pretended(refusal=refusal_of(error, item.object))
        return _look_at_other(actor, record, attempt, item)
    except ApiError as error:
        if _unchecked(error, earlier):
            return Pretended(not_checked=f"{describe_object(item.object)}: {error.message}")
        return Pretended(refusal=refusal_of(error, item.object) or _trouble(item, error))
    except Unreachable as error:
        return Pretended(refusal=_trouble(item, error))


def _pretend(actor: KubeClient, record: Object, item: AddressedObject, allowance: Allowance | None) -> Pretended:
    """One creation that the server only pretends.

    There is no ticket yet, so the record stands for it as the owner that the object must keep.
    """
    body = owned_by_record(item.object, record)
    query = {"dryRun": "All", "fieldManager": FIELD_MANAGER}
    timeout, target = None if allowance is None else allowance(), describe_object(body)
    answer = actor.request("POST", item.collection, query=query, body=body, timeout=timeout, target=target)
    stored = decode(item.collection, answer)
    return Pretended(stored, stripped(body, stored))


def _look_at_other(actor: KubeClient, record: Object, attempt: int, item: AddressedObject) -> Pretended:
    """What the object means for the gang that has the name already."""
    try:
        found = get_object(actor, item.path)
    except (ApiError, Unreachable) as error:
        return Pretended(refusal=_trouble(item, error))
    if found is None or _may_be_there(found, record, attempt, item):
        return Pretended(stored=found if item.keep else None)
    return Pretended(taken_by=owner_text(found))


def _may_be_there(found: Object, record: Object, attempt: int, item: AddressedObject) -> bool:
    """Whether an object in the way is no obstacle: a kept one of this record, or one an earlier attempt left."""
    uid = record["metadata"]["uid"]
    if item.keep:
        return owner_of(found, None, uid)[0] == "record"
    return from_older_attempt(found, uid, attempt)


def _unchecked(error: ApiError, earlier: t.Sequence[str]) -> bool:
    """Whether the answer tells only that the object cannot be checked alone."""
    if _UNSUPPORTED in error.message:
        return True
    missing = "not found" in error.message or "does not exist" in error.message
    return missing and any(re.search(rf"(?<![-\w.]){re.escape(name)}(?![-\w.])", error.message) for name in earlier)


def _trouble(item: AddressedObject, error: KubeError) -> Refusal:
    """The refusal of a server that is in no state to answer; the gang can wait for a better moment."""
    return Refusal("requeue", API_TROUBLE, f"{describe_object(item.object)}: {error.cause}")
