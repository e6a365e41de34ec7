# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Giving an object of a started gang another size while it is there, one patch at a time.

Before each patch the object is read: it must be the gang's own, unfinished, and nobody else's to size. What was done is
told by its mark, so a patch whose answer was lost, or that another holder made, is not made again.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError, Forbidden, is_final
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Allowance,
    ObjectGone,
    Superseded,
    settle_patch,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.deciders import is_managed, scale_obstacle
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.patches import (
    is_suspended,
    resize_mark,
    says_suspended,
    size_patch,
    suspend_patch,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import Resize
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import GangState
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL, owner_of
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import item_outcome
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object

Object = dict[str, t.Any]
# It has its size; its pods are to go first; it is gone or over; somebody else wrote it just now.
Step = t.Literal["sized", "draining", "over", "again"]


@dataclasses.dataclass(frozen=True, slots=True)
class Unchangeable:
    """Why an object cannot get its size; touched tells whether a patch of this resize changed it before."""

    why: str
    touched: bool


class Resizer:
    """One object of a gang on its way to another size; the actor is the client in whose name it was made."""

    def __init__(
        self, client: KubeClient, actor: KubeClient, allowance: Allowance, spec: GangSpec, state: GangState
    ) -> None:
        """The specification and the state are those of a gang that is rescaling."""
        self._client = client
        self._actor = actor
        self._allowance = allowance
        self._spec = spec
        self._state = state

    def go_on(self, path: str, resize: Resize) -> Step | Unchangeable:
        """The next patch of the object at a path, if it is time for it. Passing trouble is raised."""
        live = self._read(path)
        if live is None or item_outcome(live) is not None or live["metadata"].get("deletionTimestamp"):
            return "over"
        if resize_mark(live) == resize.sized_mark and not is_suspended(live):
            return "sized"
        touched = bool(resize.id) and resize_mark(live).startswith(f"{resize.id}.")
        obstacle = self._obstacle(live, resize, touched=touched)
        if obstacle is not None:
            return Unchangeable(f"{describe_object(live)}: {obstacle}", touched)
        try:
            return self._patch(path, live, resize)
        except BadInput as error:
            return Unchangeable(str(error), touched)
        except ObjectGone:
            return "over"
        except Superseded:
            return "again"
        except ApiError as error:
            if not is_final(error):
                raise
            return Unchangeable(str(error), touched)

    def _obstacle(self, live: Object, resize: Resize, *, touched: bool) -> str | None:
        """Why the object is not ours to size; None when it is."""
        if owner_of(live, self._state.ticket_uid, None)[0] != "ticket":
            return "it is not owned by the ticket of its gang"
        if is_managed(live):
            refused = scale_obstacle(live) if resize.method == "scale" else "Kueue alone decides whether it runs"
            if refused is not None:
                return f"it is managed by Kueue: {refused}"
        if is_suspended(live) and not touched:
            return "somebody else suspended it"
        return None

    def _patch(self, path: str, live: Object, resize: Resize) -> Step:
        """Suspend it, or give it its size."""
        elastic = self._spec.elastic
        if elastic is None:
            raise BadInput("resize", describe_object(live), "its gang is not elastic any more")
        if resize.method == "suspend" and not is_suspended(live):
            self._send(path, suspend_patch(live, resize.suspended_mark), _has_mark(resize.suspended_mark))
            return "draining"
        if resize.method == "suspend" and (not says_suspended(live) or self._has_pods(live)):
            return "draining"
        objects, range_, namespace = self._spec.objects, elastic.range, self._spec.namespace
        change = size_patch(live, objects, range_, resize.goal, namespace, resize.sized_mark)
        self._send(path, change, _has_mark(resize.sized_mark))
        return "sized"

    def _send(self, path: str, change: Object, is_done: Callable[[Object], bool]) -> None:
        settle_patch(self._actor, path, change, is_done, allowance=self._allowance)

    def _read(self, path: str) -> Object | None:
        """The object as the account sees it that made it, else as we do."""
        try:
            return get_object(self._actor, path)
        except Forbidden:
            return get_object(self._client, path)

    def _has_pods(self, live: Object) -> bool:
        """Whether pods of an object are left that are to go; where neither account may see any, its status tells."""
        metadata = live["metadata"]
        path = resource_path("v1", "pods", metadata["namespace"])
        selector = f"{GANG_LABEL}={(metadata.get('labels') or {}).get(GANG_LABEL)}"
        for client in (self._client, self._actor):
            try:
                pods = list_objects(client, path, keep=_whole, label_selector=selector).items
            except Forbidden:
                continue
            return any(_is_of(pod, metadata["uid"]) for pod in pods)
        return False


def _has_mark(mark: str) -> Callable[[Object], bool]:
    """Recognizes an object that has had a patch."""
    return lambda found: resize_mark(found) == mark


def _is_of(pod: Mapping[str, t.Any], uid: str) -> bool:
    """Whether a pod is one of an object, and did not end or is about to go: its controller would still count it."""
    ours = any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return ours and (not ended or bool(pod["metadata"].get("deletionTimestamp")))


def _whole(raw: Object) -> Object:
    """Keep an object as it is."""
    return raw
