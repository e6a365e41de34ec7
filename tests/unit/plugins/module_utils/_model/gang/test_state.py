# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""States: they survive damage, stay small, and say how a gang came where it stands."""

from __future__ import annotations

import base64
import dataclasses
import json
import random
import zlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.past_sizes import (
    MOST_SIZES,
    BegunResize,
    PastSize,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import METHODS
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    MOST_TRANSITIONS,
    OUTCOMES,
    PHASES,
    STATE_ANNOTATION,
    STATE_BYTES,
    STATE_FORMAT,
    Changes,
    GangState,
    Transition,
    advance,
    new_state,
    newer_state,
    read_state,
    state_problem,
    state_text,
    why_undone,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(50))

AT = "2026-01-01T00:00:00Z"


def annotated(state):
    return {STATE_ANNOTATION: state_text(state)}


def layer(name, size):
    return {"layer": name, "passed": False, "podsets": [{"podset": "x" * size}]}


short_texts = st.text(max_size=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | short_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short_texts, inner, max_size=3),
    max_leaves=8,
)
reserved = st.fixed_dictionaries(
    {
        "name": st.text(min_size=1, max_size=30),
        "count": st.integers(0, 99),
        "requests": st.dictionaries(short_texts, st.integers() | short_texts, max_size=3),
    }
)
messages = st.sampled_from(["", "short", "é" * 1000])
transitions = st.builds(Transition, st.sampled_from(PHASES), st.just(AT), st.sampled_from(["", "Why"]), messages)
past_sizes = st.builds(
    PastSize,
    at=st.just(AT),
    size=st.integers(0, 4096),
    running=st.booleans(),
    resize=st.none() | st.builds(BegunResize, st.just(2), st.just(4), st.sampled_from(METHODS), short_texts),
)
states = st.builds(
    GangState,
    phase=st.sampled_from(PHASES),
    batch=st.none() | st.text(min_size=1, max_size=10),
    attempt=st.integers(0, 1000),
    ticket_uid=st.none() | st.uuids().map(str),
    digest=st.none() | st.text("0123456789abcdef", min_size=64, max_size=64),
    reserved=st.lists(reserved, max_size=4).map(tuple),
    verdict=st.none()
    | st.builds(
        lambda size, rest: {"answer": "waits", "layers": [layer("slots", size), 3], "rest": rest * "y"},
        st.sampled_from([0, 10, 40_000]),
        st.sampled_from([0, 10, 40_000]),
    ),
    transitions=st.lists(transitions, max_size=MOST_TRANSITIONS).map(tuple),
    write_id=st.just("host/uid:3/17"),
    requeues=st.integers(0, 99),
    lost_races=st.integers(0, 99),
    not_before=st.none() | st.just(AT),
    started_at=st.none() | st.just(AT),
    steering=st.dictionaries(short_texts, st.lists(st.just("node-1"), min_size=1, max_size=3).map(tuple), max_size=3),
    observed=st.lists(reserved, max_size=2).map(tuple),
    then=st.none() | st.sampled_from(PHASES),
    holding=st.booleans(),
    outcomes=st.dictionaries(st.integers(0, 2000), st.sampled_from(OUTCOMES), max_size=3),
    allotment=st.none() | st.integers(1, 4096),
    made=st.integers(0, 9),
    left=st.lists(st.tuples(*[st.text(min_size=1, max_size=30)] * 4), max_size=4).map(tuple),
    waits=st.lists(st.just({"until": AT, "answer": "waits", "reason": "insufficient"}), max_size=3).map(tuple),
    sizes=st.lists(past_sizes, max_size=MOST_SIZES).map(tuple),
)


def test_everything_but_phase_transitions_and_write_id_may_change():
    fields = {item.name: item.type for item in dataclasses.fields(GangState)}
    for name in ("phase", "transitions", "waits", "sizes", "write_id", "unknown"):
        fields.pop(name)
    assert {name: kind.__forward_arg__ for name, kind in Changes.__annotations__.items()} == fields


@steady
@given(states)
def test_a_state_comes_back_and_never_outgrows_its_annotation(state):
    text = state_text(state)
    assert len(text.encode()) <= STATE_BYTES
    back = read_state({STATE_ANNOTATION: text})
    assert state_problem({STATE_ANNOTATION: text}) is None
    dropped = len(state.transitions) - len(back.transitions)
    assert back.transitions == state.transitions[dropped:]
    same = dataclasses.replace(
        back,
        verdict=state.verdict,
        transitions=state.transitions,
        left=state.left,
        waits=state.waits,
        sizes=state.sizes,
    )
    assert same == state
    assert back.left in (state.left, ())
    assert back.sizes in (state.sizes, ())
    if dropped:
        assert (back.verdict, back.left) == (None, ())


def waiting(short="4"):
    """A verdict of a gang that waits for GPUs."""
    totals = {"cpu": {"requested": "6", "free": "9", "short": "0"}, "nvidia.com/gpu": {"free": "2", "short": short}}
    return {
        "answer": "waits",
        "reason": "insufficient",
        "detail": None,
        "layers": [layer("slots", 5), totals_of(totals)],
    }


def totals_of(totals):
    """The layer of slots with these totals."""
    return {"layer": "slots", "passed": False, "totals": totals, "podsets": ["x" * 1000]}


def test_what_a_gang_waited_for_is_kept_when_it_leaves_the_queue():
    state = advance(new_state(AT, "h/e/1"), "queued", AT, "", "", "h/e/2", verdict=waiting())
    assert state.waits == ()
    later = "2026-01-01T00:01:00Z"
    started = advance(state, "dispatching", later, "Fits", "", "h/e/3", verdict={"answer": "fits"})
    short = {"layer": "slots", "totals": {"nvidia.com/gpu": {"short": "4"}}}
    assert started.waits == ({"until": later, "answer": "waits", "reason": "insufficient", "layers": [short]},)
    assert read_state(annotated(started)) == started
    over = advance(started, "complete", later, "Completed", "", "h/e/4", verdict=None)
    assert over.waits == started.waits
    assert advance(new_state(AT, "h/e/1"), "dispatching", later, "Fits", "", "h/e/3").waits == ()


def test_waits_go_before_transitions_and_are_forgotten_with_them():
    steps = tuple(Transition("queued", AT, "Reason", str(number) * 500) for number in range(10))
    waits = tuple({"until": AT, "answer": "waits", "reason": "x" * 200} for _number in range(20))
    state = dataclasses.replace(new_state(AT, "h/e/1"), transitions=steps, waits=waits)
    much = ({"name": "x" * 25_000, "count": 1, "requests": {}},)
    crowded = read_state(annotated(dataclasses.replace(state, reserved=much)))
    assert (crowded.waits, crowded.transitions) == ((), steps)


@pytest.mark.parametrize("damaged", [5, "x", [5], [{}], [{"until": 3}], {"until": AT}])
def test_damaged_waits_make_no_difference(damaged):
    assert read_state({STATE_ANNOTATION: forged(waits=damaged)}).waits == ()


def test_the_verdict_is_reduced_before_it_is_dropped_and_transitions_go_last():
    steps = tuple(Transition("queued", AT, "Reason", str(number) * 500) for number in range(10))
    state = dataclasses.replace(new_state(AT, "h/e/1"), transitions=steps)
    fat_podsets = {
        "answer": "waits",
        "layers": [layer("nodes", 20_000), layer("slots", 20_000), {"layer": "namespace"}],
    }
    once = read_state(annotated(dataclasses.replace(state, verdict=fat_podsets)))
    assert [item.get("podsets") for item in once.verdict["layers"]] == [[], [], None]
    assert once.transitions == steps
    fat_verdict = {"answer": "waits", "layers": [], "advice": "x" * 40_000}
    twice = read_state(annotated(dataclasses.replace(state, verdict=fat_verdict)))
    assert (twice.verdict, twice.transitions) == (None, steps)
    much = ({"name": "x" * 30_000, "count": 1, "requests": {}},)
    thrice = read_state(annotated(dataclasses.replace(state, verdict={"answer": "fits"}, reserved=much)))
    assert thrice.verdict is None
    assert 0 < len(thrice.transitions) < len(steps)
    assert thrice.transitions == steps[-len(thrice.transitions) :]
    assert thrice.reserved == much


def test_what_an_undo_has_to_remove_is_dropped_before_transitions_and_written_only_when_there_is_any():
    steps = tuple(Transition("queued", AT, "Reason", str(number) * 500) for number in range(10))
    keys = tuple(("batch/v1", "Job", "team", f"{number}" * 60) for number in range(100, 120))
    state = dataclasses.replace(new_state(AT, "h/e/1"), transitions=steps, left=keys)
    assert read_state(annotated(state)) == state
    much = ({"name": "x" * 25_000, "count": 1, "requests": {}},)
    crowded = read_state(annotated(dataclasses.replace(state, reserved=much)))
    assert (crowded.left, crowded.transitions) == ((), steps)
    assert "left" not in json.loads(state_text(dataclasses.replace(state, left=())))


def podsets(count, name="train-worker-{:05d}".format, requests=None):
    """So many podsets of one pod."""
    asked = requests or {"cpu": "1", "memory": "2Gi", "pods": "1"}
    return tuple({"name": name(number), "count": 1, "requests": asked} for number in range(count))


@pytest.mark.parametrize("field", ["reserved", "observed"])
def test_what_decides_is_never_dropped(field):
    letters = random.Random(1)
    much = podsets(2_000, lambda _number: f"{letters.getrandbits(200):x}")
    with pytest.raises(BadInput, match="use fewer podsets"):
        state_text(dataclasses.replace(new_state(AT, "h/e/1"), **{field: much}))


def test_a_thousand_podsets_are_kept_exactly():
    steps = tuple(Transition("queued", AT, "Reason", "word") for _number in range(MOST_TRANSITIONS))
    state = dataclasses.replace(
        new_state(AT, "h/e/1"),
        reserved=podsets(1_000),
        observed=podsets(3),
        steering={"train-worker-00007": ("node-1", "node-2")},
        transitions=steps,
    )
    text = state_text(state)
    assert len(text) <= STATE_BYTES
    assert read_state({STATE_ANNOTATION: text}) == state


def test_states_that_fit_are_written_as_they_always_were():
    """A dispatcher of the version before reads them too."""
    fits = json.loads(state_text(dataclasses.replace(new_state(AT, "h/e/1"), reserved=podsets(250))))
    assert ("packed" in fits, len(fits["reserved"])) == (False, 250)
    large = json.loads(state_text(dataclasses.replace(new_state(AT, "h/e/1"), reserved=podsets(1_000))))
    assert ("packed" in large, "reserved" in large) == (True, False)


@pytest.mark.parametrize(
    "packed",
    [
        7,
        "no base64!",
        base64.b64encode(b"not compressed").decode(),
        base64.b64encode(zlib.compress(b"[]")).decode(),
        base64.b64encode(zlib.compress(b'{"reserved": 7}')).decode(),
        base64.b64encode(zlib.compress(b"{}")[:-1]).decode(),
        base64.b64encode(zlib.compress(b" " * 50_000_000)).decode(),
    ],
)
def test_a_packed_part_that_makes_no_sense_is_a_lost_state(packed):
    data = {**json.loads(state_text(new_state(AT, "h/e/1"))), "packed": packed}
    annotations = {STATE_ANNOTATION: json.dumps(data)}
    assert read_state(annotations) is None
    assert state_problem(annotations) is not None


def test_a_state_of_an_older_version_takes_defaults_and_unknown_keys_are_written_back():
    older = {"phase": "running", "attempt": 2, "write_id": "h/e/1"}
    state = read_state({STATE_ANNOTATION: json.dumps(older)})
    assert (state.requeues, state.steering, state.observed, state.then, state.holding) == (0, {}, (), None, False)
    newer = {**json.loads(state_text(state)), "color": ["blue"]}
    read = read_state({STATE_ANNOTATION: json.dumps(newer)})
    assert dataclasses.replace(read, unknown={}) == state
    again = advance(read, "running", AT, "", "", "h/e/2", requeues=1)
    assert json.loads(state_text(again))["color"] == ["blue"]


@pytest.mark.parametrize("newer", [{"phase": "resting"}, {"then": "resting"}, {"format": STATE_FORMAT + 1}])
def test_a_state_of_a_newer_version_is_neither_lost_nor_damaged(newer):
    annotations = {STATE_ANNOTATION: forged(**newer)}
    assert (read_state(annotations), state_problem(annotations)) == (None, None)
    assert "this version knows" in newer_state(annotations)
    assert newer_state({STATE_ANNOTATION: forged()}) is None


def test_transitions_of_a_newer_version_are_kept():
    state = read_state({STATE_ANNOTATION: forged(transitions=[["resting", AT, "x", "y"]])})
    assert state.transitions == (Transition("resting", AT, "x", "y"),)


def test_a_size_belongs_to_an_attempt():
    state = advance(new_state(AT, "w/1"), "dispatching", AT, "Chosen", "", "w/2", allotment=4)
    assert read_state({STATE_ANNOTATION: state_text(state)}).allotment == 4
    assert advance(state, "running", AT, "PodsBound", "", "w/3").allotment == 4
    assert advance(state, "queued", AT, "Undone", "", "w/3", attempt=2).allotment is None


def test_outcomes_are_written_only_when_there_are_any():
    state = new_state(AT, "h/e/1")
    assert "outcomes" not in json.loads(state_text(state))
    ended = dataclasses.replace(state, outcomes={11: "failed", 2: "succeeded"})
    assert json.loads(state_text(ended))["outcomes"] == {"2": "succeeded", "11": "failed"}


def test_outcomes_stay_for_one_attempt():
    state = dataclasses.replace(new_state(AT, "h/e/1"), outcomes={0: "failed"})
    undone = advance(state, "undoing", AT, "ItemFailed", "", "h/e/2", then="queued")
    assert undone.outcomes == {0: "failed"}
    assert advance(undone, "queued", AT, "Requeued", "", "h/e/3", attempt=undone.attempt + 1).outcomes == {}
    assert advance(undone, "failed", AT, "ItemFailed", "", "h/e/3", attempt=undone.attempt).outcomes == {0: "failed"}


def test_outcomes_go_when_nothing_else_can():
    many = dict.fromkeys(range(1200), "succeeded")
    much = ({"name": "x" * 20_000, "count": 1, "requests": {}},)
    back = read_state(annotated(dataclasses.replace(new_state(AT, "h/e/1"), reserved=much, outcomes=many)))
    assert (back.reserved, back.outcomes, back.transitions) == (much, {}, ())
    few = dict(list(many.items())[:100])
    assert read_state(annotated(dataclasses.replace(back, outcomes=few))).outcomes == few


def test_the_last_undo_says_why():
    state = new_state(AT, "h/e/1")
    assert why_undone(state) is None
    for reason in ("LostRace", "TimeLimit"):
        state = advance(state, "undoing", AT, reason, "because", "h/e/2", then="queued")
        state = advance(state, "queued", AT, "Requeued", "because", "h/e/3", then=None)
    assert why_undone(state) == Transition("undoing", AT, "TimeLimit", "because")


def test_only_a_change_of_phase_is_a_transition():
    state = new_state(AT, "h/e/1")
    assert (state.phase, state.attempt, [item.phase for item in state.transitions]) == ("queued", 1, ["queued"])
    same = advance(state, "queued", "later", "Verdict", "still", "h/e/2", verdict={"answer": "waits"})
    assert same.transitions == state.transitions
    assert (same.verdict, same.write_id) == ({"answer": "waits"}, "h/e/2")
    moved = advance(same, "dispatching", "later", "Fits", "go", "h/e/3", batch="b", ticket_uid="t")
    assert moved.transitions[-1] == Transition("dispatching", "later", "Fits", "go")
    assert (moved.batch, moved.ticket_uid, moved.verdict) == ("b", "t", {"answer": "waits"})


def test_the_last_transitions_are_kept_and_long_messages_cut():
    state = new_state(AT, "h/e/0")
    for number in range(30):
        state = advance(state, PHASES[number % 2 + 1], AT, "Turn", f"{number}" + "x" * 5_000, f"h/e/{number}")
    assert len(state.transitions) == MOST_TRANSITIONS
    assert [int(item.message.rstrip("x…")) for item in state.transitions] == list(range(10, 30))
    assert {len(item.message) for item in state.transitions} == {1000}


@pytest.mark.parametrize("missing", [None, {}, {"other": "x"}])
def test_a_record_without_a_state_has_no_problem(missing):
    assert read_state(missing) is None
    assert state_problem(missing) is None


def forged(**changes):
    return json.dumps({**json.loads(state_text(new_state(AT, "h/e/1"))), **changes})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (3, "a text is needed"),
        ("not json", "no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"attempt":' + "9" * 5_000 + "}", "no JSON"),
        ('{"attempt": NaN}', "NaN"),
        ("[]", "mapping"),
        ("null", "missing"),
        (forged(phase=None), "phase"),
        (forged(phase={}), "phase"),
        (forged(attempt="1"), "attempt"),
        (forged(attempt=True), "attempt"),
        (forged(attempt=-1), "attempt"),
        (forged(batch=7), "batch"),
        (forged(ticket=[]), "ticket"),
        (forged(digest=""), "digest"),
        (forged(write_id=None), "write_id"),
        (forged(verdict="fits"), "verdict"),
        (forged(reserved={}), "reserved"),
        (forged(reserved=[1]), "reserved[0]"),
        (forged(reserved=[{"name": "a", "count": -1}]), "reserved[0]: count"),
        (forged(reserved=[{"name": "a", "count": 1, "requests": {"cpu": []}}]), "requests.cpu"),
        (forged(observed=[{"count": 1}]), "observed[0]: name"),
        (forged(requeues="2"), "requeues"),
        (forged(lost_races=-1), "lost_races"),
        (forged(not_before="soon"), "not_before"),
        (forged(started_at=17), "started_at"),
        (forged(steering=[]), "steering"),
        (forged(steering={"w": []}), "steering.w"),
        (forged(steering={"w": "node-1"}), "steering.w"),
        (forged(steering={"w": ["node-1", 2]}), "steering.w"),
        (forged(holding="no"), "holding"),
        (forged(outcomes=["failed"]), "outcomes"),
        (forged(outcomes={"0": "finished"}), "outcomes.0"),
        (forged(outcomes={"first": "failed"}), "outcomes.first"),
        (forged(outcomes={"-1": "failed"}), "outcomes.-1"),
        (forged(transitions=[["queued", AT, "x"]]), "transitions[0]"),
    ],
)
def test_a_damaged_state_is_told_and_never_raises(text, named):
    assert read_state({STATE_ANNOTATION: text}) is None
    assert named in state_problem({STATE_ANNOTATION: text})


@steady
@given(st.sampled_from(sorted(json.loads(state_text(new_state(AT, "h/e/1"))))), json_values)
def test_any_forged_part_gives_a_state_or_a_problem(key, value):
    found = {STATE_ANNOTATION: forged(**{key: value})}
    assert (read_state(found) is None) == (state_problem(found) is not None)


def test_the_format_is_written_and_a_state_may_be_as_large_as_allowed(monkeypatch):
    state = dataclasses.replace(new_state("2026-01-01T00:00:00Z", "w/1/1"), transitions=())
    text = state_text(state)
    assert json.loads(text)["format"] == 1
    monkeypatch.setattr(f"{state_text.__module__}.STATE_BYTES", len(text))
    assert state_text(state) == text


def test_long_messages_are_cut_to_a_thousand_letters():
    state = new_state(AT, "w")
    for length in (999, 1000):
        assert advance(state, "failed", AT, "R", "m" * length, "w").transitions[-1].message == "m" * length
    assert advance(state, "failed", AT, "R", "m" * 1001, "w").transitions[-1].message == "m" * 999 + "…"


def test_keys_that_nobody_knows_do_not_keep_a_gang_from_going_on():
    state = advance(new_state(AT, "w"), "running", AT, "R", "", "w", ticket_uid="t", outcomes={0: "succeeded"})
    assert read_state(annotated(dataclasses.replace(state, unknown={"later": "x"}))).unknown == {"later": "x"}
    assert read_state(annotated(dataclasses.replace(state, unknown={"later": "x" * STATE_BYTES}))) == state
    much = tuple({"name": f"w{number}", "count": 1, "requests": {"cpu": "1"}} for number in range(2000))
    crowded = dataclasses.replace(state, reserved=much, unknown={"later": "x"})
    assert read_state(annotated(crowded)).unknown == {"later": "x"}


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("left", [["v1", "Pod", "n", "a"]], [["v1", "Pod", "n"], ["v1", "Pod", "n", ""], ["v1", "Pod", "n", 1], "v1"]),
        ("left", [], [["v1", "Pod", "n", "a", "b"], {"v1": "Pod"}]),
        ("transitions", [["queued", AT, "", ""]], [["queued", AT, "", 1], ["queued", AT, "", "", ""], "queued"]),
    ],
)
def test_every_part_of_a_list_has_to_make_sense(field, good, bad):
    assert read_state({STATE_ANNOTATION: forged(**{field: good})}) is not None
    for item in bad:
        problem = state_problem({STATE_ANNOTATION: forged(**{field: [*good, item]})})
        assert f"{field}[{len(good)}]: a list of four texts is needed" in problem


@pytest.mark.parametrize("hosts", [["a", ""], ["", "a"], [1, "a"], "a", {}])
def test_every_host_of_a_steered_podset_has_to_be_a_name(hosts):
    assert "steering.w" in state_problem({STATE_ANNOTATION: forged(steering={"w": hosts})})
    assert read_state({STATE_ANNOTATION: forged(steering={"w": ["a", "b"]})}).steering == {"w": ("a", "b")}


@pytest.mark.parametrize("field", ["attempt", "requeues", "lost_races", "made"])
def test_numbers_of_a_state_end_where_those_of_the_server_do(field):
    assert getattr(read_state({STATE_ANNOTATION: forged(**{field: 2**31 - 1})}), field) == 2**31 - 1
    assert field in state_problem({STATE_ANNOTATION: forged(**{field: 2**31})})
    assert field in state_problem({STATE_ANNOTATION: forged(**{field: -1})})


@pytest.mark.parametrize(
    ("place", "fine"), [("0", True), ("7", True), ("999999999", True), ("1000000000", False), ("01", False)]
)
def test_places_of_outcomes_are_numbers_as_one_writes_them(place, fine):
    assert (state_problem({STATE_ANNOTATION: forged(outcomes={place: "failed"})}) is None) is fine


@pytest.mark.parametrize("field", ["reserved", "observed"])
@pytest.mark.parametrize("damage", [{}, {"requests": None}])
def test_podsets_without_requests_are_damage(field, damage):
    sizes = [{"name": "a", "count": 1, **damage}]
    assert "requests: it is missing" in (state_problem({STATE_ANNOTATION: forged(**{field: sizes})}) or "")


@pytest.mark.parametrize(("amount", "fine"), [("1", True), (1, True), (True, False), (1.5, False), (None, False)])
def test_amounts_of_a_podset_are_quantities(amount, fine):
    sizes = [{"name": "a", "count": 0, "requests": {"cpu": amount}}]
    assert (state_problem({STATE_ANNOTATION: forged(reserved=sizes)}) is None) is fine


def test_what_an_attempt_has_made_is_forgotten_with_it():
    state = dataclasses.replace(new_state(AT, "h/e/1"), made=3, outcomes={0: "failed"})
    same = advance(state, "dispatching", AT, "x", "", "h/e/2", attempt=1)
    assert (same.made, same.outcomes) == (3, {0: "failed"})
    other = advance(state, "dispatching", AT, "x", "", "h/e/2", attempt=2)
    assert (other.made, other.outcomes) == (0, {})
    told = advance(state, "dispatching", AT, "x", "", "h/e/2", attempt=2, made=1, outcomes={1: "succeeded"})
    assert (told.made, told.outcomes) == (1, {1: "succeeded"})


def test_at_most_twenty_waits_are_kept():
    state = new_state(AT, "h/e/0")
    for number in range(22):
        state = advance(state, "queued", AT, "", "", "h/e/1", verdict={"answer": "waits", "reason": f"r{number}"})
        state = advance(state, "dispatching", AT, "", "", "h/e/2")
        state = advance(state, "queued", AT, "", "", "h/e/3")
    assert [item["reason"] for item in state.waits] == [f"r{number}" for number in range(2, 22)]
