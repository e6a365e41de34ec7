# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of sizes in a cluster: one ConfigMap beside the dispatcher's Lease, written by compare-and-swap.

Beside them stands here what the holder of the Lease tells of its decisions about sizes: by which version of the
settings, for which namespaces, and when. It is an annotation of the Lease and goes along with its renewals, so it
costs no request.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t
import uuid

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Ownership
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields, parse_json
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import (
    SizeRules,
    SizeSettings,
    settings_from_text,
    settings_text,
)
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import ObjectStore

Object = dict[str, t.Any]

SETTINGS_LABEL = "muster.kube/size-settings"
SETTINGS_KEY = "settings.json"
DECIDED_ANNOTATION = "muster.kube/sizes-decided"
_WRITE_KEY = "write"


def settings_name(lease: LeaseOptions) -> str:
    """The ConfigMap that holds the settings of a Lease."""
    return f"{lease.name}-elastic"


@dataclasses.dataclass(frozen=True, slots=True)
class StoredSettings:
    """The settings as they were read: unreadable says why there are none, newer that a later version wrote them."""

    raw: Object
    settings: SizeSettings | None
    unreadable: str | None = None
    newer: bool = False

    @property
    def name(self) -> str:
        """The name of the ConfigMap."""
        return str(self.raw["metadata"]["name"])

    @property
    def foreign(self) -> bool:
        """Whether the ConfigMap does not say that it holds settings: dispatchers do not see it."""
        return SETTINGS_LABEL not in (self.raw["metadata"].get("labels") or {})

    @property
    def rules(self) -> SizeRules:
        """What a cycle decides by."""
        version = str(self.raw["metadata"]["resourceVersion"])
        return SizeRules(self.settings or SizeSettings(), version, self.unreadable)


def decode_settings(raw: Object) -> StoredSettings:
    """The settings in a ConfigMap; what others broke is told, and no error."""
    where = f"ConfigMap {raw['metadata']['namespace']}/{raw['metadata']['name']}"
    text = (raw.get("data") or {}).get(SETTINGS_KEY)
    try:
        if text is None:
            raise BadInput("read", where, f"it has no {SETTINGS_KEY}")
        return StoredSettings(raw, settings_from_text(text, where))
    except NewerVersion as error:
        return StoredSettings(raw, None, str(error), newer=True)
    except BadInput as error:
        return StoredSettings(raw, None, str(error))


def read_stored_settings(client: KubeClient, lease: LeaseOptions) -> StoredSettings | None:
    """The settings beside a Lease; None when there are none."""
    raw = ObjectStore(client).read(lease.namespace, settings_name(lease))
    return None if raw is None else decode_settings(raw)


def write_settings(
    client: KubeClient, lease: LeaseOptions, stored: StoredSettings | None, settings: SizeSettings
) -> StoredSettings:
    """Store settings in the place of those that were read; Superseded or NameTaken when somebody else did meanwhile."""
    write = uuid.uuid4().hex
    told = {SETTINGS_KEY: settings_text(settings), _WRITE_KEY: write}
    if stored is not None:
        body = {**stored.raw, "data": {**(stored.raw.get("data") or {}), **told}}
        return decode_settings(ObjectStore(client).replace(stored.raw, body, write, _write_of))
    metadata = {"name": settings_name(lease), "namespace": lease.namespace, "labels": {SETTINGS_LABEL: "true"}}
    new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": told}

    def is_ours(found: Object) -> Ownership:
        return Ownership.OURS if _write_of(found) == write else Ownership.FOREIGN

    try:
        made = ObjectStore(client).create(new, is_ours, taken="somebody else has just stored settings of sizes")
    except NotFound as error:
        cause = f"the namespace {lease.namespace} does not exist; create it, or choose another one for the lease"
        raise KubeError("create", f"ConfigMap {lease.namespace}/{settings_name(lease)}", cause) from error
    return decode_settings(made.obj)


class SizesDecided(t.NamedTuple):
    """When the holder of a Lease last decided about sizes, by which version of the settings, and for whom.

    The moment is one before it looked. namespaces are None where it is for all of them.
    """

    at: float
    version: str
    namespaces: tuple[str, ...] | None


def decided_text(decided: SizesDecided) -> str:
    """The annotation that tells it."""
    namespaces = None if decided.namespaces is None else sorted(decided.namespaces)
    data = {"format": 1, "at": decided.at, "settings": decided.version, "namespaces": namespaces}
    return json.dumps(data, separators=(",", ":"))


def read_decided(lease: Object | None) -> SizesDecided | None:
    """What a Lease tells of it; None when it tells nothing that can be read."""
    text = (((lease or {}).get("metadata") or {}).get("annotations") or {}).get(DECIDED_ANNOTATION)
    if text is None:
        return None
    try:
        fields = Fields(parse_json(text, DECIDED_ANNOTATION), DECIDED_ANNOTATION)
        fields.require_format(1)
        listed = fields.get("namespaces")
        namespaces = None if listed is None else tuple(map(str, fields.sequence("namespaces")))
        return SizesDecided(fields.number("at"), str(fields.get("settings") or ""), namespaces)
    except BadInput:
        return None


def _write_of(raw: Object) -> str | None:
    return (raw.get("data") or {}).get(_WRITE_KEY)
