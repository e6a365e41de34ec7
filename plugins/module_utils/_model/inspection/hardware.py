# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hardware a user asks for, in one spelling: people, the kernel and node labels name the same thing differently."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    DNS_NAME,
    INT32,
    LABEL_LENGTH,
    Data,
    Fields,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    NANO,
    format_quantity,
    parse_quantity,
)

_ARCHITECTURES = {"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386"}
_KNOWN_ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x", "riscv64", "386", "arm", "loong64")
# What node-feature-discovery writes first, then what the CPU itself says.
_VENDORS = {
    "intel": ("Intel", "GenuineIntel"),
    "amd": ("AMD", "AuthenticAMD"),
    "hygon": ("Hygon", "HygonGenuine"),
    "arm": ("ARM",),
    "ampere": ("Ampere",),
    "ibm": ("IBM",),
}
GPU_VENDORS = ("nvidia", "amd", "intel")
_GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}
LEVEL_FLAGS: t.Mapping[int, tuple[str, ...]] = {
    1: ("CMOV", "MMX", "SSE", "SSE2"),
    2: ("CX16", "LAHF", "POPCNT", "SSE3", "SSE4", "SSE42", "SSSE3"),
    3: ("AVX", "AVX2", "BMI1", "BMI2", "F16C", "FMA3", "LZCNT", "MOVBE", "OSXSAVE"),
    4: ("AVX512BW", "AVX512CD", "AVX512DQ", "AVX512F", "AVX512VL"),
}
# node-feature-discovery makes no label of these unless told to: that the label is absent says nothing about the CPU.
WITHHELD_FLAGS = frozenset(
    (
        *("AVX10", "BMI1", "BMI2", "CLMUL", "CMOV", "CX16", "ERMS", "F16C", "HTT", "LZCNT", "MMX", "MMXEXT", "NX"),
        *("POPCNT", "RDRAND", "RDSEED", "RDTSCP", "SGX", "SGXLC", "SSE", "SSE2", "SSE3", "SSE4", "SSE42", "SSSE3"),
        "TDX_GUEST",
    )
)
# Linux's and other people's names of flags, letters and digits only, where they differ from the labels' names.
_FLAG_NAMES = {
    "abm": "LZCNT",
    "aes": "AESNI",
    "cmpxchg16b": "CX16",
    "fma": "FMA3",
    "ht": "HTT",
    "lahflm": "LAHF",
    "pclmulqdq": "CLMUL",
    "pni": "SSE3",
    "shani": "SHA",
    "sse41": "SSE4",
}
# The kernel does not list this flag, but the other one only when it has set this one.
_SHOWN_AS = {"OSXSAVE": "XSAVE"}
_FLAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,48}")
_LEVEL = re.compile(r"(?:x86[-_]64[-_])?v([1-4])", re.IGNORECASE)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
_LABEL_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PRODUCT = re.compile(r"[A-Za-z0-9*](?:[A-Za-z0-9_.*-]*[A-Za-z0-9*])?")
_RESOURCE = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_MANY_GPUS = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class CpuAsk:
    """Wishes about the CPU; None and empty mean any. Flags carry the names of node-feature-discovery."""

    vendor: str | None = None
    family: int | None = None
    model: int | None = None
    flags: tuple[str, ...] = ()
    level: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GpuAsk:
    """Wishes about GPUs. A count of 0 asks for a node without any, and then vendor None means of any vendor."""

    vendor: str | None
    count: int
    products: tuple[str, ...] = ()
    memory_bytes: int | None = None
    resource: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class HardwareAsk:
    """Everything asked of a node's hardware."""

    arch: str | None = None
    cpu: CpuAsk = CpuAsk()
    gpu: GpuAsk | None = None
    node_selector: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether any node will do."""
        return self == HardwareAsk()


def hardware_from_data(data: t.Any, where: str) -> HardwareAsk:
    """Read an ask strictly; None and an empty mapping ask for nothing."""
    if data is None:
        return HardwareAsk()
    fields = Fields(data, where)
    fields.only(("arch", "cpu", "gpu", "node_selector"))
    cpu = _cpu(fields)
    arch = _arch(fields)
    if cpu.level and arch not in (None, "amd64"):
        raise fields.fail("cpu.level", f"levels are of amd64 only, and arch is {arch}")
    return HardwareAsk("amd64" if cpu.level else arch, cpu, _gpu(fields), _node_selector(fields))


def hardware_data(ask: HardwareAsk) -> Data:
    """The ask as plain values, the same for every spelling of the same ask; reads back to an equal ask."""
    cpu: Data = {
        "vendor": ask.cpu.vendor,
        "family": ask.cpu.family,
        "model": ask.cpu.model,
        "flags": list(ask.cpu.flags),
        "level": level_name(ask.cpu.level) if ask.cpu.level else None,
    }
    data: Data = {"arch": ask.arch, "cpu": _given(cpu), "node_selector": dict(ask.node_selector)}
    if ask.gpu is not None:
        memory = ask.gpu.memory_bytes
        gpu: Data = {
            "vendor": ask.gpu.vendor,
            "count": ask.gpu.count,
            "product": list(ask.gpu.products),
            "memory": None if memory is None else format_quantity(memory * NANO, "binary"),
            "resource": ask.gpu.resource,
        }
        data["gpu"] = _given(gpu)
    return _given(data)


def _given(data: Data) -> Data:
    """Only what was asked."""
    return {key: value for key, value in data.items() if value is not None and value not in ([], {})}


def _arch(fields: Fields) -> str | None:
    """The architecture as nodes are labelled with it."""
    value = fields.text("arch")
    if value is None:
        return None
    name = arch_name(value)
    if name not in _KNOWN_ARCHITECTURES:
        raise fields.fail("arch", f"{value!r} is none of {', '.join(_KNOWN_ARCHITECTURES)}")
    return name


def _cpu(fields: Fields) -> CpuAsk:
    """Read the part about the CPU."""
    cpu = Fields(fields.mapping("cpu"), f"{fields.where}: cpu")
    cpu.only(("vendor", "family", "model", "flags", "level"))
    vendor = cpu.text("vendor")
    if vendor is not None and not _label_value(vendor):
        raise cpu.fail("vendor", f"{vendor!r} cannot be the value of a label")
    return CpuAsk(
        vendor=None if vendor is None else vendor_names(vendor)[0],
        family=None if cpu.get("family") is None else cpu.whole("family", 0, INT32),
        model=None if cpu.get("model") is None else cpu.whole("model", 0, INT32),
        flags=_flags(cpu),
        level=_level(cpu),
    )


def _flags(cpu: Fields) -> tuple[str, ...]:
    """CPU flags in the spelling of node-feature-discovery, sorted, each once."""
    flags = set()
    for index, value in enumerate(cpu.sequence("flags")):
        if not isinstance(value, str) or not _FLAG.fullmatch(value):
            raise cpu.fail(f"flags[{index}]", f"a flag such as avx2 or AVX512F is needed, not {value!r}")
        flags.add(flag_name(value))
    return tuple(sorted(flags))


def _level(cpu: Fields) -> int | None:
    """The level of the x86-64 psABI."""
    value = cpu.text("level")
    if value is None:
        return None
    level = level_number(value)
    if level is None:
        raise cpu.fail("level", f"{value!r} is none of {', '.join(level_name(number) for number in LEVEL_FLAGS)}")
    return level


def _gpu(fields: Fields) -> GpuAsk | None:
    """Read the part about GPUs; the default count is one."""
    if fields.get("gpu") is None:
        return None
    gpu = Fields(fields.get("gpu"), f"{fields.where}: gpu")
    gpu.only(("vendor", "product", "count", "memory", "resource"))
    count = 1 if gpu.get("count") is None else gpu.whole("count", 0, _MANY_GPUS)
    vendor = gpu.text("vendor")
    if vendor is not None and vendor.lower() not in GPU_VENDORS:
        raise gpu.fail("vendor", f"{vendor!r} is none of {', '.join(GPU_VENDORS)}")
    vendor = vendor.lower() if vendor is not None else None
    if count == 0:
        for key in ("product", "memory", "resource"):
            if gpu.get(key) is not None:
                raise gpu.fail(key, "with count 0 a node without GPUs is asked for")
        return GpuAsk(vendor, 0)
    vendor = vendor or "nvidia"
    resource = gpu.text("resource") or _GPU_RESOURCES[vendor]
    if not _RESOURCE.fullmatch(resource):
        raise gpu.fail("resource", f"{resource!r} is no extended resource such as nvidia.com/gpu")
    return GpuAsk(vendor, count, _products(gpu, vendor), _memory(gpu, vendor), resource)


def _products(gpu: Fields, vendor: str) -> tuple[str, ...]:
    """Product names as in labels, sorted; '*' stands for any characters."""
    value = gpu.get("product")
    products = value if isinstance(value, list) else [value] if value is not None else []
    names = set()
    for product in products:
        name = product_name(product, vendor) if isinstance(product, str) else ""
        if len(name) > LABEL_LENGTH or not _PRODUCT.fullmatch(name):
            raise gpu.fail("product", f"the name of a GPU as in its node label is needed, not {product!r}")
        names.add(name)
    return tuple(sorted(names))


def _memory(gpu: Fields, vendor: str) -> int | None:
    """Bytes each GPU must have at least."""
    value = gpu.get("memory")
    if value is None:
        return None
    if vendor == "intel":
        raise gpu.fail("memory", "no label tells the memory of one Intel GPU; ask for the product")
    try:
        nanos = parse_quantity(value)
    except BadInput as error:
        raise gpu.fail("memory", error.cause) from error
    if nanos <= 0 or nanos > (2**63 - 1) * NANO:
        raise gpu.fail("memory", f"an amount such as 40Gi is needed, not {value!r}")
    return -(-nanos // NANO)


def _node_selector(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Labels a node must carry with exactly these values, sorted."""
    pairs = []
    for key, value in fields.mapping("node_selector").items():
        prefix, slash, name = str(key).rpartition("/")
        named = len(name) <= LABEL_LENGTH and _LABEL_NAME.fullmatch(name)
        if not isinstance(key, str) or not named or (slash and not DNS_NAME.fullmatch(prefix)):
            raise fields.fail("node_selector", f"{key!r} cannot be the key of a label")
        if not isinstance(value, str) or not _label_value(value):
            raise fields.fail(
                f"node_selector.{key}", f"a text that can be the value of a label is needed, not {value!r}"
            )
        pairs.append((key, value))
    return tuple(sorted(pairs))


def _label_value(value: str) -> bool:
    """Whether a node could carry a label of this value."""
    return len(value) <= LABEL_LENGTH and bool(_LABEL_VALUE.fullmatch(value))


def arch_name(value: str) -> str:
    """An architecture as nodes are labelled with it, from that or from what the kernel calls it."""
    return _ARCHITECTURES.get(value.lower(), value.lower())


def vendor_names(value: str) -> tuple[str, ...]:
    """All spellings of a CPU's vendor, the usual label value first; an unknown vendor has only its own."""
    for names in _VENDORS.values():
        if value.lower() in (name.lower() for name in names):
            return names
    return (value,)


def is_cpu_vendor(value: str) -> bool:
    """Whether a word is the name of a maker of CPUs."""
    return value.lower() in (name.lower() for names in _VENDORS.values() for name in names)


def flag_name(value: str) -> str:
    """A CPU flag as node-feature-discovery spells it, from that or from Linux's spelling (avx512_vnni, fma)."""
    plain = re.sub(r"[^a-z0-9]", "", value.lower())
    if plain in _FLAG_NAMES:
        return _FLAG_NAMES[plain]
    if value.isupper() and not plain.startswith(("avx", "amx", "sse")):
        return value
    return plain.upper()


def has_flag(asked: str, seen: t.Iterable[str]) -> bool:
    """Whether a flag is among those a kernel listed, whatever their spelling."""
    name = _SHOWN_AS.get(asked, asked)
    return name.replace("_", "") in {flag_name(flag).replace("_", "") for flag in seen}


def level_number(value: str) -> int | None:
    """The number of a level, from texts like x86-64-v3, X86_64_V3 or v3; None when it is no level."""
    found = _LEVEL.fullmatch(value)
    return int(found[1]) if found else None


def level_name(level: int) -> str:
    """A level as compilers call it."""
    return f"x86-64-v{level}"


def product_name(value: str, vendor: str) -> str:
    """A GPU's product name as a label value: NVIDIA's labels have '-' for spaces, those of others '_'."""
    return re.sub(r"\s+", "-" if vendor == "nvidia" else "_", value.strip())
