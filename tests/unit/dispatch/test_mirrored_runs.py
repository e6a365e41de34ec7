# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of many cycles list once for each time they hold the Lease, and show the world as a list would."""

from __future__ import annotations

import collections
import dataclasses
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.sources import ListedSource
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.world import read_tickets, read_world
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, free_lease
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE, MemoryDispatcher, MemoryStage
from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualCluster, VirtualProxy


def lists(proxy: VirtualProxy) -> collections.Counter[str]:
    """How often each collection was listed, and what else was read."""
    read = [item.path for item in proxy.requests if item.method == "GET"]
    return collections.Counter(path for path in read if "leases" not in path)


def rest(stage: Stage, seconds: float) -> t.Any:
    """A run of so many seconds in which nothing ends it."""
    return stage.run(duration=seconds)


def test_a_run_with_nothing_to_do_lists_once_and_writes_nothing(proxied: Stage, proxy: VirtualProxy) -> None:
    proxied.add_nodes(1, cpu="4")
    for number in range(20):
        proxied.submit(f"waiting-{number}", proxied.job(f"waiting-{number}", 3, cpu="3"))
    rest(proxied, 30.0)
    counts, writes = [], []
    for seconds in (60.0, 360.0):
        proxy.forget()
        result = rest(proxied, seconds)
        assert result.cycles > seconds / 15
        counts.append(lists(proxy))
        writes += proxy.writes
    # Once a minute finished gangs are looked at; what the server does not serve may be served later.
    looks = ("/configmaps", "/appwrappers", "/mutatingadmissionpolicies")
    more = counts[1] - counts[0]
    assert all(path.endswith(looks) and count <= 10 for path, count in more.items()), more
    assert {item.path for item in writes} <= {proxied.lease_path}


def test_a_single_cycle_lists_as_ever(proxied: Stage, proxy: VirtualProxy) -> None:
    proxied.add_nodes(1)
    proxied.run()
    proxy.forget()
    proxied.run()
    pods = [item for item in proxy.requests if item.path == "/api/v1/pods"]
    assert [item.query["fieldSelector"] for item in pods] == [["status.phase!=Succeeded,status.phase!=Failed"]]


def test_each_time_in_office_begins_with_lists(proxied: Stage, proxy: VirtualProxy, cluster: VirtualCluster) -> None:
    proxied.add_nodes(1)
    proxied.submit("first", proxied.job("first", seconds=3))

    def hand_over() -> None:
        """Somebody else had the Lease for a moment."""
        cluster.memory.change(
            "leases",
            proxied.lease.namespace,
            proxied.lease.name,
            lambda obj: obj["spec"].update(
                holderIdentity="", leaseTransitions=int(obj["spec"].get("leaseTransitions") or 0) + 1
            ),
        )

    cluster.memory.clock.after(6.0, hand_over)
    cluster.memory.clock.after(8.0, lambda: proxied.submit("second", proxied.job("second")))
    result = rest(proxied, 40.0)
    assert any("Lease" in warning for warning in result.warnings), result.warnings
    assert lists(proxy)["/api/v1/pods"] == 2
    assert lists(proxy)["/api/v1/nodes"] == 2
    assert (proxied.phase("first"), proxied.phase("second")) == ("complete", "running")


class Office:
    """A dispatcher that reads from mirrors, on a stage whose gangs come and go."""

    def __init__(self, seed: int, namespaces: tuple[str, ...] | None) -> None:
        self.rng = random.Random(seed)
        self.stage = MemoryStage(seed)
        self.stage.cluster.add("leases", free_lease(LEASE))
        for name in ("a", "b"):
            self.stage.add_namespace(name)
        self.stage.add_nodes(*cases.node_pool("p", 2))
        self.dispatcher: MemoryDispatcher = self.stage.dispatcher("all", namespaces, mirrored=True)
        self.made = 0

    def submit(self) -> None:
        """A user queues a gang that ends by itself, or not."""
        self.made += 1
        name, home = f"g{self.made}", self.rng.choice("ab")
        job = cases.job(name, "p", self.rng.randint(1, 3), seconds=self.rng.choice([1, 5, None]), cpu="1")
        self.stage.cluster.add("configmaps", cases.gang_record(name, home, [job]))

    def delete(self) -> None:
        """A user deletes a gang."""
        found = [item for item in self.stage.cluster.all("configmaps") if "gang.json" in (item.get("data") or {})]
        if found:
            chosen = self.rng.choice(found)["metadata"]
            self.stage.cluster.remove("configmaps", chosen["namespace"], chosen["name"])

    def worlds(self) -> tuple[World, World]:
        """What lists show, and what the mirrors do."""
        session = self.dispatcher.session
        assert session is not None
        records = session.records.list(None, finished=False)
        found = []
        for source in (ListedSource(session.client), session.source):
            tickets = read_tickets(session.client, records, (None,), source=source)
            found.append(
                read_world(session.client, records, session.options, Memory(), tickets, places=(None,), source=source)
            )
        return found[0], found[1]


def told(world: World) -> dict[str, t.Any]:
    """A world without the order of what has none, and without who wrote what."""
    fields = {field.name: getattr(world, field.name) for field in dataclasses.fields(world)}
    snapshot = world.snapshot
    fields["snapshot"] = dataclasses.replace(
        snapshot, pods=tuple(sorted(snapshot.pods, key=lambda item: item.key)), notes=()
    )
    fields["pods"] = [
        {key: sorted((item.uid, item.phase) for item in pods) for key, pods in part.items()}
        for part in (world.pods.by_gang, world.pods.by_owner)
    ]
    fields["tickets"] = {uid: sorted(str(item) for item in items) for uid, items in world.tickets.items()}
    return fields


@pytest.mark.parametrize("namespaces", [None, ("a",)])
@pytest.mark.parametrize("seed", range(4))
def test_mirrors_show_the_world_as_lists_do(seed: int, namespaces: tuple[str, ...] | None) -> None:
    office = Office(seed, namespaces)
    with office.stage:
        for _turn in range(12):
            office.rng.choice([office.submit, office.submit, office.delete])()
            office.dispatcher.pass_time(office.rng.choice([0.1, 0.5, 2.0]))
            office.dispatcher.cycle()
            office.dispatcher.pass_time(0.2)
            listed, mirrored = office.worlds()
            assert told(listed) == told(mirrored)
