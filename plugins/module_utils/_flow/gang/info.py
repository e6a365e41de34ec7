# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind gang_info: where gangs stand and how they came there, their pods, and what failed first."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import started_objects
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.pods import PodReading, first_failure, read_pods
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.position import read_queue
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.verdicts import untold_standings
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.past_sizes import PastSize, with_size
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    FINISHED_PHASES,
    STARTED_PHASES,
    told_resize,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.stores import STORES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import text_of_verdict, texts
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import (
    PodSet,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import node_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import record_path


@dataclasses.dataclass(frozen=True, slots=True)
class GangInfoOptions:
    """Which gangs are asked about; None and empty mean no limit."""

    name: str | None = None
    namespace: str | None = None
    queue: str | None = None
    phases: frozenset[str] = frozenset()
    labels: str | None = None
    log_lines: int = 20
    capacity: bool = False
    # The Lease beside which quota trees are.
    lease: LeaseOptions = dataclasses.field(default_factory=LeaseOptions)


def answer_gangs(
    client: KubeClient,
    question: GangInfoOptions,
    *,
    meant: t.Callable[[Record], bool] = lambda _record: True,
    tell: t.Callable[[Data, Record], Data] = lambda told, _record: told,
) -> Data:
    """Everything there is to know about the gangs in question; reads only.

    meant says which of them count, and tell what is made of the entry of one.
    """
    queue = read_queue(
        client, [question.namespace] if question.namespace else [], question.lease.namespace, finished=True
    )
    places = queue.positions()
    chosen = [record for record in queue.records if _asked_for(record, question) and meant(record)]
    if question.labels is not None and chosen:
        matching = _labelled(client, question, sorted({record.store for record in chosen}))
        chosen = [record for record in chosen if record.uid in matching]
    reading = read_pods(client, chosen)
    untold = untold_standings(client, question.lease, chosen)
    gangs = [
        tell(
            _gang(client, record, reading, places.get(record.uid), queue.now, question.log_lines)
            | {"quota": untold.get(record.uid)},
            record,
        )
        for record in chosen
    ]
    capacity, notes = read_capacity(client) if question.capacity else (None, ())
    return {"gangs": gangs, "position_scope": queue.scope, "capacity": capacity, "notes": [*reading.notes, *notes]}


def read_capacity(client: KubeClient) -> tuple[dict[str, str] | None, tuple[str, ...]]:
    """What all nodes that take pods have together; None and a note where this account may not list nodes."""
    try:
        nodes = list_objects(client, resource_path("v1", "nodes"), keep=node_from_api).items
    except Forbidden:
        return None, ("this account may not list nodes",)
    total: dict[str, int] = {}
    for node in nodes:
        if not node.unschedulable:
            for name, amount in node.allocatable.items():
                total[name] = total.get(name, 0) + amount
    return texts({name: amount for name, amount in total.items() if amount}), ()


def _asked_for(record: Record, question: GangInfoOptions) -> bool:
    """Whether a record is one of those in question, labels apart."""
    queue = record.spec.queue if record.spec else None
    return (
        question.name in (None, record.name)
        and question.namespace in (None, record.namespace)
        and question.queue in (None, queue)
        and (not question.phases or record.phase in question.phases)
    )


def _labelled(client: KubeClient, question: GangInfoOptions, stores: t.Sequence[t.Any]) -> set[str]:
    """Uids of the records the selector matches, as the server understands selectors."""
    found: set[str] = set()
    for store in STORES:
        if store in stores:
            path = record_path(store, question.namespace)
            found.update(list_objects(client, path, keep=_uid, label_selector=question.labels).items)
    return found


def _uid(raw: Data) -> str:
    """Keep an object's uid."""
    return str(raw["metadata"]["uid"])


def _gang(
    client: KubeClient, record: Record, reading: PodReading, position: int | None, now: float, log_lines: int
) -> Data:
    """One gang in plain values."""
    state = record.state
    verdict = state.verdict if state else None
    podsets = _podsets(record.spec)
    pods = reading.pods_of(record, [podset.name for podset in podsets])
    return {
        "name": record.name,
        "namespace": record.namespace,
        "uid": record.uid,
        "store": record.store,
        "queue": record.spec.queue if record.spec else None,
        "labels": dict(record.labels),
        "phase": record.phase,
        "position": position,
        "attempt": record.attempt,
        "allotment": state.allotment if state else None,
        "resize": told_resize(state),
        "sizes": told_sizes(record),
        "requeues": state.requeues if state else 0,
        "lost_races": state.lost_races if state else 0,
        "not_before": state.not_before if state else None,
        "submitted": record.raw["metadata"].get("creationTimestamp"),
        "verdict": verdict,
        "verdict_text": text_of_verdict(verdict),
        "spec": _summary(record.spec, podsets) if record.spec else None,
        "problem": record.spec_problem or record.state_problem,
        "timeline": timeline(record, now),
        "objects": started_objects(record),
        "pods": [pod.as_dict() for pod in pods],
        "restarts": sum(pod.restarts for pod in pods),
        "failure": first_failure(client, pods, log_lines),
    }


def _podsets(spec: GangSpec | None) -> t.Sequence[PodSet]:
    """The podsets of a gang as far as its record alone shows them."""
    if spec is None:
        return []
    try:
        return spec.demand
    except BadInput:
        return []


def _summary(spec: GangSpec, podsets: t.Sequence[PodSet]) -> Data:
    """What the user asked for, without the objects themselves."""
    return {
        "priority": spec.priority,
        "priority_slope": spec.priority_slope,
        "suspended": spec.suspended,
        "min_available": spec.min_available,
        "max_run_time": spec.max_run_time,
        "ttl": spec.ttl,
        "requeue": dataclasses.asdict(spec.requeue),
        "objects": [
            {"apiVersion": item["apiVersion"], "kind": item["kind"], "name": _object_name(item)}
            for item in spec.objects
        ],
        "podsets": [{"name": item.name, "count": item.count, "requests": texts(item.requests)} for item in podsets],
        "elastic": None if spec.elastic is None else spec.elastic.as_result(),
    }


def _object_name(item: Data) -> str:
    """The name of an object, or what it will begin with."""
    metadata = item["metadata"]
    return str(metadata.get("name") or f"{metadata.get('generateName')}*")


def _without_end(wait: Data | None) -> Data | None:
    """What a wait was for, without the moment that the timeline tells anyway."""
    return None if wait is None else {key: value for key, value in wait.items() if key != "until"}


def told_sizes(record: Record) -> list[Data]:
    """Which sizes an elastic gang held, and since when, as far as its record remembers; the GPUs with them.

    A size that it has and that nobody noted, as versions before this one do not, it has had since its last transition.
    """
    state, terms = record.state, record.spec.elastic if record.spec else None
    if state is None or terms is None:
        return []
    past = state.sizes
    if state.allotment is not None and record.phase in STARTED_PHASES and state.transitions:
        past = with_size(past, PastSize(state.transitions[-1].at, state.allotment))
    return [
        {
            "at": item.at,
            "size": item.size,
            "gpus": terms.range.gpus(item.size) if item.size else 0,
            "running": item.running,
            "resize": None if item.resize is None else item.resize.as_data(),
        }
        for item in past
    ]


def timeline(record: Record, now: float) -> list[Data]:
    """The transitions kept in the record, each with the seconds until the next; of the last one, until now."""
    transitions = record.state.transitions if record.state else ()
    waits = {wait["until"]: wait for wait in record.state.waits} if record.state else {}
    entries = []
    for index, item in enumerate(transitions):
        begun = read_time(item.at)
        last = index + 1 == len(transitions)
        ended = now if last else read_time(transitions[index + 1].at)
        seconds = None
        if begun is not None and ended is not None and not (last and item.phase in FINISHED_PHASES):
            seconds = max(0.0, ended - begun)
        wait = waits.get(transitions[index + 1].at) if item.phase == "queued" and not last else None
        entries.append({**dataclasses.asdict(item), "seconds": seconds, "waited_for": _without_end(wait)})
    return entries
