# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of a meter: read back as it was, whatever others did to parts of it, and never too long."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import (
    FOLDED,
    METER_BYTES,
    Meter,
    MeterRow,
    OpenGang,
    Owner,
    meter_from_text,
    meter_name,
    meter_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion

CPU, GPU = FlavorResource("", "cpu"), FlavorResource("fast", "nvidia.com/gpu")
ANN, BOB = Owner("ann@example.com", "a"), Owner("", "b")
METER = Meter(
    "default",
    "red",
    1_800_000_000,
    {
        "u1": OpenGang(1, 1_800_000_000, ANN, {CPU: 4000, GPU: 2}),
        "u2": OpenGang(3, 1_799_999_000, BOB, {CPU: 4000, GPU: 2}),
    },
    {MeterRow("2027-01", ANN): {CPU: 2**70, GPU: 7}, MeterRow("2027-01", BOB): {CPU: 5}},
)


def test_a_meter_is_read_back_as_it_was():
    assert meter_from_text(meter_text(METER), "here") == METER
    assert meter_from_text(meter_text(Meter("t", "q")), "here") == Meter("t", "q")
    assert METER.by_month == {"2027-01": {CPU: 2**70 + 5, GPU: 7}}


def test_what_a_later_version_wrote_is_kept():
    data = json.loads(meter_text(METER))
    data["later"] = [1]
    data["open"]["u1"].append("more")
    again = json.loads(meter_text(meter_from_text(json.dumps(data), "here")))
    assert again == data
    with pytest.raises(NewerVersion):
        meter_from_text(json.dumps({**data, "format": 2}), "here")


# Such a text could not be written again.
SURROGATE = '{"format": 1, "tree": "t", "queue": "q", "owners": [["\\ud800", "a"]]}'


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", '{"format": 1}', '{"format": 1, "tree": 1, "queue": "q"}', SURROGATE]
)
def test_a_text_that_tells_nothing_is_an_error(text):
    with pytest.raises(BadInput):
        meter_from_text(text, "here")


def test_damaged_parts_count_nothing():
    data = {
        "format": 1,
        "tree": "t",
        "queue": "q",
        "as_of": "now",
        "owners": [["ann", "a"], "nobody", ["x"], [1, 2]],
        "amounts": [{"cpu": 1, "memory": -5, "gpu": True, "fast": {"gpu": 2, "cpu": "x"}}, 7],
        "open": {"u1": [1, 5, 0, 0], "u2": [1, 5], "u3": "x", "u4": [1, -5, 0, 0], "u5": [2, 6, 9, 9]},
        "sums": {"2026-01": [[0, {"cpu": 3}], [1, {"cpu": 4}], [9, {"cpu": 5}], "x", [0]], "year": [[0, {"cpu": 1}]]},
    }
    read = meter_from_text(json.dumps(data), "here")
    cpu, gpu = FlavorResource("", "cpu"), FlavorResource("fast", "gpu")
    assert read.as_of == 0
    assert read.open == {"u1": OpenGang(1, 5, Owner("ann", "a"), {cpu: 1, gpu: 2}), "u5": OpenGang(2, 6, FOLDED, {})}
    assert read.sums == {MeterRow("2026-01", Owner("ann", "a")): {cpu: 3}, MeterRow("2026-01", FOLDED): {cpu: 9}}


def test_users_of_the_oldest_months_become_one_row_when_the_text_is_too_long():
    sums = {
        MeterRow(month, Owner(f"user-{number:05d}-{'x' * 100}", "namespace")): {CPU: number}
        for month in ("2026-01", "2026-02")
        for number in range(6000)
    }
    meter = Meter("t", "q", 1, {}, sums)
    text = meter_text(meter)
    assert len(text.encode()) <= METER_BYTES
    read = meter_from_text(text, "here")
    assert read.by_month == meter.by_month
    assert [row for row in read.sums if row.month == "2026-01"] == [MeterRow("2026-01", FOLDED)]
    assert len([row for row in read.sums if row.month == "2026-02"]) == 6000


def test_a_meter_with_more_open_gangs_than_fit_is_refused_with_the_number():
    gangs = {f"{number:036d}": OpenGang(1, 1_800_000_000, ANN, {CPU: 1}) for number in range(10_000)}
    assert len(meter_text(dataclasses.replace(METER, open=gangs)).encode()) <= METER_BYTES
    gangs |= {f"{number:036d}": OpenGang(1, 1_800_000_000, ANN, {CPU: 1}) for number in range(20_000)}
    with pytest.raises(BadInput, match="divide the queue"):
        meter_text(dataclasses.replace(METER, open=gangs))


def test_each_leaf_has_a_name_of_its_own():
    names = {meter_name(tree, queue) for tree in ("a", "b") for queue in ("x", "y", "x" * 63)}
    assert len(names) == 6
    assert all(len(name) <= 63 for name in names)
