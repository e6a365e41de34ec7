# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collector against this machine: lscpu, /proc and the control groups say the same."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest
from ansible_collections.muster.kube.tests.support.collector_run import (
    Ran,
    run_collector,
    shell_command,
    small_path,
)

ROOT = pathlib.Path("/sys/fs/cgroup")
BUSY = b"#!/bin/sh\ni=0\nwhile [ $i -lt 400000 ]; do i=$((i + 1)); done\n"
SIZES = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


@pytest.fixture(scope="module")
def lscpu():
    """What lscpu says, by the name of the field; nested fields come out flat."""
    found = {}

    def take(fields):
        for field in fields:
            found[field["field"].rstrip(":")] = field.get("data")
            take(field.get("children") or ())

    text = subprocess.run(
        ["lscpu", "-J"], capture_output=True, check=True, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL
    ).stdout
    take(json.loads(text)["lscpu"])
    return found


@pytest.fixture(params=["dash", "bash", "busybox"])
def ran(request, tmp_path):
    """A run of the collector in each shell, as in an image with few programs."""
    if not shell_command(request.param):
        pytest.skip(f"{request.param} is not on this machine")
    return run_collector(request.param, tmp_path, b"true\n", PATH=small_path(tmp_path))


def test_the_processor_is_the_one_lscpu_sees(ran, lscpu):
    cpu = ran.item["hwinfo"]["cpu"]
    assert cpu["arch"] == lscpu["Architecture"]
    assert cpu["vendor"] == lscpu["Vendor ID"]
    assert cpu["brand"] == lscpu["Model name"]
    # Only x86 processors tell these.
    if cpu["arch"] == "x86_64":
        assert [cpu[key] for key in ("family", "model", "stepping")] == [
            int(lscpu[key]) for key in ("CPU family", "Model", "Stepping")
        ]
        assert set(cpu["flags"]) == set(lscpu["Flags"].split())
    assert cpu["threads"] == int(lscpu["CPU(s)"])
    assert cpu["sockets"] == int(lscpu["Socket(s)"])
    assert cpu["cores"] == int(lscpu["Core(s) per socket"]) * int(lscpu["Socket(s)"])
    assert ran.item["hwinfo"]["numa"]["nodes"] == int(lscpu["NUMA node(s)"])
    assert ran.item["hwinfo"]["virtualized"] is ("Hypervisor vendor" in lscpu)
    assert ran.payload["hwinfo"]["cpu"]["level"] == cpu["level"]


def test_the_caches_are_those_lscpu_sees(ran, lscpu):
    caches = ran.item["hwinfo"]["cpu"]["caches"]
    shown = {key.split()[0]: value for key, value in lscpu.items() if re.fullmatch(r"L\d[di]? cache", key)}
    assert set(caches) == set(shown)
    for name, text in shown.items():
        amount, unit, instances = re.fullmatch(r"([\d.]+) (\w+) \((\d+) instances?\)", text).groups()
        assert caches[name]["instances"] == int(instances)
        total = caches[name]["instances"] * caches[name]["size_bytes"]
        assert total == pytest.approx(float(amount) * SIZES[unit], rel=0.01)


def test_memory_kernel_and_system(ran):
    meminfo = pathlib.Path("/proc/meminfo").read_text()
    hwinfo = ran.item["hwinfo"]
    assert hwinfo["memory"]["total_bytes"] == int(re.search(r"MemTotal:\s+(\d+) kB", meminfo)[1]) * 1024
    assert hwinfo["kernel"] == os.uname().release
    release = ran.item["os_release"]
    assert hwinfo["os"] == {"id": release["ID"], "version": release.get("VERSION_ID")}
    assert f"{release['PRETTY_NAME']}" in pathlib.Path("/etc/os-release").read_text()
    allowed = sorted(os.sched_getaffinity(0))
    assert cpus_of(hwinfo["limits"]["cpuset"]) == allowed


def cpus_of(text: str) -> list[int]:
    """The numbers in a list like 0-3,7."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        numbers += range(int(first), int(last if dash else first) + 1)
    return numbers


class Group:
    """A control group of the test's own, of version 1 or 2, with half a processor that nobody else can take away."""

    def __init__(self, name: str) -> None:
        """Make it below the group of this process; refuse where that is not possible."""
        self.folders: list[pathlib.Path] = []
        if os.geteuid() != 0:
            pytest.skip("control groups need root")
        if (ROOT / "cpu" / "cpu.cfs_quota_us").exists():
            quota = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}
            self._make(ROOT / "cpu" / name, {**quota, "cpu.shares": "262144"})
            self._make(ROOT / "memory" / name, {"memory.limit_in_bytes": str(512 << 20)})
        elif "cpu" in (ROOT / "cgroup.subtree_control").read_text().split():
            self._make(ROOT / name, {"cpu.max": "50000 100000", "cpu.weight": "10000", "memory.max": str(512 << 20)})
        else:
            pytest.skip("control groups have no cpu controller here")

    def _make(self, folder: pathlib.Path, settings: dict[str, str]) -> None:
        """One folder with its limits."""
        folder.mkdir()
        self.folders.append(folder)
        for key, value in settings.items():
            (folder / key).write_text(value)

    def run(self, folder: pathlib.Path, script: bytes) -> Ran:
        """Run the collector inside of it."""
        enter = "; ".join(f"echo 0 >{group}/cgroup.procs" for group in self.folders)
        inside = folder / "inside.sh"
        inside.write_text(f'{enter}\nexec "$@"\n')
        return run_collector("dash", folder, script, wrapper=("/bin/sh", str(inside)))

    def remove(self) -> None:
        """Leave nothing behind: whoever is still in it has to go."""
        for folder in self.folders:
            while pids := (folder / "cgroup.procs").read_text().split():
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
            folder.rmdir()


@pytest.fixture
def group():
    made = Group(f"muster-test-{os.getpid()}")
    yield made
    made.remove()


def test_a_limit_of_half_a_processor_is_seen_and_felt(group, tmp_path):
    ran = group.run(tmp_path, BUSY)
    hwinfo = ran.item["hwinfo"]
    assert ran.code == 0
    assert hwinfo["limits"]["cpu"] == 0.5
    assert hwinfo["limits"]["memory_bytes"] == 512 << 20
    assert hwinfo["pressure"]["nr_periods"] > 0
    assert hwinfo["pressure"]["nr_throttled"] > 0
    assert hwinfo["pressure"]["throttled_usec"] > 0
    assert hwinfo["pressure"]["oom_kill"] == 0
    assert 0 < hwinfo["pressure"]["memory_peak_bytes"] <= 512 << 20
    assert ran.item["usage"]["cgroup_memory_peak_bytes"] == hwinfo["pressure"]["memory_peak_bytes"]
    assert ran.item["wall_seconds"] > ran.item["usage"]["user_seconds"]


def test_a_script_out_of_memory_is_told_apart_from_one_that_was_killed(group, tmp_path):
    ran = group.run(tmp_path, b"#!/usr/bin/env python3\nprint('begun', flush=True)\nbytearray(900 << 20)\n")
    assert (ran.item["exit_code"], ran.item["signal"], ran.item["reason"]) == (137, 9, "oom")
    assert ran.item["stdout"] == "begun\n"
    assert ran.item["hwinfo"]["pressure"]["oom_kill"] > 0
