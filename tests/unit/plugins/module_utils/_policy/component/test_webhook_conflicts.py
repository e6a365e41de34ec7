# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Webhooks that do not see what others change."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.component.webhook_conflicts import (
    mutating_hooks,
    webhook_conflicts,
)

Object = dict[str, t.Any]


def rule(resource: str = "jobs", group: str = "batch", *operations: str) -> Object:
    return {"apiGroups": [group], "resources": [resource], "operations": list(operations or ("CREATE",))}


def configuration(name: str, *rules: Object, again: str | None = None, kind: str = "Mutating") -> Object:
    hook = {"name": f"m.{name}", "rules": list(rules), **({"reinvocationPolicy": again} if again else {})}
    metadata = {"name": name}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": metadata,
        "webhooks": [hook],
    }


def told(
    *owned: tuple[str, Object], beside: dict[str, list[str]] | None = None, present: str = ""
) -> list[tuple[str, bool]]:
    """The conflicts among the configurations of components, in few words."""
    hooks = [hook for owner, obj in owned for hook in mutating_hooks(owner, [obj])]
    there = {owner for owner, _obj in owned} | set(present.split())
    found = webhook_conflicts(hooks, beside or {}, there)
    return [(f"{item.first.configuration} < {item.second}: {' '.join(item.resources)}", item.harmful) for item in found]


def test_the_earlier_of_two_does_not_see_what_the_later_changes() -> None:
    one, other = ("kueue", configuration("b-kueue", rule())), ("kyverno", configuration("c-kyverno", rule()))
    assert told(one, other) == [("b-kueue < kyverno: jobs.batch", False)]
    assert told(other, one) == told(one, other)


def test_one_that_is_called_again_sees_everything() -> None:
    again = configuration("b-kueue", rule(), again="IfNeeded")
    assert told(("kueue", again), ("kyverno", configuration("c-kyverno", rule()))) == []


def test_the_default_is_not_to_be_called_again() -> None:
    never = configuration("b-kueue", rule(), again="Never")
    assert told(("kueue", never), ("kyverno", configuration("c", rule()))) != []


def test_beside_some_a_webhook_must_be_called_again_whatever_the_order() -> None:
    kueue, kaiwo = ("kueue", configuration("kueue", rule())), ("kaiwo", configuration("kaiwo", rule()))
    assert told(kueue, kaiwo, beside={"kueue": ["kaiwo"]}) == [
        ("kueue < kaiwo: jobs.batch", True),
        ("kaiwo < kueue: jobs.batch", False),
    ]


def test_beside_some_it_must_be_even_if_these_make_their_webhooks_later() -> None:
    kueue = ("kueue", configuration("kueue", rule()))
    assert told(kueue, beside={"kueue": ["kaiwo"]}, present="kaiwo") == [("kueue < kaiwo: jobs.batch", True)]
    assert told(kueue, beside={"kueue": ["kaiwo"]}) == []
    good = ("kueue", configuration("kueue", rule(), again="IfNeeded"))
    assert told(good, beside={"kueue": ["kaiwo"]}, present="kaiwo") == []


def test_a_conflict_is_told_once() -> None:
    many = {**configuration("b", rule()), "webhooks": configuration("b", rule())["webhooks"] * 1}
    later = configuration("c", rule())
    later["webhooks"] = [{**later["webhooks"][0], "name": name} for name in ("one", "two")]
    assert told(("kueue", many), ("kyverno", later)) == [("b < kyverno: jobs.batch", False)]


def test_webhooks_of_one_component_know_each_other() -> None:
    assert told(("kueue", configuration("a", rule())), ("kueue", configuration("b", rule()))) == []


def test_one_of_somebody_else_is_named_itself() -> None:
    (found,) = told(("kueue", configuration("a", rule())), ("", configuration("b", rule())))
    assert found == ("a < m.b of MutatingWebhookConfiguration b: jobs.batch", False)


@pytest.mark.parametrize(
    "other",
    [
        configuration("z", rule("jobs", "batch", "DELETE")),
        configuration("z", rule("jobs/status")),
        configuration("z", rule("cronjobs")),
        configuration("z", rule("jobs", "apps")),
        configuration("z"),
        configuration("z", rule(), kind="Validating"),
    ],
)
def test_webhooks_for_different_things_do_not_meet(other: Object) -> None:
    assert told(("kueue", configuration("a", rule())), ("other", other)) == []


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (rule("*", "*"), rule("jobs"), "jobs.batch"),
        (rule("jobs"), rule("*", "*"), "jobs.batch"),
        (rule("*/*", "batch"), rule("jobs/status"), "jobs/status.batch"),
        (rule("jobs/*"), rule("jobs/status"), "jobs/*.batch"),
        (rule("pods", ""), rule("pods", "", "*"), "pods"),
        (rule("jobs", "batch", "UPDATE"), rule("jobs", "batch", "CREATE", "DELETE"), "jobs.batch"),
    ],
)
def test_patterns_meet_what_they_match(one: Object, other: Object, shared: str) -> None:
    assert told(("a", configuration("a", one)), ("b", configuration("b", other))) == [(f"a < b: {shared}", False)]


def test_the_text_tells_what_to_do() -> None:
    hooks = mutating_hooks("kueue", [configuration("kueue", *(rule(f"r{number}") for number in range(9)))])
    (found,) = webhook_conflicts(hooks, {"kueue": ["kaiwo"]}, {"kaiwo"})
    assert str(found) == (
        "m.kueue of MutatingWebhookConfiguration kueue does not see what kaiwo changes of r0.batch, r1.batch, "
        "r2.batch, r3.batch, r4.batch and more; it needs reinvocationPolicy: IfNeeded beside it"
    )
