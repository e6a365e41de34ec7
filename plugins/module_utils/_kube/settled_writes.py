# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes whose outcome is certain: when an answer is lost, the object is read back before anything is sent again.

Every function takes an allowance: it is called before each request, returns how many seconds that request may take, and
raises when no further request may be started (a lease that ran out). Its error ends the write and is passed on.
"""

from __future__ import annotations

import enum
import typing as t
from dataclasses import dataclass
from urllib.parse import quote

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    OutcomeUnknown,
    ServerFault,
    TooManyRequests,
    Unreachable,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import describe_request
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import decode
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import FIELD_MANAGER, MERGE_PATCH
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object, describe_object

Allowance = t.Callable[[], float]
Propagation = t.Literal["Background", "Foreground", "Orphan"]

# A server fault may come after the write was stored, so it says as little as a lost answer.
_UNCERTAIN = (Unreachable, ServerFault)


class Ownership(enum.Enum):
    """Whose an object is that was found where one was to be created."""

    OURS = "ours"
    OLDER_ATTEMPT = "older_attempt"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Created:
    """The object exists and is ours; read_back when it was found by a read instead of the answer to the create."""

    obj: Object
    read_back: bool = False


@dataclass(frozen=True, slots=True)
class Existing:
    """Another object has the name; nothing was created."""

    obj: Object
    ownership: Ownership


class Superseded(Conflict):
    """Another writer changed the object first; found is what it is now."""

    def __init__(self, target: str, found: Object) -> None:
        super().__init__("replace", target, status=409, reason="Conflict", message="somebody else changed it meanwhile")
        self.found = found


class ObjectGone(NotFound):
    """The object to replace was deleted; one of the same name with another uid is another object."""

    def __init__(self, target: str, uid: str) -> None:
        super().__init__(
            "replace", target, status=404, reason="NotFound", message=f"the object with uid {uid} was deleted"
        )


def settle_create(
    client: KubeClient,
    path: str,
    obj: Object,
    *,
    is_ours: t.Callable[[Object], Ownership],
    allowance: Allowance | None = None,
    tries: int | None = 5,
    strict: bool = False,
) -> Created | Existing:
    """Create a named object in the collection at path, once, whatever happens to the answers.

    Whatever is found under the name, after a lost answer or because the name was taken, is judged by is_ours. With
    strict the server refuses fields it does not know instead of dropping them.
    """
    item_path = f"{path}/{quote(obj['metadata']['name'], safe='')}"
    attempts = _Attempts(client, "create", describe_object(obj), allowance, tries)
    while True:
        try:
            return Created(attempts.write("POST", path, obj, strict=strict))
        except (ApiError, Unreachable) as error:
            trouble = attempts.worth_reading_back(error)
        found = attempts.read(item_path)
        if found is not None:
            ownership = is_ours(found)
            return Created(found, read_back=True) if ownership is Ownership.OURS else Existing(found, ownership)
        attempts.pause_after(trouble)


def settle_replace(
    client: KubeClient,
    path: str,
    obj: Object,
    write_id: str,
    write_id_of: t.Callable[[Object], str | None],
    *,
    allowance: Allowance | None = None,
    tries: int | None = 5,
) -> Object:
    """Replace the object at path if it is still the one that was read; returns it as stored.

    The object must carry uid and resourceVersion of what was read, and the write id, by which a write whose answer was
    lost is recognized. Raises Superseded when another writer was first and ObjectGone when it was deleted.
    """
    uid, version = obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]
    target = describe_object(obj)
    attempts = _Attempts(client, "replace", target, allowance, tries)
    while True:
        try:
            return attempts.write("PUT", path, obj)
        except NotFound as error:
            raise ObjectGone(target, uid) from error
        except (ApiError, Unreachable) as error:
            trouble = attempts.worth_reading_back(error)
        found = attempts.read(path)
        if found is None or found["metadata"]["uid"] != uid:
            raise ObjectGone(target, uid) from trouble
        if write_id_of(found) == write_id:
            return found
        if found["metadata"]["resourceVersion"] != version:
            raise Superseded(target, found) from trouble
        attempts.pause_after(trouble)


def settle_patch(
    client: KubeClient,
    path: str,
    change: Object,
    is_done: t.Callable[[Object], bool],
    *,
    allowance: Allowance | None = None,
    tries: int | None = 5,
) -> Object:
    """Change the object at path by a merge patch if it is still the one that was read; returns it as it is then.

    The patch must carry uid and resourceVersion of what was read; is_done recognizes an object that has it, after an
    answer was lost. Raises Superseded when another writer was first and ObjectGone when it was deleted.
    """
    uid, version = change["metadata"]["uid"], change["metadata"]["resourceVersion"]
    target = describe_request("PATCH", path)[1]
    attempts = _Attempts(client, "patch", target, allowance, tries)
    while True:
        try:
            return attempts.write("PATCH", path, change)
        except NotFound as error:
            raise ObjectGone(target, uid) from error
        except (ApiError, Unreachable) as error:
            trouble = attempts.worth_reading_back(error)
        found = attempts.read(path)
        if found is None or found["metadata"]["uid"] != uid:
            raise ObjectGone(target, uid) from trouble
        if is_done(found):
            return found
        if found["metadata"]["resourceVersion"] != version:
            raise Superseded(target, found) from trouble
        attempts.pause_after(trouble)


def settle_delete(
    client: KubeClient,
    path: str,
    uid: str,
    *,
    propagation: Propagation = "Background",
    allowance: Allowance | None = None,
    tries: int | None = 5,
) -> None:
    """Have the object with this uid deleted; returns when it is gone, was replaced by another, or is on its way out."""
    if not uid:
        raise ValueError(f"refusing to delete {path} without a uid")
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": propagation,
        "preconditions": {"uid": uid},
    }
    attempts = _Attempts(client, "delete", describe_request("DELETE", path)[1], allowance, tries)
    while True:
        try:
            attempts.write("DELETE", path, options)
            return
        except NotFound:
            return
        except (ApiError, Unreachable) as error:
            trouble = attempts.worth_reading_back(error)
        found = attempts.read(path)
        if found is None or found["metadata"]["uid"] != uid or found["metadata"].get("deletionTimestamp"):
            return
        attempts.pause_after(trouble)


class _Attempts:
    """The requests of one write: how long each may take, how many may fail, how long to wait in between."""

    def __init__(
        self, client: KubeClient, action: str, target: str, allowance: Allowance | None, tries: int | None
    ) -> None:
        """No failure yet; tries None means that only the allowance ends it."""
        self._client = client
        self._action = action
        self._target = target
        self._allowance = allowance
        self._tries = tries
        self._failures = 0
        self._uncertain = False

    def write(self, method: str, path: str, body: Object, *, strict: bool = False) -> Object:
        """Send a write until it is answered with something else than 429, by which it was refused unseen."""
        query = None if method == "DELETE" else {"fieldManager": FIELD_MANAGER}
        if query is not None and strict:
            query["fieldValidation"] = "Strict"
        while True:
            try:
                answer = self._client.request(
                    method,
                    path,
                    query=query,
                    body=body,
                    content_type=MERGE_PATCH if method == "PATCH" else None,
                    timeout=self._seconds(),
                    read_retries=False,
                    target=self._target,
                )
            except TooManyRequests as error:
                self.pause_after(error)
                continue
            try:
                return decode(path, answer)
            except Unreachable as error:
                # Something answered that is no API server; only a read shows what it did with the write.
                raise Unreachable(self._action, self._target, error.cause) from error

    def worth_reading_back(self, error: KubeError) -> KubeError:
        """The error of a write after which the object must be read; a plain refusal of the first try is raised.

        After a lost answer even a refusal needs a look: the quota that refuses may be filled by our own earlier try.
        """
        if isinstance(error, ServerFault) or (isinstance(error, Unreachable) and error.retryable):
            self._uncertain = True
        if not self._uncertain and not isinstance(error, Conflict):
            raise error
        return error

    def read(self, path: str) -> Object | None:
        """The object as it is now, None when there is none; asked again until there is an answer."""
        while True:
            try:
                answer = self._client.request("GET", path, timeout=self._seconds(), read_retries=False)
                return decode(path, answer)
            except NotFound:
                return None
            except (TooManyRequests, *_UNCERTAIN) as error:
                self.pause_after(error)

    def pause_after(self, error: KubeError) -> None:
        """Wait before the next request, or raise when there is to be none."""
        self._failures += 1
        if not isinstance(error, (Conflict, TooManyRequests, *_UNCERTAIN)):
            raise error
        final = isinstance(error, Unreachable) and not error.retryable
        if final or (self._tries is not None and self._failures >= self._tries):
            self._give_up(error)
        asked = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
        pause = max(asked, self._client.retry.pause(self._failures))
        left = self._seconds()
        if left is not None:
            if asked > left:
                self._give_up(error)
            pause = min(pause, left)
        self._client.sleep(pause)

    def _seconds(self) -> float | None:
        """How long the next request may take; None without a limit."""
        return self._allowance() if self._allowance is not None else None

    def _give_up(self, error: KubeError) -> t.NoReturn:
        """Raise what is known about the write: it was refused, or its outcome is unknown."""
        if not self._uncertain:
            raise error
        cause = f"{self._failures} tries and no certain outcome; the last one: {error.cause}"
        raise OutcomeUnknown(self._action, self._target, cause) from error
