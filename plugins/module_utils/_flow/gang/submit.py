# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Submitting a gang: its record is created, replaced where that is safe, or left as it is."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._engine.removal import Removal, as_begun
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import (
    Action,
    GangOptions,
    GangOutcome,
    Report,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.remove import remove_record
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import (
    Draft,
    RequestedGang,
    Stores,
    check_objects,
    draft_record,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import authenticated_user
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import ObjectGone, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import (
    SUSPENDED_ANNOTATION,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import (
    RECORD_LABEL,
    SUBMITTED_ANNOTATION,
    USER_ANNOTATION,
    require_headroom,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec, spec_data
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    FINISHED_PHASES,
    HALFWAY_PHASES,
    WAITING_PHASES,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.stores import Store
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import QUEUE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import (
    total_demand,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import (
    create_record,
    read_record,
    replace_record,
)
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import NameTaken

Step = t.Literal["create", "leave", "change", "recreate", "later", "refuse"]


class Refused(MusterError):
    """What was asked for would disturb something that runs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """Where a gang's record is, or would be."""

    record: Record | None
    store: Store
    store_reason: str | None


def find_gang(client: KubeClient, stores: Stores, wanted: RequestedGang) -> Found:
    """The gang's record if there is one; one request for a gang that is there or that a ConfigMap would hold."""
    if wanted.spec is None:
        return _find_by_name(client, stores, wanted)
    store, reason = stores.choose(wanted)
    record = read_record(client, store, wanted.namespace, wanted.name, every_wrapper=store == "appwrapper")
    if record is None and store == "appwrapper":
        older = read_record(client, "configmap", wanted.namespace, wanted.name)
        if older is not None:
            return Found(older, "configmap", "the gang is queued in a ConfigMap already")
    return Found(record, store, reason)


def _find_by_name(client: KubeClient, stores: Stores, wanted: RequestedGang) -> Found:
    """A gang of which only the name is given; its record may be of either kind."""
    record = read_record(client, "configmap", wanted.namespace, wanted.name)
    if record is None and stores.served():
        ours = stores.wrapper_problem is None
        wrapper = read_record(client, "appwrapper", wanted.namespace, wanted.name, every_wrapper=ours)
        if wrapper is not None:
            return Found(wrapper, "appwrapper", None)
    return Found(record, "configmap", None)


def decide(record: Record | None, spec: GangSpec, *, replace: bool, rerun: bool) -> Step:
    """What a submission does, given what is there: running work is never disturbed unless the user says so."""
    if record is None:
        return "create"
    if record.terminating:
        return "later"
    same = record.spec is not None and _plain(record.spec) == _plain(spec)
    if record.phase in FINISHED_PHASES:
        return "recreate" if rerun else "leave"
    if same:
        return "leave"
    if record.spec is not None and _plain(dataclasses.replace(record.spec, suspended=spec.suspended)) == _plain(spec):
        return "change"
    if record.phase in WAITING_PHASES:
        return "change"
    if record.phase in HALFWAY_PHASES:
        return "later"
    return "recreate" if replace else "refuse"


def decide_there(client: KubeClient, found: Found, spec: GangSpec, *, replace: bool, rerun: bool) -> tuple[Step, Found]:
    """The same, and what was found, where a dispatcher may have begun a start that its record does not tell yet."""
    step = decide(found.record, spec, replace=replace, rerun=rerun)
    if step != "change" or found.record is None or found.record.phase != "queued":
        return step, found
    found = dataclasses.replace(found, record=_with_start(client, found.record))
    return decide(found.record, spec, replace=replace, rerun=rerun), found


def _with_start(client: KubeClient, record: Record) -> Record:
    """A record as its ticket tells it; who may not read tickets takes the record's word."""
    try:
        ticket = Removal(client, client, None, record.uid, record.namespace).find_ticket(record.attempt)
    except Forbidden:
        return record
    return record if ticket is None else as_begun(record, (ticket,))


def _plain(spec: GangSpec) -> str:
    """The specification as it is stored, so that what a server adds makes no difference."""
    return canonical_json(spec_data(spec))


def demand_grew(before: GangSpec | None, after: GangSpec) -> bool:
    """Whether the gang asks for more than before; then others that queued meanwhile come first."""
    if before is None:
        return True
    old, new = total_demand(before.demand), total_demand(after.demand)
    return any(amount > old.get(name, 0) for name, amount in new.items())


def draft_gang(wanted: RequestedGang, found: Found, suspended: bool) -> Draft:
    """The record as it is to be; a gang known by name only keeps all but whether it is suspended."""
    record = found.record
    if wanted.spec is not None:
        return draft_record(wanted, wanted.spec, found.store, record)
    if record is None:
        cause = "there is none of this name; give definition or src to queue it"
        raise BadInput("find", wanted.target, cause)
    if record.spec is None:
        raise BadInput("change", wanted.target, f"its record cannot be read: {record.spec_problem}")
    return draft_record(wanted, dataclasses.replace(record.spec, suspended=suspended), found.store, record)


class Submission:
    """The submission of gangs under one deadline."""

    def __init__(self, client: KubeClient, options: GangOptions, stores: Stores, report: Report, end: float) -> None:
        """Nothing is sent yet; end is on the client's clock."""
        self._client = client
        self._options = options
        self._stores = stores
        self._report = report
        self._end = end
        self._clock = ServerClock(client)

    def submit(self, wanted: RequestedGang, found: Found) -> GangOutcome:
        """Bring one gang's record to what is wanted; another write to it meanwhile makes us look again."""
        while True:
            draft = draft_gang(wanted, found, self._options.state == "suspended")
            terms = self._options
            step, found = decide_there(self._client, found, draft.spec, replace=terms.replace, rerun=terms.rerun)
            try:
                outcome = self._take(step, wanted, found, draft)
            except (Superseded, ObjectGone):
                outcome = None
            if outcome is not None:
                return outcome
            if self._client.clock() >= self._end:
                raise Refused(
                    "change", wanted.target, f"after {self._options.wait_timeout:g} s {_why_not(found.record)}"
                )
            if step == "later":
                self._client.sleep(self._options.wait_sleep)
            found = find_gang(self._client, self._stores, wanted)

    def _take(self, step: Step, wanted: RequestedGang, found: Found, draft: Draft) -> GangOutcome | None:
        """One step; None when the record has to be looked at again."""
        record = found.record
        if step == "later":
            return None
        if step == "refuse":
            raise refusal(wanted, record)
        if step == "leave":
            return outcome_of(wanted, found, "unchanged", record, draft.spec)
        warnings = check_objects(self._client, draft.spec, found.store)
        if step == "change" and record is not None:
            return outcome_of(wanted, found, "changed", self._change(wanted, record, draft), draft.spec, warnings)
        action: Action = "created"
        if record is not None:
            self._report(f"{wanted.target}: removing what is there")
            remove_record(self._client, record, self._options, self._end, self._report)
            action = "recreated"
        try:
            made = create_record(self._client, self._signed(self._dated(draft.body)))
        except NameTaken as error:
            labels = error.found["metadata"].get("labels") or {}
            if found.store == "configmap" and labels.get(RECORD_LABEL) != "gang":
                cause = "a ConfigMap of this name exists and is no record of a gang; give the gang another name"
                raise BadInput("queue", wanted.target, cause) from error
            # Another task queued it first; what is there is compared like any other.
            return None
        return outcome_of(wanted, found, action, made, draft.spec, warnings)

    def _dated(self, body: Data) -> Data:
        """The record with the moment of its submission: the server's own stamp is too coarse to keep an order."""
        metadata = body["metadata"]
        at = micro_time_text(int(self._clock.stamp() * 1_000_000))
        annotations = {**(metadata.get("annotations") or {}), SUBMITTED_ANNOTATION: at}
        return {**body, "metadata": {**metadata, "annotations": annotations}}

    def _signed(self, body: Data) -> Data:
        """The record with who queued it, unless it says so already; without an answer it does not say."""
        metadata = body["metadata"]
        annotations = metadata.get("annotations") or {}
        if annotations.get(USER_ANNOTATION) or self._user is None:
            return body
        return {**body, "metadata": {**metadata, "annotations": {**annotations, USER_ANNOTATION: self._user}}}

    @functools.cached_property
    def _user(self) -> str | None:
        """Who we are to the server, asked once for all gangs of a task."""
        return authenticated_user(self._client)

    def _change(self, wanted: RequestedGang, record: Record, draft: Draft) -> Record:
        """Replace the specification of a record that is still as it was read; uid and place in the queue stay."""
        grown = demand_grew(record.spec, draft.spec)
        body = self._signed(merged_body(record, self._dated(draft.body) if grown else draft.body))
        require_headroom(body["metadata"]["annotations"], wanted.target)
        return replace_record(self._client, record, body)


def outcome_of(
    wanted: RequestedGang,
    found: Found,
    action: Action,
    record: Record | None,
    spec: GangSpec,
    warnings: tuple[str, ...] = (),
) -> GangOutcome:
    """The outcome, with what the user should know about a gang that was left alone."""
    return GangOutcome(
        wanted.name,
        wanted.namespace,
        action,
        record,
        found.store,
        found.store_reason,
        _left_alone(record, spec) if action == "unchanged" else None,
        found.record.spec if found.record else None,
        spec,
        warnings=warnings,
    )


def merged_body(record: Record, body: Data) -> Data:
    """The new contents in the place of the old, with what others added to the record kept."""
    old, new = record.raw["metadata"], body["metadata"]
    own = {*(record.spec.labels if record.spec else ()), QUEUE_LABEL}
    foreign = {key: value for key, value in record.labels.items() if key not in own}
    kept = {key: text for key, text in (old.get("annotations") or {}).items() if key != SUSPENDED_ANNOTATION}
    annotations = {**kept, **(new.get("annotations") or {})}
    metadata = {**old, "labels": {**foreign, **(new.get("labels") or {})}, "annotations": annotations}
    return {**record.raw, **body, "metadata": metadata}


def _left_alone(record: Record | None, spec: GangSpec) -> str | None:
    """Why a record that differs was not changed; None when it does not differ."""
    if record is None or (record.spec is not None and _plain(record.spec) == _plain(spec)):
        return None
    return (
        f"the gang is {record.phase} and stays as it is, though its definition changed; use rerun: true to run it again"
    )


def refusal(wanted: RequestedGang, record: Record | None) -> Refused:
    """The error for a change of something that runs."""
    phase = record.phase if record else "gone"
    cause = f"it is {phase} and its definition changed; use replace: true to stop it and start the new one"
    return Refused("change", wanted.target, cause)


def _why_not(record: Record | None) -> str:
    """What kept a gang from being changed."""
    if record is not None and record.phase in HALFWAY_PHASES:
        return f"it is still {record.phase}; is a dispatcher running?"
    return "another writer keeps changing it"
