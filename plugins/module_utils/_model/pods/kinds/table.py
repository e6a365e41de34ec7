# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of kinds, and what it says of an object; one more kind is one more entry in the file of its family.

A gang is what will run: spec.suspend on an object does not shrink it, since dispatchers start suspended objects. Only a
suspended worker group of a RayCluster counts nothing, because starting the cluster does not start the group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    ACTION,
    ExpectedPods,
    ItemOutcome,
    Kind,
    Object,
    Reader,
    TemplateUse,
    describe_object,
    status_message,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.batch import BATCH_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.core import CORE_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.jobset import JOBSET_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.kubeflow import KUBEFLOW_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.podless import PODLESS_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.ray import RAY_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.spark import SPARK_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.trainer import TRAINER_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.wrapper import WRAPPER_KINDS
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    api_group,
    group_and_kind,
    value_at,
)

KINDS: dict[tuple[str, str], Kind] = {
    kind.key: kind
    for family in (
        CORE_KINDS,
        BATCH_KINDS,
        JOBSET_KINDS,
        KUBEFLOW_KINDS,
        TRAINER_KINDS,
        RAY_KINDS,
        SPARK_KINDS,
        WRAPPER_KINDS,
        PODLESS_KINDS,
    )
    for kind in family
}

# Stands for every kind that is in no table. Its fields of the status are those that kinds of jobs usually have.
UNKNOWN_KIND = Kind("", "", status_fields=(("succeeded",), ("replicaStatuses",), ("jobDeploymentStatus",), ("state",)))


def kind_of(obj: Object) -> Kind:
    """What is known of an object's kind."""
    return KINDS.get(group_and_kind(obj), UNKNOWN_KIND)


def kind_named(api_version: str, name: str) -> Kind:
    """What is known of the kind of this apiVersion and name."""
    return KINDS.get((api_group(api_version), name), UNKNOWN_KIND)


def pod_templates(obj: Object, where: str, namespace: str = "default") -> list[TemplateUse]:
    """The pod templates of one object of a known kind; where names it in messages."""
    if not isinstance(obj, Mapping):
        raise BadInput(ACTION, where, f"an object is a mapping, this is a {type(obj).__name__}")
    reader = Reader(obj, where, namespace, pod_templates)
    for field in ("kind", "apiVersion"):
        reader.text((field,))
    return [dataclasses.replace(use, owner=use.owner or where) for use in kind_of(obj).templates(reader)]


def expected_pods(obj: Object, *, namespace: str = "default") -> list[ExpectedPods]:
    """What a live object of a known kind wants now, podset by podset, in the order in which they are inferred."""
    uses = pod_templates(obj, describe_object(obj, namespace), namespace)
    if _wants_nothing(obj):
        return [ExpectedPods(use.name, 0, 0) for use in uses]
    return kind_of(obj).expected(obj, uses)


def is_finite(obj: Object) -> bool:
    """Whether an object ends by itself: jobs, and pods that are not restarted for ever."""
    ending = kind_of(obj).ending
    return ending is not None and ending.applies(obj)


def item_outcome(obj: Object) -> ItemOutcome | None:
    """How a live object ended, as its kind says it; None while it has not, and for kinds that never end."""
    ending = kind_of(obj).ending
    return ending.outcome(obj) if ending is not None else None


def outcome_message(obj: Object) -> str:
    """What a failed object says about it; empty when it says nothing."""
    ending = kind_of(obj).ending
    return (ending.message if ending is not None else status_message)(obj)


def removes_itself(obj: Object) -> bool:
    """Whether an object goes by itself some time after it has ended; its controller takes it away."""
    ending = kind_of(obj).ending
    return (
        ending is not None and ending.ttl is not None and ending.applies(obj) and value_at(obj, ending.ttl) is not None
    )


def _wants_nothing(obj: Object) -> bool:
    """Whether an object wants no pod at all: it is over, suspended, or about to be deleted."""
    spec = obj.get("spec") or {}
    suspended = spec.get("suspend") is True or value_at(spec, ("runPolicy", "suspend")) is True
    return suspended or "deletionTimestamp" in (obj.get("metadata") or {}) or item_outcome(obj) is not None
