# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""fit_info and gang_info ask quota trees, and without the right to see all records what a dispatcher published."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import answer_fit
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource, read_gang
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.info import GangInfoOptions, answer_gangs
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.preview import preview
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import Stores, read_wanted
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.submit import find_gang
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.verdicts import (
    QuotaCompletion,
    one_queue,
    untold_standings,
)
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.gang_records import gang, terms
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Line
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare, leaf, phases, state, submit


@pytest.fixture
def stage():
    """Red has borrowed two cpu of blue; the nodes have room for much more."""
    with MemoryStage(1) as made:
        for name in ("red", "blue"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 8))
        declare(made, leaf("red", 4, namespaces=["red"]), leaf("blue", 4, namespaces=["blue"]))
        submit(made, "large", 6, "red", seconds=600)
        made.start("d")
        assert made.run_until(lambda: phases(made, large="red") == {"large": "running"})
        made.run_for(15)
        yield made


def fit(stage, *pods, user="admin", cumulative=True, queue=None):
    client = Line(stage.cluster).client(user)
    terms = {"cumulative": cumulative, "advice": True}
    sources = [GangSource(f"g{place}", "blue", cases.job(f"g{place}", "p", count)) for place, count in enumerate(pods)]
    complete = QuotaCompletion(client, LEASE, naming=one_queue(queue), **terms)
    answer = answer_fit(client, [read_gang(item, 0) for item in sources], **terms, complete=complete).as_result()
    return [(item["answer"], item["how"], item["reason"]) for item in answer["verdicts"]], answer, complete.as_of


def test_quota_comes_first_and_tells_what_is_short(stage):
    said, answer, told = fit(stage, 3)
    assert said == [("waits", None, "quota")]
    verdict = answer["verdicts"][0]
    assert [item["layer"] for item in verdict["layers"]] == ["quota", "namespace", "nodes", "slots"]
    assert verdict["layers"][0]["totals"] == {"cpu": {"short": "1"}}
    assert verdict["advice"][0]["change"] == "fewer_replicas"
    assert told is None


@pytest.mark.parametrize(("cumulative", "second"), [(True, ("waits", None, "quota")), (False, ("fits", "now", None))])
def test_gangs_that_fit_take_their_quota_from_those_after_them(stage, cumulative, second):
    assert fit(stage, 2, 1, cumulative=cumulative)[0] == [("fits", "now", None), second]


def test_who_may_not_see_all_records_is_answered_with_published_amounts(stage):
    stage.cluster.denials.append(Denial("visitor", verbs=("list",), plurals=("configmaps",), namespaces=("",)))
    said, answer, told = fit(stage, 3, user="visitor")
    assert said == [("waits", None, "quota")]
    assert answer["verdicts"][0]["layers"][0] == fit(stage, 3)[1]["verdicts"][0]["layers"][0]
    assert told is not None


def foresee(stage, *gangs, user="admin"):
    """What check mode of gang says of gangs: queue and pods."""
    client = Line(stage.cluster).client(user)
    sources = [
        gang(name=f"g{place}", namespace="blue", queue=queue, definition=cases.job(f"g{place}", "p", pods))
        for place, (queue, pods) in enumerate(gangs)
    ]
    asked = terms(*sources, check_mode=True, lease=LEASE)
    wanted, stores = read_wanted(asked), Stores(client, asked.store)
    found = [find_gang(client, stores, item) for item in wanted]
    return [outcome.as_result() for outcome in preview(client, asked, wanted, found)]


def test_check_mode_of_gang_tells_what_quota_says_to_each_gang_in_its_queue(stage):
    told = foresee(stage, (None, 2), (None, 1), ("red", 1), ("green", 1))
    assert [item["verdict"]["reason"] for item in told] == [None, "quota", "queue_forbidden", "queue_unknown"]
    assert told[0]["verdict"]["layers"][0]["layer"] == "quota"
    assert told[1]["verdict"]["layers"][0]["totals"] == {"cpu": {"short": "1"}}
    assert all(item["not_checked"] == [] for item in told)


def limited(stage, **limits):
    """Blue's queue with limits besides amounts, and another one that gangs of blue may name."""
    queues = leaf("blue", 4, namespaces=["blue"], **limits), leaf("other", 4)
    declare(stage, leaf("red", 4, namespaces=["red"]), *queues)


def test_a_spent_budget_is_told_with_its_numbers_and_another_queue(stage):
    limited(stage, budget={"hours": {"cpu": 0}})
    said, answer, _told = fit(stage, 1)
    assert said == [("waits", None, "budget_spent")]
    (tree,) = answer["verdicts"][0]["layers"][0]["trees"]
    reset = tree["reached"].pop("reset")
    assert tree["reached"] == {"kind": "budget", "queue": "all/blue", "resource": "cpu", "used": "0", "limit": "0"}
    assert reset in tree["detail"]
    assert [item["queue"] for item in answer["verdicts"][0]["advice"]] == ["other"]
    assert foresee(stage, (None, 1))[0]["verdict"]["layers"][0]["trees"][0]["reached"]["reset"] == reset


def test_users_are_told_when_they_have_enough(stage):
    """Of gangs that are asked about together each counts for those after it, as it will for a dispatcher."""
    limited(stage, user_limits={"running": 1})
    told = foresee(stage, (None, 1), (None, 1), ("other", 1))
    assert [item["verdict"]["reason"] for item in told] == [None, "user_limit", None]
    (tree,) = told[1]["verdict"]["layers"][0]["trees"]
    assert (tree["reached"]["kind"], tree["reached"]["used"], tree["reached"]["limit"]) == ("running", "1", "1")
    assert [item["queue"] for item in told[1]["verdict"]["advice"]] == ["other"]
    assert [item[2] for item in fit(stage, 1, 1)[0]] == [None, "user_limit"]
    assert [item[2] for item in fit(stage, 1, 1, cumulative=False)[0]] == [None, None]


def test_users_are_told_when_as_many_wait_as_are_asked(stage):
    limited(stage, user_limits={"pending": 2})
    assert [item["verdict"]["reason"] for item in foresee(stage, *[(None, 1)] * 3)] == [None, None, "user_limit"]


def test_records_tell_the_same_limits(stage):
    """What a dispatcher writes has the numbers that fit_info has."""
    limited(stage, budget={"hours": {"cpu": 0}})
    submit(stage, "waits", 1, "blue")
    assert stage.run_until(lambda: (state(stage, "waits", "blue").get("verdict") or {}).get("reason") is not None)
    written = state(stage, "waits", "blue")["verdict"]
    asked = fit(stage, 1)[1]["verdicts"][0]
    assert written["layers"][0]["layer"] == "quota"
    assert written["layers"][0]["trees"][0]["reached"] == asked["layers"][0]["trees"][0]["reached"]


def test_check_mode_of_gang_tells_when_amounts_were_published(stage):
    stage.cluster.denials.append(Denial("visitor", verbs=("list",), plurals=("configmaps",), namespaces=("",)))
    (told,) = foresee(stage, (None, 3), user="visitor")
    assert told["verdict"]["reason"] == "quota"
    assert told["not_checked"][0].startswith("what is used of quota after 20")


def test_without_trees_or_without_the_right_to_read_them_nothing_is_said_of_quota(stage):
    stage.cluster.denials.append(Denial("stranger", plurals=("configmaps",)))
    said, answer, _told = fit(stage, 3, user="stranger")
    assert said == [("fits", "now", None)]
    assert [item["layer"] for item in answer["verdicts"][0]["layers"]] == ["namespace", "nodes", "slots"]


def test_gangs_that_no_dispatcher_looked_at_are_told_what_quota_says(stage):
    """One that has a verdict tells it already; nothing is read then."""
    submit(stage, "waits", 3, "blue")
    client = Line(stage.cluster).client()
    records = Records(client, every_wrapper=False)
    fresh = [record for record in records.list(["blue"]) if record.name == "waits"]
    (told,) = untold_standings(client, LEASE, fresh).values()
    assert (told["passed"], told["totals"], told["as_of"]) == (False, {"cpu": {"short": "1"}}, None)
    assert told["text"].splitlines()[-1] == "queue all/red has borrowed 2 cpu"
    stage.run_for(5)
    line = Line(stage.cluster)
    assert untold_standings(line.client(), LEASE, Records(client, every_wrapper=False).list(["blue"])) == {}
    assert line.sent == []


def test_a_gang_of_a_run_that_sees_too_little_is_told_the_published_amounts(stage):
    stage.kill("d")
    for user in ("mine", "visitor"):
        stage.cluster.denials.append(Denial(user, verbs=("list",), plurals=("configmaps",), namespaces=("",)))
    submit(stage, "waits", 3, "blue")
    stage.start("mine", ["blue"])
    assert stage.run_until(lambda: (state(stage, "waits", "blue").get("verdict") or {}).get("reason") is not None)
    assert state(stage, "waits", "blue")["verdict"]["reason"] == "quota_not_visible"
    client = Line(stage.cluster).client("visitor")
    answer = answer_gangs(client, GangInfoOptions(namespace="blue", lease=LEASE))
    told = answer["gangs"][0]["quota"]
    assert (told["passed"], told["totals"]) == (False, {"cpu": {"short": "1"}})
    assert told["as_of"] is not None
