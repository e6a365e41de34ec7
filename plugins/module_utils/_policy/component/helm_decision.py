# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to do with a release: judged from its revisions alone, and from how far render and objects differ.

Where it was killed helm refuses to go on. A revision that was begun and not finished is taken out of its history: the
next one then starts from the revision before. Objects that the unfinished one made are taken over, since they tell
whose they are.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import (
    COMPLETED,
    DEPLOYED,
    FAILED,
    PENDING_ROLLBACK,
    UNINSTALLED,
    UNINSTALLING,
    HelmRevision,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object
from ansible_collections.muster.kube.plugins.module_utils._policy.component.helm_render import is_helms_to_repair

# free: nobody has the name. leaving: a removal was begun. busy: somebody else is at it. stuck: nothing we know helps.
Situation = t.Literal["free", "ours", "foreign", "busy", "leaving", "stuck"]
HelmAction = t.Literal["installed", "upgraded", "repaired", "unchanged", "found", "refused", "removed"]
Revisions = collections.abc.Sequence[HelmRevision]


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """How a release stands."""

    situation: Situation
    # The last revision that counts; None when helm will install.
    last: HelmRevision | None = None
    # Revisions that were begun and not finished, which go before helm runs.
    abandoned: tuple[HelmRevision, ...] = ()
    # Why nothing may be done.
    words: str = ""
    # The highest number that stays in use.
    highest: int = 0

    @property
    def next_revision(self) -> int:
        """The number that helm gives the next revision."""
        return self.highest + 1


@dataclasses.dataclass(frozen=True, slots=True)
class HelmDecision:
    """What is done to a release, in this order."""

    action: HelmAction
    abandon: tuple[HelmRevision, ...] = ()
    finish_removal: bool = False
    run_helm: bool = False
    # Whether objects are looked at again afterwards, and written where they still differ.
    apply_rest: bool = False
    words: str = ""


def judge_history(revisions: Revisions, component: str, *, rolling_back: bool = False) -> Standing:
    """How a release stands by its revisions, in ascending order.

    A revision that was begun is ours to finish if our mark was written for it: the Lease that every run holds says that
    the run which wrote it is over, and helm ends with its run. Rolling back carries an old mark, so a run has to know
    from its own record that it had begun to.
    """
    if not revisions or revisions[-1].status == UNINSTALLED:
        return Standing("free", highest=revisions[-1].revision if revisions else 0)
    last = revisions[-1]
    if last.mark is None or last.mark.component != component:
        owner = f"component {last.mark.component}" if last.mark is not None else "somebody else"
        return Standing("foreign", last, words=f"the release {last.namespace}/{last.name} is of {owner}")
    rest = list(revisions)
    abandoned: list[HelmRevision] = []
    while rest and rest[-1].is_pending:
        if not _is_ours_to_finish(rest[-1], rolling_back):
            return Standing("busy", last, words=_busy_words(rest[-1]))
        abandoned.append(rest.pop())
    since = rest[_end_of_last_removal(rest) :]
    if since and all(item.status == FAILED for item in since):
        # Never all there: hooks of an install are still to run, which an upgrade would leave out.
        abandoned += reversed(since)
        rest = rest[: len(rest) - len(since)]
    highest = rest[-1].revision if rest else 0
    if not rest or rest[-1].status == UNINSTALLED:
        return Standing("free", None, tuple(abandoned), highest=highest)
    if rest[-1].status == UNINSTALLING:
        return Standing("leaving", rest[-1], tuple(abandoned))
    if rest[-1].status not in (*COMPLETED, FAILED):
        cause = f"its revision {rest[-1].revision} has the status {rest[-1].status}"
        return Standing("stuck", rest[-1], words=f"the release {last.namespace}/{last.name} cannot be judged: {cause}")
    return Standing("ours", rest[-1], tuple(abandoned), highest=highest)


def _is_ours_to_finish(revision: HelmRevision, rolling_back: bool) -> bool:
    """Whether a revision that is under way was begun by a run of ours."""
    return revision.is_as_we_made_it or (rolling_back and revision.status == PENDING_ROLLBACK)


def _busy_words(revision: HelmRevision) -> str:
    """That somebody else is at the release, or was killed over it."""
    name = f"{revision.namespace}/{revision.name}"
    help_ = f"if no helm is at it any more, end that with: helm rollback {revision.name} -n {revision.namespace}"
    return f"revision {revision.revision} of the release {name} is {revision.status}, and not by us; {help_}"


def _end_of_last_removal(revisions: Revisions) -> int:
    """Where what was installed after the last removal begins."""
    ends = [place for place, item in enumerate(revisions) if item.status == UNINSTALLED]
    return ends[-1] + 1 if ends else 0


class LiveDifference(t.NamedTuple):
    """An object that is not as its release says."""

    obj: Object
    missing: bool


def decide(
    standing: Standing, *, same_source: bool, differences: collections.abc.Sequence[LiveDifference]
) -> HelmDecision:
    """What to do so that the release is what was rendered and its objects are what the release says.

    Each run of helm writes a revision, so it is run only if chart, values or an object ask for it.
    """
    if standing.situation == "foreign":
        return HelmDecision("found", words=standing.words)
    if standing.situation in ("busy", "stuck"):
        return HelmDecision("refused", words=standing.words)
    again = HelmDecision("installed", standing.abandoned, run_helm=True, apply_rest=True)
    if standing.situation == "leaving":
        return dataclasses.replace(again, finish_removal=True)
    if standing.last is None:
        return again
    if not same_source:
        return dataclasses.replace(again, action="upgraded")
    unfinished = bool(standing.abandoned) or standing.last.status != DEPLOYED
    if unfinished or any(item.missing or is_helms_to_repair(item.obj) for item in differences):
        return dataclasses.replace(again, action="repaired")
    if differences:
        return HelmDecision("repaired", apply_rest=True)
    return HelmDecision("unchanged")


def decide_removal(standing: Standing) -> HelmDecision:
    """What to do so that a release is gone; one of others stays, and so does one that others are at."""
    if standing.situation == "foreign":
        return HelmDecision("found", words=standing.words)
    if standing.situation == "busy":
        return HelmDecision("refused", words=standing.words)
    if standing.situation == "free" and not standing.abandoned:
        return HelmDecision("unchanged")
    # helm removes what its last revision names, whatever became of that.
    return HelmDecision("removed", finish_removal=True)
