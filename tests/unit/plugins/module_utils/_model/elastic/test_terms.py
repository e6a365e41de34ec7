# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The terms of elastic gangs in specifications: what is read, kept, planned and refused."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import wrap
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api, with_size
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import (
    GangSpec,
    digest,
    read_spec,
    spec_data,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support import gang_cases as cases

GPU = "nvidia.com/gpu"
RANGE = {"min": 2, "max": 8, "step": 2}


def spec(elastic: t.Any, *objects: cases.Object, stored: bool = False, **more: t.Any) -> GangSpec:
    """The specification of a gang of one pod with two GPUs, unless it has other objects."""
    made = list(objects) or [cases.job("j", None, 1, **{"cpu": "1", GPU: "2"})]
    data = {"name": "g", "namespace": "a", "objects": made, "elastic": elastic, **more}
    return read_spec(data, "gang a/g", stored=stored)


def gpus(planned: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """The GPUs of the first object's pods."""
    return str(planned[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][GPU])


def test_terms_are_kept_and_objects_are_planned_with_a_size() -> None:
    found = spec({"range": RANGE, "size": None})
    assert found.elastic is not None
    assert found.elastic.range.sizes == (2, 4, 6, 8)
    assert read_spec(spec_data(found), "gang a/g", stored=True) == found
    assert (found.size, gpus(found.planned), gpus(found.objects)) == (2, "2", "2")
    larger = found.with_allotment(6)
    assert (larger.size, gpus(larger.planned), gpus(larger.objects)) == (6, "6", "2")
    assert larger == found
    assert digest(larger) != digest(found)
    assert larger.with_allotment(None) is found
    assert found.with_allotment(6) is larger


def test_a_size_that_is_wanted_is_the_least_and_the_largest() -> None:
    found = spec({"range": RANGE, "size": 4})
    assert (found.size, gpus(found.planned)) == (4, "4")
    assert found.elastic is not None
    assert found.elastic.wanted.sizes == (4,)


def test_objects_say_the_range_themselves() -> None:
    job = cases.job("j", None, 1, **{"cpu": "1", GPU: "2"})
    job["metadata"]["annotations"] = {"muster.kube/min": "1", "muster.kube/max": "3"}
    found = spec({}, job)
    assert found.elastic is not None
    assert found.elastic.range.sizes == (1, 2, 3)
    assert spec_data(found)["elastic"].keys() == {"timing", "cooldown", "restart_cost"}


def test_a_waiting_record_is_planned_with_the_size_that_was_chosen() -> None:
    record = record_from_api(cases.gang_record("g", "a", list(spec(None).objects), elastic={"range": RANGE}))
    assert record.spec is not None
    assert record.spec.size == 2
    sized = with_size(record, 8)
    assert sized.spec is not None
    assert (sized.spec.size, gpus(sized.spec.planned)) == (8, "8")
    assert sized.spec == record.spec


@pytest.mark.parametrize(
    ("elastic", "more", "cause"),
    [
        ({}, {}, "neither this nor an object"),
        ({"range": {"min": 4, "max": 2}}, {}, "more than max"),
        ({"range": RANGE, "size": 3}, {}, "3 is none of the allowed sizes 2, 4, 6, 8"),
        ({"range": RANGE, "sise": 3}, {}, "did you mean size?"),
        ({"range": {**RANGE, "podset": "other"}}, {}, "no podset other"),
        ({"range": RANGE, "timing": "soon"}, {}, "'soon' is none of now, at_checkpoint, on_sigterm"),
        ({"range": RANGE}, {"podsets": [{"name": "x", "count": 1, "requests": {"cpu": "1"}}]}, "leave them out"),
        ([], {}, "a mapping is needed"),
        ({"range": RANGE, "profile": [1.0]}, {}, "a mapping is needed, this is a list"),
        ({"range": RANGE, "profile": {}}, {}, "two sizes or more"),
        ({"range": RANGE, "profile": {"2": 1.0}}, {}, "two sizes or more"),
        ({"range": RANGE, "profile": {"2": 1.0, "0": 1.0}}, {}, "a whole number from 1 to 4096"),
        ({"range": RANGE, "profile": {"2": 1.0, "many": 1.0}}, {}, "a whole number from 1 to 4096"),
        ({"range": RANGE, "profile": {"2": 1.0, "5000": 1.0}}, {}, "a whole number from 1 to 4096"),
        ({"range": RANGE, "profile": {"2": 1.0, "04": 1.0}}, {}, "write 4"),
        ({"range": RANGE, "profile": {"2": 1.0, "4": 0}}, {}, "a number above 0 is needed"),
        ({"range": RANGE, "profile": {"2": 1.0, "4": -1}}, {}, "a number above 0 is needed"),
        ({"range": RANGE, "profile": {"2": 1.0, "4": True}}, {}, "a number above 0 is needed"),
        ({"range": RANGE, "profile": {"2": 1.0, "4": "fast"}}, {}, "a number above 0 is needed"),
        ({"range": RANGE, "profile": {"2": 1.0, "4": "nan"}}, {}, "a number above 0 is needed"),
        ({"range": RANGE, "profile": {"2": 1.0, "4": 1e300}}, {}, "a number above 0 is needed"),
        ({"range": RANGE, "profile": {"2": 1.0, "4": None}}, {}, "a number above 0 is needed"),
    ],
)
def test_what_is_wrong_is_told(elastic: t.Any, more: dict[str, t.Any], cause: str) -> None:
    with pytest.raises(BadInput, match=cause):
        spec(elastic, **more)


def test_a_profile_is_kept_by_size() -> None:
    found = spec({"range": RANGE, "profile": {"16": 3, "2": "1.5", "4": 2.5}})
    assert found.elastic is not None
    assert found.elastic.profile == ((2, 1.5), (4, 2.5), (16, 3.0))
    assert spec_data(found)["elastic"]["profile"] == {"2": 1.5, "4": 2.5, "16": 3.0}
    assert read_spec(spec_data(found), "gang a/g", stored=True) == found
    assert "profile" not in spec_data(spec({"range": RANGE}))["elastic"]


def test_no_gpus_no_range() -> None:
    with pytest.raises(BadInput, match="no container asks for GPUs"):
        spec({"range": RANGE}, cases.job("j", None, 1))


def test_an_app_wrapper_cannot_hold_it() -> None:
    with pytest.raises(BadInput, match="elastic"):
        wrap(spec({"range": RANGE}))


def test_keys_of_a_later_version_are_no_mistake_in_a_record() -> None:
    found = spec({"range": {**RANGE, "later": 1}, "later": 2}, stored=True)
    assert found.elastic is not None
    assert found.elastic.range.sizes == (2, 4, 6, 8)
    assert spec_data(found)["elastic"]["later"] == 2
