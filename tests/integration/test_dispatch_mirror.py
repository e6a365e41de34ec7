# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of many cycles against a real API server: they list once and are told of everything by watches."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.mirror import Mirrors
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import FreshLists
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster

CYCLES = 40


@pytest.fixture
def proxied(cluster: LiveCluster, namespace: str, proxy: ApiProxy) -> t.Iterator[Stage]:
    """A dispatcher behind the proxy."""
    made = Stage(cluster, namespace, str(proxy.kubeconfig))
    yield made
    made.close()


def test_cycles_that_decide_nothing_ask_for_nothing(proxied: Stage, proxy: ApiProxy) -> None:
    proxied.add_nodes(1, cpu="4")
    proxied.submit("running", proxied.job("running", 2, cpu="1"))
    for number in range(5):
        proxied.submit(f"waiting-{number}", proxied.job(f"waiting-{number}", 3, cpu="2"))
    path = resource_path("v1", "configmaps", proxied.namespace, "waiting-0")
    counts: list[int] = []

    def stir(phases: t.Mapping[str, str]) -> bool:
        """Have the next cycle come at once, by a change that leads to nothing."""
        counts.append(sum(item.method == "GET" and "/leases/" not in item.path for item in proxy.requests))
        patch(proxied.client, path, {"metadata": {"labels": {"stirred": str(len(counts))}}})
        return len(counts) >= CYCLES

    proxied.run_until({"running": "running"})
    proxy.forget()
    proxied.run_for(stir)
    assert len(counts) == CYCLES
    # A list or a watch of each kind, and a look at finished gangs once a minute.
    assert counts[-1] - counts[4] <= 8, counts


@pytest.mark.parametrize("kind", ["pods", "configmaps", "jobs", "nodes"])
def test_watches_that_are_cut_lose_nothing(proxied: Stage, proxy: ApiProxy, kind: str) -> None:
    proxied.add_nodes(1, cpu="4")
    proxy.cut(when="inside", method="GET", path=f"/{kind}$", first=2, times=None if kind == "nodes" else 4)
    for number in range(3):
        proxied.submit(f"gang-{number}", proxied.job(f"gang-{number}", 2, cpu="2", seconds=1))
    proxied.run_until({f"gang-{number}": "complete" for number in range(3)})


def name_and_data(raw: dict[str, t.Any]) -> tuple[str, str]:
    """What the mirror of the next test keeps."""
    return str(raw["metadata"]["name"]), str(raw.get("data"))


def test_own_writes_are_seen_at_once(cluster: LiveCluster, namespace: str) -> None:
    client, path = cluster.connect(), resource_path("v1", "configmaps", namespace)
    fresh = FreshLists(client)
    with Mirrors(client, lambda: None) as mirrors:

        def shown() -> list[tuple[str, str]]:
            return sorted(mirrors.list(path, keep=name_and_data, label_selector="ours").items)

        assert shown() == []
        before = client.requests["GET"]
        for number in range(20):
            name = f"map-{number % 4}"
            body = {"metadata": {"name": name, "namespace": namespace, "labels": {"ours": "yes"}}, "data": {}}
            if number < 4:
                create(client, path, body)
            elif number < 16:
                patch(client, f"{path}/{name}", {"data": {"number": str(number)}})
            else:
                delete(client, f"{path}/{name}")
            names = dict(shown())
            assert names.get(name) == (None if number >= 16 else str({"number": str(number)} if number >= 4 else None))
        assert client.requests["GET"] - before <= 2
        assert fresh.list(path, keep=name_and_data, label_selector="ours").items == []
