# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of the roles dispatcher and inspection, without a cluster."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import (
    ComponentOptions,
    read_definitions,
)
from ansible_collections.muster.kube.tests.support.play import play_tasks

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"
# Names that YAML takes for something else.
PLACES = [{"name": name, "submitters": [], "inspectors": [{"kind": "User", "name": "1e3"}]} for name in ("123", "on")]
VARIABLES = {
    "dispatcher_namespace": "007",
    "dispatcher_account": "null",
    "dispatcher_namespaces": PLACES,
    "dispatcher_priority_level": "1",
    "dispatcher_concurrency_shares": 20,
    "dispatcher_all_subjects": [],
    "dispatcher_leases": {"resources": []},
    "inspection_namespaces": PLACES,
    "inspection_build_account": "1e3",
    "inspection_run_account": "true",
    "inspection_registry": True,
    "inspection_registry_namespace": "0x10",
    "inspection_registry_image": "5000",
    "inspection_registry_storage_class": "1.5",
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The templates of both roles, filled in."""
    tasks = {}
    for role in ("dispatcher", "inspection"):
        tasks[f"{role}_defaults"] = {"ansible.builtin.include_vars": {"file": str(ROLES / role / "defaults/main.yml")}}
        tasks[f"{role}_settings"] = {"ansible.builtin.set_fact": VARIABLES}
        template = ROLES / role / "templates" / "objects.yml.j2"
        text = f"{{{{ lookup('ansible.builtin.template', '{template}') }}}}"
        tasks[role] = {"ansible.builtin.debug": {"msg": [text]}}
    return play_tasks(tmp_path_factory.mktemp("play"), tasks)


@pytest.mark.parametrize(
    ("role", "places"), [("dispatcher", {"007", "123", "on"}), ("inspection", {"0x10", "123", "on"})]
)
def test_names_are_texts_whatever_they_look_like(texts, role, places):
    objects = read_definitions(ComponentOptions(role, "present", texts[role]["msg"]))
    assert {obj["metadata"]["namespace"] for obj in objects if "namespace" in obj["metadata"]} == places
