# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizes: what is allowed, what is next, and how a global batch is shared."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import (
    DeclaredRange,
    GlobalBatch,
    Range,
    dividing,
    largest_divisor,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.reading import BadRange, read_range
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

SIZES = st.sets(st.integers(1, 64), min_size=1).map(lambda sizes: tuple(sorted(sizes)))


def of_sizes(sizes: tuple[int, ...]) -> Range:
    return Range(sizes, "nvidia.com/gpu", "x", "per_pod")


@settings(max_examples=examples(100))
@given(SIZES, st.integers(0, 70))
def test_neighbors_are_allowed_and_nothing_is_between(sizes, size):
    found = of_sizes(sizes)
    assert found.within(size) == max((item for item in sizes if item <= size), default=None)
    assert found.larger(size) == min((item for item in sizes if item > size), default=None)
    assert found.smaller(size) == max((item for item in sizes if item < size), default=None)
    assert (found.min, found.max) == (min(sizes), max(sizes))


@settings(max_examples=examples(100))
@given(st.integers(1, 4096), st.integers(1, 64), st.none() | st.integers(1, 64))
def test_a_global_batch_is_the_same_at_every_size_that_shares_it(each, devices, most):
    batch = GlobalBatch(each * devices, "PER_DEVICE", "STEPS", most)
    told = batch.environment(devices)
    assert int(told["PER_DEVICE"]) * devices * int(told["STEPS"]) == batch.value
    assert most is None or int(told["PER_DEVICE"]) <= most
    alone = GlobalBatch(each * devices, "PER_DEVICE").environment(devices)
    assert alone == {"PER_DEVICE": str(each)}


def test_a_device_takes_as_much_at_once_as_it_may():
    assert GlobalBatch(96, "B", "A", 8).environment(4) == {"B": "8", "A": "3"}
    assert GlobalBatch(96, "B", "A", 9).environment(4) == {"B": "8", "A": "3"}
    assert GlobalBatch(96, "B", "A").environment(4) == {"B": "24", "A": "1"}
    assert (largest_divisor(7, 6), largest_divisor(12, 6), largest_divisor(5, 0)) == (1, 6, 1)


def test_only_sizes_that_share_the_batch_are_left():
    assert dividing((1, 2, 3, 4), (1, 2, 3, 4), GlobalBatch(8, "B")) == (1, 2, 4)
    assert dividing((1, 2), (3, 6), GlobalBatch(8, "B")) == ()
    assert dividing((1, 2), (0, 1), GlobalBatch(8, "B")) == (2,)
    assert dividing((1, 3), (1, 3), None) == (1, 3)


def test_gpus_of_a_size_are_those_of_all_pods():
    assert Range((1, 2), "nvidia.com/gpu", "x", "pods", unit=8, fixed=2).gpus(2) == 18


@pytest.mark.parametrize(
    ("written", "sizes"),
    [
        ({"min": 2, "max": 8}, (2, 3, 4, 5, 6, 7, 8)),
        ({"min": 2, "max": 9, "step": 3}, (2, 5, 8)),
        ({"sizes": [8, 2, 4, 4]}, (2, 4, 8)),
        ({"min": 3, "max": 8, "sizes": [2, 4, 8, 16]}, (4, 8)),
        ({"min": 4096, "max": 4096}, (4096,)),
    ],
)
def test_a_range_means_these_sizes(written, sizes):
    assert read_range(written).written_sizes == sizes


def test_everything_is_read_and_comes_back_from_what_is_stored():
    batch = {"value": 64, "per_device_env": "B", "accumulation_env": "A"}
    written = {"min": 2, "max": 8, "step": 2, "resource": "amd.com/gpu", "podset": "worker", "axis": "pods"}
    found = read_range({**written, "global_batch": batch})
    expected = DeclaredRange(2, 8, 2, None, "amd.com/gpu", "worker", "pods", GlobalBatch(64, "B", "A"))
    assert found == expected
    assert found.as_data() == {**written, "global_batch": batch}
    assert read_range({**found.as_data(), "later": 1}, stored=True) == found


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"min": 5, "max": 4}, ["range: min: 5 is more than max, 4"]),
        ({"min": 0, "max": 4}, ["range: min: a whole number from 1 to 4096 is needed, not 0"]),
        ({"min": 1, "max": 4097}, ["range: max: a whole number from 1 to 4096 is needed, not 4097"]),
        ({"min": True, "max": 4}, ["range: min: a whole number from 1 to 4096 is needed, not True"]),
        ({"max": 4}, ["range: min: it is missing"]),
        ({}, ["range: min: it is missing", "range: max: it is missing"]),
        ({"sizes": []}, ["range: sizes: the list is empty"]),
        ({"sizes": [2, 0]}, ["range: sizes[1]: a whole number from 1 to 4096 is needed, not 0"]),
        ({"min": 5, "max": 7, "sizes": [2, 4, 8]}, ["range: sizes: none of 2, 4, 8 is from 5 to 7"]),
        ({"sizes": [2, 4], "step": 2}, ["range: step: sizes are listed as well; give one of both"]),
        ({"min": 1, "max": 2, "step": 0}, ["range: step: a whole number from 1 to 4096 is needed, not 0"]),
        ({"min": 1, "max": 2, "axis": "pod"}, ["range: axis: 'pod' is none of per_pod, pods"]),
        ({"min": 1, "max": 2, "resource": "cpu"}, ["range: resource: 'cpu' is no extended resource such as"]),
        ({"min": 1, "max": 2, "podset": ""}, ["range: podset: a text is needed, not ''"]),
        ({"min": 1, "max": 2, "maximum": 3}, ["range: maximum: unknown key; did you mean max?"]),
        ({"min": 1, "max": 2, "global_batch": 8}, ["range: global_batch: a mapping is needed, this is a int"]),
        ({"min": 1, "max": 2, "global_batch": {"value": 8}}, ["range: global_batch.per_device_env: name the variable"]),
        (
            {"min": 1, "max": 2, "global_batch": {"value": 0, "per_device_env": "1B", "accumulation": "A"}},
            [
                "range: global_batch.accumulation: unknown key; did you mean accumulation_env?",
                "range: global_batch.value: a whole number from 1 to",
                "range: global_batch.per_device_env: '1B' cannot be the name of an environment variable",
            ],
        ),
        (
            {"min": 1, "max": 2, "global_batch": {"value": 8, "per_device_env": "B", "accumulation_env": "B"}},
            ["range: global_batch.accumulation_env: B is per_device_env already"],
        ),
    ],
)
def test_all_mistakes_are_told_at_once_with_their_places(written, told):
    with pytest.raises(BadRange) as caught:
        read_range(written)
    if len(caught.value.problems) > 1:
        assert f"{len(caught.value.problems)} things are wrong" in str(caught.value)
    assert len(caught.value.problems) == len(told)
    for text, problem in zip(told, caught.value.problems, strict=True):
        assert str(problem).startswith(text)
