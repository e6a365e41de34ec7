# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dispatchers in memory under trees with flavors: where pods stand, what is charged, and what a takeover makes of it.

The scheduler of these clusters knows no taints, and nodes have them all the same.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import answer_fit
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource, read_gang
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.info import answer_quota
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions, QuotaQuestion
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.verdicts import QuotaCompletion, one_queue
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.gang_cases import POOL_LABEL
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault, Killed
from ansible_collections.muster.kube.tests.support.reclaim_cases import two_namespaces
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare, phases, state

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
TOLERATION = {"key": "gpu", "operator": "Exists"}
BIG = {"name": "big", "node_labels": {POOL_LABEL: "big"}, "tolerations": [TOLERATION]}
SMALL = {"name": "small", "node_labels": {POOL_LABEL: "small"}}


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Four cpu on a tainted node of the big pool and as much in the small one, and the namespaces a and b."""
    (big,) = cases.node_pool("big", 1)
    with two_namespaces({**big, "spec": {"taints": [TAINT]}}, *cases.node_pool("small", 1)) as made:
        yield made


def share(name: str, big: int, small: int, **more: t.Any) -> cases.Object:
    """A queue with so many cpu of each flavor."""
    return {"name": name, "parent": "all", "nominal": {"big": {"cpu": big}, "small": {"cpu": small}}, **more}


def share_out(stage: MemoryStage, *queues: cases.Object, flavors: t.Sequence[cases.Object] = (BIG, SMALL)) -> None:
    """Store a tree with flavors in which nobody is safe from eviction."""
    declare(stage, *queues, flavors=list(flavors), settings={"min_run_time": 0})


def submit(stage: MemoryStage, name: str, *jobs: cases.Object, queue: str = "x") -> None:
    """Queue a gang."""
    stage.cluster.add("configmaps", cases.gang_record(name, "a", jobs, queue=queue))


def job(name: str, pods: int, **more: t.Any) -> cases.Object:
    """A Job of pods of one cpu that say nothing of nodes."""
    return cases.job(name, None, pods, **more)


def runs(stage: MemoryStage, **gangs: str) -> t.Callable[[], bool]:
    """Whether gangs run, given with their namespaces."""
    return lambda: phases(stage, **gangs) == dict.fromkeys(gangs, "running")


def confinement(stage: MemoryStage, name: str) -> tuple[t.Any, t.Any]:
    """What the pods of a Job ask of nodes."""
    found = stage.cluster.get("jobs", "a", name)
    assert found is not None
    spec = found["spec"]["template"]["spec"]
    return spec.get("nodeSelector"), spec.get("tolerations")


def pools(stage: MemoryStage, gang: str) -> set[str]:
    """The pools on whose nodes the pods of a gang stand."""
    found = [pod for pod in stage.cluster.all("pods", "a") if pod["metadata"]["name"].startswith(gang)]
    return {pod["spec"]["nodeName"].rpartition("-")[0] for pod in found}


def flavors_of(stage: MemoryStage, name: str) -> dict[str, str]:
    """The flavors that a gang is charged to."""
    return dict(state(stage, name)["charged"][0]["flavors"])


@pytest.mark.parametrize("mirrored", [False, True])
def test_podsets_stand_on_the_nodes_of_their_flavors(stage: MemoryStage, mirrored: bool) -> None:
    share_out(stage, share("x", 2, 2, hard=True))
    submit(stage, "g", job("g-1", 2), job("g-2", 2))
    stage.start("d", mirrored=mirrored)
    assert stage.run_until(runs(stage, g="a"))
    assert confinement(stage, "g-1") == ({POOL_LABEL: "big"}, [TOLERATION])
    assert confinement(stage, "g-2") == ({POOL_LABEL: "small"}, None)
    assert (pools(stage, "g-1"), pools(stage, "g-2")) == ({"big"}, {"small"})
    told = state(stage, "g")
    assert told["charged"] == [
        {
            "tree": "default",
            "queue": "x",
            "flavors": {"g-1": "big", "g-2": "small"},
            "kinds": {
                "big": {"node_labels": {POOL_LABEL: "big"}, "tolerations": [TOLERATION]},
                "small": {"node_labels": {POOL_LABEL: "small"}, "tolerations": []},
            },
        }
    ]
    submit(stage, "more", job("more", 1))
    stage.run_for(10)
    assert state(stage, "more")["verdict"]["reason"] == "quota"


def test_what_is_full_is_borrowed_or_taken_of_the_next(stage: MemoryStage) -> None:
    share_out(stage, share("x", 1, 2), share("y", 2, 0))
    for name in ("one", "two", "three", "four"):
        submit(stage, name, job(name, 1))
    stage.start("d")
    assert stage.run_until(runs(stage, one="a", two="a", three="a", four="a"))
    found = sorted((flavors_of(stage, name)[name], name) for name in ("one", "two", "three", "four"))
    assert [flavor for flavor, _name in found] == ["big", "big", "small", "small"]


@pytest.mark.parametrize("changed", ["relabelled", "without_flavors", "gone"])
def test_a_takeover_makes_the_same_objects_whatever_becomes_of_the_tree(stage: MemoryStage, changed: str) -> None:
    share_out(stage, share("x", 4, 4))
    submit(stage, "g", cases.service("g-s"), job("g-j", 2))
    one = stage.dispatcher("one", ["a"])
    one.line.faults.append(Fault("kill_after", "POST", "/services$", skip=1))
    with pytest.raises(Killed):
        one.cycle()
    assert stage.cluster.get("jobs", "a", "g-j") is None
    if changed == "relabelled":
        share_out(stage, share("x", 4, 4), flavors=[{**BIG, "node_labels": SMALL["node_labels"]}, SMALL])
    elif changed == "without_flavors":
        declare(stage, {"name": "x", "parent": "all", "nominal": {"cpu": 1}})
    else:
        stage.cluster.remove("configmaps", "muster-system", "muster-quota-default")
    stage.start("two")
    assert stage.run_until(runs(stage, g="a"))
    assert confinement(stage, "g-j") == ({POOL_LABEL: "big"}, [TOLERATION])
    assert flavors_of(stage, "g") == {"g-j": "big"}


@pytest.mark.parametrize("trouble", ["kill_after", "lose"])
def test_no_trouble_with_a_write_frees_a_gang_of_its_flavor(stage: MemoryStage, trouble: t.Any) -> None:
    share_out(stage, share("x", 2, 0, hard=True))
    for number in range(0, 9, 2):
        name = f"g{number}"
        submit(stage, name, cases.service(f"{name}-s"), job(f"{name}-j", 2))
        submit(stage, f"{name}-late", job(f"{name}-late", 1))
        first = stage.start("one")
        first.line.faults.append(Fault(trouble, WRITES, skip=number))
        stage.run_for(3)
        if stage.actors["one"].over:
            stage.kill("one")
            stage.start("one")
        assert stage.run_until(runs(stage, **{name: "a"})), stage.crashes
        assert confinement(stage, f"{name}-j")[0] == {POOL_LABEL: "big"}
        assert phases(stage, **{f"{name}-late": "a"}) == {f"{name}-late": "queued"}
        stage.kill("one")
        for gone in (name, f"{name}-late"):
            stage.cluster.remove("configmaps", "a", gone)
        assert stage.run_until(lambda: not stage.cluster.all("pods", "a"))
    assert stage.crashes == []


def test_an_owner_takes_back_what_is_borrowed_of_its_flavor_only(stage: MemoryStage) -> None:
    share_out(stage, share("x", 4, 0), share("y", 0, 4))
    submit(stage, "own", job("own", 4))
    stage.start("d")
    assert stage.run_until(runs(stage, own="a"))
    submit(stage, "borrower", job("borrower", 2))
    submit(stage, "other", job("other", 2))
    assert stage.run_until(runs(stage, borrower="a", other="a"))
    submit(stage, "owner", job("owner", 2), queue="y")
    assert stage.run_until(runs(stage, owner="a"), 120)
    evicted = [name for name in ("own", "borrower", "other") if phases(stage, **{name: "a"})[name] == "queued"]
    assert len(evicted) == 1
    assert evicted != ["own"]
    assert pools(stage, "owner") == {"small"}


def test_an_owner_takes_its_second_flavor_back_when_the_first_is_in_its_own_use(stage: MemoryStage) -> None:
    share_out(stage, share("x", 0, 0), share("y", 4, 4))
    submit(stage, "first", job("first", 4), queue="y")
    stage.start("d")
    assert stage.run_until(runs(stage, first="a"))
    submit(stage, "borrower", job("borrower", 4))
    assert stage.run_until(runs(stage, borrower="a"))
    submit(stage, "owner", job("owner", 3), queue="y")
    assert stage.run_until(runs(stage, owner="a"), 120)
    assert phases(stage, first="a", borrower="a") == {"first": "running", "borrower": "queued"}
    assert (flavors_of(stage, "owner"), pools(stage, "owner")) == ({"owner": "small"}, {"small"})


def test_check_mode_fit_info_and_quota_info_say_what_then_happens(stage: MemoryStage) -> None:
    share_out(stage, share("x", 2, 4, hard=True))
    stage.cluster.add("pods", foreign("big-n0", "3"))
    submit(stage, "g", job("g", 2))
    dispatcher = stage.dispatcher("d")
    preview = preview_dispatch(stage.admin(), dispatcher.terms)
    (decision,) = [item for item in preview.decisions if item.gang == "a/g"]
    # The first flavor has quota, but its nodes are full.
    assert decision.action == "start"
    assert decision.verdict["layers"][0]["trees"][0]["flavors"] == {"g": "small"}
    client = stage.admin()
    terms = {"cumulative": True, "advice": True}
    complete = QuotaCompletion(client, LEASE, naming=one_queue("x"), **terms)
    asked = [read_gang(GangSource(name, "a", job(name, 2)), 0) for name in ("g", "h", "i")]
    told = answer_fit(client, asked, **terms, complete=complete).as_result()["verdicts"]
    assert [(item["answer"], item["layers"][0]["trees"][0]["flavors"]) for item in told] == [
        ("fits", {"g": "small"}),
        ("fits", {"h": "small"}),
        ("waits", {"i": "big"}),
    ]
    assert told[0]["placement"] == {"g": {"small-n0": 2}}
    # Of nodes it only knows whether there are any.
    options = QuotaInfoOptions("muster-system", None, question=QuotaQuestion(gang=("a", "g")))
    verdict = answer_quota(lambda: client, options)["gang"]["verdict"]
    assert (verdict["answer"], verdict["layers"][0]["trees"][0]["flavors"]) == ("fits", {"g": "big"})
    stage.start("d")
    assert stage.run_until(runs(stage, g="a"))
    assert flavors_of(stage, "g") == {"g": "small"}


def test_nobody_is_evicted_for_a_start_that_takes_what_is_held_for_a_starved_gang(stage: MemoryStage) -> None:
    """Quota of both flavors is held; in the second one the nodes have too little memory while a lower gang runs."""
    share_out(stage, share("x", 4, 4, hard=True))

    def put(name: str, *jobs: cases.Object, **options: t.Any) -> None:
        stage.cluster.add("configmaps", cases.gang_record(name, "a", jobs, queue="x", **options))

    put("first", job("first", 3), max_run_time=1000)
    stage.start("d", policy="reserve", reserve_after=20.0)
    assert stage.run_until(runs(stage, first="a"))
    put("lower", job("lower", 3, cpu="1", memory="5Gi"), max_run_time=1000, priority=-1)
    assert stage.run_until(runs(stage, lower="a"))
    put("starved", job("starved-1", 4), job("starved-2", 4))
    stage.run_for(30)
    put("late", job("late", 1, cpu="1", memory="8Gi"))
    stage.run_for(20)
    assert phases(stage, first="a", lower="a", late="a") == {"first": "running", "lower": "running", "late": "queued"}
    assert state(stage, "late")["verdict"]["reason"] == "quota_reserved"


def test_the_server_is_asked_for_each_kind_of_nodes_whether_it_allows_a_gang(stage: MemoryStage) -> None:
    """What a flavor adds to pods may be refused, so that nothing is known of gangs of other flavors."""
    share_out(stage, share("x", 4, 4, hard=True))
    for number in range(4):
        submit(stage, f"g{number}", cases.service(f"g{number}-s"), job(f"g{number}-j", 2))
    made = stage.start("d")
    assert stage.run_until(runs(stage, **{f"g{number}": "a" for number in range(4)}))
    asked = [path for method, path, dry in made.line.sent if dry and method == "POST" and "/jobs" in path]
    assert len(asked) == 2


def foreign(node: str, cpu: str) -> cases.Object:
    """A pod of somebody else that stands on a node."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "nodeName": node}
    return {"metadata": {"name": "foreign", "namespace": "b"}, "spec": spec, "status": {"phase": "Running"}}
