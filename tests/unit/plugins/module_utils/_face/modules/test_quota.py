# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of quota and quota_info."""

from __future__ import annotations

import random

import pytest
from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.auth import auth_argument_spec
from ansible_collections.muster.kube.plugins.module_utils._face.modules import quota, quota_info
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import (
    QuotaInfoOptions,
    QuotaQuestion,
    SubtreeSource,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.node_share import FROM_NODES, SHARE_KEYS
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import (
    FLAVOR_KEYS,
    NESTED_KEYS,
    QUEUE_KEYS,
    SETTING_KEYS,
    read_tree,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import tree_data
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaQueue, QuotaSettings
from ansible_collections.muster.kube.tests.support.quota_trees import random_tree
from ansible_collections.muster.kube.tests.support.random_size import examples


def read(face, **options):
    """The flow's options behind those of a task."""
    checked = ModuleArgumentSpecValidator(face.FACE.spec).validate(options)
    assert checked.error_messages == []
    return face.FACE.options(checked.validated_parameters, True)


def test_a_task_becomes_a_declaration():
    found = read(quota, queues=[{"name": "a", "nominal": {"cpu": 1}, "weight": 0.5}], settings={})
    assert (found.tree, found.namespace, found.state, found.check_mode) == ("default", "muster-system", "present", True)
    tree = read_tree(found.tree, found.declaration)
    assert tree.by_name["a"].nominal[tree.keys[0]] == 1000
    assert tree.settings == QuotaSettings()


def test_queues_come_from_the_task_or_from_mcad():
    assert read(quota, from_quota_subtrees={"tree": "quota_context"}).subtrees == SubtreeSource("quota_context")
    assert read(quota, queues=[{"name": "a"}]).subtrees is None
    both = {"queues": [{"name": "a"}], "from_quota_subtrees": {}}
    for options in ({}, both):
        assert ModuleArgumentSpecValidator(quota.FACE.spec, **quota.FACE.rules).validate(options).error_messages


def test_defaults_of_options_are_those_of_queues():
    found = read(quota, queues=[{"name": "a"}])
    assert read_tree("default", found.declaration).by_name["a"] == QuotaQueue("a")


def test_the_lease_says_where_trees_are():
    lease = {"namespace": "other"}
    assert read(quota, state="absent", lease=lease).namespace == "other"
    assert read(quota_info, lease=lease, tree="t") == QuotaInfoOptions("other", "t")
    assert read(quota_info) == QuotaInfoOptions("muster-system")


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (quota.FACE.spec["queues"]["options"], (*QUEUE_KEYS, FROM_NODES)),
        (quota.FACE.spec["queues"]["options"][FROM_NODES]["options"], SHARE_KEYS),
        (quota.FACE.spec["flavors"]["options"], FLAVOR_KEYS),
        (quota.FACE.spec["settings"]["options"], SETTING_KEYS),
        *((quota.FACE.spec["queues"]["options"][name]["options"], keys) for name, keys in NESTED_KEYS.items()),
    ],
)
def test_every_key_that_is_read_is_an_option(options, keys):
    assert set(options) == set(keys)


def test_the_connection_options_are_all_there():
    for face in (quota, quota_info):
        assert auth_argument_spec().items() <= face.FACE.spec.items()


def test_what_quota_info_tells_as_definition_is_accepted_as_a_task():
    chance = random.Random(15)
    for _number in range(examples(20)):
        tree = random_tree(chance)
        assert read_tree("default", read(quota, **tree_data(tree)).declaration) == tree


def test_questions_of_quota_info():
    asked = read(quota_info, gang={"name": "g"}).question
    assert (asked.gang, asked.source) == (("default", "g"), None)
    asked = read(quota_info, definition={"kind": "Job"}, namespace="n", queue="q").question
    assert (asked.source.namespace, asked.source.definition, asked.queue) == ("n", {"kind": "Job"}, "q")
    asked = read(quota_info, podsets=[{"count": 2}], user=None).question
    assert asked.source.podsets == ({"count": 2},)
    assert read(quota_info, user="u", queue="q").question == QuotaQuestion(user="u", queue="q")
