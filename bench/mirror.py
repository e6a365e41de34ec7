# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run of many cycles costs on a large cluster: the first cycle, one after a pod ended, and doing nothing.

A real API server is filled as in fit.py, and with gangs that wait because nothing of theirs fits. One fresh process
dispatches; while it does, pods end one by one, and then nothing happens for a while.

Usage: mirror.py [--nodes 5000] [--pods 50000] [--gangs 1000] [--seed 1] [--ends 10] [--idle 60]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import fit
from ansible.plugins.loader import init_plugin_loader

COLD_SECONDS = 3.0
CYCLE_MS = 100
PEAK_MIB = 300
IDLE_PERCENT = 1.0
TEAM = "team"
# Numbers in verdicts that changed are written no sooner than this after the last time.
SETTLE_SECONDS = 65.0


def waiting_job(number: int) -> dict:
    """A Job with arguments of its own, of pods that no node is large enough for."""
    job = fit.build_job(f"wait-{number}", 4, {"cpu": "64", "memory": "128Gi"})
    job["spec"]["template"]["spec"]["containers"][0]["args"] = [str(number)]
    return job


def queue_gangs(client, count: int) -> None:
    """Gangs of one Job each."""
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import parallel
    from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
    from ansible_collections.muster.kube.tests.support.gang_cases import gang_record

    create(client, "/api/v1/namespaces", {"metadata": {"name": TEAM}})

    def queue(number: int) -> None:
        record = gang_record(f"wait-{number}", TEAM, [waiting_job(number)])
        create(client, f"/api/v1/namespaces/{TEAM}/configmaps", record)

    parallel([lambda number=number: queue(number) for number in range(count)], fit.WIDTH)


def dispatch(kubeconfig: str, ends: int, idle: float) -> None:
    """One process: cycles until pods have ended and nothing happened for a while; print figures as JSON."""
    from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
    from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
    from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions

    client, renewal, other = (connect({"kubeconfig": kubeconfig}) for _use in range(3))
    cycles: list[dict[str, float]] = []
    quiet: dict[str, float] = {}
    measured: list[int] = []
    last, written = 0.0, 0

    def go_on(_phases) -> bool:
        """End one pod after each cycle, then wait; the first cycles still tell all gangs why they wait."""
        nonlocal last, written
        if len(measured) < ends:
            if len(cycles) > 3 and cycles[-1].get("tell", 0.0) < 0.05:
                measured.append(len(cycles))
            patch(
                other, f"/api/v1/namespaces/default/pods/p{len(cycles):06d}/status", {"status": {"phase": "Succeeded"}}
            )
            last = time.monotonic()
        elif client.writes != written:
            last, written = time.monotonic(), client.writes
        elif not quiet and time.monotonic() - last >= SETTLE_SECONDS:
            quiet.update(
                at=time.monotonic(), cpu=time.process_time(), writes=client.writes, reads=client.requests["GET"]
            )
        return bool(quiet) and time.monotonic() - quiet["at"] >= idle

    run_dispatch(
        client,
        renewal,
        DispatchOptions(namespaces=(TEAM,), duration=600.0),
        lambda _line: None,
        until=go_on,
        on_cycle=lambda cycle: cycles.append(dict(cycle.seconds)),
    )
    seconds = time.monotonic() - quiet["at"]
    after = [cycles[number] for number in measured]
    print(
        json.dumps(
            {
                "cold": cycles[0],
                "after": {part: sorted(item.get(part, 0.0) for item in after)[len(after) // 2] for part in after[0]},
                "all_ms": 1000 * sorted(sum(item.values()) for item in after)[len(after) // 2],
                "idle_percent": 100 * (time.process_time() - quiet["cpu"]) / seconds,
                "idle_writes": client.writes - quiet["writes"],
                "idle_reads": client.requests["GET"] - quiet["reads"],
                "peak_mib": fit.peak_memory_mib(),
            }
        )
    )


def measure(arguments: argparse.Namespace) -> None:
    """Fill a cluster, dispatch, print a table."""
    from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster

    with running_cluster(f"bench-{os.getpid()}") as cluster:
        cluster.stop_components("kube-controller-manager", "kube-scheduler", "kwok")
        fit.fill(cluster.client, arguments.nodes, arguments.pods, arguments.seed)
        queue_gangs(cluster.client, arguments.gangs)
        options = ["--ends", str(arguments.ends), "--idle", str(arguments.idle)]
        answer = subprocess.run(
            [sys.executable, __file__, "--dispatch", cluster.kubeconfig, *options],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        show(arguments, json.loads(answer.stdout.splitlines()[-1]))


def show(arguments: argparse.Namespace, figures: dict) -> None:
    """The table; load is printed because it explains the rest."""
    print(
        f"\n{arguments.nodes} nodes, {arguments.pods} pods, {arguments.gangs} waiting gangs, seed {arguments.seed}; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    cold, after = sum(figures["cold"].values()), figures["after"]
    rows = [
        ("first cycle, s", cold, COLD_SECONDS),
        ("of it reading, s", figures["cold"]["read"], None),
        ("a cycle after one pod ended, ms", figures["all_ms"], CYCLE_MS),
        ("of it reading, ms", 1000 * after["read"], None),
        ("of it deciding, ms", 1000 * after["decide"], None),
        ("idle, percent of a core", figures["idle_percent"], IDLE_PERCENT),
        ("idle, writes but the Lease's", figures["idle_writes"], 0),
        ("idle, reads", figures["idle_reads"], None),
        ("peak memory, MiB", figures["peak_mib"], PEAK_MIB),
    ]
    print("\n| what | figure | bar |\n|---|---|---|")
    for name, figure, bar in rows:
        kept = "" if bar is None else f"{bar} {'kept' if figure <= bar else 'MISSED'}"
        print(f"| {name} | {figure:.3g} | {kept} |")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--gangs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ends", type=int, default=10)
    parser.add_argument("--idle", type=float, default=60.0)
    parser.add_argument("--dispatch", metavar="KUBECONFIG", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    init_plugin_loader()
    if arguments.dispatch:
        dispatch(arguments.dispatch, arguments.ends, arguments.idle)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
