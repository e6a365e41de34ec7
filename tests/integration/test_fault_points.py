# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault harness itself, tried on a process that only makes a fixed series of writes."""

from __future__ import annotations

import pathlib
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders
from ansible_collections.muster.kube.tests.support.fault_points import Fault, FaultPoints
from ansible_collections.muster.kube.tests.support.gang_cases import config_map
from ansible_collections.muster.kube.tests.support.invariants import Recorder

# Numbers of the writes of the stand-in: taking the Lease, three creates, a commit, a delete, leaving the Lease.
TAKE, FIRST, SECOND, THIRD, COMMIT, REMOVE, LEAVE = range(1, 8)
KILLED, INTERRUPTED = -9, 1


class Stage:
    """One namespace, one proxy, one process of fixed writes."""

    def __init__(self, cluster: t.Any, namespace: str, directory: pathlib.Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.points = FaultPoints(cluster.kubeconfig, directory)
        orders = Orders(str(self.points.kubeconfig), namespace, (namespace,), program="fixed_writes")
        self.process = DispatchProcess(orders, directory / "log")
        self.points.process = self.process

    def made(self) -> list[str]:
        """The numbers of the ConfigMaps that exist."""
        found = list_objects(self.cluster.client, resource_path("v1", "configmaps", self.namespace), keep=lambda o: o)
        names = sorted(obj["metadata"]["name"] for obj in found.items)
        return [name.removeprefix("fixed-") for name in names if name.startswith("fixed-")]

    def takeover(self) -> DispatchLease:
        """Wait for the Lease to expire and hold it."""
        address = {"kubeconfig": self.cluster.kubeconfig}
        ledger = DispatchLease(
            connect(address), LeaseOptions(self.namespace, "dispatch", 2.0), "next", renewal_client=connect(address)
        )
        assert ledger.acquire(60.0) is not None
        return ledger


@pytest.fixture
def stage(cluster, namespace, tmp_path):
    """A process ready to start, and its proxy."""
    place = Stage(cluster, namespace, tmp_path)
    with place.points:
        yield place
        place.process.end()


def test_writes_are_numbered_without_dry_runs_and_renewals(stage: Stage) -> None:
    stage.process.start()
    assert stage.process.result()["errors"] == []
    assert stage.points.labels == [
        "POST leases",
        "POST configmaps",
        "POST configmaps",
        "POST configmaps",
        "PUT leases/dispatch",
        "DELETE configmaps/fixed-0",
        "PUT leases/dispatch",
    ]
    assert len(stage.points.dry_runs) == 3
    assert stage.made() == ["1", "2"]


@pytest.mark.parametrize(("when", "made"), [("before", ["0"]), ("after", ["0", "1"])])
def test_killed_at_a_write(stage: Stage, when: t.Any, made: list[str]) -> None:
    fault = stage.points.at(SECOND, Fault(signal="kill", when=when))
    stage.process.start()
    assert fault.reached().label == "POST configmaps"
    assert not stage.process.alive
    assert stage.process.wait() == KILLED
    assert (stage.made(), len(stage.points.numbered)) == (made, SECOND)


@pytest.mark.parametrize(("when", "made"), [("before", ["0"]), ("after", ["0", "1"])])
def test_interrupted_at_a_write(stage: Stage, when: t.Any, made: list[str]) -> None:
    fault = stage.points.at(SECOND, Fault(signal="interrupt", when=when))
    stage.process.start()
    fault.reached()
    assert stage.process.wait() != 0
    assert "KeyboardInterrupt" in stage.process.log.read_text()
    assert (stage.made(), len(stage.points.numbered)) == (made, SECOND)


@pytest.mark.parametrize("when", ["before", "after"])
def test_stopped_past_the_lease(stage: Stage, when: t.Any) -> None:
    fault = stage.points.at(SECOND, Fault(signal="stop", when=when))
    stage.process.start()
    fault.reached()
    assert stage.process.alive
    ledger = stage.takeover()
    asked = len(stage.points.requests)
    assert stage.made() == (["0"] if when == "before" else ["0", "1"])
    stage.process.resume()
    fault.release()
    # The stand-in writes on without asking whether it may, up to its commit, which only the holder can make.
    assert stage.process.wait() != 0
    assert "LostLeadership" in stage.process.log.read_text()
    assert "1" in stage.made()
    assert len(stage.points.requests) > asked
    path = resource_path("coordination.k8s.io/v1", "leases", stage.namespace, "dispatch")
    assert get_object(stage.cluster.client, path)["spec"]["holderIdentity"] == ledger.identity
    ledger.release()


@pytest.mark.parametrize("status", [403, 409, 422, 500])
def test_refused_write(stage: Stage, status: int) -> None:
    stage.points.at(SECOND, Fault(status=status, message="not today"))
    stage.process.start()
    [error] = stage.process.result()["errors"]
    assert "not today" in error
    assert stage.made() == ["2"]


@pytest.mark.parametrize(("cut", "made"), [("before", ["2"]), ("after", ["1", "2"]), ("inside", ["1", "2"])])
def test_lost_answer(stage: Stage, cut: t.Any, made: list[str]) -> None:
    stage.points.at(SECOND, Fault(cut=cut))
    stage.process.start()
    assert len(stage.process.result()["errors"]) == 1
    assert stage.made() == made


def test_write_that_arrives_after_its_sender_died(stage: Stage) -> None:
    fault = stage.points.at(SECOND, Fault(hold=True))
    stage.process.start()
    fault.reached()
    stage.process.kill()
    assert stage.made() == ["0"]
    fault.release()
    end = time.monotonic() + 30
    while stage.made() != ["0", "1"]:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_fault_at_the_second_write_of_its_kind(stage: Stage) -> None:
    fault = stage.points.at_label("POST configmaps", 2, Fault(status=422))
    stage.process.start()
    assert len(stage.process.result()["errors"]) == 1
    assert (fault.reached().number, stage.made()) == (SECOND, ["2"])


def test_faults_by_a_function_of_the_write(stage: Stage) -> None:
    stage.points.at_each(lambda write: Fault(status=422) if write.label == "POST configmaps" else None)
    stage.process.start()
    assert len(stage.process.result()["errors"]) == 3
    assert stage.made() == []


@pytest.mark.parametrize("minutes", [-10, 10])
def test_clock_of_the_process_is_wrong(cluster, namespace: str, tmp_path: pathlib.Path, minutes: int) -> None:
    orders = Orders(cluster.kubeconfig, namespace, (namespace,), program="fixed_writes", clock_offset=minutes * 60.0)
    with DispatchProcess(orders, tmp_path / "log") as process:
        shown = process.result()["clock"]
    for clock in shown:
        assert abs(clock - time.time() - minutes * 60) < 120


def test_recorder_sees_what_is_gone_again(cluster, namespace: str) -> None:
    labels = {"muster.kube/gang": "g", "muster.kube/attempt": "1"}
    planted = config_map("planted")
    planted["metadata"]["namespace"] = namespace
    [stored] = cluster.create(planted)
    with Recorder(cluster, [namespace], expected=[f"{namespace}/never"]) as recorder:
        recorder.watch_over(stored)
        for number in range(3):
            obj = config_map(f"c{number}")
            obj["metadata"].update(namespace=namespace, labels={**labels, "muster.kube/attempt": str(number)})
            cluster.create(obj)
        cluster.client.request("DELETE", cluster.path(planted))
        findings = recorder.report()
    assert findings.counts() == {
        "partial": 0,
        "double_starts": 0,
        "room_twice": 0,
        "orphans": 3,
        "foreign": 1,
        "lost": 1,
        "outcomes": 0,
        "sizes": 0,
    }
    assert not findings.clean()
    assert findings.gaps == 0
