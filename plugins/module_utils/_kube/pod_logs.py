# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what a container wrote, bounded."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError, Gone, Invalid, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path

# The server can only count lines from the end. A line is taken to have so many bytes on average.
TAIL_LINES = 20_000
LINE_BYTES = 200
TAIL_BYTES = 4 * 1024 * 1024
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def read_log(
    client: KubeClient,
    namespace: str,
    pod: str,
    container: str,
    *,
    tail_bytes: int | None = TAIL_BYTES,
    tail_lines: int | None = TAIL_LINES,
    read_retries: bool = True,
) -> bytes:
    """The end of a container's log; None lifts a bound. See is_gone for its errors."""
    query = {"container": container, "tailLines": tail_lines}
    path = resource_path("v1", "pods", namespace, pod, "log")
    answer = client.request("GET", path, query=query, read_retries=read_retries)
    return answer.body if tail_bytes is None else answer.body[-tail_bytes:] if tail_bytes else b""


def is_gone(error: Exception) -> bool:
    """Whether there is no such log and will not be; else its node or the right to read it is missing just now."""
    return isinstance(error, NotFound | Gone | Invalid)


def may_read_logs(client: KubeClient, namespace: str) -> bool:
    """Whether the server would let us read logs; without an answer we assume that it would."""
    wanted = {"namespace": namespace, "verb": "get", "resource": "pods", "subresource": "log"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
    try:
        answer = client.request("POST", _REVIEWS, body=review).json()
    except ApiError:
        return True
    return ((answer or {}).get("status") or {}).get("allowed") is not False
