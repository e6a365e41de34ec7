# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A dispatcher's session over a small API server in memory, whose cycles are run one by one and counted."""

from __future__ import annotations

import dataclasses
import typing as t
from urllib.parse import urlsplit

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.cycle import run_cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle, Session
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import PHASE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    advance,
    new_state,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    FINISHED_LABEL,
    build_ticket,
    plan_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease
from ansible_collections.muster.kube.tests.support.gang_records import RECORDS, add_record
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi

Object = dict[str, t.Any]

# Long enough for a busy machine, since nobody renews it in the background.
LEASE = LeaseOptions("team", "dispatch", 600.0)
BEGAN, ENDED = "2026-11-16T03:30:00Z", "2026-11-16T03:40:00Z"


@dataclasses.dataclass
class Cost:
    """What one cycle asked of the server."""

    requests: list[tuple[str, str]]
    objects: int


class CountingApi(WritableApi):
    """Counts the objects it sends in lists."""

    def __init__(self) -> None:
        """Nothing sent yet."""
        super().__init__()
        self.sent = 0

    def answer(self, method: str, url: str, body: Object | None) -> tuple[int, Object]:
        """As usual, and counted."""
        status, answer = super().answer(method, url, body)
        if method == "GET" and self._is_collection(urlsplit(url).path):
            self.sent += len(answer.get("items") or ())
        return status, answer


class SmallSession:
    """One holder of the Lease; each cycle tells what it cost."""

    def __init__(self, api: CountingApi, **terms: t.Any) -> None:
        """The Lease is taken at once."""
        self.api = api
        client = api.client()
        ledger = DispatchLease(client, LEASE, "test", renewal_client=client, renew_in_background=False)
        assert ledger.acquire(1.0)
        settings = DispatchOptions(**{"namespaces": ("team",), "lease": LEASE, **terms})
        self.session = Session(client, ledger, settings, every_wrapper=True, identity_of=lambda _namespace: client)

    def close(self) -> None:
        """Give the Lease back."""
        self.session.lease.release()

    def cycle(self) -> tuple[Cycle, Cost]:
        """One cycle, long enough after the last one for the Lease to be renewed in between."""
        self.session.lease.renew()
        self.api.asked.clear()
        self.api.sent = 0
        cycle = Cycle(self.session, lambda _text: None)
        run_cycle(cycle)
        return cycle, Cost([(method, path) for method, path, _dry in self.api.asked], self.api.sent)


def finish(
    api: WritableApi, name: str, phase: t.Any = "complete", *, at: str = ENDED, labelled: bool = False, **options: t.Any
) -> Record:
    """A finished gang with its ticket, as a dispatcher leaves it; the version before this one set no labels."""
    record = add_record(api, name, **options)
    ticket = add_ticket(api, record)
    state = advance(
        new_state(BEGAN, "w/e.1/1"),
        phase,
        at,
        "Because",
        "of a test",
        "w/e.1/2",
        ticket_uid=ticket["metadata"]["uid"],
        started_at=BEGAN,
    )
    raw = api.objects[f"{RECORDS}/{name}"]
    raw["metadata"].setdefault("annotations", {})[STATE_ANNOTATION] = state_text(state)
    if labelled:
        raw["metadata"]["labels"][PHASE_LABEL] = phase
        ticket["metadata"]["labels"][FINISHED_LABEL] = "true"
    return record_from_api(api.put(f"{RECORDS}/{name}", raw))


def add_ticket(api: WritableApi, record: Record) -> Object:
    """The ticket of a gang's first attempt."""
    assert record.spec is not None
    draft = build_ticket(record.raw, 1, "digest", plan_objects(record.spec, record.uid, 1))
    return api.put(f"{RECORDS}/{draft['metadata']['name']}", draft)
