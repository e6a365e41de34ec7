# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs whose start would not fit what has to hold it are refused before they wait."""

from __future__ import annotations

import hashlib
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec, read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.start_size import (
    require_start_fits,
    reserved_sizes,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def config(name: str) -> dict[str, t.Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def spec(objects: list[t.Any], **more: t.Any) -> GangSpec:
    return read_spec({"name": "g", "namespace": "team", "objects": objects, **more}, "g")


def podsets(number: int, length: int) -> list[dict[str, t.Any]]:
    """Podsets whose names cannot be packed."""
    return [
        {"name": f"w{index}", "count": 1, "requests": {f"x.example.com/{hash_of(index, length)}": 1}}
        for index in range(number)
    ]


def hash_of(index: int, length: int) -> str:
    """Letters without a pattern."""
    return hashlib.sha512(str(index).encode()).hexdigest()[:length]


def test_ordinary_gangs_fit() -> None:
    require_start_fits(spec([config("a")]))
    require_start_fits(spec([config("a")], podsets=podsets(20, 60)))
    require_start_fits(spec([config(f"c{number}") for number in range(500)]))


def test_a_state_that_would_be_too_large_is_refused_with_advice() -> None:
    with pytest.raises(BadInput, match="use fewer objects") as caught:
        require_start_fits(spec([config("a")], podsets=podsets(2000, 60)))
    assert caught.value.target == "gang team/g"


def test_a_list_of_objects_that_would_be_too_large_is_refused_with_advice() -> None:
    many = [config(f"{hash_of(number, 60)}-{'x' * 150}") for number in range(6000)]
    with pytest.raises(BadInput, match=r"the list of its 6000 objects needs [0-9]+ bytes of at most 1048576; use"):
        require_start_fits(spec(many))


def test_podsets_are_kept_by_name_count_and_requests() -> None:
    found = declared_podsets([{"name": "w", "count": 3, "requests": {"cpu": "500m"}}], namespace="team")
    assert reserved_sizes(tuple(found)) == ({"name": "w", "count": 3, "requests": {"cpu": "500m", "pods": "1"}},)
