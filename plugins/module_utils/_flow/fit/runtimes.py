# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runtimes of TrainJobs: what a TrainJob leaves to its runtime is read there and written into the TrainJob itself.

So a gang says all it needs: its demand is known without the cluster, and stays what it was when the runtime changes.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.trainer import (
    TRAIN_JOB,
    runtime_of,
    with_runtime,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import group_and_kind

Object = dict[str, t.Any]

_PLURALS = {"ClusterTrainingRuntime": "clustertrainingruntimes", "TrainingRuntime": "trainingruntimes"}


class Runtimes:
    """Reads runtimes; nothing is connected before one is needed."""

    def __init__(self, connect: Callable[[], KubeClient]) -> None:
        """How to reach the cluster."""
        self._connect = connect
        self._client: KubeClient | None = None

    def filled(self, objects: Sequence[Object], namespace: str) -> tuple[Object, ...]:
        """The objects, TrainJobs with what their runtimes say; one whose runtime cannot be read stays as it is."""
        return tuple(self._filled(obj, namespace) for obj in objects)

    def _filled(self, obj: Object, namespace: str) -> Object:
        """One object."""
        needed = runtime_of(obj) if group_and_kind(obj) == TRAIN_JOB else None
        plural = _PLURALS.get(needed[0]) if needed is not None else None
        if needed is None or plural is None:
            return obj
        place = namespace if plural == "trainingruntimes" else None
        found = self._read(resource_path(str(obj["apiVersion"]), plural, place, needed[1]))
        return obj if found is None else with_runtime(obj, found)

    def _read(self, path: str) -> Object | None:
        """A runtime; None when there is none, or nobody may see it."""
        self._client = self._client or self._connect()
        try:
            return get_object(self._client, path)
        except Forbidden:
            return None
