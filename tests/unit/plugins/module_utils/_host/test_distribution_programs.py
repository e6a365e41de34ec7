# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine that cannot be a node is refused with everything it lacks."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import read_catalogue
from ansible_collections.muster.kube.plugins.module_utils._host import distribution_programs as host_programs
from ansible_collections.muster.kube.plugins.module_utils._host.distribution_programs import (
    find_foreign_kubelet,
    find_host_programs,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import ClusterSpec, NodeGroup
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

CATALOGUE = read_catalogue(pathlib.Path(__file__).resolve().parents[5] / "roles" / "local_cluster" / "files")
REAL = ClusterSpec("c", (NodeGroup("real", 1, "", "", 110, real=True),), registry=True)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Root on a machine that has all programs, none of them real."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("containerd", "runc", "ctr", "ip", "umount", "registry", "bridge", "host-local", "loopback"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(host_programs, "SYSTEM_PATH", ())
    monkeypatch.setattr(host_programs, "CNI_DIRECTORIES", (str(programs),))
    monkeypatch.setattr(host_programs.os, "geteuid", lambda: 0)
    monkeypatch.setattr(host_programs, "find_foreign_kubelet", lambda _proc: None)
    return programs


def test_everything_is_found_also_under_another_name(machine):
    found = find_host_programs(CATALOGUE, REAL)
    assert found.processes == {"registry": machine / "registry", "containerd": machine / "containerd"}
    assert found.tools["runc"] == str(machine / "runc")
    assert found.cni_plugins == str(machine)


def test_all_that_is_missing_is_named_with_its_packages(machine):
    for name in ("containerd", "runc", "loopback", "registry"):
        (machine / name).unlink()
    with pytest.raises(MusterError) as refused:
        find_host_programs(CATALOGUE, REAL)
    for text in (
        "containerd (Debian package containerd)",
        "runc (Debian package runc)",
        "loopback (Debian package containernetworking-plugins)",
        "docker-registry (Debian package docker-registry)",
    ):
        assert text in str(refused.value)


def test_root_is_needed_for_a_real_node_and_not_for_a_registry(machine, monkeypatch):
    monkeypatch.setattr(host_programs.os, "geteuid", lambda: 1000)
    with pytest.raises(MusterError, match="Cannot start a real node: it needs root"):
        find_host_programs(CATALOGUE, REAL)
    assert find_host_programs(CATALOGUE, ClusterSpec("c", registry=True)).processes == {
        "registry": machine / "registry"
    }


def test_nothing_is_needed_without_them(machine):
    for path in machine.iterdir():
        path.unlink()
    assert find_host_programs(CATALOGUE, ClusterSpec("c")).processes == {}


def test_a_node_of_another_cluster_is_refused(machine, monkeypatch):
    monkeypatch.setattr(host_programs, "find_foreign_kubelet", lambda _proc: 4711)
    with pytest.raises(MusterError, match="process 4711 is a kubelet of somebody else"):
        find_host_programs(CATALOGUE, REAL)


def test_a_kubelet_of_ours_is_told_from_others(tmp_path):
    for pid, command, variables in (
        ("1", "init", b""),
        ("7", "kubelet", b"A=1\0MUSTER_LOCAL_CLUSTER=abc\0"),
    ):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text(f"{command}\n")
        (tmp_path / pid / "environ").write_bytes(variables)
    assert find_foreign_kubelet(tmp_path) is None
    (tmp_path / "7" / "environ").write_bytes(b"A=1\0")
    assert find_foreign_kubelet(tmp_path) == 7
