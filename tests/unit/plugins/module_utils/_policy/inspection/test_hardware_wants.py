# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wants: one for each asked fact, each with the ways in which labels show it."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import (
    LEVEL_FLAGS,
    hardware_from_data,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware_wants import (
    CPUID,
    gpus_seen,
    wants_of,
)


def wants(data, nodes=(), **options):
    return wants_of(hardware_from_data(data, "hardware"), nodes, **options)


def test_every_fact_is_one_want():
    data = {
        "cpu": {
            "vendor": "Intel",
            "family": 6,
            "model": 85,
            "level": "v2",
            "flags": ["avx2", "bmi1", "bmi2", "rdrand"],
        },
        "gpu": {"product": "A*", "memory": "1Gi"},
        "node_selector": {"pool": "a"},
    }
    assert [want.what for want in wants(data)] == [
        "arch amd64",
        "cpu vendor Intel",
        "cpu family 6",
        "cpu model 85",
        "cpu level x86-64-v2",
        "cpu flag AVX2",
        "cpu flag RDRAND",
        "cpu flags BMI1, BMI2",
        "node label pool=a",
        "gpu product A*",
        "gpu memory at least 1024 MiB",
    ]


def test_only_labels_that_are_withheld_prove_nothing_by_their_absence():
    found = {want.what: want.conclusive for want in wants({"cpu": {"flags": ["avx2", "bmi2", "rdrand"]}})}
    assert found == {"cpu flag AVX2": True, "cpu flag RDRAND": False, "cpu flag BMI2": False}


@pytest.mark.parametrize("level", LEVEL_FLAGS)
def test_a_node_of_a_level_has_every_lower_level(level):
    labels = {f"{CPUID}X86_64_V{number}": "true" for number in range(1, level + 1)} | {"kubernetes.io/arch": "amd64"}
    for asked in LEVEL_FLAGS:
        met = all(want.met(labels) for want in wants({"cpu": {"level": f"v{asked}"}}))
        assert met == (asked <= level)


@pytest.mark.parametrize(
    ("level", "flags"),
    [
        (2, "AVX LAHF"),
        (3, "AVX AVX2 FMA3 LAHF MOVBE OSXSAVE"),
        (4, "AVX AVX2 FMA3 LAHF MOVBE OSXSAVE AVX512BW AVX512CD AVX512DQ AVX512F AVX512VL"),
    ],
)
def test_without_labels_of_levels_every_telling_flag_is_needed(level, flags):
    labels = {f"{CPUID}{flag}": "true" for flag in flags.split()} | {"kubernetes.io/arch": "amd64"}
    asked = wants({"cpu": {"level": f"v{level}"}})
    assert all(want.met(labels) for want in asked)
    for flag in flags.split():
        assert not all(want.met({**labels, f"{CPUID}{flag}": "false"}) for want in asked)


def test_flags_of_the_first_level_are_those_of_the_architecture():
    (want,) = wants({"cpu": {"flags": ["sse2"]}})
    assert want.met({"kubernetes.io/arch": "amd64"})
    assert not want.met({"kubernetes.io/arch": "arm64"})


def test_what_needs_nodes_is_left_to_the_container_only_when_lenient():
    data = {"gpu": {"product": "A*"}}
    (want,) = wants(data, None, lenient=True)
    assert want.ways == ()
    assert want.met({})
    with pytest.raises(MusterError, match="may not list"):
        wants(data, None)


def test_products_too_long_for_the_end_of_a_key_are_values_only():
    (want,) = wants({"gpu": {"vendor": "amd", "product": "x" * 63}})
    assert [way.requirements[0].operator for way in want.ways] == ["In", "In"]


def test_gpus_of_other_vendors_do_not_count():
    gpu = hardware_from_data({"gpu": {"vendor": "amd"}}, "hardware").gpu
    seen = [{"vendor": "NVIDIA"}, {"vendor": "AMD"}, {"vendor": None}]
    assert gpus_seen(gpu, {"gpus": seen}) == seen[1:]
    assert gpus_seen(gpu, {"gpus": seen[:1]}) == []
    assert gpus_seen(gpu, {"gpus": None}) is None
    assert gpus_seen(gpu, {}) is None


def test_nobody_looks_for_intel_gpus_in_a_container():
    gpu = hardware_from_data({"gpu": {"vendor": "intel"}}, "hardware").gpu
    assert gpus_seen(gpu, {"gpus": [{"vendor": "nvidia"}]}) is None
    assert gpus_seen(gpu, {"gpus": [{"vendor": "intel"}]}) == [{"vendor": "intel"}]


@pytest.mark.parametrize(("length", "operators"), [(46, ["In", "Exists"] * 2), (47, ["In", "In"])])
def test_the_end_of_a_key_has_room_for_what_its_name_leaves_of_sixty_three_characters(length, operators):
    (want,) = wants({"gpu": {"vendor": "amd", "product": "x" * length}})
    assert [way.requirements[0].operator for way in want.ways] == operators


def seen_by(data, *gpus):
    """What a container with these GPUs says of the one want for it."""
    (want,) = (want for want in wants(data) if want.what.startswith(("gpu", "no ")))
    return want.seen({"gpus": list(gpus)})


@pytest.mark.parametrize(
    ("products", "ok"),
    [
        (["NVIDIA A100"], True),
        (["NVIDIA H100"], True),
        (["NVIDIA A100", "NVIDIA H100"], True),
        (["NVIDIA A100", "Tesla T4"], False),
        (["Tesla T4"], False),
        (["NVIDIA A100", None], None),
        ([], None),
    ],
)
def test_every_gpu_must_be_one_of_the_products(products, ok):
    asked = {"gpu": {"product": ["NVIDIA-A100", "NVIDIA-H100"]}}
    assert seen_by(asked, *({"vendor": "nvidia", "product": name} for name in products))[1] is ok


MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("vendor", "asked", "sizes", "ok"),
    [
        ("nvidia", "40Gi", [40 * GIB], True),
        ("nvidia", "40Gi", [40 * GIB - MIB // 2], True),
        ("nvidia", "40Gi", [40 * GIB - MIB // 2 - 1], False),
        ("amd", "64Gi", [64 * GIB - GIB // 2], True),
        ("amd", "64Gi", [64 * GIB - GIB // 2 - 1], False),
        ("nvidia", "41Gi", [80 * GIB, 40 * GIB], False),
        ("nvidia", "40Gi", [80 * GIB, 40 * GIB], True),
        ("nvidia", "40Gi", [80 * GIB, None], None),
        ("nvidia", "40Gi", [], None),
    ],
)
def test_the_smallest_gpu_decides_in_the_rounding_of_its_label(vendor, asked, sizes, ok):
    data = {"gpu": {"vendor": vendor, "memory": asked}}
    assert seen_by(data, *({"vendor": vendor, "memory_bytes": size} for size in sizes))[1] is ok


def test_a_container_without_gpus_does_not_prove_a_node_without_them():
    assert seen_by({"gpu": {"count": 0}}) == (0, None)
    assert seen_by({"gpu": {"count": 0}}, {"vendor": "nvidia"}, {"vendor": "amd"}) == (2, False)


@pytest.mark.parametrize(
    ("level", "found", "ok"),
    [("v3", "x86-64-v2", False), ("v3", "x86-64-v3", True), ("v3", "x86-64-v4", True), ("v3", None, None)],
)
def test_a_level_is_at_least_the_one_asked(level, found, ok):
    (want,) = (want for want in wants({"cpu": {"level": level}}) if want.what.startswith("cpu level"))
    assert want.seen({"cpu": {"level": found}})[1] is ok


def test_a_level_that_has_a_withheld_flag_speaks_for_it():
    """Asked below that level the flag is sought by its label or the level's; from it on the level says all."""
    for level, sought in (("v2", True), ("v3", False), ("v4", False)):
        (want,) = (want for want in wants({"cpu": {"level": level, "flags": ["bmi2"]}}) if want.what == "cpu flag BMI2")
        assert bool(want.ways) is sought
