# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tickets: the ConfigMap that owns the objects of one attempt, and those objects as they will be created.

Everything here is a function of the record and the attempt, so that whoever takes over an attempt finds the same names.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    GangState,
    read_state,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import NeedsPodsets, describe_object
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import (
    PodSet,
    infer_known,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json, parse_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import ObjectKey

Owner = t.Literal["ticket", "record", "foreign", "none"]

TICKET_LABEL = "muster.kube/ticket"
GANG_LABEL = "muster.kube/gang"
ATTEMPT_LABEL = "muster.kube/attempt"
# On the ticket of a gang that is over, whose objects stay for their logs: nobody has to look at it any more.
FINISHED_LABEL = "muster.kube/finished"
PODSET_LABEL = "muster.kube/podset"
QUEUE_LABEL = "muster.kube/queue"
KEEP_ANNOTATION = "muster.kube/keep"

_NAME_LENGTH = 63
_SUFFIX_LENGTH = 10
# More objects than any record can hold: anybody can write a ConfigMap.
_MOST_PLACES = 100_000
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedObject:
    """One object as it will be created; kept ones survive an undo."""

    index: int
    object: Data
    key: ObjectKey
    keep: bool


Plan = tuple[PlannedObject, ...]


def ticket_name(record_uid: str, attempt: int) -> str:
    """The one name a ticket of this record and attempt can have."""
    return f"muster-ticket-{_hash(record_uid, attempt)[:24]}"


def podset_label(name: str) -> str:
    """A podset's name as the value of a label; different names give different values.

    Names of objects hold no underscore, so it can stand for the slash between object and group. Names for which that
    would be ambiguous, and those too long or of other characters, get a hash after two underscores.
    """
    plain = name.replace("/", "_")
    if "_" not in name and "__" not in plain and _LABEL_VALUE.fullmatch(plain):
        return plain
    stem = re.sub(r"[^-.A-Za-z0-9]+", "_", name).strip("-_.")[:40] or "podset"
    return f"{stem}__{_hash(name)[:_SUFFIX_LENGTH]}"


def is_kept(obj: Mapping[str, t.Any]) -> bool:
    """Whether an object survives the undo of an attempt: claims, and what the user marked."""
    annotations = obj["metadata"].get("annotations") or {}
    is_claim = obj["apiVersion"] == "v1" and obj["kind"] == "PersistentVolumeClaim"
    return is_claim or annotations.get(KEEP_ANNOTATION) == "true"


def plan_objects(spec: GangSpec, record_uid: str, attempt: int) -> Plan:
    """The gang's objects as they will be created: named, labeled, in the gang's namespace; no owner yet."""
    objects: list[Data] = [copy.deepcopy(dict(item)) for item in spec.planned]
    for podset, name in _reachable_templates(spec):
        template: t.Any = objects[podset.source_index]
        for step in podset.path or ():
            template = template[step]
        if template.get("metadata") is None:
            template["metadata"] = {}
        own = {} if name is None else {PODSET_LABEL: podset_label(name)}
        # Whose quota pods use is asked even when their record is gone, so nobody else says it.
        (template["metadata"].get("labels") or {}).pop(QUEUE_LABEL, None)
        queue = {} if spec.queue is None else {QUEUE_LABEL: spec.queue}
        _add_labels(template["metadata"], {GANG_LABEL: record_uid, **own, **queue})
    planned = tuple(_planned(spec, obj, index, record_uid, attempt) for index, obj in enumerate(objects))
    _refuse_duplicates(spec, planned)
    return planned


def build_ticket(
    record: Mapping[str, t.Any], attempt: int, digest: str, plan: Plan, write_id: str = "", state: str = ""
) -> Data:
    """The ticket of one attempt; it lists what it will own, so that an undo needs nothing else.

    The write id tells its maker from another holder that made the ticket of the same attempt first. The state is what
    the record would say of the start: whoever goes on with it learns it from here, since the record says it later.
    """
    metadata = record["metadata"]
    owned = [item for item in plan if not item.keep]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "immutable": True,
        "metadata": {
            "name": ticket_name(metadata["uid"], attempt),
            "namespace": metadata["namespace"],
            "labels": {TICKET_LABEL: "true", GANG_LABEL: metadata["uid"]},
            "ownerReferences": [_reference(record["apiVersion"], record["kind"], metadata["name"], metadata["uid"])],
        },
        "data": {
            "attempt": str(attempt),
            "digest": digest,
            "objects": canonical_json([item.key for item in owned]),
            "places": canonical_json([item.index for item in owned]),
            "write_id": write_id,
            **({"state": state} if state else {}),
        },
    }


def ticket_places(ticket: Mapping[str, t.Any]) -> list[tuple[int, ObjectKey]]:
    """The keys a ticket lists with the places of their objects in the gang, in which kept ones count too.

    A ticket of an earlier version, or one that makes no sense, does not tell them; the order must do then.
    """
    keys = ticket_keys(ticket)
    try:
        places = parse_json((ticket.get("data") or {}).get("places"), "the ticket's places")
    except BadInput:
        places = None
    usable = isinstance(places, list) and len(places) == len(set(map(str, places))) == len(keys)
    if not usable or not all(map(_is_place, places)):
        places = range(len(keys))
    return list(zip(places, keys, strict=True))


def _is_place(value: t.Any) -> bool:
    """Whether a value can be the place of an object in a list."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_PLACES


def of_gangs(uids: Iterable[str]) -> str:
    """The label selector for objects of these gangs."""
    return f"{GANG_LABEL} in ({','.join(sorted(uids))})"


def made_by(ticket: Mapping[str, t.Any]) -> str:
    """Which write made a ticket; empty for one of an earlier version."""
    return str((ticket.get("data") or {}).get("write_id") or "")


def state_in_ticket(ticket: Mapping[str, t.Any]) -> GangState | None:
    """The state `dispatching` of the attempt that a ticket was made for; None where the ticket does not tell it."""
    data, uid = ticket.get("data") or {}, str(ticket["metadata"].get("uid"))
    state = read_state({STATE_ANNOTATION: data["state"]}) if data.get("state") else None
    if state is None or (state.phase, str(state.attempt), state.digest) != (
        "dispatching",
        data.get("attempt"),
        data.get("digest"),
    ):
        return None
    return dataclasses.replace(state, ticket_uid=uid)


def has_live_ticket(tickets: Iterable[Mapping[str, t.Any]], record_uid: str, attempt: int) -> bool:
    """Whether one of these is the ticket of an attempt, and not about to go."""
    name = ticket_name(record_uid, attempt)
    found = [item["metadata"] for item in tickets]
    return any(item.get("name") == name and not item.get("deletionTimestamp") for item in found)


def ticket_keys(ticket: Mapping[str, t.Any]) -> tuple[ObjectKey, ...]:
    """The keys a ticket lists; entries that make no sense or lie in another namespace are left out.

    A key is no right to delete: anybody can write a ConfigMap, so the object found must be owned by the ticket.
    """
    try:
        listed = parse_json((ticket.get("data") or {}).get("objects"), "the ticket's objects")
    except BadInput:
        return ()
    entries = [entry for entry in listed if isinstance(entry, list)] if isinstance(listed, list) else []
    return tuple(
        ObjectKey(*entry)
        for entry in entries
        if len(entry) == 4
        and all(isinstance(part, str) and part for part in entry)
        and entry[2] == ticket["metadata"].get("namespace")
    )


def owned_by_ticket(obj: Mapping[str, t.Any], ticket_uid: str) -> Data:
    """A copy of a planned object owned by its attempt's ticket, whose name follows from the object's labels."""
    labels = obj["metadata"]["labels"]
    name = ticket_name(labels[GANG_LABEL], int(labels[ATTEMPT_LABEL]))
    return _with_owner(obj, _reference("v1", "ConfigMap", name, ticket_uid))


def owned_by_record(obj: Mapping[str, t.Any], record: Mapping[str, t.Any]) -> Data:
    """A copy of a kept object owned by the record, so that it lives as long as the gang."""
    metadata = record["metadata"]
    return _with_owner(obj, _reference(record["apiVersion"], record["kind"], metadata["name"], metadata["uid"]))


def adopts(existing_ticket: Mapping[str, t.Any], record_uid: str, attempt: int, digest: str) -> bool:
    """Whether a ticket found under our name is the one we meant to create, unchanged and not about to go."""
    metadata = existing_ticket["metadata"]
    labels = metadata.get("labels") or {}
    data = existing_ticket.get("data") or {}
    return (
        existing_ticket.get("immutable") is True
        and not metadata.get("deletionTimestamp")
        and metadata.get("name") == ticket_name(record_uid, attempt)
        and labels.get(TICKET_LABEL) == "true"
        and labels.get(GANG_LABEL) == record_uid
        and owner_of(existing_ticket, None, record_uid) == ("record", record_uid)
        and data.get("attempt") == str(attempt)
        and data.get("digest") == digest
    )


def owner_of(obj: Mapping[str, t.Any], ticket_uid: str | None, record_uid: str | None) -> tuple[Owner, str | None]:
    """Whose object this is, and the owner's uid: this ticket's, this record's, somebody else's or nobody's."""
    uids = [str(item.get("uid")) for item in _owners(obj)]
    if not uids:
        return "none", None
    if ticket_uid is not None and ticket_uid in uids:
        return "ticket", ticket_uid
    if record_uid is not None and record_uid in uids:
        return "record", record_uid
    return "foreign", uids[0]


def from_older_attempt(obj: Mapping[str, t.Any], record_uid: str, attempt: int) -> bool:
    """Whether an object was left by an earlier attempt of this record: its labels and its owner's name agree on it."""
    labels = obj["metadata"].get("labels") or {}
    number = str(labels.get(ATTEMPT_LABEL, ""))
    if labels.get(GANG_LABEL) != record_uid or not re.fullmatch(r"[0-9]{1,10}", number) or int(number) >= attempt:
        return False
    name = ticket_name(record_uid, int(number))
    return any((item.get("kind"), item.get("name")) == ("ConfigMap", name) for item in _owners(obj))


def _planned(spec: GangSpec, obj: Data, index: int, record_uid: str, attempt: int) -> PlannedObject:
    """One object with its final name, namespace and labels; kept ones belong to no attempt in particular."""
    keep = is_kept(obj)
    metadata = obj["metadata"]
    metadata["namespace"] = spec.namespace
    stem = metadata.pop("generateName", None)
    if not metadata.get("name"):
        number = 0 if keep else attempt
        suffix = _hash(record_uid, number, index)[:_SUFFIX_LENGTH]
        metadata["name"] = f"{stem[: _NAME_LENGTH - _SUFFIX_LENGTH]}{suffix}"
    _add_labels(metadata, {GANG_LABEL: record_uid, **({} if keep else {ATTEMPT_LABEL: str(attempt)})})
    key = ObjectKey(obj["apiVersion"], obj["kind"], spec.namespace, metadata["name"])
    return PlannedObject(index, obj, key, keep)


def named_templates(spec: GangRequest) -> Iterator[PodSet]:
    """The podsets whose template lies inside an object and has a name that counts in the gang's demand."""
    for podset, name in _reachable_templates(spec):
        if name is not None:
            yield dataclasses.replace(podset, name=name)


def _reachable_templates(spec: GangRequest) -> Iterator[tuple[PodSet, str | None]]:
    """The podsets whose template lies inside an object, each with its name in the gang's demand.

    Where podsets are declared, theirs are the names that count: equal names are taken, else the order if there are as
    many; a template that belongs to no declared podset has no name.
    """
    inferred: Sequence[PodSet] = ()
    if spec.podsets is None:
        inferred = spec.inferred
    else:
        # An object of an unknown kind is no obstacle.
        _known, inferred = infer_known(spec.planned, namespace=spec.namespace, unknown=NeedsPodsets)
    names: dict[str, str] = {item.name: item.name for item in inferred}
    if spec.podsets is not None:
        declared = [item.name for item in spec.demand]
        if not set(declared) & set(names) and len(declared) == len(names):
            names = dict(zip(names, declared, strict=True))
        else:
            names = {name: name for name in names if name in declared}
    for podset in inferred:
        if podset.path is not None:
            yield podset, names.get(podset.name)


def _refuse_duplicates(spec: GangSpec, plan: Plan) -> None:
    """Two objects of one gang with the same name would be one object; the version of the API makes no difference."""
    seen: dict[tuple[str, ...], int] = {}
    for item in plan:
        first = seen.setdefault(item.key.identity, item.index)
        if first != item.index:
            raise BadInput(
                "plan",
                f"gang {spec.namespace}/{spec.name}: objects[{item.index}].metadata.name",
                f"{describe_object(item.object, spec.namespace)} is objects[{first}] too; give it another name",
            )


def _add_labels(metadata: Data, labels: Mapping[str, str]) -> None:
    """Set labels; ours win over what the user wrote."""
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}


def _with_owner(obj: Mapping[str, t.Any], reference: Data) -> Data:
    """A copy with one more owner."""
    owned = copy.deepcopy(dict(obj))
    owned["metadata"]["ownerReferences"] = [*_owners(obj), reference]
    return owned


def _owners(obj: Mapping[str, t.Any]) -> Sequence[Mapping[str, t.Any]]:
    """The owner references of an object."""
    return obj["metadata"].get("ownerReferences") or ()


def _reference(api_version: str, kind: str, name: str, uid: str) -> Data:
    """An owner that manages nothing and blocks no deletion; it only takes the object along."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }


def _hash(*parts: str | int) -> str:
    """A hexadecimal fingerprint of some words."""
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()
