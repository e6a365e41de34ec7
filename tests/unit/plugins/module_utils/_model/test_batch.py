# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Batches: nothing lost or doubled between batch and surplus, the size limit, tolerant reading, settlement."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.batch import (
    BATCH_ANNOTATION,
    BATCH_BYTES,
    Entry,
    abandon,
    batch_problem,
    batch_text,
    demand_digest,
    pack,
    read_batch,
    unsettled,
)
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(derandomize=True, deadline=None, max_examples=30)


def entry(uid, op="start", **more):
    return Entry(op, "team", f"gang-{uid}", uid, 1, "d" * 64, **more)


def podsets(count=1, size=0):
    return [{"name": "w" + "x" * size, "count": count, "requests": {"cpu": 1000, "pods": 1}}]


def annotations(batch):
    return {BATCH_ANNOTATION: batch_text(batch)}


def test_equal_demands_are_written_once():
    batch, surplus = pack([(entry("1"), podsets(4)), (entry("2"), podsets(4)), (entry("3"), podsets(5))], "e", "b1")
    assert surplus == []
    assert len(batch.demands) == 2
    assert [batch.demand_of(item)[0]["count"] for item in batch.entries] == [4, 4, 5]
    assert read_batch(annotations(batch)) == batch


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
        assert dataclasses.replace(item, demand_digest="") == original[item.uid][0]
        assert list(batch.demand_of(item)) == original[item.uid][1]
    for part in (batch.entries, [item for item, _demand in surplus]):
        assert [int(item.uid) for item in part] == sorted(int(item.uid) for item in part)
    assert set(batch.demands) == {item.demand_digest for item in batch.entries}
    for item in batch.entries:
        batch = abandon(batch, item.uid)
    assert len(batch_text(batch).encode()) <= BATCH_BYTES
    assert read_batch(annotations(batch)) == batch


def test_many_small_entries_fill_a_batch_and_leave_room_for_marks():
    items = [(entry(str(i)), podsets()) for i in range(2_000)]
    batch, surplus = pack(items, "e", "b1")
    assert 0 < len(surplus) < 2_000
    assert len(batch_text(batch)) > BATCH_BYTES * 0.9
    for item in batch.entries:
        batch = abandon(batch, item.uid)
    assert BATCH_BYTES - 400 < len(batch_text(batch)) <= BATCH_BYTES


def test_abandoning_marks_one_entry():
    batch, _surplus = pack([(entry("1"), podsets()), (entry("2"), podsets())], "e", "b1")
    marked = abandon(batch, "2")
    assert [item.abandoned for item in marked.entries] == [False, True]
    assert [item.abandoned for item in batch.entries] == [False, False]
    assert read_batch(annotations(marked)) == marked


def test_entries_are_settled_by_the_record_its_end_or_abandonment():
    batch, _surplus = pack([(entry(uid), podsets()) for uid in "12345"], "e", "b2")
    batch = abandon(batch, "4")
    states = {"1": "b2", "2": "b1", "3": None, "4": "b1"}
    assert [item.uid for item in unsettled(batch, states)] == ["2", "3"]


def test_no_annotation_is_no_problem():
    for missing in (None, {}, {"other": "x"}):
        assert read_batch(missing) is None
        assert batch_problem(missing) is None


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
        ("[]", "id"),
        ("null", "id"),
        (json.dumps(changed(id="")), "id"),
        (json.dumps(changed(epoch=3)), "epoch"),
        (json.dumps(changed(entries={})), "entries"),
        (json.dumps(changed(entries=[3])), "entries[0].op"),
        (json.dumps(changed(demands=[])), "demands"),
        (json.dumps(changed(demands={"x": 3})), "demands.x"),
        (json.dumps(changed(demands={"x": [{"name": "forged"}]})), "demands.x"),
        (json.dumps(changed(demands={})), "entries[0].demand"),
        (json.dumps(changed_entry(op="explode")), "entries[0].op"),
        (json.dumps(changed_entry(attempt=True)), "entries[0].attempt"),
        (json.dumps(changed_entry(attempt=-1)), "entries[0].attempt"),
        (json.dumps(changed_entry(queue=[])), "entries[0].queue"),
        (json.dumps(changed_entry(uid=None)), "entries[0].uid"),
    ],
)
def test_damaged_batches_are_told_and_never_raise(text, named):
    assert read_batch({BATCH_ANNOTATION: text}) is None
    assert named in batch_problem({BATCH_ANNOTATION: text})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@steady
@given(st.sampled_from(["id", "epoch", "entries", "demands"]), json_values)
def test_any_forged_part_gives_a_batch_or_a_problem(key, value):
    text = json.dumps(changed(**{key: value}))
    found = {BATCH_ANNOTATION: text}
    assert (read_batch(found) is None) == (batch_problem(found) is not None)
