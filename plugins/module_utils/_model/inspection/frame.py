# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The frame at the end of a log that carries one JSON result: whatever else the log holds, and however it was cut.

The first line says how long the JSON is and what its SHA-256 is, so a result is either whole or known to be damaged.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import re

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, parse_json

FRAME_VERSION = 1
NO_FRAME = "the log holds no result"
_BEGIN = re.compile(rb"-----BEGIN MUSTER RESULT v([0-9]{1,9}) ([0-9]{1,12}) (-|[0-9a-f]{64})-----\n")
_END = b"\n-----END MUSTER RESULT-----\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """The last whole result of a log; problem tells what is wrong with a frame after it, or why there is none."""

    payload: Data | None
    problem: str | None = None


def read_frames(log: bytes) -> Frame:
    """Find the last whole frame of a log."""
    begins = list(_BEGIN.finditer(log))
    problem = None
    for position in range(len(begins) - 1, -1, -1):
        limit = begins[position + 1].start() if position + 1 < len(begins) else len(log)
        try:
            return Frame(_open(begins[position], log[begins[position].end() : limit]), problem)
        except BadInput as error:
            problem = problem or f"the result in the log is damaged: {error.cause}"
    return Frame(None, problem or NO_FRAME)


def holds_result(log: bytes) -> bool:
    """Whether a log ends with a frame that has its own end, whatever is in it."""
    begins = list(_BEGIN.finditer(log))
    return bool(begins) and _END in log[begins[-1].end() :]


def without_result(log: bytes) -> bytes:
    """A log up to its last frame, whole or not: the collector begins it in a new line when everything else is over."""
    begins = list(_BEGIN.finditer(log))
    return log[: begins[-1].start()].removesuffix(b"\n") if begins else log


def _open(begin: re.Match[bytes], rest: bytes) -> Data:
    """The content of one frame; rest is the log from its second line to the next frame."""
    version, length, digest = int(begin[1]), int(begin[2]), begin[3].decode()
    if version != FRAME_VERSION:
        raise _damaged(f"it is of version {version}, known is {FRAME_VERSION}")
    end = rest.find(_END)
    if end < 0:
        raise _damaged("its end is missing")
    try:
        content = base64.b64decode(rest[:end].replace(b"\n", b""), validate=True)
    except binascii.Error as error:
        raise _damaged(f"it is no base64: {error}") from error
    if len(content) != length:
        raise _damaged(f"{length} bytes were announced, there are {len(content)}")
    # An image without any program for checksums writes a dash.
    if digest not in ("-", hashlib.sha256(content).hexdigest()):
        raise _damaged("its checksum is wrong")
    value = parse_json(content.decode(errors="replace"), "the result")
    if not isinstance(value, dict):
        raise _damaged("a mapping is needed")
    return value


def _damaged(cause: str) -> BadInput:
    return BadInput("read", "the result", cause)
