# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records: what a queued gang is (its specification), where it stands (its state), and the ConfigMap that holds both.

The specification is the user's and is read strictly. The state is an annotation that anybody who may edit the record
can damage, so reading it never fails: a state that makes no sense is none, and state_problem says why.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import math
import re
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.podset import declared_podsets, infer_podsets

Data = dict[str, t.Any]
Phase = t.Literal[
    "queued",
    "dispatching",
    "dispatched",
    "running",
    "undoing",
    "evicting",
    "suspended",
    "complete",
    "failed",
    "unknown",
]
Growth = t.Literal["exponential", "linear", "none"]

PHASES: tuple[Phase, ...] = t.get_args(Phase)
GROWTHS: tuple[Growth, ...] = t.get_args(Growth)

OWN_PREFIX = "muster.kube/"
STATE_ANNOTATION = "muster.kube/state"
RECORD_LABEL = "muster.kube/record"
QUEUE_LABEL = "muster.kube/queue"
RECORD_KEY = "gang.json"

MOST_TRANSITIONS = 20
STATE_BYTES = 32 * 1024
RECORD_BYTES = 1024 * 1024
# What the API server allows for all annotations of an object together.
ANNOTATION_BYTES = 256 * 1024
_MESSAGE_LENGTH = 1000
_DEEPEST = 200
_INT32 = 2**31
_INT64 = 2**63
_LONGEST_SECONDS = 1e12

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?")
_LABEL_NAME = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_NAME = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_DNS_LENGTH = 253
_LABEL_LENGTH = 63


@dataclasses.dataclass(frozen=True, slots=True)
class Transition:
    """One change of phase: when (server time, RFC 3339), why in one word, and why in a sentence."""

    phase: Phase
    at: str
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class GangState:
    """Where a gang stands; reserved lists podsets as name, count and requests, write_id is holder/epoch/seq."""

    phase: Phase
    batch: str | None
    attempt: int
    ticket_uid: str | None
    digest: str | None
    reserved: tuple[Data, ...]
    verdict: Data | None
    transitions: tuple[Transition, ...]
    write_id: str


class Changes(t.TypedDict, total=False):
    """What may change in a state besides its phase."""

    batch: str | None
    attempt: int
    ticket_uid: str | None
    digest: str | None
    reserved: tuple[Data, ...]
    verdict: Data | None


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


@dataclasses.dataclass(frozen=True, slots=True)
class GangSpec:
    """What the user asked for.

    Each entry of completion names an object by its place (item) with either a condition (type and status) or a jmespath
    expression, or says pods: true; one entry of an item is enough, and every item that has entries must be done.
    """

    name: str
    namespace: str
    objects: tuple[Data, ...]
    queue: str | None = None
    priority: int = 0
    priority_slope: float = 0.0
    suspended: bool = False
    podsets: tuple[Data, ...] | None = None
    min_available: int | dict[str, int] | None = None
    requeue: Requeue = Requeue()
    max_run_time: float | None = None
    completion: tuple[Data, ...] = ()
    exit_codes_terminal: tuple[int, ...] = ()
    exit_codes_retryable: tuple[int, ...] = ()
    ttl: float | None = None
    labels: dict[str, str] = dataclasses.field(default_factory=dict)


def canonical_json(value: t.Any) -> str:
    """One text for equal values, whatever the order of their keys; plain ASCII, so its length is its size."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def new_state(at: str, write_id: str, phase: Phase = "queued") -> GangState:
    """The state of a gang that was never started; its first attempt is number 1."""
    first = Transition(phase, at, "Submitted", "")
    return GangState(phase, None, 1, None, None, (), None, (first,), write_id)


def advance(
    state: GangState, phase: Phase, at: str, reason: str, message: str, write_id: str, **changes: t.Unpack[Changes]
) -> GangState:
    """The next state; a transition is noted only when the phase changes, and only the last ones are kept."""
    transitions = state.transitions
    if phase != state.phase:
        short = message if len(message) <= _MESSAGE_LENGTH else message[: _MESSAGE_LENGTH - 1] + "…"
        transitions = (*transitions, Transition(phase, at, reason, short))[-MOST_TRANSITIONS:]
    return dataclasses.replace(state, phase=phase, transitions=transitions, write_id=write_id, **changes)


def state_text(state: GangState) -> str:
    """The annotation's text, reduced to what an annotation may hold.

    First the verdict loses its podsets, then it goes, then the oldest transitions go. Everything that decides what is
    running stays; if that alone is too much the gang cannot be kept.
    """
    text = ""
    for candidate in _shrunk(state):
        text = json.dumps(_state_data(candidate), separators=(",", ":"), allow_nan=False)
        if len(text) <= STATE_BYTES:
            return text
    raise BadInput(
        "keep the state of",
        f"a gang of {len(state.reserved)} podsets",
        f"what it reserves needs {len(text)} bytes of at most {STATE_BYTES}; use fewer podsets or split the gang",
    )


def read_state(annotations: Mapping[str, t.Any] | None) -> GangState | None:
    """The state a record carries; None when it has none, or one that makes no sense."""
    return _parse_state(annotations)[0]


def state_problem(annotations: Mapping[str, t.Any] | None) -> str | None:
    """What is wrong with the state a record carries; None when it is fine or missing."""
    return _parse_state(annotations)[1]


def _shrunk(state: GangState) -> Iterator[GangState]:
    """The state, then less and less of it."""
    yield state
    if state.verdict is not None:
        layers = state.verdict.get("layers")
        if isinstance(layers, list):
            kept = [_without_podsets(layer) for layer in layers]
            yield dataclasses.replace(state, verdict={**state.verdict, "layers": kept})
        state = dataclasses.replace(state, verdict=None)
        yield state
    for first in range(1, len(state.transitions) + 1):
        yield dataclasses.replace(state, transitions=state.transitions[first:])


def _without_podsets(layer: t.Any) -> t.Any:
    """A layer of a verdict without its longest part; the key stays for those who render it."""
    return {**layer, "podsets": []} if isinstance(layer, Mapping) and "podsets" in layer else layer


def _state_data(state: GangState) -> Data:
    """Plain values of a state, in the order people look for them."""
    return {
        "phase": state.phase,
        "batch": state.batch,
        "attempt": state.attempt,
        "ticket": state.ticket_uid,
        "digest": state.digest,
        "write_id": state.write_id,
        "reserved": state.reserved,
        "verdict": state.verdict,
        "transitions": [dataclasses.astuple(item) for item in state.transitions],
    }


def _parse_state(annotations: Mapping[str, t.Any] | None) -> tuple[GangState | None, str | None]:
    """State and problem, at most one of them."""
    text = (annotations or {}).get(STATE_ANNOTATION)
    if text is None:
        return None, None
    try:
        return _state_from(parse_json(text, f"annotation {STATE_ANNOTATION}")), None
    except BadInput as error:
        return None, str(error)


def parse_json(text: t.Any, where: str) -> t.Any:
    """The value of a JSON text that others may have damaged; whatever is wrong with it becomes BadInput."""
    if not isinstance(text, str):
        raise BadInput("read", where, f"a text is needed, this is a {type(text).__name__}")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise BadInput("read", where, "it is nested too deeply") from error
    except ValueError as error:
        raise BadInput("read", where, f"it is no JSON: {error}") from error


def _no_constant(name: str) -> t.NoReturn:
    """NaN and infinities are no JSON, though Python would read them."""
    raise ValueError(f"{name} is no number")


def _state_from(value: t.Any) -> GangState:
    """A state from decoded JSON; BadInput when any part has the wrong form."""
    fields = _Fields(value, f"annotation {STATE_ANNOTATION}")
    reserved = tuple(_reserved(fields, index, item) for index, item in enumerate(fields.sequence("reserved")))
    transitions = tuple(_transition(fields, index, item) for index, item in enumerate(fields.sequence("transitions")))
    verdict = fields.get("verdict")
    return GangState(
        phase=_phase(fields, "phase"),
        batch=fields.text("batch"),
        attempt=fields.whole("attempt", 0, _INT32 - 1, required=True),
        ticket_uid=fields.text("ticket"),
        digest=fields.text("digest"),
        reserved=reserved,
        verdict=None if verdict is None else dict(fields.mapping("verdict")),
        transitions=transitions[-MOST_TRANSITIONS:],
        write_id=fields.required_text("write_id"),
    )


def _phase(fields: _Fields, key: str) -> Phase:
    """A phase by its name."""
    return fields.choice(key, PHASES, None)


def _reserved(fields: _Fields, index: int, item: t.Any) -> Data:
    """One reserved podset."""
    entry = _Fields(item, f"{fields.where}: reserved[{index}]")
    requests = entry.mapping("requests")
    for name, amount in requests.items():
        if isinstance(amount, bool) or not isinstance(amount, int | str):
            raise entry.fail(f"requests.{name}", f"an amount is needed, not {amount!r}")
    entry.required_text("name")
    entry.whole("count", 0, _INT32 - 1, required=True)
    return dict(entry.data)


def _transition(fields: _Fields, index: int, item: t.Any) -> Transition:
    """One transition, written as a list of four texts."""
    if not isinstance(item, list) or len(item) != 4 or not all(isinstance(part, str) for part in item):
        raise fields.fail(f"transitions[{index}]", "a list of four texts is needed")
    phase = _phase(_Fields({"phase": item[0]}, f"{fields.where}: transitions[{index}]"), "phase")
    return Transition(phase, item[1], item[2], item[3])


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
)
_REQUEUE_KEYS = ("time", "growth", "max_time", "limit", "pause")
_COMPLETION_KEYS = ("item", "type", "status", "jmespath", "pods")
_STATUSES = ("True", "False", "Unknown")


def read_spec(data: Mapping[str, t.Any], where: str) -> GangSpec:
    """A specification from plain values; where names the gang or its record in complaints."""
    fields = _Fields(plain_value(data, where), where)
    fields.only(_SPEC_KEYS)
    namespace = fields.dns("namespace", "the namespace of a gang", _LABEL_LENGTH)
    objects = tuple(_object(fields, index, item) for index, item in enumerate(fields.sequence("objects")))
    if not objects:
        raise fields.fail("objects", "the gang has no objects; give at least one")
    podsets = _podsets(fields, namespace)
    terminal, retryable = _exit_codes(fields)
    return GangSpec(
        name=fields.dns("name", "the name of a gang", _DNS_LENGTH),
        namespace=namespace,
        objects=objects,
        queue=_queue(fields),
        priority=fields.whole("priority", -_INT32, _INT32 - 1),
        priority_slope=fields.number("priority_slope"),
        suspended=fields.flag("suspended"),
        podsets=podsets,
        min_available=_min_available(fields, objects, podsets, namespace),
        requeue=_requeue(fields),
        max_run_time=fields.duration("max_run_time", None),
        completion=tuple(
            _done_when(fields, i, item, len(objects)) for i, item in enumerate(fields.sequence("completion"))
        ),
        exit_codes_terminal=terminal,
        exit_codes_retryable=retryable,
        ttl=fields.duration("ttl", None),
        labels=_labels(fields),
    )


def spec_data(spec: GangSpec) -> Data:
    """Plain values from which read_spec makes the same specification again."""
    podsets = None if spec.podsets is None else list(spec.podsets)
    return {
        "name": spec.name,
        "namespace": spec.namespace,
        "queue": spec.queue,
        "priority": spec.priority,
        "priority_slope": spec.priority_slope,
        "suspended": spec.suspended,
        "objects": list(spec.objects),
        "podsets": podsets,
        "min_available": spec.min_available,
        "requeue": dataclasses.asdict(spec.requeue),
        "max_run_time": spec.max_run_time,
        "completion": list(spec.completion),
        "exit_codes": {"terminal": list(spec.exit_codes_terminal), "retryable": list(spec.exit_codes_retryable)},
        "ttl": spec.ttl,
        "labels": dict(spec.labels),
    }


def digest(spec: GangSpec) -> str:
    """A fingerprint of what would be started; other settings of the gang do not change it."""
    started = {"objects": spec.objects, "podsets": spec.podsets}
    return hashlib.sha256(canonical_json(started).encode()).hexdigest()


def plain_value(value: t.Any, where: str, path: str = "", depth: int = 0) -> t.Any:
    """A deep copy made of JSON's own types; what JSON cannot hold is refused with its path."""
    target = f"{where}: {path}" if path else where
    if depth > _DEEPEST:
        raise BadInput("read", where, f"it is nested more than {_DEEPEST} levels deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _plain_text(value, target)
    if isinstance(value, int) and abs(value) < _INT64:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, Mapping):
        return {
            _plain_key(key, target): plain_value(item, where, f"{path}.{key}" if path else str(key), depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_value(item, where, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise BadInput("read", target, f"{value!r} cannot be written as JSON; quote it if a text is meant")


def _plain_text(value: str, target: str) -> str:
    """A text as a plain str; halves of surrogate pairs would not come back unchanged from the API server."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadInput("read", target, f"{value!r} is no valid Unicode text") from error
    return str(value)


def _plain_key(key: t.Any, target: str) -> str:
    """A key of a mapping: texts only, since JSON would silently turn numbers into texts."""
    if not isinstance(key, str):
        raise BadInput("read", target, f"the key {key!r} is no text; quote it")
    return _plain_text(key, target)


def _object(fields: _Fields, index: int, item: t.Any) -> Data:
    """One object of a gang: enough of it to be created."""
    entry = _Fields(item, f"{fields.where}: objects[{index}]")
    for key in ("apiVersion", "kind"):
        entry.required_text(key)
    if "items" in entry.data and str(entry.data["kind"]).endswith("List"):
        raise entry.fail("kind", "a list of objects is no object; give its items one by one")
    metadata = _Fields(entry.get("metadata"), f"{entry.where}: metadata")
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


def _podsets(fields: _Fields, namespace: str) -> tuple[Data, ...] | None:
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
    fields: _Fields, objects: Sequence[Data], podsets: Sequence[Data] | None, namespace: str
) -> int | dict[str, int] | None:
    """Pods that must run: a number for the whole gang, or one for each podset."""
    value = fields.get("min_available")
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return fields.whole("min_available", 0, _INT32 - 1)
    known = declared_podsets(podsets, namespace=namespace) if podsets else infer_podsets(objects, namespace=namespace)
    entry = _Fields(value, f"{fields.where}: min_available")
    entry.only([item.name for item in known])
    return {name: entry.whole(name, 0, _INT32 - 1, required=True) for name in value}


def _requeue(fields: _Fields) -> Requeue:
    """The rules of requeuing, with their defaults."""
    entry = _Fields(fields.mapping("requeue"), f"{fields.where}: requeue")
    entry.only(_REQUEUE_KEYS)
    limit = entry.get("limit")
    usual = Requeue()
    return Requeue(
        time=entry.duration("time", usual.time),
        growth=entry.choice("growth", GROWTHS, usual.growth),
        max_time=entry.duration("max_time", None),
        limit=None if limit is None else entry.whole("limit", 0, _INT32 - 1),
        pause=entry.duration("pause", usual.pause),
    )


def _done_when(fields: _Fields, index: int, item: t.Any, objects: int) -> Data:
    """One rule of completion; exactly one of type, jmespath and pods."""
    entry = _Fields(item, f"{fields.where}: completion[{index}]")
    entry.only(_COMPLETION_KEYS)
    kinds = [key for key in ("type", "jmespath", "pods") if entry.get(key) is not None]
    if len(kinds) != 1:
        raise entry.fail("type", "give exactly one of type (with status), jmespath and pods")
    if kinds[0] != "type" and entry.get("status") is not None:
        raise entry.fail("status", "it belongs to a condition's type")
    if kinds == ["pods"]:
        if entry.get("item") is not None or entry.data["pods"] is not True:
            raise entry.fail("pods", "only pods: true is known, for the whole gang, without item")
        return {"pods": True}
    place = entry.whole("item", 0, objects - 1, required=True)
    if kinds == ["jmespath"]:
        return {"item": place, "jmespath": entry.required_text("jmespath")}
    return {"item": place, "type": entry.required_text("type"), "status": entry.choice("status", _STATUSES, "True")}


def _exit_codes(fields: _Fields) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Exit codes after which a gang is not retried, and those after which alone it is."""
    entry = _Fields(fields.mapping("exit_codes"), f"{fields.where}: exit_codes")
    entry.only(("terminal", "retryable"))
    terminal, retryable = (entry.codes(key) for key in ("terminal", "retryable"))
    both = sorted(set(terminal) & set(retryable))
    if both:
        raise entry.fail("retryable", f"{both[0]} is named as terminal too")
    return terminal, retryable


def _queue(fields: _Fields) -> str | None:
    """A queue's name; it is a label's value too."""
    name = fields.text("queue")
    if name is not None and not _LABEL_NAME.fullmatch(name):
        raise fields.fail("queue", f"{name!r} is no name of a queue; at most 63 letters, digits, '-', '_' and '.'")
    return name


def _labels(fields: _Fields) -> dict[str, str]:
    """The user's labels of the record; ours are not theirs to set."""
    labels = fields.mapping("labels")
    for key, value in labels.items():
        prefix, slash, name = key.rpartition("/")
        good_prefix = not slash or (len(prefix) <= _DNS_LENGTH and _DNS_NAME.fullmatch(prefix))
        if not good_prefix or not _LABEL_NAME.fullmatch(name):
            raise fields.fail(f"labels.{key}", "this is no name of a label")
        if key.startswith(OWN_PREFIX):
            raise fields.fail(f"labels.{key}", f"labels that begin with {OWN_PREFIX} are set by the collection itself")
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            raise fields.fail(f"labels.{key}", f"{value!r} is no value of a label")
    return dict(labels)


def build_record(spec: GangSpec) -> Data:
    """The ConfigMap that holds a queued gang; what a ConfigMap cannot hold is refused."""
    text = json.dumps(spec_data(spec), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    size = len(text.encode()) + STATE_BYTES
    if size > RECORD_BYTES:
        raise BadInput(
            "queue",
            f"gang {spec.namespace}/{spec.name}",
            f"its record would need {size} bytes (with {STATE_BYTES} for its state) of at most {RECORD_BYTES}; "
            "put large files into ConfigMaps or volumes of their own that the objects refer to, or split the gang",
        )
    labels = {**spec.labels, RECORD_LABEL: "gang"}
    if spec.queue is not None:
        labels[QUEUE_LABEL] = spec.queue
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": spec.name, "namespace": spec.namespace, "labels": labels},
        "data": {RECORD_KEY: text},
    }


def spec_of_record(configmap: Mapping[str, t.Any]) -> GangSpec:
    """The gang a ConfigMap holds; its name and namespace must be those of the ConfigMap, whoever wrote the text."""
    metadata = configmap["metadata"]
    where = f"ConfigMap {metadata['namespace']}/{metadata['name']}"
    text = (configmap.get("data") or {}).get(RECORD_KEY)
    if text is None:
        raise BadInput("read", f"{where}: data.{RECORD_KEY}", "it is missing")
    spec = read_spec(parse_json(text, f"{where}: data.{RECORD_KEY}"), where)
    for key, mine in (("name", spec.name), ("namespace", spec.namespace)):
        if mine != metadata[key]:
            raise BadInput("read", f"{where}: {key}", f"{mine!r} is not that of the ConfigMap, {metadata[key]!r}")
    return spec


def require_headroom(annotations: Mapping[str, str] | None, where: str) -> None:
    """Refuse a record whose other annotations leave no room for the state."""
    used = sum(len(k.encode()) + len(v.encode()) for k, v in (annotations or {}).items() if k != STATE_ANNOTATION)
    free = ANNOTATION_BYTES - used - len(STATE_ANNOTATION)
    if free < STATE_BYTES:
        raise BadInput(
            "queue",
            where,
            f"its annotations leave {max(0, free)} bytes and the state needs {STATE_BYTES}; remove large annotations "
            "(kubectl apply keeps a copy of the object in one: use kubectl create or server-side apply)",
        )


_Choice = t.TypeVar("_Choice", bound=str)
_Maybe = t.TypeVar("_Maybe", float, None)


class _Fields:
    """The fields of one mapping, read by type; null is the same as missing, and complaints name object and field."""

    __slots__ = ("data", "where")

    def __init__(self, data: t.Any, where: str) -> None:
        """Take a mapping; anything else is refused under the name of its place."""
        if not isinstance(data, Mapping):
            kind = "it is missing" if data is None else f"a mapping is needed, this is a {type(data).__name__}"
            raise BadInput("read", where, kind)
        self.data = data
        self.where = where

    def fail(self, key: str, cause: str) -> BadInput:
        """The error for one field, to be raised by the caller."""
        return BadInput("read", f"{self.where}: {key}", cause)

    def only(self, known: Sequence[str]) -> None:
        """Refuse keys nobody knows, with the nearest one that is known."""
        for key in self.data:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, 1, 0.5)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
                raise self.fail(str(key), f"unknown key; {hint}")

    def get(self, key: str) -> t.Any:
        """A value of any type, None when missing."""
        return self.data.get(key)

    def text(self, key: str) -> str | None:
        """A text that is not empty, or None."""
        value = self.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.fail(key, f"a text is needed, not {value!r}")
        return value

    def required_text(self, key: str, missing: str = "it is missing") -> str:
        """A text that must be there."""
        value = self.text(key)
        if value is None:
            raise self.fail(key, missing)
        return value

    def dns(self, key: str, what: str, longest: int) -> str:
        """A name as Kubernetes wants it."""
        value = self.required_text(key)
        if len(value) > longest or not _DNS_NAME.fullmatch(value) or (longest == _LABEL_LENGTH and "." in value):
            raise self.fail(key, f"{value!r} cannot be {what}; at most {longest} lower case letters, digits and '-'")
        return value

    def whole(self, key: str, low: int, high: int, *, required: bool = False) -> int:
        """A whole number between bounds, 0 when missing."""
        value = self.get(key)
        if value is None and not required:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            wrong = f"a whole number from {low} to {high} is needed, not {value!r}"
            raise self.fail(key, "it is missing" if value is None else wrong)
        return value

    def number(self, key: str) -> float:
        """A number that is not negative, 0 when missing."""
        value = 0.0 if self.get(key) is None else self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
            raise self.fail(key, f"a number that is not negative is needed, not {value!r}")
        return float(value)

    def duration(self, key: str, default: _Maybe) -> float | _Maybe:
        """Seconds, from a number or a text as 1h30m."""
        value = self.get(key)
        if value is None:
            return default
        seconds = parse_duration(value, f"{self.where}: {key}") if isinstance(value, str) else self.number(key)
        if seconds > _LONGEST_SECONDS:
            raise self.fail(key, f"{value!r} is too long")
        return seconds

    def flag(self, key: str) -> bool:
        """True or false, false when missing."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.fail(key, f"true or false is needed, not {value!r}")
        return bool(value)

    def choice(self, key: str, known: Sequence[_Choice], default: _Choice | None) -> _Choice:
        """One of some words."""
        value = default if self.get(key) is None else self.get(key)
        for word in known:
            if value == word:
                return word
        raise self.fail(key, "it is missing" if value is None else f"{value!r} is none of {', '.join(known)}")

    def sequence(self, key: str) -> list[t.Any]:
        """A list, empty when missing."""
        value = self.get(key)
        if value is not None and not isinstance(value, list):
            raise self.fail(key, f"a list is needed, this is a {type(value).__name__}")
        return value or []

    def mapping(self, key: str) -> Mapping[str, t.Any]:
        """A mapping, empty when missing."""
        value = self.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self.fail(key, f"a mapping is needed, this is a {type(value).__name__}")
        return value or {}

    def codes(self, key: str) -> tuple[int, ...]:
        """Exit codes of failed containers."""
        values = self.sequence(key)
        for index, code in enumerate(values):
            if isinstance(code, bool) or not isinstance(code, int) or not 1 <= code <= 255:
                raise self.fail(f"{key}[{index}]", f"an exit code from 1 to 255 is needed, not {code!r}")
        return tuple(sorted(set(values)))
