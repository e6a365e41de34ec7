# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What queueing costs: the same gangs with nobody before them (the floor), through Kueue, and through this collection.

Each system has a fresh cluster of its own for each load, all of equal configuration; one follows the other. All are
real: API server, scheduler, controllers; only nodes and what runs there are simulated.

floor  the Jobs are created directly
kueue  the same Jobs with the label of a queue whose quota is all the room; Kueue's limits and numbers of workers are
       raised as far as its catalogue entry says, and its webhooks do not see the pods of Jobs
ours   records of gangs with the same Jobs; the dispatcher is a process of its own
mcad   AppWrappers with the same Jobs, and ours with the same AppWrappers beside it (load `wrappers` only)

ones, fours, sixteens  equal gangs of 1, 4 and 16 pods that all fit
podless                gangs whose Jobs are managed by nobody, so that there are no pods: admission alone. A dispatcher
                       has at most 1,000 pods missing where none come, so that there is no use in more of them
competing              gangs of 1, 4 and 16 pods, each with arguments, a variable and a container name of its own, that
                       find room for a tenth of them at once
wrappers               one-pod AppWrappers

The clock runs from the first request that creates a gang's object, sent when dispatcher, Kueue or MCAD are at work
(ours has had its first cycle, Kueue's queue is active) and the processes of the cluster have come to rest. Objects are
created with 16 connections. It is read when
  decided   the last gang's start was decided: its uid is in a batch on our Lease; its Workload has an admission
  created   its Job is there; with Kueue, where Jobs are there from the beginning, it is no longer suspended
  bound     its last pod has a node. The time that is compared; for podless it is `created`
  ended     its last pod has ended (competing only)
by an observer, a process of its own with watches of metadata only, equal for all but for the one on what decides.

"From room free to pods bound" (competing): places of pods are taken in the order in which they became free: first those
free from the beginning, then that of each pod that ended. Gangs take as many as they have pods, in the order in which
their last pods were bound; room is free for a gang when the last place it takes is. Gangs that take places that were
free from the beginning are left out. The time includes what Job controller and queue need to see the end of a Job.

core-ms are user and system time of each process of the cluster, and of the dispatcher, from the first request until
all pods run and the dispatcher has told so of each gang, and two seconds more; creator and observer are told apart.
Requests are those that the API server counted in that time, without watches and leases. Memory is each process' peak.
Bars are printed whatever the size; the word MISSED says that one was not kept. --former-rate is what an earlier state
of the code did with the competing gangs in the same way; ours has to be five times as fast.

Usage: dispatch.py [--loads ones fours sixteens podless competing wrappers] [--systems floor kueue ours mcad]
                   [--scale 1.0] [--seed 1] [--nodes 200] [--ones 1000] [--fours 1000] [--sixteens 200] [--podless 1000]
                   [--competing 3000] [--run-seconds 10 20 40] [--former-rate GANGS/S] [--wrappers 150]
"""

from __future__ import annotations

import argparse
import os
import re

from ansible_collections.muster.kube.bench.dispatching.figures import show_bars, show_run
from ansible_collections.muster.kube.bench.dispatching.loads import build_load
from ansible_collections.muster.kube.bench.dispatching.systems import CONNECTIONS, measure
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import read_catalogue
from ansible_collections.muster.kube.tests.support.shared_cluster import FILES

LOADS = ("ones", "fours", "sixteens", "podless", "competing", "wrappers")
SYSTEMS = ("floor", "kueue", "ours", "mcad")
WRAPPER_SYSTEMS = ("ours", "mcad")


def kueue_settings() -> str:
    """Version, limits and numbers of workers of Kueue, as its catalogue entry sets them."""
    catalogue = read_catalogue(FILES)
    text = dict(catalogue.operators["kueue"].files)["kueue.yaml"]
    settings = re.findall(r"^\s+(qps|burst|[A-Z]\w+\.[\w.-]+): (\d+)$", text, re.MULTILINE)
    return f"{catalogue.programs['kueue'].version}, {', '.join(' '.join(pair) for pair in settings)}"


def bench(name: str, arguments: argparse.Namespace) -> None:
    """One load, by all systems that can carry it."""
    load = build_load(name, arguments)
    able = [system for system in arguments.systems if (system in WRAPPER_SYSTEMS if load.wrapped else system != "mcad")]
    print(f"\n{load.name}: {load.words}", flush=True)
    runs = {}
    for system in able:
        runs[system] = measure(system, load)
        show_run(runs[system], runs.get("floor"))
    show_bars(load, runs, arguments.former_rate)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=LOADS)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--ones", type=int, default=1000)
    parser.add_argument("--fours", type=int, default=1000)
    parser.add_argument("--sixteens", type=int, default=200)
    parser.add_argument("--podless", type=int, default=1000)
    parser.add_argument("--competing", type=int, default=3000)
    parser.add_argument("--run-seconds", type=float, nargs=3, default=(10.0, 20.0, 40.0))
    parser.add_argument("--former-rate", type=float)
    parser.add_argument("--wrappers", type=int, default=150)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, scale {arguments.scale:g}, {os.cpu_count()} cores, {CONNECTIONS} connections")
    print(f"Kueue {kueue_settings()}")
    for name in arguments.loads:
        bench(name, arguments)


if __name__ == "__main__":
    main()
