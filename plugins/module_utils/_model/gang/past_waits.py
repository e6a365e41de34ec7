# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a gang waited for before it left the queue: the essence of its last verdict, kept with its transitions.

A start replaces the verdict, so that a finished gang could not tell any more why it had to wait.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

# Very long lists of resources would crowd out what a state needs.
_MOST_RESOURCES = 8
_DETAIL_LENGTH = 200


def past_wait(verdict: Data | None, until: str) -> Data | None:
    """The essence of a verdict at the end of a wait: answer, reason and what was short, in the form of a verdict.

    None when the gang did not wait for anything that a verdict told.
    """
    if verdict is None or verdict.get("answer") not in ("waits", "never"):
        return None
    layers = [layer for layer in verdict.get("layers") or () if isinstance(layer, Mapping)]
    kept = [part for layer in layers if (part := _shortages(layer)) is not None]
    detail = verdict.get("detail")
    told = str(detail)[:_DETAIL_LENGTH] if detail else None
    return {
        "until": until,
        "answer": verdict["answer"],
        "reason": str(verdict.get("reason")),
        **({"detail": told} if told else {}),
        **({"layers": kept} if kept else {}),
    }


def _shortages(layer: Mapping[str, t.Any]) -> Data | None:
    """What was short in one layer of a verdict; None when nothing was."""
    if layer.get("layer") == "namespace":
        lines = [line for line in layer.get("quotas") or () if isinstance(line, Mapping) and _some(line.get("short"))]
        short = [{key: line.get(key) for key in ("quota", "resource", "short")} for line in lines[:_MOST_RESOURCES]]
        return {"layer": "namespace", "quotas": short} if short else None
    totals = layer.get("totals")
    if layer.get("layer") not in ("quota", "slots") or not isinstance(totals, Mapping):
        return None
    missing = {
        str(name): {"short": total["short"]}
        for name, total in totals.items()
        if isinstance(total, Mapping) and _some(total.get("short"))
    }
    return {"layer": layer["layer"], "totals": dict(list(missing.items())[:_MOST_RESOURCES])} if missing else None


def _some(amount: t.Any) -> bool:
    """Whether an amount is one and not zero."""
    return amount not in (None, "0", 0, "")


def read_waits(value: t.Any, most: int) -> tuple[Data, ...]:
    """The waits a state carries; what is damaged is left out, since nothing is decided by it."""
    entries = value if isinstance(value, list) else []
    return tuple(dict(item) for item in entries if isinstance(item, Mapping) and isinstance(item.get("until"), str))[
        -most:
    ]
