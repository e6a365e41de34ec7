# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the controllers, the scheduler and the nodes of a cluster do, over the API server in memory.

Each takes its time, in virtual seconds, so that what happens in between can be tested. Choices are drawn from a seed.
"""

from __future__ import annotations

import collections
import dataclasses
import random
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import running_pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import node_from_api
from ansible_collections.muster.kube.tests.support.memory_cluster import (
    Change,
    Key,
    MemoryCluster,
    Object,
    Refused,
    key_of,
    owners_of,
)

FINISHED = ("Succeeded", "Failed")
JOB_CONTROLLER = "kubernetes.io/job-controller"
LONGEST_RETRY = 600.0
RUN_SECONDS = "muster.kube/run-seconds"
EXIT_CODE = "muster.kube/exit-code"


@dataclasses.dataclass
class Pace:
    """How long things take, in seconds."""

    collect: float = 0.1
    job: float = 0.05
    pod: float = 0.01
    schedule: float = 0.05
    start: float = 0.1
    stop: float = 0.2
    namespace: float = 0.2
    # After the first failure of a Job's pods; twice as long after each further one.
    retry: float = 10.0


class Controllers:
    """Garbage collector, Job controller, namespace controller, scheduler and nodes of one cluster."""

    def __init__(self, cluster: MemoryCluster, seed: int = 1, pace: Pace | None = None) -> None:
        """At work from now on."""
        self.cluster = cluster
        self.pace = pace or Pace()
        self.chance = random.Random(seed)
        self.jobs = _Jobs(cluster, self.pace)
        self.scheduler = _Scheduler(cluster, self.pace, self.chance)
        self._collector = _Collector(cluster, self.pace)
        self._kubelets = _Kubelets(cluster, self.pace)
        parts = (self._collector.see, self.jobs.see, self._kubelets.see, self.scheduler.see, self._see_namespace)
        cluster.listeners.extend(parts)

    def finish(self, namespace: str, name: str, exit_code: int = 0) -> None:
        """Let a running pod end."""
        finish(self.cluster, namespace, name, exit_code)

    def _see_namespace(self, change: Change) -> None:
        """A namespace that is deleted is emptied first."""
        metadata = change.object["metadata"]
        if change.plural != "namespaces" or change.gone or not metadata.get("deletionTimestamp"):
            return
        if change.before is None or not change.before["metadata"].get("deletionTimestamp"):
            self.cluster.clock.after(self.pace.namespace, lambda: self._empty(metadata["name"], metadata["uid"]))

    def _empty(self, name: str, uid: str) -> None:
        """Delete all that is in a namespace, again and again until nothing is left."""
        found = self.cluster.get("namespaces", "", name)
        if found is None or found["metadata"]["uid"] != uid:
            return
        left = [key_of(plural, obj) for plural in self.cluster.kinds for obj in self.cluster.all(plural, name)]
        if not left:
            self.cluster.erase(("namespaces", "", name))
            return
        self.chance.shuffle(left)
        for key in left:
            self.cluster.remove(*key)
        self.cluster.clock.after(self.pace.namespace, lambda: self._empty(name, uid))


class _Collector:
    """Deletes what has no owner left."""

    def __init__(self, cluster: MemoryCluster, pace: Pace) -> None:
        """Nothing seen yet."""
        self._cluster = cluster
        self._pace = pace

    def see(self, change: Change) -> None:
        """An owner is gone, an object came whose owner is gone, or an owner waits for its own."""
        cluster, obj = self._cluster, change.object
        uid, finalizers = obj["metadata"]["uid"], obj["metadata"].get("finalizers") or ()
        if change.gone:
            self._soon(sorted(cluster.dependents.get(uid, ())))
            self._look_at_owners(obj)
        elif any(owner["uid"] not in cluster.living for owner in owners_of(obj)):
            self._soon([key_of(change.plural, obj)])
        if not change.gone and obj["metadata"].get("deletionTimestamp") and finalizers:
            cluster.clock.after(self._pace.collect, lambda: self._follow_policy(uid))

    def _soon(self, keys: t.Iterable[Key]) -> None:
        """Look at some objects a little later."""
        for key in keys:
            self._cluster.clock.after(self._pace.collect, lambda key=key: self._collect(key))

    def _look_at_owners(self, obj: Object) -> None:
        """Owners in the course of a foreground deletion wait for what is going now."""
        for owner in owners_of(obj):
            self._cluster.clock.after(self._pace.collect, lambda uid=owner["uid"]: self._follow_policy(uid))

    def _collect(self, key: Key) -> None:
        """Delete an object none of whose owners lives; else take the dead ones from its references."""
        obj = self._cluster.get(*key)
        owners = owners_of(obj) if obj is not None else ()
        alive = [owner for owner in owners if self._lives(owner["uid"], key[1])]
        if not owners or len(alive) == len(owners):
            return
        if not alive:
            self._cluster.remove(*key)
        else:
            self._cluster.change(*key, lambda copy: copy["metadata"].update(ownerReferences=alive))

    def _lives(self, uid: str, namespace: str) -> bool:
        """Whether an owner exists where its dependents may refer to it."""
        key = self._cluster.living.get(uid)
        return key is not None and key[1] in ("", namespace)

    def _follow_policy(self, uid: str) -> None:
        """Orphan or delete the dependents of an object that waits for that, then let it go."""
        key = self._cluster.living.get(uid)
        obj = None if key is None else self._cluster.get(*key)
        if key is None or obj is None or not obj["metadata"].get("deletionTimestamp"):
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        dependents = sorted(self._cluster.dependents.get(uid, ()))
        if "orphan" in finalizers:
            for dependent in dependents:
                self._cluster.change(*dependent, lambda copy: _disown(copy, uid))
            self._release(key, "orphan")
        elif "foregroundDeletion" in finalizers:
            for dependent in dependents:
                self._cluster.remove(*dependent)
            if not any(self._blocks(dependent, uid) for dependent in dependents):
                self._release(key, "foregroundDeletion")

    def _blocks(self, key: Key, uid: str) -> bool:
        """Whether a dependent that is still there keeps its owner."""
        obj = self._cluster.get(*key)
        owners = owners_of(obj) if obj is not None else ()
        return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)

    def _release(self, key: Key, finalizer: str) -> None:
        """Take a finalizer away."""
        self._cluster.change(*key, lambda copy: copy["metadata"]["finalizers"].remove(finalizer))


class _Jobs:
    """The Job controller: pods, counts and ends of Jobs."""

    def __init__(self, cluster: MemoryCluster, pace: Pace) -> None:
        """No Job seen yet."""
        self._cluster = cluster
        self._pace = pace
        self._planned: set[str] = set()
        self._ended: dict[str, dict[str, bool]] = collections.defaultdict(dict)
        self._failed_at: dict[str, float] = {}
        # Pods that it has deleted itself, which count as neither.
        self._stopped: set[str] = set()
        self._numbers = 0
        # Pods that have a turn already, by Job, and when the next turn is.
        self._turns: collections.Counter[str] = collections.Counter()
        self._free_at = 0.0

    def see(self, change: Change) -> None:
        """Something changed about a Job or about a pod of one."""
        obj = change.object
        if change.plural == "jobs" and not change.gone:
            self._plan(obj["metadata"]["uid"])
        elif change.plural == "pods":
            for owner in owners_of(obj):
                if owner["kind"] != "Job":
                    continue
                phase = obj["status"].get("phase")
                if phase in FINISHED or change.gone or obj["metadata"].get("deletionTimestamp"):
                    self._note_end(owner["uid"], obj["metadata"]["uid"], succeeded=phase == "Succeeded")
                self._plan(owner["uid"])

    def _note_end(self, job: str, pod: str, *, succeeded: bool) -> None:
        """A pod of a Job is over."""
        if pod not in self._ended[job] and pod not in self._stopped:
            self._ended[job][pod] = succeeded
            if not succeeded:
                self._failed_at[job] = self._cluster.clock.now

    def _plan(self, uid: str) -> None:
        """Look at a Job a little later, once for all that changed meanwhile."""
        if uid not in self._planned:
            self._planned.add(uid)
            self._cluster.clock.after(self._pace.job, lambda: self._sync(uid))

    def _sync(self, uid: str) -> None:
        """Bring one Job on: count its pods, make missing ones, tell how it ended."""
        self._planned.discard(uid)
        key = self._cluster.living.get(uid)
        job = None if key is None else self._cluster.get(*key)
        if key is None or job is None or job["metadata"].get("deletionTimestamp") or _ended(job):
            return
        spec = job["spec"]
        if spec.get("managedBy", JOB_CONTROLLER) != JOB_CONTROLLER:
            return
        parallelism = int(spec.get("parallelism", 1))
        completions = int(spec.get("completions", parallelism))
        limit = int(spec.get("backoffLimit", 6))
        ended = self._ended[uid]
        succeeded, failed = sum(ended.values()), sum(not good for good in ended.values())
        active = [pod for pod in self._pods(uid) if _is_active(pod)]
        condition = None
        if spec.get("suspend"):
            self._stop(active)
            active = []
        elif failed > limit:
            condition = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
            self._stop(active)
            active = []
        elif succeeded >= completions:
            condition = ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        elif len(active) > max(0, min(parallelism, completions - succeeded)):
            # It deletes or creates, never both at once; the youngest go first.
            kept = max(0, min(parallelism, completions - succeeded))
            self._stop(active[kept:])
            active = active[:kept]
            self._plan(uid)
        elif not self._waits_to_retry(uid, failed):
            for _pod in range(min(parallelism, completions - succeeded) - len(active) - self._turns[uid]):
                self._make_pod_in_turn(uid)
        counts = {"active": len(active), "succeeded": succeeded, "failed": failed}
        self._tell(key, counts, condition, suspended=bool(spec.get("suspend")))

    def _waits_to_retry(self, uid: str, failed: int) -> bool:
        """Whether the last failure of a Job's pods is too recent for new ones; then it is looked at again in time."""
        if not failed:
            return False
        pause = min(self._pace.retry * 2.0 ** (failed - 1), LONGEST_RETRY)
        left = self._failed_at[uid] + pause - self._cluster.clock.now
        if left > 0:
            self._cluster.clock.after(left, lambda: self._plan(uid))
        return left > 0

    def _tell(
        self, key: Key, counts: t.Mapping[str, int], condition: tuple[str, str, str] | None, *, suspended: bool = False
    ) -> None:
        """Write a Job's status."""
        now = self._cluster.time_text()

        def edit(copy: Object) -> None:
            """Counts of nothing are left out, as the server does."""
            status = copy.setdefault("status", {})
            for name, number in counts.items():
                status.pop(name, None)
                if number:
                    status[name] = number
            told = next((item for item in status.get("conditions") or () if item["type"] == "Suspended"), None)
            if suspended and told is None:
                told = {"type": "Suspended", "status": "False", "reason": "", "message": ""}
                status.setdefault("conditions", []).append(told)
            if told is not None and (told["status"] == "True") is not suspended:
                told.update(status=str(suspended), lastTransitionTime=now)
                if not suspended:
                    status["startTime"] = now
            if not suspended:
                status.setdefault("startTime", now)
            if condition is not None:
                kind, reason, message = condition
                entry = {"type": kind, "status": "True", "reason": reason, "message": message}
                status.setdefault("conditions", []).append({**entry, "lastTransitionTime": now})
                if kind == "Complete":
                    status["completionTime"] = now

        job = self._cluster.change(*key, edit)
        ttl = job["spec"].get("ttlSecondsAfterFinished") if job is not None and condition is not None else None
        if job is not None and ttl is not None:
            uid = job["metadata"]["uid"]
            self._cluster.clock.after(float(ttl), lambda: self._expire(key, uid))

    def _expire(self, key: Key, uid: str) -> None:
        """A finished Job has outlived its time."""
        job = self._cluster.get(*key)
        if job is not None and job["metadata"]["uid"] == uid:
            self._cluster.remove(*key, policy="Foreground")

    def _pods(self, uid: str) -> list[Object]:
        """The pods of a Job."""
        keys = sorted(key for key in self._cluster.dependents.get(uid, ()) if key[0] == "pods")
        return [pod for pod in (self._cluster.get(*key) for key in keys) if pod is not None]

    def _stop(self, pods: t.Iterable[Object]) -> None:
        """Delete pods."""
        for pod in pods:
            self._stopped.add(pod["metadata"]["uid"])
            self._cluster.remove(*key_of("pods", pod))

    def _make_pod_in_turn(self, uid: str) -> None:
        """One pod after the other over all Jobs, at the controller's pace."""
        if not self._pace.pod:
            self._make_pod(uid)
            return
        clock = self._cluster.clock
        self._free_at = max(self._free_at, clock.now) + self._pace.pod
        self._turns[uid] += 1
        clock.after(self._free_at - clock.now, lambda: self._take_turn(uid))

    def _take_turn(self, uid: str) -> None:
        """It is a Job's turn to have a pod made."""
        self._turns[uid] -= 1
        self._make_pod(uid)

    def _make_pod(self, uid: str) -> None:
        """Make a pod of a Job, if it still lacks one."""
        key = self._cluster.living.get(uid)
        job = None if key is None else self._cluster.get(*key)
        if key is None or job is None or _ended(job) or job["metadata"].get("deletionTimestamp"):
            return
        spec, ended = job["spec"], self._ended[uid]
        parallelism = int(spec.get("parallelism", 1))
        left = int(spec.get("completions", parallelism)) - sum(ended.values())
        if sum(map(_is_active, self._pods(uid))) >= min(parallelism, left) or spec.get("suspend"):
            return
        self._numbers += 1
        template = spec["template"]
        name = job["metadata"]["name"]
        labels = {**(template.get("metadata", {}).get("labels") or {}), "batch.kubernetes.io/job-name": name}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}
        metadata: Object = {
            "name": f"{name}-{self._numbers:05d}",
            "namespace": key[1],
            "labels": labels,
            "annotations": template.get("metadata", {}).get("annotations") or {},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        try:
            self._cluster.add("pods", {"metadata": metadata, "spec": template["spec"]})
        except Refused:
            # The namespace is going; the real controller tries again until the Job is gone.
            return


class _Kubelets:
    """The nodes: pods that are bound run, end and go."""

    def __init__(self, cluster: MemoryCluster, pace: Pace) -> None:
        """No pod seen yet."""
        self._cluster = cluster
        self._pace = pace

    def see(self, change: Change) -> None:
        """A pod was bound or is to go, or a node is gone."""
        if change.plural == "nodes" and change.gone:
            name = change.object["metadata"]["name"]
            self._cluster.clock.after(self._pace.stop, lambda: self._lose(name))
        if change.plural != "pods" or change.gone or not change.object["spec"].get("nodeName"):
            return
        key, uid = key_of("pods", change.object), change.object["metadata"]["uid"]
        before = change.before
        if change.object["metadata"].get("deletionTimestamp"):
            if before is None or not before["metadata"].get("deletionTimestamp"):
                self._cluster.clock.after(self._pace.stop, lambda: self._stop(key, uid))
        elif before is None or not before["spec"].get("nodeName"):
            self._cluster.clock.after(self._pace.start, lambda: self._start(key, uid))

    def _is(self, key: Key, uid: str) -> Object | None:
        """A pod, if it is still the same."""
        pod = self._cluster.get(*key)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _start(self, key: Key, uid: str) -> None:
        """A bound pod begins to run, and ends after the time it names."""
        pod = self._is(key, uid)
        if pod is None or pod["status"].get("phase") != "Pending" or pod["metadata"].get("deletionTimestamp"):
            return
        now = self._cluster.time_text()

        def edit(copy: Object) -> None:
            """Running and ready."""
            copy["status"]["phase"] = "Running"
            copy["status"]["startTime"] = now
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
            copy["status"].setdefault("conditions", []).append(ready)

        self._cluster.change(*key, edit)
        notes = pod["metadata"].get("annotations") or {}
        if RUN_SECONDS in notes or EXIT_CODE in notes:
            code = int(notes.get(EXIT_CODE, "0"))
            self._cluster.clock.after(float(notes.get(RUN_SECONDS, "0")), lambda: self._end(key, uid, code))

    def _end(self, key: Key, uid: str, code: int) -> None:
        """A pod has run for its time."""
        if self._is(key, uid) is not None:
            finish(self._cluster, key[1], key[2], code)

    def _stop(self, key: Key, uid: str) -> None:
        """A pod that was deleted has stopped."""
        pod = self._is(key, uid)
        if pod is not None and not pod["metadata"].get("finalizers"):
            self._cluster.erase(key)

    def _lose(self, node: str) -> None:
        """Pods of a node that is gone go too."""
        if self._cluster.get("nodes", "", node) is None:
            for pod in self._cluster.all("pods"):
                if pod["spec"].get("nodeName") == node:
                    self._cluster.erase(key_of("pods", pod))


class _Scheduler:
    """Binds pods to nodes that have room, in any order."""

    def __init__(self, cluster: MemoryCluster, pace: Pace, chance: random.Random) -> None:
        """Nothing to do yet."""
        self._cluster = cluster
        self._pace = pace
        self._chance = chance
        self._planned = False
        self._requests: dict[str, t.Mapping[str, int]] = {}

    def see(self, change: Change) -> None:
        """Pods without a node may find one now."""
        if change.plural in ("pods", "nodes") and not self._planned:
            self._planned = True
            self._cluster.clock.after(self._pace.schedule, self._run)

    def _run(self) -> None:
        """One walk over all pods that wait."""
        self._planned = False
        pods = self._cluster.all("pods")
        waiting = [pod for pod in pods if _waits(pod)]
        if not waiting:
            return
        free = {node["metadata"]["name"]: dict(node_from_api(node).allocatable) for node in self._cluster.all("nodes")}
        for pod in pods:
            node = pod["spec"].get("nodeName")
            if node in free and pod["status"].get("phase") not in FINISHED:
                self._take(free[node], pod)
        self._chance.shuffle(waiting)
        for pod in waiting:
            fitting = [node for node in sorted(free) if self._fits(pod, node, free[node])]
            if fitting:
                chosen = self._chance.choice(fitting)
                self._take(free[chosen], pod)
                self._bind(pod, chosen)
            else:
                self._complain(pod)

    def _wants(self, pod: Object) -> t.Mapping[str, int]:
        """What a pod asks for."""
        uid = pod["metadata"]["uid"]
        if uid not in self._requests:
            self._requests[uid] = running_pod_requests(pod)
        return self._requests[uid]

    def _take(self, free: dict[str, int], pod: Object) -> None:
        """Less is free."""
        for name, amount in self._wants(pod).items():
            free[name] = free.get(name, 0) - amount

    def _fits(self, pod: Object, node: str, free: t.Mapping[str, int]) -> bool:
        """Whether a node is one a pod may go to and has room for it."""
        raw = self._cluster.get("nodes", "", node) or {}
        if (raw.get("spec") or {}).get("unschedulable") or not _selects(pod["spec"], raw["metadata"]["labels"]):
            return False
        return all(amount <= free.get(name, 0) for name, amount in self._wants(pod).items())

    def _bind(self, pod: Object, node: str) -> None:
        """Give a pod its node."""
        now = self._cluster.time_text()

        def edit(copy: Object) -> None:
            """Bound, whatever was said of it before."""
            copy["spec"]["nodeName"] = node
            copy["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": now}]

        self._cluster.change(*key_of("pods", pod), edit)

    def _complain(self, pod: Object) -> None:
        """Say once that there is no node for a pod."""
        if any(entry["type"] == "PodScheduled" for entry in pod["status"].get("conditions") or ()):
            return
        said = {"reason": "Unschedulable", "message": "0 nodes are available"}
        entry = {
            "type": "PodScheduled",
            "status": "False",
            **said,
            "lastTransitionTime": self._cluster.time_text(),
        }
        self._cluster.change(*key_of("pods", pod), lambda copy: copy["status"].update(conditions=[entry]))


def finish(cluster: MemoryCluster, namespace: str, name: str, exit_code: int = 0) -> None:
    """Let a pod end that runs."""
    now = cluster.time_text()

    def edit(copy: Object) -> None:
        """Its one container has ended."""
        if copy["status"].get("phase") != "Running":
            return
        copy["status"]["phase"] = "Failed" if exit_code else "Succeeded"
        ended = {"exitCode": exit_code, "finishedAt": now, "reason": "Error" if exit_code else "Completed"}
        copy["status"]["containerStatuses"] = [{"name": "main", "state": {"terminated": ended}, "restartCount": 0}]

    cluster.change("pods", namespace, name, edit)


def _waits(pod: Object) -> bool:
    """Whether a pod waits for this scheduler."""
    spec = pod["spec"]
    ours = spec.get("schedulerName", "default-scheduler") == "default-scheduler" and not spec.get("schedulingGates")
    return ours and not spec.get("nodeName") and _is_active(pod)


def _selects(spec: Object, labels: t.Mapping[str, str]) -> bool:
    """Whether a node's labels are what a pod asks for: its selector, and required affinity by In."""
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity is None:
        return True
    return any(
        all(labels.get(item["key"]) in item["values"] for item in term.get("matchExpressions") or ())
        for term in affinity["nodeSelectorTerms"]
    )


def _is_active(pod: Object) -> bool:
    """Whether a pod neither ended nor goes."""
    return pod["status"].get("phase") not in FINISHED and not pod["metadata"].get("deletionTimestamp")


def _ended(job: Object) -> bool:
    """Whether a Job is over."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(entry["type"] in ("Complete", "Failed") and entry["status"] == "True" for entry in conditions)


def _disown(obj: Object, uid: str) -> None:
    """Take one owner from an object's references."""
    obj["metadata"]["ownerReferences"] = [owner for owner in owners_of(obj) if owner["uid"] != uid]
