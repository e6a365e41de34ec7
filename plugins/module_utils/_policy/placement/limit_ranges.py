# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""LimitRanges: what their admission plugin refuses about pods and claims; the defaults are in the podsets already."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import ClaimSize
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import Amounts
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    MILLI_IN_NANO,
    amount_text,
    stored_quantity,
)

Raw = t.Mapping[str, t.Any]


def pod_problems(podset: PodSet, limit_ranges: t.Sequence[Raw]) -> Iterator[str]:
    """What is refused about a podset's containers and its pod as a whole."""
    pod = podset.admitted
    for item, name in _items(limit_ranges):
        if item.get("type") == "Container":
            for container, requests, limits in pod.containers:
                who = f"LimitRange {name}: container {container} of {podset.name}"
                yield from _bounds(item, requests, limits, who)
        elif item.get("type") == "Pod":
            who = f"LimitRange {name}: a pod of {podset.name}"
            yield from _bounds(item, pod.bounded_requests, pod.bounded_limits, who)
    givers = sorted({name for item, name in _items(limit_ranges) if item.get("type") == "Container"})
    if givers:
        for text in pod.contradictions:
            yield f"LimitRange {', '.join(givers)}: with its defaults {text} in a pod of {podset.name}"


def claim_problems(claim: ClaimSize, limit_ranges: t.Sequence[Raw]) -> Iterator[str]:
    """What is refused about a claim: only its requests are held to bounds."""
    requests = dict(claim.requests)
    for item, name in _items(limit_ranges):
        if item.get("type") == "PersistentVolumeClaim":
            who = f"LimitRange {name}: PersistentVolumeClaim {claim.name}"
            yield from _minima(item, requests, {}, who)
            for resource, most in _amounts(item.get("max")).items():
                asked = requests.get(resource)
                if asked is None or asked > most:
                    yield _above(who, resource, asked, most, "requests {} of", "requests nothing of")


def _items(limit_ranges: t.Sequence[Raw]) -> Iterator[tuple[Raw, str]]:
    """The entries of all LimitRanges, with the name of theirs."""
    for limit_range in limit_ranges:
        for item in (limit_range.get("spec") or {}).get("limits") or ():
            yield item, limit_range["metadata"]["name"]


def _amounts(values: Raw | None) -> Amounts:
    """Bounds in nano-units."""
    return {name: stored_quantity(value) for name, value in (values or {}).items()}


def _bounds(item: Raw, requests: Amounts, limits: Amounts, who: str) -> Iterator[str]:
    """Maxima want a limit, minima a request; where the other is stated too, it is held to the bound as well."""
    yield from _minima(item, requests, limits, who)
    for resource, most in _amounts(item.get("max")).items():
        have, asked = limits.get(resource), requests.get(resource)
        if have is None or have > most:
            yield _above(who, resource, have, most, "has a limit of {} for", "has no limit for")
        elif asked is not None and asked > most:
            yield _above(who, resource, asked, most, "requests {} of", "")
    for resource, text in (item.get("maxLimitRequestRatio") or {}).items():
        asked, have = requests.get(resource), limits.get(resource)
        if not asked or not have:
            yield f"{who} needs a request and a limit for {resource}, their ratio must not exceed {text}"
        # With floating point numbers, as the server does.
        elif have / asked * 1000 > stored_quantity(text) / MILLI_IN_NANO:
            yield f"{who} has a limit of more than {text} times its request for {resource}"


def _minima(item: Raw, requests: Amounts, limits: Amounts, who: str) -> Iterator[str]:
    """Amounts that are less than they have to be, or not stated."""
    for resource, least in _amounts(item.get("min")).items():
        asked, have = requests.get(resource), limits.get(resource)
        if asked is None or asked < least:
            stated = "requests nothing" if asked is None else f"requests {amount_text(resource, asked)}"
            yield f"{who} {stated} of {resource}, the minimum is {amount_text(resource, least)}"
        elif have is not None and have < least:
            stated = f"has a limit of {amount_text(resource, have)}"
            yield f"{who} {stated} for {resource}, the minimum is {amount_text(resource, least)}"


def _above(who: str, resource: str, amount: int | None, most: int, stated: str, unstated: str) -> str:
    """A sentence about an amount that is more than it may be, or not stated."""
    words = unstated if amount is None else stated.format(amount_text(resource, amount))
    return f"{who} {words} {resource}, the maximum is {amount_text(resource, most)}"
