# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asked hardware: read strictly, every spelling of the same wish gives the same ask."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import (
    CpuAsk,
    GpuAsk,
    HardwareAsk,
    arch_name,
    flag_name,
    hardware_data,
    hardware_from_data,
    has_flag,
    is_cpu_vendor,
    level_number,
    product_name,
    vendor_names,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(100))


def read(data):
    return hardware_from_data(data, "hardware")


def test_nothing_asked_is_empty():
    assert read(None).is_empty
    assert read({}).is_empty
    assert read({"cpu": {}, "node_selector": {}}).is_empty
    assert not read({"gpu": {}}).is_empty


def test_everything_asked():
    ask = read(
        {
            "arch": "x86_64",
            "cpu": {
                "vendor": "GenuineIntel",
                "family": 6,
                "model": 106,
                "flags": ["avx512_vnni", "fma"],
                "level": "v3",
            },
            "gpu": {"vendor": "NVIDIA", "product": "NVIDIA A100-SXM4-40GB", "count": 2, "memory": "40Gi"},
            "node_selector": {"zone": "b", "example.com/pool": "gpu"},
        }
    )
    assert ask == HardwareAsk(
        arch="amd64",
        cpu=CpuAsk("Intel", 6, 106, ("AVX512VNNI", "FMA3"), 3),
        gpu=GpuAsk("nvidia", 2, ("NVIDIA-A100-SXM4-40GB",), 40 * 2**30, "nvidia.com/gpu"),
        node_selector=(("example.com/pool", "gpu"), ("zone", "b")),
    )


@pytest.mark.parametrize(
    ("data", "target", "cause"),
    [
        ([], "hardware", "a mapping is needed"),
        ({"cpus": {}}, "hardware: cpus", "did you mean cpu?"),
        ({"cpu": {"flag": ["avx2"]}}, "hardware: cpu: flag", "did you mean flags?"),
        ({"cpu": {"flags": ["a b"]}}, "hardware: cpu: flags[0]", "'a b'"),
        ({"cpu": {"flags": [3]}}, "hardware: cpu: flags[0]", "not 3"),
        ({"cpu": {"vendor": "a b"}}, "hardware: cpu: vendor", "label"),
        ({"cpu": {"family": "6"}}, "hardware: cpu: family", "whole number"),
        ({"cpu": {"family": -1}}, "hardware: cpu: family", "whole number"),
        ({"cpu": {"level": "x86-64-v5"}}, "hardware: cpu: level", "x86-64-v4"),
        ({"arch": "arm64", "cpu": {"level": "v2"}}, "hardware: cpu.level", "amd64"),
        ({"arch": "amd46"}, "hardware: arch", "none of amd64"),
        ({"gpu": {"vendor": "matrox"}}, "hardware: gpu: vendor", "nvidia, amd, intel"),
        ({"gpu": {"count": -1}}, "hardware: gpu: count", "whole number"),
        ({"gpu": {"count": 0, "product": "A100"}}, "hardware: gpu: product", "without GPUs"),
        ({"gpu": {"product": "a/b"}}, "hardware: gpu: product", "'a/b'"),
        ({"gpu": {"product": [7]}}, "hardware: gpu: product", "7"),
        ({"gpu": {"product": "x" * 64}}, "hardware: gpu: product", "node label"),
        ({"gpu": {"memory": "much"}}, "hardware: gpu: memory", "does not begin with a number"),
        ({"gpu": {"memory": "0"}}, "hardware: gpu: memory", "such as 40Gi"),
        ({"gpu": {"vendor": "intel", "memory": "8Gi"}}, "hardware: gpu: memory", "ask for the product"),
        ({"gpu": {"resource": "gpu"}}, "hardware: gpu: resource", "extended resource"),
        ({"node_selector": {"a b": "x"}}, "hardware: node_selector", "key of a label"),
        ({"node_selector": {"A_/b": "x"}}, "hardware: node_selector", "key of a label"),
        ({"node_selector": {"rank": 5}}, "hardware: node_selector.rank", "a text"),
        ({"node_selector": {"rank": "a b"}}, "hardware: node_selector.rank", "value of a label"),
    ],
)
def test_complaints_name_the_field(data, target, cause):
    with pytest.raises(BadInput) as caught:
        read(data)
    assert caught.value.target == target
    assert cause in caught.value.cause


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"arch": "amd64"}, {"arch": "x86_64"}),
        ({"arch": "arm64"}, {"arch": "aarch64"}),
        ({"cpu": {"vendor": "AMD"}}, {"cpu": {"vendor": "AuthenticAMD"}}),
        ({"cpu": {"vendor": "intel"}}, {"cpu": {"vendor": "GenuineIntel"}}),
        ({"cpu": {"flags": ["AVX512F", "SSE42"]}}, {"cpu": {"flags": ["sse4_2", "avx512f", "avx512f"]}}),
        ({"cpu": {"level": "x86-64-v3"}}, {"arch": "amd64", "cpu": {"level": "X86_64_V3"}}),
        ({"gpu": {}}, {"gpu": {"vendor": "nvidia", "count": 1, "resource": "nvidia.com/gpu"}}),
        ({"gpu": {"memory": "40Gi"}}, {"gpu": {"memory": "40960Mi"}}),
        ({"gpu": {"product": "A100"}}, {"gpu": {"product": ["A100", "A100"]}}),
    ],
)
def test_other_spellings_are_the_same_ask(one, other):
    assert read(one) == read(other)
    assert hardware_data(read(one)) == hardware_data(read(other))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("avx512_vnni", "AVX512VNNI"),
        ("AVX512_VNNI", "AVX512VNNI"),
        ("amx_bf16", "AMXBF16"),
        ("fma", "FMA3"),
        ("pni", "SSE3"),
        ("sse4_1", "SSE4"),
        ("sse4.2", "SSE42"),
        ("abm", "LZCNT"),
        ("lahf_lm", "LAHF"),
        ("TDX_GUEST", "TDX_GUEST"),
        ("asimd", "ASIMD"),
        ("sha_ni", "SHA"),
    ],
)
def test_flags_get_the_name_of_their_label(text, name):
    assert flag_name(text) == name


def test_flags_are_found_in_the_spelling_of_the_kernel():
    seen = ["fma", "avx512_vnni", "xsave", "tdx_guest", "abm"]
    for flag in ("FMA3", "AVX512VNNI", "OSXSAVE", "TDX_GUEST", "LZCNT"):
        assert has_flag(flag, seen)
    assert not has_flag("AVX512F", seen)
    assert not has_flag("FMA4", seen)


def test_small_names():
    assert [level_number(text) for text in ("x86-64-v4", "X86_64_V1", "v2", "x86-64", "v9")] == [4, 1, 2, None, None]
    assert vendor_names("genuineintel") == ("Intel", "GenuineIntel")
    assert vendor_names("Zhaoxin") == ("Zhaoxin",)
    assert is_cpu_vendor("authenticamd")
    assert not is_cpu_vendor("Xeon")
    assert arch_name("X86_64") == "amd64"
    assert product_name(" Tesla  T4 ", "nvidia") == "Tesla-T4"
    assert product_name("AMD Instinct MI300X", "amd") == "AMD_Instinct_MI300X"


asks = st.fixed_dictionaries(
    {},
    optional={
        "arch": st.sampled_from(["amd64", "x86_64"]),
        "cpu": st.fixed_dictionaries(
            {},
            optional={
                "vendor": st.sampled_from(["Intel", "AuthenticAMD", "Zhaoxin"]),
                "family": st.integers(0, 300),
                "model": st.integers(0, 300),
                "flags": st.lists(st.sampled_from(["avx2", "AVX512F", "sse4_2", "bmi2", "TDX_GUEST"])),
                "level": st.sampled_from(["v1", "x86-64-v2", "X86_64_V3", "x86-64-v4"]),
            },
        ),
        "gpu": st.fixed_dictionaries(
            {},
            optional={
                "vendor": st.sampled_from(["nvidia", "amd"]),
                "product": st.lists(st.sampled_from(["A100", "T4*", "*"])),
                "count": st.integers(1, 8),
                "memory": st.integers(1, 2**40),
                "resource": st.just("nvidia.com/mig-1g.5gb"),
            },
        )
        | st.just({"count": 0}),
        "node_selector": st.dictionaries(st.sampled_from(["a", "b.c/d"]), st.sampled_from(["", "x", "y.z"])),
    },
)


@steady
@given(asks)
def test_plain_values_read_back_to_the_same_ask(data):
    ask = read(data)
    assert read(hardware_data(ask)) == ask
    assert hardware_data(read(hardware_data(ask))) == hardware_data(ask)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"gpu": {"product": "x" * 63}}, {"gpu": {"product": "x" * 64}}),
        ({"gpu": {"count": 1024}}, {"gpu": {"count": 1025}}),
        ({"cpu": {"family": 2**31}}, {"cpu": {"family": 2**31 + 1}}),
        ({"cpu": {"model": 2**31}}, {"cpu": {"model": 2**31 + 1}}),
        ({"cpu": {"family": 0, "model": 0}}, {"cpu": {"model": -1}}),
        ({"cpu": {"vendor": "x" * 63}}, {"cpu": {"vendor": "x" * 64}}),
        ({"cpu": {"flags": ["x" * 49]}}, {"cpu": {"flags": ["x" * 50]}}),
        ({"node_selector": {"a": "x" * 63}}, {"node_selector": {"a": "x" * 64}}),
        ({"node_selector": {"x" * 63: "a"}}, {"node_selector": {"x" * 64: "a"}}),
        ({"node_selector": {"a.b/" + "x" * 63: ""}}, {"node_selector": {"/x": "a"}}),
        ({"gpu": {"memory": 2**63 - 1}}, {"gpu": {"memory": 2**63}}),
        ({"gpu": {"memory": "1n"}}, {"gpu": {"memory": "-1n"}}),
        ({"arch": "amd64", "cpu": {"level": "v1"}}, {"arch": "s390x", "cpu": {"level": "v1"}}),
        ({"gpu": {"count": 0, "vendor": "AMD"}}, {"gpu": {"count": 0, "memory": "1Gi"}}),
    ],
)
def test_what_is_just_possible_is_taken_and_no_more(good, bad):
    assert read(hardware_data(read(good))) == read(good)
    with pytest.raises(BadInput):
        read(bad)


def test_amounts_of_memory_are_whole_bytes_and_never_less_than_asked():
    assert [read({"gpu": {"memory": text}}).gpu.memory_bytes for text in ("1n", "1500m", "2", "1Ki")] == [1, 2, 2, 1024]


def test_a_gpu_is_one_of_nvidia_unless_told_otherwise():
    assert read({"gpu": {}}).gpu == GpuAsk("nvidia", 1, (), None, "nvidia.com/gpu")
    assert read({"gpu": {"vendor": "AMD", "resource": "example.com/half"}}).gpu == GpuAsk(
        "amd", 1, (), None, "example.com/half"
    )
    assert read({"gpu": {"count": 0}}).gpu == GpuAsk(None, 0)
    assert hardware_data(read({"gpu": {"count": 0}})) == {"gpu": {"count": 0}}


def test_a_family_or_model_of_zero_was_asked_for():
    assert hardware_data(read({"cpu": {"family": 0, "model": 0}})) == {"cpu": {"family": 0, "model": 0}}
