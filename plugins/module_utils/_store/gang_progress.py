# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The progress of elastic gangs: one ConfigMap each beside the record, which owns it.

Reports never write the record. A trainer writes its last report into a key of its own, and reads in the answer whether
it is asked to save; the module and the dispatcher keep what follows from all reports. Anybody who may write there can
damage it, which harms that gang's progress and nothing else.
"""

from __future__ import annotations

import dataclasses
import hashlib
import typing as t
import uuid
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import Lists
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Allowance,
    Ownership,
    Superseded,
    settle_patch,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress, read_progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.trainer_report import (
    TrainerReport,
    read_report,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    DNS_LENGTH,
    Fields,
    canonical_json,
    parse_json,
)
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import ObjectStore

Object = dict[str, t.Any]

PROGRESS_LABEL = "muster.kube/progress"
PROGRESS_PREFIX = "muster-progress-"
# What follows from all reports; what the trainer wrote last; what the trainer is asked for.
PROGRESS_KEY = "progress.json"
REPORT_KEY = "report.json"
ASKED_KEY = "asked.json"
# More than we ever write; a longer text is somebody else's.
PROGRESS_BYTES = 128 * 1024
_WRITE_KEY = "write"
_REBASES = 4


@dataclasses.dataclass(frozen=True, slots=True)
class StoredProgress:
    """A progress ConfigMap as it was read; problems say why there is no progress or no report in it.

    asked is the moment after which the trainer is asked for a checkpoint. owner is the uid of the record. newer tells
    that a later version wrote the progress.
    """

    raw: Object
    owner: str | None
    progress: Progress | None = None
    report: TrainerReport | None = None
    asked: float | None = None
    problems: tuple[str, ...] = ()
    newer: bool = False

    @property
    def place(self) -> tuple[str, str]:
        """Namespace and name."""
        return str(self.raw["metadata"]["namespace"]), str(self.raw["metadata"]["name"])


def progress_name(gang: str) -> str:
    """The name of the ConfigMap with a gang's progress; known before the gang, so that a Role can name it."""
    name = PROGRESS_PREFIX + gang
    return name if len(name) <= DNS_LENGTH else PROGRESS_PREFIX + hashlib.sha256(gang.encode()).hexdigest()


def decode_progress(raw: Object) -> StoredProgress:
    """What a progress ConfigMap says; whatever others broke of it is told and missing."""
    raw["metadata"].pop("managedFields", None)
    where, data = f"ConfigMap {raw['metadata']['namespace']}/{raw['metadata']['name']}", raw.get("data") or {}
    found: dict[str, t.Any] = {}
    problems, newer = [], False
    for name, key, read in (
        ("progress", PROGRESS_KEY, _read_progress),
        ("report", REPORT_KEY, read_report),
        ("asked", ASKED_KEY, _read_asked),
    ):
        if data.get(key) is None:
            continue
        try:
            found[name] = read(data[key], f"{where}: data.{key}")
        except NewerVersion as error:
            newer = newer or name == "progress"
            problems.append(str(error))
        except BadInput as error:
            problems.append(str(error))
    owners = [str(owner.get("uid")) for owner in raw["metadata"].get("ownerReferences") or ()]
    return StoredProgress(raw, owners[0] if owners else None, **found, problems=tuple(problems), newer=newer)


def progress_essence(stored: StoredProgress) -> tuple[t.Any, ...]:
    """What of it matters at once: that there is another checkpoint, or an end; steps are looked at now and then."""
    told, report = stored.progress, stored.report
    ended = report is not None and report.completed
    last = None if told is None else (told.checkpoint, told.total)
    return stored.owner, last, None if report is None else (report.checkpoint, report.answers), ended


def list_progress(lists: Lists, places: Sequence[str | None]) -> dict[tuple[str, str], StoredProgress]:
    """All progress ConfigMaps of these namespaces (None: of all) by namespace and name."""
    found: dict[tuple[str, str], StoredProgress] = {}
    for namespace in places:
        path = resource_path("v1", "configmaps", namespace)
        listed = lists.list(path, keep=decode_progress, essence=progress_essence, label_selector=PROGRESS_LABEL)
        found.update((item.place, item) for item in listed.items)
    return found


class ProgressStore:
    """Reads and writes the progress of single gangs."""

    def __init__(self, client: KubeClient, allowance: Allowance | None = None) -> None:
        """Nothing is asked yet; the allowance is asked before each request of a write."""
        self._maps = ObjectStore(client, allowance=allowance, tries=3)

    def read(self, record: Record) -> StoredProgress | None:
        """What is stored of a gang; None where nothing is, or only something of an earlier gang of that name."""
        raw = self._maps.read(record.namespace, progress_name(record.name))
        stored = None if raw is None else decode_progress(raw)
        return stored if stored is not None and stored.owner == record.uid else None

    def create(self, record: Record, progress: Progress | None = None, asked: float | None = None) -> StoredProgress:
        """The first progress of a gang; what an earlier gang of that name left is removed. NameTaken by any other."""
        write = uuid.uuid4().hex
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": progress_name(record.name),
                "namespace": record.namespace,
                "labels": {PROGRESS_LABEL: "true"},
                "ownerReferences": [_owner(record)],
            },
            "data": {**_texts(progress, asked), _WRITE_KEY: write},
        }

        def is_ours(found: Object) -> Ownership:
            """Ours by the write; what carries the label and belongs to a gang that is gone is a leftover."""
            if _write_of(found) == write:
                return Ownership.OURS
            labelled = PROGRESS_LABEL in (found["metadata"].get("labels") or {})
            mine = decode_progress(found).owner == record.uid
            return Ownership.OLDER_ATTEMPT if labelled and not mine else Ownership.FOREIGN

        made = self._maps.create(body, is_ours, taken="another object has the name of the gang's progress")
        return decode_progress(made.obj)

    def write(self, stored: StoredProgress, progress: Progress | None, asked: float | None) -> StoredProgress:
        """Write over what was read; the trainer's own report stays as it is by now.

        Superseded when somebody else changed the progress meanwhile. None leaves the progress as it is.
        """
        write, before = uuid.uuid4().hex, _data(stored.raw).get(PROGRESS_KEY)
        raw = stored.raw
        for last in [False] * _REBASES + [True]:
            kept = {key: text for key, text in _data(raw).items() if key != ASKED_KEY}
            body = {**raw, "data": {**kept, **_texts(progress, asked), _WRITE_KEY: write}}
            try:
                return decode_progress(self._maps.replace(raw, body, write, _write_of))
            except Superseded as error:
                if last or _data(error.found).get(PROGRESS_KEY) != before:
                    raise
                raw = error.found
        raise AssertionError("the last try returns or raises")

    def write_report(self, stored: StoredProgress, text: str) -> StoredProgress:
        """Write a trainer's report in its place, and nothing else; Superseded when somebody wrote meanwhile."""
        namespace, name = stored.place
        metadata = {key: stored.raw["metadata"][key] for key in ("uid", "resourceVersion")}
        change = {"metadata": metadata, "data": {REPORT_KEY: text}}
        written = settle_patch(
            self._maps.client,
            self._maps.path(namespace, name),
            change,
            lambda found: _data(found).get(REPORT_KEY) == text,
            allowance=self._maps.allowance,
            tries=self._maps.tries,
        )
        return decode_progress(written)


def _data(raw: Object) -> dict[str, str]:
    return raw.get("data") or {}


def _texts(progress: Progress | None, asked: float | None) -> dict[str, str]:
    """What is written of progress and of what the trainer is asked for."""
    told = {} if progress is None else {PROGRESS_KEY: canonical_json(progress.as_data())}
    return told if asked is None else {**told, ASKED_KEY: canonical_json({"format": 1, "save_after": asked})}


def _read_progress(text: t.Any, where: str) -> Progress:
    if isinstance(text, str) and len(text) > PROGRESS_BYTES:
        raise BadInput("read", where, f"it has {len(text)} characters of at most {PROGRESS_BYTES}")
    return read_progress(parse_json(text, where), where)


def _read_asked(text: t.Any, where: str) -> float:
    """After which moment a checkpoint is asked for."""
    fields = Fields(parse_json(text, where), where)
    fields.require_format(1)
    return fields.number("save_after")


def _owner(record: Record) -> Object:
    """The record takes its progress along when it goes."""
    return {
        "apiVersion": record.raw["apiVersion"],
        "kind": record.raw["kind"],
        "name": record.name,
        "uid": record.uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }


def _write_of(raw: Object) -> str | None:
    return _data(raw).get(_WRITE_KEY)
