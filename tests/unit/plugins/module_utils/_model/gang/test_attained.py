# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an elastic gang had so far: its sizes times the seconds that its objects were there."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    GangState,
    Phase,
    advance,
    new_state,
    read_state,
    size_seconds,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text

BEGIN = read_time("2026-01-01T00:00:00Z") or 0.0


def after(state: GangState, *steps: tuple[float, Phase], **changes: t.Any) -> GangState:
    """The state after these phases, each at its second; changes come with the first."""
    for second, phase in steps:
        state = advance(state, phase, time_text(BEGIN + second), "Test", "", "w/1/1", **changes)
        changes = {}
    return state


def queued() -> GangState:
    return new_state(time_text(BEGIN), "w/1/0")


def test_a_run_counts_from_when_its_objects_are_there_until_they_are_taken_back() -> None:
    state = after(queued(), (10, "dispatching"), (20, "dispatched"), (30, "running"), allotment=4)
    assert size_seconds(state, BEGIN + 50) == 4 * 30
    state = after(state, (120, "resizing"))
    assert (state.attained, size_seconds(state, BEGIN + 500)) == (400, 400)
    state = after(state, (130, "queued"), attempt=2)
    state = after(state, (140, "dispatched"), (150, "running"), allotment=2)
    assert size_seconds(state, BEGIN + 200) == 400 + 2 * 60
    assert after(state, (240, "complete")).attained == 600


def test_it_survives_its_text_and_is_left_out_of_that_of_others() -> None:
    state = after(queued(), (20, "dispatched"), (120, "undoing"), allotment=4)
    assert read_state({"muster.kube/state": state_text(state)}) == state
    fixed = after(queued(), (20, "dispatched"), (120, "undoing"))
    assert (fixed.attained, "attained" in state_text(fixed)) == (0, False)


def test_times_that_make_no_sense_count_nothing() -> None:
    state = after(queued(), (20, "dispatched"), allotment=4)
    assert size_seconds(state, None) == 0
    assert size_seconds(state, BEGIN - 100) == 0
