# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine that needs nothing in the cluster: it starts gangs whole and takes them back whole.

Every write is recovered from the cluster alone: the next holder of the Lease finds a record that says what was going on
and a ticket that says what was created. Lost leadership ends everything at once, without even an undo.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t
from collections.abc import Callable, Collection, Iterable

from ansible_collections.muster.kube.plugins.module_utils._engine import dry_run as pretending
from ansible_collections.muster.kube.plugins.module_utils._engine.addresses import AddressedObject, address_objects
from ansible_collections.muster.kube.plugins.module_utils._engine.creation import Creation, NotYet
from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import Refusal, refusal_of, taken
from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import (
    Capabilities,
    NotBegun,
    Overtaken,
    Progress,
    Resized,
    StartGrant,
    TicketKeeper,
)
from ansible_collections.muster.kube.plugins.module_utils._engine.removal import (
    Removal,
    attempt_of_ticket,
    holds_ticket,
    lost_object,
    owner_is_gone,
    started_keys,
)
from ansible_collections.muster.kube.plugins.module_utils._engine.resizing import Resizer, Unchangeable
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    ApiError,
    KubeError,
    OutcomeUnknown,
    Unreachable,
    is_final,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Created,
    ObjectGone,
    Ownership,
    Superseded,
    settle_create,
    settle_delete,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import require_headroom
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import (
    Record,
    as_stored,
    record_from_api,
    with_unsaved,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import digest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    CHOSEN,
    OUTCOME_UNKNOWN,
    REFUSED,
    REQUEUED,
    STARTED,
    TAKEN_OVER,
    UNDO_ENDS,
    WAITING_PHASES,
    Changes,
    GangState,
    Phase,
    gone_unseen,
    state_text,
    why_undone,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    Plan,
    adopts,
    build_ticket,
    made_by,
    state_in_ticket,
    ticket_keys,
    ticket_name,
    ticket_places,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease, LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._store.state_writer import StateWriter, follows

Object = dict[str, t.Any]
Data = dict[str, t.Any]

CHANGED_ALL_THE_TIME = "others change it all the time"
CHANGED_MEANWHILE = "the specification was changed while the gang was being started"
# A gang that the server refused for a passing reason is not asked again sooner.
RETRY_SECONDS = 30.0

_UID_LENGTH = 36


class Embedded(TicketKeeper):
    """Starts and undoes gangs under one epoch of the Lease; may be used by several threads for different gangs."""

    capabilities = Capabilities(tickets=True)

    def __init__(
        self, client: KubeClient, lease: DispatchLease, act_as: Callable[[str], KubeClient], now: Callable[[], str]
    ) -> None:
        """act_as gives the client for user objects of a namespace, now the server's time as RFC 3339 text."""
        self._client = client
        self._lease = lease
        self._act_as = act_as
        self._now = now
        self._writer = StateWriter(client, lease, now)
        # Records for which a request of an attempt may still be on its way to the server.
        self._doubtful: set[str] = set()
        # Records that could not be written: what is known of their starts is written before anything is created.
        self._unwritable: set[str] = set()
        # Records whose start was given back once although a dry run may have allowed it.
        self._given_back: set[str] = set()
        # Starts of this holder that are not finished, by record.
        self._creations: dict[str, Creation] = {}

    # Starting.

    def dry_run(self, record: Record, plan: Plan, grant: StartGrant) -> pretending.DryRun:
        """What the server would refuse; one request for each object. BadInput when the state would not fit."""
        self._chosen(record, grant)
        placed = address_objects(self._client, plan)
        if isinstance(placed, Refusal):
            return pretending.DryRun(placed)
        actor = self._act_as(record.namespace)
        return pretending.dry_run(actor, record.raw, record.attempt, placed, self._lease.write_timeout)

    def submit(self, record: Record, plan: Plan, grant: StartGrant) -> Record:
        """Start a queued gang whose batch is committed: k objects take k + 1 requests, and saving the record one more.

        Returns it dispatched and unsaved: its ticket says meanwhile what its record does not. Else dispatching, if it
        has to wait for something; undoing, if an object was refused; or failed or queued, if nothing was created.
        Raises Superseded or ObjectGone when the record changed or went; NotBegun when it cannot be written; BadInput
        when its state would not fit; OutcomeUnknown and other errors when the outcome is unknown: the next cycle finds
        the ticket.
        """
        state = self._chosen(record, grant)
        placed = address_objects(self._client, plan)
        if isinstance(placed, Refusal):
            return self._refuse_unstarted(record, placed, grant.batch)
        self._doubtful.add(record.uid)
        try:
            record, ticket = self._make_ticket(record, plan, state)
        except (LostLeadership, Superseded, ObjectGone):
            raise
        except KubeError as error:
            # A ticket that comes late owns nothing: children are created by whoever saw the answer.
            raise NotBegun(error.action, error.target, error.cause) from error
        if isinstance(ticket, Refusal):
            return self._refuse_unstarted(record, ticket, grant.batch)
        begun = with_unsaved(record, dataclasses.replace(state, ticket_uid=ticket["metadata"]["uid"]))
        if record.uid in self._unwritable:
            begun = self._save_first(begun, ticket)
        return self._carry_out(begun, placed, all_ours=True)

    def _save_first(self, begun: Record, ticket: Object) -> Record:
        """Write a start into its record before any object is created, because that could not be done before."""
        try:
            return self._writer.put(begun, _state_of(begun), "none")
        except ApiError as error:
            # Unless another holder goes on with it, nothing may follow a ticket that its record does not name.
            named = _names_ticket(error, ticket["metadata"]["uid"])
            if not named:
                self.remove_ticket(ticket)
            if isinstance(error, Superseded) and not named:
                raise Overtaken(str(begun), error.found) from error
            if is_final(error):
                self._settled(begun)
                raise NotBegun(error.action, error.target, error.cause) from error
            raise

    def save(self, record: Record, *, patient: bool = True) -> Record:
        """Write down what only this process knows of a gang it has started: its ticket said so meanwhile.

        A gang whose objects were edited before that is taken back: what was started is not what its user wants. One
        whose record cannot be written is taken back as well, and NotBegun is raised; patient tells that only what is
        final counts as that.
        """
        state = _state_of(record)
        try:
            saved = self._writer.put(record, state, "metadata")
        except ObjectGone:
            self._try_removal(record, state.attempt)
            raise
        except Superseded as error:
            found = record_from_api(error.found)
            if follows(record, found) and found.spec == record.spec:
                self._settled(record)
                raise self._unsaved(record, KubeError("write", str(record), CHANGED_ALL_THE_TIME), patient) from error
            return self._stop_edited(record, error)
        except (ApiError, Unreachable, OutcomeUnknown) as error:
            raise self._unsaved(record, error, patient and not is_final(error)) from error
        self._unwritable.discard(record.uid)
        self._settled(saved)
        return saved

    def _stop_edited(self, record: Record, error: Superseded) -> Record:
        """Take back a start whose record its user edited before it was written; who else wrote it decides instead."""
        found = record_from_api(error.found)
        if not record.unsaved or not follows(record, found) or found.spec == record.spec:
            raise error
        self._settled(record)
        return self.stop(with_unsaved(found, _state_of(record)), TAKEN_OVER, CHANGED_MEANWHILE, then="queued")

    def _unsaved(self, record: Record, error: KubeError, patient: bool) -> KubeError:
        """What to raise when a record could not be written; without patience the gang is taken back first."""
        if patient:
            return error
        self._unwritable.add(record.uid)
        self._try_removal(record, record.attempt)
        return NotBegun(error.action, error.target, error.cause)

    def _chosen(self, record: Record, grant: StartGrant) -> GangState:
        """The state `dispatching`, proved to fit into the record before anything is created."""
        if record.spec is None:
            raise BadInput("start", f"gang {record.key}", record.unreadable)
        state = self._writer.next_state(
            record,
            "dispatching",
            CHOSEN,
            "",
            batch=grant.batch,
            ticket_uid="-" * _UID_LENGTH,
            digest=digest(record.spec),
            reserved=grant.reserved,
            steering=dict(grant.steering),
            verdict=grant.verdict,
            charged=grant.charged,
            nominated=None,
            not_before=None,
            started_at=None,
            then=None,
            holding=False,
            made=0,
            allotment=record.spec.size,
        )
        require_headroom(record.raw["metadata"].get("annotations"), str(record))
        state_text(state)
        return state

    def _make_ticket(self, record: Record, plan: Plan, state: GangState) -> tuple[Record, Object | Refusal]:
        """Create the attempt's ticket; the record with it, since another holder's ticket is removed only after a write.

        A ticket is ours if this very write made it. Another holder may be about to name any other one in the record, so
        it goes only when a write of ours to the record has ended that.
        """
        wanted = state.digest or ""
        # Why it fits is for people, and can be long.
        told = state_text(dataclasses.replace(state, verdict=None, waits=()))
        body = build_ticket(record.raw, state.attempt, wanted, plan, state.write_id, told)
        path = resource_path("v1", "configmaps", record.namespace)

        def judge(found: Object) -> Ownership:
            """Whose a ticket is that was found under the name."""
            if adopts(found, record.uid, state.attempt, wanted) and made_by(found) == state.write_id:
                return Ownership.OURS
            own = attempt_of_ticket(found, record.uid) == state.attempt
            return Ownership.OLDER_ATTEMPT if own else Ownership.FOREIGN

        for _round in range(2):
            try:
                outcome = settle_create(self._client, path, body, is_ours=judge, allowance=self._lease.write_timeout)
            except ApiError as error:
                refusal = refusal_of(error, body)
                if refusal is None:
                    raise
                return record, refusal
            if isinstance(outcome, Created):
                return record, outcome.obj
            if outcome.ownership is Ownership.FOREIGN:
                break
            record = self.reclaim(record)
            self.remove_ticket(outcome.obj)
        return record, dataclasses.replace(taken(body, outcome.obj), kind="failed", reason=REFUSED)

    def _carry_out(self, record: Record, placed: tuple[AddressedObject, ...], *, all_ours: bool) -> Record:
        """Create the objects of a record that is `dispatching` and names its ticket, as far as that can be done now.

        all_ours tells that no other holder ever sent a request for this attempt, so that none can be on its way.
        """
        state = _state_of(record)
        creation = self._creation_of(record) or self._begin_creation(record, placed, all_ours=all_ours)
        succeeded = [at for at, outcome in state.outcomes.items() if outcome == "succeeded"]

        def note_made(made: int) -> None:
            """The next holder must not create again what may have come and gone meanwhile."""
            nonlocal record
            if record.unsaved:
                # The first write: what was edited before it is not what is being started.
                begun = self._writer.next_state(record, "dispatching", "", "", made=made)
                record = self._writer.put(record, begun, "metadata")
            elif made > _state_of(record).made:
                record = self._put(record, "dispatching", "", "", made=made)

        try:
            outcome = creation.go_on(placed, succeeded, note_made)
        except ObjectGone:
            self._try_removal(record, state.attempt)
            raise
        except Superseded as error:
            return self._stop_edited(record, error)
        except (ApiError, Unreachable, OutcomeUnknown):
            # It goes on later; whoever does that need not find out from the ticket what was begun.
            with contextlib.suppress(ApiError, Unreachable, OutcomeUnknown):
                note_made(creation.made)
            raise
        if isinstance(outcome, NotYet):
            note_made(creation.made)
            return record
        self._creations.pop(record.uid, None)
        if outcome is not None:
            if all_ours:
                self._settled(record)
            if record.unsaved and not creation.made:
                return self._give_back(record, outcome)
            return self._undo_refused(record, outcome)
        return self._finish_start(record, None if all_ours else creation.last_made)

    def _begin_creation(self, record: Record, placed: tuple[AddressedObject, ...], *, all_ours: bool) -> Creation:
        """What creates the objects of a start; how far another holder came with them is looked up first."""
        made = Creation(self._act_as(record.namespace), self._lease.write_timeout, record, _state_of(record))
        self._creations[record.uid] = made
        if not all_ours:
            made.look_back(placed)
        return made

    def _finish_start(self, record: Record, since: str | None) -> Record:
        """The record of a gang whose objects are all there; one that was not written since the ticket stays so.

        since is when the last object of a start that was taken over came to be: its time runs from then on.
        """
        self._given_back.discard(record.uid)
        started = self._writer.next_state(record, "dispatched", STARTED, "", started_at=since or self._now())
        if record.unsaved:
            return with_unsaved(record, started)
        try:
            record = self._writer.put(record, started, "any")
        except ObjectGone:
            self._try_removal(record, record.attempt)
            raise
        self._settled(record)
        return record

    def _creation_of(self, record: Record) -> Creation | None:
        """The unfinished start of this very attempt, if this holder began it or took it over."""
        found, state = self._creations.get(record.uid), record.state
        same = found is not None and state is not None and found.attempt == state.attempt
        return found if same and found is not None and found.ticket_uid == (state and state.ticket_uid) else None

    def reason(self, record: Record) -> str | None:
        """What an unfinished start has to wait for, as text; None when that is not known."""
        creation = self._creation_of(record)
        return creation.waits_for if creation is not None else None

    def state(self, record: Record, objects: Iterable[Object | None] = ()) -> Progress:
        """How far a start is that this holder began or took over; whether a started gang still has its ticket."""
        if record.phase != "dispatching":
            return "started" if holds_ticket(self._client, record) else "gone"
        creation = self._creation_of(record)
        if creation is None or not self._is_ours(_state_of(record)):
            return "left"
        return "ready" if any(creation.is_ready(obj) for obj in objects if obj is not None) else "waits"

    def go_on(self, record: Record, plan: Plan) -> Record:
        """Go on with a start that had to wait, as this holder left it, else take it over; as submit otherwise.

        A gang whose objects were edited meanwhile is taken back: half of it would be another gang's.
        """
        if self.state(record) == "left":
            return self.resume(record, plan)
        if record.spec is None or _state_of(record).digest != digest(record.spec):
            return self.stop(record, TAKEN_OVER, CHANGED_MEANWHILE, then="queued")
        placed = address_objects(self._client, plan)
        if isinstance(placed, Refusal):
            return self._undo_refused(record, placed)
        return self._carry_out(record, placed, all_ours=record.uid not in self._doubtful)

    def _undo_refused(self, record: Record, refusal: Refusal) -> Record:
        """Take back what was created before an object was refused."""
        changes: Changes = {"then": refusal.then, "not_before": self._retry_time(refusal)}
        return self.stop(record, refusal.reason, refusal.message, **changes)

    def _give_back(self, record: Record, refusal: Refusal) -> Record:
        """End a start of which there is nothing but the ticket; to its user the gang has never left the queue.

        What is not final is asked again in a dry run, which tells the user what is in the way. Where that did not show
        it, the record tells, and the gang rests for a while.
        """
        state = _state_of(record)
        path = resource_path("v1", "configmaps", record.namespace, ticket_name(record.uid, state.attempt))
        settle_delete(self._client, path, state.ticket_uid or "", allowance=self._lease.write_timeout)
        if refusal.kind != "failed" and record.uid not in self._given_back:
            self._given_back.add(record.uid)
            return as_stored(record)
        return self._refuse_unstarted(as_stored(record), refusal, state.batch or "")

    def _refuse_unstarted(self, record: Record, refusal: Refusal, batch: str) -> Record:
        """Settle the batch's entry of a gang of which nothing was created."""
        self._settled(record)
        state = self._writer.next_state(
            record,
            refusal.then,
            refusal.reason,
            refusal.message,
            batch=batch,
            not_before=self._retry_time(refusal),
        )
        return self._writer.put(record, state, "any")

    def _retry_time(self, refusal: Refusal) -> str | None:
        """When a gang that was refused may be asked again; None when never, or when the time is not known."""
        now = read_time(self._now())
        return None if refusal.kind == "failed" or now is None else time_text(now + RETRY_SECONDS)

    # Taking back.

    def stop(
        self, record: Record, reason: str, message: str, phase: Phase = "undoing", **changes: t.Unpack[Changes]
    ) -> Record:
        """Begin to take a gang back: PUT `undoing` or `evicting`, delete the ticket, then what it lists.

        `then` names the phase it leads to (queued if not given), batch the batch that decided it; None leaves the
        batch. Trouble with a deletion is left to finish_stop, which repeats it. A record that is gone needs none.
        """
        if changes.get("batch", "") is None:
            del changes["batch"]
        changes.setdefault("then", "queued")
        changes["left"] = started_keys(self._removal(record), record)
        attempt = record.attempt
        with contextlib.suppress(ObjectGone):
            record = self._put(record, phase, reason, message, **changes)
        self._try_removal(record, attempt)
        return record

    def _try_removal(self, record: Record, attempt: int) -> None:
        """Remove an attempt as far as the server lets us; lost leadership ends even that."""
        try:
            self._removal(record).remove_attempt(attempt)
        except (ApiError, Unreachable, OutcomeUnknown):
            self._doubtful.add(record.uid)

    def finish_stop(self, record: Record, plan: Plan) -> Record | None:
        """End an undo: None while objects or pods remain (they are deleted again), else the record in its next phase.

        Where a request of the attempt may still be under way, for example after a takeover, one write timeout is
        waited for. A record that was deleted meanwhile is returned as it was.
        """
        state = _state_of(record)
        gone = self._removal(record).nothing_left(plan, state.attempt, state.left)
        if not gone or not self._quiet(record, state):
            return None
        why = why_undone(state)
        # An annotation can hold anything.
        phase: Phase = state.then if state.then in UNDO_ENDS else "queued"
        reason = REQUEUED if phase == "queued" or why is None else why.reason
        changes: Changes = {"ticket_uid": None, "reserved": (), "then": None, "holding": False, "left": ()}
        if phase in WAITING_PHASES:
            changes.update(
                {"attempt": state.attempt + 1, "digest": None, "steering": {}, "started_at": None, "charged": ()}
            )
        try:
            record = self._put(record, phase, reason, why.message if why else "", **changes)
        except ObjectGone:
            return record
        self._settled(record)
        return record

    def _quiet(self, record: Record, state: GangState) -> bool:
        """Whether no request of the attempt can still be on its way."""
        if self._is_ours(state) and record.uid not in self._doubtful:
            return True
        why = why_undone(state)
        began, now = read_time(why.at) if why else None, read_time(self._now())
        # Both times are cut to whole seconds.
        return began is None or now is None or now - began >= self._lease.terms.seconds / 2 + 1

    def _is_ours(self, state: GangState) -> bool:
        """Whether the last write of a state was made under this epoch."""
        return state.write_id.rpartition("/")[0] == self._lease.next_write_id().rpartition("/")[0]

    def remove_ticket(self, ticket: Object) -> None:
        """Delete a ticket that its record does not name; anything that is no ticket of a record is left alone."""
        self._removal_under(ticket)[0].remove_ticket(ticket)

    def take_back(self, ticket: Object) -> None:
        """Delete the ticket of a start whose record cannot be written, and what it lists."""
        removal, uid = self._removal_under(ticket)
        attempt = attempt_of_ticket(ticket, uid)
        if attempt is not None:
            removal.remove_attempt(attempt)

    def remove_orphaned_ticket(self, ticket: Object) -> bool:
        """Delete a ticket whose record is gone, and what it lists, if the collector has not done it by now.

        It is slow to learn of kinds that were installed lately. False when there was nothing to do.
        """
        removal, uid = self._removal_under(ticket)
        attempt = attempt_of_ticket(ticket, uid)
        if attempt is None or not owner_is_gone(self._client, ticket, uid):
            return False
        return removal.remove_attempt(attempt)

    def forget(self, alive: Collection[str]) -> None:
        """Let go of starts whose records are gone: each holds its record as a whole."""
        # Threads of slow calls use both meanwhile.
        for uid in [uid for uid in tuple(self._creations) if uid not in alive]:
            self._creations.pop(uid, None)
        self._doubtful &= set(alive)
        self._unwritable &= set(alive)
        self._given_back &= set(alive)

    # Another size.

    def resize(self, record: Record, plan: Plan, place: int) -> Resized:
        """Take the next step with a gang that is `rescaling`; two requests at most besides the record's.

        An object that was suspended has its time from when it got its size, which its record tells.
        """
        if not self._is_ours(_state_of(record)):
            record = self.reclaim(record)
        state = _state_of(record)
        placed = address_objects(self._client, [item for item in plan if item.index == place])
        if state.resize is None or record.spec is None or isinstance(placed, Refusal) or not placed:
            why = placed.message if isinstance(placed, Refusal) else "nobody can tell any more which object it is about"
            return Resized(record, Unchangeable(why, touched=True))
        actor = self._act_as(record.namespace)
        resizer = Resizer(self._client, actor, self._lease.write_timeout, record.spec, state)
        step = resizer.go_on(placed[0].path, state.resize)
        if isinstance(step, Unchangeable):
            return Resized(record, step)
        if step == "sized" and state.resize.method == "suspend" and state.resize.patched is None:
            now = read_time(self._now())
            patched = dataclasses.replace(state.resize, patched=time_text(now or 0.0))
            record = self._put(record, record.phase, "", "", resize=patched)
        return Resized(record)

    # Taking over.

    def resume(self, record: Record, plan: Plan) -> Record:
        """Take over a record that is `dispatching`: make it ours, then finish the same attempt, else undo it.

        The first PUT ends what the former holder could still write to the record. Raises as submit does.
        """
        self._doubtful.add(record.uid)
        record = self._put(record, "dispatching", "", "")
        state = _state_of(record)
        ticket = self._removal(record).find_ticket(state.attempt)
        problem = _no_adoption(record, state, ticket)
        if problem is not None:
            return self.stop(record, TAKEN_OVER, problem, then="queued")
        placed = address_objects(self._client, plan)
        if isinstance(placed, Refusal):
            return self._undo_refused(record, placed)
        return self._carry_out(record, placed, all_ours=False)

    def rebuild(
        self, record: Record, ticket: Object, reserved: tuple[Data, ...] = (), *, whole: bool = False
    ) -> Record:
        """Restore the state of a record that lost it while a ticket of it lives.

        The record becomes `dispatching`, for resume to finish, if its objects are still what the ticket was made for;
        else the attempt is undone. A ticket that owns nothing was made for a start that never began: it is deleted and
        the record stays as it is, as it does for a ticket that is not this record's. whole tells that its start must
        have ended by now, so what is missing has come and gone.
        """
        attempt = attempt_of_ticket(ticket, record.uid)
        if attempt is None:
            return record
        exist = self._removal(record).exist(ticket)
        if not any(exist):
            self.remove_ticket(ticket)
            return record
        self._doubtful.add(record.uid)
        gone = lost_object(ticket_keys(ticket), exist, whole=whole)
        made = [place + 1 for (place, _key), there in zip(ticket_places(ticket), exist, strict=True) if there]
        changes: Changes = {
            "attempt": attempt,
            "made": max(made),
            "ticket_uid": ticket["metadata"]["uid"],
            "digest": str((ticket.get("data") or {}).get("digest") or "") or None,
            "reserved": reserved or (record.state.reserved if record.state is not None else ()),
            "then": None,
        }
        told = state_in_ticket(ticket)
        if told is not None:
            # When it began tells which pods are its own.
            record = with_unsaved(record, told)
            changes["reserved"] = told.reserved or reserved
        message = f"the state was lost or changed after attempt {attempt} was started; it was restored from the ticket"
        record = self._put(record, "dispatching", TAKEN_OVER, message, **changes)
        if gone is not None:
            # It may have done its work, which is not done again unasked.
            return self.stop(record, OUTCOME_UNKNOWN, gone_unseen(gone), then="failed")
        problem = _no_adoption(record, _state_of(record), ticket)
        return record if problem is None else self.stop(record, TAKEN_OVER, problem, then="queued")

    def reclaim(self, record: Record, batch: str | None = None) -> Record:
        """Put our write id, and the batch if given, into the record; nothing else changes."""
        self._doubtful.add(record.uid)
        changes: Changes = {} if batch is None else {"batch": batch}
        return self._put(record, record.phase, "", "", **changes)

    def _put(self, record: Record, phase: Phase, reason: str, message: str, **changes: t.Unpack[Changes]) -> Record:
        """Write the next state of an attempt; what its user changed in the record counts for the next one only."""
        return self._writer.put(record, self._writer.next_state(record, phase, reason, message, **changes), "any")

    def _removal(self, record: Record) -> Removal:
        """The means to remove what belongs to a record."""
        return self._removal_of(record.uid, record.namespace)

    def _removal_under(self, ticket: Object) -> tuple[Removal, str]:
        """The means to remove what belongs to the record that a ticket is labelled with, and that record's uid."""
        metadata = ticket["metadata"]
        uid = str((metadata.get("labels") or {}).get(GANG_LABEL))
        return self._removal_of(uid, metadata["namespace"]), uid

    def _removal_of(self, uid: str, namespace: str) -> Removal:
        """The means to remove what belongs to a record, which may be gone."""
        return Removal(self._client, self._act_as(namespace), self._lease.write_timeout, uid, namespace)

    def _settled(self, record: Record) -> None:
        """Note that every request for this record was answered."""
        self._doubtful.discard(record.uid)


def _names_ticket(error: ApiError, ticket_uid: str) -> bool:
    """Whether a record that another holder changed first says by now that this is its ticket."""
    if not isinstance(error, Superseded):
        return False
    state = record_from_api(error.found).state
    return state is not None and state.ticket_uid == ticket_uid


def _state_of(record: Record) -> GangState:
    """The state of a record that must have one."""
    if record.state is None:
        raise BadInput("read", f"the state of gang {record.key}", record.state_problem or "it is missing")
    return record.state


def _no_adoption(record: Record, state: GangState, ticket: Object | None) -> str | None:
    """Why an attempt cannot be finished; None when ticket, state and specification agree."""
    if ticket is None or ticket["metadata"]["uid"] != state.ticket_uid:
        return f"the ticket of attempt {state.attempt} is gone"
    if record.spec is None:
        return f"the specification cannot be read any more: {record.spec_problem}"
    if state.digest != digest(record.spec):
        return CHANGED_MEANWHILE
    if not adopts(ticket, record.uid, state.attempt, state.digest):
        return f"the ticket of attempt {state.attempt} was changed or is being deleted"
    return None
