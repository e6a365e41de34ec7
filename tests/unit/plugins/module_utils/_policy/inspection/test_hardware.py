# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asked hardware against nodes: affinity, matches, near misses in words, and what was found afterwards."""

from __future__ import annotations

import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import hardware_from_data
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import read_constraints
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import node_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware import (
    affinity_terms,
    gpu_requests,
    gpu_tolerations,
    match_nodes,
    verify_placement,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.filters import matches_node
from ansible_collections.muster.kube.tests.support.hardware_cases import make_ask, make_node
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(300))
NFD = "feature.node.kubernetes.io/"
CPUID = f"{NFD}cpu-cpuid."


def ask_for(**data):
    return hardware_from_data(data, "hardware")


def node(name="n1", labels=None, **amounts):
    amounts = {resource.replace("__", "/").replace("_", "."): amount for resource, amount in amounts.items()}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", **amounts}},
    }


def nvidia(name="n1", count="1", **labels):
    labels = {f"nvidia.com/gpu.{key}": value for key, value in labels.items()}
    return node(name, labels, nvidia_com__gpu=count)


def amd(name="n1", count="1", **labels):
    labels = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return node(name, labels, amd_com__gpu=count)


def flags(*names):
    return {f"{CPUID}{name}": "true" for name in names}


def missing(ask, one_node):
    """What a single node lacks; nothing when it matches."""
    match = match_nodes(ask, [one_node])
    return match.near_misses[0].missing if match.near_misses else ()


def terms(ask, nodes=None):
    """The terms of the affinity."""
    required = affinity_terms(ask, nodes)["requiredDuringSchedulingIgnoredDuringExecution"]
    return [term["matchExpressions"] for term in required["nodeSelectorTerms"]]


def admitted(ask, nodes):
    """Nodes that the existing evaluator of pod specs lets a pod with the affinity and requests use."""
    template = {"spec": {"affinity": {"nodeAffinity": affinity_terms(ask, nodes)}}}
    wish = read_constraints(template, "default")
    needed = {name: int(amount) for name, amount in gpu_requests(ask).items()}
    return [
        found.name
        for found in map(node_from_api, nodes)
        if matches_node(found, wish)
        and all(found.allocatable.get(name, 0) >= amount for name, amount in needed.items())
    ]


@steady
@given(st.integers(0, 2**32))
def test_matching_nodes_are_exactly_those_the_affinity_admits(seed):
    rng = random.Random(seed)
    nodes = [make_node(rng, f"n{i}") for i in range(8)]
    ask = hardware_from_data(make_ask(rng), "hardware")
    match = match_nodes(ask, nodes)
    assert list(match.matching) == admitted(ask, nodes)
    assert match.refused == (not match.matching)
    assert match.considered == 8
    assert {near.node for near in match.near_misses} == {f"n{i}" for i in range(8)} - set(match.matching)
    counts = [len(near.missing) for near in match.near_misses]
    assert counts == sorted(counts)
    assert all(counts)
    assert all(": " in fact for near in match.near_misses for fact in near.missing)


@steady
@given(st.integers(0, 2**32))
def test_placement_on_a_node_agrees_with_the_match(seed):
    rng = random.Random(seed)
    there = make_node(rng, "n1")
    ask = hardware_from_data(make_ask(rng), "hardware")
    placement = verify_placement(ask, there, None)
    if placement.verified:
        assert match_nodes(ask, [there]).matching == ("n1",)
    if placement.verified is False:
        assert match_nodes(ask, [there]).refused
    if ask.is_empty:
        assert placement == verify_placement(ask, None, None)


def test_an_empty_ask_takes_any_node():
    assert affinity_terms(ask_for()) is None
    assert match_nodes(ask_for(), [node()]).matching == ("n1",)
    assert gpu_requests(ask_for()) == {}


def test_no_nodes_at_all_is_a_refusal():
    match = match_nodes(ask_for(arch="amd64"), [])
    assert match.refused
    assert match.words() == "the cluster has no nodes"


def test_nodes_that_may_not_be_listed_refuse_nothing():
    match = match_nodes(ask_for(arch="amd64"), None)
    assert not match.refused
    assert match.matching == ()
    assert "may not list nodes" in match.unproven


def test_the_affinity_of_a_plain_ask():
    ask = ask_for(arch="x86_64", cpu={"vendor": "AMD", "family": 25, "model": 1}, node_selector={"pool": "a"})
    assert terms(ask) == [
        [
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": f"{NFD}cpu-model.vendor_id", "operator": "In", "values": ["AMD", "AuthenticAMD"]},
            {"key": f"{NFD}cpu-model.family", "operator": "In", "values": ["25"]},
            {"key": f"{NFD}cpu-model.id", "operator": "In", "values": ["1"]},
            {"key": "pool", "operator": "In", "values": ["a"]},
        ]
    ]


def test_missing_facts_in_words():
    ask = ask_for(cpu={"vendor": "Intel", "flags": ["avx512f"]}, gpu={"memory": "40Gi"}, node_selector={"pool": "a"})
    there = nvidia(memory="15360")
    there["metadata"]["labels"][f"{NFD}cpu-model.vendor_id"] = "AMD"
    assert missing(ask, there) == (
        "cpu vendor Intel: label feature.node.kubernetes.io/cpu-model.vendor_id is 'AMD'",
        "cpu flag AVX512F: label feature.node.kubernetes.io/cpu-cpuid.AVX512F is absent",
        "node label pool=a: label pool is absent",
        "gpu memory at least 40960 MiB: label nvidia.com/gpu.memory is '15360'",
    )


def test_resources_count_as_facts():
    match = match_nodes(ask_for(gpu={"count": 2}), [nvidia()], {"cpu": "8", "memory": "1Gi"})
    assert match.near_misses[0].missing == (
        "cpu 8: the node offers 4",
        "nvidia.com/gpu 2: the node offers 1",
    )
    assert "n1 lacks cpu 8" in match.words()
    assert match_nodes(ask_for(gpu={"count": 2}), [nvidia(count="2")], {"cpu": "4"}).matching == ("n1",)


def test_near_misses_come_nearest_first_and_not_all():
    nodes = [node(f"far-{i:02}") for i in range(20)] + [node("near", {"kubernetes.io/arch": "amd64"})]
    match = match_nodes(ask_for(arch="amd64", node_selector={"pool": "a"}), nodes)
    assert [near.node for near in match.near_misses] == ["near", *(f"far-{i:02}" for i in range(9))]
    assert match.considered == 21


def test_memory_is_at_least_what_was_asked():
    ask = ask_for(gpu={"memory": "40Gi"})
    assert terms(ask) == [[{"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40959"]}]]
    assert not missing(ask, nvidia(memory="40960"))
    assert missing(ask, nvidia(memory="40959"))
    # Part of a MiB more is a whole MiB more.
    assert missing(ask_for(gpu={"memory": 40 * 2**30 + 1}), nvidia(memory="40960"))


@pytest.mark.parametrize(
    "label",
    [
        {"amd_com__gpu_vram": "64G"},
        {"beta_amd_com__gpu_vram": "64G"},
        {"amd_com__gpu_vram_64G": "1"},
        {"beta_amd_com__gpu_vram_64G": "1"},
    ],
)
def test_the_memory_of_amd_gpus_is_taken_from_any_form_of_their_labels(label):
    there = amd(**label)
    assert not missing(ask_for(gpu={"vendor": "amd", "memory": "64Gi"}), there)
    (fact,) = missing(ask_for(gpu={"vendor": "amd", "memory": "65Gi"}), there)
    assert fact.startswith("gpu memory at least 69793218560 (65Gi): label ")
    assert "vram" in fact
    assert "64G" in fact


def test_amd_labels_that_are_no_size_match_nothing():
    ask = ask_for(gpu={"vendor": "amd", "memory": "1Gi"})
    assert missing(ask, amd(amd_com__gpu_vram="plenty"))
    expressions = [
        {"key": "amd.com/gpu.vram", "operator": "Exists"},
        {"key": "amd.com/gpu.vram", "operator": "DoesNotExist"},
    ]
    assert terms(ask, [amd(amd_com__gpu_vram="plenty")]) == [expressions]


def test_wildcards_become_the_values_that_nodes_have():
    ask = ask_for(gpu={"product": ["NVIDIA-A100*", "Tesla T4"]})
    nodes = [
        nvidia("a", product="NVIDIA-A100-SXM4-40GB"),
        nvidia("b", product="NVIDIA-H100"),
        nvidia("c", product="A100"),
    ]
    (term,) = terms(ask, nodes)
    assert term == [
        {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-A100-SXM4-40GB", "Tesla-T4"]},
    ]
    assert match_nodes(ask, nodes).matching == ("a",)


def test_a_dot_in_a_product_is_only_a_dot():
    ask = ask_for(gpu={"product": "A.0*"})
    assert missing(ask, nvidia(product="A100"))
    assert not missing(ask, nvidia(product="A.0"))


@pytest.mark.parametrize("gpu", [{"product": "A100*"}, {"vendor": "amd", "memory": "64Gi"}])
def test_values_that_only_nodes_know_are_never_dropped_silently(gpu):
    with pytest.raises(MusterError, match="may not list"):
        affinity_terms(ask_for(gpu=gpu), None)


def test_products_of_amd_and_intel():
    amd_ask = ask_for(gpu={"vendor": "amd", "product": "AMD Instinct MI210"})
    there = node(labels={"beta.amd.com/gpu.product-name.AMD_Instinct_MI210": "4"}, amd_com__gpu="4")
    assert not missing(amd_ask, there)
    assert len(terms(amd_ask)) == 4
    intel_ask = ask_for(gpu={"vendor": "intel", "product": "Max 1550"})
    there = node(labels={"gpu.intel.com/product": "Max_1550"}, gpu_intel_com__i915="1")
    assert not missing(intel_ask, there)
    assert gpu_requests(intel_ask) == {"gpu.intel.com/i915": "1"}


def test_a_vendor_alone_needs_no_label():
    assert affinity_terms(ask_for(gpu={"vendor": "amd", "count": 3})) is None
    assert gpu_requests(ask_for(gpu={"vendor": "amd", "count": 3})) == {"amd.com/gpu": "3"}
    assert gpu_tolerations(ask_for(gpu={})) == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ]


def test_a_node_without_gpus():
    assert not missing(ask_for(gpu={"count": 0}), node())
    assert missing(ask_for(gpu={"count": 0}), nvidia(product="Tesla-T4")) == (
        "no gpu: label nvidia.com/gpu.product is 'Tesla-T4'",
    )
    assert not missing(ask_for(gpu={"count": 0, "vendor": "amd"}), nvidia(product="Tesla-T4"))
    assert gpu_requests(ask_for(gpu={"count": 0})) == {}


def test_a_level_is_shown_by_its_label_or_by_flags_where_levels_have_none():
    ask = ask_for(cpu={"level": "x86-64-v3"})
    amd64 = {"kubernetes.io/arch": "amd64"}
    telling = flags("AVX", "AVX2", "FMA3", "LAHF", "MOVBE", "OSXSAVE")
    assert not missing(ask, node(labels={**amd64, **flags("X86_64_V1", "X86_64_V2", "X86_64_V3")}))
    assert not missing(ask, node(labels={**amd64, **telling}))
    # A node that publishes levels and lacks this one has not got it, whatever its flags.
    assert missing(ask, node(labels={**amd64, **telling, **flags("X86_64_V1", "X86_64_V2")}))
    (fact,) = missing(ask, node(labels={**amd64, **flags("AVX")}))
    assert fact.startswith(f"cpu level x86-64-v3: label {CPUID}X86_64_V3 is absent")
    assert "absence is no proof" in fact


def test_flags_that_get_no_label_are_shown_by_their_level():
    ask = ask_for(cpu={"flags": ["bmi2"]})
    assert not missing(ask, node(labels=flags("BMI2")))
    assert not missing(ask, node(labels=flags("X86_64_V1", "X86_64_V3")))
    assert missing(ask, node(labels=flags("X86_64_V1", "X86_64_V2")))
    (fact,) = missing(ask, node())
    assert "absence is no proof" in fact
    # With a level that has it anyway, the flag adds nothing to the affinity.
    for level in ("v3", "v4"):
        both = ask_for(cpu={"flags": ["bmi2"], "level": level})
        assert terms(both) == terms(ask_for(cpu={"level": level}))


HWINFO = {
    "cpu": {
        "arch": "x86_64",
        "vendor": "GenuineIntel",
        "family": 6,
        "model": 106,
        "level": "x86-64-v4",
        "flags": ["avx2", "avx512f", "bmi2", "fma"],
    },
    "gpus": [{"vendor": "nvidia", "product": "NVIDIA A100-SXM4-40GB", "memory_bytes": 40960 * 2**20}],
}


def rows(placement, source):
    return {
        row["what"]: (row["asked"], row["found"], row["ok"]) for row in placement.asked_found if row["source"] == source
    }


def test_placement_shows_asked_and_found_from_both_sides():
    ask = ask_for(cpu={"vendor": "Intel", "family": 6, "flags": ["avx2", "bmi2"]}, gpu={"product": "NVIDIA-A100*"})
    there = nvidia(product="NVIDIA-A100-SXM4-40GB")
    labels = {f"{NFD}cpu-model.vendor_id": "Intel", f"{NFD}cpu-model.family": "6", f"{CPUID}AVX2": "true"}
    there["metadata"]["labels"].update(labels)
    placement = verify_placement(ask, there, HWINFO)
    assert placement.verified is True
    assert rows(placement, "node")["cpu family 6"] == (6, f"label {NFD}cpu-model.family is '6'", True)
    assert rows(placement, "container")["cpu family 6"] == (6, 6, True)
    assert rows(placement, "node")["cpu flag BMI2"][2] is None
    assert rows(placement, "container")["cpu flag BMI2"] == ("BMI2", "present", True)
    assert rows(placement, "container")["gpu product NVIDIA-A100*"] == ("NVIDIA-A100*", "NVIDIA-A100-SXM4-40GB", True)
    assert rows(placement, "node")["nvidia.com/gpu 1"] == (1, 1, True)
    assert rows(placement, "container")["nvidia.com/gpu 1"] == (1, 1, True)


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        ({"arch": "arm64"}, "arch arm64"),
        ({"cpu": {"vendor": "AMD"}}, "cpu vendor AMD"),
        ({"cpu": {"family": 25}}, "cpu family 25"),
        ({"cpu": {"model": 1}}, "cpu model 1"),
        ({"cpu": {"flags": ["amx_bf16"]}}, "cpu flag AMXBF16"),
        ({"cpu": {"flags": ["bmi1", "bmi2"]}}, "cpu flags BMI1, BMI2"),
        ({"gpu": {"product": "Tesla-T4"}}, "gpu product Tesla-T4"),
        ({"gpu": {"memory": "41Gi"}}, "gpu memory at least 41984 MiB"),
        ({"gpu": {"count": 2}}, "nvidia.com/gpu 2"),
        ({"gpu": {"count": 0}}, "no gpu"),
    ],
)
def test_a_container_that_sees_something_else_makes_it_false(ask, what):
    placement = verify_placement(ask_for(**ask), None, HWINFO)
    assert placement.verified is False
    assert rows(placement, "container")[what][2] is False
    assert rows(placement, "node")[what][1:] == (None, None)


def test_a_lower_level_is_false_and_a_higher_one_true():
    low = {"cpu": {**HWINFO["cpu"], "level": "x86-64-v2"}}
    assert verify_placement(ask_for(cpu={"level": "v3"}), None, low).verified is False
    assert verify_placement(ask_for(cpu={"level": "v3"}), None, HWINFO).verified is True


def test_a_pod_that_landed_elsewhere_is_told():
    placement = verify_placement(ask_for(cpu={"flags": ["avx2"]}), node("elsewhere"), HWINFO)
    assert placement.verified is False
    assert rows(placement, "node")["cpu flag AVX2"] == ("AVX2", f"label {CPUID}AVX2 is absent", False)
    assert rows(placement, "container")["cpu flag AVX2"][2] is True
    assert verify_placement(ask_for(node_selector={"pool": "a"}), node(labels={"pool": "b"}), HWINFO).verified is False


def test_what_nobody_could_see_is_neither_true_nor_false():
    assert verify_placement(ask_for(), node(), HWINFO).verified is None
    assert verify_placement(ask_for(node_selector={"pool": "a"}), None, HWINFO).verified is None
    assert verify_placement(ask_for(arch="amd64"), None, None).verified is None
    assert verify_placement(ask_for(arch="amd64"), None, {"cpu": {"arch": None}, "gpus": None}).verified is None
    blind = {"gpus": None, "absent": {"gpus": "no nvidia-smi in the image"}}
    assert verify_placement(ask_for(gpu={}), None, blind).verified is None
    # With the node's word for it, a container that could not look does no harm; one that looked and saw none does.
    assert verify_placement(ask_for(gpu={}), nvidia(), blind).verified is True
    assert verify_placement(ask_for(gpu={}), nvidia(), {"gpus": []}).verified is False


def test_without_nodes_a_wildcard_is_verified_in_the_container():
    assert verify_placement(ask_for(gpu={"product": "NVIDIA-A100*"}), None, HWINFO).verified is True
    assert verify_placement(ask_for(gpu={"product": "NVIDIA-H100*"}), None, HWINFO).verified is False


def test_amd_memory_is_compared_as_it_is_labelled():
    ask = ask_for(gpu={"vendor": "amd", "memory": "64Gi"})
    seen = {"gpus": [{"vendor": "amd", "memory_bytes": 64 * 2**30 - 2**24}]}
    assert verify_placement(ask, amd(amd_com__gpu_vram="64G"), seen).verified is True
    seen = {"gpus": [{"vendor": "amd", "memory_bytes": 32 * 2**30}]}
    assert verify_placement(ask, amd(amd_com__gpu_vram="64G"), seen).verified is False


@pytest.mark.parametrize(
    "damaged",
    [
        {"cpu": "none", "gpus": "none"},
        {"cpu": [], "gpus": ["x"]},
        {"cpu": {"flags": "avx2", "level": {}}, "gpus": [{"product": None, "memory_bytes": "much"}]},
        {"cpu": {"flags": [], "level": "high", "arch": None}, "gpus": {}},
    ],
)
def test_damaged_facts_are_facts_nobody_saw(damaged):
    ask = ask_for(cpu={"flags": ["avx2"], "level": "v3"}, gpu={"product": "Tesla-T4", "memory": "1Gi"})
    placement = verify_placement(ask, None, damaged)
    assert placement.verified is None
    assert {row["ok"] for row in placement.asked_found if row["what"] != "nvidia.com/gpu 1"} == {None}


def test_three_near_misses_are_told_in_words():
    match = match_nodes(ask_for(arch="amd64"), [node(f"n{i}") for i in range(4)])
    lacks = [f"n{i} lacks arch amd64: label kubernetes.io/arch is absent" for i in range(3)]
    assert match.words() == f"none of 4 nodes has it; nearest: {'; '.join(lacks)}"


def test_a_label_that_is_there_needs_no_excuse_for_absent_ones():
    placement = verify_placement(ask_for(cpu={"flags": ["bmi2"]}), node(labels=flags("BMI2")), None)
    assert rows(placement, "node")["cpu flag BMI2"] == ("BMI2", f"label {CPUID}BMI2 is true", True)


def test_the_nearest_way_is_the_one_told():
    """Of level 3 only one telling flag is missing, or the label of the level itself."""
    telling = flags("AVX", "AVX2", "FMA3", "LAHF", "MOVBE")
    (fact,) = missing(ask_for(cpu={"level": "v3"}), node(labels={"kubernetes.io/arch": "amd64", **telling}))
    assert f"label {CPUID}X86_64_V3 is absent" in fact
    published = {"kubernetes.io/arch": "amd64", **telling, **flags("X86_64_V1")}
    (fact,) = missing(ask_for(cpu={"level": "v3"}), node(labels=published))
    assert f"{CPUID}AVX2" not in fact


@pytest.mark.parametrize(
    ("offered", "seen", "verified"),
    [("2", 2, True), ("1", 2, False), ("2", 1, False), ("3", 3, True)],
)
def test_as_many_gpus_as_asked_are_offered_and_seen(offered, seen, verified):
    hwinfo = {"gpus": [{"vendor": "nvidia"}] * seen}
    assert verify_placement(ask_for(gpu={"count": 2}), nvidia(count=offered), hwinfo).verified is verified
