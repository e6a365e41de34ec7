# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter stack_components."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.muster.kube.plugins.filter.stack_components import FilterModule, stack_components
from ansible_collections.muster.kube.tests.support.stack_catalogue import small_catalogue


def names(found: list[dict[str, t.Any]]) -> list[str]:
    return [item["name"] for item in found]


@pytest.mark.parametrize("profile", ["pocket", ["pocket"], ("pocket",), ["pocket", ""]])
def test_a_profile_may_be_one_or_many(profile: t.Any) -> None:
    assert names(stack_components(small_catalogue(), profile)) == ["gears", "watch"]


@pytest.mark.parametrize("profile", ["", [], None])
def test_without_a_profile_only_wishes_count(profile: t.Any) -> None:
    assert names(stack_components(small_catalogue(), profile, {"bell": {}})) == ["bell"]


def test_the_version_of_the_server_counts() -> None:
    found = stack_components(small_catalogue(), components={"gears": None}, kubernetes="1.27")
    assert found[0]["version"] == "2.1.0"


@pytest.mark.parametrize(
    ("profile", "wishes", "told"),
    [
        ("poket", None, "did you mean pocket?"),
        ([3], None, r"a name or a list of names is needed, not \[3\]"),
        ({"a": 1}, None, "a name or a list of names is needed"),
        ("pocket", ["bell"], "a mapping is needed"),
    ],
)
def test_errors_become_filter_errors(profile: t.Any, wishes: t.Any, told: str) -> None:
    with pytest.raises(AnsibleFilterError, match=rf"muster\.kube\.stack_components: .*{told}"):
        stack_components(small_catalogue(), profile, wishes)


@pytest.mark.parametrize("value", [None, [], "text", {"rows": []}])
def test_what_is_no_catalogue_is_refused(value: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="the catalogue"):
        stack_components(value)


def test_it_is_registered_under_its_name() -> None:
    assert FilterModule().filters() == {"stack_components": stack_components}
