# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes a script finds: claims, entries of ConfigMaps and Secrets, and room of its own. None is the node's."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    DNS_LENGTH,
    Data,
    Fields,
    without_none,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity

Source = t.Literal["persistent_volume_claim", "config_map", "secret", "empty_dir"]

SOURCES: tuple[Source, ...] = t.get_args(Source)
VOLUME_KEYS = ("path", *SOURCES, "key", "sub_path", "read_only")
_WITH_ENTRIES = ("config_map", "secret")
_HOST = ("host_path", "hostPath")
_PATH = re.compile(r"(?:/[^/:\x00-\x1f]+)+")
_ENTRY = re.compile(r"[A-Za-z0-9_.-]{1,253}")
# Folders of the collector and of the kernel; what lies on them would break the run.
_TAKEN = ("/muster", "/proc", "/sys", "/dev")
_FILE_MODE = 0o444


@dataclasses.dataclass(frozen=True, slots=True)
class RunVolume:
    """One volume and where the script finds it.

    name is that of the claim, ConfigMap or Secret; key is one entry of these, and path then that of a file.
    """

    path: str
    source: Source
    name: str | None = None
    key: str | None = None
    sub_path: str | None = None
    size: str | None = None
    read_only: bool = True

    def as_data(self) -> Data:
        """What identifies it."""
        return without_none(dataclasses.asdict(self))

    def volume(self, name: str) -> Data:
        """It as a volume of a pod."""
        if self.source == "empty_dir":
            return {"name": name, "emptyDir": {"sizeLimit": self.size}}
        if self.source == "persistent_volume_claim":
            return {"name": name, "persistentVolumeClaim": {"claimName": self.name, "readOnly": self.read_only}}
        items = {"items": [{"key": self.key, "path": self.key}]} if self.key else {}
        if self.source == "secret":
            return {"name": name, "secret": {"secretName": self.name, "defaultMode": _FILE_MODE, **items}}
        return {"name": name, "configMap": {"name": self.name, "defaultMode": _FILE_MODE, **items}}

    def mount(self, name: str) -> Data:
        """Where a container has it."""
        inner = self.key or self.sub_path
        return {
            "name": name,
            "mountPath": self.path,
            **({"subPath": inner} if inner else {}),
            **({"readOnly": True} if self.read_only else {}),
        }


def read_volumes(values: t.Sequence[t.Any], where: str, taken: t.Collection[str] = ()) -> tuple[RunVolume, ...]:
    """The volumes of a task, read strictly; taken are paths at which something else lies."""
    found: list[RunVolume] = []
    for index, data in enumerate(values):
        fields = Fields(data, f"{where}[{index}]")
        for key in _HOST:
            if key in fields.data:
                raise fields.fail(key, "folders of nodes are not given to scripts; use a persistent_volume_claim")
        fields.only(VOLUME_KEYS)
        volume = _volume(fields)
        if volume.path in taken or any(volume.path == other.path for other in found):
            raise fields.fail("path", f"something else lies at {volume.path}")
        found.append(volume)
    return tuple(found)


def _volume(fields: Fields) -> RunVolume:
    """One volume, with what its source allows."""
    given = [source for source in SOURCES if fields.get(source) is not None]
    if len(given) != 1:
        raise fields.fail("path", f"exactly one of {', '.join(SOURCES)} is needed")
    source = given[0]
    key, sub_path = fields.text("key"), fields.text("sub_path")
    if key is not None and (source not in _WITH_ENTRIES or not _ENTRY.fullmatch(key) or key in (".", "..")):
        raise fields.fail("key", "it names an entry of a config_map or secret")
    if sub_path is not None and (source != "persistent_volume_claim" or _leads_out(sub_path)):
        raise fields.fail("sub_path", "it is a folder inside of a persistent_volume_claim, without '..'")
    asked = fields.get("read_only")
    writable = source == "empty_dir" if asked is None else not fields.flag("read_only")
    if writable and source in _WITH_ENTRIES:
        raise fields.fail("read_only", f"a {source} cannot be written")
    if source == "empty_dir" and not writable:
        raise fields.fail("read_only", "an empty_dir that cannot be written is of no use")
    name = None if source == "empty_dir" else fields.dns(source, "the name of an object", DNS_LENGTH)
    size = _size(fields) if source == "empty_dir" else None
    return RunVolume(_path(fields), source, name, key, sub_path, size, not writable)


def _size(fields: Fields) -> str:
    """How much an empty_dir may hold; without a bound a script could fill the disk of its node."""
    inner = Fields(fields.get("empty_dir"), f"{fields.where}: empty_dir")
    inner.only(("size",))
    value = inner.get("size")
    try:
        amount = parse_quantity(value)
    except BadInput as error:
        raise inner.fail("size", error.cause if value is not None else "it is missing") from error
    if amount <= 0:
        raise inner.fail("size", f"more than nothing is needed, not {value!r}")
    return str(value)


def _path(fields: Fields) -> str:
    """Where it goes."""
    path = fields.required_text("path")
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise fields.fail("path", f"an absolute path without '.', '..' and ':' is needed, not {path!r}")
    if any(path == folder or path.startswith(f"{folder}/") for folder in _TAKEN):
        raise fields.fail("path", f"{path} is not for volumes")
    return path


def _leads_out(path: str) -> bool:
    """Whether a path inside of a volume is none."""
    return path.startswith("/") or bool({"", ".", ".."} & set(path.split("/")))
