# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Entries of the batch that were not begun, and what becomes of them in the hands of the next holder."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import GangState, advance, new_state
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.open_entries import began
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryDispatcher, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Killed

RECORD = "/configmaps/first$"


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """One node of 4 cpu and a namespace."""
    with MemoryStage(1) as made:
        made.add_namespace("a")
        made.add_nodes(*cases.node_pool("p", 1))
        yield made


@pytest.fixture
def heir(stage: MemoryStage) -> MemoryDispatcher:
    """Whoever comes after a dispatcher that committed the start of a gang of 4 cpu and died before it began."""
    stage.cluster.add("configmaps", cases.gang_record("first", "a", [cases.job("first-j", "p", 4)]))
    dead = stage.dispatcher("dead", ["a"])
    dead.line.faults.append(Fault("kill_after", "POST", "/configmaps$"))
    with pytest.raises(Killed):
        dead.cycle()
    stage.cluster.add("configmaps", cases.gang_record("second", "a", [cases.job("second-j", "p", 4)], priority=9))
    made = stage.dispatcher("heir", ["a"])
    assert made.acquire(patience=60.0)
    return made


def entries(dispatcher: MemoryDispatcher) -> list[Entry]:
    """What the Lease lists."""
    assert dispatcher.session is not None
    batch = dispatcher.session.batch().batch
    return [] if batch is None else list(batch.entries)


def jobs(stage: MemoryStage) -> list[str]:
    """What was started."""
    return [obj["metadata"]["name"] for obj in stage.cluster.all("jobs", "a")]


def tickets(stage: MemoryStage) -> set[str]:
    """The uids of all tickets."""
    found = (obj["metadata"] for obj in stage.cluster.all("configmaps", "a"))
    return {item["uid"] for item in found if item["name"].startswith("muster-ticket")}


@pytest.mark.parametrize("trouble", ["lose", "refuse"])
def test_an_entry_stays_while_nobody_knows_whether_its_record_was_written(
    stage: MemoryStage, heir: MemoryDispatcher, trouble: t.Any
) -> None:
    """Its room is not given away; its ticket owns nothing, and what comes late would go with it."""
    heir.line.faults.append(Fault(trouble, "PUT", RECORD, times=99))
    assert len(tickets(stage)) == 1
    heir.cycle()
    assert [entry.name for entry in entries(heir)] == ["first"]
    assert jobs(stage) == []
    assert tickets(stage) == set()


def test_an_entry_whose_record_the_server_refuses_for_good_is_over(stage: MemoryStage, heir: MemoryDispatcher) -> None:
    """Nothing of it is left, and its room goes to whoever wants it."""
    before = tickets(stage)
    heir.line.faults.append(Fault("refuse", "PUT", RECORD, times=99, status=403, reason="Forbidden"))
    heir.cycle()
    assert [entry.name for entry in entries(heir)] == ["second"]
    assert not before & tickets(stage)
    assert jobs(stage) == ["second-j"]


def test_an_entry_that_was_not_begun_is_settled_and_its_gang_is_asked_again(
    stage: MemoryStage, heir: MemoryDispatcher
) -> None:
    cycle = heir.cycle()
    assert [item.reason for item in _decisions(cycle) if item.gang == "a/first"][:1] == ["Settled"]
    assert jobs(stage) == ["second-j"]


@pytest.mark.parametrize("ended", ["release", "renew"])
def test_the_lease_forgets_a_start_that_could_not_be_begun_at_the_end_of_the_cycle(
    stage: MemoryStage, ended: str
) -> None:
    """A run of one cycle has no next one, and others count what the Lease promises."""
    stage.cluster.add("configmaps", cases.gang_record("first", "a", [cases.job("first-j", "p", 4)]))
    one = stage.dispatcher("one", ["a"])
    one.line.faults.append(Fault("refuse", "PUT", RECORD, times=99, status=403, reason="Forbidden"))
    one.cycle()
    assert one.ledger is not None
    if ended == "renew":
        one.ledger.renew()
    one.release()
    other = stage.dispatcher("other", ["a"])
    assert other.acquire()
    assert entries(other) == []


def _decisions(cycle: t.Any) -> list[t.Any]:
    """What a cycle decided."""
    return list(cycle.session.journal.take()[0])


def test_a_phase_began_with_the_last_change() -> None:
    state = new_state("1970-01-01T00:00:10Z", "w")
    later = advance(state, "dispatching", "1970-01-01T00:00:20Z", "R", "", "w")
    damaged = advance(later, "dispatched", "soon", "R", "", "w")
    told = [state, later, damaged, dataclasses.replace(later, transitions=()), None]
    assert [began(t.cast(Record, Stated(one))) for one in told] == [10.0, 20.0, 0.0, 0.0, 0.0]


@dataclasses.dataclass
class Stated:
    """A record of which only the state is asked for."""

    state: GangState | None
