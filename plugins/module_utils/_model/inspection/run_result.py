# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of scripts read with distrust: what a script wrote in the collector's name has the right types or is lost.

The same is asked of outcomes that were stored: others may have changed them meanwhile.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import Frame
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import plain_value
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import LAST_MOMENT

Check = Callable[[t.Any], bool]


def _is_text(value: t.Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: t.Any) -> bool:
    return isinstance(value, bool)


def _is_whole(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: t.Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_amount(value: t.Any) -> bool:
    return _is_number(value) and value >= 0


def _is_moment(value: t.Any) -> bool:
    return _is_number(value) and 0 <= value <= LAST_MOMENT


def _is_scalar(value: t.Any) -> bool:
    return isinstance(value, str | int | float)


def _all_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


def _map_of(check: Check, **known: Check) -> Check:
    """A mapping with such values; known keys may have others. None stands for a fact that is not known."""

    def holds(value: t.Any) -> bool:
        return isinstance(value, Mapping) and all(
            item is None or known.get(key, check)(item) for key, item in value.items()
        )

    return holds


def _anything(_value: t.Any) -> bool:
    return True


def _is_scalar_or_map(value: t.Any) -> bool:
    return _is_scalar(value) or _map_of(_is_scalar)(value)


_STREAM = _map_of(_is_scalar, bytes=_is_whole, head=_is_text, tail=_is_text)
_HWINFO = _map_of(
    _is_scalar,
    cpu=_map_of(_is_scalar, flags=_all_of(_is_text), caches=_map_of(_is_scalar_or_map)),
    gpus=_all_of(_map_of(_is_scalar_or_map)),
    memory=_map_of(_is_scalar),
    numa=_map_of(_is_scalar),
    limits=_map_of(_is_scalar),
    pressure=_map_of(_is_scalar),
    os=_map_of(_is_scalar),
    node=_map_of(_is_scalar, labels=_map_of(_is_scalar)),
    absent=_map_of(_is_scalar),
)
_RESULT: Mapping[str, Check] = {
    "exit_code": _is_whole,
    "signal": _is_whole,
    "terminated": _is_flag,
    "output_held": _is_flag,
    "wall_seconds": _is_amount,
    "start": _is_moment,
    "end": _is_moment,
    "usage": _map_of(_is_number, source=_is_text),
    "stdout": _STREAM,
    "stderr": _STREAM,
    "script_sha256": _is_text,
    "warmup": _map_of(_is_whole, failures=_all_of(_map_of(_is_scalar, stderr=_is_text))),
    "hostname": _is_text,
    "os_release": _map_of(_is_scalar),
    "pod": _map_of(_is_scalar),
    "notes": _all_of(_is_text),
    "hwinfo": _HWINFO,
}
_ITEM: Mapping[str, Check] = {
    "index": _is_whole,
    "exit_code": _is_whole,
    "stderr": _is_text,
    "truncated": _map_of(_is_whole),
    "usage": _map_of(_is_number),
    "wall_seconds": _is_amount,
    "start": _is_text,
    "end": _is_text,
    "image": _is_text,
    "image_digest": _is_text,
    "hwinfo": _HWINFO,
    "placement_verified": _is_flag,
    "reason": _is_text,
    "message": _is_text,
    "stdout": _anything,
}
_NEEDED = ("index", "stdout", "stderr", "hwinfo")


def checked_result(frame: Frame) -> Frame:
    """The frame, or one without a result when a value in it is not of the type the collector writes."""
    if frame.payload is None:
        return frame
    try:
        payload = plain_value(frame.payload, "the result")
    except BadInput as error:
        return Frame(None, f"the result cannot be used: {error.cause}")
    wrong = _wrong_keys(payload, _RESULT)
    return (
        Frame(None, f"the result cannot be used: {', '.join(wrong)} is not as the collector writes it")
        if wrong
        else frame
    )


def outcome_problem(outcome: Mapping[str, t.Any]) -> str | None:
    """What is wrong with a stored outcome; None when all who read it can."""
    if not all(outcome.get(key) is None or isinstance(outcome[key], str) for key in ("reason", "message")):
        return "reason and message are no texts"
    items = outcome.get("items")
    if items is not None and not isinstance(items, list):
        return "items is no list"
    for position, item in enumerate(items or ()):
        if not isinstance(item, Mapping):
            return f"items[{position}] is no mapping"
        lacking = [key for key in _NEEDED if key not in item]
        if lacking or _wrong_keys(item, _ITEM):
            return f"items[{position}]: {', '.join(lacking or _wrong_keys(item, _ITEM))} is not as it was stored"
    return None


def _wrong_keys(data: Mapping[str, t.Any], checks: Mapping[str, Check]) -> list[str]:
    return [key for key, check in checks.items() if data.get(key) is not None and not check(data[key])]
