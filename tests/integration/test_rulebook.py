# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rulebook elastic under the real ansible-rulebook: whatever ends or changes, sizes follow."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.wishes import (
    SCALE_ANNOTATION,
    ScaleWish,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import progress_name
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.gang_cases import kwok_node
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.rulebook import Rulebook

pytestmark = pytest.mark.full
GPU = "nvidia.com/gpu"
AT_ONCE = {"timing": "now", "cooldown": 0, "restart_cost": 0}
# Each step is one event, one window and a playbook or two; no tick comes in a test.
PATIENCE = 180.0


@pytest.fixture(name="stage")
def one_node(cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A node of ten GPUs."""
    made = Stage(cluster, namespace)
    made.add_nodes(1, cpu="64", **{GPU: "10"})
    made.ensure_lease()
    yield made
    made.close()


@pytest.fixture(name="rulebook")
def rulebook_of_stage(stage: Stage, tmp_path: pathlib.Path) -> Rulebook:
    """The rulebook for this stage, not started yet."""
    variables = {
        "elastic_kubeconfig": stage.cluster.kubeconfig,
        "elastic_namespaces": [stage.namespace],
        "elastic_lease_namespace": stage.lease.namespace,
        "elastic_lease_name": stage.lease.name,
        "elastic_lease_timeout": "60",
        "elastic_tick": 100_000,
    }
    return Rulebook(tmp_path, "muster.kube.elastic", variables)


def submit(stage: Stage, name: str, seconds: float | None = None, exit_code: int | None = None, **terms: t.Any) -> None:
    """A Job of one pod with two to ten GPUs."""
    made = stage.job(name, 1, seconds=seconds, exit_code=exit_code, **{"cpu": "100m", GPU: "2"})
    stage.submit(name, made, elastic={**AT_ONCE, "range": {"min": 2, "max": 10}, **terms})


def sizes(stage: Stage) -> dict[str, int]:
    """What runs, and with which size; 0 for what has none."""
    found: dict[str, int] = {}
    for name, phase in stage.phases().items():
        if phase == "running":
            found[name] = stage.state(name).allotment or 0
    return found


def settle(stage: Stage, rulebook: Rulebook, wanted: dict[str, int]) -> None:
    """Wait until exactly these gangs run, with these sizes."""

    def look() -> bool:
        assert rulebook.alive, rulebook.said()
        return sizes(stage) == wanted

    try:
        wait_until(f"{wanted}", look, PATIENCE, pause=0.5)
    except AssertionError as error:
        raise AssertionError(f"{error}; there are {sizes(stage)}, {stage.phases()}\n{rulebook.said()}") from error


def runs_at_rest(rulebook: Rulebook) -> int:
    """How many playbooks have run once no more do."""
    seen: list[int] = []

    def look() -> bool:
        seen.append(rulebook.plays())
        return len(seen) > 25 and len(set(seen[-25:])) == 1

    wait_until("the rulebook to rest", look, PATIENCE, pause=0.5)
    return seen[-1]


def test_whatever_ends_or_changes_the_others_follow(stage: Stage, rulebook: Rulebook) -> None:
    submit(stage, "one")
    submit(stage, "two")
    with rulebook:
        settle(stage, rulebook, {"one": 5, "two": 5})
        delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "one"))
        settle(stage, rulebook, {"two": 10})
        submit(stage, "fails", seconds=4, exit_code=1)
        wait_until("the failure", lambda: stage.phase("fails") == "failed", PATIENCE)
        settle(stage, rulebook, {"two": 10})
        submit(stage, "succeeds", seconds=4)
        wait_until("the success", lambda: stage.phase("succeeds") == "complete", PATIENCE)
        settle(stage, rulebook, {"two": 10})
        # It is more than the others could leave.
        stage.submit("large", stage.job("large", 1, **{"cpu": "100m", GPU: "10"}))
        wait_until("the wait", lambda: getattr(stage.record("large").state, "verdict", None), PATIENCE)
        stage.add_node(kwok_node(f"{stage.pool}-late", stage.pool, cpu="64", **{GPU: "10"}))
        settle(stage, rulebook, {"two": 10, "large": 0})
        stage.edit("large", suspended=True)
        wait_until("the suspension", lambda: stage.phase("large") == "suspended", PATIENCE)
        settle(stage, rulebook, {"two": 10})
        runs = runs_at_rest(rulebook)
        # Bursts make one run: fewer than one for each change of an object, of which there were more than a hundred.
        assert runs <= 40, rulebook.said()
        assert "failed=1" not in rulebook.said()
        rulebook.interrupt()
    # What happens while it is away is seen when it is back.
    submit(stage, "three")
    delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "two"))
    with rulebook:
        settle(stage, rulebook, {"three": 10})


def test_a_checkpoint_lets_a_resize_go_that_waits_for_it(stage: Stage, rulebook: Rulebook) -> None:
    submit(stage, "one", timing="at_checkpoint")
    with rulebook:
        settle(stage, rulebook, {"one": 10})
        stage.submit("new", stage.job("new", 1, **{"cpu": "100m", GPU: "2"}))
        wait_until("the plan", lambda: stage.state("one").planned is not None, PATIENCE)
        runs = runs_at_rest(rulebook)
        planned = stage.state("one").planned
        assert planned is not None
        assert sizes(stage) == {"one": 10}
        time = planned.asked + 2
        told = {"format": 1, "time": time, "step": 20, "checkpoint": {"time": time, "step": 20}}
        path = resource_path("v1", "configmaps", stage.namespace, progress_name("one"))
        patch(stage.client, path, {"data": {"report.json": json.dumps(told)}})
        settle(stage, rulebook, {"one": 8, "new": 0})
        assert rulebook.plays() > runs
        runs = runs_at_rest(rulebook)
        # What the HTTP service writes for somebody who wants another size.
        wish = {"metadata": {"annotations": {SCALE_ANNOTATION: ScaleWish("0", time_text(0.0)).as_text()}}}
        patch(stage.client, resource_path("v1", "configmaps", stage.namespace, "one"), wish)
        wait_until("a run", lambda: rulebook.plays() > runs, PATIENCE, pause=0.5)
