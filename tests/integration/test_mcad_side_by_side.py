# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real MCAD and this dispatcher side by side: two Ray clusters on one small node, told in the same words."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.gang_cases import (
    app_wrapper,
    config_map,
    generic_item,
    kwok_node,
    pod,
)
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_for_end, wait_until
from ansible_collections.muster.kube.tests.support.mcad_bench import (
    DISPATCHED,
    RUNS,
    STARTED,
    WAITING,
    WAITS,
    Told,
    conditions,
    shown,
)
from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster
from ansible_collections.muster.kube.tests.support.wrapper_crd import WRAPPER_API, install_wrapper_crd

pytestmark = pytest.mark.full

Object = dict[str, t.Any]
# state, queuejobstate and canrun; then the conditions
View = tuple[tuple[str, str, bool], list[Told]]

SPACE = "default"
FIRST, SECOND = "raycluster-complete", "raycluster-complete-1"
# What may differ, and why: nothing does.
ALLOWED: dict[str, str] = {}


def ray_wrapper(name: str) -> Object:
    """A Ray cluster of a head with 1 cpu and a worker with 2, both with 2G, which are declared besides."""

    def amounts(cpu: int) -> Object:
        """Requests and limits are the same."""
        size = {"cpu": str(cpu), "memory": "2G"}
        return {"requests": size, "limits": size}

    def template(role: str, cpu: int) -> Object:
        """The pods of a role."""
        return {"spec": {"containers": [{"name": f"ray-{role}", "image": "none", "resources": amounts(cpu)}]}}

    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "rayVersion": "2.5.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template("head", 1)},
            "workerGroupSpecs": [
                {
                    "groupName": "small-group",
                    **dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), 1),
                    "rayStartParams": {},
                    "template": template("worker", 2),
                }
            ],
        },
    }
    declared = [{"replicas": 1, **amounts(1)}, {"replicas": 1, **amounts(2)}]
    return app_wrapper(name, SPACE, [generic_item(ray, podsets=declared)], managed=False)


def wrapper_path(name: str) -> str:
    """Where a wrapper lies."""
    return resource_path(WRAPPER_API, "appwrappers", SPACE, name)


def view(cluster: LiveCluster, name: str) -> View:
    """What a wrapper shows to those who look at it."""
    found = get_object(cluster.client, wrapper_path(name)) or {}
    status = found.get("status") or {}
    return shown(status), conditions(status)


def running_pods(cluster: LiveCluster, name: str) -> int:
    """How many pods of a Ray cluster run."""
    found = cluster.pods(SPACE, f"ray.io/cluster={name}")
    return sum(item["status"].get("phase") == "Running" for item in found)


def await_collector(cluster: LiveCluster, child: Object) -> None:
    """Wait until the garbage collector minds objects of this kind, which it learns half a minute after their CRD.

    Deleting is its work in both systems; without this the times would only tell how old the definitions are.
    """
    (owner,) = cluster.create(config_map_in("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    child["metadata"]["ownerReferences"] = [reference]
    cluster.create(child)
    delete(cluster.client, cluster.path(owner))
    wait_until("the collector to take a child", lambda: get_object(cluster.client, cluster.path(child)) is None, 600)


def config_map_in(name: str) -> Object:
    """A ConfigMap in the wrappers' namespace."""
    made = config_map(name)
    made["metadata"]["namespace"] = SPACE
    return made


def replay(cluster: LiveCluster) -> tuple[dict[str, View], float]:
    """The demo: two wrappers, then the first is deleted; what was shown, and the seconds from then to the dispatch."""
    cluster.add_nodes([kwok_node("only", "only", cpu="8", memory="8118372Ki")])
    cluster.create(pod("baseline", SPACE, None, node="only", cpu="3050m", memory="2918400Ki"))
    views: dict[str, View] = {}
    cluster.create(ray_wrapper(FIRST))
    wait_until("the first to run", lambda: running_pods(cluster, FIRST) == 2, 600)
    cluster.create(ray_wrapper(SECOND))
    wait_until("the second to be refused", lambda: view(cluster, SECOND)[0] == WAITS, 600, 0.02)
    views["first, running"], views["second, waiting"] = view(cluster, FIRST), view(cluster, SECOND)
    assert running_pods(cluster, SECOND) == 0
    began = time.monotonic()
    delete(cluster.client, wrapper_path(FIRST), propagation="Background")
    wait_until("the second to be dispatched", lambda: DISPATCHED in view(cluster, SECOND)[1], 600, 0.02)
    seconds = time.monotonic() - began
    wait_until("the second to run", lambda: running_pods(cluster, SECOND) == 2, 600)
    wait_until("the first to be gone", lambda: not cluster.pods(SPACE, f"ray.io/cluster={FIRST}"), 600)
    views["second, running"] = view(cluster, SECOND)
    return views, seconds


@contextlib.contextmanager
def dispatching(cluster: LiveCluster) -> t.Iterator[None]:
    """A dispatcher over the wrappers' namespace for as long as the block lasts."""
    over = threading.Event()
    auth = {"kubeconfig": cluster.kubeconfig}
    terms = DispatchOptions(namespaces=(SPACE,), duration=1800.0)

    def work() -> None:
        run_dispatch(connect(auth), connect(auth), terms, print, until=lambda _phases: over.is_set())

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        yield
    finally:
        over.set()
        wait_for_end(worker)


def test_both_tell_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    with running_cluster(f"mcad-{os.getpid()}", operators=("mcad", "kuberay")) as theirs:
        probe = ray_wrapper("probe")["spec"]["resources"]["GenericItems"][0]["generictemplate"]
        probe["spec"]["suspend"] = True
        await_collector(theirs, probe)
        mcad, mcad_seconds = replay(theirs)
    with running_cluster(f"ours-{os.getpid()}", operators=("kuberay",)) as own:
        install_wrapper_crd(own.client)
        await_collector(own, ray_wrapper("probe"))
        with dispatching(own):
            ours, our_seconds = replay(own)
    with capsys.disabled():
        print(
            f"\nfrom the delete to the second's Dispatched: MCAD {mcad_seconds:.2f} s, muster.kube {our_seconds:.2f} s"
        )
        for when, (words, told) in ours.items():
            print(
                f"{when}: {words} {[kind for kind, *_rest in told]}", "as MCAD" if mcad[when] == (words, told) else ""
            )
    differing = {when for when in ours if mcad[when] != ours[when]}
    assert differing == set(ALLOWED), {when: (mcad[when], ours[when]) for when in differing}
    assert ours == {
        "first, running": (RUNS, STARTED),
        "second, waiting": (WAITS, WAITING),
        "second, running": (RUNS, [*WAITING, DISPATCHED]),
    }
