# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a gang stands: its phase, what it holds, and how it came there.

The state is an annotation that anybody who may edit the record can damage, so reading it never fails: a state that
makes no sense is none, and state_problem says why.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import re
import typing as t
import zlib
from collections.abc import Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.past_sizes import (
    PastSize,
    begun,
    read_past_sizes,
    with_size,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.planned import ResizePlan, read_plan
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import (
    Resize,
    ResizeStep,
    read_resize,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.past_waits import past_wait, read_waits
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import ItemOutcome
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import (
    Charge,
    charge_data,
    read_charge,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, Fields, parse_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import ObjectKey
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_micros, read_time

Phase = t.Literal[
    "queued",
    "dispatching",
    "dispatched",
    "running",
    "undoing",
    "evicting",
    "resizing",
    "rescaling",
    "suspended",
    "complete",
    "failed",
    "unknown",
]

PHASES: tuple[Phase, ...] = t.get_args(Phase)
OUTCOMES: tuple[ItemOutcome, ...] = t.get_args(ItemOutcome)

# Groups of phases; no other file makes one.
UNDOING: tuple[Phase, ...] = ("undoing", "evicting", "resizing")
# Nothing of the gang exists, and it may be started.
WAITING_PHASES: tuple[Phase, ...] = ("queued", "suspended")
FINISHED_PHASES: tuple[Phase, ...] = ("complete", "failed")
# Room is promised for pods that may not have a node yet.
STARTING_PHASES: tuple[Phase, ...] = ("dispatching", "dispatched")
# Room is promised for pods that may not have a node yet, those of other sizes included.
PROMISED_PHASES: tuple[Phase, ...] = (*STARTING_PHASES, "rescaling")
# On the way from one size to another: taken back to be started with it, or given it while it is there.
RESIZING_PHASES: tuple[Phase, ...] = ("resizing", "rescaling")
# All objects were created, and none is taken back. One of a gang that is rescaling gets another size while it is there.
DISPATCHED_PHASES: tuple[Phase, ...] = ("dispatched", "running", "rescaling")
# Objects may exist, and none is taken back.
ACTIVE_PHASES: tuple[Phase, ...] = ("dispatching", *DISPATCHED_PHASES)
# A start or an undo is under way.
HALFWAY_PHASES: tuple[Phase, ...] = ("dispatching", *UNDOING)
# Objects may exist.
STARTED_PHASES: tuple[Phase, ...] = (*ACTIVE_PHASES, *UNDOING, "unknown")
# No dispatcher is needed: the gang has all its pods, or none.
SETTLED_PHASES: tuple[Phase, ...] = ("running", "suspended", *FINISHED_PHASES)
# What an undo may lead to.
UNDO_ENDS: tuple[Phase, ...] = (*WAITING_PHASES, *FINISHED_PHASES)
# An Event about one of these is a warning.
TROUBLE_PHASES: tuple[Phase, ...] = ("failed", "undoing", "evicting")
# Where a wait for a phase ends: a gang that went further has been there.
REACHED: dict[str, tuple[Phase, ...]] = {
    "dispatched": (*DISPATCHED_PHASES, "complete"),
    "running": ("running", "complete"),
    "complete": ("complete",),
    "suspended": ("suspended", *FINISHED_PHASES),
}

# Why a phase changed, in one word.
SUBMITTED = "Submitted"
CHOSEN = "Chosen"
STARTED = "Started"
PODS_BOUND = "PodsBound"
LOST_RACE = "LostRace"
BELOW_MINIMUM = "BelowMinimum"
ITEM_FAILED = "ItemFailed"
NODE_LOST = "NodeLost"
REQUEUE_LIMIT = "RequeueLimit"
TIME_LIMIT = "TimeLimit"
QUOTA_REFUSED = "QuotaRefused"
NAME_TAKEN = "NameTaken"
REFUSED = "Refused"
TAKEN_OVER = "TakenOver"
EVICTED = "Evicted"
RESIZED = "Resized"
RESIZE_FAILED = "ResizeFailed"
SUSPENDED = "Suspended"
RESUMED = "Resumed"
REQUEUED = "Requeued"
COMPLETED = "Completed"
OUTCOME_UNKNOWN = "OutcomeUnknown"
START_TIMEOUT = "StartTimeout"
DELETED = "Deleted"

STATE_ANNOTATION = "muster.kube/state"
STATE_FORMAT = 1
MOST_TRANSITIONS = 20
STATE_BYTES = 32 * 1024
MOST_LEFT = 200
_MESSAGE_LENGTH = 1000
_KEYS = (
    "format",
    "phase",
    "batch",
    "attempt",
    "ticket",
    "digest",
    "write_id",
    "requeues",
    "lost_races",
    "not_before",
    "started_at",
    "then",
    "holding",
    "reserved",
    "observed",
    "outcomes",
    "left",
    "made",
    "steering",
    "verdict",
    "transitions",
    "waits",
    "charged",
    "nominated",
    "nominations",
    "evictions",
    "allotment",
    "started_size",
    "resize",
    "attained",
    "planned",
    "sizes",
    "packed",
)
# What grows with the number of podsets, and the key that holds all of it together where it is too long as it is.
_LONG = ("reserved", "observed", "steering", "charged")
_PACKED = "packed"
# Anybody can write an annotation that is short and unpacks to gigabytes.
_UNPACKED_BYTES = 8 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Transition:
    """One change of phase: when (server time, RFC 3339), why in one word, and why in a sentence.

    The phase of a past transition may be one that only a later version knows.
    """

    phase: str
    at: str
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class GangState:
    """Where a gang stands.

    reserved lists podsets as name, count and requests, observed those whose pods were seen larger than declared;
    write_id is holder/epoch/seq. requeues counts attempts undone for too few pods or a failed item, lost_races those
    lost to others. Before not_before the gang is not asked again; started_at is when this attempt was dispatched.
    steering maps podsets to the hosts they are confined to. then is what an undo leads to, left lists the objects it
    has to remove; a holding gang has all its items done while pods are left. outcomes says of this attempt's objects,
    by their place, how they ended when they were last seen: objects may go before anybody looks again. made is how many
    of them had been created when the start had to wait: those that end by themselves are never created again. charged
    names the queues that what is reserved counts for. nominated tells of a waiting gang until when room that others
    were evicted for is held for it, nominations how often that was without a start; evictions counts how often it was
    evicted itself. allotment is the size that this attempt of an elastic gang was given, resize the last change of it,
    planned one that waits for a checkpoint of this attempt. attained are the sizes of its earlier runs, each times its
    seconds. waits tells for people what it waited for each time before it left the queue, sizes which sizes it held,
    and since when. unknown holds keys of a later version, written back as they are.
    """

    phase: Phase
    batch: str | None
    attempt: int
    ticket_uid: str | None
    digest: str | None
    reserved: tuple[Data, ...]
    verdict: Data | None
    transitions: tuple[Transition, ...]
    write_id: str
    requeues: int = 0
    lost_races: int = 0
    not_before: str | None = None
    started_at: str | None = None
    steering: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    observed: tuple[Data, ...] = ()
    then: Phase | None = None
    holding: bool = False
    outcomes: dict[int, ItemOutcome] = dataclasses.field(default_factory=dict)
    left: tuple[ObjectKey, ...] = ()
    made: int = 0
    charged: tuple[Charge, ...] = ()
    nominated: str | None = None
    nominations: int = 0
    evictions: int = 0
    allotment: int | None = None
    started_size: int | None = None
    resize: Resize | None = None
    attained: int = 0
    planned: ResizePlan | None = None
    waits: tuple[Data, ...] = ()
    sizes: tuple[PastSize, ...] = ()
    unknown: Data = dataclasses.field(default_factory=dict)


class Changes(t.TypedDict, total=False):
    """What may change in a state besides its phase: the fields of GangState that advance does not set itself."""

    batch: str | None
    attempt: int
    ticket_uid: str | None
    digest: str | None
    reserved: tuple[Data, ...]
    verdict: Data | None
    requeues: int
    lost_races: int
    not_before: str | None
    started_at: str | None
    steering: dict[str, tuple[str, ...]]
    observed: tuple[Data, ...]
    then: Phase | None
    holding: bool
    outcomes: dict[int, ItemOutcome]
    left: tuple[ObjectKey, ...]
    made: int
    charged: tuple[Charge, ...]
    nominated: str | None
    nominations: int
    evictions: int
    allotment: int | None
    started_size: int | None
    resize: Resize | None
    attained: int
    planned: ResizePlan | None


def new_state(at: str, write_id: str, phase: Phase = "queued") -> GangState:
    """The state of a gang that was never started; its first attempt is number 1."""
    first = Transition(phase, at, SUBMITTED, "")
    return GangState(phase, None, 1, None, None, (), None, (first,), write_id)


def advance(
    state: GangState, phase: Phase, at: str, reason: str, message: str, write_id: str, **changes: t.Unpack[Changes]
) -> GangState:
    """The next state; a transition is noted only when the phase changes, and only the last ones are kept.

    Outcomes belong to an attempt, as its size, what it has made and what is planned for it do: another one begins
    without any.
    """
    if changes.get("attempt", state.attempt) != state.attempt:
        changes.setdefault("outcomes", {})
        changes.setdefault("made", 0)
        changes.setdefault("allotment", None)
        changes.setdefault("planned", None)
        changes.setdefault("started_size", None)
    transitions, waits, sizes = state.transitions, state.waits, state.sizes
    if phase != state.phase:
        if state.allotment is not None and state.phase in DISPATCHED_PHASES and _ends_stint(state.phase, phase):
            changes.setdefault("attained", round(size_seconds(state, read_time(at))))
        wait = past_wait(state.verdict, at) if state.phase == "queued" else None
        waits = waits if wait is None else (*waits, wait)[-MOST_TRANSITIONS:]
        short = message if len(message) <= _MESSAGE_LENGTH else message[: _MESSAGE_LENGTH - 1] + "…"
        transitions = (*transitions, Transition(phase, at, reason, short))
        if len(transitions) > MOST_TRANSITIONS:
            transitions = _latest(transitions)
        if sizes or state.allotment or changes.get("allotment"):
            sizes = with_size(sizes, _size_from(state, phase, at, changes))
    after = dataclasses.replace(state, phase=phase, transitions=transitions, write_id=write_id, **changes)
    return dataclasses.replace(after, waits=waits, sizes=sizes)


def _size_from(state: GangState, phase: Phase, at: str, changes: Changes) -> PastSize:
    """Which size a gang holds from a transition on: a started one that of its attempt, all others none."""
    held = changes.get("allotment", state.allotment) if phase in STARTED_PHASES else None
    resize = changes.get("resize") if phase in RESIZING_PHASES and state.phase not in RESIZING_PHASES else None
    running = phase == "running" and held is not None
    return PastSize(at, held or 0, running, None if resize is None else begun(resize))


def _latest(transitions: tuple[Transition, ...]) -> tuple[Transition, ...]:
    """The last transitions, and the one that began the present attempt: it tells which pods are of it."""
    kept = transitions[-MOST_TRANSITIONS:]
    if any(item.phase in ("dispatching", *WAITING_PHASES) for item in kept):
        return kept
    began = next((item for item in reversed(transitions) if item.phase == "dispatching"), None)
    return kept if began is None else (began, *kept[1:])


def why_undone(state: GangState) -> Transition | None:
    """The transition that began the last undo; None when there was none, or it is too long ago."""
    return next((item for item in reversed(state.transitions) if item.phase in UNDOING), None)


def size_seconds(state: GangState, now: float | None) -> float:
    """The sizes that an elastic gang has had so far, each times the seconds that it had it; now tells how late it is.

    A gang has its size from when its objects are there until they are taken back, or get another one.
    """
    if state.allotment is None or state.phase not in DISPATCHED_PHASES or now is None:
        return state.attained
    began, later = now, state.phase
    for item in reversed(state.transitions):
        if item.phase not in DISPATCHED_PHASES or (later != item.phase and _ends_stint(item.phase, later)):
            break
        began, later = min(began, read_time(item.at) or now), item.phase
    return state.attained + state.allotment * max(0.0, now - began)


def _ends_stint(before: Phase, after: Phase) -> bool:
    """Whether a started gang may have another size after a transition."""
    return after not in DISPATCHED_PHASES or "rescaling" in (before, after)


def work_began(state: GangState) -> str | None:
    """When the present attempt was dispatched, or the first one of those that resizes led to one after the other.

    A limit of time is one for the work, which a resize does not begin anew.
    """
    undone, resize = why_undone(state), state.resize
    if resize is None or undone is None or undone.reason != RESIZED or state.started_at is None:
        return state.started_at
    first = [(moment, text) for text in (resize.began, state.started_at) if (moment := read_micros(text or ""))]
    return min(first, default=(0, state.started_at))[1]


def resize_step(state: GangState) -> ResizeStep | None:
    """How far the last resize of a gang has come, planned ones too; None when there was none.

    What is left of it is seen by where the gang stands, so nobody has to write it.
    """
    if state.planned is not None and state.phase == "running":
        return "planned" if state.planned.waits else "missed"
    return carried_step(state)


def carried_step(state: GangState) -> ResizeStep | None:
    """How far the last resize has come that was begun; None when there was none."""
    if state.resize is None:
        return None
    if state.phase == "resizing":
        return "draining"
    if state.phase == "rescaling":
        return "draining" if _drains(state.resize) else "starting"
    if state.phase == "dispatched" and state.allotment is not None:
        return "starting"
    if state.phase in ("running", *FINISHED_PHASES) and state.allotment is not None:
        return "verified" if state.allotment == state.resize.to else "rolled_back"
    undone = why_undone(state)
    goes_on = returned_at(state) is not None or state.phase == "dispatching"
    return "starting" if goes_on and undone is not None and undone.reason == RESIZED else "parked"


def returned_at(state: GangState) -> str | None:
    """When a gang came back to the queue from a resize, if nothing else has become of it since."""
    if state.phase != "queued" or len(state.transitions) < 2 or state.transitions[-1].phase != "queued":
        return None
    return state.transitions[-1].at if state.transitions[-2].phase == "resizing" else None


def _drains(resize: Resize) -> bool:
    """Whether pods have to go: all of an object that is suspended first, or those that are too many."""
    if resize.method == "suspend":
        return resize.patched is None
    return resize.goal < resize.larger


def told_resize(state: GangState | None) -> Data | None:
    """The last resize as results tell it, one that is only planned too; None when there was none."""
    step = None if state is None else resize_step(state)
    if state is None or step is None:
        return None
    told = state.planned if step in ("planned", "missed") else state.resize
    if told is None:
        return None
    # For whom is not told: not everybody may know of that gang.
    return {**{key: value for key, value in told.as_data().items() if key != "for"}, "step": step}


def gone_unseen(what: str) -> str:
    """Said of an object that may have done its work: OutcomeUnknown."""
    return f"{what} is gone, and nobody saw how it ended"


def state_text(state: GangState) -> str:
    """The annotation's text, reduced to what an annotation may hold.

    First the verdict loses its podsets, then it goes, then past waits and sizes, what an undo has to remove, the oldest
    transitions, then the outcomes: an object that goes after that counts as one whose outcome is unknown. Everything
    that decides what is running stays. Of gangs with very many podsets it is packed, so that equal ones cost next to
    nothing. Keys that this version does not know go last: they must not keep a gang from going on. If even that is too
    much the gang cannot be kept.
    """
    text = _json(_state_data(state))
    if len(text) <= STATE_BYTES:
        return text
    for kept in (state, dataclasses.replace(state, unknown={})):
        candidates = list(_shrunk(kept))
        for data_of in (_state_data, _packed_data):
            text = _json(data_of(candidates[-1]))
            if len(text) <= STATE_BYTES:
                return next(text for text in map(_json, map(data_of, candidates)) if len(text) <= STATE_BYTES)
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


def newer_state(annotations: Mapping[str, t.Any] | None) -> str | None:
    """Why a state is for a newer version only; None when it is one of ours, damaged or missing."""
    return _parse_state(annotations)[2]


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
    if state.waits:
        state = dataclasses.replace(state, waits=())
        yield state
    if state.sizes:
        state = dataclasses.replace(state, sizes=())
        yield state
    if state.left:
        state = dataclasses.replace(state, left=())
        yield state
    for first in range(1, len(state.transitions) + 1):
        yield dataclasses.replace(state, transitions=state.transitions[first:])
    if state.outcomes:
        yield dataclasses.replace(state, transitions=(), outcomes={})


def _without_podsets(layer: t.Any) -> t.Any:
    """A layer of a verdict without its longest part; the key stays for those who render it."""
    return {**layer, "podsets": []} if isinstance(layer, Mapping) and "podsets" in layer else layer


def _state_data(state: GangState) -> Data:
    """Plain values of a state, in the order people look for them."""
    outcomes = {str(place): outcome for place, outcome in sorted(state.outcomes.items())}
    return {
        **state.unknown,
        "format": STATE_FORMAT,
        "phase": state.phase,
        "batch": state.batch,
        "attempt": state.attempt,
        "ticket": state.ticket_uid,
        "digest": state.digest,
        "write_id": state.write_id,
        "requeues": state.requeues,
        "lost_races": state.lost_races,
        "not_before": state.not_before,
        "started_at": state.started_at,
        "then": state.then,
        "holding": state.holding,
        "reserved": state.reserved,
        "observed": state.observed,
        "steering": state.steering,
        **({"outcomes": outcomes} if outcomes else {}),
        "verdict": state.verdict,
        "transitions": [dataclasses.astuple(item) for item in state.transitions],
        **({"waits": state.waits} if state.waits else {}),
        **({"left": state.left} if state.left else {}),
        **({"made": state.made} if state.made else {}),
        **({"charged": [charge_data(item) for item in state.charged]} if state.charged else {}),
        **({"nominated": {"until": state.nominated}} if state.nominated else {}),
        **({"nominations": state.nominations} if state.nominations else {}),
        **({"evictions": state.evictions} if state.evictions else {}),
        **({} if state.allotment is None else {"allotment": state.allotment}),
        **({} if state.started_size is None else {"started_size": state.started_size}),
        **({} if state.resize is None else {"resize": state.resize.as_data()}),
        **({"attained": state.attained} if state.attained else {}),
        **({} if state.planned is None else {"planned": state.planned.as_data()}),
        **({"sizes": [item.as_data() for item in state.sizes]} if state.sizes else {}),
    }


def _packed_data(state: GangState) -> Data:
    """The same with what grows with the podsets in one packed text."""
    data = _state_data(state)
    packed = zlib.compress(_json({key: data.pop(key) for key in _LONG if key in data}).encode(), 9)
    return {**data, _PACKED: base64.b64encode(packed).decode()}


def _unpacked(value: t.Any) -> t.Any:
    """Decoded JSON with the packed part back in its place."""
    if not isinstance(value, Mapping) or value.get(_PACKED) is None:
        return value
    where = f"annotation {STATE_ANNOTATION}: {_PACKED}"
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.b64decode(value[_PACKED], validate=True), _UNPACKED_BYTES)
    except (TypeError, binascii.Error, zlib.error) as error:
        raise BadInput("read", where, f"it cannot be unpacked: {error}") from error
    if not unpacking.eof:
        raise BadInput("read", where, f"it is cut off, or holds more than {_UNPACKED_BYTES} bytes")
    held = Fields(parse_json(text.decode(errors="replace"), where), where)
    return {**value, **{key: held.data[key] for key in _LONG if key in held.data}}


def _json(data: Data) -> str:
    """Plain values as compact text."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def _parse_state(annotations: Mapping[str, t.Any] | None) -> tuple[GangState | None, str | None, str | None]:
    """State, what is wrong with it, or why it is for a newer version; at most one of them."""
    text = (annotations or {}).get(STATE_ANNOTATION)
    if text is None:
        return None, None, None
    try:
        return _state_from(_unpacked(parse_json(text, f"annotation {STATE_ANNOTATION}"))), None, None
    except NewerVersion as error:
        return None, None, str(error)
    except BadInput as error:
        return None, str(error), None


def _state_from(value: t.Any) -> GangState:
    """A state from decoded JSON; BadInput when a known part has the wrong form, unknown parts are a newer version's."""
    fields = Fields(value, f"annotation {STATE_ANNOTATION}")
    fields.require_format(STATE_FORMAT)
    transitions = tuple(_transition(fields, index, item) for index, item in enumerate(fields.sequence("transitions")))
    return GangState(
        phase=_phase(fields, "phase"),
        batch=fields.text("batch"),
        attempt=fields.whole("attempt", 0, INT32 - 1, required=True),
        ticket_uid=fields.text("ticket"),
        digest=fields.text("digest"),
        reserved=_sizes(fields, "reserved"),
        verdict=None if fields.get("verdict") is None else dict(fields.mapping("verdict")),
        transitions=transitions[-MOST_TRANSITIONS:],
        write_id=fields.required_text("write_id"),
        requeues=fields.whole("requeues", 0, INT32 - 1),
        lost_races=fields.whole("lost_races", 0, INT32 - 1),
        not_before=_time(fields, "not_before"),
        started_at=_time(fields, "started_at"),
        steering={name: _hosts(fields, name, hosts) for name, hosts in fields.mapping("steering").items()},
        observed=_sizes(fields, "observed"),
        then=None if fields.get("then") is None else _phase(fields, "then"),
        holding=fields.flag("holding"),
        outcomes=dict(_outcome(fields, place, value) for place, value in fields.mapping("outcomes").items()),
        left=tuple(_key(fields, index, item) for index, item in enumerate(fields.sequence("left"))),
        made=fields.whole("made", 0, INT32 - 1),
        charged=tuple(read_charge(item, f"{fields.where}: charged") for item in fields.sequence("charged")),
        nominated=_nominated(fields) if "nominated" in fields.data else None,
        nominations=fields.whole("nominations", 0, INT32 - 1) if "nominations" in fields.data else 0,
        evictions=fields.whole("evictions", 0, INT32 - 1) if "evictions" in fields.data else 0,
        allotment=fields.whole("allotment", 1, INT32 - 1) if "allotment" in fields.data else None,
        started_size=fields.whole("started_size", 1, INT32 - 1) if "started_size" in fields.data else None,
        resize=read_resize(fields.get("resize"), f"{fields.where}: resize") if "resize" in fields.data else None,
        attained=fields.whole("attained", 0, 2**53) if "attained" in fields.data else 0,
        planned=read_plan(fields.get("planned"), f"{fields.where}: planned") if "planned" in fields.data else None,
        waits=read_waits(fields.get("waits"), MOST_TRANSITIONS),
        sizes=read_past_sizes(fields.get("sizes")) if "sizes" in fields.data else (),
        unknown=fields.unknown(_KEYS),
    )


def _phase(fields: Fields, key: str) -> Phase:
    """A phase; a word that is none of ours is one of a newer version, which goes on with the gang."""
    word = fields.required_text(key)
    for phase in PHASES:
        if word == phase:
            return phase
    raise NewerVersion("read", f"{fields.where}: {key}", f"this version knows no phase {word!r}")


def _time(fields: Fields, key: str) -> str | None:
    """A point in time, kept as its text."""
    value = fields.text(key)
    if value is not None and read_micros(value) is None:
        raise fields.fail(key, f"{value!r} is no time; write it as 2026-01-01T00:00:00Z")
    return value


def _nominated(fields: Fields) -> str | None:
    """Until when room is held for the gang."""
    return _time(Fields(fields.mapping("nominated"), f"{fields.where}: nominated"), "until")


def _outcome(fields: Fields, place: t.Any, value: t.Any) -> tuple[int, ItemOutcome]:
    """How the object at a place ended."""
    known = next((outcome for outcome in OUTCOMES if outcome == value), None)
    if known is None or not re.fullmatch(r"0|[1-9][0-9]{0,8}", str(place)):
        raise fields.fail(f"outcomes.{place}", f"a place and one of {', '.join(OUTCOMES)} are needed, not {value!r}")
    return int(place), known


def _key(fields: Fields, index: int, item: t.Any) -> ObjectKey:
    """One object that has to go, written as a list of four texts."""
    if not isinstance(item, list) or len(item) != 4 or not all(isinstance(part, str) and part for part in item):
        raise fields.fail(f"left[{index}]", "a list of four texts is needed")
    return ObjectKey(*item)


def _hosts(fields: Fields, name: str, hosts: t.Any) -> tuple[str, ...]:
    """The hosts of one steered podset; none at all would be no steering."""
    if not isinstance(hosts, list) or not hosts or not all(isinstance(host, str) and host for host in hosts):
        raise fields.fail(f"steering.{name}", "a list of host names is needed")
    return tuple(hosts)


def _sizes(fields: Fields, key: str) -> tuple[Data, ...]:
    """Podsets by name, count and requests."""
    return tuple(_size(fields, f"{key}[{index}]", item) for index, item in enumerate(fields.sequence(key)))


def _size(fields: Fields, place: str, item: t.Any) -> Data:
    """One podset of those listed at a place."""
    entry = Fields(item, f"{fields.where}: {place}")
    requests = entry.mapping("requests")
    for name, amount in requests.items():
        if isinstance(amount, bool) or not isinstance(amount, int | str):
            raise entry.fail(f"requests.{name}", f"an amount is needed, not {amount!r}")
    entry.required_text("name")
    entry.whole("count", 0, INT32 - 1, required=True)
    if entry.get("requests") is None:
        raise entry.fail("requests", "it is missing")
    return dict(entry.data)


def _transition(fields: Fields, index: int, item: t.Any) -> Transition:
    """One transition, written as a list of four texts."""
    if not isinstance(item, list) or len(item) != 4 or not all(isinstance(part, str) for part in item):
        raise fields.fail(f"transitions[{index}]", "a list of four texts is needed")
    return Transition(item[0], item[1], item[2], item[3])
