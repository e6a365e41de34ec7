# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quantities against the real API server: it hands back the very text we foresee, and refuses what we refuse."""

from __future__ import annotations

import itertools
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import canonical, parse_quantity

RANDOM_TEXTS = 300
FEWEST_RANDOM_TEXTS = 60
BATCH = 100
DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

FORMS = (
    *(f"{number}{suffix}" for number in ("1", "0", "1.5", "1024", "0.001", "007") for suffix in DECIMAL),
    *(f"1000{suffix}" for suffix in DECIMAL if suffix != "E"),
    *(f"{number}{suffix}" for number in ("1", "0", "1.5", "8", "1024", "0.1", "007") for suffix in BINARY),
    *("1e3", "1E3", "1e+3", "1e-3", "12e-4", "1.5e6", "1e-9", "1e-12", "0e5", "1e18", "1e20", "123456e2"),
    *("+1", "+0", "+1.5Gi", "+1e3", "-0", "1.", ".5", ".5Gi", "1.0", "1.50", "00", "0.0"),
    *("999999999999999999", "1000000000000000000", "9223372036854775807", "9223372036854775808", "9999999999999999999"),
    *("9E", "10E", "100E", "7Ei", "8Ei", "16Ei", "8191Pi", "9999999Ti", "0.000000001", "0.0000000001", "1.0000000001"),
    *("1500m", "2000m", "1050m", "8118372Ki", "6824650Ki", "2G", "1n", "1u", "999u", "1001u", "0.5m", "1.0005"),
)
SIGNED = ("-1", "-1.5", "-1500m", "-1Gi", "-1.5Gi", "-1e3", "-0.0005", "-1n", "-999999999999999999", "-007", "-8Ei")
MALFORMED = (
    *("", "lots", "1..5", "1.5.5", "--1", "+-1", "1 Gi", "1gi", "1KI", "1K", "1mi", "1e", "1e+", "1e1.5", "1Gi5"),
    *("0x10", "1,5", "1_000", "1Zi", "1B", "1GiB", "1mm", "NaN", "Inf", "five", "1é", "١"),
)
# The server takes these for zero; nobody means that, so we do not.
NO_DIGITS = (".", "+", "-", "+.", "e3", "Gi", "m")
# From here on the server drops the suffix of decimal amounts that end in zeros ("1000E" comes back as "1").
UNWRITABLE = 10**21 * 10**9


@pytest.fixture(scope="module")
def shared_namespace(cluster):
    """One namespace for all, since nothing is stored in it."""
    name = "quantities"
    yield cluster.namespace(name)
    cluster.clear_namespace(name)


def quota(namespace, texts):
    """A ResourceQuota that holds these quantities, each under a name for which the server sets no further rules."""
    hard = {f"requests.example.com/r{i}": text for i, text in enumerate(texts)}
    meta = {"name": "round-trip", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}}


def returned(cluster, namespace, texts):
    """The same quantities as the API server gives them back; nothing is stored."""
    path = resource_path("v1", "resourcequotas", namespace)
    answer = create(cluster.client, path, quota(namespace, texts), dry_run=True)
    return [answer["spec"]["hard"][f"requests.example.com/r{i}"] for i in range(len(texts))]


def returned_signed(cluster, namespace, texts):
    """The same through a LimitRange, which unlike a quota may hold negative amounts."""
    limit = {"type": "Container", "default": {f"example.com/r{i}": text for i, text in enumerate(texts)}}
    meta = {"name": "round-trip", "namespace": namespace}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": [limit]}}
    answer = create(cluster.client, resource_path("v1", "limitranges", namespace), body, dry_run=True)
    found = answer["spec"]["limits"][0]["default"]
    return [found[f"example.com/r{i}"] for i in range(len(texts))]


def random_text(rng):
    """Any legal quantity that is not negative, canonical or not."""
    digits = "".join(rng.choices("0000123456789", k=rng.randint(1, rng.choice((3, 6, 20)))))
    fraction = "." + "".join(rng.choices("0000123456789", k=rng.randint(0, 12))) if rng.random() < 0.4 else ""
    suffix = rng.choice((*DECIMAL, *BINARY, "exponent"))
    if suffix == "exponent":
        suffix = f"{rng.choice('eE')}{rng.choice(('', '+'))}{rng.randint(0, 25)}"
        if rng.random() < 0.5:
            suffix = f"e-{rng.randint(0, 12)}"
    return rng.choice(("", "", "", "+")) + digits + fraction + suffix


def writable(text):
    """Whether the server has a suffix for the amount; exponents have no end."""
    return "e" in text.lower().rstrip("ei") or parse_quantity(text) < UNWRITABLE


def differences(texts, answers):
    """The texts for which we foresaw something else, with both readings."""
    pairs = zip(texts, answers, strict=True)
    return [
        (text, canonical(text, in_resource_list=True), answer)
        for text, answer in pairs
        if canonical(text, in_resource_list=True) != answer
    ]


def test_every_form_comes_back_as_foreseen(cluster, shared_namespace):
    assert differences(FORMS, returned(cluster, shared_namespace, FORMS)) == []


def test_negative_amounts_come_back_as_foreseen(cluster, shared_namespace):
    assert differences(SIGNED, returned_signed(cluster, shared_namespace, SIGNED)) == []


def test_random_texts_come_back_as_foreseen(cluster, shared_namespace, scale, seed):
    rng = random.Random(seed)
    wanted = max(FEWEST_RANDOM_TEXTS, round(RANDOM_TEXTS * scale))
    made = (random_text(rng) for _turn in itertools.count())
    texts = list(itertools.islice((text for text in made if writable(text)), wanted))
    wrong = []
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        answers = returned(cluster, shared_namespace, batch)
        wrong += differences(batch, answers)
        # What was stored means what we read: the amount survives the round trip but for the rounding to milli-units.
        wrong += [
            (text, answer)
            for text, answer in zip(batch, answers, strict=True)
            if not 0 <= parse_quantity(answer) - parse_quantity(text) < 10**6
        ]
    print(f"\n{len(texts)} random quantities, seed {seed}: {len(wrong)} differ")
    assert wrong == []


@pytest.mark.parametrize("number", [2, 0, 1.5, 1050, 0.001, 1e3, 1e21])
def test_numbers_are_read_as_their_json_text(cluster, shared_namespace, number):
    assert differences([number], returned(cluster, shared_namespace, [number])) == []


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_text_is_refused_by_both(cluster, shared_namespace, text):
    with pytest.raises(BadInput, match="quantity"):
        canonical(text, in_resource_list=True)
    with pytest.raises(ApiError) as refusal:
        returned(cluster, shared_namespace, [text])
    assert refusal.value.status in (400, 422)


def test_texts_without_digits_are_refused_although_the_server_takes_them_for_zero(cluster, shared_namespace):
    assert returned(cluster, shared_namespace, NO_DIGITS) == ["0"] * len(NO_DIGITS)
    for text in NO_DIGITS:
        with pytest.raises(BadInput, match="quantity"):
            canonical(text, in_resource_list=True)
