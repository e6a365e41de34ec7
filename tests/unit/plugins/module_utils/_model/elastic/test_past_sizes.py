# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which sizes a gang held, as its state remembers them through starts, resizes and stops."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.past_sizes import (
    MOST_SIZES,
    BegunResize,
    PastSize,
    read_past_sizes,
    with_size,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import Resize
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    MOST_TRANSITIONS,
    STATE_ANNOTATION,
    GangState,
    advance,
    new_state,
    read_state,
    state_text,
)


def at(second: int) -> str:
    """A moment of the test."""
    return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"


def gone_on(state: GangState, *steps: tuple[str, int, dict[str, object]]) -> GangState:
    """The state after steps of phase, second and changes."""
    for phase, second, changes in steps:
        state = advance(state, phase, at(second), "Why", "", "h/e/1", **changes)
    return state


def resize(size: int, to: int, method: str) -> Resize:
    return Resize(size, to, method, "there is room for it", at(0), lost_seconds=1.5)


STARTED = gone_on(
    new_state(at(0), "h/e/1"),
    ("dispatching", 1, {"allotment": 3}),
    ("dispatched", 2, {}),
    ("running", 4, {}),
)


def told(state: GangState) -> list[tuple[str, int, bool]]:
    return [(item.at, item.size, item.running) for item in state.sizes]


def test_a_start_holds_its_size_from_the_decision_on():
    assert told(STARTED) == [(at(1), 3, False), (at(4), 3, True)]


def test_a_gang_of_fixed_size_remembers_none():
    state = gone_on(new_state(at(0), "h/e/1"), ("dispatching", 1, {}), ("running", 2, {}), ("complete", 3, {}))
    assert (state.sizes, "sizes" in json.loads(state_text(state))) == ((), False)


def test_a_resize_by_other_objects_holds_nothing_between_them():
    state = gone_on(
        STARTED,
        ("resizing", 10, {"resize": resize(3, 4, "recreate")}),
        ("queued", 12, {"attempt": 2}),
        ("dispatching", 13, {"allotment": 4}),
        ("dispatched", 14, {}),
        ("running", 15, {}),
        ("complete", 20, {}),
    )
    assert told(state)[2:] == [
        (at(10), 3, False),
        (at(12), 0, False),
        (at(13), 4, False),
        (at(15), 4, True),
        (at(20), 0, False),
    ]
    assert state.sizes[2].resize == BegunResize(3, 4, "recreate", "there is room for it", 1.5)


@pytest.mark.parametrize(("size", "to"), [(3, 4), (3, 2)])
def test_a_resize_in_place_holds_the_larger_size_until_it_is_over(size, to):
    begun = {"resize": resize(size, to, "scale"), "allotment": max(size, to)}
    state = gone_on(STARTED, ("rescaling", 10, begun), ("running", 12, {"allotment": to}))
    assert told(state)[2:] == [(at(10), max(size, to), False), (at(12), to, True)]
    assert [item.resize.to if item.resize else None for item in state.sizes[2:]] == [to, None]


def test_a_resize_that_is_turned_back_is_no_second_one():
    there = {"resize": resize(3, 4, "scale"), "allotment": 4}
    back = {"resize": dataclasses.replace(resize(3, 4, "scale"), back="no node")}
    state = gone_on(STARTED, ("rescaling", 10, there), ("rescaling", 11, back), ("running", 12, {"allotment": 3}))
    assert told(state)[2:] == [(at(10), 4, False), (at(12), 3, True)]


def test_they_outlive_the_transitions_and_come_back_as_they_were():
    state = STARTED
    for turn in range(MOST_TRANSITIONS):
        begun = {"resize": resize(3, 4, "scale"), "allotment": 4}
        state = gone_on(state, ("rescaling", 10 * turn, begun), ("running", 10 * turn + 5, {"allotment": 3}))
    assert (len(state.transitions), len(state.sizes)) == (MOST_TRANSITIONS, MOST_SIZES)
    assert read_state({STATE_ANNOTATION: state_text(state)}) == state


def test_a_version_that_does_not_know_them_writes_them_back():
    text = json.loads(state_text(STARTED))
    assert [item["size"] for item in text["sizes"]] == [3, 3]
    assert list(text)[-1] == "sizes"


@pytest.mark.parametrize(
    "damage",
    [
        7,
        {"at": at(1), "size": 3},
        [7],
        [{"at": at(1)}],
        [{"at": "soon", "size": 3}],
        [{"at": at(1), "size": -1}],
        [{"at": at(1), "size": True}],
        [{"at": at(1), "size": 3, "running": "yes"}],
        [{"at": at(1), "size": 3, "resize": 4}],
        [{"at": at(1), "size": 3, "resize": {"from": 3, "to": 4, "method": "magic"}}],
        [{"at": at(1), "size": 3, "resize": {"from": 3, "to": 0, "method": "scale"}}],
        [{"at": at(1), "size": 3, "resize": {"from": 3, "to": 4, "method": "scale", "lost_seconds": "x"}}],
    ],
)
def test_what_is_damaged_is_left_out(damage):
    assert read_past_sizes(damage) == ()
    text = json.dumps({**json.loads(state_text(STARTED)), "sizes": damage})
    assert read_state({STATE_ANNOTATION: text}) == dataclasses.replace(STARTED, sizes=())


def test_long_words_of_others_are_cut():
    entry = {"at": at(1), "size": 3, "resize": {"from": 3, "to": 4, "method": "scale", "why": "x" * 5000}}
    assert len(read_past_sizes([entry])[0].resize.why) == 200


def test_an_entry_that_tells_nothing_new_is_left_out():
    first = PastSize(at(1), 3)
    assert with_size((first,), PastSize(at(2), 3)) == (first,)
    assert with_size((), PastSize(at(2), 0)) == ()
