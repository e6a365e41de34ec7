# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nodes that a Job needs: read at most once, and refused hardware that none of them has."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import HardwareAsk
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import UNSCHEDULABLE
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware import Match, match_nodes

Object = dict[str, t.Any]


class NoSuchHardware(MusterError):
    """No node has what was asked for; the result names those that nearly have it."""

    def __init__(self, what: str, match: Match) -> None:
        """Keep the near misses apart, so that a play can look at them."""
        super().__init__("find", f"hardware for the {what}", match.words())
        self.match = match

    def as_result(self) -> dict[str, t.Any]:
        """The keys of a failure, the reason, and the near misses."""
        near = [{"node": miss.node, "missing": list(miss.missing)} for miss in self.match.near_misses]
        return {**super().as_result(), "reason": UNSCHEDULABLE, "near_misses": near}


class Nodes:
    """The nodes of the cluster, listed at most once and only when they are needed."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._listed: list[Object] | None = None
        self._known: dict[str, Object | None] = {}
        self._asked = False

    def all(self) -> list[Object] | None:
        """Every node as the server sent it; None when this account may not list them."""
        if not self._asked:
            self._asked = True
            try:
                self._listed = list_objects(self._client, resource_path("v1", "nodes"), keep=lambda raw: raw).items
            except Forbidden:
                self._listed = None
        return self._listed

    def note(self, node: Object) -> None:
        """Remember a node that was read for another purpose, without its long lists of images and field managers."""
        metadata = {key: value for key, value in node["metadata"].items() if key != "managedFields"}
        status = {key: value for key, value in (node.get("status") or {}).items() if key != "images"}
        self._known[str(metadata["name"])] = {**node, "metadata": metadata, "status": status}

    def find(self, name: str | None) -> Object | None:
        """One node, read when it is first asked for; None when it is gone or may not be read."""
        if name is None:
            return None
        if name not in self._known:
            try:
                self._known[name] = get_object(self._client, resource_path("v1", "nodes", name=name))
            except Forbidden:
                self._known[name] = None
        return self._known[name]


def nodes_for(nodes: Nodes, ask: HardwareAsk, requests: t.Mapping[str, t.Any], wait: bool) -> list[Object] | None:
    """The nodes whose labels tell what to ask the scheduler for; None when no node needs them, or none of them has it.

    Nodes that are yet to come are only known by what is asked for.
    """
    if ask.is_empty:
        return None
    known = nodes.all()
    return None if wait and match_nodes(ask, known, requests).refused else known


def require_hardware(nodes: Nodes, ask: HardwareAsk, requests: t.Mapping[str, t.Any], what: str) -> None:
    """Refuse at once what no node has, instead of waiting for a node that will not come."""
    if ask.is_empty:
        return
    match = match_nodes(ask, nodes.all(), requests)
    if match.refused:
        raise NoSuchHardware(what, match)
