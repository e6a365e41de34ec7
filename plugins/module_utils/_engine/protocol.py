# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the dispatcher asks of an engine: to start gangs, to tell how far they are, and to stop them.

The dispatcher keeps the queue, the Lease and the batch, and decides. An engine carries out what the batch says and
writes the states that follow from it: a start is `dispatching` until it is `dispatched`, a stop `undoing` or `evicting`
until nothing of the gang is left. It has to recover from the cluster alone, since another process may go on with what
it began.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Collection, Iterable

from ansible_collections.muster.kube.plugins.module_utils._engine.dry_run import DryRun
from ansible_collections.muster.kube.plugins.module_utils._engine.resizing import Unchangeable
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import Changes, Phase
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import Plan
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import Charge
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease

Object = dict[str, t.Any]
Data = dict[str, t.Any]

# A start: of another holder (left), of this one and not finished (waits), or what it waited for is there (ready).
# A started gang: what holds its objects together exists (started), or does not (gone).
Progress = t.Literal["left", "waits", "ready", "started", "gone"]


@dataclasses.dataclass(frozen=True, slots=True)
class StartGrant:
    """What the committed batch gives a gang: its id, what is reserved, where it is steered, why, and who is charged."""

    batch: str
    reserved: tuple[Data, ...] = ()
    steering: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    verdict: Data | None = None
    charged: tuple[Charge, ...] = ()


class NotBegun(KubeError):
    """A start could not be written down, and nothing follows: the entry of the batch is over."""


@dataclasses.dataclass(frozen=True, slots=True)
class Resized:
    """A gang whose object gets another size, after one step of that; obstacle is why the object cannot be changed."""

    record: Record
    obstacle: Unchangeable | None = None


class Overtaken(Superseded):
    """The record of a start was changed first, and nothing of the gang exists: the entry of the batch is over."""


@dataclasses.dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine does that not every engine does."""

    # Its gangs are held together by tickets, which are created before the record names them: it is a TicketKeeper.
    # An engine without tickets creates nothing before it has written the record.
    tickets: bool = False


class Engine(t.Protocol):
    """Starts and stops gangs under one epoch of the Lease; several threads may use it for different gangs.

    Every method may raise LostLeadership: then nothing more may be written. Superseded and ObjectGone mean that the
    record was changed or deleted meanwhile; of other errors the outcome is unknown, and the next cycle looks again.
    """

    capabilities: t.ClassVar[Capabilities]

    def __init__(
        self, client: KubeClient, lease: DispatchLease, act_as: Callable[[str], KubeClient], now: Callable[[], str]
    ) -> None:
        """act_as gives the client for user objects of a namespace, now the server's time as RFC 3339 text."""

    def dry_run(self, record: Record, plan: Plan, grant: StartGrant) -> DryRun:
        """What would keep a gang from being submitted; nothing is written.

        Raises BadInput when the record cannot hold the state of the start; that would not change by itself.
        """

    def submit(self, record: Record, plan: Plan, grant: StartGrant) -> Record:
        """Start a queued gang whose batch is committed.

        Returns it `dispatched`; `dispatching`, if it has to wait for something; `undoing`, if an object was refused;
        `failed` or `queued`, if nothing was begun or is left. Raises NotBegun or Overtaken when nothing of it exists or
        follows.
        """

    def go_on(self, record: Record, plan: Plan) -> Record:
        """Go on with a gang that is `dispatching`, begun by this holder or another; as submit otherwise."""

    def state(self, record: Record, objects: Iterable[Object | None] = ()) -> Progress:
        """How far a gang is that is being started, given its live objects, or was started, asked of the server."""

    def reason(self, record: Record) -> str | None:
        """What a gang that is `dispatching` waits for, as text; None when that is not known."""

    def stop(
        self, record: Record, reason: str, message: str, phase: Phase = "undoing", **changes: t.Unpack[Changes]
    ) -> Record:
        """Begin to take a gang back: it is `undoing`, or `evicting` for the sake of another.

        `then` names the phase this leads to (queued if not given), batch the batch that decided it.
        """

    def finish_stop(self, record: Record, plan: Plan) -> Record | None:
        """End a stop: None while something of the gang is left, else the record in its next phase."""

    def resize(self, record: Record, plan: Plan, place: int) -> Resized:
        """Take the next step with a gang that is `rescaling`: patch the object at a place, unless it is not time yet.

        Whoever goes on with what another holder began makes the record its own first.
        """

    def forget(self, alive: Collection[str]) -> None:
        """Let go of what is known of all gangs but these."""


class TicketKeeper(Engine, t.Protocol):
    """An engine whose gangs are held together by tickets, by which their states can be restored.

    It may return a gang that it submitted as `dispatched` and unsaved: the caller has it saved, at once or later.
    """

    def save(self, record: Record, *, patient: bool = True) -> Record:
        """Write the state of an unsaved record; it is `undoing` then if its user edited it after all.

        Raises NotBegun when the record cannot be written and the gang was taken back for that: at once if that is
        final, else when patience is over.
        """

    def remove_ticket(self, ticket: Object) -> None:
        """Delete a ticket that its record does not name; anything that is no ticket of a record is left alone."""

    def take_back(self, ticket: Object) -> None:
        """Delete the ticket of a start whose record cannot be written, and what it lists."""

    def remove_orphaned_ticket(self, ticket: Object) -> bool:
        """Delete a ticket whose record is gone, and what it lists; False when there was nothing to do."""

    def rebuild(self, record: Record, ticket: Object, reserved: tuple[Data, ...], *, whole: bool) -> Record:
        """Restore the state of a record that lost it while a ticket of it lives; the same record if nothing is left.

        whole tells that the start must have ended by now, so what is missing has come and gone.
        """


def ticket_keeper(engine: Engine) -> TicketKeeper | None:
    """The engine, if it keeps tickets."""
    return t.cast(TicketKeeper, engine) if engine.capabilities.tickets else None
