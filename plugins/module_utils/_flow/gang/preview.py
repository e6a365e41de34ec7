# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode: what a submission would do, whether the gang would fit, what would be created, and its place."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._engine.addresses import address_objects
from ansible_collections.muster.kube.plugins.module_utils._engine.dry_run import Pretended, pretend
from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import Refusal
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import answer_fit
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import Action, GangOptions, GangOutcome
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.position import read_queue
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import RequestedGang, check_objects
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.submit import (
    Found,
    Step,
    decide_there,
    demand_grew,
    draft_gang,
    outcome_of,
    refusal,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.verdicts import QuotaCompletion
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.view import Naming
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import (
    WRAPPER_API,
    WRAPPER_KIND,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import WAITING_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import Plan, PlannedObject, plan_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import text_of_verdict
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.charging import applicant
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import Applicant
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import named_queue

# Stands for the uid that a record gets when it is created.
_NO_UID = "00000000-0000-0000-0000-000000000000"
_ACTIONS: dict[Step, Action] = {
    "create": "created",
    "leave": "unchanged",
    "change": "changed",
    "recreate": "recreated",
    "later": "changed",
}


def preview(
    client: KubeClient, options: GangOptions, wanted: t.Sequence[RequestedGang], found: t.Sequence[Found]
) -> list[GangOutcome]:
    """What a real run would do with each gang; dry runs are the only writes that are sent."""
    outcomes = [_predict(client, options, item, place) for item, place in zip(wanted, found, strict=True)]
    missing = _missing_namespaces(client, outcomes)
    outcomes = [_without_namespace(outcome) if outcome.namespace in missing else outcome for outcome in outcomes]
    waiting = [outcome for outcome in outcomes if _would_wait(outcome) and outcome.namespace not in missing]
    verdicts, notes = _verdicts(client, options, waiting)
    places = _places(client, waiting, options.lease.namespace)
    return [
        _completed(client, outcome, verdicts.get(_key(outcome)), places.get(_key(outcome)), notes)
        if outcome in waiting
        else outcome
        for outcome in outcomes
    ]


def _predict(client: KubeClient, options: GangOptions, wanted: RequestedGang, found: Found) -> GangOutcome:
    """The action for one gang; what a real run refuses is refused here too."""
    spec = draft_gang(wanted, found, options.state == "suspended").spec
    step, found = decide_there(client, found, spec, replace=options.replace, rerun=options.rerun)
    if step == "refuse":
        raise refusal(wanted, found.record)
    warnings = () if step == "leave" else check_objects(client, spec, found.store)
    outcome = outcome_of(wanted, found, _ACTIONS[step], found.record, spec, warnings)
    if step != "later" or found.record is None:
        return outcome
    message = f"the gang is {found.record.phase}; a real run waits until it is started or queued again"
    return dataclasses.replace(outcome, message=message)


def _missing_namespaces(client: KubeClient, outcomes: t.Sequence[GangOutcome]) -> set[str]:
    """Namespaces that are not there yet, perhaps because an earlier task only pretended to create them."""
    missing = set()
    for namespace in sorted({outcome.namespace for outcome in outcomes if outcome.record is None}):
        try:
            found = get_object(client, resource_path("v1", "namespaces", name=namespace))
        except Forbidden:
            continue
        if found is None:
            missing.add(namespace)
    return missing


def _without_namespace(outcome: GangOutcome) -> GangOutcome:
    """A gang of which nothing can be checked."""
    message = f"namespace {outcome.namespace} does not exist; a real run fails unless it is created before"
    extra = {"would_create": [], "not_checked": [message]}
    return dataclasses.replace(outcome, message=message, extra=extra)


def _would_wait(outcome: GangOutcome) -> bool:
    """Whether the gang would be in the queue after a real run."""
    fresh = outcome.action in ("created", "recreated")
    waits = outcome.record is not None and outcome.record.phase in WAITING_PHASES
    return (fresh or waits) and outcome.after is not None and not outcome.after.suspended


def _key(outcome: GangOutcome) -> str:
    """What stands for the gang while it may have no uid."""
    return f"{outcome.namespace}/{outcome.name}"


def _verdicts(
    client: KubeClient, options: GangOptions, waiting: t.Sequence[GangOutcome]
) -> tuple[dict[str, Data], tuple[str, ...]]:
    """The answers of fit_info, one gang after the other, and what was not counted; gangs without pods need none."""
    asked = {_key(item): item for item in waiting if item.after is not None and _has_pods(item.after)}
    if not asked:
        return {}, ()

    def naming(gang: Gang) -> Naming:
        outcome = asked[f"{gang.namespace}/{gang.name}"]
        return lambda tree: _queue_named_by(tree, outcome)

    def record_of(gang: Gang) -> Record | None:
        outcome = asked[f"{gang.namespace}/{gang.name}"]
        return None if outcome.action == "recreated" else outcome.record

    complete = QuotaCompletion(client, options.lease, naming=naming, cumulative=True, advice=True, record_of=record_of)
    specs = [item.after for item in asked.values() if item.after is not None]
    answer = answer_fit(client, specs, cumulative=True, advice=True, complete=complete)
    verdicts = {key: verdict.as_dict() for key, verdict in zip(asked, answer.verdicts, strict=True)}
    notes = () if complete.as_of is None else (f"what is used of quota after {complete.as_of}",)
    return verdicts, notes


def _queue_named_by(tree: QuotaTree, outcome: GangOutcome) -> str | None:
    """The queue of a tree that the record would name after a real run."""
    return named_queue(tree, _labels_of(outcome), outcome.after.queue if outcome.after else None)


def _labels_of(outcome: GangOutcome) -> dict[str, str]:
    """The labels of the record after a real run."""
    return {**(outcome.record.labels if outcome.record else {}), **(outcome.after.labels if outcome.after else {})}


def _has_pods(spec: GangSpec) -> bool:
    """Whether any pod comes from the gang."""
    return any(podset.count for podset in spec.demand)


def _places(client: KubeClient, waiting: t.Sequence[GangOutcome], home: str) -> dict[str, tuple[int, str]]:
    """Place and scope of each gang in its queue, new ones as if they were submitted now.

    home is the namespace of the Lease, where quota trees are.
    """
    if not waiting:
        return {}
    queue = read_queue(client, sorted({item.namespace for item in waiting}), home)
    uids = {_key(item): _uid(item, turn) for turn, item in enumerate(waiting)}
    taken = {item.record.uid for item in waiting if item.record is not None}
    others = [applicant(record) for record in queue.records if record.uid not in taken]
    own = [_as_queued(item, uids[_key(item)], queue.now) for item in waiting]
    found = queue.positions([*others, *own])
    return {key: (found[uid], queue.scope) for key, uid in uids.items() if uid in found}


def _uid(outcome: GangOutcome, turn: int) -> str:
    """The uid of a record that stays; one that will be new sorts behind all of the same second, in its turn."""
    if outcome.record is not None and outcome.action != "recreated":
        return outcome.record.uid
    return f"~{turn:06}"


def _as_queued(outcome: GangOutcome, uid: str, now: float) -> Applicant | None:
    """The gang as the order would see it after a real run."""
    spec = outcome.after
    if spec is None:
        return None
    submitted = now
    if outcome.record is not None and uid == outcome.record.uid and not demand_grew(outcome.record.spec, spec):
        submitted = outcome.record.submitted
    return Applicant(uid, outcome.namespace, _labels_of(outcome), spec, submitted)


def _completed(
    client: KubeClient,
    outcome: GangOutcome,
    verdict: Data | None,
    place: tuple[int, str] | None,
    notes: tuple[str, ...],
) -> GangOutcome:
    """An outcome with everything a preview adds."""
    spec = outcome.after
    if spec is None:
        return outcome
    record, recreated = outcome.record, outcome.action == "recreated"
    uid, attempt = (_NO_UID, 1) if record is None or recreated else (record.uid, record.attempt)
    plan = plan_objects(spec, uid, attempt)
    # What a record has made that is removed first stands as little in the way as what an earlier attempt left.
    present = attempt if record is None or not recreated else record.attempt + 1
    tries = _try_objects(client, _coming_record(outcome) if record is None else record.raw, present, plan)
    extra: Data = {
        "verdict": verdict,
        "verdict_text": text_of_verdict(verdict),
        "position": place[0] if place else None,
        "position_scope": place[1] if place else None,
        "would_create": [_entry(item, tried) for item, tried in zip(plan, tries, strict=True)],
        "not_checked": [*notes, *(tried.not_checked for tried in tries if tried.not_checked)],
        "phase": "queued",
        "attempt": attempt,
    }
    return dataclasses.replace(outcome, extra={**outcome.extra, **extra})


def _coming_record(outcome: GangOutcome) -> Data:
    """A record that does not exist yet, as far as it owns objects."""
    metadata = {"name": outcome.name, "namespace": outcome.namespace, "uid": _NO_UID}
    if outcome.store == "appwrapper":
        return {"apiVersion": WRAPPER_API, "kind": WRAPPER_KIND, "metadata": metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _try_objects(client: KubeClient, owner: Data, attempt: int, plan: Plan) -> list[Pretended]:
    """Ask the server to pretend to create each object, with the caller's own rights, as the engine asks."""
    tries: list[Pretended] = []
    earlier: list[str] = []
    for item in plan:
        addressed = address_objects(client, (item,))
        if isinstance(addressed, Refusal):
            tries.append(Pretended(refusal=addressed))
        else:
            tries.append(pretend(client, owner, attempt, addressed[0], earlier))
        earlier.append(item.key[3])
    return tries


def _entry(item: PlannedObject, tried: Pretended) -> Data:
    """One object that would be created; its owner is left out, since it may not exist yet."""
    names = dict(zip(("apiVersion", "kind", "namespace", "name"), item.key, strict=True))
    error = tried.refusal.message if tried.refusal is not None else None
    if tried.taken_by is not None:
        error = f"{describe_object(item.object)} belongs to {tried.taken_by}"
    shown = None if tried.stored is None else _without_owner(tried.stored)
    return {**names, "object": None if error else shown, "error": error}


def _without_owner(obj: Data) -> Data:
    """An object as it would be stored, without the owner that a real start gives it."""
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "ownerReferences"}}
