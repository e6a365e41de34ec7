# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records: the ConfigMap around a specification, what it can hold and what was tampered with."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import (
    ANNOTATION_BYTES,
    RECORD_BYTES,
    SUBMITTED_ANNOTATION,
    build_record,
    ended_at,
    expiry,
    require_headroom,
    spec_of_record,
    submission_time,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    STATE_BYTES,
    Transition,
    new_state,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
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


texts = st.text(max_size=20)
parts = st.dictionaries(texts, st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | texts)
completions = st.none() | st.lists(st.just({"item": 0, "contains": "complete"}) | st.just({"pods": True}), max_size=2)


@steady
@given(parts, completions, st.none() | st.integers(0, 99))
def test_specifications_survive_the_record(part, completion, least):
    spec = read_spec(data(objects=[{**job(), "spec": part}], completion=completion, min_available=least), "gang")
    assert spec_of_record(json.loads(json.dumps(build_record(spec)))) == spec


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


def test_room_for_the_state_is_counted_to_the_byte():
    most = ANNOTATION_BYTES - STATE_BYTES - len(STATE_ANNOTATION) - len("a")
    require_headroom({"a": "x" * most}, "AppWrapper team/a")
    with pytest.raises(BadInput, match=f"leave {STATE_BYTES - 1} bytes"):
        require_headroom({"a": "x" * (most + 1)}, "AppWrapper team/a")


def dated(created, told=None):
    return {"creationTimestamp": created, "annotations": {} if told is None else {SUBMITTED_ANNOTATION: told}}


@pytest.mark.parametrize(
    ("created", "told", "submitted"),
    [
        ("2026-01-01T00:00:10Z", None, "2026-01-01T00:00:10Z"),
        ("2026-01-01T00:00:10Z", "2026-01-01T00:00:10.250000Z", "2026-01-01T00:00:10.25Z"),
        ("2026-01-01T00:00:10Z", "2026-01-01T00:00:09.900000Z", "2026-01-01T00:00:09.9Z"),
        ("2026-01-01T00:00:10Z", "2026-01-01T00:05:00Z", "2026-01-01T00:05:00Z"),
        ("2026-01-01T00:00:10Z", "2025-01-01T00:00:00Z", "2026-01-01T00:00:10Z"),
        ("2026-01-01T00:00:10Z", "soon", "2026-01-01T00:00:10Z"),
    ],
)
def test_the_annotation_dates_a_gang_finer_or_later_but_not_earlier(created, told, submitted):
    assert submission_time(dated(created, told)) == read_time(submitted)


def finished(phase, *moments):
    """The state of a gang in a phase, with transitions at these moments."""
    steps = tuple(Transition("queued", moment, "R", "") for moment in moments)
    return dataclasses.replace(new_state("2026-01-01T00:00:00Z", "w"), phase=phase, transitions=steps)


@pytest.mark.parametrize("phase", ["complete", "failed"])
def test_a_finished_gang_ended_with_its_last_change(phase):
    state = finished(phase, "1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z")
    assert ended_at(state) == 20.0
    assert ended_at(finished(phase)) is None
    assert expiry(state, None) is None
    assert expiry(finished(phase), 5.0) is None


@pytest.mark.parametrize("phase", ["queued", "running", "undoing", "suspended"])
def test_a_gang_that_goes_on_has_no_end_to_expire_after(phase):
    state = finished(phase, "1970-01-01T00:00:20Z")
    assert (ended_at(state), expiry(state, 5.0)) == (None, None)


@pytest.mark.parametrize(
    ("ttl", "moment"),
    [
        (0, "1970-01-01T00:00:20.000000Z"),
        (5.5, "1970-01-01T00:00:25.500000Z"),
        (253_402_300_779.0, "9999-12-31T23:59:59.000000Z"),
        (1e12, "9999-12-31T23:59:59.000000Z"),
    ],
)
def test_a_gang_expires_when_its_time_to_live_is_over(ttl, moment):
    assert expiry(finished("complete", "1970-01-01T00:00:20Z"), ttl) == moment


def test_a_record_may_be_as_large_as_allowed(monkeypatch):
    spec = read_spec(data(), "gang")
    size = len(build_record(spec)["data"]["gang.json"].encode()) + STATE_BYTES
    monkeypatch.setattr(f"{build_record.__module__}.RECORD_BYTES", size)
    assert spec_of_record(build_record(spec)) == spec
    monkeypatch.setattr(f"{build_record.__module__}.RECORD_BYTES", size - 1)
    with pytest.raises(BadInput, match=f"its record would need {size} bytes"):
        build_record(spec)


@pytest.mark.parametrize(("told", "counts"), [(60, True), (61, True), (58, True), (57, False)])
def test_nobody_gets_ahead_of_the_server_by_more_than_two_seconds(told, counts):
    annotations = {SUBMITTED_ANNOTATION: f"1970-01-01T00:{told // 60:02}:{told % 60:02}Z"}
    metadata = {"creationTimestamp": "1970-01-01T00:01:00Z", "annotations": annotations}
    assert submission_time(metadata) == (told if counts else 60)
    assert submission_time({**metadata, "annotations": None}) == 60
    assert submission_time({}) == 0.0
