# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever helm was killed over, the next run finishes it; what others are at is left to them."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import HelmMark
from ansible_collections.muster.kube.plugins.module_utils._policy.component.helm_decision import (
    HelmDecision,
    LiveDifference,
    decide,
    decide_removal,
    judge_history,
)
from ansible_collections.muster.kube.tests.support.helm_cases import COMPONENT, revision
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
OTHERS = HelmMark("gadgets", "r", 1)


def judged(*history, **more):
    """A history judged; texts are statuses of revisions of ours."""
    items = [revision(n, item) if isinstance(item, str) else item for n, item in enumerate(history, 1)]
    return judge_history(items, COMPONENT, **more)


def numbers(items):
    return [item.revision for item in items]


@pytest.mark.parametrize(
    ("history", "situation", "last", "abandoned", "following"),
    [
        ([], "free", None, [], 1),
        (["deployed"], "ours", 1, [], 2),
        (["superseded", "deployed"], "ours", 2, [], 3),
        (["superseded", "deployed", "failed"], "ours", 3, [], 4),
        (["superseded"], "ours", 1, [], 2),
        (["pending-install"], "free", None, [1], 1),
        (["failed"], "free", None, [1], 1),
        (["failed", "failed", "pending-upgrade"], "free", None, [3, 2, 1], 1),
        (["deployed", "pending-upgrade"], "ours", 1, [2], 2),
        (["superseded", "pending-upgrade"], "ours", 1, [2], 2),
        (["deployed", "failed", "pending-upgrade"], "ours", 2, [3], 3),
        (["superseded", "uninstalled"], "free", None, [], 3),
        (["uninstalled", "pending-install"], "free", None, [2], 2),
        (["uninstalled", "failed"], "free", None, [2], 2),
        (["uninstalled", "deployed"], "ours", 2, [], 3),
        (["superseded", "uninstalling"], "leaving", 2, [], 1),
        (["superseded", "unknown"], "stuck", 2, [], 1),
    ],
)
def test_a_release_stands_as_its_revisions_say(history, situation, last, abandoned, following):
    standing = judged(*history)
    assert standing.situation == situation
    assert (standing.last.revision if standing.last else None) == last
    assert numbers(standing.abandoned) == abandoned
    assert standing.next_revision == following


@pytest.mark.parametrize("mark", [None, OTHERS])
@pytest.mark.parametrize("status", ["deployed", "failed", "pending-install", "uninstalling"])
def test_a_release_of_somebody_else_is_named_and_not_touched(mark, status):
    standing = judged(revision(1, status, mark))
    owner = "component gadgets" if mark else "somebody else"
    assert (standing.situation, standing.words) == ("foreign", f"the release home/widget-operator is of {owner}")
    assert decide(standing, same_source=False, differences=()) == HelmDecision("found", words=standing.words)
    assert decide_removal(standing) == HelmDecision("found", words=standing.words)


@pytest.mark.parametrize("status", ["pending-upgrade", "pending-rollback"])
def test_what_somebody_else_is_at_is_not_taken_from_under_him(status):
    standing = judged("deployed", revision(2, status, "older"))
    assert standing.situation == "busy"
    assert f"revision 2 of the release home/widget-operator is {status}, and not by us" in standing.words
    assert "helm rollback widget-operator -n home" in standing.words
    assert decide(standing, same_source=True, differences=()).action == "refused"
    assert decide_removal(standing).action == "refused"


def test_a_way_back_that_we_had_begun_is_ours_to_finish():
    history = ["superseded", "deployed", revision(3, "pending-rollback", "older")]
    assert judged(*history).situation == "busy"
    standing = judged(*history, rolling_back=True)
    assert (standing.situation, numbers(standing.abandoned)) == ("ours", [3])
    assert judged("deployed", revision(2, "pending-upgrade", "older"), rolling_back=True).situation == "busy"


def test_nothing_is_done_when_everything_is_as_it_should_be():
    assert decide(judged("deployed"), same_source=True, differences=()) == HelmDecision("unchanged")


@pytest.mark.parametrize(
    ("history", "same", "differences", "action", "runs"),
    [
        ([], False, [], "installed", True),
        (["pending-install"], False, [], "installed", True),
        (["deployed"], False, [], "upgraded", True),
        (["deployed", "failed"], False, [], "upgraded", True),
        (["deployed", "failed"], True, [], "repaired", True),
        (["superseded"], True, [], "repaired", True),
        (["deployed", "pending-upgrade"], True, [], "repaired", True),
        (["deployed", "pending-upgrade"], False, [], "upgraded", True),
        (["deployed"], True, [LiveDifference(ROLE, missing=False)], "repaired", True),
        (["deployed"], True, [LiveDifference(WIDGET, missing=True)], "repaired", True),
        (["deployed"], True, [LiveDifference(WIDGET, missing=False)], "repaired", False),
        (
            ["deployed"],
            True,
            [LiveDifference(WIDGET, missing=False), LiveDifference(ROLE, missing=False)],
            "repaired",
            True,
        ),
    ],
)
def test_helm_runs_only_if_something_asks_for_it(history, same, differences, action, runs):
    decision = decide(judged(*history), same_source=same, differences=differences)
    assert (decision.action, decision.run_helm, decision.apply_rest) == (action, runs, True)


def test_a_removal_that_was_begun_is_finished_before_the_release_is_made_again():
    decision = decide(judged("deployed", "uninstalling"), same_source=False, differences=())
    assert (decision.action, decision.finish_removal, decision.run_helm) == ("installed", True, True)


@pytest.mark.parametrize(
    "history", [["deployed"], ["pending-install"], ["deployed", "pending-upgrade"], ["uninstalling"]]
)
def test_a_release_of_ours_is_removed_however_it_stands(history):
    assert decide_removal(judged(*history)) == HelmDecision("removed", finish_removal=True)


@pytest.mark.parametrize("history", [[], ["uninstalled"]])
def test_a_release_that_is_gone_needs_no_removal(history):
    assert decide_removal(judged(*history)) == HelmDecision("unchanged")


class Helm:
    """helm by its revisions: what it refuses, what it writes when, and which hooks run."""

    def __init__(self):
        self.history = []
        self.hooks = []

    def set(self, place, status):
        self.history[place] = dataclasses.replace(self.history[place], status=status)

    def upgrade(self, mark, writes):
        """As many writes of a run as it lives for; None is all of them."""
        last = self.history[-1] if self.history else None
        assert last is None or not last.is_pending, "another operation (install/upgrade/rollback) is in progress"
        install = last is None or last.status == "uninstalled"
        if not install:
            deployed = [item for item in self.history if item.status == "deployed"]
            assert deployed or last.status in ("failed", "superseded"), "has no deployed releases"
        number = last.revision + 1 if last else 1
        assert mark.revision == number, "the mark is for another revision"
        steps = [lambda: self.history.append(revision(number, f"pending-{'install' if install else 'upgrade'}", mark))]
        steps.append(lambda: self.hooks.append("install" if install else "upgrade"))
        steps += [
            lambda place=place: self.set(place, "superseded")
            for place, item in enumerate(self.history)
            if item.status == "deployed"
        ]
        steps.append(lambda: self.set(-1, "deployed"))
        for step in steps[:writes]:
            step()

    def fail(self, mark):
        """A run that fails over its hooks."""
        self.upgrade(mark, 1)
        self.set(-1, "failed")

    def uninstall(self, writes):
        """Each Secret goes by itself, after all else."""
        if not self.history:
            return
        steps = [lambda: self.set(-1, "uninstalling"), *[lambda: self.history.pop(0) for _item in self.history]]
        for step in steps[:writes]:
            step()


def run_once(helm, wanted, budget=None, fails=False):
    """One run of ours, which dies after so many writes; True when it lived to its end."""
    standing = judge_history(helm.history, COMPONENT)
    same = standing.last is not None and standing.last.mark.render == wanted and standing.last.is_as_we_made_it
    decision = decide(standing, same_source=same, differences=())
    assert decision.action not in ("found", "refused")
    left = budget if budget is not None else 1000
    for item in decision.abandon:
        if not left:
            return False
        helm.history.remove(item)
        left -= 1
    if decision.finish_removal:
        before = len(helm.history) + 1
        helm.uninstall(left)
        left = max(0, left - before)
        if helm.history:
            return False
    if decision.run_helm and left:
        mark = HelmMark(COMPONENT, wanted, standing.next_revision)
        if fails:
            helm.fail(mark)
            return False
        helm.upgrade(mark, left)
    return bool(left)


RUNS = st.tuples(st.sampled_from(["install", "fail", "remove"]), st.sampled_from("abc"), st.integers(0, 5))


@settings(max_examples=examples(2000))
@given(st.lists(RUNS, max_size=8))
def test_whatever_was_killed_the_next_run_finishes_and_the_one_after_does_nothing(runs):
    helm = Helm()
    for what, wanted, budget in runs:
        if what == "remove":
            if decide_removal(judge_history(helm.history, COMPONENT)).finish_removal:
                helm.uninstall(budget)
        else:
            run_once(helm, wanted, budget, fails=what == "fail")
    once_complete = any(item.status in ("deployed", "superseded") for item in helm.history)
    helm.hooks.clear()
    assert run_once(helm, "final")
    last = helm.history[-1]
    assert (last.status, last.mark.render, last.is_as_we_made_it) == ("deployed", "final", True)
    assert [item.status for item in helm.history].count("deployed") == 1
    assert not any(item.is_pending for item in helm.history)
    standing = judge_history(helm.history, COMPONENT)
    assert decide(standing, same_source=True, differences=()) == HelmDecision("unchanged")
    # What was never all there is installed, with the hooks of an install.
    assert helm.hooks == ["install"] or once_complete


@settings(max_examples=examples(500))
@given(st.lists(RUNS, max_size=6), st.sampled_from(["pending-upgrade", "pending-rollback"]))
def test_what_others_do_by_hand_to_our_release_is_never_ended(runs, status):
    helm = Helm()
    for what, wanted, budget in runs:
        if what != "remove":
            run_once(helm, wanted, budget)
    run_once(helm, "a")
    helm.history.append(revision(helm.history[-1].revision + 1, status, helm.history[-1].mark))
    decision = decide(judge_history(helm.history, COMPONENT), same_source=False, differences=())
    assert (decision.action, decision.abandon, decision.run_helm) == ("refused", (), False)
