# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Three dependent components under faults: the next run always reaches what an undisturbed one does.

Each point is one write of an installation, an upgrade or a removal. Full runs take all points, others a share.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership
from ansible_collections.muster.kube.tests.support.fault_points import chosen
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Killed, Line
from ansible_collections.muster.kube.tests.support.random_size import examples
from ansible_collections.muster.kube.tests.support.stack_stage import STACK, StackStage, hooks, next_version

SCALE = float(os.environ.get("MUSTER_SCALE", "0.1"))
SEED = int(os.environ.get("MUSTER_SEED", "1"))
ABSENT = [{"name": item["name"]} for item in STACK]
NEXT = [next_version(item) for item in STACK]
TASKS: dict[str, t.Any] = {
    "installation": (STACK, {}),
    "upgrade": (NEXT, {}),
    "removal": (ABSENT, {"state": "absent", "remove_definitions": True}),
}
# What becomes of a write: the trouble of the line, and what it answers.
FAULTS: dict[str, dict[str, t.Any]] = {
    "kill_before": {},
    "kill_after": {},
    "lose": {},
    "cut": {},
    "refuse 403": {"status": 403, "reason": "Forbidden"},
    "refuse 409": {"status": 409, "reason": "Conflict"},
    "refuse 422": {"status": 422, "reason": "Invalid"},
    "refuse 429": {"status": 429, "reason": "TooManyRequests"},
    "refuse 500": {"status": 500, "reason": "InternalError"},
}


def foreign(stage: StackStage) -> dict[str, t.Any]:
    """What others have beside it; none of it may be touched."""
    client = {"service": {"name": "theirs", "namespace": "team"}}
    theirs = {**hooks("theirs"), "webhooks": [{"name": "t.example.com", "clientConfig": client}]}
    stage.cluster.add("validatingwebhookconfigurations", theirs)
    for name in ("bare", "settings-of-team"):
        stage.cluster.add("configmaps", {"metadata": {"name": name, "namespace": "team"}, "data": {"k": "v"}})
    lease = {"metadata": {"name": "theirs", "namespace": "team"}, "spec": {"holderIdentity": "theirs-1"}}
    stage.cluster.add("leases", lease)
    return versions(stage, stage.inventory())


def versions(stage: StackStage, places: t.Iterable[str]) -> dict[str, t.Any]:
    """The versions of some objects: who writes one changes it."""
    found = {}
    for place in places:
        plural, _space, rest = place.partition(" ")
        obj = stage.cluster.get(plural, *rest.split("/"))
        found[place] = None if obj is None else obj["metadata"]["resourceVersion"]
    return found


def prepared(name: str) -> StackStage:
    """A stage on which a task can begin."""
    stage = StackStage()
    stage.theirs = foreign(stage)
    for earlier in TASKS:
        if earlier == name:
            break
        run(stage, earlier)
    stage.line.sent.clear()
    return stage


def run(stage: StackStage, name: str, line: Line | None = None) -> dict[str, t.Any]:
    """One of the tasks."""
    components, options = TASKS[name]
    return stage.task(*components, line=line, **options).as_result(diff=True)


@functools.cache
def undisturbed(name: str) -> tuple[int, dict[str, t.Any]]:
    """How many writes a task makes, and what it leaves."""
    stage = prepared(name)
    assert not run(stage, name).get("failed")
    return len(stage.line.writes), stage.left()


def strike(stage: StackStage, fault: Fault, number: int) -> None:
    """Have a fault meet the write of this number; dry runs are none."""
    fault.times = 0
    stage.trouble(fault)
    original = stage.line.send

    def send(method: str, url: str, *more: t.Any) -> t.Any:
        """Let that write meet it."""
        if method != "GET" and "dryRun=All" not in url and len(stage.line.writes) == number:
            fault.times = 1
        return original(method, url, *more)

    stage.line.send = send


def points() -> list[tuple[str, str, int]]:
    """Every write of every task, with every fault."""
    found = [(name, trouble, number) for name in TASKS for trouble in FAULTS for number in range(undisturbed(name)[0])]
    return chosen(found, SCALE, SEED, "points")


def settle(stage: StackStage, name: str) -> None:
    """Run the task until it is done; a second time at most, since only one write met a fault."""
    try:
        if not run(stage, name).get("failed"):
            return
    except (Killed, MusterError):
        pass
    stage.line.faults.clear()
    result = run(stage, name, Line(stage.cluster))
    assert not result.get("failed"), result["msg"]


def check(stage: StackStage, name: str, point: t.Any) -> None:
    """All is as an undisturbed run leaves it, what others have was never written, and a further run writes nothing."""
    # What was deleted last may be on its way out.
    stage.cluster.clock.advance(5.0)
    left = stage.left()
    expected = undisturbed(name)[1]
    assert left.keys() == expected.keys(), (point, left.keys() ^ expected.keys())
    assert left == expected, point
    assert versions(stage, stage.theirs) == stage.theirs, point
    line = Line(stage.cluster)
    again = run(stage, name, line)
    assert not again.get("failed"), (point, again["msg"])
    assert {told["action"] for told in again["components"]} == {"unchanged"}, point
    assert line.writes == [], point


def test_there_are_more_than_a_hundred_points():
    writes = sum(undisturbed(name)[0] for name in TASKS)
    assert len(FAULTS) * writes > 500
    # Death before and after each of them.
    assert 2 * writes > 100


def test_after_a_fault_at_any_write_the_next_run_reaches_what_an_undisturbed_one_does():
    for point in points():
        name, trouble, number = point
        stage = prepared(name)
        strike(stage, Fault(trouble.partition(" ")[0], **FAULTS[trouble]), number)
        settle(stage, name)
        check(stage, name, point)


def test_of_two_runs_at_once_one_provisions_and_the_other_stops():
    for name in TASKS:
        count = undisturbed(name)[0]
        for number in chosen(range(count), SCALE, SEED, f"rivals {name}"):
            stage = prepared(name)
            rival = Line(stage.cluster)
            failures: list[str] = []

            def enter(stage=stage, rival=rival, name=name, failures=failures) -> None:
                """While a write is under way a second run begins, and the first one stands still."""
                failures.append(run(stage, name, rival).get("msg", ""))

            strike(stage, Fault("call", happens=enter), number)
            with contextlib.suppress(LostLeadership):
                run(stage, name)
            assert failures in ([""], []), (name, number)
            stage.line.faults.clear()
            result = run(stage, name, Line(stage.cluster))
            assert not result.get("failed"), result["msg"]
            check(stage, name, (name, number))


def drift(stage: StackStage, chance: random.Random) -> None:
    """Somebody changes something by hand."""
    cluster = stage.cluster
    choices: list[t.Callable[[], object]] = [
        lambda: cluster.remove("services", "home", "hook"),
        lambda: cluster.change("deployments", "home", "operator", lambda obj: obj["spec"].update(replicas=9)),
        lambda: cluster.change("configmaps", "team", "settings", lambda obj: obj.update(data={"k": "other"})),
        lambda: cluster.remove("configmaps", "muster-system", "muster-component-base"),
        lambda: cluster.change("deployments", "middle", "mill", lambda obj: obj["metadata"].update(labels={})),
        lambda: None,
    ]
    chance.choice(choices)()


def try_hard(stage: StackStage, chance: random.Random, components: t.Any, options: t.Any) -> None:
    """A task several times, some of them killed or in trouble."""
    for _attempt in range(chance.randrange(3)):
        trouble = chance.choice(["kill_before", "kill_after", "lose", "cut", "refuse"])
        status = chance.choice([403, 409, 422, 429, 500, 503])
        stage.trouble(Fault(trouble, skip=chance.randrange(250), status=status))
        with contextlib.suppress(Killed, MusterError):
            stage.task(*components, wait_timeout=60.0, **options)
        stage.line.faults.clear()


def foretell(stage: StackStage, components: t.Any, options: t.Any) -> t.Any:
    """What a task would do; nothing where the later version is there."""
    try:
        return stage.task(*components, check_mode=True, **options).as_result(diff=True)
    except MusterError as error:
        if "is older" in str(error):
            return None
        raise


@pytest.mark.parametrize("seed", range(SEED, SEED + examples(4)))
def test_whatever_happened_before_check_mode_is_right_and_the_second_run_writes_nothing(seed):
    chance = random.Random(seed)
    stage = StackStage()
    theirs = foreign(stage)
    for _turn in range(4):
        version = chance.choice([STACK, NEXT])
        present = chance.random() < 0.7
        names = chance.sample(range(3), chance.randrange(1, 4))
        # What is needed comes along, and what needs it goes along.
        picked = range(max(names) + 1) if present else range(min(names), 3)
        components = [version[number] if present else ABSENT[number] for number in picked]
        options = {} if present else {"state": "absent", "remove_definitions": chance.random() < 0.5}
        drift(stage, chance)
        try_hard(stage, chance, components, options)
        stage.cluster.clock.advance(20.0)
        foretold = foretell(stage, components, options)
        if foretold is None:
            continue
        done = stage.task(*components, **options).as_result(diff=True)
        assert not done.get("failed"), (seed, done["msg"])
        assert [told["action"] for told in done["components"]] == [told["action"] for told in foretold["components"]], (
            seed
        )
        stage.cluster.clock.advance(5.0)
        stage.line.sent.clear()
        again = stage.task(*components, **options).as_result(diff=True)
        assert {told["action"] for told in again["components"]} == {"unchanged"}, seed
        assert stage.line.writes == [], seed
        assert versions(stage, theirs) == theirs, seed
