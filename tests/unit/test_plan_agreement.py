# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode and the next cycle agree, decision by decision, in whatever situation a cluster is.

Drawn are gangs that grant rights, lie elsewhere or hold what no gang may hold, wrappers that another controller writes,
records that are edited, suspended or deleted while they run, quotas, quota trees that change, answers of the server by
which it refuses objects, accounts that do not see all namespaces, and dispatchers that follow one another.
"""

from __future__ import annotations

import json
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import UNDOING
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.decisions import Decision
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.explorer_quota import (
    TREE,
    change_tree,
    draw_change,
    draw_queue,
    draw_tree,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import Barrier, Denial
from ansible_collections.muster.kube.tests.support.memory_dispatcher import (
    LEASE,
    MemoryDispatcher,
    MemoryStage,
    inline_calls,
)
from ansible_collections.muster.kube.tests.support.memory_wire import Line

SEED = int(os.environ.get("MUSTER_SEED", "1"))
FULL = float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1
# Each course shows so many worlds, one after the other.
STEPS = 12
COURSES = 60 if FULL else 6
STATE = "muster.kube/state"
# What the server may say of the objects of a gang.
ANSWERS = ("quota", "webhook", "denied", "invalid", "no_dry_run")
WE = "one|checker"
BLINDNESS = Denial(WE, {"list"}, {"configmaps", "appwrappers"}, {""})
NO_JOBS = Denial(WE, {"create"}, {"jobs"}, {"c"})


class Course:
    """One cluster in memory and what happens to it, drawn by a seed."""

    def __init__(self, stage: MemoryStage, chance: random.Random, shared: random.Random | None = None) -> None:
        """With shared the cluster has a quota tree, which is drawn by it."""
        self.shared = shared
        self.stage = stage
        self.cluster = stage.cluster
        self.chance = chance
        self.names: list[tuple[str, str]] = []
        for namespace in ("a", "b", "c"):
            stage.add_namespace(namespace)
        stage.add_nodes(*cases.node_pool("p", 2))
        self.cluster.serve_wrappers()
        policy = chance.choice(["reserve", "best_effort", "strict"])
        self.ours = stage.dispatcher("one", ["a", "c"], policy=policy)
        self.others = stage.dispatcher("two", ["b"])
        if chance.random() < 0.4:
            self.add_quota()
        if shared is not None:
            change_tree(self.cluster, draw_tree(shared, ("a", "b", "c")))

    def add_quota(self) -> None:
        """Let the namespace have a few pods only."""
        hard = {"pods": str(self.chance.choice((2, 4)))}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": "a"}}
        self.cluster.add(
            "resourcequotas", {**quota, "spec": {"hard": hard}, "status": {"hard": hard, "used": {"pods": "0"}}}
        )

    def happen(self) -> None:
        """A few things at once."""
        if self.shared is not None and self.shared.random() < 0.3:
            change_tree(self.cluster, draw_change(self.shared, ("a", "b", "c")))
        for _number in range(self.chance.randrange(3)):
            self.submit(self.chance.choices("abc", (7, 2, 1))[0])
        for event in (self.edit, self.suspend, self.delete, self.change_dispatcher):
            if self.chance.random() < 0.15:
                event()
        for event in (self.change_sight, self.change_rights, self.end_namespace):
            if self.chance.random() < 0.04:
                event()
        self.ours.pass_time(self.chance.choice((0, 1, 3, 10, 10, 700 if BLINDNESS in self.cluster.denials else 3)))

    def submit(self, namespace: str) -> None:
        """Queue a gang of any sort."""
        name = f"g{len(self.names)}"
        home = self.cluster.get("namespaces", "", namespace)
        if home is None or home["metadata"].get("deletionTimestamp"):
            return
        self.names.append((namespace, name))
        objects = self.objects(name)
        if self.chance.random() < 0.3:
            answer = self.chance.choice(ANSWERS)
            # One that is down is asked several times, and must not come back meanwhile.
            until = self.cluster.clock.now + self.chance.choice((1000,) if answer == "webhook" else (2, 15, 1000))
            self.cluster.barriers.append(Barrier(answer, namespace, "jobs", until, name=f"{name}-j"))
        if self.chance.random() < 0.25:
            wrapper = cases.app_wrapper(name, namespace, objects)
            if self.chance.random() < 0.5:
                wrapper["metadata"]["managedFields"] = [self.foreign_entry()]
            self.cluster.add("appwrappers", wrapper)
            return
        options = {
            "priority": self.chance.choice((0, 0, 5)),
            "max_run_time": self.chance.choice((None, 8)),
            "ttl": self.chance.choice((None, 5)),
            "suspended": self.chance.random() < 0.1,
        }
        given = {key: value for key, value in options.items() if value is not None}
        wish = draw_queue(self.shared) if self.shared is not None else {}
        label = wish.pop("label", None)
        record = cases.gang_record(name, namespace, objects, **given, **wish)
        record["metadata"]["labels"].update({} if label is None else {TREE: label})
        self.cluster.add("configmaps", record)

    def objects(self, name: str) -> list[cases.Object]:
        """A Job, sometimes beside something that no gang may hold."""
        work = cases.job(
            f"{name}-j",
            "p",
            self.chance.choice((1, 2, 4, 8, 9)),
            seconds=self.chance.choice((None, 3, 6)),
            exit_code=self.chance.choice((None, None, 3)),
        )
        return [*([self.forbidden(name)] if self.chance.random() < 0.2 else []), work]

    def forbidden(self, name: str) -> cases.Object:
        """What is refused whoever asks, or nothing special."""
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{name}-r"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        }
        away = cases.service(f"{name}-s")
        away["metadata"]["namespace"] = "elsewhere"
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{name}-k"}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{name}-n"}}
        return self.chance.choice((binding, away, secret, node, cases.service(f"{name}-s")))

    def foreign_entry(self) -> cases.Object:
        """That another controller wrote the status a moment ago."""
        return {
            "manager": "mcad-controller",
            "operation": "Update",
            "subresource": "status",
            "time": self.cluster.time_text(),
            "fieldsV1": {"f:status": {}},
        }

    def drawn_record(self) -> str | None:
        """The name of a ConfigMap record of ours that exists."""
        there = [
            name for namespace, name in self.names if namespace == "a" and self.cluster.get("configmaps", "a", name)
        ]
        return self.chance.choice(there) if there else None

    def rewrite(self, **options: t.Any) -> None:
        """Write other options into a record."""
        name = self.drawn_record()
        if name is None:
            return

        def edit(record: cases.Object) -> None:
            record["data"]["gang.json"] = json.dumps({**json.loads(record["data"]["gang.json"]), **options})

        self.cluster.change("configmaps", "a", name, edit)

    def edit(self) -> None:
        """Change the objects of a gang, started or not."""
        self.rewrite(objects=[cases.job(f"edited{len(self.names)}", "p", self.chance.choice((1, 3)))])

    def suspend(self) -> None:
        """Suspend or resume a gang."""
        self.rewrite(suspended=self.chance.random() < 0.6)

    def delete(self) -> None:
        """Delete a record in the middle."""
        name = self.drawn_record()
        if name is not None:
            self.cluster.remove("configmaps", "a", name)

    def change_dispatcher(self) -> None:
        """Let the other one work for a while, or a new process take our place."""
        self.ours.release()
        if self.chance.random() < 0.7:
            self.others.cycle()
            self.others.release()

    def change_sight(self) -> None:
        """Take the right to see all namespaces from us, or give it back; sometimes under a new Lease."""
        self.toggle(BLINDNESS)
        self.ours.release()
        if self.chance.random() < 0.7:
            self.cluster.remove("leases", LEASE.namespace, LEASE.name)

    def change_rights(self) -> None:
        """Take the right to create Jobs in one namespace from us, or give it back."""
        self.toggle(NO_JOBS)

    def toggle(self, denial: Denial) -> None:
        """Forbid something, or allow it again."""
        (self.cluster.denials.remove if denial in self.cluster.denials else self.cluster.denials.append)(denial)

    def end_namespace(self) -> None:
        """Begin to delete a namespace."""
        self.cluster.remove("namespaces", "", "c")

    def forget_refusals(self) -> None:
        """Let a new process take our place while the old one would not ask the server again so soon."""
        session, last = self.ours.session, self.ours.last
        if session is None or last is None:
            return
        now = session.clock.now()
        if session.pauses.resting() or any(session.memory.refused(item, now) for item in last.records.values()):
            self.ours.release()

    def phases(self) -> dict[str, str]:
        """Where the gangs stand that have a state."""
        found = {}
        for record in (*self.cluster.all("configmaps"), *self.cluster.all("appwrappers")):
            text = (record["metadata"].get("annotations") or {}).get(STATE)
            if text is not None:
                found[f"{record['metadata']['namespace']}/{record['metadata']['name']}"] = str(
                    json.loads(text)["phase"]
                )
        return found


def foreseen(dispatcher: MemoryDispatcher) -> list[Decision]:
    """What check mode says, which must write nothing."""
    # A webhook that is down is asked several times; no time passes, so that the cycle finds what was seen here.
    client = Line(dispatcher.cluster, wait=lambda _seconds: None).client("checker")
    with inline_calls():
        result = preview_dispatch(client, dispatcher.terms)
    assert client.writes == 0, result.requests
    return list(result.decisions)


def steps(decisions: t.Iterable[Decision]) -> set[tuple[str, str, str]]:
    """The decisions that change something; what is refused is said once by a run and always by check mode."""
    return {(item.gang, item.action, item.reason) for item in decisions if item.action not in ("wait", "refuse")}


def words(decisions: t.Iterable[Decision], action: str) -> dict[str, str]:
    """Reasons of one sort of decision by gang."""
    return {item.gang: item.reason for item in decisions if item.action == action}


def compare(course: Course) -> None:
    """One cycle does what check mode foresaw, and says why in the same words."""
    course.forget_refusals()
    told, stood, before = foreseen(course.ours), course.phases(), course.cluster.clock.now
    done = course.ours.cycle().session.journal.take()[0]
    # When a gang that is being stopped has gone depends on what the cycle itself finds and deletes. Once it has, it may
    # be started again before others, and others of its queue have its quota.
    going = {gang for gang, phase in stood.items() if phase in UNDOING}
    back = any(item.gang in going and (item.action == "start" or course.shared is not None) for item in done)
    skipped = {"start", "wait"} if back else set()
    # Taking the Lease and asking a webhook again take time, in which more gangs expire.
    late = {"expire"} if course.cluster.clock.now > before else set()
    for made, found, left_out in ((told, done, skipped), (done, told, skipped | late)):
        mine = {item for item in steps(made) if item[0] not in going and item[1] not in left_out}
        assert mine <= steps(found), (mine - steps(found), told, done)
    for action in {"wait", "refuse"} - skipped:
        foretold, said = words(told, action), words(done, action)
        assert {gang: foretold.get(gang) for gang in said if gang not in going} == {
            gang: why for gang, why in said.items() if gang not in going
        }


@pytest.mark.parametrize("number", range(COURSES))
def test_check_mode_and_the_next_cycle_agree(number: int) -> None:
    seed = 10_000 * SEED + number
    with MemoryStage(seed) as stage:
        course = Course(stage, random.Random(seed), random.Random(-seed) if number % 2 else None)
        for step in range(STEPS):
            course.happen()
            try:
                compare(course)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {step}: {error}") from error
