# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finished gangs are removed in time, and nothing else is."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps import retention
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.retention import MOST_REMOVALS
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task, Workers
from ansible_collections.muster.kube.tests.support.dispatch_session import CountingApi, SmallSession, finish
from ansible_collections.muster.kube.tests.support.gang_cases import claim
from ansible_collections.muster.kube.tests.support.gang_records import RECORDS, add_record

# The server of these tests says that it is 04:00.
HOURS_AGO = {hours: f"2026-11-16T{4 - hours:02d}:00:00Z" for hours in range(4)}


@pytest.fixture
def api():
    return CountingApi()


def left(api):
    """Names of the records that are left."""
    return sorted(
        path.rpartition("/")[2]
        for path, obj in api.objects.items()
        if "muster.kube/record" in (obj["metadata"].get("labels") or {})
    )


def settle(session, cycles=2):
    """Some cycles, each a minute after the other; what was decided."""
    decided = []
    for _number in range(cycles):
        cycle, _cost = session.cycle()
        decided += cycle.session.journal.take()[0]
        session.api.now += 60
    return decided


def test_the_oldest_are_removed_with_all_they_own(api):
    for hours in HOURS_AGO:
        finish(api, f"gang-{hours}", at=HOURS_AGO[hours])
    add_record(api, "waiting")
    decided = settle(SmallSession(api, keep_finished=2))
    assert left(api) == ["gang-0", "gang-1", "waiting"]
    expired = [(item.gang, item.reason) for item in decided if item.action == "expire"]
    # They are removed side by side.
    assert sorted(expired) == [("team/gang-2", "Retention"), ("team/gang-3", "Retention")]
    assert sum("muster-ticket" in path for path in api.objects) == 2


def test_those_that_ended_long_ago_are_removed(api):
    for hours in HOURS_AGO:
        finish(api, f"gang-{hours}", at=HOURS_AGO[hours])
    settle(SmallSession(api, keep_finished_for=1.5 * 3600))
    assert left(api) == ["gang-0", "gang-1"]


def test_marked_ones_and_those_with_a_ttl_stay(api):
    finish(api, "later", at=HOURS_AGO[3], ttl="4h")
    finish(api, "due", at=HOURS_AGO[3], ttl="2h")
    raw = finish(api, "kept", at=HOURS_AGO[3]).raw
    raw["metadata"]["annotations"]["muster.kube/keep"] = "true"
    api.put(f"{RECORDS}/kept", raw)
    finish(api, "other", at=HOURS_AGO[3])
    settle(SmallSession(api, keep_finished=0))
    assert left(api) == ["kept", "later"]


def test_gangs_with_claims_stay_unless_they_have_a_ttl(api):
    finish(api, "model", at=HOURS_AGO[3], objects=[claim("data")])
    finish(api, "cache", at=HOURS_AGO[3], objects=[claim("cache")], ttl="2h")
    finish(api, "other", at=HOURS_AGO[3])
    session = SmallSession(api, keep_finished=0)
    settle(session)
    assert left(api) == ["model"]
    _cycle, cost = session.cycle()
    assert ("GET", f"{RECORDS}/model") not in cost.requests


def test_a_run_for_single_gangs_removes_nothing(api):
    finish(api, "theirs", at=HOURS_AGO[3], labelled=True)
    settle(SmallSession(api, keep_finished=0, only=frozenset({"mine"})))
    assert left(api) == ["theirs"]


def test_what_is_running_is_never_removed_whatever_its_label_says(api):
    record = add_record(api, "hidden", phase="queued")
    record.raw["metadata"]["labels"]["muster.kube/phase"] = "complete"
    api.put(f"{RECORDS}/hidden", record.raw)
    settle(SmallSession(api, keep_finished=0, keep_finished_for=0.0), cycles=1)
    assert left(api) == ["hidden"]


def test_one_that_was_changed_after_it_was_seen_stays(api):
    """Others may mark it between the look at all of them and its turn."""
    for number in range(MOST_REMOVALS + 1):
        finish(api, f"gang-{number:03d}", at=HOURS_AGO[3], labelled=True)
    session = SmallSession(api, keep_finished=0)
    session.cycle()
    (last,) = left(api)
    raw = api.objects[f"{RECORDS}/{last}"]
    raw["metadata"]["annotations"]["muster.kube/keep"] = "true"
    api.put(f"{RECORDS}/{last}", raw)
    session.cycle()
    assert left(api) == [last]


def test_few_are_removed_in_one_cycle_and_they_are_looked_for_once_a_minute(api):
    for number in range(2 * MOST_REMOVALS):
        finish(api, f"gang-{number:03d}", at=HOURS_AGO[3], labelled=True)
    session = SmallSession(api, keep_finished=0)
    first, _cost = session.cycle()
    assert len(left(api)) == MOST_REMOVALS
    assert first.next_check is not None
    second, cost = session.cycle()
    assert left(api) == []
    assert cost.objects < MOST_REMOVALS
    assert second.next_check is None


def test_finished_ones_are_looked_for_again_after_a_minute(api):
    session = SmallSession(api, keep_finished=0)
    session.cycle()
    finish(api, "late", at=HOURS_AGO[3], labelled=True)
    for seconds, names in ((59, ["late"]), (1, [])):
        api.now += seconds
        session.cycle()
        assert left(api) == names


def test_a_ttl_is_known_to_the_next_dispatcher_too(api):
    finish(api, "brief", at=HOURS_AGO[1], ttl=3601)
    session = SmallSession(api)
    first, _cost = session.cycle()
    session.close()
    assert first.next_check is not None
    assert "muster.kube/expires" in api.objects[f"{RECORDS}/brief"]["metadata"]["annotations"]
    cycle, _cost = SmallSession(api).cycle()
    assert cycle.next_check == first.next_check


class SlowApi(CountingApi):
    """Deletes nothing before it is told to."""

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()

    def answer(self, method, url, body):
        if method == "DELETE":
            self.gate.wait(30)
        return super().answer(method, url, body)


def test_slow_removals_hold_nobody_up():
    api = SlowApi()
    for number in range(2 * MOST_REMOVALS):
        finish(api, f"gang-{number:03d}", at=HOURS_AGO[3], labelled=True)
    session = SmallSession(api, keep_finished=0)
    session.session.workers = workers = Workers(patience=0.05)
    try:
        for _number in range(3):
            cycle, _cost = session.cycle()
        assert len(workers.busy) == MOST_REMOVALS
        assert 0 < cycle.next_check - cycle.session.clock.now() < 1.5
        done = threading.Event()
        workers.run([Task("a gang of the same namespace", "team", done.set)])
        assert done.is_set()
    finally:
        api.gate.set()
        assert workers.drain(30)
    settle(session, 3)
    assert left(api) == []


def test_error_of_ours_about_one_record_leaves_the_others_alone(api, monkeypatch):
    for hours in (1, 2, 3):
        finish(api, f"gang-{hours}", at=HOURS_AGO[hours], labelled=True)
    real = retention.delete_record

    def delete(client, record, **more):
        """What nobody thought of."""
        if record.name == "gang-3":
            raise KeyError("nobody thought of this")
        real(client, record, **more)

    monkeypatch.setattr(retention, "delete_record", delete)
    session = SmallSession(api, keep_finished=0)
    cycle, _cost = session.cycle()
    assert left(api) == ["gang-3"]
    assert any("unforeseen KeyError" in text for text in cycle.session.journal.take()[1])
