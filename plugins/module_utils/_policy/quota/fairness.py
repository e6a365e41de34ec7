# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How evenly a tree is used: Jain's index over what each leaf has of its own."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage


def jain_index(shares: Iterable[Fraction]) -> Fraction | None:
    """1 when all have the same, 1/n when one of n has everything; None when nobody has anything."""
    known = list(shares)
    squares = sum((share * share for share in known), Fraction(0))
    total = sum(known, Fraction(0))
    return total * total / (len(known) * squares) if squares else None


def tree_fairness(usage: TreeUsage) -> dict[str, Fraction | None]:
    """Jain's index of each resource over the leaves that have a nominal amount: what they use of it, in all flavors."""
    found: dict[str, Fraction | None] = {}
    for resource in usage.tree.resources:
        shares = []
        for leaf in usage.tree.leaves:
            keys = [key for key in usage.tree.keys if key.resource == resource]
            nominal = sum(leaf.nominal.get(key, 0) for key in keys)
            if nominal:
                shares.append(Fraction(sum(usage.used(leaf.name, key) for key in keys), nominal))
        found[resource] = jain_index(shares)
    return found
