# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values others wrote: JSON texts that may be damaged, and mappings whose fields are read by type.

Whatever is wrong becomes BadInput with the name of the place and of the field.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion

Data = dict[str, t.Any]

INT32 = 2**31
DNS_LENGTH = 253
LABEL_LENGTH = 63
_DEEPEST = 200
_INT64 = 2**63
_LONGEST_SECONDS = 1e12

# Made once: json.dumps would make one for each call.
# One text for equal values, whatever the order of their keys; plain ASCII, so its length is its size.
canonical_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
DNS_NAME = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")

_Choice = t.TypeVar("_Choice", bound=str)
_Maybe = t.TypeVar("_Maybe", float, None)


class Fields:
    """The fields of one mapping, read by type; null is the same as missing, and complaints name object and field."""

    __slots__ = ("data", "where")

    def __init__(self, data: t.Any, where: str) -> None:
        """Take a mapping; anything else is refused under the name of its place."""
        if not isinstance(data, Mapping):
            kind = "it is missing" if data is None else f"a mapping is needed, this is a {type(data).__name__}"
            raise BadInput("read", where, kind)
        self.data = data
        self.where = where

    def fail(self, key: str, cause: str) -> BadInput:
        """The error for one field, to be raised by the caller."""
        return BadInput("read", f"{self.where}: {key}", cause)

    def only(self, known: Sequence[str]) -> None:
        """Refuse unknown keys and name the nearest known one."""
        for key in self.data:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, 1, 0.5)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
                raise self.fail(str(key), f"unknown key; {hint}")

    def unknown(self, known: Sequence[str]) -> Data:
        """The unknown keys: of the same format they are a later version's, and are kept when written back."""
        return {key: value for key, value in self.data.items() if key not in known}

    def require_format(self, newest: int) -> None:
        """Refuse what a newer version stored; without a number the format is the first."""
        value = self.data.get("format")
        if isinstance(value, int) and not isinstance(value, bool) and value > newest:
            raise NewerVersion("read", self.where, f"it has format {value}, this version knows up to {newest}")

    def get(self, key: str) -> t.Any:
        """A value of any type, None when missing."""
        return self.data.get(key)

    def text(self, key: str) -> str | None:
        """A text that is not empty, or None."""
        value = self.data.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.fail(key, f"a text is needed, not {value!r}")
        return value

    def required_text(self, key: str, missing: str = "it is missing") -> str:
        """A text that must be there."""
        value = self.text(key)
        if value is None:
            raise self.fail(key, missing)
        return value

    def dns(self, key: str, what: str, longest: int) -> str:
        """A name as Kubernetes wants it."""
        value = self.required_text(key)
        if len(value) > longest or not DNS_NAME.fullmatch(value) or (longest == LABEL_LENGTH and "." in value):
            raise self.fail(key, f"{value!r} cannot be {what}; at most {longest} lower case letters, digits and '-'")
        return value

    def whole(self, key: str, low: int, high: int, *, required: bool = False) -> int:
        """A whole number between bounds, 0 when missing."""
        value = self.data.get(key)
        if value is None and not required:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            wrong = f"a whole number from {low} to {high} is needed, not {value!r}"
            raise self.fail(key, "it is missing" if value is None else wrong)
        return value

    def number(self, key: str) -> float:
        """A number that is not negative, 0 when missing."""
        value = 0.0 if self.data.get(key) is None else self.data.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
            raise self.fail(key, f"a number that is not negative is needed, not {value!r}")
        return float(value)

    def duration(self, key: str, default: _Maybe) -> float | _Maybe:
        """Seconds, from a number or a text as 1h30m."""
        value = self.data.get(key)
        if value is None:
            return default
        seconds = parse_duration(value, f"{self.where}: {key}") if isinstance(value, str) else self.number(key)
        if seconds > _LONGEST_SECONDS:
            raise self.fail(key, f"{value!r} is too long")
        return seconds

    def flag(self, key: str) -> bool:
        """True or false, false when missing."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.fail(key, f"true or false is needed, not {value!r}")
        return bool(value)

    def choice(self, key: str, known: Sequence[_Choice], default: _Choice | None) -> _Choice:
        """One of some words."""
        value = default if self.data.get(key) is None else self.data.get(key)
        for word in known:
            if value == word:
                return word
        raise self.fail(key, "it is missing" if value is None else f"{value!r} is none of {', '.join(known)}")

    def sequence(self, key: str) -> list[t.Any]:
        """A list, empty when missing."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, list):
            raise self.fail(key, f"a list is needed, this is a {type(value).__name__}")
        return value or []

    def mapping(self, key: str) -> Mapping[str, t.Any]:
        """A mapping, empty when missing."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self.fail(key, f"a mapping is needed, this is a {type(value).__name__}")
        return value or {}

    def codes(self, key: str) -> tuple[int, ...]:
        """Exit codes of failed containers."""
        values = self.sequence(key)
        for index, code in enumerate(values):
            if isinstance(code, bool) or not isinstance(code, int) or not 1 <= code <= 255:
                raise self.fail(f"{key}[{index}]", f"an exit code from 1 to 255 is needed, not {code!r}")
        return tuple(sorted(set(values)))


def parse_json(text: t.Any, where: str) -> t.Any:
    """The value of a JSON text that others may have damaged; whatever is wrong with it becomes BadInput."""
    if not isinstance(text, str):
        raise BadInput("read", where, f"a text is needed, this is a {type(text).__name__}")
    try:
        value = json.loads(text, parse_constant=_no_constant)
        if _SURROGATE.search(text):
            # Half of a pair can be escaped, but neither printed nor sent.
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except RecursionError as error:
        raise BadInput("read", where, "it is nested too deeply") from error
    except ValueError as error:
        raise BadInput("read", where, f"it is no JSON: {error}") from error


def _no_constant(name: str) -> t.NoReturn:
    """NaN and infinities are no JSON, though Python would read them."""
    raise ValueError(f"{name} is no number")


def given_fields(options: t.Any) -> Data:
    """The fields of options that are set, by their names; the others are None."""
    return without_none({field.name: getattr(options, field.name) for field in dataclasses.fields(options)})


def without_none(data: Mapping[str, t.Any]) -> Data:
    """The entries of a mapping that have a value."""
    return {key: value for key, value in data.items() if value is not None}


def plain_value(value: t.Any, where: str, path: str = "", depth: int = 0) -> t.Any:
    """A deep copy made of JSON's own types; what JSON cannot hold is refused with its path."""
    if depth > _DEEPEST:
        raise BadInput("read", where, f"it is nested more than {_DEEPEST} levels deep")
    # Not isinstance: texts of Ansible's own types become plain ones.
    if value is None or isinstance(value, bool) or (value.__class__ is str and value.isascii()):
        return value
    target = f"{where}: {path}" if path else where
    if isinstance(value, str):
        return _plain_text(value, target)
    if isinstance(value, int) and abs(value) < _INT64:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, Mapping):
        # Most texts are plain already, and asking so here costs less than a call. The deepest ones are refused by it.
        flat = depth < _DEEPEST
        return {
            key if key.__class__ is str and key.isascii() else _plain_key(key, target): item
            if flat and item.__class__ is str and item.isascii()
            else plain_value(item, where, f"{path}.{key}" if path else str(key), depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_value(item, where, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise BadInput("read", target, f"{value!r} cannot be written as JSON; quote it if a text is meant")


def finite_number(value: t.Any) -> float | None:
    """The value as a number to reckon with; None when it is none, or larger than such numbers can be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _plain_text(value: str, target: str) -> str:
    """A text as a plain str; halves of surrogate pairs would not come back unchanged from the API server."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadInput("read", target, f"{value!r} is no valid Unicode text") from error
    return str(value)


def _plain_key(key: t.Any, target: str) -> str:
    """A key of a mapping: texts only, since JSON would silently turn numbers into texts."""
    if not isinstance(key, str):
        raise BadInput("read", target, f"the key {key!r} is no text; quote it")
    return _plain_text(key, target)
