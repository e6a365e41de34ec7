# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of inspections as the module returns them, for the report section that compares them."""

from __future__ import annotations

import typing as t

Entry = dict[str, t.Any]
GIB = 2**30


def hwinfo(node: str = "node-1", **cpu: t.Any) -> Entry:
    """What a run saw of its machine."""
    processor = {"arch": "x86_64", "vendor": "AuthenticAMD", "family": 25, "model": 1, "level": "x86-64-v3"}
    processor |= {"brand": "AMD EPYC 7763 64-Core Processor", "threads": 128, "governor": None}
    return {
        "cpu": processor | cpu,
        "memory": {"total_bytes": 512 * GIB},
        "limits": {"cpu": 2.0, "memory_bytes": 4 * GIB, "cpuset": "0-127"},
        "gpus": [],
        "kernel": "6.12.0",
        "virtualized": False,
        "pressure": {"nr_throttled": 3},
        "node": {"name": node, "instance_type": None, "runtime": "containerd://2.1"},
    }


def item(index: int, seconds: float | None, **more: t.Any) -> Entry:
    """One run that succeeded, unless told otherwise."""
    good = {
        "index": index,
        "exit_code": 0,
        "wall_seconds": seconds,
        "usage": {"user_seconds": 0.9 * (seconds or 0), "max_rss_bytes": 50_000_000 + 1000 * index},
        "stdout": {"@result": {"rate": None if not seconds else 100 / seconds}},
        "reason": None,
        "message": "",
        "image": "registry.example.com/stack@sha256:" + "a" * 64,
        "os_release": {"id": "debian", "version_id": "13", "pretty_name": "Debian GNU/Linux 13 (trixie)"},
        "hwinfo": hwinfo(),
    }
    return {**good, **more}


def failed_item(index: int, reason: str = "oom", message: str = "the script was killed") -> Entry:
    """One run that failed."""
    return item(index, 0.2, exit_code=137, reason=reason, message=message)


def packages(**pip: str) -> Entry:
    """What a build tells about the packages of its image."""
    native = [{"name": "libc6", "version": "2.41-12"}, {"name": "python3", "version": "3.13.5-1"}]
    return {"dpkg": native, "rpm": None, "pip": [{"name": name, "version": version} for name, version in pip.items()]}


def inspection(name: str, seconds: t.Iterable[float], *more_items: Entry, **more: t.Any) -> Entry:
    """A result with runs of these wall times, then further runs."""
    items = [item(index, value) for index, value in enumerate(seconds)]
    base = {
        "name": name,
        "inspection_id": f"inspection-{name}-0123456789",
        "image": "registry.example.com/stack:sha-" + "b" * 20,
        "image_digest": "sha256:" + "a" * 64,
        "runs": [*items, *more_items],
        "status": {"build": None, "run": None},
        "reason": None,
        "message": None,
    }
    return {**base, **more}


def two_stacks() -> list[Entry]:
    """The new stack is clearly slower, one of its runs failed and one lies apart."""
    old = [10.0, 10.1, 10.2, 9.9, 10.05, 10.15, 9.95, 10.1]
    new = [11.4, 11.5, 11.3, 11.6, 11.45, 11.35, 11.5, 13.9]
    build_old = {"packages": packages(numpy="2.2.0", requests="2.32.0")}
    build_new = {"packages": packages(numpy="2.3.1", requests="2.32.0", scipy="1.16.0")}
    return [
        inspection("old", old, status={"build": build_old, "run": None}),
        inspection("new", new, failed_item(8), status={"build": build_new, "run": None}),
    ]


def section(inspections: list[Entry], **more: t.Any) -> Entry:
    """One section as the module hands it on."""
    base = {"type": "inspections", "title": None, "gangs": [], "as_of": None, "metrics": None}
    return {**base, "inspections": inspections, "allow_different_hardware": False, **more}
