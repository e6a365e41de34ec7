# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Frames as the builder's script writes them, for tests of what reads them."""

from __future__ import annotations

import base64
import hashlib
import json
import typing as t

DONE = {"stage": "done", "exit_code": 0, "digest": "sha256:1", "base_digest": "sha256:2", "image_id": "sha256:3"}


def framed(payload: t.Mapping[str, t.Any], before: bytes = b"STEP 1\n") -> bytes:
    """A log that ends with a frame."""
    content = json.dumps(payload).encode()
    digest = hashlib.sha256(content).hexdigest()
    head = f"-----BEGIN MUSTER RESULT v1 {len(content)} {digest}-----\n".encode()
    return before + head + base64.encodebytes(content) + b"-----END MUSTER RESULT-----\n"
