# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dispatchers in memory whose users write what makes no sense: it harms nobody but their own gangs."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.gang_cases import POOL_LABEL
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare, leaf, phases, state

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DAMAGED: dict[str, cases.Object] = {
    "selector": {"nodeSelector": ["a"]},
    "tolerations": {"tolerations": "text"},
    "affinity": {"affinity": "text"},
    "terms": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": {"a": "b"}}]}}}},
    "priority": {"priority": ["high"]},
    "class": {"priorityClassName": {"name": "high"}},
}


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Room for eight pods, and the namespaces a and b."""
    with MemoryStage(1) as made:
        for name in ("a", "b"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 2))
        yield made


def share_out(stage: MemoryStage, kind: str) -> None:
    """Store a tree with a queue for both namespaces, with flavors or without, or none at all."""
    queue = {"namespaces": ["a", "b"]}
    if kind == "plain":
        declare(stage, leaf("x", 4, **queue))
    elif kind == "flavors":
        flavors = [{"name": "f", "node_labels": {POOL_LABEL: "p"}}]
        declare(stage, {"name": "x", "parent": "all", "nominal": {"f": {"cpu": 4}}, **queue}, flavors=flavors)


def submit(stage: MemoryStage, name: str, namespace: str, job: cases.Object, **options: t.Any) -> None:
    """Queue a gang of one Job."""
    stage.cluster.add("configmaps", cases.gang_record(name, namespace, [job], **options))


@pytest.mark.parametrize("kind", ["none", "flavors"])
@pytest.mark.parametrize("part", DAMAGED)
def test_a_damaged_pod_template_fails_its_own_gang_only(stage: MemoryStage, part: str, kind: str) -> None:
    share_out(stage, kind)
    job = cases.job("bad", None, 1)
    job["spec"]["template"]["spec"].update(DAMAGED[part])
    submit(stage, "bad", "a", job)
    submit(stage, "good", "b", cases.job("good", None, 1))
    stage.dispatcher("d").cycle()
    assert phases(stage, bad="a", good="b")["bad"] == "failed"
    assert phases(stage, good="b")["good"] != "queued"
    assert "the pod template of bad" in str(state(stage, "bad")["transitions"][-1])
