# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Places in the queue."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.position import (
    QueueReading,
    read_queue,
    waiting_gang,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.tests.support.gang_records import add_record, serve_wrappers, wrapper
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
    assert waiting_gang(add_record(api, phase=phase)) is None


def test_suspended_and_terminating_gangs_have_none(api):
    assert waiting_gang(add_record(api, suspended=True)) is None
    record = add_record(api)
    record.raw["metadata"]["deletionTimestamp"] = "2026-11-16T02:00:00Z"
    assert waiting_gang(record) is None


def test_a_gang_that_pauses_has_none(api):
    record = add_record(api, phase="queued", changes={"not_before": "2027-01-01T00:00:00Z"})
    assert QueueReading([record], "cluster", NOW).positions() == {}


def test_all_records_of_the_cluster(api):
    add_record(api)
    queue = read_queue(api.client(), ["team"])
    assert ([record.name for record in queue.records], queue.scope) == (["train"], "cluster")


def test_wrappers_without_our_mark_count_where_the_definition_is_ours(api):
    serve_wrappers(api)
    api.put("/apis/workload.codeflare.dev/v1beta1/namespaces/team/appwrappers/w", wrapper("w"))
    assert [record.name for record in read_queue(api.client(), []).records] == ["w"]


def test_the_namespace_alone_when_more_is_forbidden(api):
    add_record(api)
    api.fixed[("GET", "/api/v1/configmaps")] = [refused(403, "Forbidden", "no")]
    queue = read_queue(api.client(), ["team"])
    assert ([record.name for record in queue.records], queue.scope) == (["train"], "namespace")
    with pytest.raises(Forbidden):
        read_queue(api.client(), [])
