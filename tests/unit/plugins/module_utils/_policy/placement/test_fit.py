# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts: arithmetic of the demo, exact boundaries, fragmentation, steering, and what keeps a fit unproven."""

from __future__ import annotations

import json
import random

import hypothesis
import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import PodsetFit, Total, verdict_text
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Toleration
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    NamespaceRules,
    RuntimeClass,
    Storage,
    Volume,
    VolumeClaim,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import (
    judge,
    judge_all,
    place_waiting_pods,
)
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod, room
from ansible_collections.muster.kube.tests.support.simple_scheduler import cases
from hypothesis import strategies as st


def plain(room, gang, verdict):
    """Verdicts without advice."""
    return verdict


def slots(verdict):
    """The slots layer of a verdict's dictionary."""
    return next(layer for layer in verdict.as_dict()["layers"] if layer["layer"] == "slots")


def seed_room():
    """The node of the KubeRay demo with what runs on it after the first cluster has started."""
    busy = pod("busy", on="kind", requests={"cpu": "6050m", "memory": "6824650Ki"})
    return room([node("kind", cpu="8", memory="8118372Ki")], [busy])


def seed_gang(name="second"):
    """Head and worker of the demo's Ray cluster."""
    head = pod("head", requests={"cpu": "1", "memory": "2G"})
    worker = pod("worker", requests={"cpu": "2", "memory": "2G"})
    return gang(head, worker, name=name)


def two_halves():
    """Two nodes of 2000m with 1025m used on each."""
    nodes = [node(name, cpu="2", memory="8Gi") for name in ("a", "b")]
    pods = [pod(f"busy-{name}", on=name, requests={"cpu": "1025m"}) for name in ("a", "b")]
    return room(nodes, pods)


def test_the_second_ray_cluster_of_the_demo_waits_and_says_what_is_short():
    verdict = judge(seed_room(), seed_gang())
    assert (verdict.answer, verdict.reason) == ("waits", "insufficient")
    totals = slots(verdict)["totals"]
    assert totals["cpu"]["short"] == "1050m"
    assert verdict.totals["memory"].short == 2_675_228_672
    text = verdict_text(verdict.as_dict())
    assert "1050m cpu" in text
    assert "2675228672" in text


def test_exact_fit_boundary_after_a_first_gang():
    first = gang(job("first", 2, requests={"cpu": "550m"}), name="first")
    slightly_too_big = gang(job("big", 2, requests={"cpu": "427m"}), name="big")
    exact = gang(job("exact", 2, requests={"cpu": "425m"}), name="exact")
    answers = judge_all(two_halves(), [first, slightly_too_big, exact], cumulative=True, finish=plain)
    assert [verdict.answer for verdict in answers] == ["fits", "waits", "fits"]
    waiting = slots(answers[1])
    assert waiting["podsets"][0]["nearest"]["short"] == {"cpu": "2m"}
    assert waiting["totals"]["cpu"]["short"] == "4m"


def test_each_alone_ignores_the_others():
    gangs = [gang(job(name, 2, requests={"cpu": "900m"}), name=name) for name in ("one", "two")]
    together = judge_all(two_halves(), gangs, cumulative=True, finish=plain)
    alone = judge_all(two_halves(), gangs, cumulative=False, finish=plain)
    assert [verdict.answer for verdict in together] == ["fits", "waits"]
    assert [verdict.answer for verdict in alone] == ["fits", "fits"]


def test_fragmentation_names_the_largest_hole():
    half_used = judge_all(
        two_halves(), [gang(job("first", 2, requests={"cpu": "550m"}))], cumulative=True, finish=plain
    )
    assert half_used[0].answer == "fits"
    nodes = [node(name, cpu="425m", memory="8Gi") for name in ("a", "b")]
    larger = [*nodes, node("c", cpu="2", memory="8Gi")]
    full = pod("full", on="c", requests={"cpu": "2"})
    verdict = judge(room(larger, [full]), gang(job("one", 1, requests={"cpu": "850m"})))
    assert (verdict.answer, verdict.reason) == ("waits", "fragmentation")
    assert slots(verdict)["podsets"][0]["largest_hole"]["cpu"] == "425m"
    assert "425m" in verdict_text(verdict.as_dict())


def test_the_nearest_node_is_the_one_that_lacks_least():
    for free in ((3, 1, 2), (1, 3, 2), (1, 2, 3)):
        nodes = [node(f"n{amount}", cpu="8", memory="8Gi") for amount in free]
        full = [pod(f"p{amount}", on=f"n{amount}", requests={"cpu": str(8 - amount)}) for amount in free]
        (told,) = slots(judge(room(nodes, full), gang(job("a", 1, requests={"cpu": "5"}))))["podsets"]
        assert told["nearest"] == {"node": "n3", "short": {"cpu": "2"}}


def test_the_numbers_of_never_are_those_of_empty_nodes():
    nodes = [node(name, cpu="16", memory="64Gi", nvidia_com__gpu="4") for name in ("a", "b")]
    for item in nodes:
        item["status"]["allocatable"]["nvidia.com/gpu"] = item["status"]["allocatable"].pop("nvidia_com/gpu")
    busy = pod("busy", on="a", requests={"nvidia.com/gpu": "4"})
    verdict = judge(room(nodes, [busy]), gang(job("large", 20, requests={"nvidia.com/gpu": "1"})))
    assert "short in all: 12 nvidia.com/gpu" in verdict_text(verdict.as_dict())
    assert slots(verdict)["podsets"][0]["found"] == 8


def test_never_when_no_empty_node_could_hold_the_pod():
    verdict = judge(two_halves(), gang(job("huge", 1, requests={"cpu": "100"})))
    assert verdict.answer == "never"
    assert "never fits" in verdict_text(verdict.as_dict())


def test_two_podsets_that_could_block_each_other_are_steered():
    # One node of 4 and one of 3: the pair of 2 must take the first, or a pod of 3 finds no place.
    nodes = [node("a", cpu="4", memory="8Gi"), node("b", cpu="3", memory="8Gi")]
    verdict = judge(room(nodes), gang(job("pair", 2, requests={"cpu": "2"}), job("three", 1, requests={"cpu": "3"})))
    assert (verdict.answer, verdict.how) == ("fits", "steered")
    assert verdict.steering["pair"] == ("a",)
    assert verdict.steering["three"] == ("b",)


def test_a_packing_that_cannot_be_steered_is_order_dependent():
    # 4 + 4 for 2x1 and 3x2: one podset must use both nodes, and shares one of them whatever is chosen.
    nodes = [node("a", cpu="4", memory="8Gi"), node("b", cpu="4", memory="8Gi")]
    verdict = judge(room(nodes), gang(job("ones", 2, requests={"cpu": "1"}), job("twos", 3, requests={"cpu": "2"})))
    assert (verdict.answer, verdict.reason) == ("waits", "order_dependent")


def test_plenty_of_room_needs_no_steering():
    nodes = [node(f"n{i}", cpu="8", memory="32Gi") for i in range(10)]
    objects = (job("small", 10, requests={"cpu": "1"}), job("large", 10, requests={"cpu": "2"}))
    verdict = judge(room(nodes), gang(*objects))
    assert (verdict.answer, verdict.how, dict(verdict.steering)) == ("fits", "now", {})


@pytest.mark.parametrize(
    ("changes", "filter_name"),
    [
        ({"unschedulable": True}, "unschedulable"),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, "taints"),
        ({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}, "not_ready"),
    ],
)
def test_nodes_out_of_service_are_dropped_and_counted(changes, filter_name):
    nodes = [node("a", cpu="2", memory="8Gi", **changes), node("b", cpu="1", memory="8Gi")]
    verdict = judge(room(nodes), gang(job("one", 1, requests={"cpu": "2"})))
    assert verdict.answer == ("never" if filter_name == "taints" else "waits")
    assert slots(verdict)["podsets"][0]["dropped"] == {filter_name: 1}


def test_self_affinity_is_steered_to_a_zone_that_is_large_enough():
    nodes = [node(f"n{i}", labels={"zone": "small" if i == 0 else "large"}, cpu="1", memory="8Gi") for i in range(4)]
    together = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
            ]
        }
    }
    verdict = judge(room(nodes), gang(job("x", 3, labels={"app": "x"}, requests={"cpu": "1"}, affinity=together)))
    assert (verdict.answer, verdict.how) == ("fits", "steered")
    assert verdict.steering["x"] == ("n1", "n2", "n3")


def test_anti_affinity_per_host_takes_one_node_each():
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    nodes = [node(f"n{i}", cpu="8", memory="8Gi") for i in range(3)]
    wanted = [
        gang(job("x", count, labels={"app": "x"}, requests={"cpu": "1"}, affinity=apart), name=str(count))
        for count in (3, 4)
    ]
    answers = [judge(room(nodes), item).answer for item in wanted]
    assert answers == ["fits", "never"]


def test_spread_bounds_every_zone_by_the_emptiest():
    nodes = [
        node("a", labels={"zone": "a"}, cpu="1", memory="8Gi"),
        node("b", labels={"zone": "b"}, cpu="8", memory="8Gi"),
    ]
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ]

    def answer(count):
        wanted = gang(job("x", count, labels={"app": "x"}, requests={"cpu": "1"}, topologySpreadConstraints=spread))
        return judge(room(nodes), wanted).answer

    assert [answer(count) for count in (2, 3)] == ["fits", "fits"]
    assert answer(4) != "fits"


def test_host_ports_are_taken_once_per_node():
    nodes = [node(f"n{i}", cpu="8", memory="8Gi") for i in range(2)]
    taken = pod("web", on="n0", containers=[{"name": "web", "ports": [{"containerPort": 80, "hostPort": 8080}]}])
    port = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}], "resources": {"requests": {"cpu": "1"}}}]
    one, two = (gang(job("p", count, containers=port)) for count in (1, 2))
    assert judge(room(nodes, [taken]), one).answer == "fits"
    assert judge(room(nodes, [taken]), two).answer == "waits"
    assert judge(room(nodes), two).answer == "fits"


def test_a_pod_awaiting_the_scheduler_takes_its_place_first():
    waiting = pod("waiting", requests={"cpu": "900m"})
    nodes = [node("a", cpu="1", memory="8Gi")]
    busy = room(nodes, [waiting])
    wanted = gang(job("one", 1, requests={"cpu": "500m"}))
    assert place_waiting_pods(busy, [wanted]) == 1
    assert judge(busy, wanted).answer == "waits"
    gated = pod("gated", requests={"cpu": "900m"}, schedulingGates=[{"name": "hold"}])
    quiet = room(nodes, [gated])
    assert place_waiting_pods(quiet, [wanted]) == 0
    assert judge(quiet, wanted).answer == "fits"


def test_waiting_pods_of_lower_priority_come_after_the_gang():
    waiting = pod("waiting", requests={"cpu": "900m"}, priority=-1)
    busy = room([node("a", cpu="1", memory="8Gi")], [waiting])
    wanted = [gang(job("one", 1, requests={"cpu": "500m"}))]
    assert place_waiting_pods(busy, wanted) == 0
    assert place_waiting_pods(busy, wanted, lambda item: item.name == "waiting") == 1


def test_waiting_pods_of_one_controller_take_as_many_places_as_there_are():
    owner = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
    waiting = [pod(f"w{i}", requests={"cpu": "400m"}) for i in range(5)]
    for item in waiting:
        item["metadata"]["ownerReferences"] = owner
    busy = room([node("a", cpu="1", memory="8Gi"), node("b", cpu="1", memory="8Gi")], waiting)
    assert place_waiting_pods(busy, [gang(job("one", 1, requests={"cpu": "500m"}))]) == 4
    assert [free["cpu"] for free in busy.free] == [200, 200]


def test_finished_pods_count_nothing_and_terminating_ones_still_do():
    nodes = [node("a", cpu="1", memory="8Gi")]
    done = pod("done", on="a", requests={"cpu": "1"}, phase="Succeeded")
    going = pod("going", on="a", requests={"cpu": "1"})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    wanted = gang(job("one", 1, requests={"cpu": "1"}))
    assert judge(room(nodes, [done]), wanted).answer == "fits"
    assert judge(room(nodes, [going]), wanted).answer == "waits"


@pytest.mark.parametrize(
    ("spec", "entry"),
    [
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}, "dra_claims"),
        ({"schedulerName": "volcano"}, "scheduler_name"),
        ({"schedulingGates": [{"name": "hold"}]}, "scheduling_gates"),
        ({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}, "unbound_volumes"),
    ],
)
def test_what_is_not_modelled_never_yields_a_plain_fit(spec, entry):
    verdict = judge(room([node("a", cpu="8", memory="8Gi")]), gang(job("one", 1, requests={"cpu": "1"}, **spec)))
    assert (verdict.answer, verdict.how, verdict.not_modelled) == ("fits", "unproven", (entry,))
    assert "not everything could be checked" in verdict_text(verdict.as_dict())


def test_webhooks_that_may_change_pods_keep_a_fit_unproven():
    verdict = judge(
        room([node("a", cpu="8", memory="8Gi")], webhooks=("injector",)), gang(job("one", 1, requests={"cpu": "1"}))
    )
    assert (verdict.how, verdict.not_modelled) == ("unproven", ("mutating_webhooks",))


def test_without_sight_of_nodes_the_namespace_still_answers():
    quota = {
        "metadata": {"name": "team"},
        "spec": {"hard": {"cpu": "1"}},
        "status": {"hard": {"cpu": "1"}, "used": {"cpu": "500m"}},
    }
    rules = {"default": NamespaceRules(quotas=(quota,))}
    blind = room([], nodes_visible=False, rules=rules)
    small, large = (gang(job("j", 1, requests={"cpu": cpu})) for cpu in ("500m", "600m"))
    assert (judge(blind, small).answer, judge(blind, small).how) == ("fits", "unproven")
    assert judge(blind, large).answer == "waits"
    assert "100m" in verdict_text(judge(blind, large).as_dict())


def mount(*claims):
    """Volumes of a pod spec."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def stored(claim=None, volume=None, **snapshot):
    """A room of one node with one claim."""
    storage = Storage(
        {("default", "data"): claim} if claim else {}, {"pv": volume} if volume else {}, frozenset(("late",))
    )
    return room([node("a", cpu="8")], storage=storage, **snapshot)


BOUND, PLAIN = VolumeClaim("pv", "now", False), Volume(None, {}, None, "h")


@pytest.mark.parametrize(
    ("place", "counts", "expected"),
    [
        (stored(BOUND, PLAIN), (2,), ("fits", "now", None)),
        (stored(), (1,), ("waits", None, "claim_missing")),
        (stored(unread=frozenset(("persistentvolumeclaims",))), (1,), ("fits", "unproven", None)),
        (stored(VolumeClaim(None, "now", False)), (1,), ("waits", None, "claim_unbound")),
        (stored(VolumeClaim(None, "late", False)), (1,), ("fits", "unproven", None)),
        (
            stored(VolumeClaim(None, "x", False), unread=frozenset(("storageclasses",))),
            (1,),
            ("fits", "unproven", None),
        ),
        (stored(VolumeClaim("pv", "now", True), PLAIN), (1,), ("fits", "now", None)),
        (stored(VolumeClaim("pv", "now", True), PLAIN), (2,), ("never", None, "claim_in_use")),
        (stored(VolumeClaim("pv", "now", True), PLAIN), (1, 1), ("never", None, "claim_in_use")),
        (stored(VolumeClaim("pv", "now", True), PLAIN), (1, 0), ("fits", "now", None)),
    ],
)
def test_claims(place, counts, expected):
    verdict = judge(place, gang(*(job(f"j{i}", count, volumes=mount("data")) for i, count in enumerate(counts))))
    assert (verdict.answer, verdict.how, verdict.reason) == expected
    assert expected[2] is None or verdict.detail == "data"


def test_a_claim_the_gang_brings_itself_is_not_missing():
    podsets = tuple(infer_podsets([job("j", 1, volumes=mount("data"))], namespace="default"))
    verdict = judge(stored(), Gang("g", "default", podsets, frozenset(("data",))))
    assert (verdict.answer, verdict.not_modelled) == ("fits", ("unbound_volumes",))


def test_a_claim_for_one_pod_is_in_use_while_a_pod_has_it():
    storage = Storage({("default", "data"): VolumeClaim("pv", "now", True)}, {"pv": PLAIN})
    place = room([node("a", cpu="8")], [pod("user", on="a", volumes=mount("data"))], storage=storage)
    verdict = judge(place, gang(job("j", 1, volumes=mount("data"))))
    assert (verdict.answer, verdict.reason) == ("waits", "claim_in_use")


def test_a_stateful_sets_own_claims_keep_a_fit_unproven():
    spec = {"containers": [{"name": "c", "image": "i"}]}
    wanted = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s"},
        "spec": {"replicas": 2, "template": {"spec": spec}, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
    }
    verdict = judge(room([node("a", cpu="8")]), gang(wanted))
    assert (verdict.answer, verdict.how, verdict.not_modelled) == ("fits", "unproven", ("unbound_volumes",))


def test_runtime_classes_bring_selector_and_tolerations_and_must_exist():
    taint = [{"key": "kata", "effect": "NoSchedule"}]
    nodes = [node("a", cpu="8"), node("b", cpu="8", labels={"kata": "yes"}, taints=taint)]
    kata = RuntimeClass({}, {"kata": "yes"}, ())
    tolerant = room(nodes[1:], runtime_classes={"kata": kata})
    wanted = gang(job("j", 1, runtimeClassName="kata", tolerations=[{"key": "kata", "operator": "Exists"}]))
    assert judge(tolerant, wanted).placement == {"j": {"b": 1}}
    missing = judge(room(nodes), wanted)
    assert (missing.answer, missing.reason, missing.detail) == ("waits", "runtime_class_missing", "kata")
    unseen = judge(room(nodes, unread=frozenset(("runtimeclasses",))), wanted)
    assert (unseen.how, unseen.not_modelled) == ("unproven", ("runtime_classes_not_visible",))


def test_a_priority_class_must_exist():
    place = room([node("a", cpu="8")], priorities={"system-node-critical": 2000001000})
    verdict = judge(place, gang(job("j", 1, priorityClassName="high")))
    assert (verdict.answer, verdict.reason, verdict.detail) == ("waits", "priority_class_missing", "high")


@pytest.mark.parametrize(
    ("unread", "entry"),
    [
        ("webhooks", "mutating_webhooks"),
        ("policies", "mutating_webhooks"),
        ("resourcequotas default", "namespace_rules_not_visible"),
        ("limitranges default", "namespace_rules_not_visible"),
        ("limitranges other", None),
        ("persistentvolumes", None),
    ],
)
def test_what_may_not_be_read_keeps_a_fit_unproven_if_it_matters(unread, entry):
    verdict = judge(room([node("a", cpu="8")], unread=frozenset((unread,))), gang(job("j", 1)))
    assert verdict.not_modelled == ((entry,) if entry else ())
    assert verdict.how == ("unproven" if entry else "now")


def test_volumes_that_may_not_be_read_keep_a_fit_unproven():
    verdict = judge(
        stored(BOUND, PLAIN, unread=frozenset(("persistentvolumes",))), gang(job("j", 1, volumes=mount("data")))
    )
    assert verdict.not_modelled == ("volumes_not_visible",)


def test_volumes_that_compete_for_attachments_keep_a_fit_unproven():
    claims = {("default", name): VolumeClaim(name, "now", False) for name in ("one", "two")}
    volumes = {name: Volume(None, {}, "driver", name) for name in ("one", "two")}
    storage = Storage(claims, volumes, frozenset(), {"a": {"driver": 1}})
    wanted = gang(*(job(name, 1, volumes=mount(name)) for name in ("one", "two")))
    verdict = judge(room([node("a", cpu="8")], storage=storage), wanted)
    assert (verdict.answer, verdict.how, verdict.not_modelled) == ("fits", "unproven", ("attach_limits",))


def affinity(kind, app, key="kubernetes.io/hostname"):
    """Required (anti-)affinity to an app."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_room_beside_a_pod_that_must_be_joined_may_come_free():
    present = [pod("cache", on="a", labels={"app": "cache"}), pod("busy", on="a", requests={"cpu": "2"})]
    place = room([node("a", cpu="2"), node("b", cpu="2")], present)
    verdict = judge(place, gang(job("j", 1, requests={"cpu": "1"}, affinity=affinity("podAffinity", "cache"))))
    assert (verdict.answer, verdict.reason) == ("waits", "insufficient")
    lonely = judge(room([node("a", cpu="2")]), gang(job("j", 1, affinity=affinity("podAffinity", "cache"))))
    assert (lonely.answer, lonely.reason) == ("never", "no_matching_node")


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "c", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}]},
        {"labels": {"app": "x"}, "requests": {"cpu": "1"}, "affinity": affinity("podAntiAffinity", "x")},
    ],
)
def test_ports_and_rules_are_not_called_fragmentation(spec):
    verdict = judge(room([node("a", cpu="8"), node("b", cpu="8")]), gang(job("j", 3, **spec)))
    assert (verdict.answer, verdict.reason) == ("never", "constraints")


def test_a_quota_that_wants_amounts_stated_is_not_called_a_limit_range():
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "9"}}, "status": {"hard": {"cpu": "9"}}}
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}
    for rules, reason in (((quota,), ()), "namespace_quota"), (((), (limits,)), "limit_range"):
        for visible in (True, False):
            place = room([node("a", cpu="8")], rules={"default": NamespaceRules(*rules)}, nodes_visible=visible)
            verdict = judge(place, gang(job("j", 1)))
            assert (verdict.answer, verdict.reason) == ("never", reason)


def test_possible_victims_are_named_only_for_gangs_that_wait():
    present = [pod("low", on="a", requests={"cpu": "2"}, priority=1), pod("high", on="a", priority=99)]
    classes = {"priorities": {"mid": 50, "low": 0}, "default_priority": 0}
    place = room([node("a", cpu="2")], present, **classes)

    def victims(**spec):
        return judge(place, gang(job("j", 1, requests={"cpu": "1"}, **spec))).may_preempt

    assert victims(priorityClassName="mid") == ("default/low",)
    assert victims(priority=5) == ("default/low",)
    assert victims(priorityClassName="mid", preemptionPolicy="Never") == ()
    assert victims() == ()
    assert judge(place, gang(job("j", 1, priorityClassName="mid"))).may_preempt == ()


def test_a_gang_that_fits_takes_ports_claims_and_quota_from_the_next():
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}, "status": {"hard": {"pods": "1"}}}
    place = room([node("a", cpu="8")], rules={"default": NamespaceRules((quota,))})
    answers = judge_all(place, [gang(job(name, 1)) for name in ("i", "j")], cumulative=True, finish=plain)
    assert [(verdict.answer, verdict.reason) for verdict in answers] == [("fits", None), ("waits", "namespace_quota")]
    port = [{"name": "c", "ports": [{"hostPort": 80}]}]
    pair = [gang(job(name, 1, containers=port)) for name in ("i", "j")]
    answers = judge_all(room([node("a", cpu="8")]), pair, cumulative=True, finish=plain)
    assert [verdict.answer for verdict in answers] == ["fits", "waits"]


@hypothesis.settings(max_examples=400)
@hypothesis.given(cases(), st.randoms(use_true_random=False))
def test_a_verdict_holds_whatever_a_simple_scheduler_does(case, rng):
    verdict = judge(room(case.nodes, case.pods), gang(*case.jobs))
    as_dict = verdict.as_dict()
    assert json.loads(json.dumps(as_dict)) == as_dict
    text = verdict_text(as_dict)
    if verdict.answer == "fits":
        scheduler = case.scheduler(verdict.steering)
        truth = scheduler.try_all(800)
        assert not truth.stuck
        assert truth.full or not truth.exhaustive
        assert all(scheduler.play_once(random.Random(rng.random())) for _turn in range(4))
        return
    truth = case.scheduler().try_all(800)
    for name, total in verdict.totals.items():
        assert not total.short or name in text
    for podset in verdict.podsets:
        assert not podset.usable_nodes or all(name in text for name in podset.short)
    if truth.exhaustive:
        assert truth.full == (verdict.reason == "order_dependent")
        assert truth.stuck


@hypothesis.settings(max_examples=60)
@hypothesis.given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 3), st.integers(1, 8), st.integers(1, 6)
)
def test_one_more_node_never_turns_a_fit_into_a_wait(sizes, cpu, count, more):
    nodes = [node(f"n{i}", cpu=str(size)) for i, size in enumerate(sizes)]
    wanted = gang(job("j", count, requests={"cpu": str(cpu)}))
    fewer, larger = (judge(room(group), wanted) for group in (nodes, [*nodes, node("one-more", cpu=str(more))]))
    assert (fewer.answer == "fits") == (sum(size // cpu for size in sizes) >= count)
    assert (fewer.answer, larger.answer) != ("fits", "waits")
    assert larger.answer == "fits" or fewer.answer != "fits"
    assert larger.podsets[0].found == fewer.podsets[0].found + more // cpu


def test_a_refusal_measures_each_podset_and_the_whole():
    nodes = [node("a", cpu="5"), node("b", cpu="1"), node("overdrawn", cpu="2")]
    present = [pod("p", on="a", requests={"cpu": "2"}), pod("q", on="overdrawn", requests={"cpu": "3"})]
    wanted = gang(job("large", 3, requests={"cpu": "2"}), job("small", 1, requests={"cpu": "1"}))
    verdict = judge(room(nodes, present), wanted)
    assert (verdict.answer, verdict.reason) == ("waits", "insufficient")
    large, small = verdict.podsets
    assert large == PodsetFit(
        name="large",
        needed=3,
        found=1,
        requests={"cpu": 2000, "pods": 1},
        usable_nodes=3,
        dropped={},
        short={"cpu": 2000},
        largest_hole={"cpu": 3000, "pods": 110},
        nearest_node="b",
        nearest_short={"cpu": 1000},
    )
    # It has slots enough, so that it does not matter which node lacks what.
    assert (small.found, small.short, small.nearest_node, small.nearest_short) == (4, {}, None, {})
    assert verdict.totals == {"cpu": Total(7000, 4000), "pods": Total(4, 328)}


def test_the_last_place_of_a_node_counts_as_free():
    nodes = [node(name, cpu="4", pods="1") for name in ("a", "b")]
    verdict = judge(room(nodes, [pod("p", on="a")]), gang(job("j", 2)))
    assert (verdict.answer, verdict.podsets[0].short) == ("waits", {"pods": 1})
    assert verdict.totals == {"pods": Total(2, 1)}


def test_a_runtime_class_selects_and_tolerates_for_its_pods():
    taint = [{"key": "kata", "effect": "NoSchedule"}]
    nodes = [node("a", cpu="8"), node("b", cpu="8", labels={"kata": "yes"}, taints=taint)]
    kata = RuntimeClass({}, {"kata": "yes"}, (Toleration("kata", "Exists", "", ""),))
    place = room(nodes, runtime_classes={"kata": kata})
    assert judge(place, gang(job("j", 1, runtimeClassName="kata"))).placement == {"j": {"b": 1}}
    assert judge(place, gang(job("j", 1))).placement == {"j": {"a": 1}}


@pytest.mark.parametrize(
    "spec",
    [
        {"runtimeClassName": "missing"},
        {"priorityClassName": "missing"},
        {"volumes": mount("missing")},
        {"schedulerName": "other"},
        {"nodeSelector": {"no": "node"}},
    ],
)
def test_a_podset_without_pods_stops_nobody_and_leaves_nothing_open(spec):
    place = room([node("a", cpu="8")], priorities={"known": 1})
    verdict = judge(place, gang(job("j", 1), job("none", 0, **spec)))
    assert (verdict.answer, verdict.how, verdict.not_modelled) == ("fits", "now", ())
    crowded = judge(place, gang(job("j", 3, requests={"cpu": "4"}), job("none", 0, **spec)))
    assert crowded.reason == "insufficient"


@pytest.mark.parametrize(("priorities", "answer"), [({}, "fits"), ({"high": 5}, "fits"), ({"low": 1}, "waits")])
def test_a_priority_class_is_missing_only_where_classes_are_known(priorities, answer):
    assert judge(
        room([node("a", cpu="8")], priorities=priorities), gang(job("j", 1, priorityClassName="high"))
    ).answer == (answer)


def test_one_claim_that_is_not_bound_yet_keeps_a_fit_unproven():
    claims = {("default", "data"): BOUND, ("default", "later"): VolumeClaim(None, "late", False)}
    storage = Storage(claims, {"pv": PLAIN}, frozenset(("late",)))
    verdict = judge(room([node("a", cpu="8")], storage=storage), gang(job("j", 1, volumes=mount("data", "later"))))
    assert verdict.not_modelled == ("unbound_volumes",)


def test_one_podset_without_a_node_is_the_reason():
    place = room([node("a", cpu="8")])
    verdict = judge(place, gang(job("i", 1), job("j", 1, nodeSelector={"no": "node"})))
    assert verdict.reason == "no_matching_node"


def test_which_rule_of_the_namespace_refuses():
    used_up = {"metadata": {"name": "q"}, "status": {"hard": {"cpu": "1"}, "used": {"cpu": "1"}}}
    unstated = {"metadata": {"name": "u"}, "spec": {"hard": {"memory": "9"}}, "status": {"hard": {"memory": "9"}}}
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}

    def reason(*quotas):
        place = room([node("a", cpu="8")], rules={"default": NamespaceRules(quotas, (limits,))})
        return judge(place, gang(job("j", 1, requests={"cpu": "1"}))).reason

    assert reason() == reason(unstated) == "limit_range"
    assert reason(used_up) == reason(used_up, unstated) == "namespace_quota"


def test_at_most_twenty_possible_victims_are_named_and_only_of_lower_priority():
    lower = [pod(f"low-{i:02}", on="a", requests={"cpu": "1"}, priority=1) for i in range(21)]
    same = pod("a-same", on="a", requests={"cpu": "1"}, priority=5)
    verdict = judge(room([node("a", cpu="22")], [*lower, same]), gang(job("j", 1, requests={"cpu": "1"}, priority=5)))
    assert verdict.may_preempt == tuple(f"default/low-{i:02}" for i in range(20))


def test_pods_that_wait_compete_by_their_priority():
    pods = [pod("first", requests={"cpu": "1"}, priority=1), pod("second", requests={"cpu": "1"}, priority=9)]
    busy = room([node("a", cpu="1")], pods)
    assert place_waiting_pods(busy, []) == 1
    assert [item.name for item in busy.pods_on[0]] == ["second"]


@pytest.mark.parametrize(("priority", "placed"), [(-6, 0), (-5, 1), (0, 1)])
def test_pods_wait_behind_the_gangs_only_if_they_are_below_all_of_them(priority, placed):
    gangs = [gang(job("j", 1, priority=value)) for value in (5, -5)]
    assert place_waiting_pods(room([node("a", cpu="1")], [pod("w", priority=priority)]), gangs) == placed


def test_pods_that_were_counted_already_take_no_second_place():
    pods = [pod("one", requests={"cpu": "1"}), pod("two", requests={"cpu": "1"})]
    busy = room([node("a", cpu="4")], pods)
    assert place_waiting_pods(busy, [], counted={("default", "one")}) == 1
    assert busy.free[0]["cpu"] == 3000
    assert place_waiting_pods(room([node("a", cpu="4")], pods), []) == 2


def test_quota_is_used_up_gang_by_gang():
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}, "status": {"hard": {"pods": "2"}}}
    place = room([node("a", cpu="8")], rules={"default": NamespaceRules((quota,))})
    answers = judge_all(place, [gang(job(name, 1)) for name in "ijk"], cumulative=True, finish=plain)
    assert [verdict.answer for verdict in answers] == ["fits", "fits", "waits"]
