# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Places in the queue."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.position import (
    QueueReading,
    read_queue,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.charging import applicant
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import create_tree
from ansible_collections.muster.kube.tests.support.gang_records import add_record, serve_wrappers, wrapper
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree
from ansible_collections.muster.kube.tests.support.writable_api import refused

NOW = 1794801600.0


def test_priority_then_age_then_uid(api):
    old = add_record(api, "old", created="2026-11-16T01:00:00Z")
    new = add_record(api, "new", created="2026-11-16T02:00:00Z")
    urgent = add_record(api, "urgent", created="2026-11-16T03:00:00Z", priority=1)
    places = QueueReading([new, old, urgent], "cluster", NOW).positions()
    assert places == {urgent.uid: 1, old.uid: 2, new.uid: 3}


@pytest.mark.parametrize("phase", ["running", "suspended", "complete", "undoing"])
def test_only_gangs_that_wait_have_a_place(api, phase):
    assert applicant(add_record(api, phase=phase)) is None


def test_suspended_and_terminating_gangs_have_none(api):
    assert applicant(add_record(api, suspended=True)) is None
    record = add_record(api)
    record.raw["metadata"]["deletionTimestamp"] = "2026-11-16T02:00:00Z"
    assert applicant(record) is None


def test_a_gang_that_pauses_has_none(api):
    record = add_record(api, phase="queued", changes={"not_before": "2027-01-01T00:00:00Z"})
    assert QueueReading([record], "cluster", NOW).positions() == {}


def test_all_records_of_the_cluster(api):
    add_record(api)
    queue = read_queue(api.client(), ["team"], "muster-system")
    assert ([record.name for record in queue.records], queue.scope) == (["train"], "cluster")


def test_wrappers_without_our_mark_count_where_the_definition_is_ours(api):
    serve_wrappers(api)
    api.put("/apis/workload.codeflare.dev/v1beta1/namespaces/team/appwrappers/w", wrapper("w"))
    assert [record.name for record in read_queue(api.client(), [], "muster-system").records] == ["w"]


def test_the_namespace_alone_when_more_is_forbidden(api):
    add_record(api)
    api.fixed[("GET", "/api/v1/configmaps")] = [refused(403, "Forbidden", "no")]
    queue = read_queue(api.client(), ["team"], "muster-system")
    assert ([record.name for record in queue.records], queue.scope) == (["train"], "namespace")
    with pytest.raises(Forbidden):
        read_queue(api.client(), [], "muster-system")


def test_a_place_is_that_in_the_own_queue_by_the_priority_that_counts_there(api):
    """A high priority in a queue with a cap counts no more than the cap; those of other queues are not before it."""
    tree = small_tree(queue("a", priority_cap=1), queue("b", default=True))
    gangs = [
        add_record(api, "first", queue="a", priority=1, created="2026-11-16T01:00:00Z"),
        add_record(api, "loud", queue="a", priority=9, created="2026-11-16T02:00:00Z"),
        add_record(api, "other", created="2026-11-16T03:00:00Z"),
        add_record(api, "lost", queue="c", created="2026-11-16T04:00:00Z"),
    ]
    places = QueueReading(gangs, "cluster", NOW, (tree,)).positions()
    assert [places[record.uid] for record in gangs] == [1, 2, 1, 1]


def test_trees_and_labels_are_read_as_far_as_they_may_be(api):
    labels = {"metadata": {"name": "team", "labels": {"kind": "x"}}}
    api.put("/api/v1/namespaces/team", labels)
    create_tree(api.client(), "muster-system", small_tree(queue("a", selector={"matchLabels": {"kind": "x"}})))
    found = read_queue(api.client(), [], "muster-system")
    assert ([tree.name for tree in found.trees], found.namespaces["team"]) == (["default"], {"kind": "x"})
    path = "/api/v1/namespaces/muster-system/configmaps"
    api.fixed[("GET", path)] = [refused(403, "Forbidden", "no")]
    assert read_queue(api.client(), [], "muster-system").trees == []
