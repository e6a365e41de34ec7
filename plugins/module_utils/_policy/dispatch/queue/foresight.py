# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a queue comes to: walk after walk as if each were carried out at once, until nothing starts or goes any more.

Time stands still meanwhile: who pauses or was started too lately to be evicted does so to the end.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import Resize
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED, Changes, advance, new_state
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    ATTEMPT_LABEL,
    GANG_LABEL,
    PODSET_LABEL,
    podset_label,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import PodIndex
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import reserved_of, spec_of
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import Choice
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.room_capacity import RoomCapacity
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import read_wishes, virtual_pod
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room


class Smaller(t.NamedTuple):
    """A gang that shrinks for one that takes back its own, and as what it runs then."""

    record: Record
    resize: Resize
    gang: Gang


@dataclasses.dataclass(frozen=True, slots=True)
class Walk:
    """What one walk down the queue decided: verdicts, who goes or shrinks, and until when room is held for whom."""

    choices: tuple[Choice, ...]
    evicted: tuple[Record, ...]
    shrunk: tuple[Smaller, ...]
    nominated: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Foresight:
    """Who starts, who is evicted or shrinks, each in order, and what is said in the end of those who wait."""

    starts: tuple[Choice, ...]
    evicted: tuple[Record, ...]
    shrunk: tuple[Smaller, ...]
    waiting: tuple[Choice, ...]


def foresee(
    world: World, records: Mapping[str, Record], now: float, walk: Callable[[World, Mapping[str, Record]], Walk]
) -> Foresight:
    """What the queue comes to; walk is one walk down the queue of these records in this world."""
    starts: list[Choice] = []
    evicted: list[Record] = []
    shrunk: list[Smaller] = []
    # Each walk but the last starts, evicts or shrinks a gang; those pause then, so that each of them does so once.
    for _turn in range(3 * len(records) + 1):
        told = walk(world, records)
        chosen = [choice for choice in told.choices if choice.chosen]
        if not chosen and not told.evicted and not told.shrunk:
            break
        starts += chosen
        evicted += told.evicted
        shrunk += told.shrunk
        world, records = carried_out(world, records, now, told)
    gone = {record.uid for record in evicted}
    begun = tuple(choice for choice in starts if choice.record.uid not in gone)
    smaller = tuple(item for item in shrunk if item.record.uid not in gone)
    return Foresight(begun, tuple(evicted), smaller, tuple(choice for choice in told.choices if not choice.chosen))


def carried_out(world: World, records: Mapping[str, Record], now: float, told: Walk) -> tuple[World, dict[str, Record]]:
    """The world after a walk: chosen gangs run, evicted ones are gone, others have the size that they shrink to."""
    gone = {record.uid for record in told.evicted}
    after = {uid: record for uid, record in records.items() if uid not in gone}
    for uid, until in told.nominated.items():
        after[uid] = _with_state(after[uid], now, until)
    pods = [pod for pod in world.snapshot.pods if pod.labels.get(GANG_LABEL) not in gone]
    by_gang = {place: found for place, found in world.pods.by_gang.items() if place[1] not in gone}
    room = Room(dataclasses.replace(world.snapshot, pods=()))
    for choice in told.choices:
        if choice.chosen:
            record = choice.record
            after[record.uid] = _started(choice, now)
            made = list(_pods_of(choice, room))
            pods += [pod for pod, _podset in made]
            by_gang[record.namespace, record.uid] = [_as_seen(record, pod, part, now) for pod, part in made]
    gangs, items = dict(world.gangs), dict(world.items)
    for item in told.shrunk:
        uid, record = item.record.uid, _resized(item, now)
        after[uid], gangs[uid] = record, item.gang
        items.pop(uid, None)
        made = list(_pods_left(item, Room(dataclasses.replace(world.snapshot, pods=tuple(pods)))))
        pods = [pod for pod in pods if pod.labels.get(GANG_LABEL) != uid] + [pod for pod, _podset in made]
        by_gang[record.namespace, uid] = [_as_seen(record, pod, part, now) for pod, part in made]
    world = dataclasses.replace(world, gangs=gangs, items=items)
    snapshot = dataclasses.replace(world.snapshot, pods=tuple(pods))
    return dataclasses.replace(world, snapshot=snapshot, pods=PodIndex(by_gang, world.pods.by_owner)), after


def _with_state(record: Record, now: float, until: str) -> Record:
    """A gang that room is held for."""
    state = record.state or new_state(micro_time_text(int(now * 1_000_000)), "")
    return dataclasses.replace(record, state=dataclasses.replace(state, nominated=until))


def _started(choice: Choice, now: float) -> Record:
    """A chosen gang that runs."""
    at, record = micro_time_text(int(now * 1_000_000)), choice.record
    state = record.state or new_state(at, "")
    held: Changes = {
        "reserved": reserved_of(choice.gang),
        "charged": choice.charged,
        "started_at": at,
        "nominated": None,
    }
    return dataclasses.replace(record, state=advance(state, "running", at, STARTED, "", state.write_id, **held))


def _resized(item: Smaller, now: float) -> Record:
    """A gang that runs with its smaller size."""
    at, record = micro_time_text(int(now * 1_000_000)), item.record
    resize = dataclasses.replace(item.resize, since=at)
    state = dataclasses.replace(
        record.state or new_state(at, ""),
        allotment=resize.to,
        reserved=reserved_of(item.gang),
        resize=resize,
        planned=None,
    )
    return dataclasses.replace(record, state=state)


def _pods_left(item: Smaller, room: Room) -> Iterator[tuple[Pod, PodSet]]:
    """The pods of a gang that has become smaller, on the nodes that it has if they have room."""
    uid, terms = item.record.uid, spec_of(item.record).elastic
    if terms is None:
        return
    held = tuple(pod for here in room.pods_on for pod in here if pod.labels.get(GANG_LABEL) == uid)
    capacity = RoomCapacity(room, {uid: held}, lambda _job, _size: item.gang, terms.range.resource)
    smaller = capacity.resized(ElasticJob(uid, terms.range), item.resize.to)
    podsets = {part.name: part for part in item.gang.podsets}
    for pod in smaller.held[uid] if smaller is not None else ():
        # Named after the gang, its podset, the node and a number.
        podset = podsets[pod.name.removeprefix(f"{uid}/").rsplit("/", 2)[0]]
        yield _labelled(item.record, pod, podset), podset


def _labelled(record: Record, pod: Pod, podset: PodSet) -> Pod:
    """A pod of a gang as it stands on its node."""
    own = {GANG_LABEL: record.uid, ATTEMPT_LABEL: str(record.attempt), PODSET_LABEL: podset_label(podset.name)}
    return dataclasses.replace(pod, labels={**pod.labels, **own}, waiting=None)


def _pods_of(choice: Choice, room: Room) -> Iterator[tuple[Pod, PodSet]]:
    """The pods of a chosen gang where its verdict places them."""
    record = choice.record
    for podset, wish in read_wishes(choice.gang, room):
        for node, count in (choice.verdict.placement or {}).get(podset.name, {}).items():
            for turn in range(count):
                pod = virtual_pod(f"{record.name}/{podset.name}/{node}/{turn}", podset, wish, node)
                yield _labelled(record, pod, podset), podset


def _as_seen(record: Record, pod: Pod, podset: PodSet, now: float) -> GangPod:
    """The same pod as one of a gang."""
    return GangPod(
        uid=f"{record.uid}/{pod.name}",
        namespace=pod.namespace,
        name=pod.name,
        gang=record.uid,
        attempt=record.attempt,
        podset=podset_label(podset.name),
        labels=pod.labels,
        owner_uids=(record.uid,),
        phase="Running",
        node=pod.node,
        terminating=False,
        unschedulable_since=None,
        unschedulable_message="",
        created=now,
        unavailable_since=None,
        requests=pod.requests,
        exit_codes=(),
        restarts=0,
        waiting_reason=None,
        nominated=None,
        template=None,
    )
