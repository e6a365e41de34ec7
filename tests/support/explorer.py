# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A random explorer: users, operators, networks and dispatchers do what they like, then everything must be in order.

A course is a seed, a setting and a list of operations, all plain values: what is printed can be pasted into a test.
Operations that make no sense when their turn comes do nothing, so that any of them can be left out to make a course
shorter.
"""

from __future__ import annotations

import dataclasses
import json
import pprint
import random
import typing as t

from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.dispatch_stage import free_lease
from ansible_collections.muster.kube.tests.support.explorer_invariants import Deeds, violations
from ansible_collections.muster.kube.tests.support.explorer_quota import (
    QUEUES,
    TREE,
    QuotaReplay,
    Tree,
    change_tree,
    draw_change,
    draw_queue,
    draw_tree,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import Barrier, Change, Denial, Object
from ansible_collections.muster.kube.tests.support.memory_controllers import Pace
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_mirror import WatchPace
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault

Operation = tuple[str, dict[str, t.Any], float]
Verdict = list[str]

NAMESPACES = ("a", "b", "c")
POOL = "p"
FINALIZER = "muster-test/hold"
READY = "muster.kube/ready-before-next"
# Virtual seconds in which everything has to come to rest once nothing goes wrong any more.
HEALING = 1800.0
# After so many seconds dispatchers look again although nothing has changed.
LOOK_AGAIN = 11.0
# Longer than any pause before something is tried again, and than any gang runs.
CALM = 5000.0
# So many cycles are enough to come to rest, and so many more in each second while something is under way.
MOST_CYCLES = 150
CYCLES_PER_SECOND = 2.0
METERS = ("muster-usage-", "muster-quota-status-")
# Details that an operation can do without.
_OPTIONAL = ("priority", "services", "finalizer", "ready", "times", "meanwhile", "queue", "label")
GPU = "nvidia.com/gpu"
# A start rests on a tree that was there at most so many seconds before its ticket, and mirrors show it a little later.
TREE_SECONDS = LEASE.seconds
LATE_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Course:
    """What is to happen; dispatchers maps names to their namespaces, None for all."""

    seed: int
    operations: tuple[Operation, ...]
    dispatchers: tuple[tuple[str, tuple[str, ...] | None], ...] = (("one", ("a",)), ("two", ("b",)), ("all", None))
    narrow: bool = False
    pod_pace: float = 0.01
    # Whether dispatchers read from mirrors, and keep the Lease for longer.
    mirrored: bool = False
    # The quota tree at the beginning.
    tree: Tree | None = None
    # How long pods take to go.
    pod_end: float = 0.2
    # How long it may take until everything rests.
    healing: float = HEALING
    # Whether suspended Jobs take other resources.
    suspends: bool = False

    def text(self) -> str:
        """The course as a literal."""
        fields = [
            f"    {field.name}={pprint.pformat(getattr(self, field.name), width=110, sort_dicts=False)},"
            for field in dataclasses.fields(self)
        ]
        return "\n".join(["Course(", *fields, ")"])


def draw(seed: int) -> Course:
    """A course for a seed."""
    chance = random.Random(seed)
    dispatchers: list[tuple[str, tuple[str, ...] | None]] = [("one", ("a",)), ("two", ("b",))]
    if chance.random() < 0.7:
        dispatchers.append(("all", None))
    names = [name for name, _namespaces in dispatchers]
    operations = tuple(_operation(chance, number, names) for number in range(chance.randint(3, 12)))
    first = ("submit", _gang(chance, 99), chance.choice((0.0, 0.1, 1.0)))
    narrow = chance.random() < 0.3
    return Course(seed, (first, *operations), tuple(dispatchers), narrow, chance.choice((0.0, 0.01, 0.8)))


def draw_mirrored(seed: int) -> Course:
    """The same course with dispatchers that read from mirrors, and with watches that fail them."""
    course, chance = draw(seed), random.Random(seed + 1_000_000_000)
    operations = list(course.operations)
    for _fault in range(chance.randint(1, 4)):
        details = {
            "who": chance.choice(course.dispatchers)[0],
            "trouble": chance.choice(("late", "late", "cut", "gap")),
        }
        if details["trouble"] != "gap":
            details["seconds"] = chance.choice((0.0, 0.5, 2.0, 10.0))
        operations.insert(chance.randint(0, len(operations)), ("watch", details, chance.choice((0.0, 0.2, 1.0))))
    return dataclasses.replace(course, operations=tuple(operations), mirrored=True)


def draw_shared(seed: int, drawn: t.Callable[[int], Course] = draw) -> Course:
    """The same course in a cluster that is shared by a quota tree, which changes meanwhile."""
    course, chance = drawn(seed), random.Random(seed + 2_000_000_000)
    operations = [
        (kind, _in_queue(chance, details) if kind == "submit" else details, pause)
        for kind, details, pause in course.operations
    ]
    more: list[tuple[str, dict[str, t.Any]]] = []
    for number in range(chance.randint(2, 6)):
        more.append(("submit", _in_queue(chance, _gang(chance, 50 + number))))
    for _change in range(chance.randint(0, 3)):
        more.append(("tree", {"tree": draw_change(chance, NAMESPACES)}))
    for _change in range(chance.randint(0, 3)):
        name = chance.choice((*QUEUES, None, "none-such"))
        more.append(("move", {"which": chance.randint(0, 9), "how": chance.choice(("queue", "label")), "name": name}))
    for _deletion in range(chance.randint(0, 3)):
        more.append(("delete", {"which": chance.randint(0, 9)}))
    for kind, details in more:
        place = chance.randint(0, len(operations))
        operations.insert(place, (kind, details, chance.choice((0.0, 0.2, 1.0, 1.0, 5.0))))
    tree = draw_tree(chance, NAMESPACES) if chance.random() < 0.85 else None
    pod_end = chance.choice((0.2, 0.2, 8.0))
    return dataclasses.replace(course, operations=tuple(operations), tree=tree, pod_end=pod_end)


def draw_elastic(seed: int) -> Course:
    """The same course with gangs that have GPUs, most of them a range, and with time to resize them."""
    course, chance = (draw, draw_mirrored, draw_shared)[seed % 3](seed), random.Random(seed + 3_000_000_000)
    operations = list(course.operations)
    for number in range(chance.randint(2, 5)):
        gang = elastic_gang(chance, 70 + number)
        if course.tree is not None:
            gang |= draw_queue(chance)
        operations.insert(chance.randint(0, len(operations)), ("submit", gang, chance.choice((0.0, 0.2, 5.0))))
    for _wait in range(chance.randint(1, 3)):
        operations.insert(chance.randint(0, len(operations)), ("wait", {}, chance.choice((200.0, 900.0))))
    # One resize after the other, each of a gang that has run for a while.
    suspends = chance.random() < 0.5
    return dataclasses.replace(course, operations=tuple(operations), healing=20 * HEALING, suspends=suspends)


def elastic_gang(chance: random.Random, number: int) -> dict[str, t.Any]:
    """What a training may ask for."""
    least = chance.choice((1, 1, 2))
    job: dict[str, t.Any] = {"pods": 1, "cpu": "100m", "gpus": least}
    gang: dict[str, t.Any] = {"namespace": chance.choice(NAMESPACES), "name": f"g{number}", "jobs": [job]}
    gang["services"] = chance.choice((0, 0, 1))
    if chance.random() < 0.4:
        job["seconds"] = chance.choice((4, 300, 1000))
    if chance.random() < 0.3:
        job["gpus"] = chance.randint(1, 4)
        return gang
    range_: dict[str, t.Any] = {"min": least, "max": 4}
    if chance.random() < 0.4:
        range_, job["pods"], job["gpus"] = {"min": least, "max": 8, "axis": "pods"}, least, 1
    timing = chance.choice(("now", "now", "on_sigterm", "at_checkpoint"))
    gang["elastic"] = {"range": range_, "timing": timing, "cooldown": chance.choice((0, 5, 60))}
    return gang


def _in_queue(chance: random.Random, gang: dict[str, t.Any]) -> dict[str, t.Any]:
    """A gang that names a queue or not; most are small, so that several want the same quota."""
    if chance.random() < 0.6:
        gang = {**gang, "jobs": [{**gang["jobs"][0], "pods": chance.randint(1, 3), "cpu": "1"}]}
        gang.pop("ready", None)
    return {**gang, **draw_queue(chance)}


def _operation(chance: random.Random, number: int, names: t.Sequence[str]) -> Operation:
    """One thing that happens, and how long it is until the next."""
    weights = {
        "submit": 30,
        "fault": 22,
        "edit": 3,
        "delete": 5,
        "drop_namespace": 2,
        "delete_lease": 5,
        "stop": 5,
        "resume": 5,
        "retire": 1,
        "node": 4,
        "finish": 8,
        "delete_object": 3,
        "barrier": 6,
    }
    kind = chance.choices(list(weights), list(weights.values()))[0]
    details: dict[str, t.Any] = {}
    if kind == "submit":
        details = _gang(chance, number)
    elif kind == "fault":
        details = _trouble(chance, names)
    elif kind in ("stop", "resume", "retire"):
        details = {"who": chance.choice(names)}
    elif kind == "barrier":
        details = {"cause": chance.choice(("quota", "webhook")), "namespace": chance.choice(NAMESPACES)}
        details |= {"plural": chance.choice(("jobs", "services")), "seconds": chance.choice((0.5, 5.0, 40.0))}
        details["dry"] = chance.random() < 0.5
    elif kind == "drop_namespace":
        details = {"namespace": chance.choice(NAMESPACES)}
    elif kind == "node":
        details = {"name": f"{POOL}-n{chance.randint(0, 2)}"}
    elif kind == "finish":
        details = {"which": chance.randint(0, 9), "exit_code": chance.choice((0, 0, 3))}
    elif kind in ("delete", "edit", "delete_object"):
        details = {"which": chance.randint(0, 9)}
    return kind, details, chance.choice((0.0, 0.05, 0.2, 1.0, 5.0))


def _trouble(chance: random.Random, names: t.Sequence[str]) -> dict[str, t.Any]:
    """What goes wrong with one of the next requests of a dispatcher, and what may happen just then."""
    trouble = chance.choice(("kill_before", "kill_after", "cut", "lose", "delay", "refuse", "date"))
    details: dict[str, t.Any] = {"who": chance.choice(names), "trouble": trouble, "skip": chance.randint(0, 9)}
    details["methods"] = chance.choice((WRITES, WRITES, WRITES, "POST", ".*"))
    if trouble == "delay":
        details["seconds"] = chance.choice((0.2, 1.0, 3.0))
    elif trouble == "date":
        details |= {"seconds": chance.choice((-3600.0, 3600.0)), "methods": ".*"}
    elif trouble == "refuse":
        details["status"] = chance.choice((500, 503, 429))
        details["times"] = chance.choice((1, 1, 6))
    if chance.random() < 0.25:
        details["meanwhile"] = chance.choice(("delete_lease", "delete_lease", "delete", "edit", "node"))
    return details


def _gang(chance: random.Random, number: int) -> dict[str, t.Any]:
    """What a user may ask for; small, so that several fit."""
    jobs = []
    for _job in range(chance.choice((1, 1, 1, 2, 3))):
        made: dict[str, t.Any] = {"pods": chance.randint(1, 4), "cpu": chance.choice(("1", "1", "2", "500m"))}
        if chance.random() < 0.5:
            made["seconds"] = chance.choice((1, 4, 15))
            made["exit_code"] = chance.choice((0, 0, 0, 3))
            if chance.random() < 0.2:
                made["ttl"] = chance.choice((0, 5))
        if chance.random() < 0.3:
            made["own"] = True
        jobs.append(made)
    gang: dict[str, t.Any] = {"namespace": chance.choice(NAMESPACES), "name": f"g{number}", "jobs": jobs}
    gang["services"] = chance.choice((0, 0, 1, 2))
    if chance.random() < 0.3:
        gang["priority"] = chance.choice((-5, 5))
    if gang["services"] and chance.random() < 0.15:
        gang["finalizer"] = True
    if "seconds" in jobs[0] and len(jobs) > 1 and chance.random() < 0.3:
        gang["ready"] = True
        jobs[0] |= {"pods": 1, "cpu": "1"}
    return gang


def objects_of(gang: t.Mapping[str, t.Any]) -> list[Object]:
    """The objects of a gang as it was drawn."""
    name = gang["name"]
    made = [cases.service(f"{name}-s{index}") for index in range(gang.get("services", 0))]
    if gang.get("finalizer") and made:
        made[0]["metadata"]["finalizers"] = [FINALIZER]
    for index, job in enumerate(gang["jobs"]):
        seconds = job.get("seconds")
        requests = {"cpu": job["cpu"], **({GPU: str(job["gpus"])} if "gpus" in job else {})}
        raw = cases.job(
            f"{name}-j{index}", POOL, job["pods"], seconds=seconds, exit_code=job.get("exit_code"), **requests
        )
        if (gang.get("elastic") or {}).get("range", {}).get("axis") == "pods":
            # Completions follow the parallelism of such Jobs.
            raw["spec"]["completionMode"] = "Indexed"
        if "ttl" in job:
            raw["spec"]["ttlSecondsAfterFinished"] = job["ttl"]
        if job.get("own"):
            raw["spec"]["template"]["spec"]["containers"][0]["args"] = [f"{name}-{index}"]
        if gang.get("ready") and index == 0:
            raw["metadata"]["annotations"] = {READY: "Complete=True"}
        made.append(raw)
    return made


class Explorer:
    """One course on a fresh stage."""

    def __init__(self, course: Course) -> None:
        """Three namespaces, two nodes of 4 cpu and 4 GPUs, and what belongs to others and only looks like ours."""
        self.course = course
        self.stage = MemoryStage(course.seed, Pace(pod=course.pod_pace, stop=course.pod_end))
        self.deeds = Deeds()
        # Those that are not there at all count as retired, so that courses can do without them.
        self.retired = {"one", "two", "all"} - {name for name, _namespaces in course.dispatchers}
        self.dropped: set[str] = set()
        for name in NAMESPACES:
            self.stage.add_namespace(name)
            self._plant(name)
        self.stage.add_nodes(*cases.node_pool(POOL, 2, **{GPU: "4"}))
        self.stage.cluster.server_version = (1, 36) if course.suspends else None
        self._provide_lease()
        self._changed_at = 0.0
        self.stage.cluster.listeners.append(self._note_time)
        self.deeds.times = [0.0] * len(self.stage.cluster.history)
        if course.tree is not None:
            self._tree(course.tree)
        if course.narrow:
            for name, namespaces in course.dispatchers:
                if namespaces is not None:
                    others = [item for item in NAMESPACES if item not in namespaces]
                    plurals = ("configmaps", "jobs", "services", "events", "serviceaccounts")
                    self.stage.cluster.denials.append(Denial(name, None, plurals, [*others, ""]))

    def run(self) -> Verdict:
        """Everything that is wrong in the end."""
        with self.stage:
            for name, namespaces in self.course.dispatchers:
                self._start(name, namespaces)
            for kind, details, pause in self.course.operations:
                getattr(self, f"_{kind}")(**details)
                self._go_on(pause)
            rested = self._heal()
            found = violations(self.stage.cluster, self.deeds, self._quota_replay())
            found += [f"crash: {text}" for text in self.stage.crashes]
            if not rested:
                busy = sorted(name for name, actor in self.stage.actors.items() if not actor.quiet())
                found.append(f"restless: {self._cycles()} cycles, and there is no end for {', '.join(busy)}")
        return found

    def _note_time(self, change: Change) -> None:
        """When it happened."""
        self.deeds.times.append(self.stage.clock.now)
        if _tells_something(change):
            self._changed_at = self.stage.clock.now

    def _quota_replay(self) -> QuotaReplay | None:
        """What judges quota, where there ever was any."""
        if self.course.tree is None and not any(kind == "tree" for kind, _details, _pause in self.course.operations):
            return None
        watches = [details.get("seconds", 0.0) for kind, details, _pause in self.course.operations if kind == "watch"]
        late = LATE_SECONDS + max(watches, default=0.0) if self.course.mirrored else 0.0
        return QuotaReplay(TREE_SECONDS + late)

    def _start(self, name: str, namespaces: tuple[str, ...] | None) -> None:
        """A process; the one for all namespaces keeps the Lease longer, and so does who reads from mirrors."""
        turn = 1 if namespaces else 3
        mirrored = self.course.mirrored
        self.stage.start(name, namespaces, turn=4 * turn if mirrored else turn, mirrored=mirrored)

    def _go_on(self, seconds: float) -> None:
        """Let dispatchers and time go on; whoever was killed is started again."""
        self.stage.run_for(seconds)
        self._restart()

    def _restart(self) -> None:
        """Start again who ended."""
        for name, namespaces in self.course.dispatchers:
            if name not in self.retired and self.stage.actors[name].over:
                self.stage.kill(name)
                self._start(name, namespaces)

    def _heal(self) -> bool:
        """Nothing goes wrong from now on; True when everything comes to rest."""
        for actor in self.stage.actors.values():
            actor.dispatcher.line.faults.clear()
            actor.dispatcher.pace.delay, actor.dispatcher.pace.cut_until = WatchPace().delay, 0.0
            actor.stopped = False
        self.stage.cluster.barriers.clear()
        self._restart()
        covered: set[str] = set()
        for _name, namespaces in self._present():
            covered.update(NAMESPACES if namespaces is None else namespaces)
        self.deeds.abandoned_namespaces = set(NAMESPACES) - covered
        if self.course.narrow and not any(names is None for name, names in self._present()):
            self.deeds.blind_namespaces = set(NAMESPACES)
        self.stage.cluster.listeners.append(self._see_finalizer)
        for obj in self.stage.cluster.all("services"):
            self._see_finalizer(Change(0, "services", False, obj, None))
        return self._settle()

    def _present(self) -> list[tuple[str, tuple[str, ...] | None]]:
        """The dispatchers that are left."""
        return [item for item in self.course.dispatchers if item[0] not in self.retired]

    def _settle(self) -> bool:
        """Go on until those who look again change nothing; False when there is no end."""
        before, began = self._cycles(), self.stage.clock.now

        def over() -> bool:
            """Whether everybody rests, or there were more cycles than anything can need in this time."""
            allowed = MOST_CYCLES + CYCLES_PER_SECOND * (self.stage.clock.now - began)
            return self._is_calm() or self._cycles() - before > allowed

        seen = -1
        while self.stage.run_until(over, self.course.healing) and self._is_calm():
            if seen == self._changes():
                return True
            seen = self._changes()
            self.stage.run_for(LOOK_AGAIN)
            for actor in self.stage.actors.values():
                actor.news += 1
        return False

    def _is_calm(self) -> bool:
        """Whether nobody has anything left to do, or those who look again from time to time find nothing."""
        return self.stage.at_rest() or self.stage.clock.now - self._changed_at > CALM

    def _changes(self) -> int:
        """How often anything changed."""
        return sum(map(_tells_something, self.stage.cluster.history))

    def _cycles(self) -> int:
        """How often dispatchers have looked."""
        return sum(actor.dispatcher.cycles for actor in self.stage.actors.values())

    def _see_finalizer(self, change: Change) -> None:
        """Whoever put a finalizer on an object takes it away soon after the object is deleted."""
        metadata = change.object["metadata"]
        held = FINALIZER in (metadata.get("finalizers") or ())
        if held and metadata.get("deletionTimestamp") and not change.gone:
            self.stage.clock.after(0.5, lambda: self._release(change.object))

    def _release(self, obj: Object) -> None:
        """Let an object go."""
        place = obj["metadata"]["namespace"], obj["metadata"]["name"]
        self.stage.cluster.change("services", *place, lambda copy: copy["metadata"].update(finalizers=[]))

    def _plant(self, namespace: str) -> None:
        """Objects of others that look like a gang's; nobody may touch them."""
        add = self.stage.cluster.add
        labels = {"muster.kube/gang": "nobody", "muster.kube/attempt": "1"}
        stray = cases.config_map("stray")
        stray["metadata"].update(namespace=namespace, labels={**labels, "muster.kube/ticket": "true"})
        same = cases.service("g3-s0")
        same["metadata"].update(namespace=namespace, labels=labels)
        for plural, obj in (("configmaps", stray), ("services", same)):
            made = add(plural, obj)
            self.deeds.foreign[made["metadata"]["uid"]] = made

    def _provide_lease(self) -> None:
        """A Lease under which nothing is promised, so that nobody has to wait for what was promised before."""
        self.stage.cluster.add("leases", free_lease(LEASE))

    # Operations.

    def _wait(self) -> None:
        """Nothing but time."""

    def _submit(self, **gang: t.Any) -> None:
        """A user queues a gang."""
        namespace = self.stage.cluster.get("namespaces", "", gang["namespace"])
        taken = self.stage.cluster.get("configmaps", gang["namespace"], gang["name"])
        if namespace is not None and not namespace["metadata"].get("deletionTimestamp") and taken is None:
            record = cases.gang_record(
                gang["name"],
                gang["namespace"],
                objects_of(gang),
                priority=gang.get("priority", 0),
                **{key: gang[key] for key in ("queue", "elastic") if key in gang},
            )
            if "label" in gang:
                record["metadata"]["labels"][TREE] = gang["label"]
            self.stage.cluster.add("configmaps", record)

    def _records(self) -> list[Object]:
        """The gangs there are."""
        maps = self.stage.cluster.all("configmaps")
        return [obj for obj in maps if (obj["metadata"].get("labels") or {}).get("muster.kube/record") == "gang"]

    def _pick(self, objects: t.Sequence[Object], which: int) -> tuple[str, str] | None:
        """Namespace and name of one of the objects, if there are any."""
        obj = objects[which % len(objects)] if objects else None
        return None if obj is None else (obj["metadata"]["namespace"], obj["metadata"]["name"])

    def _edit(self, which: int) -> None:
        """A user changes what a gang is made of."""

        def edit(record: Object) -> None:
            """Its last object is another one now."""
            data = json.loads(record["data"]["gang.json"])
            data["objects"][-1] = cases.config_map(f"{data['name']}-edited")
            record["data"]["gang.json"] = json.dumps(data)

        place = self._pick(self._records(), which)
        if place is not None:
            self.stage.cluster.change("configmaps", *place, edit)

    def _delete(self, which: int) -> None:
        """A user deletes a gang."""
        place = self._pick(self._records(), which)
        if place is not None:
            self.stage.cluster.remove("configmaps", *place)

    def _tree(self, tree: Tree | str) -> None:
        """An operator changes the quota tree."""
        change_tree(self.stage.cluster, tree)

    def _move(self, which: int, how: str, name: str | None) -> None:
        """A user names another queue, in the text of a gang or by a label."""

        def move(record: Object) -> None:
            """Only there."""
            if how == "queue":
                data = {**json.loads(record["data"]["gang.json"]), "queue": name}
                record["data"]["gang.json"] = json.dumps(data)
            elif name is None:
                record["metadata"]["labels"].pop(TREE, None)
            else:
                record["metadata"]["labels"][TREE] = name

        place = self._pick(self._records(), which)
        if place is not None:
            self.stage.cluster.change("configmaps", *place, move)

    def _drop_namespace(self, namespace: str) -> None:
        """An operator deletes a namespace and makes it anew as soon as it is gone."""
        if namespace in self.dropped or self.stage.cluster.get("namespaces", "", namespace) is None:
            return
        self.deeds.dropped_namespaces.add(namespace)
        for uid, obj in list(self.deeds.foreign.items()):
            if obj["metadata"]["namespace"] == namespace:
                del self.deeds.foreign[uid]
                self.deeds.ignored.add(uid)
        for obj in self.stage.cluster.all("services", namespace):
            self._release(obj)
        self.stage.cluster.remove("namespaces", "", namespace)
        self.dropped.add(namespace)
        self.stage.clock.after(1.0, lambda: self._make_anew(namespace))

    def _make_anew(self, namespace: str) -> None:
        """The namespace again, once the old one is gone."""
        if self.stage.cluster.get("namespaces", "", namespace) is None:
            self.dropped.discard(namespace)
            self.stage.add_namespace(namespace)
        else:
            self.stage.clock.after(1.0, lambda: self._make_anew(namespace))

    def _delete_lease(self) -> None:
        """An operator deletes the Lease."""
        self.stage.cluster.remove("leases", LEASE.namespace, LEASE.name)

    def _fault(self, who: str, meanwhile: str | None = None, **fault: t.Any) -> None:
        """Something goes wrong with one of the next requests of a dispatcher; something else may happen just then."""
        others: dict[str, t.Callable[[], None]] = {
            "delete_lease": self._delete_lease,
            "delete": lambda: self._delete(fault.get("skip", 0)),
            "edit": lambda: self._edit(fault.get("skip", 0)),
            "node": lambda: self._node(f"{POOL}-n{fault['skip'] % 3}"),
        }
        if who not in self.retired:
            happens = None if meanwhile is None else others[meanwhile]
            self.stage.actors[who].dispatcher.line.faults.append(Fault(**fault, happens=happens))

    def _watch(self, who: str, trouble: str, seconds: float = 0.0) -> None:
        """Events of a dispatcher's watches come late, do not come for a while, or are lost so that it has to list."""
        if who in self.retired:
            return
        dispatcher = self.stage.actors[who].dispatcher
        if trouble == "late":
            dispatcher.pace.delay = 0.01 + seconds
        elif trouble == "cut":
            dispatcher.pace.cut_until = self.stage.clock.now + seconds
        elif dispatcher.mirrors is not None:
            for mirror in dispatcher.mirrors._mirrors.values():
                mirror.table.note(None)

    def _barrier(self, seconds: float, **barrier: t.Any) -> None:
        """Admission refuses some objects of a namespace for a while."""
        self.stage.cluster.barriers.append(Barrier(until=self.stage.clock.now + seconds, **barrier))

    def _stop(self, who: str) -> None:
        """A process stands still."""
        if who not in self.retired:
            self.stage.actors[who].stopped = True

    def _resume(self, who: str) -> None:
        """It goes on with its next request."""
        if who not in self.retired:
            self.stage.actors[who].stopped = False

    def _retire(self, who: str) -> None:
        """A process is killed and nobody starts it again."""
        if who not in self.retired:
            self.retired.add(who)
            self.stage.kill(who)

    def _node(self, name: str) -> None:
        """A node comes, or goes with its pods."""
        if self.stage.cluster.get("nodes", "", name) is None:
            self.stage.add_nodes(cases.kwok_node(name, POOL))
        else:
            self.stage.cluster.remove("nodes", "", name)

    def _finish(self, which: int, exit_code: int) -> None:
        """A pod ends."""
        running = [pod for pod in self.stage.cluster.all("pods") if pod["status"].get("phase") == "Running"]
        place = self._pick(running, which)
        if place is not None:
            self.stage.controllers.finish(*place, exit_code)

    def _delete_object(self, which: int) -> None:
        """A user deletes a Job of a gang."""
        place = self._pick(self.stage.cluster.all("jobs"), which)
        if place is not None:
            job = self.stage.cluster.get("jobs", *place)
            assert job is not None
            self.deeds.deleted.add(job["metadata"]["uid"])
            self.stage.cluster.remove("jobs", *place)


def _tells_something(change: Change) -> bool:
    """Whether more than the Lease, Events and meters changed, which go on as long as anything runs."""
    return change.plural not in ("leases", "events") and not change.object["metadata"]["name"].startswith(METERS)


def explore(course: Course) -> Verdict:
    """What is wrong after a course."""
    return Explorer(course).run()


def rules_of(found: t.Iterable[str]) -> set[str]:
    """The names of the rules that were broken."""
    return {text.partition(":")[0] for text in found}


def simplify(course: Course, rule: str) -> Course:
    """A course with fewer dispatchers and simpler operations that still breaks the rule."""

    def breaks(other: Course) -> bool:
        """Whether it still does."""
        return rule in rules_of(explore(other))

    for entry in course.dispatchers:
        fewer = dataclasses.replace(course, dispatchers=tuple(item for item in course.dispatchers if item != entry))
        if fewer.dispatchers and breaks(fewer):
            course = fewer
    for change in ({"narrow": False}, {"pod_pace": 0.01}, {"pod_end": 0.2}, {"mirrored": False}, {"tree": None}):
        plain = dataclasses.replace(course, **change)
        if plain != course and breaks(plain):
            course = plain
    for index, (kind, details, pause) in enumerate(course.operations):
        for name in [name for name in details if name in _OPTIONAL]:
            rest = {key: value for key, value in course.operations[index][1].items() if key != name}
            operations = (*course.operations[:index], (kind, rest, pause), *course.operations[index + 1 :])
            plain = dataclasses.replace(course, operations=operations)
            if breaks(plain):
                course = plain
    return course


def shrink(course: Course, rule: str, tries: int = 300) -> Course:
    """The shortest course found that still breaks the rule: parts are left out, larger ones first."""

    def breaks(operations: t.Sequence[Operation]) -> bool:
        """Whether these operations are enough."""
        return rule in rules_of(explore(dataclasses.replace(course, operations=tuple(operations))))

    kept = list(course.operations)
    size = max(1, len(kept) // 2)
    while tries > 0:
        position, shorter = 0, False
        while position < len(kept) and tries > 0:
            rest = kept[:position] + kept[position + size :]
            tries -= 1
            if breaks(rest):
                kept, shorter = rest, True
            else:
                position += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return dataclasses.replace(course, operations=tuple(kept))
