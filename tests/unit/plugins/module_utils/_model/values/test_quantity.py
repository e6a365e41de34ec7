# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quantities: the API server's arithmetic and texts, by table and by property."""

from __future__ import annotations

import typing as t
from fractions import Fraction

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    NANO,
    Form,
    canonical,
    counts_bytes,
    describe,
    format_quantity,
    parse_quantity,
    quantity_text,
    scaled,
    stored_quantity,
    unscaled,
)
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(300))

FORMS: list[Form] = ["decimal", "binary", "exponent"]
SUFFIX_VALUES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "e3": Fraction(1000),
    "E-3": Fraction(1, 1000),
    "e+6": Fraction(10**6),
}


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A legal text and its exact value, below every cap."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = draw(st.integers(0, 10**5))
    fraction = draw(st.text("0123456789", max_size=6))
    point = "." if fraction else draw(st.sampled_from(["", "."]))
    suffix = draw(st.sampled_from(sorted(SUFFIX_VALUES)))
    value = (Fraction(whole) + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else 0)) * SUFFIX_VALUES[
        suffix
    ]
    return f"{sign}{whole}{point}{fraction}{suffix}", -value if sign == "-" else value


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("-0", 0),
        ("1", NANO),
        ("+1", NANO),
        ("-1", -NANO),
        ("5.", 5 * NANO),
        (".5", NANO // 2),
        ("1.5", 3 * NANO // 2),
        ("007", 7 * NANO),
        ("1n", 1),
        ("1u", 1000),
        ("1m", 10**6),
        ("1k", 10**12),
        ("1M", 10**15),
        ("1G", 10**18),
        ("1T", 10**21),
        ("1P", 10**24),
        ("1E", 10**27),
        ("1Ki", 1024 * NANO),
        ("1Mi", 1024**2 * NANO),
        ("1Gi", 1024**3 * NANO),
        ("1Ti", 1024**4 * NANO),
        ("1Pi", 1024**5 * NANO),
        ("1Ei", 1024**6 * NANO),
        ("12e6", 12 * 10**15),
        ("12E6", 12 * 10**15),
        ("1e-3", 10**6),
        ("1E+2", 100 * NANO),
        (" 2 ", 2 * NANO),
        (3, 3 * NANO),
        (0.5, NANO // 2),
        (1e-7, 100),
    ],
)
def test_every_legal_form_is_read_exactly(text: str | float, nanos: int) -> None:
    assert parse_quantity(text) == nanos


@pytest.mark.parametrize(("text", "nanos"), [("0.1n", 1), ("-0.1n", -1), ("1.0000000001", NANO + 1), ("1e-300", 1)])
def test_digits_below_nano_round_away_from_zero(text: str, nanos: int) -> None:
    assert parse_quantity(text) == nanos


def test_binary_amounts_are_capped_and_decimal_ones_are_not() -> None:
    assert parse_quantity("8Ei") == (2**63 - 1) * NANO
    assert parse_quantity("-9999Ei") == -(2**63 - 1) * NANO
    assert parse_quantity("100E") == 100 * 10**27


@pytest.mark.parametrize(
    "value",
    [
        "",
        "-",
        "+",
        ".",
        "m",
        "Ki",
        "xyz",
        "1i",
        ".5i",
        "1.1.M",
        "1+1.0M",
        "0.1mi",
        "0.1am",
        "1 Gi",
        "1K",
        "-3.01e-",
        "1e",
        "1e1.5",
        "1Gib",
        "0x10",
        "１",
        "1e1001",
        "1e99999999999",
        "9" * 1001,
        "1\n2",
        True,
        None,
        [],
        float("nan"),
        float("inf"),
    ],
)
def test_malformed_values_are_refused_by_name(value: t.Any) -> None:
    with pytest.raises(BadInput) as caught:
        parse_quantity(value)
    assert caught.value.action == "read"
    assert caught.value.target.startswith("quantity ")
    assert caught.value.cause


def test_the_message_shows_the_text_and_the_reason() -> None:
    with pytest.raises(BadInput, match=r"^Cannot read quantity '5GB': unknown suffix 'GB'; known are n, u, m"):
        parse_quantity("5GB")


# Each line was produced by k8s.io/apimachinery v0.36.3: text, its String(), its String() after RoundUp to milli.
@pytest.mark.parametrize(
    ("text", "shown", "stored"),
    [
        ("0", "0", "0"),
        ("0Ki", "0", "0"),
        ("1.5", "1500m", "1500m"),
        ("1.5Gi", "1536Mi", "1536Mi"),
        ("1024Mi", "1Gi", "1Gi"),
        ("1000m", "1", "1"),
        ("2000000", "2M", "2M"),
        ("0.5Ki", "512", "512"),
        ("100n", "100n", "1m"),
        ("0.1n", "1n", "1m"),
        ("12e6", "12e6", "12e6"),
        ("1E3", "1E3", "1E3"),
        ("1000e3", "1e6", "1e6"),
        ("+5", "+5", "+5"),
        ("1.001", "1.001", "1.001"),
        ("1375.864511", "1375.864511", "1375865m"),
        ("-1.5Gi", "-1536Mi", "-1536Mi"),
        ("9999Ei", "9223372036854775807", "9223372036854775807"),
        ("39381656322.24217805594", "39381656322242178056n", "39381656322243m"),
    ],
)
def test_canonical_text_is_the_api_servers(text: str, shown: str, stored: str) -> None:
    assert canonical(text) == shown
    assert canonical(text, in_resource_list=True) == stored


def test_an_amount_beyond_the_largest_suffix_keeps_it() -> None:
    # The server would lose the magnitude here and answer "1".
    assert canonical("1000E") == "1000E"


@steady
@given(texts())
def test_parsing_is_exact(case: tuple[str, Fraction]) -> None:
    text, value = case
    exact = value * NANO
    nanos = parse_quantity(text)
    assert abs(nanos) == -(-abs(exact).numerator // abs(exact).denominator)
    assert nanos == 0 or (nanos < 0) == (value < 0)


@steady
@given(texts())
def test_canonical_keeps_the_amount_and_is_a_fixed_point(case: tuple[str, Fraction]) -> None:
    text, _value = case
    shown = canonical(text)
    assert parse_quantity(shown) == parse_quantity(text)
    assert canonical(shown) == shown
    stored = canonical(text, in_resource_list=True)
    assert parse_quantity(stored) == stored_quantity(text)
    assert canonical(stored, in_resource_list=True) == stored


@steady
@given(st.integers(-(2**62) * NANO, 2**62 * NANO), st.sampled_from(FORMS))
def test_formatting_reads_back_to_the_same_amount(nanos: int, form: Form) -> None:
    text = format_quantity(nanos, form)
    assert "." not in text
    assert parse_quantity(text) == nanos


@steady
@given(texts(), texts())
def test_order_and_addition_survive_the_texts(first: tuple[str, Fraction], second: tuple[str, Fraction]) -> None:
    one, two = parse_quantity(first[0]), parse_quantity(second[0])
    if first[1] <= second[1]:
        assert one <= two
    assert parse_quantity(format_quantity(one + two)) == one + two


@steady
@given(texts(), st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]))
def test_scaling_rounds_away_from_zero_by_less_than_one_unit(case: tuple[str, Fraction], resource: str) -> None:
    nanos = parse_quantity(case[0])
    unit = 10**6 if resource == "cpu" else NANO
    amount = scaled(resource, nanos)
    assert 0 <= abs(amount) * unit - abs(nanos) < unit
    assert unscaled(resource, amount) == amount * unit


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1050, "1050m"),
        ("cpu", 2000, "2"),
        ("cpu", 1000000, "1000"),
        ("cpu", 0, "0"),
        ("cpu", -425, "-425m"),
        ("memory", 2675228672, "2675228672 (2.5Gi)"),
        ("memory", 2147483648, "2147483648 (2Gi)"),
        ("memory", 512, "512"),
        ("memory", 0, "0"),
        ("memory", -1048576, "-1048576 (-1Mi)"),
        ("memory", 1073741823, "1073741823 (1024Mi)"),
        ("requests.memory", 1024, "1024 (1Ki)"),
        ("hugepages-2Mi", 4194304, "4194304 (4Mi)"),
        ("ephemeral-storage", 5 * 1024**3 + 1, "5368709121 (5Gi)"),
        ("nvidia.com/gpu", 3, "3"),
        ("pods", 110, "110"),
    ],
)
def test_amounts_are_described_for_people(resource: str, amount: int, text: str) -> None:
    assert describe(resource, amount) == text


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1050, "1050m"),
        ("cpu", 2000, "2"),
        ("memory", 4 * 1024**3, "4Gi"),
        ("memory", 2 * 10**9, "2G"),
        ("pods", 1, "1"),
    ],
)
def test_scaled_amounts_become_short_quantities(resource: str, amount: int, text: str) -> None:
    assert quantity_text(resource, amount) == text
    assert scaled(resource, parse_quantity(text)) == amount


def test_byte_resources_are_told_from_counts() -> None:
    assert [
        name
        for name in ("memory", "limits.memory", "hugepages-1Gi", "cpu", "pods", "example.com/memory")
        if counts_bytes(name)
    ] == [
        "memory",
        "limits.memory",
        "hugepages-1Gi",
    ]


@pytest.mark.parametrize(
    ("nanos", "text"), [(10**27, "1E"), (10**30, "1000E"), (10**33, "1000000E"), (1, "1n"), (1000, "1u"), (0, "0")]
)
def test_decimal_texts_end_with_the_largest_suffix_there_is(nanos, text):
    assert format_quantity(nanos) == text


@pytest.mark.parametrize(
    ("suffix", "digits"), [("", 18), ("k", 18), ("m", 18), ("Ki", 11), ("Mi", 8), ("Gi", 5), ("Ti", 2), ("Pi", 0)]
)
def test_texts_of_so_many_digits_come_back_as_they_were_written(suffix, digits):
    """A plus sign stays there; of a longer text the server writes the amount anew."""
    if digits:
        short = "+" + "1" * digits + suffix
        assert canonical(short) == short
    longer = "1" * (digits + 1) + suffix
    assert canonical(f"+{longer}") == longer


@pytest.mark.parametrize(("text", "expected"), [("+1000", "1k"), ("+1100", "+1100"), ("+0", "0"), ("+8Ki", "8Ki")])
def test_texts_that_the_server_would_write_otherwise_are_written_anew(text, expected):
    assert canonical(text) == expected


def test_exponents_and_digits_have_an_end():
    assert parse_quantity("1e-1000") == 1
    assert parse_quantity("0" * 5000 + "1") == NANO
    assert parse_quantity("1" * 1000) == int("1" * 1000) * NANO
    for text in ("1e1001", "1e-1001", "1" * 1001, "0." + "1" * 1000):
        with pytest.raises(BadInput):
            parse_quantity(text)
