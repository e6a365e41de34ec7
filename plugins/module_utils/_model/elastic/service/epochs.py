# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Epochs and steps: trainings that tell epochs are kept in steps, of which each epoch has equally many."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import MOST_EACH, Progress
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

# Steps of an epoch where nobody ever told steps: fine enough for every fraction that matters.
USUAL_STEPS = 1000.0
# Whoever reports may make numbers up; what is kept has to be readable again.
_MOST_STEPS = 2**53


def with_epochs(progress: Progress, total: float | None) -> Progress:
    """Progress that knows how many steps an epoch has; total are all epochs, None where that is not told.

    A training that told its steps, but not how many there are, cannot be told of in epochs.
    """
    each = progress.epoch_steps
    if each is None:
        counted = progress.seen is not None or progress.total is not None
        if counted and not (progress.total and total):
            raise BadInput("compare", "epochs", "the training tells its steps, and not how many an epoch has")
        each = progress.total / total if counted and progress.total and total else USUAL_STEPS
        if not 1 / MOST_EACH <= each <= MOST_EACH:
            raise BadInput("compare", "epochs", f"an epoch of {each:g} steps makes no sense")
    wanted = progress.total if total is None else min(_MOST_STEPS, round(total * each))
    if progress.epoch_steps is not None or progress.total is None or wanted is None:
        return dataclasses.replace(progress, epoch_steps=each, total=wanted)
    return dataclasses.replace(progress, epoch_steps=each)


def steps_of(progress: Progress, epochs: float) -> int:
    """Epochs in steps, of progress that knows how many an epoch has."""
    return min(_MOST_STEPS, round(epochs * (progress.epoch_steps or USUAL_STEPS)))


def epochs_of(progress: Progress, steps: int | None) -> float:
    """Steps in epochs; 0 where nobody told epochs."""
    return 0.0 if steps is None or not progress.epoch_steps else round(steps / progress.epoch_steps, 4)
