# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Trees in a cluster: written once, changed by compare-and-swap, and never taken from others."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import NameTaken
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import (
    create_tree,
    delete_tree,
    list_stored_trees,
    read_stored_tree,
    replace_tree,
)
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi, refused

MAPS = "/api/v1/namespaces/team/configmaps"
PATH = f"{MAPS}/muster-quota-default"
TREE = small_tree(queue("a", nominal={"cpu": 1}))
NEXT = small_tree(queue("a", nominal={"cpu": 2}))


@pytest.fixture
def api():
    return WritableApi()


def test_tree_is_stored_found_changed_and_deleted(api):
    client = api.client()
    assert read_stored_tree(client, "team", "default") is None
    made = create_tree(client, "team", TREE)
    assert made.tree == TREE
    replace_tree(client, made, NEXT)
    found = read_stored_tree(client, "team", "default")
    assert (found.tree, found.foreign, found.unreadable) == (NEXT, False, None)
    assert [item.name for item in list_stored_trees(client, "team")] == ["default"]
    delete_tree(client, found)
    assert list_stored_trees(client, "team") == []


def test_stored_text_names_format_and_tree(api):
    create_tree(api.client(), "team", TREE)
    stored = api.objects[PATH]
    text = json.loads(stored["data"]["tree.json"])
    assert (text["format"], text["tree"]) == (1, "default")
    assert stored["metadata"]["labels"] == {"muster.kube/quota-tree": "default"}


def test_tree_that_somebody_else_stored_first_is_not_overwritten(api):
    create_tree(api.client(), "team", NEXT)
    with pytest.raises(NameTaken):
        create_tree(api.client(), "team", TREE)


def test_change_of_somebody_else_is_not_overwritten(api):
    client = api.client()
    old = create_tree(client, "team", TREE)
    replace_tree(client, old, NEXT)
    with pytest.raises(KubeError):
        replace_tree(client, old, TREE)
    assert read_stored_tree(client, "team", "default").tree == NEXT


def test_missing_namespace_is_named(api):
    api.fixed["POST", "/api/v1/namespaces/gone/configmaps"] = [refused(404, "NotFound", "no namespace")]
    with pytest.raises(KubeError, match="the namespace gone does not exist; create it"):
        create_tree(api.client(), "gone", TREE)


@pytest.mark.parametrize(
    ("text", "newer"), [("{", False), ("{}", False), ('{"format":2}', True), ('{"tree":"other"}', False)]
)
def test_tree_that_cannot_be_read_says_why(api, text, newer):
    create_tree(api.client(), "team", TREE)
    api.objects[PATH]["data"]["tree.json"] = text
    found = read_stored_tree(api.client(), "team", "default")
    assert (found.tree, found.newer) == (None, newer)
    assert found.unreadable


def test_configmap_that_pretends_to_be_a_tree_is_left_out(api):
    body = {"kind": "ConfigMap", "metadata": {"name": "x", "namespace": "team"}, "data": {}}
    api.put(f"{MAPS}/x", {**body, "metadata": {**body["metadata"], "labels": {"muster.kube/quota-tree": "default"}}})
    api.put(PATH, {**body, "metadata": {**body["metadata"], "name": "muster-quota-default"}})
    assert list_stored_trees(api.client(), "team") == []
    assert read_stored_tree(api.client(), "team", "default").foreign
