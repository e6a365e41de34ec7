# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records: the objects that hold queued gangs, ConfigMaps or AppWrappers, as they were last read."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import (
    WRAPPER_KIND,
    spec_of_wrapper,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import (
    PHASE_LABEL,
    spec_of_record,
    submission_time,
    user_of,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    FINISHED_PHASES,
    WAITING_PHASES,
    GangState,
    Phase,
    newer_state,
    read_state,
    state_problem,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.stores import Store
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import (
    BadInput,
    NewerVersion,
    unforeseen,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object

Object = dict[str, t.Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A queued gang as it was last read; what cannot be understood is None, and the problem says why.

    newer says why a record is for a newer version of the collection only; it is then left alone.
    """

    store: Store
    raw: Object
    spec: GangSpec | None
    spec_problem: str | None
    state: GangState | None
    state_problem: str | None
    newer: str | None = None
    # Whether the state is what this process knows, and not yet what the record says.
    unsaved: bool = False
    # The size that a waiting elastic gang is to be started with.
    chosen: int | None = None
    # What tells this record from a later one of the same name.
    uid: str = dataclasses.field(init=False, repr=False, compare=False)
    # Where the record and all of its gang lie.
    namespace: str = dataclasses.field(init=False, repr=False, compare=False)
    name: str = dataclasses.field(init=False, repr=False, compare=False)
    # A gang without a state was never started.
    phase: Phase = dataclasses.field(init=False, repr=False, compare=False)
    # The number of the present or next attempt.
    attempt: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Cycles ask for these so often that they are looked up once."""
        for field in ("uid", "namespace", "name"):
            object.__setattr__(self, field, str(self.raw["metadata"].get(field)))
        phase: Phase = self.state.phase if self.state is not None else "queued"
        object.__setattr__(self, "attempt", self.state.attempt if self.state is not None else 1)
        object.__setattr__(self, "phase", "unknown" if self.newer is not None else phase)
        if self.spec is not None and self.spec.elastic is not None:
            state = self.state
            size = self.chosen if state is None or phase in WAITING_PHASES else state.allotment
            object.__setattr__(self, "spec", self.spec.with_allotment(size))

    @property
    def spec_started(self) -> GangSpec | None:
        """The specification with the size that the present attempt was started with, to which its ticket belongs."""
        size = self.state.started_size if self.state is not None else None
        return self.spec if self.spec is None or size is None else self.spec.with_allotment(size)

    @property
    def resizable(self) -> bool:
        """Whether the gang is elastic and runs."""
        return self.phase == "running" and self.spec is not None and self.spec.elastic is not None

    @property
    def key(self) -> str:
        """Namespace and name as one text."""
        return f"{self.namespace}/{self.name}"

    @property
    def unreadable(self) -> str:
        """Why there is no specification in it."""
        return self.spec_problem or "its record holds no gang"

    @property
    def submitted(self) -> float:
        """When the gang was queued, in seconds since 1970 by the server's clock."""
        return submission_time(self.raw["metadata"])

    @property
    def why(self) -> tuple[str, str]:
        """Why the gang is in its phase, in one word and in a sentence; empty where its state does not tell."""
        last = self.state.transitions[-1] if self.state is not None and self.state.transitions else None
        return ("", "") if last is None else (last.reason, last.message)

    @property
    def resource_version(self) -> str:
        """The version that the next write must still find."""
        return str(self.raw["metadata"]["resourceVersion"])

    @property
    def labels(self) -> Mapping[str, str]:
        """The record's labels."""
        return self.raw["metadata"].get("labels") or {}

    @property
    def user(self) -> str:
        """Who queued the gang, as its record says; empty where it does not say."""
        return user_of(self.raw["metadata"])

    @property
    def finished(self) -> bool:
        """Whether the gang is over."""
        return self.phase in FINISHED_PHASES

    @property
    def labelled(self) -> bool:
        """Whether the label by which finished records are left out of lists says what the state says."""
        shown = self.labels.get(PHASE_LABEL)
        return shown == self.phase if self.finished else shown not in FINISHED_PHASES

    @property
    def terminating(self) -> bool:
        """Whether the record is being deleted and only waits for others to let it go."""
        return bool(self.raw["metadata"].get("deletionTimestamp"))

    def __str__(self) -> str:
        """The record in words for messages."""
        return describe_object(self.raw)


def with_unsaved(record: Record, state: GangState) -> Record:
    """The record with a state that is still to be written into it."""
    return dataclasses.replace(record, state=state, state_problem=None, unsaved=True)


def with_size(record: Record, size: int) -> Record:
    """A waiting record as it is started with this size."""
    return dataclasses.replace(record, chosen=size)


def as_stored(record: Record) -> Record:
    """The record with the state that it holds itself."""
    return record_of_spec(record.store, record.raw, record.spec, record.spec_problem) if record.unsaved else record


def record_from_api(raw: Object) -> Record:
    """Read what a record holds; a record that others broke is a record too."""
    store: Store = "appwrapper" if raw.get("kind") == WRAPPER_KIND else "configmap"
    spec, problem, newer = None, None, None
    try:
        spec = spec_of_wrapper(raw) if store == "appwrapper" else spec_of_record(raw)
    except NewerVersion as error:
        newer = str(error)
    except BadInput as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - whatever stands in it harms no other gang
        problem = unforeseen(error)
    return record_of_spec(store, raw, spec, problem, newer)


def record_of_spec(
    store: Store,
    raw: Object,
    spec: GangSpec | None,
    problem: str | None,
    newer: str | None = None,
    *,
    state: GangState | None = None,
) -> Record:
    """A record whose specification is known already, and the state too if it is given."""
    annotations = raw["metadata"].get("annotations")
    state = state or read_state(annotations)
    if state is not None:
        return Record(store, raw, spec, problem, state, None, newer)
    return Record(store, raw, spec, problem, None, state_problem(annotations), newer or newer_state(annotations))
