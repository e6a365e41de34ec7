# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The right to provision a cluster: one Lease for all components, in the namespace of their records.

Whoever holds it checks before each write that it still does, and renews it in each pause. Of a run that was killed it
is taken over when the Lease has expired, judged by the challenger's own clock.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import os
import platform

from ansible_collections.muster.kube.plugins.module_utils._flow.component.removals import is_used
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict, Forbidden, KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import MANAGED_KINDS, list_in
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Ownership,
    settle_create,
    settle_delete,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease, steady_seconds

Report = collections.abc.Callable[[str], None]
Connection = collections.abc.Callable[[], KubeClient]
LEASE_NAME = "provision"
# On the namespace of the records if we made it.
MADE_FOR_LABEL = "muster.kube/made-for"
_MADE_FOR = "component-records"
_LOOK_SECONDS = 0.5
# What every namespace has by itself.
_BY_ITSELF = {("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt"), ("Lease", LEASE_NAME)}


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """How time passes for a run; tests have their own time."""

    clock: collections.abc.Callable[[], float] = steady_seconds
    # Whether a thread renews the Lease while a program runs or an answer is long in coming.
    renew_in_background: bool = True


@contextlib.contextmanager
def provisioning(
    connection: Connection, namespace: str, patience: float, report: Report, around: Surroundings
) -> collections.abc.Iterator[KubeClient]:
    """A client that writes only as long as nobody else provisions the cluster."""
    client = connection()
    terms = LeaseOptions(namespace, LEASE_NAME)
    # A run that was killed holds it until it expires.
    patience = max(patience, 2 * terms.seconds)
    _ensure_namespace(client, namespace, client.clock() + patience)
    lease = DispatchLease(
        client,
        terms,
        f"{platform.node()}-{os.getpid()}",
        renewal_client=connection(),
        renew_in_background=around.renew_in_background,
        clock=around.clock,
        sleep=client.sleep,
    )
    end = client.clock() + patience
    while not _acquired(client, lease, end, report):
        # The namespace went away with the last component of somebody else.
        _ensure_namespace(client, namespace, end)

    def hold() -> None:
        """Go on only as the holder."""
        if lease.time_left() < terms.seconds / 2:
            lease.renew()
        lease.write_timeout()

    try:
        yield client.guarded(hold)
    except Exception:
        lease.release()
        raise
    # A process that is being ended leaves the Lease to expire: it may not know what it has sent.
    lease.release()


def _acquired(client: KubeClient, lease: DispatchLease, end: float, report: Report) -> bool:
    """Whether the Lease is ours now; not if its namespace went away meanwhile, and refused if somebody keeps it."""
    terms = lease.terms
    try:
        left = max(0.0, end - client.clock())
        epoch = lease.acquire(left, on_wait=lambda holder: report(f"waiting for {holder}, who provisions"))
    except KubeError:
        live = get_object(client, resource_path("v1", "namespaces", None, terms.namespace))
        if client.clock() > end or (live is not None and not live["metadata"].get("deletionTimestamp")):
            raise
        return False
    if epoch is None:
        raise MusterError("provision under", terms.target, f"{lease.holder} provisions the cluster at present")
    return True


def remove_empty_namespace(client: KubeClient, namespace: str, deadline: float) -> None:
    """Take the namespace of the records away with the Lease, if we made it and nothing else is in it.

    To be called by the holder, as the last thing it does: without the Lease nothing may be written any more.
    """
    path = resource_path("v1", "namespaces", None, namespace)
    uid = str((get_object(client, path) or {"metadata": {"uid": ""}})["metadata"]["uid"])
    settle_delete(client, path, uid)
    while (live := get_object(client, path)) is not None and live["metadata"]["uid"] == uid:
        if client.clock() > deadline:
            raise MusterError("wait for the removal of", f"Namespace {namespace}", "it is still there")
        client.sleep(_LOOK_SECONDS)


def is_left_over(client: KubeClient, namespace: str) -> bool:
    """Whether the namespace of the records is ours and of no more use."""
    live = get_object(client, resource_path("v1", "namespaces", None, namespace))
    if live is None or live["metadata"].get("deletionTimestamp"):
        return False
    if (live["metadata"].get("labels") or {}).get(MADE_FOR_LABEL) != _MADE_FOR:
        return False
    try:
        if is_used(client, None, {**live, "apiVersion": "v1", "kind": "Namespace"}):
            return False
        found = [obj for kind in MANAGED_KINDS for obj in list_in(client, namespace, *kind, None)]
    except Forbidden:
        return False
    return all((obj["kind"], obj["metadata"]["name"]) in _BY_ITSELF for obj in found)


def _ensure_namespace(client: KubeClient, namespace: str, deadline: float) -> None:
    """The namespace of the records is there; one that is on its way out is waited for."""
    path = resource_path("v1", "namespaces", None, namespace)
    while True:
        try:
            live = get_object(client, path)
        except Forbidden:
            # Who may not look can still find it there.
            return None
        if live is None:
            break
        if not live["metadata"].get("deletionTimestamp"):
            return None
        if client.clock() > deadline:
            raise MusterError("use", f"Namespace {namespace}", "it is being deleted")
        client.sleep(_LOOK_SECONDS)
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace, "labels": {MADE_FOR_LABEL: _MADE_FOR}},
    }
    try:
        settle_create(client, resource_path("v1", "namespaces"), body, is_ours=lambda _found: Ownership.OURS)
    except Conflict:
        # It went away while it was looked at; whoever needs it next makes it.
        return _ensure_namespace(client, namespace, deadline)
