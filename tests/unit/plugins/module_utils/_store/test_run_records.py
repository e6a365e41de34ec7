# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records: what they hold, small and large outcomes, damage, and what belongs to whom."""

from __future__ import annotations

import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import MAP_BYTES
from ansible_collections.muster.kube.plugins.module_utils._store.run_records import (
    CHUNK_BYTES,
    EXPIRES_LABEL,
    change_record,
    create_owned_map,
    create_record,
    decode_record,
    drop_chunks,
    job_name,
    list_records,
    new_record,
    read_outcome,
    read_record,
    store_outcome,
)
from ansible_collections.muster.kube.tests.support.job_api import MAPS, JobApi

LABELS = {"muster.kube/build": "abc"}


@pytest.fixture
def api():
    return JobApi()


@pytest.fixture
def client(api):
    return api.client()


def made(client, ttl=None, identity="id", name="b-1"):
    return create_record(client, new_record("team", name, LABELS, {"a": 1}, identity, ttl))[0]


def noise(size):
    """A text that does not compress to less than half of its size."""
    return random.Random(1).randbytes(size // 2).hex()


def test_what_was_recorded_is_read_again(api, client):
    made(client, ttl=3600.5)
    record = read_record(client, "team", "b-1")
    assert (record.spec, record.identity, record.attempt, record.ttl) == ({"a": 1}, "id", 1, 3600.5)
    assert (record.stored, record.finished, record.job_name) == (None, None, "b-1")
    labels = api.objects[f"{MAPS}/b-1"]["metadata"]["labels"]
    assert labels == {**LABELS, "app.kubernetes.io/managed-by": "muster.kube", EXPIRES_LABEL: "true"}


def test_without_a_ttl_no_sweep_finds_it(api, client):
    record = made(client, ttl=5)
    change_record(client, record, {"ttl": None})
    assert EXPIRES_LABEL not in api.objects[f"{MAPS}/b-1"]["metadata"]["labels"]


def test_a_second_create_of_the_same_specification_finds_the_first(client):
    assert made(client).uid == made(client).uid
    with pytest.raises(MusterError, match="not of this specification"):
        made(client, identity="other")


def test_a_small_outcome_stands_in_the_record(api, client):
    record = store_outcome(client, made(client), {"reason": None, "text": "ä"}, 12.9)
    assert read_outcome(client, record) == {"reason": None, "text": "ä"}
    assert record.finished == 12
    assert len([path for path in api.objects if path.startswith(MAPS)]) == 1


def test_a_large_outcome_lies_in_chunks_that_belong_to_the_record(api, client):
    outcome = {"log": noise(3 * CHUNK_BYTES)}
    record = store_outcome(client, made(client), outcome, 1.0)
    chunks = [obj for path, obj in api.objects.items() if path.startswith(f"{MAPS}/b-1-r")]
    assert len(chunks) == len(record.chunks) >= 2
    assert all(obj["immutable"] and obj["metadata"]["ownerReferences"][0]["uid"] == record.uid for obj in chunks)
    assert read_outcome(client, record) == outcome
    drop_chunks(client, record, record.chunks)
    assert read_outcome(client, record) is None
    assert [path for path in api.objects if path.startswith(f"{MAPS}/b-1-r")] == []


def test_the_same_outcome_stored_twice_needs_no_second_chunk(api, client):
    record = made(client)
    outcome = {"log": noise(CHUNK_BYTES)}
    store_outcome(client, record, outcome, 1.0)
    before = len(api.objects)
    store_outcome(client, read_record(client, "team", "b-1"), outcome, 2.0)
    assert len(api.objects) == before


def test_a_damaged_chunk_is_a_lost_outcome(api, client):
    record = store_outcome(client, made(client), {"log": noise(CHUNK_BYTES)}, 1.0)
    api.objects[f"{MAPS}/{record.chunks[0]}"]["binaryData"]["part"] = "AAAA"
    assert read_outcome(client, record) is None


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("attempt", "0", "data.attempt"),
        ("attempt", "x", "data.attempt"),
        ("spec", "{", "data.spec"),
        ("outcome", "nope", "data.outcome"),
        ("ttl", "long", "data.ttl"),
    ],
)
def test_a_damaged_record_is_refused_by_the_name_of_the_field(client, key, value, complaint):
    raw = made(client).raw
    with pytest.raises(BadInput, match=complaint):
        decode_record({**raw, "data": {**raw["data"], key: value}})


def test_only_records_are_listed(client):
    record = made(client)
    create_owned_map(client, record, "b-1-c", {"x": "y"}, {})
    made(client, name="a-1")
    assert [item.name for item in list_records(client, "team", "muster.kube/build")] == ["a-1", "b-1"]


def test_contents_that_are_too_large_are_refused_with_the_number(client):
    with pytest.raises(BadInput, match=str(MAP_BYTES + 1)):
        create_owned_map(client, made(client), "c", {}, {"x": b"y" * (MAP_BYTES + 1)})


def test_a_content_of_somebody_else_is_left_alone(api, client):
    api.put(f"{MAPS}/c", {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"other": "1"}})
    with pytest.raises(MusterError, match="not of this record"):
        create_owned_map(client, made(client), "c", {"x": "y"}, {})


def test_a_leftover_of_a_deleted_record_is_replaced(api, client):
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "b-1", "uid": "before"}
    meta = {"name": "c", "namespace": "team", "ownerReferences": [owner]}
    api.put(f"{MAPS}/c", {"kind": "ConfigMap", "metadata": meta, "data": {"x": "y"}})
    record = made(client)
    create_owned_map(client, record, "c", {"x": "y"}, {})
    assert api.objects[f"{MAPS}/c"]["metadata"]["ownerReferences"][0]["uid"] == record.uid


def test_expiry_counts_from_the_end(client):
    record = store_outcome(client, made(client, ttl=10), {"reason": None}, 100)
    assert not record.expired(109.9)
    assert record.expired(110)
    assert not made(client, name="b-2", ttl=10).expired(1e9)


def test_names_of_jobs():
    assert (job_name("b", 1), job_name("b", 2)) == ("b", "b-a2")
