# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The room of the last snapshot, kept and brought up to date instead of built anew.

Invariant: after follow(snapshot) the room tells the same as Room(snapshot), whatever was followed before. What did not
change since the last snapshot is known by being the same object; a reading that makes everything anew is counted anew.
Nobody changes the kept room itself: whoever places pods takes a twin.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import PodTerm
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod, Snapshot
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room

# More changes than this part of all pods are not worth following one by one.
_MOST_CHANGED = 0.25
_ALWAYS_FOLLOWED = 50
# A namespace, the uid of a gang, and the name of a pod that names no gang.
Membership = tuple[str, str, str]


class KeptRoom:
    """The last snapshot's room, and whether its nodes are still those of before."""

    def __init__(self) -> None:
        """Nothing is known before the first snapshot."""
        self._room: Room | None = None
        self._priorities: collections.Counter[int] = collections.Counter()
        # The anti-affinity of all pods of the snapshot, also of those without a node.
        self.anti_terms: collections.Counter[PodTerm] = collections.Counter()
        # The pods of the snapshot that stand on its nodes, by namespace and the gang that they name; of those that name
        # none by their own name.
        self.members: dict[Membership, list[Pod]] = {}
        # Changes whenever nodes, or anything of a snapshot but pods and rules of namespaces, are others.
        self.settings = 0

    def follow(self, snapshot: Snapshot) -> Room:
        """The room of this snapshot; it must not be modified."""
        room = self._room
        if room is not None and room.snapshot is snapshot:
            return room
        changes = None
        if room is not None and room.nodes == snapshot.nodes:
            changes = changed(room.snapshot.pods, snapshot.pods)
        if room is None or changes is None:
            self.settings += 1
            self._room = room = Room(snapshot)
            self._priorities = collections.Counter(pod.priority for pod in snapshot.pods)
            self.members = {}
            self._count_members((), snapshot.pods, room)
            self.anti_terms = collections.Counter(term for pod in snapshot.pods for term in pod.anti_affinity)
            return room
        gone, come = changes
        other = not _alike_but_pods(room.snapshot, snapshot)
        if other or any(pod.stays for pod in (*gone, *come)):
            self.settings += 1
            room.forget_emptied()
        if gone or come:
            room.replace_pods(gone, come)
            self._count_members(gone, come, room)
            self._count(gone, come)
        # The nodes of before are equal to those of now, and whoever remembers something of them finds them again.
        room.snapshot = (
            dataclasses.replace(snapshot, nodes=room.nodes) if snapshot.nodes is not room.nodes else snapshot
        )
        room.lowest_priority = min(self._priorities, default=0)
        return room

    def _count_members(self, gone: Iterable[Pod], come: Iterable[Pod], room: Room) -> None:
        """Keep the pods of gangs apart."""
        for pod in gone:
            members = self.members.get(_membership(pod), [])
            left = [other for other in members if other is not pod]
            if left:
                self.members[_membership(pod)] = left
            else:
                self.members.pop(_membership(pod), None)
        for pod in come:
            if pod.node in room.index:
                self.members.setdefault(_membership(pod), []).append(pod)

    def _count(self, gone: Sequence[Pod], come: Sequence[Pod]) -> None:
        """Keep count of what is asked of all pods together."""
        self._priorities.update(pod.priority for pod in come)
        self._priorities.subtract(pod.priority for pod in gone)
        self.anti_terms.update(term for pod in come for term in pod.anti_affinity)
        self.anti_terms.subtract(term for pod in gone for term in pod.anti_affinity)
        for counted in (self._priorities, self.anti_terms):
            for key in [key for key, count in counted.items() if not count]:
                del counted[key]


def _membership(pod: Pod) -> Membership:
    """By what the gang of a pod is found."""
    named = pod.labels.get(GANG_LABEL) or ""
    return pod.namespace, named, "" if named else pod.name


def changed(before: Sequence[Pod], after: Sequence[Pod]) -> tuple[list[Pod], list[Pod]] | None:
    """The pods that went and those that came, told by identity; None when too much changed to follow it."""
    if before is after:
        return [], []
    first, last = _common_ends(before, after)
    old = {id(pod): pod for pod in before[first : len(before) - last]}
    new = {id(pod): pod for pod in after[first : len(after) - last]}
    gone = [pod for key, pod in old.items() if key not in new]
    come = [pod for key, pod in new.items() if key not in old]
    repeated = len(new) != len(after) - first - last or len(old) != len(before) - first - last
    if repeated or len(gone) + len(come) > _ALWAYS_FOLLOWED + _MOST_CHANGED * len(after):
        return None
    return gone, come


def _common_ends(before: Sequence[Pod], after: Sequence[Pod]) -> tuple[int, int]:
    """How many pods at the beginning and at the end are the same ones."""
    first = 0
    for old, new in zip(before, after, strict=False):
        if old is not new:
            break
        first += 1
    most = min(len(before), len(after)) - first
    last = 0
    for old, new in zip(reversed(before), reversed(after), strict=False):
        if last >= most or old is not new:
            break
        last += 1
    return first, last


def _alike_but_pods(before: Snapshot, after: Snapshot) -> bool:
    """Whether nothing but pods and the rules of namespaces changed."""
    fields = [item.name for item in dataclasses.fields(Snapshot) if item.name not in ("nodes", "pods", "rules")]
    return all(getattr(before, name) == getattr(after, name) for name in fields)
