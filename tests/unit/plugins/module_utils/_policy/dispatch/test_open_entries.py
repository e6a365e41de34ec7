# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What became of entries of the batch, by the state of their records."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Batch, BatchRead, Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import PHASES, advance, new_state
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.open_entries import (
    START_TIMEOUT,
    UNSEEN_PATIENCE,
    standing_of,
    unknown_until,
    unknown_words,
    unlisted_since,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions

AT = "2026-01-01T00:00:00Z"


def entry(op="start", attempt=1):
    return Entry(op, "team", "gang", "1", attempt, batch="b2")


def state(phase, batch="b1", attempt=1):
    return advance(new_state(AT, "w/1"), phase, AT, "", "", "w/2", batch=batch, attempt=attempt)


def test_a_start_is_not_begun_while_the_record_says_nothing_of_it():
    assert standing_of(entry(), None) == "not_begun"
    assert standing_of(entry(), state("queued")) == "not_begun"
    assert standing_of(entry(attempt=3), state("queued", attempt=1)) == "not_begun"


def test_a_start_is_open_until_its_pods_are_bound():
    for phase in ("dispatching", "dispatched"):
        for batch in ("b1", "b2"):
            assert standing_of(entry(), state(phase, batch)) == "open"


@pytest.mark.parametrize("phase", ["running", "undoing", "evicting", "suspended", "complete", "failed", "unknown"])
def test_a_start_is_over_when_the_gang_runs_ended_or_is_taken_back(phase):
    assert standing_of(entry(), state(phase)) == "over"


def test_a_start_is_over_when_it_was_refused_or_another_attempt_follows():
    assert standing_of(entry(), state("queued", "b2")) == "over"
    assert standing_of(entry(), state("dispatched", "b3", attempt=2)) == "over"


@pytest.mark.parametrize("op", ["stop", "evict"])
def test_a_stop_is_not_begun_while_the_gang_goes_on_untouched(op):
    for phase in PHASES:
        goes_on = phase in ("dispatching", "dispatched", "running", "rescaling")
        assert standing_of(entry(op), state(phase)) == ("not_begun" if goes_on else "over")
        assert standing_of(entry(op), state(phase, "b2")) == "over"


def test_what_earlier_versions_abandoned_is_over():
    assert standing_of(dataclasses.replace(entry(), abandoned=True), None) == "over"


def batch(noted=0):
    return BatchRead(Batch("b", "e", (), {}, unlisted_since=noted))


@pytest.mark.parametrize(
    ("read", "since"),
    [
        (BatchRead(), 10.0),
        (batch(), None),
        (BatchRead(newer="written by a later version"), None),
        (BatchRead(problem="it is no JSON"), 50.0),
        (batch(noted=30), 30),
        (batch(noted=70), 50.0),
    ],
)
def test_since_when_a_lease_does_not_list_what_was_promised(read, since):
    assert unlisted_since(read, created=10.0, seen=50.0) == since


def test_what_was_promised_elsewhere_is_unknown_for_twice_the_longest_start():
    options = DispatchOptions(start_timeout=20.0)
    end = 100.0 + UNSEEN_PATIENCE * START_TIMEOUT
    assert unknown_until(None, 0.0, options) is None
    assert unknown_until(100.0, None, options) == end
    assert unknown_until(100.0, end - 0.1, options) == end
    assert unknown_until(100.0, end, options) is None
    patient = DispatchOptions(start_timeout=START_TIMEOUT + 100)
    assert unknown_until(100.0, end, patient) == end + 100 * UNSEEN_PATIENCE
    assert "until 1970-01-01T00:11:40Z: Lease x is new" in unknown_words("Lease x", end)
