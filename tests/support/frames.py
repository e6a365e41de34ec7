# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Frames as the collector and the build script write them, made in Python."""

from __future__ import annotations

import base64
import hashlib
import json
import typing as t

_LINE = 76


def write_frame(content: bytes) -> bytes:
    """Any bytes in a frame."""
    text = base64.b64encode(content)
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    head = f"-----BEGIN MUSTER RESULT v1 {len(content)} {hashlib.sha256(content).hexdigest()}-----"
    return b"\n".join([head.encode(), *lines, b"-----END MUSTER RESULT-----", b""])


def framed(payload: t.Any) -> bytes:
    """A JSON value in a frame."""
    return write_frame(json.dumps(payload).encode())
