# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of a real node that need no root: what is filled in, and that only what is ours is taken away."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import real_node
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.real_node import RealNode
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import (
    ClusterState,
    Layout,
    read_state,
    write_state,
)
from ansible_collections.muster.kube.plugins.module_utils._host.distribution_programs import HostPrograms
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import NodeGroup
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError


@pytest.fixture
def layout(tmp_path):
    """A cluster in a short enough place."""
    return Layout(pathlib.Path(tmp_path.root) / "c", "n")


@pytest.fixture
def node(layout):
    """A real node of which nothing was made yet."""
    state = ClusterState("n", "0123456789abcdef")
    host = HostPrograms({}, {"runc": "/sbin/runc", "ctr": "/bin/false", "ip": "/bin/false"}, "/cni")
    return RealNode(
        layout, state, NodeGroup("real", 1, "", "", 42, real=True), host, pathlib.Path("/programs/pause-abc")
    )


def test_everything_is_filled_in_once_the_network_is_chosen(node):
    node.state.subnet = "10.213.3.0/24"
    assert node.placeholders() == {
        "node": "real-0",
        "node_group": "real",
        "node_ip": "10.213.3.1",
        "pods": "42",
        "network": "muster-01234567",
        "subnet": "10.213.3.0/24",
        "runc": "/sbin/runc",
        "cni_plugins": "/cni",
        "sandbox_image": "localhost/muster/pause:abc",
        "service_address": "10.96.0.1",
    }


def test_the_network_is_chosen_once_and_remembered(node, tmp_path, monkeypatch):
    monkeypatch.setattr(real_node, "check_data_path", lambda _data: None)
    monkeypatch.setattr(real_node, "_read", lambda _path: "")
    for name, subnet in (("n", ""), ("other", "10.213.0.0/24")):
        write_state(Layout(tmp_path, name), ClusterState(name, "0" * 32, subnet=subnet))
    node.layout = Layout(tmp_path, "n")
    node.assign_subnet(lambda _text: None)
    assert node.state.subnet == "10.213.1.0/24"
    assert read_state(node.layout) == node.state
    before = node.layout.state.stat().st_mtime_ns
    node.assign_subnet(lambda _text: None)
    assert node.layout.state.stat().st_mtime_ns == before


def test_a_containerd_that_does_not_answer_is_told(node):
    with pytest.raises(MusterError, match="Cannot ask containerd"):
        node.ensure_sandbox_image(0.0)


def test_a_bridge_has_a_hardware_address_of_its_own_from_the_beginning(node, monkeypatch):
    asked = []
    monkeypatch.setattr(type(node), "_ip", lambda _self, *arguments: asked.append(arguments))
    node.state.subnet = "10.213.7.0/24"
    node.create_bridge()
    assert asked == [
        ("link", "add", "muster-01234567", "address", "0a:58:0a:d5:07:01", "type", "bridge"),
        ("link", "set", "muster-01234567", "up"),
        ("address", "replace", "10.213.7.1/24", "dev", "muster-01234567"),
    ]


def test_a_bridge_that_a_killed_run_left_unfinished_is_finished(node, monkeypatch):
    asked = []
    monkeypatch.setattr(type(node), "network", "lo")
    monkeypatch.setattr(type(node), "_ip", lambda _self, *arguments: asked.append(arguments))
    node.state.subnet = "10.213.7.0/24"
    node.create_bridge()
    assert asked == [("link", "set", "lo", "up"), ("address", "replace", "10.213.7.1/24", "dev", "lo")]


def test_the_address_of_services_is_put_on_the_bridge_and_taken_away(node, monkeypatch):
    asked = []
    monkeypatch.setattr(type(node), "_ip", lambda _self, *arguments: asked.append(arguments))
    node.set_service_address(True)
    node.set_service_address(False)
    assert asked == [("address", verb, "10.96.0.1/32", "dev", "muster-01234567") for verb in ("replace", "delete")]


@pytest.mark.parametrize(
    ("subnet", "listing", "expected"),
    [
        ("10.213.1.0/24", "7: b    inet 10.213.1.1/24 scope global b\n7: b    inet 10.96.0.1/32 b\n", (True, True)),
        ("10.213.1.0/24", "7: b    inet 10.213.1.1/24 scope global b\n", (True, False)),
        ("10.213.1.0/24", "", (False, False)),
        ("", "", (False, False)),
    ],
)
def test_a_bridge_is_whole_with_its_own_address_and_may_have_that_of_services(
    node, monkeypatch, subnet, listing, expected
):
    def run(command):
        assert command[-2:] == ["dev", "muster-01234567"]
        return real_node.subprocess.CompletedProcess(command, 0, listing, "")

    monkeypatch.setattr(real_node, "run_command", run)
    node.state.subnet = subnet
    assert (node.has_bridge(), node.has_service_address()) == expected


def test_a_bridge_that_cannot_be_made_is_named(node):
    with pytest.raises(MusterError, match="network interface muster-01234567"):
        node._ip("link", "add")


def test_controllers_that_a_v2_group_offers_are_handed_down(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu memory misc\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    real_node._enable_controllers(tmp_path)
    # The kernel adds each; a plain file keeps the last.
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"


def test_members_of_all_groups_below_are_found(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "cgroup.procs").write_text("")
    (tmp_path / "a" / "cgroup.procs").write_text("11\n0\n")
    (tmp_path / "a" / "b" / "cgroup.procs").write_text("12\n")
    assert sorted(real_node._members(tmp_path)) == [11, 12]


def test_empty_groups_are_removed_from_the_inside(tmp_path):
    (tmp_path / "g" / "a" / "b").mkdir(parents=True)
    real_node._remove_cgroup(tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_only_our_records_of_interfaces_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(real_node, "CNI_CACHE", tmp_path)
    names = ["muster-1-abc-eth0", "cni-loopback-abc-lo", "cni-loopback-def-lo", "podman-abd-eth0", "muster-12-x-eth0"]
    for name in names:
        (tmp_path / name).write_text("")
    real_node._remove_cni_cache("muster-1")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[2:])


def test_only_our_links_to_logs_are_removed(layout, tmp_path, monkeypatch):
    monkeypatch.setattr(real_node, "CONTAINER_LOGS", tmp_path)
    (tmp_path / "ours").symlink_to(layout.data / "pod-logs" / "x.log")
    (tmp_path / "other").symlink_to("/var/log/pods/x.log")
    (tmp_path / "plain").write_text("")
    real_node._remove_log_links(layout)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "plain"]


def test_sockets_are_removed_only_where_shims_keep_them(tmp_path):
    layout = Layout(tmp_path, "n")
    precious = tmp_path / "precious"
    precious.write_text("x")
    note = layout.data / "containerd/state/io.containerd.runtime.v2.task/k8s.io/abc/address"
    note.parent.mkdir(parents=True)
    note.write_text(f"unix://{precious}")
    real_node._remove_shim_sockets(layout)
    assert precious.exists()


def test_nothing_is_unmounted_outside_of_the_directory(tmp_path, monkeypatch):
    table = "".join(f"1 1 0:1 / {point} rw - tmpfs t rw\n" for point in (f"{tmp_path}/a", f"{tmp_path}/a/b", "/c"))
    called = []
    monkeypatch.setattr(real_node, "_read", lambda _path: table)

    def run(command):
        called.append(command[-1])
        return real_node.subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(real_node, "run_command", run)
    real_node.unmount_below(tmp_path)
    assert called == [f"{tmp_path}/a/b", f"{tmp_path}/a"]
