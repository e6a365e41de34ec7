# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What MCAD got wrong and nobody may get wrong again: one test for each of the bugs found in it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, short_of, told
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster
from ansible_collections.muster.kube.tests.support.wrapper_crd import install_wrapper_crd


@pytest.fixture(scope="module")
def cluster(operator_cluster: LiveCluster) -> LiveCluster:
    """The one with operators, for some gangs here are Ray clusters."""
    return operator_cluster


@pytest.fixture
def stage(cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A dispatcher over the test's namespace, with AppWrappers."""
    install_wrapper_crd(cluster.client)
    made = Stage(cluster, namespace)
    yield made
    made.close()


def test_b1_a_started_ray_cluster_counts_once(stage: Stage) -> None:
    node = stage.add_nodes(1, cpu="12", memory="32Gi")[0]
    stage.occupy("baseline", node, cpu="3050m")
    stage.submit("first", stage.ray_cluster("first", 2))
    stage.run_until({"first": "running"})
    stage.submit("second", stage.ray_cluster("second", 2))
    stage.run_until({"second": "running"})
    stage.submit("third", stage.ray_cluster("third", 2))
    assert short_of(told(stage.run(), "third")) == ("3", "2950m")


def test_b2_totals_are_64_bit(stage: Stage) -> None:
    stage.add_nodes(1, cpu="4", memory="8Ti")
    stage.wrap("large", stage.job("large", 2, cpu="1", memory="3Ti"))
    stage.run_until({"large": "running"})
    status = stage.record("large").raw["status"]
    assert (status["totalmemory"], status["totalcpu"]) == (6 * 2**40, 2000)
