# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Until when certificates are valid, read from their text: enough of X.509 to tell one that is expired."""

from __future__ import annotations

import base64
import binascii
import datetime
import re
import typing as t

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0
# The fields of a certificate before its validity, after the version that may be left out.
_BEFORE_VALIDITY = 3
# In two digits years go from 1950 to 2049.
_PIVOT = 50


class _Value(t.NamedTuple):
    """One value in DER: its type and its content."""

    tag: int
    content: bytes


def expiry_of_bundle(bundle: str) -> float | None:
    """When the last certificate of a bundle (base64 of PEM, as Kubernetes keeps it) expires, in seconds since 1970.

    None where there is none that can be read: nobody is verified with such a bundle.
    """
    try:
        text = base64.b64decode(bundle, validate=True).decode("ascii")
        blocks = [base64.b64decode("".join(block.split()), validate=True) for block in _PEM.findall(text)]
        return max((_not_after(block) for block in blocks), default=None)
    except (binascii.Error, ValueError, IndexError):
        return None


def _not_after(der: bytes) -> float:
    """The end of the validity of a certificate; ValueError or IndexError for anything else."""
    fields = _inside(_inside([_read(der)[0]])[:1])
    if fields[0].tag == _VERSION:
        fields = fields[1:]
    _begin, end = _inside([fields[_BEFORE_VALIDITY]])
    text = end.content.decode("ascii")
    if end.tag == _UTC_TIME:
        text = f"{'19' if int(text[:2]) >= _PIVOT else '20'}{text}"
    elif end.tag != _GENERALIZED_TIME:
        raise ValueError("this is no time")
    moment = datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ")
    return moment.replace(tzinfo=datetime.UTC).timestamp()


def _inside(values: list[_Value]) -> list[_Value]:
    """The values in the first of these, which must be a sequence."""
    if values[0].tag != _SEQUENCE:
        raise ValueError("this is no sequence")
    rest, found = values[0].content, []
    while rest:
        value, rest = _read(rest)
        found.append(value)
    return found


def _read(data: bytes) -> tuple[_Value, bytes]:
    """The first value, and what follows it."""
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    end = start + length
    if end > len(data):
        raise ValueError("it ends too soon")
    return _Value(data[0], data[start:end]), data[end:]
