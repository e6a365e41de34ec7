# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many files and calls one start takes: what a reader has to follow, and what every gang costs.

Counted are calls of the collection's own functions from a dispatcher's cycle down, in a cluster in memory.
"""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.call_tracer import CallTracer
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryDispatcher, MemoryStage

PODS = 2
# Reached, not wished for: whoever exceeds them has added work to every start.
MOST_FILES = 91
MOST_CALLS = 1_500
# A new holder of the Lease asks what the server serves, reads its clock and looks for gangs that are over.
MOST_CALLS_AT_FIRST = 1_580


def one_start(stage: MemoryStage, *, at_work: bool) -> tuple[MemoryDispatcher, CallTracer]:
    """The cycle that starts one Job of two pods on one node, traced; by a dispatcher at work, or a new one."""
    stage.add_namespace("a")
    stage.add_nodes(*cases.node_pool("p", 1))
    dispatcher = stage.dispatcher("one", ["a"])
    if at_work:
        dispatcher.cycle()
    else:
        assert dispatcher.acquire()
    stage.cluster.add("configmaps", cases.gang_record("g", "a", [cases.job("j", "p", PODS)]))
    # The ledger of these tests renews between requests; a real one does so in a thread of its own.
    dispatcher.line.before = lambda _method, _path: None
    return dispatcher, trace_cycle(dispatcher)


def trace_cycle(dispatcher: MemoryDispatcher) -> CallTracer:
    """One cycle, traced."""
    with CallTracer() as tracer:
        dispatcher.cycle()
    return tracer


@pytest.mark.parametrize(("at_work", "most"), [(True, MOST_CALLS), (False, MOST_CALLS_AT_FIRST)])
def test_a_start_takes_no_more_files_and_calls_than_it_did(at_work: bool, most: int) -> None:
    with MemoryStage() as stage:
        _dispatcher, tracer = one_start(stage, at_work=at_work)
        assert stage.cluster.get("jobs", "a", "j") is not None
    assert len(tracer.files) <= MOST_FILES, sorted(tracer.files)
    assert tracer.calls <= most, tracer.counts.most_common(40)


def test_a_start_works_out_its_gang_once() -> None:
    with MemoryStage() as stage:
        _dispatcher, tracer = one_start(stage, at_work=False)
    once = ("plan_objects", "infer_podsets", "GangSpec._digest", "read_constraints", "read_spec", "Verdict.as_dict")
    assert {name: tracer.of(name) for name in once} == dict.fromkeys(once, 1)


def test_each_pod_of_a_cycle_is_read_once() -> None:
    with MemoryStage() as stage:
        dispatcher, _tracer = one_start(stage, at_work=True)
        stage.cluster.add("pods", cases.pod("other", "a", "p"))
        dispatcher.pass_time(3)
        pods = stage.cluster.all("pods")
        tracer = trace_cycle(dispatcher)
    assert len(pods) == PODS + 1
    assert tracer.of("pod_from_api") == tracer.of("running_pod_requests") == len(pods)
    # A pod of nobody in particular is not looked at as one of a gang.
    assert tracer.of("gang_pod_from_api") == PODS
