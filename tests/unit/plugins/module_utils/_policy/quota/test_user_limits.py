# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one user may have in a queue and in all below one."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.user_limits import UserKey, UserUse, user_key
from ansible_collections.muster.kube.tests.support.gang_cases import config_map, gang_record
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree

ANN, BOB, NOBODY = UserKey("ann"), UserKey("bob"), UserKey("", "a")


def use(**limits):
    """A tree whose leaf x limits users; y does not."""
    return UserUse([small_tree(queue("x", user_limits=limits), queue("y"))])


def demand(cpu, **more):
    return {"p": {"cpu": cpu, **more}}


def refused(users, user=ANN, uid="u", leaf="x", cpu=1000, **more):
    found = users.refusal("default", leaf, user, uid, lambda: demand(cpu, **more))
    return found.words if found is not None else None


def test_a_tree_without_limits_limits_nobody():
    users = use()
    assert not users.in_force
    users.start("default", "x", ANN, demand(10**9))
    assert refused(users) is None


def test_started_gangs_are_counted_for_each_user_alone():
    users = use(running=2)
    for _turn in range(2):
        assert refused(users) is None
        users.start("default", "x", ANN, demand(1))
    assert refused(users) == "the user ann has 2 of 2 started gangs in queue root/x"
    assert refused(users, BOB) is None
    assert refused(users, leaf="y") is None
    assert refused(users, leaf=None) is None


def test_amounts_are_counted_over_all_podsets_and_resources():
    users = use(resources={"cpu": 4, "nvidia.com/gpu": 2})
    users.start("default", "x", ANN, {"p": {"cpu": 1000}, "q": {"cpu": 1500, "nvidia.com/gpu": 2}})
    assert refused(users, cpu=1500) is None
    words = "the user ann has 2500m of 4 cpu in queue root/x, and it asks for 1501m"
    assert refused(users, cpu=1501) == words
    assert refused(users, cpu=0, **{"nvidia.com/gpu": 1}) is not None
    # What it does not ask for cannot be too much.
    users.start("default", "x", ANN, demand(10_000))
    assert refused(users, cpu=0) is None


def test_of_waiting_gangs_the_first_are_asked():
    users = use(pending=2)
    for name, user in (("a1", ANN), ("a2", ANN), ("b1", BOB), ("a3", ANN)):
        users.wait("default", "x", user, name)
    assert [refused(users, ANN, name) is None for name in ("a1", "a2", "a3")] == [True, True, False]
    assert refused(users, BOB, "b1") is None
    assert (
        refused(users, ANN, "a3")
        == "2 waiting gangs of the user ann are before it, and 2 of one user are asked in queue root/x"
    )


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"running": 1}, ("running", None, "1", "1")),
        ({"resources": {"memory": "2Gi"}}, ("resources", "memory", "1Gi", "2Gi")),
        ({"pending": 1}, ("pending", None, "1", "1")),
    ],
)
def test_what_is_reached_is_told_in_numbers(limits, told):
    users = use(**limits)
    users.start("default", "x", ANN, demand(1000, memory=2**30))
    users.wait("default", "x", ANN, "first")
    users.wait("default", "x", ANN, "u")
    found = users.refusal("default", "x", ANN, "u", lambda: demand(1000, memory=2**31))
    assert (found.kind, found.resource, found.used, found.limit) == told
    assert (found.reason, found.queue, found.reset) == ("user_limit", "root/x", None)


def test_one_that_comes_last_is_told_of_those_that_wait_before_it():
    users = use(pending=1)
    assert users.surplus("default", "x", ANN) is None
    users.wait("default", "x", ANN, "first")
    assert users.surplus("default", "x", ANN).used == "1"
    assert users.surplus("default", "x", BOB) is None


@pytest.mark.parametrize("count", ["running", "pending"])
def test_nothing_at_all_may_be_allowed(count):
    users = use(**{count: 0})
    users.wait("default", "x", ANN, "u")
    assert refused(users) is not None


def test_a_queue_above_others_limits_what_a_user_has_in_all_of_them():
    queues = queue("root", user_limits={"running": 1}), queue("x"), queue("y")
    users = UserUse([small_tree(*queues)])
    users.start("default", "x", ANN, demand(1))
    assert refused(users, leaf="y") == "the user ann has 1 of 1 started gangs in queue root"


def test_gangs_without_a_user_are_those_of_one_in_each_namespace():
    def key(namespace, user=None):
        raw = gang_record("g", namespace, [config_map("m")])
        raw["metadata"]["annotations"] = {} if user is None else {"muster.kube/user": user}
        return user_key(record_from_api(raw))

    assert key("a") == key("a") == NOBODY != key("b")
    assert key("a", "ann") == key("b", "ann") == ANN
    users = use(running=1)
    users.start("default", "x", NOBODY, demand(1))
    assert refused(users, NOBODY) == "who is unknown in namespace a has 1 of 1 started gangs in queue root/x"
    assert refused(users, UserKey("", "b")) is None


def test_a_long_name_of_a_user_is_told_by_its_beginning():
    def name(text):
        raw = gang_record("g", "a", [config_map("m")])
        raw["metadata"]["annotations"] = {"muster.kube/user": text}
        return record_from_api(raw).user

    assert name("x" * 253) == "x" * 253
    assert len(name("x" * 254)) == 253
    assert len({name("x" * 300), name("x" * 301), name("x" * 299 + "y")}) == 3
