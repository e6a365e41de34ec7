# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Upgrades that would lose something, refused before the first write."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._kube.apply import DEFINITION, Object, ask_all
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_metadata
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import Component
from ansible_collections.muster.kube.plugins.module_utils._model.component.inventory import ComponentRecord
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object, group_and_kind
from ansible_collections.muster.kube.plugins.module_utils._policy.component.upgrade import (
    is_downgrade,
    served_versions,
    users_of,
    vanishing_served,
    vanishing_stored,
)

# So many objects are named that use a version.
_MOST_NAMED = 3


def require_upgrade(
    client: KubeClient, component: Component, record: ComponentRecord | None, objects: Iterable[Object]
) -> None:
    """Refuse an older version than the one that is there, and one whose definitions lose a version in use."""
    version = component.version
    if record is not None and is_downgrade(record.version, version):
        cause = f"version {record.version} is there, {version} is older; remove the component first"
        raise MusterError("upgrade", component.where, cause)
    if record is not None and record.source and (record.source == "helm") != (component.source_name == "helm"):
        cause = f"it was installed from the source {record.source}; remove it before it is made from another"
        raise MusterError("upgrade", component.where, cause)
    definitions = [obj for obj in objects if group_and_kind(obj) == DEFINITION]
    ask_all(functools.partial(_require_versions, client, obj) for obj in definitions)


def _require_versions(client: KubeClient, coming: Object) -> None:
    """Refuse a definition without a version in which objects are stored, or which somebody uses."""
    path = resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions", None, coming["metadata"]["name"])
    live = get_object(client, path)
    if live is None:
        return
    stored = vanishing_stored(live, coming)
    if stored:
        cause = f"objects may be stored in {', '.join(stored)}, which the new definition does not know"
        raise MusterError(
            "upgrade", describe_object(coming), f"{cause}; migrate them, then take it out of storedVersions"
        )
    gone = vanishing_served(live, coming)
    users = _users(client, live, gone) if gone else []
    if users:
        more = f" and {len(users) - _MOST_NAMED} more" if len(users) > _MOST_NAMED else ""
        cause = f"{', '.join(gone)} would not be served any more, in which {', '.join(users[:_MOST_NAMED])}{more}"
        raise MusterError("upgrade", describe_object(coming), f"{cause} were written")


def _users(client: KubeClient, live: Object, gone: Iterable[str]) -> list[str]:
    """The objects that somebody wrote in one of these versions, and who; who may not look learns of none."""
    spec = live["spec"]
    wanted = [f"{spec['group']}/{name}" for name in gone]
    api_version = f"{spec['group']}/{served_versions(live)[0]}"

    def keep(raw: Object) -> str | None:
        """An object and its writers."""
        writers = users_of(wanted, raw)
        name = describe_object({**raw, "kind": spec["names"]["kind"]})
        return f"{name} (by {', '.join(writers)})" if writers else None

    try:
        path = resource_path(api_version, spec["names"]["plural"])
        return list_metadata(client, path, keep=keep, label_selector=None).items
    except Forbidden:
        return []
