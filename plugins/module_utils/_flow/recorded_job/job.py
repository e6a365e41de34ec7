# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a recorded Job is made of: its files, its description, its repetitions, and what becomes of it."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.logs import Log
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import TAIL_LINES
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    PodFacts,
    PodLimits,
    RunFacts,
    RunState,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import HANG_SECONDS
from ansible_collections.muster.kube.plugins.module_utils._store.run_records import RunRecord

Object = dict[str, t.Any]

# What one ConfigMap takes; the API server allows 1 MiB for all of it together.
BUNDLE_BYTES = 900 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class FileBundle:
    """Files for the Job's pods that go into one ConfigMap."""

    # Tells the bundles of one Job apart.
    key: str
    files: t.Mapping[str, bytes]

    def name(self, record_name: str) -> str:
        """The ConfigMap's name: other files get another name, since the object is immutable."""
        packed = {key: base64.b64encode(value).decode() for key, value in self.files.items()}
        text = canonical_json({"data": {}, "binary": packed})
        return f"{record_name}-{self.key}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def bundle_files(files: t.Mapping[str, bytes], describe: t.Callable[[str], str]) -> tuple[FileBundle, ...]:
    """The files in as many ConfigMaps as they need; one that is too large is refused as what describe calls it."""
    bundles: list[dict[str, bytes]] = [{}]
    room = BUNDLE_BYTES
    for key, content in files.items():
        if len(content) > BUNDLE_BYTES:
            raise BadInput("store", describe(key), f"it has {len(content)} bytes of at most {BUNDLE_BYTES}")
        if len(content) > room:
            bundles.append({})
            room = BUNDLE_BYTES
        bundles[-1][key] = content
        room -= len(content)
    return tuple(FileBundle(f"c{number}", held) for number, held in enumerate(bundles))


@dataclasses.dataclass(frozen=True, slots=True)
class JobContext:
    """What the description of a Job needs to know of its record."""

    name: str
    labels: t.Mapping[str, str]
    # Names of the ConfigMaps by the keys of their bundles.
    bundles: t.Mapping[str, str]
    # The repetitions that are left to be run, None for all.
    indexes: tuple[int, ...] | None = None
    # How many of the other repetitions failed.
    failed: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that is over, to be harvested."""

    state: RunState
    facts: RunFacts
    # Reads the end of a container's log by pod and container; None when it is lost.
    log: Log
    # Results of repetitions that were made before.
    results: t.Mapping[int, Data] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Repetitions:
    """The indexes of a Job as repetitions: each is harvested when its pod ends, and none that finished is run again."""

    count: int
    # More failures than this end the run.
    allowed: int
    limits: PodLimits
    # Makes of a pod what is kept of it.
    result: t.Callable[[int, PodFacts, Log], Data]
    # Takes out of a stored outcome the results that count for a later attempt.
    finished: t.Callable[[Data], dict[int, Data]]
    # Whether the repetition of a result failed, and whether it succeeded.
    failed: t.Callable[[Data], bool]
    good: t.Callable[[Data], bool]
    # Whether a stored result is one of that repetition: others may have changed it.
    usable: t.Callable[[int, Data], bool]

    def own(self, results: t.Mapping[int, Data]) -> dict[int, Data]:
        """Those of stored results that can be used."""
        return {index: result for index, result in results.items() if index < self.count and self.usable(index, result)}


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedJob:
    """A specification and how it is run."""

    namespace: str
    name: str
    labels: t.Mapping[str, str]
    # Kept in the record.
    spec: Data
    # Tells the specification apart from others of the same short name.
    identity: str
    bundles: tuple[FileBundle, ...]
    # The manifest (batch/v1) without owner.
    job: t.Callable[[JobContext], Object]
    # Makes the outcome: JSON values only.
    harvest: t.Callable[[FinishedRun], Data]
    failed_as: str
    # Whether a stored outcome does not count, so that the run is tried again.
    is_stale: t.Callable[[Data], bool]
    start_timeout: float | None = None
    # The Job's own deadline, after which its controller must have ended it.
    deadline_seconds: float | None = None
    ttl: float | None = None
    force: bool = False
    wait: bool = True
    # How many lines of a log are read from its end.
    log_lines: int = TAIL_LINES
    # Whether a log has the end that its container writes; None where nobody can tell.
    is_whole: t.Callable[[bytes], bool] | None = None
    # Whether to ask first if logs may be read at all; needless for who has just read one.
    check_logs: bool = True
    # For how many seconds a server is waited for that does not answer while the Job runs.
    patience: float = HANG_SECONDS
    repetitions: Repetitions | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RunResult:
    """What became of it; outcome is None while it goes on (then state tells where it stands)."""

    name: str
    attempt: int
    outcome: Data | None
    state: RunState
    cached: bool
    changed: bool


@dataclasses.dataclass(frozen=True, slots=True)
class FoundRun:
    """What is recorded of a specification, so that a run can go on from it without reading it again."""

    record: RunRecord | None = None
    # The stored outcome, whether it answers the task or not.
    outcome: Data | None = None
    # What a run would return without doing anything; None when it would work.
    result: RunResult | None = None

    @property
    def in_progress(self) -> bool:
        """Whether a run was begun that is not over."""
        return self.record is not None and self.record.stored is None
