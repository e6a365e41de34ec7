# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of one inspection in a few numbers, and whether what failed is too much."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    CANCELLED,
    CONFIG,
    EVICTED,
    IMAGE_PULL,
    LOST_RESULT,
    QUOTA,
    REFUSED,
    SCRIPT_FAILED,
    TIMEOUT,
    UNSCHEDULABLE,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.measurement import quartiles
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data

# Failures that say nothing about the script: the same run may well succeed next time.
_CIRCUMSTANCES = (CANCELLED, CONFIG, EVICTED, IMAGE_PULL, LOST_RESULT, QUOTA, REFUSED, UNSCHEDULABLE)

# How many bytes of a failed run's stderr are shown.
_LAST_LINES, _LAST_LETTERS = 5, 500


def summarize(items: Sequence[Data]) -> Data:
    """How many succeeded, and the spread of their wall times; failed runs have no time worth comparing."""
    good = [item for item in items if item.get("reason") is None]
    times = sorted(float(item["wall_seconds"]) for item in good if item.get("wall_seconds") is not None)
    return {"succeeded": len(good), "failed": len(items) - len(good), "wall_seconds": _spread(times)}


def all_verified(items: Sequence[Data]) -> bool | None:
    """Whether every run had the hardware asked for: False if one had not, None if that of one is unknown."""
    known = [item.get("placement_verified") for item in items]
    if False in known:
        return False
    return None if not known or None in known else True


def telling_failure(failed: Sequence[Data]) -> Data:
    """Of the runs that failed the one that explains most."""
    return min(failed, key=lambda item: (item["reason"] == CANCELLED, item["reason"] == SCRIPT_FAILED))


def last_words(item: t.Mapping[str, t.Any]) -> str:
    """The end of what a run wrote to stderr: mostly that says why it failed."""
    text = item.get("stderr")
    lines = text.strip().splitlines() if isinstance(text, str) else []
    end = "\n".join(lines[-_LAST_LINES:])
    return end if len(end) <= _LAST_LETTERS else f"…{end[-_LAST_LETTERS:]}"


def failure_of(items: Sequence[Data], allowed: int) -> tuple[str | None, str]:
    """The reason of the whole inspection and a message: none when no more failed than is allowed.

    A special cause explains more than an exit code of another run, and that more than a run left out because of it.
    """
    failed = [item for item in items if item.get("reason") is not None]
    if len(failed) <= allowed:
        return None, ""
    first = telling_failure(failed)
    message = (
        f"{len(failed)} of {len(items)} runs failed; run {first['index']}: {first.get('message') or first['reason']}"
    )
    return str(first["reason"]), message


def is_result(item: t.Mapping[str, t.Any]) -> bool:
    """Whether a repetition says something about its script, well or badly; else circumstances ended it."""
    reason = item.get("reason")
    if reason == TIMEOUT:
        return _has_begun(item)
    return reason not in _CIRCUMSTANCES


def _has_begun(item: t.Mapping[str, t.Any]) -> bool:
    """Whether the script of a repetition was started at all."""
    return item.get("start") is not None or bool(item.get("started"))


def worth_repeating(outcome: t.Mapping[str, t.Any]) -> bool:
    """Whether a stored outcome is no answer to the question, so that the run is tried again."""
    reason = outcome.get("reason")
    if reason == TIMEOUT:
        # It never started: there was no room, or no answer from the node.
        return not any(_has_begun(item) for item in outcome.get("items") or ())
    return reason in _CIRCUMSTANCES


def _spread(times: Sequence[float]) -> Data | None:
    """Median, quartiles and extremes; None without any time."""
    if not times:
        return None
    low, median, high = quartiles(times)
    numbers = {"median": median, "q1": low, "q3": high, "min": times[0], "max": times[-1]}
    return {name: round(number, 9) for name, number in numbers.items()}
