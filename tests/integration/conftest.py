# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One local cluster for each worker, one namespace and node pool for each test; the longest files run first.

What files take is kept in durations.json (`make durations` writes it anew): a file that is not in it runs early.
"""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from xdist.scheduler import LoadFileScheduling

FULL = float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1
HERE = pathlib.Path(__file__).parent
DURATIONS = HERE / "durations.json"
# Starting the cluster with the real node takes long: all files that use it go to one worker.
REAL_NODE = "real-node"


def group_of(path):
    """The files that one worker runs together: a file alone, or all that use the cluster with the real node."""
    return REAL_NODE if "real_cluster" in path.read_text(encoding="utf-8") else path.stem


def pytest_collection_modifyitems(items):
    """Everything here needs the cluster; the files that take longest come first."""
    here = [item for item in items if item.path.parent == HERE]
    groups = {path: group_of(path) for path in {item.path for item in here}}
    for item in here:
        item.add_marker("integration")
    seconds = seconds_of_groups(groups, json.loads(DURATIONS.read_text(encoding="utf-8")))
    here.sort(key=lambda item: (-seconds[groups[item.path]], groups[item.path]))
    items[:] = [item for item in items if item.path not in groups] + here


def seconds_of_groups(groups, recorded):
    """What each group of files takes; a new file counts as long as the longest, for it may be."""
    longest = max(recorded.values(), default=0.0)
    seconds = dict.fromkeys(groups.values(), 0.0)
    for path, group in groups.items():
        seconds[group] += recorded.get(path.name, longest)
    return seconds


class GroupScheduling(LoadFileScheduling):
    """Deal out groups of files."""

    def _split_scope(self, nodeid):
        """The group of a test."""
        return group_of(self.config.rootpath / nodeid.partition("::")[0])


def pytest_xdist_make_scheduler(config, log):
    """Deal out groups where files were asked for."""
    return GroupScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def cluster():
    """The shared cluster: real control plane, kwok nodes, KubeRay and training-operator, in full runs JobSet too."""
    # Imported late: the loader of collections is in place only after pytest has read this file.
    from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster

    operators = ("kuberay", "training-operator", *(("jobset",) if FULL else ()))
    with running_cluster(f"test-{os.getpid()}", operators=operators) as running:
        yield running


@pytest.fixture(scope="session")
def stock_cluster():
    """A cluster whose controllers are as slow as Kubernetes makes them; one for each worker that asks for it."""
    from ansible_collections.muster.kube.tests.support.shared_cluster import STOCK_FLAGS, running_cluster

    with running_cluster(f"stock-{os.getpid()}", component_flags=STOCK_FLAGS) as running:
        yield running


@pytest.fixture(scope="session")
def real_cluster():
    """A cluster with this machine as a real node, two simulated ones and a registry; one for each worker."""
    from ansible_collections.muster.kube.tests.support.real_cluster import reason_to_skip, running_real_cluster

    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    with running_real_cluster(f"real-{os.getpid()}") as running:
        yield running


@pytest.fixture
def real_namespace(real_cluster, request):
    """A namespace of the test's own in the cluster with the real node."""
    name = "t-" + "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())[:50].strip("-")
    yield real_cluster.live.namespace(name)
    real_cluster.live.drop_namespace(name)


@pytest.fixture
def namespace(cluster, request):
    """A namespace of the test's own."""
    name = "t-" + "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())[:50].strip("-")
    yield cluster.namespace(name)
    cluster.drop_namespace(name)


@pytest.fixture
def proxy(cluster, tmp_path):
    """A proxy before the API server that counts writes and can be told to fail."""
    from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy

    with ApiProxy(cluster.kubeconfig, tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def scale():
    """How much of the full size random suites run."""
    return float(os.environ.get("MUSTER_SCALE", "0.1"))


@pytest.fixture(scope="session")
def seed():
    """Seed of the random suites."""
    return int(os.environ.get("MUSTER_SEED", "1"))
