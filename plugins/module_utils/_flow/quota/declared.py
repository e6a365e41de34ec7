# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tree that a task wants: its queues as declared, or as MCAD has them, with shares of nodes worked out."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable

from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions, SubtreeSource
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod, node_from_api, pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.node_share import (
    SharedDeclaration,
    take_node_shares,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.subtrees import (
    SUBTREE_APIS,
    SUBTREE_KIND,
    SUBTREE_LABEL,
    import_subtrees,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import tree_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.node_shares import (
    NodeSupply,
    fill_node_shares,
    node_supply,
)

Connect = Callable[[], KubeClient]
Object = dict[str, t.Any]


@dataclasses.dataclass(frozen=True, slots=True)
class DeclaredTree:
    """A tree that may be stored, and what is to be known of where it comes from."""

    tree: QuotaTree
    notes: tuple[str, ...] = ()


def declare_tree(connect: Connect, options: QuotaOptions) -> DeclaredTree:
    """The tree of a task; whatever can be found wrong with it without asking a server is told without asking one."""
    declaration: Object = dict(options.declaration)
    notes: tuple[str, ...] = ()
    if options.subtrees is not None:
        declaration, notes = _imported(connect(), options, options.subtrees)
    taken = take_node_shares(declaration)
    tree = _read(options.tree, taken)
    if taken.shared:
        supply = _read_supply(connect(), daemons=any(queue.wanted.less_daemons for queue in taken.shared))
        tree = read_tree(options.tree, fill_node_shares(options.tree, taken, tree.flavors, supply))
    tree_text(tree)
    return DeclaredTree(tree, notes)


def _read(name: str, taken: SharedDeclaration) -> QuotaTree:
    """The tree without its shares; what is wrong with those is told together with all the rest."""
    problems: list[Problem] = list(taken.problems)
    try:
        tree = read_tree(name, taken.declaration)
    except BadTree as error:
        raise BadTree(name, [*error.problems, *problems]) from error
    if problems:
        raise BadTree(name, problems)
    return tree


def _read_supply(client: KubeClient, *, daemons: bool) -> NodeSupply:
    """The nodes, and where that matters the pods that are on each of them."""
    nodes = list_objects(client, resource_path("v1", "nodes"), keep=node_from_api).items
    pods = list_objects(client, resource_path("v1", "pods"), keep=_daemon).items if daemons else []
    return node_supply(nodes, pods)


def _daemon(raw: Object) -> Pod | None:
    """A pod that a DaemonSet or a kubelet keeps on its node."""
    pod = pod_from_api(raw)
    return pod if pod is not None and pod.stays else None


def _imported(client: KubeClient, options: QuotaOptions, source: SubtreeSource) -> tuple[Object, tuple[str, ...]]:
    """The declaration of a task with the queues of a tree of MCAD's."""
    name = source.tree or options.tree
    found = (find_resource(client, api_version, SUBTREE_KIND) for api_version in SUBTREE_APIS)
    info = next((item for item in found if item is not None), None)
    if info is None:
        cause = f"the API server serves no {SUBTREE_KIND} ({' or '.join(SUBTREE_APIS)}); MCAD is not installed here"
        raise MusterError("read", f"quota tree {options.tree}", cause)
    path = info.path(source.namespace)
    subtrees = list_objects(client, path, keep=lambda raw: raw, label_selector=f"{SUBTREE_LABEL}={name}").items
    imported = import_subtrees(options.tree, name, subtrees)
    given = {key: value for key, value in options.declaration.items() if value is not None}
    return {**imported.declaration, **given}, imported.notes
