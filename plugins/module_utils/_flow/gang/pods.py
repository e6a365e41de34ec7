# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pods of gangs: where they are, how often they restarted, and the log of the first failure."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError, Forbidden, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    PODSET_LABEL,
    podset_label,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

_LOG_BYTES = 64 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class ContainerFailure:
    """One failed run of a container; previous when the container has been started again since."""

    container: str
    exit_code: int
    reason: str | None
    finished_at: str | None
    previous: bool


@dataclasses.dataclass(frozen=True, slots=True)
class SeenPod:
    """One pod of a gang."""

    namespace: str
    name: str
    gang: str
    podset: str | None
    phase: str
    node: str | None
    restarts: int
    waiting: str | None
    failures: tuple[ContainerFailure, ...]

    def as_dict(self) -> Data:
        """Plain values for results."""
        return {
            "name": self.name,
            "podset": self.podset,
            "phase": self.phase,
            "node": self.node,
            "restarts": self.restarts,
            "waiting": self.waiting,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class PodReading:
    """Pods by the uid of their gang, and notes on what could not be read."""

    pods: t.Mapping[str, tuple[SeenPod, ...]]
    notes: tuple[str, ...] = ()

    def pods_of(self, record: Record, podsets: t.Sequence[str]) -> list[SeenPod]:
        """The pods of one gang by name; labels are turned back into the podsets' own names."""
        names = {podset_label(name): name for name in podsets}
        found = self.pods.get(record.uid, ())
        named = [
            dataclasses.replace(pod, podset=names.get(pod.podset, pod.podset) if pod.podset else None) for pod in found
        ]
        return sorted((pod for pod in named if pod.namespace == record.namespace), key=lambda pod: pod.name)


def read_pods(client: KubeClient, records: t.Sequence[Record]) -> PodReading:
    """The pods of these gangs: one list for each of their namespaces, none for gangs that were never started."""
    spaces = sorted({record.namespace for record in records if record.state is not None})
    found = parallel([functools.partial(_list_pods, client, namespace) for namespace in spaces])
    pods: dict[str, tuple[SeenPod, ...]] = {}
    for listed in found:
        for pod in listed or ():
            pods[pod.gang] = (*pods.get(pod.gang, ()), pod)
    unread = [namespace for namespace, listed in zip(spaces, found, strict=True) if listed is None]
    return PodReading(pods, tuple(f"this account may not list pods in namespace {name}" for name in unread))


def _list_pods(client: KubeClient, namespace: str) -> list[SeenPod] | None:
    """The pods of gangs in a namespace; None when they may not be listed."""
    path = resource_path("v1", "pods", namespace)
    try:
        return list_objects(client, path, keep=seen_pod, label_selector=GANG_LABEL).items
    except Forbidden:
        return None


def seen_pod(raw: Data) -> SeenPod:
    """What is worth telling of a pod."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    labels = metadata.get("labels") or {}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    phase = "Terminating" if metadata.get("deletionTimestamp") else str(status.get("phase") or "Pending")
    return SeenPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        gang=str(labels.get(GANG_LABEL)),
        podset=labels.get(PODSET_LABEL),
        phase=phase,
        node=(raw.get("spec") or {}).get("nodeName"),
        restarts=sum(int(item.get("restartCount") or 0) for item in containers),
        waiting=_waiting(status, containers),
        failures=tuple(failure for item in containers for failure in _failures(item)),
    )


def _waiting(status: Data, containers: t.Sequence[Data]) -> str | None:
    """Why a pod does not run: a container's reason, else what the scheduler says."""
    for item in containers:
        reason = ((item.get("state") or {}).get("waiting") or {}).get("reason")
        if reason:
            return str(reason)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "not scheduled")
    return None


def _failures(status: Data) -> t.Iterator[ContainerFailure]:
    """The failed runs of one container that its status still tells: the last one and the one before."""
    for key, previous in (("state", False), ("lastState", True)):
        ended = (status.get(key) or {}).get("terminated") or {}
        code = ended.get("exitCode")
        if code:
            yield ContainerFailure(
                str(status.get("name")), int(code), ended.get("reason"), ended.get("finishedAt"), previous
            )


def first_failure(client: KubeClient, pods: t.Sequence[SeenPod], log_lines: int) -> Data | None:
    """The container that failed first, with the last lines it wrote; None when none failed."""
    failed = [(failure, pod) for pod in pods for failure in pod.failures]
    if not failed:
        return None
    failure, pod = min(failed, key=lambda pair: (pair[0].finished_at or "~", pair[1].name, pair[0].container))
    log, problem = _read_log(client, pod, failure, log_lines)
    return {
        "pod": pod.name,
        "podset": pod.podset,
        "node": pod.node,
        "container": failure.container,
        "exit_code": failure.exit_code,
        "reason": failure.reason,
        "finished_at": failure.finished_at,
        "log": log,
        "log_problem": problem,
    }


def _read_log(client: KubeClient, pod: SeenPod, failure: ContainerFailure, lines: int) -> tuple[list[str], str | None]:
    """The last lines of the failed run and, where they cannot be read, why; logs are a courtesy of the node."""
    if not lines:
        return [], None
    path = resource_path("v1", "pods", pod.namespace, pod.name, "log")
    query = {
        "container": failure.container,
        "tailLines": lines,
        "limitBytes": _LOG_BYTES,
        "previous": True if failure.previous else None,
    }
    try:
        answer = client.request("GET", path, query=query, read_retries=False)
    except (ApiError, Unreachable) as error:
        return [], error.cause
    return answer.body.decode("utf-8", "replace").splitlines()[-lines:], None
