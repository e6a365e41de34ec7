# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decisions that keep what did not change come to the very same as the plain ones, cycle after cycle.

Drawn are clusters in which foreign pods, nodes, quotas and RuntimeClasses come, change and go; gangs that are queued,
started, bound, lost, requeued, finished, suspended and deleted; open entries, gangs of other namespaces, records that
cannot be written, and time that passes. What did not change is the same object, sometimes it is read anew.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.patches import (
    is_suspended,
    size_patch,
    suspend_patch,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import (
    Record,
    record_from_api,
    record_of_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import digest, read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STARTED_PHASES,
    GangState,
    advance,
    new_state,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    PODSET_LABEL,
    build_ticket,
    plan_objects,
    podset_label,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import NamespaceRules
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import ReachedLimit
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaQueue, QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import NO_TREES, QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import Outstanding, index_pods
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import (
    CyclePlan,
    Situation,
    Stop,
    plan_cycle,
    walk_queue,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import Choice, Queue
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.rescaling import Rescale, ended, is_about
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World
from ansible_collections.muster.kube.tests.support.changing_cluster import (
    GPU,
    ChangingCluster,
    Shape,
    draw_job,
    draw_shape,
)
from ansible_collections.muster.kube.tests.support.cluster_model import pod
from ansible_collections.muster.kube.tests.support.memory_cluster import merge

SEED = int(os.environ.get("MUSTER_SEED", "1"))
SCALE = float(os.environ.get("MUSTER_SCALE", "0.1"))
# Whole courses take minutes; a hundredth of them is enough to see that nothing broke.
COURSES = 10_000 if SCALE >= 1 else int(1000 * SCALE)
AT_ONCE = 500 if SCALE >= 1 else 20
STEPS = 7
START = 1_800_000_000.0
QUEUES = ("x", "y", "z")
Object = dict[str, t.Any]


def spent(queue: str) -> ReachedLimit:
    """That the budget of a queue is used up."""
    words = f"{queue} has used all"
    return ReachedLimit("budget_spent", "budget", queue, "1", "1", words, "cpu", "2027-01-01T00:00:00Z")


class Course:
    """One cluster and its gangs, and what happens to them, drawn by a seed."""

    def __init__(self, seed: str, *, starved: bool = False, elastic: bool = False, lent: bool = False) -> None:
        """Of starved courses quota is what gangs lack, all are old, and most of them end by themselves.

        In elastic ones all gangs have GPUs, and most a range of them. Where GPUs are lent their owners take them back.
        """
        chance = self.chance = random.Random(seed)
        self.elastic = elastic
        self.starved, self.lent = starved, lent
        rules = 0.0 if starved else chance.choice((0.0, 0.0, 0.0, 0.15))
        nodes = 6 if starved else chance.randint(2, 6)
        self.cluster = ChangingCluster(chance, rules=rules, nodes=nodes, gpus="8" if elastic else None)
        # Many gangs that are alike, or few that are not.
        self.alike = not elastic and chance.random() < 0.5
        self.shapes = [draw_shape(chance, rules) for _turn in range(2 if self.alike else 4)]
        if elastic:
            self.shapes = [Shape({"cpu": "100m", GPU: str(gpus)}, {}, {"app": "x"}) for gpus in (1, 1, 2)]
        self.now = START
        self.resized = self.planned = self.gave = 0
        self.rescaled: collections.Counter[str] = collections.Counter()
        self.suspended_jobs_change = chance.random() < 0.5 if elastic else False
        # Apart, so that trainers do not change what else happens.
        self.trainers = random.Random(f"{seed}/trainers")
        self.reports = self.trainers.random() < 0.5
        self.progress: dict[str, Progress] = {}
        self.records: dict[str, Record] = {}
        self.elsewhere: dict[str, Record] = {}
        self.pods: dict[str, dict[str, Object]] = {}
        self.gang_pods: dict[str, dict[str, GangPod]] = {}
        self.items: dict[str, dict[int, Object | None]] = {}
        self.tickets: dict[str, tuple[Object, ...]] = {}
        self.promises: dict[str, Outstanding] = {}
        self.troubled: dict[str, str] = {}
        self.history: dict[tuple[str | None, str], float] = {}
        self.options = DispatchOptions(
            policy=chance.choice(("strict", "best_effort", "reserve", "reserve")),
            reserve_after=chance.choice((50.0, 500.0)),
            hold=chance.choice(("soft", "soft", "hard")),
            max_starts=chance.choice((None, None, 2)),
            start_timeout=120.0,
        )
        self.accounts = frozenset("ab") if chance.random() < 0.3 else None
        if starved:
            self.options = dataclasses.replace(self.options, policy="reserve", reserve_after=50.0)
        self.shares = starved or lent or chance.random() < 0.4
        self.quota = NO_TREES
        self.spent: dict[tuple[str, str], str] = {}
        self.averages: dict[str, dict[str, dict[str, float]]] = {}
        if self.shares:
            self.change_trees()
        for _turn in range(20 if starved else chance.randint(6, 14) if self.alike else chance.randint(2, 8)):
            self.submit()

    # What happens.

    def happen(self) -> None:
        """A few things at once, or nothing."""
        self.now += self.chance.choice((0.0, 0.5, 1.0, 1.0, 20.0, 90.0, 400.0))
        if self.elastic:
            self.now += self.chance.choice((0.0, 2000.0))
        if self.chance.random() < 0.2:
            return
        events = [
            (self.submit, 5),
            (self.cluster.happen, 5),
            (self.move_on, 8),
            (self.requeue, 1),
            (self.edit, 1),
            (self.delete, 1),
            (self.change_troubles, 1),
            (self.change_promises, 1),
            (self.learn, 1),
            (self.change_accounts, 0.3),
            (self.change_trees, 0.5 if self.shares else 0.0),
            (self.change_budgets, 0.5 if self.shares else 0.0),
        ]
        for _turn in range(self.chance.randrange(5)):
            self.chance.choices([event for event, _weight in events], [weight for _event, weight in events])[0]()

    def submit(self) -> None:
        """Queue a gang, sometimes one of another namespace."""
        chance, name = self.chance, self.cluster.name(chance_name(self.chance))
        namespace = chance.choices("abc", (6, 3, 1))[0]
        number, most = (1, 2) if self.alike else (chance.choice((1, 1, 1, 2)), 5)
        jobs = [draw_job(chance, f"{name}-{turn}", self.shapes, most) for turn in range(number)]
        if chance.random() < 0.15 and not self.alike:
            jobs[0]["spec"]["activeDeadlineSeconds"] = chance.choice((60, 300))
        options = {
            "priority": chance.choice((0, 0, 0, 5)),
            "priority_slope": chance.choice((0, 0, 0, 0.01, 1.5)),
            "max_run_time": chance.choice((None, 600) if self.alike else (None, None, 100, 600)),
            "queue": chance.choice((None, "q", *QUEUES) if self.shares else (None, "q")),
            "suspended": chance.random() < 0.05 or None,
        }
        if self.starved:
            options.update(queue=chance.choice(QUEUES), max_run_time=chance.choice((None, 60, 300, 900)))
        if self.lent:
            options.update(queue=chance.choice(("x", *QUEUES)), suspended=None)
        given = {key: value for key, value in options.items() if value is not None}
        requests = jobs[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        pods = jobs[0]["spec"]["parallelism"]
        if GPU in requests and pods and not self.alike and chance.random() < (0.8 if self.elastic else 0.6):
            most = chance.choice((4, 8) if self.elastic else (2, 3))
            sizes = {"min": 1, "max": most, "axis": "per_pod", "podset": jobs[0]["metadata"]["name"]}
            if self.elastic and chance.random() < 0.4:
                sizes["axis"] = "pods"
                jobs[0]["spec"].update(completionMode="Indexed", completions=pods)
            timing = chance.choice(("now", "now", "on_sigterm", "at_checkpoint"))
            given["elastic"] = {"range": sizes, "timing": timing, "cooldown": chance.choice((0, 60))}
            if self.lent:
                given["elastic"]["restart_cost"] = 0
        maps = [config_map(f"{name}-{turn}") for turn in range(chance.choice((0, 0, 1, 3)))]
        raw = build_record(read_spec({"name": name, "namespace": namespace, "objects": jobs + maps, **given}, "gang"))
        created = time_text(self.now - chance.choice((60, 1000) if self.starved else (0, 1, 60, 1000)))
        raw["metadata"].update(uid=name, resourceVersion="1", creationTimestamp=created)
        if self.shares and chance.random() < 0.7:
            raw["metadata"]["annotations"] = {"muster.kube/user": chance.choice(("ann", "bob"))}
        where = self.elsewhere if namespace == "c" else self.records
        where[name] = record_from_api(raw)

    def state(self, record: Record, phase: t.Any, reason: str = "R", **changes: t.Any) -> None:
        """Let a record be in a phase."""
        old = record.state or new_state(time_text(self.now), "w/e.1/1")
        state: GangState = advance(old, phase, time_text(self.now), reason, "", "w/e.1/2", **changes)
        raw = {**record.raw, "metadata": {**record.raw["metadata"], "resourceVersion": str(self.now)}}
        where = self.records if record.uid in self.records else self.elsewhere
        where[record.uid] = record_of_spec(record.store, raw, record.spec, None, state=state)

    def start(self, choice: Choice) -> None:
        """A chosen gang gets its ticket; its pods come later."""
        record = choice.record
        plan = plan_objects(record.spec, record.uid, record.attempt)
        ticket = build_ticket(record.raw, record.attempt, "digest", plan)
        ticket["metadata"]["uid"] = f"ticket-{record.uid}"
        self.tickets = {**self.tickets, record.uid: (ticket,)}
        phases = ("dispatched", "running", "running") if self.elastic else ("dispatching", "dispatched", "dispatched")
        phase = self.chance.choice(phases)
        steering = {name: list(hosts) for name, hosts in choice.verdict.steering.items()}
        at = time_text(self.now)
        held = {"steering": steering, "charged": choice.charged, "allotment": record.spec.size}
        held["digest"] = digest(record.spec)
        self.state(record, phase, started_at=at, ticket_uid=f"ticket-{record.uid}", **held)
        self.items[record.uid] = {}
        for index, item in enumerate(plan):
            metadata = {**item.object["metadata"], "uid": f"{record.uid}-{index}"}
            self.items[record.uid][index] = {**copy.deepcopy(item.object), "metadata": metadata}
        self.make_pods(record, choice)

    def evict(self, plan: CyclePlan) -> None:
        """Evictions begin, but for some that a dispatcher dies before; room is held for most of those who asked."""
        for group in plan.evictions:
            if self.chance.random() < 0.9:
                # After several nominations that came to nothing nobody goes for it any more, but for others like it.
                times = self.chance.choice((1, 1, 3))
                self.state(self.records[group.asker.uid], "queued", nominated=group.until, nominations=times)
            for item in group.victims:
                if self.chance.random() < 0.9:
                    self.go(item)
        for item in plan.drained:
            self.state(self.records[item.record.uid], item.phase, **item.changes)

    def go(self, item: Stop | Rescale) -> None:
        """A victim begins to go, or to be smaller."""
        if isinstance(item, Rescale) or item.phase == "resizing":
            self.gave += 1
            self.begin(item)
        else:
            self.state(self.records[item.record.uid], item.phase, **item.changes)

    def resize(self, plan: CyclePlan) -> None:
        """Gangs that get another size begin to go, or their objects are changed while they are there."""
        for item in plan.resized:
            self.begin(item)

    def begin(self, item: Stop | Rescale) -> None:
        """A resize begins."""
        self.resized += 1
        if isinstance(item, Rescale):
            self.rescaled[item.resize.method] += 1
            changes = item.changes(f"r{self.resized}", time_text(self.now))
            self.state(self.records[item.record.uid], "rescaling", item.reason, **changes)
        else:
            self.state(self.records[item.record.uid], item.phase, item.reason, **item.changes)

    def patch(self, record: Record) -> None:
        """The object of a gang that is rescaling is suspended, or gets its size; its pods come and go later."""
        spec, resize = record.spec, record.state.resize
        index = is_about(spec)
        live = self.items[record.uid].get(index)
        if live is None:
            return
        live["metadata"].setdefault("resourceVersion", "1")
        if resize.method == "suspend" and not is_suspended(live):
            change = suspend_patch(live, resize.suspended_mark)
        else:
            change = size_patch(live, spec.objects, spec.elastic.range, resize.goal, spec.namespace, resize.sized_mark)
        patched = merge(copy.deepcopy(live), change)
        self.items[record.uid] = {**self.items[record.uid], index: patched}

    def settle(self, record: Record) -> None:
        """Exactly the pods of its size are there, or not quite, and the gang runs with it."""
        state, memory = record.state, Memory()
        sized = memory.at_size(record, state.resize.goal, self.cluster.snapshot())
        for name in list(self.pods.get(record.uid, {})):
            self.drop_pod(record, name)
        nodes = [*self.cluster.nodes]
        for podset in sized.podsets:
            for turn in range(podset.count):
                on = self.chance.choice(nodes) if self.chance.random() < 0.9 else None
                self.make_pod(record, podset, f"{podset.name}-{self.resized}-{turn}", on)
        if self.chance.random() < 0.7:
            self.state(record, "running", **ended(state.resize, sized))

    def wait_for_checkpoints(self, plan: CyclePlan) -> None:
        """Plans are written, and trainers report something, or nothing."""
        for item in plan.planned:
            self.planned += 1
            if self.trainers.random() < 0.9:
                self.state(self.records[item.record.uid], "running", planned=item.plan)
        for uid, record in self.records.items() if self.reports else ():
            chance, known = self.trainers, self.progress.get(uid, Progress())
            if record.phase != "running" or record.state is None or chance.random() < 0.7:
                continue
            step = (known.seen.step if known.seen is not None else 0) + chance.randint(0, 5000)
            known = known.at_step(self.now, step, record.state.allotment or 1, chance.choice((None, 100_000)))
            if chance.random() < 0.9:
                known = known.at_checkpoint(self.now - chance.choice((0, 5)), step)
            self.progress[uid] = known

    def make_pods(self, record: Record, choice: Choice) -> None:
        """Controllers make some of the pods, the scheduler binds some of them, not always as foreseen."""
        for podset in choice.gang.podsets:
            nodes = (choice.verdict.placement or {}).get(podset.name, {})
            places = [name for name, count in nodes.items() for _pod in range(count)]
            for turn in range(podset.count):
                if not self.elastic and self.chance.random() < 0.2:
                    continue
                if self.elastic and turn < len(places):
                    self.make_pod(record, podset, f"{podset.name}-{turn}", places[turn])
                    continue
                on = places[turn] if turn < len(places) and self.chance.random() < 0.7 else None
                on = self.chance.choice([*self.cluster.nodes]) if on and self.chance.random() < 0.1 else on
                self.make_pod(record, podset, f"{podset.name}-{turn}", on)

    def make_pod(self, record: Record, podset: t.Any, name: str, on: str | None) -> None:
        """One pod of a gang."""
        raw = pod(name, on=on, namespace=record.namespace, requests={})
        raw["spec"] = {**copy.deepcopy(podset.template["spec"]), **({"nodeName": on} if on else {})}
        labels = (podset.template.get("metadata") or {}).get("labels") or {}
        raw["metadata"].update(
            uid=f"{record.uid}-{name}",
            creationTimestamp=time_text(self.now),
            labels={**labels, GANG_LABEL: record.uid, PODSET_LABEL: podset_label(podset.name)},
            ownerReferences=[{"kind": "Job", "name": "j", "uid": f"{record.uid}-{max(0, podset.source_index)}"}],
        )
        if not self.elastic and self.chance.random() < 0.1:
            del raw["metadata"]["labels"][GANG_LABEL]
        self.show(record, raw)

    def show(self, record: Record, raw: Object) -> None:
        """The server shows a pod of a gang."""
        key = raw["metadata"]["name"]
        self.pods.setdefault(record.uid, {})[key] = raw
        self.cluster.keep(raw)
        view = gang_pod_from_api(raw)
        if view is not None:
            self.gang_pods.setdefault(record.uid, {})[key] = view

    def started(self) -> list[Record]:
        """Gangs that were started."""
        return [record for record in self.records.values() if record.uid in self.items]

    def move_on(self) -> None:
        """A started gang makes progress, or not."""
        started = self.started()
        if not started:
            return
        record = self.chance.choice(started)
        pods = self.pods.get(record.uid, {})
        event = self.chance.choice(("bind", "bind", "run", "finish", "lose", "delete", "end", "end"))
        if record.phase == "resizing":
            # Pods go one by one, then the gang is back.
            if pods and self.chance.random() < 0.5:
                self.drop_pod(record, self.chance.choice(list(pods)))
            else:
                self.come_back(record)
        elif record.phase == "rescaling" and self.chance.random() < 0.8:
            self.chance.choice((self.patch, self.patch, self.settle))(record)
        elif event == "end":
            self.forget(record)
        elif event == "run" and record.phase in ("dispatching", "dispatched"):
            self.state(record, self.chance.choice(("dispatched", "running")))
        elif event == "finish":
            self.finish(record)
        elif pods:
            raw = copy.deepcopy(self.chance.choice(list(pods.values())))
            self.change_pod(record, raw, event)

    def change_pod(self, record: Record, raw: Object, event: str) -> None:
        """A pod gets a node, or ends."""
        if event == "bind" and "nodeName" not in raw["spec"]:
            raw["spec"]["nodeName"] = self.chance.choice(list(self.cluster.nodes))
            raw["status"] = {"phase": "Running"}
        elif event == "lose":
            raw["status"] = {"phase": self.chance.choice(("Failed", "Succeeded"))}
        elif event == "delete":
            raw["metadata"]["deletionTimestamp"] = time_text(self.now + 30)
        self.show(record, raw)

    def finish(self, record: Record) -> None:
        """One of its objects says that it is done, or is gone."""
        items = self.items[record.uid]
        index = self.chance.choice(list(items))
        obj = items[index]
        done = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 9}
        changed = None if obj is None or self.chance.random() < 0.3 else {**obj, "status": done}
        self.items[record.uid] = {**items, index: changed}

    def drop_pod(self, record: Record, name: str) -> None:
        """A pod is gone."""
        del self.pods[record.uid][name]
        self.gang_pods.get(record.uid, {}).pop(name, None)
        self.cluster.pods.pop(f"{record.namespace}/{name}", None)

    def come_back(self, record: Record) -> None:
        """Nothing is left of the attempt that a gang was taken back from."""
        self.forget(record)
        self.records[record.uid] = record
        self.state(record, "queued", "Undone", attempt=record.attempt + 1)

    def forget(self, record: Record) -> None:
        """A gang is over and not read any more; nothing is left of it."""
        for found in (self.records, self.items, self.tickets, self.promises):
            found.pop(record.uid, None)
        for name in self.pods.pop(record.uid, {}):
            self.cluster.pods.pop(f"{record.namespace}/{name}", None)
        self.gang_pods.pop(record.uid, None)

    def requeue(self) -> None:
        """A started gang is back in the queue, pauses, and was seen to be larger."""
        started = self.started()
        if started:
            record = self.chance.choice(started)
            self.forget(record)
            self.records[record.uid] = record
            seen = ({"name": record.spec.demand[0].name, "count": 2, "requests": {"cpu": "2"}},)
            observed = seen if self.chance.random() < 0.5 else ()
            pause = time_text(self.now + 30) if self.chance.random() < 0.5 else None
            changes = {"lost_races": self.chance.choice((0, 1, 3)), "attempt": record.attempt + 1}
            self.state(record, "queued", not_before=pause, observed=observed, **changes)

    def waiting(self) -> list[Record]:
        """Gangs that wait."""
        return [record for record in self.records.values() if record.uid not in self.items]

    def edit(self) -> None:
        """A waiting gang is edited, suspended or resumed."""
        waiting = self.waiting()
        if waiting:
            record = self.chance.choice(waiting)
            spec = dataclasses.replace(record.spec, suspended=not record.spec.suspended)
            if self.chance.random() < 0.7:
                jobs = [draw_job(self.chance, record.name, self.shapes)]
                spec = read_spec({"name": record.name, "namespace": record.namespace, "objects": jobs}, "gang")
            self.records[record.uid] = record_of_spec(record.store, record.raw, spec, None, state=record.state)

    def delete(self) -> None:
        """A waiting gang goes, or waits for somebody to let it go."""
        waiting = self.waiting()
        if waiting:
            record = self.chance.choice(waiting)
            if self.chance.random() < 0.5:
                self.forget(record)
            else:
                raw = {**record.raw, "metadata": {**record.raw["metadata"], "deletionTimestamp": time_text(self.now)}}
                self.records[record.uid] = record_of_spec(record.store, raw, record.spec, None, state=record.state)

    def change_troubles(self) -> None:
        """Some record cannot be written, or all can be again."""
        names = list(self.records)
        drawn = self.chance.sample(names, min(1, len(names)))
        self.troubled = dict.fromkeys(drawn, "denied") if self.chance.random() < 0.6 else {}

    def change_promises(self) -> None:
        """An open entry of the batch promises room to a gang that waits or is not seen."""
        if self.promises:
            self.promises = {}
            return
        uid = self.chance.choice([*[record.uid for record in self.waiting()], "unseen"])
        podsets = declared_podsets([{"name": uid, "count": 2, "requests": {"cpu": "1"}}], namespace="a")
        flavors = {"default": {uid: "f0"}} if self.chance.random() < 0.5 else {}
        self.promises = {uid: Outstanding(Gang(uid, "a", tuple(podsets)), {uid: 2}, flavors=flavors)}

    def learn(self) -> None:
        """Earlier runs tell how long gangs take."""
        self.history = {(None, "g"): self.chance.choice((50.0, 700.0)), ("q", "run"): 200.0}

    def change_accounts(self) -> None:
        """A namespace gets its account, or loses it."""
        self.accounts = self.chance.choice((None, frozenset("a"), frozenset("ab")))

    def change_trees(self) -> None:
        """The administrator shares the cluster in another way, or makes a mistake."""
        chance = self.chance
        trees = [draw_tree(chance, "default")] + [draw_tree(chance, "other") for _turn in range(chance.randrange(2))]
        if self.lent:
            trees = [lent_tree(chance)]
        if self.starved:
            trees = [dataclasses.replace(tree, queues=tuple(map(never_reclaims, tree.queues))) for tree in trees]
        broken = {"broken": "no JSON"} if chance.random() < 0.05 else {}
        self.quota = QuotaTrees(tuple(trees) if chance.random() < 0.9 else (), broken)
        if self.lent:
            self.quota, self.accounts = QuotaTrees(tuple(trees)), None
            return
        self.change_budgets()

    def change_budgets(self) -> None:
        """A period begins, or some budgets are spent."""
        places = [(tree.name, queue.name) for tree in self.quota.trees for queue in tree.queues]
        self.spent = {place: spent(place[1]) for place in places if self.chance.random() < 0.1}
        used = {queue: {"cpu": self.chance.uniform(0, 9000)} for queue in QUEUES if self.chance.random() < 0.7}
        self.averages = {tree.name: used for tree in self.quota.trees} if self.chance.random() < 0.8 else {}

    # What is decided on it.

    def situation(self, memory: Memory) -> Situation:
        """One reading."""
        snapshot = self.cluster.snapshot()
        records = {**self.records, **self.elsewhere}
        sizes = {uid: memory.size(record, snapshot)[0] for uid, record in records.items()}
        world = World(
            snapshot=snapshot,
            gangs={uid: gang for uid, gang in sizes.items() if gang is not None},
            problems={},
            tickets=dict(self.tickets),
            pods=index_pods([item for pods in self.gang_pods.values() for item in pods.values()]),
            items=dict(self.items),
            accounts=self.accounts,
            scopes={("batch/v1", "Job"): True, ("v1", "ConfigMap"): True},
            quota=self.quota,
            spent=self.spent,
            averages=self.averages,
            progress=dict(self.progress),
        )
        elsewhere = tuple(self.elsewhere.values())
        history = self.history if self.chance.random() < 0.9 else None
        return Situation(
            world,
            dict(self.records),
            elsewhere,
            dict(self.promises),
            self.now,
            self.now,
            None,
            history,
            self.troubled,
            suspended_jobs_change=self.suspended_jobs_change,
        )


def never_reclaims(queue: QuotaQueue) -> QuotaQueue:
    """The queue, that takes nothing back and is never stopped."""
    return dataclasses.replace(queue, reclaim="never", stop="none")


def lent_tree(chance: random.Random) -> QuotaTree:
    """A tree in which one queue has nothing of its own, and nobody is protected."""
    queues: list[Object] = [{"name": "all"}, {"name": "x", "parent": "all", "nominal": {GPU: 0}, "default": True}]
    queues += [{"name": name, "parent": "all", "nominal": {GPU: chance.randint(2, 10)}} for name in QUEUES[1:]]
    settings: Object = {"min_run_time": 0, "nominate_timeout": chance.choice((10, 300))}
    settings["max_evictions"] = chance.choice((1, 10))
    return read_tree("default", {"queues": queues, "settings": settings})


def draw_tree(chance: random.Random, name: str) -> QuotaTree:
    """A tree of two levels; gangs without a queue have a default one, and those of namespace b their own."""
    queues: list[Object] = [{"name": "all"}, {"name": "half", "parent": "all"}]
    for queue in QUEUES:
        declared: Object = {"name": queue, "parent": chance.choice(("all", "half")), "weight": chance.randint(0, 3)}
        declared["nominal"] = {"cpu": chance.randint(0, 8)}
        if chance.random() < 0.3:
            declared["nominal"]["memory"] = f"{chance.randint(1, 16)}Gi"
        if chance.random() < 0.3:
            declared["borrowing_limit"] = {"cpu": chance.randint(0, 4)}
        if chance.random() < 0.1:
            declared["stop"] = chance.choice(("hold", "drain"))
        if chance.random() < 0.1:
            declared["priority_cap"] = chance.randrange(3)
        if chance.random() < 0.3:
            declared["reclaim"] = chance.choice(("lower_priority", "never"))
        if chance.random() < 0.3:
            limits = {"running": chance.randrange(4), "pending": chance.randrange(4)}
            drawn = {key: value for key, value in limits.items() if chance.random() < 0.5}
            declared["user_limits"] = {**drawn, "resources": {"cpu": chance.randint(1, 8)}}
        queues.append(declared)
    queues[2]["default"] = True
    queues[3]["namespaces"] = ["b"]
    settings: Object = {"min_run_time": chance.choice((0, 0, 30, 600)), "max_evictions": chance.choice((1, 2, 10))}
    settings |= {"nominate_timeout": chance.choice((10, 300)), "fair": chance.choice(("borrowed", "borrowed", "usage"))}
    flavors = draw_flavors(chance, queues) if chance.random() < 0.4 else []
    return read_tree(name, {"queues": queues, "flavors": flavors, "settings": settings})


def draw_flavors(chance: random.Random, queues: t.Sequence[Object]) -> list[Object]:
    """Kinds of nodes, some for all; what queues have is shared out among them."""
    labels: list[Object] = [{"disk": "ssd"}, {"disk": "hdd"}, {"zone": "a"}, {}]
    drawn = chance.sample(labels, chance.randint(1, 3))
    flavors = [{"name": f"f{number}", "node_labels": found} for number, found in enumerate(drawn)]
    if chance.random() < 0.3:
        flavors[0]["tolerations"] = [{"operator": "Exists"}]
    for queue in queues:
        for key in ("nominal", "borrowing_limit"):
            if key in queue:
                given = chance.sample(flavors, chance.randint(1, len(flavors)))
                queue[key] = {flavor["name"]: dict(queue[key]) for flavor in given}
    return flavors


def config_map(name: str) -> Object:
    """An object that quotas count and nodes do not."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def chance_name(chance: random.Random) -> str:
    """The beginning of a name; gangs of one beginning have a history."""
    return chance.choice(("g", "run-"))


def told(plan: CyclePlan) -> Object:
    """All that a plan says."""
    return {
        "choices": said(plan.choices),
        "refusals": plan.refusals,
        "steps": plan.steps,
        "stops": plan.stops,
        "drained": plan.drained,
        "resized": plan.resized,
        "planned": plan.planned,
        "evictions": plan.evictions,
        "unjudged": [(record.uid, str(error)) for record, error in plan.unjudged],
        "unforeseen": dict(plan.unforeseen),
        "next_check": plan.next_check,
    }


def said(choices: t.Iterable[Choice]) -> list[t.Any]:
    """Whom a walk chose, and what it says of everybody."""
    return [
        (choice.record.uid, choice.chosen, choice.gang, choice.verdict, choice.charged if choice.chosen else None)
        for choice in choices
    ]


def compare(course: Course, memory: Memory, trace: str) -> CyclePlan:
    """One cycle, decided both ways; what was kept must not tell."""
    situation = course.situation(memory)
    plan = plan_cycle(situation, course.options, memory)
    plain = plan_cycle(situation, course.options, Memory(), walker=Queue)
    ours, theirs = told(plan), told(plain)
    for part, expected in theirs.items():
        assert ours[part] == expected, f"{trace}: {part}"
    if len(plan.choices) % 3 == 1:
        # With the numbers of queues as they are now, also where a choice is kept from an earlier cycle.
        assert [item.told for item in plan.choices] == [item.told for item in plain.choices], f"{trace}: told"
    if course.chance.random() < 0.2 and plan.starts:
        # The server refused what was chosen first: the queue is walked again.
        refused = {choice.record.uid: "no" for choice in plan.starts[:1]}
        present = dataclasses.replace(situation, troubled=refused)
        stopped = {item.record.uid for item in plan.stops}
        again = walk_queue(present, course.options, memory, plan.after, stopped)
        anew = walk_queue(present, course.options, Memory(), plan.after, stopped, walker=Queue)
        assert said(again.choices) == said(anew.choices), f"{trace}: again"
        assert again[1:] == anew[1:], f"{trace}: again"
    return plan


def test_gangs_that_differ_only_in_their_objects_are_not_told_the_same() -> None:
    """Whoever keeps verdicts by class must not tell one of the other's objects, in the first cycle or later."""
    course, memory = Course(f"{SEED}/objects"), Memory()
    course.records, course.elsewhere = {}, {}
    course.accounts, course.quota, course.options = None, NO_TREES, DispatchOptions(policy="best_effort")
    hard = {"configmaps": "4"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": {"configmaps": "3"}}}
    course.cluster.namespaces = {"a": NamespaceRules((quota,))}
    job = draw_job(course.chance, "same", [Shape({"cpu": "1m"}, {}, {"app": "x"})], 1)
    job["spec"].update(parallelism=1, completions=1)
    for number in (5, 3, 1, 0):
        name = f"with-{number}"
        objects = [{**job, "metadata": {"name": name}}, *(config_map(f"{name}-{turn}") for turn in range(number))]
        raw = build_record(read_spec({"name": name, "namespace": "a", "objects": objects}, "gang"))
        raw["metadata"].update(uid=name, resourceVersion="1", creationTimestamp=time_text(START - number))
        course.records[name] = record_from_api(raw)
    for cycle in range(3):
        plan = compare(course, memory, f"cycle {cycle}")
        answers = {choice.record.uid: choice.verdict.answer for choice in plan.choices}
        asked = {choice.record.uid: choice.verdict.space.quotas[0].as_dict()["requested"] for choice in plan.choices}
        assert answers == {"with-5": "never", "with-3": "waits", "with-1": "waits", "with-0": "fits"}
        assert asked == {"with-5": "6", "with-3": "4", "with-1": "2", "with-0": "1"}


@pytest.mark.parametrize("starved", [False, True])
@pytest.mark.parametrize("first", range(0, COURSES, AT_ONCE))
def test_kept_and_plain_decisions_agree(first: int, starved: bool) -> None:
    for number in range(first, min(COURSES, first + AT_ONCE // (4 if starved else 1))):
        seed = f"{SEED}/{number}"
        course, memory = Course(seed, starved=starved), Memory()
        for step in range(STEPS):
            plan = compare(course, memory, f"seed {seed}, step {step}")
            for choice in plan.starts:
                if course.chance.random() < 0.8:
                    course.start(choice)
            course.evict(plan)
            course.resize(plan)
            course.wait_for_checkpoints(plan)
            course.happen()
            memory.keep_only({*course.records, *course.elsewhere})


def test_courses_have_gangs_that_are_resized() -> None:
    """Else nobody would notice what is said of them."""
    resized, planned, rescaled = 0, 0, collections.Counter[str]()
    for number in range(60):
        course, memory = Course(f"R/{number}", elastic=True), Memory()
        for step in range(3 * STEPS):
            plan = compare(course, memory, f"seed {number}, step {step}")
            for choice in plan.starts:
                course.start(choice)
            course.evict(plan)
            course.resize(plan)
            course.wait_for_checkpoints(plan)
            course.happen()
            memory.keep_only({*course.records, *course.elsewhere})
        resized, planned = resized + course.resized, planned + course.planned
        rescaled += course.rescaled
    assert resized >= 20
    assert planned >= 10
    assert min(rescaled[method] for method in ("scale", "suspend")) >= 3, rescaled


def test_courses_have_gangs_that_shrink_for_owners() -> None:
    """Else nobody would notice what is said of them."""
    gave = 0
    for number in range(60):
        course, memory = Course(f"L/{number}", elastic=True, lent=True), Memory()
        for step in range(3 * STEPS):
            plan = compare(course, memory, f"seed {number}, step {step}")
            for choice in plan.starts:
                course.start(choice)
            course.evict(plan)
            course.resize(plan)
            course.wait_for_checkpoints(plan)
            course.happen()
            memory.keep_only({*course.records, *course.elsewhere})
        gave += course.gave
    assert gave >= 5


@pytest.mark.parametrize("seed", [7, 27, 58])
def test_a_damaged_record_is_charged_with_the_pods_that_there_are(seed: int) -> None:
    """Nothing is known of the gang but its pods, which become more."""
    course, memory = Course(f"F/{seed}"), Memory()
    for step in range(3):
        plan = compare(course, memory, f"step {step}")
        for choice in plan.starts:
            course.start(choice)
        course.evict(plan)
        course.happen()
        memory.keep_only({*course.records, *course.elsewhere})
    started = [
        item for item in course.records.values() if item.phase in STARTED_PHASES and course.gang_pods.get(item.uid)
    ]
    uid, damaged = started[0].uid, dataclasses.replace(started[0], spec=None, spec_problem="damaged")
    course.records[uid] = dataclasses.replace(damaged, state=dataclasses.replace(damaged.state, reserved=()))
    compare(course, memory, "damaged")
    one = next(iter(course.gang_pods[uid].values()))
    for number in range(6):
        course.gang_pods[uid][f"more-{number}"] = dataclasses.replace(one, name=f"more-{number}")
    compare(course, memory, "with more pods")
