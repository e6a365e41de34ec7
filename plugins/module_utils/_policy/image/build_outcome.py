# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The outcome of a build: from the builder's frame, its log and the end of its run to one answer."""

from __future__ import annotations

import base64
import binascii
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSpec, parse_packages
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import Frame
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    BUILD_FAILED,
    IMAGE_PULL,
    LOST_RESULT,
    OOM,
    PUSH_FAILED,
    RunState,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text

LOG_BYTES = 256 * 1024

_BY_STAGE = {"pull": IMAGE_PULL, "push": PUSH_FAILED}
# What buildah says when the image a Dockerfile starts from cannot be had.
_NO_BASE = re.compile(r"creating build container: .*(docker://|short-name|registr|manifest)")
_FRAME = re.compile(rb"-----BEGIN MUSTER RESULT v.*\Z", re.DOTALL)
_MESSAGE = 2000


def build_outcome(spec: BuildSpec, state: RunState, frame: Frame, log: bytes | None) -> Data:
    """What became of a build; reason is None only when the image is known to be there.

    The end of the run explains what the builder could not see any more; else the builder's last stage does.
    """
    payload: t.Mapping[str, t.Any] = frame.payload or {}
    text, dropped = log_text(log)
    reason, message = _reason(state, frame, text)
    return {
        "image": spec.reference,
        "digest": _told(payload, "digest"),
        "image_id": _told(payload, "image_id"),
        "base_digest": _told(payload, "base_digest"),
        "created": _moment(payload),
        "spec_hash": spec.spec_hash,
        "packages": parse_packages(_decoded(payload.get("packages"))),
        "reason": reason,
        "message": message,
        "log": text,
        "log_truncated": dropped,
    }


def joined_frames(build: Frame, push: Frame | None) -> Frame:
    """What the builder and, after it, the one who pushes said, as one; without the latter's word it failed to push."""
    told = build.payload
    if told is None or told.get("stage") != "built":
        return build
    pushed = push.payload if push is not None else None
    if pushed is None:
        return Frame({**told, "stage": "push", "exit_code": None}, push.problem if push is not None else None)
    ended = {key: pushed.get(key) for key in ("stage", "exit_code", "terminated", "digest", "oom_kill")}
    return Frame({**told, **ended}, push.problem if push is not None else None)


def log_text(log: bytes | None, most: int = LOG_BYTES) -> tuple[str, int]:
    """The builder's log without its frame, its end when it is long, and how many bytes were dropped."""
    whole = without_frame(log)
    kept = whole[-most:]
    return kept.decode("utf-8", "replace"), len(whole) - len(kept)


def without_frame(log: bytes | None) -> bytes:
    """A log without the frame at its end."""
    return _FRAME.sub(b"", log or b"")


def last_error(text: str) -> str:
    """The line of a log that most likely says why it failed: the last one with an error in it, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"(?i)\berror\b|\bfailed\b|denied|not permitted", line)]
    return (errors or lines or [""])[-1][:_MESSAGE]


def _reason(state: RunState, frame: Frame, text: str) -> tuple[str | None, str]:
    """Why it failed, and in which words."""
    payload: t.Mapping[str, t.Any] = frame.payload or {}
    # An image that is not pushed has no digest of a registry.
    known = _told(payload, "digest") or _told(payload, "image_id")
    done = payload.get("stage") == "done" and payload.get("exit_code") == 0 and known is not None
    if state.phase == "succeeded":
        return (None, "") if done else (LOST_RESULT, frame.problem or "the builder did not say that it was done")
    if state.reason not in (None, BUILD_FAILED):
        return state.reason, state.message
    if done:
        # The image was pushed before its pod was ended.
        return None, ""
    words = last_error(text) or state.message
    if payload.get("oom_kill"):
        return OOM, f"the builder used more memory than its limit: {words}"
    if payload.get("stage") == "build" and _NO_BASE.search(words):
        return IMAGE_PULL, words
    return _BY_STAGE.get(str(payload.get("stage")), BUILD_FAILED), words


def _told(payload: t.Mapping[str, t.Any], key: str) -> str | None:
    """A text of the frame; whatever else a program in the build may have written there is not stored."""
    value = payload.get(key)
    return value if isinstance(value, str) and value else None


def _moment(payload: t.Mapping[str, t.Any]) -> str | None:
    """When the image was made, if the frame tells a time."""
    told = _told(payload, "created")
    return told if read_time(told) is not None else None


def build_times(started: float | None, finished: float | None) -> Data:
    """When a build began and ended, and how many seconds it took; what is not known is None."""
    known = started is not None and finished is not None
    return {
        "started_at": None if started is None else time_text(started),
        "finished_at": None if finished is None else time_text(finished),
        "duration": round((finished or 0.0) - (started or 0.0), 3) if known else None,
    }


def _decoded(value: t.Any) -> str:
    """Text behind base64; nothing when there is none."""
    try:
        return base64.b64decode(str(value or ""), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
