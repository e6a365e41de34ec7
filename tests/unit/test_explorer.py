# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random courses of operations, after which everything must be in order; and courses that once were not."""

from __future__ import annotations

import dataclasses
import os
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support import explorer
from ansible_collections.muster.kube.tests.support.explorer import (
    Course,
    draw,
    draw_elastic,
    draw_mirrored,
    draw_shared,
    explore,
    rules_of,
    shrink,
    simplify,
)

COURSES = 2000 if float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1 else 200
PARTS = 10
SEED = int(os.environ.get("MUSTER_SEED", "1"))

ALONE = (("all", None),)
A_AND_ALL = (("one", ("a",)), ("all", None))
A_AND_B = (("one", ("a",)), ("two", ("b",)))


def gang(namespace: str, name: str, *jobs: dict[str, t.Any], pause: float = 0.0, **more: t.Any) -> explorer.Operation:
    """One operation: a user queues a gang."""
    return "submit", {"namespace": namespace, "name": name, "jobs": list(jobs), **more}, pause


BROKEN = {
    # The Lease goes while the POST of a ticket is under way: the old holder takes the new one's ticket for its own.
    "partial": Course(
        seed=5,
        operations=(
            (
                "fault",
                {
                    "who": "one",
                    "trouble": "delay",
                    "methods": "POST",
                    "path": "/configmaps$",
                    "seconds": 0.8,
                    "meanwhile": "delete_lease",
                },
                0.0,
            ),
            gang("a", "g1", {"pods": 2, "cpu": "1"}, pause=10.0),
        ),
        dispatchers=A_AND_ALL,
    ),
    # Pods come slowly, and nobody sees what was promised in another namespace.
    "room_twice": Course(
        seed=93,
        operations=(
            gang("b", "g2", {"pods": 4, "cpu": "1", "seconds": 4}, {"pods": 2, "cpu": "1"}, pause=0.05),
            gang("a", "g6", {"pods": 3, "cpu": "1"}, pause=1.0),
        ),
        dispatchers=A_AND_B,
        pod_pace=0.8,
    ),
    # The same after the Lease with its promises was deleted.
    "room_twice, new Lease": Course(
        seed=700385,
        operations=(
            gang(
                "b",
                "g0",
                {"pods": 1, "cpu": "1", "seconds": 15},
                {"pods": 1, "cpu": "1", "seconds": 1, "exit_code": 3, "own": True},
                ready=True,
                pause=1.0,
            ),
            gang(
                "a",
                "g2",
                {"pods": 1, "cpu": "1", "seconds": 1},
                {"pods": 4, "cpu": "1", "seconds": 1, "ttl": 5},
                {"pods": 1, "cpu": "2", "seconds": 1},
                pause=1.0,
            ),
            ("delete_lease", {}, 1.0),
        ),
        dispatchers=A_AND_B,
        narrow=True,
    ),
    "room_twice, new Lease, pods to come": Course(
        seed=800106,
        operations=(
            gang("b", "g99", {"pods": 4, "cpu": "1", "seconds": 4, "own": True}, pause=6.0),
            gang(
                "c",
                "g4",
                {"pods": 1, "cpu": "500m", "seconds": 15, "own": True},
                {"pods": 2, "cpu": "500m", "seconds": 15},
                {"pods": 2, "cpu": "1"},
                pause=5.0,
            ),
            ("delete_lease", {}, 0.05),
            gang("a", "g8", {"pods": 3, "cpu": "2"}, pause=0.2),
        ),
        dispatchers=A_AND_ALL,
        narrow=True,
        pod_pace=0.8,
    ),
    # A start that is announced, since its Job removes itself, is written over an edit of before.
    "partial, edited before it was announced": Course(
        seed=30071,
        operations=(
            gang("b", "g99", {"pods": 2, "cpu": "1", "seconds": 15, "exit_code": 3, "ttl": 0}, pause=0.1),
            ("edit", {"which": 1}, 0.0),
        ),
        dispatchers=ALONE,
    ),
    # Who may not read the other namespace never learns that the last batch is settled, and starts nothing any more.
    "waits": Course(
        seed=1035,
        operations=(
            gang("a", "g99", {"pods": 1, "cpu": "500m", "seconds": 1}, pause=1.0),
            gang("b", "g0", {"pods": 1, "cpu": "1", "seconds": 15}, pause=0.05),
        ),
        dispatchers=A_AND_B,
        narrow=True,
    ),
    # A gang that waits for a name which somebody else has keeps the room that it cannot use.
    "room_kept": Course(
        seed=1068,
        operations=(
            gang("c", "g3", {"pods": 1, "cpu": "2"}, services=1, pause=5.0),
            gang("c", "g4", {"pods": 4, "cpu": "1"}, {"pods": 3, "cpu": "1"}, pause=0.2),
        ),
        dispatchers=ALONE,
    ),
    # A Job that failed and went after its time to live.
    "outcome": Course(
        seed=60,
        operations=(
            gang("a", "g99", {"pods": 1, "cpu": "1", "seconds": 4, "exit_code": 3, "ttl": 0}),
            gang("c", "g1", {"pods": 2, "cpu": "1", "seconds": 15, "ttl": 0}),
        ),
        dispatchers=(("two", ("b",)), ("all", None)),
    ),
    # One Job fails, the other goes on.
    "left": Course(
        seed=1,
        operations=(gang("a", "g1", {"pods": 1, "cpu": "1"}, {"pods": 1, "cpu": "1", "seconds": 1, "exit_code": 3}),),
        dispatchers=ALONE,
    ),
    # A Job fails and goes at once, and its gang is edited before anybody has looked.
    "edited": Course(
        seed=100130,
        operations=(
            gang("c", "g99", {"pods": 4, "cpu": "1", "seconds": 15, "exit_code": 3}, pause=1.0),
            ("finish", {"which": 9, "exit_code": 0}, 1.0),
            gang("c", "g2", {"pods": 1, "cpu": "1", "seconds": 1, "exit_code": 3, "ttl": 0, "own": True}, pause=0.05),
            gang("b", "g5", {"pods": 4, "cpu": "1", "own": True}, services=2, pause=1.0),
            ("edit", {"which": 4}, 0.0),
        ),
        dispatchers=(("one", ("a",)), ("two", ("b",)), ("all", None)),
        pod_pace=0.0,
    ),
    # A user deletes the Job of a gang that runs.
    "vanished": Course(
        seed=1,
        operations=(gang("a", "g1", {"pods": 1, "cpu": "1"}, pause=5.0), ("delete_object", {"which": 0}, 1.0)),
        dispatchers=ALONE,
    ),
    # A Job ends and goes before the pods of the other one are there: the gang is started again and again.
    "restless": Course(
        seed=10240,
        operations=(gang("b", "g99", {"pods": 3, "cpu": "1", "seconds": 1, "ttl": 0}, {"pods": 3, "cpu": "1"}),),
        dispatchers=ALONE,
        pod_pace=0.8,
    ),
    # What the rest of a gang waits for does its work and goes before anybody looks: it is made again, time after time.
    "twice": Course(
        seed=1100194,
        operations=(
            gang("b", "g99", {"pods": 1, "cpu": "1"}, pause=1.0),
            gang(
                "a",
                "g0",
                {"pods": 1, "cpu": "1", "seconds": 15, "ttl": 0, "own": True},
                {"pods": 1, "cpu": "500m"},
                {"pods": 2, "cpu": "500m", "seconds": 15, "exit_code": 3, "own": True},
                ready=True,
                pause=0.05,
            ),
        ),
        dispatchers=(("one", ("a",)),),
        pod_pace=0.8,
    ),
    # Two dispatchers that see different namespaces write different reasons into one record, by turns.
    "restless, by turns": Course(
        seed=11007,
        operations=(
            gang(
                "a",
                "g2",
                {"pods": 3, "cpu": "1"},
                {"pods": 3, "cpu": "1", "seconds": 4},
                {"pods": 1, "cpu": "2", "seconds": 4},
                pause=0.05,
            ),
            gang("b", "g3", {"pods": 4, "cpu": "1"}, services=2, priority=5, pause=5.0),
        ),
        dispatchers=A_AND_ALL,
    ),
    # The same of one that cannot see what is used of a quota tree and one that can.
    "restless, blind to quota": Course(
        seed=42,
        operations=(gang("a", "g1", {"pods": 3, "cpu": "1"}, queue="y", pause=5.0),),
        dispatchers=A_AND_ALL,
        narrow=True,
        tree={"extra": 0, "leaves": {"x": {"nominal": 3}, "y": {"nominal": 0, "most": 1}}},
    ),
    # The pods of a gang use its quota while they end, although its record is gone.
    "overshoot": Course(
        seed=106,
        operations=(
            gang("b", "g1", {"pods": 4, "cpu": "1"}, queue="x", pause=5.0),
            gang("a", "g2", {"pods": 4, "cpu": "1"}, queue="x", pause=1.0),
            ("delete", {"which": 1}, 5.0),
        ),
        dispatchers=ALONE,
        pod_end=8.0,
        tree={"extra": 0, "leaves": {"x": {"nominal": 4, "most": 0}}},
    ),
}


@pytest.mark.parametrize("drawn", [draw, draw_mirrored, draw_elastic], ids=["listed", "mirrored", "elastic"])
@pytest.mark.parametrize("part", range(PARTS))
def test_everything_is_in_order_after_any_course(part: int, drawn: t.Callable[[int], Course]) -> None:
    # Those of elastic gangs last longer.
    number = COURSES // 2 if drawn is draw_elastic else COURSES
    for place, seed in enumerate(range(SEED * 100_000 + part, SEED * 100_000 + number, PARTS)):
        # Every third cluster is shared by a quota tree.
        shared = drawn is not draw_elastic and place % 3 == 2
        course = draw_shared(seed, drawn) if shared else drawn(seed)
        broken = rules_of(explore(course))
        if broken:
            rule = min(broken)
            short = simplify(shrink(course, rule), rule)
            pytest.fail("\n".join([*explore(short), short.text()]))


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("name", sorted(BROKEN))
def test_course_that_once_broke_a_rule(name: str, mirrored: bool) -> None:
    assert explore(dataclasses.replace(BROKEN[name], mirrored=mirrored)) == []


# The explorer itself.


@pytest.mark.parametrize("writes", range(6, 13))
def test_job_that_ends_and_goes_is_run_once_wherever_its_dispatcher_dies(writes: int) -> None:
    short = {"pods": 1, "cpu": "1", "seconds": 1, "exit_code": 0, "ttl": 0, "own": True}
    death = {"who": "all", "trouble": "kill_before", "skip": writes, "methods": "POST|PUT|PATCH|DELETE"}
    course = Course(
        seed=1101760,
        operations=(
            gang("a", "g99", short, {"pods": 3, "cpu": "500m"}, services=1, pause=0.1),
            ("fault", death, 5.0),
        ),
        dispatchers=(("two", ("b",)), ("all", None)),
        pod_pace=0.01,
    )
    assert explore(course) == []


def test_a_course_is_the_same_every_time() -> None:
    assert draw(3) == draw(3)
    first, second = explorer.Explorer(draw(3)), explorer.Explorer(draw(3))
    assert first.run() == second.run()
    # A new Lease tells the time of this machine, since the server has not answered yet.
    histories = [
        [change.object for change in item.stage.cluster.history if change.plural != "leases"]
        for item in (first, second)
    ]
    assert histories[0] == histories[1]


def test_a_quiet_course_breaks_nothing() -> None:
    course = Course(1, (gang("a", "g1", {"pods": 2, "cpu": "1", "seconds": 2}, services=1, finalizer=True),))
    assert explore(course) == []


def test_the_text_of_a_course_is_the_course() -> None:
    course = draw(17)
    assert eval(course.text(), {"Course": Course}) == course


def test_courses_are_made_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(course: Course) -> list[str]:
        """Broken by the two of them together."""
        names = [details.get("name") for _kind, details, _pause in course.operations]
        return ["partial: x"] if {"g1", "g5"} <= set(names) else []

    monkeypatch.setattr(explorer, "explore", judge)
    job = {"pods": 1, "cpu": "1"}
    course = Course(1, tuple(gang("a", f"g{number}", job, services=2) for number in range(8)))
    short = simplify(shrink(course, "partial"), "partial")
    assert [details for _kind, details, _pause in short.operations] == [
        {"namespace": "a", "name": name, "jobs": [job]} for name in ("g1", "g5")
    ]
    assert short.dispatchers == (("all", None),)
