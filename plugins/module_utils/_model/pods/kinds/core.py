# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubernetes' own kinds that make pods and go on: pods, and what keeps a number of them."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    ACTION,
    ExpectedPods,
    ItemOutcome,
    Kind,
    KindEnding,
    NeedsPodsets,
    Object,
    Path,
    Reader,
    Resizing,
    TemplateUse,
    replicas_at,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import value_at


def _pod(reader: Reader) -> list[TemplateUse]:
    """A pod is its own template."""
    return [TemplateUse(reader.name, 1, reader.template(()), ())]


def _replicated(reader: Reader) -> list[TemplateUse]:
    """Kinds with spec.replicas and spec.template; one replica unless told otherwise."""
    path: Path = ("spec", "template")
    template = reader.template(path)
    claims = reader.items(("spec", "volumeClaimTemplates"), required=False)
    if claims:
        # A StatefulSet makes claims for each pod; to whoever places it they are what ephemeral volumes are.
        volumes = [*(template["spec"].get("volumes") or ()), *({"ephemeral": reader.mapping(item)} for item in claims)]
        template = {**template, "spec": {**template["spec"], "volumes": volumes}}
    return [TemplateUse(reader.name, reader.count(("spec", "replicas"), 1), template, path)]


def _daemon_set(reader: Reader) -> list[TemplateUse]:
    """A DaemonSet has as many pods as there are nodes for it, so it cannot be part of a gang by itself."""
    raise NeedsPodsets(ACTION, reader.where, "the size of a DaemonSet follows the nodes; declare podsets for it")


def _stateful_set(obj: Object, uses: Sequence[TemplateUse]) -> list[ExpectedPods]:
    """Unless told to work in parallel, a StatefulSet makes its next pod when the last one is ready."""
    parallel = obj["spec"].get("podManagementPolicy") == "Parallel"
    return [ExpectedPods(use.name, use.count, use.count if parallel else min(1, use.count)) for use in uses]


def _ends(obj: Object) -> bool:
    """Pods that are not restarted for ever."""
    return value_at(obj, ("spec", "restartPolicy")) in ("Never", "OnFailure")


def _pod_outcome(obj: Object) -> ItemOutcome | None:
    """By its phase; a pod that is restarted for ever cannot succeed."""
    phase = value_at(obj, ("status", "phase"))
    if phase == "Failed":
        return "failed"
    return "succeeded" if phase == "Succeeded" and _ends(obj) else None


_REPLICATED = Resizing(counts=replicas_at("spec", "replicas"))

CORE_KINDS = (
    Kind(
        "",
        "Pod",
        _pod,
        ending=KindEnding(_pod_outcome, applies=_ends),
        deadline=("spec", "activeDeadlineSeconds"),
        status_fields=(("phase",),),
    ),
    Kind("", "ReplicationController", _replicated, resizing=_REPLICATED),
    Kind("apps", "ReplicaSet", _replicated, resizing=_REPLICATED),
    Kind("apps", "Deployment", _replicated, resizing=_REPLICATED),
    Kind("apps", "StatefulSet", _replicated, _stateful_set, resizing=_REPLICATED),
    Kind("apps", "DaemonSet", _daemon_set),
)
