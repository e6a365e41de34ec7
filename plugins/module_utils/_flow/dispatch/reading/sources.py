# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a cycle's reading comes from: lists made for it, or mirrors that are kept from cycle to cycle."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Collection, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.ended_pods import (
    MOST_UIDS,
    read_ended_pods,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.pod_table import (
    MirroredPod,
    PodTable,
    essence_of,
    mirrored_pod,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import (
    LIVING_PODS,
    PAGE,
    Derived,
    Needs,
    read_snapshot,
    snapshot_of,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import (
    FreshLists,
    Listing,
    Lists,
    find_resource,
    list_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL, of_gangs
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_named
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod, Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import conditions, value_at
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import PodIndex, index_pods
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import VersionedKind
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import Places

T = t.TypeVar("T")
Object = dict[str, t.Any]
Parents = Mapping[str, Sequence[str]]

PODS = resource_path("v1", "pods")


class Source(t.Protocol):
    """What a cycle reads by."""

    @property
    def lists(self) -> Lists:
        """Where lists that are the same in every cycle come from."""

    def snapshot(self, needs: Needs, started: Sequence[Record], mine: Sequence[str]) -> Snapshot:
        """Nodes, pods and rules; where pods of all namespaces may not be read, those of mine are looked at."""

    def gang_pods(self) -> Sequence[GangPod]:
        """The pods that were read with the snapshot and may belong to the started gangs."""

    def index(self, parents: Parents) -> PodIndex:
        """The same, sorted by gangs and owners."""

    def objects(self, kind: VersionedKind, places: Places, uids: Collection[str]) -> list[Object] | None:
        """The objects of a kind that belong to these gangs; None when they may not be read."""


class ListedSource:
    """Everything is listed anew, and only what the cycle needs."""

    def __init__(self, client: KubeClient) -> None:
        """Nothing is asked yet."""
        self._client = client
        self.lists: Lists = FreshLists(client)
        self._pods: list[GangPod] = []

    def snapshot(self, needs: Needs, started: Sequence[Record], mine: Sequence[str]) -> Snapshot:
        """See Source."""
        # A webhook, or a user, may have taken the label off pods; their owners tell all the same.
        homes = {record.namespace for record in started}
        gang_pods: list[GangPod] = []

        def observe(raw: Object, pod: Pod | None = None) -> None:
            """Keep more of pods that may belong to a gang."""
            metadata = raw["metadata"]
            owned = metadata["namespace"] in homes and bool(metadata.get("ownerReferences"))
            ours = owned or GANG_LABEL in (metadata.get("labels") or ())
            found = gang_pod_from_api(raw, pod) if ours else None
            if found is not None:
                gang_pods.append(found)

        snapshot = read_snapshot(self._client, needs, observe).snapshot
        blind = "pods" in snapshot.unread
        for namespace in mine if blind else ():
            path = resource_path("v1", "pods", namespace)
            list_objects(self._client, path, keep=observe, field_selector=LIVING_PODS)
        ended = read_ended_pods(self._client, started, everywhere=not blind)
        # A pod that ended while pods were read is in both lists, and its end is the later word.
        self._pods = list({pod.uid: pod for pod in (*gang_pods, *ended)}.values())
        return snapshot

    def gang_pods(self) -> Sequence[GangPod]:
        """See Source."""
        return self._pods

    def index(self, parents: Parents) -> PodIndex:
        """See Source."""
        return index_pods(self._pods, parents)

    def objects(self, kind: VersionedKind, places: Places, uids: Collection[str]) -> list[Object] | None:
        """See Source.

        The objects of gangs that are over stay for their logs, so those of these are asked for by name where an address
        can hold so many.
        """
        selector = of_gangs(uids) if len(uids) <= MOST_UIDS else GANG_LABEL
        wanted = frozenset(uids)

        def keep(raw: Object) -> Object | None:
            """Let go of what belongs to other gangs, so that only decoding it costs anything."""
            return raw if _gang_label(raw) in wanted else None

        def read(path: str) -> list[Object]:
            return list_objects(self._client, path, keep=keep, label_selector=selector).items

        return _of_kind(self._client, kind, places, read)


class LiveObject(t.NamedTuple):
    """An object of a gang as text: those of gangs that are over stay for their logs, and nobody asks for them."""

    uid: str
    gang: str
    essence: tuple[t.Any, ...]
    text: str


class MirroredSource:
    """Everything is read from mirrors, and what was made of them is kept while they stay the same."""

    def __init__(self, client: KubeClient, mirrors: Lists) -> None:
        """Nothing is asked yet."""
        self._client = client
        self.lists = mirrors
        self._derived = Derived()
        self._pods = PodTable()
        self._started: Sequence[Record] = ()
        self._decoded: dict[VersionedKind, dict[str, tuple[LiveObject, Object]]] = {}

    def snapshot(self, needs: Needs, started: Sequence[Record], mine: Sequence[str]) -> Snapshot:
        """See Source."""
        self._started = started

        def living() -> Listing[Pod]:
            """All pods are mirrored: one that ended between two mirrors would be in none of them for a while."""
            listing = self._mirrored_pods(PODS)
            # What changed is told once, so it is taken in whatever becomes of the other lists.
            self._pods.update(listing.items, listing.changes)
            pods = self._derived.of("living pods", (listing.items,), lambda: _living(listing.items))
            return Listing(pods, listing.resource_version, listing.seconds_waiting)

        snapshot = snapshot_of(self.lists, needs, living, derived=self._derived).snapshot
        if "pods" in snapshot.unread:
            found = [self._mirrored_pods(resource_path("v1", "pods", namespace)).items for namespace in mine]
            self._pods.update(
                self._derived.of("own pods", tuple(found), lambda: [item for items in found for item in items])
            )
        return snapshot

    def _mirrored_pods(self, path: str) -> Listing[MirroredPod]:
        return self.lists.list(path, keep=mirrored_pod, essence=essence_of, limit=PAGE)

    def gang_pods(self) -> Sequence[GangPod]:
        """See Source."""
        return self._pods.in_namespaces({record.namespace for record in self._started})

    def index(self, parents: Parents) -> PodIndex:
        """See Source."""
        return self._pods.index(self._started, parents)

    def objects(self, kind: VersionedKind, places: Places, uids: Collection[str]) -> list[Object] | None:
        """See Source."""

        def read(path: str) -> list[LiveObject]:
            return self.lists.list(path, keep=live_object, essence=_live_essence, label_selector=GANG_LABEL).items

        found = _of_kind(self._client, kind, places, read)
        if found is None:
            return None
        known, wanted = self._decoded.get(kind, {}), frozenset(uids)
        decoded: dict[str, tuple[LiveObject, Object]] = {}
        for item in found:
            if item.gang in wanted:
                before = known.get(item.uid)
                same = before is not None and before[0] is item
                decoded[item.uid] = before if same and before is not None else (item, json.loads(item.text))
        self._decoded[kind] = decoded
        return [obj for _item, obj in decoded.values()]


def _living(pods: Sequence[MirroredPod]) -> list[Pod]:
    return [item.pod for item in pods if item.pod is not None]


def _of_kind(
    client: KubeClient, kind: VersionedKind, places: Places, read: t.Callable[[str], list[T]]
) -> list[T] | None:
    """What is read of a kind in these places; None when it may not be, or cannot be now."""
    found: list[T] = []
    try:
        info = find_resource(client, *kind)
        if info is None:
            return None
        for namespace in places:
            found += read(info.path(namespace))
    except (Forbidden, NotFound, ServerFault):
        # A kind whose operator is down must not keep all others waiting.
        return None
    return found


def live_object(raw: Object) -> LiveObject:
    """Keep of a gang's object its text and what the demand and the end of it depend on; times and messages do not."""
    metadata = raw["metadata"]
    metadata.pop("managedFields", None)
    fields = kind_named(str(raw.get("apiVersion")), str(raw.get("kind"))).status_fields
    met = tuple((item.get("type"), item.get("status")) for item in conditions(raw))
    told = tuple(str(value_at(raw, ("status", *field))) for field in fields)
    essence = (metadata["uid"], metadata.get("generation"), bool(metadata.get("deletionTimestamp")), met, told)
    return LiveObject(metadata["uid"], _gang_label(raw), essence, json.dumps(raw, separators=(",", ":")))


def _live_essence(item: LiveObject) -> tuple[t.Any, ...]:
    return item.essence


def _gang_label(obj: Object) -> str:
    """The gang an object says it belongs to."""
    return str((obj["metadata"].get("labels") or {}).get(GANG_LABEL))
