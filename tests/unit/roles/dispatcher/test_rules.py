# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whoever installs the dispatcher by its role can queue and resize every kind that the collection knows."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import group_and_kind, resource_of
from ansible_collections.muster.kube.tests.support.elastic_cases import ELASTIC_CASES
from ansible_collections.muster.kube.tests.support.kind_cases import KIND_CASES

ROLE = pathlib.Path(__file__).resolve().parents[4] / "roles" / "dispatcher"
DEFAULTS = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
SPECS = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
# Who wants these adds them: a gang is no item of a gang, lists are taken apart, what has copies on every node or comes
# again and again waits for no turn, and the rest is what Deployments make.
NOT_QUEUED = {"AppWrapper", "CronJob", "DaemonSet", "List", "RayCronJob", "ReplicaSet", "ReplicationController"}


def granted(variable: str) -> set[tuple[str, str]]:
    """Groups and resources that the rules of a variable name."""
    return {(group, name) for rule in DEFAULTS[variable] for group in rule["apiGroups"] for name in rule["resources"]}


def named(obj: dict[str, t.Any]) -> tuple[str, str]:
    """Group and resource of an object."""
    group, kind = group_and_kind(obj)
    return group, resource_of(kind)


def test_every_kind_with_pods_may_be_created():
    kinds = {named(case.object) for case in KIND_CASES if case.object["kind"] not in NOT_QUEUED}
    assert kinds - granted("dispatcher_workload_rules") == set()


def test_every_kind_that_is_resized_in_place_may_be_patched():
    in_place = {named(case.object) for case in ELASTIC_CASES if {"scale", "suspend"} & set(case.methods)}
    assert in_place == granted("dispatcher_resize_rules")


@pytest.mark.parametrize("variable", ["dispatcher_workload_rules", "dispatcher_resize_rules"])
def test_what_is_documented_is_the_default(variable):
    assert SPECS[variable]["default"] == DEFAULTS[variable]
