# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bench of dispatching counts as it says: its loads, the wait for room, requests, and what is a start."""

from __future__ import annotations

import argparse
import os

import pytest
from ansible_collections.muster.kube.bench.dispatching import accounts, figures, observer
from ansible_collections.muster.kube.bench.dispatching.accounts import (
    Account,
    peak_memory,
    processor_seconds,
    read_requests,
)
from ansible_collections.muster.kube.bench.dispatching.loads import NOBODY, BenchGang, Load, build_load
from ansible_collections.muster.kube.bench.dispatching.systems import Run
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import BATCH_ANNOTATION, Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.packing import pack
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import batch_text

UID = "0b1c2d3e-0000-4000-8000-00000000000{}"


def sizes(scale: float = 0.1, seed: int = 1) -> argparse.Namespace:
    """The arguments of the bench."""
    return argparse.Namespace(
        scale=scale,
        seed=seed,
        nodes=200,
        ones=1000,
        fours=1000,
        sixteens=200,
        podless=1000,
        competing=3000,
        run_seconds=(10.0, 20.0, 40.0),
        wrappers=150,
    )


def run_of(load: Load, system: str, seen: dict, seconds: float = 1.0) -> Run:
    """A run of which only times and processor seconds matter."""
    spent = Account({"etcd": seconds, "observer": 100.0}, {"etcd": 1.0}, {})
    return Run(system, load, seen, 0.0, spent, 0.0, 0)


@pytest.mark.parametrize(("name", "pods"), [("ones", 100), ("fours", 400), ("sixteens", 320), ("wrappers", 15)])
def test_loads_that_fit_have_room_for_all(name, pods):
    load = build_load(name, sizes())
    assert load.pods == pods
    assert load.room >= pods


def test_the_nodes_hold_exactly_the_room():
    load = build_load("competing", sizes())
    cpus = [int(node["status"]["allocatable"]["cpu"]) for node in load.node_objects()]
    assert sum(cpus) == load.room
    assert len(cpus) == load.nodes
    assert len({node["metadata"]["name"] for node in load.node_objects()}) == load.nodes


def test_nobody_makes_the_pods_of_the_podless():
    load = build_load("podless", sizes())
    assert load.pods == 0
    assert load.gangs[0].job(load)["spec"]["managedBy"] == NOBODY


def test_competing_gangs_have_their_own_arguments_and_a_tenth_of_the_room():
    load = build_load("competing", sizes())
    containers = [gang.job(load)["spec"]["template"]["spec"]["containers"][0] for gang in load.gangs]
    for key in ("name", "args", "env"):
        assert len({str(container[key]) for container in containers}) == len(load.gangs) == 300
    assert load.room == load.pods // 10
    assert {gang.pods: gang.seconds for gang in load.gangs} == {1: 1.0, 4: 2.0, 16: 4.0}


def test_a_seed_makes_the_same_gangs():
    assert build_load("competing", sizes()) == build_load("competing", sizes())
    assert build_load("competing", sizes()) != build_load("competing", sizes(seed=2))


def competing(*pods: int, room: int) -> Load:
    """A load of gangs of these sizes, called a, b and so on."""
    return Load(
        "competing", "", tuple(BenchGang(chr(97 + n), count) for n, count in enumerate(pods)), 1, room, ends=True
    )


def test_the_wait_for_room_is_counted_from_the_last_place_that_a_gang_takes():
    load = competing(1, 1, 2, 1, room=2)
    # a and b take what was free; c takes the places of a and b, d that of the first pod of c.
    bound = [(0.1, "a"), (0.2, "b"), (6.5, "c"), (5.5, "c"), (9.25, "d")]
    ended = [(5.0, "a"), (6.0, "b"), (9.0, "c"), (9.5, "c")]
    assert figures.room_latencies(load, sorted(bound), ended) == [0.5, 0.25]


def test_a_gang_that_was_bound_before_its_room_was_seen_has_not_waited():
    load = competing(1, 1, room=1)
    assert figures.room_latencies(load, [(0.1, "a"), (4.9, "b")], [(5.0, "a")]) == [0.0]


def test_percentiles():
    values = [float(number) for number in range(100, 0, -1)]
    assert [figures.percentile(values, share) for share in (0.5, 0.99)] == [51.0, 100.0]


def test_requests_are_counted_by_verb_and_resource_without_watches_and_leases():
    text = """# TYPE apiserver_request_total counter
apiserver_request_total{code="201",dry_run="",group="",resource="pods",subresource="",verb="POST",version="v1"} 3
apiserver_request_total{code="409",dry_run="",group="",resource="pods",subresource="",verb="POST",version="v1"} 1
apiserver_request_total{code="201",dry_run="All",group="",resource="pods",subresource="",verb="POST",version="v1"} 2
apiserver_request_total{code="200",dry_run="",group="",resource="pods",subresource="status",verb="APPLY"} 1e+01
apiserver_request_total{code="200",dry_run="",group="",resource="pods",subresource="",verb="WATCH"} 7
apiserver_request_total{code="200",dry_run="",group="coordination.k8s.io",resource="leases",verb="PUT"} 7
apiserver_request_total{code="200",dry_run="",group="",resource="",subresource="/healthz",verb="GET"} 7
"""
    assert read_requests(text) == {"POST pods": 4, "POST pods (dry run)": 2, "PATCH pods/status": 10}


def test_a_process_tells_what_it_takes():
    assert processor_seconds(os.getpid()) > 0
    assert peak_memory(os.getpid()) > 1


def test_a_process_that_works_is_waited_for(monkeypatch):
    spent = iter([0.0, 1.0, 1.0, 1.1, 1.1, 2.0, *([2.0] * 6)])
    monkeypatch.setattr(accounts, "processor_seconds", lambda _pid: next(spent))
    monkeypatch.setattr(accounts.time, "sleep", lambda _seconds: None)
    accounts.wait_for_rest({"etcd": 1})
    assert list(spent) == []


def test_each_gang_on_the_lease_is_a_start():
    entries = [(Entry("start", "team", "g", UID.format(number), 1), ()) for number in (1, 2)]
    text = batch_text(pack(entries, "e", "b")[0])
    noted = observer.note_lease({"annotations": {BATCH_ANNOTATION: text}})
    assert [name for _kind, name, _gang in noted] == [UID.format(1), UID.format(2)]
    assert not list(observer.note_lease({}))


def test_a_job_is_released_when_its_specification_has_changed():
    assert [kind for kind, *_rest in observer.note_job({"name": "a", "generation": 1})] == ["created"]
    assert [kind for kind, *_rest in observer.note_job({"name": "a", "generation": 2})] == ["created", "released"]


def test_bars_say_what_was_missed(capsys):
    load = build_load("fours", sizes())
    runs = {
        "floor": run_of(load, "floor", {"bound": [(10.0, "a")]}, 10.0),
        "kueue": run_of(load, "kueue", {"bound": [(20.0, "a")]}),
        "ours": run_of(load, "ours", {"bound": [(5.0, "a"), (15.0, "b")]}, 11.0),
    }
    figures.show_bars(load, runs)
    printed = capsys.readouterr().out
    assert "ours ÷ floor, time to the last pod bound, 1.5 (bar: at most 1.2): MISSED" in printed
    assert "ours ÷ floor, core-ms, 1.1 (bar: at most 1.2): kept" in printed
    assert "ours ÷ Kueue, time, 0.75 (bar: at most 1): kept" in printed


def test_admission_is_timed_to_the_last_object_that_is_of_use():
    load = build_load("podless", sizes())
    seen = {"created": [(1.0, "a")], "released": [(3.0, "a")], "admitted": [(2.0, "a")]}
    assert run_of(load, "kueue", seen).finished == 3.0
    assert run_of(load, "kueue", seen).decided == 2.0
    assert run_of(load, "ours", seen).finished == 1.0
