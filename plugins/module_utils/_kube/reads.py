# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading: paged consistent lists that keep only what is wanted, single objects, kinds by discovery, who we are."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import threading
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, Response
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError, Gone, NotFound, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import describe_request, group_path, resource_path
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object

T = t.TypeVar("T")

_RELISTS = 3
_HEAD_BYTES = 4096
_WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
# Where the server cannot leave the rest out it sends whole objects, whose metadata are the same.
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
# The kinds of which there are most; nobody asks who set which of their fields, and that is up to half of their text.
_PLENTIFUL = re.compile(r"/api/v1/(?:namespaces/[^/]+/)?(?:pods|nodes)")
_MANAGERS = b'"managedFields":['


@dataclass(frozen=True, slots=True)
class Listing(t.Generic[T]):
    """All objects of a collection as they were at one moment, and how long the server took.

    changes tells how the items differ from those of the last time the same list was asked for, each as it was and as it
    is, in their order; None when nobody knows.
    """

    items: list[T]
    resource_version: str
    seconds_waiting: float
    changes: t.Sequence[tuple[T | None, T | None]] | None = None


class Lists(t.Protocol):
    """Where lists come from: the server each time, or a mirror of it.

    keep must be the same function each time, so that a mirror can tell that the same is asked for; what it returns is
    not to be changed. essence tells what of a kept value matters at once; without it no change of the list does.
    """

    def list(
        self,
        path: str,
        *,
        keep: t.Callable[[Object], T | None],
        essence: t.Callable[[T], object] | None = None,
        limit: int = 500,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Listing[T]:
        """All objects at a path that the selectors leave, as keep returns them; None is left out."""


class FreshLists:
    """Lists that are made anew whenever one is asked for."""

    def __init__(self, client: KubeClient) -> None:
        """Nothing is asked yet."""
        self._client = client

    def list(
        self,
        path: str,
        *,
        keep: t.Callable[[Object], T | None],
        essence: t.Callable[[T], object] | None = None,
        limit: int = 500,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Listing[T]:
        """One consistent list; nobody waits for changes of it."""
        selectors = {"label_selector": label_selector, "field_selector": field_selector}
        return list_objects(self._client, path, keep=keep, limit=limit, **selectors)


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """How the server serves a kind."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of this kind's collection or of one object; the namespace of cluster-wide kinds is left out."""
        return resource_path(self.api_version, self.plural, namespace if self.namespaced else None, name, subresource)


class _GcPause:
    """Switches the cyclic garbage collector off while any thread reads.

    Decoded JSON has no cycles, yet every few thousand new dicts would start a walk over all of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._was_on = False

    @contextlib.contextmanager
    def __call__(self) -> t.Iterator[None]:
        """Off inside the block; back as it was when the last block of any thread is left."""
        with self._lock:
            if self._users == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0 and self._was_on:
                    gc.enable()


without_gc = _GcPause()


class _Pages(t.Generic[T]):
    """The state of one list while its pages come in."""

    def __init__(
        self, client: KubeClient, path: str, keep: t.Callable[[Object], T | None], query: Object, accept: str
    ) -> None:
        self._client = client
        self._accept = accept
        self._path = path
        self._keep = keep
        self._query = query
        self.items: list[T] = []
        self.resource_version = ""
        self.seconds_waiting = 0.0

    def read_all(self) -> None:
        """Fetch page after page; the first one decides the moment all of them show.

        The token of the next page mostly stands at the head of a page, so the server can work on that
        page while this one is being decoded.
        """
        self.items = []
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="muster-kube-page") as ahead:
            answer = self._wait(lambda: self._fetch(None))
            first = True
            while True:
                early = _token_at_head(answer.body)
                coming = ahead.submit(self._fetch, early) if early else None
                # The page is gone before the garbage collector is back, which would walk over all of it.
                with without_gc():
                    metadata = self._take(answer)
                if first:
                    self.resource_version = str(metadata.get("resourceVersion") or "")
                    first = False
                token = metadata.get("continue")
                if not token:
                    return
                answer = self._wait(coming.result if coming is not None else partial(self._fetch, token))

    def _fetch(self, token: str | None) -> Response:
        query = {**self._query, "continue": token}
        return self._client.request("GET", self._path, query=query, accept=self._accept)

    def _wait(self, page: t.Callable[[], Response]) -> Response:
        """Take a page as soon as it is there, and count how long that took."""
        started = self._client.clock()
        answer = page()
        self.seconds_waiting += self._client.clock() - started
        return answer

    def _take(self, answer: Response) -> Object:
        """Decode one page and let go of all that is not wanted; returns the list's metadata."""
        keep, add = self._keep, self.items.append
        page, answer.decoded = decode(self._path, answer), None
        kind, api_version = str(page.get("kind", "")).removesuffix("List"), page.get("apiVersion")
        for item in page.get("items") or ():
            # Items of built-in kinds come without these two.
            item.setdefault("kind", kind)
            item.setdefault("apiVersion", api_version)
            kept = keep(item)
            if kept is not None:
                add(kept)
        metadata: Object = page.get("metadata") or {}
        return metadata


def _token_at_head(body: bytes) -> str | None:
    """The continue token when the list's metadata comes before its items, as in lists of built-in kinds."""
    head = body[:_HEAD_BYTES]
    start = head.find(b'"metadata":{')
    if start < 0 or 0 <= head.find(b'"items"') < start:
        return None
    end = head.find(b"}", start)
    try:
        metadata = json.loads(head[start + len(b'"metadata":') : end + 1])
    except ValueError:
        return None
    return metadata.get("continue") or None


def decode_text(path: str, text: bytes) -> t.Any:
    """What a text from this path says; of pods and nodes without who set which field, which is not even decoded.

    Such a list of managers holds no other list, so it ends with the first bracket. One in a name of a manager is no
    end: what follows is then no JSON, since all that was in quotes is out of them, and the whole is decoded instead.
    """
    if _PLENTIFUL.fullmatch(path) and _MANAGERS in text and b"\\" + _MANAGERS not in text:
        first, *others = text.split(_MANAGERS)
        with contextlib.suppress(ValueError):
            return json.loads((_MANAGERS + b"]").join((first, *(part[part.index(b"]") + 1 :] for part in others))))
    return json.loads(text)


def decode(path: str, answer: Response) -> Object:
    """A body that must be one JSON object; anything else came from something that is not an API server."""
    try:
        value = answer.decoded
        if value is None:
            body = answer.body
            value = answer.decoded = decode_text(path, body) if _MANAGERS in body else json.loads(body)
    except ValueError as error:
        raise Unreachable(*describe_request("GET", path), f"the answer is not JSON: {error}", False) from error
    if not isinstance(value, dict):
        raise Unreachable(*describe_request("GET", path), "the answer is not a JSON object", False)
    return value


def list_objects(
    client: KubeClient,
    path: str,
    *,
    keep: t.Callable[[Object], T | None],
    limit: int = 500,
    label_selector: str | None = None,
    field_selector: str | None = None,
) -> Listing[T]:
    """List a collection consistently, page by page; what keep returns is retained, except None.

    Never asks for resourceVersion=0, which may be answered from a stale cache. When a continue token has
    expired half way, the pages read so far belong to a past that cannot be completed: start again.
    """
    query = {"limit": limit, "labelSelector": label_selector, "fieldSelector": field_selector}
    return _list_all(_Pages(client, path, keep, query, "application/json"))


def list_metadata(
    client: KubeClient, path: str, *, keep: t.Callable[[Object], T | None], label_selector: str | None, limit: int = 500
) -> Listing[T]:
    """The same, but the server sends only the metadata of each object."""
    return _list_all(_Pages(client, path, keep, {"limit": limit, "labelSelector": label_selector}, _METADATA_ONLY))


def _list_all(pages: _Pages[T]) -> Listing[T]:
    """Read all pages, from the first again when their moment is past."""
    for relists_left in reversed(range(_RELISTS + 1)):
        try:
            pages.read_all()
            break
        except Gone:
            if not relists_left:
                raise
    return Listing(pages.items, pages.resource_version, pages.seconds_waiting)


def get_object(client: KubeClient, path: str) -> Object | None:
    """One object, None when there is none of that name (or the server does not serve its kind)."""
    try:
        return decode(path, client.request("GET", path))
    except NotFound:
        return None


def server_version(client: KubeClient) -> tuple[int, int]:
    """Major and minor version of the server; zeros where it does not tell."""
    try:
        told = client.request("GET", "/version").json()
    except (ApiError, Unreachable):
        return 0, 0
    parts = [re.match(r"[0-9]+", str(told.get(name))) for name in ("major", "minor")] if isinstance(told, dict) else []
    numbers = [int(part[0]) for part in parts if part is not None]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)


def authenticated_user(client: KubeClient) -> str | None:
    """The name under which the server knows us; None where it does not tell."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = client.request("POST", _WHO_AM_I, body=review).json()
    except ApiError:
        return None
    name = (((answer or {}).get("status") or {}).get("userInfo") or {}).get("username")
    return name if isinstance(name, str) and name else None


def find_resource(client: KubeClient, api_version: str, kind: str) -> ResourceInfo | None:
    """How the server serves a kind (kind, plural or singular name), None when it does not.

    What was found is remembered by the client; what was not is asked again, since a definition may arrive any time.
    """
    known = _pick(client.discovered.get(api_version, ()), kind)
    if known is not None:
        return known
    listed = get_object(client, group_path(api_version))
    served = [_resource_info(api_version, entry) for entry in (listed or {}).get("resources") or ()]
    client.discovered[api_version] = served
    return _pick(served, kind)


def _pick(served: t.Sequence[ResourceInfo], kind: str) -> ResourceInfo | None:
    """The entry with that kind or plural; subresources have a slash in their name and share their parent's kind."""
    return next((info for info in served if "/" not in info.plural and kind in (info.kind, info.plural)), None)


def _resource_info(api_version: str, entry: Object) -> ResourceInfo:
    """One line of a discovery answer."""
    return ResourceInfo(api_version, entry["kind"], entry["name"], bool(entry.get("namespaced")))
