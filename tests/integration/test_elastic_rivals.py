# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Four dispatchers, two of which are killed, and two that balance sizes, over elastic and other gangs that compete."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import json
import pathlib
import random
import threading
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.balance import run_balance
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.options import BalanceOptions
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import read_state, resize_step
from ansible_collections.muster.kube.tests.integration.test_dispatch_rivals import (
    KILLED,
    PATIENCE,
    RIVALS,
    Object,
    all_ended,
    holder_of,
    is_hopeless,
    pool,
    some_are_started,
)
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders, lease_seconds
from ansible_collections.muster.kube.tests.support.dispatch_stage import free_lease
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job
from ansible_collections.muster.kube.tests.support.invariants import GPU, Recorder, Seen, gang_of
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until

__all__ = ["pool"]

# So many that have a range, and so many of a fixed size; and who balances.
ALL_ELASTIC, ALL_FIXED, BALANCERS = 40, 40, 2
# Room for all that have a range, at more than their least sizes.
ALL_NODES, GPUS_EACH = 25, 4
SECONDS = (20, 35)
RESIZED = {"rescaling", "resizing"}
AT_ONCE = {"timing": "now", "cooldown": 0, "restart_cost": 0}


def elastic_gang(rng: random.Random, number: int, namespace: str, scale: float) -> Object:
    """A training that gets its size while it is there, suspended, or anew, whichever it is made for."""
    name, method = f"e{number:02}", ("scale", "suspend", "recreate")[number % 3]
    least = rng.randint(1, 2)
    range_: Object = {"min": least, "max": rng.randint(3, 4)}
    seconds = rng.choice(SECONDS) * max(0.2, scale)
    amounts = {"cpu": "100m", GPU: "1" if method == "scale" else str(least)}
    made = job(name, namespace, least if method == "scale" else 1, seconds=seconds, **amounts)
    if method == "scale":
        made["spec"]["completionMode"] = "Indexed"
        range_["axis"] = "pods"
    if method == "recreate":
        # Variables of a Job cannot be changed.
        made["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "NGPU", "value": str(least)}]
    return gang_record(name, namespace, [made], priority=rng.randint(0, 1), elastic={"range": range_, **AT_ONCE})


def first_gang(namespace: str, gpus: int) -> Object:
    """A training that takes all there is as long as it is alone, and ends when its pods are told to."""
    made = job("first", namespace, 1, seconds=None, **{"cpu": "100m", GPU: "1"})
    made["spec"]["completionMode"] = "Indexed"
    range_ = {"min": 1, "max": gpus, "axis": "pods"}
    return gang_record("first", namespace, [made], elastic={"range": range_, **AT_ONCE})


def fixed_gang(rng: random.Random, number: int, namespace: str) -> Object:
    """A gang of one or two pods that each want some GPUs for a moment."""
    name = f"f{number:02}"
    amounts = {"cpu": "100m", GPU: str(rng.randint(1, 3))}
    made = job(name, namespace, rng.randint(1, 2), seconds=rng.choice((0, 1)), **amounts)
    return gang_record(name, namespace, [made], priority=rng.randint(0, 1))


def keep_balancing(cluster: LiveCluster, terms: LeaseOptions, over: threading.Event) -> int:
    """Balance again and again until all is over; how often."""
    turns = 0
    while not over.is_set():
        options = BalanceOptions(lease=terms, namespaces=(terms.namespace,), wait_timeout=10.0)
        run_balance(cluster.connect, options, lambda _text: None)
        turns += 1
        over.wait(1.0)
    return turns


def phases_seen(recorder: Recorder) -> set[str]:
    """The phases that gangs were in."""
    notes = [item.object["metadata"]["annotations"] for item in recorder.history() if is_told(item)]
    return {json.loads(told["muster.kube/state"])["phase"] for told in notes}


def end_pods(cluster: LiveCluster, namespace: str, name: str) -> None:
    """Let the pods end that a Job has now."""
    for pod in cluster.pods(namespace, f"batch.kubernetes.io/job-name={name}"):
        path = resource_path("v1", "pods", namespace, pod["metadata"]["name"])
        with contextlib.suppress(NotFound):
            patch(
                cluster.client,
                path,
                {"metadata": {"annotations": {"muster.kube/run-seconds": "0"}}},
                patch_type="merge",
            )


def test_dispatchers_and_balancers_over_gangs_that_compete(
    cluster: LiveCluster,
    namespace: str,
    pool: t.Callable[..., list[Object]],
    tmp_path: pathlib.Path,
    scale: float,
    seed: int,
) -> None:
    nodes = max(2, round(ALL_NODES * scale))
    pool(namespace, nodes, cpu="16", **{GPU: str(GPUS_EACH)})
    rng = random.Random(f"{seed}/elastic rivals")
    elastic = [elastic_gang(rng, number, namespace, scale) for number in range(max(3, round(ALL_ELASTIC * scale)))]
    fixed = [fixed_gang(rng, number, namespace) for number in range(max(3, round(ALL_FIXED * scale)))]
    first = first_gang(namespace, nodes * GPUS_EACH)
    expected = [f"{namespace}/{record['metadata']['name']}" for record in (first, *elastic, *fixed)]
    terms, over = LeaseOptions(namespace, "dispatch", lease_seconds()), threading.Event()
    with Recorder(cluster, [namespace], expected=expected) as recorder, contextlib.ExitStack() as stack:
        cluster.create(free_lease(terms), first)
        orders = Orders(cluster.kubeconfig, namespace, (namespace,), duration=PATIENCE, until=("complete", "failed"))
        processes = [
            stack.enter_context(DispatchProcess(orders, tmp_path / f"log-{number}")) for number in range(RIVALS)
        ]
        workers = stack.enter_context(concurrent.futures.ThreadPoolExecutor(BALANCERS))
        stack.callback(over.set)
        balancers = [workers.submit(keep_balancing, cluster, terms, over) for _number in range(BALANCERS)]
        # All GPUs are its own by then, so that it has to shrink.
        wait_until("the first to run", lambda: some_are_started(cluster, namespace) or None, PATIENCE)
        cluster.create(*elastic)
        cluster.create(*fixed)
        lease = resource_path("coordination.k8s.io/v1", "leases", namespace, "dispatch")
        for _turn in range(KILLED):
            wait_until("work to be done", lambda: some_are_started(cluster, namespace) or None, PATIENCE)
            # Perhaps it is a balancer that holds the Lease.
            victim = holder_of(cluster, lease, processes) or next(process for process in processes if process.alive)
            victim.kill()
        left = [process for process in processes if process.alive]
        wait_until("a gang to be resized", lambda: phases_seen(recorder) & RESIZED or None, PATIENCE, 1.0)

        def is_over() -> bool:
            """Whether all has ended; the first gang does once others have had their room."""
            end_pods(cluster, namespace, "first")
            return all_ended(left) or is_hopeless(recorder.report())

        wait_until("all to end", is_over, PATIENCE, 1.0)
        assert all_ended(left), str(recorder.report())
        results = [process.result() for process in left]
        over.set()
        assert all(balancer.result(PATIENCE) for balancer in balancers)
        findings = recorder.settled(seconds=30.0)
    assert findings.clean(), str(findings)
    assert findings.phases == dict.fromkeys(expected, "complete")
    assert findings.gaps == 0
    assert len(left) == RIVALS - KILLED
    assert any(result["cycles"] for result in results)
    last = {item.object["metadata"]["uid"]: item.object for item in recorder.history() if is_told(item)}
    states = [read_state(record["metadata"]["annotations"]) for record in last.values()]
    steps = collections.Counter(resize_step(state) for state in states if state is not None)
    assert set(steps) <= {None, "verified", "rolled_back", "parked"}, steps


def is_told(seen: Seen) -> bool:
    """Whether a change is one of a record that has a state."""
    notes = seen.object["metadata"].get("annotations") or {}
    return gang_of(seen.plural, seen.object) is not None and "muster.kube/state" in notes
