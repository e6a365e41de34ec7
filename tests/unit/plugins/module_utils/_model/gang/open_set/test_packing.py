# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the next batch holds: nothing lost or doubled between batch and surplus, and the size limit to the byte."""

from __future__ import annotations

import dataclasses
import uuid

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import (
    BATCH_BYTES,
    START_BYTES,
    Entry,
    demand_digest,
    keep_entries,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set import packing
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.compact import LATEST
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.packing import pack
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import batch_text, read_batch
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(30))
# What the note takes that some promises may be missing.
NOTE = len(f',"unlisted_since":{LATEST}')


def entry(uid, op="start", **more):
    return Entry(op, "team", f"gang-{uid}", uid, 1, **more)


def podsets(count=1, size=0):
    return [{"name": "w" + "x" * size, "count": count, "requests": {"cpu": 1000, "pods": 1}}]


def many_entries(count):
    return [(entry(str(uuid.UUID(int=i)), at=1_794_801_600, patience=300), podsets()) for i in range(count)]


def read(batch):
    return read_batch(batch_text(batch)).batch


def test_equal_demands_are_written_once():
    batch, surplus = pack([(entry("1"), podsets(4)), (entry("2"), podsets(4)), (entry("3"), podsets(5))], "e", "b1")
    assert surplus == []
    assert len(batch.demands) == 2
    assert [batch.demand_of(item)[0]["count"] for item in batch.entries] == [4, 4, 5]
    assert read(batch) == batch


def test_demands_that_differ_in_names_only_are_written_once():
    items = [(entry(str(i)), [{"name": f"gang-{i}/worker", "count": 4}, {"name": "ps", "count": 1}]) for i in range(9)]
    batch, _surplus = pack(items, "e", "b1")
    assert len(batch.demands) == 1
    assert [list(batch.demand_of(item)) for item in batch.entries] == [demand for _entry, demand in items]
    assert batch_text(batch).count("worker") == 1
    assert read(batch) == batch


def test_the_digest_of_a_demand_ignores_the_order_of_keys():
    assert demand_digest([{"name": "a", "count": 1}]) == demand_digest([{"count": 1, "name": "a"}])
    assert demand_digest([{"name": "a", "count": 1}]) != demand_digest([{"name": "a", "count": 2}])


def test_what_does_not_fit_waits_and_nobody_overtakes():
    items = [(entry("1"), podsets(1, 90_000)), (entry("2"), podsets(2, 90_001)), (entry("3"), podsets(3))]
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
        assert dataclasses.replace(item, podsets=(), demand_digest="", batch="") == original[item.uid][0]
        assert list(batch.demand_of(item)) == original[item.uid][1]
    for part in (batch.entries, [item for item, _demand in surplus]):
        assert [int(item.uid) for item in part] == sorted(int(item.uid) for item in part)
    assert set(batch.demands) == {item.demand_digest for item in batch.entries}
    assert len(batch_text(batch).encode()) <= START_BYTES
    assert read(batch) == batch


words = st.sampled_from(["gang", "gang-1", "w", "ä~g~", "a" * 40])
uids = st.integers(0, 12).map(lambda i: str(uuid.UUID(int=i)) if i < 8 else f"u{i}")
entries = st.builds(
    Entry,
    op=st.sampled_from(["start", "start", "stop"]),
    namespace=words,
    name=words,
    uid=uids,
    attempt=st.sampled_from([1, 2, 2**31 - 1]),
    queue=st.sampled_from([None, "q", "ö"]),
    abandoned=st.booleans(),
    at=st.sampled_from([0, 7, LATEST]),
    patience=st.sampled_from([0, 300]),
    unknown=st.sampled_from([{}, {}, {"shape": "round"}]),
)
names = st.sampled_from(["w", "gang", "gang-1/worker", "gangs", "x-gang", "~g", "ä~", ""])
demands = st.lists(
    st.fixed_dictionaries({"name": names, "count": st.integers(0, 3)}, optional={"q": words}), max_size=3
)
commits = st.lists(
    st.tuples(st.sampled_from(["b", "e.1/7", "e.12/8"]), st.lists(st.tuples(entries, demands))), max_size=4
)


@steady
@given(commits, st.integers(300, 1500), st.sampled_from(["", "0" * 32]))
def test_every_size_is_counted_as_it_is_written(course, most, quota):
    """Commit after commit, with entries that take the place of others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "START_BYTES", most)
        patch.setattr(packing, "BATCH_BYTES", most + 300)
        batch = None
        for batch_id, wanted in course:
            counted = packing._Packing(batch_id, "e", batch, quota)
            taken = [item for item in wanted if counted.add(*item)]
            before, batch = batch, counted.batch()
            if batch.entries:
                assert counted._size.total == len(batch_text(batch)) + NOTE
            carried = len(batch_text(dataclasses.replace(before, id=batch_id))) + NOTE if before is not None else 0
            limit = most + (300 if any(item.op != "start" for item, _demand in taken) else 0)
            assert len(batch_text(dataclasses.replace(batch, unlisted_since=LATEST))) <= max(limit, carried)
            assert read(batch) == batch
            last = {item.uid: demand for item, demand in taken}
            for item in batch.entries:
                assert item.uid not in last or list(batch.demand_of(item)) == last[item.uid]


def test_many_small_entries_fill_a_batch():
    batch, surplus = pack(many_entries(4_000), "e", "b1")
    assert 0 < len(surplus) < 4_000
    assert START_BYTES - 100 - NOTE < len(batch_text(batch)) <= START_BYTES - NOTE


def test_more_than_a_thousand_gangs_can_be_under_way():
    """Names of forty characters, in fifty namespaces, of Jobs that are called as their gangs."""
    items = []
    for i in range(2_000):
        name = f"experiment-of-somebody-with-number-{i:05d}"
        promised = [{"name": name, "count": 4, "requests": {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": "1"}}]
        terms = {"at": 1_794_801_600, "patience": 300, "queue": "research"}
        items.append((Entry("start", f"team-{i % 50}", name, str(uuid.UUID(int=i * 2**90)), 1, **terms), promised))
    epoch = f"{uuid.UUID(int=7)}.3"
    batch, _surplus = pack(items, epoch, f"{epoch}/17")
    assert len(batch.entries) >= 1_400
    assert read(batch) == batch


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
    assert kept.demand_of(kept.entries[0]) == tuple(podsets(2))


def test_carried_entries_leave_less_room_and_one_that_finds_none_does_not_take_the_open_one_away():
    items = [(entry("1"), podsets(1, 60_000)), (entry("0"), podsets(1, 50_000))]
    first, _surplus = pack(items, "e", "b1")
    second, surplus = pack([(entry("1", "stop"), podsets(2, 90_000)), (entry("2"), podsets())], "e", "b2", first)
    assert [(item.uid, item.op) for item in second.entries] == [("1", "start"), ("0", "start")]
    assert [item.uid for item, _demand in surplus] == ["1", "2"]


def test_in_a_full_batch_every_start_can_be_stopped():
    full, surplus = pack(many_entries(4_000), "e", "b1")
    assert surplus
    stops = [(entry(item.uid, "stop"), ()) for item in full.entries]
    after, left = pack(stops, "e", "b2", full)
    assert left == []
    assert [(item.uid, item.op) for item in after.entries] == [(item.uid, "stop") for item in full.entries]
    assert len(batch_text(after)) <= BATCH_BYTES


def test_in_a_full_batch_gangs_that_run_can_be_stopped():
    full, _surplus = pack(many_entries(4_000), "e", "b1")
    after, left = pack([(entry(f"r{i}", "stop"), ()) for i in range(200)], "e", "b2", full)
    assert left == []
    assert len(after.entries) == len(full.entries) + 200


def test_a_full_batch_has_room_to_say_that_promises_are_missing():
    full, surplus = pack([(entry(str(i), "stop"), ()) for i in range(9_000)], "e", "b1")
    assert surplus
    size = len(batch_text(dataclasses.replace(full, unlisted_since=LATEST)))
    assert BATCH_BYTES - 100 < size <= BATCH_BYTES


def test_more_rows_than_can_be_referred_to_wait():
    items = [(Entry("stop", f"n{i}", "g", f"{i:x}", 1), ()) for i in range(4_200)]
    batch, surplus = pack(items, "e", "b1")
    assert len(batch.entries) == 64**2
    assert len(surplus) == 4_200 - 64**2
    assert read(batch) == batch


@pytest.mark.parametrize(("op", "most"), [("start", "START_BYTES"), ("stop", "BATCH_BYTES")])
def test_a_batch_may_be_as_large_as_allowed(monkeypatch, op, most):
    for wanted in ([(entry("1", op), podsets())], [(entry("1", op), podsets()), (entry("2", op), podsets(2))]):
        size = len(batch_text(pack(wanted, "e", "b")[0])) + NOTE
        for limit, count in ((size, len(wanted)), (size - 1, len(wanted) - 1)):
            monkeypatch.setattr(packing, most, limit)
            assert len(pack(wanted, "e", "b")[0].entries) == count
        monkeypatch.undo()


def test_an_eighth_of_the_batch_is_left_for_what_is_to_be_stopped():
    assert (BATCH_BYTES, START_BYTES) == (131_072, 114_688)
