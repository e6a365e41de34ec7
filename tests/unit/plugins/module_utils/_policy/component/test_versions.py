# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions and ranges of them."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.component.versions import (
    SemanticVersion,
    VersionRange,
    read_range,
    read_version,
)
from hypothesis import given
from hypothesis import strategies as st

# In the order that semver.org gives as an example, and some around it.
ORDERED = [
    "0.9.9",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]
VERSIONS = st.builds(
    SemanticVersion,
    st.tuples(*[st.integers(0, 12)] * 3),
    st.lists(st.sampled_from(["0", "1", "10", "2", "alpha", "rc", "-", "0a"]), max_size=3).map(tuple),
)


def version(text: str) -> SemanticVersion:
    return read_version(text, "a test")


def holds(bounds: str, text: str) -> bool:
    return read_range(bounds, "a test").holds(version(text))


def test_versions_are_ordered_as_semver_says() -> None:
    read = [version(text) for text in ORDERED]
    shuffled = read[::-1]
    assert sorted(shuffled) == read
    assert [str(item) for item in read] == ORDERED


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("v1.36.3", "1.36.3"),
        ("1.36", "1.36.0"),
        ("v1", "1.0.0"),
        ("v1.30.4+k3s1", "1.30.4"),
        ("0.2.0-rc5", "0.2.0-rc5"),
        ("v1.29.4-eks-036c24b", "1.29.4-eks-036c24b"),
        ("v1.29.4-gke.1043000+x", "1.29.4-gke.1043000"),
    ],
)
def test_versions_are_read_as_they_are_written_in_the_wild(text: str, shown: str) -> None:
    assert str(version(text)) == shown


@pytest.mark.parametrize(
    "text", ["", "v", "1.", "1.2.3.4", "latest", "1.2.3-", "1.2.3-a..b", "1,2", 1.36, None, 1, " 1.2", "１.2"]
)
def test_what_is_no_version_is_refused_with_its_place(text: object) -> None:
    with pytest.raises(BadInput, match="a test") as caught:
        read_version(text, "a test")
    assert repr(text) in caught.value.cause


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        (
            ">=1.29 <1.37",
            ["1.29.0", "1.36.9", "1.29.1-gke.1"],
            ["1.28.9", "1.37.0", "1.37.0-rc.1", "1.29.0-rc.1", "2.0.0"],
        ),
        (">=1.29,<1.37", ["1.30.0"], ["1.37.0"]),
        (">= 1.29, < 1.37", ["1.30.0"], ["1.37.0"]),
        ("<=1.37", ["1.37.0", "1.37.0-rc.1", "1.36.9"], ["1.37.1"]),
        (">1.2.3", ["1.2.4", "1.3.0-rc.1"], ["1.2.3", "1.2.3-rc.1"]),
        ("<1.2.3-rc.2", ["1.2.3-rc.1", "1.2.2"], ["1.2.3-rc.2", "1.2.3"]),
        ("=1.4", ["1.4.0", "1.4.9"], ["1.5.0", "1.40.0"]),
        ("1.4.2", ["1.4.2"], ["1.4.3", "1.4.2-rc.1"]),
        ("!=1.4 >=1", ["1.3.0", "1.5.0"], ["1.4.1", "0.9.0"]),
        ("=0.2.0-rc5", ["0.2.0-rc5"], ["0.2.0"]),
        ("*", ["0.0.0", "9.9.9-rc.1"], []),
    ],
)
def test_ranges_hold_what_they_say(bounds: str, inside: list[str], outside: list[str]) -> None:
    assert [text for text in inside if not holds(bounds, text)] == []
    assert [text for text in outside if holds(bounds, text)] == []


@pytest.mark.parametrize(
    "text", ["", "  ", ">=", "^1.2", "~1.2", "1.x", ">=1.2 || <1", ">=1.2 latest", None, 1.2, ["1"], "=>1.2"]
)
def test_what_is_no_range_is_refused_with_its_place(text: object) -> None:
    with pytest.raises(BadInput, match="a test"):
        read_range(text, "a test")


def test_a_range_is_shown_as_it_was_written() -> None:
    assert str(read_range(">= 1.29,<1.37.0", "a test")) == ">=1.29 <1.37.0"
    assert str(read_range("1.4", "a test")) == "=1.4"
    assert str(VersionRange()) == "*"


def test_the_release_of_a_version_has_its_numbers_only() -> None:
    assert version("v1.29.4-eks-036c24b").release == version("1.29.4")


@given(VERSIONS)
def test_every_version_is_read_back_from_its_text(item: SemanticVersion) -> None:
    assert version(str(item)) == item


@given(VERSIONS, VERSIONS, VERSIONS)
def test_the_order_is_total(one: SemanticVersion, two: SemanticVersion, three: SemanticVersion) -> None:
    assert (one < two) + (one == two or one._place() == two._place()) + (one > two) == 1
    if one <= two <= three:
        assert one <= three


@given(VERSIONS, VERSIONS)
def test_a_version_is_in_exactly_one_of_two_ranges_that_complete_each_other(
    one: SemanticVersion, bound: SemanticVersion
) -> None:
    text = str(bound)
    if bound.early or not one.early:
        assert holds(f"<{text}", str(one)) != holds(f">={text}", str(one))
    assert holds(f"={text}", str(one)) != holds(f"!={text}", str(one))


@given(
    VERSIONS, st.lists(st.tuples(st.sampled_from([">=", ">", "<", "<=", "=", "!="]), VERSIONS), min_size=1, max_size=4)
)
def test_a_range_holds_what_all_of_its_bounds_hold(
    one: SemanticVersion, bounds: list[tuple[str, SemanticVersion]]
) -> None:
    texts = [f"{sign}{bound}" for sign, bound in bounds]
    assert holds(" ".join(texts), str(one)) == all(holds(text, str(one)) for text in texts)
    assert str(read_range(str(read_range(", ".join(texts), "t")), "t")) == str(read_range(" ".join(texts), "t"))
