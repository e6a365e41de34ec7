# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machine is as before once its last real node is gone."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._host.machine_settings import (
    DIRECTORIES,
    KERNEL_SETTINGS,
    MachineSettings,
)


@pytest.fixture
def root(tmp_path):
    """A machine in a directory: kernel settings, and one of the shared places already there."""
    for name in KERNEL_SETTINGS:
        path = tmp_path / "proc/sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "var/lib/cni").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def clusters(tmp_path):
    """The directories of two clusters."""
    made = [tmp_path / "clusters" / name for name in ("a", "b")]
    for path in made:
        path.mkdir(parents=True)
    return made


def start_kubelet(root):
    """What a kubelet does to the machine."""
    (root / "proc/sys/vm/overcommit_memory").write_text("1\n")
    for name in DIRECTORIES:
        (root / name.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (root / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint").write_text("{}")


def test_the_last_one_restores_everything(root, clusters):
    host = MachineSettings(root)
    host.save(clusters[0])
    start_kubelet(root)
    host.save(clusters[1])
    host.restore(clusters[0])
    assert (root / "proc/sys/vm/overcommit_memory").read_text() == "1\n"
    host.restore(clusters[1])
    assert (root / "proc/sys/vm/overcommit_memory").read_text() == "0"
    assert list((root / "run").iterdir()) == []
    assert [path.name for path in (root / "var/lib").iterdir()] == ["cni"]


def test_what_others_put_there_stays(root, clusters):
    host = MachineSettings(root)
    host.save(clusters[0])
    start_kubelet(root)
    (root / "var/lib/kubelet/of-another").write_text("x")
    host.restore(clusters[0])
    assert [path.name for path in (root / "var/lib/kubelet").iterdir()] == ["of-another"]


def test_a_kubelet_that_was_there_before_keeps_its_files(root, clusters):
    start_kubelet(root)
    host = MachineSettings(root)
    host.save(clusters[0])
    host.restore(clusters[0])
    assert (root / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint").exists()


def test_a_cluster_deleted_by_hand_does_not_count(root, clusters):
    host = MachineSettings(root)
    for cluster in clusters:
        host.save(cluster)
    clusters[1].rmdir()
    host.restore(clusters[0])
    assert list((root / "run").iterdir()) == []


def test_leaving_twice_is_no_error(root, clusters):
    MachineSettings(root).restore(clusters[0])
    assert list((root / "run").iterdir()) == []
