# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of dry runs: what is refused, what is only not checked, and what is in the way."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.dry_run import DryRun
from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import Refusal

CONFIGMAPS = "/api/v1/namespaces/team/configmaps"
JOBS = "/apis/batch/v1/namespaces/team/jobs"


def test_nothing_is_created(bench: t.Any) -> None:
    record = bench.queue()
    outcome = bench.dry_run(record)
    assert (outcome.refusal, outcome.not_checked, outcome.taken) == (None, (), None)
    assert (bench.client.dry_runs, bench.api.writes, bench.names()) == (2, [], [])


def without_owner(obj: t.Any) -> None:
    obj["metadata"].pop("ownerReferences", None)


def without_gang(obj: t.Any) -> None:
    obj["metadata"]["labels"].pop("muster.kube/gang")


@pytest.mark.parametrize(
    ("change", "lost"), [(without_owner, "the owner reference"), (without_gang, "the label muster.kube/gang")]
)
@pytest.mark.parametrize("keep", [False, True])
def test_object_that_would_lose_what_we_know_it_by_is_refused(
    bench: t.Any, change: t.Callable[[t.Any], None], lost: str, keep: bool
) -> None:
    notes = {"annotations": {"muster.kube/keep": "true"}} if keep else {}
    record = bench.queue(bench.config("a"), bench.job("b", **notes))
    bench.api.admit(f"{JOBS}$", change)
    refusal = bench.dry_run(record).refusal
    assert (refusal.kind, refusal.reason) == ("failed", "Refused")
    assert refusal.message.startswith(f"Job team/b: an admission webhook removed {lost}, ")


def test_first_refusal_ends_it(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", CONFIGMAPS, 422, "data: Invalid value")
    outcome = bench.dry_run(record)
    assert (outcome.refusal.kind, bench.client.dry_runs) == ("failed", 1)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, 'admission webhook "w" does not support dry run'),
        (403, 'error looking up service account team/a: serviceaccount "a" not found'),
    ],
)
def test_what_cannot_be_checked_alone_is_no_refusal(bench: t.Any, status: int, message: str) -> None:
    record = bench.queue()
    bench.api.fail("POST", JOBS, status, message)
    outcome = bench.dry_run(record)
    assert (outcome.refusal, outcome.not_checked) == (None, (f"Job team/b: {message}",))


def test_an_object_in_the_way_that_may_not_be_looked_at_makes_the_gang_wait(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.put(f"{JOBS}/b", bench.job("b"))
    bench.api.fail("GET", f"{JOBS}/b", 403, "you may not get jobs")
    outcome = bench.dry_run(record)
    assert (outcome.failure, outcome.refusal.kind) == (None, "requeue")
    assert "you may not get jobs" in outcome.delay[1]


def test_reference_to_something_else_is_a_refusal(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", JOBS, 403, 'error looking up service account team/a-b: serviceaccount "a-b" not found')
    assert bench.dry_run(record).refusal.kind == "failed"


def test_object_in_the_way_is_told_with_its_owner(bench: t.Any) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}
    bench.api.put(f"{JOBS}/b", bench.job("b", ownerReferences=[owner]))
    record = bench.queue()
    outcome = bench.dry_run(record)
    assert (outcome.refusal, outcome.taken) == (None, ("Job team/b", "Deployment web"))


def test_kept_object_and_leftover_are_no_obstacle(bench: t.Any) -> None:
    record = bench.start(bench.queue(bench.config("a", annotations={"muster.kube/keep": "true"}), bench.job("b")))
    bench.engine.stop(record, "LostRace", "")
    leftover = bench.plan(record)[1].object
    bench.engine.finish_stop(bench.again(record), bench.plan(record))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": bench.ticket_path(record).rpartition("/")[2], "uid": "u"}
    leftover["metadata"]["ownerReferences"] = [owner]
    bench.api.put(f"{JOBS}/b", leftover)
    queued = bench.again(record)
    outcome = bench.dry_run(queued)
    assert (queued.attempt, outcome.refusal, outcome.taken) == (2, None, None)


def test_server_in_trouble_is_asked_again_and_blamed_itself(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", JOBS, 503, times=2)
    bench.api.lose("POST", CONFIGMAPS)
    assert bench.dry_run(record).refusal is None
    bench.api.fail("POST", JOBS, 500, "failed calling webhook", times=99)
    refusal = bench.dry_run(record).refusal
    assert (refusal.kind, refusal.reason) == ("requeue", "ApiTrouble")


def test_server_that_does_not_answer_makes_the_gang_wait(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.lose("POST", JOBS, times=99)
    outcome = bench.dry_run(record)
    assert (outcome.refusal.kind, outcome.refusal.reason, outcome.taken) == ("requeue", "ApiTrouble", None)
    assert outcome.refusal.message.startswith("Job team/b: ")
    assert bench.client.dry_runs == 1 + bench.client.retry.tries


def test_what_is_refused_for_good_is_told_from_what_has_to_wait() -> None:
    fine, never, later = (
        DryRun(),
        DryRun(Refusal("failed", "Refused", "no")),
        DryRun(Refusal("requeue", "Quota", "full")),
    )
    assert [item.failure for item in (fine, never, later)] == [None, "no", None]
    assert (fine.delay, later.delay) == (None, ("Quota", "full"))
    assert DryRun(taken=("Job team/b", "Job x")).delay == ("name_taken", "Job team/b belongs to Job x")
