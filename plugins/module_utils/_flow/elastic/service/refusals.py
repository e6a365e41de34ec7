# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the HTTP service refuses, and which code each failure of the collection is told by."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.job import JobNotReached
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.submit import Refused
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    ApiError,
    Conflict,
    KubeError,
    OutcomeUnknown,
    Unreachable,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.routes import error_body
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

# What the API server told the caller, where the caller's own token did the work.
_OF_CALLERS = (400, 401, 403, 404, 409, 413, 422)
_AGAIN = {"Retry-After": "2"}


class Declined(MusterError):
    """A request that is not carried out: the code, the cause, and what else the body tells."""

    def __init__(self, status: int, cause: str, *, headers: t.Mapping[str, str] | None = None, **more: t.Any) -> None:
        """Causes never hold a token."""
        super().__init__("answer", "the request", cause)
        self.status = status
        self.headers = dict(headers or {})
        self.more = more

    def as_body(self) -> Data:
        """The body of the answer."""
        return error_body(self.cause, **self.more)


def as_declined(error: MusterError, *, of_caller: bool = False) -> Declined:
    """How a failure is told; of_caller where the caller's own token did the work, so that its rights are meant."""
    if isinstance(error, Declined):
        return error
    if isinstance(error, Unreachable):
        # A write may have happened, and nobody knows: it is to be asked again, which changes nothing twice.
        return Declined(503, "the API server does not answer; ask again", headers=_AGAIN)
    if isinstance(error, OutcomeUnknown):
        return Declined(504, "nobody knows whether it was stored; ask again", headers=_AGAIN)
    if isinstance(error, ApiError):
        return _of_server(error, of_caller)
    if isinstance(error, BadInput):
        return Declined(400, str(error))
    if isinstance(error, Refused | JobNotReached):
        return Declined(409, str(error))
    if isinstance(error, KubeError):
        return Declined(503, "the API server does not answer as it should", headers=_AGAIN)
    return Declined(500, str(error))


def _of_server(error: ApiError, of_caller: bool) -> Declined:
    """How an error of the API server is told."""
    if of_caller and error.status in _OF_CALLERS:
        return Declined(400 if error.status == 422 else error.status, str(error))
    if isinstance(error, Conflict):
        return Declined(409, str(error))
    if error.status in (401, 403):
        return Declined(503, f"the service lacks a right: {error}")
    return Declined(503, f"the API server does not do it: {error}", headers=_AGAIN)
