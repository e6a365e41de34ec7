# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The quota trees of a cluster, as one cycle reads them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import tree_digest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json

# As long as the digest of all trees together is.
DIGEST_LENGTH = 32


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaTrees:
    """The trees that are in force, in the order of their names.

    unreadable tells what is wrong with trees that nobody can keep to. namespaces are the labels of namespaces, as far
    as selectors of queues ask for them. hidden says why not all that is used can be seen; None when it can.
    """

    trees: tuple[QuotaTree, ...] = ()
    unreadable: Mapping[str, str] = dataclasses.field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    hidden: str | None = None

    @property
    def in_force(self) -> bool:
        """Whether there is any tree."""
        return bool(self.trees or self.unreadable)


class TreeDigests:
    """Digests of all trees in force together; that of a tree is worked out once."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._known: dict[str, tuple[QuotaTree, str]] = {}

    def of(self, trees: QuotaTrees) -> str:
        """The digest that decisions on these trees name, of those that cannot be read by name; empty without any."""
        if not trees.in_force:
            return ""
        for tree in trees.trees:
            if tree.name not in self._known or self._known[tree.name][0] is not tree:
                self._known[tree.name] = tree, tree_digest(tree)
        told = {**{tree.name: self._known[tree.name][1] for tree in trees.trees}, **dict.fromkeys(trees.unreadable)}
        return hashlib.sha256(canonical_json(told).encode()).hexdigest()[:DIGEST_LENGTH]


NO_TREES = QuotaTrees()
