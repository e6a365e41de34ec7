# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run takes: processor time and memory of each process, and requests as the API server itself counts them."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import re
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient

REQUESTS = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<count>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
VERBS = {"LIST": "LIST", "APPLY": "PATCH"}
# Watches are counted when they end; leases are renewed by nodes all the time, whatever else happens.
LEFT_OUT_VERBS = frozenset({"WATCH", "CONNECT"})
LEFT_OUT_RESOURCES = frozenset({"", "leases"})
# A cluster at rest takes less than this share of a processor for so many seconds in a row; waited for at most so long.
REST, CALM_SECONDS, REST_PATIENCE = 0.25, 3, 90.0


@dataclasses.dataclass(frozen=True)
class Account:
    """What was spent: seconds of processors and peak memory in MiB by process, requests by verb and resource."""

    seconds: t.Mapping[str, float]
    memory: t.Mapping[str, float]
    requests: t.Mapping[str, int]


class Meter:
    """Counts what processes spend, given by name and id, from now on."""

    def __init__(self, client: KubeClient, processes: t.Mapping[str, int]) -> None:
        """The counters of requests come first: what it takes to read them is nobody's."""
        self._client = client
        self._processes = processes
        self._requests = self._read_requests()
        self._seconds = self._read_seconds()

    def read(self) -> Account:
        """What was spent until now."""
        seconds, memory = self._read_seconds(), {name: peak_memory(pid) for name, pid in self._processes.items()}
        return Account(
            {name: spent - self._seconds[name] for name, spent in seconds.items()},
            memory,
            {name: count - self._requests.get(name, 0) for name, count in self._read_requests().items()},
        )

    def _read_seconds(self) -> dict[str, float]:
        return {name: processor_seconds(pid) for name, pid in self._processes.items()}

    def _read_requests(self) -> dict[str, int]:
        return read_requests(self._client.request("GET", "/metrics", accept="text/plain").body.decode())


def wait_for_rest(processes: t.Mapping[str, int]) -> None:
    """Wait until these processes together have taken little for a while: what they start with is nobody's."""
    calm, deadline = 0, time.monotonic() + REST_PATIENCE
    while calm < CALM_SECONDS and time.monotonic() < deadline:
        before = sum(map(processor_seconds, processes.values()))
        time.sleep(1.0)
        calm = calm + 1 if sum(map(processor_seconds, processes.values())) - before < REST else 0


def processor_seconds(pid: int) -> float:
    """Seconds that a process has had of any processor."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    # Of the fields behind the name: user and system time.
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def peak_memory(pid: int) -> float:
    """The most memory that a process has had, in MiB."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return int(re.search(r"^VmHWM:\s+(\d+) kB", text, re.MULTILINE).group(1)) / 1024


def read_requests(text: str) -> dict[str, int]:
    """Requests by verb and resource in the text of an API server's metrics; dry runs are told apart."""
    found: collections.Counter[str] = collections.Counter()
    for line in REQUESTS.finditer(text):
        labels = dict(LABEL.findall(line["labels"]))
        if labels["verb"] in LEFT_OUT_VERBS or labels["resource"] in LEFT_OUT_RESOURCES:
            continue
        verb = VERBS.get(labels["verb"], labels["verb"])
        resource = "/".join(filter(None, (labels["resource"], labels.get("subresource"))))
        dry = " (dry run)" if labels.get("dry_run") else ""
        found[f"{verb} {resource}{dry}"] += int(float(line["count"]))
    return dict(found)
