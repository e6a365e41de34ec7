# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records of components as text: what is written is read, what others damaged is named, what is newer stays."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.component.inventory import (
    PHASES,
    ComponentRecord,
    InventoryEntry,
    merged_entries,
    record_to_text,
    text_to_record,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import ObjectKey
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
KEYS = st.builds(ObjectKey, WORDS, WORDS, st.one_of(st.just(""), WORDS), WORDS)
ENTRIES = st.builds(InventoryEntry, KEYS, st.one_of(st.just(""), WORDS), st.booleans())
RECORDS = st.builds(
    ComponentRecord,
    name=WORDS,
    phase=st.sampled_from(PHASES),
    version=st.one_of(st.none(), WORDS),
    source=WORDS,
    digest=WORDS,
    smoke=WORDS,
    depends_on=st.lists(WORDS).map(tuple),
    entries=st.lists(ENTRIES).map(tuple),
    unknown=st.dictionaries(WORDS.map(lambda text: f"x-{text}"), st.integers()),
)


@given(RECORDS)
def test_what_is_written_is_read(record):
    assert text_to_record(record_to_text(record), "it") == record


@given(st.lists(ENTRIES), st.lists(ENTRIES))
def test_entries_are_merged_without_losing_uids(one, other):
    merged = merged_entries(one, other)
    identities = [entry.key.identity for entry in merged]
    assert len(identities) == len(set(identities))
    assert set(identities) == {entry.key.identity for entry in (*one, *other)}
    for entry in merged:
        uids = [item.uid for item in (*one, *other) if item.key.identity == entry.key.identity and item.uid]
        assert entry.uid == (uids[-1] if uids else "")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"name": None}, "it: name"),
        ({"phase": "begun"}, "'begun' is none of installing"),
        ({"entries": [{"kind": "K"}]}, "entries\\[0\\]: apiVersion"),
        ({"entries": 7}, "it: entries"),
    ],
)
def test_what_others_damaged_is_named(damage, told):
    good = json.loads(record_to_text(ComponentRecord("c", "installed")))
    with pytest.raises(BadInput, match=told):
        text_to_record(json.dumps({**good, **damage}), "it")


def test_a_newer_format_is_left_alone():
    with pytest.raises(NewerVersion):
        text_to_record('{"format":2}', "it")
    with pytest.raises(BadInput, match="it is no JSON"):
        text_to_record("{", "it")
