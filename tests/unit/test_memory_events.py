# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event sources before a cluster in memory: cuts, gaps and restarts lose no event, double none, and end the same."""

from __future__ import annotations

import json
import pathlib
import random
import typing as t
from collections.abc import Callable, Iterator

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._face.event_sources.arguments import source_fields
from ansible_collections.muster.kube.plugins.module_utils._face.event_sources.watch import _KNOWN, read_watch
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.wishes import SCALE_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._flow.events.checkpoints import (
    CheckpointEventOptions,
    checkpoints_work,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.events.collection import SourceEnd, SourceWork
from ansible_collections.muster.kube.plugins.module_utils._flow.events.observed import ToldFields
from ansible_collections.muster.kube.plugins.module_utils._flow.events.watch import (
    WatchedKind,
    WatchOptions,
    watch_work,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, ServerFault, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import (
    WRAPPER_API,
    WRAPPER_KIND,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import PHASE_LABEL, RECORD_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import PROGRESS_LABEL
from ansible_collections.muster.kube.plugins.module_utils._store.size_settings import SETTINGS_LABEL
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial, Kind, MemoryCluster, Object
from ansible_collections.muster.kube.tests.support.memory_watch import WatchedLine
from ansible_collections.muster.kube.tests.support.memory_wire import Fault
from jinja2.nativetypes import NativeEnvironment

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
Events = list[Object]
Work = Callable[[KubeClient, SourceEnd, Callable[[str], None]], SourceWork]
Step = Callable[[], None]


class Course:
    """A cluster, and a source that is read while its story goes on: a step of it whenever nothing is left to tell."""

    def __init__(self) -> None:
        """A namespace and nothing in it."""
        self.cluster = MemoryCluster()
        self.cluster.add("namespaces", {"metadata": {"name": "a"}})
        self.line = WatchedLine(self.cluster)
        self.reports: list[str] = []

    def read(self, work: Work, *story: Step) -> Events:
        """What the first part of a source tells until the story is over."""
        steps, told = iter(story), []
        client, end = self.line.client(), SourceEnd()

        def go_on() -> None:
            """The next step, or the end."""
            step = next(steps, None)
            if step is None:
                made.end()
            else:
                step()

        self.line.at_end = go_on
        made = work(client, end, self.reports.append)
        made.parts[0](told.append)
        assert next(steps, None) is None, "the source ended before the story"
        return told

    # What happens.

    def add(self, name: str, plural: str = "pods", **more: t.Any) -> Step:
        def step() -> None:
            self.cluster.add(plural, {"metadata": {"name": name, "namespace": "a"}, "spec": {}, **more})

        return step

    def end(self, name: str, phase: str = "Succeeded") -> Step:
        def edit(raw: Object) -> None:
            raw["status"] = {"phase": phase}

        return lambda: t.cast(None, self.cluster.change("pods", "a", name, edit))

    def remove(self, name: str) -> Step:
        return lambda: self.cluster.remove("pods", "a", name)

    def cut(self, *lines: int) -> Step:
        return lambda: self.line.watches.cuts.extend(lines)

    def forget(self) -> None:
        """The server knows nothing any more of what was."""
        self.line.watches.oldest = self.cluster.version
        # The connection that is open would go on.
        self.line.watches.cuts.append(0)

    def at_once(self, *steps: Step) -> Step:
        def step() -> None:
            for item in steps:
                item()

        return step


@pytest.fixture
def course() -> Course:
    return Course()


def pods(*, existing: bool = True, **settings: t.Any) -> Work:
    """Watches pods."""
    return watched(WatchedKind("v1", "Pod", **settings), existing=existing)


def watched(kind: WatchedKind, *, existing: bool = True) -> Work:
    """Watches one kind."""
    return lambda client, end, report: watch_work(client, end, WatchOptions([kind], existing), report)


def told(events: Events) -> list[tuple[t.Any, ...]]:
    """Type, name and phase."""
    return [(event["type"], event["name"], event["phase"]) for event in events]


def test_each_change_is_told_with_what_was_before(course: Course) -> None:
    course.add("one", spec={"priority": 1})()
    events = course.read(pods(), course.add("two"), course.end("one", "Failed"), course.remove("one"))
    assert told(events) == [
        ("ADDED", "one", "Pending"),
        ("ADDED", "two", "Pending"),
        ("MODIFIED", "one", "Failed"),
        ("DELETED", "one", "Failed"),
    ]
    assert [event["existing"] for event in events] == [True, False, False, False]
    assert events[2]["before"] == {"phase": "Pending", "outcome": None, "suspended": False, "conditions": {}}
    assert (events[2]["outcome"], events[0]["before"]) == ("failed", None)
    assert events[3]["object"]["spec"] == {"priority": 1}
    assert json.loads(json.dumps(events)) == events


def test_what_is_there_need_not_be_told(course: Course) -> None:
    course.add("one")()
    assert told(course.read(pods(existing=False), course.end("one"))) == [("MODIFIED", "one", "Succeeded")]


def test_a_cut_loses_and_doubles_nothing(course: Course) -> None:
    several = course.at_once(course.add("one"), course.add("two"), course.end("one"), course.cut(1, 0, 1, 2))
    events = course.read(pods(), several, course.remove("two"))
    assert told(events) == [
        ("ADDED", "one", "Pending"),
        ("ADDED", "two", "Pending"),
        ("MODIFIED", "one", "Succeeded"),
        ("DELETED", "two", "Pending"),
    ]
    assert not any(event["missed"] for event in events)


def test_after_410_all_that_happened_is_told_deletions_too(course: Course) -> None:
    for name in ("stays", "ends", "goes", "comes-again"):
        course.add(name, metadata={"name": name, "namespace": "a", "labels": {"app": name}})()
    gap = course.at_once(
        course.end("ends"),
        course.remove("goes"),
        course.remove("comes-again"),
        course.add("comes-again"),
        course.add("new"),
        course.forget,
    )
    events = course.read(pods(), gap, course.end("stays"))
    assert told(events[:4]) == [("ADDED", name, "Pending") for name in ("stays", "ends", "goes", "comes-again")]
    assert sorted(told(events[4:6])) == [("DELETED", "comes-again", "Pending"), ("DELETED", "goes", "Pending")]
    assert told(events[6:]) == [
        ("MODIFIED", "ends", "Succeeded"),
        ("ADDED", "comes-again", "Pending"),
        ("ADDED", "new", "Pending"),
        ("MODIFIED", "stays", "Succeeded"),
    ]
    assert [event["missed"] for event in events[4:]] == [True] * 5 + [False]
    gone = next(event for event in events if event["type"] == "DELETED" and event["name"] == "goes")
    assert gone["object"]["metadata"]["labels"] == {"app": "goes"}


def test_a_long_outage_ends_nothing(course: Course) -> None:
    course.add("one")()
    away = course.at_once(
        lambda: course.line.watches.refusals.extend([503] * 30), course.remove("one"), course.add("two"), course.cut(0)
    )
    events = course.read(pods(), away)
    assert sorted(told(events)) == [
        ("ADDED", "one", "Pending"),
        ("ADDED", "two", "Pending"),
        ("DELETED", "one", "Pending"),
    ]
    assert set(course.reports) == {"Cannot watch pods: by the test (HTTP 503); it is tried again"}


def test_a_server_that_cannot_be_had_at_the_beginning_is_told(course: Course) -> None:
    course.line.faults.append(Fault("lose", times=100))
    with pytest.raises(Unreachable):
        course.read(pods())
    course.line.faults[:] = [Fault("refuse", path="/pods", times=100, status=500)]
    with pytest.raises(ServerFault):
        course.read(pods())


def test_what_is_refused_is_told_at_any_time(course: Course) -> None:
    with pytest.raises(Forbidden, match="list pods"):
        course.read(
            pods(),
            course.at_once(course.add("one"), lambda: course.cluster.denials.append(Denial(".*")), course.forget),
        )


def test_only_what_is_asked_for_is_told(course: Course) -> None:
    watched = pods(
        label_selector="app=x",
        types=("MODIFIED", "DELETED"),
        fields=ToldFields([("metadata", "labels"), ("spec", "none")], [("phase",), ("spec", "nodeName")]),
    )

    def labeled(value: str) -> Step:
        def edit(raw: Object) -> None:
            raw["metadata"]["labels"] = {"app": value, "other": "y"}

        return lambda: t.cast(None, course.cluster.change("pods", "a", "one", edit))

    course.add("one", metadata={"name": "one", "namespace": "a", "labels": {"app": "x"}})()
    course.add("foreign")()
    story = labeled("x"), course.end("foreign"), course.end("one"), course.end("one"), labeled("z"), course.end("one")
    events = course.read(watched, *story)
    assert told(events) == [("MODIFIED", "one", "Succeeded"), ("DELETED", "one", "Succeeded")]
    assert events[0]["object"] == {"metadata": {"labels": {"app": "x", "other": "y"}}}


def test_secrets_keep_what_they_hold(course: Course) -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "hidden", "other": "shown"}
    applied |= {"objectset.rio.cattle.io/applied": "hidden", "kapp.k14s.io/original": "hidden"}
    metadata = {"name": "key", "namespace": "a", "annotations": applied}
    course.cluster.add(
        "secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"key": "hidden"}}
    )
    kind = WatchedKind("v1", "Secret")
    events = course.read(watched(kind))
    assert "hidden" not in json.dumps(events)
    assert events[0]["object"]["metadata"]["annotations"] == {"other": "shown"}


def test_a_kind_that_comes_later_is_waited_for(course: Course) -> None:
    kind = WatchedKind("jobset.x-k8s.io/v1alpha2", "JobSet")
    served = Kind("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", has_status=True)
    looks = 0

    def come(_method: str, path: str) -> None:
        """Its operator is installed after a while."""
        nonlocal looks
        looks += path == "/apis/jobset.x-k8s.io/v1alpha2"
        if looks == 3 and "jobsets" not in course.cluster.kinds:
            course.cluster.serve(served)
            course.add("one", "jobsets")()

    course.line.before = come
    work = watched(kind)
    assert told(course.read(work)) == [("ADDED", "one", None)]
    assert course.reports == ["no JobSet of jobset.x-k8s.io/v1alpha2 is served; it is looked for each minute"]


def test_a_kind_that_never_comes_is_a_mistake(course: Course) -> None:
    kind = WatchedKind("v1", "Pot")
    with pytest.raises(BadInput, match=r"there is no such kind; did you mean Pod\?"):
        course.read(watched(kind))


def test_a_kind_that_comes_to_a_group_that_is_served_is_seen_too(course: Course) -> None:
    course.cluster.serve(Kind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", has_status=True))
    looks = 0

    def come(_method: str, path: str) -> None:
        """The operator learns one kind more."""
        nonlocal looks
        looks += path == "/apis/kubeflow.org/v1"
        if looks == 3 and "mpijobs" not in course.cluster.kinds:
            course.cluster.serve(Kind("kubeflow.org/v1", "MPIJob", "mpijobs", has_status=True))
            course.add("one", "mpijobs")()

    course.line.before = come
    assert told(course.read(watched(WatchedKind("kubeflow.org/v1", "MPIJob")))) == [("ADDED", "one", None)]


# What the rulebook elastic hears of.


def heard_by_rulebook(source: str, kind: str, turn: int = 0) -> Work:
    """Watches what a source of the rulebook watches of a kind."""
    (book,) = yaml.safe_load((REPOSITORY / "extensions/eda/rulebooks/elastic.yml").read_text(encoding="utf-8"))
    (entry,) = (item for item in book["sources"] if item["name"] == source)
    rendered = NativeEnvironment().from_string(json.dumps(entry["muster.kube.watch"])).render()
    args = json.loads(rendered) if isinstance(rendered, str) else rendered
    for name in ("kubeconfig", "context"):
        assert args.pop(name) == ""
    options = read_watch(source_fields("watch", {**args, "namespaces": []}, _KNOWN))
    found = [item for item in options.kinds if item.kind == kind]
    return watched(found[turn], existing=options.existing)


def test_the_rulebook_hears_of_all_kinds_that_end() -> None:
    text = (REPOSITORY / "extensions/eda/rulebooks/elastic.yml").read_text(encoding="utf-8")
    (book,) = yaml.safe_load(text)
    heard = {
        (kind.get("api_version", "v1").rpartition("/")[0], kind["kind"])
        for source in book["sources"]
        for kind in source.get("muster.kube.watch", {}).get("kinds", ())
    }
    # And of those by whose deletion alone GPUs become free before their pods have gone.
    others = {("leaderworkerset.x-k8s.io", "LeaderWorkerSet"), ("ray.io", "RayCluster"), ("ray.io", "RayService")}
    assert {key for key, kind in KINDS.items() if kind.ending is not None} | others <= heard
    assert (WRAPPER_API.partition("/")[0], WRAPPER_KIND) in heard


def changes(course: Course, plural: str, namespace: str, name: str, **fields: t.Any) -> Step:
    """A change of an object; of its metadata what is given is added."""

    def edit(raw: Object) -> None:
        for field, value in fields.items():
            if field in ("labels", "annotations"):
                raw["metadata"].setdefault(field, {}).update(value)
            else:
                raw[field] = value

    return lambda: t.cast(None, course.cluster.change(plural, namespace, name, edit))


def test_the_rulebook_hears_of_wishes_of_the_http_service(course: Course) -> None:
    course.cluster.add("configmaps", {"metadata": {"name": "g", "namespace": "a", "labels": {RECORD_LABEL: "gang"}}})
    noted = changes(course, "configmaps", "a", "g", annotations={"muster.kube/state": "{}"})
    wished = changes(course, "configmaps", "a", "g", annotations={SCALE_ANNOTATION: "{}"})
    assert told(course.read(heard_by_rulebook("gangs", "ConfigMap"), noted, wished)) == [("MODIFIED", "g", None)]


@pytest.mark.parametrize(("turn", "label"), [(0, TREE_LABEL), (1, SETTINGS_LABEL)])
def test_the_rulebook_hears_of_quota_trees_and_settings(course: Course, turn: int, label: str) -> None:
    course.cluster.add("namespaces", {"metadata": {"name": "muster-system"}})
    for name, labels in (("other", {}), ("tree", {label: "tree"})):
        metadata = {"name": name, "namespace": "muster-system", "labels": labels}
        course.cluster.add("configmaps", {"metadata": metadata, "data": {"x": "1"}})
    steps = [changes(course, "configmaps", "muster-system", name, data={"x": "2"}) for name in ("other", "tree")]
    noted = changes(course, "configmaps", "muster-system", "tree", annotations={"muster.kube/used": "1"})
    found = told(course.read(heard_by_rulebook("room", "ConfigMap", turn), *steps, noted))
    assert found == [("MODIFIED", "tree", None)]


def test_the_rulebook_hears_of_appwrappers_once_they_are_served(course: Course) -> None:
    looks = 0

    def come(_method: str, path: str) -> None:
        nonlocal looks
        looks += path == f"/apis/{WRAPPER_API}"
        if looks == 2 and "appwrappers" not in course.cluster.kinds:
            course.cluster.serve_wrappers()
            labels = {"muster.kube/managed": "true"}
            metadata = {"name": "w", "namespace": "a", "labels": labels}
            course.cluster.add("appwrappers", {"metadata": metadata, "spec": {"priority": 1}})

    course.line.before = come
    edited = changes(course, "appwrappers", "a", "w", spec={"priority": 2})
    noted = changes(course, "appwrappers", "a", "w", annotations={"muster.kube/state": "{}"})
    found = told(course.read(heard_by_rulebook("gangs", "AppWrapper"), noted, edited))
    assert found == [("ADDED", "w", None), ("MODIFIED", "w", None)]


def test_the_rulebook_hears_of_appwrappers_that_end(course: Course) -> None:
    course.cluster.serve_wrappers()
    labels = {"muster.kube/managed": "true", PHASE_LABEL: "queued"}
    course.cluster.add("appwrappers", {"metadata": {"name": "w", "namespace": "a", "labels": labels}, "spec": {}})
    steps = [
        changes(course, "appwrappers", "a", "w", labels={PHASE_LABEL: phase}) for phase in ("dispatched", "complete")
    ]
    found = told(course.read(heard_by_rulebook("gangs", "AppWrapper", 1), *steps))
    assert found == [("ADDED", "w", None), ("MODIFIED", "w", None)]


def test_kinds_without_namespaces_are_watched_once(course: Course) -> None:
    kind = WatchedKind("v1", "Namespace", ("a", "b", "a"))
    client = course.line.client()
    work = watch_work(client, SourceEnd(), WatchOptions([kind]), course.reports.append)
    assert [part.args[2].first for part in work.parts] == [True, False]  # type: ignore[attr-defined]


# Random stories: whoever keeps a picture by the events has the right one.


class Picture:
    """What somebody knows who saw nothing but events."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.phases: dict[str, str | None] = {}
        self.versions: dict[str, int] = {}
        self.gone: set[str] = set()

    def take(self, events: Events) -> None:
        """Each event fits what was told before it."""
        for event in events:
            uid, version = event["uid"], int(event["resource_version"])
            assert uid not in self.gone, f"told again after it was deleted: {event}"
            assert (event["type"] == "ADDED") == (uid not in self.phases), event
            if event["type"] == "DELETED":
                self.gone.add(uid)
                del self.phases[uid]
                continue
            assert version > self.versions.get(uid, 0), f"told twice: {event}"
            self.versions[uid] = version
            if event["before"] is not None:
                assert event["before"]["phase"] == self.phases[uid]
            self.phases[uid] = event["phase"]

    def restarted(self) -> Picture:
        """Somebody who begins anew."""
        return Picture()


def random_story(course: Course, rng: random.Random, length: int) -> Iterator[Step]:
    """Changes, several at once now and then, cuts and gaps."""
    names = [f"pod-{number}" for number in range(6)]
    for _turn in range(length):
        steps = []
        for _change in range(rng.randrange(4)):
            name = rng.choice(names)
            there = course.cluster.get("pods", "a", name)
            choices = [course.remove(name), course.end(name), course.end(name, f"P{rng.randrange(9)}")]
            steps.append(lambda name=name: _toggle(course, name, random.Random(name)))
            steps.append(rng.choice(choices) if there else lambda name=name: _toggle(course, name, random.Random(name)))
        trouble = rng.random()
        if trouble < 0.25:
            steps.append(course.cut(*(rng.randrange(3) for _cut in range(rng.randrange(1, 4)))))
        elif trouble < 0.5:
            steps.append(course.forget)
        elif trouble < 0.6:
            steps.append(lambda: course.line.watches.refusals.extend([503] * 12))
        yield course.at_once(*steps)


def _toggle(course: Course, name: str, rng: random.Random) -> None:
    """Add a pod, or end it if it is there."""
    if course.cluster.get("pods", "a", name) is None:
        course.add(name)()
    else:
        course.end(name, f"P{rng.randrange(9)}")()


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_the_picture_is_right_in_the_end(course: Course, seed: int) -> None:
    rng = random.Random(seed)
    picture = Picture()
    for _run in range(3):
        picture = picture.restarted()
        picture.take(course.read(pods(), *random_story(course, rng, 15)))
        there = {pod["metadata"]["uid"]: (pod.get("status") or {}).get("phase") for pod in course.cluster.all("pods")}
        assert picture.phases == there


# Checkpoints.


def checkpoints(**settings: t.Any) -> Work:
    options = CheckpointEventOptions(**settings)
    return lambda client, end, report: checkpoints_work(client, end, options, report)


def saved(*entries: tuple[float, int]) -> str:
    return json.dumps({"format": 1, "checkpoints": [list(entry) for entry in entries]})


def progress(course: Course, gang: str, text: str | None = None, last: tuple[float, int] | None = None) -> Step:
    """The progress of a gang, with what dispatchers took in and what its trainer told last."""
    data = {} if text is None else {"progress.json": text}
    if last is not None:
        told = {"format": 1, "time": last[0], "step": last[1], "checkpoint": {"time": last[0], "step": last[1]}}
        data["report.json"] = json.dumps(told)

    def step() -> None:
        name = f"muster-progress-{gang}"
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": gang, "uid": f"uid-{gang}"}
        metadata = {"name": name, "namespace": "a", "labels": {PROGRESS_LABEL: "true"}, "ownerReferences": [owner]}
        if not course.cluster.change("configmaps", "a", name, lambda raw: raw.update(data=data)):
            course.cluster.add("configmaps", {"metadata": metadata, "data": data})

    return step


def steps_of(events: Events) -> list[tuple[str, int]]:
    return [(event["gang"], event["step"]) for event in events]


def test_each_checkpoint_is_told_once(course: Course) -> None:
    progress(course, "one", saved((1.0, 10), (2.0, 20)))()
    events = course.read(
        checkpoints(),
        progress(course, "one", saved((1.0, 10), (2.0, 20)), (3.0, 30)),
        # A dispatcher takes the report in, by its own clock.
        progress(course, "one", saved((1.0, 10), (2.0, 20), (2.9, 30)), (3.0, 30)),
        # A training that began again.
        progress(course, "one", saved((1.0, 10), (2.0, 20), (2.9, 30)), (4.0, 5)),
        progress(course, "two", None, (5.0, 1)),
        course.at_once(
            progress(course, "one", saved((2.9, 30), (6.0, 40), (7.0, 50)), (7.0, 50)),
            progress(course, "two", None, (8.0, 2)),
            course.forget,
        ),
    )
    assert steps_of(events) == [("one", 20), ("one", 30), ("two", 1), ("one", 40), ("one", 50), ("two", 2)]
    assert events[0] == {
        "type": "CHECKPOINT",
        "gang": "one",
        "namespace": "a",
        "step": 20,
        "time": "1970-01-01T00:00:02.000000Z",
        "asked": False,
        "resize_waits": False,
        "resize": None,
    }


def test_old_checkpoints_need_not_be_told(course: Course) -> None:
    progress(course, "one", saved((1.0, 10)))()
    events = course.read(checkpoints(existing=False), progress(course, "one", saved((1.0, 10), (2.0, 20))))
    assert steps_of(events) == [("one", 20)]


def test_a_gang_that_was_queued_again_begins_anew(course: Course) -> None:
    progress(course, "one", saved((1.0, 100)))()
    gone = course.at_once(
        lambda: course.cluster.remove("configmaps", "a", "muster-progress-one"), progress(course, "one"), course.forget
    )
    events = course.read(checkpoints(), gone, progress(course, "one", saved((2.0, 7))))
    assert steps_of(events) == [("one", 100), ("one", 7)]


def test_damaged_and_foreign_progress_tells_nothing(course: Course) -> None:
    progress(course, "one", "no JSON")()
    labeled = {"name": "foreign", "namespace": "a", "labels": {PROGRESS_LABEL: "true"}}
    course.cluster.add("configmaps", {"metadata": labeled, "data": {"progress.json": saved((1.0, 1))}})
    # Whoever reports may make up any time.
    events = course.read(checkpoints(), progress(course, "one", None, (9.9e17, 3)), progress(course, "two", "{}"))
    assert [(event["step"], event["time"]) for event in events] == [(3, "9999-12-31T23:59:59.000000Z")]


def test_objects_that_say_nonsense_are_told_all_the_same(course: Course) -> None:
    job = Kind("batch/v1", "Job", "jobs", has_status=True)
    course.cluster.serve(job)
    nonsense = [{"status": "text"}, {"status": {"conditions": ["x", {"type": 1}], "phase": 7}}, {"spec": [1]}]

    def edit(more: Object) -> Step:
        return lambda: t.cast(None, course.cluster.change("jobs", "a", "one", lambda raw: raw.update(more)))

    course.add("one", "jobs")()
    events = course.read(watched(WatchedKind("batch/v1", "Job")), *(edit(more) for more in nonsense))
    assert [event["type"] for event in events] == ["ADDED"] + ["MODIFIED"] * 3
    assert {event["outcome"] for event in events} == {None}
