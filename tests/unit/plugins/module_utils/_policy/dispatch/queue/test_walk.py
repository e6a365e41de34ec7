# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The walk down the queue, on worlds written by hand: moments that a real cluster passes through too fast."""

from __future__ import annotations

import collections
import itertools

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    advance,
    new_state,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    PODSET_LABEL,
    build_ticket,
    plan_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    NamespaceRules,
    Snapshot,
    node_from_api,
    pod_from_api,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import Charge
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import NO_TREES, QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import Outstanding, index_pods
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.kept_walk import KeptQueue
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import Queue
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World
from ansible_collections.muster.kube.plugins.module_utils._policy.placement import fit
from ansible_collections.muster.kube.tests.support.cluster_model import job, node, pod

AT = "2026-01-01T00:00:00Z"
NOW = read_time("2026-01-01T00:00:30Z")
MADE = itertools.count()


@pytest.fixture(autouse=True)
def _first_record(monkeypatch):
    """Each test numbers its records anew, so that their order does not depend on other tests."""
    monkeypatch.setitem(globals(), "MADE", itertools.count())


def record(name, pods=1, cpu="1", *, phase="queued", objects=None, namespace="default", changes=None, **options):
    """A record as the server would send it; those made later were submitted later."""
    objects = objects or [job(name, pods, requests={"cpu": cpu})]
    raw = build_record(read_spec({"name": name, "namespace": namespace, "objects": objects, **options}, "gang"))
    created = time_text(NOW - 3000 + next(MADE))
    raw["metadata"].update(uid=name, resourceVersion="1", creationTimestamp=created)
    if phase != "queued" or changes:
        state = advance(new_state(AT, "w/e.1/1"), phase, AT, "R", "", "w/e.1/2", started_at=AT, **(changes or {}))
        raw["metadata"]["annotations"] = {STATE_ANNOTATION: state_text(state)}
    return record_from_api(raw)


def own(name, pods=1, cpu="1", **options):
    """A record whose pods have arguments, variables and an image of their own, as those of a parameter sweep."""
    container = {
        "name": f"main-{name}",
        "image": f"registry.example.com/{name}",
        "args": ["--run", name],
        "env": [{"name": "RUN", "value": name}],
        "resources": {"requests": {"cpu": cpu}},
    }
    spec = options.pop("spec", {})
    return record(name, objects=[job(name, pods, containers=[container], **spec)], **options)


def choose(
    records,
    *,
    cpus=("4",),
    pods=(),
    promises=None,
    troubled=None,
    elsewhere=(),
    accounts=None,
    tickets=None,
    rules=None,
    made=(),
    quota=NO_TREES,
    **terms,
):
    """The choices of one walk."""
    snapshot = Snapshot(
        nodes=tuple(
            node_from_api(node(f"n{index}", cpu=cpu, labels={"pool": f"p{index}"}, pods="2000"))
            for index, cpu in enumerate(cpus)
        ),
        pods=tuple(view for view in map(pod_from_api, pods) if view is not None),
        rules=rules or {},
    )
    memory = Memory()
    world = World(
        snapshot=snapshot,
        gangs={item.uid: gang for item in (*records, *elsewhere) if (gang := memory.size(item, snapshot)[0])},
        problems={},
        tickets=tickets or {},
        pods=index_pods([*made, *(view for view in map(gang_pod_from_api, pods) if view is not None)]),
        items={},
        accounts=accounts,
        quota=quota,
    )
    options = DispatchOptions(namespaces=("default",), **terms)

    def walk(walker, memory):
        queue = walker(
            world,
            records,
            elsewhere=elsewhere,
            promises=promises,
            troubled=troubled,
            terms=options,
            memory=memory,
            now=NOW,
        )
        return queue.decide()

    choices = walk(Queue, memory)
    # Whoever keeps what did not change says the same, whether it is the first cycle or not.
    for _cycle in range(2):
        again = walk(KeptQueue, memory)
        assert [(item.record, item.verdict, item.chosen) for item in again] == [
            (item.record, item.verdict, item.chosen) for item in choices
        ]
        assert [item.charged for item in again if item.chosen] == [item.charged for item in choices if item.chosen]
    return choices


def decide(records, **settings):
    """What becomes of each waiting gang: chosen, or the reason why not."""
    return {item.record.name: "chosen" if item.chosen else item.verdict.reason for item in choose(records, **settings)}


@pytest.mark.parametrize("phase", ["dispatching", "dispatched"])
def test_pods_that_do_not_exist_yet_keep_their_room(phase):
    started = record("started", 3, phase=phase)
    assert decide([started, record("next", 2)]) == {"next": "insufficient"}
    assert decide([started, record("small", 1)]) == {"small": "chosen"}


def promise(name, pods, cpu="1", namespace="default"):
    """What an open entry of the batch reserves for a gang."""
    podsets = declared_podsets([{"name": name, "count": pods, "requests": {"cpu": cpu}}], namespace=namespace)
    return Outstanding(Gang(name, namespace, tuple(podsets)), {name: pods})


def test_an_open_entry_of_the_batch_keeps_its_room_too():
    """Its own record is not asked again, and nobody else gets what was promised, in whatever namespace."""
    assert decide([record("open", 3), record("next", 2)], promises={"open": promise("open", 3)}) == {
        "next": "insufficient"
    }
    unseen = {"unseen": promise("unseen", 3, namespace="other")}
    assert decide([record("next", 2)], promises=unseen) == {"next": "insufficient"}
    assert decide([record("small", 1)], promises=unseen) == {"small": "chosen"}


def test_gangs_of_other_namespaces_count_and_are_not_decided_about():
    other = record("other", 3, phase="dispatched", namespace="elsewhere")
    waiting = record("waiting", 1, namespace="elsewhere")
    assert decide([record("next", 2)], elsewhere=[other, waiting]) == {"next": "insufficient"}
    assert decide([record("small", 1)], elsewhere=[other, waiting]) == {"small": "chosen"}


def test_a_gang_whose_record_cannot_be_written_holds_nothing():
    stuck = record("stuck", 4)
    assert decide([stuck, record("next", 4)], troubled={"stuck": "denied"}) == {
        "stuck": "write_failed",
        "next": "chosen",
    }


def test_gangs_that_are_over_or_being_undone_keep_none():
    for phase in ("complete", "failed", "undoing", "suspended"):
        assert decide([record("gone", 4, phase=phase), record("next", 4)]) == {"next": "chosen"}


def test_what_was_seen_to_be_larger_is_counted_larger():
    seen = ({"name": "grew", "count": 1, "requests": {"cpu": "4"}},)
    assert decide([record("grew", 1, changes={"observed": seen})], cpus=("2",)) == {"grew": "insufficient"}


def test_started_pods_of_low_priority_keep_their_place():
    started = record("started", 1, cpu="3", phase="dispatched")
    waiting = own_pod("p", "started", cpu="3")
    assert decide([started, record("next", 1, cpu="2")], pods=[waiting])["next"] == "insufficient"


def test_pods_of_an_open_entry_keep_their_place_whatever_their_priority():
    nothing_else = Outstanding(promise("open", 1).gang, {})
    waiting = own_pod("p", "open", cpu="3")
    found = decide([record("next", 1, cpu="2")], pods=[waiting], promises={"open": nothing_else})
    assert found == {"next": "insufficient"}


def test_pods_of_another_namespace_that_carry_the_label_of_a_gang_are_not_its_own():
    """Anybody may set a label; their low priority lets gangs go first."""
    started = record("started", 1, cpu="1", phase="dispatched")
    for uid, promises in (("started", None), ("open", {"open": promise("open", 1)})):
        liar = own_pod("p", uid, cpu="3")
        liar["metadata"]["namespace"] = "elsewhere"
        assert decide([started, record("next", 1, cpu="2")], pods=[liar], promises=promises)["next"] == "chosen"


@pytest.mark.parametrize(("phase", "expected"), [("dispatched", "insufficient"), ("complete", "chosen")])
def test_a_pod_that_waits_since_an_earlier_attempt_keeps_its_place_while_the_gang_is_started(phase, expected):
    """It may still get a node; of a gang that is over it comes after all others by its low priority."""
    started = record("started", 1, cpu="1", phase=phase)
    late = own_pod("late", "started", cpu="3")
    late["metadata"]["labels"]["muster.kube/attempt"] = "7"
    pods = [own_pod("bound", "started", cpu="1", node="n0"), late]
    assert decide([started, record("next", 1, cpu="2")], pods=pods)["next"] == expected


def waiting_pods(gang, count, cpu="1", **spec):
    """Pods of a gang that have no node yet."""
    return [own_pod(f"{gang}-{number}", gang, cpu=cpu, **spec) for number in range(count)]


def own_pod(name, gang, cpu="1", node=None, **spec):
    """A pod of a gang as the server has it."""
    raw = pod(name, on=node, requests={"cpu": cpu}, labels={GANG_LABEL: gang, PODSET_LABEL: gang}, priority=-5)
    raw["spec"].update(spec)
    raw["metadata"].update(uid=name, creationTimestamp=AT)
    return raw


@pytest.mark.parametrize("phase", ["dispatching", "dispatched", "running"])
@pytest.mark.parametrize("spec", [{}, {"schedulerName": "nobody"}, {"schedulingGates": [{"name": "example.com/wait"}]}])
def test_pods_without_a_node_keep_their_room_once(phase, spec):
    first = record("first", 3, phase=phase)
    waiting = waiting_pods("first", 3, **spec)
    assert decide([first, record("next", 2)], pods=waiting) == {"next": "insufficient"}
    assert decide([first, record("small", 1)], pods=waiting) == {"small": "chosen"}


def test_pods_of_a_gang_being_started_are_not_counted_twice():
    first = record("first", 3, phase="dispatching")
    bound = [own_pod(f"b{number}", "first", node="n0") for number in range(2)]
    assert decide([first, record("small", 1)], pods=bound) == {"small": "chosen"}
    assert decide([first, record("next", 2)], pods=bound) == {"next": "insufficient"}


def test_pods_that_exist_are_in_the_quota_already():
    quota = {
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "3"}},
        "status": {"hard": {"pods": "3"}, "used": {"pods": "2"}},
    }
    rules = {"default": NamespaceRules(quotas=(quota,))}
    first = record("first", 2, phase="dispatched")
    assert decide([first, record("next", 1)], pods=waiting_pods("first", 2), rules=rules) == {"next": "chosen"}
    assert decide([first, record("two", 2)], pods=waiting_pods("first", 2), rules=rules) == {"two": "namespace_quota"}


def test_gangs_wait_for_others_until_their_pods_are_bound():
    """The small pod exists, but the scheduler may still bind it where the large ones need the room."""
    small = record("small", 1, phase="dispatched")
    large = record("large", 2, cpu="3")
    found = decide([small, large], cpus=("4", "3"), pods=waiting_pods("small", 1))
    assert found == {"large": "after_others"}
    bound = [own_pod("s", "small", node="n0")]
    assert decide([small, large], cpus=("4", "3"), pods=bound) == {"large": "chosen"}


def test_the_first_in_order_comes_first():
    queue = [record("early", 3), record("late", 3), record("urgent", 3, priority=5)]
    assert decide(queue) == {"urgent": "chosen", "early": "insufficient", "late": "insufficient"}


def test_strict_asks_nobody_behind_the_first_that_does_not_fit():
    queue = [record("started", 2, phase="dispatched"), record("large", 3), record("small", 1)]
    assert decide(queue, policy="best_effort")["small"] == "chosen"
    assert decide(queue, policy="strict")["small"] == "behind"


def test_strict_passes_over_a_gang_that_can_never_fit():
    """It is told so; those behind it are asked, and the first of them that does not fit now stops the others."""
    queue = [record("impossible", 1, cpu="9"), record("next", 3), record("large", 2), record("small", 1)]
    found = choose(queue, policy="strict")
    assert [(item.record.name, item.verdict.answer, item.verdict.reason) for item in found] == [
        ("impossible", "never", "insufficient"),
        ("next", "fits", None),
        ("large", "waits", "insufficient"),
        ("small", "waits", "behind"),
    ]
    assert found[3].verdict.detail == "behind default/large"


def test_gangs_with_their_own_arguments_start_in_one_walk():
    queue = [own(f"g{number}") for number in range(1000)]
    found = decide(queue, cpus=("100",) * 10)
    assert collections.Counter(found.values()) == {"chosen": 1000}


def test_missing_pods_of_others_with_their_own_arguments_stop_nobody():
    running = [own(f"r{number}", phase="running") for number in range(60)]
    assert decide([*running, own("next")], cpus=("4",) * 100) == {"next": "chosen"}


def test_missing_pods_of_many_sizes_stop_nobody_where_there_is_room_to_spare():
    running = [own(f"r{number}", cpu=f"{number + 1}00m", phase="running") for number in range(30)]
    assert decide([*running, own("next")], cpus=("4",) * 100) == {"next": "chosen"}


def test_waiting_gangs_with_their_own_arguments_are_worked_out_once(monkeypatch):
    """Nothing is free: a queue of gangs that differ in what does not matter costs what one of equal ones does."""
    looks = []
    real = fit.open_case
    monkeypatch.setattr(fit, "open_case", lambda *values, **more: looks.append(1) or real(*values, **more))
    full = record("full", 4, phase="dispatched")
    repelling = pod("shy", on="n0", affinity=repels({"app": "x"}))
    found = decide([full, *(own(f"g{number}") for number in range(3000))], pods=[repelling])
    assert collections.Counter(found.values()) == {"insufficient": 3000}
    assert len(looks) < 10


def repels(labels):
    """Anti-affinity to pods with these labels on the same host."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_a_waiting_pod_that_repels_tells_gangs_apart():
    """The pod has no node yet; once it is placed, its rule keeps gangs with the label it names off that node."""
    waiting = pod("shy", requests={"cpu": "1"}, affinity=repels({"app": "x"}))
    labelled = job("near", 1, requests={"cpu": "1"}, labels={"app": "x"})
    queue = [record("near", objects=[labelled]), record("other", 1)]
    assert decide(queue, pods=[waiting]) == {"near": "no_matching_node", "other": "chosen"}


def test_whoever_waits_for_others_keeps_only_its_own_nodes():
    """What the large gang waits for is on the first two nodes; a gang for the third one takes nothing from it."""
    queue = [
        own("small", spec={"affinity": to_pools("p0", "p1")}),
        own("large", 2, "3", spec={"affinity": to_pools("p0", "p1")}),
        own("elsewhere", spec={"nodeSelector": {"pool": "p2"}}),
        record("last", 1, cpu="1"),
    ]
    assert decide(queue, cpus=("4", "3", "4")) == {
        "small": "chosen",
        "large": "after_others",
        "elsewhere": "chosen",
        "last": "after_others",
    }


def to_pools(*pools):
    """Node affinity to some of the nodes."""
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": list(pools)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def test_gangs_that_could_disturb_each_other_start_one_after_the_other():
    """The small pod could take the hole that the large ones need; whoever is behind must not take it either."""
    queue = [record("small", 1, cpu="1"), record("large", 2, cpu="3"), record("last", 1, cpu="1")]
    assert decide(queue, cpus=("4", "3")) == {"small": "chosen", "large": "after_others", "last": "after_others"}


def test_no_more_starts_than_allowed():
    queue = [record("a"), record("b"), record("c")]
    assert decide(queue, max_starts=2) == {"a": "chosen", "b": "chosen", "c": "max_starts"}


def test_gangs_of_others_that_would_fit_take_no_room_from_mine():
    """Whoever they belong to may never start them; they are told that nobody asked for them."""
    queue = [record("theirs", 3), record("mine", 2)]
    found = {item.record.name: item for item in choose(queue, only=frozenset({"mine"}))}
    assert found["mine"].chosen
    assert (found["theirs"].chosen, found["theirs"].verdict.answer, found["theirs"].verdict.reason) == (
        False,
        "fits",
        None,
    )
    assert decide(queue, only=frozenset({"mine"}), policy="strict")["mine"] == "chosen"
    assert decide([record("theirs", 2), record("mine", 2)], only=frozenset({"mine"}), max_starts=1)["mine"] == "chosen"


def test_gangs_of_others_take_no_names_from_mine():
    twins = [record(name, objects=[job("same", 1, requests={"cpu": "1"})]) for name in ("theirs", "mine")]
    assert decide(twins, only=frozenset({"mine"}))["mine"] == "chosen"


def test_nodes_held_for_a_gang_of_others_stay_held():
    """It does not fit now and has waited long: gangs behind it that would stay too long keep off its nodes."""
    running = record("running", 3, phase="running", max_run_time="1h")
    bound = [own_pod(f"b{number}", "running", node="n0") for number in range(3)]
    queue = [running, record("theirs", 4), record("mine", 1)]
    assert decide(queue, pods=bound, only=frozenset({"mine"}), reserve_after=0.0) == {
        "theirs": "insufficient",
        "mine": "reserved",
    }


@pytest.mark.parametrize("after", [0.0, 2998.5])
def test_a_gang_that_ends_in_time_is_not_refused_for_one_like_it_that_does_not(after):
    """Both ask for the same, before and after they may hold nodes themselves; only one leaves those held in time."""
    running = record("running", 3, phase="running", max_run_time="1h")
    bound = [own_pod(f"b{number}", "running", node="n0") for number in range(3)]
    queue = [running, record("large", 4), record("stays", 1), record("ends", 1, max_run_time="10s")]
    found = decide(queue, pods=bound, reserve_after=after)
    assert found == {"large": "insufficient", "stays": "reserved", "ends": "chosen"}


def with_uid(raw):
    """A pod as the server would send it, made at the start of the scene."""
    meta = {**raw["metadata"], "uid": raw["metadata"]["name"], "creationTimestamp": AT}
    return {**raw, "metadata": meta}


def test_no_account_no_start():
    assert decide([record("a"), record("b")], accounts=frozenset()) == {"a": "no_identity", "b": "no_identity"}
    assert decide([record("a")], accounts=frozenset({"default"})) == {"a": "chosen"}


def test_a_pause_is_kept_and_ends():
    paused = record("a", changes={"not_before": "2026-01-01T00:00:31Z"})
    over = record("b", changes={"not_before": "2026-01-01T00:00:29Z"})
    assert decide([paused, over]) == {"a": "paused", "b": "chosen"}


def test_a_pause_is_over_at_its_very_end():
    assert decide([record("a", changes={"not_before": "2026-01-01T00:00:30Z"})]) == {"a": "chosen"}


def test_a_record_that_is_being_deleted_is_not_asked():
    going = record("going")
    raw = {**going.raw, "metadata": {**going.raw["metadata"], "deletionTimestamp": AT}}
    assert decide([record_from_api(raw), record("next")]) == {"next": "chosen"}


def test_a_pause_says_until_when_and_a_write_that_failed_says_why():
    paused = record("a", changes={"not_before": "2026-01-01T00:00:31Z"})
    found = {item.record.name: item.verdict.detail for item in choose([paused, record("b")], troubled={"b": ""})}
    assert found == {"a": "until 2026-01-01T00:00:31Z", "b": "somebody else changed it first"}


def test_names_in_tickets_of_records_that_are_gone_are_taken():
    gone = record("gone", objects=[job("same", 1, requests={"cpu": "1"})])
    ticket = build_ticket(gone.raw, 1, "d", plan_objects(gone.spec, gone.uid, 1))
    [choice] = choose([record("other", objects=[job("same", 1, requests={"cpu": "1"})])], tickets={"gone": (ticket,)})
    assert (choice.verdict.reason, choice.verdict.detail) == ("name_taken", "Job same belongs to the gang gone")


def test_own_names_of_an_earlier_attempt_are_no_obstacle():
    mine = record("mine")
    ticket = build_ticket(mine.raw, 1, "d", plan_objects(mine.spec, mine.uid, 1))
    assert decide([mine], tickets={"mine": (ticket,)}) == {"mine": "chosen"}


def test_who_is_behind_whom_is_told():
    bound = [own_pod("b", "running", node="n0")]
    queue = [record("running", 1, phase="running"), record("large", 4), record("small", 1)]
    [_first, second] = choose(queue, pods=bound, policy="strict")
    assert (second.chosen, second.verdict.reason, second.verdict.detail) == (False, "behind", "behind default/large")
    # Nobody has looked at its namespace, so nothing is said against that.
    assert second.verdict.as_dict()["layers"][0] == {
        "layer": "namespace",
        "passed": True,
        "quotas": [],
        "problems": [],
    }


def test_run_times_of_gangs_that_completed_tell_when_one_like_them_ends():
    """Without a limit of its own a running gang is expected to run as long as others of its name did."""

    def complete(name, seconds):
        ended = time_text(read_time(AT) + seconds)
        made = record(name, phase="running")
        state = advance(made.state, "complete", ended, "R", "", "w/e.1/3")
        made.raw["metadata"]["annotations"] = {STATE_ANNOTATION: state_text(state)}
        return record_from_api(made.raw)

    past = [complete(f"work-{number}", 100.0) for number in range(3)]
    running = record("work-9", 3, phase="running")
    bound = [own_pod(f"b{number}", "work-9", node="n0") for number in range(3)]
    for limit, outcome in (("10s", "chosen"), ("1h", "reserved")):
        queue = [running, record("large", 4), record("small", 1, max_run_time=limit)]
        found = decide([*past, *queue], pods=bound, reserve_after=0.0)
        assert found == {"large": "insufficient", "small": outcome}


def test_names_of_started_gangs_and_of_those_chosen_before_are_taken():
    started = record("started", 1, phase="running", objects=[job("same", 1, requests={"cpu": "1"})])
    ticket = build_ticket(started.raw, 1, "d", plan_objects(started.spec, started.uid, 1))
    other = record("other", objects=[job("same", 1, requests={"cpu": "1"})])
    assert decide([started, other], tickets={"started": (ticket,)}) == {"other": "name_taken"}
    twins = [record(name, objects=[job("same", 1, requests={"cpu": "1"})]) for name in ("one", "two")]
    assert decide(twins) == {"one": "chosen", "two": "name_taken"}


def secrets(name, number):
    """A Job and so many Secrets."""
    made = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{name}-{i}"}} for i in range(number)]
    return [job(name, 1, requests={"cpu": "1"}), *made]


def test_quotas_on_objects_count_what_is_to_be_created():
    """Objects of a gang that was started exist; those of one that is only promised its start do not."""
    hard = {"secrets": "5", "count/configmaps": "9"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": {"secrets": "2"}}}
    rules = {"default": NamespaceRules(quotas=(quota,))}
    started = record("started", objects=secrets("started", 2), phase="dispatched")
    queue = [started, *(record(name, objects=secrets(name, number)) for name, number in (("a", 2), ("b", 2), ("c", 1)))]
    reasons = {"a": "chosen", "b": "namespace_quota", "c": "chosen"}
    assert decide(queue, rules=rules, cpus=("9",)) == reasons
    lines = {item.record.name: item.verdict.space.quotas for item in choose(queue, rules=rules, cpus=("9",))}
    told = {line.resource: line.as_dict() for line in lines["b"]}
    assert told["secrets"] == {
        **{"quota": "q", "resource": "secrets"},
        **{"hard": "5", "used": "4", "requested": "2", "short": "1"},
    }
    assert (told["count/configmaps"]["used"], told["count/configmaps"]["requested"]) == ("1", "1")


def test_gangs_that_differ_only_in_their_objects_get_their_own_verdicts():
    hard = {"count/secrets": "3"}
    quota = {
        "metadata": {"name": "q"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": {"count/secrets": "1"}},
    }
    rules = {"default": NamespaceRules(quotas=(quota,))}
    queue = [record(name, objects=secrets(name, number)) for name, number in (("a", 4), ("b", 3), ("c", 2), ("d", 1))]
    said = {item.record.name: item.verdict for item in choose(queue, rules=rules, cpus=("9",))}
    assert {name: verdict.answer for name, verdict in said.items()} == {
        **{"a": "never", "b": "waits", "c": "fits", "d": "waits"}
    }
    assert [said[name].space.quotas[0].as_dict()["requested"] for name in "abcd"] == ["4", "3", "2", "1"]


def test_quotas_count_what_is_promised_and_what_was_chosen():
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}, "status": {"hard": {"pods": "3"}, "used": {}}}
    rules = {"default": NamespaceRules(quotas=(quota,))}
    queue = [record("started", 1, phase="dispatched"), record("a", 2), record("b", 1)]
    assert decide(queue, rules=rules) == {"a": "chosen", "b": "namespace_quota"}


def test_a_gang_without_pods_needs_no_room():
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {}}
    full = record("full", 4, phase="dispatched")
    assert decide([full, record("podless", objects=[settings])]) == {"podless": "chosen"}


def made(number, at="2026-01-01T00:00:20Z", owner="some-job"):
    """Pods that were made lately, whoever they belong to."""
    raw = pod("lately", labels={GANG_LABEL: "gone"})
    raw["metadata"].update(creationTimestamp=at, ownerReferences=[{"uid": owner}])
    return [
        gang_pod_from_api({**raw, "metadata": {**raw["metadata"], "uid": f"{owner}-{index}"}})
        for index in range(number)
    ]


LARGE = ("4000",) * 4


def test_starts_are_paced_to_what_controllers_make():
    """Too many pods are missing already; a smaller gang behind the one that waits for that does not overtake it."""
    queue = [record("started", 600, phase="dispatched"), record("next", 500), record("small", 1)]
    found = choose(queue, cpus=LARGE)
    assert [(item.record.name, item.verdict.reason, item.verdict.detail) for item in found] == [
        ("next", "paced", "until fewer are missing"),
        ("small", "paced", "behind default/next"),
    ]
    assert decide([queue[0], record("fewer", 400)], cpus=LARGE) == {"fewer": "chosen"}


def held_for_another(other):
    """Settings and records of walks in which a gang of default waits because of one of another namespace."""
    bound = [own_pod(f"b{number}", "running", node="n0") for number in range(3)]
    running = record("running", 3, phase="running", max_run_time="1h")
    started = record("started", 600, phase="dispatched")
    return {
        "behind": (
            [record("some", 2, phase="dispatched"), record("first", 3, namespace=other), record("mine", 1)],
            {"policy": "strict"},
        ),
        "after_others": (
            [record("small", 1), record("first", 2, cpu="3", namespace=other), record("mine", 1)],
            {"cpus": ("4", "3")},
        ),
        "paced": ([started, record("first", 500, namespace=other), record("mine", 1)], {"cpus": LARGE}),
        "reserved": (
            [running, record("first", 4, namespace=other), record("mine", 1)],
            {"pods": bound, "reserve_after": 0.0},
        ),
    }


@pytest.mark.parametrize("reason", ["behind", "after_others", "paced", "reserved"])
def test_a_gang_learns_no_name_of_another_namespace(reason):
    """Whoever may read a record need not be allowed to know who else there is."""
    for other, told in (("secret", "a gang of another namespace"), ("default", "default/first")):
        records, settings = held_for_another(other)[reason]
        found = {item.record.name: item.verdict for item in choose(records, **settings)}["mine"]
        assert found.reason == reason
        assert told in found.detail
        assert "secret" not in str(found.as_dict())


def test_a_gang_learns_no_name_of_a_pod_of_another_namespace():
    low = [
        pod(name, on="n0", namespace=space, priority=-5, requests={"cpu": "2"})
        for name, space in (("a", "default"), ("b", "secret"))
    ]
    mine = record("mine", objects=[job("mine", 1, requests={"cpu": "3"}, priority=5)])
    assert choose([mine], pods=low)[0].verdict.may_preempt == ("default/a", "pods of other namespaces")
    assert choose([mine], pods=low[:1])[0].verdict.may_preempt == ("default/a",)


def test_rules_of_promised_pods_tell_gangs_apart():
    """Nothing else in the cluster minds its neighbors, so that only the promise tells which labels matter."""
    avoid = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "pool", "namespaces": ["default"]}
    spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [avoid]}}}
    podsets = declared_podsets([{"name": "p", "count": 1, "requests": {"cpu": "1"}, "spec": spec}], namespace="other")
    promises = {"p": Outstanding(Gang("p", "other", tuple(podsets)), {"p": 1})}
    labelled = [
        record(name, objects=[job(name, 1, requests={"cpu": "1"}, labels={"app": app})])
        for name, app in (("avoided", "x"), ("welcome", "y"))
    ]
    found = decide(labelled, promises=promises)
    assert (found["avoided"] != "chosen", found["welcome"]) == (True, "chosen")


def test_gangs_of_one_walk_are_paced_together():
    queue = [record("one", 600), record("two", 400), record("three", 1)]
    assert decide(queue, cpus=LARGE) == {"one": "chosen", "two": "chosen", "three": "paced"}


def test_fast_controllers_are_given_more():
    queue = [record("started", 600, phase="dispatched"), record("next", 500)]
    assert decide(queue, cpus=LARGE, made=made(330)) == {"next": "chosen"}
    assert decide(queue, cpus=LARGE, made=made(329)) == {"next": "paced"}
    assert decide(queue, cpus=LARGE, made=made(900, at="2025-12-31T23:59:59Z")) == {"next": "paced"}


def test_pods_made_by_the_dispatcher_itself_say_nothing_about_controllers():
    queue = [record("started", 600, phase="dispatched"), record("next", 500)]
    ticket = build_ticket(queue[0].raw, 1, "d", plan_objects(queue[0].spec, queue[0].uid, 1))
    ticket["metadata"]["uid"] = "ticket"
    bare = made(900, owner="ticket")
    assert decide(queue, cpus=LARGE, made=bare, tickets={"started": (ticket,)}) == {"next": "paced"}


def test_the_largest_gang_starts_when_nothing_is_missing():
    assert decide([record("huge", 5000), record("next", 1)], cpus=LARGE) == {"huge": "chosen", "next": "paced"}


def test_pods_between_two_tries_of_a_running_gang_pace_nobody():
    assert decide([record("retrying", 1500, phase="running"), record("next", 1)], cpus=LARGE) == {"next": "chosen"}


def test_pods_without_a_controller_need_not_be_waited_for():
    bare = {**pod("bare", requests={"cpu": "1"}), "metadata": {"name": "bare"}}
    queue = [record("started", 1000, phase="dispatched"), record("next", objects=[bare])]
    assert decide(queue, cpus=LARGE) == {"next": "chosen"}


def test_gangs_that_are_held_back_are_worked_out_once_for_each_class(monkeypatch):
    looks = []
    real = fit.open_case
    monkeypatch.setattr(fit, "open_case", lambda *values, **more: looks.append(1) or real(*values, **more))
    found = decide([own(f"g{number:03}") for number in range(300)], cpus=("400",), max_starts=5)
    assert collections.Counter(found.values()) == {"chosen": 5, "max_starts": 295}
    assert len(looks) < 10


def test_verdicts_that_are_reused_name_the_gang_they_are_told_of():
    found = choose([own("one"), own("two"), own("three")], cpus=("4",), max_starts=1)
    assert [(item.verdict.gang, item.verdict.podsets[0].name) for item in found] == [
        (name, name) for name in ("one", "two", "three")
    ]


@pytest.mark.parametrize(("phase", "known"), [("running", True), ("complete", False), ("queued", False)])
def test_pods_of_gangs_that_are_not_started_end_at_no_known_time(phase, known):
    """What is left of a gang that is over, or was taken back, is bound to no run time of it."""
    changes = {"attempt": 2} if phase == "queued" else None
    other = record("other", phase=phase, max_run_time=7200, changes=changes)
    left = pod("left", on="n0", requests={"cpu": "4"}, labels={GANG_LABEL: "other", PODSET_LABEL: "other"})
    left["metadata"]["uid"] = "p"
    big = record("big", 4, objects=[job("big", 4, requests={"cpu": "1"})])
    (found,) = [item for item in choose([other, big], pods=[left], reserve_after=10.0) if item.record.name == "big"]
    assert ("expected to start by" in (found.verdict.detail or "")) is known


# Quota.


def tree(*queues, name="default", **more):
    """Trees in force: one with these queues below its root."""
    declared = [{"name": "all"}, *({"parent": "all", **queue} for queue in queues)]
    return QuotaTrees((read_tree(name, {"queues": declared}),), **more)


def leaf(name, cpu, **more):
    """A queue that gangs name, with so many CPUs of its own."""
    return {"name": name, "nominal": {"cpu": str(cpu)}, **more}


def of(queue, name, pods=1, **options):
    """A waiting gang of a queue."""
    return record(name, pods, queue=queue, **options)


def test_a_queue_starts_no_more_than_it_may_and_others_go_on():
    quota = tree(leaf("a", 2, hard=True), leaf("b", 2, hard=True))
    queue = [of("a", "a1", 2), of("a", "a2"), of("b", "b1", 2), of("b", "b2", 3)]
    assert decide(queue, quota=quota, cpus=("64",)) == {"a1": "chosen", "a2": "quota", "b1": "chosen", "b2": "quota"}
    answers = {item.record.name: item.verdict.answer for item in choose(queue, quota=quota, cpus=("64",))}
    assert answers == {"a1": "fits", "a2": "waits", "b1": "fits", "b2": "never"}


def test_what_others_do_not_use_may_be_borrowed():
    quota = tree(leaf("a", 2), leaf("b", 2, lending_limit={"cpu": "1"}))
    assert decide([of("a", "a1", 3)], quota=quota, cpus=("64",)) == {"a1": "chosen"}
    assert decide([of("a", "a1", 4)], quota=quota, cpus=("64",)) == {"a1": "quota"}


def test_whoever_keeps_to_its_own_goes_before_borrowers():
    """The older gang would borrow what the younger one's queue is entitled to."""
    quota = tree(leaf("a", 2), leaf("b", 2))
    queue = [of("a", "a1", 3), of("b", "b1", 2), of("a", "a2", 2)]
    assert decide(queue, quota=quota, cpus=("64",)) == {"b1": "chosen", "a2": "chosen", "a1": "quota"}


def test_of_borrowers_the_one_with_the_least_share_goes_first():
    quota = tree(leaf("a", 0), leaf("b", 0, weight=3), leaf("idle", 4))
    queue = [of("a", f"a{number}") for number in range(4)] + [of("b", f"b{number}") for number in range(4)]
    chosen = {name for name, word in decide(queue, quota=quota, cpus=("64",)).items() if word == "chosen"}
    assert chosen == {"a0", "b0", "b1", "b2"}


def test_strict_stops_only_its_own_queue():
    quota = tree(leaf("a", 2, hard=True), leaf("b", 2, hard=True))
    running = record("running", 2, phase="running", queue="a")
    queue = [running, of("a", "a1", 2), of("a", "a2", 0), of("b", "b1", 2)]
    found = decide(queue, quota=quota, cpus=("64",), policy="strict")
    assert found == {"a1": "quota", "b1": "chosen", "a2": "behind"}


@pytest.mark.parametrize("phase", ["dispatching", "dispatched", "running", "undoing", "evicting", "unknown"])
def test_started_gangs_are_charged_where_they_were_started(phase):
    """Its label names another queue by now."""
    quota = tree(leaf("a", 2, hard=True), leaf("b", 2, hard=True))
    there = record("there", 2, phase=phase, queue="b", changes={"charged": (Charge("default", "a"),)})
    queue = [there, of("a", "a1"), of("b", "b1", 2)]
    assert decide(queue, quota=quota, cpus=("64",)) == {"a1": "quota", "b1": "chosen"}


def test_gangs_of_before_the_tree_and_of_other_namespaces_are_charged():
    quota = tree(leaf("a", 2, hard=True, namespaces=["default"]), leaf("b", 2, hard=True, namespaces=["other"]))
    here = record("here", 1, phase="running")
    there = record("there", 2, phase="running", namespace="other")
    elsewhere = [there, record("theirs", 1, namespace="other")]
    queue = [here, record("fits"), record("waits")]
    found = decide(queue, elsewhere=elsewhere, quota=quota, cpus=("64",))
    assert found == {"fits": "chosen", "waits": "quota"}


def test_an_open_entry_is_charged_although_its_record_does_not_tell():
    quota = tree(leaf("a", 2, hard=True))
    wanted = {"name": "w", "count": 2, "requests": {"cpu": "1"}}
    known = Gang("started", "default", tuple(declared_podsets([wanted], namespace="default")))
    promises = {"started": Outstanding(known, {"w": 2}, queue="a")}
    queue = [of("a", "started", 2), of("a", "a1")]
    assert decide(queue, promises=promises, quota=quota, cpus=("64",)) == {"a1": "quota"}


def test_a_start_says_whom_it_is_charged_to():
    (choice,) = choose([of("a", "a1")], quota=tree(leaf("a", 2)))
    assert choice.charged == (Charge("default", "a"),)


def test_room_is_asked_for_only_where_quota_is_left_and_the_other_way_round():
    quota = tree(leaf("a", 9), leaf("b", 9))
    queue = [of("a", "large", 8), of("a", "small", 2), of("b", "other", 2)]
    assert decide(queue, quota=quota, cpus=("4",)) == {"large": "insufficient", "small": "chosen", "other": "chosen"}


def test_a_gang_that_nodes_refused_is_told_when_its_queue_runs_out_of_quota():
    quota = tree(leaf("a", 4, hard=True))
    queue = [of("a", "wide1", 4, cpu="1"), of("a", "narrow", 2), of("a", "wide2", 4, cpu="1")]
    assert decide(queue, quota=quota, cpus=("3",)) == {"wide1": "insufficient", "narrow": "chosen", "wide2": "quota"}


@pytest.mark.parametrize(
    ("quota", "queue", "reason"),
    [
        (QuotaTrees(unreadable={"default": "it is no JSON"}), "a", "quota_unreadable"),
        (tree(leaf("a", 2), hidden="not allowed"), "a", "quota_not_visible"),
        (tree(leaf("a", 2)), "b", "queue_unknown"),
        (tree(leaf("a", 2)), None, "queue_unknown"),
        (tree(leaf("a", 2, namespaces=["other"])), "a", "queue_forbidden"),
        (tree(leaf("a", 2, stop="hold")), "a", "queue_held"),
    ],
)
def test_gangs_that_no_queue_is_open_for_wait_and_say_why(quota, queue, reason):
    assert decide([of(queue, "one")], quota=quota) == {"one": reason}


def test_every_tree_has_to_let_a_gang_start():
    both = QuotaTrees((*tree(leaf("a", 4, default=True)).trees, *tree(leaf("x", 1, default=True), name="gpus").trees))
    assert decide([of("a", "one"), of("a", "two")], quota=both) == {"one": "chosen", "two": "quota"}


def test_a_verdict_tells_what_the_trees_say_first():
    quota = tree(leaf("a", 2, hard=True), leaf("b", 9))
    queue = [of("a", "a1", 3), of("b", "b1", 8), of("b", "b2", 2)]
    said = {item.record.name: item.told["layers"][0] for item in choose(queue, quota=quota, cpus=("4",))}
    assert {name: (layer["layer"], layer["passed"]) for name, layer in said.items()} == {
        "a1": ("quota", False),
        "b1": ("quota", True),
        "b2": ("quota", True),
    }
    (own, above) = said["a1"]["trees"][0]["levels"]
    assert (own["queue"], own["nominal"], own["short"], above["queue"]) == ("all/a", "2", "1", "all")


def test_no_priority_counts_beyond_the_cap_of_its_queue():
    quota = tree(leaf("a", 9, priority_cap=5))
    queue = [of("a", "old", 3, priority=5), of("a", "bold", 3, priority=1000)]
    assert decide(queue, quota=quota) == {"old": "chosen", "bold": "insufficient"}


def flavored(queues, *flavors, name="default"):
    """Trees in force: one with flavors, each the nodes of a pool or without labels; amounts of queues by flavor."""
    kinds = [{"name": flavor, "node_labels": {"pool": pool} if pool else {}} for flavor, pool in flavors]
    declared = [{"name": "all"}, *({"parent": "all", **queue} for queue in queues)]
    return QuotaTrees((read_tree(name, {"queues": declared, "flavors": kinds}),))


def share(name, hard=True, **amounts):
    """A queue with so many CPUs of each flavor."""
    return {"name": name, "hard": hard, "nominal": {flavor: {"cpu": str(cpu)} for flavor, cpu in amounts.items()}}


BIG_SMALL = (("big", "p0"), ("small", "p1"))


def taken(choices):
    """The flavors of the podsets of chosen gangs, and why others wait."""
    return {
        item.record.name: list(item.charged[0].flavors.values()) if item.chosen else item.verdict.reason
        for item in choices
    }


@pytest.mark.parametrize(
    ("amounts", "found"),
    [
        # The first in the tree's order that fits, then the next.
        ({"big": 2, "small": 9}, {"one": ["big"], "two": ["small"], "three": ["small"]}),
        ({"big": 0, "small": 9}, {"one": ["small"], "two": ["small"], "three": "insufficient"}),
        ({"big": 4, "small": 0}, {"one": ["big"], "two": ["big"], "three": "quota"}),
    ],
)
def test_podsets_get_the_first_flavor_that_fits(amounts, found):
    quota = flavored([share("a", **amounts)], *BIG_SMALL)
    queue = [of("a", name, 2) for name in ("one", "two", "three")]
    assert taken(choose(queue, quota=quota, cpus=("4", "4"))) == found


def test_pods_are_confined_to_the_nodes_of_their_flavor():
    quota = flavored([share("a", big=9)], *BIG_SMALL)
    (one, two) = choose([of("a", "one", 4), of("a", "two", 1)], quota=quota, cpus=("4", "64"))
    assert (one.verdict.placement, two.verdict.reason) == ({"one": {"n0": 4}}, "insufficient")
    assert one.charged[0].kinds[0].node_labels == {"pool": "p0"}
    assert one.gang.podsets[0].constraints.node_selector == {"pool": "p0"}


def test_two_podsets_stand_on_two_flavors():
    quota = flavored([share("a", big=2, small=2)], *BIG_SMALL)
    both = record("both", objects=[job("x", 2, requests={"cpu": "1"}), job("y", 2, requests={"cpu": "1"})], queue="a")
    (choice,) = choose([both], quota=quota, cpus=("4", "4"))
    assert dict(choice.charged[0].flavors) == {"x": "big", "y": "small"}
    assert choice.verdict.placement == {"x": {"n0": 2}, "y": {"n1": 2}}
    assert choice.told["layers"][0]["trees"][0]["flavors"] == {"x": "big", "y": "small"}


def test_pods_that_use_nothing_of_a_tree_are_confined_to_nothing():
    quota = flavored([share("a", big=2)], *BIG_SMALL)
    launcher = job("launcher", 1, requests={})
    both = record("both", objects=[launcher, job("x", 2, requests={"cpu": "1"})], queue="a")
    (choice,) = choose([both], quota=quota, cpus=("2", "1"))
    assert dict(choice.charged[0].flavors) == {"x": "big"}
    assert [dict(item.constraints.node_selector) for item in choice.gang.podsets] == [{}, {"pool": "p0"}]


def test_what_its_own_rules_forbid_is_no_flavor_of_a_gang():
    quota = flavored([share("a", big=9, small=9)], *BIG_SMALL)
    picky = of("a", "picky", objects=[job("picky", 1, requests={"cpu": "1"}, nodeSelector={"pool": "p1"})])
    assert taken(choose([picky], quota=quota, cpus=("4", "4"))) == {"picky": ["small"]}


def test_a_flavor_whose_nodes_could_never_take_a_pod_is_none():
    quota = flavored([share("a", big=9, small=9)], *BIG_SMALL)
    assert taken(choose([of("a", "one", cpu="3")], quota=quota, cpus=("2", "4"))) == {"one": ["small"]}


def test_full_nodes_are_passed_over_where_another_flavor_has_quota_and_room():
    quota = flavored([share("a", big=9, small=9)], *BIG_SMALL)
    foreign = pod("foreign", on="n0", requests={"cpu": "3"})
    queue = [of("a", "one", 2), of("a", "two", 2), of("a", "three", 1)]
    found = taken(choose(queue, quota=quota, cpus=("4", "2"), pods=[foreign]))
    assert found == {"one": ["small"], "two": "insufficient", "three": ["big"]}


def test_own_quota_comes_before_borrowed_whatever_the_order_of_flavors():
    quota = flavored([share("a", hard=False, small=9), share("b", big=9)], *BIG_SMALL)
    queue = [of("a", "one", 2), of("a", "two", 2)]
    assert taken(choose(queue, quota=quota, cpus=("4", "2"))) == {"one": ["small"], "two": ["big"]}
    (one, two) = choose(queue, quota=quota, cpus=("4", "2"))
    assert (one.verdict.how, two.verdict.how) == ("now", "borrowing")


def test_a_podset_leaves_its_flavor_to_one_that_needs_it():
    """What is left of a flavor is not taken by the first podset if the second can have no other."""
    quota = flavored([share("a", big=2, small=2)], *BIG_SMALL)
    objects = [
        job("x", 2, requests={"cpu": "1"}),
        job("y", 2, requests={"cpu": "1"}, nodeSelector={"pool": "p0"}),
    ]
    (choice,) = choose([record("both", objects=objects, queue="a")], quota=quota, cpus=("4", "4"))
    assert dict(choice.charged[0].flavors) == {"x": "small", "y": "big"}


def test_a_gang_that_no_flavor_can_ever_hold_never_fits_and_others_go_on():
    quota = flavored([share("a", big=9, small=9)], *BIG_SMALL)
    queue = [of("a", "wide", 5), of("a", "next", 2)]
    (wide, after) = choose(queue, quota=quota, cpus=("4", "2"), policy="strict")
    assert (wide.verdict.answer, wide.verdict.reason, after.chosen) == ("never", "insufficient", True)


def test_quota_is_waited_for_where_only_another_flavor_has_enough_nodes():
    quota = flavored([share("a", big=9, small=9)], *BIG_SMALL)
    there = record("there", 8, phase="running", queue="a", changes=charged_to("a", big=["there"]))
    (choice,) = choose([there, of("a", "one", 3)], quota=quota, cpus=("64", "2"))
    assert (choice.verdict.answer, choice.verdict.reason) == ("waits", "quota")
    assert list(choice.verdict.quota.standings[0].flavors.values()) == ["big"]


def charged_to(queue, **podsets):
    """The changes of a state whose podsets are charged to flavors."""
    names = {podset: flavor for flavor, found in podsets.items() for podset in found}
    reserved = tuple({"name": name, "count": 8, "requests": {"cpu": "1"}} for name in names)
    return {"charged": (Charge("default", queue, names),), "reserved": reserved}


def test_both_trees_choose_and_both_confine():
    first = flavored([share("a", big=9, small=9)], *BIG_SMALL).trees
    other = flavored(
        [{**share("x", spot=1, firm=9), "default": True}], ("spot", None), ("firm", "p1"), name="price"
    ).trees
    both = QuotaTrees((*first, *other))
    queue = [of("a", "one", 1), of("a", "two", 1)]
    (one, two) = choose(queue, quota=both, cpus=("4", "4"))
    assert [dict(charge.flavors) for charge in one.charged] == [{"one": "big"}, {"one": "spot"}]
    # What is left of the other tree lies on nodes of the small flavor only.
    assert [dict(charge.flavors) for charge in two.charged] == [{"two": "small"}, {"two": "firm"}]
    assert two.verdict.placement == {"two": {"n1": 1}}


def test_pods_out_of_reach_are_not_started_where_they_would_have_to_be_confined():
    hidden = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "thing"}}
    podsets = [{"name": "w", "count": 1, "requests": {"cpu": "1"}}]
    gang = record("gang", objects=[hidden], podsets=podsets, queue="a")
    for flavors, found in (((("big", "p0"),), "flavor_unreachable"), ((("big", "p0"), ("any", None)), ["any"])):
        amounts = dict.fromkeys((name for name, _pool in flavors), 9)
        quota = flavored([share("a", **amounts)], *flavors)
        assert taken(choose([gang], quota=quota, cpus=("4", "4"))) == {"gang": found}


def test_a_gang_whose_templates_cannot_be_read_harms_no_other():
    quota = flavored([share("a", big=9)], *BIG_SMALL)
    podsets = [{"name": "w", "count": 1, "requests": {"cpu": "1"}}]
    broken = record("broken", objects=[job("broken", 1, requests={"cpu": "much"})], podsets=podsets, queue="a")
    assert decide([broken, of("a", "next")], quota=quota) == {"next": "chosen"}


def test_started_gangs_are_charged_to_their_flavors_and_keep_its_nodes():
    quota = flavored([share("a", big=9, small=9)], *BIG_SMALL)
    charge = Charge("default", "a", {"there": "small"}, quota.trees[0].flavors[1:])
    reserved = ({"name": "there", "count": 2, "requests": {"cpu": "1"}},)
    there = record("there", 2, phase="dispatched", queue="a", changes={"charged": (charge,), "reserved": reserved})
    # Its pods are not made yet; they will stand on the second node, of which nothing is left then.
    found = taken(choose([there, of("a", "one", 4), of("a", "two", 1)], quota=quota, cpus=("4", "2")))
    assert found == {"one": ["big"], "two": "insufficient"}


@pytest.mark.parametrize(
    ("flavors", "found"),
    [
        ({"default": {"w": "big"}}, {"one": ["small"]}),
        ({"default": {"w": "small"}}, {"one": ["big"]}),
        # Nobody tells, so that each may be used.
        ({}, {"one": "quota"}),
        ({"other": {"w": "big"}}, {"one": "quota"}),
    ],
)
def test_an_open_entry_is_charged_to_its_flavors(flavors, found):
    quota = flavored([share("a", big=2, small=2)], *BIG_SMALL)
    podsets = declared_podsets([{"name": "w", "count": 2, "requests": {"cpu": "1"}}], namespace="default")
    open_entry = Outstanding(Gang("open", "default", tuple(podsets)), {"w": 2}, queue="a", flavors=flavors)
    choices = choose([of("a", "one", 2)], quota=quota, cpus=("64", "64"), promises={"open": open_entry})
    assert taken(choices) == found


def test_gangs_of_other_queues_are_asked_with_the_flavors_that_are_left():
    """Whoever gets its own comes before a borrower, also when its flavor changed by a start before it."""
    quota = flavored([share("a", hard=False, big=2, small=2), share("b", hard=False, small=2)], *BIG_SMALL)
    queue = [of("b", "b1", 2), of("b", "b2", 2), of("a", "a1", 2), of("a", "a2", 2)]
    found = taken(choose(queue, quota=quota, cpus=("64", "64")))
    assert found == {"b1": ["small"], "a1": ["big"], "a2": ["small"], "b2": "quota"}
