# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random nodes with the labels of NFD, GFD and AMD's labeller, and random asks. The same seed gives the same ones."""

from __future__ import annotations

import random

NFD = "feature.node.kubernetes.io/"
CPUID = f"{NFD}cpu-cpuid."
NVIDIA_PRODUCTS = ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB", "Tesla-T4")
NVIDIA_MEMORY = {"NVIDIA-A100-SXM4-40GB": "40960", "NVIDIA-A100-PCIE-40GB": "40960", "Tesla-T4": "15360"}
AMD_PRODUCTS = {"AMD_Instinct_MI210": "64G", "AMD_Instinct_MI300X": "192G"}
INTEL_PRODUCTS = ("Max_1550", "Flex_170")
LEVEL_2 = ("AVX", "LAHF")
LEVEL_3 = (*LEVEL_2, "AVX2", "FMA3", "MOVBE", "OSXSAVE")
LEVEL_4 = (*LEVEL_3, "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512F", "AVX512VL")
FLAGS_OF_LEVEL = {1: (), 2: LEVEL_2, 3: LEVEL_3, 4: LEVEL_4}


def make_node(rng: random.Random, name: str) -> dict:
    """A node as the usual programs would label it; some have no labels at all, some those of older programs."""
    labels = {"kubernetes.io/hostname": name, "pool": rng.choice(("a", "b"))}
    amounts = {"cpu": rng.choice(("2", "8")), "memory": rng.choice(("4Gi", "16Gi")), "pods": "110"}
    if rng.random() < 0.9:
        labels["kubernetes.io/arch"] = rng.choice(("amd64", "amd64", "amd64", "arm64"))
    if labels.get("kubernetes.io/arch") == "amd64" and rng.random() < 0.8:
        labels.update(_cpu_labels(rng))
    draw = rng.random()
    if draw < 0.3:
        _add_nvidia(rng, labels, amounts)
    elif draw < 0.5:
        _add_amd(rng, labels, amounts)
    elif draw < 0.6:
        labels["gpu.intel.com/product"] = rng.choice(INTEL_PRODUCTS)
        amounts["gpu.intel.com/i915"] = "1"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _cpu_labels(rng: random.Random) -> dict[str, str]:
    """What node-feature-discovery writes; older versions know no levels."""
    intel = rng.random() < 0.5
    level = rng.choice((1, 2, 3, 3, 4))
    labels = {
        f"{NFD}cpu-model.vendor_id": rng.choice(("Intel", "Intel", "GenuineIntel") if intel else ("AMD",)),
        f"{NFD}cpu-model.family": "6" if intel else rng.choice(("23", "25")),
        f"{NFD}cpu-model.id": rng.choice(("85", "106", "1")),
    }
    labels.update({f"{CPUID}{flag}": "true" for flag in FLAGS_OF_LEVEL[level]})
    if rng.random() < 0.5:
        labels.update({f"{CPUID}X86_64_V{number}": "true" for number in range(1, level + 1)})
    if rng.random() < 0.2:
        labels.update({f"{CPUID}{flag}": "true" for flag in ("SSE42", "BMI2")})
    return labels


def _add_nvidia(rng: random.Random, labels: dict, amounts: dict) -> None:
    """GPUs with the labels of GPU feature discovery, or with its device plugin only."""
    amounts["nvidia.com/gpu"] = rng.choice(("1", "2", "8"))
    if rng.random() < 0.85:
        product = rng.choice(NVIDIA_PRODUCTS)
        labels["nvidia.com/gpu.product"] = product
        labels["nvidia.com/gpu.memory"] = NVIDIA_MEMORY[product]
        labels["nvidia.com/gpu.present"] = "true"


def _add_amd(rng: random.Random, labels: dict, amounts: dict) -> None:
    """GPUs with AMD's labels in any of their forms."""
    count = rng.choice(("1", "4"))
    amounts["amd.com/gpu"] = count
    product = rng.choice(sorted(AMD_PRODUCTS))
    form = rng.choice(("value", "beta value", "key", "beta key"))
    prefix = "beta.amd.com/gpu." if form.startswith("beta") else "amd.com/gpu."
    for name, value in (("product-name", product), ("vram", AMD_PRODUCTS[product])):
        if form.endswith("key"):
            labels[f"{prefix}{name}.{value}"] = count
        else:
            labels[f"{prefix}{name}"] = value


def make_ask(rng: random.Random) -> dict:
    """An ask of a few facts."""
    ask: dict = {}
    if rng.random() < 0.3:
        ask["arch"] = rng.choice(("amd64", "amd64", "x86_64"))
    if rng.random() < 0.6:
        ask["cpu"] = _cpu_ask(rng)
    if rng.random() < 0.5:
        ask["gpu"] = _gpu_ask(rng)
    if rng.random() < 0.25:
        ask["node_selector"] = {"pool": rng.choice(("a", "b"))}
    return ask


def _cpu_ask(rng: random.Random) -> dict:
    """One or two wishes about the CPU."""
    wishes = {
        "vendor": rng.choice(("Intel", "AuthenticAMD")),
        "family": rng.choice((6, 25)),
        "model": rng.choice((85, 1)),
        "flags": rng.choice((["avx2"], ["AVX512F"], ["sse4_2"], ["bmi2", "sse4_2"], ["rdrand"], ["mmx"])),
        "level": rng.choice(("x86-64-v1", "x86-64-v2", "x86-64-v3", "x86-64-v4")),
    }
    return {key: wishes[key] for key in rng.sample(sorted(wishes), rng.choice((1, 1, 2)))}


def _gpu_ask(rng: random.Random) -> dict:
    """GPUs of some vendor, or none."""
    draw = rng.random()
    if draw < 0.15:
        return {"count": 0, **rng.choice(({}, {"vendor": "nvidia"}))}
    ask: dict = {"count": rng.choice((1, 1, 2))}
    if draw < 0.6:
        if rng.random() < 0.6:
            ask["product"] = rng.choice((*NVIDIA_PRODUCTS, "NVIDIA-A100*", "*-40GB", ["Tesla T4", "NVIDIA-H100*"]))
        if rng.random() < 0.5:
            ask["memory"] = rng.choice(("15Gi", "16Gi", "40Gi", "80Gi"))
    elif draw < 0.9:
        ask["vendor"] = "amd"
        if rng.random() < 0.6:
            ask["product"] = rng.choice((*sorted(AMD_PRODUCTS), "AMD*", "*MI300*", "*MI100"))
        if rng.random() < 0.6:
            ask["memory"] = rng.choice(("32Gi", "64Gi", "100Gi", "400Gi"))
    else:
        ask["vendor"] = "intel"
        ask["product"] = rng.choice((*INTEL_PRODUCTS, "Max*"))
    return ask
