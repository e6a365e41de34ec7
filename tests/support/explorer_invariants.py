# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must never happen in a cluster in memory, whatever users, nodes and networks do: the history is replayed.

The rules for a real cluster are the base. Here it is also known what users did, so that no dispatcher is blamed for
it, how every Job ended, and what has to be true when nothing moves any more.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import podset_label
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import running_pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import node_from_api
from ansible_collections.muster.kube.tests.support import invariants as base
from ansible_collections.muster.kube.tests.support.explorer_quota import QuotaReplay
from ansible_collections.muster.kube.tests.support.memory_cluster import Change, MemoryCluster, Object

REPLAYED = ("configmaps", "services", "jobs", "pods", "nodes")
STARTED = base.STARTED
GPU = base.GPU


@dataclasses.dataclass
class Deeds:
    """What users and operators did, by the uids of what they did it to, and what nobody looks after any more."""

    foreign: dict[str, Object] = dataclasses.field(default_factory=dict)
    ignored: set[str] = dataclasses.field(default_factory=set)
    deleted: set[str] = dataclasses.field(default_factory=set)
    dropped_namespaces: set[str] = dataclasses.field(default_factory=set)
    abandoned_namespaces: set[str] = dataclasses.field(default_factory=set)
    # Namespaces whose gangs wait under any tree: nobody who looks after them sees what is used.
    blind_namespaces: set[str] = dataclasses.field(default_factory=set)
    # When each change of the history happened.
    times: list[float] = dataclasses.field(default_factory=list)


def violations(cluster: MemoryCluster, deeds: Deeds, quota: QuotaReplay | None = None) -> list[str]:
    """Everything in a history, and in how it ended, that must not be; each begins with the name of its rule."""
    replay = _Replay(deeds, quota)
    for place, change in enumerate(cluster.history):
        if change.plural in REPLAYED:
            replay.take_change(change)
            if quota is not None:
                quota.take(deeds.times[place], change.plural, change.gone, change.object)
    replay.look_at_the_end(())
    replay.look_at_room_at_the_end()
    found = replay.findings
    lines = [f"{name}: {text}" for name in found.counts() for text in getattr(found, name)]
    return list(dict.fromkeys([*lines, *replay.more, *(quota.found if quota is not None else ())]))


class _Replay(base._Replay):
    """The replay for a real cluster with what is known only here."""

    def __init__(self, deeds: Deeds, quota: QuotaReplay | None = None) -> None:
        """Nothing has happened yet."""
        super().__init__([], deeds.foreign)
        self.deeds = deeds
        self.quota = quota
        self.more: list[str] = []
        self.nodes: dict[str, Object] = {}
        self.node_lost = False
        self.jobs: dict[str, Object] = {}
        # The pods of each Job that succeeded, by their uids.
        self.succeeded: dict[str, set[str]] = collections.defaultdict(set)
        self.made: dict[tuple[str, str, str, str], str] = {}
        self.foreign_seen: dict[str, Change] = {}
        self.reasons: dict[str, str | None] = {}
        self.started: dict[str, tuple[Object, ...]] = {}
        # Gangs of which users took something away: nobody else is to blame for what is missing.
        self.disturbed: set[str] = set()

    def take_change(self, change: Change) -> None:
        """One change of the history."""
        obj = change.object
        if change.plural == "nodes":
            base._put(self.nodes, obj["metadata"]["name"], obj, change.gone)
            self.node_lost |= change.gone
            return
        if obj["metadata"]["uid"] in self.deeds.ignored:
            return
        if obj["metadata"]["uid"] in self.deeds.foreign:
            self.foreign_seen[obj["metadata"]["uid"]] = change
        if base.gang_of(change.plural, obj) is not None:
            self.reasons[obj["metadata"]["uid"]] = _reason(obj)
        if change.plural == "jobs":
            self.jobs[obj["metadata"]["uid"]] = obj
        if change.plural == "pods" and obj["status"].get("phase") == "Succeeded":
            for owner in obj["metadata"].get("ownerReferences") or ():
                self.succeeded[owner["uid"]].add(obj["metadata"]["uid"])
        done = change.plural == "jobs" and bool(_ends(obj))
        if obj["metadata"]["uid"] in self.deeds.deleted and change.gone and not done:
            # Of objects whose work was done the outcomes are kept, so the gangs go on.
            self.disturbed.add(base._labels(obj).get("muster.kube/gang", ""))
        self.take(base.Seen(change.version, change.plural, change.gone, obj))

    def _take_record(self, gang: base._Gang, gone: bool) -> None:
        """A gang that is complete must be so."""
        before = self.gangs.get(gang.uid)
        if gang.size is not None and gang.range is not None:
            gang = dataclasses.replace(gang, objects=gang.sized)
            if before is not None and gang.phase in STARTED and before.phase in STARTED and before.size != gang.size:
                # The same objects, with another size.
                known = self.started.get(gang.uid, gang.objects)
                self.started[gang.uid] = base.sized(known, gang.range[0], gang.size)
                self._podsets[gang.uid] = infer_podsets(self.started[gang.uid], namespace=gang.key.partition("/")[0])
        if gang.phase in STARTED and (before is None or before.phase not in STARTED):
            self.started[gang.uid] = gang.objects
            self._podsets[gang.uid] = infer_podsets(gang.objects, namespace=gang.key.partition("/")[0])
        elif gang.phase != "queued":
            # What was edited since is not what was started.
            gang = dataclasses.replace(gang, objects=self.started.get(gang.uid, gang.objects))
        super()._take_record(gang, gone)
        if gang.phase == "complete" and before is not None and before.phase != "complete" and not gone:
            self._require_complete(gang)

    def _take_child(self, seen: base.Seen) -> None:
        """An object is made once in an attempt, unless users took it away."""
        obj, labels = seen.object, base._labels(seen.object)
        uid = obj["metadata"]["uid"]
        place = (labels["muster.kube/gang"], labels["muster.kube/attempt"], seen.plural, obj["metadata"]["name"])
        first = self.made.setdefault(place, uid)
        if first != uid and uid not in self.late and first not in self.deeds.deleted:
            self.more.append(f"twice: {base._title(seen.plural, obj)} was made twice in attempt {place[1]}")
        super()._take_child(seen)

    def _require_complete(self, gang: base._Gang) -> None:
        """Every Job of a complete gang has completed, or was taken away when its pods had done all of its work."""
        for kind, name in gang.owned:
            if kind != "Job":
                continue
            jobs = {
                uid: job
                for uid, job in self.jobs.items()
                if base._labels(job).get("muster.kube/gang") == gang.uid
                and base._labels(job).get("muster.kube/attempt") == str(gang.attempt)
                and job["metadata"]["name"] == name
            }
            ends = {end for job in jobs.values() for end in _ends(job)}
            done = any(
                uid in self.deeds.deleted and len(self.succeeded[uid]) >= job["spec"]["completions"]
                for uid, job in jobs.items()
            )
            if "Complete" not in ends and not done:
                self.more.append(f"outcome: {gang.key} became complete, but its Job {name} is {sorted(ends) or 'open'}")

    def _require_whole(self, gang: base._Gang, moment: str) -> None:
        """All objects are there, but for what users took away while it was being started."""
        namespace = gang.key.partition("/")[0]
        if "at the end" not in moment and (gang.uid in self.disturbed or namespace in self.deeds.dropped_namespaces):
            return
        before = len(self.findings.partial)
        super()._require_whole(gang, moment)
        if self._has_vanished(gang):
            # Nobody left it half started, but it must not go on as if nothing had happened.
            self.more += [f"vanished: {text}" for text in self.findings.partial[before:]]
            del self.findings.partial[before:]

    def _has_vanished(self, gang: base._Gang) -> bool:
        """Whether users took objects away, or some failed and went after their time to live."""
        return gang.uid in self.disturbed or bool(self._expired(gang, "Failed"))

    def _require_room(self, cause: str) -> None:
        """Started gangs and other pods never ask for more than there is; where nodes went away only the end tells."""
        if self.node_lost:
            return
        used: collections.Counter[str] = collections.Counter()
        for pod in self.pods.values():
            owner = base._labels(pod).get("muster.kube/gang")
            if base._occupies(pod) and owner is None:
                used.update(running_pod_requests(pod))
        for gang in self.gangs.values():
            # The record of a start says so a little later than its objects.
            if gang.phase in STARTED or (gang.phase == "queued" and self._jobs_of(gang)):
                used.update(self._promised(gang))
        room: collections.Counter[str] = collections.Counter()
        for node in self.nodes.values():
            room.update(node_from_api(node).allocatable)
        for name in ("cpu", GPU):
            if used[name] > room[name]:
                self.findings.room_twice.append(f"{used[name]} of {room[name]} {name} given when {cause}")

    def _promised(self, gang: base._Gang) -> collections.Counter[str]:
        """What a started gang may still take: its pods, and those its Jobs are about to make."""
        promised: collections.Counter[str] = collections.Counter()
        pods: dict[str, int] = collections.Counter(
            base._labels(pod).get("muster.kube/podset", "")
            for uid, pod in self.pods.items()
            if base._labels(pod).get("muster.kube/gang") == gang.uid and base._occupies(pod) and uid not in self.late
        )
        jobs = {obj["metadata"]["name"]: obj for obj in self._jobs_of(gang)}
        gone = self._expired(gang, "Complete", "Failed")
        for podset in self._podsets_of(gang):
            source = gang.objects[podset.source_index]["metadata"].get("name")
            wanted = _wanted(jobs[source]) if source in jobs else podset.count
            # A start that nobody looks after any more is forgotten by others after a while.
            forgotten = gang.key.partition("/")[0] in self.deeds.abandoned_namespaces
            unknown = forgotten or gang.phase not in STARTED
            if source not in jobs and (source in gone or gang.uid in self.disturbed or unknown):
                wanted = 0
            if gang.phase == "rescaling":
                # The larger of both sizes is kept until it has the one or the other.
                wanted = max(wanted, podset.count)
            count = max(wanted, pods[podset_label(podset.name)])
            promised.update({name: count * amount for name, amount in podset.requests.items()})
            if source in jobs and self.ranges.get(gang.uid, ("", 0, 0))[0] == "per_pod":
                # Its record says a little later with which size it was started.
                more = base.size_of(jobs[source], "per_pod") - podset.requests.get(GPU, 0)
                promised[GPU] += count * (max(0, more) if gang.phase == "rescaling" else more)
        return promised

    def _jobs_of(self, gang: base._Gang) -> list[Object]:
        """The Jobs of a gang that exist."""
        return [
            obj
            for plural, obj in self.children.values()
            if plural == "jobs" and base._labels(obj)["muster.kube/gang"] == gang.uid
        ]

    def _podsets_of(self, gang: base._Gang) -> list[t.Any]:
        """Those of the objects that were started, with their size."""
        if gang.uid not in self._podsets:
            self._podsets[gang.uid] = infer_podsets(gang.objects, namespace=gang.key.partition("/")[0])
        return self._podsets[gang.uid]

    # The end.

    def _expired(self, gang: base._Gang, *ends: str) -> set[str]:
        """The names of Jobs of a gang's attempt that ended so and went, by their time to live or by users."""
        return {
            job["metadata"]["name"]
            for uid, job in self.jobs.items()
            if uid not in self.children and _ends(job) & set(ends)
            if "ttlSecondsAfterFinished" in job["spec"] or uid in self.deeds.deleted
            if base._labels(job).get("muster.kube/gang") == gang.uid
            and base._labels(job).get("muster.kube/attempt") == str(gang.attempt)
        }

    def _objects_of(self, gang: base._Gang) -> list[tuple[str, str]]:
        """With those that went as they were asked to."""
        return sorted([*super()._objects_of(gang), *(("Job", name) for name in self._expired(gang, "Complete"))])

    def _require_pods(self, gang: base._Gang) -> None:
        """A running gang has all its pods bound or done, but for those of Jobs that went."""
        if gang.phase != "running":
            return
        expired = self._expired(gang, "Complete")
        missing = []
        for podset in self._podsets_of(gang):
            name = gang.objects[podset.source_index]["metadata"].get("name")
            job = next((obj for obj in self._jobs_of(gang) if obj["metadata"]["name"] == name), None)
            pods = sum(
                base._occupies(pod)
                for pod in self.pods.values()
                if base._labels(pod).get("muster.kube/gang") == gang.uid
                and base._labels(pod).get("muster.kube/podset") == podset_label(podset.name)
            )
            # The pods themselves may be gone with their node.
            there = pods + (0 if job is None else job["status"].get("succeeded", 0))
            if name not in expired and there < podset.count:
                missing.append(f"{there} of {podset.count} pods of {podset.name}")
        if missing and not self._has_vanished(gang):
            self.findings.partial.append(f"{gang.key} is running with {', '.join(missing)}")

    def _require_nothing(self, gang: base._Gang, moment: str) -> None:
        """A gang that failed may leave what is over, but nothing that runs."""
        if gang.phase != "failed":
            super()._require_nothing(gang, moment)
            return
        left = sorted(
            base._title("pods", pod)
            for uid, pod in self.pods.items()
            if base._labels(pod).get("muster.kube/gang") == gang.uid and uid not in self.late
            if pod["status"].get("phase") not in base.FINISHED
        )
        if left and moment.startswith("is "):
            self.more.append(f"left: {gang.key} {moment} and has {', '.join(left)}")

    def look_at_the_end(self, expected: t.Iterable[str]) -> None:
        """What is left when nothing changes any more; gangs that nobody looks after are nobody's fault."""
        left_alone = {
            uid: gang
            for uid, gang in self.gangs.items()
            if gang.key.partition("/")[0] in self.deeds.abandoned_namespaces
        }
        tickets = {
            uid: self.tickets.pop(uid)
            for uid, ticket in list(self.tickets.items())
            if ticket["metadata"]["namespace"] in self.deeds.abandoned_namespaces
        }
        for uid in left_alone:
            del self.gangs[uid]
        super().look_at_the_end(expected)
        self.gangs.update(left_alone)
        self.tickets.update(tickets)

    def _look_for_orphans(self) -> None:
        """Without those in namespaces that nobody looks after."""
        before = len(self.findings.orphans)
        super()._look_for_orphans()
        mine = self.findings.orphans[before:]
        self.findings.orphans[before:] = [
            text for text in mine if not any(f" {name}/" in text for name in self.deeds.abandoned_namespaces)
        ]

    def look_at_room_at_the_end(self) -> None:
        """No pod of a started gang still lacks a node, and no gang waits that has room."""
        for pod in self.pods.values():
            gang = self.gangs.get(base._labels(pod).get("muster.kube/gang", ""))
            place = pod["metadata"]["namespace"]
            if gang is None or gang.phase not in base.WHOLE or place in self.deeds.abandoned_namespaces:
                continue
            if not base._bound(pod) and pod["status"].get("phase") not in base.FINISHED:
                self.more.append(f"unbound: {gang.key} is {gang.phase} and {base._title('pods', pod)} has no node")
        for gang in self.gangs.values():
            if gang.phase == "queued" and gang.key.partition("/")[0] not in self.deeds.abandoned_namespaces:
                self._require_reason(gang)

    def _require_reason(self, gang: base._Gang) -> None:
        """A gang waits only if there is no room for it; which names others have taken is known."""
        free = {name: dict(node_from_api(node).allocatable) for name, node in self.nodes.items()}
        for pod in self.pods.values():
            if base._occupies(pod) and pod["spec"]["nodeName"] in free:
                for name, amount in running_pod_requests(pod).items():
                    free[pod["spec"]["nodeName"]][name] -= amount
        taken = {(base._KIND_OF[seen.plural], base._key(seen.object)) for seen in self.foreign_seen.values()}
        namespace = gang.key.partition("/")[0]
        if any((kind, f"{namespace}/{name}") in taken for kind, name in gang.owned):
            return
        podsets = infer_podsets(gang.objects, namespace=namespace)
        if not self._has_quota(gang, sum(item.count * item.requests.get("cpu", 0) for item in podsets)):
            return
        if len(podsets) > 1 and self.reasons.get(gang.uid) == "order_dependent":
            return
        alone = not any(map(base._occupies, self.pods.values()))
        if (alone or len(podsets) == 1) and _packs(podsets, list(free.values())):
            rule = "room_kept" if self._waits_for_a_name(taken) else "waits"
            self.more.append(f"{rule}: {gang.key} is queued, attempt {gang.attempt}, although there is room for it")

    def _has_quota(self, gang: base._Gang, cpu: int) -> bool:
        """Whether quota lets a waiting gang start; of who cannot see what is used nobody expects that."""
        if self.quota is None:
            return True
        if self.quota.in_force and gang.key.partition("/")[0] in self.deeds.blind_namespaces:
            return False
        return self.quota.fits_now(gang.uid, cpu)

    def _waits_for_a_name(self, taken: t.Collection[tuple[str, str]]) -> bool:
        """Whether some gang wants a name that somebody else has."""
        return any(
            (kind, f"{gang.key.partition('/')[0]}/{name}") in taken
            for gang in self.gangs.values()
            if gang.phase == "queued"
            for kind, name in gang.owned
        )


def _reason(record: Object) -> str | None:
    """Why a gang waits, as its record says."""
    state = json.loads((record["metadata"].get("annotations") or {}).get("muster.kube/state") or "{}")
    return (state.get("verdict") or {}).get("reason")


def _packs(podsets: t.Iterable[t.Any], free: list[dict[str, int]]) -> bool:
    """Whether all pods find a place, the largest first."""
    pods = [podset.requests for podset in podsets for _pod in range(podset.count)]
    for requests in sorted(pods, key=lambda item: -item.get("cpu", 0)):
        node = next((item for item in free if all(item.get(name, 0) >= requests[name] for name in requests)), None)
        if node is None:
            return False
        for name, amount in requests.items():
            node[name] -= amount
    return True


def _wanted(job: Object) -> int:
    """How many pods a live Job wants to have now."""
    spec, status = job["spec"], job.get("status") or {}
    if _ends(job):
        return 0
    return min(spec["parallelism"], max(0, spec["completions"] - status.get("succeeded", 0)))


def _ends(job: Object) -> set[str]:
    """How a Job ended; empty while it has not."""
    return {entry["type"] for entry in (job.get("status") or {}).get("conditions") or ()} & {"Complete", "Failed"}
