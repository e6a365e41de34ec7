# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reservation: estimates, the earliest moment, what is held and who is kept off, and the bound in simulated time."""

from __future__ import annotations

import dataclasses
import heapq
import math

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue import reserve
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import QueuedGang, ordered, walk
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reserve import (
    NO_END_KNOWN,
    Ending,
    Estimate,
    Reservation,
    ReserveOptions,
    Reserver,
    _SlotCount,
    estimate_run_time,
    gather_endings,
    name_prefix,
    run_time_history,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import judge, open_case, try_to_fit
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod, room
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(40))
long = settings(max_examples=examples(25))

NOW = 1_000_000.0
HOUR = 3600.0
LIMIT = Estimate(HOUR, True)


def cpus(count, each, name="g", **spec):
    """A gang of count pods of so many cpus."""
    return gang(job(f"{name}-job", count, requests={"cpu": str(each)}, **spec), name=name)


def queued(uid, waited=2 * HOUR, now=NOW):
    return QueuedGang(uid, 0, 0.0, now - waited)


def nodes_of(*names, cpu="4", **more):
    return [node(name, cpu=cpu, **more) for name in names]


def running(on, name, each="4", labels=None):
    return pod(name, on=on, requests={"cpu": each}, labels={"gang": name.split(".")[0], **(labels or {})})


def reserver(nodes, pods=(), ends=None, **terms):
    """A cycle on these nodes and pods; ends by gang label: seconds from now, and whether enforced."""
    here = room(nodes, pods)
    at = {uid: (None if seconds is None else NOW + seconds, firm) for uid, (seconds, firm) in (ends or {}).items()}
    endings = gather_endings(here.pods_on, at, lambda item: item.labels.get("gang"))
    return Reserver(here, endings, NOW, ReserveOptions(**terms))


def two_ends(**terms):
    """Three full nodes whose gangs end after 1 h, 2 h and 3 h."""
    pods = [running("a", "one"), running("b", "two"), running("c", "three")]
    ends = {"one": (HOUR, True), "two": (2 * HOUR, True), "three": (3 * HOUR, True)}
    return reserver(nodes_of("a", "b", "c"), pods, ends, **terms)


@pytest.mark.parametrize(
    ("limit", "deadlines", "history", "expected"),
    [
        (60, [30], 10, Estimate(60, True)),
        (None, [30, 50], 10, Estimate(50, True)),
        (None, [30, None, 20], 10, Estimate(20, False)),
        (None, [None], 10, Estimate(10, False)),
        (None, [], None, Estimate(None, False)),
    ],
)
def test_the_surest_source_of_an_estimate_wins(limit, deadlines, history, expected):
    assert estimate_run_time(limit, deadlines, history) == expected


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("train-20260801-x7k2p", "train"),
        ("train-7", "train"),
        ("train-llama", "train-llama"),
        ("resnet50", "resnet50"),
        ("nightly.eval.3", "nightly.eval"),
        ("2026", "2026"),
    ],
)
def test_generated_ends_of_names_are_left_out(name, prefix):
    assert name_prefix(name) == prefix


def test_history_is_what_nine_of_ten_stayed_within():
    finished = [("q", f"train-{i}", float(i)) for i in range(1, 11)] + [(None, "train-1", 99.0), ("q", "other", 5.0)]
    assert run_time_history(finished) == {("q", "train"): 9.0, (None, "train"): 99.0, ("q", "other"): 5.0}


def test_the_nodes_that_are_free_first_are_held():
    cycle = two_ends()
    verdict = cycle.judge(queued("big"), cpus(2, 4, "big"), Estimate())
    assert (verdict.answer, verdict.reason) == ("waits", "insufficient")
    assert verdict.detail == "2 node(s) are held for it; expected to start by 1970-01-12T15:46:40Z"
    expected = Reservation("big", "default/big", frozenset("ab"), NOW + 2 * HOUR, True)
    assert cycle.reservations == (expected,)


def test_of_nodes_that_suffice_those_busy_longest_are_held():
    """One of four nodes is idle: whoever can start there should, so it is not held."""
    pods = [running("b", "one"), running("c", "two"), running("d", "three")]
    ends = {"one": (HOUR, True), "two": (2 * HOUR, True), "three": (2 * HOUR, True)}
    cycle = reserver(nodes_of("a", "b", "c", "d"), pods, ends)
    cycle.judge(queued("big"), cpus(3, 4), Estimate())
    assert [(sorted(held.nodes), held.starts_at) for held in cycle.reservations] == [(["b", "c", "d"], NOW + 2 * HOUR)]


def test_a_gang_that_has_not_waited_long_holds_nothing():
    cycle = two_ends()
    assert cycle.judge(queued("big", waited=HOUR), cpus(2, 4), Estimate()).detail is None
    assert cycle.reservations == ()
    cycle.judge(queued("big", waited=HOUR + 1), cpus(2, 4), Estimate())
    assert [held.uid for held in cycle.reservations] == ["big"]


def test_a_gang_that_lacks_more_than_nodes_holds_nothing():
    cycle = two_ends()
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]
    assert cycle.judge(queued("big"), cpus(2, 4, volumes=claim), Estimate()).reason == "claim_missing"
    assert cycle.judge(queued("huge"), cpus(9, 4), Estimate()).answer == "never"
    assert cycle.reservations == ()


def with_a_free_node():
    """Nodes a and b full until 2 h from now, d idle; the gang big needs three nodes."""
    pods = [running("a", "one"), running("b", "two")]
    cycle = reserver(nodes_of("a", "b", "d"), pods, {"one": (2 * HOUR, True), "two": (2 * HOUR, True)})
    cycle.judge(queued("big"), cpus(3, 4, "big"), Estimate())
    return cycle


@pytest.mark.parametrize(
    ("estimate", "answer"),
    [
        (Estimate(2 * HOUR, True), "fits"),
        (Estimate(2 * HOUR + 1, True), "waits"),
        (Estimate(HOUR, False), "waits"),
        (Estimate(), "waits"),
    ],
)
def test_held_nodes_are_for_those_that_are_made_to_end_in_time(estimate, answer):
    cycle = with_a_free_node()
    late = queued("late", waited=0)
    verdict = cycle.judge(late, cpus(1, 1, "late"), estimate)
    assert verdict.answer == answer
    if answer == "waits":
        assert verdict.reason == "reserved"
        assert verdict.detail == "3 node(s) are held for default/big until 1970-01-12T15:46:40Z"
        assert verdict.placement is None
        assert cycle.blocked_by(late) == "big"
    else:
        assert cycle.blocked_by(late) is None
        assert verdict.steering == {}


def test_a_gang_that_starts_beside_held_nodes_is_steered_off_them():
    pods = [running("a", "one"), running("b", "two", "3")]
    ends = {"one": (2 * HOUR, True), "two": (None, False)}
    cycle = reserver(nodes_of("a", "b", "c"), pods, ends)
    cycle.judge(queued("big"), cpus(2, 4, "big"), Estimate())
    assert [sorted(held.nodes) for held in cycle.reservations] == [["a", "c"]]
    verdict = cycle.judge(queued("late"), cpus(1, 1, "late"), Estimate())
    assert (verdict.answer, verdict.how) == ("fits", "steered")
    assert verdict.steering == {"late-job": ("b",)}
    assert verdict.placement == {"late-job": {"b": 1}}


def test_nodes_that_cannot_be_told_apart_cannot_be_kept_free():
    """Without host names of their own there is no steering, so a late gang waits."""
    labels = {"kubernetes.io/hostname": "same"}
    pods = [running("a", "one"), running("b", "two", "3")]
    ends = {"one": (2 * HOUR, True)}
    cycle = reserver(nodes_of("a", "b", "c", labels=labels), pods, ends)
    cycle.judge(queued("big"), cpus(2, 4, "big"), Estimate())
    assert cycle.judge(queued("late"), cpus(1, 1, "late"), Estimate()).reason == "reserved"


def test_without_an_end_nothing_is_held_and_the_verdict_says_so():
    pods = [running("a", "one"), running("b", "two")]
    cycle = reserver(nodes_of("a", "b", "c"), pods, {"one": (HOUR, True), "two": (None, False)})
    assert cycle.judge(queued("big"), cpus(3, 4), Estimate()).detail == NO_END_KNOWN
    assert cycle.reservations == ()
    assert cycle.judge(queued("late"), cpus(1, 4), Estimate()).answer == "fits"


def test_the_next_gang_that_can_be_helped_is():
    pods = [running("a", "one"), running("b", "two"), running("c", "three")]
    cycle = reserver(nodes_of("a", "b", "c"), pods, {"one": (HOUR, True), "two": (2 * HOUR, True)})
    assert cycle.judge(queued("big"), cpus(3, 4, "big"), Estimate()).detail == NO_END_KNOWN
    cycle.judge(queued("next"), cpus(2, 4, "next"), Estimate())
    assert [held.uid for held in cycle.reservations] == ["next"]


def test_a_hard_hold_stops_all_behind_on_the_same_nodes():
    pods = [running("a", "one")]
    nodes = nodes_of("a", "b", labels={"pool": "x"}) + nodes_of("c", labels={"pool": "y"})
    cycle = reserver(nodes, pods, {"one": (None, False)}, hold="hard")
    big = cpus(2, 4, "big", nodeSelector={"pool": "x"})
    assert cycle.judge(queued("big"), big, Estimate()).detail == NO_END_KNOWN
    assert cycle.reservations == (Reservation("big", "default/big", frozenset("ab"), None, False),)
    stopped = cycle.judge(queued("late"), cpus(1, 1, nodeSelector={"pool": "x"}), LIMIT)
    assert (stopped.reason, stopped.detail) == ("reserved", "2 node(s) are held for default/big")
    assert cycle.judge(queued("other"), cpus(1, 1, nodeSelector={"pool": "y"}), Estimate()).answer == "fits"


def test_one_reservation_for_each_class_of_nodes():
    nodes = nodes_of("a", "b", labels={"pool": "x"}) + nodes_of("c", "d", labels={"pool": "y"})
    pods = [running("a", "one"), running("c", "two")]
    cycle = reserver(nodes, pods, {"one": (HOUR, True), "two": (2 * HOUR, True)})
    for uid, pool in (("x1", "x"), ("x2", "x"), ("y1", "y")):
        cycle.judge(queued(uid), cpus(2, 4, uid, nodeSelector={"pool": pool}), Estimate())
    cycle.judge(queued("all"), cpus(4, 4, "all"), Estimate())
    found = [(held.uid, sorted(held.nodes), held.starts_at) for held in cycle.reservations]
    assert found == [("x1", ["a", "b"], NOW + HOUR), ("y1", ["c", "d"], NOW + 2 * HOUR)]


def test_a_guess_that_has_passed_is_none_and_a_limit_that_has_passed_is_now():
    pods = [running("a", "one")]
    late = reserver(nodes_of("a"), pods, {"one": (-60, False)})
    assert late.judge(queued("big"), cpus(1, 4), Estimate()).detail == NO_END_KNOWN
    over = reserver(nodes_of("a"), pods, {"one": (-60, True)})
    over.judge(queued("big"), cpus(1, 4), Estimate())
    assert [held.starts_at for held in over.reservations] == [NOW]


def test_a_reservation_is_firm_only_if_all_that_has_to_leave_is_made_to():
    pods = [running("a", "one"), running("b", "two")]
    cycle = reserver(nodes_of("a", "b"), pods, {"one": (HOUR, True), "two": (HOUR, False)})
    cycle.judge(queued("big"), cpus(2, 4), Estimate())
    assert [held.firm for held in cycle.reservations] == [False]


def test_a_gang_started_in_the_same_cycle_ends_too():
    cycle = reserver(nodes_of("a"))
    first = cpus(1, 4, "first")
    verdict = cycle.judge(queued("first"), first, LIMIT)
    pods = cycle.start(first, verdict, LIMIT)
    assert [(item.node, item.requests["cpu"]) for item in pods] == [("a", 4000)]
    cycle.judge(queued("big"), cpus(1, 4, "big"), Estimate())
    assert [held.starts_at for held in cycle.reservations] == [NOW + HOUR]


def test_equal_demands_that_were_refused_are_worked_out_once():
    asked = []

    def counting(here, of, taken):
        asked.append(of.name)
        return judge(here, of, taken)

    cycle = two_ends(reserve_after=math.inf)
    cycle.judging = counting
    verdicts = [cycle.judge(queued(name), cpus(1, 4, name), Estimate(), demand="same") for name in ("a", "b")]
    assert [(verdict.gang, verdict.answer) for verdict in verdicts] == [("a", "waits"), ("b", "waits")]
    assert asked == ["a"]
    cycle.judge(queued("c"), cpus(1, 4, "c"), Estimate())
    assert asked == ["a", "c"]


def test_pods_that_others_must_join_are_looked_for_moment_by_moment():
    """The friend ends after 2 h; between 1 h and 2 h there is room beside it, later there is nobody to join."""
    term = {"labelSelector": {"matchLabels": {"app": "friend"}}, "topologyKey": "kubernetes.io/hostname"}
    joining = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [running("a", "one", "3"), running("a", "two", "1", labels={"app": "friend"}), running("b", "three")]
    ends = {"one": (HOUR, True), "two": (2 * HOUR, True), "three": (3 * HOUR, True)}
    cycle = reserver(nodes_of("a", "b"), pods, ends)
    cycle.judge(queued("big"), cpus(1, 2, affinity=joining), Estimate())
    assert [(sorted(held.nodes), held.starts_at) for held in cycle.reservations] == [(["a"], NOW + HOUR)]


def test_one_podset_that_must_join_others_is_enough_to_look_moment_by_moment():
    term = {"labelSelector": {"matchLabels": {"app": "friend"}}, "topologyKey": "kubernetes.io/hostname"}
    joining = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [running("a", "one", "3"), running("a", "two", "1", labels={"app": "friend"}), running("b", "three")]
    ends = {"one": (HOUR, True), "two": (2 * HOUR, True), "three": (3 * HOUR, True)}
    cycle = reserver(nodes_of("a", "b"), pods, ends)
    plain, work = job("plain", 1, requests={"cpu": "1"}), job("work", 1, requests={"cpu": "2"}, affinity=joining)
    cycle.judge(queued("big"), gang(plain, work, name="big"), Estimate())
    assert [held.starts_at for held in cycle.reservations] == [NOW + HOUR]


def test_nodes_held_serve_several_podsets_even_if_all_else_is_taken():
    pods = [running(name, f"g{name}") for name in "abc"]
    cycle = reserver(nodes_of("a", "b", "c"), pods, {"ga": (HOUR, True), "gb": (HOUR, True), "gc": (9 * HOUR, True)})
    head, workers = job("head", 1, requests={"cpu": "1"}), job("workers", 2, requests={"cpu": "3"})
    wanted = gang(head, workers, name="big")
    cycle.judge(queued("big"), wanted, Estimate())
    (held,) = cycle.reservations
    assert (held.starts_at, sorted(held.nodes)) == (NOW + HOUR, ["a", "b"])


# Random clusters: some nodes in two pools, some of what runs has an end.
sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))
ends = st.one_of(st.none(), st.integers(1, 6).map(lambda n: n * 600.0))
loads = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), ends, st.booleans()), max_size=8)


def loaded(items):
    """Four nodes of 4 cpus with as many of these pods as fit, each a gang of its own."""
    names, free, pods, at = "abcd", [4] * 4, [], {}
    for i, (where, size, seconds, enforced) in enumerate(items):
        if free[where] >= size:
            free[where] -= size
            pods.append(running(names[where], f"r{i}", str(size)))
            at[f"r{i}"] = (seconds, enforced)
    return nodes_of(*names), pods, at


@steady
@given(loads, sizes)
def test_the_moment_found_is_the_first_at_which_the_gang_fits(items, size):
    nodes, pods, at = loaded(items)
    cycle, wanted = reserver(nodes, pods, at), cpus(*size)
    fits_now = cycle.judge(queued("big"), wanted, Estimate()).answer == "fits"
    expected = None
    for moment in sorted({seconds for seconds, _firm in at.values() if seconds is not None}):
        left = [item for item in pods if (at[item["metadata"]["name"]][0] or math.inf) > moment]
        if try_to_fit(open_case(wanted, room(nodes, left))) is not None:
            expected = NOW + moment
            break
    found = [held.starts_at for held in cycle.reservations]
    assert found == ([] if fits_now or expected is None else [expected])


@steady
@given(loads, sizes, sizes)
def test_a_late_gang_is_kept_off_exactly_the_held_nodes(items, size, late):
    """Its answer is that of a cluster in which the held nodes are cordoned, and its steering names none of them."""
    nodes, pods, at = loaded(items)
    cycle = reserver(nodes, pods, at)
    cycle.judge(queued("big"), cpus(*size, name="big"), Estimate())
    held = frozenset().union(*(one.nodes for one in cycle.reservations))
    verdict = cycle.judge(queued("late", waited=0), cpus(*late, name="late"), Estimate())
    for one in nodes:
        one["spec"]["unschedulable"] = one["metadata"]["name"] in held
    assert (verdict.answer == "fits") == (judge(room(nodes, pods), cpus(*late, name="late")).answer == "fits")
    if verdict.answer == "fits" and held:
        assert held.isdisjoint(verdict.placement["late-job"])
        assert verdict.steering["late-job"] == tuple(sorted(verdict.placement["late-job"]))


@steady
@given(loads, sizes, sizes)
def test_a_gang_bound_for_other_nodes_does_not_notice_a_reservation(items, size, late):
    nodes, pods, at = loaded(items)
    cycle = reserver(nodes, pods, at)
    cycle.judge(queued("big"), cpus(*size, name="big"), Estimate())
    held = frozenset().union(*(one.nodes for one in cycle.reservations))
    outside = sorted(set("abcd") - held)
    wish = {"key": "kubernetes.io/hostname", "operator": "In", "values": outside or ["none"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wish]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    other = cpus(*late, name="late", affinity=affinity)
    assert cycle.judge(queued("late", waited=0), other, Estimate()) == judge(room(nodes, pods), other)


@dataclasses.dataclass(frozen=True)
class Work:
    """A gang of the simulation: when it comes, its podsets as (count, cpus), how long it runs and its limit."""

    uid: str
    comes: float
    podsets: tuple[tuple[int, int], ...]
    runs: float
    limit: float | None
    pool: str | None

    def gang(self):
        spec = {"nodeSelector": {"pool": self.pool}} if self.pool else {}
        jobs = [job(f"j{i}", n, requests={"cpu": str(each)}, **spec) for i, (n, each) in enumerate(self.podsets)]
        return gang(*jobs, name=self.uid)

    @property
    def item(self):
        return QueuedGang(self.uid, 0, 0.0, self.comes)

    @property
    def estimate(self):
        return Estimate() if self.limit is None else Estimate(self.limit, True)


class Simulation:
    """Runs gangs on six nodes in two pools and notes what was promised and when each started."""

    def __init__(self, works, policy, after=900.0):
        pools = ["x", "x", "x", "x", "y", "y"]
        self.room = room([node(f"n{i}", cpu="4", labels={"pool": pool}) for i, pool in enumerate(pools)])
        self.works = {work.uid: work for work in works}
        self.policy, self.terms = policy, ReserveOptions(after if policy == "reserve" else math.inf)
        self.queue, self.running, self.started = {}, {}, {}
        self.promises = {}
        self.kept = []

    def run(self):
        events = [(work.comes, "comes", uid) for uid, work in self.works.items()]
        heapq.heapify(events)
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                _at, kind, uid = heapq.heappop(events)
                if kind == "comes":
                    self.queue[uid] = self.works[uid]
                elif kind == "ends":
                    self.room = self.room.without(self.running.pop(uid).pods)
            for uid in self.cycle(now):
                heapq.heappush(events, (now + self.works[uid].runs, "ends", uid))
            # A dispatcher looks again now and then, also when nothing happens.
            if self.queue and self.running and (not events or events[0][0] > now + 600):
                heapq.heappush(events, (now + 600, "looks", ""))
        return self

    def cycle(self, now):
        cycle = Reserver(self.room, list(self.running.values()), now, self.terms)

        def fits(item):
            work = self.works[item.uid]
            verdict = cycle.judge(item, work.gang(), work.estimate, demand=(work.podsets, work.pool))
            if verdict.answer != "fits":
                return False
            end = None if work.limit is None else now + work.limit
            self.running[item.uid] = Ending(cycle.start(work.gang(), verdict, work.estimate), end, end is not None)
            return True

        decisions = walk(self.policy, ordered([work.item for work in self.queue.values()], now), fits, cycle.blocked_by)
        for item in decisions.started:
            self.started[item.uid] = now
            del self.queue[item.uid]
        self.check(now, decisions.started, cycle.reservations)
        return [item.uid for item in decisions.started]

    def check(self, now, started, reservations):
        """What was promised is kept and only gets better, unless a gang ahead in the queue has started since."""
        for item in started:
            if item.uid in self.promises:
                assert now <= self.promises.pop(item.uid)
                self.kept.append(item.uid)
        for uid in list(self.promises):
            ahead = (self.works[uid].comes, uid)
            if any((item.submitted, item.uid) < ahead for item in started):
                del self.promises[uid]
            else:
                assert now <= self.promises[uid]
        for held in reservations:
            if held.firm:
                assert held.starts_at <= self.promises.get(held.uid, math.inf)
                self.promises[held.uid] = held.starts_at


def workloads(limits, pools=("x", "y", None), most_podsets=1):
    """Up to 14 gangs within two hours; run times never exceed a limit."""

    def build(rows):
        return [
            Work(
                f"g{i:02d}", comes * 60.0, tuple(podsets), runs * 300.0, runs * 300.0 * factor if factor else None, pool
            )
            for i, (comes, podsets, runs, factor, pool) in enumerate(rows)
            if pool != "y" or all(count * each <= 8 for count, each in podsets)
        ]

    podsets = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=most_podsets)
    row = st.tuples(
        st.integers(0, 120), podsets, st.integers(1, 20), st.sampled_from(limits), st.sampled_from(list(pools))
    )
    return st.lists(row, min_size=4, max_size=14).map(build)


@long
@given(workloads([1.0, 1.5, 5.0], pools=(None,)))
def test_with_enforced_limits_a_reserving_gang_starts_by_the_moment_told_and_backfill_never_delays_it(works):
    done = Simulation(works, "reserve").run()
    assert not done.queue
    assert not done.promises


@long
@given(workloads([1.0, 3.0, None]))
def test_a_firm_promise_holds_where_some_limits_are_missing_and_pools_overlap(works):
    Simulation(works, "reserve").run()


@long
@given(workloads([1.0, 2.0], pools=(None,), most_podsets=2))
def test_a_firm_promise_holds_for_gangs_of_several_podsets(works):
    Simulation(works, "reserve").run()


def test_the_simulation_really_reserves():
    """So that the tests above cannot pass because nothing was ever promised."""
    small = [Work(f"s{i:02d}", i * 300.0, ((1, 4),), 4000.0, 5000.0, None) for i in range(30)]
    big = Work("big", 1000.0, ((6, 4),), 600.0, 600.0, None)
    reserving = Simulation([*small, big], "reserve").run()
    greedy = Simulation([*small, big], "best_effort").run()
    assert "big" in reserving.kept
    assert reserving.started["big"] < greedy.started["big"]


@long
@given(workloads([None]))
def test_without_estimates_reserve_does_what_best_effort_does(works):
    assert Simulation(works, "reserve").run().started == Simulation(works, "best_effort").run().started


@pytest.mark.parametrize(
    ("taken", "before", "after"),
    [
        ({"cpu": "2", "memory": "1Gi"}, 0, 1),
        ({"cpu": "1"}, 1, 1),
        ({"memory": "3Gi"}, 0, 1),
        ({"memory": "1Gi"}, 1, 1),
        ({"nvidia.com/gpu": "1"}, 1, 1),
    ],
)
def test_slots_grow_only_by_what_a_pod_takes_with_it(taken, before, after):
    """Each pod wants two cpus and one GiB; the node has one thousandth of a cpu too little for a second one."""
    busy = pod("busy", on="a", requests=taken)
    here = room([node("a", cpu="3999m", memory="3Gi"), node("other", cpu="9", memory="9Gi")], [busy])
    host = {"kubernetes.io/hostname": "a"}
    wanted = gang(job("j", 1, requests={"cpu": "2", "memory": "1Gi"}, nodeSelector=host))
    count = _SlotCount(here, wanted.podsets[0], open_case(wanted, here).state.podsets[0].allowed)
    (gone,) = here.pods_on[0]
    for where, found in ((1, before), (0, after)):
        count.leave(where, gone)
        assert (count.found, count.enough()) == (found, found == 1)


def test_a_node_that_is_overdrawn_has_no_slot_rather_than_less_than_none():
    busy = [pod("busy", on="a", requests={"cpu": "9"}), pod("more", on="a", requests={"cpu": "1"})]
    here = room([node("a", cpu="4"), node("b", cpu="4")], busy)
    wanted = cpus(2, 2)
    count = _SlotCount(here, wanted.podsets[0], open_case(wanted, here).state.podsets[0].allowed)
    assert (count.slots, count.found, count.enough()) == ({0: 0, 1: 2}, 2, True)
    count.leave(0, here.pods_on[0][0])
    assert count.slots == {0: 1, 1: 2}


def test_what_was_unproven_stays_unproven_when_steered_off_held_nodes():
    pods = [running("a", "one"), running("b", "two", "3")]
    here = room(nodes_of("a", "b", "c"), pods, webhooks=("injector",))
    endings = gather_endings(here.pods_on, {"one": (NOW + 2 * HOUR, True)}, lambda item: item.labels.get("gang"))
    cycle = Reserver(here, endings, NOW)
    cycle.judge(queued("big"), cpus(2, 4, "big"), Estimate())
    verdict = cycle.judge(queued("late"), cpus(1, 1, "late"), Estimate())
    assert (verdict.answer, verdict.how, verdict.steering) == ("fits", "unproven", {"late-job": ("b",)})


def test_of_very_many_moments_only_some_are_tried(monkeypatch):
    """Two of four moments are looked at; the gang would fit at the first, but is promised the second."""
    monkeypatch.setattr(reserve, "FEWEST_MOMENTS", 2)
    monkeypatch.setattr(reserve, "MOST_NODES_IN_TURN", 0)
    term = {"labelSelector": {"matchLabels": {"app": "friend"}}, "topologyKey": "kubernetes.io/hostname"}
    joining = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [running("a", f"r{i}", "1", labels={"app": "friend"}) for i in range(4)]
    ends = {f"r{i}": ((i + 1) * HOUR, True) for i in range(4)}
    cycle = reserver(nodes_of("a"), pods, ends)
    cycle.judge(queued("big"), cpus(1, 1, affinity=joining), Estimate())
    assert [held.starts_at for held in cycle.reservations] == [NOW + 2 * HOUR]
    monkeypatch.setattr(reserve, "FEWEST_MOMENTS", 4)
    every = reserver(nodes_of("a"), pods, ends)
    every.judge(queued("big"), cpus(1, 1, affinity=joining), Estimate())
    assert [held.starts_at for held in every.reservations] == [NOW + HOUR]


@pytest.mark.parametrize(("runs", "usual"), [(1, 1.0), (9, 9.0), (10, 9.0), (11, 10.0), (20, 18.0)])
def test_nine_of_ten_runs_stayed_within_the_usual_time(runs, usual):
    assert reserve.usual_run_time([float(number) for number in range(runs, 0, -1)]) == usual
