# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bell: watches that ring when something a cycle decides on has changed, so that a run reacts at once."""

from __future__ import annotations

import functools
import threading
import typing as t
from collections.abc import Callable, Hashable, Iterable

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import list_and_watch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import WRAPPER_API
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import (
    PHASE_LABEL,
    RECORD_LABEL,
    UNFINISHED_SELECTOR,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import read_state
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Path
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_named
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import conditions, value_at
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import scopes

Object = dict[str, t.Any]
Essence = Callable[[Object], Hashable]


class ChangeSignal:
    """Rings until it is silenced; used as a context, at whose end the watches end too."""

    def __init__(self, client: KubeClient, terms: DispatchOptions, identity: str) -> None:
        """Nothing is watched before the block is entered; writes of this identity do not ring."""
        self._client = client
        self._identity = identity
        self._rung = threading.Event()
        self._over = threading.Event()
        self._followed: set[tuple[str, str]] = set()
        self._scopes = scopes(terms)
        self._wanted: list[tuple[str, str | None, Essence]] = []
        for namespace in self._scopes:
            # Of finished records nothing is heard, but that they are finished now.
            selector = f"{RECORD_LABEL},{UNFINISHED_SELECTOR}"
            self._wanted.append((resource_path("v1", "configmaps", namespace), selector, self._record))
            if find_resource(client, WRAPPER_API, "AppWrapper") is not None:
                path = resource_path(WRAPPER_API, "appwrappers", namespace)
                self._wanted.append((path, UNFINISHED_SELECTOR, self._record))
        self._wanted.append((resource_path("v1", "pods"), None, _pod))
        self._wanted.append((resource_path("v1", "nodes"), None, _node))

    def __enter__(self) -> ChangeSignal:
        """Start one thread per watch."""
        for path, selector, essence in self._wanted:
            self._start(path, selector, essence)
        return self

    def _start(self, path: str, selector: str | None, essence: Essence) -> None:
        """One thread, which ends with its watch."""
        threading.Thread(target=self._listen, args=(path, selector, essence), daemon=True).start()

    def follow(self, kinds: Iterable[tuple[str, str]]) -> None:
        """Listen to gangs' objects of these kinds too: how far they are decides what they still need."""
        for kind in kinds:
            info = None if kind in self._followed else find_resource(self._client, *kind)
            if info is not None:
                self._followed.add(kind)
                fields = kind_named(*kind).status_fields
                for namespace in self._scopes:
                    self._start(info.path(namespace), GANG_LABEL, functools.partial(_item, fields))

    def __exit__(self, *_error: object) -> None:
        """The threads end with their next line, or with the process."""
        self._over.set()

    def ring(self) -> None:
        """There is something to look at."""
        self._rung.set()

    def silence(self) -> None:
        """Forget what rang so far: a cycle that begins now sees it."""
        self._rung.clear()

    def wait(self, longest: float, *, at_least: float) -> None:
        """Rest until it rings, but some time in any case, so that what changes together is seen together."""
        self._over.wait(min(at_least, longest))
        self._rung.wait(max(0.0, longest - at_least))

    def _listen(self, path: str, selector: str | None, essence: Essence) -> None:
        """One thread: ring when an object appears, goes, or changes in what counts."""
        known: dict[tuple[str, str], Hashable] = {}
        try:
            for change in list_and_watch(
                self._client,
                path,
                keep=lambda raw: (raw["metadata"], essence(raw)),
                stop=self._over.is_set,
                label_selector=selector,
            ):
                if change.type == "SYNC":
                    known = {(meta.get("namespace", ""), meta["name"]): what for meta, what in change.items}
                    self._rung.set()
                    continue
                key = (change.namespace, change.name)
                what = None if change.type == "DELETED" or change.item is None else change.item[1]
                if known.get(key) != what:
                    self._rung.set()
                if what is None:
                    known.pop(key, None)
                else:
                    known[key] = what
        except KubeError:
            # Not allowed to watch this: the run goes on by its own pace.
            return

    def _record(self, raw: Object) -> Hashable:
        """A record without what this run itself writes into it."""
        metadata = raw["metadata"]
        state = read_state(metadata.get("annotations"))
        writer = state.write_id if state is not None else ""
        foreign = "" if writer.startswith(f"{self._identity}/") else writer
        # The label of the phase is written with the state, and only repeats it.
        labels = tuple(sorted(item for item in (metadata.get("labels") or {}).items() if item[0] != PHASE_LABEL))
        contents = str(raw.get("data")) if "data" in raw else metadata.get("generation")
        return metadata["uid"], bool(metadata.get("deletionTimestamp")), labels, contents, foreign


def _pod(raw: Object) -> Hashable:
    """What room and health depend on."""
    status, metadata = raw.get("status") or {}, raw["metadata"]
    scheduled = [item.get("reason") for item in status.get("conditions") or () if item.get("type") == "PodScheduled"]
    return (
        metadata["uid"],
        status.get("phase"),
        (raw.get("spec") or {}).get("nodeName"),
        bool(metadata.get("deletionTimestamp")),
        tuple(scheduled),
    )


def _item(fields: tuple[Path, ...], raw: Object) -> Hashable:
    """What the demand and the end of an object depend on; times and messages do not."""
    metadata = raw["metadata"]
    met = tuple((item.get("type"), item.get("status")) for item in conditions(raw))
    told = tuple(str(value_at(raw, ("status", *field))) for field in fields)
    return metadata["uid"], metadata.get("generation"), bool(metadata.get("deletionTimestamp")), met, told


def _node(raw: Object) -> Hashable:
    """What room depends on; heartbeats change nothing."""
    spec = raw.get("spec") or {}
    allocatable = (raw.get("status") or {}).get("allocatable") or {}
    labels = raw["metadata"].get("labels") or {}
    return (
        raw["metadata"]["uid"],
        tuple(sorted(labels.items())),
        str(spec.get("taints")),
        bool(spec.get("unschedulable")),
        tuple(sorted((name, str(value)) for name, value in allocatable.items())),
    )
