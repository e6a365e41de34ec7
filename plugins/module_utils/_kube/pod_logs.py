# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what a container wrote, bounded."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path

# The server can only count lines from the end. A line is taken to have so many bytes on average.
TAIL_LINES = 20_000
LINE_BYTES = 200
TAIL_BYTES = 4 * 1024 * 1024


def read_log(
    client: KubeClient,
    namespace: str,
    pod: str,
    container: str,
    *,
    tail_bytes: int | None = TAIL_BYTES,
    tail_lines: int | None = TAIL_LINES,
    since_seconds: int | None = None,
) -> bytes:
    """The end of a container's log; None lifts a bound. NotFound when the pod is gone."""
    query = {"container": container, "tailLines": tail_lines, "sinceSeconds": since_seconds}
    answer = client.request("GET", resource_path("v1", "pods", namespace, pod, "log"), query=query)
    return answer.body if tail_bytes is None else answer.body[-tail_bytes:] if tail_bytes else b""
