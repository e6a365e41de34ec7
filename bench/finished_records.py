# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What finished gangs cost a dispatcher: warm cycles with 0, 1,000 and 5,000 of them, side by side.

Some running gangs, some waiting ones that do not fit, and more and more finished ones, each with its record, its ticket
and its Job, in one namespace of one cluster. The dispatcher runs in this process. Of each number the first cycle is
told apart, since it is the one that looks at finished records. With --pods each finished gang has left a pod too.
Cycles are measured when the machine has done with the new objects.

The cluster is real: API server, scheduler, controllers; only nodes and what runs there are simulated.

Usage: finished_records.py [--finished 0 1000 5000] [--cycles 20] [--nodes 20] [--running 1] [--waiting 1] [--pods]
                           [--seed 1]
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import statistics
import time

from ansible.plugins.loader import init_plugin_loader

NAMESPACE = "bench"
LEASE_SECONDS = 120.0


def busy_seconds() -> float:
    """Seconds that the machine's processors have worked so far, all together."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system = file.readline().split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def wait_for_rest() -> None:
    """Until all processors together were busy for less than a quarter of five seconds; two minutes at most."""
    for _round in range(24):
        before = busy_seconds()
        time.sleep(5)
        if busy_seconds() - before < 5 / 4:
            return


class Meter:
    """One dispatcher whose cycles are timed."""

    def __init__(self, cluster) -> None:
        """Take a Lease of its own."""
        from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Session
        from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
        from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
        from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
        from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease

        auth = {"kubeconfig": cluster.kubeconfig}
        client = connect(auth)
        lease = LeaseOptions(NAMESPACE, "dispatch", LEASE_SECONDS)
        terms = DispatchOptions(
            namespaces=(NAMESPACE,), lease=lease, keep_finished=None, keep_finished_for=None, start_timeout=1e6
        )
        self._ledger = DispatchLease(client, lease, "bench", renewal_client=connect(auth))
        self._ledger.acquire(60.0)
        self._session = Session(client, self._ledger, terms, every_wrapper=False, identity_of=lambda _namespace: client)
        self._client = client

    def cycle(self) -> tuple[float, int]:
        """Milliseconds and requests of one cycle."""
        from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.cycle import run_cycle
        from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle

        before, started = sum(self._client.requests.values()), time.perf_counter()
        run_cycle(Cycle(self._session, lambda _text: None))
        return 1000 * (time.perf_counter() - started), sum(self._client.requests.values()) - before

    def warm_up(self) -> None:
        """Cycles until nothing happens any more: four in a row ask for the same."""
        asked = [self.cycle()[1] for _number in range(4)]
        while len(set(asked[-4:])) > 1:
            time.sleep(0.5)
            asked.append(self.cycle()[1])

    def close(self) -> None:
        """Let the next one have the Lease."""
        self._ledger.release()


def finished_gangs(cluster, first: int, last: int, rng: random.Random, *, pods: bool) -> None:
    """Records, tickets and Jobs of gangs that are over, as a dispatcher leaves them."""
    from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import PHASE_LABEL
    from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
    from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
        STATE_ANNOTATION,
        advance,
        new_state,
        state_text,
    )
    from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
        FINISHED_LABEL,
        build_ticket,
        owned_by_ticket,
        plan_objects,
    )
    from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job

    began, ended = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
    state = advance(new_state(began, "w/e/1"), "complete", ended, "Completed", "done", "w/e/2", started_at=began)
    bodies = []
    for number in range(first, last):
        name = f"over-{number:05d}-{rng.randrange(1000)}"
        work = job(name, "bench", rng.choice((1, 2, 4)), cpu="1")
        work["spec"]["managedBy"] = "example.com/nobody"
        body = gang_record(name, NAMESPACE, [work])
        body["metadata"]["labels"][PHASE_LABEL] = "complete"
        body["metadata"].setdefault("annotations", {})[STATE_ANNOTATION] = state_text(state)
        bodies.append((body, work))
    records = cluster.create(*(body for body, _work in bodies))
    plans = [
        plan_objects(
            read_spec({"name": raw["metadata"]["name"], "namespace": NAMESPACE, "objects": [work]}, "gang"),
            raw["metadata"]["uid"],
            1,
        )
        for raw, (_body, work) in zip(records, bodies, strict=True)
    ]
    drafts = []
    for raw, plan in zip(records, plans, strict=True):
        ticket = build_ticket({"apiVersion": "v1", "kind": "ConfigMap", **raw}, 1, "digest", plan)
        ticket["metadata"]["labels"][FINISHED_LABEL] = "true"
        drafts.append(ticket)
    tickets = cluster.create(*drafts)
    jobs = [owned_by_ticket(plan[0].object, made["metadata"]["uid"]) for plan, made in zip(plans, tickets, strict=True)]
    cluster.create(*jobs)
    if pods:
        cluster.create(*map(_pod_of, jobs))
        while any(pod["status"].get("phase") != "Succeeded" for pod in cluster.pods(NAMESPACE, "bench=over")):
            time.sleep(1)


def _pod_of(work: dict) -> dict:
    """A pod that the gang has left; it ends at once."""
    template = copy.deepcopy(work["spec"]["template"])
    template["metadata"]["annotations"] = {"muster.kube/run-seconds": "0"}
    template["metadata"].update(name=work["metadata"]["name"], namespace=NAMESPACE)
    template["metadata"]["labels"] = {**(template["metadata"].get("labels") or {}), "bench": "over"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]}


def measure(cluster, arguments: argparse.Namespace) -> None:
    """More and more finished gangs, and warm cycles with each number of them."""
    rng = random.Random(arguments.seed)
    present, base = 0, None
    for count in arguments.finished:
        finished_gangs(cluster, present, count, rng, pods=arguments.pods)
        present = count
        wait_for_rest()
        meter = Meter(cluster)
        first, _requests = meter.cycle()
        meter.warm_up()
        seen = [meter.cycle() for _number in range(arguments.cycles)]
        meter.close()
        times, requests = [item[0] for item in seen], {item[1] for item in seen}
        middle = statistics.median(times)
        base = base or middle
        print(
            f"{count:6d} finished: first cycle {first:7.0f} ms; warm {middle:6.0f} ms "
            f"({min(times):.0f} to {max(times):.0f}), {middle / base:.2f} of the first line; "
            f"{min(requests)} to {max(requests)} requests; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


def main() -> None:
    """Read the arguments, start a cluster and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--finished", type=int, nargs="+", default=[0, 1000, 5000])
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--running", type=int, default=1)
    parser.add_argument("--waiting", type=int, default=1)
    parser.add_argument("--pods", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    init_plugin_loader()
    from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, node_pool
    from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster

    print(
        f"seed {arguments.seed}, {os.cpu_count()} cores, {arguments.nodes} nodes, "
        f"{arguments.running} running and {arguments.waiting} waiting gangs"
    )
    with running_cluster(f"bench-finished-{os.getpid()}") as cluster:
        cluster.add_nodes(node_pool("bench", arguments.nodes, cpu="8", memory="64Gi"))
        cluster.namespace(NAMESPACE)
        running = [f"running-{number}" for number in range(arguments.running)]
        waiting = [f"waiting-{number}" for number in range(arguments.waiting)]
        cluster.create(
            *(gang_record(name, NAMESPACE, [job(name, "bench", 2, seconds=100_000, cpu="1")]) for name in running),
            *(gang_record(name, NAMESPACE, [job(name, "bench", 2, cpu="100")]) for name in waiting),
        )
        measure(cluster, arguments)


if __name__ == "__main__":
    main()
