# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The namespace's own rules: ResourceQuota and LimitRange, as their admission plugins would judge the gang's pods."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import (
    NamespaceFit,
    QuotaLine,
    base_resource,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Constraints
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import NamespaceRules
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    NANO,
    parse_quantity,
    quantity_text,
    scaled,
)

Raw = t.Mapping[str, t.Any]
Pair = tuple[PodSet, Constraints]
QuotaUse = dict[tuple[str, str, str], int]

LIMITS_COUNTED = ("cpu", "memory", "ephemeral-storage")
# A quota on one of these refuses pods that do not state the amount.
MUST_BE_STATED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")


def judge_namespace(
    gang: Gang, pairs: t.Sequence[Pair], rules: NamespaceRules, taken: QuotaUse
) -> tuple[NamespaceFit, bool]:
    """Numbers and problems, and whether they could ever pass; taken is what gangs before this one will use."""
    problems = [text for pair in pairs for text in _limit_problems(pair[0], rules.limit_ranges)]
    lines: list[QuotaLine] = []
    for quota in rules.quotas:
        inside = [pair for pair in pairs if _in_scope(quota, *pair)]
        lines += _quota_lines(gang, quota, inside, taken)
        problems += _unstated(quota, inside)
    over = any(line.short for line in lines)
    hopeless = bool(problems) or any(line.requested > line.hard for line in lines)
    return NamespaceFit(not problems and not over, tuple(lines), tuple(problems)), not hopeless


def quota_use(gang: Gang, space: NamespaceFit) -> QuotaUse:
    """What the gang adds to each quota once it starts."""
    return {(gang.namespace, line.quota, line.resource): line.requested for line in space.quotas}


def _quota_lines(gang: Gang, quota: Raw, pairs: t.Sequence[Pair], taken: QuotaUse) -> list[QuotaLine]:
    """The quota's resources that the gang's pods count against."""
    status = quota.get("status") or {}
    hard = status.get("hard") or (quota.get("spec") or {}).get("hard") or {}
    used = status.get("used") or {}
    name = quota["metadata"]["name"]
    lines = []
    for resource, limit in hard.items():
        requested = sum(podset.count * _per_pod(resource, podset) for podset, wish in pairs)
        if requested:
            base = base_resource(resource)
            before = _number(base, used.get(resource, "0")) + taken.get((gang.namespace, name, resource), 0)
            lines.append(QuotaLine(name, resource, _number(base, limit), before, requested))
    return lines


def _number(base: str, value: t.Any) -> int:
    """A quota's quantity in the scale demands are counted in."""
    return scaled(base, parse_quantity(value))


def _per_pod(resource: str, podset: PodSet) -> int:
    """What one pod counts against a quota's resource."""
    if resource in ("pods", "count/pods"):
        return 1
    base = base_resource(resource)
    if resource.startswith("limits."):
        return podset.limits.get(base, 0) if base in LIMITS_COUNTED else 0
    # Extended resources are counted under requests.<name> only; any other name with a slash is no pod's amount.
    return podset.requests.get(base, 0) if base != resource or "/" not in resource else 0


def _unstated(quota: Raw, pairs: t.Sequence[Pair]) -> list[str]:
    """Pods that a quota refuses because a container does not say how much it wants."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    problems = []
    for podset, _wish in pairs:
        spec = podset.template.get("spec") or {}
        for resource in MUST_BE_STATED:
            if resource in hard and podset.count and not _stated(spec, resource):
                name = quota["metadata"]["name"]
                problems.append(f"ResourceQuota {name} wants {resource} stated by each container of {podset.name}")
    return problems


def _stated(spec: Raw, resource: str) -> bool:
    """Whether each container (or the pod as a whole) states the amount; declared podsets have no containers to ask."""
    field = "limits" if resource.startswith("limits.") else "requests"
    base = base_resource(resource)
    if base in ((spec.get("resources") or {}).get(field) or {}):
        return True
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return all(base in ((item.get("resources") or {}).get(field) or {}) for item in containers)


def _in_scope(quota: Raw, podset: PodSet, wish: Constraints) -> bool:
    """Whether the quota counts these pods."""
    spec = quota.get("spec") or {}
    wanted = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    wanted += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return all(_scope_matches(item, podset, wish) for item in wanted)


def _scope_matches(item: Raw, podset: PodSet, wish: Constraints) -> bool:
    """One scope of a quota."""
    scope = item["scopeName"]
    if scope in ("Terminating", "NotTerminating"):
        limited = (podset.template.get("spec") or {}).get("activeDeadlineSeconds") is not None
        return bool(limited == (scope == "Terminating"))
    if scope in ("BestEffort", "NotBestEffort"):
        asks = any(podset.requests.get(name) or podset.limits.get(name) for name in ("cpu", "memory"))
        return bool(asks == (scope == "NotBestEffort"))
    if scope == "PriorityClass":
        return _class_matches(item, wish.priority_class or "")
    if scope == "CrossNamespacePodAffinity":
        terms = (*wish.affinity, *wish.anti_affinity)
        return any(term.namespace_selector or term.namespaces != {wish.namespace} for term in terms)
    return False


def _class_matches(item: Raw, name: str) -> bool:
    """The PriorityClass scope's operators."""
    values = item.get("values") or ()
    match item.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
    return bool(name)


def _limit_problems(podset: PodSet, limit_ranges: t.Sequence[Raw]) -> list[str]:
    """What LimitRanges refuse about a podset's containers and its pod as a whole."""
    problems = []
    spec = podset.template.get("spec") or {}
    for limit_range in limit_ranges:
        name = limit_range["metadata"]["name"]
        for item in (limit_range.get("spec") or {}).get("limits") or ():
            if item.get("type") == "Container":
                for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
                    resources = container.get("resources") or {}
                    amounts = {field: _numbers(resources.get(field)) for field in ("requests", "limits")}
                    who = f"container {container.get('name')} of {podset.name}"
                    problems += _bound_problems(
                        item, amounts["requests"], amounts["limits"], f"LimitRange {name}: {who}"
                    )
            elif item.get("type") == "Pod":
                who = f"LimitRange {name}: a pod of {podset.name}"
                # Declared without containers: what will be stated is not known, so only stated amounts are held to it.
                limits = podset.limits if spec.get("containers") else {**podset.requests, **podset.limits}
                problems += _bound_problems(item, podset.requests, limits, who)
    return problems


def _numbers(amounts: Raw | None) -> dict[str, int]:
    """A resource list in scaled numbers."""
    return {name: scaled(name, parse_quantity(value)) for name, value in (amounts or {}).items()}


def _bound_problems(item: Raw, requests: t.Mapping[str, int], limits: t.Mapping[str, int], who: str) -> list[str]:
    """Maxima bind limits, minima bind requests; an amount not stated breaks either. A ratio binds both."""
    problems = []
    for resource, most in _numbers(item.get("max")).items():
        have = limits.get(resource)
        if have is None or have > most:
            stated = "has no limit" if have is None else f"has a limit of {quantity_text(resource, have)}"
            problems.append(f"{who} {stated} for {resource}, the maximum is {quantity_text(resource, most)}")
    for resource, least in _numbers(item.get("min")).items():
        asked = requests.get(resource)
        if asked is None or asked < least:
            stated = "requests nothing" if asked is None else f"requests {quantity_text(resource, asked)}"
            problems.append(f"{who} {stated} of {resource}, the minimum is {quantity_text(resource, least)}")
    for resource, text in (item.get("maxLimitRequestRatio") or {}).items():
        asked, have = requests.get(resource), limits.get(resource)
        if not asked or not have:
            problems.append(f"{who} needs a request and a limit for {resource}, their ratio must not exceed {text}")
        elif have * NANO > asked * parse_quantity(text):
            problems.append(f"{who} has a limit of more than {text} times its request for {resource}")
    return problems
