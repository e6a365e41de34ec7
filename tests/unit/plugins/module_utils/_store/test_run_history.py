# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history of run times beside the Lease."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.history import HISTORY_KEY
from ansible_collections.muster.kube.plugins.module_utils._store.run_history import History, run_of
from ansible_collections.muster.kube.tests.support.dispatch_session import CountingApi, finish
from ansible_collections.muster.kube.tests.support.gang_records import add_record
from ansible_collections.muster.kube.tests.support.writable_api import refused

PATH = "/api/v1/namespaces/home/configmaps/muster-history"


@pytest.fixture
def api():
    return CountingApi()


def writes(api):
    return [method for method, path in api.writes if path.startswith(PATH.rpartition("/")[0])]


def test_a_completed_gang_tells_how_long_it_ran(api):
    assert run_of(finish(api, "train-x7k2p", queue="research")) == (("research", "train"), 600.0)
    assert run_of(finish(api, "broken", "failed")) is None
    assert run_of(add_record(api, "waiting")) is None


def test_what_was_seen_is_written_and_read_by_the_next_one(api):
    history = History(api.client(), "home")
    history.note(finish(api, "train-1"))
    assert history.usual() == {(None, "train"): 600.0}
    history.save(at_once=True)
    assert History(api.client(), "home").usual() == {(None, "train"): 600.0}
    assert writes(api) == ["POST"]


def test_gangs_that_complete_together_share_one_write(api):
    history = History(api.client(), "home")
    for number in range(5):
        history.note(finish(api, f"train-{number}"))
        history.save()
    assert writes(api) == []
    api.now += 10
    history.save()
    history.save()
    assert writes(api) == ["POST"]
    history.save(at_once=True)
    assert writes(api) == ["POST"]


def test_what_others_wrote_meanwhile_is_kept(api):
    one, two = History(api.client(), "home"), History(api.client(), "home")
    one.note(finish(api, "first"))
    two.note(finish(api, "second"))
    one.save(at_once=True)
    two.save(at_once=True)
    assert sorted(prefix for _queue, prefix in History(api.client(), "home").usual()) == ["first", "second"]


@pytest.mark.parametrize("code", [403, 404])
def test_where_nothing_may_be_written_nobody_tries_twice(api, code):
    api.fixed[("POST", PATH.rpartition("/")[0])] = [refused(code, "No", "no")]
    history = History(api.client(), "home")
    for number in range(2):
        history.note(finish(api, f"train-{number}"))
        history.save(at_once=True)
    assert (writes(api), history.usual()) == (["POST"], {(None, "train"): 600.0})


def test_a_map_that_others_filled_ends_no_dispatcher(api):
    filled = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "muster-history", "namespace": "home"}}
    api.put(PATH, {**filled, "binaryData": {"large": base64.b64encode(bytes(1024 * 1024)).decode()}})
    history = History(api.client(), "home")
    history.note(finish(api, "train-1"))
    history.save(at_once=True)
    history.note(finish(api, "train-2"))
    history.save(at_once=True)
    assert (writes(api), history.usual()) == ([], {(None, "train"): 600.0})


def test_a_conflict_is_tried_again_later(api):
    history = History(api.client(), "home")
    history.note(finish(api, "train-1"))
    api.fixed[("POST", PATH.rpartition("/")[0])] = [refused(409, "AlreadyExists", "no")]
    history.save(at_once=True)
    del api.fixed[("POST", PATH.rpartition("/")[0])]
    history.save(at_once=True)
    assert "train" in api.objects[PATH]["data"][HISTORY_KEY]


def test_where_nothing_may_be_read_there_is_no_history(api):
    api.fixed[("GET", PATH)] = [refused(403, "Forbidden", "no")]
    assert History(api.client(), "home").usual() == {}
