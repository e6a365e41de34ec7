# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a started gang is charged: its state keeps it, so that a changed tree or label moves nobody's usage."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaFlavor
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields


@dataclasses.dataclass(frozen=True, slots=True)
class Charge:
    """The queue of one tree that a gang is charged to, and the flavor of each podset where the tree has flavors.

    kinds are those of the flavors that add something to pods, as they were when the start was decided: the objects of
    an attempt stay the same whatever becomes of the tree.
    """

    tree: str
    queue: str
    flavors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    kinds: tuple[QuotaFlavor, ...] = ()


def kinds_of(charged: Iterable[Charge]) -> dict[str, list[QuotaFlavor]]:
    """The flavors of each podset that add something to its pods, of all trees in their order."""
    found: dict[str, list[QuotaFlavor]] = {}
    for charge in charged:
        known = {kind.name: kind for kind in charge.kinds}
        for podset, flavor in charge.flavors.items():
            if flavor in known:
                found.setdefault(podset, []).append(known[flavor])
    return found


def charge_data(charge: Charge) -> Data:
    """Plain values of a charge."""
    data: Data = {"tree": charge.tree, "queue": charge.queue}
    if charge.flavors:
        data["flavors"] = dict(charge.flavors)
    if charge.kinds:
        data["kinds"] = {
            kind.name: {"node_labels": dict(kind.node_labels), "tolerations": [dict(item) for item in kind.tolerations]}
            for kind in charge.kinds
        }
    return data


def read_charge(value: t.Any, where: str) -> Charge:
    """A charge from decoded JSON; BadInput when a known part has the wrong form."""
    fields = Fields(value, where)
    flavors = fields.mapping("flavors")
    for podset, flavor in flavors.items():
        if not isinstance(flavor, str):
            raise fields.fail(f"flavors.{podset}", f"the name of a flavor is needed, not {flavor!r}")
    kinds = tuple(_kind(name, Fields(item, f"{where}: kinds.{name}")) for name, item in fields.mapping("kinds").items())
    return Charge(fields.required_text("tree"), fields.required_text("queue"), dict(flavors), kinds)


def _kind(name: str, fields: Fields) -> QuotaFlavor:
    """What one flavor adds to pods."""
    labels, tolerations = fields.mapping("node_labels"), fields.sequence("tolerations")
    for key, value in labels.items():
        if not isinstance(value, str):
            raise fields.fail(f"node_labels.{key}", f"a text is needed, not {value!r}")
    for index, item in enumerate(tolerations):
        if not isinstance(item, Mapping):
            raise fields.fail(f"tolerations[{index}]", f"a mapping is needed, not {item!r}")
    return QuotaFlavor(name, dict(labels), tuple(dict(item) for item in tolerations))
