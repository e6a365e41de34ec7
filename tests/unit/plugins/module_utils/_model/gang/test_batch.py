# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Batches: nothing lost or doubled between batch and surplus, the size limit, tolerant reading."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import (
    BATCH_BYTES,
    BATCH_FORMAT,
    START_BYTES,
    Entry,
    batch_text,
    demand_digest,
    keep_entries,
    pack,
    read_batch,
)
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(30))


def entry(uid, op="start", **more):
    return Entry(op, "team", f"gang-{uid}", uid, 1, "d" * 64, **more)


def podsets(count=1, size=0):
    return [{"name": "w" + "x" * size, "count": count, "requests": {"cpu": 1000, "pods": 1}}]


def read(batch):
    return read_batch(batch_text(batch)).batch


def test_equal_demands_are_written_once():
    batch, surplus = pack([(entry("1"), podsets(4)), (entry("2"), podsets(4)), (entry("3"), podsets(5))], "e", "b1")
    assert surplus == []
    assert len(batch.demands) == 2
    assert [batch.demand_of(item)[0]["count"] for item in batch.entries] == [4, 4, 5]
    assert read(batch) == batch


def test_the_digest_of_a_demand_ignores_the_order_of_keys():
    assert demand_digest([{"name": "a", "count": 1}]) == demand_digest([{"count": 1, "name": "a"}])
    assert demand_digest([{"name": "a", "count": 1}]) != demand_digest([{"name": "a", "count": 2}])


def test_what_does_not_fit_waits_and_nobody_overtakes():
    items = [(entry("1"), podsets(1, 90_000)), (entry("2"), podsets(2, 90_000)), (entry("3"), podsets(3))]
    batch, surplus = pack(items, "e", "b1")
    assert [item.uid for item in batch.entries] == ["1"]
    assert surplus == items[1:]


def test_an_impossible_entry_waits_without_holding_up_others():
    items = [(entry("1"), podsets(1, BATCH_BYTES)), (entry("2"), podsets(1))]
    batch, surplus = pack(items, "e", "b1")
    assert [item.uid for item in batch.entries] == ["2"]
    assert surplus == items[:1]


def test_a_gang_has_one_entry_per_batch():
    items = [(entry("1", "stop"), podsets()), (entry("1"), podsets()), (entry("2"), podsets())]
    batch, surplus = pack(items, "e", "b1")
    assert [(item.uid, item.op) for item in batch.entries] == [("1", "stop"), ("2", "start")]
    assert surplus == items[1:2]


sizes = st.sampled_from([0, 10, 3_000, 40_000, 140_000])
many = st.lists(st.tuples(sizes, st.integers(0, 3), st.sampled_from(["ä", "q", None])), max_size=40)


@steady
@given(many)
def test_nothing_is_lost_or_doubled_and_the_limit_holds(kinds):
    items = [(entry(str(i), queue=queue), podsets(count, size)) for i, (size, count, queue) in enumerate(kinds)]
    batch, surplus = pack(items, "epoch", "b")
    original = {item.uid: (item, demand) for item, demand in items}
    seen = [item.uid for item in batch.entries] + [item.uid for item, _demand in surplus]
    assert sorted(seen, key=int) == [item.uid for item, _demand in items]
    for item in batch.entries:
        assert dataclasses.replace(item, demand_digest="", batch="") == original[item.uid][0]
        assert list(batch.demand_of(item)) == original[item.uid][1]
    for part in (batch.entries, [item for item, _demand in surplus]):
        assert [int(item.uid) for item in part] == sorted(int(item.uid) for item in part)
    assert set(batch.demands) == {item.demand_digest for item in batch.entries}
    assert len(batch_text(batch).encode()) <= BATCH_BYTES
    assert read(batch) == batch


def test_many_small_entries_fill_a_batch():
    items = [(entry(str(i)), podsets()) for i in range(2_000)]
    batch, surplus = pack(items, "e", "b1")
    assert 0 < len(surplus) < 2_000
    assert START_BYTES - 400 < len(batch_text(batch)) <= START_BYTES


def test_open_entries_are_carried_over_and_renewed():
    first, _surplus = pack([(entry("1"), podsets(1)), (entry("2"), podsets(2))], "e", "b1")
    second, surplus = pack([(entry("2", "stop"), podsets(3)), (entry("3"), podsets(1))], "e", "b2", first)
    assert surplus == []
    assert [(item.uid, item.op, item.batch) for item in second.entries] == [
        ("1", "start", "b1"),
        ("2", "stop", "b2"),
        ("3", "start", "b2"),
    ]
    assert [second.demand_of(item)[0]["count"] for item in second.entries] == [1, 3, 1]
    assert len(second.demands) == 2
    assert read(second) == second


def test_what_is_over_leaves_with_its_demand():
    batch, _surplus = pack([(entry("1"), podsets(1)), (entry("2"), podsets(2))], "e", "b1")
    kept = keep_entries(batch, batch.entries[1:])
    assert ([item.uid for item in kept.entries], len(kept.demands)) == (["2"], 1)


def test_carried_entries_leave_less_room_and_one_that_finds_none_does_not_take_the_open_one_away():
    first, _surplus = pack([(entry("1"), podsets(1, 90_000))], "e", "b1")
    second, surplus = pack([(entry("1", "stop"), podsets(2, 90_000)), (entry("2"), podsets())], "e", "b2", first)
    assert [(item.uid, item.op) for item in second.entries] == [("1", "start")]
    assert [item.uid for item, _demand in surplus] == ["1", "2"]


def test_in_a_full_batch_every_start_can_be_stopped():
    full, surplus = pack([(entry(str(i)), podsets()) for i in range(2_000)], "e", "b1")
    assert surplus
    stops = [(entry(item.uid, "stop"), ()) for item in full.entries]
    after, left = pack(stops, "e", "b2", full)
    assert left == []
    assert [(item.uid, item.op) for item in after.entries] == [(item.uid, "stop") for item in full.entries]
    assert len(batch_text(after)) <= BATCH_BYTES


def test_in_a_full_batch_gangs_that_run_can_be_stopped():
    full, _surplus = pack([(entry(str(i)), podsets()) for i in range(2_000)], "e", "b1")
    after, left = pack([(entry(f"r{i}", "stop"), ()) for i in range(20)], "e", "b2", full)
    assert left == []
    assert len(after.entries) == len(full.entries) + 20


def test_how_long_a_start_may_take_is_kept():
    batch, _surplus = pack([(entry("1", at=7, patience=300), podsets())], "e", "b1")
    assert read(batch) == batch
    assert "patience" not in batch_text(pack([(entry("1"), podsets())], "e", "b1")[0])


def test_entries_of_earlier_versions_belong_to_the_batch_itself():
    data = json.loads(batch_text(pack([(entry("1"), podsets())], "e", "b1")[0]))
    del data["format"], data["entries"][0]["batch"]
    data["entries"][0]["abandoned"] = True
    found = read_batch(json.dumps(data)).batch
    assert [(item.batch, item.abandoned, item.at) for item in found.entries] == [("b1", True, 0)]


def test_unknown_keys_are_written_back():
    data = changed(color="blue")
    data["entries"][0]["shape"] = "round"
    found = read_batch(json.dumps(data)).batch
    carried, _surplus = pack([(entry("2"), podsets())], "e", "b2", found)
    again = json.loads(batch_text(carried))
    assert (again["color"], again["entries"][0]["shape"]) == ("blue", "round")


@pytest.mark.parametrize("newer", [{"format": BATCH_FORMAT + 1}, {"entries": [{"op": "explode"}]}])
def test_a_batch_of_a_newer_version_is_told_apart_from_a_damaged_one(newer):
    data = changed(**newer)
    if "entries" in newer:
        data["entries"] = changed_entry(**newer["entries"][0])["entries"]
    found = read_batch(json.dumps(data))
    assert (found.batch, found.problem) == (None, None)
    assert "this version knows" in found.newer


def test_no_annotation_is_no_problem():
    assert read_batch(None) == (None, None, None)


def changed(**changes):
    """The data of a good batch with some keys replaced."""
    batch, _surplus = pack([(entry("1"), podsets())], "e", "b1")
    return {**json.loads(batch_text(batch)), **changes}


def changed_entry(**changes):
    """The data of a good batch whose entry has some keys replaced."""
    data = changed()
    data["entries"][0].update(changes)
    return data


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (7, "a text is needed"),
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "a mapping is needed"),
        ("null", "it is missing"),
        (json.dumps(changed(id="")), "id"),
        (json.dumps(changed(epoch=3)), "epoch"),
        (json.dumps(changed(entries={})), "entries"),
        (json.dumps(changed(entries=[3])), "entries[0]"),
        (json.dumps(changed(demands=[])), "demands"),
        (json.dumps(changed(demands={"x": 3})), "demands.x"),
        (json.dumps(changed(demands={"x": [{"name": "forged"}]})), "demands.x"),
        (json.dumps(changed(demands={"x": [{"name": "w"}, 3]})), "demands.x: a list of podsets is needed"),
        (json.dumps(changed(demands={})), "entries[0]: demand"),
        (json.dumps(changed_entry(attempt=True)), "entries[0]: attempt"),
        (json.dumps(changed_entry(attempt=-1)), "entries[0]: attempt"),
        (json.dumps(changed_entry(queue=[])), "entries[0]: queue"),
        (json.dumps(changed_entry(uid=None)), "entries[0]: uid"),
    ],
)
def test_damaged_batches_are_told_and_never_raise(text, named):
    found = read_batch(text)
    assert (found.batch, found.newer) == (None, None)
    assert named in found.problem


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@steady
@given(st.sampled_from(["id", "epoch", "entries", "demands"]), json_values)
def test_any_forged_part_gives_a_batch_or_a_problem(key, value):
    text = json.dumps(changed(**{key: value}))
    found = read_batch(text)
    assert (found.batch is None) == (found.problem is not None or found.newer is not None)


def test_the_time_of_a_commit_comes_back():
    assert read(pack([(entry("1", at=1794801600), podsets())], "e", "b")[0]).entries[0].at == 1794801600


@pytest.mark.parametrize(("op", "most"), [("start", "START_BYTES"), ("stop", "BATCH_BYTES")])
def test_a_batch_may_be_as_large_as_allowed(monkeypatch, op, most):
    wanted = [(entry("1", op=op), podsets())]
    # One comma is counted for each entry and demand.
    size = len(batch_text(pack(wanted, "e", "b")[0])) + 2
    for limit, count in ((size, 1), (size - 1, 0)):
        monkeypatch.setattr(f"{pack.__module__}.{most}", limit)
        assert len(pack(wanted, "e", "b")[0].entries) == count


def test_an_eighth_of_the_batch_is_left_for_what_is_to_be_stopped():
    assert (BATCH_BYTES, START_BYTES) == (131_072, 114_688)
