# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a task says of a chart is checked, laid together as helm does it, and kept from being seen."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource, hide, merged
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


def source(**more):
    """A source with what every one needs."""
    return HelmSource(**{"component": "widgets", "chart": "charts/widget", "release": "w", "namespace": "home", **more})


def test_secret_values_are_laid_over_values_key_by_key():
    values, secret = {"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2], "e": 3}, "d": {"f": 1}}
    assert merged(values, secret) == {"a": {"b": 1, "c": [2], "e": 3}, "d": {"f": 1}}
    assert source(values=values, secret_values=secret).merged_values()["a"]["e"] == 3
    assert values == {"a": {"b": 1, "c": [1]}, "d": 1}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"release": "Upper"}, "component widgets: release: 'Upper' is no name of a release"),
        ({"release": "x" * 54}, "is no name of a release"),
        ({"release": "-w"}, "is no name of a release"),
        ({"digest": "abc"}, "component widgets: digest: 'abc' is not sha256: and 64"),
        ({"chart": "--post-renderer=sh"}, "component widgets: chart: '--post-renderer=sh' is none"),
        ({"version": ""}, "component widgets: version: '' is none"),
        ({"repository": "-x"}, "component widgets: repository: '-x' is none"),
        ({"namespace": "-x"}, "component widgets: namespace: '-x' is none"),
    ],
)
def test_what_helm_would_take_for_something_else_is_refused(more, told):
    with pytest.raises(BadInput) as error:
        source(**more).check()
    assert told in str(error.value)


def test_a_good_source_is_let_through():
    source(digest=f"sha256:{'0' * 64}", version="1.0.0", repository="https://example.com").check()


def test_secret_values_are_hidden_in_every_form_they_appear_in():
    secret = {"db": {"password": "hunter22", "port": 54321, "on": True, "none": None}, "keys": ["first\nsecond", "ab"]}
    texts = source(secret_values=secret).secrets()
    coded = base64.b64encode(b"hunter22").decode()
    said = f"bad hunter22 or {coded} at 54321: second, ab True None"
    assert hide(said, texts) == "bad (not shown) or (not shown) at (not shown): (not shown), ab True None"


def test_a_secret_that_is_part_of_another_leaves_nothing_of_it():
    assert hide("x hunter22long y", {"hunter22", "hunter22long"}) == "x (not shown) y"
