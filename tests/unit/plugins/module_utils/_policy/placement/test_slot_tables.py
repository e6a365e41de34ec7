# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdicts by slot tables are those of the plain way, whatever happened to the room, and cost what changed."""

from __future__ import annotations

import os
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._policy.placement import slot_tables
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import judge, occupy
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.kept_room import KeptRoom
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.slot_tables import Board, TableCase
from ansible_collections.muster.kube.tests.support.changing_cluster import ChangingCluster, draw_job, draw_shape
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, room

SEED = int(os.environ.get("MUSTER_SEED", "1"))
COURSES = int(1000 * float(os.environ.get("MUSTER_SCALE", "0.1")))


def draw_gang(chance, cluster, shapes):
    """A gang of one or more Jobs."""
    jobs = [draw_job(chance, cluster.name("g"), shapes) for _turn in range(chance.choice((1, 1, 1, 2, 3)))]
    namespace = chance.choice("ab")
    return Gang(cluster.name("gang"), namespace, tuple(infer_podsets(jobs, namespace=namespace)))


@pytest.mark.parametrize("number", range(COURSES // 10))
def test_tables_tell_what_the_plain_way_tells(number):
    for course in range(10):
        chance = random.Random(f"{SEED}/{number}/{course}")
        rules = chance.choice((0.0, 0.0, 0.2))
        cluster, kept, board = ChangingCluster(chance, rules=rules), KeptRoom(), Board()
        shapes = [draw_shape(chance, rules) for _turn in range(4)]
        gangs = [draw_gang(chance, cluster, shapes) for _turn in range(6)]
        for _step in range(5):
            for _turn in range(chance.randrange(4)):
                cluster.happen()
            present = kept.follow(cluster.snapshot()).twin()
            board.follow(present)
            for asked in chance.sample(gangs, 4):
                verdict = judge(present, asked, None, board.assess)
                assert verdict == judge(present, asked)
                if verdict.answer == "fits" and chance.random() < 0.5:
                    occupy(present, asked, verdict)


def test_one_change_is_one_look_of_each_table_that_is_asked(monkeypatch):
    looks = []
    update = slot_tables.SlotTable.update
    monkeypatch.setattr(slot_tables.SlotTable, "update", lambda table, n: (looks.append(n), update(table, n))[1])
    place = room([node(f"n{i}", cpu="4") for i in range(50)])
    board = Board()
    board.follow(place)
    small, large = gang(job("s", 1, requests={"cpu": "1"})), gang(job("l", 9, requests={"cpu": "3"}))
    for asked in (small, large):
        assert isinstance(board.assess(asked, place), TableCase)
    assert looks == []
    occupy(place, small, judge(place, small, None, board.assess))
    assert judge(place, large, None, board.assess) == judge(place, large)
    assert len(looks) == 1


def test_rules_about_other_pods_are_left_to_the_plain_way():
    place = room([node("n", cpu="4")])
    board = Board()
    board.follow(place)
    port = {"name": "main", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}
    assert not isinstance(board.assess(gang(job("j", 1, containers=[port])), place), TableCase)
    assert not isinstance(board.assess(gang(job("j", 1, requests={"cpu": "1"})), room([node("n", cpu="4")])), TableCase)
