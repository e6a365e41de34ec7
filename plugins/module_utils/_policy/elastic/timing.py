# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a resize that was decided is carried out: at once, or as soon as the training has saved its work."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.terms import Timing

Moment = t.Literal["go", "wait", "give_up"]

# A checkpoint that has not come after so many of its usual intervals is not waited for any longer.
LATE = 2.0
# The same in seconds, as long as nobody knows the interval.
LONGEST_WAIT = 3600.0
# Servers' clocks differ by less: what is told of a moment further ahead was not written by us.
CLOCKS_DIFFER = 60.0


def resize_moment(
    timing: Timing,
    progress: Progress,
    planned: float,
    now: float,
    *,
    timeout: float | None = None,
    settle: float = 0.0,
    otherwise: t.Literal["give_up", "go"] = "give_up",
) -> Moment:
    """Whether a resize that was planned at a time is carried out now; while it waits the trainer is asked to save.

    timeout is how long a checkpoint is waited for, by default twice its usual interval, but at most an hour.
    settle is how long ago it has
    to be reported to be safe. otherwise is what happens when none came; whoever gives up takes another job.
    """
    if timing != "at_checkpoint":
        return "go"
    times = [item.time for item in progress.checkpoints]
    if any(planned < time <= now - settle for time in times):
        return "go"
    longest = longest_wait(progress) if timeout is None else timeout
    # One that is only settling is there.
    waits = now - planned <= longest or any(planned < time <= now for time in times)
    return "wait" if waits else otherwise


def longest_wait(progress: Progress) -> float:
    """How long a checkpoint is waited for where nobody says it."""
    interval = progress.checkpoint_interval
    return LONGEST_WAIT if interval is None else min(LONGEST_WAIT, LATE * interval)


def lost_seconds(timing: Timing, checkpointed: float | None, ran: float, now: float) -> float:
    """How much work a resize throws away; only one that waits for nothing throws any away."""
    if timing != "now":
        return 0.0
    return ran if checkpointed is None else max(0.0, min(ran, now - checkpointed))
