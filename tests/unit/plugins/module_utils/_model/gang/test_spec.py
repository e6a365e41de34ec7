# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Specifications: read strictly, with complaints that name the field, and a digest of what would be started."""

from __future__ import annotations

import datetime

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import (
    GangSpec,
    Requeue,
    digest,
    read_spec,
    spec_data,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(50))


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
            completion=[
                {"item": 0, "type": "Complete"},
                {"item": 0, "contains": "Complete"},
                {"item": 0, "jmespath": "status.done"},
                {"pods": True},
            ],
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
    assert spec.completion[:2] == (
        {"item": 0, "type": "Complete", "status": "True"},
        {"item": 0, "contains": "complete"},
    )
    assert (spec.exit_codes_terminal, spec.exit_codes_retryable) == ((2, 3), (137,))
    assert read_spec(spec_data(spec), "again") == spec


@pytest.mark.parametrize(("given", "read"), [(None, None), ([], ())])
def test_no_completion_is_inferred_and_an_empty_one_is_never(given, read):
    spec = read_spec(data(completion=given), "gang")
    assert spec.completion == read
    assert read_spec(spec_data(spec), "gang").completion == read


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
        ({"completion": [{"item": 0, "contains": "a", "status": "True"}]}, "completion[0]: status", "type"),
        ({"completion": [{"item": 0, "contains": "a", "type": "A"}]}, "completion[0]: type", "exactly one"),
        ({"completion": {}}, "completion", "a list is needed"),
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
        "completion": st.none()
        | st.lists(st.just({"item": 0, "type": "Ready", "status": "False"}) | st.just({"pods": True})),
        "exit_codes": st.just({"terminal": [1]}) | st.just({"retryable": [2, 1]}),
        "ttl": st.none() | seconds,
        "labels": st.dictionaries(names, names, max_size=3),
    },
)
parts = st.dictionaries(short_texts, json_values, max_size=3)


@steady
@given(specs, parts)
def test_specifications_survive_their_plain_values(values, part):
    spec = read_spec({**values, "objects": [{**job(), "spec": part}]}, "gang")
    again = read_spec(spec_data(spec), "gang")
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


def test_a_record_of_a_later_format_is_not_guessed_at():
    assert read_spec(data(format=1), "train", stored=True).name == "train"
    with pytest.raises(NewerVersion, match="format 2, this version knows up to 1"):
        read_spec(data(format=2), "train", stored=True)


def test_only_a_list_of_objects_is_no_object():
    order = {"apiVersion": "example.com/v1", "kind": "Order", "metadata": {"name": "o"}, "items": ["bread"]}
    wishes = {"apiVersion": "example.com/v1", "kind": "WishList", "metadata": {"name": "w"}, "spec": {}}
    podsets = [{"name": "p", "count": 1, "requests": {"cpu": "1"}}]
    assert read_spec(data(objects=[order, wishes], podsets=podsets), "gang").objects == (order, wishes)


@pytest.mark.parametrize(("least", "fine"), [(0, True), (2**31 - 1, True), (-1, False), (2**31, False)])
def test_the_least_pods_of_a_podset_have_bounds(least, fine):
    given = data(min_available={"train": least})
    if fine:
        assert read_spec(given, "gang").min_available == {"train": least}
        return
    with pytest.raises(BadInput, match="min_available: train"):
        read_spec(given, "gang")


@pytest.mark.parametrize(
    ("key", "fine"),
    [
        ("a" * 63, True),
        ("a" * 64, False),
        ("b" * 253 + "/a", True),
        ("b" * 254 + "/a", False),
        ("B/a", False),
        ("/a", False),
    ],
)
def test_names_of_labels(key, fine):
    given = data(labels={key: "x"})
    if fine:
        assert read_spec(given, "gang").labels == {key: "x"}
        return
    with pytest.raises(BadInput, match="this is no name of a label"):
        read_spec(given, "gang")
