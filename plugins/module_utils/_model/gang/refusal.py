# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What no gang may hold: a dispatcher creates objects for others, so a record must not be a way around their rights."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import RECORD_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.stores import Store
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    QUEUE_LABEL,
    TICKET_LABEL,
    Plan,
    is_kept,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import describe_object
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.wrapper import WRAPPER_GROUPS
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import group_and_kind

# Says of (apiVersion, kind) whether it lives in a namespace; None or missing when nobody knows.
ScopeLookup = Callable[[str, str], "bool | None"]
ScopeTable = Mapping[tuple[str, str], bool]
Object = Mapping[str, t.Any]
Complaint = tuple[str, str]

_RIGHTS_GROUPS = ("rbac.authorization.k8s.io", "authorization.openshift.io", "authorization.k8s.io")
_ADMISSION_GROUP = "admissionregistration.k8s.io"


def refuse_objects(spec: GangSpec, *, store: Store, namespaced: ScopeLookup | ScopeTable | None = None) -> None:
    """Raise BadInput for the first object that no gang, or no record of this store, may hold."""
    for index, obj in enumerate(spec.objects):
        for field, cause in _complaints(spec, obj, store, namespaced):
            where = describe_object(obj, spec.namespace, index)
            raise BadInput("accept", f"{where} in gang {spec.namespace}/{spec.name}: objects[{index}].{field}", cause)


def refuse_other_queue(spec: GangSpec, labels: Mapping[str, str], *, store: Store) -> None:
    """Raise BadInput when the label of a record does not name the queue that the gang itself names.

    Servers can check labels only: rights to use a queue are asked for the one in the label.
    """
    told = labels.get(QUEUE_LABEL) or None
    if store == "configmap" and told != spec.queue:
        where = f"gang {spec.namespace}/{spec.name}: metadata.labels.{QUEUE_LABEL}"
        both = f"the label names {_queue_text(told)}, and the gang itself {_queue_text(spec.queue)}"
        raise BadInput("accept", where, f"{both}; queue it anew with the one it is to use")


def _queue_text(name: str | None) -> str:
    """A queue in a sentence."""
    return "no queue" if name is None else f"queue {name}"


def refuse_forged_labels(spec: GangSpec, plan: Plan, record_uid: str) -> None:
    """Raise BadInput when pods of a planned object would pass for those of another gang, or of another queue.

    Templates that we know have got the right labels by now. What is left stands where we cannot set any.
    """
    right = {GANG_LABEL: record_uid, QUEUE_LABEL: spec.queue}
    for item in plan:
        for labels in _label_mappings(item.object):
            for key, value in right.items():
                if labels.get(key, value) != value:
                    where = describe_object(item.object, spec.namespace, item.index)
                    cause = f"{key}: {labels[key]!r} is set by the dispatcher itself; remove the label"
                    raise BadInput("accept", f"{where} in gang {spec.namespace}/{spec.name}: labels", cause)


def _label_mappings(obj: t.Any) -> Iterator[Mapping[str, t.Any]]:
    """Everything in an object that is called labels, however deep."""
    left = [obj]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            if isinstance(part.get("labels"), Mapping):
                yield part["labels"]
            left += part.values()
        elif isinstance(part, list):
            left += part


def object_warnings(spec: GangSpec, *, store: Store) -> tuple[str, ...]:
    """What is allowed but should be known: an AppWrapper shows a Secret to everybody who may read the wrapper."""
    if store != "appwrapper":
        return ()
    return tuple(
        f"{describe_object(obj, spec.namespace, index)} can be read by everybody who may read the AppWrapper "
        f"{spec.namespace}/{spec.name}; better refer to a Secret that exists already"
        for index, obj in enumerate(spec.objects)
        if group_and_kind(obj) == ("", "Secret")
    )


def _complaints(
    spec: GangSpec, obj: Object, store: Store, namespaced: ScopeLookup | ScopeTable | None
) -> Iterator[Complaint]:
    """Field and cause of everything that is wrong with one object."""
    yield from _kind_complaints(obj, namespaced)
    metadata = obj["metadata"]
    yield from _gang_complaints(obj)
    namespace = metadata.get("namespace")
    if namespace is not None and namespace != spec.namespace:
        yield (
            "metadata.namespace",
            f"a gang starts objects in its own namespace {spec.namespace} only, not in {namespace}; leave the field "
            "out, or queue another gang there",
        )
    if metadata.get("ownerReferences"):
        yield (
            "metadata.ownerReferences",
            "objects of a gang are owned by the gang's ticket; remove the field",
        )
    if store == "configmap":
        yield from _store_complaints(spec, obj)
    if is_kept(obj) and kind_of(obj).makes_pods:
        yield (
            "metadata.annotations",
            "a kept object survives when the gang is undone, so it may make no pods; remove muster.kube/keep",
        )


def _kind_complaints(obj: Object, namespaced: ScopeLookup | ScopeTable | None) -> Iterator[Complaint]:
    """Kinds that give rights, change requests of others, or lie outside of namespaces."""
    group, kind = group_and_kind(obj)
    if group in _RIGHTS_GROUPS:
        yield "kind", f"a gang cannot grant rights; have an administrator create the {kind} beforehand"
    if group == _ADMISSION_GROUP:
        yield "kind", f"a gang cannot change how requests are admitted; have an administrator create the {kind}"
    if kind_of(obj).cluster_scoped or _scope(obj, namespaced) is False:
        yield "kind", f"{kind} is cluster-scoped and a gang lives in one namespace; create it beforehand"


def _gang_complaints(obj: Object) -> Iterator[Complaint]:
    """Gangs inside of gangs, and objects that pretend to be ours."""
    group, kind = group_and_kind(obj)
    if kind == "AppWrapper" and group in WRAPPER_GROUPS:
        yield (
            "kind",
            "a gang cannot hold another gang; list the wrapped objects themselves, or give the AppWrapper alone",
        )
    for label in (RECORD_LABEL, TICKET_LABEL):
        if label in (obj["metadata"].get("labels") or {}):
            yield f"metadata.labels.{label}", "a gang cannot hold another gang; remove the label"


def _store_complaints(spec: GangSpec, obj: Object) -> Iterator[Complaint]:
    """What a ConfigMap as record rules out: secrets in the open, and an object with the record's own name."""
    key = group_and_kind(obj)
    if key == ("", "Secret"):
        yield (
            "kind",
            "the record is a ConfigMap, which more people may read; create the Secret beforehand and refer to it",
        )
    if key == ("", "ConfigMap") and obj["metadata"].get("name") == spec.name:
        yield "metadata.name", "the gang's record is a ConfigMap of this name; rename the object or the gang"


def _scope(obj: Object, namespaced: ScopeLookup | ScopeTable | None) -> bool | None:
    """Whether the kind lives in a namespace, as far as the caller knows."""
    key = (str(obj["apiVersion"]), str(obj["kind"]))
    if namespaced is None:
        return None
    return namespaced.get(key) if isinstance(namespaced, Mapping) else namespaced(*key)
