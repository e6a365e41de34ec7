# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The logs of a Job's pods; a log that is gone is distinguished from one that cannot be read at the moment."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError, Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import LINE_BYTES, is_gone, read_log
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import PodFacts
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import HANG_SECONDS

Log = t.Callable[[str, str], "bytes | None"]

# How long a log is asked for whose node does not answer, and how long to rest between two tries.
_LOG_SECONDS = HANG_SECONDS
_REST = 2.0
# A runtime may copy the last output into the log after it told that the container ended: how long a log that is not
# whole has to stay as it is until nothing more is expected.
_SETTLE_SECONDS = 3.0

Whole = t.Callable[[bytes], bool]


class NotNow(Exception):
    """A log is there, but neither its node nor the server gives it at the moment; error is what the server said."""

    def __init__(self, text: str, error: ApiError | None = None) -> None:
        super().__init__(text)
        self.error = error


class PodLogs:
    """Reads the ends of logs, so many lines of each; say is called with each trouble."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        lines: int,
        say: t.Callable[[str], None],
        is_whole: Whole | None = None,
    ) -> None:
        """Nothing is read yet; is_whole tells whether a log has the end that its container writes, where it has one."""
        self._client = client
        self._is_whole = is_whole
        # Of logs without their end: how long they were, and since when.
        self._cut: dict[tuple[str, str], tuple[int, float]] = {}
        self._namespace = namespace
        self._lines = lines
        self._say = say
        self._silent: dict[str | None, float] = {}
        self._deadline: float | None = None

    def now(self, pod: PodFacts) -> Log:
        """Reads a log if its node gives it now, NotNow if not; such a node is left alone for a moment."""

        def read(name: str, container: str) -> bytes | None:
            if self._silent.get(pod.node, 0.0) > self._client.clock():
                raise NotNow(f"node {pod.node} gave no log a moment ago")
            try:
                return self._read(name, container)
            except NotNow:
                self._silent[pod.node] = self._client.clock() + _REST
                raise

        return read

    def patiently(self, pod: str, container: str) -> bytes | None:
        """The end of a log; None when it is gone, or when its node did not give it in all that time.

        Who may not read it is told so, and the Job stays as it is: its results are there for who may.
        """
        while True:
            try:
                return self._read(pod, container)
            except NotNow as error:
                self._say(str(error))
                if self._deadline is None:
                    self._deadline = self._client.clock() + _LOG_SECONDS
                if self._client.clock() < self._deadline:
                    self._client.sleep(_REST)
                    continue
                if isinstance(error.error, Forbidden):
                    raise error.error from None
                return None

    def _read(self, pod: str, container: str) -> bytes | None:
        """The end of a log as it is now; None when it is gone, NotNow when it cannot be had at the moment."""
        log = self._read_once(pod, container)
        if log is None or self._is_whole is None or self._is_whole(log):
            return log
        now = self._client.clock()
        length, since = self._cut.get((pod, container), (-1, now))
        if length != len(log):
            length, since = len(log), now
        self._cut[pod, container] = length, since
        if now - since < _SETTLE_SECONDS:
            raise NotNow(f"the log of pod {pod} has no end yet")
        return log

    def _read_once(self, pod: str, container: str) -> bytes | None:
        """The same, whole or not."""
        try:
            return read_log(
                self._client,
                self._namespace,
                pod,
                container,
                tail_lines=self._lines,
                tail_bytes=self._lines * LINE_BYTES,
                read_retries=False,
            )
        except ApiError as error:
            if is_gone(error) and not (isinstance(error, NotFound) and self._exists(pod)):
                return None
            raise NotNow(str(error), error) from error

    def _exists(self, pod: str) -> bool:
        """Whether a pod is there: a node that has just started does not know its pods yet, and says so."""
        try:
            return get_object(self._client, resource_path("v1", "pods", self._namespace, pod)) is not None
        except Forbidden:
            return False
