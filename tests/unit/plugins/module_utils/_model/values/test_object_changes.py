# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two versions of an object: what covers what, what differs, and what nobody is shown."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.object_changes import (
    covers,
    described_part,
    differing_parts,
    without_secrets,
)


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": 1}]}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        (None, {"a": 1}, False),
    ],
)
def test_an_object_covers_another_that_asks_for_less(present, wanted, expected):
    assert covers(present, wanted) is expected


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 3], False),
        ([1, 2], [2, 1], False),
        ({"a": 1}, [1], False),
        ([1], {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        (1, 1, True),
        (1, 2, False),
    ],
)
def test_every_part_has_to_be_covered(present, wanted, expected):
    assert covers(present, wanted) is expected


def test_the_server_s_own_fields_are_no_part_of_a_description():
    metadata = {"name": "x", "labels": {"a": "b"}, "uid": "u", "resourceVersion": "1", "generation": 2}
    obj = {"kind": "Job", "metadata": {**metadata, "managedFields": [], "creationTimestamp": "t"}, "status": {"a": 1}}
    assert described_part(obj) == {"kind": "Job", "metadata": {"name": "x", "labels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, ({}, {})),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, ({"b": 2}, {"b": 3})),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}, ({"a": {"y": 2}}, {"a": {}})),
        ({}, {"a": None}, ({}, {"a": None})),
        ({"a": [1, 2]}, {"a": [2, 1]}, ({"a": [1, 2]}, {"a": [2, 1]})),
        ({"a": {"x": 1}}, {"a": 1}, ({"a": {"x": 1}}, {"a": 1})),
    ],
)
def test_only_fields_that_differ_are_shown(before, after, expected):
    assert differing_parts(before, after) == expected


def test_values_of_secrets_are_not_shown():
    before = {"data": {"old": "x", "both": "y"}}
    after = {"data": {"both": "z", "new": "w"}, "stringData": "text", "type": "Opaque"}
    shown = without_secrets("Secret", before, after)
    assert shown == (
        {"data": {"old": "(not shown)", "both": "(not shown)"}},
        {
            "data": {"both": "(not shown, other than before)", "new": "(not shown)"},
            "stringData": "(not shown)",
            "type": "Opaque",
        },
    )
    assert without_secrets("ConfigMap", before, after) == (before, after)


def test_what_kubectl_notes_of_a_secret_is_not_shown():
    noted = {"kubectl.kubernetes.io/last-applied-configuration": '{"data":{"a":"b"}}', "mine": "1"}
    (_before, after) = without_secrets("Secret", {}, {"metadata": {"name": "a", "annotations": noted}})
    assert after == {"metadata": {"name": "a", "annotations": {**dict.fromkeys(noted, "(not shown)"), "mine": "1"}}}
