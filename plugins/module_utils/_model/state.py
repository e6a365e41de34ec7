# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a gang stands: its phase, what it holds, and how it came there.

The state is an annotation that anybody who may edit the record can damage, so reading it never fails: a state that
makes no sense is none, and state_problem says why.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t
from collections.abc import Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.fields import INT32, Data, Fields, parse_json
from ansible_collections.muster.kube.plugins.module_utils._model.timestamp import read_micros

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

PHASES: tuple[Phase, ...] = t.get_args(Phase)
UNDOING: tuple[Phase, ...] = ("undoing", "evicting")

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
SUSPENDED = "Suspended"
RESUMED = "Resumed"
REQUEUED = "Requeued"
COMPLETED = "Completed"

STATE_ANNOTATION = "muster.kube/state"
MOST_TRANSITIONS = 20
STATE_BYTES = 32 * 1024
_MESSAGE_LENGTH = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Transition:
    """One change of phase: when (server time, RFC 3339), why in one word, and why in a sentence."""

    phase: Phase
    at: str
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class GangState:
    """Where a gang stands.

    reserved lists podsets as name, count and requests, observed those whose pods were seen larger than declared;
    write_id is holder/epoch/seq. requeues counts attempts undone for too few pods or a failed item, lost_races those
    lost to others. Before not_before the gang is not asked again; started_at is when this attempt was dispatched.
    steering maps podsets to the hosts they are confined to. then is what an undo leads to; a holding gang has all its
    items done while pods are left.
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


def new_state(at: str, write_id: str, phase: Phase = "queued") -> GangState:
    """The state of a gang that was never started; its first attempt is number 1."""
    first = Transition(phase, at, SUBMITTED, "")
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


def why_undone(state: GangState) -> Transition | None:
    """The transition that began the last undo; None when there was none, or it is too long ago."""
    return next((item for item in reversed(state.transitions) if item.phase in UNDOING), None)


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
        "requeues": state.requeues,
        "lost_races": state.lost_races,
        "not_before": state.not_before,
        "started_at": state.started_at,
        "then": state.then,
        "holding": state.holding,
        "reserved": state.reserved,
        "observed": state.observed,
        "steering": state.steering,
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


def _state_from(value: t.Any) -> GangState:
    """A state from decoded JSON; BadInput when a known part has the wrong form, unknown parts are a newer version's."""
    fields = Fields(value, f"annotation {STATE_ANNOTATION}")
    transitions = tuple(_transition(fields, index, item) for index, item in enumerate(fields.sequence("transitions")))
    return GangState(
        phase=fields.choice("phase", PHASES, None),
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
        then=None if fields.get("then") is None else fields.choice("then", PHASES, None),
        holding=fields.flag("holding"),
    )


def _time(fields: Fields, key: str) -> str | None:
    """A point in time, kept as its text."""
    value = fields.text(key)
    if value is not None and read_micros(value) is None:
        raise fields.fail(key, f"{value!r} is no time; write it as 2026-01-01T00:00:00Z")
    return value


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
    return dict(entry.data)


def _transition(fields: Fields, index: int, item: t.Any) -> Transition:
    """One transition, written as a list of four texts."""
    if not isinstance(item, list) or len(item) != 4 or not all(isinstance(part, str) for part in item):
        raise fields.fail(f"transitions[{index}]", "a list of four texts is needed")
    phase = Fields({"phase": item[0]}, f"{fields.where}: transitions[{index}]").choice("phase", PHASES, None)
    return Transition(phase, item[1], item[2], item[3])
