# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs that were queued though they can never start: the task warns at once, before a dispatcher looks."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import decide, gang_of, rough_gangs
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import needs_of, read_snapshot
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangOutcome
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import text_of_verdict
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data


def with_warnings(client: KubeClient, outcomes: t.Sequence[GangOutcome]) -> list[GangOutcome]:
    """The outcomes; those of gangs that can never start as they are warn of it.

    A verdict that a dispatcher wrote counts. Gangs that were queued just now are judged by the nodes and the
    namespace's rules alone: pods come and go, and listing them all is too much for every task.
    """
    return [_warned(item, _written(item) or _judged(client, item)) if _waits(item) else item for item in outcomes]


def _waits(outcome: GangOutcome) -> bool:
    """Whether the gang is in the queue and wants to start."""
    return outcome.record is not None and outcome.record.phase == "queued"


def _written(outcome: GangOutcome) -> Data | None:
    """The verdict that a dispatcher wrote into the record."""
    return outcome.record.state.verdict if outcome.record is not None and outcome.record.state is not None else None


def _warned(outcome: GangOutcome, verdict: Data | None) -> GangOutcome:
    """The outcome with a warning if its verdict is never."""
    if verdict is None or verdict.get("answer") != "never":
        return outcome
    words = (text_of_verdict(verdict) or "never fits").removeprefix(f"{verdict.get('gang')}: ")
    text = f"gang {outcome.namespace}/{outcome.name} stays in the queue: {words}"
    return dataclasses.replace(outcome, warnings=(*outcome.warnings, text))


def _judged(client: KubeClient, outcome: GangOutcome) -> Data | None:
    """The verdict on a gang that was just queued; None where it, or the cluster, cannot be judged."""
    if not outcome.changed or outcome.after is None:
        return None
    try:
        return _judge(client, outcome.after)
    except MusterError:
        # A hint only: the gang is queued, and a dispatcher will say what is wrong.
        return None


def _judge(client: KubeClient, spec: GangSpec) -> Data | None:
    """The verdict of one gang as if no pod ran; None if that would say nothing."""
    (rough,) = rough_gangs([spec])
    if _joins_pods(rough):
        return None
    snapshot = read_snapshot(client, needs_of([rough]), pods=False).snapshot
    if snapshot.nodes_visible and not snapshot.nodes:
        return None
    (verdict,) = decide(snapshot, [gang_of(spec, snapshot)], cumulative=False, advice=False)
    return verdict.as_dict()


def _joins_pods(gang: Gang) -> bool:
    """Whether pods have to be placed beside others, which cannot be judged without those."""
    return any(podset.constraints.affinity for podset in gang.podsets)
