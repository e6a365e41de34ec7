# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures of talking to an API server, below the one family of errors."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

# What the API server writes when its authorizer refuses; the namespace is missing for cluster-wide requests.
_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)


class KubeError(MusterError):
    """Anything that went wrong between this process and the API server, its answer included."""


class BadConnection(KubeError):
    """The connection options (kubeconfig, context, certificates) cannot be turned into a connection."""


class Unreachable(KubeError):
    """No answer came: connection, TLS, name resolution or time-out."""

    def __init__(self, action: str, target: str, cause: str, retryable: bool = True) -> None:
        """Say whether trying again can help; a refused certificate stays refused."""
        super().__init__(action, target, cause)
        self.retryable = retryable


class OutcomeUnknown(KubeError):
    """All tries ended without an answer: the write may or may not have happened, or may still happen."""


class ApiError(KubeError):
    """The API server answered with an error; status, reason, message and details are its own."""

    def __init__(
        self,
        action: str,
        target: str,
        *,
        status: int,
        reason: str = "",
        message: str = "",
        details: t.Mapping[str, t.Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Build the cause from the server's own words and keep its parts apart."""
        super().__init__(action, target, f"{message or 'no message'} ({_code_words(status, reason)})")
        self.status = status
        self.reason = reason
        self.message = message
        self.details: t.Mapping[str, t.Any] = details or {}
        self.retry_after = retry_after

    def as_result(self) -> dict[str, t.Any]:
        """The family's keys plus the HTTP status and the server's reason."""
        result = super().as_result()
        result["error"].update({"status": self.status, "reason": self.reason})
        return result


class Unauthorized(ApiError):
    """401: the server does not know who we are."""


class Forbidden(ApiError):
    """403: verb, resource, namespace and user of the server's message, None where it has none."""

    def __init__(self, action: str, target: str, **answer: t.Any) -> None:
        super().__init__(action, target, **answer)
        found = _FORBIDDEN.search(self.message)
        parts: dict[str, str | None] = found.groupdict() if found else {}
        self.user = parts.get("user")
        self.verb = parts.get("verb")
        self.resource = parts.get("resource") or self.details.get("kind")
        self.namespace = parts.get("namespace")

    def as_result(self) -> dict[str, t.Any]:
        """Add what right is missing, so that a playbook can act on it."""
        result = super().as_result()
        result["error"].update(
            {"verb": self.verb, "resource": self.resource, "namespace": self.namespace, "user": self.user}
        )
        return result


class NotFound(ApiError):
    """404: no such object, or the server does not serve that kind."""


class Conflict(ApiError):
    """409: the object changed meanwhile, exists already, or a field belongs to another manager."""

    @property
    def already_exists(self) -> bool:
        """True when a create met an object of that name."""
        return self.reason == "AlreadyExists"


class Gone(ApiError):
    """410: a continue token or resource version is too old; list again."""


class Invalid(ApiError):
    """400 or 422: the server cannot accept what was sent."""


class TooManyRequests(ApiError):
    """429: the server asks to come back later."""


class ServerFault(ApiError):
    """5xx: the server, or something before it, is in trouble."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def _code_words(status: int, reason: str) -> str:
    """The short tail of a cause: HTTP status and, if any, the server's one-word reason."""
    return f"HTTP {status} {reason}" if reason else f"HTTP {status}"


def error_from_status(
    action: str, target: str, status: int, answer: t.Mapping[str, t.Any], retry_after: float | None = None
) -> ApiError:
    """The right error for a Status object that came with this HTTP status."""
    kind = _BY_STATUS.get(status, ServerFault if status >= 500 else ApiError)
    details = answer.get("details")
    return kind(
        action,
        target,
        status=status,
        reason=str(answer.get("reason") or ""),
        message=str(answer.get("message") or ""),
        details=details if isinstance(details, dict) else None,
        retry_after=retry_after,
    )


def error_from_response(
    action: str, target: str, status: int, body: bytes, retry_after: float | None = None
) -> ApiError:
    """The right error for an answer whose body may be a Status object, plain text or nothing."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        answer = {"message": body[:500].decode("utf-8", "replace").strip()}
    return error_from_status(action, target, status, answer, retry_after)


def is_final(error: Exception) -> bool:
    """Whether the server refused a write for certain and would again: neither a race nor a passing trouble."""
    passing = (Conflict, NotFound, ServerFault, TooManyRequests, Unauthorized)
    return isinstance(error, ApiError) and not isinstance(error, passing)


def is_passing(error: Exception) -> bool:
    """Whether the server may answer a moment later: it is out of reach, in trouble, busy, or about to know us again."""
    if isinstance(error, Unreachable):
        return error.retryable
    return isinstance(error, Gone | OutcomeUnknown | ServerFault | TooManyRequests | Unauthorized)
