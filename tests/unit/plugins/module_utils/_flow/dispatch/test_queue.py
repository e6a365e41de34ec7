# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The walk down the queue, on worlds written by hand: moments that a real cluster passes through too fast."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.queue import Queue
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.terms import DispatchTerms
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.world import World
from ansible_collections.muster.kube.plugins.module_utils._flow.snapshot import Reading
from ansible_collections.muster.kube.plugins.module_utils._kube.records import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.snapshot import (
    NamespaceRules,
    Snapshot,
    node_from_api,
    pod_from_api,
)
from ansible_collections.muster.kube.plugins.module_utils._model.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.state import (
    STATE_ANNOTATION,
    advance,
    new_state,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import GANG_LABEL, build_ticket, plan_objects
from ansible_collections.muster.kube.plugins.module_utils._model.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.accounting import index_pods
from ansible_collections.muster.kube.tests.support.cluster_model import job, node, pod

AT = "2026-01-01T00:00:00Z"
NOW = read_time("2026-01-01T00:00:30Z")
COUNTER = itertools.count()


def record(name, pods=1, cpu="1", *, phase="queued", objects=None, namespace="default", changes=None, **options):
    """A record as the server would send it; those made later were submitted later."""
    objects = objects or [job(name, pods, requests={"cpu": cpu})]
    raw = build_record(read_spec({"name": name, "namespace": namespace, "objects": objects, **options}, "gang"))
    created = f"2026-01-01T00:00:{next(COUNTER) % 30:02d}Z"
    raw["metadata"].update(uid=name, resourceVersion="1", creationTimestamp=created)
    if phase != "queued" or changes:
        state = advance(new_state(AT, "w/e.1/1"), phase, AT, "R", "", "w/e.1/2", started_at=AT, **(changes or {}))
        raw["metadata"]["annotations"] = {STATE_ANNOTATION: state_text(state)}
    return record_from_api(raw)


def decide(records, *, cpus=("4",), pods=(), unsettled=(), accounts=None, tickets=None, rules=None, **terms):
    """What becomes of each waiting gang: chosen, or the reason why not."""
    snapshot = Snapshot(
        nodes=tuple(node_from_api(node(f"n{index}", cpu=cpu)) for index, cpu in enumerate(cpus)),
        pods=tuple(view for view in map(pod_from_api, pods) if view is not None),
        rules=rules or {},
    )
    memory = Memory()
    world = World(
        reading=Reading(snapshot, 0.0, 0.0),
        gangs={item.uid: memory.size(item, snapshot)[0] for item in records},
        problems={},
        tickets=tickets or {},
        pods=index_pods([]),
        items={},
        accounts=accounts,
        kinds=(),
    )
    terms = DispatchTerms(namespaces=("default",), **terms)
    queue = Queue(world, records, frozenset(unsettled), terms=terms, memory=memory, now=NOW)
    return {item.record.name: "chosen" if item.chosen else item.verdict.reason for item in queue.decide()}


@pytest.mark.parametrize("phase", ["dispatching", "dispatched"])
def test_pods_that_do_not_exist_yet_keep_their_room(phase):
    started = record("started", 3, phase=phase)
    assert decide([started, record("next", 2)]) == {"next": "insufficient"}
    assert decide([started, record("small", 1)]) == {"small": "chosen"}


def test_an_open_entry_of_the_last_batch_keeps_its_room_too():
    """Its own record is asked again like any other; nobody else gets what was promised."""
    assert decide([record("open", 3), record("next", 2)], unsettled=["open"])["next"] == "insufficient"


def test_gangs_that_are_over_or_being_undone_keep_none():
    for phase in ("complete", "failed", "undoing", "suspended"):
        assert decide([record("gone", 4, phase=phase), record("next", 4)]) == {"next": "chosen"}


def test_what_was_seen_to_be_larger_is_counted_larger():
    seen = ({"name": "grew", "count": 1, "requests": {"cpu": "4"}},)
    assert decide([record("grew", 1, changes={"observed": seen})], cpus=("2",)) == {"grew": "insufficient"}


def test_started_pods_of_low_priority_keep_their_place():
    started = record("started", 1, cpu="3", phase="dispatched")
    waiting = pod("p", requests={"cpu": "3"}, labels={GANG_LABEL: "started"}, priority=-5)
    assert decide([started, record("next", 1, cpu="2")], pods=[waiting])["next"] == "insufficient"


def test_the_first_in_order_comes_first():
    queue = [record("early", 3), record("late", 3), record("urgent", 3, priority=5)]
    assert decide(queue) == {"urgent": "chosen", "early": "insufficient", "late": "insufficient"}


def test_strict_asks_nobody_behind_the_first_that_does_not_fit():
    queue = [record("large", 9), record("small", 1)]
    assert decide(queue, policy="best_effort")["small"] == "chosen"
    assert decide(queue, policy="strict")["small"] == "behind"


def test_gangs_that_could_disturb_each_other_start_one_after_the_other():
    """The small pod could take the hole that the large ones need; whoever is behind must not take it either."""
    queue = [record("small", 1, cpu="1"), record("large", 2, cpu="3"), record("last", 1, cpu="1")]
    assert decide(queue, cpus=("4", "3")) == {"small": "chosen", "large": "after_others", "last": "after_others"}


def test_no_more_starts_than_allowed():
    queue = [record("a"), record("b"), record("c")]
    assert decide(queue, max_starts=2) == {"a": "chosen", "b": "chosen", "c": "max_starts"}


def test_gangs_of_others_keep_their_place_and_are_left_alone():
    queue = [record("theirs", 3), record("mine", 2)]
    assert decide(queue, only=frozenset({"mine"}))["mine"] == "insufficient"
    found = decide([record("theirs", 2), record("mine", 2)], only=frozenset({"mine"}))
    assert (found["mine"], found["theirs"] == "chosen") == ("chosen", False)


def test_no_account_no_start():
    assert decide([record("a"), record("b")], accounts=frozenset()) == {"a": "no_identity", "b": "no_identity"}
    assert decide([record("a")], accounts=frozenset({"default"})) == {"a": "chosen"}


def test_a_pause_is_kept_and_ends():
    paused = record("a", changes={"not_before": "2026-01-01T00:00:31Z"})
    over = record("b", changes={"not_before": "2026-01-01T00:00:29Z"})
    assert decide([paused, over]) == {"a": "paused", "b": "chosen"}


def test_names_of_started_gangs_and_of_those_chosen_before_are_taken():
    started = record("started", 1, phase="running", objects=[job("same", 1, requests={"cpu": "1"})])
    ticket = build_ticket(started.raw, 1, "d", plan_objects(started.spec, started.uid, 1))
    other = record("other", objects=[job("same", 1, requests={"cpu": "1"})])
    assert decide([started, other], tickets={"started": (ticket,)}) == {"other": "name_taken"}
    twins = [record(name, objects=[job("same", 1, requests={"cpu": "1"})]) for name in ("one", "two")]
    assert decide(twins) == {"one": "chosen", "two": "name_taken"}


def test_quotas_count_what_is_promised_and_what_was_chosen():
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}, "status": {"hard": {"pods": "3"}, "used": {}}}
    rules = {"default": NamespaceRules(quotas=(quota,))}
    queue = [record("started", 1, phase="dispatched"), record("a", 2), record("b", 1)]
    assert decide(queue, rules=rules) == {"a": "chosen", "b": "namespace_quota"}


def test_a_gang_without_pods_needs_no_room():
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {}}
    full = record("full", 4, phase="dispatched")
    assert decide([full, record("podless", objects=[settings])]) == {"podless": "chosen"}
