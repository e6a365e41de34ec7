# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Local clusters for tests: started in-process by the same code the module calls, removed at the end."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import read_catalogue
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import (
    ensure_absent,
    ensure_present,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import ensure_programs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
)
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster

FILES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "local_cluster" / "files"

# What Kubernetes sets itself where nobody sets anything; the local cluster is faster, which hides windows.
STOCK_FLAGS = (
    (
        "kube-controller-manager",
        (
            ("kube-api-qps", "20"),
            ("kube-api-burst", "30"),
            ("concurrent-job-syncs", "5"),
            ("concurrent-gc-syncs", "20"),
        ),
    ),
)


def cache_directory() -> pathlib.Path:
    """Where programs and clusters are kept."""
    return pathlib.Path(os.environ.get("MUSTER_CACHE") or pathlib.Path.home() / ".cache" / "muster-kube")


def build_programs(*operators: str, **settings: t.Any) -> None:
    """Build what a cluster with these operators needs, which may take long; for fixtures, since tests have a limit."""
    catalogue = read_catalogue(FILES)
    names = catalogue.program_names(ClusterSpec("any", operators=operators, **settings))
    ensure_programs(catalogue, names, FILES, cache_directory(), lambda text: print(text, file=sys.stderr))


def built_program(name: str) -> pathlib.Path:
    """The directory of a program that no process of a cluster is, built if it has to be; for fixtures too."""
    catalogue = read_catalogue(FILES)
    built = ensure_programs(catalogue, [name], FILES, cache_directory(), lambda text: print(text, file=sys.stderr))
    return built[name].directory


@contextlib.contextmanager
def running_cluster(name: str, **settings: t.Any) -> t.Iterator[LiveCluster]:
    """A cluster of this name for as long as the block lasts."""
    request = ClusterOptions(ClusterSpec(name, **settings), cache_directory(), FILES, 300.0)
    result = ensure_present(request, lambda text: print(text, file=sys.stderr))
    try:
        yield LiveCluster(connect({"kubeconfig": result["kubeconfig"]}), result)
    finally:
        ensure_absent(request, lambda text: None)
