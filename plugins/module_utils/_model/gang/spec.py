# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the user asked for: the specification of a gang, read strictly."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.allotment import allotted
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.terms import (
    TERM_KEYS,
    ElasticTerms,
    read_terms,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets, infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    DNS_LENGTH,
    DNS_NAME,
    INT32,
    LABEL_LENGTH,
    Data,
    Fields,
    canonical_json,
    plain_value,
)

Growth = t.Literal["exponential", "linear", "none"]

GROWTHS: tuple[Growth, ...] = t.get_args(Growth)
OWN_PREFIX = "muster.kube/"
# Written into records from the second format on: the first version of the collection refuses a key it does not know.
SPEC_FORMAT = 1

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")
_LABEL_NAME = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_SPEC_KEYS = (
    "name",
    "namespace",
    "queue",
    "priority",
    "priority_slope",
    "suspended",
    "objects",
    "podsets",
    "min_available",
    "requeue",
    "max_run_time",
    "completion",
    "exit_codes",
    "ttl",
    "labels",
    "elastic",
)
_NESTED_KEYS = {
    "requeue": ("time", "growth", "max_time", "limit", "pause"),
    "exit_codes": ("terminal", "retryable"),
    "elastic": TERM_KEYS,
}
_COMPLETION_KEYS = ("item", "type", "status", "contains", "jmespath", "pods")
_STATUSES = ("True", "False", "Unknown")


@dataclasses.dataclass(frozen=True, slots=True)
class Requeue:
    """When a gang below its minimum goes back to the queue.

    time is how long it may stay below, grown each time up to max_time; limit None is no limit, 0 is never; pause is how
    long it then stays out of the order.
    """

    time: float = 300.0
    growth: Growth = "exponential"
    max_time: float | None = None
    limit: int | None = None
    pause: float = 0.0


@dataclasses.dataclass(frozen=True)
class GangSpec(GangRequest):
    """What the user asked for.

    Each entry of completion names an object by its place (item) with a condition or a jmespath expression, or says
    pods: true. A condition is given by type and status, or by a part of the type (contains) with status True; letter
    case does not matter. One entry of an item is enough, and every item that has entries must be done. None is what
    the kinds themselves call done; without any entry the gang never completes. unknown holds keys of a later version of
    the collection, to be written back as they are. elastic are the terms of an elastic gang, and allotment the size
    that its objects are planned with, the least one where none is given; it is no part of what the user asked for.
    """

    queue: str | None = None
    priority: int = 0
    priority_slope: float = 0.0
    suspended: bool = False
    min_available: int | dict[str, int] | None = None
    requeue: Requeue = Requeue()
    max_run_time: float | None = None
    completion: tuple[Data, ...] | None = None
    exit_codes_terminal: tuple[int, ...] = ()
    exit_codes_retryable: tuple[int, ...] = ()
    ttl: float | None = None
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    unknown: Data = dataclasses.field(default_factory=dict)
    elastic: ElasticTerms | None = None
    allotment: int | None = dataclasses.field(default=None, compare=False)

    @functools.cached_property
    def planned(self) -> tuple[Data, ...]:
        """The objects as a start creates them: those of an elastic gang with the size that it is given."""
        if self.elastic is None or self.size is None:
            return self.objects
        return tuple(allotted(self.objects, self.elastic.range, self.size, namespace=self.namespace))

    @property
    def size(self) -> int | None:
        """The size that the objects of an elastic gang are planned with; None for a gang of fixed size."""
        return None if self.elastic is None else self.allotment or self.elastic.wanted.min

    @functools.cached_property
    def _sizes(self) -> dict[int | None, GangSpec]:
        """The specification with each size that was asked for; equal sizes share all that follows from them."""
        return {self.allotment: self}

    def with_allotment(self, size: int | None) -> GangSpec:
        """The same specification planned with this size; itself where it is not elastic.

        A size that the range does not have counts as none: the range was edited since, or somebody wrote a state.
        """
        if self.elastic is None or size == self.allotment:
            return self
        if size not in self.elastic.range.sizes and size is not None:
            return self.with_allotment(None)
        if size not in self._sizes:
            other = dataclasses.replace(self, allotment=size)
            other.__dict__["_sizes"] = self._sizes
            self._sizes[size] = other
        return self._sizes[size]

    @functools.cached_property
    def _digest(self) -> str:
        started = {"objects": self.planned, "podsets": self.podsets}
        return hashlib.sha256(canonical_json(started).encode()).hexdigest()


def read_spec(data: Mapping[str, t.Any], where: str, *, stored: bool = False) -> GangSpec:
    """A specification from plain values; where names the gang or its record in complaints.

    An unknown key of a user is a mistake; one of a stored record is a later version's and is kept.
    """
    fields = Fields(plain_value(data, where), where)
    if stored:
        fields.require_format(SPEC_FORMAT)
    else:
        _refuse_unknown(fields)
    namespace = fields.dns("namespace", "the namespace of a gang", LABEL_LENGTH)
    objects = tuple(_object(fields, index, item) for index, item in enumerate(fields.sequence("objects")))
    if not objects:
        raise fields.fail("objects", "the gang has no objects; give at least one")
    podsets = _podsets(fields, namespace)
    terminal, retryable = _exit_codes(fields)
    return GangSpec(
        name=fields.dns("name", "the name of a gang", DNS_LENGTH),
        namespace=namespace,
        objects=objects,
        queue=_queue(fields),
        priority=fields.whole("priority", -INT32, INT32 - 1),
        priority_slope=fields.number("priority_slope"),
        suspended=fields.flag("suspended"),
        podsets=podsets,
        min_available=_min_available(fields, objects, podsets, namespace),
        requeue=_requeue(fields),
        max_run_time=fields.duration("max_run_time", None),
        completion=_completion(fields, len(objects)),
        exit_codes_terminal=terminal,
        exit_codes_retryable=retryable,
        ttl=fields.duration("ttl", None),
        labels=_labels(fields),
        unknown=_unknown(fields),
        elastic=_elastic(fields, objects, namespace, stored),
    )


def _elastic(fields: Fields, objects: Sequence[Data], namespace: str, stored: bool) -> ElasticTerms | None:
    """The terms of an elastic gang; None for one of fixed size."""
    if fields.get("elastic") is None:
        return None
    if fields.get("podsets") is not None:
        raise fields.fail("podsets", "the sizes of an elastic gang follow from its objects; leave them out")
    terms = Fields(fields.mapping("elastic"), f"{fields.where}: elastic")
    return read_terms(terms, objects, namespace, stored=stored)


def _refuse_unknown(fields: Fields) -> None:
    """Refuse keys nobody knows, here and in the mappings below."""
    fields.only(_SPEC_KEYS)
    for key, known in _NESTED_KEYS.items():
        Fields(fields.mapping(key), f"{fields.where}: {key}").only(known)


def _unknown(fields: Fields) -> Data:
    """The keys of a later version, here and in the mappings below."""
    found = fields.unknown(_SPEC_KEYS)
    for key, known in _NESTED_KEYS.items():
        if fields.data.get(key) is None:
            continue
        nested = Fields(fields.mapping(key), f"{fields.where}: {key}").unknown(known)
        if nested:
            found[key] = nested
    return found


def spec_data(spec: GangSpec) -> Data:
    """Plain values from which read_spec makes the same specification again."""
    podsets = None if spec.podsets is None else list(spec.podsets)
    return {
        **spec.unknown,
        "name": spec.name,
        "namespace": spec.namespace,
        "queue": spec.queue,
        "priority": spec.priority,
        "priority_slope": spec.priority_slope,
        "suspended": spec.suspended,
        "objects": list(spec.objects),
        "podsets": podsets,
        "min_available": spec.min_available,
        "requeue": {**spec.unknown.get("requeue", {}), **dataclasses.asdict(spec.requeue)},
        "max_run_time": spec.max_run_time,
        "completion": None if spec.completion is None else list(spec.completion),
        "exit_codes": {
            **spec.unknown.get("exit_codes", {}),
            "terminal": list(spec.exit_codes_terminal),
            "retryable": list(spec.exit_codes_retryable),
        },
        "ttl": spec.ttl,
        "labels": dict(spec.labels),
        **({} if spec.elastic is None else {"elastic": {**spec.unknown.get("elastic", {}), **spec.elastic.as_data()}}),
    }


def digest(spec: GangSpec) -> str:
    """A fingerprint of what would be started; other settings of the gang do not change it."""
    return spec._digest


def _object(fields: Fields, index: int, item: t.Any) -> Data:
    """One object of a gang: enough of it to be created."""
    entry = Fields(item, f"{fields.where}: objects[{index}]")
    for key in ("apiVersion", "kind"):
        entry.required_text(key)
    if "items" in entry.data and str(entry.data["kind"]).endswith("List"):
        raise entry.fail("kind", "a list of objects is no object; give its items one by one")
    metadata = Fields(entry.get("metadata"), f"{entry.where}: metadata")
    if metadata.get("name") is None:
        metadata.required_text("generateName", "neither name nor generateName is given")
    else:
        metadata.required_text("name")
    metadata.text("namespace")
    for key in ("labels", "annotations"):
        for name, value in metadata.mapping(key).items():
            if not isinstance(value, str):
                raise metadata.fail(f"{key}.{name}", f"a text is needed, not {value!r}; quote it")
    return dict(entry.data)


def _podsets(fields: Fields, namespace: str) -> tuple[Data, ...] | None:
    """Declared podsets, checked by the code that will count them."""
    if fields.get("podsets") is None:
        return None
    items = fields.sequence("podsets")
    try:
        declared_podsets(items, namespace=namespace)
    except BadInput as error:
        raise BadInput(error.action, f"{fields.where}: {error.target}", error.cause) from error
    return tuple(items)


def _min_available(
    fields: Fields, objects: Sequence[Data], podsets: Sequence[Data] | None, namespace: str
) -> int | dict[str, int] | None:
    """Pods that must run: a number for the whole gang, or one for each podset."""
    value = fields.get("min_available")
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return fields.whole("min_available", 0, INT32 - 1)
    known = declared_podsets(podsets, namespace=namespace) if podsets else infer_podsets(objects, namespace=namespace)
    entry = Fields(value, f"{fields.where}: min_available")
    entry.only([item.name for item in known])
    return {name: entry.whole(name, 0, INT32 - 1, required=True) for name in value}


def _requeue(fields: Fields) -> Requeue:
    """The rules of requeuing, with their defaults."""
    entry = Fields(fields.mapping("requeue"), f"{fields.where}: requeue")
    limit = entry.get("limit")
    usual = Requeue()
    return Requeue(
        time=entry.duration("time", usual.time),
        growth=entry.choice("growth", GROWTHS, usual.growth),
        max_time=entry.duration("max_time", None),
        limit=None if limit is None else entry.whole("limit", 0, INT32 - 1),
        pause=entry.duration("pause", usual.pause),
    )


def _completion(fields: Fields, objects: int) -> tuple[Data, ...] | None:
    """When the gang is done; an empty list says never and is not the same as none."""
    if fields.get("completion") is None:
        return None
    return tuple(_done_when(fields, index, item, objects) for index, item in enumerate(fields.sequence("completion")))


def _done_when(fields: Fields, index: int, item: t.Any, objects: int) -> Data:
    """One rule of completion; exactly one of type, contains, jmespath and pods."""
    entry = Fields(item, f"{fields.where}: completion[{index}]")
    entry.only(_COMPLETION_KEYS)
    kinds = [key for key in ("type", "contains", "jmespath", "pods") if entry.get(key) is not None]
    if len(kinds) != 1:
        raise entry.fail("type", "give exactly one of type (with status), contains, jmespath and pods")
    if kinds[0] != "type" and entry.get("status") is not None:
        raise entry.fail("status", "it belongs to a condition's type")
    if kinds == ["pods"]:
        if entry.get("item") is not None or entry.data["pods"] is not True:
            raise entry.fail("pods", "only pods: true is known, for the whole gang, without item")
        return {"pods": True}
    place = entry.whole("item", 0, objects - 1, required=True)
    if kinds == ["contains"]:
        return {"item": place, "contains": entry.required_text("contains").lower()}
    if kinds == ["jmespath"]:
        return {"item": place, "jmespath": entry.required_text("jmespath")}
    return {"item": place, "type": entry.required_text("type"), "status": entry.choice("status", _STATUSES, "True")}


def _exit_codes(fields: Fields) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Exit codes after which a gang is not retried, and those after which alone it is."""
    entry = Fields(fields.mapping("exit_codes"), f"{fields.where}: exit_codes")
    terminal, retryable = (entry.codes(key) for key in ("terminal", "retryable"))
    both = sorted(set(terminal) & set(retryable))
    if both:
        raise entry.fail("retryable", f"{both[0]} is named as terminal too")
    return terminal, retryable


def _queue(fields: Fields) -> str | None:
    """A queue's name; it is a label's value too."""
    name = fields.text("queue")
    if name is not None and not _LABEL_NAME.fullmatch(name):
        raise fields.fail("queue", f"{name!r} is no name of a queue; at most 63 letters, digits, '-', '_' and '.'")
    return name


def _labels(fields: Fields) -> dict[str, str]:
    """The user's labels of the record; ours are not theirs to set."""
    labels = fields.mapping("labels")
    for key, value in labels.items():
        prefix, slash, name = key.rpartition("/")
        good_prefix = not slash or (len(prefix) <= DNS_LENGTH and DNS_NAME.fullmatch(prefix))
        if not good_prefix or not _LABEL_NAME.fullmatch(name):
            raise fields.fail(f"labels.{key}", "this is no name of a label")
        if key.startswith(OWN_PREFIX):
            raise fields.fail(f"labels.{key}", f"labels that begin with {OWN_PREFIX} are set by the collection itself")
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            raise fields.fail(f"labels.{key}", f"{value!r} is no value of a label")
    return dict(labels)
