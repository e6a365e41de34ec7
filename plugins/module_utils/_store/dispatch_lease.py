# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ledger: one Lease that says who decides, and whose annotation is the commit point of each batch.

Safety rests on compare-and-swap by uid and resourceVersion and on monotonic clocks; the times written into the Lease
are for people and other tools to look at. Nothing depends on release() being called.
"""

from __future__ import annotations

import copy
import datetime
import itertools
import math
import secrets
import threading
import time
import typing as t
from dataclasses import dataclass

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    KubeError,
    NotFound,
    OutcomeUnknown,
    ServerFault,
    TooManyRequests,
    Unreachable,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import decode
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Allowance,
    Created,
    ObjectGone,
    Ownership,
    Superseded,
    settle_create,
    settle_replace,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import (
    BATCH_ANNOTATION,
    BATCH_BYTES,
    LeaseOptions,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

Object = dict[str, t.Any]

API_VERSION = "coordination.k8s.io/v1"
WRITE_ANNOTATION = "muster.kube/write"

_LONGEST_POLL = 1.0
_TRANSIENT = (Unreachable, ServerFault, TooManyRequests, OutcomeUnknown)


class LostLeadership(KubeError):
    """The process does not decide any more, or cannot prove that it does: no further write may be started."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """One holder's time in office: no two acquisitions ever have the same."""

    lease_uid: str
    transitions: int

    def __str__(self) -> str:
        """The form that records and write ids carry."""
        return f"{self.lease_uid}.{self.transitions}"

    @classmethod
    def parse(cls, text: str) -> Epoch:
        """Read the text form back; ValueError for anything else."""
        uid, dot, transitions = text.rpartition(".")
        if not dot or not uid or not transitions.isdecimal():
            raise ValueError(f"not an epoch: {text!r}")
        return cls(uid, int(transitions))


def steady_seconds() -> float:
    """A clock that only goes forward and, where the system has one, goes on while the machine is suspended."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_clock is None else time.clock_gettime(boot_clock)


class DispatchLease:
    """One bid for the Lease: acquire it once, commit batches while it lasts; after a loss make a new one."""

    def __init__(
        self,
        client: KubeClient,
        terms: LeaseOptions,
        identity: str,
        *,
        renewal_client: KubeClient,
        renew_in_background: bool = True,
        clock: t.Callable[[], float] = steady_seconds,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        """Nothing is sent yet. The renewal client must have connections of its own, so that work cannot block it.

        A random part is added to the identity: two processes of one name must never take each other's writes for
        their own.
        """
        self.identity = f"{identity}_{secrets.token_hex(8)}"
        self.terms = terms
        self._client = client
        self._renewal_client = renewal_client
        self._in_background = renew_in_background
        self._clock = clock
        self._sleep = sleep
        self._collection = resource_path(API_VERSION, "leases", terms.namespace)
        self._path = resource_path(API_VERSION, "leases", terms.namespace, terms.name)
        # Serializes renewals and commits, so that each knows the resourceVersion the other wrote.
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._numbers = itertools.count(1)
        self._watched: tuple[str, str] = ("", "")
        self._watched_since = 0.0
        self._holder: str | None = None
        self._server_clock: tuple[datetime.datetime, float] | None = None
        self._lease: Object = {}
        # The batch without what is over, and the text it was made from; the next renewal writes it.
        self._tidied: tuple[str | None, str] | None = None
        # Annotations that go along with every write.
        self._notes: dict[str, str] = {}
        self._epoch: Epoch | None = None
        self._sent = 0.0
        self._lost: str | None = None

    # What the owner may ask at any time, from any thread.

    @property
    def epoch(self) -> Epoch | None:
        """The epoch that was acquired; None before. It stays after a loss, when it is good for nothing any more."""
        return self._epoch

    @property
    def holder(self) -> str | None:
        """Who held the Lease when it was last looked at; None when nobody did."""
        return self._holder

    @property
    def lost(self) -> str | None:
        """Why the leadership ended for good; None while it lasts or before it began."""
        return self._lost

    def time_left(self) -> float:
        """Seconds in which a write may still be started: up to 2/3 of the lease after the last renewal was sent."""
        if self._epoch is None or self._lost is not None:
            return 0.0
        return max(0.0, self._sent + self.terms.seconds * 2 / 3 - self._clock())

    def must_stop(self) -> bool:
        """True when no write may be started any more."""
        return self.time_left() <= 0.0

    def write_timeout(self) -> float:
        """How long a write started now may take; raises LostLeadership when none may be started.

        Half of what is left of the lease, since connecting and reading are limited one after the other.
        """
        if self.must_stop():
            raise self._loss("write under")
        return (self._sent + self.terms.seconds - self._clock()) / 2

    def next_write_id(self) -> str:
        """A name for one write of this epoch, by which it is recognized when its answer was lost."""
        return f"{self.identity}/{self._epoch}/{next(self._numbers)}"

    def next_batch_id(self) -> str:
        """A name for one commit: no two commits ever have the same, since no two epochs do."""
        return f"{self._epoch}/{next(self._numbers)}"

    def batch_text(self) -> str | None:
        """The batch as it was found at acquisition, or as this process committed it since."""
        annotations: dict[str, str] = (self._lease.get("metadata") or {}).get("annotations") or {}
        return annotations.get(BATCH_ANNOTATION)

    def created(self) -> float:
        """When the Lease was made, in seconds on the server's clock; long ago when that cannot be read."""
        return read_time((self._lease.get("metadata") or {}).get("creationTimestamp")) or 0.0

    def time_to_wait(self, now: float) -> float:
        """Seconds until no holder of an earlier Lease can write any more; now is the server's time.

        A Lease without a batch is new. Another one may have been deleted under a holder that has not noticed yet, and
        whoever made the new one may have died before it had waited. A clock that is wrong makes it no longer.
        """
        if self.batch_text() is not None:
            return 0.0
        # Timestamps are cut to whole seconds.
        longest = self.terms.seconds + 1.0
        return min(longest, max(0.0, self.created() + longest - now))

    # Taking the Lease.

    def acquire(
        self,
        timeout: float,
        on_wait: t.Callable[[str], None] | None = None,
        on_trouble: t.Callable[[str], None] | None = None,
    ) -> Epoch | None:
        """Try for so many seconds (at least once) to become the holder; None when somebody else still is.

        May be called again after None and goes on watching where it stopped. on_wait hears of each new holder,
        on_trouble of errors that may pass. A server that has never answered is not waited for: its address is wrong.
        """
        if self._epoch is not None:
            raise LostLeadership("acquire", self.terms.target, "this bid was used already; make a new one")
        end = self._clock() + timeout
        told = trouble = None
        while True:
            try:
                epoch = self._try_once()
            except _TRANSIENT as error:
                never_answered = isinstance(error, Unreachable) and self._client.server_time is None
                if never_answered or self._clock() >= end:
                    raise
                if on_trouble is not None and str(error) != trouble:
                    trouble = str(error)
                    on_trouble(trouble)
                epoch = None
            if epoch is not None:
                return epoch
            if on_wait is not None and self._holder is not None and self._holder != told:
                told = self._holder
                on_wait(told)
            left = end - self._clock()
            if left <= 0:
                return None
            self._sleep(min(self.terms.seconds / 5, _LONGEST_POLL, left))

    def _try_once(self) -> Epoch | None:
        """Look at the Lease and take it if it is missing, free or expired."""
        lease = self._look()
        if lease is None:
            return self._create()
        self._holder = _holder_of(lease)
        seen = (lease["metadata"]["uid"], lease["metadata"]["resourceVersion"])
        if seen != self._watched:
            # Noted after the answer came: the holder sent that write earlier, so it stops before we begin.
            self._watched, self._watched_since = seen, self._clock()
        # A holder with longer terms than ours keeps its own.
        patience = max(self.terms.seconds, float((lease.get("spec") or {}).get("leaseDurationSeconds") or 0))
        # Our own name without an epoch: an earlier try of this bid whose answer was lost.
        free = self._holder in (None, self.identity)
        if free or self._clock() - self._watched_since >= patience:
            return self._take(lease)
        return None

    def _look(self) -> Object | None:
        """The Lease as it is now, read from the server's store; None when there is none."""
        try:
            found = decode(self._path, self._client.request("GET", self._path, timeout=self.terms.seconds))
        except NotFound:
            found = None
        self._note_server_clock(self._client)
        return found

    def _create(self) -> Epoch | None:
        """Create the Lease as ours; None when somebody else was first."""
        write_id = f"{self.identity}/new/{next(self._numbers)}"
        lease: Object = {
            "apiVersion": API_VERSION,
            "kind": "Lease",
            "metadata": {
                "name": self.terms.name,
                "namespace": self.terms.namespace,
                "annotations": {WRITE_ANNOTATION: write_id},
            },
            "spec": self._spec_in_office(transitions=0),
        }
        sent = self._clock()

        def is_ours(found: Object) -> Ownership:
            """Ours only if this very write made it."""
            return Ownership.OURS if _write_id_of(found) == write_id else Ownership.FOREIGN

        try:
            outcome = settle_create(
                self._client, self._collection, lease, is_ours=is_ours, allowance=self._bid_allowance(sent)
            )
        except NotFound as error:
            cause = (
                f"the namespace {self.terms.namespace} does not exist; create it, or choose another one for the lease"
            )
            raise KubeError("create", self.terms.target, cause) from error
        if isinstance(outcome, Created):
            return self._begin(outcome.obj, sent)
        self._holder = _holder_of(outcome.obj)
        return None

    def _take(self, lease: Object) -> Epoch | None:
        """Put ourselves in as the holder; None when somebody else was first."""
        transitions = int((lease.get("spec") or {}).get("leaseTransitions") or 0) + 1
        epoch = Epoch(lease["metadata"]["uid"], transitions)
        write_id = f"{self.identity}/{epoch}/{next(self._numbers)}"
        body = _changed(lease, {WRITE_ANNOTATION: write_id}, self._spec_in_office(transitions))
        sent = self._clock()
        try:
            stored = settle_replace(
                self._client, self._path, body, write_id, _write_id_of, allowance=self._bid_allowance(sent)
            )
        except Superseded as error:
            self._holder = _holder_of(error.found)
            return None
        except ObjectGone:
            self._holder = None
            return None
        return self._begin(stored, sent)

    def _begin(self, lease: Object, sent: float) -> Epoch | None:
        """Take office with the Lease as stored; the lease runs from before the first try was sent."""
        self._note_server_clock(self._client)
        self._holder = _holder_of(lease)
        if self._holder != self.identity:
            # Read back after a lost answer, and changed since by somebody who left our write id in place.
            return None
        self._lease = lease
        self._sent = sent
        self._epoch = Epoch(lease["metadata"]["uid"], int(lease["spec"].get("leaseTransitions") or 0))
        if self._in_background:
            self._thread = threading.Thread(target=self._keep_renewing, name="muster-kube-lease", daemon=True)
            self._thread.start()
        return self._epoch

    def _bid_allowance(self, sent: float) -> Allowance:
        """The limits of a bid that was first sent then: what is learned too late is of no use."""

        def seconds() -> float:
            """For the next request."""
            left = sent + self.terms.seconds * 2 / 3 - self._clock()
            if left <= 0:
                raise OutcomeUnknown("acquire", self.terms.target, "no answer in time")
            return min(left, self.terms.seconds / 3)

        return seconds

    # Keeping it.

    def renew(self) -> None:
        """Renew once; called by the thread, or by an owner that asked for no thread. Raises LostLeadership."""
        with self._lock:
            self._write(self._renewal_client, self._tidy_annotations(), "renew")

    def tidy(self, before: str | None, after: str) -> None:
        """Have the next renewal write the batch without what is over, unless another batch is committed first.

        before is the text that the batch has now, None for none.
        """
        with self._lock:
            self._tidied = (before, after)

    def note(self, annotation: str, text: str) -> None:
        """Have the next write, and all that follow, tell something besides; it costs no request of its own."""
        with self._lock:
            self._notes[annotation] = text

    def _tidy_annotations(self) -> dict[str, str]:
        """What is to be told, and the batch to be written along, if the present one is still what was tidied."""
        tidied, self._tidied = self._tidied, None
        if tidied is None or tidied[0] != self.batch_text():
            return {**self._notes}
        return {**self._notes, BATCH_ANNOTATION: tidied[1]}

    def commit(self, annotation_text: str) -> None:
        """Write the batch: when this returns it is committed, under this epoch, on top of our own last write.

        LostLeadership: nothing else may be written; the batch may stand, for the next holder to settle. Any other
        error: the server refused it and it was not written.
        """
        size = len(annotation_text.encode())
        if size > BATCH_BYTES:
            cause = f"the batch has {size} bytes, at most {BATCH_BYTES} are allowed"
            raise KubeError("commit to", self.terms.target, cause)
        with self._lock:
            self._write(self._client, {**self._notes, BATCH_ANNOTATION: annotation_text}, "commit to")

    def _write(self, client: KubeClient, annotations: t.Mapping[str, str], action: str) -> None:
        """Replace the Lease as we last wrote it; to be called with the lock held. Counts as a renewal."""
        if self.must_stop():
            raise self._loss(action)
        write_id = self.next_write_id()
        spec = {"renewTime": self._timestamp()}
        body = _changed(self._lease, {**annotations, WRITE_ANNOTATION: write_id}, spec)
        sent = self._clock()
        try:
            stored = settle_replace(
                client, self._path, body, write_id, _write_id_of, allowance=self._own_timeout, tries=None
            )
        except Superseded as error:
            self._holder = _holder_of(error.found)
            who = (
                f"{self._holder or 'nobody'} holds it now"
                if self._holder != self.identity
                else "somebody else changed it"
            )
            raise self._loss(action, who) from error
        except ObjectGone as error:
            raise self._loss(action, "it was deleted") from error
        except OutcomeUnknown as error:
            raise self._loss(action, f"the outcome of the last write is unknown: {error.cause}") from error
        self._holder = _holder_of(stored)
        if self._holder != self.identity:
            raise self._loss(action, f"{self._holder or 'nobody'} holds it now")
        self._lease, self._sent = stored, sent
        self._note_server_clock(client)

    def _own_timeout(self) -> float:
        """The limit of one request to the Lease itself: short enough that a lost one can be repeated in time."""
        if self._stop.is_set():
            raise LostLeadership("write", self.terms.target, "it is being released")
        return min(self.write_timeout(), self.terms.seconds / 5)

    def _keep_renewing(self) -> None:
        """The thread: renew every third of the lease, sooner after a refusal, until lost or released."""
        pause = self.terms.seconds / 3
        while not self._stop.wait(pause):
            try:
                self.renew()
            except LostLeadership:
                return
            except KubeError:
                # Refused, for example by an expired token: may pass; the time left decides.
                pause = self.terms.seconds / 12
            else:
                pause = max(0.0, self._sent + self.terms.seconds / 3 - self._clock())

    def release(self, *, idle: bool = True) -> None:
        """Leave office: stop the thread and empty the holder, so that others need not wait. Best effort.

        While requests of ours may be under way (idle is false) the holder stays: the Lease expires by itself.
        """
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self.terms.seconds / 3)
        if idle and self._lock.acquire(timeout=self.terms.seconds / 3):
            try:
                self._empty_holder()
            finally:
                self._lock.release()

    def _empty_holder(self) -> None:
        """One try to take our name out of the Lease."""
        if self.must_stop():
            return
        write_id = self.next_write_id()
        annotations = {**self._tidy_annotations(), WRITE_ANNOTATION: write_id}
        body = _changed(self._lease, annotations, {"holderIdentity": None})
        limit = self.write_timeout()
        self._lost = "it was released"
        self._holder = None
        try:
            settle_replace(self._client, self._path, body, write_id, _write_id_of, allowance=lambda: limit, tries=1)
        except KubeError:
            # It expires by itself.
            return

    def _loss(self, action: str, cause: str | None = None) -> LostLeadership:
        """The error to raise; a cause, or time that ran out, ends the leadership for good."""
        if self._epoch is None:
            return LostLeadership(action, self.terms.target, "it was not acquired")
        if self._lost is None:
            self._lost = cause or "no renewal succeeded in time"
        return LostLeadership(action, self.terms.target, self._lost)

    # What is written for people to see.

    def _spec_in_office(self, transitions: int) -> Object:
        """The fields that say who took the Lease and when."""
        now = self._timestamp()
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, math.ceil(self.terms.seconds)),
            "leaseTransitions": transitions,
            "acquireTime": now,
            "renewTime": now,
        }

    def _note_server_clock(self, client: KubeClient) -> None:
        """Remember what the server's clock showed, and when by ours."""
        shown = client.server_time
        if shown is not None:
            self._server_clock = (shown, self._clock())

    def _timestamp(self) -> str:
        """The server's time as far as known, with the six digits that other clients of a Lease insist on."""
        if self._server_clock is None:
            now = datetime.datetime.now(datetime.UTC)
        else:
            shown, noted = self._server_clock
            now = shown.astimezone(datetime.UTC) + datetime.timedelta(seconds=self._clock() - noted)
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _annotations(lease: Object) -> dict[str, str]:
    """The annotations of a Lease, which may have none."""
    return (lease.get("metadata") or {}).get("annotations") or {}


def _holder_of(lease: Object) -> str | None:
    """Who holds a Lease; an empty name is nobody."""
    return (lease.get("spec") or {}).get("holderIdentity") or None


def _write_id_of(lease: Object) -> str | None:
    """Which write made the Lease what it is."""
    return _annotations(lease).get(WRITE_ANNOTATION)


def _changed(lease: Object, annotations: t.Mapping[str, str], spec: t.Mapping[str, t.Any]) -> Object:
    """A copy with these annotations and fields; a field of None is left out. uid and resourceVersion stay."""
    body = copy.deepcopy(lease)
    # Absent means unchanged to the server.
    body["metadata"].pop("managedFields", None)
    body["metadata"]["annotations"] = {**_annotations(lease), **annotations}
    fields = {**(lease.get("spec") or {}), **spec}
    body["spec"] = {name: value for name, value in fields.items() if value is not None}
    return body
