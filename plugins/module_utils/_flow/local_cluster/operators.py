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
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import read_resources
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import (
    Action,
    ObjectChange,
    compare,
    write_changes,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_metadata
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    Placeholders,
    ProcessSpec,
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
    """Digest and owner of all CRDs there are, by name."""

    def keep(crd: Object) -> tuple[str, Object]:
        """The few parts that matter."""
        metadata = crd["metadata"]
        return metadata["name"], {
            "digest": (metadata.get("annotations") or {}).get(DIGEST_ANNOTATION),
            "managed": (metadata.get("labels") or {}).get(MANAGED_LABEL) == "true",
        }

    return dict(list_metadata(client, CRDS, keep=keep, label_selector=None).items)


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
    """Write what differs and wait until all are served; returns the names that were written."""
    outdated = outdated_crds(wanted, live_crds(client))
    actions: dict[bool, Action] = {True: "changed", False: "unchanged"}
    write_changes(client, [ObjectChange(crd, actions[name in outdated]) for name, crd in wanted.items()], deadline)
    return outdated


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


def find_differing(client: KubeClient, objects: collections.abc.Iterable[Object]) -> list[Object]:
    """The objects that are missing or not as described."""
    return [change.obj for change in compare(client, objects) if change.action != "unchanged"]


def ensure_objects(client: KubeClient, objects: collections.abc.Iterable[Object]) -> list[str]:
    """Write what differs; returns what was written, in words."""
    changes = [change for change in compare(client, objects) if change.action != "unchanged"]
    write_changes(client, changes, client.clock())
    return [describe_object(change.obj) for change in changes]


def delete_webhooks(client: KubeClient, operator: ProcessSpec) -> None:
    """Remove the webhooks of an operator that is no longer wanted; its CRDs stay, for they hold the user's objects."""
    for webhook in operator.webhooks:
        try:
            delete(client, resource_path(WEBHOOK_API, WEBHOOK_PLURALS[webhook.kind], None, webhook.name))
        except NotFound:
            continue
