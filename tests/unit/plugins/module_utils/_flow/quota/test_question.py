# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""quota_info by gang, definition, namespace, user and queue, on a cluster in memory."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.info import answer_quota
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions, QuotaQuestion
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Line
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare, leaf, phases, state, submit

USER = "muster.kube/user"


@pytest.fixture
def stage():
    """Red borrows two cpu of blue, which waits for its four; each team has a namespace."""
    with MemoryStage(1) as made:
        for name in ("red", "blue"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 2))
        declare(made, leaf("red", 4, namespaces=["red"]), leaf("blue", 4, namespaces=["blue"]), leaf("spare", 0))
        submit(made, "large", 6, "red", seconds=600)
        made.start("d")
        assert made.run_until(lambda: phases(made, large="red") == {"large": "running"})
        submit(made, "own", 4, "blue")
        made.cluster.change("configmaps", "blue", "own", lambda raw: mark(raw, "ann@example.com"))
        made.cluster.change("configmaps", "red", "large", lambda raw: mark(raw, "bob@example.com"))
        made.run_for(5)
        yield made


def mark(raw, user):
    """Say who queued a gang."""
    raw["metadata"].setdefault("annotations", {})[USER] = user


def ask(stage, *, tree=None, **question):
    line = Line(stage.cluster)
    answer = answer_quota(line.client, QuotaInfoOptions("muster-system", tree, question=QuotaQuestion(**question)))
    assert not [sent for sent in line.sent if sent[0] != "GET"]
    return answer


def layer(answer):
    """What the tree says in the verdict, and the levels of its queues by path."""
    told = answer["gang"]["verdict"]["layers"][0]
    assert told["layer"] == "quota"
    return told, {level["queue"]: level for level in told["trees"][0]["levels"]}


def test_a_waiting_gang_is_told_that_others_go_for_it(stage):
    """Once they may be evicted; until they have gone its quota is still short."""
    declare(
        stage,
        leaf("red", 4, namespaces=["red"]),
        leaf("blue", 4, namespaces=["blue"]),
        settings={"min_run_time": 0},
    )
    assert stage.run_until(lambda: "nominated" in state(stage, "own", "blue"), 60)
    gang = ask(stage, gang=("blue", "own"))["gang"]
    assert (gang["verdict"]["answer"], gang["verdict"]["how"]) == ("waits", "after_reclaim")
    assert gang["verdict"]["reason"] == "nominated"
    assert gang["verdict"]["detail"].startswith("until 20")


def test_a_gang_that_is_not_queued_yet_is_judged_for_the_user_who_is_asked_about(stage):
    limits = {"user_limits": {"resources": {"cpu": 1}}}
    declare(stage, leaf("red", 4, namespaces=["red"]), leaf("blue", 4, namespaces=["blue"], **limits))
    source = GangSource("new", "blue", cases.job("new", "p", 2))
    gang = ask(stage, source=source, namespace="blue", user="ann@example.com")["gang"]
    assert (gang["user"], gang["verdict"]["reason"]) == ("ann@example.com", "user_limit")
    told, _levels = layer({"gang": gang})
    assert (told["trees"][0]["reached"]["resource"], told["trees"][0]["reached"]["limit"]) == ("cpu", "1")


def test_a_waiting_gang_is_told_what_is_short_where_and_who_borrows_it(stage):
    answer = ask(stage, gang=("blue", "own"))
    gang = answer["gang"]
    assert (gang["phase"], gang["user"], gang["verdict"]["answer"], gang["verdict"]["reason"]) == (
        "queued",
        "ann@example.com",
        "waits",
        "quota",
    )
    told, levels = layer(answer)
    assert [levels["all/blue"][key] for key in ("nominal", "used", "lent", "headroom", "short")] == [
        "4",
        "0",
        "2",
        "2",
        "0",
    ]
    assert levels["all"]["short"] == "2"
    assert told["trees"][0]["borrowers"] == [{"queue": "all/red", "resource": "cpu", "borrowed": "2"}]
    assert [item["change"] for item in gang["verdict"]["advice"]] == ["fewer_replicas"]
    assert "run 2 instead of 4" in gang["verdict_text"]
    assert answer["namespace"]["name"] == "blue"


def test_a_started_gang_is_told_where_it_is_charged(stage):
    gang = ask(stage, gang=("red", "large"))["gang"]
    assert gang["verdict"] is None
    assert gang["charged"] == [
        {"tree": "default", "queue": "all/red", "resources": [{"flavor": None, "resource": "cpu", "amount": "6"}]}
    ]


@pytest.mark.parametrize(
    ("pods", "queue", "expected"),
    [
        (2, None, ("fits", "unproven", None)),
        (3, None, ("waits", None, "quota")),
        (9, None, ("never", None, "quota")),
        (1, "spare", ("fits", "borrowing", None)),
        (1, "red", ("waits", None, "queue_forbidden")),
    ],
)
def test_objects_that_are_not_queued_yet_are_judged_as_if_they_were(stage, pods, queue, expected):
    source = GangSource(namespace="blue", definition=cases.job("new", "p", pods))
    verdict = ask(stage, source=source, queue=queue)["gang"]["verdict"]
    assert (verdict["answer"], verdict["how"], verdict["reason"]) == expected
    assert [item["layer"] for item in verdict["layers"]] == ["quota", "namespace"]


def test_what_quota_says_before_is_what_the_dispatcher_says_after(stage):
    """The layer for a definition is the one in the record of the same gang."""
    told = ask(stage, source=GangSource(namespace="blue", definition=cases.job("same", "p", 3)))
    submit(stage, "same", 3, "blue", priority=5)
    stage.run_for(5)
    assert layer(ask(stage, gang=("blue", "same")))[0] == layer(told)[0]
    assert state(stage, "same", "blue")["verdict"]["layers"][0] == layer(told)[0]


def test_a_namespace_is_told_its_queue_its_gangs_and_all_of_its_rules(stage):
    hard = {"requests.cpu": "8", "limits.memory": "1Gi", "count/jobs.batch": "5", "requests.storage": "10Gi"}
    stage.cluster.add(
        "resourcequotas",
        {
            "metadata": {"name": "rq", "namespace": "red"},
            "spec": {"hard": hard, "scopes": ["NotTerminating"]},
            "status": {"hard": hard, "used": {"requests.cpu": "6", "count/jobs.batch": "1"}},
        },
    )
    limits = [{"type": "Container", "max": {"cpu": "2"}}]
    stage.cluster.add("limitranges", {"metadata": {"name": "lr", "namespace": "red"}, "spec": {"limits": limits}})
    answer = ask(stage, namespace="red")
    told = answer["namespace"]
    assert (told["started"], told["waiting"]) == (1, 0)
    assert told["queues"] == [{"tree": "default", "queue": "all/red", "reason": None, "detail": None}]
    (quota,) = told["resource_quotas"]
    assert (quota["name"], quota["scopes"]) == ("rq", ["NotTerminating"])
    assert {
        item["resource"]: (item["counts"], item["hard"], item["used"], item["left"]) for item in quota["resources"]
    } == {
        "requests.cpu": ("requests", "8", "6", "2"),
        "limits.memory": ("limits", "1Gi", "0", "1Gi"),
        "count/jobs.batch": ("objects", "5", "1", "4"),
        "requests.storage": ("storage", "10Gi", "0", "10Gi"),
    }
    assert told["limit_ranges"] == [{"name": "lr", "limits": limits}]
    assert "ResourceQuota rq [NotTerminating]: 6 of 8 requests.cpu used" in answer["text"]


def test_a_user_is_told_what_he_holds_in_each_queue(stage):
    told = ask(stage, user="bob@example.com")["user"]
    assert (told["started"], told["waiting"]) == (1, 0)
    assert [(item["queue"], item["resources"][0]["amount"]) for item in told["queues"]] == [("all/red", "6")]
    answer = ask(stage, user="bop@example.com")
    assert answer["user"]["queues"] == []
    assert answer["notes"] == ["no gang is that of user bop@example.com; did you mean bob@example.com?"]


def test_a_queue_shows_its_gangs_and_the_queues_above_and_below(stage):
    answer = ask(stage, queue="blue")
    assert [item["name"] for item in answer["trees"][0]["queues"]] == ["all", "blue"]
    assert [(item["name"], item["phase"]) for item in answer["gangs"]] == [("own", "queued")]
    assert [item["name"] for item in ask(stage, queue="all")["gangs"]] == ["own", "large"]
    assert "red" not in answer["trees"][0]["text"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"gang": ("blue", "onw")}, "did you mean own?"),
        ({"namespace": "bleu"}, "did you mean blue?"),
        ({"queue": "bule"}, "did you mean blue?"),
    ],
)
def test_a_wrong_name_is_told_with_the_nearest(stage, question, words):
    with pytest.raises(BadInput, match=words.replace("?", r"\?")):
        ask(stage, **question)
