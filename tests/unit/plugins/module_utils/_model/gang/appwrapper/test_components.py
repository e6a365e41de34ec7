# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AppWrappers with components: their objects become those of a gang."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.components import (
    gang_of_components,
    is_component_wrapper,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

CONTAINERS = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {"containers": CONTAINERS}}},
}
ODD = {
    "apiVersion": "example.com/v1",
    "kind": "Odd",
    "metadata": {"name": "o"},
    "spec": {"inner": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": CONTAINERS}}},
}


def wrapper(*components: t.Any, **metadata: t.Any) -> dict[str, t.Any]:
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "w", **metadata},
        "spec": {"suspend": True, "components": list(components)},
    }


def test_known_wrappers() -> None:
    assert is_component_wrapper(wrapper())
    assert not is_component_wrapper({**wrapper(), "apiVersion": "workload.codeflare.dev/v1beta1"})
    assert not is_component_wrapper({**wrapper(), "kind": "Job"})


def test_objects_queue_and_labels() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "fast", "team": "a", "muster.kube/gang": "mine"}
    found = gang_of_components(wrapper({"template": JOB}, labels=labels), "team")
    assert found == {
        "objects": [JOB],
        "podsets": None,
        "queue": "fast",
        "labels": {"kueue.x-k8s.io/queue-name": "fast", "team": "a"},
    }
    assert gang_of_components(wrapper({"template": JOB}), "team")["queue"] is None


def test_pods_are_taken_from_the_components_where_a_kind_is_not_known() -> None:
    declared = {"template": ODD, "podSets": [{"path": "template.spec.inner", "replicas": 3}]}
    [podset] = gang_of_components(wrapper(declared), "team")["podsets"]
    assert (podset["count"], podset["spec"], podset["labels"]) == (3, {"containers": CONTAINERS}, {"app": "x"})
    plain = {"template": {**ODD, "spec": {"inner": {"spec": {"containers": CONTAINERS}}}}}
    declared = {**plain, "podSets": [{"path": "template.spec.inner"}]}
    [podset] = gang_of_components(wrapper(declared), "team")["podsets"]
    assert (podset["count"], podset["labels"]) == (1, {})


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (wrapper(), "components: the AppWrapper wraps nothing"),
        (wrapper({"template": JOB}, {}), r"components\[1\]: template: the component holds no object"),
    ],
)
def test_wrappers_that_hold_nothing_are_refused(made: dict[str, t.Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        gang_of_components(made, "team")
