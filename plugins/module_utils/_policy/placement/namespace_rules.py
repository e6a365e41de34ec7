# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The namespace's own rules: ResourceQuota and LimitRange, as their admission plugins would judge what a gang creates.

Besides pods that are the gang's own objects, the ticket that owns them, and the claims of ephemeral volumes.
"""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import (
    CLASS_SUFFIX,
    NamespaceFit,
    QuotaLine,
    base_resource,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import ClaimSize
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Constraints
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    NANO,
    parse_quantity,
    scaled,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.limit_ranges import (
    claim_problems,
    pod_problems,
)

Raw = t.Mapping[str, t.Any]
Pair = tuple[PodSet, Constraints]
# In nano-units, by namespace, quota and resource.
QuotaUse = dict[tuple[str, str, str], int]

LIMITS_COUNTED = ("cpu", "memory", "ephemeral-storage")
# A quota on one of these refuses pods that do not state the amount.
MUST_BE_STATED = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")
_PASSED = NamespaceFit(True)


def judge_namespace(
    gang: Gang, pairs: t.Sequence[Pair], snapshot: Snapshot, taken: QuotaUse
) -> tuple[NamespaceFit, bool]:
    """Numbers and problems, and whether they could ever pass; taken is what gangs before this one will use."""
    rules = snapshot.rules.get(gang.namespace)
    if rules is None or not (rules.quotas or rules.limit_ranges):
        return _PASSED, True
    present = [pair for pair in pairs if pair[0].count]
    claims = list(_own_claims(gang, snapshot))
    claims += [(claim, podset.count) for podset, _wish in present for claim in podset.admitted.claims]
    problems = [text for podset, _wish in present for text in pod_problems(podset, rules.limit_ranges)]
    problems += [text for claim, _count in claims for text in claim_problems(claim, rules.limit_ranges)]
    counts = {name: number * NANO for name, number in gang.made.amounts().items()}
    lines: list[QuotaLine] = []
    for quota in rules.quotas:
        scopes = _scopes(quota)
        inside = [pair for pair in present if _pod_matches(scopes, *pair, snapshot.default_priority_class)]
        amounts = collections.Counter({} if scopes else counts)
        for claim, count in claims:
            if _claim_matches(scopes, claim):
                amounts.update(_claim_amounts(claim, count, snapshot.storage.default_class))
        lines += _quota_lines(gang, quota, [podset for podset, _wish in inside], amounts, taken)
        problems += [text for podset, _wish in inside for text in _unstated(quota, podset)]
    over = any(line.short for line in lines)
    hopeless = bool(problems) or any(line.requested > line.hard for line in lines)
    return NamespaceFit(not problems and not over, tuple(lines), tuple(problems)), not hopeless


def quota_use(gang: Gang, space: NamespaceFit) -> QuotaUse:
    """What the gang adds to each quota once it starts."""
    return {(gang.namespace, line.quota, line.resource): line.requested for line in space.quotas}


def _own_claims(gang: Gang, snapshot: Snapshot) -> t.Iterator[tuple[ClaimSize, int]]:
    """The claims a start creates; one that exists was kept, or stops the gang by its name."""
    unread = "persistentvolumeclaims" in snapshot.unread
    for claim in gang.made.claims:
        there = (gang.namespace, claim.name) in snapshot.storage.claims
        if not there and not (unread and gang.made.tried):
            yield claim, 1


def _quota_lines(
    gang: Gang, quota: Raw, podsets: t.Sequence[PodSet], objects: t.Mapping[str, int], taken: QuotaUse
) -> list[QuotaLine]:
    """The quota's resources that the gang counts against."""
    used = (quota.get("status") or {}).get("used") or {}
    name = quota["metadata"]["name"]
    lines = []
    for resource, limit in hard_limits(quota).items():
        requested = sum(podset.count * _per_pod(resource, podset) for podset in podsets) + objects.get(resource, 0)
        if requested:
            before = parse_quantity(used.get(resource, "0")) + taken.get((gang.namespace, name, resource), 0)
            lines.append(QuotaLine(name, resource, parse_quantity(limit), before, requested))
    return lines


def hard_limits(quota: Raw) -> Raw:
    """The limits in force; those of a quota that nobody has looked at yet are about to be."""
    status, spec = quota.get("status") or {}, quota.get("spec") or {}
    return status.get("hard") or spec.get("hard") or {}


def _per_pod(resource: str, podset: PodSet) -> int:
    """What one pod counts against a quota's resource."""
    if resource in ("pods", "count/pods"):
        return NANO
    base = base_resource(resource)
    if resource.startswith("limits."):
        return podset.admitted.limits.get(base, 0) if base in LIMITS_COUNTED else 0
    # Extended resources are counted under requests.<name> only; any other name with a slash is no pod's amount.
    return podset.admitted.requests.get(base, 0) if base != resource or "/" not in resource else 0


def _claim_amounts(claim: ClaimSize, count: int, default_class: str | None) -> dict[str, int]:
    """What so many equal claims count, also under the name of their class."""
    amounts = {"persistentvolumeclaims": count * NANO}
    storage = dict(claim.requests).get("storage")
    if storage is not None:
        amounts["requests.storage"] = count * scaled("storage", storage) * NANO
    name = claim.storage_class if claim.storage_class is not None else default_class
    by_class = {f"{name}{CLASS_SUFFIX}{resource}": amount for resource, amount in amounts.items()} if name else {}
    return {**amounts, **by_class, "count/persistentvolumeclaims": count * NANO}


def _unstated(quota: Raw, podset: PodSet) -> t.Iterator[str]:
    """What a quota wants stated and containers do not say; declared podsets have no containers to ask."""
    pod = podset.admitted
    if pod.whole:
        return
    hard = hard_limits(quota)
    for resource in MUST_BE_STATED:
        if resource in hard:
            base, limits = base_resource(resource), resource.startswith("limits.")
            silent = [name for name, *both in pod.containers if base not in both[limits]]
            if silent:
                who = f"ResourceQuota {quota['metadata']['name']}"
                names = ", ".join(sorted(silent))
                yield f"{who} wants {resource} stated by each container of {podset.name}, but not by {names}"


def _scopes(quota: Raw) -> list[Raw]:
    """What objects have to be like for the quota to count them."""
    spec = quota.get("spec") or {}
    wanted: list[Raw] = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return [*wanted, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def _pod_matches(scopes: t.Iterable[Raw], podset: PodSet, wish: Constraints, default_class: str | None) -> bool:
    """Whether a quota counts these pods."""
    pod = podset.admitted
    facts = {
        "Terminating": pod.terminating,
        "NotTerminating": not pod.terminating,
        "BestEffort": pod.best_effort,
        "NotBestEffort": not pod.best_effort,
        "CrossNamespacePodAffinity": pod.crosses_namespaces,
    }
    name = wish.priority_class or default_class or ""
    return all(
        _name_matches(item, name) if item["scopeName"] == "PriorityClass" else facts.get(item["scopeName"], False)
        for item in scopes
    )


def _claim_matches(scopes: t.Iterable[Raw], claim: ClaimSize) -> bool:
    """Whether a quota counts this claim; all scopes but one are about pods."""
    return all(
        item["scopeName"] == "VolumeAttributesClass" and _name_matches(item, claim.attributes_class) for item in scopes
    )


def _name_matches(item: Raw, name: str) -> bool:
    """The operators of a scope about the name of a class; no name is empty."""
    values = item.get("values") or ()
    match item.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
    return bool(name)
