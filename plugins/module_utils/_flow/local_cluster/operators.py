# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operators of a local cluster: their CRDs, objects and webhooks in the API server."""

from __future__ import annotations

import collections.abc
import hashlib
import json
import pathlib
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import read_resources
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, replace
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    Placeholders,
    ProcessSpec,
    covers,
    expand_object,
    rewrite_webhooks,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DIGEST_ANNOTATION = "muster.kube/digest"
MANAGED_LABEL = "muster.kube/managed"
SERVED_SECONDS = 0.2
WEBHOOK_API = "admissionregistration.k8s.io/v1"
WEBHOOK_PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
Object = dict[str, t.Any]


def wanted_crds(
    operators: collections.abc.Iterable[ProcessSpec], directories: collections.abc.Mapping[str, pathlib.Path]
) -> dict[str, Object]:
    """The CRDs of the operators by name, each with a digest of its content so that a new version is noticed."""
    found: dict[str, Object] = {}
    for operator in operators:
        for path in operator.crds:
            for document in t.cast("list[Object]", read_resources(directories[operator.program], path)):
                if document.get("kind") != "CustomResourceDefinition":
                    continue
                digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]
                document["metadata"].setdefault("annotations", {})[DIGEST_ANNOTATION] = digest
                document.pop("status", None)
                found[document["metadata"]["name"]] = document
    return found


def live_crds(client: KubeClient) -> dict[str, Object]:
    """Name, version, digest and owner of all CRDs there are."""

    def keep(crd: Object) -> tuple[str, Object]:
        """The few parts that matter."""
        metadata = crd["metadata"]
        return metadata["name"], {
            "resourceVersion": metadata["resourceVersion"],
            "digest": (metadata.get("annotations") or {}).get(DIGEST_ANNOTATION),
            "managed": (metadata.get("labels") or {}).get(MANAGED_LABEL) == "true",
        }

    return dict(list_objects(client, CRDS, keep=keep, limit=50).items)


def outdated_crds(
    wanted: collections.abc.Mapping[str, Object], live: collections.abc.Mapping[str, Object]
) -> list[str]:
    """Names of CRDs that are missing or of another version.

    MCAD and the role dispatcher bring different CRDs of one name. That of the role is never replaced: its AppWrappers
    would get two dispatchers.
    """
    for name in wanted:
        if live.get(name, {}).get("managed"):
            cause = "the role dispatcher installed its own here; run this operator in a cluster of its own"
            raise MusterError("install", f"CustomResourceDefinition {name}", cause)
    digests = {name: crd["metadata"]["annotations"][DIGEST_ANNOTATION] for name, crd in wanted.items()}
    return [name for name, digest in digests.items() if name not in live or live[name]["digest"] != digest]


def ensure_crds(client: KubeClient, wanted: collections.abc.Mapping[str, Object], deadline: float) -> list[str]:
    """Create or replace what differs and wait until all are served; returns the names that were written."""
    live = live_crds(client)
    outdated = outdated_crds(wanted, live)

    def write(name: str) -> None:
        """One CRD."""
        if name in live:
            crd = wanted[name]
            metadata = {**crd["metadata"], "resourceVersion": live[name]["resourceVersion"]}
            replace(client, f"{CRDS}/{name}", {**crd, "metadata": metadata})
        else:
            create(client, CRDS, wanted[name])

    parallel([_bind(write, name) for name in outdated], width=4)
    for name in wanted if outdated else ():
        while not is_served(client, wanted[name]):
            if time.monotonic() > deadline:
                raise MusterError(
                    "wait for", f"CustomResourceDefinition {name}", "the API server does not serve it in time"
                )
            time.sleep(SERVED_SECONDS)
    return outdated


def is_served(client: KubeClient, crd: Object) -> bool:
    """True when discovery shows the kind in all its versions; asking there is far cheaper than reading CRDs."""
    spec = crd["spec"]
    versions = [f"{spec['group']}/{version['name']}" for version in spec["versions"] if version.get("served")]
    return all(find_resource(client, version, spec["names"]["kind"]) is not None for version in versions)


def _bind(call: collections.abc.Callable[[str], None], name: str) -> collections.abc.Callable[[], None]:
    """A call without arguments."""
    return lambda: call(name)


def wanted_objects(operator: ProcessSpec, directory: pathlib.Path, values: Placeholders) -> list[Object]:
    """The objects an operator needs, in the order in which they must be created; webhooks come last."""
    objects: list[Object] = [expand_object(item, values) for item in operator.objects]
    for webhook in operator.webhooks:
        bundle = values.value(f"base64:{operator.name}/ca.crt")
        port = int(values.value(f"port:{webhook.port}"))
        for document in t.cast("list[Object]", read_resources(directory, webhook.manifest)):
            if document.get("kind") == webhook.kind:
                objects.append(rewrite_webhooks(document, webhook, port, bundle))
    return objects


def object_path(client: KubeClient, obj: Object) -> tuple[str, str]:
    """The paths of the collection and of the object."""
    info = find_resource(client, obj["apiVersion"], obj["kind"])
    if info is None:
        raise MusterError("create", describe_object(obj), "the API server does not serve this kind")
    namespace = obj["metadata"].get("namespace")
    return info.path(namespace), info.path(namespace, obj["metadata"]["name"])


def find_differing(client: KubeClient, objects: collections.abc.Iterable[Object]) -> list[Object]:
    """The objects that are missing or lack something we want."""
    return [obj for obj in objects if not covers(get_object(client, object_path(client, obj)[1]), obj)]


def ensure_objects(client: KubeClient, objects: collections.abc.Iterable[Object]) -> list[str]:
    """Create or replace what differs; returns what was written, in words."""
    written = []
    for obj in find_differing(client, objects):
        collection, path = object_path(client, obj)
        try:
            create(client, collection, obj)
        except Conflict as error:
            if not error.already_exists:
                raise
            live = get_object(client, path) or {}
            version = live.get("metadata", {}).get("resourceVersion")
            replace(client, path, {**live, **obj, "metadata": {**obj["metadata"], "resourceVersion": version}})
        written.append(describe_object(obj))
    return written


def delete_webhooks(client: KubeClient, operator: ProcessSpec) -> None:
    """Remove the webhooks of an operator that is no longer wanted; its CRDs stay, for they hold the user's objects."""
    for webhook in operator.webhooks:
        try:
            delete(client, resource_path(WEBHOOK_API, WEBHOOK_PLURALS[webhook.kind], None, webhook.name))
        except NotFound:
            continue
