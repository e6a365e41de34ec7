# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All pods of a mirror, sorted by gangs and owners; sorting them again costs what has changed."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Collection, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod, pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import PodIndex, index_pods

Object = dict[str, t.Any]
K = t.TypeVar("K", bound=t.Hashable)
# A namespace, and the uid of a gang or of an owner.
Key = tuple[str, str]
# Pods as they were and as they are.
Changes = Sequence[tuple["MirroredPod | None", "MirroredPod | None"]]


@dataclasses.dataclass(frozen=True, slots=True)
class MirroredPod:
    """A pod as fitting sees it, None once it ended, and as its gang does, None when it cannot belong to any.

    essence is what room and health depend on at once.
    """

    pod: Pod | None
    gang_pod: GangPod | None
    essence: tuple[t.Any, ...]


def mirrored_pod(raw: Object) -> MirroredPod | None:
    """Keep of a pod what anybody asks for; nothing of one that ended and belongs to nobody."""
    pod = pod_from_api(raw)
    gang_pod = gang_pod_from_api(raw, pod)
    return None if pod is None and gang_pod is None else MirroredPod(pod, gang_pod, _essence(raw))


def essence_of(seen: MirroredPod) -> tuple[t.Any, ...]:
    """What of a pod matters at once."""
    return seen.essence


def _essence(raw: Object) -> tuple[t.Any, ...]:
    """What room and health depend on."""
    status, metadata = raw.get("status") or {}, raw["metadata"]
    scheduled = [item.get("reason") for item in status.get("conditions") or () if item.get("type") == "PodScheduled"]
    return (
        metadata["uid"],
        status.get("phase"),
        (raw.get("spec") or {}).get("nodeName"),
        "deletionTimestamp" in metadata,
        tuple(scheduled),
    )


class _Group:
    """The pods of one gang or owner by uid, and what was made of them since they last changed."""

    __slots__ = ("_all", "_living", "alive", "pods")

    def __init__(self) -> None:
        self.pods: dict[str, GangPod] = {}
        # How many of them did not end.
        self.alive = 0
        self._all: tuple[GangPod, ...] | None = None
        self._living: tuple[GangPod, ...] | None = None

    def add(self, pod: GangPod) -> None:
        """Take a pod in."""
        self.pods[pod.uid] = pod
        self.alive += not pod.finished
        self._all = self._living = None

    def remove(self, pod: GangPod) -> None:
        """Let a pod go."""
        del self.pods[pod.uid]
        self.alive -= not pod.finished
        self._all = self._living = None

    def all(self) -> tuple[GangPod, ...]:
        """All of them."""
        if self._all is None:
            self._all = tuple(self.pods.values())
        return self._all

    def living(self) -> tuple[GangPod, ...]:
        """Those that did not end."""
        if self._living is None:
            self._living = tuple(pod for pod in self.pods.values() if not pod.finished)
        return self._living


class PodTable:
    """The pods of a cluster as they were last seen."""

    def __init__(self) -> None:
        """None seen yet."""
        self._items: Sequence[MirroredPod] = ()
        self._seen: dict[int, MirroredPod] = {}
        self._gangs: dict[Key, _Group] = {}
        # Those without a gang's label, by namespace and owner.
        self._owners: dict[str, dict[str, _Group]] = {}
        # Gangs of which pods live.
        self._alive: set[Key] = set()

    def update(self, items: Sequence[MirroredPod], changes: Changes | None = None) -> None:
        """Take in all pods as they are now; with what changed since the last time only that costs anything."""
        if items is self._items:
            return
        if changes is None or not self._seen:
            self._compare({id(item): item for item in items})
        else:
            for before, after in changes:
                self._replace(before, after)
        if len(self._seen) != len(items):
            # Somebody else was told what changed.
            self._compare({id(item): item for item in items})
        self._items = items

    def _compare(self, present: dict[int, MirroredPod]) -> None:
        """Find out what changed; first those that go, since both views of a pod that changed have the same uid."""
        known = self._seen
        for gone in known.keys() - present.keys():
            self._replace(known[gone], None)
        for new in present.keys() - known.keys():
            self._replace(None, present[new])

    def _replace(self, before: MirroredPod | None, after: MirroredPod | None) -> None:
        """Let one view of a pod go and take another one in."""
        if before is not None and self._seen.pop(id(before), None) is not None:
            self._sort(before.gang_pod, _Group.remove)
        if after is not None:
            self._seen[id(after)] = after
            self._sort(after.gang_pod, _Group.add)

    def _sort(self, pod: GangPod | None, move: t.Callable[[_Group, GangPod], None]) -> None:
        """Add a pod to the groups it belongs to, or remove it from them."""
        if pod is None:
            return
        if pod.gang is None:
            owners = self._owners.setdefault(pod.namespace, {})
            for uid in dict.fromkeys(pod.owner_uids):
                _move(owners, uid, pod, move)
            return
        key = (pod.namespace, pod.gang)
        _move(self._gangs, key, pod, move)
        group = self._gangs.get(key)
        (self._alive.add if group is not None and group.alive else self._alive.discard)(key)

    def index(self, started: Collection[Record], parents: Mapping[str, Sequence[str]]) -> PodIndex:
        """Pods that live, and those that ended of started gangs; without a label only those in namespaces of such.

        Where owners of owners were read the pods are sorted again as a whole.
        """
        asked = {(record.namespace, record.uid) for record in started}
        homes = {record.namespace for record in started}
        by_gang = {key: self._gangs[key].living() for key in self._alive - asked}
        by_gang.update((key, self._gangs[key].all()) for key in asked & self._gangs.keys())
        by_owner = {
            (home, uid): group.all() for home in sorted(homes) for uid, group in self._owners.get(home, {}).items()
        }
        if not parents:
            return PodIndex(by_gang, by_owner)
        pods = [pod for group in (*by_gang.values(), *by_owner.values()) for pod in group]
        return index_pods({pod.uid: pod for pod in pods}.values(), parents)

    def in_namespaces(self, homes: Collection[str]) -> list[GangPod]:
        """Pods of gangs, and all that have an owner, in these namespaces."""
        gangs = [group.all() for (home, _uid), group in self._gangs.items() if home in homes]
        owners = [group.all() for home in homes for group in self._owners.get(home, {}).values()]
        return [pod for pods in (*gangs, *owners) for pod in pods]


def _move(groups: dict[K, _Group], key: K, pod: GangPod, move: t.Callable[[_Group, GangPod], None]) -> None:
    """Add a pod to one group, or remove it; an empty group goes."""
    group = groups.get(key)
    if group is None:
        group = groups[key] = _Group()
    move(group, pod)
    if not group.pods:
        del groups[key]
