# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a started gang is charged: its state keeps it, so that a changed tree or label moves nobody's usage."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields


@dataclasses.dataclass(frozen=True, slots=True)
class Charge:
    """The queue of one tree that a gang is charged to, and the flavor of each podset where the tree has flavors."""

    tree: str
    queue: str
    flavors: Mapping[str, str] = dataclasses.field(default_factory=dict)


def charge_data(charge: Charge) -> Data:
    """Plain values of a charge."""
    data: Data = {"tree": charge.tree, "queue": charge.queue}
    return {**data, "flavors": dict(charge.flavors)} if charge.flavors else data


def read_charge(value: t.Any, where: str) -> Charge:
    """A charge from decoded JSON; BadInput when a known part has the wrong form."""
    fields = Fields(value, where)
    flavors = fields.mapping("flavors")
    for podset, flavor in flavors.items():
        if not isinstance(flavor, str):
            raise fields.fail(f"flavors.{podset}", f"the name of a flavor is needed, not {flavor!r}")
    return Charge(fields.required_text("tree"), fields.required_text("queue"), dict(flavors))
