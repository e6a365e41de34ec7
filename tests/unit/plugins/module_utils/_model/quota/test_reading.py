# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a tree: every field strictly, with its meaning."""

from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import tree_from_text, tree_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    FlavorResource,
    QueueBudget,
    UserLimits,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.quota_trees import CPU, queue, small_tree


def refusal(entry=None, *, name="default", **rest):
    """What is said of one wrong queue, or of another wrong part."""
    with pytest.raises(BadTree) as caught:
        read_tree(name, {"queues": [queue("root"), {"name": "a", "parent": "root", **(entry or {})}], **rest})
    assert len(caught.value.problems) == 1, caught.value.problems
    return str(caught.value.problems[0])


def test_every_field_of_a_queue_is_read():
    tree = small_tree(
        queue(
            "a",
            nominal={"cpu": "1500m", "memory": "2Gi"},
            lending_limit={"cpu": 1},
            borrowing_limit={"cpu": "250m"},
            weight=0.1,
            priority_cap=-5,
            namespaces=["y", "x", "x"],
            selector={"matchLabels": {"team": "a"}},
            default=True,
            reclaim="lower_priority",
            user_limits={"running": 2, "pending": 0, "resources": {"cpu": 3}},
            budget={"hours": {"nvidia.com/gpu": 1000}, "period": "quarter"},
            stop="hold",
        )
    )
    found = tree.by_name["a"]
    assert found.nominal == {CPU: 1500, FlavorResource("", "memory"): 2 * 1024**3}
    assert found.lending_limit == {CPU: 1000}
    assert found.borrowing_limit == {CPU: 250}
    assert found.weight == Fraction(1, 10)
    assert found.priority_cap == -5
    assert found.namespaces == ("x", "y")
    assert found.namespace_selector is not None
    assert found.namespace_selector.matches({"team": "a"})
    assert found.default
    assert found.reclaim == "lower_priority"
    assert found.user_limits == UserLimits(2, 0, {"cpu": 3000})
    assert found.budget == QueueBudget({"nvidia.com/gpu": 1000}, "quarter")
    assert found.stop == "hold"


def test_settings_and_flavors_are_read():
    tree = small_tree(
        queue("a", nominal={"big": {"cpu": 1}, "small": {"cpu": 2}}),
        flavors=[
            {"name": "big", "node_labels": {"size": "big"}, "tolerations": [{"key": "big", "operator": "Exists"}]},
            {"name": "small"},
        ],
        settings={
            "fair": "usage",
            "half_life": "1d",
            "min_run_time": 5,
            "nominate_timeout": "2m",
            "max_evictions": 0,
            "prices": {"cpu": "0.02", "big": {"cpu": 0.05}},
        },
    )
    big, small = (FlavorResource(name, "cpu") for name in ("big", "small"))
    assert tree.flavors[0].node_labels == {"size": "big"}
    assert tree.flavors[0].tolerations == ({"key": "big", "operator": "Exists"},)
    assert tree.by_name["a"].nominal == {big: 1000, small: 2000}
    found = tree.settings
    assert (found.fair, found.half_life, found.min_run_time, found.nominate_timeout) == ("usage", 86_400, 5, 120)
    assert found.max_evictions == 0
    assert found.prices == {big: Fraction(1, 20), small: Fraction(1, 50)}


def test_only_flavor_need_not_be_named():
    tree = small_tree(queue("a", nominal={"cpu": 1}), flavors=[{"name": "one"}])
    assert tree.by_name["a"].nominal == {FlavorResource("one", "cpu"): 1000}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"nominal": {"cpu": "many"}}, "root/a: nominal.cpu: quantity 'many': it does not begin with a number"),
        ({"nominal": {"cpu": "-1"}}, "root/a: nominal.cpu: quantity '-1' is negative"),
        ({"nominal": {"cpu": "1e400"}}, "root/a: nominal.cpu: quantity '1e400' is too large"),
        ({"nominal": {"c p u": 1}}, "root/a: nominal.c p u: this is no name of a resource"),
        ({"nominal": [1]}, "root/a: nominal: a mapping is needed"),
        ({"weight": "-1"}, "root/a: weight: a number that is not negative is needed"),
        ({"weight": "heavy"}, "root/a: weight: it does not begin with a number"),
        ({"priority_cap": "high"}, "root/a: priority_cap: a whole number"),
        ({"namespaces": ["x", "A.b"]}, "root/a: namespaces[1]: 'A.b' is no name of a namespace"),
        ({"selector": {"labels": {}}}, "root/a: selector.labels: unknown key"),
        ({"selector": {"matchLabels": {"a": 1}}}, "root/a: selector.matchLabels.a: a text is needed"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            "root/a: selector.matchExpressions[0].operator: 'Like' is none of",
        ),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "root/a: selector.matchExpressions[0].values: In and NotIn need values",
        ),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}},
            "root/a: selector.matchExpressions[0].values: texts are needed",
        ),
        ({"default": "yes please"}, "root/a: default: true or false is needed"),
        ({"reclaim": "some"}, "root/a: reclaim: 'some' is none of any, lower_priority, never"),
        ({"user_limits": {"runing": 1}}, "root/a: user_limits.runing: unknown key; did you mean running?"),
        ({"user_limits": {"running": -1}}, "root/a: user_limits.running: a whole number from 0"),
        ({"user_limits": {"resources": {"cpu": "x"}}}, "root/a: user_limits.resources.cpu: quantity 'x'"),
        ({"budget": {}}, "root/a: budget.hours: say how many hours"),
        ({"budget": {"hours": {"cpu": 1}, "period": "day"}}, "root/a: budget.period: 'day' is none of"),
        ({"stop": "now"}, "root/a: stop: 'now' is none of none, hold, drain"),
        ({"weigth": 1}, "root/a: weigth: unknown key; did you mean weight?"),
    ],
)
def test_wrong_fields_of_a_queue_are_told_by_its_path(entry, told):
    assert refusal(entry).startswith(told)


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        ({"flavors": [{"name": "A_b"}]}, "flavors[0]: name: 'A_b' cannot be the name of a flavor"),
        ({"flavors": [{"name": "a"}, {"name": "a"}]}, "flavors[1]: name: there is a flavor a already"),
        ({"flavors": [{"name": "a", "node_labels": {"x": 1}}]}, "flavors[0]: node_labels.x: a text is needed"),
        (
            {"flavors": [{"name": "a", "tolerations": [{"operator": "Near"}]}]},
            "flavors[0]: tolerations[0].operator: 'Near' is none of",
        ),
        ({"flavors": ["a"]}, "flavors[0]: a mapping is needed"),
        ({"flavors": [{"name": "a", "labels": {}}]}, "flavors[0]: labels: unknown key"),
        ({"settings": {"fairness": 1}}, "settings: fairness: unknown key; did you mean fair?"),
        ({"settings": {"half_life": 0}}, "settings: half_life: it must be longer than nothing"),
        ({"settings": {"min_run_time": "soon"}}, "settings: min_run_time: 'soon' is not a duration"),
        ({"settings": {"max_evictions": -1}}, "settings: max_evictions: a whole number"),
        ({"settings": {"prices": {"v100": {"cpu": 1}}}}, "settings: prices.v100: flavor 'v100' is not declared"),
        ({"settings": {"prices": {"cpu": "-1"}}}, "settings: prices.cpu: a number that is not negative"),
        ({"settings": 3}, "tree: settings: a mapping is needed"),
        ({"over_capacity": "ignore"}, "tree: over_capacity: 'ignore' is none of refuse, warn"),
        ({"queue": []}, "tree: queue: unknown key; did you mean queues?"),
        ({"backends": ["volcano"]}, "tree: backends: 'volcano' is none of embedded, kueue, resourcequota"),
        ({"backends": ["kueue", "embedded"]}, "tree: backends: embedded and kueue would each hand out the whole tree"),
        ({"backends": ["resourcequota"]}, "tree: backends: resourcequota only sets ceilings; add embedded or kueue"),
        ({"backends": "kueue"}, "tree: backends: a list is needed"),
        ({"label": "a b"}, "tree: label: 'a b' cannot be the name of a label"),
        ({"label": 3}, "tree: label: a text is needed"),
        ({"priorities": {"Urgent": 1}}, "tree: priorities.Urgent: this cannot be the name of an object"),
        ({"priorities": {"urgent": "1"}}, "tree: priorities.urgent: a whole number"),
        ({"priorities": {"urgent": None}}, "tree: priorities.urgent: it is missing"),
        ({"name": "quota_context"}, "tree: 'quota_context' cannot be part of a ConfigMap's name and a label"),
        ({"name": "x" * 64}, "tree: 'xxx"),
    ],
)
def test_other_wrong_parts_are_told_by_their_place(rest, told):
    assert refusal(**rest).startswith(told)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"name": "a b"}, "queues[1]: name: 'a b' cannot be the value of a label"),
        ({"name": "x" * 64}, "queues[1]: name: 'xxx"),
        ({"nam": "x"}, "queues[1]: name: it is missing"),
        ("a", "queues[1]: a mapping is needed, this is a str"),
    ],
)
def test_queues_that_cannot_be_named_are_told_by_their_place(entry, told):
    with pytest.raises(BadTree) as caught:
        read_tree(
            "default", {"queues": [queue("root"), entry if isinstance(entry, str) else {"parent": "root", **entry}]}
        )
    assert [str(problem).startswith(told) for problem in caught.value.problems] == [True], caught.value.problems


def test_tree_that_is_no_mapping_is_refused():
    with pytest.raises(BadInput, match="a mapping is needed"):
        read_tree("default", [])


def test_order_of_queues_in_the_declaration_does_not_matter():
    queues = [queue("root"), queue("b", "root"), queue("a", "root"), queue("c", "a")]
    assert read_tree("t", {"queues": queues}) == read_tree("t", {"queues": queues[::-1]})


def test_who_counts_and_by_which_label_gangs_name_their_queue():
    usual = small_tree(queue("a"))
    assert (usual.backends, usual.counted_by, usual.queue_label, usual.priorities) == (
        ("embedded",),
        "embedded",
        "default",
        {},
    )
    told = small_tree(
        queue("a", note="until spring"),
        backends=["resourcequota", "kueue", "kueue"],
        label="team.example.com/queue",
        priorities={"urgent": 10},
    )
    assert (told.backends, told.counted_by) == (("kueue", "resourcequota"), "kueue")
    assert (told.queue_label, told.priorities, told.by_name["a"].note) == (
        "team.example.com/queue",
        {"urgent": 10},
        "until spring",
    )
    assert tree_from_text("default", tree_text(told)) == told
