# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How an object gets its old size back when a resize came to nothing."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import Resize
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.rescaling import turned_back
from ansible_collections.muster.kube.tests.support.elastic_cases import ELASTIC_CASES


@pytest.mark.parametrize(
    ("kind", "size", "to", "method"),
    [
        # Workers that came in vain would end the job if they ended with 0.
        ("PyTorchJob", 2, 4, "suspend"),
        ("Job", 2, 4, "scale"),
        ("Job", 4, 2, "scale"),
    ],
)
def test_what_goes_back_to_less_shrinks_as_its_kind_does(kind: str, size: int, to: int, method: t.Any) -> None:
    (case,) = (item for item in ELASTIC_CASES if item.name == kind)
    made = copy.deepcopy(case.object)
    if kind == "PyTorchJob":
        made["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 8}
    range_ = {"min": 1, "max": 8, "axis": "pods", "podset": case.podset}
    spec = read_spec({"name": "g", "namespace": "a", "objects": [made], "elastic": {"range": range_}}, "g")
    resize = Resize(size, to, "scale", "", "2026-01-01T00:00:00Z", id="x", patched="2026-01-01T00:00:01Z")
    back = turned_back(spec, resize, "no room", "2026-01-01T00:01:00Z")
    assert (back.method, back.goal, back.back, back.patched) == (method, size, "no room", None)
