# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real Kueue as oracle: trees of its objects, Workloads made by hand one at a time, and what it says of them.

Kueue writes what it thinks a little after it thought it. So nothing is read before it must be true: a queue's figures
count once they hold exactly the workloads that Kueue itself admitted, a refused workload is gone once its queue says
that nothing waits. Many trees live side by side in one cluster, each under names of its own, and are fed at once.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import re
import threading
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import list_and_watch
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity, scaled
from ansible_collections.muster.kube.tests.support.kueue_queue import KUEUE_API
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster

Object = dict[str, t.Any]
# Amounts in the units that Kueue counts in, by flavor and resource.
Amounts = dict[tuple[str, str], int]

# Never reached when things work: only keeps a broken run from hanging.
DEADLINE = 600.0
# How long Kueue may refuse what it is expected to let in.
HOPE = 60.0
PLURALS = {
    "ResourceFlavor": "resourceflavors",
    "Cohort": "cohorts",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "Workload": "workloads",
}
FOLLOWED = ("Workload", "LocalQueue", "ClusterQueue", "Cohort")
MORE_NEEDED = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
PREEMPTED = re.compile(r"Pending the preemption of (\d+) workload")
TOO_MUCH = re.compile(r"insufficient quota for (\S+) in flavor (\S+), .*? > maximum capacity \((\S+)\)")


@dataclasses.dataclass(frozen=True, slots=True)
class PodSetAsk:
    """One podset of a workload: how many pods, and what each requests, in units that are counted."""

    count: int
    requests: t.Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What Kueue said of one workload.

    flavors has the flavor of each podset by resource if it got in. Otherwise short has how much more is needed of a
    flavor's resource, and capped how much of it there could be at all, of the first podset that did not get in.
    """

    answer: t.Literal["fits", "waits", "never"]
    flavors: tuple[t.Mapping[str, str], ...] = ()
    short: t.Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    capped: t.Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class QueueFigures:
    """What the status of a ClusterQueue tells."""

    reserved: Amounts
    borrowed: Amounts
    share: int


class Sight:
    """All objects of Kueue as the API server last showed them; whoever waits is woken by changes of its own tree."""

    def __init__(self, client: KubeClient) -> None:
        """Remember by whom to follow."""
        self._client = client
        self._objects: dict[tuple[str, str], Object] = {}
        self._changed: dict[str, threading.Condition] = collections.defaultdict(threading.Condition)
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    @contextlib.contextmanager
    def following(self) -> t.Iterator[None]:
        """Follow for as long as the block lasts."""
        threads = [threading.Thread(target=self._follow, args=(kind,), daemon=True) for kind in FOLLOWED]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()

    def _follow(self, kind: str) -> None:
        """Keep the objects of one kind."""
        path = resource_path(KUEUE_API, PLURALS[kind])
        for step in list_and_watch(self._client, path, lambda obj: obj, stop=self._stopped.is_set):
            for obj in step.items if step.type == "SYNC" else (step.item,):
                if obj is not None:
                    self._keep(kind, obj, deleted=step.type == "DELETED")

    def _keep(self, kind: str, obj: Object, *, deleted: bool) -> None:
        """Take over one object and wake who waits for it."""
        changed = self._condition((obj["metadata"].get("labels") or {}).get(TREE_LABEL, ""))
        with changed:
            if deleted:
                self._objects.pop((kind, obj["metadata"]["name"]), None)
            else:
                self._objects[kind, obj["metadata"]["name"]] = obj
            changed.notify_all()

    def _condition(self, tree: str) -> threading.Condition:
        """What those wait on who wait for a tree."""
        with self._lock:
            return self._changed[tree]

    def find(self, kind: str, name: str) -> Object | None:
        """An object, if it is there."""
        return self._objects.get((kind, name))

    def status(self, kind: str, name: str) -> Object:
        """The status of an object, empty before there is one."""
        return (self.find(kind, name) or {}).get("status") or {}

    def wait(self, tree: str, what: str, probe: t.Callable[[], bool], seconds: float = DEADLINE) -> None:
        """Wait until something of a tree is true; a failure says what was waited for."""
        changed = self._condition(tree)
        with changed:
            if not changed.wait_for(probe, seconds):
                raise AssertionError(f"waited {seconds:.0f} s in vain for {what}")


def condition(status: Object, name: str) -> Object:
    """A condition of a status, empty where there is none."""
    return next((item for item in status.get("conditions") or () if item["type"] == name), {})


def counted(resource: str, quantity: str | int) -> int:
    """A quantity in the units that Kueue counts in."""
    return scaled(resource, parse_quantity(quantity))


def share_of(status: Object) -> int | None:
    """The weighted share that a status tells, if it tells one."""
    return (status.get("fairSharing") or {}).get("weightedShare")


class KueueTree:
    """One tree of queues in Kueue, fed with one workload after the other."""

    def __init__(self, cluster: LiveCluster, sight: Sight, tree: str, objects: t.Sequence[Object]) -> None:
        """Remember the objects; the LocalQueues among them are the doors of the leaves of their names."""
        self._client = cluster.client
        self._sight = sight
        self._tree = tree
        self._objects = list(objects)
        self._doors = {
            obj["spec"]["clusterQueue"]: (obj["metadata"]["namespace"], obj["metadata"]["name"])
            for obj in objects
            if obj["kind"] == "LocalQueue"
        }
        self.queues = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "ClusterQueue"]
        self.cohorts = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Cohort"]
        # What Kueue admitted: the queue and the reserved amounts of each workload, by its name.
        self.admitted: dict[str, tuple[str, Amounts]] = {}
        # Why the last one was refused that might have evicted others.
        self.said = ""

    def plant(self) -> None:
        """Create everything and wait until Kueue has taken it all in."""
        for obj in self._objects:
            create(self._client, self._path(obj), obj)
        self._sight.wait(self._tree, f"Kueue to know {self._tree}", self._is_known)

    def _path(self, obj: Object, *, named: bool = False) -> str:
        """Where an object of Kueue lies."""
        meta = obj["metadata"]
        return resource_path(KUEUE_API, PLURALS[obj["kind"]], meta.get("namespace"), meta["name"] if named else None)

    def _is_known(self) -> bool:
        """Whether Kueue has every cohort and works for every queue and its door."""
        working = [("ClusterQueue", name) for name in self.queues]
        working += [("LocalQueue", name) for _namespace, name in self._doors.values()]
        active = all(condition(self._sight.status(*key), "Active").get("status") == "True" for key in working)
        return active and all(self._sight.find("Cohort", name) is not None for name in self.cohorts)

    def wait_fair(self) -> None:
        """Wait until all queues have told a share, which a cohort does once Kueue has taken it in."""
        told = [("Cohort", name) for name in self.cohorts] + [("ClusterQueue", name) for name in self.queues]
        self._sight.wait(
            self._tree,
            f"shares of {self._tree}",
            lambda: all(share_of(self._sight.status(*key)) is not None for key in told),
        )

    def uproot(self) -> None:
        """Delete everything, and do not wait."""
        for name in list(self.admitted):
            delete(self._client, self._workload_path(name))
        for obj in reversed(self._objects):
            delete(self._client, self._path(obj, named=True))

    def _workload_path(self, name: str) -> str:
        """Where a workload that was let in lies."""
        namespace = self._doors[self.admitted[name][0]][0]
        return resource_path(KUEUE_API, PLURALS["Workload"], namespace, name)

    def submit(
        self,
        name: str,
        queue: str,
        podsets: t.Sequence[PodSetAsk],
        priority: int = 0,
        expected: Judgement | None = None,
    ) -> Judgement:
        """Create a workload, wait until Kueue has judged it and, if it was refused, take it away again.

        A refusal that was not expected is given time: Kueue may have judged before it knew all of a tree, and judges
        anew when the rest of it comes.
        """
        namespace, door = self._doors[queue]
        made = build_workload(name, namespace, door, podsets, priority)
        made["metadata"]["labels"] = {TREE_LABEL: self._tree}
        create(self._client, self._path(made), made)
        self._sight.wait(self._tree, f"Kueue to judge {name}", lambda: bool(self._reservation(name)))
        if expected is not None and not self._is_as(name, expected):
            with contextlib.suppress(AssertionError):
                self._sight.wait(self._tree, f"Kueue to judge {name} anew", lambda: self._is_as(name, expected), HOPE)
        if self._is_in(name):
            return self._let_in(name, queue)
        judgement = refusal(self._reservation(name))
        # Kueue hears of workloads in the order of their changes: whatever comes after this finds it gone.
        delete(self._client, self._path(made, named=True))
        return judgement

    def submit_over(
        self, name: str, queue: str, podsets: t.Sequence[PodSetAsk], priority: int, *, hoped: bool
    ) -> list[str] | None:
        """Create a workload that may evict others: its victims if it got in, None if it was refused.

        What would stop the pods of a victim is not there, so its end is played here: it is deleted. Without fair
        sharing nothing tells that Kueue knows a cohort; so a refusal of what was hoped for is given time to be taken
        back, which Kueue does by itself when a cohort comes. Under load it now and then misses one that came among
        many: then it is told of the cohorts once more.
        """
        namespace, door = self._doors[queue]
        made = build_workload(name, namespace, door, podsets, priority)
        made["metadata"]["labels"] = {TREE_LABEL: self._tree}
        create(self._client, self._path(made), made)
        victims: list[str] = []
        while True:
            self._sight.wait(self._tree, f"Kueue to judge {name}", lambda: self._is_judged(name, victims))
            if hoped and not self._may_get_in(name):
                self._tell_cohorts_again()
                self._may_get_in(name)
            if self._is_in(name):
                self._let_in(name, queue)
                return victims
            if not self._wants(name):
                self.said = refusal(self._reservation(name)).message
                delete(self._client, self._path(made, named=True))
                return None
            self._sight.wait(
                self._tree,
                f"victims of {name}",
                lambda: len(self._evicted()) == self._wants(name) or self._is_in(name),
            )
            for victim in self._evicted():
                victims.append(victim)
                path = self._workload_path(victim)
                del self.admitted[victim]
                delete(self._client, path)

    def _may_get_in(self, name: str) -> bool:
        """Whether Kueue lets a workload in, or evicts for it, before hope ends."""
        with contextlib.suppress(AssertionError):
            self._sight.wait(self._tree, "hope", lambda: self._is_in(name) or self._wants(name) > 0, HOPE)
            return True
        return False

    def _tell_cohorts_again(self) -> None:
        """Change the cohorts in what means nothing without fair sharing, so that Kueue reads them anew."""
        print(f"Kueue is told of the cohorts of {self._tree} once more: {self.cohorts}")
        for obj in self._objects:
            if obj["kind"] == "Cohort":
                patch(self._client, self._path(obj, named=True), {"spec": {"fairSharing": {"weight": "3"}}})

    def _wants(self, name: str) -> int:
        """How many victims Kueue waits for before a workload gets in."""
        found = PREEMPTED.search(self._reservation(name)["message"])
        return 0 if found is None else int(found.group(1))

    def _is_judged(self, name: str, victims: t.Sequence[str]) -> bool:
        """Whether Kueue has said something of a workload that it did not say before its victims went."""
        said = self._reservation(name)
        if not said:
            return False
        return said["status"] == "True" or not victims or bool(self._evicted()) or not self._wants(name)

    def _is_as(self, name: str, expected: Judgement) -> bool:
        """Whether a workload is in, or kept out for what was expected."""
        if self._is_in(name):
            return True
        said = refusal(self._reservation(name))
        return (said.answer, said.short, said.capped) == (expected.answer, expected.short, expected.capped)

    def _is_in(self, name: str) -> bool:
        return self._reservation(name)["status"] == "True"

    def _evicted(self) -> list[str]:
        """The workloads that Kueue wants to end."""
        status = self._sight.status
        return [
            name for name in self.admitted if condition(status("Workload", name), "Evicted").get("status") == "True"
        ]

    def _reservation(self, name: str) -> Object:
        """What Kueue says of a workload's quota."""
        return condition(self._sight.status("Workload", name), "QuotaReserved")

    def _let_in(self, name: str, queue: str) -> Judgement:
        """Count a workload that was admitted."""
        assignments = self._sight.status("Workload", name)["admission"]["podSetAssignments"]
        amounts: Amounts = collections.Counter()
        for item in assignments:
            for resource, flavor in (item.get("flavors") or {}).items():
                amounts[flavor, resource] += counted(resource, item["resourceUsage"][resource])
        self.admitted[name] = (queue, dict(amounts))
        self._wait_counted(queue)
        return Judgement("fits", tuple(item.get("flavors") or {} for item in assignments))

    def release(self, name: str) -> None:
        """Delete a workload that was admitted and wait until its queue has its room again."""
        path = self._workload_path(name)
        queue, _amounts = self.admitted.pop(name)
        delete(self._client, path)
        self._wait_counted(queue)

    def _wait_counted(self, queue: str) -> None:
        """Wait until the figures of a queue are those of what it admitted."""
        self._sight.wait(self._tree, f"{queue} to count what it let in", lambda: self._is_counted(queue))

    def _is_counted(self, queue: str) -> bool:
        """Whether the status of a queue holds exactly what was admitted through it."""
        inside = [amounts for held, amounts in self.admitted.values() if held == queue]
        total: Amounts = collections.Counter()
        for amounts in inside:
            for key, amount in amounts.items():
                total[key] += amount
        status = self._sight.status("ClusterQueue", queue)
        reserved = {key: amount for key, amount in reservation(status, "total").items() if amount}
        return status.get("reservingWorkloads", 0) == len(inside) and reserved == {k: v for k, v in total.items() if v}

    def figures(self, queue: str) -> QueueFigures:
        """What Kueue tells of a queue that counts all it admitted."""
        status = self._sight.status("ClusterQueue", queue)
        return QueueFigures(reservation(status, "total"), reservation(status, "borrowed"), share_of(status) or 0)

    def cohort_share(self, cohort: str, expected: int, seconds: float = DEADLINE) -> int:
        """The share of a cohort; Kueue tells it last and nothing tells its age, so the expected one is waited for."""
        with contextlib.suppress(AssertionError):
            self._sight.wait(self._tree, cohort, lambda: self._share(cohort) == expected, seconds)
        return self._share(cohort)

    def _share(self, cohort: str) -> int:
        return share_of(self._sight.status("Cohort", cohort)) or 0


def reservation(status: Object, field: t.Literal["total", "borrowed"]) -> Amounts:
    """Amounts by flavor and resource of what a queue says is reserved."""
    return {
        (flavor["name"], item["name"]): counted(item["name"], item.get(field, 0))
        for flavor in status.get("flavorsReservation") or ()
        for item in flavor.get("resources") or ()
    }


def refusal(said: Object) -> Judgement:
    """What a condition says that keeps a workload out.

    Of several podsets the first counts: how Kueue goes on after it, and so the reason it gives for all of them, depends
    on whether that one could be had by eviction.
    """
    message, *others = said["message"].split("; couldn't assign")
    short = {(flavor, name): counted(name, amount) for name, flavor, amount in MORE_NEEDED.findall(message)}
    capped = {(flavor, name): counted(name, amount) for name, flavor, amount in TOO_MUCH.findall(message)}
    if not short and not capped:
        raise AssertionError(f"Kueue kept it out for another reason than quota: {said['reason']}: {said['message']}")
    # A flavor that has too little of one resource at all may lack another now, which does not help.
    hopeless = {flavor for flavor, _name in short} <= {flavor for flavor, _name in capped}
    if not others and said["reason"] != "Pending":
        assert hopeless == (said["reason"] == "ExceedsMaxQuota"), said
    return Judgement("never" if hopeless else "waits", (), short, capped, said["message"])


def build_workload(name: str, namespace: str, door: str, podsets: t.Sequence[PodSetAsk], priority: int = 0) -> Object:
    """A Workload as a controller would make it, without any pods behind it."""
    return {
        "apiVersion": KUEUE_API,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "queueName": door,
            "priority": priority,
            "podSets": [
                {"name": f"p{number}", "count": podset.count, "template": {"spec": pod_spec(podset.requests)}}
                for number, podset in enumerate(podsets)
            ],
        },
    }


def pod_spec(requests: t.Mapping[str, int]) -> Object:
    """A pod that requests so much, in units that are counted."""
    amounts = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in requests.items()}
    resources = {"requests": amounts, "limits": amounts}
    return {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none", "resources": resources}]}
