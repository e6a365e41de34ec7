# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The training-operator dies and is started again at every write of a resize for which a PyTorchJob is suspended."""

from __future__ import annotations

import os
import pathlib
import signal
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import (
    ensure_absent,
    ensure_present,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
)
from ansible_collections.muster.kube.tests.integration import test_dispatch_faults as faults
from ansible_collections.muster.kube.tests.integration.test_dispatch_faults import Point
from ansible_collections.muster.kube.tests.integration.test_resize_faults import SMALL, Object, ResizePlace, counted
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess
from ansible_collections.muster.kube.tests.support.fault_points import Fault, FaultPoints
from ansible_collections.muster.kube.tests.support.gang_cases import pod_template
from ansible_collections.muster.kube.tests.support.invariants import GPU, KINDS, Recorder
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster
from ansible_collections.muster.kube.tests.support.shared_cluster import FILES, build_programs, cache_directory

pytestmark = pytest.mark.full

OPERATOR = "training-operator"
PATCH = "PATCH pytorchjobs/gang"
Own = tuple[LiveCluster, ClusterOptions]


class PyTorchPlace(ResizePlace):
    """The gang is a PyTorchJob that is its master alone."""

    method = "suspend"

    def elastic_job(self) -> Object:
        template = pod_template(self.name, {"cpu": "100m", GPU: str(SMALL)}, None)
        del template["spec"]["restartPolicy"]
        template["spec"]["containers"][0]["name"] = "pytorch"
        master = {"replicas": 1, "restartPolicy": "Never", "template": template}
        spec = {"pytorchReplicaSpecs": {"Master": master}}
        return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": faults.GANG}, "spec": spec}


class ShrinkingPlace(PyTorchPlace):
    """It has all GPUs, and somebody comes who wants some."""

    grows = False


SORTS: dict[str, type[PyTorchPlace]] = {"grow": PyTorchPlace, "shrink": ShrinkingPlace}


@pytest.fixture(scope="module")
def own() -> t.Iterator[Own]:
    """A cluster whose operator may be disturbed."""
    build_programs(OPERATOR)
    spec = ClusterSpec(f"resizes-{os.getpid()}", operators=(OPERATOR,))
    request = ClusterOptions(spec, cache_directory(), FILES, 300.0)
    result = ensure_present(request, lambda text: None)
    yield LiveCluster(connect({"kubeconfig": result["kubeconfig"]}), result), request
    ensure_absent(request, lambda text: None)


def restart_operator(request: ClusterOptions) -> None:
    """Kill the operator and wait until it is back."""
    shown = ensure_present(request, lambda text: None)
    os.kill(shown["components"][OPERATOR]["pid"], signal.SIGKILL)
    ensure_present(request, lambda text: None)


def written(place: PyTorchPlace) -> list[str]:
    """The writes of its resize when nothing goes wrong."""
    with FaultPoints(place.cluster.kubeconfig, place.directory) as numbered:
        orders = place.orders(numbered.kubeconfig, duration=faults.PATIENCE, until=("running",))
        with DispatchProcess(orders, place.directory / "log") as process:
            process.result()
        return numbered.labels


@pytest.mark.parametrize("word", SORTS)
def test_operator_restarted_at_every_write(own: Own, tmp_path: pathlib.Path, word: str) -> None:
    cluster, request = own
    made: list[PyTorchPlace] = []

    def place() -> PyTorchPlace:
        made.append(SORTS[word](cluster, f"{word}-{len(made)}", tmp_path, "start"))
        cluster.add_nodes(made[-1].nodes())
        made[-1].prepare()
        return made[-1]

    points = list(counted(written(place())))
    assert [point.label for point in points].count(PATCH) == 2
    made[-1].heal()
    for point in faults.both_sides(points):
        played = play(place, request, point)
        assert played.is_resized


def play(place: t.Callable[[], PyTorchPlace], request: ClusterOptions, point: Point) -> PyTorchPlace:
    """One place with the operator restarted at a write; one whose write was not made is played again."""
    for _turn in range(faults.ROUNDS):
        here = place()
        kinds = (*KINDS, ("kubeflow.org/v1", "pytorchjobs"))
        with Recorder(here.cluster, [here.name], kinds=kinds, expected=[here.key]) as recorder:
            try:
                fault = Fault(when=point.when, meanwhile=lambda: restart_operator(request))
                faults.strike(here, fault, point, lambda process: None)
            except faults.Missed:
                continue
            here.heal()
            findings = recorder.settled(seconds=30.0)
        assert findings.clean(), f"{point}: {findings}"
        return here
    raise AssertionError(f"{point} was never made")
