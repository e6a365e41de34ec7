# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asking the server to pretend: what it would refuse about a gang's objects, before anything is decided.

A dry run is evidence, not proof. What it cannot check (kinds whose webhooks have side effects, references to objects
that the gang itself creates first) is told apart from what it refuses.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import (
    Refusal,
    owner_text,
    refusal_of,
    stripped,
)
from ansible_collections.muster.kube.plugins.module_utils._engine.placing import Placed
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    ApiError,
    Conflict,
    KubeError,
    ServerFault,
    TooManyRequests,
    Unreachable,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import decode, get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Allowance
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import FIELD_MANAGER, describe_object
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import (
    from_older_attempt,
    owned_by_record,
    owner_of,
)

Object = dict[str, t.Any]

API_TROUBLE = "ApiTrouble"

_UNSUPPORTED = "does not support dry run"


@dataclasses.dataclass(frozen=True, slots=True)
class DryRun:
    """What pretending showed: a refusal, what could not be checked, or an object in the way with its owner."""

    refusal: Refusal | None = None
    not_checked: tuple[str, ...] = ()
    taken: tuple[str, str] | None = None


def dry_run(
    actor: KubeClient,
    record: Object,
    attempt: int,
    placed: tuple[Placed, ...],
    allowance: Allowance | None = None,
) -> DryRun:
    """Pretend to create the objects one by one; ends at the first that is refused or whose name is taken."""
    not_checked: list[str] = []
    earlier: list[str] = []
    for item in placed:
        try:
            refusal = _pretend(actor, record, item, allowance)
            if refusal is not None:
                return DryRun(refusal, tuple(not_checked))
        except Conflict as error:
            if not error.already_exists:
                return DryRun(refusal_of(error, item.object), tuple(not_checked))
            found = get_object(actor, item.path)
            if found is not None and not _may_be_there(found, record, attempt, item):
                return DryRun(None, tuple(not_checked), (describe_object(item.object), owner_text(found)))
        except ApiError as error:
            if not _unchecked(error, earlier):
                return DryRun(refusal_of(error, item.object) or _trouble(item, error), tuple(not_checked))
            not_checked.append(f"{describe_object(item.object)}: {error.message}")
        except Unreachable as error:
            return DryRun(_trouble(item, error), tuple(not_checked))
        earlier.append(item.object["metadata"]["name"])
    return DryRun(None, tuple(not_checked))


def _pretend(actor: KubeClient, record: Object, item: Placed, allowance: Allowance | None) -> Refusal | None:
    """One creation that the server only pretends; nothing happens, so it may be tried again.

    There is no ticket yet, so the record stands for it as the owner that the object must keep.
    """
    body = owned_by_record(item.object, record)
    query = {"dryRun": "All", "fieldManager": FIELD_MANAGER}
    failures = 0
    while True:
        try:
            answer = actor.request(
                "POST",
                item.collection,
                query=query,
                body=body,
                timeout=None if allowance is None else allowance(),
                read_retries=False,
                target=describe_object(body),
            )
            return stripped(body, decode(item.collection, answer.body))
        except (ServerFault, TooManyRequests, Unreachable) as error:
            failures += 1
            if failures >= actor.retry.tries or (isinstance(error, Unreachable) and not error.retryable):
                raise
            asked = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
            actor.sleep(max(asked, actor.retry.pause(failures)))


def _may_be_there(found: Object, record: Object, attempt: int, item: Placed) -> bool:
    """Whether an object in the way is no obstacle: a kept one of this record, or one an earlier attempt left."""
    uid = record["metadata"]["uid"]
    if item.keep:
        return owner_of(found, None, uid)[0] == "record"
    return from_older_attempt(found, uid, attempt)


def _unchecked(error: ApiError, earlier: list[str]) -> bool:
    """Whether the answer tells only that the object cannot be checked alone."""
    if _UNSUPPORTED in error.message:
        return True
    missing = "not found" in error.message or "does not exist" in error.message
    return missing and any(re.search(rf"(?<![-\w.]){re.escape(name)}(?![-\w.])", error.message) for name in earlier)


def _trouble(item: Placed, error: KubeError) -> Refusal:
    """The refusal of a server that is in no state to answer; the gang can wait for a better moment."""
    return Refusal("requeue", API_TROUBLE, f"{describe_object(item.object)}: {error.cause}")
