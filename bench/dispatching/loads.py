# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The loads: which gangs there are, and how much room they find."""

from __future__ import annotations

import argparse
import dataclasses
import random
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.tests.support.gang_cases import (
    app_wrapper,
    gang_record,
    generic_item,
    job,
    kwok_node,
    node_pool,
)

Object = dict[str, t.Any]

NAMESPACE = "bench"
POOL = "bench"
# Longer than any run takes.
PODS_RUN_SECONDS = 7200.0
# Jobs of this controller get no pods, since nobody is called so.
NOBODY = "example.com/nobody"
# Of 100 competing gangs so many have so many pods.
SIZES = ((80, 1), (15, 4), (5, 16))
# Competing gangs find room for one in so many of them at once.
COMPETITORS = 10
LEAST_NODES = 10
# In a smaller run competing gangs also run for a shorter time, down to this share: the rate of ends stays the same.
LEAST_TIME = 0.05
WRAPPER_NEEDS = {"cpu": "5m", "memory": "5Mi"}


@dataclasses.dataclass(frozen=True)
class BenchGang:
    """One gang: a Job of so many pods that run for so many seconds; arguments are its own, if any."""

    name: str
    pods: int
    seconds: float = PODS_RUN_SECONDS
    arguments: tuple[str, ...] = ()
    queue: str = "queue"

    def job(self, load: Load) -> Object:
        """Its Job."""
        needs = WRAPPER_NEEDS if load.wrapped else {"cpu": "1"}
        made = job(self.name, POOL, self.pods, seconds=self.seconds, **needs)
        made["metadata"]["namespace"] = NAMESPACE
        if load.podless:
            made["spec"]["managedBy"] = NOBODY
        if self.arguments:
            container = made["spec"]["template"]["spec"]["containers"][0]
            container["name"] = f"main-{self.name}"
            container["args"] = list(self.arguments)
            container["env"] = [{"name": "GANG", "value": self.name}]
        return made

    def record(self, load: Load) -> Object:
        """The same Job, queued in a record."""
        named = {} if load.tree is None else {"queue": self.queue}
        return gang_record(self.name, NAMESPACE, [self.job(load)], **named)

    def wrapper(self, load: Load, *, managed: bool) -> Object:
        """The same Job in an AppWrapper."""
        needs = [{"replicas": 1, "requests": WRAPPER_NEEDS, "limits": WRAPPER_NEEDS}]
        return app_wrapper(self.name, NAMESPACE, [generic_item(self.job(load), podsets=needs)], managed=managed)


@dataclasses.dataclass(frozen=True)
class Load:
    """Gangs that are queued at once, and the nodes they find; room is how many of their pods these hold."""

    name: str
    words: str
    gangs: tuple[BenchGang, ...]
    nodes: int
    room: int
    podless: bool = False
    ends: bool = False
    wrapped: bool = False
    # Whose leaves the gangs name; without one there is one queue for all.
    tree: QuotaTree | None = None

    @property
    def pods(self) -> int:
        """How many pods are bound in all."""
        return 0 if self.podless else sum(gang.pods for gang in self.gangs)

    def node_objects(self) -> list[Object]:
        """The nodes: all cpus together are the room."""
        if self.wrapped:
            return node_pool(POOL, self.nodes, cpu="8", memory="16Gi", pods="250")
        each, larger = divmod(self.room, self.nodes)
        sizes = [each + (number < larger) for number in range(self.nodes)]
        return [
            kwok_node(f"{POOL}-n{number}", POOL, cpu=str(cpu), memory="256Gi", pods=str(cpu + 10))
            for number, cpu in enumerate(sizes)
        ]


def build_load(name: str, arguments: argparse.Namespace) -> Load:
    """The load of a name, in the size that was asked for."""
    sizes = {"ones": 1, "fours": 4, "sixteens": 16}
    if name in sizes:
        return _fitting(name, _scaled(getattr(arguments, name), arguments), sizes[name], arguments)
    if name == "podless":
        return _podless(_scaled(arguments.podless, arguments), arguments)
    if name == "wrappers":
        count = _scaled(arguments.wrappers, arguments)
        gangs = tuple(BenchGang(f"w{number:05d}", 1) for number in range(count))
        return Load(name, f"{count} one-pod AppWrappers on 2 nodes", gangs, 2, count, wrapped=True)
    return _competing(_scaled(arguments.competing, arguments), arguments)


def _scaled(count: int, arguments: argparse.Namespace) -> int:
    return max(1, round(count * arguments.scale))


def _nodes(arguments: argparse.Namespace) -> int:
    return max(LEAST_NODES, _scaled(arguments.nodes, arguments))


def _fitting(name: str, count: int, pods: int, arguments: argparse.Namespace) -> Load:
    """Equal gangs that all fit at once."""
    nodes = _nodes(arguments)
    gangs = tuple(BenchGang(f"g{number:05d}", pods) for number in range(count))
    # Half as much again, so that nobody has to look for the last free place.
    room = count * pods * 3 // 2 + 2 * nodes
    return Load(name, f"{count} gangs of {pods} pods that all fit on {nodes} nodes", gangs, nodes, room)


def _podless(count: int, arguments: argparse.Namespace) -> Load:
    """Gangs of one pod each that nobody makes."""
    nodes = _nodes(arguments)
    gangs = tuple(BenchGang(f"g{number:05d}", 1) for number in range(count))
    words = f"{count} gangs whose pods nobody makes, on {nodes} nodes"
    return Load("podless", words, gangs, nodes, count * 3 // 2 + 2 * nodes, podless=True)


def _competing(count: int, arguments: argparse.Namespace) -> Load:
    """Gangs of several sizes, each with arguments of its own, that wait for the ends of others."""
    rng = random.Random(arguments.seed)
    shares = [share for share, _pods in SIZES]
    part = max(LEAST_TIME, min(1.0, arguments.scale))
    seconds = {pods: part * spent for (_share, pods), spent in zip(SIZES, arguments.run_seconds, strict=True)}
    gangs = []
    for number in range(count):
        _share, pods = rng.choices(SIZES, shares)[0]
        own = (f"--gang={number}", f"--seed={rng.randrange(10**6)}", f"--out=/data/{number}")
        gangs.append(BenchGang(f"q{number:05d}", pods, seconds[pods], own))
    room = max(SIZES[-1][1], sum(gang.pods for gang in gangs) // COMPETITORS)
    ideal = room / (sum(gang.pods * gang.seconds for gang in gangs) / count)
    sizes = ", ".join(f"{share} % of {pods} pods for {seconds[pods]:g} s" for share, pods in SIZES)
    words = f"{count} gangs with their own arguments ({sizes}) for {room} places; at most {ideal:.1f} gangs/s can end"
    return Load("competing", words, tuple(gangs), max(1, room // 60), room, ends=True)
