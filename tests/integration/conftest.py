# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One local cluster for each worker, one namespace and node pool for each test; the longest files run first.

Tests that need more than that have a cluster of another sort: with operators, whose many definitions make an API server
slow, or with a real node. One worker has all files of a sort, one after the other, and the cluster goes with the last
of them, since one that nobody uses takes its share of the processor. Files with a real node would take longer than all
others together: those that build images have such a cluster to themselves.

What files take is kept in durations.json (`make durations` writes it anew): a file that is not in it runs early.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import pathlib

import pytest
from xdist.scheduler import LoadFileScheduling

FULL = float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1
HERE = pathlib.Path(__file__).parent
DURATIONS = HERE / "durations.json"
# Starting these clusters takes long: all files that use one go to one worker. The first word that a file holds decides.
SORTS = {"BuildSite": "image-builds", "real_cluster": "real-node", "operator_cluster": "operators"}
# What ends with the group of files that is under way, and the cluster of that group once a test has asked for it.
GROUP = contextlib.ExitStack()
STARTED = {}
NUMBERS = itertools.count()


@functools.cache
def group_of(path):
    """The files that one worker runs together: a file alone, or all that use one of the clusters that start slowly."""
    text = path.read_text(encoding="utf-8")
    return next((group for word, group in SORTS.items() if word in text), path.stem)


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


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item, nextitem):
    """After the last test of a group its clusters go."""
    result = yield
    if nextitem is None or group_of(nextitem.path) != group_of(item.path):
        GROUP.close()
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    """A run that breaks off leaves no cluster either."""
    GROUP.close()


@pytest.fixture(scope="session")
def cluster():
    """The shared cluster: real control plane and kwok nodes."""
    # Imported late: the loader of collections is in place only after pytest has read this file.
    from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster

    with running_cluster(f"test-{os.getpid()}") as running:
        yield running


def cluster_of_group(start):
    """The cluster that all files of the group under way share; the first of them starts it."""
    if "cluster" not in STARTED:
        GROUP.callback(STARTED.clear)
        STARTED["cluster"] = GROUP.enter_context(start())
    return STARTED["cluster"]


@pytest.fixture(scope="module")
def operator_cluster():
    """A cluster with KubeRay, training-operator and Kueue, in full runs JobSet too."""
    from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster

    operators = ("kuberay", "training-operator", "kueue", *(("jobset",) if FULL else ()))
    return cluster_of_group(lambda: running_cluster(f"operators-{os.getpid()}", operators=operators))


@pytest.fixture(scope="module")
def real_cluster():
    """A cluster with this machine as a real node, two simulated ones, a registry, services and training-operator."""
    from ansible_collections.muster.kube.tests.support.real_cluster import reason_to_skip, running_real_cluster

    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    name = f"real-{os.getpid()}"
    return cluster_of_group(lambda: running_real_cluster(name, "training-operator", services=True))


def own_name(request):
    """The name of a test as that of a namespace; numbered, since namespaces stay when tests are over."""
    letters = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower().removeprefix("test_"))
    return f"t{next(NUMBERS)}-{letters[:45]}".strip("-")


@pytest.fixture
def real_namespace(real_cluster, request):
    """A namespace of the test's own in the cluster with the real node."""
    name = own_name(request)
    yield real_cluster.live.namespace(name)
    real_cluster.live.clear_namespace(name)


@pytest.fixture
def namespace(cluster, request):
    """A namespace of the test's own."""
    name = own_name(request)
    yield cluster.namespace(name)
    cluster.clear_namespace(name)


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
