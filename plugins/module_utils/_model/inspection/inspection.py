# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run of a script: what is asked for, what identifies it, and the result of each repetition."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import typing as t
from collections.abc import Collection, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import Frame
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hwinfo import complete_hwinfo
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    CANCELLED,
    LOST_RESULT,
    OOM,
    SCRIPT_FAILED,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_result import checked_result
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_volumes import RunVolume
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    Data,
    canonical_json,
    parse_json,
    plain_value,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text

OUTPUT_BYTES = 64 * 1024
# What the streams of all repetitions of a run take at most; all of it goes into the store of the cluster.
MOST_STORED = 32 * 1024 * 1024

ITEM_KEYS = (
    "index",
    "exit_code",
    "signal",
    "stdout",
    "stdout_json",
    "stderr",
    "truncated",
    "usage",
    "wall_seconds",
    "start",
    "end",
    "script_sha256",
    "image",
    "image_digest",
    "os_release",
    "hostname",
    "hwinfo",
    "placement_verified",
    "reason",
    "message",
)
_MEASURED = ("user_seconds", "system_seconds", "minor_faults", "major_faults", "max_rss_bytes")
_FURTHER = (
    "ru_ixrss",
    "ru_idrss",
    "ru_isrss",
    "ru_nswap",
    "ru_inblock",
    "ru_oublock",
    "ru_msgsnd",
    "ru_msgrcv",
    "ru_nsignals",
    "ru_nvcsw",
    "ru_nivcsw",
)
USAGE_KEYS = (*_MEASURED, "cgroup_memory_peak_bytes", *_FURTHER)

_SIGKILL = 9
# The size of a result: what one line of a frame holds, and what there is besides the streams.
_LINE_BYTES = 57
_FACTS_BYTES = 256 * 1024
_WARMUP_STDERR = 1000
_WARMUP_ENTRY = 100
_ODD_BYTES = 64
_MORE_LINES = 1000
# Pods give whole seconds, and the clock of a node may be set meanwhile.
_CLOCK_SLACK = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class RunFile:
    """A file the script finds, read-only, under an absolute path."""

    path: str
    content: bytes
    mode: int = 0o444


@dataclasses.dataclass(frozen=True, slots=True)
class RunSpec:
    """A script and how it is run; resources are both requests and limits, environment holds env entries of a pod.

    hardware and security are the canonical forms of what was asked for.
    """

    image: str
    script: bytes
    args: tuple[str, ...] = ()
    interpreter: str | None = None
    environment: tuple[Mapping[str, t.Any], ...] = ()
    files: tuple[RunFile, ...] = ()
    workdir: str | None = None
    repetitions: int = 1
    parallelism: int = 1
    warmup: int = 0
    allowed_failures: int = 0
    timeout: int = 3600
    output_bytes: int = OUTPUT_BYTES
    resources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    hardware: Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    runtime_class: str | None = None
    security: Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    volumes: tuple[RunVolume, ...] = ()

    @property
    def script_sha256(self) -> str:
        """What the collector will report as well."""
        return hashlib.sha256(self.script).hexdigest()


def run_data(spec: RunSpec, image_digest: str | None) -> Data:
    """Everything that shapes the results, as plain values: contents by their digests, the image by its own."""
    return {
        "image": image_digest or spec.image,
        "script_sha256": spec.script_sha256,
        "args": list(spec.args),
        "interpreter": spec.interpreter,
        "environment": [dict(entry) for entry in spec.environment],
        "files": [
            {"path": item.path, "mode": item.mode, "sha256": hashlib.sha256(item.content).hexdigest()}
            for item in sorted(spec.files, key=lambda item: item.path)
        ],
        "workdir": spec.workdir,
        "repetitions": spec.repetitions,
        "parallelism": spec.parallelism,
        "warmup": spec.warmup,
        "allowed_failures": spec.allowed_failures,
        "timeout": spec.timeout,
        "output_bytes": spec.output_bytes,
        "resources": dict(spec.resources),
        "hardware": dict(spec.hardware),
        "runtime_class": spec.runtime_class,
        "security": dict(spec.security),
        # A run without volumes is called what it was called before there were any.
        **({"volumes": [volume.as_data() for volume in spec.volumes]} if spec.volumes else {}),
    }


def run_hash(spec: RunSpec, image_digest: str | None) -> str:
    """The identity of a run; who waits for whom, and with which rights it is pulled, does not belong to it."""
    return hashlib.sha256(canonical_json(run_data(spec, image_digest)).encode()).hexdigest()


def result_lines(spec: RunSpec) -> int:
    """How many lines of a log a result takes at most: both streams in base64, once more in base64 for the frame.

    A warm-up run that failed adds the end of its stderr. What hardware facts need is far below the rest.
    """
    streams = 2 * _coded(spec.output_bytes + _ODD_BYTES)
    warmups = spec.warmup * (_coded(_WARMUP_STDERR) + _WARMUP_ENTRY)
    return (streams + warmups + _FACTS_BYTES) // _LINE_BYTES + _MORE_LINES


def kept_bytes(spec: RunSpec) -> int:
    """How much of each stream of each repetition is kept; what is more is left out, and marked, by the collector."""
    return min(spec.output_bytes, MOST_STORED // (2 * spec.repetitions))


def _coded(size: int) -> int:
    """So many bytes in base64."""
    return (size + 2) // 3 * 4


@dataclasses.dataclass(frozen=True, slots=True)
class ItemFacts:
    """What is known of one repetition without its own result: where it ran and how its pod ended.

    node is the Node object, labels those of its labels that are kept; reason is that of the pod's own failure.
    """

    index: int
    image: str
    image_digest: str | None = None
    node: Mapping[str, t.Any] | None = None
    node_name: str | None = None
    labels: Collection[str] = ()
    placement_verified: bool | None = None
    exit_code: int | None = None
    started: float | None = None
    finished: float | None = None
    reason: str | None = None
    message: str = ""


def item_from_frame(frame: Frame, facts: ItemFacts) -> Data:
    """The result of one repetition; without a frame it holds what the pod's status holds.

    A script has the rights of the collector and can write in its name. So types are checked, and exit code and times
    against those of the kubelet; the rest has to be believed.
    """
    frame = _plausible(checked_result(frame), facts)
    payload = frame.payload or {}
    outputs = {name: _output(payload.get(name)) for name in ("stdout", "stderr")}
    stdout, is_json = _parsed(outputs["stdout"])
    hwinfo = _hwinfo(payload, facts)
    reason, message = _reason(frame, facts)
    return {
        "index": facts.index,
        "exit_code": payload.get("exit_code", facts.exit_code),
        "signal": payload.get("signal"),
        "stdout": stdout,
        "stdout_json": is_json,
        "stderr": outputs["stderr"].text,
        "truncated": {name: output.dropped for name, output in outputs.items()},
        "usage": _usage(payload, hwinfo),
        "wall_seconds": payload.get("wall_seconds"),
        "start": _time(payload.get("start", facts.started)),
        "end": _time(payload.get("end", facts.finished)),
        "script_sha256": payload.get("script_sha256"),
        "image": facts.image,
        "image_digest": facts.image_digest,
        "os_release": payload.get("os_release"),
        "hostname": payload.get("hostname"),
        "hwinfo": hwinfo,
        "placement_verified": facts.placement_verified,
        "reason": reason,
        "message": message,
    }


def _plausible(frame: Frame, facts: ItemFacts) -> Frame:
    """The frame, or one without a result when it contradicts what the kubelet saw."""
    payload = frame.payload
    if payload is None:
        return frame
    told, seen = payload.get("exit_code"), facts.exit_code
    # Who was ended from outside may have had no time to end with the code of its script.
    by_itself = facts.reason in (None, SCRIPT_FAILED)
    if by_itself and told is not None and seen is not None and told != seen:
        return Frame(None, f"the result says exit code {told}, its container ended with {seen}")
    if facts.started is None or facts.finished is None:
        return frame
    first, last = facts.started - _CLOCK_SLACK, facts.finished + _CLOCK_SLACK
    moments = [payload[key] for key in ("start", "end") if payload.get(key) is not None]
    if any(not first <= moment <= last for moment in moments) or (payload.get("wall_seconds") or 0) > last - first:
        return Frame(None, "the times of the result are not within those of its container")
    return frame


@dataclasses.dataclass(frozen=True, slots=True)
class _Output:
    """What was kept of one stream."""

    text: str
    dropped: int


def _output(stream: t.Any) -> _Output:
    """Put together the first and the last bytes of a stream, which may overlap."""
    if not isinstance(stream, Mapping):
        return _Output("", 0)
    head, tail = _bytes(stream.get("head")), _bytes(stream.get("tail"))
    total = _count(stream.get("bytes"))
    missing = total - len(head)
    if missing <= 0:
        return _Output(head.decode(errors="replace"), 0)
    if missing <= len(tail):
        return _Output((head + tail[len(tail) - missing :]).decode(errors="replace"), 0)
    dropped = missing - len(tail)
    parts = (head.decode(errors="replace"), f"\n[... {dropped} bytes left out ...]\n", tail.decode(errors="replace"))
    return _Output("".join(parts), dropped)


def _bytes(value: t.Any) -> bytes:
    """The bytes behind base64; none for anything else."""
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""


def _count(value: t.Any) -> int:
    """A count out of a result, 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _parsed(output: _Output) -> tuple[t.Any, bool]:
    """The value of an output that is one whole JSON text, else the text."""
    if output.dropped or not output.text.strip():
        return output.text, False
    try:
        return plain_value(parse_json(output.text, "stdout"), "stdout"), True
    except BadInput:
        return output.text, False


def _time(seconds: t.Any) -> str | None:
    """A moment as a text, to the microsecond."""
    return micro_time_text(round(seconds * 1_000_000)) if isinstance(seconds, int | float) else None


def _hwinfo(payload: Mapping[str, t.Any], facts: ItemFacts) -> Data:
    """The facts the script had, with the counters of the run itself and what is known of the node."""
    seen = payload.get("hwinfo")
    if not isinstance(seen, Mapping):
        seen = {"node": {"name": facts.node_name}}
    return complete_hwinfo(seen, facts.node, facts.labels)


def _usage(payload: Mapping[str, t.Any], hwinfo: Data) -> Data:
    """What the script used; the absent facts hold why something is unknown."""
    given = payload.get("usage")
    measured: Mapping[str, t.Any] = given if isinstance(given, Mapping) else {}
    usage: Data = {name: measured.get(name) for name in USAGE_KEYS}
    usage["cgroup_memory_peak_bytes"] = hwinfo["pressure"]["memory_peak_bytes"]
    why = "python3 is not in the image" if measured.get("source") == "proc" else "the collector did not tell it"
    reasons = dict.fromkeys(USAGE_KEYS, why)
    if floor := measured.get("max_rss_floor_bytes"):
        reasons["max_rss_bytes"] = f"it is less than the {floor} bytes of the process that measured it"
    elif measured.get("source") == "proc":
        reasons["max_rss_bytes"] = "the script ended before it was looked at"
    reasons["cgroup_memory_peak_bytes"] = hwinfo["absent"].get("pressure.memory_peak_bytes", why)
    hwinfo["absent"].update({f"usage.{name}": reasons[name] for name in USAGE_KEYS if usage[name] is None})
    return usage


def _reason(frame: Frame, facts: ItemFacts) -> tuple[str | None, str]:
    """Why a repetition failed, with all remarks about it."""
    payload = frame.payload
    remarks = [facts.message] if facts.message else []
    if payload is None:
        remarks.append(frame.problem or "")
        return facts.reason or LOST_RESULT, "; ".join(remarks)
    reason = _own_reason(payload)
    # A pod knows only that its script failed; the result may know why.
    if facts.reason not in (None, SCRIPT_FAILED):
        reason = facts.reason
    elif reason is not None:
        remarks = [_ending(payload, reason)]
    if frame.problem:
        remarks.append(frame.problem)
    return reason, "; ".join([*remarks, *_remarks(payload)])


def _own_reason(payload: Mapping[str, t.Any]) -> str | None:
    """Why the script failed according to its own result."""
    if payload.get("exit_code") == 0:
        return None
    pressure = (payload.get("hwinfo") or {}).get("pressure") or {}
    if payload.get("signal") == _SIGKILL and pressure.get("oom_kill"):
        return OOM
    return CANCELLED if payload.get("terminated") else SCRIPT_FAILED


def _ending(payload: Mapping[str, t.Any], reason: str) -> str:
    """How the script ended, as text."""
    if reason == OOM:
        return "the script was killed because its container used more memory than its limit"
    if reason == CANCELLED:
        return "the script was told to stop before it ended"
    if payload.get("signal"):
        return f"the script was ended by signal {payload['signal']}"
    return f"the script ended with exit code {payload.get('exit_code')}"


def _remarks(payload: Mapping[str, t.Any]) -> list[str]:
    """What else the collector noticed: failed warm-up runs, output held open, its own notes."""
    remarks = []
    for failure in (payload.get("warmup") or {}).get("failures") or ():
        end = _bytes(failure.get("stderr")).decode(errors="replace").strip()
        text = f"warm-up run {failure.get('run')} ended with exit code {failure.get('exit_code')}"
        remarks.append(f"{text}: {end}" if end else text)
    if payload.get("output_held"):
        remarks.append("processes the script left behind held its output open and were not waited for")
    return remarks + [str(note) for note in payload.get("notes") or ()]
