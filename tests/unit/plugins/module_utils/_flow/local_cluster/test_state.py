# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state file, the directory of clusters and the lock."""

from __future__ import annotations

import os
import stat

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import (
    ClusterState,
    Layout,
    ProcessRecord,
    find_clusters,
    read_state,
    used_ports,
    write_state,
)
from ansible_collections.muster.kube.plugins.module_utils._host.files import exclusive
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError


@pytest.fixture
def layout(tmp_path):
    """A cluster that has no file yet."""
    return Layout(tmp_path, "c")


def saved(layout, ports):
    state = ClusterState.new(layout.name)
    state.ports = {"kube-apiserver": ports}
    state.processes["etcd"] = ProcessRecord("f", "/log", 5, "boot:1")
    write_state(layout, state)
    return state


def test_state_survives(layout):
    state = saved(layout, {"secure": 5})
    assert read_state(layout) == state
    assert state.server() == "https://127.0.0.1:5"
    assert stat.S_IMODE(layout.state.stat().st_mode) == 0o600


@pytest.mark.parametrize("option", ["audit_log", "services"])
def test_an_option_that_is_not_used_is_not_written_so_that_older_versions_can_read_the_file(layout, option):
    state = saved(layout, {"secure": 5})
    assert f'"{option}"' not in layout.state.read_text()
    setattr(state, option, True)
    write_state(layout, state)
    assert f'"{option}": true' in layout.state.read_text()
    assert read_state(layout) == state


def test_no_state_means_no_cluster(layout):
    assert read_state(layout) is None
    assert ClusterState.new("c").server() == ""
    assert ClusterState.new("c").uid != ClusterState.new("c").uid


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "Expecting"),
        ('{"state_version": 0}', "another version"),
        ('{"state_version": 1, "name": "c", "uid": "u", "processes": {}, "gpu": 1}', "newer version.*gpu"),
    ],
)
def test_a_spoilt_state_file_is_named(layout, content, message):
    layout.directory.mkdir(parents=True)
    layout.state.write_text(content)
    with pytest.raises(MusterError, match=message) as error:
        read_state(layout)
    assert error.value.target == str(layout.state)


def test_an_interrupted_write_leaves_the_old_file(layout, monkeypatch):
    before = saved(layout, {"secure": 5})

    def interrupted(_descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        saved(layout, {"secure": 6})
    assert read_state(layout) == before


def test_ports_of_other_clusters_are_known_even_if_one_is_spoilt(tmp_path):
    saved(Layout(tmp_path, "a"), {"secure": 1})
    saved(Layout(tmp_path, "b"), {"secure": 2})
    spoilt = Layout(tmp_path, "spoilt")
    spoilt.directory.mkdir(parents=True)
    spoilt.state.write_text("{")
    assert find_clusters(tmp_path) == ["a", "b", "spoilt"]
    assert used_ports(tmp_path) == {1, 2}
    assert used_ports(tmp_path, "a") == {2}


def test_a_second_run_waits_and_says_who_holds_the_lock(tmp_path):
    told = []
    with (
        exclusive(tmp_path / "lock", "cluster c", 0.0, told.append),
        pytest.raises(MusterError, match=rf"cluster c: it is held by process {os.getpid()}; waited 0 s"),
        exclusive(tmp_path / "lock", "cluster c", 0.2, told.append),
    ):
        pytest.fail("two runs hold the lock")
    assert told == [f"waiting for cluster c, held by process {os.getpid()}"]
    with exclusive(tmp_path / "lock", "cluster c", 0.0, told.append):
        assert len(told) == 1
