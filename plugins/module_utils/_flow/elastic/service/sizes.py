# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizes over HTTP: what is free, what a namespace may have, and a wish for another size and how far it is.

A dispatcher decides about sizes. A wish is refused where the decision would be to leave the job alone; else it is kept
in the record, which wakes the dispatcher, and told of until it is over.
"""

from __future__ import annotations

import typing as t
import uuid
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_sizes
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.options import BalanceOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.identity import Caller, Gatekeeper
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.jobs import Jobs
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.refusals import Declined
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.wishes import (
    SCALE_ANNOTATION,
    ScaleWish,
    read_wish,
    wish_state,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.told import JobTold, SizeSight, tell_jobs
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import LIVING_PODS
from ansible_collections.muster.kube.plugins.module_utils._kube.access.reviews import Deed
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import settle_patch
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.requests import AskedJob
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.target import is_gpu
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import told_resize
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import base_resource
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import node_from_api, pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity, scaled
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import path_of


class Sizes:
    """What is asked about sizes."""

    def __init__(self, client: KubeClient, jobs: Jobs, gatekeeper: Gatekeeper, lease: LeaseOptions) -> None:
        """Nothing is asked yet."""
        self._client = client
        self._jobs = jobs
        self._gatekeeper = gatekeeper
        self._lease = lease

    def free(self, caller: Caller) -> Data:
        """The GPUs that are free on each node that takes pods; nodes without any are left out."""
        self._gatekeeper.require(caller, Deed("list", "nodes"))
        with self._jobs.turns.one():
            return self._free()

    def _free(self) -> Data:
        """The same, by reading all nodes and pods."""
        nodes = list_objects(self._client, resource_path("v1", "nodes"), keep=node_from_api).items
        pods = list_objects(
            self._client, resource_path("v1", "pods"), keep=pod_from_api, field_selector=LIVING_PODS
        ).items
        free = {
            node.name: _gpus(node.allocatable)
            for node in nodes
            if not node.unschedulable and not any(taint.effect == "NoExecute" for taint in node.taints)
        }
        for pod in pods:
            if pod.node in free:
                free[pod.node] -= _gpus(pod.requests)
        return {name: count for name, count in sorted(free.items()) if count > 0}

    def quota(self, caller: Caller, namespace: str) -> Data:
        """The GPUs that ResourceQuotas allow in a namespace, the strictest one, and those in use."""
        self._jobs.require_served(namespace)
        self._gatekeeper.require(caller, Deed("list", "resourcequotas", namespace))
        path = resource_path("v1", "resourcequotas", namespace)
        found = list_objects(self._client, path, keep=lambda raw: raw.get("status") or {}).items
        told = [(_hard(status, "hard"), _hard(status, "used")) for status in found]
        limits = [(hard, used or 0) for hard, used in told if hard is not None]
        if not limits:
            return {"limit": None, "used": None}
        limit, used = min(limits, key=lambda pair: pair[0] - pair[1])
        return {"limit": limit, "used": used}

    def scale(self, caller: Caller, asked: AskedJob) -> tuple[Data, str]:
        """Have a job resized; how far that is, and the address that tells it. 409 where nothing would come of it."""
        record = self._jobs.find(caller, asked, "update")
        self._refuse_trainers(caller, record)
        since, last = _under_way(record), read_wish(record)
        if since is None:
            decided = self._decision(record)
            if not decided.changes:
                raise Declined(409, f"job {record.key} keeps its size: {decided.message}", reason=decided.reason)
        if last is not None and not wish_state(record, last).done:
            return self._told(record, last), _address(record, last)
        wish = ScaleWish(uuid.uuid4().hex[:16], since or time_text(ServerClock(self._client).now()))
        return self._told(self._keep(record, wish), wish), _address(record, wish)

    def state(self, caller: Caller, asked: AskedJob, wish_id: str) -> Data:
        """How far the resize is that somebody wished for."""
        record = self._jobs.find(caller, asked, "get")
        wish = read_wish(record)
        if wish is None or wish.id != wish_id:
            raise Declined(404, f"job {record.key} has no wish {wish_id[:40]} any more")
        return self._told(record, wish)

    def _refuse_trainers(self, caller: Caller, record: Record) -> None:
        """A pod of the job reports, and decides about nothing; its account may."""
        if caller.gang is not None and caller.gang.uid == record.uid:
            self._gatekeeper.require(caller, Deed("update", "configmaps", record.namespace, record.name))

    def _decision(self, record: Record) -> JobTold:
        """What the next decision about sizes would be for a job."""
        if not record.resizable:
            raise Declined(409, f"job {record.key} does not run, it is {record.phase}")
        options = BalanceOptions(lease=self._lease, namespaces=self._jobs.namespaces)
        with self._jobs.turns.one():
            foreseen = preview_sizes(self._client, options.dispatch(None))
        sight = SizeSight(foreseen.records, frozenset({record.namespace}), foreseen.rules)
        told = next((item for item in tell_jobs(foreseen.plan, sight) if item.record.uid == record.uid), None)
        if told is None:
            raise Declined(409, f"job {record.key} is not decided about now")
        return told

    def _keep(self, record: Record, wish: ScaleWish) -> Record:
        """Store a wish in the record."""
        metadata = {key: record.raw["metadata"][key] for key in ("uid", "resourceVersion")}
        change = {"metadata": {**metadata, "annotations": {SCALE_ANNOTATION: wish.as_text()}}}

        def is_done(found: Data) -> bool:
            """Whether it is there."""
            return (found["metadata"].get("annotations") or {}).get(SCALE_ANNOTATION) == wish.as_text()

        settle_patch(self._client, path_of(record), change, is_done)
        return record

    def _told(self, record: Record, wish: ScaleWish) -> Data:
        """A wish in plain values."""
        found = wish_state(record, wish)
        told = {key: found.resize.get(key) for key in ("from", "to", "why", "method")}
        base = {"id": wish.id, "job_name": record.name, "namespace": record.namespace, "step": found.step}
        return {**base, "done": found.done, "phase": record.phase, **told}


def _under_way(record: Record) -> str | None:
    """Since when a resize is planned or under way; None where none is."""
    resize = told_resize(record.state) or {}
    return str(resize["since"]) if resize.get("step") in ("planned", "draining", "starting") else None


def _address(record: Record, wish: ScaleWish) -> str:
    """Where to ask how far a wish is."""
    return f"/scale/{record.name}/{wish.id}?namespace={record.namespace}"


def _gpus(amounts: Mapping[str, int]) -> int:
    """All GPUs, of whatever vendor."""
    return sum(amount for resource, amount in amounts.items() if is_gpu(resource))


def _hard(status: Mapping[str, t.Any], key: str) -> int | None:
    """The GPUs of one side of a quota; None where it says nothing of GPUs."""
    found: list[int] = []
    for name, text in (status.get(key) or {}).items():
        resource = base_resource(str(name))
        if is_gpu(resource):
            try:
                found.append(scaled(resource, parse_quantity(text)))
            except BadInput:
                continue
    return sum(found) if found else None
