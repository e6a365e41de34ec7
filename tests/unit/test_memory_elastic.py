# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic gangs in a dispatcher with a cluster in memory: the size they start with, and what is counted for them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.reclaim_cases import two_namespaces
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare, state

GPU = "nvidia.com/gpu"


@pytest.fixture(name="stage")
def one_node() -> t.Iterator[MemoryStage]:
    """One node of ten GPUs, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 1, cpu="64", **{GPU: "10"})) as made:
        yield made


def submit(stage: MemoryStage, name: str, gpus: int, sizes: tuple[int, int] | None = None, **options: t.Any) -> None:
    """Queue a gang of one pod with so many GPUs, or a range of them."""
    job = cases.job(f"{name}-j", "p", 1, **{"cpu": "1", GPU: str(gpus)})
    elastic = {} if sizes is None else {"elastic": {"range": {"min": sizes[0], "max": sizes[1]}, **options}}
    stage.cluster.add("configmaps", cases.gang_record(name, "a", [job], **elastic))


def gpus(stage: MemoryStage) -> dict[str, int]:
    """The GPUs of each pod's gang, by the gang's name."""
    found = {}
    for pod in stage.cluster.all("pods"):
        asked = pod["spec"]["containers"][0]["resources"]
        assert asked["requests"][GPU] == asked["limits"][GPU]
        found[pod["metadata"]["name"].partition("-j")[0]] = int(asked["limits"][GPU])
    return found


def running(stage: MemoryStage, *names: str) -> bool:
    return all(state(stage, name)["phase"] == "running" for name in names)


def test_gangs_that_start_together_share_what_is_free(stage: MemoryStage) -> None:
    for name in ("one", "two", "three"):
        submit(stage, name, 2, (2, 4))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two", "three"))
    assert gpus(stage) == {"one": 4, "two": 3, "three": 3}
    assert [state(stage, name)["allotment"] for name in ("one", "two", "three")] == [4, 3, 3]


def test_a_gang_of_fixed_size_behind_it_starts_before_it_gets_more(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 10))
    submit(stage, "two", 6)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two"))
    assert gpus(stage) == {"one": 4, "two": 6}


def test_it_starts_with_the_least_where_no_more_is_free_and_waits_for_that(stage: MemoryStage) -> None:
    stage.cluster.add("pods", cases.pod("other", "b", "p", node="p-n0", **{GPU: "8"}))
    submit(stage, "one", 2, (2, 4))
    submit(stage, "two", 2, (2, 4))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    assert state(stage, "one")["allotment"] == 2
    assert state(stage, "two")["verdict"]["reason"] == "insufficient"


def test_a_size_that_the_user_wants_is_the_only_one(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 8), size=5)
    submit(stage, "two", 2, (2, 8), size=6)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    assert gpus(stage) == {"one": 5}
    assert state(stage, "two")["phase"] == "queued"


def test_quota_limits_the_size(stage: MemoryStage) -> None:
    declare(stage, {"name": "x", "parent": "all", "nominal": {GPU: 3}, "namespaces": ["a"], "hard": True})
    submit(stage, "one", 2, (2, 8))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    assert gpus(stage) == {"one": 3}
