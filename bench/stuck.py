# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gangs that do not come along cost the others: ordinary gangs alone, and beside one stuck gang of each kind.

ready      its first object never gets the condition that the next one waits for
webhook    a webhook takes four seconds for each of its objects
finalizer  its undo does not end, since one of its objects stays
record     its record may not be written
never      it is larger than the cluster, under a policy in which everybody waits for the first

The stuck ones come first in the queue. Each round is a fresh cluster of the same size; the best rounds are compared.
Time runs from the first cycle to the moment the last ordinary gang is running.

Usage: stuck.py [--kinds ready webhook finalizer record never] [--gangs 200] [--nodes 50] [--rounds 2] [--most 900]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import sys
import tempfile
import time

from ansible.plugins.loader import init_plugin_loader

NAMESPACE = "bench"
PODS = 4
BAR = 1.1
WEBHOOK_SECONDS = 4.0
SLOW = {"example.com/slow": "true"}
KINDS = ("ready", "webhook", "finalizer", "record", "never")


def dispatch(cluster, until, most: float):
    """Dispatch in this process, in strict order, until the phases are as wanted or the time is over."""
    from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
    from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions

    auth = {"kubeconfig": cluster.kubeconfig}
    terms = DispatchOptions(namespaces=(NAMESPACE,), duration=most, policy="strict")
    started = time.monotonic()
    result = run_dispatch(connect(auth), connect(auth), terms, lambda text: None, until=until)
    return time.monotonic() - started, result


def submit(cluster, name: str, *objects: dict, priority: int = 0) -> str:
    """Queue a gang; its uid."""
    from ansible_collections.muster.kube.tests.support.gang_cases import gang_record

    [made] = cluster.create(gang_record(name, NAMESPACE, objects, priority=priority))
    return made["metadata"]["uid"]


def work(name: str, pods: int = 1, **requests: str) -> dict:
    """A Job."""
    from ansible_collections.muster.kube.tests.support.gang_cases import job

    return job(name, "bench", pods, **(requests or {"cpu": "1"}))


def never_ready(cluster, _stack, _directory) -> None:
    """A gang whose first object is never ready."""
    from ansible_collections.muster.kube.tests.support.gang_cases import service

    first = service("ready")
    first["metadata"]["annotations"] = {"muster.kube/ready-before-next": "Ready=True"}
    submit(cluster, "stuck-ready", first, work("ready"), priority=1)


def slow_webhook(cluster, stack, directory) -> None:
    """A gang whose objects pass a slow webhook."""
    from ansible_collections.muster.kube.tests.support.webhook_server import WebhookServer, slow

    jobs = [work(f"webhook-{number}") for number in range(3)]
    for obj in jobs:
        obj["metadata"]["labels"] = SLOW
    server = stack.enter_context(WebhookServer(cluster.client, directory))
    server.register("validating", NAMESPACE, work("probe"), slow(WEBHOOK_SECONDS), labels=SLOW)
    submit(cluster, "stuck-webhook", *jobs, priority=1)


def stuck_finalizer(cluster, _stack, _directory) -> None:
    """A gang that is being undone, and one of whose objects stays."""
    import json

    from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
    from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
    from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch

    held = work("finalizer")
    held["metadata"]["finalizers"] = ["example.com/stays"]
    uid = submit(cluster, "stuck-finalizer", held)
    dispatch(cluster, lambda phases: phases.get(uid) == "running", 120.0)
    path = resource_path("v1", "configmaps", NAMESPACE, "stuck-finalizer")
    record = get_object(cluster.client, path)
    text = json.dumps({**json.loads(record["data"]["gang.json"]), "suspended": True})
    patch(cluster.client, path, {"data": {"gang.json": text}})
    dispatch(cluster, lambda phases: phases.get(uid) == "undoing", 120.0)


def denied_record(cluster, stack, _directory) -> None:
    """A gang whose record may not be written."""
    from ansible_collections.muster.kube.tests.support.webhook_server import update_denied

    submit(cluster, "stuck-record", work("record"), priority=1)
    stack.enter_context(update_denied(cluster.client, NAMESPACE, "stuck-record"))


def never_fitting(cluster, _stack, _directory) -> None:
    """A gang that is larger than the cluster."""
    submit(cluster, "stuck-never", work("never", 1, cpu="100000"), priority=1)


# In the order in which they are made: the one that must have been started comes before all that are only queued.
MAKERS = {
    "finalizer": stuck_finalizer,
    "ready": never_ready,
    "webhook": slow_webhook,
    "record": denied_record,
    "never": never_fitting,
}


def measure(arguments: argparse.Namespace, kinds: list[str]) -> float | None:
    """Seconds until the ordinary gangs run beside stuck ones of these kinds; None when they do not."""
    from ansible_collections.muster.kube.tests.support.gang_cases import node_pool
    from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster

    per_node = -(-PODS * arguments.gangs // arguments.nodes) + 2
    with (
        running_cluster(f"bench-stuck-{os.getpid()}") as cluster,
        tempfile.TemporaryDirectory() as directory,
        contextlib.ExitStack() as stack,
    ):
        cluster.add_nodes(node_pool("bench", arguments.nodes, cpu=str(per_node), memory="256Gi"))
        cluster.namespace(NAMESPACE)
        for kind in sorted(kinds, key=list(MAKERS).index):
            MAKERS[kind](cluster, stack, pathlib.Path(directory))
        names = [f"g{number:04d}" for number in range(arguments.gangs)]
        uids = [submit(cluster, name, work(name, PODS)) for name in names]

        def started(phases) -> bool:
            """Whether all ordinary gangs run."""
            return all(phases.get(uid) == "running" for uid in uids)

        seconds, result = dispatch(cluster, started, arguments.most)
        running = sum(result.phases.get(uid) == "running" for uid in uids)
    what = f"beside {', '.join(kinds)}" if kinds else "alone"
    sent = sum(result.requests.values())
    print(
        f"  {running} of {len(uids)} gangs {what}: {seconds:.1f} s; {result.cycles} cycles, {sent} requests; "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return seconds if running == len(uids) else None


def main() -> None:
    """Read the arguments and run; alone and beside take turns, so that a load from outside meets both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--gangs", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--most", type=float, default=900.0)
    arguments = parser.parse_args()
    init_plugin_loader()
    print(f"{arguments.gangs} gangs of {PODS} pods on {arguments.nodes} nodes, {os.cpu_count()} cores")
    times: dict[bool, list[float]] = {False: [], True: []}
    for _round in range(arguments.rounds):
        for stuck in (False, True):
            seconds = measure(arguments, arguments.kinds if stuck else [])
            if seconds is None:
                sys.exit("  not all ordinary gangs were started in time")
            times[stuck].append(seconds)
    alone, beside = min(times[False]), min(times[True])
    kept = "kept" if beside / alone <= BAR else "MISSED"
    print(f"  alone {alone:.1f} s, beside stuck ones {beside:.1f} s: ratio {beside / alone:.2f} (bar {BAR}): {kept}")


if __name__ == "__main__":
    main()
