# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter that puts verdicts into words."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.filter.verdict_text import FilterModule
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import judge
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, room

to_text = FilterModule().filters()["verdict_text"]


def test_a_verdict_becomes_text():
    verdict = judge(room([node("a", cpu="1")]), gang(job("j", 2, requests={"cpu": "1"}), name="train")).as_dict()
    assert to_text(verdict).startswith("train: never fits")
    assert "1 cpu" in to_text(verdict)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("text", "this is a str"),
        (None, "this is a NoneType"),
        ([], "this is a list"),
        ({}, "this mapping lacks gang, answer"),
        ({"gang": "g", "answer": "fits"}, "this mapping lacks how"),
    ],
)
def test_anything_else_is_refused(value, words):
    with pytest.raises(AnsibleFilterError, match=words):
        to_text(value)
