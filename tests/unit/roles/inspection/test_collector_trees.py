# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The collector on machines written down: control groups of both versions, and processors that are not here."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support.collector_run import (
    SHELLS,
    Ran,
    run_collector,
    shell_command,
    small_path,
)

Files = dict[str, str]

GIB = 1 << 30
# What the kernel says in version 1 where nobody set a limit.
UNLIMITED = "9223372036854771712"
OWN = "/kubepods.slice/kubepods-pod1.slice/cri-containerd-c1.scope"
POD = "/kubepods.slice/kubepods-pod1.slice"

# The groups of a pod with two containers, as a node with version 2 shows them: the container may use three quarters of
# a processor, its pod one and a half; the pod may use a gigabyte. memory.high and the counters that have names like
# those that are read differ from them.
VERSION_2: Files = {
    "proc/self/cgroup": f"0::{OWN}\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    "sys/fs/cgroup/cgroup.procs": "1\n",
    "sys/fs/cgroup/cpu.stat": "nr_periods 7000\nnr_throttled 700\nthrottled_usec 70\n",
    "sys/fs/cgroup/kubepods.slice/cgroup.procs": "",
    "sys/fs/cgroup/kubepods.slice/cpu.max": "max 100000\n",
    "sys/fs/cgroup/kubepods.slice/memory.max": "8589934592\n",
    f"sys/fs/cgroup{POD}/cgroup.procs": "",
    f"sys/fs/cgroup{POD}/cpu.max": "150000 100000\n",
    f"sys/fs/cgroup{POD}/memory.max": f"{GIB}\n",
    f"sys/fs/cgroup{POD}/memory.high": f"{GIB // 2}\n",
    f"sys/fs/cgroup{OWN}/cgroup.procs": "123\n",
    f"sys/fs/cgroup{OWN}/cpu.max": "15000 20000\n",
    f"sys/fs/cgroup{OWN}/cpu.stat": (
        "usage_usec 900\nuser_usec 800\nsystem_usec 100\nnr_periods 20\nnr_throttled 3\nthrottled_usec 4500\n"
        "nr_bursts 0\nburst_usec 0\n"
    ),
    f"sys/fs/cgroup{OWN}/memory.max": "max\n",
    f"sys/fs/cgroup{OWN}/memory.high": f"{GIB // 4}\n",
    f"sys/fs/cgroup{OWN}/memory.current": "1000\n",
    f"sys/fs/cgroup{OWN}/memory.peak": "123456789\n",
    f"sys/fs/cgroup{OWN}/memory.events": "low 0\nhigh 9\nmax 8\noom 5\noom_kill 2\noom_group_kill 1\n",
}
# The same pod on a node with version 1, where each controller has a tree of its own.
VERSION_1: Files = {
    "proc/self/cgroup": f"12:pids:{OWN}\n8:cpu,cpuacct:{OWN}\n5:memory:{OWN}\n1:name=systemd:{OWN}\n0::{OWN}\n",
    "sys/fs/cgroup/cpu,cpuacct/cgroup.procs": "1\n",
    f"sys/fs/cgroup/cpu,cpuacct{POD}/cpu.cfs_quota_us": "150000\n",
    f"sys/fs/cgroup/cpu,cpuacct{POD}/cpu.cfs_period_us": "100000\n",
    f"sys/fs/cgroup/cpu,cpuacct{OWN}/cgroup.procs": "123\n",
    f"sys/fs/cgroup/cpu,cpuacct{OWN}/cpu.cfs_quota_us": "15000\n",
    f"sys/fs/cgroup/cpu,cpuacct{OWN}/cpu.cfs_period_us": "20000\n",
    f"sys/fs/cgroup/cpu,cpuacct{OWN}/cpu.stat": "nr_periods 20\nnr_throttled 3\nthrottled_time 4500000\n",
    "sys/fs/cgroup/memory/cgroup.procs": "1\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{UNLIMITED}\n",
    f"sys/fs/cgroup/memory{POD}/memory.limit_in_bytes": f"{GIB}\n",
    f"sys/fs/cgroup/memory{POD}/memory.soft_limit_in_bytes": f"{GIB // 2}\n",
    f"sys/fs/cgroup/memory{OWN}/cgroup.procs": "123\n",
    f"sys/fs/cgroup/memory{OWN}/memory.limit_in_bytes": f"{UNLIMITED}\n",
    f"sys/fs/cgroup/memory{OWN}/memory.usage_in_bytes": "1000\n",
    f"sys/fs/cgroup/memory{OWN}/memory.max_usage_in_bytes": "123456789\n",
    f"sys/fs/cgroup/memory{OWN}/memory.oom_control": "oom_kill_disable 0\nunder_oom 1\noom_kill 2\n",
}
# What a run adds to the counters of either.
LATER_2: Files = {
    f"sys/fs/cgroup{OWN}/cpu.stat": "usage_usec 9000\nnr_periods 31\nnr_throttled 8\nthrottled_usec 6700\n",
    f"sys/fs/cgroup{OWN}/memory.events": "low 0\nhigh 90\nmax 80\noom 50\noom_kill 3\noom_group_kill 10\n",
    f"sys/fs/cgroup{OWN}/memory.peak": "223456789\n",
}
LATER_1: Files = {
    f"sys/fs/cgroup/cpu,cpuacct{OWN}/cpu.stat": "nr_periods 31\nnr_throttled 8\nthrottled_time 6700000\n",
    f"sys/fs/cgroup/memory{OWN}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    f"sys/fs/cgroup/memory{OWN}/memory.max_usage_in_bytes": "223456789\n",
}
VERSIONS = pytest.mark.parametrize(
    ("files", "later"), [(VERSION_1, LATER_1), (VERSION_2, LATER_2)], ids=["version 1", "version 2"]
)


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> str:
    """Each of the shells."""
    if not shell_command(request.param):
        pytest.skip(f"{request.param} is not on this machine")
    return str(request.param)


def written(folder: pathlib.Path, files: Files) -> pathlib.Path:
    """A folder with these files."""
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def run_on(shell: str, folder: pathlib.Path, files: Files, script: bytes = b"true\n") -> Ran:
    """A run that reads the facts of such a machine."""
    tree = written(folder / "tree", files)
    roots = {"MUSTER_PROC": str(tree / "proc"), "MUSTER_SYS": str(tree / "sys")}
    return run_collector(shell, folder, script, PATH=small_path(folder), **roots)


def limits_of(ran: Ran) -> tuple[t.Any, t.Any]:
    """What may be used of processors and memory."""
    limits = ran.item["hwinfo"]["limits"]
    return limits["cpu"], limits["memory_bytes"]


@VERSIONS
def test_the_smallest_limit_of_the_own_group_and_those_above_counts(
    shell: str, tmp_path: pathlib.Path, files: Files, later: Files
) -> None:
    assert limits_of(run_on(shell, tmp_path, files)) == (0.75, GIB)


@VERSIONS
def test_pressure_is_what_the_run_added(shell: str, tmp_path: pathlib.Path, files: Files, later: Files) -> None:
    after = written(tmp_path / "after", later)
    script = f"#!/bin/sh\ncp -r {after}/sys {tmp_path}/tree\n".encode()
    ran = run_on(shell, tmp_path, files, script)
    assert ran.item["exit_code"] == 0
    assert ran.item["hwinfo"]["pressure"] == {
        "nr_periods": 11,
        "nr_throttled": 5,
        "throttled_usec": 2200,
        "oom_kill": 1,
        "memory_peak_bytes": 223456789,
    }
    assert ran.item["usage"]["cgroup_memory_peak_bytes"] == 223456789


@VERSIONS
def test_a_run_that_changes_no_counter_felt_no_pressure(
    shell: str, tmp_path: pathlib.Path, files: Files, later: Files
) -> None:
    pressure = run_on(shell, tmp_path, files).item["hwinfo"]["pressure"]
    assert pressure == {
        "nr_periods": 0,
        "nr_throttled": 0,
        "throttled_usec": 0,
        "oom_kill": 0,
        "memory_peak_bytes": 123456789,
    }


def test_a_container_that_sees_only_its_own_group(shell: str, tmp_path: pathlib.Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
        "sys/fs/cgroup/cgroup.procs": "1\n",
        "sys/fs/cgroup/cpu.max": "200000 100000\n",
        "sys/fs/cgroup/memory.max": "268435456\n",
        "sys/fs/cgroup/memory.high": "1000\n",
    }
    assert limits_of(run_on(shell, tmp_path, files)) == (2, 268435456)


def test_a_path_of_the_host_that_the_container_does_not_see_is_the_mount_itself(
    shell: str, tmp_path: pathlib.Path
) -> None:
    files = {
        "proc/self/cgroup": f"8:cpu,cpuacct:{OWN}\n5:memory:{OWN}\n",
        "sys/fs/cgroup/cpu/cgroup.procs": "1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/cgroup.procs": "1\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
    }
    assert limits_of(run_on(shell, tmp_path, files)) == (0.5, 268435456)


@pytest.mark.parametrize(
    "files",
    [
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
            "sys/fs/cgroup/cgroup.procs": "1\n",
            "sys/fs/cgroup/cpu.max": "max 100000\n",
            "sys/fs/cgroup/memory.max": "max\n",
        },
        {
            "proc/self/cgroup": "8:cpu,cpuacct:/\n5:memory:/\n",
            "sys/fs/cgroup/cpu/cgroup.procs": "1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/cgroup.procs": "1\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{UNLIMITED}\n",
        },
    ],
    ids=["version 2", "version 1"],
)
def test_without_limits_there_are_none(shell: str, tmp_path: pathlib.Path, files: Files) -> None:
    ran = run_on(shell, tmp_path, files)
    assert limits_of(ran) == (None, None)
    absent = ran.payload["hwinfo"]["absent"]
    assert absent["limits.cpu"] == absent["limits.memory_bytes"] == "no limit is set"


def test_groups_that_cannot_be_read_are_told(shell: str, tmp_path: pathlib.Path) -> None:
    ran = run_on(shell, tmp_path, {"proc/self/cgroup": "0::/\n"})
    assert limits_of(ran) == (None, None)
    absent = ran.payload["hwinfo"]["absent"]
    assert absent["limits.cpu"] == absent["limits.memory_bytes"] == "the control group cannot be read"
    assert absent["pressure.oom_kill"] == "the control group does not count it"


def test_the_facts_of_the_machine_come_from_its_own_files(shell: str, tmp_path: pathlib.Path) -> None:
    cpu = "sys/devices/system/cpu"
    files = {
        "proc/cpuinfo": (
            "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd aes\nCPU implementer\t: 0x41\n"
            "CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\nprocessor\t: 1\n"
        ),
        "proc/meminfo": "MemFree: 3 kB\nMemTotal:       4194304 kB\nMemAvailable: 5 kB\n",
        "proc/self/status": "Name:\tsh\nCpus_allowed:\tf\nCpus_allowed_list:\t0-1,6\n",
        "proc/sys/kernel/osrelease": "6.1.0-arm64\n",
        "proc/sys/kernel/hostname": "worker-7\n",
        "sys/devices/system/node/node0/cpulist": "0-1\n",
        "sys/devices/system/node/node1/cpulist": "\n",
        f"{cpu}/cpu0/topology/core_id": "0\n",
        f"{cpu}/cpu1/topology/core_id": "1\n",
        f"{cpu}/cpu0/topology/thread_siblings_list": "0\n",
        f"{cpu}/cpu1/topology/thread_siblings_list": "1\n",
        f"{cpu}/cpu0/topology/core_siblings_list": "0-1\n",
        f"{cpu}/cpu1/topology/core_siblings_list": "0-1\n",
        f"{cpu}/cpu0/cpufreq/cpuinfo_max_freq": "3000000\n",
        f"{cpu}/cpu0/cpufreq/scaling_governor": "performance\n",
        f"{cpu}/cpu0/cache/index0/shared_cpu_list": "0-1\n",
        f"{cpu}/cpu0/cache/index0/level": "2\n",
        f"{cpu}/cpu0/cache/index0/type": "Unified\n",
        f"{cpu}/cpu0/cache/index0/size": "1024K\n",
        f"{cpu}/cpu1/cache/index0/shared_cpu_list": "0-1\n",
    }
    ran = run_on(shell, tmp_path, files)
    hwinfo = ran.item["hwinfo"]
    seen = {name: hwinfo["cpu"][name] for name in ("vendor", "family", "model", "stepping", "flags")}
    assert seen == {"vendor": "ARM", "family": 8, "model": 0xD0C, "stepping": 1, "flags": ["fp", "asimd", "aes"]}
    assert [hwinfo["cpu"][name] for name in ("sockets", "cores", "threads")] == [1, 2, 2]
    assert (hwinfo["cpu"]["mhz_max"], hwinfo["cpu"]["governor"]) == (3000, "performance")
    assert hwinfo["cpu"]["caches"] == {"L2": {"size_bytes": 1 << 20, "instances": 1}}
    assert (hwinfo["memory"]["total_bytes"], hwinfo["numa"]["nodes"]) == (4 * GIB, 2)
    assert hwinfo["limits"]["cpuset"] == "0-1,6"
    assert (hwinfo["kernel"], ran.item["hostname"]) == ("6.1.0-arm64", "worker-7")
