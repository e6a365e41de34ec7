# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mirrors: lists that are made once and kept up to date by watches, so that reading them costs what has changed.

Each object is decoded once; only what is made of it stays, and the very same value for as long as nothing of it
changes. A gap that cannot be closed is followed by a new list, and so is everything else that leaves a doubt.

Why a mirror that is late gives no room twice. Whoever decides by mirrors is the only one who starts gangs: it holds
the Lease. Its mirrors begin with consistent lists that are made after it got the Lease, so all that earlier holders had
written is in them. It hears of each write of its own client and reads nothing before the watch has shown that write:
versions are numbers that grow, and a watch tells of changes in their order, so a mirror that has come to the version of
a write has seen it. A watch that does not show it in time, a write whose outcome nobody knows, versions that are no
numbers: the list is made anew. So what this holder promised is always seen. What others write, foreign pods and nodes
that go, can be late, as it can happen a moment after a list; a pod whose end or node is seen late holds its room
longer. Edits and deletions by users that were not seen yet are met by the uid and version in each write.
"""

from __future__ import annotations

import math
import threading
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, Response
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, Gone, KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import Place, place_of
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import Listing, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import Event, Watch
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import LabelSelector, written_selector

T = t.TypeVar("T")
Keep = t.Callable[[Object], "T | None"]
Essence = t.Callable[[T], object]

# So long a read waits for the watch to show what this process wrote; then the list is made anew.
PATIENCE = 1.0
# What nobody has read for so long is not kept any more.
_UNUSED_SECONDS = 600.0
# So many changes between two reads are told one by one.
_MOST_CHANGES = 10_000
# So many objects that this process deleted before it saw them are known by their uids.
_MOST_OUTDATED = 1000


class Owed(t.NamedTuple):
    """Own writes that a table has to show: the uids of what was written, and how many doubts a list has to clear up."""

    uids: tuple[str, ...]
    doubts: int


class MirrorTable(t.Generic[T]):
    """What a mirror holds: values by uid, up to which version they are true, and what they must show yet."""

    def __init__(self, keep: Keep[T], selector: LabelSelector | None, essence: Essence[T] | None = None) -> None:
        """Nothing is known before the first list; without a selector nobody can tell which new objects belong here."""
        self._keep = keep
        self._selector = selector
        self._essence = essence
        self._values: dict[str, T] = {}
        self._items: list[T] | None = None
        # What changed since the items were last read; None when that is too much to tell.
        self._changes: list[tuple[T | None, T | None]] | None = None
        self._number: int | None = None
        # Own writes the watch has not shown: the version of each, and whether the object has to be gone.
        self._awaited: dict[str, tuple[int, bool]] = {}
        # Of objects not seen so far that left the table by an own write: up to which version news of them are old.
        self._outdated: dict[str, float] = {}
        # How often something happened that only a list can clear up, and how many of those a list did.
        self._doubts = self._cleared = 0
        self.version = ""
        self.generation = 0
        self.changed = threading.Condition()

    # Lists and events.

    def listing(self) -> t.Callable[[t.Iterable[tuple[str, T]], str], bool]:
        """What takes a list that is made from now on; own writes meanwhile may or may not be in it."""
        with self.changed:
            doubts = self._doubts
        return lambda entries, version: self._sync(entries, version, doubts)

    def entry(self, raw: Object) -> tuple[str, T] | None:
        """What is kept of a listed object, by its uid."""
        value = self._keep(raw)
        return None if value is None else (str(raw["metadata"]["uid"]), value)

    def _sync(self, entries: t.Iterable[tuple[str, T]], version: str, doubts: int) -> bool:
        """Begin again with a list; True when it differs in what matters. Events of before mean nothing any more."""
        values = dict(entries)
        number = int(version) if version.isdecimal() else -1
        with self.changed:
            before = self._values
            self._outdated = {uid: last for uid, last in self._outdated.items() if last > number}
            for uid in self._outdated.keys() & values.keys():
                del values[uid]
            for uid, value in values.items():
                if before.get(uid) == value:
                    values[uid] = before[uid]
            rings = self.generation > 0 and any(
                self._matters(before.get(uid), values.get(uid)) for uid in before.keys() | values.keys()
            )
            self._values, self._items, self._changes = values, None, None
            self._cleared = max(self._cleared, doubts)
            self.generation += 1
            self._advance(version)
        return rings

    def apply(self, generation: int, event: Event) -> bool:
        """Take in an event of a watch that began with this generation; True when it changes what matters."""
        metadata = event.object["metadata"]
        uid = str(metadata.get("uid"))
        brings = event.type in ("ADDED", "MODIFIED")
        value = self._keep(event.object) if brings else None
        with self.changed:
            if generation != self.generation:
                return False
            self._advance(str(metadata["resourceVersion"]))
            if uid in self._outdated and (self._number or 0) < self._outdated[uid]:
                value = None
            return event.type != "BOOKMARK" and self._put(uid, value)

    def _put(self, uid: str, value: T | None) -> bool:
        """Set or remove one value; one that says the same as before stays the very same."""
        before = self._values.get(uid)
        if before == value:
            return False
        self._items = None
        if self._changes is not None:
            self._changes.append((before, value))
            if len(self._changes) > _MOST_CHANGES:
                self._changes = None
        if value is None:
            del self._values[uid]
        else:
            self._values[uid] = value
        return self._matters(before, value)

    def _matters(self, before: T | None, after: T | None) -> bool:
        """Whether the difference between two values is one to look at."""
        if self._essence is None or before is after:
            return False
        return _maybe(self._essence, before) != _maybe(self._essence, after)

    def _advance(self, version: str) -> None:
        """Note up to which version everything is known; what was awaited may be there."""
        self.version = version
        self._number = int(version) if version.isdecimal() else None
        self.changed.notify_all()

    # Own writes.

    def note(self, answer: Object | None) -> None:
        """Note a write of this process by its answer, None when its outcome is not known.

        Only what concerns this table is awaited: other writes are never shown by its watch. What others made may be
        shown late, after a write of ours took it out again; that is old news then.
        """
        with self.changed:
            deleted = answer is not None and answer.get("kind") == "Status"
            named = ((answer or {}).get("details" if deleted else "metadata")) or {}
            uid, version = str(named.get("uid") or ""), str(named.get("resourceVersion"))
            number, gone = self._awaited.get(uid, (0, False))
            ours = uid in self._values or uid in self._awaited
            numbered = (deleted or version.isdecimal()) and (self.generation == 0 or self._number is not None)
            if not uid or not numbered or (self._selector is None and not ours):
                self._doubts += 1
            elif ours or (not deleted and self._selects(named.get("labels") or {})):
                # Threads may tell of their writes in another order than they were carried out.
                self._awaited[uid] = number if deleted else max(number, int(version)), gone or deleted
            else:
                self._outdated[uid] = math.inf if deleted else max(self._outdated.get(uid, 0), int(version))
                while len(self._outdated) > _MOST_OUTDATED:
                    del self._outdated[next(iter(self._outdated))]

    def _selects(self, labels: t.Mapping[str, str]) -> bool:
        return self._selector is not None and self._selector.matches(labels)

    def owed(self) -> Owed:
        """What this process wrote so far and the table does not show yet; later writes are for later reads."""
        with self.changed:
            for uid in [uid for uid in self._awaited if self._shows(uid)]:
                del self._awaited[uid]
            return Owed(tuple(self._awaited), self._doubts)

    def shows(self, owed: Owed) -> bool:
        """Whether all of that is shown by now."""
        with self.changed:
            return not self.needs_list(owed) and all(map(self._shows, owed.uids))

    def _shows(self, uid: str) -> bool:
        """Whether the last write to an object is shown."""
        number, gone = self._awaited.get(uid, (0, False))
        return self._number is not None and self._number >= number and not (gone and uid in self._values)

    def needs_list(self, owed: Owed) -> bool:
        """Whether waiting does not help, but only a list does."""
        return self.generation == 0 or self._cleared < owed.doubts or (bool(owed.uids) and self._number is None)

    # Reading.

    def read(self) -> tuple[list[T], str, t.Sequence[tuple[T | None, T | None]] | None]:
        """All values, up to which version they are true, and what changed since the last time.

        It is the very same list for as long as nothing changes, so it is not to be changed.
        """
        with self.changed:
            if self._items is None:
                self._items = list(self._values.values())
            changes, self._changes = self._changes, []
            return self._items, self.version, changes

    def position(self) -> tuple[int, str]:
        """Generation and version from which a watch goes on."""
        with self.changed:
            return self.generation, self.version


def _maybe(essence: Essence[T], value: T | None) -> object:
    return None if value is None else essence(value)


class Mirror(t.Generic[T]):
    """One collection: a table, the lists that begin it, and the watch that keeps it up to date in a thread."""

    def __init__(
        self,
        client: KubeClient,
        path: str,
        table: MirrorTable[T],
        ring: t.Callable[[], None],
        *,
        limit: int = 500,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> None:
        """Nothing is asked before the first read."""
        self.table = table
        self.place = place_of(path)
        self.used = client.clock()
        self._client = client
        self._path = path
        self._ring = ring
        self._limit = limit
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._lists = threading.Lock()
        self._over = threading.Event()
        self._watch: Watch | None = None
        self._followed = False
        # Whether the last try to watch came to nothing, or watching is not allowed at all.
        self.lost = False
        self.refused = False

    def read(self, patience: float = PATIENCE) -> Listing[T]:
        """All values as they are, every write that this process has made so far included."""
        started = self.used = self._client.clock()
        if not self._catch_up(started + patience):
            self.relist()
        items, version, changes = self.table.read()
        return Listing(items, version, self._client.clock() - started, changes)

    def _catch_up(self, end: float) -> bool:
        """Wait a little for what this process wrote; False when the list has to be made anew."""
        owed = self.table.owed()
        while not self.lost and not self.refused and not self.table.needs_list(owed):
            if self.table.shows(owed):
                return True
            left = end - self._client.clock()
            if left <= 0:
                return False
            self.pause(owed, left)
        return False

    def pause(self, owed: Owed, seconds: float) -> None:
        """Wait until the watch brings something, or so long."""
        with self.table.changed:
            if not self.table.shows(owed):
                self.table.changed.wait(seconds)

    def relist(self) -> bool:
        """List anew and have the watch go on from there; True when something changed that matters.

        Lists come one after the other, so that the last one taken in is the last one made.
        """
        with self._lists:
            take = self.table.listing()
            listing = list_objects(
                self._client, self._path, keep=self.table.entry, limit=self._limit, **self._selectors
            )
            rings = take(listing.items, listing.resource_version)
        if self._watch is not None:
            self._watch.abort()
        if not self._followed:
            self._followed = True
            self.start()
        return rings

    def start(self) -> None:
        """Follow the collection in a thread of its own."""
        threading.Thread(target=self.follow, name="muster-kube-mirror", daemon=True).start()

    def close(self) -> None:
        """End the watch; the thread goes by itself."""
        self._over.set()
        if self._watch is not None:
            self._watch.abort()

    def follow(self) -> None:
        """Keep the table up to date until the mirror or the client is closed, or watching is refused."""
        failures = 0
        while not self._over.is_set() and not self._client.closed:
            try:
                self._follow_once()
                failures = 0
                continue
            except Gone:
                self.lost = not self._close_gap()
            except Forbidden:
                # Those who read get lists.
                self.refused = True
                return
            except KubeError:
                self.lost = True
            failures += 1
            self._client.sleep(self._client.retry.pause(failures))

    def _close_gap(self) -> bool:
        """List anew after changes that no watch will bring any more; False when that cannot be done now."""
        try:
            if self.relist():
                self._ring()
        except KubeError:
            return False
        return True

    def _follow_once(self) -> None:
        """Take in what a watch brings until the list is made anew."""
        generation, version = self.table.position()

        def over() -> bool:
            """Whether this watch is of no use any more."""
            return self._over.is_set() or self.table.generation != generation

        self._watch = Watch(self._client, self._path, version, self._query, stop=over, everything=True)
        for event in self._watch.events():
            if event.type == "LOST":
                self.lost = True
            elif event.type == "OPENED":
                self.lost = False
                if over():
                    # The list was made anew while this connection was not there yet to be ended.
                    return
            elif self.table.apply(generation, event):
                self._ring()


class Mirrors:
    """Lists by mirrors, one for each collection that is asked for; used as a context, at whose end watches end too."""

    def __init__(self, client: KubeClient, ring: t.Callable[[], None]) -> None:
        """Nothing is mirrored yet; ring is called when something changes that matters."""
        self._client = client
        self._ring = ring
        self._lock = threading.Lock()
        self._mirrors: dict[t.Hashable, Mirror[t.Any]] = {}
        self._stop_listening = client.listen(self._note)

    def __enter__(self) -> t.Self:
        """Own writes are noted already."""
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all watches."""
        self._stop_listening()
        with self._lock:
            mirrors, self._mirrors = list(self._mirrors.values()), {}
        for mirror in mirrors:
            mirror.close()

    def list(
        self,
        path: str,
        *,
        keep: Keep[T],
        essence: Essence[T] | None = None,
        limit: int = 500,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Listing[T]:
        """What a list made now would show, as far as this process and the watch know."""
        key = (path, label_selector, field_selector, keep)
        with self._lock:
            mirror = self._mirrors.get(key)
            if mirror is None:
                self._drop_unused()
                selector = written_selector(label_selector or "") if field_selector is None else None
                table = MirrorTable(keep, selector, essence)
                mirror = self._mirrors[key] = self.mirror_type(
                    self._client,
                    path,
                    table,
                    self._ring,
                    limit=limit,
                    label_selector=label_selector,
                    field_selector=field_selector,
                )
        return mirror.read()

    # What makes a mirror; whoever plays the server puts another one in its place.
    mirror_type: type[Mirror[t.Any]] = Mirror

    def _drop_unused(self) -> None:
        """Close what nobody reads any more."""
        oldest = self._client.clock() - _UNUSED_SECONDS
        for key, mirror in list(self._mirrors.items()):
            if mirror.used < oldest:
                del self._mirrors[key]
                mirror.close()

    def _note(self, _method: str, path: str, answer: Response | None) -> None:
        """Hear of an own write, and have the mirrors of its place wait for it."""
        place = place_of(path)
        with self._lock:
            concerned = [item for item in self._mirrors.values() if _holds(item.place, place)]
        if not concerned:
            return
        told = _object_of(answer)
        for mirror in concerned:
            mirror.table.note(told)


def _holds(outer: Place | None, inner: Place | None) -> bool:
    return outer is not None and inner is not None and outer.holds(inner)


def _object_of(answer: Response | None) -> Object | None:
    """The object a write was answered with; None when there is none, so that nobody knows what became of it."""
    try:
        told = answer.json() if answer is not None else None
    except ValueError:
        return None
    return told if isinstance(told, dict) else None
