# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answer of an inspection: the same keys whatever became of it, and wherever it ran."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import text_of_verdict
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import CANCELLED, RunState
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_summary import (
    all_verified,
    last_words,
    summarize,
    telling_failure,
)

_PHASES = {"pending": "Pending", "running": "Running", "succeeded": "Succeeded", "failed": "Failed"}
_BUILD_KEYS = (
    *("phase", "reason", "message", "waiting_for", "name", "attempt", "image", "digest", "base_digest", "cached"),
    *("created", "started_at", "finished_at", "duration", "engine_used", "tier", "tiers_refused", "node", "packages"),
    *("log", "log_truncated"),
)


def empty_answer(namespace: str | None, ignored: t.Sequence[str] = ()) -> Data:
    """All keys, before anything is known."""
    return {
        "inspection_id": None,
        "namespace": namespace,
        "phase": "Pending",
        "status": {"build": None, "run": None},
        "attempt": None,
        "runs": [],
        "placements": [],
        "summary": summarize([]),
        "hwinfo": None,
        "placement_verified": None,
        "image": None,
        "image_digest": None,
        "dockerfile": None,
        "spec_hash": None,
        "run_hash": None,
        "specification": None,
        "cached": False,
        "changed": False,
        "reason": None,
        "message": None,
        "verdict": None,
        "verdict_text": None,
        "ignored": list(ignored),
        "matrix": [],
    }


def run_phase(state: RunState) -> str:
    """The phase of an inspection whose run is in a state."""
    return "Cancelled" if state.reason == CANCELLED else _PHASES[state.phase]


def with_outcome(answer: Data, state: RunState, outcome: t.Mapping[str, t.Any] | None) -> Data:
    """The answer with the run's state and, when it is over, its results."""
    known = outcome or {}
    items = list(known.get("items") or ())
    digests = [item["image_digest"] for item in items if item.get("image_digest")]
    return {
        **answer,
        "phase": run_phase(state),
        "status": {**answer["status"], "run": state.as_dict()},
        "runs": items,
        "placements": list(known.get("placements") or ()),
        "summary": summarize(items),
        "hwinfo": items[0]["hwinfo"] if items else None,
        "placement_verified": all_verified(items),
        "image_digest": answer["image_digest"] or (digests[0] if digests else None),
        "reason": state.reason,
        "message": _message(state, items),
    }


def _message(state: RunState, items: t.Sequence[Data]) -> str | None:
    """The reason in words; of runs that failed with what the most telling of them wrote last."""
    failed = [item for item in items if item.get("reason") is not None]
    words = last_words(telling_failure(failed)) if state.reason is not None and failed else ""
    return "\n".join(part for part in (state.message, words) if part) or None


def with_verdict(answer: Data, verdict: Data | None) -> Data:
    """The answer with what was said about the room for its pods."""
    return {**answer, "verdict": verdict, "verdict_text": text_of_verdict(verdict)}


def with_build(answer: Data, build: t.Mapping[str, t.Any]) -> Data:
    """The answer with what became of the image."""
    reason = build.get("reason")
    phase = build.get("phase") or ("failed" if reason else "succeeded")
    status = {key: build.get(key) for key in _BUILD_KEYS} | {"phase": phase}
    phases = {"failed": "Failed", "succeeded": "Succeeded"}
    return {
        **answer,
        "phase": phases.get(phase, "Building"),
        "status": {**answer["status"], "build": status},
        "image": build.get("image"),
        "image_digest": build.get("digest"),
        "dockerfile": build.get("dockerfile"),
        "spec_hash": build.get("spec_hash"),
        "changed": answer["changed"] or bool(build.get("changed")),
        "cached": bool(build.get("cached")),
        "reason": reason,
        "message": build.get("message") or None,
    }


def has_failed(answer: Data) -> bool:
    """Whether an inspection is over and has no good result."""
    return answer["phase"] in ("Failed", "Cancelled")


def finished_answer(answer: Data, *, fail_when_failed: bool) -> Data:
    """The answer as the task's result: one that failed fails the task unless it shall not."""
    if not has_failed(answer) or not fail_when_failed:
        return answer
    name = answer["inspection_id"] or answer["image"] or ("the matrix" if answer["matrix"] else "the stack")
    target = f"inspection {answer['namespace']}/{name}" if answer["namespace"] else f"inspection {name}"
    cause = f"{answer['reason']}: {answer['message']}" if answer["message"] else str(answer["reason"])
    error = {"action": "finish", "object": target, "cause": cause}
    return {**answer, "failed": True, "msg": f"Cannot finish {target}: {cause}", "error": error}
