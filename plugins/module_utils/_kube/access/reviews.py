# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who somebody is by a token, and what they may do: reviews, which the server answers and does not store."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, without_none

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_OWN_RIGHTS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_ACCOUNT = "system:serviceaccount:"
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"


class BoundPod(t.NamedTuple):
    """The pod that a token was made for: with it the token ends."""

    namespace: str
    name: str
    uid: str


@dataclasses.dataclass(frozen=True, slots=True)
class TokenUser:
    """Whom the server takes the bearer of a token for."""

    name: str
    uid: str | None = None
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    @property
    def pod(self) -> BoundPod | None:
        """The pod that the token belongs to; None for any other token."""
        names, uids = self.extra.get(_POD_NAME) or (), self.extra.get(_POD_UID) or ()
        namespace, _colon, account = self.name.removeprefix(_ACCOUNT).partition(":")
        if not self.name.startswith(_ACCOUNT) or not account or len(names) != 1 or len(uids) != 1:
            return None
        return BoundPod(namespace, names[0], uids[0])


class Deed(t.NamedTuple):
    """What somebody would do; without a namespace in all of them, without a name to all objects."""

    verb: str
    resource: str
    namespace: str | None = None
    name: str | None = None
    group: str = ""


def review_token(client: KubeClient, token: str, audiences: Sequence[str] = ()) -> TokenUser | None:
    """Whose token this is; None for one that the server does not take, or that is not for these audiences."""
    spec: Data = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    answer = client.request("POST", _TOKENS, body=review, target="a token").json()
    status = (answer or {}).get("status") or {}
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    # A server that knows nothing of audiences answers without them, and the token may be for anybody.
    if audiences and not set(audiences) & set(status.get("audiences") or ()):
        return None
    return TokenUser(
        str(user["username"]), user.get("uid") or None, tuple(user.get("groups") or ()), dict(user.get("extra") or {})
    )


def may_do(client: KubeClient, user: TokenUser, deed: Deed) -> bool:
    """Whether the server would let somebody do this."""
    spec = without_none(
        {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
            "resourceAttributes": without_none(deed._asdict()),
        }
    )
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = client.request("POST", _RIGHTS, body=review, target=f"the rights of {user.name}").json()
    return ((answer or {}).get("status") or {}).get("allowed") is True


def we_may(client: KubeClient, attributes: Mapping[str, t.Any], told: str) -> bool:
    """Whether the server would let us do something, given as resourceAttributes or nonResourceAttributes."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": dict(attributes)}
    answer = client.request("POST", _OWN_RIGHTS, body=review, target=f"our right to {told}").json()
    return ((answer or {}).get("status") or {}).get("allowed") is True
