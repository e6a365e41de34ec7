# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who asks the HTTP service, and what they may: the API server says both.

A training is known by the token of its pod, and is good for the gang of that pod only. Everybody else needs the rights
of the cluster itself.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import re
import typing as t
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.refusals import Declined
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.short_memory import ShortMemory
from ansible_collections.muster.kube.plugins.module_utils._kube.access.reviews import (
    BoundPod,
    Deed,
    TokenUser,
    may_do,
    review_token,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import FreshLists, get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import parse_json
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import list_tickets, read_record

# How long it is believed what the server said of a token or of a right, and of how many.
BELIEVED_SECONDS = 10.0
_MOST = 4096
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,8192}")
_UID = re.compile(r"[A-Za-z0-9-]{1,63}")
_WANTED = {"WWW-Authenticate": 'Bearer realm="muster.kube"'}


class TrainersGang(t.NamedTuple):
    """The gang of the pod whose token somebody has, and the names that its pods may call it by."""

    namespace: str
    name: str
    uid: str
    aliases: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whom the API server knows; gang is that of the pod whose token it is."""

    user: TokenUser
    token: str = dataclasses.field(repr=False)
    gang: TrainersGang | None = None

    @property
    def key(self) -> str:
        """What stands for the token where it must not be kept."""
        return _digest(self.token)


class Gatekeeper:
    """Asks the API server who somebody is, and what they may do."""

    def __init__(
        self, client: KubeClient, audiences: Sequence[str] = (), namespaces: Sequence[str] | None = None
    ) -> None:
        """Nothing is asked yet; a token has to be for one of the audiences, if there are any.

        Pods of gangs in other namespaces than these are like any other caller.
        """
        self._client = client
        self._namespaces = namespaces
        self._audiences = tuple(audiences)
        self._callers: ShortMemory[Caller] = ShortMemory(client.clock, BELIEVED_SECONDS, _MOST)
        self._rights: ShortMemory[str] = ShortMemory(client.clock, BELIEVED_SECONDS, _MOST)

    def identify(self, header: str | None) -> Caller:
        """Whose request it is by its header Authorization; 401 for nobody that the server knows."""
        scheme, _space, token = (header or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token.strip()):
            raise Declined(401, "a bearer token is needed", headers=_WANTED)
        token = token.strip()
        known = self._callers.find(_digest(token))
        return known if known is not None else self._look(token)

    def may(self, caller: Caller, deed: Deed) -> bool:
        """Whether somebody may do this in the cluster; a right that was there a moment ago is."""
        key = caller.key, deed
        if self._rights.find(key) is not None:
            return True
        allowed = may_do(self._client, caller.user, deed)
        if allowed:
            self._rights.keep(key, "allowed")
        return allowed

    def require(self, caller: Caller, deed: Deed) -> None:
        """403 for somebody who may not do this."""
        if not self.may(caller, deed):
            where = deed.resource if deed.name is None else f"{deed.resource} {deed.name}"
            place = "" if deed.namespace is None else f" in namespace {deed.namespace}"
            raise Declined(403, f"{caller.user.name} may not {deed.verb} {where}{place}")

    def require_on_job(self, caller: Caller, verb: str, namespace: str, name: str, uid: str | None = None) -> None:
        """403 for somebody who may not do this to the record of a job; its own pods may read and report.

        Once the record was read its uid tells whether it is still theirs, or that of a later gang of this name.
        """
        gang = caller.gang
        own = gang is not None and (gang.namespace, gang.name) == (namespace, name) and uid in (None, gang.uid)
        if own and verb in ("get", "update"):
            return
        self.require(caller, record_deed(verb, namespace, name))

    def _look(self, token: str) -> Caller:
        """Ask the server; what it says is believed for some seconds, and never for longer than the token lives."""
        user = review_token(self._client, token, self._audiences)
        if user is None:
            raise Declined(401, "the API server does not take this token", headers=_WANTED)
        gang = None if user.pod is None else self._gang_of(user.pod)
        ends = expiry_of(token)
        longest = None if ends is None else ends - ServerClock(self._client).now()
        caller = Caller(user, token, gang)
        return self._callers.keep(caller.key, caller, longest)

    def _gang_of(self, bound: BoundPod) -> TrainersGang | None:
        """The gang of a pod: that of its label, if a ticket of that gang is there; None for pods of no gang."""
        if self._namespaces is not None and bound.namespace not in self._namespaces:
            return None
        pod = get_object(self._client, resource_path("v1", "pods", bound.namespace, bound.name))
        metadata = (pod or {}).get("metadata") or {}
        uid = str((metadata.get("labels") or {}).get(GANG_LABEL) or "")
        if metadata.get("uid") != bound.uid or not _UID.fullmatch(uid):
            return None
        lists = FreshLists(self._client)
        tickets = list_tickets(lists, {}, [bound.namespace], finished=True, gang=uid).get(uid, ())
        names = {
            str(owner.get("name"))
            for ticket in tickets
            for owner in ticket["metadata"]["ownerReferences"]
            if owner.get("uid") == uid and not ticket["metadata"].get("deletionTimestamp")
        }
        found = (read_record(self._client, "configmap", bound.namespace, name) for name in sorted(names))
        record = next((item for item in found if item is not None and item.uid == uid), None)
        return None if record is None else TrainersGang(record.namespace, record.name, uid, _aliases(record))


def record_deed(verb: str, namespace: str | None, name: str | None = None) -> Deed:
    """Something that is done to the record of a job."""
    return Deed(verb, "configmaps", namespace, name)


def expiry_of(token: str) -> float | None:
    """When a token ends, as it says itself; None for one that does not say. The server has looked at it before."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = parse_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)).decode(), "claims")
    except (BadInput, binascii.Error, ValueError):
        return None
    ends = claims.get("exp") if isinstance(claims, dict) else None
    return float(ends) if isinstance(ends, int | float) and not isinstance(ends, bool) else None


def _aliases(record: Record) -> frozenset[str]:
    """The names of a gang and of its objects: a training knows its job by that of its object."""
    objects = record.spec.objects if record.spec is not None else ()
    return frozenset({record.name, *(str(item["metadata"].get("name")) for item in objects)})


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
