# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a refusal of the API server means for a gang: failed for good, back to the queue, or dropped."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    ServerFault,
    TooManyRequests,
    Unauthorized,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    NAME_TAKEN,
    QUOTA_REFUSED,
    REFUSED,
    Phase,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import ATTEMPT_LABEL, GANG_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object

Object = Mapping[str, t.Any]
RefusalKind = t.Literal["failed", "requeue", "drop"]

NAMESPACE_TERMINATING = "NamespaceTerminating"
NO_IDENTITY = "NoIdentity"
CONFLICT = "Conflict"


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """Why an object was not created, and what becomes of its gang; drop means that its namespace is going away."""

    kind: RefusalKind
    reason: str
    message: str

    @property
    def then(self) -> Phase:
        """The phase of a gang after its undo."""
        return "failed" if self.kind == "failed" else "queued"


def refusal_of(error: ApiError, obj: Object) -> Refusal | None:
    """What an answer to the creation of an object means; None when it tells nothing about the object."""
    if isinstance(error, ServerFault | TooManyRequests | Unauthorized):
        return None
    what = describe_object(obj)
    if _namespace_is_going(error):
        return Refusal("drop", NAMESPACE_TERMINATING, f"{what}: {error.message}")
    if isinstance(error, Forbidden):
        return _forbidden(error, what)
    if isinstance(error, NotFound):
        return unserved(obj)
    if isinstance(error, Conflict):
        reason = QUOTA_REFUSED if "resourcequotas" in error.message else CONFLICT
        return Refusal("requeue", reason, f"{what}: {error.message}")
    return Refusal("failed", REFUSED, f"{what}: {error.message or error.cause}")


def unserved(obj: Object) -> Refusal:
    """The refusal of a kind that the server does not know."""
    kind = f"{obj['apiVersion']} {obj['kind']}"
    return Refusal(
        "failed", REFUSED, f"{describe_object(obj)}: the server does not serve {kind}; install its CRD and try again"
    )


def taken(obj: Object, found: Object) -> Refusal:
    """The refusal of an object whose name an object of another owner has."""
    return Refusal("requeue", NAME_TAKEN, f"{describe_object(obj)} exists already and belongs to {owner_text(found)}")


def stripped(sent: Object, answer: Object) -> Refusal | None:
    """The refusal of an object that did not keep what its gang is known by: the owner added last, and our labels.

    Without those neither an undo nor the collector would find it. sent is the body of the creation.
    """
    metadata, kept = sent["metadata"], answer.get("metadata") or {}
    owners = {item.get("uid") for item in kept.get("ownerReferences") or ()}
    labels = kept.get("labels") or {}
    lost = [] if metadata["ownerReferences"][-1]["uid"] in owners else ["the owner reference"]
    for name in (GANG_LABEL, ATTEMPT_LABEL):
        if labels.get(name) != metadata["labels"].get(name):
            lost.append(f"the label {name}")
    if not lost:
        return None
    cause = f"an admission webhook removed {' and '.join(lost)}, without which a start cannot be taken back"
    return Refusal("failed", REFUSED, f"{describe_object(sent)}: {cause}")


def owner_text(found: Object) -> str:
    """The owners of an object as text."""
    metadata = found["metadata"]
    owners = [f"{item.get('kind')} {item.get('name')}" for item in metadata.get("ownerReferences") or ()]
    return ", ".join(owners) if owners else "nobody (no owner reference)"


def _forbidden(error: Forbidden, what: str) -> Refusal:
    """A 403: quota, Pod Security, admission, or missing rights of the account the objects are created with."""
    text = error.message
    if "exceeded quota" in text or "status unknown for quota" in text:
        return Refusal("requeue", QUOTA_REFUSED, f"{what}: {text}")
    if error.verb == "impersonate":
        return Refusal("requeue", NO_IDENTITY, f"{what}: cannot impersonate {error.resource}: {text}")
    verb, resource = error.verb or error.action, error.resource or what
    return Refusal("failed", REFUSED, f"{what}: cannot {verb} {resource}: {text}")


def _namespace_is_going(error: ApiError) -> bool:
    """Whether the namespace is being deleted, or gone; older servers name no cause, only a message."""
    causes = error.details.get("causes")
    reasons = [item.get("reason") for item in causes if isinstance(item, Mapping)] if isinstance(causes, list) else []
    if "NamespaceTerminating" in reasons or "because it is being terminated" in error.message:
        return True
    return isinstance(error, NotFound) and error.details.get("kind") == "namespaces"
