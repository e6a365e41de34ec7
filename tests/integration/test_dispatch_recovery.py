# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recovering: whatever was left half done, replaced, forged or taken away, the next cycle brings it to an end."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, replace
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    owned_by_ticket,
    plan_objects,
)
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, actions, told, wait_gone
from ansible_collections.muster.kube.tests.support.gang_cases import claim
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until

Object = dict[str, t.Any]


@pytest.fixture
def stage(cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A dispatcher over the test's namespace."""
    made = Stage(cluster, namespace)
    yield made
    made.close()


@pytest.fixture
def proxied(cluster: LiveCluster, namespace: str, proxy: ApiProxy) -> t.Iterator[Stage]:
    """The same, with the dispatcher behind the proxy."""
    made = Stage(cluster, namespace, str(proxy.kubeconfig))
    yield made
    made.close()


def uid_of(stage: Stage, obj: Object) -> str | None:
    """The uid of a live object."""
    found = stage.find(obj)
    return None if found is None else str(found["metadata"]["uid"])


def test_a_replaced_record_gets_its_state_back_from_the_ticket(stage: Stage) -> None:
    stage.add_nodes(1)
    raw = stage.submit("gang", stage.job("gang", 2)).raw
    stage.run_until({"gang": "running"})
    job, ticket = uid_of(stage, stage.job("gang")), stage.state("gang").ticket_uid
    bare = {key: value for key, value in raw["metadata"].items() if key in ("name", "namespace", "labels")}
    replace(stage.client, stage.cluster.path(raw), {**raw, "metadata": bare})
    assert stage.record("gang").state is None
    result = stage.run_until({"gang": "running"})
    assert "recover" in actions(result, "gang")
    assert "start" not in actions(result, "gang")
    state = stage.state("gang")
    assert (uid_of(stage, stage.job("gang")), state.ticket_uid, state.attempt) == (job, ticket, 1)
    assert len(stage.pods()) == 2


def test_a_kept_claim_survives_an_attempt_and_goes_with_the_record(stage: Stage) -> None:
    stage.add_nodes(1)
    record = stage.submit("gang", claim("data"), stage.job("gang", 1, exit_code=1), requeue={"limit": 1})
    stage.run()
    before = stage.find(claim("data"))
    assert before is not None
    assert [item["uid"] for item in before["metadata"]["ownerReferences"]] == [record.uid]
    result = stage.run_until({"gang": "failed"})
    assert actions(result, "gang").count("start") == 1
    assert stage.state("gang").attempt == 2
    assert uid_of(stage, claim("data")) == before["metadata"]["uid"]
    delete(stage.client, stage.cluster.path(record.raw))
    # Claims of running pods are protected for a while; no pod uses this one.
    wait_gone("the claim", lambda: stage.find(claim("data")))


def test_a_child_that_comes_late_is_taken_too(stage: Stage) -> None:
    stage.add_nodes(1)
    stage.submit("gang", stage.job("gang"))
    stage.run_until({"gang": "running"})
    record = stage.record("gang")
    ticket = stage.state("gang").ticket_uid
    late = plan_objects(record.spec, record.uid, 1)[0].object
    stage.edit("gang", suspended=True)
    stage.run_until({"gang": "suspended"})
    assert stage.find(late) is None
    # The request of the dead attempt arrives now.
    stage.cluster.create(owned_by_ticket(late, ticket or ""))
    wait_gone("the late child", lambda: stage.find(late))
    assert stage.phase("gang") == "suspended"


def test_a_detached_gang_is_left_alone_and_its_pods_count(proxied: Stage, proxy: ApiProxy) -> None:
    proxied.add_nodes(1, cpu="2")
    record = proxied.submit("gang", proxied.job("gang", 1, cpu="1"))
    proxied.run_until({"gang": "running"})
    job = uid_of(proxied, proxied.job("gang"))
    delete(proxied.client, proxied.cluster.path(record.raw), propagation="Orphan")
    wait_until("the ticket to be let go", lambda: not proxied.tickets()[0]["metadata"].get("ownerReferences"))
    proxied.submit("other", proxied.job("other", 1, cpu="2"))
    proxied.run()
    proxy.forget()
    decision = told(proxied.run(), "other")
    assert (decision.action, decision.reason) == ("wait", "insufficient")
    assert [item for item in proxy.writes if item.path != proxied.lease_path] == []
    assert uid_of(proxied, proxied.job("gang")) == job
    assert len(proxied.tickets()) == len(proxied.pods()) == 1
