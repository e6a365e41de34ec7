# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layer quota: all trees must let a gang start, and the text tells where how much is short."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import QueueLevel
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import (
    QUOTA_REASONS,
    QuotaLayer,
    QuotaStanding,
    ReachedLimit,
    quota_lines,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.tests.support.quota_trees import GPU

CPU = FlavorResource("big", "cpu")
FITS = QuotaStanding("one", "fits", "a", "root/a", True, flavors={"w": "big", "v": ""})
WAITS = QuotaStanding(
    "two",
    "waits",
    "a",
    "root/a",
    reason="quota",
    short={GPU: 2, CPU: 500},
    levels=(
        QueueLevel("a", "root/a", GPU, 4, 1, 0, 3, 0),
        QueueLevel("root", "root", GPU, 8, 8, 0, 0, 0, short=2),
        QueueLevel("root", "root", CPU, 1000, 750, 0, 0, 250, short=500),
    ),
    borrowers=(QueueLevel("b", "root/b", GPU, 4, 7, 3, 0, 0),),
)
NEVER = QuotaStanding("three", "never", "a", "root/a", reason="quota", short={GPU: 9})


def test_one_tree_that_refuses_is_enough():
    assert QuotaLayer((FITS,)).passed
    assert not QuotaLayer((FITS, WAITS)).passed
    assert QuotaLayer((FITS, WAITS)).refusal is WAITS
    assert QuotaLayer((WAITS, NEVER)).refusal is NEVER
    assert QuotaLayer((FITS, WAITS)).borrows
    assert not QuotaLayer((WAITS,)).borrows


def test_short_is_the_most_of_any_tree():
    assert QuotaLayer((WAITS, NEVER)).short == {"nvidia.com/gpu": 9, "cpu": 500}


def test_layer_is_plain_data_with_quantities():
    data = QuotaLayer((FITS, WAITS)).as_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["trees"][0]["flavors"] == {"w": "big"}
    assert data["totals"] == {"cpu": {"short": "500m"}, "nvidia.com/gpu": {"short": "2"}}
    assert data["trees"][1]["levels"][2] == {
        "queue": "root",
        "flavor": "big",
        "resource": "cpu",
        "nominal": "1",
        "used": "750m",
        "borrowed": "0",
        "lent": "0",
        "headroom": "250m",
        "short": "500m",
    }
    assert data["trees"][1]["borrowers"] == [{"queue": "root/b", "resource": "nvidia.com/gpu", "borrowed": "3"}]


def test_text_names_queues_amounts_and_borrowers():
    assert quota_lines({"quota": QuotaLayer((FITS, WAITS)).as_dict()}) == [
        "  queue root: short 2 nvidia.com/gpu (nominal 8, used 8, borrowed 0, lent 0, headroom 0)",
        "  queue root: short 500m cpu of big (nominal 1, used 750m, borrowed 0, lent 0, headroom 250m)",
        "  queue root/b has borrowed 3 nvidia.com/gpu",
    ]


ROOT = pathlib.Path(__file__).parents[6]


@pytest.mark.parametrize(
    "page",
    [*(f"plugins/modules/{name}.py" for name in ("fit_info", "gang_info", "dispatch", "quota_info")), "docs/share.md"],
)
def test_every_reason_is_documented_where_it_is_told(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    marks = "`{}`" if page.endswith(".md") else "V({})"
    assert [word for word in (*QUOTA_REASONS, "after_reclaim") if marks.format(word) not in text] == []


def test_a_limit_that_is_reached_keeps_a_gang_waiting_that_could_fit():
    limit = ReachedLimit("user_limit", "running", "root/a", "1", "1", "ann has 1 of 1 started gangs")
    found = FITS.limited(limit)
    assert (found.answer, found.reason, found.detail) == ("waits", "user_limit", limit.words)
    assert found.as_dict()["reached"]["used"] == "1"
    assert FITS.limited(None) is FITS
    assert FITS.as_dict()["reached"] is None
    assert NEVER.limited(limit) is NEVER
