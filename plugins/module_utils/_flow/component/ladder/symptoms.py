# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why the pods of a workload do not run: their own states, the last Event about them, and the end of their log."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.muster.kube.plugins.module_utils._kube.apply import Object
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import read_log
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import condition_met, value_at

_LOG_LINES = 5
_LOG_BYTES = 2000


def symptoms_of(client: KubeClient, workload: Object) -> str:
    """What can be learned of a workload that does not get ready; nothing where this account may not look."""
    try:
        return "; ".join(_symptoms(client, workload))
    except KubeError:
        return ""


def _symptoms(client: KubeClient, workload: Object) -> Iterator[str]:
    """Each thing in words."""
    namespace = workload["metadata"].get("namespace")
    labels = value_at(workload, ("spec", "selector", "matchLabels"))
    if not namespace or not labels:
        return
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    path = resource_path("v1", "pods", namespace)
    pods = list_objects(client, path, keep=lambda raw: raw, label_selector=selector).items
    sick = next((pod for pod in pods if not condition_met(pod, "Ready")), None)
    if sick is None:
        names = [workload["metadata"]["name"]]
        yield from _last_event(client, namespace, names, prefix=True)
        return
    name = sick["metadata"]["name"]
    for status in value_at(sick, ("status", "containerStatuses")) or ():
        waiting = value_at(status, ("state", "waiting")) or {}
        if waiting.get("reason"):
            yield f"pod {name}: {waiting['reason']}{': ' + waiting['message'] if waiting.get('message') else ''}"
        if status.get("restartCount") or value_at(status, ("state", "terminated")):
            yield from _last_lines(client, namespace, name, str(status.get("name")))
    yield from _last_event(client, namespace, [name])


def _last_event(client: KubeClient, namespace: str, names: list[str], *, prefix: bool = False) -> Iterator[str]:
    """The last warning about one of these objects, or about what is named after one."""
    path = resource_path("v1", "events", namespace)
    events = list_objects(client, path, keep=lambda raw: raw if raw.get("type") == "Warning" else None).items

    def is_about(event: Object) -> bool:
        """Whether an Event tells of one of them."""
        about = str(value_at(event, ("involvedObject", "name")))
        return about in names or (prefix and any(about.startswith(f"{name}-") for name in names))

    found = [event for event in events if is_about(event)]
    last = max(found, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), default=None)
    if last is not None:
        yield f"Event {last.get('reason')}: {last.get('message')}"


def _last_lines(client: KubeClient, namespace: str, pod: str, container: str) -> Iterator[str]:
    """The end of a container's log."""
    try:
        text = read_log(client, namespace, pod, container, tail_bytes=_LOG_BYTES, tail_lines=_LOG_LINES)
    except KubeError:
        return
    lines = text.decode("utf-8", "replace").strip().splitlines()
    if lines:
        yield f"last lines of {container}: {' | '.join(lines)}"
