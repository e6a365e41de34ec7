# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every kind of object needs to say where its pod templates lie: careful reading with paths in the messages."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput

Step: t.TypeAlias = "str | int"
Path = tuple[Step, ...]
Object = Mapping[str, t.Any]

ACTION = "infer the podsets of"


class NeedsPodsets(BadInput):
    """The pods of this kind cannot be inferred; the user has to declare podsets."""


@dataclasses.dataclass(frozen=True, slots=True)
class TemplateUse:
    """One pod template of an object and how many pods are made from it.

    template carries what the kind's controller adds (sidecars, init containers, labels). requests and limits are set
    when the object declares the size of a pod itself; they win over the template's. owner names the object that makes
    the pods.
    """

    name: str
    count: int
    template: Object
    path: Path | None
    requests: Object | None = None
    limits: Object | None = None
    owner: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """An object read by path; what is missing or of the wrong type is refused with object and field."""

    obj: Object
    where: str

    @property
    def name(self) -> str:
        """The object's name, or the stem of a generated one."""
        metadata = self.mapping(("metadata",))
        return str(metadata.get("name") or str(metadata["generateName"]).rstrip("-"))

    def fail(self, path: Path, cause: str) -> BadInput:
        """The error for one field, to be raised by the caller."""
        return BadInput(ACTION, f"{self.where}: {path_text(path)}", cause)

    def get(self, path: Path) -> t.Any:
        """The value at a path, None when any part of it is missing."""
        value: t.Any = self.obj
        for position, part in enumerate(path):
            if isinstance(part, int):
                if not isinstance(value, Sequence) or isinstance(value, str):
                    raise self.fail(path[:position], f"a list is needed, this is a {type(value).__name__}")
                value = value[part] if part < len(value) else None
            else:
                if not isinstance(value, Mapping):
                    raise self.fail(path[:position], f"a mapping is needed, this is a {type(value).__name__}")
                value = value.get(part)
            if value is None:
                return None
        return value

    def mapping(self, path: Path, *, required: bool = True) -> Object:
        """The mapping at a path; empty when it may be missing."""
        value = self.get(path)
        if value is None:
            if required:
                raise self.fail(path, "it is missing")
            return {}
        if not isinstance(value, Mapping):
            raise self.fail(path, f"a mapping is needed, this is a {type(value).__name__}")
        return value

    def items(self, path: Path, *, required: bool = True) -> list[Path]:
        """The paths of the entries of the list at a path; every entry must be a mapping."""
        value = self.get(path)
        if value is None:
            if required:
                raise self.fail(path, "it is missing")
            return []
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.fail(path, f"a list is needed, this is a {type(value).__name__}")
        paths: list[Path] = [(*path, index) for index in range(len(value))]
        for entry in paths:
            self.mapping(entry)
        return paths

    def count(self, path: Path, default: int) -> int:
        """A whole number that is not negative."""
        value = self.get(path)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.fail(path, f"a whole number that is not negative is needed, not {value!r}")
        return int(value)

    def flag(self, path: Path) -> bool:
        """A boolean that is false when missing."""
        value = self.get(path)
        if value is not None and not isinstance(value, bool):
            raise self.fail(path, f"true or false is needed, not {value!r}")
        return bool(value)

    def text(self, path: Path, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self.get(path)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value:
            raise self.fail(path, "it is missing" if value is None else f"a text is needed, not {value!r}")
        return value

    def template(self, path: Path) -> Object:
        """The pod template at a path; a template without containers is no template."""
        self.mapping(path)
        self.mapping((*path, "metadata"), required=False)
        self.mapping((*path, "spec"))
        if not self.items((*path, "spec", "containers")):
            raise self.fail((*path, "spec", "containers"), "it has no container")
        return self.mapping(path)


Handler = Callable[[Reader], list[TemplateUse]]


def path_text(path: Path) -> str:
    """A path as people write it: spec.workerGroupSpecs[0].template."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the object"


def with_labels(template: Object, own: Mapping[str, str], fixed: Mapping[str, str] | None = None) -> dict[str, t.Any]:
    """A copy of the template with labels a controller adds; own may be overridden by the user's, fixed may not."""
    metadata = template.get("metadata") or {}
    labels = {**own, **(metadata.get("labels") or {}), **(fixed or {})}
    return {**template, "metadata": {**metadata, "labels": labels}}


def with_container(template: Object, field: str, container: Object) -> dict[str, t.Any]:
    """A copy of the template with one more container at the end of containers or initContainers."""
    spec = template["spec"]
    return {**template, "spec": {**spec, field: [*(spec.get(field) or ()), container]}}
