# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a Job whose result is kept: a ConfigMap with the specification, the attempt and later the outcome.

A large outcome lies compressed in further ConfigMaps that the record owns; the record names them with their digest.
What an attempt takes over from the one before stands in the record in the same form, as kept. Repetitions that ended
while others run lie in ConfigMaps of their own until the outcome has them.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import gzip
import hashlib
import re
import typing as t
import uuid
import zlib

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Created,
    Ownership,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json, parse_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import LAST_MOMENT
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import ObjectStore

Object = dict[str, t.Any]

MANAGED_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "muster.kube"
# Records that may be swept away carry it, so that a sweep reads no others.
EXPIRES_LABEL = "muster.kube/expires"
# What goes with a record (contents, parts of results) carries it, so that listing records reads none of it.
PART_LABEL = "muster.kube/part"

# Outcomes up to this size stand in the record itself.
INLINE_BYTES = 256 * 1024
CHUNK_BYTES = 900 * 1024
# What a record holds at most, the specification included; the API server allows 1 MiB.
RECORD_BYTES = 960 * 1024
# Stored texts are not unpacked beyond this size: others may have changed them.
_UNPACKED_BYTES = 512 * 1024 * 1024
# How zlib is told that the data are those of gzip.
_GZIP = 31
# Where output is no text, the best level takes ten times as long as this one, for a twelfth less.
_GZIP_LEVEL = 6
_ATTEMPT = re.compile(r"[1-9][0-9]{0,8}")
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclasses.dataclass(frozen=True, slots=True)
class RunRecord:
    """A record as it was read; stored is None until the attempt is over, kept is what it took over from the last."""

    raw: Object
    spec: Data
    identity: str
    attempt: int
    ttl: float | None
    finished: float | None
    stored: Data | None
    kept: Data | None = None

    @property
    def name(self) -> str:
        """Its name, and that of its first Job."""
        return str(self.raw["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.raw["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.raw["metadata"]["uid"])

    @property
    def job_name(self) -> str:
        """The name of this attempt's Job."""
        return job_name(self.name, self.attempt)

    @property
    def chunks(self) -> tuple[str, ...]:
        """The ConfigMaps that hold the outcome; none when it stands in the record."""
        return chunks_of(self.stored)

    @property
    def created(self) -> str | None:
        """When it was made, as the server wrote it."""
        made = self.raw["metadata"].get("creationTimestamp")
        return None if made is None else str(made)

    def expired(self, now: float) -> bool:
        """Whether it was to be kept only until before now."""
        return self.ttl is not None and self.finished is not None and self.finished + self.ttl <= now


@dataclasses.dataclass(frozen=True, slots=True)
class Damaged:
    """A record that cannot be read, and why."""

    namespace: str
    name: str
    problem: str


def job_name(name: str, attempt: int) -> str:
    """The name of an attempt's Job."""
    return name if attempt == 1 else f"{name}-a{attempt}"


def chunks_of(document: Data | None) -> tuple[str, ...]:
    """The ConfigMaps that hold a document of the record; none when it stands in the record."""
    return tuple((document or {}).get("chunks") or ())


def owner_of(record: RunRecord) -> Data:
    """The reference by which the record owns what is made for it."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": record.name, "uid": record.uid}


def new_record(
    namespace: str, name: str, labels: t.Mapping[str, str], spec: Data, identity: str, ttl: float | None
) -> Object:
    """The record of a first attempt, to be created."""
    data = {"spec": canonical_json(spec), "identity": identity, "attempt": "1", "write": uuid.uuid4().hex}
    record = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {**labels, MANAGED_LABEL: MANAGER}},
        "data": data,
    }
    return _with_ttl(record, ttl)


def decode_record(raw: Object) -> RunRecord:
    """The record in a ConfigMap; what others damaged is refused with the name of the field."""
    where = f"ConfigMap {raw['metadata']['namespace']}/{raw['metadata']['name']}"
    data = raw.get("data") or {}
    attempt = data.get("attempt", "")
    if not _ATTEMPT.fullmatch(attempt):
        raise BadInput("read", f"{where}: data.attempt", f"{attempt[:20]!r} is no number from 1")
    return RunRecord(
        raw=raw,
        spec=_document(data.get("spec"), f"{where}: data.spec"),
        identity=str(data.get("identity") or ""),
        attempt=int(attempt),
        ttl=_number(data.get("ttl"), f"{where}: data.ttl"),
        finished=_number(data.get("finished"), f"{where}: data.finished"),
        stored=_stored_document(data, "outcome", where),
        kept=_stored_document(data, "kept", where),
    )


def read_record(client: KubeClient, namespace: str, name: str) -> RunRecord | None:
    """The record of that name; None when there is none or it is on its way out."""
    raw = ObjectStore(client).read(namespace, name)
    return None if raw is None or raw["metadata"].get("deletionTimestamp") else decode_record(raw)


def list_records(client: KubeClient, namespace: str | None, selector: str) -> list[RunRecord]:
    """All records that a label selector matches, by name; damaged ones are left out."""
    return list_with_damaged(client, namespace, selector)[0]


def list_with_damaged(
    client: KubeClient, namespace: str | None, selector: str
) -> tuple[list[RunRecord], tuple[Damaged, ...]]:
    """The records by name, and those that cannot be read; chunks and contents have no attempt and are left out."""
    damaged: list[Damaged] = []

    def keep(raw: Object) -> RunRecord | None:
        if "attempt" not in (raw.get("data") or {}):
            return None
        try:
            return decode_record(raw)
        except BadInput as error:
            damaged.append(Damaged(raw["metadata"]["namespace"], raw["metadata"]["name"], str(error)))
            return None

    wanted = f"{selector},{MANAGED_LABEL}={MANAGER},!{PART_LABEL}"
    found = sorted(
        ObjectStore(client).list(namespace, wanted, keep), key=lambda record: (record.namespace, record.name)
    )
    return found, tuple(sorted(damaged, key=lambda item: (item.namespace, item.name)))


def create_record(client: KubeClient, raw: Object) -> tuple[RunRecord, bool]:
    """Create a record or adopt that of the same specification; returns it and whether it is certainly new."""

    def is_ours(found: Object) -> Ownership:
        same = (found.get("data") or {}).get("identity") == raw["data"]["identity"]
        return Ownership.OURS if same else Ownership.FOREIGN

    cause = "a ConfigMap of that name exists and is not of this specification"
    made = ObjectStore(client).create(raw, is_ours, taken=cause)
    return decode_record(made.obj), not made.read_back


def change_record(
    client: KubeClient,
    record: RunRecord,
    changes: t.Mapping[str, str | None],
    *,
    labels: t.Mapping[str, str] | None = None,
) -> RunRecord:
    """Replace the record with some keys of its data changed, None removes a key, and with some labels set."""
    write = uuid.uuid4().hex
    data = {**record.raw["data"], **changes, "write": write}
    metadata = {**record.raw["metadata"], "labels": {**labels_of(record), **(labels or {})}}
    raw = {**record.raw, "metadata": metadata, "data": {key: item for key, item in data.items() if item is not None}}
    raw = _with_ttl(raw, _number(raw["data"].get("ttl"), record.name))
    return decode_record(ObjectStore(client).replace(record.raw, raw, write, _write_of))


def store_outcome(client: KubeClient, record: RunRecord, outcome: Data, now: float) -> RunRecord:
    """Keep the outcome of the attempt, which has in it all that was kept before."""
    text = pack_document(client, record, outcome)
    return change_record(client, record, {"outcome": text, "finished": str(int(now)), "kept": None})


def pack_document(client: KubeClient, record: RunRecord, document: Data) -> str:
    """What to write into the record; a large document goes into chunks first, so that the record never names half."""
    text = canonical_json(document)
    others = sum(len(item.encode()) for item in record.raw["data"].values())
    if len(text) <= INLINE_BYTES and len(text) + others <= RECORD_BYTES:
        return text
    parts, digest = _packed(text)
    names = [f"{record.name}-r{digest[:10]}-{index}" for index in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        create_owned_map(client, record, name, {}, {"part": part})
    return canonical_json({"chunks": names, "sha256": digest})


def read_outcome(client: KubeClient, record: RunRecord) -> Data | None:
    """The outcome of a record; None when there is none or a part of it is lost."""
    return read_document(client, record, record.stored)


def read_document(client: KubeClient, record: RunRecord, stored: Data | None) -> Data | None:
    """A document of the record; None when there is none or a part of it is lost."""
    chunks = chunks_of(stored)
    if stored is None or not chunks:
        return stored
    parts = []
    for name in chunks:
        raw = ObjectStore(client).read(record.namespace, name)
        part = ((raw or {}).get("binaryData") or {}).get("part")
        if part is None:
            return None
        parts.append(part)
    return _unpacked(parts, str(stored.get("sha256")))


def drop_chunks(client: KubeClient, record: RunRecord, names: t.Iterable[str]) -> None:
    """Delete the parts of a document that the record does not name any more."""
    maps = ObjectStore(client)
    for name in names:
        raw = maps.read(record.namespace, name)
        if raw is not None:
            maps.delete(raw)


def store_results(client: KubeClient, record: RunRecord, results: t.Mapping[int, Data]) -> None:
    """Keep what became of some repetitions of the attempt until the outcome has it."""
    parts, digest = _packed(canonical_json({str(index): result for index, result in results.items()}))
    for number, part in enumerate(parts):
        name = f"{record.job_name}-i{digest[:10]}-{number}"
        data = {"job": record.job_name, "sha256": digest, "number": str(number), "of": str(len(parts))}
        create_owned_map(client, record, name, data, {"part": part}, label=record.name)


def read_results(client: KubeClient, record: RunRecord) -> dict[int, Data]:
    """What is kept of the repetitions of this attempt; what is damaged is left out, as if it had not been kept."""
    found: dict[str, dict[int, str]] = {}
    sizes: dict[str, str] = {}
    for raw in _result_maps(client, record):
        data = raw.get("data") or {}
        if data.get("job") != record.job_name or not _NUMBER.fullmatch(str(data.get("number"))):
            continue
        digest = str(data.get("sha256"))
        found.setdefault(digest, {})[int(data["number"])] = ((raw.get("binaryData") or {}).get("part")) or ""
        sizes[digest] = str(data.get("of"))
    results: dict[int, Data] = {}
    for digest, parts in sorted(found.items()):
        whole = str(len(parts)) == sizes[digest]
        told = _unpacked([parts[number] for number in sorted(parts)], digest) if whole else None
        results |= results_by_index(told)
    return results


def results_by_index(told: t.Any) -> dict[int, Data]:
    """Results by the number of their repetition; what others damaged is left out."""
    entries = told.items() if isinstance(told, dict) else ()
    return {int(key): item for key, item in entries if _NUMBER.fullmatch(key) and isinstance(item, dict)}


def drop_results(client: KubeClient, record: RunRecord) -> None:
    """Delete what was kept of repetitions, since the record has it; what a later attempt keeps is left alone."""
    for raw in _result_maps(client, record):
        if _attempt_of(record, (raw.get("data") or {}).get("job")) <= record.attempt:
            ObjectStore(client).delete(raw)


def _attempt_of(record: RunRecord, job: str | None) -> int:
    """The attempt of a Job of the record by its name; 0 for a name that no attempt has."""
    number = (job or "").removeprefix(f"{record.name}-a")
    return int(number) if _ATTEMPT.fullmatch(number) else int(job == record.name)


def _result_maps(client: KubeClient, record: RunRecord) -> t.Sequence[Object]:
    """The ConfigMaps with results of repetitions that this very record owns."""

    def keep(raw: Object) -> Object | None:
        return raw if record.uid in owner_uids(raw) else None

    return ObjectStore(client).list(record.namespace, f"{PART_LABEL}={record.name}", keep)


def owner_uids(raw: Object) -> list[str]:
    """The uids of an object's owners."""
    return [item.get("uid") for item in raw["metadata"].get("ownerReferences") or ()]


def _packed(text: str) -> tuple[list[bytes], str]:
    """A text compressed, in parts that fit into ConfigMaps, and the digest of the whole."""
    packed = gzip.compress(text.encode(), _GZIP_LEVEL, mtime=0)
    parts = [packed[start : start + CHUNK_BYTES] for start in range(0, len(packed), CHUNK_BYTES)]
    return parts, hashlib.sha256(packed).hexdigest()


def _unpacked(parts: t.Sequence[str], digest: str) -> Data | None:
    """The document in such parts; None when they are not what was stored."""
    try:
        packed = b"".join(base64.b64decode(part, validate=True) for part in parts)
    except (binascii.Error, ValueError, TypeError):
        return None
    if hashlib.sha256(packed).hexdigest() != digest:
        return None
    try:
        unpacker = zlib.decompressobj(wbits=_GZIP)
        text = unpacker.decompress(packed, _UNPACKED_BYTES)
        return _document(text.decode(), "") if unpacker.eof else None
    except (BadInput, ValueError, zlib.error):
        return None


def create_owned_map(
    client: KubeClient,
    record: RunRecord,
    name: str,
    data: t.Mapping[str, str],
    binary: t.Mapping[str, bytes],
    *,
    label: str = "true",
) -> None:
    """Create an immutable ConfigMap that goes with the record; one of the same contents that exists is as good."""
    encoded = {key: base64.b64encode(value).decode() for key, value in binary.items()}
    raw: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": record.namespace,
            "labels": {
                **{key: text for key, text in labels_of(record).items() if key != EXPIRES_LABEL},
                PART_LABEL: label,
            },
            "ownerReferences": [owner_of(record)],
        },
        "immutable": True,
        **({"data": dict(data)} if data else {}),
        **({"binaryData": encoded} if encoded else {}),
    }

    def is_ours(found: Object) -> Ownership:
        if (found.get("data") or {}) != dict(data) or (found.get("binaryData") or {}) != encoded:
            return Ownership.FOREIGN
        return Ownership.OURS if record.uid in owner_uids(found) else Ownership.OLDER_ATTEMPT

    create_owned(ObjectStore(client), raw, is_ours)


def create_owned(objects: ObjectStore, raw: Object, is_ours: t.Callable[[Object], Ownership]) -> Created:
    """Create an object for a record; what an earlier record of the same name left behind is deleted first."""
    cause = "an object of that name exists and is not of this record"
    return objects.create(raw, is_ours, taken=cause, strict=True)


def labels_of(record: RunRecord) -> dict[str, str]:
    """The labels of the record, which all that is made for it carries too."""
    return dict(record.raw["metadata"].get("labels") or {})


def delete_record(client: KubeClient, record: RunRecord) -> None:
    """Delete the record; the collector takes what it owns."""
    ObjectStore(client).delete(record.raw)


def _with_ttl(raw: Object, ttl: float | None) -> Object:
    """The ConfigMap with the time it is kept, and the label by which a sweep finds it."""
    data = {key: value for key, value in raw["data"].items() if key != "ttl"}
    labels = {key: value for key, value in (raw["metadata"].get("labels") or {}).items() if key != EXPIRES_LABEL}
    if ttl is not None:
        data["ttl"] = str(ttl)
        labels[EXPIRES_LABEL] = "true"
    return {**raw, "metadata": {**raw["metadata"], "labels": labels}, "data": data}


def _write_of(raw: Object) -> str | None:
    """The id of the write that made the record what it is."""
    return (raw.get("data") or {}).get("write")


def _number(text: t.Any, where: str) -> float | None:
    """A number others may have damaged; None when missing."""
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError as error:
        raise BadInput("read", where, f"{text!r} is no number") from error
    if not 0 <= number <= LAST_MOMENT:
        raise BadInput("read", where, f"{text!r} is no number of seconds")
    return number


def _stored_document(data: t.Mapping[str, t.Any], key: str, where: str) -> Data | None:
    """A document in the record, or the names of the chunks that hold it."""
    if key not in data:
        return None
    stored = _document(data[key], f"{where}: data.{key}")
    chunks = stored.get("chunks")
    if chunks is not None and not (isinstance(chunks, list) and all(isinstance(name, str) for name in chunks)):
        raise BadInput("read", f"{where}: data.{key}", "its chunks are no list of names")
    return stored


def _document(text: t.Any, where: str) -> Data:
    """A mapping as JSON that others may have damaged."""
    value = parse_json(text, where)
    if not isinstance(value, dict):
        raise BadInput("read", where, f"a mapping is needed, this is a {type(value).__name__}")
    return value
