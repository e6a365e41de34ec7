# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods that ended, of gangs that go on: those of gangs that are over stay for their logs and are not read."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Sequence

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL, of_gangs
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of, pod_templates
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

Object = dict[str, t.Any]

# So many gangs are asked for in one list: an address has an end.
MOST_UIDS = 100
# All phases but those of pods that live; what is unknown is told by the phase itself.
_ENDED = "status.phase!=Running,status.phase!=Pending"


def read_ended_pods(client: KubeClient, started: Sequence[Record], *, everywhere: bool) -> list[GangPod]:
    """The pods of started gangs that ended; to be read after those that live, so that none is missed in between.

    everywhere tells that pods of all namespaces may be listed. Pods whose templates nobody could label are found
    among all of their namespace.
    """
    found = parallel([_reader(client, *place) for place in _places(started, everywhere)])
    return list({pod.uid: pod for pods in found for pod in pods}.values())


def _places(started: Sequence[Record], everywhere: bool) -> Iterator[tuple[str | None, str]]:
    """Namespace and label selector of each list."""
    groups: dict[str | None, list[str]] = {}
    for record in started:
        groups.setdefault(None if everywhere else record.namespace, []).append(record.uid)
    for namespace, uids in groups.items():
        for first in range(0, len(uids), MOST_UIDS):
            yield namespace, of_gangs(uids[first : first + MOST_UIDS])
    for namespace in sorted({record.namespace for record in started if _has_unlabeled_pods(record.spec)}):
        yield namespace, f"!{GANG_LABEL}"


def _has_unlabeled_pods(spec: GangSpec | None) -> bool:
    """Whether pods without the gang's label may come from it: made by kinds we do not know, or beside its objects."""
    if spec is None:
        return True
    try:
        unreachable = [use for obj in spec.objects for use in pod_templates(obj, "") if use.path is None]
    except BadInput:
        return True
    return bool(unreachable) or any(kind_of(obj).owners for obj in spec.objects)


def _reader(client: KubeClient, namespace: str | None, selector: str) -> t.Callable[[], list[GangPod]]:
    """One list; nothing where it is forbidden, since nothing else of those pods is seen either."""

    def keep(raw: Object) -> GangPod | None:
        """Of what is listed only what really ended."""
        pod = gang_pod_from_api(raw)
        return pod if pod is not None and pod.finished else None

    def read() -> list[GangPod]:
        """Called in a thread."""
        path = resource_path("v1", "pods", namespace)
        try:
            return list_objects(client, path, keep=keep, label_selector=selector, field_selector=_ENDED).items
        except Forbidden:
            return []

    return read
