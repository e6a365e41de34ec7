# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which ranges Kueue lets be carried out for the objects that it manages."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.job_range import range_of
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.kueue import QUEUE_LABEL, refuse_beyond_kueue
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import DeclaredRange
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.elastic_cases import ELASTIC_CASES, GPU

CASES = {case.name: case for case in ELASTIC_CASES}


def judge(name, axis, place="labels", value="team"):
    """Look at an object with a range."""
    obj = copy.deepcopy(CASES[name].object)
    obj["metadata"].setdefault(place, {})[QUEUE_LABEL] = value
    found = range_of([obj], DeclaredRange(1, 2, resource=GPU, podset=CASES[name].podset, axis=axis))
    refuse_beyond_kueue([obj], found, "default")


@pytest.mark.parametrize(
    ("name", "axis", "words"),
    [
        ("Job", "per_pod", "not the GPUs of a pod"),
        ("PyTorchJob", "pods", "of a PyTorchJob Kueue lets no size change"),
        ("LeaderWorkerSet", "pods", "of a LeaderWorkerSet Kueue lets no size change"),
        ("Pod", "per_pod", "of a Pod Kueue lets no size change"),
    ],
)
def test_what_kueue_would_take_back_is_refused(name, axis, words):
    with pytest.raises(BadInput, match=words) as refused:
        judge(name, axis)
    assert (refused.value.action, name in refused.value.target) == ("resize", True)


@pytest.mark.parametrize("name", ["Job", "RayCluster"])
def test_the_pods_of_elastic_kinds_may_change(name):
    judge(name, "pods")


def test_an_annotation_of_old_versions_counts_and_an_empty_label_does_not():
    with pytest.raises(BadInput, match="Kueue"):
        judge("Pod", "per_pod", "annotations")
    judge("Pod", "per_pod", value="")
