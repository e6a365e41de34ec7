# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of sizes: the same comes back from their text, and what makes no sense is refused."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import SizeTerms
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import POLICIES
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import (
    POLICY_NAMES,
    SizeSettings,
    read_settings,
    settings_from_text,
    settings_text,
)
from hypothesis import given
from hypothesis import strategies as st

TERMS = st.builds(
    SizeTerms,
    worth=st.floats(0, 1e6),
    near_end=st.floats(0, 1),
    most_resizes=st.none() | st.integers(0, 10_000),
    patience=st.floats(0, 1e6),
)


@given(st.builds(SizeSettings, policy=st.sampled_from(POLICY_NAMES), terms=TERMS))
def test_the_same_comes_back_from_the_text(settings: SizeSettings) -> None:
    assert settings_from_text(settings_text(settings), "x") == settings
    assert read_settings(settings.as_data(), "x") == settings


def test_nothing_given_is_the_usual() -> None:
    assert read_settings({}, "x") == SizeSettings()
    assert SizeSettings().terms == SizeTerms()


def test_every_policy_has_a_name() -> None:
    assert set(POLICY_NAMES) == set(POLICIES)


def test_keys_of_a_later_version_are_kept_where_they_were_stored_and_refused_where_they_were_typed() -> None:
    stored = settings_from_text('{"format": 1, "moon": "full", "worth": 2}', "x")
    assert json.loads(settings_text(stored))["moon"] == "full"
    with pytest.raises(BadInput, match="did you mean worth"):
        read_settings({"wort": 2}, "x")
    with pytest.raises(NewerVersion):
        settings_from_text('{"format": 2}', "x")


@pytest.mark.parametrize(
    "data",
    [
        {"policy": "luck"},
        {"worth": -1},
        {"worth": "much"},
        {"near_end": 1.5},
        {"most_resizes": -2},
        {"most_resizes": 1.5},
        {"patience": "soon"},
        {"patience": True},
        [],
        None,
    ],
)
def test_what_makes_no_sense_is_refused(data: t.Any) -> None:
    with pytest.raises(BadInput):
        read_settings(data, "x")
