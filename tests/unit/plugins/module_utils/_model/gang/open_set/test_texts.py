# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of the batch: what comes back, in both formats, and what becomes of a damaged one."""

from __future__ import annotations

import dataclasses
import json
import uuid

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Batch, Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.compact import COMPACT_FORMAT
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.packing import pack
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import batch_text, read_batch
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields
from ansible_collections.muster.kube.tests.support.batch_texts import PODSETS, plain_data, plain_entry, signed
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(30))
UID = str(uuid.UUID(int=12345))


def entry(uid=UID, **more):
    return Entry("start", "team", "gang-1", uid, 1, **more)


def text_of(*items, batch_id="b1", carried=None):
    return batch_text(pack([(item, PODSETS) for item in items], "e", batch_id, carried)[0])


def compact(**changes):
    """The data of a good batch with some keys replaced."""
    return {**json.loads(text_of(entry())), **changes}


def terms(**changes):
    """The rows of the terms of a good batch with some fields replaced."""
    fields = {"op": "start", "attempt": 1, "shared": 2, "batch": "", "at": 0, "patience": 0, **changes}
    return [list(fields.values())]


def test_what_a_batch_looks_like():
    """As the documentation of the protocol describes it."""
    assert compact() == {
        "format": 2,
        "id": "b1",
        "epoch": "e",
        "namespaces": ["team"],
        "terms": terms(),
        "demands": [[{"count": 1, "requests": {"cpu": "1"}}]],
        "podsets": [["w"]],
        "entries": ["AAAAAAAAAAAAAAAAAAAwOQAAAAAAAAgang-1"],
        "sum": compact()["sum"],
    }


@pytest.mark.parametrize(
    "item",
    [
        entry(at=1_794_801_600, patience=300),
        entry(queue="q"),
        entry("no-uuid"),
        entry(UID.upper().replace("0", "A")),
        entry(abandoned=True),
        entry("no-uuid", unknown={"shape": "round"}),
    ],
)
def test_an_entry_comes_back(item):
    batch, _surplus = pack([(item, PODSETS)], "e", "b1")
    assert read_batch(batch_text(batch)) == (batch, None, None)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("gang-1", "~g"),
        ("gang-1/worker", "~g/worker"),
        ("pre.gang-1-post", "pre.~g-post"),
        ("gang-10", "gang-10"),
        ("agang-1", "agang-1"),
        ("gang-10-gang-1", "gang-10-~g"),
        ("~g", "~~g"),
        ("~gang-1~~", "~~~g~~~~"),
        ("", ""),
    ],
)
def test_names_of_podsets_come_back(name, written):
    batch, _surplus = pack([(entry(), [{"name": name, "count": 1}])], "e", "b1")
    assert json.loads(batch_text(batch))["podsets"] == [[written]]
    assert read_batch(batch_text(batch)).batch.entries[0].podsets == (name,)


def test_podsets_without_names_come_back():
    demand = [{"count": 1}, {"name": "w", "count": 2}]
    batch, _surplus = pack([(entry(), demand)], "e", "b1")
    found = read_batch(batch_text(batch)).batch
    assert (found, list(found.demand_of(found.entries[0]))) == (batch, demand)


def test_commits_of_other_holders_come_back():
    first = read_batch(text_of(entry(), batch_id="lease.1/22")).batch
    for own, rest in (("lease.12/3", [7, "/22"]), ("other", [0, "lease.1/22"]), ("lease.1/22", [10, ""])):
        text = text_of(entry("2"), batch_id=own, carried=first)
        assert json.loads(text)["terms"][0][2:4] == rest
        assert [item.batch for item in read_batch(text).batch.entries] == ["lease.1/22", own]


def test_batches_of_earlier_versions_are_read_and_carried_on():
    old = plain_entry("1", batch="b0", at=7, patience=300, queue="q", abandoned=True, shape="round")
    found = read_batch(json.dumps(plain_data(old, plain_entry("2"), color="blue", unlisted_since=9))).batch
    assert [(item.uid, item.batch, item.at, item.patience) for item in found.entries] == [
        ("1", "b0", 7, 300),
        ("2", "b1", 0, 0),
    ]
    assert (found.entries[0].abandoned, found.entries[0].queue, found.unlisted_since) == (True, "q", 9)
    assert [list(found.demand_of(item)) for item in found.entries] == [PODSETS] * 2
    carried, _surplus = pack([(entry(), PODSETS)], "e", "b2", found)
    again = read_batch(batch_text(carried)).batch
    assert again == carried
    assert again.entries[:2] == found.entries
    assert (again.unknown, again.entries[0].unknown) == ({"color": "blue"}, {"shape": "round"})


def test_the_earliest_batches_have_no_format():
    data = plain_data(plain_entry("1", abandoned=True))
    del data["format"]
    found = read_batch(json.dumps(data)).batch
    assert [(item.batch, item.abandoned, item.at) for item in found.entries] == [("b1", True, 0)]


def test_keys_that_have_a_meaning_by_now_are_not_written_twice():
    found = read_batch(json.dumps(plain_data(sum="x", terms=3))).batch
    text = batch_text(found)
    assert (text.count('"sum"'), text.count('"terms"')) == (1, 1)
    assert read_batch(text).batch.entries == found.entries


def test_unknown_keys_of_the_same_format_are_written_back():
    data = compact(color="blue", entries=[["AAAAAAAAgang-1", UID, {"shape": "round"}]])
    found = read_batch(signed(data)).batch
    carried, _surplus = pack([(entry("2"), PODSETS)], "e", "b2", found)
    again = json.loads(batch_text(carried))
    assert again["color"] == "blue"
    assert again["entries"][0] == ["AAAAAAAAgang-1", UID, {"shape": "round"}]


def test_it_names_the_quota_trees_that_its_commit_was_decided_on():
    batch, _surplus = pack([(entry(), PODSETS)], "e", "b1", quota="0" * 32)
    assert json.loads(batch_text(batch))["quota"] == ["b1", "0" * 32]
    assert read_batch(batch_text(batch)).batch == batch
    bare = dataclasses.replace(batch, entries=(), demands={})
    assert read_batch(batch_text(bare)).batch == bare
    # The next commit has its own, or none.
    assert "quota" not in json.loads(batch_text(pack([(entry("2"), PODSETS)], "e", "b2", batch)[0]))


@pytest.mark.parametrize("told", [None, "b1", ["b0", "x"], ["b1"], ["b1", 3], {"b1": "x"}])
def test_what_an_earlier_version_carried_on_of_quota_trees_means_nothing(told):
    """It writes back what it does not know, under an id of its own."""
    assert read_batch(signed(compact(quota=told))).batch.quota == ""


def test_while_nothing_is_open_earlier_versions_can_read_it():
    batch = Batch("b1", "e", (), {}, {"color": "blue"}, 7)
    fields = Fields(json.loads(batch_text(batch)), "batch")
    fields.require_format(1)
    assert (fields.get("entries"), fields.get("demands")) == ([], {})
    assert read_batch(batch_text(batch)).batch == batch


@pytest.mark.parametrize("data", [compact(format=COMPACT_FORMAT + 1), compact(terms=terms(op="explode"))])
def test_a_batch_of_a_newer_version_is_told_apart_from_a_damaged_one(data):
    found = read_batch(signed(data))
    assert (found.batch, found.problem) == (None, None)
    assert "this version knows" in found.newer


def test_an_unknown_word_of_the_first_format_is_one_of_a_newer_version():
    assert "this version knows" in read_batch(json.dumps(plain_data(plain_entry(op="explode")))).newer


def test_no_annotation_is_no_problem():
    assert read_batch(None) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (7, "a text is needed"),
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "a mapping is needed"),
        ("null", "it is missing"),
        (json.dumps(plain_data(id="")), "id"),
        (json.dumps(plain_data(epoch=3)), "epoch"),
        (json.dumps(plain_data(entries={})), "entries"),
        (json.dumps(plain_data(entries=[3])), "entries[0]"),
        (json.dumps(plain_data(demands=[])), "demands"),
        (json.dumps(plain_data(demands={"x": 3})), "demands.x"),
        (json.dumps(plain_data(demands={"x": [{"name": "forged"}]})), "demands.x"),
        (json.dumps(plain_data(demands={"x": [{"name": "w"}, 3]})), "demands.x: a list of podsets is needed"),
        (json.dumps(plain_data(demands={"x": [{"count": 7}]})).replace("7", "1e999"), "demands.x"),
        (json.dumps(plain_data(demands={})), "entries[0]: demand"),
        (json.dumps(plain_data(plain_entry(attempt=True))), "entries[0]: attempt"),
        (json.dumps(plain_data(plain_entry(attempt=-1))), "entries[0]: attempt"),
        (json.dumps(plain_data(plain_entry(queue=[]))), "entries[0]: queue"),
        (json.dumps(plain_data(plain_entry(uid=None))), "entries[0]: uid"),
        (json.dumps(compact(sum="00000000")), "sum"),
        (json.dumps(compact(namespaces=["other"])), "sum"),
        (json.dumps(compact(color=7)).replace("1,", "1e999,"), "sum"),
        (signed(compact(id="")), "id"),
        (signed(compact(epoch=3)), "epoch"),
        (signed(compact(unlisted_since=-1)), "unlisted_since"),
        *((signed(compact(**{key: {}})), key) for key in ("namespaces", "terms", "demands", "podsets", "entries")),
        *((signed(compact(**{key: [3]})), f"{key}[0]") for key in ("namespaces", "terms", "demands", "podsets")),
        (signed(compact(namespaces=[""])), "namespaces[0]"),
        (signed(compact(terms=[[]])), "terms[0]"),
        (signed(compact(terms=[[*terms(queue="q")[0], 3]])), "terms[0]"),
        (signed(compact(terms=terms(attempt=True))), "terms[0]: attempt"),
        (signed(compact(terms=terms(attempt=2**31))), "terms[0]: attempt"),
        (signed(compact(terms=terms(shared=3))), "terms[0]: shared"),
        (signed(compact(terms=terms(batch=3))), "terms[0]: batch"),
        (signed(compact(terms=terms(at=2**53 + 1))), "terms[0]: at"),
        (signed(compact(terms=terms(patience=None))), "terms[0]: patience"),
        (signed(compact(terms=terms(queue=""))), "terms[0]: queue"),
        (signed(compact(demands=[[3]])), "demands[0]"),
        (signed(compact(podsets=[[3]])), "podsets[0]"),
        (signed(compact(podsets=[["a", "b"]])), "entries[0]: it has not as many names as podsets"),
        *(
            (signed(compact(entries=[item])), "entries[0]")
            for item in (
                *(3, "", "A" * 30, "A" * 28 + "ABg", "?" * 22 + "AAAAAAAAg", "é" * 22 + "AAAAAAAAg"),
                *(["AAAAAAAAg"], ["AAAAAAAAg", ""], ["AAAAAAAAg", 3], ["AAAAAAAAg", "u", 3], ["AAAAAAAAg", "u", {}, 4]),
                *(["AAAAAAAA", "u"], ["AAAAAAA!g", "u"], ["A", "u"], [3, "u"]),
            )
        ),
    ],
)
def test_damaged_batches_are_told_and_never_raise(text, named):
    found = read_batch(text)
    assert (found.batch, found.newer) == (None, None)
    assert named in found.problem


def test_any_changed_character_of_an_entry_or_a_table_is_noticed():
    text = text_of(entry(queue="q", at=7))
    for place in range(text.index('"namespaces"'), text.index(',"sum"')):
        found = read_batch(text[:place] + ("8" if text[place] != "8" else "9") + text[place + 1 :])
        assert found.batch is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@steady
@given(st.sampled_from(["id", "epoch", "entries", "demands", "terms", "namespaces", "podsets"]), json_values)
def test_any_forged_part_gives_a_batch_or_a_problem(key, value):
    for text in (json.dumps(plain_data(**{key: value})), signed(compact(**{key: value}))):
        found = read_batch(text)
        assert (found.batch is None) == (found.problem is not None or found.newer is not None)
