# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The desk of the HTTP service: takes a request as plain values, has it done, and answers in plain values."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.identity import Caller, Gatekeeper
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.jobs import Jobs, as_told
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.refusals import as_declined
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.reports import Reports
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.sizes import Sizes
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.submissions import Submissions
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service import metadata, requests
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.openapi import openapi
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.routes import Matched
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A request whose route is known and whose body has come; authorization is the header as it was sent."""

    matched: Matched
    authorization: str | None = dataclasses.field(repr=False)
    query: Mapping[str, Sequence[str]]
    body: bytes = dataclasses.field(repr=False)

    def one(self, name: str) -> str | None:
        """A parameter of the query that may stand there once."""
        found = self.query.get(name) or ()
        if len(found) > 1:
            raise BadInput("read", f"query: {name}", "it stands there several times")
        return found[0] if found else None


@dataclasses.dataclass(frozen=True, slots=True)
class Answered:
    """What is answered: code, body in plain values, and headers."""

    status: int
    body: t.Any
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


def refused(error: MusterError) -> Answered:
    """The answer to a request that failed."""
    refusal = as_declined(error)
    return Answered(refusal.status, refusal.as_body(), refusal.headers)


class Desk:
    """Everything that can be asked; it keeps nothing but what the server said some seconds ago."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespaces: Sequence[str] | None = None,
        audiences: Sequence[str] = (),
        lease: LeaseOptions | None = None,
    ) -> None:
        """Nothing is asked yet; namespaces are those whose jobs are served, None for all."""
        lease = lease or LeaseOptions()
        self._client = client
        self._gatekeeper = Gatekeeper(client, audiences, namespaces)
        self._jobs = Jobs(client, self._gatekeeper, namespaces)
        self._reports = Reports(client, self._jobs)
        self._sizes = Sizes(client, self._jobs, self._gatekeeper, lease)
        self._submissions = Submissions(client, self._jobs, lease)
        self._document = openapi()

    def answer(self, asked: Asked) -> Answered:
        """Do what is asked; whatever is wrong becomes an answer."""
        try:
            return self._do(asked)
        except MusterError as error:
            return refused(error)

    def _do(self, asked: Asked) -> Answered:
        """Find out who asks, and have it done."""
        route = asked.matched.route
        if route.open:
            return _OPEN[route.work](self)
        caller = self._gatekeeper.identify(asked.authorization)
        unknown = sorted(set(asked.query) - set(route.query))
        if unknown:
            raise BadInput("read", f"query: {unknown[0][:40]}", "there is no such parameter")
        fields = requests.read_body(route, asked.body) if route.body is not None else Fields({}, "body")
        return _WORK[route.work](self, caller, asked, fields)

    # Those that anybody may ask.

    def _health(self) -> Answered:
        return Answered(200, {"status": "ok"})

    def _readiness(self) -> Answered:
        """Whether the API server answers."""
        self._client.request("GET", "/version", read_retries=False, timeout=5.0)
        return Answered(200, {"status": "ok"})

    def _openapi(self) -> Answered:
        return Answered(200, self._document)

    # The metadata manager.

    def _add_job(self, caller: Caller, _asked: Asked, fields: Fields) -> Answered:
        told, stored = self._reports.metadata(caller, requests.read_metadata(fields))
        return Answered(201 if stored else 200, told)

    def _update_job(self, caller: Caller, _asked: Asked, fields: Fields) -> Answered:
        return Answered(200, self._reports.metadata(caller, requests.read_metadata(fields))[0])

    def _checkpoint(self, caller: Caller, _asked: Asked, fields: Fields) -> Answered:
        return Answered(200, self._reports.checkpoint(caller, requests.read_checkpoint(fields)))

    def _status(self, caller: Caller, _asked: Asked, fields: Fields) -> Answered:
        return Answered(200, self._reports.status(caller, requests.job_of(fields), requests.read_status(fields)))

    def _restarts(self, caller: Caller, _asked: Asked, fields: Fields) -> Answered:
        return Answered(200, self._reports.restarts(caller, requests.job_of(fields)))

    def _delete_job(self, caller: Caller, _asked: Asked, fields: Fields) -> Answered:
        return Answered(200, self._submissions.remove(caller, [requests.job_of(fields)]))

    def _get_job(self, caller: Caller, asked: Asked, _fields: Fields) -> Answered:
        return Answered(200, self._jobs.told(self._jobs.find(caller, _named(asked), "get")).as_data())

    def _all(self, caller: Caller, _asked: Asked, _fields: Fields) -> Answered:
        return Answered(200, as_told(self._jobs.readable(caller)))

    def _by_arrival(self, caller: Caller, _asked: Asked, _fields: Fields) -> Answered:
        return Answered(200, as_told(metadata.by_arrival(self._jobs.readable(caller))))

    def _below_limit(self, caller: Caller, _asked: Asked, _fields: Fields) -> Answered:
        return Answered(200, as_told(metadata.below_limit(self._jobs.readable(caller))))

    def _lacking(self, caller: Caller, asked: Asked, _fields: Fields) -> Answered:
        gpus = requests.gpus_of(asked.matched.places["gpus"])
        return Answered(200, as_told(metadata.lacking(self._jobs.readable(caller), gpus)))

    def _able_to_give(self, caller: Caller, asked: Asked, _fields: Fields) -> Answered:
        gpus = requests.gpus_of(asked.matched.places["gpus"])
        return Answered(200, as_told(metadata.able_to_give(self._jobs.readable(caller), gpus)))

    # Sizes.

    def _free(self, caller: Caller, _asked: Asked, _fields: Fields) -> Answered:
        return Answered(200, self._sizes.free(caller))

    def _quota(self, caller: Caller, asked: Asked, _fields: Fields) -> Answered:
        namespace = requests.asked_job("any", "path", asked.matched.places["namespace"]).namespace or ""
        return Answered(200, self._sizes.quota(caller, namespace))

    def _scale(self, caller: Caller, asked: Asked, _fields: Fields) -> Answered:
        told, address = self._sizes.scale(caller, _named(asked))
        return Answered(202, told, {"Location": address})

    def _scale_state(self, caller: Caller, asked: Asked, _fields: Fields) -> Answered:
        return Answered(200, self._sizes.state(caller, _named(asked), asked.matched.places["id"]))

    # Jobs.

    def _queue(self, caller: Caller, _asked: Asked, fields: Fields) -> Answered:
        told, made = self._submissions.queue(caller, requests.read_job(fields))
        return Answered(201 if made else 200, told)

    def _remove(self, caller: Caller, asked: Asked, _fields: Fields) -> Answered:
        names = requests.asked_jobs(asked.query.get("name") or (), asked.one("namespace"))
        return Answered(200, self._submissions.remove(caller, names))

    # The file for trainings.

    def _read_progress(self, caller: Caller, asked: Asked, _fields: Fields) -> Answered:
        places = asked.matched.places
        return Answered(200, self._reports.read(caller, places["namespace"], places["name"]))

    def _write_report(self, caller: Caller, asked: Asked, fields: Fields) -> Answered:
        places, data = asked.matched.places, Fields(fields.mapping("data"), "body: data")
        return Answered(200, self._reports.write(caller, places["namespace"], places["name"], data))


def _named(asked: Asked) -> requests.AskedJob:
    """The job in the path, with the namespace of the query."""
    return requests.asked_job(asked.matched.places["name"], "path", asked.one("namespace"))


_Work = Callable[[Desk, Caller, Asked, Fields], Answered]
_OPEN: Mapping[str, Callable[[Desk], Answered]] = {
    "health": Desk._health,
    "readiness": Desk._readiness,
    "document": Desk._openapi,
}
_WORK: Mapping[str, _Work] = {
    "add_job": Desk._add_job,
    "update_last_checkpoint": Desk._checkpoint,
    "update_job_status": Desk._status,
    "update_job": Desk._update_job,
    "increment_restarts": Desk._restarts,
    "delete_job": Desk._delete_job,
    "get_job": Desk._get_job,
    "get_all_jobs": Desk._all,
    "get_jobs_by_arrival": Desk._by_arrival,
    "get_jobs_by_checkpoint_limit": Desk._below_limit,
    "get_jobs_by_difference": Desk._lacking,
    "get_scale_down_jobs_by_checkpoint": Desk._able_to_give,
    "freegpu": Desk._free,
    "resourcequota": Desk._quota,
    "scale": Desk._scale,
    "scale_state": Desk._scale_state,
    "queue_job": Desk._queue,
    "remove_jobs": Desk._remove,
    "read_progress": Desk._read_progress,
    "write_report": Desk._write_report,
}
# What is carried out, so that a test can compare it with the routes.
WORKS = frozenset({*_OPEN, *_WORK})
