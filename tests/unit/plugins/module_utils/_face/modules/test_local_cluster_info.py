# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of local_cluster_info."""

from __future__ import annotations

import pathlib

from ansible_collections.muster.kube.plugins.module_utils._face.modules.local_cluster_info import FACE
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import ClusterInfoOptions


def test_options_become_typed():
    assert FACE.options({"cache": "/c", "name": None}, True) == ClusterInfoOptions(pathlib.Path("/c"))
    assert FACE.options({"cache": "/c", "name": "a"}, False) == ClusterInfoOptions(pathlib.Path("/c"), "a")
