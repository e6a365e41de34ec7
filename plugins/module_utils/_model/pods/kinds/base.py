# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of a kind of objects, in one entry: its pods, how it ends, how it is resized, and what to watch.

Templates are read carefully, with paths in the messages. What a live object says is read leniently: whoever wrote it
may be a newer operator, and what makes no sense says nothing.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    condition_met,
    conditions,
    group_and_kind,
    value_at,
)

Step: t.TypeAlias = "str | int"
Path = tuple[Step, ...]
Object = Mapping[str, t.Any]
ItemOutcome = t.Literal["succeeded", "failed"]
# What a size counts: GPUs of each pod, or pods (of groups of pods, groups).
Axis = t.Literal["per_pod", "pods"]
# How a size is changed: in place, while the object is suspended, or by taking the gang back and starting it anew.
Method = t.Literal["scale", "suspend", "recreate"]

ACTION = "infer the podsets of"
# A text of so many digits or more says no number that anybody counts.
_MOST_DIGITS = 12


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
class ExpectedPods:
    """Pods of one podset of a live object.

    now is how many it wants at this moment. prompt is how many of them it makes without waiting for other pods to be
    ready. spare is how many may succeed before fewer are wanted at once.
    """

    name: str
    now: int
    prompt: int
    spare: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """An object read by path; what is missing or of the wrong type is refused with object and field.

    namespace is where the object lives unless it says so itself; infer finds the templates of an object inside of it.
    """

    obj: Object
    where: str
    namespace: str
    infer: Callable[[Object, str, str], list[TemplateUse]]

    @property
    def name(self) -> str:
        """The object's name, or the stem of a generated one."""
        metadata = self.mapping(("metadata",))
        if metadata.get("name"):
            return str(metadata["name"])
        self.require_name()
        return str(metadata["generateName"]).rstrip("-")

    def require_name(self) -> None:
        """An object that makes pods needs a name or the stem of a generated one."""
        metadata = self.mapping(("metadata",))
        if not metadata.get("name") and not metadata.get("generateName"):
            raise self.fail(("metadata", "name"), "it is missing")

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


Templates = Callable[[Reader], list[TemplateUse]]
Expected = Callable[[Object, Sequence[TemplateUse]], list[ExpectedPods]]


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


def describe_object(obj: t.Any, namespace: str, index: int | None = None) -> str:
    """An object's kind, namespace and name for messages; its place in the list when it has no name."""
    if not isinstance(obj, Mapping):
        return f"object {index}" if index is not None else "the object"
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name") or metadata.get("generateName")
    kind = obj.get("kind") or "object"
    if not name:
        return f"{kind} {index}" if index is not None else f"{kind}"
    return f"{kind} {metadata.get('namespace') or namespace}/{name}"


def no_pods(_reader: Reader) -> list[TemplateUse]:
    """The templates of kinds that are known to make no pods."""
    return []


def unknown_templates(reader: Reader) -> list[TemplateUse]:
    """Of a kind that is in no table nobody knows how many pods it makes."""
    group, kind = group_and_kind(reader.obj)
    of_group = f" of group {group}" if group else ""
    raise NeedsPodsets(ACTION, reader.where, f"unknown kind {kind}{of_group}; declare podsets for it")


def as_written(_obj: Object, uses: Sequence[TemplateUse]) -> list[ExpectedPods]:
    """Kinds that always want what is written in them."""
    return [ExpectedPods(use.name, use.count, use.count) for use in uses]


def always(_obj: Object) -> bool:
    """Every object of the kind."""
    return True


def status_message(obj: Object) -> str:
    """What most kinds say about a failure in their status; empty when they say nothing."""
    told = (value_at(obj, ("status", field)) for field in ("message", "reason"))
    return str(next(filter(None, told), ""))


@dataclasses.dataclass(frozen=True, slots=True)
class KindEnding:
    """How objects of a kind end by themselves, and where they say so."""

    outcome: Callable[[Object], ItemOutcome | None]
    # What a failed object says about it.
    message: Callable[[Object], str] = status_message
    # A part of the type of the condition that says it is done, as AppWrappers name it; None without such a condition.
    done_word: str | None = None
    # Whether it is done when its pods have ended well, all of them or some.
    by_pods: bool = True
    # Which objects of the kind end at all.
    applies: Callable[[Object], bool] = always
    # Where an object says that its controller takes it away some time after it has ended.
    ttl: Path | None = ("spec", "ttlSecondsAfterFinished")


@dataclasses.dataclass(frozen=True, slots=True)
class ResizeTerms:
    """What decides about the method besides the object and the axis.

    environment: variables of containers change with the size. suspended_jobs_change: suspended Jobs take other
    resources on this server. shrinks: the size gets smaller.
    """

    environment: bool = False
    suspended_jobs_change: bool = False
    shrinks: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class PodBounds:
    """How many pods of a podset an object itself allows, and where it says so."""

    low: int
    high: int
    where: Path


def by_recreating(_obj: Object, _axis: Axis, _terms: ResizeTerms) -> Method:
    """The method of kinds of which nobody knows a gentler one."""
    return "recreate"


def no_counts(_obj: Object, _template: Path | None) -> tuple[Path, ...]:
    """Kinds whose number of pods cannot be changed."""
    return ()


def read_number(value: t.Any) -> int | None:
    """The whole number that a text says; None when it says none, or one that is larger than anything is counted to."""
    text = str(value).strip()
    return int(text) if len(text) < _MOST_DIGITS and text.isdecimal() else None


def no_bounds(_obj: Object, _template: Path | None) -> PodBounds | None:
    """Kinds that have no range of their own."""
    return None


def replicas_at(*path: Step) -> Callable[[Object, Path | None], tuple[Path, ...]]:
    """Kinds with one number of pods, at this path."""
    return lambda _obj, _template: (path,)


def replicas_beside(_obj: Object, template: Path | None) -> tuple[Path, ...]:
    """Kinds whose podsets have their number of pods beside the template."""
    return ((*template[:-1], "replicas"),) if template else ()


@dataclasses.dataclass(frozen=True, slots=True)
class Resizing:
    """How objects of a kind get another size; podsets are told apart by the paths of their templates."""

    # What a range counts when it does not say so.
    axis: Axis = "per_pod"
    method: Callable[[Object, Axis, ResizeTerms], Method] = by_recreating
    # Where the number of pods of a podset stands; nowhere if it cannot be changed.
    counts: Callable[[Object, Path | None], tuple[Path, ...]] = no_counts
    # The range of pods that an object itself carries.
    bounds: Callable[[Object, Path | None], PodBounds | None] = no_bounds
    # Where it is suspended; None when it cannot be.
    suspend: Path | None = None
    # Where it asks its operator for an autoscaler of its pods.
    autoscaled: Path | None = None
    # Where resources and environment of a pod stand in objects that hold no template.
    resources: Path | None = None
    environment: Path | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """Everything that is known of one kind; what is left out is as for kinds of which nobody knows more."""

    group: str
    name: str
    templates: Templates = unknown_templates
    # How many pods a live object wants now, for each of its templates.
    expected: Expected = as_written
    # None for kinds that never end.
    ending: KindEnding | None = None
    # How a size is changed.
    resizing: Resizing = Resizing()
    # Where an object says after how many seconds it is ended by force.
    deadline: Path | None = None
    # What in the status changes demand or outcome, beside the conditions, so that a watch must tell it.
    status_fields: tuple[Path, ...] = ()
    # apiVersion and kind of the objects between one of this kind and its pods, which carry no label of ours.
    owners: tuple[tuple[str, str], ...] = ()
    cluster_scoped: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Group and kind."""
        return self.group, self.name

    @property
    def may_make_pods(self) -> bool:
        """Whether its objects make pods, or may."""
        return self.makes_pods is not False

    @property
    def makes_pods(self) -> bool | None:
        """Whether pods come from objects of this kind; None when nobody knows."""
        return None if self.templates is unknown_templates else self.templates is not no_pods

    def deadline_seconds(self, obj: Object) -> float | None:
        """After how many seconds an object is ended by force; None when it says nothing."""
        limit = value_at(obj, self.deadline) if self.deadline is not None else None
        return float(limit) if isinstance(limit, int | float) and not isinstance(limit, bool) else None


def by_conditions(
    success: str, failure: str, done_word: str, ttl: Path | None = ("spec", "ttlSecondsAfterFinished")
) -> KindEnding:
    """The ending of kinds that have a condition for success and one for failure, which counts more."""

    def outcome(obj: Object) -> ItemOutcome | None:
        """How the object ended."""
        if condition_met(obj, failure):
            return "failed"
        return "succeeded" if condition_met(obj, success) else None

    def message(obj: Object) -> str:
        """What the condition says, else the status."""
        told = [item.get("message") for item in conditions(obj) if item.get("type") == failure]
        return str(next(filter(None, told), "")) or status_message(obj)

    return KindEnding(outcome, message, done_word, ttl=ttl)


def count_at(obj: Object, path: Path) -> int:
    """A count of a status, 0 when it is missing."""
    value = value_at(obj, path)
    return value if isinstance(value, int) else 0
