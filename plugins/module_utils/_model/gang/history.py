# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long gangs ran, by queue and name prefix: what estimates need of gangs whose records may be gone by now."""

from __future__ import annotations

import collections
import json
import typing as t
from collections.abc import Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import parse_json

# Queue, if any, and name prefix.
Work = tuple["str | None", str]

HISTORY_NAME = "muster-history"
HISTORY_KEY = "run-times.json"
HISTORY_LABEL = "muster.kube/history"
# So many of the last run times of one kind of work tell what is usual.
MOST_RUNS = 200
# Half of what a ConfigMap may hold; work that nobody ran for longest is forgotten first.
HISTORY_BYTES = 512 * 1024


class RunTimes:
    """The last run times of each kind of work, that which ran last at the end."""

    def __init__(self) -> None:
        """Nothing ran yet."""
        self._runs: dict[Work, collections.deque[float]] = {}

    def __iter__(self) -> Iterator[tuple[Work, t.Collection[float]]]:
        """Each kind of work with its run times."""
        return iter(self._runs.items())

    def of(self, work: Work) -> t.Collection[float]:
        """The run times of one kind of work."""
        return self._runs.get(work, ())

    def note(self, work: Work, seconds: float) -> None:
        """Add one run."""
        runs = self._runs.pop(work, None) or collections.deque(maxlen=MOST_RUNS)
        runs.append(round(seconds, 1))
        self._runs[work] = runs

    def text(self) -> str:
        """All of it as text that a ConfigMap can hold."""
        lines = [json.dumps([*work, list(runs)], separators=(",", ":")) for work, runs in self._runs.items()]
        size, first = 0, len(lines)
        while first > 0 and size + len(lines[first - 1]) + 2 <= HISTORY_BYTES:
            first -= 1
            size += len(lines[first]) + 2
        return "[" + ",\n".join(lines[first:]) + "]"


def read_run_times(data: Mapping[str, t.Any] | None) -> RunTimes:
    """What a ConfigMap holds; anybody may have written it, and what makes no sense is left out."""
    found = RunTimes()
    try:
        lines = parse_json((data or {}).get(HISTORY_KEY), HISTORY_NAME)
    except BadInput:
        return found
    for line in lines if isinstance(lines, list) else ():
        if not isinstance(line, list) or len(line) != 3 or not isinstance(line[2], list):
            continue
        queue, prefix, runs = line
        if (queue is None or isinstance(queue, str)) and isinstance(prefix, str):
            for seconds in runs[-MOST_RUNS:]:
                if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0:
                    found.note((queue, prefix), float(seconds))
    return found
