# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hardware facts of a run: what the process saw, completed with what the API server knows of the node.

Every key is always there. An unknown fact is null, and `absent` says why under its path (cpu.governor).
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

HWINFO_SCHEMA = 1

_UNTOLD = "the collector did not tell it"
_UNREAD = "the node was not read"
_UNLABELED = "the node has no such label"

_PARTS: Mapping[str, tuple[str, ...]] = {
    "cpu": (
        "arch",
        "vendor",
        "family",
        "model",
        "stepping",
        "brand",
        "level",
        "flags",
        "sockets",
        "cores",
        "threads",
        "mhz_max",
        "governor",
        "caches",
    ),
    "memory": ("total_bytes",),
    "numa": ("nodes",),
    "limits": ("cpu", "memory_bytes", "cpuset"),
    "pressure": ("nr_periods", "nr_throttled", "throttled_usec", "oom_kill", "memory_peak_bytes"),
    "os": ("id", "version"),
}
_SINGLE = ("gpus", "kernel", "virtualized")

# The flags of each level as Linux spells them; a level has all those of the levels below.
_LEVELS: Sequence[tuple[str, ...]] = (
    ("lm", "cmov", "cx8", "fpu", "fxsr", "mmx", "syscall", "sse2"),
    ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
    ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"),
    ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
)


def cpu_level(arch: str | None, flags: Collection[str] | None) -> str | None:
    """The x86-64 level that all these flags make up: x86-64-v1 to x86-64-v4; None on other machines."""
    if arch not in ("x86_64", "amd64") or not flags:
        return None
    present = set(flags)
    level = 0
    for needed in _LEVELS:
        if not present.issuperset(needed):
            break
        level += 1
    return f"x86-64-v{level}" if level else None


def complete_hwinfo(
    seen: Mapping[str, t.Any] | None, node: Mapping[str, t.Any] | None, labels: Collection[str] = ()
) -> Data:
    """All facts: seen is what the collector wrote, node the Node object, labels those of it that are worth keeping."""
    given = seen or {}
    absent = {str(path): str(reason) for path, reason in _mapping(given.get("absent")).items()}
    found: Data = {"schema": HWINFO_SCHEMA}
    for part, keys in _PARTS.items():
        values = _mapping(given.get(part))
        found[part] = {key: values.get(key) for key in keys}
    for key in _SINGLE:
        found[key] = given.get(key)
    found["cpu"]["level"] = cpu_level(found["cpu"]["arch"], found["cpu"]["flags"])
    found["node"], reasons = _node(_mapping(given.get("node")).get("name"), node, labels)
    absent.update(reasons)
    found["absent"] = {path: absent.get(path, _UNTOLD) for path in _null_paths(found)}
    return found


def _mapping(value: t.Any) -> Mapping[str, t.Any]:
    """A mapping, empty for anything else: others may have damaged the facts."""
    return value if isinstance(value, Mapping) else {}


def _node(name: str | None, node: Mapping[str, t.Any] | None, wanted: Collection[str]) -> tuple[Data, dict[str, str]]:
    """Where the run was, and why some of that is not known."""
    if node is None:
        unknown: Data = {"name": name, "labels": None, "instance_type": None, "zone": None, "runtime": None}
        return unknown, {f"node.{key}": _UNREAD for key, value in unknown.items() if value is None}
    metadata = _mapping(node.get("metadata"))
    labels = _mapping(metadata.get("labels"))
    info = _mapping(_mapping(node.get("status")).get("nodeInfo"))
    found: Data = {
        "name": metadata.get("name") or name,
        "labels": {key: str(labels[key]) for key in sorted(wanted) if key in labels},
        "instance_type": labels.get("node.kubernetes.io/instance-type"),
        "zone": labels.get("topology.kubernetes.io/zone"),
        "runtime": info.get("containerRuntimeVersion"),
    }
    reasons = {f"node.{key}": _UNLABELED for key in ("instance_type", "zone")}
    return found, {**reasons, "node.runtime": "the node does not tell it"}


def _null_paths(found: Data) -> list[str]:
    """The paths of all facts that are null, and of an empty list of GPUs, which needs a reason as well."""
    paths = []
    for key, value in found.items():
        if isinstance(value, Mapping):
            paths += [f"{key}.{inner}" for inner, fact in value.items() if fact is None]
        elif value is None or value == []:
            paths.append(key)
    return paths
