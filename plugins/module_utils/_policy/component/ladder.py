# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The judgement of single objects on the ladder, from what was observed of them."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.component.component import (
    ExpectedObjects,
    NodeTrace,
    OwnCondition,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    conditions,
    group_and_kind,
    value_at,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.component.certificates import expiry_of_bundle
from ansible_collections.muster.kube.plugins.module_utils._policy.component.health import ObjectHealth, health
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ownership import WEBHOOKS, ServiceName

Object = Mapping[str, t.Any]
WORKLOADS = (("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("batch", "Job"))
_API_SERVICE = ("apiregistration.k8s.io", "APIService")
_ZERO = ("0", "0m", 0, None)


# The versions in which objects are read that somebody named by their kinds.
_VERSIONS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "APIService": "apiregistration.k8s.io/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "Lease": "coordination.k8s.io/v1",
}


class Hook(t.NamedTuple):
    """One webhook, or one API that is served by a Service: whom the server calls, and by which certificates."""

    name: str
    service: ServiceName | None
    url: str | None
    bundle: str | None
    # Whether the server verifies who answers.
    verified: bool = True


def named_object(text: str) -> dict[str, t.Any]:
    """The object behind a kind with a name, which has a namespace before it if its kind has; such as Lease home/x."""
    kind, _space, place = text.partition(" ")
    home, _slash, name = place.rpartition("/")
    metadata = {"name": name, **({"namespace": home} if home else {})}
    return {"apiVersion": _VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata}


def expected_objects(expects: ExpectedObjects) -> list[dict[str, t.Any]]:
    """What has to be there, with address only."""
    names = [f"CustomResourceDefinition {name}" for name in expects.definitions]
    return [named_object(text) for text in (*names, *expects.workloads, *expects.webhooks)]


def judge_workload(live: Object) -> ObjectHealth:
    """A workload works if pods are wanted at all, and all of them are available."""
    kind = group_and_kind(live)
    if kind == ("apps", "DaemonSet"):
        found = health(live)
        none = found.ready and not value_at(live, ("status", "desiredNumberScheduled"))
        return ObjectHealth(False, "0 pods are desired: no node takes them") if none else found
    if kind != ("batch", "Job") and value_at(live, ("spec", "replicas")) == 0:
        return ObjectHealth(False, "0 pods are desired", failed=True)
    return health(live)


def hooks_of(obj: Object) -> Iterator[Hook]:
    """What an object has the server call; none for most kinds."""
    kind = group_and_kind(obj)
    if kind in WEBHOOKS:
        for item in obj.get("webhooks") or ():
            yield _hook(str(item.get("name")), item.get("clientConfig") or {})
    elif kind == ("apiextensions.k8s.io", "CustomResourceDefinition"):
        client = value_at(obj, ("spec", "conversion", "webhook", "clientConfig"))
        if client:
            yield _hook("conversion", client)
    elif kind == _API_SERVICE and value_at(obj, ("spec", "service")):
        yield _hook(str(obj["metadata"]["name"]), obj["spec"])


def _hook(name: str, client: Object) -> Hook:
    """A webhook from the part of an object that tells whom to call."""
    service = client.get("service") or {}
    called = ServiceName(str(service.get("namespace")), str(service["name"])) if service.get("name") else None
    return Hook(name, called, client.get("url"), client.get("caBundle"), not client.get("insecureSkipTLSVerify"))


def judge_hook(hook: Hook, ready: Collection[ServiceName], now: float) -> ObjectHealth:
    """A webhook works if its Service has an endpoint and its certificates can be verified; now is the server's time."""
    if hook.service is None and not hook.url:
        return ObjectHealth(False, f"{hook.name} calls nobody", failed=True)
    if hook.service is not None and hook.service not in ready:
        return ObjectHealth(False, f"{hook.name}: Service {'/'.join(hook.service)} has no endpoint that is ready")
    # Certificates of an address may be signed by somebody whom everybody knows.
    if not hook.bundle and (hook.url or not hook.verified):
        return ObjectHealth(True)
    if not hook.bundle:
        return ObjectHealth(False, f"{hook.name}: its caBundle is empty")
    expiry = expiry_of_bundle(hook.bundle)
    if expiry is None:
        return ObjectHealth(False, f"{hook.name}: its caBundle holds no certificate")
    if expiry <= now:
        return ObjectHealth(False, f"{hook.name}: the certificates in its caBundle are expired")
    return ObjectHealth(True)


def is_ready_slice(obj: Object) -> bool:
    """Whether an EndpointSlice names an address that takes requests."""
    return any(
        item.get("addresses") and (item.get("conditions") or {}).get("ready") is not False
        for item in obj.get("endpoints") or ()
    )


def judge_condition(wanted: OwnCondition, live: Object | None) -> ObjectHealth:
    """The component's own condition has the status that it should have."""
    if live is None:
        return ObjectHealth(False, "it does not exist")
    if wanted.path:
        value = value_at(live, tuple(wanted.path.removeprefix(".").split(".")))
        if str(value) == wanted.value:
            return ObjectHealth(True)
        return ObjectHealth(False, f"{wanted.path} is {value} and not {wanted.value}")
    found = next((item for item in conditions(live) if item.get("type") == wanted.type), None)
    if found is None:
        return ObjectHealth(False, f"it has no condition {wanted.type}")
    if found.get("status") == wanted.status:
        return ObjectHealth(True)
    told = found.get("message") or found.get("reason")
    return ObjectHealth(False, f"{wanted.type} is {found.get('status')}{f': {told}' if told else ''}")


def judge_nodes(wanted: NodeTrace, nodes: Collection[Object]) -> ObjectHealth:
    """At least one node has all that is looked for; else what the best of them lacks."""
    lacks = [_lack(wanted, node) for node in nodes]
    if not lacks:
        return ObjectHealth(False, "there are no nodes")
    least = min(lacks, key=len)
    return ObjectHealth(True) if not least else ObjectHealth(False, f"no node has {', '.join(least)}")


def _lack(wanted: NodeTrace, node: Object) -> list[str]:
    """What a node does not have of what is looked for; a label may be given with its value."""
    labels = value_at(node, ("metadata", "labels")) or {}
    given = value_at(node, ("status", "allocatable")) or {}
    missing = [
        f"the label {text}"
        for text in wanted.labels
        if not (text in labels if "=" not in text else labels.get(text.partition("=")[0]) == text.partition("=")[2])
    ]
    return missing + [f"the resource {name}" for name in wanted.resources if given.get(name) in _ZERO]
