# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What charts may ask about the server: its version, and all that it serves."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import group_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import decode, get_object
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object

# All groups, versions and kinds in one answer; older servers answer with the groups alone.
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@dataclasses.dataclass(frozen=True, slots=True)
class ServerCapabilities:
    """The server as a chart sees it."""

    version: str
    # group/version, and group/version/Kind.
    api_versions: frozenset[str]

    def with_definitions(self, definitions: collections.abc.Iterable[Object]) -> ServerCapabilities:
        """The server as it will be when these definitions are there."""
        coming: set[str] = set()
        for crd in definitions:
            spec = crd.get("spec") or {}
            for version in spec.get("versions") or ():
                if version.get("served"):
                    name = f"{spec.get('group')}/{version.get('name')}"
                    coming |= {name, f"{name}/{(spec.get('names') or {}).get('kind')}"}
        return dataclasses.replace(self, api_versions=self.api_versions | coming)


def read_capabilities(client: KubeClient) -> ServerCapabilities:
    """Ask the server for its version and all kinds it serves."""
    version = decode("/version", client.request("GET", "/version"))
    return ServerCapabilities(str(version.get("gitVersion") or ""), frozenset((*_core(client), *_groups(client))))


def _core(client: KubeClient) -> t.Iterator[str]:
    """The oldest of all, which belong to no group."""
    yield "v1"
    for entry in (get_object(client, "/api/v1") or {}).get("resources") or ():
        yield f"v1/{entry['kind']}"


def _groups(client: KubeClient) -> t.Iterator[str]:
    """Versions and kinds of all groups."""
    answer = decode("/apis", client.request("GET", "/apis", accept=_AGGREGATED))
    if answer.get("kind") == "APIGroupDiscoveryList":
        for group in answer.get("items") or ():
            for version in group.get("versions") or ():
                name = f"{group['metadata']['name']}/{version['version']}"
                yield name
                yield from (f"{name}/{kind}" for kind in _aggregated_kinds(version))
        return
    names = [version["groupVersion"] for group in answer.get("groups") or () for version in group["versions"]]
    for name, kinds in zip(names, parallel([functools.partial(_kinds, client, name) for name in names]), strict=True):
        yield name
        yield from (f"{name}/{kind}" for kind in kinds)


def _aggregated_kinds(version: Object) -> t.Iterator[str]:
    """The kinds of a version, those of subresources too, as helm takes them."""
    for resource in version.get("resources") or ():
        for entry in (resource, *(resource.get("subresources") or ())):
            kind = (entry.get("responseKind") or {}).get("kind")
            if kind:
                yield kind


def _kinds(client: KubeClient, group_version: str) -> list[str]:
    """The kinds of a version; one whose server is away has none that anybody could use."""
    try:
        listed = get_object(client, group_path(group_version))
    except ApiError:
        return []
    return [entry["kind"] for entry in (listed or {}).get("resources") or ()]
