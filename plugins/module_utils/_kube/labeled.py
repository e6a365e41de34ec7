# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects that carry our label: found wherever this account may look, and removed, with nothing else touched."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools

from ansible_collections.muster.kube.plugins.module_utils._kube.apply import (
    Label,
    Object,
    ObjectChange,
    ask_all,
    is_ours,
    object_path,
    outlast,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict, Forbidden, NotFound, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import (
    ResourceInfo,
    find_resource,
    get_object,
    list_metadata,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import settle_delete
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    api_group,
    describe_object,
    group_and_kind,
)

_GONE_SECONDS = 0.5
_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"
# Where objects with our label are looked for, in the order in which such objects are made.
MANAGED_KINDS: tuple[tuple[str, str], ...] = (
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("v1", "Namespace"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
    ("v1", "ResourceQuota"),
    ("v1", "LimitRange"),
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolumeClaim"),
    (_RBAC, "ClusterRole"),
    (_RBAC, "Role"),
    (_RBAC, "ClusterRoleBinding"),
    (_RBAC, "RoleBinding"),
    ("coordination.k8s.io/v1", "Lease"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("v1", "Service"),
    ("networking.k8s.io/v1", "Ingress"),
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("apiregistration.k8s.io/v1", "APIService"),
    (_ADMISSION, "ValidatingAdmissionPolicy"),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"),
    (_ADMISSION, "ValidatingWebhookConfiguration"),
    (_ADMISSION, "MutatingWebhookConfiguration"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class LabeledObjects:
    """Kind and metadata of the objects with a label, in the order of making them, and where nobody let us look."""

    objects: tuple[Object, ...]
    unseen: tuple[str, ...]


def find_labeled(
    client: KubeClient, label: Label, objects: collections.abc.Iterable[Object], namespaces: collections.abc.Set[str]
) -> LabeledObjects:
    """The objects with a label, of the kinds we manage and of those of the given objects.

    Who may not list a kind in the whole cluster sees what lies in the given namespaces. Objects that belong to another
    one go with it and are left out.
    """
    named = {(api_group(obj["apiVersion"]), obj["kind"]): (obj["apiVersion"], obj["kind"]) for obj in objects}
    known = {(api_group(api_version), kind): (api_version, kind) for api_version, kind in MANAGED_KINDS}
    served = [info for key in {**known, **named} if (info := _first_served(client, named.get(key), known.get(key)))]
    # Kinds that only the objects name come last: whoever acts on them has to be there when they are made.
    order = {key: place for place, key in enumerate(known)}
    served.sort(key=lambda info: order.get((api_group(info.api_version), info.kind), len(order)))
    looks = parallel([functools.partial(_look, client, label, info, sorted(namespaces)) for info in served])
    return LabeledObjects(
        tuple(obj for look in looks for obj in look.objects), tuple(name for look in looks for name in look.unseen)
    )


def find_of_kinds(
    client: KubeClient, label: Label, kinds: collections.abc.Iterable[tuple[str, str]]
) -> tuple[Object, ...]:
    """Kind and metadata of the objects with a label, of these kinds only, from the whole cluster, in their order.

    Kinds that are not served have none. Who may not look anywhere is refused: nobody could tell what is left.
    """
    infos = [info for kind in kinds if (info := find_resource(client, *kind)) is not None]
    calls = [functools.partial(_listed, client, label.selector, info, None) for info in infos]
    return tuple(obj for found in parallel(calls) for obj in found)


def _first_served(client: KubeClient, *kinds: tuple[str, str] | None) -> ResourceInfo | None:
    """How the server serves a kind, in the first of these versions that it knows."""
    found = (find_resource(client, *kind) for kind in kinds if kind is not None)
    return next((info for info in found if info is not None), None)


def _look(client: KubeClient, label: Label, info: ResourceInfo, namespaces: list[str]) -> LabeledObjects:
    """The objects of one kind, from the whole cluster or from some namespaces."""
    try:
        return LabeledObjects(tuple(_listed(client, label.selector, info, None)), ())
    except Forbidden:
        if not info.namespaced:
            return LabeledObjects((), (info.plural,))
    found: list[Object] = []
    unseen = [f"{info.plural} outside of {', '.join(namespaces) or 'any namespace'}"]
    for namespace in namespaces:
        try:
            found += _listed(client, label.selector, info, namespace)
        except Forbidden:
            unseen.append(f"{info.plural} in {namespace}")
    return LabeledObjects(tuple(found), tuple(unseen))


def _listed(client: KubeClient, selector: str | None, info: ResourceInfo, namespace: str | None) -> list[Object]:
    """Kind and metadata of the objects of a kind, without those that belong to another object."""

    def keep(raw: Object) -> Object | None:
        """What is needed to name and delete it."""
        if any(owner.get("controller") for owner in raw["metadata"].get("ownerReferences") or ()):
            return None
        return {"apiVersion": info.api_version, "kind": info.kind, "metadata": raw["metadata"]}

    return list_metadata(client, info.path(namespace), keep=keep, label_selector=selector).items


def list_in(client: KubeClient, namespace: str, api_version: str, kind: str, selector: str | None) -> list[Object]:
    """Kind and metadata of the selected objects of a kind in a namespace; none if it has no such objects."""
    info = find_resource(client, api_version, kind)
    return [] if info is None or not info.namespaced else _listed(client, selector, info, namespace)


def list_defined(client: KubeClient, crd: Object) -> list[Object]:
    """Kind and metadata of all objects of the kind that a CRD defines, without those that belong to another object."""
    spec = (get_object(client, _served_path(client, crd)) or {}).get("spec") or {"versions": ()}
    # In the version that is stored nobody has to convert them: who would may be gone.
    ordered = sorted(spec["versions"], key=lambda item: not item.get("storage"))
    versions = [(f"{spec['group']}/{item['name']}", spec["names"]["kind"]) for item in ordered]
    info = _first_served(client, *versions)
    return [] if info is None else _listed(client, None, info, None)


def is_going(obj: Object) -> bool:
    """Whether somebody has deleted an object already, and it is on its way."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def pruned(obj: Object) -> ObjectChange:
    """That an object goes."""
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace", "labels") if key in obj["metadata"]}
    return ObjectChange(obj, "pruned", before={**obj, "metadata": metadata})


def is_usual(obj: Object) -> bool:
    """Whether an object is of the kinds we manage; on others somebody acts who may be of the same component."""
    return group_and_kind(obj) in {(api_group(api_version), kind) for api_version, kind in MANAGED_KINDS}


def read_labeled(
    client: KubeClient,
    label: Label,
    objects: collections.abc.Iterable[Object],
    uids: collections.abc.Collection[str] = (),
    *,
    is_known: collections.abc.Callable[[Object], bool] = lambda _live: False,
) -> tuple[Object, ...]:
    """Those of the given objects that are there and ours, by the label or because these very ones are recorded.

    Of recorded ones is_known tells of those that were made for us by somebody else, as helm does.
    """

    def read(obj: Object) -> Object | None:
        """One object, if it is there and ours."""
        info = find_resource(client, obj["apiVersion"], obj["kind"])
        live = get_object(client, object_path(info, obj)) if info is not None else None
        if live is None or not (is_ours(live, label, uids) or (live["metadata"]["uid"] in uids and is_known(live))):
            return None
        return {**live, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}

    found = ask_all(functools.partial(read, obj) for obj in objects)
    return tuple(obj for obj in found if obj is not None)


def try_removals(client: KubeClient, objects: collections.abc.Iterable[Object], *, patient: bool = False) -> None:
    """Have the server pretend to delete the objects; what it refuses is raised.

    With patience a server in trouble refuses nothing: the webhook that it cannot reach may be one that goes.
    """

    def pretend(obj: Object) -> None:
        """One deletion; what is gone meanwhile, or another object by now, is none."""
        try:
            delete(client, _served_path(client, obj), uid=obj["metadata"]["uid"], dry_run=True)
        except (Conflict, NotFound):
            return
        except ServerFault:
            if not patient:
                raise

    ask_all(functools.partial(pretend, obj) for obj in objects)


def remove_objects(client: KubeClient, objects: collections.abc.Sequence[Object]) -> None:
    """Delete these very objects, those first that were made last."""
    for obj in reversed(objects):
        settle_delete(client, _served_path(client, obj), obj["metadata"]["uid"])


def wait_until_gone(client: KubeClient, objects: collections.abc.Iterable[Object], deadline: float) -> None:
    """Return when none of these very objects is there any more."""
    for obj in objects:
        path = _served_path(client, obj)
        while True:
            live = outlast(client, deadline, functools.partial(get_object, client, path))
            if live is None or live["metadata"]["uid"] != obj["metadata"]["uid"]:
                break
            if client.clock() > deadline:
                held = ", ".join(live["metadata"].get("finalizers") or ())
                cause = f"its finalizers are not done: {held}" if held else "it is still there"
                raise MusterError("wait for the removal of", describe_object(obj), cause)
            client.sleep(_GONE_SECONDS)


def _served_path(client: KubeClient, obj: Object) -> str:
    """Where an object lies that was read a moment ago."""
    info = find_resource(client, obj["apiVersion"], obj["kind"])
    if info is None:
        raise MusterError("delete", describe_object(obj), "the API server does not serve this kind any more")
    return object_path(info, obj)
