# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end-to-end tests of the AppWrapper operator that are about a queue, re-enacted with gangs in ConfigMaps."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import path_of
from ansible_collections.muster.kube.tests.support.dispatch_stage import actions
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster
from ansible_collections.muster.kube.tests.support.mcad_bench import Bench, starts


@pytest.fixture
def bench(cluster: LiveCluster, namespace: str) -> t.Iterator[Bench]:
    """A dispatcher over the test's namespace."""
    made = Bench(cluster, namespace)
    yield made
    made.close()


def test_basic_queueing(bench: Bench) -> None:
    """Two gangs fill the nodes, a small one waits without a pod, and runs when the first is deleted."""
    bench.add_nodes(1, cpu="2000m")
    for name in ("first", "second"):
        bench.submit(name, bench.deployment(name, 2, cpu="500m"))
    bench.run_until({"first": "running", "second": "running"})
    bench.submit("third", bench.deployment("third", 2, cpu="250m"))
    assert actions(bench.run(), "third") == ["wait"]
    verdict = bench.state("third").verdict or {}
    assert (verdict["answer"], verdict["reason"], bench.pods_of("third")) == ("waits", "insufficient", [])
    assert [len(bench.pods_of(name)) for name in ("first", "second")] == [2, 2]
    assert actions(bench.run(), "third") == ["wait"]
    delete(bench.client, path_of(bench.record("first")))
    result = bench.run_until({"third": "running"})
    assert starts(result, "third") == 1
    assert {pod["metadata"]["labels"]["app"] for pod in bench.pods() if "app" in pod["metadata"]["labels"]} == {
        "second",
        "third",
    }


def test_a_failing_job_is_retried_as_often_as_allowed(bench: Bench) -> None:
    bench.add_nodes(1)
    bench.submit("failing", bench.job("failing", 1, exit_code=1), requeue={"limit": 2})
    bench.submit("never", bench.job("never", 1, exit_code=1), requeue={"limit": 0})
    bench.submit("unsaid", bench.job("unsaid", 1, exit_code=1))
    result = bench.run_until(dict.fromkeys(("failing", "never", "unsaid"), "failed"))
    state = bench.state("failing")
    assert starts(result, "failing") == 3
    assert (state.requeues, state.attempt, state.transitions[-1].reason) == (2, 3, "RequeueLimit")
    assert state.transitions[-1].message.endswith("requeued 2 times, the limit is 2")
    undone = [item.reason for item in state.transitions if item.phase == "undoing"]
    assert undone == ["ItemFailed", "ItemFailed"]
    assert {name: starts(result, name) for name in ("never", "unsaid")} == {"never": 1, "unsaid": 1}
    assert (bench.state("never").transitions[-1].reason, bench.state("unsaid").transitions[-1].reason) == (
        "RequeueLimit",
        "ItemFailed",
    )
    assert actions(bench.run(), "failing") == []
    # The pods of the last attempt are left for whoever wants to read their logs.
    assert [pod["status"]["phase"] for pod in bench.pods_of("failing")] == ["Failed"]


def test_exit_codes_decide_about_retries(bench: Bench) -> None:
    """A terminal code ends it whatever the limit says; where codes to retry are listed, no other is retried."""
    bench.add_nodes(1)
    rules: dict[str, tuple[int, dict[str, t.Any]]] = {
        "terminal": (3, {"exit_codes": {"terminal": [3, 4]}, "requeue": {"limit": 5}}),
        "other": (1, {"exit_codes": {"terminal": [3, 4]}, "requeue": {"limit": 1}}),
        "retryable": (10, {"exit_codes": {"retryable": [10]}, "requeue": {"limit": 1}}),
        "unlisted": (11, {"exit_codes": {"retryable": [10]}, "requeue": {"limit": 5}}),
    }
    for name, (code, options) in rules.items():
        bench.submit(name, bench.job(name, 1, exit_code=code, cpu="100m"), **options)
    result = bench.run_until(dict.fromkeys(rules, "failed"))
    assert {name: starts(result, name) for name in rules} == {"terminal": 1, "other": 2, "retryable": 2, "unlisted": 1}
    ends = {name: bench.state(name).transitions[-1] for name in rules}
    assert {name: end.reason for name, end in ends.items()} == {
        "terminal": "ItemFailed",
        "other": "RequeueLimit",
        "retryable": "RequeueLimit",
        "unlisted": "ItemFailed",
    }
    assert ends["terminal"].message.endswith("exit code 3 is not retried")
    assert ends["unlisted"].message.endswith("no exit code that is retried")
