# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs as a parameter sweep makes them: many, alike in size, each with arguments of its own."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, told

Object = dict[str, t.Any]


def with_own_arguments(job: Object) -> Object:
    """The Job with arguments and a variable that no other has."""
    name = job["metadata"]["name"]
    job["spec"]["template"]["spec"]["containers"][0].update(args=["--run", name], env=[{"name": "RUN", "value": name}])
    return job


def test_all_start_in_one_cycle_where_there_is_room(stage: Stage) -> None:
    stage.add_nodes(4, cpu="40")
    for number in range(120):
        name = f"g{number:03}"
        stage.submit(name, with_own_arguments(stage.job(name, 1)))
    result = stage.run()
    assert collections.Counter(item.action for item in result.decisions) == {"start": 120}, result.warnings


def test_pods_that_are_missing_stop_nobody(stage: Stage) -> None:
    """The pods of the first gangs never come; there is room for one more all the same."""
    stage.add_nodes(4, cpu="10")
    for number in range(30):
        name = f"g{number:03}"
        stage.submit(name, with_own_arguments(stage.podless_job(name, 1)))
    stage.run()
    stage.submit("next", with_own_arguments(stage.job("next", 1)))
    assert told(stage.run(), "next").action == "start"
