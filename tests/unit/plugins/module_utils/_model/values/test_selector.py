# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selectors: every operator, and the API's rules for what is empty or missing."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import (
    LabelSelector,
    Requirement,
    label_selector,
    node_terms,
)

LABELS = {"zone": "a", "rank": "5", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("none", "In", ("a",), False),
        ("empty", "In", ("",), True),
        ("zone", "NotIn", ("a",), False),
        ("zone", "NotIn", ("b",), True),
        ("none", "NotIn", ("a",), True),
        ("zone", "Exists", (), True),
        ("none", "Exists", (), False),
        ("zone", "DoesNotExist", (), False),
        ("none", "DoesNotExist", (), True),
        ("rank", "Gt", ("4",), True),
        ("rank", "Gt", ("5",), False),
        ("rank", "Lt", ("6",), True),
        ("rank", "Lt", ("5",), False),
        ("zone", "Gt", ("4",), False),
        ("none", "Gt", ("4",), False),
        ("rank", "Gt", ("4", "3"), False),
        ("rank", "Gt", ("x",), False),
        ("rank", "Gt", ("0_1",), False),
        ("rank", "Like", ("5",), False),
    ],
)
def test_each_operator(key, operator, values, expected):
    assert Requirement(key, operator, values).matches(LABELS) is expected


def test_a_selector_is_a_conjunction_and_an_empty_one_matches_everything():
    raw = {"matchLabels": {"zone": "a"}, "matchExpressions": [{"key": "rank", "operator": "Exists"}]}
    both = label_selector(raw)
    assert both.matches(LABELS)
    assert not both.matches({"zone": "a"})
    assert label_selector({}).matches({})
    assert label_selector({"matchLabels": None, "matchExpressions": None}) == LabelSelector()


def test_no_selector_stays_none():
    assert label_selector(None) is None


def test_values_that_yaml_reads_as_numbers_are_texts():
    raw = {"matchLabels": {"rank": 5}, "matchExpressions": [{"key": "rank", "operator": "In", "values": [5]}]}
    assert label_selector(raw).matches(LABELS)


def test_node_terms_are_alternatives_of_conjunctions():
    raw = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
            {
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
            },
        ]
    }
    first, second = node_terms(raw)
    assert first.matches("n9", {"zone": "b"})
    assert second.matches("n1", {"zone": "a"})
    assert not second.matches("n2", {"zone": "a"})
    assert not second.matches("n1", {"zone": "b"})


def test_an_empty_term_matches_no_node_and_no_selector_is_none():
    (term,) = node_terms({"nodeSelectorTerms": [{"matchExpressions": None, "matchFields": []}]})
    assert not term.matches("n1", {"zone": "a"})
    assert node_terms(None) is None
    assert node_terms({"nodeSelectorTerms": None}) == ()
