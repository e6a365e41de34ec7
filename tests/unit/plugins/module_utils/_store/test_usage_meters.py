# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Meters in a cluster: created, changed by compare-and-swap, and left alone where a later version wrote them."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import Meter, meter_name, meter_text
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._store.usage_meters import MeterStore, list_meters
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi

LEAF = ("default", "red")
NAME = meter_name(*LEAF)
MAPS = "/api/v1/namespaces/team/configmaps"
PATH = f"{MAPS}/{NAME}"


@pytest.fixture
def api():
    return WritableApi()


def later(meter):
    return dataclasses.replace(meter, as_of=meter.as_of + 1)


def test_a_meter_is_created_found_and_changed(api):
    store = MeterStore(api.client(), "team")
    made = store.change(LEAF, None, later)
    assert made.meter == Meter(*LEAF, as_of=1)
    again = store.change(LEAF, made, later)
    assert [item.meter for item in list_meters(api.client(), "team")] == [again.meter] == [Meter(*LEAF, as_of=2)]


def test_nothing_is_written_where_nothing_changes(api):
    client = api.client()
    store = MeterStore(client, "team")
    made = store.change(LEAF, None, later)
    writes = client.writes
    assert store.change(LEAF, made, lambda meter: meter) is made
    assert client.writes == writes


def test_what_others_wrote_meanwhile_is_taken_along(api):
    store = MeterStore(api.client(), "team")
    first = store.change(LEAF, None, later)
    store.change(LEAF, first, later)
    assert store.change(LEAF, first, later).meter == Meter(*LEAF, as_of=3)
    # Of two that create it at once one finds that of the other.
    assert store.change(LEAF, None, later).meter == Meter(*LEAF, as_of=4)


def test_one_that_was_deleted_is_begun_anew(api):
    store = MeterStore(api.client(), "team")
    made = store.change(LEAF, None, later)
    del api.objects[PATH]
    assert store.change(LEAF, made, later).meter == Meter(*LEAF, as_of=1)


def test_one_that_others_broke_is_begun_anew_and_told(api):
    store = MeterStore(api.client(), "team")
    store.change(LEAF, None, later)
    api.objects[PATH]["data"]["usage.json"] = "{"
    found = list_meters(api.client(), "team")[0]
    assert found.meter is None
    assert "JSON" in str(found.problem)
    assert store.change(LEAF, found, later).meter == Meter(*LEAF, as_of=1)


def test_one_of_a_later_version_is_left_alone(api):
    store = MeterStore(api.client(), "team")
    store.change(LEAF, None, later)
    data = json.loads(meter_text(Meter(*LEAF)))
    api.objects[PATH]["data"]["usage.json"] = json.dumps({**data, "format": 2})
    found = list_meters(api.client(), "team")[0]
    assert found.newer
    with pytest.raises(NewerVersion):
        store.change(LEAF, found, later)
    with pytest.raises(NewerVersion):
        store.change(LEAF, None, later)


def test_the_meter_of_another_leaf_is_none(api):
    store = MeterStore(api.client(), "team")
    store.change(LEAF, None, later)
    api.objects[PATH]["data"]["usage.json"] = meter_text(Meter("default", "blue"))
    assert "default/blue" in str(list_meters(api.client(), "team")[0].problem)
