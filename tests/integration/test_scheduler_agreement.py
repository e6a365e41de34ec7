# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts and advice against the real kube-scheduler, on random cases."""

from __future__ import annotations

import collections
import dataclasses
import time

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import decide, gang_of
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import needs_of, read_snapshot
from ansible_collections.muster.kube.plugins.module_utils._kube.client import parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import steer_objects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.tests.support.live_cluster import is_bound, wait_until
from ansible_collections.muster.kube.tests.support.scheduler_cases import make_case

AGREEMENT_CASES = 200
ADVICE_CASES = 100
BATCH = 40
# The scheduler retries a refused pod at most this long after the last event that could help it.
QUIET_SECONDS = 6.0


def judged(cluster, cases, namespace, *, advice=False):
    """Gang and verdict of each case, all from one snapshot; cases do not touch each other's nodes."""
    requests = [GangRequest(case.name, namespace, tuple(case.jobs), None) for case in cases]
    rough = [gang_of(request, Snapshot()) for request in requests]
    snapshot = read_snapshot(cluster.client, needs_of(rough)).snapshot
    gangs = [gang_of(request, snapshot) for request in requests]
    return list(zip(gangs, decide(snapshot, gangs, cumulative=False, advice=advice), strict=True))


def set_up(cluster, cases):
    """Nodes and what runs on them."""
    cluster.add_nodes([node for case in cases for node in case.nodes])
    cluster.create(*(pod for case in cases for pod in case.pods))


def tear_down(cluster, cases, namespace):
    """Leave nothing for the next batch to see."""
    cluster.clear_namespace(namespace)
    # Nodes last: a pod whose node is gone has nobody to confirm its end.
    wait_until(f"the end of {namespace}", lambda: not cluster.pods(namespace))
    cluster.remove_nodes(node["metadata"]["name"] for case in cases for node in case.nodes)


def expected_pods(jobs):
    """How many pods a gang has."""
    return sum(job["spec"]["parallelism"] for job in jobs)


def bound_by_case(cluster, namespace, cases):
    """How many of each case's gang pods have a node, once the scheduler has nothing more to do.

    All bound is final. Otherwise the scheduler must have been quiet for longer than it waits before it tries again.
    """
    wanted = {case.name: expected_pods(case.jobs) for case in cases}

    def count():
        pods = [pod for pod in cluster.pods(namespace, "batch.kubernetes.io/job-name") if is_bound(pod)]
        return collections.Counter(pod["metadata"]["labels"]["case"] for pod in pods)

    last, changed = count(), time.monotonic()

    def settled():
        nonlocal last, changed
        now = count()
        if now != last:
            last, changed = now, time.monotonic()
        done = all(now[name] == number for name, number in wanted.items())
        return done or time.monotonic() - changed > QUIET_SECONDS

    wait_until("the scheduler to come to rest", settled, pause=0.3)
    return last


def batches(total, size=BATCH):
    """Index ranges of the batches."""
    return [range(start, min(total, start + size)) for start in range(0, total, size)]


def test_the_scheduler_does_what_the_verdict_says(cluster, scale, seed):
    total = max(1, round(AGREEMENT_CASES * scale))
    outcomes = collections.Counter()
    wrong = []
    for number, indexes in enumerate(batches(total)):
        namespace = cluster.namespace(f"agreement-{seed}-{number}")
        cases = [make_case(seed, index, namespace) for index in indexes]
        set_up(cluster, cases)
        answers = judged(cluster, cases, namespace)
        for case, (gang, verdict) in zip(cases, answers, strict=True):
            cluster.create(*steer_objects(case.jobs, gang, verdict.steering))
        bound = bound_by_case(cluster, namespace, cases)
        for case, (_gang, verdict) in zip(cases, answers, strict=True):
            placed = bound[case.name] == expected_pods(case.jobs)
            outcome = (verdict.how or verdict.reason, "placed" if placed else "pending")
            outcomes[outcome] += 1
            if placed != (verdict.answer == "fits"):
                wrong.append((case.name, verdict.answer, *outcome))
        tear_down(cluster, cases, namespace)
    print(f"\nagreement over {total} cases, seed {seed}: {dict(outcomes)}; differing: {wrong}")
    too_hopeful = [item for item in wrong if item[1] == "fits"]
    by_order = [item for item in wrong if item[2] == "order_dependent"]
    too_careful = [item for item in wrong if item[1] != "fits" and item[2] != "order_dependent"]
    assert too_hopeful == []
    assert len(too_careful) <= 0.02 * total
    assert len(by_order) <= 0.05 * total
    assert sum(count for outcome, count in outcomes.items() if outcome[1] == "placed") >= 0.2 * total
    assert sum(count for outcome, count in outcomes.items() if outcome[1] == "pending") >= 0.2 * total


def follow(cluster, case, verdict):
    """Do what the first piece of advice says; the jobs to create afterwards."""
    details = verdict.advice[0].details
    parallel([lambda key=key: end_pod(cluster, key) for key in details.get("pods", ())])
    for name in details.get("nodes", ()):
        path = resource_path("v1", "nodes", name=name)
        patch(cluster.client, path, {"spec": {"unschedulable": False}}, patch_type="merge")
    counts = details.get("counts", {})
    return [resized(job, counts.get(job["metadata"]["name"], job["spec"]["parallelism"])) for job in case.jobs]


def resized(job, count):
    """The job with another number of pods."""
    return {**job, "spec": {**job["spec"], "parallelism": count, "completions": count}}


def end_pod(cluster, key):
    """Delete a pod and wait until it is gone."""
    path = resource_path("v1", "pods", *key.split("/"))
    delete(cluster.client, path)
    wait_until(f"pod {key} to go", lambda: get_object(cluster.client, path) is None)


def untainted(cluster, names):
    """Wait until uncordoned nodes have lost the cordon's taint."""

    def clean(name):
        node = get_object(cluster.client, resource_path("v1", "nodes", name=name))
        return not any(taint["key"].endswith("/unschedulable") for taint in node["spec"].get("taints") or ())

    wait_until("uncordoned nodes", lambda: all(clean(name) for name in names))


def test_following_the_advice_lets_the_scheduler_place_the_gang(cluster, scale, seed):
    wanted = max(1, round(ADVICE_CASES * scale))
    waiting = placed = silent = 0
    kinds = collections.Counter()
    number = 0
    while waiting < wanted:
        namespace = cluster.namespace(f"advice-{seed}-{number}")
        first = 10_000 + number * BATCH
        cases = [make_case(seed, index, namespace, crowded=True) for index in range(first, first + BATCH)]
        number += 1
        set_up(cluster, cases)
        answers = judged(cluster, cases, namespace, advice=True)
        chosen = [
            (case, verdict) for case, (_gang, verdict) in zip(cases, answers, strict=True) if verdict.answer == "waits"
        ][: wanted - waiting]
        waiting += len(chosen)
        silent += sum(1 for _case, verdict in chosen if not verdict.advice)
        advised = [(case, verdict) for case, verdict in chosen if verdict.advice]
        # Take turns, so that every kind of advice is followed, not only the one that comes first.
        advised = [
            (case, dataclasses.replace(verdict, advice=(verdict.advice[i % len(verdict.advice)],)))
            for i, (case, verdict) in enumerate(advised)
        ]
        changed = []
        for case, verdict in advised:
            kinds[verdict.advice[0].change] += 1
            changed.append(dataclasses.replace(case, jobs=follow(cluster, case, verdict)))
        untainted(
            cluster,
            [name for _c, verdict in advised for name in verdict.advice[0].details.get("nodes", ())],
        )
        again = judged(cluster, changed, namespace)
        for case, (gang, verdict) in zip(changed, again, strict=True):
            cluster.create(*steer_objects(case.jobs, gang, verdict.steering))
        bound = bound_by_case(cluster, namespace, changed)
        placed += sum(1 for case in changed if bound[case.name] == expected_pods(case.jobs))
        tear_down(cluster, cases, namespace)
    print(f"\nadvice over {waiting} waiting cases, seed {seed}: {dict(kinds)}, placed {placed}, none for {silent}")
    assert silent <= 0.10 * waiting
    assert placed >= 0.95 * (waiting - silent)
