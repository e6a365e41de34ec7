# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hardware facts: every key is there, and what is missing has a reason."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hwinfo import (
    HWINFO_SCHEMA,
    complete_hwinfo,
    cpu_level,
)

V1 = ["lm", "cmov", "cx8", "fpu", "fxsr", "mmx", "syscall", "sse2"]
V2 = [*V1, *["cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"]]
V3 = [*V2, *["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"]]
V4 = [*V3, *["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]]

NODE = {
    "metadata": {
        "name": "n1",
        "labels": {
            "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/zone": "eu-1a",
            "feature.node.kubernetes.io/cpu-model.family": "6",
            "unrelated": "x",
        },
    },
    "status": {"nodeInfo": {"containerRuntimeVersion": "containerd://2.0.1"}},
}


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ([], None),
        (["lm"], None),
        (V1, "x86-64-v1"),
        (V2, "x86-64-v2"),
        (V3, "x86-64-v3"),
        (V4, "x86-64-v4"),
        ([flag for flag in V4 if flag != "popcnt"], "x86-64-v1"),
        ([flag for flag in V4 if flag != "movbe"], "x86-64-v2"),
        ([flag for flag in V4 if flag != "avx512vl"], "x86-64-v3"),
    ],
)
def test_a_level_needs_all_flags_of_it_and_of_those_below(flags, level):
    assert cpu_level("x86_64", flags) == level


def test_other_machines_have_no_level():
    assert cpu_level("aarch64", V4) is None
    assert cpu_level("x86_64", None) is None


def test_all_keys_are_there_even_when_nothing_was_seen():
    found = complete_hwinfo(None, None)
    assert found["schema"] == HWINFO_SCHEMA
    assert list(found["cpu"]) == [
        *("arch", "vendor", "family", "model", "stepping", "brand", "level", "flags", "sockets", "cores", "threads"),
        *("mhz_max", "governor", "caches"),
    ]
    assert found["limits"] == {"cpu": None, "memory_bytes": None, "cpuset": None}
    assert found["gpus"] is None
    assert found["absent"]["gpus"] == found["absent"]["cpu.arch"] == "the collector did not tell it"
    assert found["absent"]["node.zone"] == "the node was not read"
    assert len(found["absent"]) == 14 + 1 + 1 + 3 + 5 + 2 + 3 + 5


def test_what_was_seen_is_kept_with_its_reasons():
    seen = {
        "schema": 1,
        "cpu": {"arch": "x86_64", "flags": V3, "level": "wrong"},
        "limits": {"cpu": 0.5, "memory_bytes": None, "cpuset": "0-1"},
        "gpus": [],
        "node": {"name": "n1"},
        "absent": {"limits.memory_bytes": "no limit is set", "cpu.arch": "stale", "gpus": "no device listed"},
        "surprise": 1,
    }
    found = complete_hwinfo(seen, None)
    assert found["cpu"]["level"] == "x86-64-v3"
    assert found["limits"]["cpu"] == 0.5
    assert found["absent"]["limits.memory_bytes"] == "no limit is set"
    assert found["absent"]["gpus"] == "no device listed"
    assert "cpu.arch" not in found["absent"]
    assert "surprise" not in found
    assert found["node"] == {"name": "n1", "labels": None, "instance_type": None, "zone": None, "runtime": None}


def test_the_node_tells_where_it_was():
    chosen = ["unknown", "feature.node.kubernetes.io/cpu-model.family"]
    found = complete_hwinfo({"node": {"name": "n1"}}, NODE, chosen)
    assert found["node"] == {
        "name": "n1",
        "labels": {"feature.node.kubernetes.io/cpu-model.family": "6"},
        "instance_type": "m5.large",
        "zone": "eu-1a",
        "runtime": "containerd://2.0.1",
    }
    assert not [path for path in found["absent"] if path.startswith("node.")]


def test_a_node_without_labels():
    found = complete_hwinfo(None, {"metadata": {"name": "bare"}})
    assert found["node"]["name"] == "bare"
    assert found["absent"]["node.zone"] == "the node has no such label"
    assert found["absent"]["node.runtime"] == "the node does not tell it"


@pytest.mark.parametrize("seen", [{"cpu": "?"}, {"absent": []}, {"node": None}, {"limits": [1]}])
def test_damaged_facts_count_as_missing(seen):
    assert complete_hwinfo(seen, None)["absent"]["cpu.vendor"] == "the collector did not tell it"
