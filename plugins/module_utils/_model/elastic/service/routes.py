# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the HTTP service serves: one entry for each method and path, from which routes and their document are made."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Mapping
from urllib.parse import unquote

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

Kind = t.Literal["string", "number", "integer", "object", "array", "boolean"]

# Reports and questions are a handful of numbers; a job is as long as a record may be.
SMALL_BODY = 64 * 1024
JOB_BODY = 1024 * 1024
_PLACE = re.compile(r"\{([a-z]+)\}")


@dataclasses.dataclass(frozen=True, slots=True)
class BodyField:
    """A key of a body."""

    kind: Kind
    meaning: str
    required: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, what it takes and what it answers.

    work names what is done, and is the operation's id in the document. query are the parameters behind the question
    mark. answers are the codes of successes; those of refusals are the same everywhere.
    """

    method: str
    path: str
    work: str
    summary: str
    body: Mapping[str, BodyField] | None = None
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    answers: Mapping[int, str] = dataclasses.field(default_factory=lambda: {200: "It is so, and was stored."})
    open: bool = False
    most: int = SMALL_BODY


@dataclasses.dataclass(frozen=True, slots=True)
class Matched:
    """The route of a request, and what stood in the places of its path."""

    route: Route
    places: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class NotServed:
    """There is no such path, or another method of it; allowed are the methods that there are."""

    allowed: tuple[str, ...]


_JOB_NAME = BodyField("string", "Name of the job: NAME, or NAMESPACE/NAME.", required=True)
_WHICH = {"namespace": "Namespace of the job; needed where several namespaces have a job of this name."}
_JOBS = {200: "The jobs that the caller may read, in this order."}
_GPUS = {"gpus": "A number of GPUs."}
_METADATA: Mapping[str, BodyField] = {
    "gpu_req": BodyField("integer", "The least GPUs."),
    "gpu_lim": BodyField("integer", "The most GPUs."),
    "gpu_assigned": BodyField("integer", "The GPUs that it has."),
    "replicas": BodyField("integer", "Its pods."),
    "total_epochs": BodyField("number", "All epochs; 0 where nobody knows."),
    "job_arrival_time": BodyField("number", "When it was queued, in seconds since 1970."),
    "status": BodyField("string", "scheduled or completed."),
    "restarts": BodyField("integer", "How often it was started again."),
}
_NEEDED = ("gpu_req", "gpu_lim", "gpu_assigned")
_CHECKPOINT: Mapping[str, BodyField] = {
    "job_name": _JOB_NAME,
    "last_checkpoint_time": BodyField("number", "When it was stored, in seconds since 1970.", required=True),
    "completed_epochs": BodyField("number", "Epochs that are done, with their fraction.", required=True),
    "total_epochs": BodyField("number", "All epochs; 0 where nobody knows."),
}
JOB_KEYS: Mapping[str, BodyField] = {
    "definition": BodyField("object", "The objects: one, or a list.", required=True),
    "name": BodyField("string", "Name of the job, by default that of its first object."),
    "namespace": BodyField("string", "Its namespace, by default that of its first object."),
    "range": BodyField("object", "The sizes it may have, as the option of elastic_job."),
    "global_batch": BodyField("object", "The samples of a step, as the option of elastic_job."),
    "size": BodyField("integer", "A size that is insisted on."),
    "timing": BodyField("string", "now, at_checkpoint or on_sigterm."),
    "checkpoint_timeout": BodyField("string", "How long a resize waits for a checkpoint."),
    "on_timeout": BodyField("string", "give_up or now."),
    "cooldown": BodyField("string", "How long it is left alone after a resize."),
    "restart_cost": BodyField("string", "What a restart costs."),
    "deadline": BodyField("string", "When it should be done."),
    "profile": BodyField("object", "How fast it is at some sizes; only ratios count."),
    "queue": BodyField("string", "Its queue."),
    "priority": BodyField("integer", "Its priority."),
    "rerun": BodyField("boolean", "Whether one that is over is run again."),
    "replace": BodyField("boolean", "Whether one that runs and is another is stopped for it."),
}

ROUTES: tuple[Route, ...] = (
    Route("GET", "/healthz", "health", "Whether the service lives.", open=True, answers={200: "It does."}),
    Route("GET", "/readyz", "readiness", "Whether it reaches the API server.", open=True, answers={200: "It does."}),
    Route("GET", "/openapi.json", "document", "This document.", open=True, answers={200: "The document."}),
    Route(
        "POST",
        "/add_job",
        "add_job",
        "Check what is known of a job that is queued, and add the number of its epochs.",
        {
            "job_name": _JOB_NAME,
            **{key: dataclasses.replace(item, required=key in _NEEDED) for key, item in _METADATA.items()},
        },
        answers={200: "The record says the same.", 201: "The number of epochs was stored."},
    ),
    Route("PUT", "/update_last_checkpoint", "update_last_checkpoint", "Report a checkpoint.", _CHECKPOINT),
    Route(
        "PUT",
        "/update_job_status",
        "update_job_status",
        "Report that the training is done.",
        {"job_name": _JOB_NAME, "status": BodyField("string", "scheduled or completed.", required=True)},
    ),
    Route(
        "PUT", "/update_job", "update_job", "Check and add what is told of a job.", {"job_name": _JOB_NAME, **_METADATA}
    ),
    Route(
        "PUT",
        "/increment_restarts",
        "increment_restarts",
        "Ask how often a job was restarted; that is counted by dispatchers.",
        {"job_name": _JOB_NAME},
        answers={200: "The job, with the restarts that were counted."},
    ),
    Route(
        "DELETE",
        "/delete_job",
        "delete_job",
        "Remove a job and all that it started, with the caller's token.",
        {"job_name": _JOB_NAME},
        answers={200: "It is removed."},
    ),
    Route("GET", "/get_job/{name}", "get_job", "One job.", query=_WHICH, answers={200: "The job."}),
    Route("GET", "/get_all_jobs", "get_all_jobs", "All jobs, by namespace and name.", answers=_JOBS),
    Route("GET", "/get_jobs_by_arrival", "get_jobs_by_arrival", "Jobs that are not done, oldest first.", answers=_JOBS),
    Route(
        "GET",
        "/get_jobs_by_checkpoint_limit",
        "get_jobs_by_checkpoint_limit",
        "Jobs that could have more GPUs, latest checkpoint first.",
        answers=_JOBS,
    ),
    Route(
        "GET",
        "/get_jobs_by_difference/{gpus}",
        "get_jobs_by_difference",
        "Jobs that lack so many GPUs to their most, latest checkpoint first.",
        answers=_JOBS,
    ),
    Route(
        "GET",
        "/get_scale_down_jobs_by_checkpoint/{gpus}",
        "get_scale_down_jobs_by_checkpoint",
        "Jobs that could give so many GPUs away, latest checkpoint first.",
        answers=_JOBS,
    ),
    Route("GET", "/freegpu", "freegpu", "GPUs that are free, by node.", answers={200: "Nodes with free GPUs."}),
    Route(
        "GET",
        "/resourcequota/{namespace}",
        "resourcequota",
        "GPUs that the ResourceQuotas of a namespace allow, and those in use.",
        answers={200: "limit and used; null where nothing limits them."},
    ),
    Route(
        "POST",
        "/scale/{name}",
        "scale",
        "Have the dispatcher give a job another size.",
        {},
        query=_WHICH,
        answers={202: "It will; Location names where to ask how far it is."},
    ),
    Route(
        "GET",
        "/scale/{name}/{id}",
        "scale_state",
        "How far it is, in the end verified, rolled_back or parked.",
        query=_WHICH,
        answers={200: "How far it is."},
    ),
    Route(
        "POST",
        "/jobs",
        "queue_job",
        "Queue a job with the caller's token.",
        JOB_KEYS,
        answers={200: "It is queued like this already, or was changed.", 201: "It was queued."},
        most=JOB_BODY,
    ),
    Route(
        "DELETE",
        "/jobs",
        "remove_jobs",
        "Remove jobs and all that they started, with the caller's token.",
        query={"name": "Name of a job: NAME, or NAMESPACE/NAME; may be given several times.", **_WHICH},
        answers={200: "They are removed."},
    ),
    Route(
        "GET",
        "/api/v1/namespaces/{namespace}/configmaps/{name}",
        "read_progress",
        "The progress of a gang as the file muster_trainer.py reads it.",
        answers={200: "What the trainer wrote last, and what it is asked for."},
    ),
    Route(
        "PATCH",
        "/api/v1/namespaces/{namespace}/configmaps/{name}",
        "write_report",
        "The report of a trainer as the file muster_trainer.py writes it.",
        {"data": BodyField("object", "The key report.json with the report.", required=True)},
        answers={200: "It is stored, or an older one; what the trainer is asked for."},
    ),
)


def _pattern(path: str) -> re.Pattern[str]:
    """The paths that a route means."""
    return re.compile(_PLACE.sub(lambda found: f"(?P<{found[1]}>[^/]+)", path))


_PATTERNS = tuple((route, _pattern(route.path)) for route in ROUTES)


def match_route(method: str, path: str) -> Matched | NotServed:
    """The route of a request; path is as it was sent, still quoted. A job's name may bring its namespace, quoted."""
    allowed = []
    for route, pattern in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is None:
            continue
        if route.method == method:
            return Matched(route, {key: unquote(text) for key, text in found.groupdict().items()})
        allowed.append(route.method)
    return NotServed(tuple(allowed))


def place_names(path: str) -> list[str]:
    """The places in a route's path."""
    return _PLACE.findall(path)


# What is answered to what is refused, whatever the route.
REFUSALS: Mapping[int, str] = {
    400: "What was sent makes no sense.",
    401: "There is no token, or one that the API server does not take.",
    403: "The caller may not do this.",
    404: "There is no such job, or no such path.",
    405: "This path has other methods.",
    408: "The request did not arrive in time.",
    409: "It contradicts what is there, or several namespaces have a job of this name.",
    413: "The body is too long.",
    415: "The body is no JSON.",
    500: "The service has a fault.",
    503: "The API server does not answer, or the service is busy; ask again.",
    504: "Nobody knows whether it was stored; ask again.",
}


def error_body(cause: str, **more: t.Any) -> Data:
    """The body of a refusal."""
    return {"error": cause, **more}
