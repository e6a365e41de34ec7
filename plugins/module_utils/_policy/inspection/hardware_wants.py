# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asked hardware taken apart into wants: how the labels of a node show each of them, and how a container sees it.

Each want can be met in one of several ways, since several programs write labels; each way is a conjunction of
requirements on labels.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import (
    LEVEL_FLAGS,
    WITHHELD_FLAGS,
    GpuAsk,
    HardwareAsk,
    arch_name,
    has_flag,
    level_name,
    level_number,
    product_name,
    vendor_names,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import LABEL_LENGTH
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import value_at
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import describe
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import (
    Labels,
    LabelSelector,
    Requirement,
)

Raw = Mapping[str, t.Any]
# What a container saw of one fact, and whether that is what was asked; None when it could not see.
Seen = tuple[t.Any, "bool | None"]

ARCH = "kubernetes.io/arch"
NFD = "feature.node.kubernetes.io/"
CPUID = f"{NFD}cpu-cpuid."
_PRODUCT_LABELS = {
    "nvidia": ("nvidia.com/gpu.product",),
    "amd": ("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"),
    "intel": ("gpu.intel.com/product",),
}
_PRESENCE_LABELS = {**_PRODUCT_LABELS, "nvidia": ("nvidia.com/gpu.present", "nvidia.com/gpu.product")}
_NVIDIA_MEMORY = "nvidia.com/gpu.memory"
_AMD_MEMORY = ("amd.com/gpu.vram", "beta.amd.com/gpu.vram")
_AMD_SIZE = re.compile(r"([0-9]+)G")
# Flags that do get labels and together speak for a level where the label of the level itself is not published. Of level
# 2 only LAHF is among them, which older CPUs have as well; those with AVX also have the rest.
_TELLING_FLAGS = {
    2: ("AVX", "LAHF"),
    3: ("AVX", "AVX2", "FMA3", "LAHF", "MOVBE", "OSXSAVE"),
    4: ("AVX", "AVX2", "FMA3", "LAHF", "MOVBE", "OSXSAVE", *LEVEL_FLAGS[4]),
}
_LEVELS_PUBLISHED = f"{CPUID}X86_64_V1"
_WITHHELD_NOTE = "node-feature-discovery withholds such labels by default, so absence is no proof"
_LEVEL_NOTE = "nodes without labels of levels are judged by those flags that get labels, so absence is no proof"
_MIB, _GIB = 2**20, 2**30


@dataclasses.dataclass(frozen=True, slots=True)
class Want:
    """One asked fact: ways in which labels can show it (none: labels say nothing), and how a container sees it.

    The note explains labels that are absent. Some absent labels contradict nothing: then conclusive is false.
    """

    what: str
    asked: t.Any
    ways: tuple[LabelSelector, ...]
    seen: Callable[[Raw], Seen]
    note: str | None = None
    conclusive: bool = True

    def met(self, labels: Labels) -> bool:
        """Whether a node's labels show the fact."""
        return not self.ways or any(way.matches(labels) for way in self.ways)


def wants_of(ask: HardwareAsk, nodes: Sequence[Labels] | None, *, lenient: bool = False) -> list[Want]:
    """Everything asked that labels or a container can show; lenient: without nodes leave out what needs them."""
    wants = []
    if ask.arch:
        way = _way(Requirement(ARCH, "In", (ask.arch,)))
        sees = _sees_cpu("arch", lambda found: arch_name(found) == ask.arch)
        wants.append(Want(f"arch {ask.arch}", ask.arch, (way,), sees))
    wants += _cpu_wants(ask)
    for key, value in ask.node_selector:
        way = _way(Requirement(key, "In", (value,)))
        wants.append(Want(f"node label {key}={value}", value, (way,), _sees_nothing))
    if ask.gpu is not None:
        wants += _gpu_wants(ask.gpu, nodes, lenient)
    return wants


def _way(*requirements: Requirement) -> LabelSelector:
    return LabelSelector(requirements)


def _cpu_wants(ask: HardwareAsk) -> list[Want]:
    """Vendor, family, model, level and flags."""
    cpu = ask.cpu
    wants = []
    if cpu.vendor:
        names = vendor_names(cpu.vendor)
        way = _way(Requirement(f"{NFD}cpu-model.vendor_id", "In", names))
        sees = _sees_cpu("vendor", lambda found: found.lower() in (name.lower() for name in names))
        wants.append(Want(f"cpu vendor {cpu.vendor}", cpu.vendor, (way,), sees))
    for what, label, number in (("family", "family", cpu.family), ("model", "id", cpu.model)):
        if number is not None:
            way = _way(Requirement(f"{NFD}cpu-model.{label}", "In", (str(number),)))
            sees = _sees_cpu(what, str(number).__eq__)
            wants.append(Want(f"cpu {what} {number}", number, (way,), sees))
    if cpu.level:
        name = level_name(cpu.level)
        wants.append(Want(f"cpu level {name}", name, _level_ways(cpu.level), _sees_level(cpu.level), _LEVEL_NOTE))
    for flag in cpu.flags:
        if _implied_level(flag) is None:
            note = _WITHHELD_NOTE if flag in WITHHELD_FLAGS else None
            way, sees = _flag_way((flag,)), _sees_flags((flag,))
            wants.append(Want(f"cpu flag {flag}", flag, (way,), sees, note, conclusive=note is None))
    return wants + _withheld_wants(ask)


def _implied_level(flag: str) -> int | None:
    """The level of a flag that gets no label; None for flags with labels of their own."""
    if flag not in WITHHELD_FLAGS:
        return None
    return next((level for level, flags in LEVEL_FLAGS.items() if flag in flags), None)


def _withheld_wants(ask: HardwareAsk) -> list[Want]:
    """Flags that are usually not labelled, one want for each level that has them: its label speaks for them as well."""
    wants = []
    for level in LEVEL_FLAGS:
        flags = tuple(flag for flag in ask.cpu.flags if _implied_level(flag) == level)
        if not flags:
            continue
        # An asked level that has them already selects the nodes.
        ways = () if (ask.cpu.level or 0) >= level else (_flag_way(flags), *_level_ways(level))
        what = f"cpu flag{'s' if len(flags) > 1 else ''} {', '.join(flags)}"
        wants.append(Want(what, ", ".join(flags), ways, _sees_flags(flags), _WITHHELD_NOTE, conclusive=False))
    return wants


def _flag_way(flags: Iterable[str]) -> LabelSelector:
    return _way(*(Requirement(f"{CPUID}{flag}", "In", ("true",)) for flag in flags))


def _level_ways(level: int) -> tuple[LabelSelector, ...]:
    """The label of the level, or on nodes without any such label the flags that speak for it; amd64 is level 1."""
    if level == 1:
        return (_way(Requirement(ARCH, "In", ("amd64",))),)
    by_flags = _flag_way(_TELLING_FLAGS[level]).requirements
    unpublished = Requirement(_LEVELS_PUBLISHED, "DoesNotExist")
    return (_flag_way((f"X86_64_V{level}",)), _way(unpublished, *by_flags))


def _gpu_wants(gpu: GpuAsk, nodes: Sequence[Labels] | None, lenient: bool) -> list[Want]:
    """Product and memory of GPUs, or that there is none."""
    if gpu.count == 0:
        return [_no_gpu(gpu)]
    vendor = gpu.vendor or ""
    wants = []
    if gpu.products:
        names = " or ".join(gpu.products)
        ways = _product_ways(vendor, gpu.products, nodes, lenient)
        wants.append(Want(f"gpu product {names}", names, ways, _sees_product(gpu)))
    if gpu.memory_bytes is not None:
        words = f"at least {describe('memory', gpu.memory_bytes)}"
        if vendor == "nvidia":
            least = -(-gpu.memory_bytes // _MIB)
            ways = (_way(Requirement(_NVIDIA_MEMORY, "Gt", (str(least - 1),))),)
            words = f"at least {least} MiB"
        else:
            ways = _amd_memory_ways(gpu.memory_bytes, nodes, lenient)
        wants.append(Want(f"gpu memory {words}", words, ways, _sees_memory(gpu)))
    return wants


def _no_gpu(gpu: GpuAsk) -> Want:
    """A node none of the programs that describe GPUs has labelled."""
    vendors = (gpu.vendor,) if gpu.vendor else tuple(_PRESENCE_LABELS)
    keys = [key for vendor in vendors for key in _PRESENCE_LABELS[vendor]]
    way = _way(*(Requirement(key, "DoesNotExist") for key in keys))
    return Want(f"no {gpu.vendor + ' ' if gpu.vendor else ''}gpu", 0, (way,), _sees_no_gpu(gpu))


def _product_ways(
    vendor: str, products: Sequence[str], nodes: Sequence[Labels] | None, lenient: bool
) -> tuple[LabelSelector, ...]:
    """Labels whose value is one of the products; AMD's labels may also have the product in their key."""
    exact = [name for name in products if "*" not in name]
    patterns = [re.compile(re.escape(name).replace(r"\*", ".*")) for name in products if "*" in name]
    if patterns and nodes is None:
        return _needs_nodes(f"gpu product {' or '.join(products)} with its wildcard", lenient)
    ways = []
    for key in _PRODUCT_LABELS[vendor]:
        found = [value for value in _values(key, nodes) if any(pattern.fullmatch(value) for pattern in patterns)]
        names = tuple(sorted({*exact, *found}))
        ways += _ways_by_value(key, names, vendor == "amd")
    return tuple(ways) or (_nobody(_PRODUCT_LABELS[vendor][0]),)


def _amd_memory_ways(least: int, nodes: Sequence[Labels] | None, lenient: bool) -> tuple[LabelSelector, ...]:
    """AMD's label is a text of whole GiB such as 64G, which affinity cannot compare: take the values that are there."""
    if nodes is None:
        return _needs_nodes("the memory of AMD GPUs", lenient)
    ways = []
    for key in _AMD_MEMORY:
        large = [value for value in _values(key, nodes) if (_amd_bytes(value) or 0) >= least]
        ways += _ways_by_value(key, tuple(sorted(large)), True)
    return tuple(ways) or (_nobody(_AMD_MEMORY[0]),)


def _needs_nodes(what: str, lenient: bool) -> tuple[LabelSelector, ...]:
    """Without nodes there are no values to choose from."""
    if lenient:
        return ()
    cause = "values are taken from the labels of nodes, which are missing or which this account may not list"
    raise MusterError("select nodes by", what, cause)


def _amd_bytes(value: str) -> int | None:
    found = _AMD_SIZE.fullmatch(value)
    return int(found[1]) * _GIB if found else None


def _values(key: str, nodes: Sequence[Labels] | None) -> list[str]:
    """Values that nodes have for a label, whether as its value or at the end of its key."""
    found = set()
    for labels in nodes or ():
        for name, value in labels.items():
            if name == key:
                found.add(value)
            elif name.startswith(f"{key}."):
                found.add(name[len(key) + 1 :])
    return sorted(found)


def _ways_by_value(key: str, names: tuple[str, ...], in_key: bool) -> list[LabelSelector]:
    """A label with one of the values, and where that is usual a label whose key ends with one."""
    if not names:
        return []
    ways = [_way(Requirement(key, "In", names))]
    longest = LABEL_LENGTH - len(key.partition("/")[2]) - 1
    return ways + [_way(Requirement(f"{key}.{name}", "Exists")) for name in names if in_key and len(name) <= longest]


def _nobody(key: str) -> LabelSelector:
    """Requirements that no node meets, for a value that no node has."""
    return _way(Requirement(key, "Exists"), Requirement(key, "DoesNotExist"))


def gpus_seen(gpu: GpuAsk, hwinfo: Raw) -> list[Raw] | None:
    """GPUs of the asked vendor in hwinfo; None when the container could not look, as always for those of Intel."""
    seen = hwinfo.get("gpus")
    if not isinstance(seen, list) or not all(isinstance(item, Mapping) for item in seen):
        return None
    found = [item for item in seen if gpu.vendor in (None, str(item.get("vendor") or gpu.vendor).lower())]
    return None if gpu.vendor == "intel" and not found else found


def _sees_nothing(_hwinfo: Raw) -> Seen:
    """A container cannot see labels."""
    return None, None


def _sees_cpu(name: str, holds: Callable[[str], bool | None]) -> Callable[[Raw], Seen]:
    """Whether a fact about the CPU holds; None when it was not seen."""

    def look(hwinfo: Raw) -> Seen:
        found = value_at(hwinfo, ("cpu", name))
        return found, None if found is None else holds(str(found))

    return look


def _sees_level(level: int) -> Callable[[Raw], Seen]:
    """Compare the level; a higher one has all of a lower one."""

    def holds(found: str) -> bool | None:
        number = level_number(found)
        return None if number is None else number >= level

    return _sees_cpu("level", holds)


def _sees_flags(flags: Sequence[str]) -> Callable[[Raw], Seen]:
    """Look for flags among those the kernel lists."""

    def look(hwinfo: Raw) -> Seen:
        seen = value_at(hwinfo, ("cpu", "flags"))
        if not isinstance(seen, list) or not seen:
            return None, None
        absent = [flag for flag in flags if not has_flag(flag, map(str, seen))]
        return f"{', '.join(absent)} absent" if absent else "present", not absent

    return look


def _sees_product(gpu: GpuAsk) -> Callable[[Raw], Seen]:
    """Every GPU given must be one of the products."""
    patterns = [re.compile(re.escape(name).replace(r"\*", ".*")) for name in gpu.products]

    def look(hwinfo: Raw) -> Seen:
        names = [item.get("product") for item in gpus_seen(gpu, hwinfo) or ()]
        if not names or None in names:
            return None, None
        labels = [product_name(str(name), gpu.vendor or "") for name in names]
        return ", ".join(labels), all(any(pattern.fullmatch(label) for pattern in patterns) for label in labels)

    return look


def _sees_memory(gpu: GpuAsk) -> Callable[[Raw], Seen]:
    """The smallest GPU given must be large enough, measured as the labels do: in whole MiB, AMD's in rounded GiB."""
    unit = _MIB if gpu.vendor == "nvidia" else _GIB

    def look(hwinfo: Raw) -> Seen:
        sizes = [item.get("memory_bytes") for item in gpus_seen(gpu, hwinfo) or ()]
        known = [size for size in sizes if isinstance(size, int)]
        if not known or len(known) < len(sizes):
            return None, None
        least = min(known)
        return describe("memory", least), (least + unit // 2) // unit * unit >= (gpu.memory_bytes or 0)

    return look


def _sees_no_gpu(gpu: GpuAsk) -> Callable[[Raw], Seen]:
    """No GPU was given; a node that has some need not give any."""

    def look(hwinfo: Raw) -> Seen:
        seen = gpus_seen(gpu, hwinfo)
        return (None, None) if seen is None else (len(seen), None if not seen else False)

    return look
