# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operators of a local cluster: their CRDs, objects and webhooks in the API server."""

from __future__ import annotations

import collections.abc
import contextlib
import hashlib
import json
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import read_resources
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import ObjectChange, compare
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_metadata
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    Placeholders,
    ProcessSpec,
    convert_by_url,
    expand_object,
    rewrite_webhooks,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DIGEST_ANNOTATION = "muster.kube/digest"
MANAGED_LABEL = "muster.kube/managed"
WEBHOOK_API = "admissionregistration.k8s.io/v1"
WEBHOOK_PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
Object = dict[str, t.Any]


def wanted_crds(
    operators: collections.abc.Iterable[ProcessSpec],
    locate: collections.abc.Callable[[ProcessSpec], pathlib.Path],
    values: collections.abc.Callable[[ProcessSpec], Placeholders],
) -> list[Object]:
    """The CRDs of the operators, each with a digest of its content so that a new version is noticed."""
    found: dict[str, Object] = {}
    for operator in operators:
        for path in operator.crds:
            for document in t.cast("list[Object]", read_resources(locate(operator), path)):
                if document.get("kind") != "CustomResourceDefinition":
                    continue
                document = _with_conversion(document, operator, values(operator))
                digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]
                document["metadata"].setdefault("annotations", {})[DIGEST_ANNOTATION] = digest
                document.pop("status", None)
                found[document["metadata"]["name"]] = document
    return list(found.values())


def _with_conversion(crd: Object, operator: ProcessSpec, values: Placeholders) -> Object:
    """A definition that names its operator as the one who converts, where that is so."""
    conversion = operator.conversion
    if conversion is None or crd["metadata"]["name"] not in conversion.definitions:
        return crd
    url = f"https://127.0.0.1:{values.value(f'port:{conversion.port}')}{conversion.path}"
    return convert_by_url(crd, url, values.value(f"base64:{operator.name}/ca.crt"))


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


def find_changes(
    client: KubeClient, crds: collections.abc.Sequence[Object], objects: collections.abc.Iterable[Object]
) -> list[ObjectChange]:
    """What has to be written: CRDs of another digest, and objects that are not as described.

    MCAD and the role dispatcher bring different CRDs of one name. That of the role is never replaced: its AppWrappers
    would get two dispatchers.
    """
    live: dict[str, Object] = {}
    if crds:
        listing = list_metadata(client, CRDS, keep=lambda crd: crd["metadata"], label_selector=None)
        live = {metadata["name"]: metadata for metadata in listing.items}
    changes = []
    for crd in crds:
        metadata = live.get(crd["metadata"]["name"], {})
        if (metadata.get("labels") or {}).get(MANAGED_LABEL) == "true":
            cause = "the role dispatcher installed its own here; run this operator in a cluster of its own"
            raise MusterError("install", describe_object(crd), cause)
        digest = (metadata.get("annotations") or {}).get(DIGEST_ANNOTATION)
        same = digest == crd["metadata"]["annotations"][DIGEST_ANNOTATION]
        changes.append(ObjectChange(crd, "unchanged" if same else "changed"))
    return changes + compare(client, objects)


def delete_webhooks(client: KubeClient, operator: ProcessSpec) -> None:
    """Remove the webhooks of an operator that is no longer wanted; its CRDs stay, for they hold the user's objects.

    Nobody converts these any more. Their digests go, so that the operator finds them as it needs them when it returns.
    """
    plain = {
        "metadata": {"annotations": {DIGEST_ANNOTATION: None}},
        "spec": {"conversion": {"strategy": "None", "webhook": None}},
    }
    for name in () if operator.conversion is None else operator.conversion.definitions:
        with contextlib.suppress(NotFound):
            patch(client, f"{CRDS}/{name}", plain, patch_type="merge")
    for webhook in operator.webhooks:
        with contextlib.suppress(NotFound):
            delete(client, resource_path(WEBHOOK_API, WEBHOOK_PLURALS[webhook.kind], None, webhook.name))
