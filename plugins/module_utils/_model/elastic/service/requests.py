# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What callers of the HTTP service send: bodies and names, read by type."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.routes import Route
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    DNS_LENGTH,
    DNS_NAME,
    LABEL_LENGTH,
    Data,
    Fields,
    parse_json,
    without_none,
)

JobStatus = t.Literal["scheduled", "completed"]
STATUSES: tuple[JobStatus, ...] = t.get_args(JobStatus)
# Terms of elasticity and settings of the queue in the body of a job.
TERM_FIELDS = ("size", "timing", "checkpoint_timeout", "on_timeout", "cooldown", "restart_cost", "deadline", "profile")
_MOST_EPOCHS = 10**9
# Trainers add fractions of epochs up.
_ROUNDED = 0.01
_MOST_GPUS = 10**6
_MOST_NAMES = 100


class AskedJob(t.NamedTuple):
    """A job as a caller names it; without a namespace it has to be the only one of its name."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        """As it was written."""
        return self.name if self.namespace is None else f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class CheckpointReport:
    """A checkpoint as the notifier of a training tells it; total is None where it does not know."""

    job: AskedJob
    time: float
    completed_epochs: float
    total_epochs: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class ToldMetadata:
    """What somebody tells of a job, by the names of the fields."""

    job: AskedJob
    told: Mapping[str, t.Any]
    total_epochs: float | None
    status: JobStatus | None


@dataclasses.dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be queued."""

    definition: t.Any
    name: str | None
    namespace: str | None
    terms: Data
    queue: str | None
    priority: int | None
    rerun: bool
    replace: bool


def read_body(route: Route, text: bytes) -> Fields:
    """The body of a request, with all keys that it must have and no unknown ones."""
    if not text and not any(item.required for item in (route.body or {}).values()):
        return Fields({}, "body")
    try:
        plain = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput("read", "body", "it is no UTF-8") from error
    fields = Fields(parse_json(plain, "body"), "body")
    known = route.body or {}
    fields.only(list(known))
    for key, item in known.items():
        if item.required and fields.get(key) is None:
            raise fields.fail(key, "it is missing")
    return fields


def asked_job(text: str, where: str, namespace: str | None = None) -> AskedJob:
    """The job that a text names: NAME, or NAMESPACE/NAME; namespace is one that was named apart from it."""
    before, slash, name = text.rpartition("/")
    if slash and namespace is not None and before != namespace:
        raise BadInput("read", where, f"{text} is not in namespace {namespace}")
    told = before if slash else namespace
    if len(name) > DNS_LENGTH or not DNS_NAME.fullmatch(name):
        raise BadInput("read", where, "it is no name of a job")
    if told is not None and (len(told) > LABEL_LENGTH or "." in told or not DNS_NAME.fullmatch(told)):
        raise BadInput("read", where, "it is no name of a namespace")
    return AskedJob(name, told)


def job_of(fields: Fields) -> AskedJob:
    """The job that a body is about."""
    return asked_job(fields.required_text("job_name"), "body: job_name")


def asked_jobs(names: Sequence[str], namespace: str | None) -> list[AskedJob]:
    """The jobs that a query names."""
    if not 0 < len(names) <= _MOST_NAMES:
        raise BadInput("read", "query: name", f"between 1 and {_MOST_NAMES} names are needed")
    return list(dict.fromkeys(asked_job(name, "query: name", namespace) for name in names))


def read_checkpoint(fields: Fields) -> CheckpointReport:
    """A report of a checkpoint."""
    completed, total = _epochs(fields, "completed_epochs"), _epochs(fields, "total_epochs")
    if total and completed > total + _ROUNDED:
        raise fields.fail("completed_epochs", f"{completed:g} are more than the total of {total:g}")
    job, time = job_of(fields), fields.number("last_checkpoint_time")
    return CheckpointReport(job, time, min(completed, total) if total else completed, total or None)


def read_metadata(fields: Fields) -> ToldMetadata:
    """What is told of a job."""
    for key in ("gpu_req", "gpu_lim", "gpu_assigned", "replicas", "restarts"):
        fields.whole(key, 0, _MOST_GPUS)
    fields.number("job_arrival_time")
    total = _epochs(fields, "total_epochs")
    status = None if fields.get("status") is None else read_status(fields)
    told = {key: value for key, value in without_none(fields.data).items() if key != "job_name"}
    return ToldMetadata(job_of(fields), told, total or None, status)


def read_status(fields: Fields) -> JobStatus:
    """The status that somebody tells."""
    return fields.choice("status", STATUSES, None)


def read_job(fields: Fields) -> NewJob:
    """A job to be queued; its objects and its terms are looked at when it is queued."""
    terms: Data = {key: fields.get(key) for key in TERM_FIELDS}
    range_ = dict(fields.mapping("range"))
    if fields.get("global_batch") is not None:
        range_["global_batch"] = dict(fields.mapping("global_batch"))
    definition = fields.get("definition")
    # No YAML: a short text of it can stand for more objects than any memory holds.
    listed = definition if isinstance(definition, list) else [definition]
    if not listed or not all(isinstance(item, Mapping) for item in listed):
        raise fields.fail("definition", "an object or a list of objects is needed, in JSON")
    return NewJob(
        definition=definition,
        name=fields.text("name"),
        namespace=fields.text("namespace"),
        terms=without_none({**terms, "range": range_ or None}),
        queue=fields.text("queue"),
        priority=None if fields.get("priority") is None else fields.whole("priority", -(2**31), 2**31 - 1),
        rerun=fields.flag("rerun"),
        replace=fields.flag("replace"),
    )


def gpus_of(text: str) -> int:
    """A number of GPUs in a path."""
    if not text.isascii() or not text.isdecimal() or int(text[:8]) > _MOST_GPUS or len(text) > 7:
        raise BadInput("read", "path", f"a number of GPUs is needed, not {text[:40]!r}")
    return int(text)


def _epochs(fields: Fields, key: str) -> float:
    """A number of epochs."""
    found = fields.number(key)
    if found > _MOST_EPOCHS:
        raise fields.fail(key, f"{found:g} is no number of epochs")
    return found
