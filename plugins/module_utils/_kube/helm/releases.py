# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""helm's own Secrets: who asks them needs no helm to know how a release stands."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_metadata, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import settle_delete
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import (
    NAME_LABEL,
    OWNER,
    OWNER_LABEL,
    SECRET_TYPE,
    STATUS_LABEL,
    SUPERSEDED,
    UNINSTALLED,
    HelmRelease,
    HelmRevision,
    read_release,
    read_revision,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object


def list_revisions(client: KubeClient, namespace: str, name: str) -> tuple[HelmRevision, ...]:
    """All revisions of a release in ascending order, by their labels; what was installed is not read."""
    path = resource_path("v1", "secrets", namespace)
    selector = f"{OWNER_LABEL}={OWNER},{NAME_LABEL}={name}"
    found = list_metadata(client, path, keep=read_revision, label_selector=selector)
    return tuple(sorted(found.items, key=lambda item: item.revision))


def read_whole(client: KubeClient, revision: HelmRevision) -> HelmRelease | None:
    """All that helm keeps of a revision; None when it is gone meanwhile."""
    secret = get_object(client, resource_path("v1", "secrets", revision.namespace, revision.secret))
    return None if secret is None else read_release(secret)


def forget_revision(client: KubeClient, revision: HelmRevision) -> None:
    """Delete the Secret of a revision, this very one; the objects that it names stay."""
    path = resource_path("v1", "secrets", revision.namespace, revision.secret)
    settle_delete(client, path, revision.uid)


@dataclasses.dataclass(frozen=True, slots=True)
class FoundReleases:
    """The releases of a cluster, each with its last revision, and where nobody let us look."""

    releases: tuple[HelmRelease, ...]
    unseen: tuple[str, ...] = ()


def find_releases(client: KubeClient, namespace: str) -> FoundReleases:
    """The releases of the whole cluster, or of this namespace where we may not look further."""
    try:
        return FoundReleases(_last_of_each(client, None))
    except Forbidden:
        unseen = f"secrets outside of {namespace}"
    try:
        return FoundReleases(_last_of_each(client, namespace), (unseen,))
    except Forbidden:
        return FoundReleases((), ("secrets",))


def _last_of_each(client: KubeClient, namespace: str | None) -> tuple[HelmRelease, ...]:
    """The last revision of each release; what somebody else keeps under these labels is none."""

    def keep(secret: Object) -> HelmRelease | None:
        """One revision, if it is one."""
        if secret.get("type") != SECRET_TYPE:
            return None
        try:
            return read_release(secret)
        except BadInput:
            return None

    selector = f"{OWNER_LABEL}={OWNER},{STATUS_LABEL} notin ({SUPERSEDED},{UNINSTALLED})"
    # Each may have a megabyte.
    found = list_objects(
        client, resource_path("v1", "secrets", namespace), keep=keep, label_selector=selector, limit=20
    )
    last: dict[tuple[str, str], HelmRelease] = {}
    for item in sorted(found.items, key=lambda item: item.revision.revision):
        last[item.revision.namespace, item.revision.name] = item
    return tuple(last.values())
