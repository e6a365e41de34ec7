# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a batch tells of the pods it promises to those who may not read their record."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import promise_of
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def away_from(app: str, *namespaces: str) -> t.Any:
    """The affinity of pods that stay away from others with this label."""
    avoid: cases.Object = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": cases.HOSTNAME}
    if namespaces:
        avoid["namespaces"] = list(namespaces)
    return {"podAntiAffinity": {REQUIRED: [avoid]}}


def promised(keys: t.Any, **spec: t.Any) -> t.Any:
    """The labels that an entry keeps of a Job's pods."""
    labels = {"app": "x", "run": "r-17"}
    podsets = infer_podsets([job("j", 1, labels=labels, requests={"cpu": "1"}, **spec)], namespace="a")
    (kept,) = promise_of(Gang("g", "a", tuple(podsets)), {}, keys)
    return kept.get("labels")


def test_labels_are_kept_where_somebody_asks_for_them() -> None:
    """Labels that nobody asks for would only make equal demands differ."""
    assert promised(None) is None
    assert promised(frozenset({"tier"})) is None
    assert promised(frozenset({"app", "tier"})) == {"app": "x"}
    assert {"app": "x", "run": "r-17"}.items() <= promised(None, affinity=away_from("x")).items()


@pytest.mark.parametrize("app", ["x", "y"])
def test_a_promised_pod_repels_a_gang_that_keeps_away_from_its_label(app: str) -> None:
    """It does not exist yet, and its record may not be read: only the batch tells of it."""
    with MemoryStage(1) as stage:
        for name in ("a", "b"):
            stage.add_namespace(name)
        stage.add_nodes(*cases.node_pool("p", 1))
        first = cases.job("first-j", "p", 1)
        first["spec"]["template"]["metadata"]["labels"] = {"app": "x"}
        stage.cluster.add("configmaps", cases.gang_record("first", "a", [first]))
        second = cases.job("second-j", "p", 1)
        second["spec"]["template"]["spec"]["affinity"] = away_from(app, "a")
        stage.cluster.add("configmaps", cases.gang_record("second", "b", [second]))
        stage.cluster.denials.append(Denial("two", ("list",), ("configmaps",), ("",)))
        one = stage.dispatcher("one", ["a"])
        one.cycle()
        one.release()
        assert stage.cluster.all("pods") == []
        stage.dispatcher("two", ["b"]).cycle()
        started = [obj["metadata"]["name"] for obj in stage.cluster.all("jobs")]
        assert started == (["first-j"] if app == "x" else ["first-j", "second-j"])
