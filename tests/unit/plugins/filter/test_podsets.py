# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter podsets."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.filter.podsets import FilterModule, podsets

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "main", "resources": {"limits": {"cpu": "1.5", "memory": "2G", "nvidia.com/gpu": 1}}}]
    },
}
SHOWN = {"cpu": "1500m", "memory": "2G", "nvidia.com/gpu": "1"}


def test_one_object_gives_readable_podsets() -> None:
    assert podsets(POD) == [{"name": "p", "count": 1, "requests": SHOWN, "limits": SHOWN, "source": "Pod default/p"}]


def test_a_list_is_one_gang_in_a_namespace() -> None:
    found = podsets([POD, POD], namespace="demo")
    assert [(item["name"], item["source"]) for item in found] == [("p", "Pod demo/p"), ("p-2", "Pod demo/p")]


@pytest.mark.parametrize("value", ["kind: Pod", None, 3, [], ["x"], {"kind": "Pod"}, {**POD, "kind": "Thing"}])
def test_errors_become_filter_errors(value: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"muster\.kube\.podsets: Cannot infer the podsets of"):
        podsets(value)


def test_it_is_registered_under_its_name() -> None:
    assert FilterModule().filters() == {"podsets": podsets}
