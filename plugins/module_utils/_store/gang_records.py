# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records as the API server keeps them: listed, read without ever failing, and written by compare-and-swap."""

from __future__ import annotations

import collections
import math
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import FreshLists, Lists, find_resource
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Allowance,
    Ownership,
    Propagation,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import (
    MANAGED_LABEL,
    WRAPPER_API,
    WRAPPER_KIND,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import (
    EXPIRES_ANNOTATION,
    PHASE_LABEL,
    RECORD_LABEL,
    UNFINISHED_SELECTOR,
    expiry,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import (
    Record,
    record_from_api,
    record_of_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    FINISHED_PHASES,
    STATE_ANNOTATION,
    GangState,
    read_state,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.stores import STORES, Store
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    FINISHED_LABEL,
    TICKET_LABEL,
    of_gangs,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import ObjectStore

Object = dict[str, t.Any]
T = t.TypeVar("T")

_KINDS: dict[Store, tuple[str, str]] = {"configmap": ("v1", "configmaps"), "appwrapper": (WRAPPER_API, "appwrappers")}
# A server that does not know AppWrappers is asked again no sooner.
UNSERVED_SECONDS = 10.0
_OF_STATES = (PHASE_LABEL, STATE_ANNOTATION, EXPIRES_ANNOTATION)
_SELECTORS: dict[Store, str] = {"configmap": f"{RECORD_LABEL}=gang", "appwrapper": f"{MANAGED_LABEL}=true"}


# Inside of a class that has a method called list, the name means that method.
RecordList = list[Record]


def record_path(store: Store, namespace: str | None, name: str | None = None) -> str:
    """The address of a record, or of all records of a namespace or of the cluster."""
    return resource_path(*_KINDS[store], namespace, name)


def path_of(record: Record) -> str:
    """The address of a record that was read."""
    return record_path(record.store, record.namespace, record.name)


def _objects(
    client: KubeClient, store: Store, allowance: Allowance | None = None, tries: int | None = 5
) -> ObjectStore:
    """The objects that hold records of a kind."""
    return ObjectStore(client, *_KINDS[store], allowance, tries)


def read_record(
    client: KubeClient, store: Store, namespace: str, name: str, *, every_wrapper: bool = False
) -> Record | None:
    """One record by its name; None when there is no object of that name, or one that is no record of ours.

    Every AppWrapper is ours where the definition of that kind is; elsewhere only those that are marked.
    """
    raw = _objects(client, store).read(namespace, name)
    label, _equals, value = _SELECTORS[store].partition("=")
    marked = raw is not None and (raw["metadata"].get("labels") or {}).get(label) == value
    if raw is None or not (marked or (every_wrapper and store == "appwrapper")):
        return None
    return record_from_api(raw)


class Records:
    """All records of a cluster; those that did not change since the last list are not read anew."""

    def __init__(
        self,
        client: KubeClient,
        *,
        every_wrapper: bool = False,
        lists: Lists | None = None,
        essence: t.Callable[[Record], object] | None = None,
    ) -> None:
        """Nothing listed yet; every_wrapper takes AppWrappers without our mark too.

        lists is where they come from, the server if not given; essence is what of a record matters at once.
        """
        self._client = client
        self._lists: Lists = lists or FreshLists(client)
        self._essence = essence
        self._selectors: dict[Store, str | None] = {**_SELECTORS}
        if every_wrapper:
            self._selectors["appwrapper"] = None
        self._known: dict[str, Record] = {}
        self._unserved_until = -math.inf

    def list(
        self, namespaces: Sequence[str] | None, stores: Iterable[Store] = STORES, *, finished: bool = True
    ) -> RecordList:
        """The records of these namespaces (None: of all) by namespace and name; terminating ones too.

        Without the finished ones the server leaves out what is labelled so. A label can be wrong, the state tells.
        """
        lists = [
            (store, namespace, self.selector(store, None if finished else UNFINISHED_SELECTOR))
            for store in stores
            if self.served(store)
            for namespace in ((None,) if namespaces is None else sorted(set(namespaces)))
        ]
        found = [record for records in parallel(self._reader(*wanted) for wanted in lists) for record in records]
        self._known = {record.uid: record for record in found}
        return sorted(found, key=lambda record: (record.namespace, record.name, record.store))

    def remember(self, record: Record) -> None:
        """Take a record as this process has just written it: what the watch then shows of it need not be read again."""
        self._known[record.uid] = record

    def selector(self, store: Store, more: str | None) -> str | None:
        """Which objects of a kind are records, and of those the ones that a further selector takes."""
        return ",".join(filter(None, (self._selectors[store], more))) or None

    def read(self, store: Store, namespace: str, name: str) -> Record | None:
        """One record by its name, whatever its label says; None when there is none that would be listed."""
        every_wrapper = self._selectors["appwrapper"] is None
        return read_record(self._client, store, namespace, name, every_wrapper=every_wrapper)

    def served(self, store: Store) -> bool:
        """Whether the server knows this kind of record; AppWrappers of another version are not ours.

        A server that does not know it is asked again after a while: its definition may be installed any time.
        """
        now = self._client.clock()
        if store == "configmap" or now < self._unserved_until:
            return store == "configmap"
        found = find_resource(self._client, WRAPPER_API, WRAPPER_KIND) is not None
        if not found:
            self._unserved_until = now + UNSERVED_SECONDS
        return found

    def _reader(self, store: Store, namespace: str | None, selector: str | None) -> t.Callable[[], Sequence[Record]]:
        """One list to be made in a thread."""
        path = record_path(store, namespace)
        return lambda: self.while_served(
            store,
            lambda: self._lists.list(path, keep=self._keep, essence=self._essence, label_selector=selector).items,
        )

    def while_served(self, store: Store, read: t.Callable[[], Sequence[T]]) -> Sequence[T]:
        """What a list of records shows; nothing when their definition was deleted since it was found.

        A server that still tells of the definition does not know all yet, or not any more: records that exist must not
        look gone, so that is an error which passes.
        """
        try:
            return read()
        except NotFound as error:
            if store != "appwrapper":
                raise
            self._client.discovered.pop(WRAPPER_API, None)
            if self.served(store):
                raise ServerFault(
                    error.action, error.target, status=error.status, reason=error.reason, message=error.message
                ) from error
            return []

    def _keep(self, raw: Object) -> Record:
        """The record of an object, the known one if it did not change; a new state leaves what is specified."""
        metadata = raw["metadata"]
        known = self._known.get(metadata["uid"])
        if known is not None and known.resource_version == metadata["resourceVersion"]:
            return known
        if raw["kind"] != WRAPPER_KIND:
            # Only those of wrappers tell something: who else writes their status.
            metadata.pop("managedFields", None)
        return record_from_api(raw) if known is None or known.newer is not None else _reread(known, raw)


def put_state(
    client: KubeClient, record: Record, state: GangState, *, allowance: Allowance | None = None, tries: int | None = 5
) -> Record:
    """Write a state to the record as it was read, with the label that repeats its phase; returns it as stored.

    Raises Superseded when anybody changed the record meanwhile and ObjectGone when it was deleted.
    """
    metadata = record.raw["metadata"]
    # A wrapper that was written without the mark is ours from the first write on.
    own = {MANAGED_LABEL: "true"} if record.store == "appwrapper" else {}
    expires = expiry(state, record.spec.ttl if record.spec is not None else None)
    written = state_text(state)
    annotations = {
        **{key: text for key, text in (metadata.get("annotations") or {}).items() if key != EXPIRES_ANNOTATION},
        STATE_ANNOTATION: written,
        **({EXPIRES_ANNOTATION: expires} if expires is not None else {}),
    }
    labels = {**record.labels, **own, PHASE_LABEL: _phase_label(record, state)}
    body = {**record.raw, "metadata": {**metadata, "labels": labels, "annotations": annotations}}
    objects = _objects(client, record.store, allowance, tries)
    stored = objects.replace(record.raw, body, state.write_id, _state_write_id)
    if record.store == "configmap":
        stored["metadata"].pop("managedFields", None)
    same = (stored["metadata"].get("annotations") or {}).get(STATE_ANNOTATION) == written
    return _reread(record, stored, state if same else None)


def _phase_label(record: Record, state: GangState) -> str:
    """The phase as the label repeats it; a wrapper that has just ended is read once more, for its status.

    Records that are labelled as finished are left out of lists.
    """
    ends = state.phase in FINISHED_PHASES and not record.finished
    return record.phase if record.store == "appwrapper" and ends else state.phase


def put_status(client: KubeClient, record: Record, status: Object, *, allowance: Allowance | None = None) -> Record:
    """Write the status of an AppWrapper; returns the record as stored. A status is known by what it says."""
    body, text = {**record.raw, "status": status}, canonical_json(status)
    objects = _objects(client, record.store, allowance)
    return _reread(record, objects.replace(record.raw, body, text, _status_text, subresource="status"))


def create_record(client: KubeClient, raw: Object, *, allowance: Allowance | None = None) -> Record:
    """Create a record; one found with the same contents is taken for it, NameTaken tells of any other object."""
    wanted = _contents(raw)
    store: Store = "appwrapper" if raw["kind"] == WRAPPER_KIND else "configmap"

    def is_ours(found: Object) -> Ownership:
        """Ours if it says what we wanted to say."""
        return Ownership.OURS if _contents(found) == wanted else Ownership.FOREIGN

    return record_from_api(_objects(client, store, allowance).create(raw, is_ours).obj)


def replace_record(client: KubeClient, record: Record, raw: Object, *, allowance: Allowance | None = None) -> Record:
    """Replace a record as it was read by other contents; Superseded and ObjectGone as in put_state."""
    objects = _objects(client, record.store, allowance)
    return record_from_api(objects.replace(record.raw, raw, _contents(raw), _contents))


def delete_record(
    client: KubeClient,
    record: Record,
    *,
    propagation: Propagation = "Background",
    allowance: Allowance | None = None,
) -> None:
    """Delete this very record; the garbage collector takes its ticket and all that the ticket owns."""
    _objects(client, record.store, allowance).delete(record.raw, propagation=propagation)


def list_tickets(
    lists: Lists,
    homes: Mapping[str, str],
    places: Sequence[str | None],
    *,
    finished: bool = False,
    gang: str | None = None,
) -> dict[str, tuple[Object, ...]]:
    """All tickets by the uid of the record that owns them; those without an owner are nobody's business any more.

    homes are the namespaces of known records by their uids: nothing in another namespace than its record's can be its
    ticket, whatever it says. Tickets of gangs that are over are left out by the server where they are marked, unless
    they are asked for, and all but those of one gang where only that is meant.
    """
    selector = TICKET_LABEL if finished else f"{TICKET_LABEL},!{FINISHED_LABEL}"
    selector += "" if gang is None else f",{of_gangs([gang])}"
    found: dict[str, list[Object]] = collections.defaultdict(list)
    for namespace in places:
        path = resource_path("v1", "configmaps", namespace)
        for ticket in lists.list(path, keep=_ticket, label_selector=selector).items:
            home = ticket["metadata"]["namespace"]
            for owner in ticket["metadata"].get("ownerReferences") or ():
                if homes.get(str(owner.get("uid")), home) == home:
                    found[str(owner.get("uid"))].append(ticket)
    return {uid: tuple(tickets) for uid, tickets in found.items()}


def _ticket(raw: Object) -> Object:
    """Keep a ticket without who wrote which field of it."""
    raw["metadata"].pop("managedFields", None)
    return raw


def _reread(record: Record, stored: Object, state: GangState | None = None) -> Record:
    """The record as stored; specification and state are read anew only if they are not those that are known."""
    same = stored.get("data") == record.raw.get("data") and stored.get("spec") == record.raw.get("spec")
    if same and _said(stored["metadata"]) == _said(record.raw["metadata"]):
        return record_of_spec(record.store, stored, record.spec, record.spec_problem, state=state)
    return record_from_api(stored)


def _said(metadata: Mapping[str, t.Any]) -> list[dict[str, str]]:
    """Labels and annotations without the state and what only repeats it."""
    texts = [metadata.get("labels") or {}, metadata.get("annotations") or {}]
    return [{key: value for key, value in item.items() if key not in _OF_STATES} for item in texts]


def _state_write_id(raw: Object) -> str | None:
    """Which write made the state what it is."""
    state = read_state(raw["metadata"].get("annotations"))
    return state.write_id if state is not None else None


def _status_text(raw: Object) -> str | None:
    """A status as text to compare by."""
    return canonical_json(raw.get("status"))


def _contents(raw: Object) -> str:
    """What a writer said of a record: its data or spec, its labels and annotations."""
    metadata = raw["metadata"]
    said = [metadata.get("labels") or {}, metadata.get("annotations") or {}, raw.get("data"), raw.get("spec")]
    return canonical_json(said)
