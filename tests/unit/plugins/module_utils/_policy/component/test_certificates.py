# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of certificates, read from their text."""

from __future__ import annotations

import base64
import datetime

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.component.certificates import expiry_of_bundle
from ansible_collections.muster.kube.tests.support.stack_stage import bundle
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize("year", [1999, 2049, 2050, 2099])
def test_the_end_is_found_in_both_ways_of_writing_years(year):
    expected = datetime.datetime(year, 1, 1, tzinfo=datetime.UTC).timestamp()
    assert expiry_of_bundle(bundle(1990, year)) == expected


def test_of_several_certificates_the_last_counts():
    texts = [base64.b64decode(bundle(2020, year)) for year in (2030, 2035, 2021)]
    expected = datetime.datetime(2035, 1, 1, tzinfo=datetime.UTC).timestamp()
    assert expiry_of_bundle(base64.b64encode(b"".join(texts)).decode()) == expected


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 255))
def test_whatever_else_is_there_is_no_certificate(noise, place, value):
    pem = bytearray(base64.b64decode(BUNDLE))
    pem[place % len(pem)] = value
    for text in (
        noise,
        bytes(pem),
        b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(noise) + b"\n-----END CERTIFICATE-----",
    ):
        found = expiry_of_bundle(base64.b64encode(text).decode())
        assert found is None or isinstance(found, float)
    assert expiry_of_bundle("no base64") is None


BUNDLE = bundle()
