# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records: states that survive damage and stay small, specifications read strictly, the ConfigMap around them."""

from __future__ import annotations

import dataclasses
import datetime
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.record import (
    MOST_TRANSITIONS,
    PHASES,
    RECORD_BYTES,
    STATE_ANNOTATION,
    STATE_BYTES,
    GangSpec,
    GangState,
    Requeue,
    Transition,
    advance,
    build_record,
    digest,
    new_state,
    read_spec,
    read_state,
    require_headroom,
    spec_data,
    spec_of_record,
    state_problem,
    state_text,
)
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(derandomize=True, deadline=None, max_examples=50)

AT = "2026-01-01T00:00:00Z"


def job(name="train", **metadata):
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {"parallelism": 2, "template": {"spec": {"containers": containers}}},
    }


def data(**changes):
    """Plain values of a small good specification, some of them replaced."""
    return {"name": "train", "namespace": "team", "objects": [job()], **changes}


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
)


@steady
@given(states)
def test_a_state_comes_back_and_never_outgrows_its_annotation(state):
    text = state_text(state)
    assert len(text.encode()) <= STATE_BYTES
    back = read_state({STATE_ANNOTATION: text})
    assert state_problem({STATE_ANNOTATION: text}) is None
    dropped = len(state.transitions) - len(back.transitions)
    assert back.transitions == state.transitions[dropped:]
    same = dataclasses.replace(back, verdict=state.verdict, transitions=state.transitions)
    assert same == state
    if dropped:
        assert back.verdict is None


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


def test_reservations_are_never_dropped():
    much = tuple({"name": f"podset-{number}", "count": 1, "requests": {"cpu": 1}} for number in range(2_000))
    with pytest.raises(BadInput, match="use fewer podsets"):
        state_text(dataclasses.replace(new_state(AT, "h/e/1"), reserved=much))


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
        (forged(phase="flying"), "phase"),
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
        (forged(transitions=[["queued", AT, "x"]]), "transitions[0]"),
        (forged(transitions=[["flying", AT, "x", "y"]]), "transitions[0]"),
    ],
)
def test_a_damaged_state_is_told_and_never_raises(text, named):
    assert read_state({STATE_ANNOTATION: text}) is None
    assert named in state_problem({STATE_ANNOTATION: text})


@steady
@given(st.sampled_from(["phase", "attempt", "ticket", "reserved", "verdict", "transitions", "write_id"]), json_values)
def test_any_forged_part_gives_a_state_or_a_problem(key, value):
    found = {STATE_ANNOTATION: forged(**{key: value})}
    assert (read_state(found) is None) == (state_problem(found) is not None)


def test_defaults_of_a_small_specification():
    spec = read_spec(data(), "gang team/train")
    assert spec == GangSpec(name="train", namespace="team", objects=(job(),))
    assert spec.requeue == Requeue(300, "exponential", None, None, 0)


def test_everything_that_can_be_said_is_read():
    podsets = [{"name": "w", "count": 2, "requests": {"cpu": "1"}}]
    spec = read_spec(
        data(
            queue="research",
            priority=-5,
            priority_slope=1,
            suspended=True,
            podsets=podsets,
            min_available={"w": 1},
            requeue={"time": "1m", "growth": "linear", "max_time": 600, "limit": 0, "pause": "90s"},
            max_run_time="1h30m",
            completion=[{"item": 0, "type": "Complete"}, {"item": 0, "jmespath": "status.done"}, {"pods": True}],
            exit_codes={"terminal": [3, 2, 3], "retryable": [137]},
            ttl=0,
            labels={"team/owner": "me"},
        ),
        "gang",
    )
    assert (spec.queue, spec.priority, spec.priority_slope, spec.suspended) == ("research", -5, 1.0, True)
    assert (spec.podsets, spec.min_available) == (tuple(podsets), {"w": 1})
    assert spec.requeue == Requeue(60, "linear", 600, 0, 90)
    assert (spec.max_run_time, spec.ttl) == (5400, 0)
    assert spec.completion[0] == {"item": 0, "type": "Complete", "status": "True"}
    assert (spec.exit_codes_terminal, spec.exit_codes_retryable) == ((2, 3), (137,))
    assert read_spec(spec_data(spec), "again") == spec


def test_podset_names_of_min_available_may_be_inferred():
    assert read_spec(data(min_available={"train": 2}), "gang").min_available == {"train": 2}


@pytest.mark.parametrize(
    ("changes", "field", "hint"),
    [
        ({"priorty": 1}, "priorty", "did you mean priority?"),
        ({"zzz": 1}, "zzz", "known are name"),
        ({"name": None}, "name", "missing"),
        ({"name": "Train"}, "name", "lower case"),
        ({"name": "a" * 254}, "name", "at most 253"),
        ({"namespace": "a.b"}, "namespace", "at most 63"),
        ({"queue": "a/b"}, "queue", "no name of a queue"),
        ({"priority": "1"}, "priority", "whole number"),
        ({"priority": True}, "priority", "whole number"),
        ({"priority": 2**31}, "priority", "whole number"),
        ({"priority_slope": -0.1}, "priority_slope", "not negative"),
        ({"priority_slope": float("nan")}, "priority_slope", "cannot be written as JSON"),
        ({"suspended": "yes"}, "suspended", "true or false"),
        ({"objects": []}, "objects", "no objects"),
        ({"objects": job()}, "objects", "a list is needed"),
        ({"objects": [3]}, "objects[0]", "mapping"),
        ({"objects": [job(), {**job(), "kind": None}]}, "objects[1]: kind", "missing"),
        ({"objects": [{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []}]}, "objects[0]: kind", "items"),
        ({"objects": [{"apiVersion": "v1", "kind": "Pod"}]}, "objects[0]: metadata", "missing"),
        ({"objects": [job(None)]}, "objects[0]: metadata: generateName", "neither"),
        ({"objects": [job(labels={"a": 1})]}, "objects[0]: metadata: labels.a", "quote it"),
        ({"objects": [job(namespace=7)]}, "objects[0]: metadata: namespace", "a text is needed"),
        (
            {"objects": [job(annotations={"at": datetime.date(2026, 1, 1)})]},
            "objects[0].metadata.annotations.at",
            "JSON",
        ),
        ({"objects": [job(labels={1: "a"})]}, "objects[0].metadata.labels", "the key 1"),
        ({"objects": [job(labels={"a": "\ud800"})]}, "objects[0].metadata.labels.a", "Unicode"),
        ({"podsets": []}, "podsets", "empty"),
        ({"podsets": [{"name": "a"}]}, "podsets[0].requests", "size of one pod"),
        ({"min_available": -1}, "min_available", "whole number"),
        ({"min_available": "all"}, "min_available", "whole number"),
        ({"min_available": {"trian": 1}}, "min_available: trian", "did you mean train?"),
        ({"min_available": {"train": None}}, "min_available: train", "missing"),
        ({"requeue": {"tme": 1}}, "requeue: tme", "did you mean time?"),
        ({"requeue": {"growth": "fast"}}, "requeue: growth", "none of exponential"),
        ({"requeue": {"time": "soon"}}, "requeue: time", "duration"),
        ({"requeue": {"time": -1}}, "requeue: time", "not negative"),
        ({"requeue": {"time": "9" * 400}}, "requeue: time", "too long"),
        ({"requeue": {"limit": 1.5}}, "requeue: limit", "whole number"),
        ({"max_run_time": "1 hour"}, "max_run_time", "duration"),
        ({"completion": [{"item": 0}]}, "completion[0]: type", "exactly one"),
        ({"completion": [{"item": 0, "type": "A", "jmespath": "b"}]}, "completion[0]: type", "exactly one"),
        ({"completion": [{"item": 1, "type": "A"}]}, "completion[0]: item", "from 0 to 0"),
        ({"completion": [{"type": "A"}]}, "completion[0]: item", "missing"),
        ({"completion": [{"item": 0, "type": "A", "status": "maybe"}]}, "completion[0]: status", "none of True"),
        ({"completion": [{"item": 0, "jmespath": "a", "status": "True"}]}, "completion[0]: status", "type"),
        ({"completion": [{"item": 0, "pods": True}]}, "completion[0]: pods", "without item"),
        ({"completion": [{"pods": False}]}, "completion[0]: pods", "only pods: true"),
        ({"exit_codes": {"terminal": [0]}}, "exit_codes: terminal[0]", "1 to 255"),
        ({"exit_codes": {"terminal": [3], "retryable": [3]}}, "exit_codes: retryable", "terminal too"),
        ({"exit_codes": {"final": [3]}}, "exit_codes: final", "unknown key"),
        ({"labels": {"muster.kube/queue": "x"}}, "labels.muster.kube/queue", "the collection itself"),
        ({"labels": {"a": "b c"}}, "labels.a", "no value"),
        ({"labels": {"-": "b"}}, "labels.-", "no name"),
        ({"labels": {"B_/a": "b"}}, "labels.B_/a", "no name"),
    ],
)
def test_wrong_fields_are_named_with_what_is_wrong(changes, field, hint):
    with pytest.raises(BadInput) as caught:
        read_spec(data(**changes), "gang team/train")
    assert caught.value.target == f"gang team/train: {field}"
    assert hint in caught.value.cause


def test_objects_nested_without_end_are_refused():
    deep = {}
    for _level in range(300):
        deep = {"a": deep}
    with pytest.raises(BadInput, match="levels deep"):
        read_spec(data(objects=[{**job(), "spec": deep}]), "gang")


names = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
seconds = st.floats(0, 1e9) | st.integers(0, 10**9)
specs = st.fixed_dictionaries(
    {"name": names, "namespace": names},
    optional={
        "queue": st.none() | names,
        "priority": st.integers(-(2**31), 2**31 - 1),
        "priority_slope": seconds,
        "suspended": st.booleans(),
        "podsets": st.none() | st.just([{"name": "w", "count": 2, "requests": {"cpu": "1"}}]),
        "min_available": st.none() | st.integers(0, 99),
        "requeue": st.fixed_dictionaries(
            {},
            optional={
                "time": seconds,
                "growth": st.sampled_from(["exponential", "linear", "none"]),
                "max_time": st.none() | seconds,
                "limit": st.none() | st.integers(0, 9),
                "pause": seconds | st.just("1m30s"),
            },
        ),
        "max_run_time": st.none() | seconds,
        "completion": st.lists(st.just({"item": 0, "type": "Ready", "status": "False"}) | st.just({"pods": True})),
        "exit_codes": st.just({"terminal": [1]}) | st.just({"retryable": [2, 1]}),
        "ttl": st.none() | seconds,
        "labels": st.dictionaries(names, names, max_size=3),
    },
)
parts = st.dictionaries(short_texts, json_values, max_size=3)


@steady
@given(specs, parts)
def test_specifications_survive_the_record(values, part):
    spec = read_spec({**values, "objects": [{**job(), "spec": part}]}, "gang")
    assert read_spec(spec_data(spec), "gang") == spec
    stored = json.loads(json.dumps(build_record(spec)))
    again = spec_of_record(stored)
    assert again == spec
    assert digest(again) == digest(spec)


def reversed_keys(value):
    """The same value with the keys of its mappings in the opposite order."""
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@steady
@given(parts)
def test_the_digest_ignores_the_order_of_keys(part):
    one = read_spec(data(objects=[{**job(), "spec": part}]), "gang")
    other = read_spec(data(objects=[reversed_keys({**job(), "spec": part})]), "gang")
    assert digest(one) == digest(other)


def test_the_digest_follows_what_is_started_and_nothing_else():
    podsets = [{"name": "w", "count": 2, "requests": {"cpu": "1"}}]
    base = digest(read_spec(data(), "gang"))
    assert digest(read_spec(data(priority=7, queue="q", labels={"a": "b"}), "gang")) == base
    others = [data(objects=[job("other")]), data(podsets=podsets), data(objects=[job(), job("b")])]
    others.append(data(objects=[job("b"), job()]))
    assert len({base, *(digest(read_spec(item, "gang")) for item in others)}) == 5


def test_the_record_is_a_labeled_configmap():
    record = build_record(read_spec(data(queue="research", labels={"a": "b"}), "gang"))
    assert (record["apiVersion"], record["kind"]) == ("v1", "ConfigMap")
    labels = {"a": "b", "muster.kube/record": "gang", "muster.kube/queue": "research"}
    assert record["metadata"] == {"name": "train", "namespace": "team", "labels": labels}
    assert list(record["data"]) == ["gang.json"]
    assert "muster.kube/queue" not in build_record(read_spec(data(), "gang"))["metadata"]["labels"]


def test_records_are_refused_just_above_the_limit():
    def sized(extra):
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"f": "é" * extra}}
        return read_spec(data(objects=[config]), "gang")

    frame = len(build_record(sized(0))["data"]["gang.json"].encode())
    most = (RECORD_BYTES - STATE_BYTES - frame) // 2
    assert build_record(sized(most))["kind"] == "ConfigMap"
    with pytest.raises(BadInput, match=r"gang team/train.*put large files into ConfigMaps"):
        build_record(sized(most + 1))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"data": None}, "data.gang.json: it is missing"),
        ({"data": {"gang.json": "{"}}, "no JSON"),
        ({"data": {"gang.json": "[]"}}, "mapping"),
        ({"data": {"gang.json": "[" * 100_000}}, "nested too deeply"),
        ({"metadata": {"name": "train", "namespace": "victim"}}, "'team' is not that of the ConfigMap, 'victim'"),
        ({"metadata": {"name": "other", "namespace": "team"}}, "'train' is not that of the ConfigMap, 'other'"),
    ],
)
def test_records_that_were_tampered_with_are_refused(change, named):
    record = {**build_record(read_spec(data(), "gang")), **change}
    with pytest.raises(BadInput) as caught:
        spec_of_record(record)
    assert named in str(caught.value)


def test_annotations_must_leave_room_for_the_state():
    require_headroom(None, "AppWrapper team/a")
    require_headroom({"a": "x" * 200_000, STATE_ANNOTATION: "y" * STATE_BYTES}, "AppWrapper team/a")
    with pytest.raises(BadInput, match="AppWrapper team/a: its annotations leave"):
        require_headroom({"a": "x" * 230_000}, "AppWrapper team/a")
