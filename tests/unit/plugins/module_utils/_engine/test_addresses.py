# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of placing: where objects lie, and what has no place."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.addresses import READY_ANNOTATION, address_objects
from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import Refusal
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import PlannedObject
from ansible_collections.muster.kube.tests.support.writable_api import discovery


def planned(obj: dict[str, t.Any]) -> PlannedObject:
    obj["metadata"]["namespace"] = "team"
    return PlannedObject(0, obj, (obj["apiVersion"], obj["kind"], "team", obj["metadata"]["name"]), False)


def test_addresses_are_found_once_for_each_group(bench: t.Any) -> None:
    plan = (planned(bench.config("a")), planned(bench.config("b")), planned(bench.job("c")))
    placed = address_objects(bench.client, plan)
    assert not isinstance(placed, Refusal)
    assert [(item.collection, item.path) for item in placed] == [
        ("/api/v1/namespaces/team/configmaps", "/api/v1/namespaces/team/configmaps/a"),
        ("/api/v1/namespaces/team/configmaps", "/api/v1/namespaces/team/configmaps/b"),
        ("/apis/batch/v1/namespaces/team/jobs", "/apis/batch/v1/namespaces/team/jobs/c"),
    ]
    assert [path for _method, path, _dry in bench.api.asked] == ["/api/v1", "/apis/batch/v1"]


def test_what_the_server_does_not_serve_is_refused(bench: t.Any) -> None:
    thing = planned({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}})
    refused = address_objects(bench.client, (thing,))
    assert isinstance(refused, Refusal)
    assert (refused.kind, "example.com/v1 Thing" in refused.message) == ("failed", True)


def test_cluster_scoped_kinds_are_refused(bench: t.Any) -> None:
    bench.api.fixed[("GET", "/apis/example.com/v1")] = [(200, discovery(Globe=("globes", False)))]
    refused = address_objects(
        bench.client, (planned({"apiVersion": "example.com/v1", "kind": "Globe", "metadata": {"name": "x"}}),)
    )
    assert isinstance(refused, Refusal)
    assert "cluster-scoped" in refused.message


@pytest.mark.parametrize(
    ("text", "ready"), [("Ready=True", ("Ready", "True")), (" Available=False", ("Available", "False"))]
)
def test_condition_to_wait_for(bench: t.Any, text: str, ready: tuple[str, str]) -> None:
    placed = address_objects(bench.client, (planned(bench.job("a", annotations={READY_ANNOTATION: text})),))
    assert not isinstance(placed, Refusal)
    assert placed[0].ready == ready


@pytest.mark.parametrize("text", ["", "Ready", "=True", "Ready="])
def test_condition_that_names_none_is_refused(bench: t.Any, text: str) -> None:
    refused = address_objects(bench.client, (planned(bench.job("a", annotations={READY_ANNOTATION: text})),))
    assert isinstance(refused, Refusal)
    assert (refused.kind, "Type=Status" in refused.message) == ("failed", True)
