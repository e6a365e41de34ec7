# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a gang waited for, taken from a verdict that may be whole, shortened, or of another version."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import amount_text
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import REASONS, base_resource
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import Cause
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity, scaled

# What is free now makes no difference to a gang that does not fit on empty nodes.
_NEVER = {"insufficient": "can never start as it is: too little even on empty nodes"}


def cause_of(verdict: t.Any, text: str) -> Cause | None:
    """The cause behind a verdict; None when it says that the gang fits, or says nothing."""
    if not isinstance(verdict, Mapping) or verdict.get("answer") not in ("waits", "never"):
        return None
    reason = reason_words(str(verdict.get("reason") or "no reason given"))
    detail = verdict.get("detail")
    never = verdict["answer"] == "never"
    if never:
        reason = _NEVER.get(str(verdict.get("reason")), f"can never start as it is: {reason}")
    reason = f"{reason} ({detail})" if detail else reason
    return Cause(reason, tuple(dict.fromkeys(_short(verdict))), text, never)


def reason_words(reason: str) -> str:
    """A reason in plain words; one without an explanation here is only split into words."""
    return REASONS.get(reason) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", reason).replace("_", " ").lower()


def _short(verdict: Mapping[str, t.Any]) -> Iterator[str]:
    """Amounts that are missing: in a tree, under a quota, in all, or, if single nodes are too small, on the nearest."""
    layers = {str(layer.get("layer")): layer for layer in _mappings(verdict.get("layers"))}
    for name, total in _part(_part(layers, "quota"), "totals").items():
        yield from _amount(str(name), total.get("short") if isinstance(total, Mapping) else None, "of the quota tree")
    for line in _mappings(_part(layers, "namespace").get("quotas")):
        resource = str(line.get("resource"))
        yield from _amount(base_resource(resource), line.get("short"), f"of quota {line.get('quota')}")
    slots = _part(layers, "slots")
    totals = slots.get("totals")
    in_all = [
        text
        for name, total in (totals.items() if isinstance(totals, Mapping) else ())
        if isinstance(total, Mapping)
        for text in _amount(str(name), total.get("short"))
    ]
    yield from in_all
    if in_all or slots.get("passed"):
        return
    for podset in _mappings(slots.get("podsets")):
        for name, amount in _part(_part(podset, "nearest"), "short").items():
            yield from _amount(str(name), amount, "on one node")


def _amount(resource: str, quantity: t.Any, where: str = "") -> Iterator[str]:
    """One missing amount as text; nothing when nothing is missing."""
    try:
        amount = scaled(resource, parse_quantity(quantity))
    except (BadInput, TypeError, ValueError):
        return
    if amount > 0:
        # The verdict's text has the exact number.
        yield " ".join(part for part in (amount_text(resource, amount), resource, where) if part)


def _mappings(value: t.Any) -> list[Mapping[str, t.Any]]:
    """The mappings of a list, whatever else is in it."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _part(value: Mapping[t.Any, t.Any], key: str) -> Mapping[str, t.Any]:
    """A mapping inside a mapping, empty when there is none."""
    part = value.get(key)
    return part if isinstance(part, Mapping) else {}
