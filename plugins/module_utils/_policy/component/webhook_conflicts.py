# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Webhooks that get in each other's way: what one changes after another was called, the other never sees.

The API server calls mutating webhooks in the order of the names of their configurations. One that wants to see what
later ones have changed says reinvocationPolicy: IfNeeded.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Collection, Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object, group_and_kind, value_at

MUTATING = ("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
_AGAIN = "IfNeeded"
_CHANGES = ("CREATE", "UPDATE")
_ALL = "*"
# So many resources are told.
_MOST_TOLD = 5


@dataclasses.dataclass(frozen=True, slots=True)
class MutatingHook:
    """One mutating webhook, and the component whose it is; nobody's name stands for one that we did not install."""

    owner: str
    configuration: str
    name: str
    again: bool
    # Group and resource of what it changes.
    targets: frozenset[tuple[str, str]]

    def __str__(self) -> str:
        return f"{self.name} of MutatingWebhookConfiguration {self.configuration}"


@dataclasses.dataclass(frozen=True, slots=True)
class WebhookConflict:
    """Two webhooks of which the first does not see what the second changes."""

    first: MutatingHook
    second: str
    resources: tuple[str, ...]
    # Whether it is known to do harm; otherwise it may.
    harmful: bool

    def __str__(self) -> str:
        shown = ", ".join(self.resources[:_MOST_TOLD]) + (" and more" if len(self.resources) > _MOST_TOLD else "")
        about = f" of {shown}" if shown else ""
        return (
            f"{self.first} does not see what {self.second} changes{about}; "
            f"it needs reinvocationPolicy: {_AGAIN} beside it"
        )


def mutating_hooks(owner: str, objects: Iterable[Object]) -> list[MutatingHook]:
    """The mutating webhooks among the objects of a component."""
    found = []
    for obj in objects:
        for hook in (value_at(obj, ("webhooks",)) or ()) if group_and_kind(obj) == MUTATING else ():
            targets = frozenset(_targets(hook.get("rules") or ()))
            again = hook.get("reinvocationPolicy") == _AGAIN
            found.append(MutatingHook(owner, obj["metadata"]["name"], str(hook.get("name")), again, targets))
    return found


def webhook_conflicts(
    hooks: Sequence[MutatingHook], beside: Mapping[str, Collection[str]], present: Collection[str]
) -> list[WebhookConflict]:
    """What gets in whose way.

    beside tells of components beside which others they have to be called again, whatever the order: what these others
    make by themselves may come any time. present has the components that are installed or will be.
    """
    found: list[WebhookConflict] = []
    for hook in hooks:
        for other in sorted(set(beside.get(hook.owner, ())) & set(present)):
            if not hook.again:
                found.append(WebhookConflict(hook, other, _told(hook.targets), harmful=True))
    settled = {(item.first, item.second) for item in found}
    order = sorted(hooks, key=lambda hook: hook.configuration)
    for place, first in enumerate(order):
        for second in order[place + 1 :] if not first.again else ():
            shared = _shared(first.targets, second.targets)
            other = second.owner or str(second)
            if shared and first.owner != second.owner and (first, other) not in settled:
                settled.add((first, other))
                found.append(WebhookConflict(first, other, _told(shared), harmful=False))
    return found


def _targets(rules: Iterable[Mapping[str, t.Any]]) -> Iterable[tuple[str, str]]:
    """What webhooks are called for, if it is made or changed."""
    for rule in rules:
        if set(rule.get("operations") or ()) & {*_CHANGES, _ALL}:
            for group in rule.get("apiGroups") or ():
                for resource in rule.get("resources") or ():
                    yield str(group), str(resource)


def _shared(one: Iterable[tuple[str, str]], other: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """What both are called for; of a pattern and what it matches, the latter."""
    found = set()
    for group, resource in one:
        for their_group, their_resource in other:
            if _meet(group, their_group) and _meet(resource, their_resource):
                narrow_group = their_group if group == _ALL else group
                found.add((narrow_group, their_resource if resource.startswith(_ALL) else resource))
    return found


def _meet(one: str, other: str) -> bool:
    """Whether two patterns of groups or resources have something in common; */* has subresources too, * has not."""
    if one == other or "*/*" in (one, other):
        return True
    one_name, one_slash, one_sub = one.partition("/")
    other_name, other_slash, other_sub = other.partition("/")
    names = one_name == other_name or _ALL in (one_name, other_name)
    subresources = one_sub == other_sub or (_ALL in (one_sub, other_sub) and one_slash == other_slash)
    return names and subresources


def _told(targets: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Resources with their groups, in a steady order."""
    return tuple(sorted(f"{resource}.{group}" if group else resource for group, resource in targets))
