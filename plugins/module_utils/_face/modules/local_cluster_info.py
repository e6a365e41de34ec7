# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of local_cluster_info."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._face.cache import cache_argument_spec, cache_path
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face, Params
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import describe_clusters
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import ClusterInfoOptions


def _options(params: Params, _check_mode: bool) -> ClusterInfoOptions:
    return ClusterInfoOptions(cache=cache_path(params), name=params["name"])


FACE = Face(
    name="local_cluster_info",
    spec={"name": {"type": "str"}, **cache_argument_spec()},
    options=_options,
    work=lambda options, _call: {"clusters": describe_clusters(options.cache, options.name)},
)
