# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decisions as lines and in the log."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.decision_log import DecisionLog
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.decisions import Decision, DecisionBook


def decision(**parts):
    usual = {"gang": "ns/a", "uid": "u", "action": "start", "reason": "Started", "message": "fits now", "attempt": 1}
    return Decision(**{**usual, "phase": "dispatched", "at": "2026-01-01T00:00:00Z", **parts})


def test_a_line_says_what_why_and_which_attempt():
    assert decision().line() == "ns/a: start: Started; fits now"
    assert (
        decision(attempt=3, reason="", message="first\n  second\nthird").line()
        == "ns/a: start (attempt 3): first; second"
    )
    assert decision(reason="", message="").line() == "ns/a: start"


def test_the_log_holds_one_json_line_for_each_decision_and_keeps_older_ones(tmp_path):
    log = DecisionLog(str(tmp_path / "log"))
    log.add([decision(), decision(action="wait", verdict={"answer": "waits"})])
    log.add([decision(uid="v")])
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["uid"] for line in lines] == ["u", "u", "v"]
    assert lines[1]["verdict"] == {"answer": "waits"}


def test_without_a_path_nothing_is_written(tmp_path):
    DecisionLog(None).add([decision()])
    assert not list(tmp_path.iterdir())


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(MusterError, match="decision log"):
        DecisionLog(str(tmp_path)).add([decision()])


def test_of_a_waiting_gang_only_the_last_word_is_kept():
    book = DecisionBook()
    book.add([decision(uid="a", action="wait"), decision(uid="b", action="wait")])
    book.add([decision(uid="a", action="start")])
    book.add([decision(uid="a", action="wait", reason="again"), decision(uid="b", action="wait", reason="still")])
    assert [(item.uid, item.action, item.reason) for item in book] == [
        ("a", "start", "Started"),
        ("a", "wait", "again"),
        ("b", "wait", "still"),
    ]
    assert (book.dropped, book.changed) == (0, True)


def test_a_book_holds_the_last_decisions_and_counts_the_others():
    book = DecisionBook(most=10)
    book.add([decision(uid="first")])
    for number in range(100):
        book.add([decision(uid=str(number), action="wait")])
    assert [item.uid for item in book] == [str(number) for number in range(90, 100)]
    assert (book.dropped, book.changed) == (91, True)
    assert len(book._waits) == 10


def test_waiting_and_refusing_are_no_changes():
    book = DecisionBook()
    book.add([decision(action="wait"), decision(action="refuse")])
    assert not book.changed
