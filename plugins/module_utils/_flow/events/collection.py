# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Following one collection of objects for as long as an event source is wanted, whatever happens on the way."""

from __future__ import annotations

import difflib
import threading
import typing as t
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    Gone,
    KubeError,
    NotFound,
    ServerFault,
    TooManyRequests,
    Unreachable,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import WatchStep, list_and_watch
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object, api_group

T = t.TypeVar("T")

Report = Callable[[str], None]
# Hands an event over; it returns once somebody has taken it.
Tell = Callable[[Object], None]
# What one thread of a source does until the source ends.
Part = Callable[[Tell], None]

# A kind that is not served yet may be installed any time.
_ASK_AGAIN = 60.0


class SourceEnded(Exception):
    """The event source is not wanted any more."""


class SourceEnd:
    """Tells all threads of a source that it is over, those that rest too."""

    def __init__(self) -> None:
        """It goes on."""
        self._over = threading.Event()

    def come(self) -> None:
        """End all that rests."""
        self._over.set()

    def sleep(self, seconds: float | None) -> None:
        """Rest for so long, None for ever; SourceEnded when it is over."""
        if self._over.wait(seconds):
            raise SourceEnded


@dataclass(frozen=True, slots=True)
class SourceWork:
    """What a source does: parts that run side by side, and how to end them."""

    parts: Sequence[Part]
    end: Callable[[], None]


def source_work(client: KubeClient, end: SourceEnd, parts: Sequence[Part]) -> SourceWork:
    """The work of parts that rest by this end and ask this client."""

    def close() -> None:
        """Wake up whoever rests or reads."""
        end.come()
        client.close()

    return SourceWork(parts, close)


@dataclass(frozen=True, slots=True)
class Collection:
    """The objects of one kind in one namespace, or in all of them.

    Of several namespaces only the first one stands for kinds that have none.
    """

    api_version: str
    kind: str
    namespace: str | None = None
    first: bool = True
    label_selector: str | None = None
    field_selector: str | None = None

    def path(self, client: KubeClient) -> str | None:
        """Where it is served; None while it is not. BadInput where it never will be."""
        info = find_resource(client, self.api_version, self.kind)
        if info is not None:
            return info.path(self.namespace)
        if "." not in api_group(self.api_version):
            raise BadInput(
                "watch", f"{self.kind} of {self.api_version}", f"there is no such kind{self._nearest(client)}"
            )
        return None

    def has_no_namespaces(self, client: KubeClient) -> bool:
        """Whether its kind belongs to the whole cluster."""
        info = find_resource(client, self.api_version, self.kind)
        return info is not None and not info.namespaced

    def _nearest(self, client: KubeClient) -> str:
        """The kind that may have been meant."""
        served = [info.kind for info in client.discovered.get(self.api_version, ())]
        near = difflib.get_close_matches(self.kind, served, 1, 0.5)
        return f"; did you mean {near[0]}?" if near else ""


def places_of(namespaces: Sequence[str]) -> Sequence[str | None]:
    """The namespaces, each once; None stands for all where none is named."""
    return [*dict.fromkeys(namespaces)] or [None]


def follow(
    client: KubeClient, collection: Collection, keep: Callable[[Object], T | None], report: Report
) -> Iterator[WatchStep[T]]:
    """A SYNC with all objects, then every change, and SYNC again after each gap, until the client is closed.

    What goes wrong before the first SYNC, and what the server refuses, is raised: somebody has to look at it. After it
    the server may be away for any time. A kind that is not served has no objects.
    """
    failures, synced = 0, False
    while not client.closed:
        try:
            for step in _steps(client, collection, keep, report):
                failures, synced = 0, True
                yield step
        except NotFound as error:
            # Its definition was deleted, and all objects with it.
            client.discovered.pop(collection.api_version, None)
            yield WatchStep("SYNC")
            failures += 1
            _rest(client, failures, error, report)
        except (Gone, ServerFault, TooManyRequests, Unreachable) as error:
            if not synced or (isinstance(error, Unreachable) and not error.retryable):
                raise
            failures += 1
            _rest(client, failures, error, report)


def _steps(
    client: KubeClient, collection: Collection, keep: Callable[[Object], T | None], report: Report
) -> Iterator[WatchStep[T]]:
    """List and watch once the kind is served."""
    path, told = collection.path(client), False
    while path is None:
        if not told:
            told = True
            report(f"no {collection.kind} of {collection.api_version} is served; it is looked for each minute")
            yield WatchStep("SYNC")
        client.sleep(_ASK_AGAIN)
        path = collection.path(client)
    if not collection.first and collection.has_no_namespaces(client):
        while True:
            client.sleep(_ASK_AGAIN)
    labels, fields = collection.label_selector, collection.field_selector
    yield from list_and_watch(client, path, keep, label_selector=labels, field_selector=fields)


def _rest(client: KubeClient, failures: int, error: KubeError, report: Report) -> None:
    """Pause after a failure; only the first one of a row is told."""
    if failures == 1:
        report(f"{error}; it is tried again")
    client.sleep(client.retry.pause(failures))
