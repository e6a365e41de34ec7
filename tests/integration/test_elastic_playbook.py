# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook elastic by the real ansible-playbook: it foretells, starts and resizes, and then writes nothing."""

from __future__ import annotations

import json
import os
import pathlib
import re
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.play import run_playbook

GPU = "nvidia.com/gpu"
AT_ONCE = {"timing": "now", "cooldown": 0, "restart_cost": 0}


@pytest.fixture(name="stage")
def one_node(cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A node of ten GPUs."""
    made = Stage(cluster, namespace)
    made.add_nodes(1, cpu="64", **{GPU: "10"})
    made.ensure_lease()
    yield made
    made.close()


def play(stage: Stage, proxy: ApiProxy, directory: pathlib.Path, *arguments: str, **more: t.Any) -> str:
    """Run the playbook; what it printed."""
    settings = {
        "elastic_kubeconfig": str(proxy.kubeconfig),
        "elastic_namespaces": [stage.namespace],
        "elastic_lease_namespace": stage.lease.namespace,
        "elastic_lease_name": stage.lease.name,
        "elastic_most_resizes": -1,
        **more,
    }
    proxy.forget()
    printed, code = run_playbook(directory, "muster.kube.elastic", "-e", json.dumps(settings), *arguments)
    assert code == 0, printed
    return printed


def allotments(stage: Stage) -> dict[str, int | None]:
    """The sizes of what runs."""
    return {name: stage.state(name).allotment for name, phase in stage.phases().items() if phase == "running"}


def test_it_foretells_acts_and_then_writes_nothing(stage: Stage, proxy: ApiProxy, tmp_path: pathlib.Path) -> None:
    for name in ("one", "two"):
        made = stage.job(name, 1, **{"cpu": "100m", GPU: "2"})
        stage.submit(name, made, elastic={**AT_ONCE, "range": {"min": 2, "max": 10}})
    printed = play(stage, proxy, tmp_path, "--check")
    assert_no_writes(proxy)
    assert f"start {stage.namespace}/one" in printed
    play(stage, proxy, tmp_path)

    def running() -> bool:
        """Look until both are told to run; a cycle tells it once their pods do."""
        play(stage, proxy, tmp_path)
        return allotments(stage) == {"one": 5, "two": 5}

    wait_until("both to run", running)
    delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "one"))
    wait_until("the other one to grow", lambda: play(stage, proxy, tmp_path) and allotments(stage) == {"two": 10})
    play(stage, proxy, tmp_path)
    printed = play(stage, proxy, tmp_path)
    assert {item.path for item in proxy.writes} <= {stage.lease_path}, [item.path for item in proxy.writes]
    assert "changed=0" in printed
    # Without the cycle of dispatch not even the Lease is written.
    play(stage, proxy, tmp_path, elastic_dispatch=False)
    assert_no_writes(proxy)


@pytest.fixture(name="demo")
def a_demo(tmp_path: pathlib.Path) -> t.Iterator[str]:
    """What the demo printed, with a cluster of its own."""
    name = f"demo-elastic-{os.getpid()}"
    settings = {"demo_cluster": name, "demo_directory": str(tmp_path)}
    try:
        printed, code = run_playbook(tmp_path, "muster.kube.demo_elastic", "-e", json.dumps(settings))
        assert code == 0, printed
        yield printed
    finally:
        gone = {"local_cluster_name": name, "local_cluster_state": "absent"}
        run_playbook(tmp_path, "muster.kube.local_cluster", "-e", json.dumps(gone))


@pytest.mark.full
def test_the_demo_ends_as_it_says_and_leaves_nothing_to_do(demo: str, tmp_path: pathlib.Path) -> None:
    steps = ("three jobs of 2 to 4 share ten GPUs", "both others grow", "one shrinks, the newcomer starts")
    assert [step for step in steps if step in demo] == list(steps)
    page = (tmp_path / "demo_elastic.html").read_text(encoding="utf-8")
    assert [name for name in ("tune-a", "tune-b", "tune-c", "newcomer") if name not in page] == []
    found = re.search(r"--kubeconfig (\S+) get jobs", demo)
    assert found is not None, demo
    (tmp_path / "proxy").mkdir()
    with ApiProxy(found[1], tmp_path / "proxy") as proxy:
        settings = json.dumps({"elastic_kubeconfig": str(proxy.kubeconfig), "elastic_namespaces": ["default"]})
        for _number in range(2):
            proxy.forget()
            printed, code = run_playbook(tmp_path, "muster.kube.elastic", "-e", settings)
            assert code == 0, printed
        lease = resource_path("coordination.k8s.io/v1", "leases", "muster-system", "dispatch")
        assert {item.path for item in proxy.writes} <= {lease}, [item.path for item in proxy.writes]
