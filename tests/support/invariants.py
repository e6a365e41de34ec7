# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must never happen, counted from the cluster alone: every change is recorded and replayed in the store's order.

Resource versions of one store are one sequence over all kinds, so sorting by them gives the state of everything at
every moment, however short. Nothing here asks the dispatcher, and its annotation is read as plain JSON.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import json
import threading
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Gone, KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import watch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import podset_label
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import running_pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import node_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import describe
from ansible_collections.muster.kube.tests.support.gang_cases import POOL_LABEL, THIEF_LABEL

Object = dict[str, t.Any]
Amounts = t.Mapping[str, int]

KINDS = (("v1", "configmaps"), ("v1", "services"), ("batch/v1", "jobs"), ("v1", "pods"))
WRAPPERS = ("workload.codeflare.dev/v1beta1", "appwrappers")
LEASES = ("coordination.k8s.io/v1", "leases")
UNDOING = ("undoing", "evicting", "resizing")
STARTED = ("dispatching", "dispatched", "running", "rescaling")
WHOLE = ("dispatched", "running")
AT_REST = (*WHOLE, "queued", "suspended", "failed", "complete")
FINISHED = ("Succeeded", "Failed")
GPU = "nvidia.com/gpu"
# Never reached when things work.
PATIENCE = 60.0


@dataclasses.dataclass(frozen=True)
class Seen:
    """One change of one object; version is its place in the order of all changes, at the moment when it was seen."""

    version: int
    plural: str
    gone: bool
    object: Object
    at: float = 0.0


@dataclasses.dataclass
class Findings:
    """What went wrong, in words, by kind of wrong; gaps are changes that may have been missed."""

    partial: list[str] = dataclasses.field(default_factory=list)
    double_starts: list[str] = dataclasses.field(default_factory=list)
    room_twice: list[str] = dataclasses.field(default_factory=list)
    orphans: list[str] = dataclasses.field(default_factory=list)
    foreign: list[str] = dataclasses.field(default_factory=list)
    lost: list[str] = dataclasses.field(default_factory=list)
    outcomes: list[str] = dataclasses.field(default_factory=list)
    # About gangs that may have several sizes, and objects that get one although they are not to.
    sizes: list[str] = dataclasses.field(default_factory=list)
    gaps: int = 0
    phases: dict[str, str] = dataclasses.field(default_factory=dict)
    attempts: dict[str, int] = dataclasses.field(default_factory=dict)

    def clean(self) -> bool:
        """Whether nothing was found."""
        return not any(self.counts().values())

    def counts(self) -> dict[str, int]:
        """How often each thing happened."""
        names = ("partial", "double_starts", "room_twice", "orphans", "foreign", "lost", "outcomes", "sizes")
        return {name: len(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        """All of it, for a failing test."""
        lines = [f"{name}: {text}" for name in self.counts() for text in getattr(self, name)]
        return "\n".join([str(self.counts()), *lines, f"phases: {self.phases}"])


class Recorder:
    """Sees every change in some namespaces while its with block lasts."""

    def __init__(
        self,
        cluster: t.Any,
        namespaces: t.Iterable[str],
        *,
        kinds: t.Sequence[tuple[str, str]] = KINDS,
        expected: t.Iterable[str] = (),
    ) -> None:
        """Expected names the gangs ("namespace/name") that must not get lost; more can be added until the report."""
        self.expected: set[str] = set(expected)
        self.foreign: dict[str, Object] = {}
        self._cluster = cluster
        self._namespaces = frozenset(namespaces)
        self._streams = [_Stream(cluster.kubeconfig, version, plural, self._namespaces) for version, plural in kinds]
        self._nodes: dict[str, Object] = {}

    def __enter__(self) -> Recorder:
        """Begin; what exists already is the beginning of the history."""
        self._note_nodes()
        for stream in self._streams:
            stream.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        """End all watches."""
        for stream in self._streams:
            stream.stop()

    def watch_over(self, *objects: Object) -> None:
        """These, as they were created or read, are foreign: nobody may change or delete them."""
        self.foreign.update({obj["metadata"]["uid"]: obj for obj in objects})

    def present(self, plural: str, namespace: str) -> list[Object]:
        """The objects of one of the kinds in a namespace, as they were seen last."""
        return [
            obj
            for stream in self._streams
            if stream.plural == plural
            for obj in stream.present()
            if obj["metadata"]["namespace"] == namespace
        ]

    def catch_up(self, *plurals: str) -> None:
        """Wait until all changes of these kinds up to now were seen; of all kinds when none is named."""
        for stream in self._streams:
            if not plurals or stream.plural in plurals:
                stream.catch_up(self._cluster.client)

    def report(self) -> Findings:
        """Everything found so far, after all changes up to now were seen."""
        self._note_nodes()
        self.catch_up()
        findings = judge(self.history(), list(self._nodes.values()), self.foreign, self.expected)
        findings.gaps = sum(stream.gaps for stream in self._streams)
        return findings

    def history(self) -> list[Seen]:
        """All changes that were seen, in their order."""
        return sorted((seen for stream in self._streams for seen in stream.history()), key=lambda seen: seen.version)

    def settled(self, accept: t.Callable[[Findings], bool] = Findings.clean, seconds: float = PATIENCE) -> Findings:
        """The report as soon as it is acceptable, the last one when it never is: the garbage collector needs time."""
        end = time.monotonic() + seconds
        while True:
            findings = self.report()
            if accept(findings) or time.monotonic() > end:
                return findings
            time.sleep(0.2)

    def _note_nodes(self) -> None:
        """Remember the nodes."""
        found = list_objects(self._cluster.client, resource_path("v1", "nodes"), keep=lambda node: node).items
        self._nodes.update({node["metadata"]["name"]: node for node in found})


class _Stream:
    """The changes of one kind, from a watch in a thread of its own."""

    def __init__(self, kubeconfig: str, api_version: str, plural: str, namespaces: frozenset[str]) -> None:
        """Nothing seen yet."""
        self.plural = plural
        self.gaps = 0
        self._client: KubeClient = connect({"kubeconfig": kubeconfig})
        self._path = resource_path(api_version, plural)
        self._namespaces = namespaces
        self._lock = threading.Lock()
        self._seen: list[Seen] = []
        self._now: dict[str, Object] = {}
        self._version = ""
        self._thread = threading.Thread(target=self._run, name=f"recorder-{plural}", daemon=True)

    def start(self) -> None:
        """List what exists, then watch."""
        self._list()
        self._thread.start()

    def stop(self) -> None:
        """End the watch."""
        self._client.close()
        self._thread.join(PATIENCE)

    def history(self) -> list[Seen]:
        """All changes so far."""
        with self._lock:
            return list(self._seen)

    def present(self) -> list[Object]:
        """What exists, as far as was seen."""
        with self._lock:
            return list(self._now.values())

    def catch_up(self, client: KubeClient) -> None:
        """Wait until the watch has shown what a fresh list shows."""
        listing = list_objects(client, self._path, keep=self._ours)
        wanted = {obj["metadata"]["uid"]: int(obj["metadata"]["resourceVersion"]) for obj in listing.items}
        end = time.monotonic() + PATIENCE
        while not self._has_seen(wanted, int(listing.resource_version)):
            if time.monotonic() > end:
                raise AssertionError(f"the watch of {self.plural} fell behind")
            time.sleep(0.02)

    def _has_seen(self, wanted: t.Mapping[str, int], version: int) -> bool:
        """Whether everything of a list of that version was seen, as it is there or later, and nothing older is left."""
        with self._lock:
            newest: dict[str, float] = {}
            for seen in self._seen:
                newest[seen.object["metadata"]["uid"]] = float("inf") if seen.gone else seen.version
            left = [uid for uid in self._now if uid not in wanted and newest[uid] <= version]
            return not left and all(newest.get(uid, 0) >= listed for uid, listed in wanted.items())

    def _ours(self, obj: Object) -> Object | None:
        """Objects of our namespaces only, without what takes memory and tells nothing."""
        if obj["metadata"].get("namespace") not in self._namespaces:
            return None
        obj["metadata"].pop("managedFields", None)
        return obj

    def _run(self) -> None:
        """The thread."""
        while not self._client.closed:
            try:
                for event in watch(self._client, self._path, self._version):
                    self._version = event.object["metadata"]["resourceVersion"]
                    if self._ours(event.object) is not None:
                        self._note(event.object, gone=event.type == "DELETED")
            except Gone:
                self.gaps += 1
                with contextlib.suppress(KubeError):
                    self._list()
            except KubeError:
                # An API server that restarts; the version is kept.
                time.sleep(0.1)

    def _list(self) -> None:
        """Take the present as it is; after a gap the differences become changes."""
        listing = list_objects(self._client, self._path, keep=self._ours)
        present = {obj["metadata"]["uid"] for obj in listing.items}
        for uid, obj in list(self._now.items()):
            if uid not in present:
                self._note(obj, gone=True, version=int(listing.resource_version))
        for obj in listing.items:
            known = self._now.get(obj["metadata"]["uid"])
            if known is None or known["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._note(obj, gone=False)
        self._version = listing.resource_version

    def _note(self, obj: Object, *, gone: bool, version: int | None = None) -> None:
        """Keep one change."""
        uid = obj["metadata"]["uid"]
        with self._lock:
            place = version or int(obj["metadata"]["resourceVersion"])
            self._seen.append(Seen(place, self.plural, gone, obj, time.monotonic()))
            if gone:
                self._now.pop(uid, None)
            else:
                self._now[uid] = obj


def judge(
    history: t.Sequence[Seen],
    nodes: t.Sequence[Object],
    foreign: t.Mapping[str, Object],
    expected: t.Iterable[str],
) -> Findings:
    """Replay a history in order and count what must not be."""
    replay = _Replay(nodes, foreign)
    for seen in history:
        replay.take(seen)
    replay.look_at_the_end(expected)
    return replay.findings


@dataclasses.dataclass(frozen=True)
class _Gang:
    """A record at one moment."""

    uid: str
    key: str
    phase: str
    attempt: int
    ticket: str | None
    objects: tuple[Object, ...]
    readable: bool
    # The size of an elastic gang while it is started, and between which it may be: axis, least and most.
    size: int | None = None
    range: tuple[str, int, int] | None = None
    # Which resize of its objects it is at; empty for none.
    resize: str = ""

    @property
    def sized(self) -> tuple[Object, ...]:
        """The objects with the size that the gang has now."""
        if self.range is None or self.size is None:
            return self.objects
        return sized(self.objects, self.range[0], self.size)

    @property
    def owned(self) -> list[tuple[str, str]]:
        """Kind and name of the objects that live and die with an attempt; generated names are not known here."""
        return [(obj["kind"], obj["metadata"].get("name", "")) for obj in self.objects if not _kept(obj)]


def _kept(obj: Object) -> bool:
    """Whether an object survives an undo."""
    annotations = obj["metadata"].get("annotations") or {}
    return obj["kind"] == "PersistentVolumeClaim" or annotations.get("muster.kube/keep") == "true"


def _labels(obj: Object) -> t.Mapping[str, str]:
    """The labels of an object."""
    return obj["metadata"].get("labels") or {}


def _owners(obj: Object) -> list[str]:
    """The uids of an object's owners."""
    return [item["uid"] for item in obj["metadata"].get("ownerReferences") or ()]


def _key(obj: Object) -> str:
    """Namespace and name."""
    return f"{obj['metadata'].get('namespace')}/{obj['metadata']['name']}"


def _title(plural: str, obj: Object) -> str:
    """Kind, namespace and name."""
    return f"{plural} {_key(obj)}"


def gang_of(plural: str, obj: Object) -> _Gang | None:
    """The gang a record holds; None when the object is no record."""
    range_: Object | None = None
    if plural == "appwrappers":
        items = ((obj.get("spec") or {}).get("resources") or {}).get("GenericItems") or ()
        objects = tuple(item["generictemplate"] for item in items)
    elif plural == "configmaps" and _labels(obj).get("muster.kube/record") == "gang":
        data = json.loads(obj["data"]["gang.json"])
        objects, range_ = tuple(data["objects"]), (data.get("elastic") or {}).get("range")
    else:
        return None
    text = (obj["metadata"].get("annotations") or {}).get("muster.kube/state")
    state: Object = {}
    readable = True
    if text is not None:
        try:
            state = json.loads(text)
            readable = isinstance(state, dict) and "phase" in state
        except ValueError:
            readable = False
    return _Gang(
        uid=obj["metadata"]["uid"],
        key=_key(obj),
        phase=state.get("phase", "queued") if readable else "unknown",
        attempt=int(state.get("attempt", 1)) if readable else 0,
        ticket=state.get("ticket") if readable else None,
        objects=objects,
        readable=readable,
        size=state.get("allotment") if readable else None,
        range=None if range_ is None else (range_.get("axis", "per_pod"), *_bounds(range_)),
        resize=_resize_id(state) if readable else "",
    )


def _bounds(range_: Object) -> tuple[int, int]:
    """The least and the most of a range."""
    sizes = range_.get("sizes") or (range_["min"], range_["max"])
    return min(sizes), max(sizes)


def _resize_id(state: Object) -> str:
    """The resize of its objects that a gang is at; empty for none."""
    return str((state.get("resize") or {}).get("id", "")) if state.get("phase") == "rescaling" else ""


def sized(objects: t.Sequence[Object], axis: str, size: int) -> tuple[Object, ...]:
    """The objects of an elastic gang as they are made with a size."""
    made = copy.deepcopy(tuple(objects))
    for item in made:
        replicas = (item.get("spec") or {}).get("pytorchReplicaSpecs") or {}
        if item["kind"] == "Job" and axis == "pods":
            item["spec"].update(parallelism=size, completions=size)
            continue
        for holder in (*replicas.values(), *([item["spec"]] if item["kind"] == "Job" else ())):
            for container in holder["template"]["spec"]["containers"]:
                container["resources"]["requests"][GPU] = container["resources"]["limits"][GPU] = str(size)
    return made


def size_of(job: Object, axis: str) -> int:
    """The size that a Job of an elastic gang has."""
    if axis == "pods":
        return int(job["spec"]["parallelism"])
    return int(job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][GPU])


def _mark(job: Object) -> str:
    """Which patch of a resize a Job had last."""
    return str((job["metadata"].get("annotations") or {}).get("muster.kube/resize", ""))


class _Replay:
    """The state of everything while a history is replayed."""

    def __init__(self, nodes: t.Sequence[Object], foreign: t.Mapping[str, Object]) -> None:
        """An empty cluster with these nodes."""
        self.findings = Findings()
        self.foreign = foreign
        self.pool_of_node = {node["metadata"]["name"]: _labels(node).get(POOL_LABEL, "") for node in nodes}
        self.room: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for node in nodes:
            pool = self.pool_of_node[node["metadata"]["name"]]
            self.room[pool].update(node_from_api(node).allocatable)
        self.gangs: dict[str, _Gang] = {}
        self.tickets: dict[str, Object] = {}
        self.children: dict[str, tuple[str, Object]] = {}
        self.pods: dict[str, Object] = {}
        self.others: dict[str, tuple[str, Object]] = {}
        # Objects whose ticket was gone when they appeared: the collector takes them and what belongs to them.
        self.late: set[str] = set()
        self.attempt_of: dict[str, int] = {}
        # Jobs that were seen to fail, by gang and attempt; they stay known when they are gone.
        self.failed: dict[tuple[str, int], set[str]] = collections.defaultdict(set)
        self._podsets: dict[str, list[t.Any]] = {}
        # As they were last read, also when they are gone: ranges by gang, and the patches that Jobs have had.
        self.ranges: dict[str, tuple[str, int, int]] = {}
        self.resizes: dict[str, str] = {}
        self.marks: dict[str, str] = {}

    # One change after the other.

    def take(self, seen: Seen) -> None:
        """Apply one change and look whether it makes something happen that must not."""
        obj, uid = seen.object, seen.object["metadata"]["uid"]
        if uid in self.foreign:
            self._take_foreign(seen)
            return
        gang = gang_of(seen.plural, obj)
        if gang is not None:
            self.resizes[gang.uid] = gang.resize
            if gang.range is not None:
                self.ranges[gang.uid] = gang.range
            self._take_record(gang, seen.gone)
        elif _labels(obj).get("muster.kube/ticket") == "true":
            _put(self.tickets, uid, obj, seen.gone)
        elif "muster.kube/gang" in _labels(obj) and "muster.kube/attempt" in _labels(obj):
            self._take_child(seen)
        else:
            _put(self.others, uid, (seen.plural, obj), seen.gone)
        if seen.plural == "pods":
            self._take_pod(seen)

    def _take_foreign(self, seen: Seen) -> None:
        """A foreign object may only stay as it is."""
        planted = self.foreign[seen.object["metadata"]["uid"]]
        same = int(planted["metadata"]["resourceVersion"]) >= seen.version
        if seen.gone or not same:
            word = "deleted" if seen.gone else "changed"
            self.findings.foreign.append(f"{_title(seen.plural, seen.object)} was {word} at {seen.version}")

    def _take_record(self, gang: _Gang, gone: bool) -> None:
        """A record changes; entering a phase is a promise about objects and room."""
        before = self.gangs.get(gang.uid)
        _put(self.gangs, gang.uid, gang, gone)
        if gang.phase in WHOLE and not gone:
            self._require_size(gang)
        if gone or (before is not None and (before.phase, before.attempt) == (gang.phase, gang.attempt)):
            return
        # Of what was there at the beginning the order is not known.
        if before is not None and gang.phase in WHOLE and before.phase not in WHOLE:
            self._require_whole(gang, f"when it became {gang.phase}")
        if gang.phase == "complete":
            self._require_success(gang)
        if gang.phase in STARTED:
            self._require_room(f"{gang.key} became {gang.phase}")
        elif before is not None and before.phase in UNDOING and gang.phase not in UNDOING:
            self._require_nothing(gang, f"became {gang.phase}")

    def _take_child(self, seen: Seen) -> None:
        """An object of a gang appears, changes or goes."""
        obj, uid = seen.object, seen.object["metadata"]["uid"]
        if uid not in self.attempt_of:
            self.attempt_of[uid] = int(_labels(obj)["muster.kube/attempt"])
            if not any(owner in self.tickets for owner in _owners(obj)):
                self.late.add(uid)
        _put(self.children, uid, (seen.plural, obj), seen.gone)
        if seen.plural == "jobs" and not seen.gone:
            self._require_size_of(obj)
        if seen.plural == "jobs" and _has_failed(obj):
            self.failed[_labels(obj)["muster.kube/gang"], self.attempt_of[uid]].add(_title(seen.plural, obj))
        if not seen.gone:
            self._require_one_attempt(_labels(obj)["muster.kube/gang"], _title(seen.plural, obj))

    def _take_pod(self, seen: Seen) -> None:
        """A pod appears, changes or goes."""
        obj, uid = seen.object, seen.object["metadata"]["uid"]
        before = self.pods.get(uid)
        for owner in _owners(obj):
            if owner in self.attempt_of:
                self.attempt_of.setdefault(uid, self.attempt_of[owner])
            if owner in self.late:
                self.late.add(uid)
        _put(self.pods, uid, obj, seen.gone)
        if seen.gone:
            return
        if before is None and "muster.kube/gang" in _labels(obj):
            self._require_one_attempt(_labels(obj)["muster.kube/gang"], _title("pods", obj))
        if _bound(obj) and (before is None or not _bound(before)) and THIEF_LABEL not in _labels(obj):
            self._require_room(f"{_title('pods', obj)} was bound")

    # What must hold.

    def _require_one_attempt(self, gang: str, cause: str) -> None:
        """Objects and unfinished pods of one attempt only, late ones aside."""
        living = {
            self.attempt_of[uid]
            for uid, obj in [*((uid, obj) for uid, (_plural, obj) in self.children.items()), *self.pods.items()]
            if _labels(obj).get("muster.kube/gang") == gang and uid in self.attempt_of and uid not in self.late
            if (obj.get("status") or {}).get("phase") not in FINISHED
        }
        if len(living) > 1:
            name = self.gangs[gang].key if gang in self.gangs else gang
            text = f"{name}: attempts {sorted(living)} at once when {cause} appeared"
            if text not in self.findings.double_starts:
                self.findings.double_starts.append(text)

    def _require_size_of(self, job: Object) -> None:
        """A Job is made with a size that its gang may have, and is given another one by a resize of its gang alone."""
        gang, uid, title = _labels(job)["muster.kube/gang"], job["metadata"]["uid"], _title("jobs", job)
        mark = _mark(job)
        before, self.marks[uid] = self.marks.get(uid), mark
        if mark == before:
            return
        if mark and not (self.resizes.get(gang) and mark.startswith(f"{self.resizes[gang]}.")):
            self.findings.sizes.append(f"{title} has {mark} while its gang is at {self.resizes.get(gang)!r}")
        if gang in self.ranges:
            axis, least, most = self.ranges[gang]
            if not least <= size_of(job, axis) <= most:
                self.findings.sizes.append(f"{title} has size {size_of(job, axis)}, not one from {least} to {most}")

    def _require_size(self, gang: _Gang) -> None:
        """The Jobs of an elastic gang have the size that its record tells."""
        if gang.uid in self.ranges and gang.size is not None:
            sizes = {size_of(job, self.ranges[gang.uid][0]) for job in self._jobs_of(gang)}
            if sizes - {gang.size}:
                self.findings.sizes.append(f"{gang.key} is {gang.phase} with size {gang.size}, its Jobs with {sizes}")

    def _jobs_of(self, gang: _Gang) -> list[Object]:
        """The Jobs that a gang's ticket owns now."""
        jobs = (obj for plural, obj in self.children.values() if plural == "jobs")
        return [obj for obj in jobs if gang.ticket in _owners(obj)]

    def _require_whole(self, gang: _Gang, moment: str) -> None:
        """All objects of the attempt exist, owned by the ticket that the record names."""
        there = self._objects_of(gang)
        missing = collections.Counter(kind for kind, _name in gang.owned) - collections.Counter(
            kind for kind, _name in there
        )
        if missing or len(there) != len(gang.owned):
            self.findings.partial.append(
                f"{gang.key} attempt {gang.attempt} has {len(there)} of {len(gang.owned)} objects {moment}: {there}"
            )

    def _objects_of(self, gang: _Gang) -> list[tuple[str, str]]:
        """Kind and name of what the gang's ticket owns."""
        return sorted(
            (obj["kind"] if "kind" in obj else _KIND_OF[plural], obj["metadata"]["name"])
            for plural, obj in self.children.values()
            if _labels(obj)["muster.kube/gang"] == gang.uid and gang.ticket in _owners(obj)
        )

    def _require_success(self, gang: _Gang) -> None:
        """No Job of a complete gang has failed."""
        for title in sorted(self.failed.get((gang.uid, gang.attempt), ())):
            self.findings.outcomes.append(f"{gang.key} became complete although {title} failed")

    def _require_room(self, cause: str) -> None:
        """In no pool do started gangs and other pods together ask for more than there is."""
        used: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        by_podset: dict[tuple[str, str], list[Object]] = collections.defaultdict(list)
        for pod in self.pods.values():
            gang = self.gangs.get(_labels(pod).get("muster.kube/gang", ""))
            if gang is not None and gang.phase in STARTED:
                by_podset[gang.uid, _labels(pod).get("muster.kube/podset", "")].append(pod)
            elif _occupies(pod) and THIEF_LABEL not in _labels(pod):
                used[self.pool_of_node.get(pod["spec"]["nodeName"], "")].update(running_pod_requests(pod))
        for gang in self.gangs.values():
            if gang.phase in STARTED:
                for podset in self._podsets_of(gang):
                    pods = by_podset.get((gang.uid, podset_label(podset.name)), [])
                    done = sum(pod["status"].get("phase") == "Succeeded" for pod in pods)
                    count = max(podset.count - done, sum(map(_occupies, pods)))
                    pool = (podset.template["spec"].get("nodeSelector") or {}).get(POOL_LABEL, "")
                    used[pool].update({name: count * amount for name, amount in podset.requests.items()})
        for pool, amounts in used.items():
            for name, amount in sorted(amounts.items()):
                if pool and amount > self.room[pool][name]:
                    self.findings.room_twice.append(
                        f"pool {pool}: {describe(name, amount)} {name} of {describe(name, self.room[pool][name])} "
                        f"given away when {cause}"
                    )

    def _podsets_of(self, gang: _Gang) -> list[t.Any]:
        """The podsets of a gang's objects, worked out once for each size."""
        key = f"{gang.uid} {gang.size}"
        if key not in self._podsets:
            namespace = gang.key.partition("/")[0]
            self._podsets[key] = infer_podsets(gang.sized, namespace=namespace)
        return self._podsets[key]

    # The end.

    def look_at_the_end(self, expected: t.Iterable[str]) -> None:
        """What is left when nothing changes any more."""
        self.findings.phases = {gang.key: gang.phase for gang in self.gangs.values()}
        self.findings.attempts = {gang.key: gang.attempt for gang in self.gangs.values()}
        for gang in self.gangs.values():
            if gang.phase not in AT_REST:
                self.findings.lost.append(f"{gang.key} is stuck in phase {gang.phase}, attempt {gang.attempt}")
            elif gang.phase in WHOLE:
                self._require_whole(gang, "at the end")
                self._require_pods(gang)
            elif gang.phase != "complete":
                self._require_nothing(gang, f"is {gang.phase}")
        for key in sorted(set(expected) - set(self.findings.phases)):
            self.findings.lost.append(f"{key} has no record any more")
        self._look_for_orphans()
        for obj in self.foreign.values():
            uid = obj["metadata"]["uid"]
            if uid in self.attempt_of:
                self.findings.foreign.append(f"{_key(obj)} was taken for a gang's own")

    def _require_pods(self, gang: _Gang) -> None:
        """A running gang has all its pods bound or done."""
        if gang.phase != "running":
            return
        wanted = sum(podset.count for podset in self._podsets_of(gang))
        pods = [pod for pod in self.pods.values() if _labels(pod).get("muster.kube/gang") == gang.uid]
        there = sum(_occupies(pod) or pod["status"].get("phase") == "Succeeded" for pod in pods)
        if there < wanted:
            self.findings.partial.append(f"{gang.key} is running with {there} of {wanted} pods")

    def _require_nothing(self, gang: _Gang, moment: str) -> None:
        """A gang that is not started has neither objects nor unfinished pods; late ones are the collector's."""
        objects = [(uid, plural, obj) for uid, (plural, obj) in self.children.items()]
        pods = [
            (uid, "pods", pod)
            for uid, pod in self.pods.items()
            if (pod.get("status") or {}).get("phase") not in FINISHED
        ]
        left = {
            _title(plural, obj)
            for uid, plural, obj in (*objects, *pods)
            if _labels(obj).get("muster.kube/gang") == gang.uid and uid not in self.late
        }
        if left:
            self.findings.partial.append(f"{gang.key} {moment} and has {', '.join(sorted(left))}")

    def _look_for_orphans(self) -> None:
        """Tickets without a record that names them; objects and pods without a living owner."""
        for uid, ticket in self.tickets.items():
            gang = self.gangs.get(_labels(ticket).get("muster.kube/gang", ""))
            if gang is None or gang.uid not in _owners(ticket):
                self.findings.orphans.append(f"ticket {_key(ticket)} has no record")
            elif gang.ticket != uid:
                self.findings.orphans.append(f"ticket {_key(ticket)} is not named by {gang.key} ({gang.phase})")
        living = {*self.tickets, *self.gangs, *self.children, *self.others, *self.pods}
        for plural, obj in [*self.children.values(), *(("pods", pod) for pod in self.pods.values())]:
            if "muster.kube/gang" in _labels(obj) and not any(owner in living for owner in _owners(obj)):
                self.findings.orphans.append(f"{_title(plural, obj)} has no living owner")


_KIND_OF = {
    "configmaps": "ConfigMap",
    "services": "Service",
    "jobs": "Job",
    "pods": "Pod",
    "pytorchjobs": "PyTorchJob",
}


def _put(table: dict[str, t.Any], uid: str, value: t.Any, gone: bool) -> None:
    """Put an object into a table, or take it out."""
    if gone:
        table.pop(uid, None)
    else:
        table[uid] = value


def _bound(pod: Object) -> bool:
    """Whether a pod has a node."""
    return bool(pod["spec"].get("nodeName"))


def _has_failed(job: Object) -> bool:
    """Whether a Job says that it has failed."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any((item["type"], item["status"]) == ("Failed", "True") for item in conditions)


def _occupies(pod: Object) -> bool:
    """Whether a pod takes room on a node; a terminating one still does."""
    return _bound(pod) and (pod.get("status") or {}).get("phase") not in FINISHED
