# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whose an object is: what others installed, told by the marks that their tools leave, and whom it calls."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Collection, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import group_and_kind, value_at

Object = Mapping[str, t.Any]
# Objects without which a component is none: who has these has the component.
BULK = (
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
)
WEBHOOKS = (
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
)
# What pods of Deployments, DaemonSets and StatefulSets add to the name of their workload, and what holders add to that;
# the letters are those that Kubernetes draws names of, which make no words.
_DRAWN = "[bcdfghjklmnpqrstvwxz2456789]"
_POD_SUFFIX = re.compile(rf"(?:(?:-{_DRAWN}{{6,10}})?-{_DRAWN}{{5}}|-[0-9]+)(?:_.*)?$", re.DOTALL)
_OLM_COMPONENT = re.compile(r"operators\.coreos\.com/(?P<name>.+)")


class ServiceName(t.NamedTuple):
    """Where a Service lies."""

    namespace: str
    name: str


def owner_of_object(obj: Object) -> str:
    """Who installed an object, in words."""
    labels, annotations = (value_at(obj, ("metadata", part)) or {} for part in ("labels", "annotations"))
    release = annotations.get("meta.helm.sh/release-name")
    if release:
        return f"helm release {annotations.get('meta.helm.sh/release-namespace')}/{release}"
    if labels.get("olm.owner"):
        return f"{labels.get('olm.owner.kind') or 'ClusterServiceVersion'} {labels['olm.owner']}"
    subscribed = next((found["name"] for key in labels if (found := _OLM_COMPONENT.fullmatch(key))), None)
    if subscribed:
        return f"Subscription of {subscribed}"
    if labels.get("argocd.argoproj.io/instance"):
        return f"Argo CD application {labels['argocd.argoproj.io/instance']}"
    if labels.get("muster.kube/component"):
        return f"component {labels['muster.kube/component']}"
    if labels.get("app.kubernetes.io/managed-by"):
        return str(labels["app.kubernetes.io/managed-by"])
    managers = value_at(obj, ("metadata", "managedFields")) or ()
    names = dict.fromkeys(str(item.get("manager")) for item in managers if item.get("subresource") is None)
    return f"a manifest applied with {', '.join(names)}" if names else "somebody who left no mark"


def version_of_object(obj: Object) -> str | None:
    """The version of what an object belongs to, by its labels or its image."""
    labels = value_at(obj, ("metadata", "labels")) or {}
    told = labels.get("app.kubernetes.io/version") or labels.get("helm.sh/chart")
    if told:
        return str(told)
    # A port of a registry comes before the last slash, a digest behind the tag.
    names = (image.partition("@")[0].rpartition("/")[2] for image in images_of(obj))
    return next((name.partition(":")[2] for name in names), "") or None


def images_of(obj: Object) -> Iterator[str]:
    """The images that the pods of a workload run."""
    template = obj if group_and_kind(obj) == ("", "Pod") else value_at(obj, ("spec", "template")) or {}
    template = value_at(obj, ("spec", "jobTemplate", "spec", "template")) or template
    for field in ("initContainers", "containers"):
        found = value_at(template, ("spec", field))
        # Custom objects have fields of these names that are something else.
        for container in found if isinstance(found, list) else ():
            image = value_at(container, ("image",))
            if isinstance(image, str) and image:
                yield image


def services_called(obj: Object) -> tuple[ServiceName, ...]:
    """The Services that a webhook configuration, an APIService or the conversion of a definition calls."""
    kind = group_and_kind(obj)
    if kind in WEBHOOKS:
        clients = [item.get("clientConfig") or {} for item in obj.get("webhooks") or ()]
    elif kind == ("apiregistration.k8s.io", "APIService"):
        clients = [obj.get("spec") or {}]
    else:
        clients = [value_at(obj, ("spec", "conversion", "webhook", "clientConfig")) or {}]
    named = (item.get("service") or {} for item in clients)
    return tuple(ServiceName(str(item.get("namespace")), str(item["name"])) for item in named if item.get("name"))


def calls_only(obj: Object, services: Collection[ServiceName], namespaces: Collection[str]) -> bool:
    """Whether an object calls Services and none but these, or those in these namespaces."""
    called = services_called(obj)
    return bool(called) and all(item in services or item.namespace in namespaces for item in called)


def is_held_by(lease: Object, workloads: Collection[str]) -> bool:
    """Whether a Lease is held by a pod of one of these workloads: holders call themselves after their pod."""
    holder = str(value_at(lease, ("spec", "holderIdentity")) or "")
    pod = _POD_SUFFIX.sub("", holder)
    return pod != holder and pod in workloads


def mounted_secrets(workload: Object) -> Iterator[str]:
    """The names of the Secrets that the pods of a workload mount."""
    for volume in value_at(workload, ("spec", "template", "spec", "volumes")) or ():
        name = value_at(volume, ("secret", "secretName"))
        if name:
            yield str(name)
