# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of published amounts: the same for the same amounts, and useless when anything in it is damaged."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.status import (
    AMOUNTS,
    QueueStatus,
    TreeStatus,
    status_from_text,
    status_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.tests.support.quota_trees import CPU, GPU

QUEUE = QueueStatus(1, 2, {word: {CPU: 1500, GPU: place} for place, word in enumerate(AMOUNTS)})
STATUS = TreeStatus("default", "d", "2026-11-18T12:00:00Z", {"q": QUEUE})


def test_text_is_read_back():
    assert status_from_text("default", status_text(STATUS)) == STATUS


def test_keys_of_a_later_version_are_kept():
    data = {**json.loads(status_text(STATUS)), "later": [1]}
    again = status_from_text("default", json.dumps(data))
    assert json.loads(status_text(again))["later"] == [1]


def test_only_amounts_make_a_difference():
    assert STATUS.same_amounts(dataclasses.replace(STATUS, as_of="later", unknown={"x": 1}))
    assert not STATUS.same_amounts(dataclasses.replace(STATUS, queues={}))
    assert not STATUS.same_amounts(dataclasses.replace(STATUS, digest="e"))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("format",), 2, "format 2"),
        (("tree",), "other", "status of tree 'other'"),
        (("queues", "q"), 1, "a mapping is needed"),
        (("queues", "q", "started"), -1, "started"),
        (("queues", "q", "resources", 0, "used"), None, "used"),
        (("queues", "q", "resources", 0, "used"), "-1", "less than nothing"),
        (("queues", "q", "resources", 0, "used"), "much", "much"),
    ],
)
def test_damage_is_told(path, value, words):
    data = json.loads(status_text(STATUS))
    home = data
    for key in path[:-1]:
        home = home[key]
    home[path[-1]] = value
    with pytest.raises(NewerVersion if path == ("format",) else BadInput, match=words):
        status_from_text("default", json.dumps(data))
