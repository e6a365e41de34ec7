# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Following one Job: watches wake the reader, which reads Job, pods and Events again and asks whether it is over."""

from __future__ import annotations

import dataclasses
import threading
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, KubeError, is_passing
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import list_and_watch
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    JOB_NAME_LABEL,
    EventFacts,
    JobFacts,
    PodFacts,
    RunFacts,
    RunState,
    event_facts,
    job_facts,
    pod_facts,
    with_deletion_seen,
)

Object = dict[str, t.Any]
Judge = t.Callable[[RunFacts, float], RunState]

# How long to wait without a change: a pending run has a time-out of its own, a running one has not.
_PENDING_REST = 2.0
_RUNNING_REST = 10.0
# A moment that has just come is not looked for more often than this.
_LEAST_REST = 0.1
# What changes together is read together.
_GATHER = 0.03
_CONNECTION_SECONDS = 60.0


class Signal(t.Protocol):
    """Something to wait on between two readings."""

    def __enter__(self) -> Signal:
        """Begin to listen."""

    def __exit__(self, *error: object) -> None:
        """Listen no more."""

    def wait(self, longest: float) -> None:
        """Rest until something changed, at most so long."""


class JobSignal:
    """Ends a wait when the Job, one of its pods or an Event about them changes."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        """Nothing is watched before the block is entered."""
        self._client = client
        self._changed = threading.Event()
        self._over = threading.Event()
        pods, jobs = resource_path("v1", "pods", namespace), resource_path("batch/v1", "jobs", namespace)
        self._wanted: tuple[tuple[str, dict[str, str]], ...] = (
            (jobs, {"field_selector": f"metadata.name={name}"}),
            (pods, {"label_selector": f"{JOB_NAME_LABEL}={name}"}),
            (resource_path("v1", "events", namespace), {"field_selector": f"involvedObject.name={name}"}),
        )

    def __enter__(self) -> JobSignal:
        """Start one thread for each watch."""
        for path, selectors in self._wanted:
            threading.Thread(target=self._listen, args=(path, selectors), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """The threads end with their next line, with their connection, or with the process."""
        self._over.set()

    def wait(self, longest: float) -> None:
        """Rest until something changed, at most so long."""
        if self._changed.wait(longest):
            self._over.wait(_GATHER)
        self._changed.clear()

    def _listen(self, path: str, selectors: dict[str, str]) -> None:
        """One thread: end the wait at every change; without the right to watch every wait takes its full time."""
        while not self._over.is_set() and not self._client.closed:
            try:
                for change in list_and_watch(
                    self._client,
                    path,
                    keep=lambda raw: raw["metadata"]["name"],
                    stop=self._over.is_set,
                    timeout=_CONNECTION_SECONDS,
                    **selectors,  # type: ignore[arg-type]
                ):
                    if change.type != "SYNC" or change.items:
                        self._changed.set()
            except KubeError as error:
                if not is_passing(error):
                    return
                self._over.wait(_PENDING_REST)


class JobReader:
    """Reads all about one Job; pods that went away are remembered as they were."""

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        """Nothing is read yet."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._seen: dict[str, PodFacts] = {}
        self._uid: str | None = None

    def read(self) -> RunFacts:
        """The facts now: the Job first, so that the pods of a finished Job are read in their last state."""
        raw = get_object(self._client, resource_path("batch/v1", "jobs", self._namespace, self._name))
        job = None if raw is None or raw["metadata"].get("deletionTimestamp") else job_facts(raw)
        self._uid = self._uid if raw is None else raw["metadata"]["uid"]
        pods = self._pods(self._uid)
        events = () if job is None or job.over else self._events(job, pods)
        return RunFacts(job, pods, events)

    def _pods(self, uid: str | None) -> tuple[PodFacts, ...]:
        """The pods of this very Job by index and age, those that are gone included."""

        def keep(raw: Object) -> PodFacts | None:
            owners = raw["metadata"].get("ownerReferences") or ()
            return pod_facts(raw) if uid is None or any(item.get("uid") == uid for item in owners) else None

        listing = list_objects(
            self._client,
            resource_path("v1", "pods", self._namespace),
            keep=keep,
            label_selector=f"{JOB_NAME_LABEL}={self._name}",
        )
        present = {pod.uid: with_deletion_seen(pod, self._seen.get(pod.uid)) for pod in listing.items}
        gone = {key: dataclasses.replace(pod, vanished=True) for key, pod in self._seen.items() if key not in present}
        self._seen = {**gone, **present}
        return tuple(sorted(self._seen.values(), key=lambda pod: (pod.index or 0, pod.created or 0.0, pod.name)))

    def _events(self, job: JobFacts, pods: tuple[PodFacts, ...]) -> tuple[EventFacts, ...]:
        """Events about a Job without pods, or about a pod that does not start; later ones say nothing more."""
        if any(pod.started and not pod.over for pod in pods):
            return ()
        stuck = [pod.uid for pod in pods if not pod.over]
        about = stuck[0] if stuck else job.uid
        try:
            listing = list_objects(
                self._client,
                resource_path("v1", "events", self._namespace),
                keep=event_facts,
                field_selector=f"involvedObject.uid={about}",
            )
        except Forbidden:
            return ()
        return tuple(listing.items)


def is_node_gone(client: KubeClient, name: str) -> bool:
    """Whether there is no such node any more; one that may not be read is taken to be there."""
    try:
        return get_object(client, resource_path("v1", "nodes", name=name)) is None
    except Forbidden:
        return False


def follow_job(
    client: KubeClient,
    namespace: str,
    name: str,
    judge: Judge,
    *,
    report: t.Callable[[str], None],
    listen: t.Callable[[KubeClient, str, str], Signal] = JobSignal,
    patience: float = 0.0,
    due: t.Callable[[], float | None] = lambda: None,
    known: RunFacts | None = None,
) -> RunState:
    """Read and judge until the run is over; each change of state is reported.

    A server that does not answer is waited for, for at most patience seconds since its last answer. due is when the
    judge would say something else though nothing changed. known is what need not be read before the first rest.
    """
    reader, clock = JobReader(client, namespace, name), ServerClock(client)
    shown, answered = "", client.clock()
    with listen(client, namespace, name) as signal:
        while True:
            try:
                facts = known or reader.read()
                state = judge(facts, clock.now())
            except KubeError as error:
                if not is_passing(error) or client.clock() - answered >= patience:
                    raise
                if shown != str(error):
                    shown = str(error)
                    report(f"{name}: trying again: {error}")
                client.sleep(_PENDING_REST)
                continue
            answered, known = client.clock(), None
            told = state.words()
            if told != shown:
                report(f"{name}: {told}")
                shown = told
            if state.over:
                return state
            signal.wait(_rest(state, due(), clock.now()))


def _rest(state: RunState, due: float | None, now: float) -> float:
    """How long to wait when nothing changes."""
    usual = _PENDING_REST if state.phase == "pending" else _RUNNING_REST
    return usual if due is None else min(usual, max(due - now, _LEAST_REST))
