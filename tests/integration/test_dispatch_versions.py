# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two versions of the dispatcher take turns over the same records: nothing is lost, doubled or started anew."""

from __future__ import annotations

import dataclasses
import io
import os
import pathlib
import subprocess
import tarfile
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import path_of
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, free_lease
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster

pytestmark = pytest.mark.full

# The last commit whose records had no format and whose batch held the decisions of one cycle only.
BEFORE = "472527442ab078a69f8fa69bcf0976c1e9b72a4a"
GANGS = ("runs", "waits", "ends", "paused")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The script that runs a dispatcher of the version before."""
    checkout = os.environ.get("MUSTER_CHECKOUT", ".")
    known = subprocess.run(
        ["git", "-C", checkout, "archive", BEFORE, "plugins", "tests/support"],
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if known.returncode != 0:
        pytest.skip("this checkout has no history, so there is no earlier version to run")
    root = tmp_path_factory.mktemp("earlier") / "ansible_collections" / "muster" / "kube"
    root.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(known.stdout)) as archive:
        archive.extractall(root, filter="data")
    return root / "tests" / "support" / "dispatch_process.py"


@pytest.fixture
def stage(cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A place with room for two pods."""
    made = Stage(cluster, namespace)
    made.add_nodes(1, cpu="2")
    cluster.create(free_lease(LeaseOptions(namespace, "dispatch")))
    yield made
    made.close()


@dataclasses.dataclass(frozen=True)
class EarlierOrders:
    """What the version before understands."""

    kubeconfig: str
    lease_namespace: str
    namespaces: tuple[str, ...]
    lease_wait: float = 60.0


def cycle(stage: Stage, directory: pathlib.Path, script: pathlib.Path | None) -> None:
    """One cycle of the version before, or of this one."""
    kubeconfig, where = str(stage.cluster.kubeconfig), stage.namespace
    orders: t.Any = (
        Orders(kubeconfig, where, (where,)) if script is None else EarlierOrders(kubeconfig, where, (where,))
    )
    process = DispatchProcess(orders, directory / "log")
    if script is not None:
        process.script = script  # type: ignore[misc]
    with process:
        process.result()


def shown(stage: Stage) -> dict[str, tuple[str, int, str | None]]:
    """Phase, attempt and ticket of each gang."""
    states = {name: stage.record(name).state for name in GANGS}
    return {name: (state.phase, state.attempt, state.ticket_uid) for name, state in states.items() if state is not None}


@pytest.mark.parametrize("first", ["earlier", "present"])
def test_versions_take_turns(stage: Stage, earlier: pathlib.Path, tmp_path: pathlib.Path, first: str) -> None:
    stage.submit("runs", stage.job("runs", 1, cpu="1"), priority=3)
    stage.submit("ends", stage.job("ends", 1, seconds=0, cpu="1"), priority=2)
    stage.submit("waits", stage.job("waits", 4, cpu="1"), priority=1)
    stage.submit("paused", stage.job("paused", 1, cpu="1"), suspended=True)
    turns = [earlier, None] if first == "earlier" else [None, earlier]

    def take_turns(rounds: int) -> None:
        for number in range(rounds):
            cycle(stage, tmp_path, turns[number % 2])

    take_turns(6)
    before = shown(stage)
    phases = {name: phase for name, (phase, _attempt, _ticket) in before.items()}
    assert phases == {"runs": "running", "ends": "complete", "waits": "queued", "paused": "suspended"}
    job = stage.find(stage.job("runs"))
    assert job is not None
    take_turns(6)
    assert shown(stage) == before
    again = stage.find(stage.job("runs"))
    assert again is not None
    assert again["metadata"]["uid"] == job["metadata"]["uid"]
    # An undo that one begins the other ends.
    stage.edit("runs", suspended=True)
    for number in range(6):
        cycle(stage, tmp_path, turns[number % 2])
    left = stage.pods(f"muster.kube/gang={stage.record('runs').uid}")
    assert (stage.phase("runs"), stage.find(stage.job("runs")), left) == ("suspended", None, [])


def test_a_start_that_one_version_left_half_done_is_finished_by_the_other(
    stage: Stage, earlier: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    stage.submit("gang", stage.podless_job("gang", 1, cpu="1"))
    cycle(stage, tmp_path, earlier)
    ticket = stage.state("gang").ticket_uid
    assert stage.phase("gang") == "dispatched"
    # A second gang in the room that the version before has promised and written into no entry that stays.
    stage.submit("other", stage.job("other", 2, cpu="1"))
    cycle(stage, tmp_path, None)
    assert (stage.phase("gang"), stage.state("gang").ticket_uid) == ("dispatched", ticket)
    assert stage.phase("other") == "queued"
    cycle(stage, tmp_path, earlier)
    assert (stage.phase("gang"), stage.state("gang").ticket_uid) == ("dispatched", ticket)
    assert stage.phase("other") == "queued"


def test_what_a_later_version_wrote_is_left_alone(stage: Stage, tmp_path: pathlib.Path) -> None:
    record = stage.submit("gang", stage.job("gang", 1, cpu="1"))
    newer = '{"format":2,"phase":"resting","attempt":1,"write_id":"x/y/1"}'
    patch(stage.client, path_of(record), {"metadata": {"annotations": {"muster.kube/state": newer}}})
    stage.submit("other", stage.job("other", 1, cpu="1"))
    for _number in range(2):
        cycle(stage, tmp_path, None)
    raw = stage.record("gang").raw
    assert raw["metadata"]["annotations"]["muster.kube/state"] == newer
    assert stage.find(stage.job("gang")) is None
    assert stage.phase("other") in ("dispatched", "running")
