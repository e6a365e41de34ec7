# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Lease of provisioning: taken over from the dead, respected while its holder lives, checked before each write."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.office import provisioning
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership
from ansible_collections.muster.kube.tests.support.component_stage import config_map
from ansible_collections.muster.kube.tests.support.memory_wire import Killed
from ansible_collections.muster.kube.tests.support.stack_stage import BASE, StackStage

MAPS = resource_path("v1", "configmaps", "team")


@pytest.fixture
def stage():
    return StackStage()


def office(stage, patience=1.0):
    """The right to write."""
    return provisioning(stage.line.client, "muster-system", patience, stage.told.append, stage.around)


def holder(stage):
    """Who holds the Lease."""
    return stage.cluster.get("leases", "muster-system", "provision")["spec"].get("holderIdentity")


def test_it_is_given_back_when_the_work_is_done_or_fails(stage):
    with office(stage):
        assert holder(stage)
    assert holder(stage) is None
    with pytest.raises(MusterError, match="on purpose"), office(stage):
        raise MusterError("fail", "it", "on purpose")
    assert holder(stage) is None


def test_of_one_that_was_killed_it_is_taken_over_when_it_has_expired(stage):
    with pytest.raises(Killed), office(stage):
        raise Killed
    began = stage.cluster.clock.now
    with office(stage):
        assert stage.cluster.clock.now - began >= 15
    assert any("who provisions" in text for text in stage.told)


def test_while_its_holder_renews_it_nobody_else_provisions(stage):
    with office(stage) as client:
        stage.cluster.listeners.clear()

        def renew():
            """As a run does in its pauses."""
            client.sleep(0.0)
            stage.cluster.clock.after(3.0, renew)

        stage.cluster.clock.after(3.0, renew)
        with pytest.raises(MusterError, match="provisions the cluster at present"):
            stage.task(BASE, wait_timeout=20.0)
        assert stage.cluster.all("customresourcedefinitions") == []


def test_a_long_work_keeps_it_in_its_pauses(stage):
    with office(stage) as client:
        for _turn in range(20):
            client.sleep(4.0)
        create(client, MAPS, config_map("a", "team"))


def test_who_has_lost_it_writes_nothing_more(stage):
    with office(stage) as client:
        create(client, MAPS, config_map("a", "team"))
        stage.cluster.change("leases", "muster-system", "provision", lambda obj: obj["spec"].update(holderIdentity="x"))
        stage.cluster.clock.advance(20.0)
        create(client, MAPS, config_map("b", "team"), dry_run=True)
        assert client.request("GET", MAPS).status == 200
        with pytest.raises(LostLeadership):
            delete(client, f"{MAPS}/a")
    assert [obj["metadata"]["name"] for obj in stage.cluster.all("configmaps", "team")] == ["a"]
    assert holder(stage) == "x"
