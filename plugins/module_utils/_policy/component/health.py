# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether an object has become what it was made for, told by its status."""

from __future__ import annotations

import collections.abc
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    condition_met,
    conditions,
    group_and_kind,
    value_at,
)

Object = collections.abc.Mapping[str, t.Any]


class ObjectHealth(t.NamedTuple):
    """How far an object is."""

    ready: bool
    # What is missing, or why it will never be ready.
    text: str = ""
    # Nothing but another definition can help.
    failed: bool = False


def has_health(obj: Object) -> bool:
    """Whether objects of its kind need time to become what they are for; others are as soon as they are written."""
    return group_and_kind(obj) in _JUDGES


def health(live: Object) -> ObjectHealth:
    """How far an object is, as it is in the cluster."""
    generation, seen = value_at(live, ("metadata", "generation")), value_at(live, ("status", "observedGeneration"))
    if generation and seen is not None and seen < generation:
        return ObjectHealth(False, "its controller has not seen the last change yet")
    return _JUDGES[group_and_kind(live)](live)


def _number(live: Object, *path: str, default: int = 0) -> int:
    """A number in an object; what is missing counts as the default."""
    found = value_at(live, path)
    return default if found is None else int(found)


def _counted(wanted: int, updated: int, available: int) -> ObjectHealth:
    """By the pods there are: all of the last version, and all available."""
    if min(updated, available) >= wanted:
        return ObjectHealth(True)
    return ObjectHealth(False, f"{min(updated, available)} of {wanted} pods are up to date and available")


def _deployment(live: Object) -> ObjectHealth:
    """Its pods are available, unless the controller has given up."""
    for item in conditions(live):
        if item.get("type") == "Progressing" and item.get("reason") == "ProgressDeadlineExceeded":
            return ObjectHealth(False, str(item.get("message") or item["reason"]), failed=True)
    if value_at(live, ("status", "observedGeneration")) is None:
        return ObjectHealth(False, "its controller has not seen it yet")
    wanted = _number(live, "spec", "replicas", default=1)
    updated = _number(live, "status", "updatedReplicas")
    found = _counted(wanted, updated, _number(live, "status", "availableReplicas"))
    # Pods that are to be replaced count as available too, while none of the new ones may be.
    if found.ready and _number(live, "status", "replicas") > updated:
        return ObjectHealth(False, "pods of an older version are still there")
    return found


def _stateful_set(live: Object) -> ObjectHealth:
    """Its pods are available; those that a partition or OnDelete leaves as they are need not be of the last version."""
    wanted = _number(live, "spec", "replicas", default=1)
    available = _number(live, "status", "availableReplicas")
    strategy = value_at(live, ("spec", "updateStrategy", "type")) or "RollingUpdate"
    partition = _number(live, "spec", "updateStrategy", "rollingUpdate", "partition")
    updated = _number(live, "status", "updatedReplicas") + partition if strategy == "RollingUpdate" else wanted
    return _counted(wanted, updated, available)


def _daemon_set(live: Object) -> ObjectHealth:
    """A pod is available on every node that should have one."""
    if value_at(live, ("status", "observedGeneration")) is None:
        return ObjectHealth(False, "its controller has not seen it yet")
    wanted = _number(live, "status", "desiredNumberScheduled")
    updated = _number(live, "status", "updatedNumberScheduled")
    return _counted(wanted, updated, _number(live, "status", "numberAvailable"))


def _job(live: Object) -> ObjectHealth:
    """It is complete."""
    for item in conditions(live):
        if item.get("type") == "Failed" and item.get("status") == "True":
            return ObjectHealth(False, f"it failed: {item.get('message') or item.get('reason')}", failed=True)
    return ObjectHealth(condition_met(live, "Complete"), "it is not complete")


def _definition(live: Object) -> ObjectHealth:
    """The API server serves its kind; names that others have are never accepted."""
    for item in conditions(live):
        if item.get("type") == "NamesAccepted" and item.get("status") == "False":
            return ObjectHealth(False, f"its names are not accepted: {item.get('message')}", failed=True)
    return ObjectHealth(condition_met(live, "Established"), "it is not established")


_JUDGES: dict[tuple[str, str], collections.abc.Callable[[Object], ObjectHealth]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}
