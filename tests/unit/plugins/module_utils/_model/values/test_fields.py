# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what others wrote: JSON texts, plain values and the fields of a mapping."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    Fields,
    canonical_json,
    finite_number,
    parse_json,
    plain_value,
)
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(50))

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(st.characters(codec="utf-8"), max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@steady
@given(plain)
def test_plain_values_survive_their_canonical_text(value):
    assert plain_value(value, "x") == value
    assert parse_json(canonical_json(value), "x") == value
    assert canonical_json(value).isascii()


def test_canonical_texts_ignore_the_order_of_keys():
    assert canonical_json({"b": 1, "a": {"d": 1, "c": 2}}) == '{"a":{"c":2,"d":1},"b":1}'


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (3, "a text is needed"),
        ("{", "no JSON"),
        ("NaN", "NaN"),
        (r'"\udc00"', "no JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_damaged_texts_are_refused_under_their_name(text, named):
    with pytest.raises(BadInput) as caught:
        parse_json(text, "the note")
    assert caught.value.target == "the note"
    assert named in caught.value.cause


@pytest.mark.parametrize("value", [2**63, float("inf"), {1: "a"}, "\ud800", object()])
def test_values_json_cannot_hold_are_refused_with_their_path(value):
    with pytest.raises(BadInput) as caught:
        plain_value({"a": [value]}, "x")
    assert caught.value.target == "x: a[0]"


def test_tuples_become_lists_and_subclasses_plain():
    class Text(str):
        __slots__ = ()

    copied = plain_value({Text("a"): (Text("b"), 1)}, "x")
    assert json.dumps(copied) == '{"a": ["b", 1]}'
    assert {type(key) for key in copied} | {type(copied["a"][0])} == {str}


GOOD = {
    "text": "a",
    "whole": 3,
    "number": 1.5,
    "duration": "1m",
    "flag": True,
    "word": "b",
    "list": [1],
    "map": {"a": 1},
    "codes": [3, 1, 3],
}
FIELDS = Fields(GOOD, "it")


def test_fields_are_read_by_type():
    assert (FIELDS.text("text"), FIELDS.whole("whole", 0, 9), FIELDS.number("number")) == ("a", 3, 1.5)
    assert (FIELDS.duration("duration", None), FIELDS.flag("flag"), FIELDS.choice("word", ("a", "b"), None)) == (
        60,
        True,
        "b",
    )
    assert (FIELDS.sequence("list"), FIELDS.mapping("map"), FIELDS.codes("codes")) == ([1], {"a": 1}, (1, 3))


def test_null_is_the_same_as_missing():
    for fields in (Fields({}, "it"), Fields(dict.fromkeys(GOOD), "it")):
        assert (fields.text("text"), fields.whole("whole", 1, 9), fields.number("number")) == (None, 0, 0.0)
        assert (fields.duration("duration", 7.0), fields.flag("flag")) == (7.0, False)
        assert (fields.sequence("list"), fields.mapping("map"), fields.codes("codes")) == ([], {}, ())
        assert fields.choice("word", ("a", "b"), "a") == "a"


@pytest.mark.parametrize(
    "read",
    [
        lambda: FIELDS.text("whole"),
        lambda: FIELDS.required_text("none"),
        lambda: FIELDS.whole("flag", 0, 9),
        lambda: FIELDS.whole("whole", 0, 2),
        lambda: FIELDS.whole("none", 0, 2, required=True),
        lambda: FIELDS.number("flag"),
        lambda: FIELDS.duration("text", None),
        lambda: FIELDS.flag("whole"),
        lambda: FIELDS.choice("text", ("b",), None),
        lambda: FIELDS.choice("none", ("b",), None),
        lambda: FIELDS.sequence("map"),
        lambda: FIELDS.mapping("list"),
        lambda: Fields({"codes": [256]}, "it").codes("codes"),
        lambda: FIELDS.only(("text",)),
        lambda: Fields([], "it: list"),
    ],
)
def test_a_wrong_field_is_refused_with_its_place(read):
    with pytest.raises(BadInput) as caught:
        read()
    assert caught.value.target.startswith("it: ")


def test_lists_may_be_nested_as_deep_as_mappings():
    lists, maps = "x", "x"
    for _round in range(200):
        lists, maps = [lists], {"a": maps}
    assert plain_value(lists, "x") == lists
    assert plain_value(maps, "x") == maps
    for value in ([lists], {"a": maps}):
        with pytest.raises(BadInput, match="nested more than 200 levels deep"):
            plain_value(value, "x")


def test_numbers_end_before_they_lose_their_last_digits():
    assert Fields({"a": 10**18 - 2**10}, "x").number("a") == 10**18 - 2**10
    for value in (1e18, -1, True, "1"):
        with pytest.raises(BadInput, match="a number that is not negative is needed"):
            Fields({"a": value}, "x").number("a")


def test_numbers_to_reckon_with():
    assert [finite_number(value) for value in (1, 2.5, -3)] == [1.0, 2.5, -3.0]
    odd = (True, None, "1", float("inf"), float("nan"), 10**400)
    assert [finite_number(value) for value in odd] == [None] * len(odd)


def one(value):
    """A mapping of one field."""
    return Fields({"a": value}, "it")


@pytest.mark.parametrize(
    ("read", "lowest", "highest", "below", "above"),
    [
        (lambda fields: fields.whole("a", 3, 5), 3, 5, 2, 6),
        (lambda fields: fields.codes("a")[0], [1], [255], [0], [256]),
        (lambda fields: fields.number("a"), 0, 1e18 - 2**10, -0.5, 1e18),
        (lambda fields: fields.duration("a", None), 0, 1e12, -1, 1e12 + 1),
    ],
    ids=["whole", "codes", "number", "duration"],
)
def test_bounds_belong_to_what_is_allowed(read, lowest, highest, below, above):
    for value in (lowest, highest):
        assert read(one(value)) == (value[0] if isinstance(value, list) else value)
    for value in (below, above):
        with pytest.raises(BadInput):
            read(one(value))


@pytest.mark.parametrize(
    ("name", "longest", "fits"),
    [
        ("a" * 63, 63, True),
        ("a" * 64, 63, False),
        ("a" * 253, 253, True),
        ("a" * 254, 253, False),
        ("a.b", 253, True),
        ("a.b", 63, False),
        ("a-b", 63, True),
        ("-a", 63, False),
        ("A", 63, False),
    ],
)
def test_names_as_kubernetes_wants_them(name, longest, fits):
    if fits:
        assert one(name).dns("a", "a name", longest) == name
    else:
        with pytest.raises(BadInput, match=f"cannot be a name; at most {longest} lower case"):
            one(name).dns("a", "a name", longest)


@pytest.mark.parametrize("wrong", [True, "1", 1.5])
def test_what_is_no_whole_number_is_no_exit_code_either(wrong):
    with pytest.raises(BadInput, match="a whole number from 0 to 9 is needed"):
        one(wrong).whole("a", 0, 9)
    with pytest.raises(BadInput, match=r"an exit code from 1 to 255 is needed"):
        one([1, wrong]).codes("a")


@pytest.mark.parametrize(("value", "words"), [(None, "it is missing"), ("x", "a mapping is needed, this is a str")])
def test_what_is_no_mapping_is_told_from_what_is_missing(value, words):
    with pytest.raises(BadInput, match=words):
        Fields(value, "it")


def test_missing_and_wrong_values_have_different_complaints():
    for read in (
        lambda fields: fields.whole("b", 0, 9, required=True),
        lambda fields: fields.choice("b", ("x",), None),
    ):
        with pytest.raises(BadInput, match="it is missing"):
            read(one(1))
    with pytest.raises(BadInput, match="a whole number from 0 to 9 is needed, not 'x'"):
        one("x").whole("a", 0, 9, required=True)


@pytest.mark.parametrize(
    ("number", "refused"), [(None, False), (1, False), (2, False), (3, True), (True, False), ("3", False)]
)
def test_only_a_newer_format_is_refused(number, refused):
    fields = Fields({"format": number}, "it")
    if not refused:
        fields.require_format(2)
        return
    with pytest.raises(NewerVersion, match="it has format 3, this version knows up to 2"):
        fields.require_format(2)


def test_the_largest_whole_numbers_of_json():
    for value in (2**63 - 1, 1 - 2**63):
        assert plain_value([value], "x") == [value]
    for value in (2**63, -(2**63)):
        with pytest.raises(BadInput, match="cannot be written as JSON"):
            plain_value([value], "x")


def test_unknown_keys_are_kept_and_known_ones_are_not_told():
    assert Fields({"a": 1, "b": 2}, "it").unknown(("a",)) == {"b": 2}
    with pytest.raises(BadInput, match="known are a, b"):
        Fields({"zzz": 1}, "it").only(("a", "b"))
    with pytest.raises(BadInput, match=r"did you mean timeout\?"):
        Fields({"timeot": 1}, "it").only(("a", "timeout"))
