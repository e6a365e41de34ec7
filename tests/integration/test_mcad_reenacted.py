# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end-to-end tests of MCAD, re-enacted with the same AppWrappers and the same numbers; minutes became seconds."""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps import publish
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_micros, time_text
from ansible_collections.muster.kube.tests.support.dispatch_stage import actions
from ansible_collections.muster.kube.tests.support.gang_cases import (
    app_wrapper,
    config_map,
    generic_item,
    kwok_node,
    service,
)
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_for_end
from ansible_collections.muster.kube.tests.support.mcad_bench import (
    AS_MCAD,
    COMPLETED,
    DONE,
    EVENLY,
    HOLDING,
    NO_ROOM,
    RUNS,
    STARTED,
    WAITING,
    WAITS,
    Bench,
    starts,
)
from ansible_collections.muster.kube.tests.support.wrapper_crd import install_wrapper_crd

Object = dict[str, t.Any]


@pytest.fixture
def bench(cluster: LiveCluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Bench]:
    """A dispatcher over the test's namespace, with AppWrappers whose counts of pods are told at once."""
    monkeypatch.setattr(publish, "COUNT_SECONDS", 0.2)
    install_wrapper_crd(cluster.client)
    made = Bench(cluster, namespace)
    yield made
    made.close()


def sized(pods: int, cpu: str) -> list[Object]:
    """Pods as an item declares them."""
    return [{"replicas": pods, "requests": {"cpu": cpu}, "limits": {"cpu": cpu}}]


def assert_never_started(bench: Bench, *names: str) -> None:
    """They wait in MCAD's words, and nothing of theirs ever existed."""
    for name in names:
        assert (name, bench.shown(name), bench.conditions(name)) == (name, WAITS, WAITING)
        assert (bench.state(name).attempt, bench.state(name).ticket_uid, bench.pods_of(name)) == (1, None, [])


def test_cpu_accounting(bench: Bench) -> None:
    bench.furnish(AS_MCAD)
    bench.wrap("first", bench.deployment("first", 2, cpu="550m"))
    bench.run_till_running({"first": 2})
    bench.wrap("second", bench.deployment("second", 2, cpu="350m"))
    bench.run_till_running({"second": 2})
    for name, total in (("first", 1100), ("second", 700)):
        assert (bench.shown(name), bench.conditions(name)) == (RUNS, STARTED)
        assert bench.status(name)["totalcpu"] == total


def test_exact_fit_and_skip_ahead(bench: Bench) -> None:
    bench.furnish(EVENLY)
    bench.wrap("first", bench.deployment("first", 2, cpu="550m"))
    bench.run_till_running({"first": 2})
    bench.wrap("above", bench.deployment("above", 2, cpu="427m"))
    bench.run_till("the larger one waits", lambda: bench.shown("above") == WAITS)
    bench.wrap("exact", bench.deployment("exact", 2, cpu="425m"))
    bench.run_till_running({"exact": 2})
    assert (bench.shown("exact"), bench.conditions("exact")) == (RUNS, STARTED)
    assert_never_started(bench, "above")


def test_fragmented_room_is_no_room(bench: Bench) -> None:
    """Where MCAD starts it, finds its pod pending and takes it back, nothing is started at all."""
    bench.furnish(AS_MCAD)
    bench.wrap("first", bench.deployment("first", 2, cpu="550m"))
    bench.run_till_running({"first": 2})
    bench.wrap("whole", bench.deployment("whole", 1, cpu="850m"))
    bench.wrap("halves", bench.deployment("halves", 2, cpu="425m"))
    bench.run_till("both wait", lambda: bench.shown("whole") == bench.shown("halves") == WAITS)
    assert {(bench.state(name).verdict or {})["reason"] for name in ("whole", "halves")} == {"fragmentation"}
    bench.wrap("small", bench.deployment("small", 2, cpu="340m"))
    bench.run_till_running({"small": 2})
    assert_never_started(bench, "whole", "halves")
    assert bench.conditions("small") == STARTED


def test_every_kind(bench: Bench) -> None:
    """StatefulSets, Deployments and Pods, with their namespace written and without."""
    bench.furnish(AS_MCAD)
    kinds = {
        "set": [bench.stateful_set("set", 2, cpu="50m")],
        "deployment": [bench.deployment("deployment", 2, cpu="50m")],
        "pod": [bench.bare_pod("pod", cpu="50m")],
        "template": [bench.bare_pod("template-0", cpu="50m"), bench.bare_pod("template-1", cpu="50m")],
    }
    pods = {}
    for name, objects in kinds.items():
        placed = [_renamed(obj, f"{obj['metadata']['name']}-placed", bench.namespace) for obj in objects]
        bench.wrap(name, *objects)
        bench.wrap(f"{name}-placed", *placed)
        pods[name] = pods[f"{name}-placed"] = 1 if name == "pod" else 2
    bench.run_till_running(pods)
    for name, count in pods.items():
        assert (name, bench.shown(name), bench.conditions(name)) == (name, RUNS, STARTED)
        assert (name, len(bench.pods_of(name)), bench.status(name)["totalcpu"]) == (name, count, 50 * count)


def _renamed(obj: Object, name: str, namespace: str) -> Object:
    """The same object under another name, with its namespace written."""
    return {**obj, "metadata": {**obj["metadata"], "name": name, "namespace": namespace}}


def test_bad_templates(bench: Bench) -> None:
    """What no server would take is failed at once with the server's reason; what breaks the schema is never queued."""
    bench.furnish(AS_MCAD)
    empty = {**bench.bare_pod("empty"), "spec": {"containers": []}}
    nameless = bench.deployment("nameless", 2, cpu="50m")
    nameless["spec"]["template"]["spec"]["containers"][0].pop("name")
    wrong = bench.bare_pod("wrong", cpu="50m")
    wrong["spec"]["restartPolicy"] = "Sometimes"
    unknown = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "unknown"}}
    bad = {"empty": empty, "nameless": nameless, "wrong": wrong, "unknown": unknown}
    complaints = {
        "empty": "spec.containers: it has no container",
        "nameless": "spec.template.spec.containers[0].name: Required value",
        "wrong": 'spec.restartPolicy: Unsupported value: "Sometimes"',
        "unknown": "unknown kind Thing of group example.com",
        "nothing": "the AppWrapper wraps nothing",
    }
    for name, obj in bad.items():
        bench.wrap(name, obj)
    bench.wrap("nothing")
    bench.wrap("good", bench.bare_pod("good", cpu="50m"))
    bench.run_till("all judged", lambda: all(bench.status(name) for name in (*bad, "nothing", "good")))
    for name in (*bad, "nothing"):
        assert bench.shown(name) == ("Failed", "Failed", False), (name, bench.status(name))
        *_before, (kind, reason, message) = bench.conditions(name)
        assert (kind, reason) == ("Failed", "ItemCreationFailure.")
        assert message.startswith(f"{bench.namespace}/{name} creation failure: "), message
        assert complaints[name] in message
        assert bench.pods_of(name) == []
    assert bench.shown("good") == RUNS
    templates: dict[str, t.Any] = {
        "no-kind": {"apiVersion": "v1", "metadata": {"name": "no-kind"}},
        "no-version": {"kind": "Pod", "metadata": {"name": "no-version"}},
        "text": "Pod",
    }
    for name, template in templates.items():
        wrapper = app_wrapper(name, bench.namespace, [{"generictemplate": template}])
        with pytest.raises(ApiError, match="generictemplate"):
            bench.cluster.create(wrapper)


def test_pods_that_find_no_node_are_listed_until_they_run(bench: Bench) -> None:
    """Declared a little too small: its pods are created but wait; the list of them empties when room comes."""
    bench.furnish(EVENLY)
    bench.wrap("first", bench.deployment("first", 2, cpu="550m"))
    bench.run_till_running({"first": 2})
    needs = bench.deployment("bad", 2, cpu="426m")
    bench.wrap("bad", generic_item(needs, podsets=sized(2, "425m")))
    bench.run_till("two pods listed", lambda: len(bench.status("bad").get("pendingpodconditions", ())) == 2)
    status = bench.status("bad")
    assert (status["pending"], status.get("running", 0), bench.shown("bad")) == (2, 0, RUNS)
    for entry in status["pendingpodconditions"]:
        (condition,) = entry["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        )
    assert {entry["podname"] for entry in status["pendingpodconditions"]} == {
        pod["metadata"]["name"] for pod in bench.pods_of("bad")
    }
    delete(bench.client, resource_path("v1", "pods", bench.namespace, "taken-n0"))
    bench.run_till_running({"bad": 2})
    assert "pendingpodconditions" not in bench.status("bad")
    assert (bench.shown("bad"), bench.conditions("bad")) == (RUNS, STARTED)


def test_declared_too_small_is_taken_back(bench: Bench) -> None:
    """Its pods never get ready; it goes back to the queue whole and is counted by what its pods really ask for."""
    bench.furnish(EVENLY)
    bench.wrap("first", bench.deployment("first", 2, cpu="550m"))
    bench.run_till_running({"first": 2})
    needs = bench.deployment("bad", 2, cpu="426m")
    bench.wrap("bad", generic_item(needs, podsets=sized(2, "425m")))
    result = bench.run_till("it waits for more room", lambda: NO_ROOM in bench.conditions("bad"), bind_timeout=1.0)
    assert starts(result, "bad") == 1
    assert bench.shown("bad") == WAITS
    lost = "Pods failed scheduling failed=2, running=0."
    assert bench.conditions("bad") == [
        *STARTED,
        ("PreemptCandidate", "PodsFailedScheduling", lost),
        ("Backoff", "PreemptionTriggered", lost),
        NO_ROOM,
    ]
    assert bench.status("bad").get("numberOfRequeueings", 0) == 0
    assert (bench.pods_of("bad"), bench.find(needs)) == ([], None)


def test_declared_sizes_decide(bench: Bench) -> None:
    """Equal to what is needed: runs. Far too large, or simply larger than the cluster: waits and never makes a pod."""
    bench.furnish(AS_MCAD)
    bench.wrap("big", bench.bare_pod("big", cpu="100"))
    bench.wrap("compute", bench.job("compute", 100, cpu="1", memory="1Gi"))
    over = generic_item(bench.deployment("over", 2, cpu="425m"), podsets=sized(2, "4270m"))
    bench.wrap("over", over)
    bench.wrap("equal", generic_item(bench.deployment("equal", 2, cpu="550m"), podsets=sized(2, "550m")))
    bench.run_till_running({"equal": 2})
    assert (bench.shown("equal"), bench.conditions("equal")) == (RUNS, STARTED)
    assert_never_started(bench, "big", "compute", "over")
    again = bench.run()
    assert {name: starts(again, name) for name in ("big", "compute", "over")} == {"big": 0, "compute": 0, "over": 0}
    assert_never_started(bench, "big", "compute", "over")


def test_time_limit(bench: Bench) -> None:
    """Failed at the limit, with nothing left of it, and failed for good."""
    bench.furnish(AS_MCAD)
    limited = bench.job("limited", 2, cpu="500m")
    bench.wrap("limited", limited, scheduling={"dispatchDuration": {"limit": 2}})
    bench.run_until({"limited": "failed"})
    deadline = (
        "PreemptCandidate",
        "DispatchDeadlineExceeded",
        "Dispatch deadline exceeded. allowed to run for 2 seconds",
    )

    def assert_failed() -> None:
        assert bench.shown("limited") == ("Failed", "Failed", False)
        assert bench.conditions("limited") == [*STARTED, deadline]
        assert (bench.pods_of("limited"), bench.find(limited)) == ([], None)

    assert_failed()
    began, ended = (read_micros(item.at) or 0 for item in bench.state("limited").transitions[2:5:2])
    assert ended - began >= 2_000_000
    assert actions(bench.run(), "limited") == []
    assert_failed()


def test_completion(bench: Bench) -> None:
    """By one item, by two, and never: MCAD's words for each, and what is finished is not queued again."""
    bench.furnish(AS_MCAD)
    short = {"seconds": 1, "cpu": "10m"}
    quick = {"minAvailable": 1, "requeuing": {"timeInSeconds": 1, "growthType": "none"}}
    bench.wrap("one", generic_item(bench.job("one", 1, **short), completion="Complete"))
    bench.wrap(
        "two", *(generic_item(bench.job(f"two-{part}", 2, **short), completion="Complete") for part in ("a", "b"))
    )
    bench.wrap("waited", generic_item(bench.job("waited", 2, **short), completion="Complete"), scheduling=quick)
    bench.wrap("finished", bench.job("finished", 1, **short), scheduling=quick)
    endless = [generic_item(bench.job("part", 1, **short), completion="Complete")]
    endless.append(generic_item(bench.job("endless", 1, cpu="10m"), completion="Complete"))
    bench.wrap("half", *endless)
    progress = generic_item(bench.deployment("held", 2, cpu="10m"), completion="Progressing")
    bench.wrap("held", progress, service("held"))
    bench.wrap("service", generic_item(service("service"), completion="Complete"))
    bench.wrap("statusless", generic_item(config_map("without-status"), completion="Complete"))
    ended = ("one", "two", "waited")

    def settled() -> bool:
        done = all(bench.shown(name) == DONE for name in ended)
        counted = {name: bench.status(name).get("Succeeded") for name in ("finished", "half")}
        return done and counted == {"finished": 1, "half": 1} and bench.status("held").get("running") == 2

    bench.run_till("everything ended that ends", settled)
    for name in ended:
        assert (name, bench.conditions(name)) == (name, [*STARTED, COMPLETED])
    assert [bench.status(name)["Succeeded"] for name in ended] == [1, 4, 2]
    held = ("RunningHoldCompletion", "RunningHoldCompletion", True)
    assert (bench.shown("held"), bench.conditions("held")) == (held, [*STARTED, HOLDING])
    for name in ("finished", "half", "service", "statusless"):
        assert (name, bench.shown(name), bench.conditions(name)) == (name, RUNS, STARTED)
    for name in ("service", "statusless"):
        assert {key: bench.status(name).get(key) for key in ("running", "Succeeded", "pending")} == {
            "running": None,
            "Succeeded": None,
            "pending": None,
        }
    assert {bench.state(name).requeues for name in ("waited", "finished")} == {0}


class SlowNode:
    """A node whose pods start only when the test lets them: what slow init containers do, without the waiting."""

    def __init__(self, bench: Bench, may_run: t.Callable[[Object], bool]) -> None:
        """Pods stay pending, though bound, while may_run says no; then they run and succeed."""
        self.bench = bench
        self.may_run = may_run
        self.name = f"{bench.pool}-slow"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> SlowNode:
        """Make the node, which the simulator does not look after, and begin."""
        node = kwok_node(self.name, self.bench.pool, cpu="4")
        node["metadata"].pop("annotations")
        node["status"]["conditions"] = self._alive()
        self.bench.add_node(node)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop looking after the pods."""
        self._over.set()
        wait_for_end(self._thread)

    @staticmethod
    def _alive() -> list[Object]:
        """The condition by which a node is taken for alive."""
        moment = time_text(time.time())
        return [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": moment}]

    def _work(self) -> None:
        """What a kubelet does, as far as it matters here."""
        node = resource_path("v1", "nodes", name=self.name)
        while not self._over.wait(0.1):
            patch(self.bench.client, f"{node}/status", {"status": {"conditions": self._alive()}}, patch_type="merge")
            for pod in self.bench.pods():
                if pod["spec"].get("nodeName") == self.name and self.may_run(pod):
                    self._go_on(pod)

    def _go_on(self, pod: Object) -> None:
        """Let a pod run, or end if it runs already."""
        after = {"Pending": "Running", "Running": "Succeeded"}.get(pod["status"]["phase"])
        if after is not None:
            path = resource_path("v1", "pods", self.bench.namespace, pod["metadata"]["name"])
            with contextlib.suppress(NotFound):
                patch(self.bench.client, f"{path}/status", {"status": {"phase": after}}, patch_type="merge")


def slow_job(bench: Bench, name: str) -> Object:
    """A Job of three pods that are gone at once when they are deleted: no kubelet confirms it."""
    made = bench.job(name, 3, cpu="100m")
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    return made


def requeuing(growth: str, most: int = 0) -> Object:
    """All three pods have to run within a second, or as long as it has grown to."""
    rules = {"timeInSeconds": 1, "growthType": growth, "maxNumRequeuings": most}
    return {"minAvailable": 3, "requeuing": rules}


def patience_shown(bench: Bench, name: str) -> list[float]:
    """For how long each attempt that was taken back had too few pods, in seconds."""
    waits, since = [], 0
    for item in bench.state(name).transitions:
        if item.phase == "running":
            since = read_micros(item.at) or 0
        elif item.phase == "undoing":
            waits.append(((read_micros(item.at) or 0) - since) / 1_000_000)
    return waits


def test_requeuing(bench: Bench) -> None:
    """One gets more time at each attempt and completes; the other is stopped for good at its limit."""

    def may_run(pod: Object) -> bool:
        """Pods of the first need more time than two attempts give them, those of the other never get enough."""
        return pod["metadata"]["name"].startswith("grows") and bench.state("grows").attempt > 2

    never = slow_job(bench, "never")
    with SlowNode(bench, may_run):
        bench.wrap(
            "grows", generic_item(slow_job(bench, "grows"), completion="Complete"), scheduling=requeuing("exponential")
        )
        bench.wrap("never", generic_item(never, completion="Complete"), scheduling=requeuing("none", 3))
        bench.run_until({"grows": "complete", "never": "failed"})
    short = "Insufficient number of Running and Completed pods, minimum=3, running=0, completed=0."
    below, again = ("PreemptCandidate", "MinPodsNotRunning", short), ("Backoff", "PreemptionTriggered", short)
    assert (bench.shown("grows"), bench.conditions("grows")) == (DONE, [*STARTED, below, again, COMPLETED])
    requeues = bench.status("grows")["numberOfRequeueings"]
    assert requeues >= 2
    waited = patience_shown(bench, "grows")
    assert all(wait >= 2**number for number, wait in enumerate(waited)), waited
    assert len(waited) == requeues
    assert bench.shown("never") == ("Deleted", "Failed", False)
    assert bench.conditions("never") == [*STARTED, below, again]
    assert (bench.status("never")["numberOfRequeueings"], bench.state("never").attempt) == (3, 4)
    assert (bench.pods_of("never"), bench.find(never)) == ([], None)
    assert actions(bench.run(), "never") == []


def test_many_wrappers(bench: Bench, scale: float) -> None:
    """MCAD's 50 wrappers of two pods of 5m each, all started whole."""
    bench.furnish(AS_MCAD)
    names = [f"many-{number}" for number in range(max(5, round(50 * scale)))]
    wrappers = [app_wrapper(name, bench.namespace, [bench.deployment(name, 2, cpu="5m")]) for name in names]
    bench.cluster.create(*wrappers)
    result = bench.run_till_running(dict.fromkeys(names, 2))
    assert {name: starts(result, name) for name in names} == dict.fromkeys(names, 1)
    for name in names:
        assert (name, bench.shown(name), bench.conditions(name)) == (name, RUNS, STARTED)
        assert bench.status(name)["totalcpu"] == 10
