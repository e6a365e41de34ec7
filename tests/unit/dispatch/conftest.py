# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster in memory for each test, in virtual time, with the fixtures of the integration tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def cluster():
    """A cluster in memory, with AppWrappers."""
    # Imported late: the loader of collections is in place only after pytest has read this file.
    from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualCluster

    made = VirtualCluster()
    made.memory.serve_wrappers()
    with made.runs():
        yield made


@pytest.fixture
def namespace(cluster):
    """The namespace of the test."""
    return cluster.namespace("own")


@pytest.fixture
def proxy(cluster):
    """A proxy that counts writes and can be told to fail."""
    from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualProxy

    return VirtualProxy(cluster)


@pytest.fixture
def stage(cluster, namespace):
    """A dispatcher over the test's namespace."""
    from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage

    return Stage(cluster, namespace)


@pytest.fixture
def proxied(cluster, namespace, proxy):
    """The same, with the dispatcher behind the proxy."""
    from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage

    return Stage(cluster, namespace, str(proxy.kubeconfig))
