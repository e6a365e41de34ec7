# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one dispatcher has seen of started gangs and not written into their meters yet, and when that is due."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import Meter, Owner
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaSettings
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import NO_TREES, QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import (
    Demands,
    known_flavors,
    leaf_charged,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.accrual import (
    Sighting,
    began_at,
    left_at,
    metered_amounts,
)

# Tree and queue.
Leaf = tuple[str, str]

# Gangs of a leaf that end within this time share one write.
END_SECONDS = 10
# A write is under way no longer than this; after that it came to nothing.
_WRITE_SECONDS = 60
# A write that came to nothing is tried again no sooner.
_RETRY_SECONDS = 60
# How far the end of a gang may lie after the time that is certain.
_LEEWAY = 60


@dataclasses.dataclass(frozen=True, slots=True)
class GangSight:
    """The gangs that one cycle sees: those that are started, the others, and those it knows too little of."""

    started: Mapping[str, Record]
    others: Mapping[str, Record]
    left_alone: Collection[str]
    # What a started gang is charged with.
    used: Callable[[Record], Demands]


@dataclasses.dataclass(frozen=True, slots=True)
class MeterUpdate:
    """What one write has to tell of a leaf."""

    leaf: Leaf
    sightings: tuple[Sighting, ...]
    left_alone: frozenset[str]
    now: int
    # After how many seconds what was used counts half; None where nobody asks for that.
    half_life: float | None = None


class MeterBook:
    """All started gangs by leaf, and the ends that are still to be written."""

    def __init__(self) -> None:
        """Nothing is known; see begin."""
        self.meters: dict[Leaf, Meter] = {}
        self._trees: QuotaTrees = NO_TREES
        self._sight = GangSight({}, {}, (), lambda _record: {})
        # The attempt of each gang that is known to be started, and where it is counted.
        self._attempts: dict[str, int] = {}
        self._homes: dict[str, set[Leaf]] = {}
        self._open: dict[Leaf, dict[str, Sighting]] = {}
        self._ended: dict[Leaf, list[Sighting]] = {}
        # The earliest moment up to which some open gang of a leaf is counted.
        self._behind: dict[Leaf, int] = {}
        # Leaves whose meters name gangs that are not started any more.
        self._orphaned: set[Leaf] = set()
        self._written: dict[Leaf, int] = {}
        self._writing: dict[Leaf, int] = {}
        self._failed: dict[Leaf, int] = {}
        self._seen_at: int | None = None

    def begin(self, meters: Iterable[Meter]) -> None:
        """Go on with what others have written."""
        self.meters = {(meter.tree, meter.queue): meter for meter in meters}
        for leaf, meter in self.meters.items():
            if meter.open:
                self._behind[leaf] = min(gang.until for gang in meter.open.values())

    def look(self, trees: QuotaTrees, sight: GangSight, now: int) -> None:
        """Note who started and who ended since the last look."""
        changed = self._trees is not trees and self._trees != trees
        self._trees, self._sight = trees, sight
        if self._seen_at is None:
            self._find_orphans(now)
        for uid, attempt in list(self._attempts.items()):
            record = sight.started.get(uid)
            if uid not in sight.left_alone and (record is None or record.attempt != attempt):
                self._close(uid, record or sight.others.get(uid), now)
        for uid, record in sight.started.items():
            if uid in sight.left_alone:
                continue
            if uid not in self._attempts:
                self._attempts[uid] = record.attempt
                for leaf, seen in self._places(record, now).items():
                    self._settle(leaf, seen, now)
            elif changed:
                self._follow(record, now)
        self._seen_at = now

    def due(self, now: int, every: float, *, at_once: bool = False) -> list[MeterUpdate]:
        """What is to be written now: leaves in which a gang ended, and those that are long behind."""
        for leaf in [leaf for leaf, since in self._writing.items() if now - since >= _WRITE_SECONDS]:
            del self._writing[leaf]
        leaves = [leaf for leaf in self._leaves() if self._moment(leaf, every, at_once=at_once) <= now]
        found = [leaf for leaf in leaves if leaf not in self._writing]
        for leaf in found:
            self._refresh(leaf, now)
        self._writing.update(dict.fromkeys(found, now))
        return [self._update(leaf, now) for leaf in found]

    def written(self, update: MeterUpdate, meter: Meter | None) -> None:
        """Note how a write ended: with this meter, or with nothing."""
        leaf = update.leaf
        self._writing.pop(leaf, None)
        self._written[leaf] = update.now
        if meter is None:
            self._failed[leaf] = update.now
            return
        self._failed.pop(leaf, None)
        told = {id(seen) for seen in update.sightings}
        self.meters[leaf] = meter
        self._ended[leaf] = [seen for seen in self._ended.get(leaf, ()) if id(seen) not in told]
        self._behind[leaf] = meter.as_of
        self._orphaned.discard(leaf)

    # What is due.

    def _leaves(self) -> set[Leaf]:
        """The leaves of which something is to be written one day."""
        changed = {leaf for found in (self._open, self._ended) for leaf, items in found.items() if items}
        return changed | self._orphaned

    def _moment(self, leaf: Leaf, every: float, *, at_once: bool = False) -> float:
        """When the meter of a leaf is to be written."""
        pause = self._failed.get(leaf, -_RETRY_SECONDS) + _RETRY_SECONDS
        if self._ended.get(leaf) or leaf in self._orphaned:
            return pause if at_once else max(pause, self._written.get(leaf, -END_SECONDS) + END_SECONDS)
        return max(pause, self._behind.get(leaf, 0) + every)

    def _update(self, leaf: Leaf, now: int) -> MeterUpdate:
        """All there is to tell of a leaf."""
        alive = [dataclasses.replace(seen, until=now) for seen in self._open.get(leaf, {}).values()]
        alone = frozenset(self._sight.left_alone)
        settings = next((tree.settings for tree in self._trees.trees if tree.name == leaf[0]), QuotaSettings())
        half_life = settings.half_life if settings.fair == "usage" else None
        return MeterUpdate(leaf, (*self._ended.get(leaf, ()), *alive), alone, now, half_life)

    def _refresh(self, leaf: Leaf, now: int) -> None:
        """Look anew at what the gangs of a leaf use."""
        for uid in list(self._open.get(leaf, ())):
            record = self._sight.started.get(uid)
            if record is not None:
                self._follow(record, now)

    # Where gangs are counted.

    def _places(self, record: Record, now: int) -> dict[Leaf, Sighting]:
        """A started gang in each leaf that it is charged to.

        Gangs from before there was a tree are counted from when they were first seen under it.
        """
        places: dict[Leaf, Sighting] = {}
        state = record.state
        began = began_at(state) if state is not None else None
        owner = Owner(record.user, record.namespace)
        for tree in self._trees.trees:
            leaf, flavors = leaf_charged(tree, record, self._trees.namespaces)
            if leaf is None:
                continue
            place = (tree.name, leaf)
            charged = state is not None and any(item.tree == tree.name for item in state.charged)
            known = self._stored(place, record)
            since = int(began) if charged and began is not None else 0 if known else now
            amounts = metered_amounts(tree, self._sight.used(record), known_flavors(tree, flavors))
            places[place] = Sighting(record.uid, record.attempt, owner, amounts, since, now)
        return places

    def _settle(self, leaf: Leaf, seen: Sighting, now: int) -> None:
        """Begin to count a gang in a leaf."""
        self._open.setdefault(leaf, {})[seen.uid] = seen
        self._homes.setdefault(seen.uid, set()).add(leaf)
        self._behind[leaf] = min(self._behind.get(leaf, now), max(seen.since, self._as_of(leaf)))

    def _follow(self, record: Record, now: int) -> None:
        """Look anew at what a gang uses; one that belongs elsewhere by now is counted there from now on."""
        places, homes = self._places(record, now), self._homes.setdefault(record.uid, set())
        for leaf in list(homes):
            seen = self._open[leaf].pop(record.uid)
            if leaf in places:
                self._open[leaf][record.uid] = dataclasses.replace(seen, amounts=places.pop(leaf).amounts)
            else:
                homes.discard(leaf)
                self._end(leaf, seen, now)
        for leaf, found in places.items():
            self._settle(leaf, dataclasses.replace(found, since=now), now)

    def _stored(self, leaf: Leaf, record: Record) -> bool:
        """Whether the meter of a leaf has counted this attempt already."""
        meter = self.meters.get(leaf)
        entry = meter.open.get(record.uid) if meter is not None else None
        return entry is not None and entry.attempt == record.attempt

    def _as_of(self, leaf: Leaf) -> int:
        meter = self.meters.get(leaf)
        return 0 if meter is None else meter.as_of

    def _close(self, uid: str, record: Record | None, now: int) -> None:
        """Note that a start is over: when its record says so, else when it was last seen."""
        del self._attempts[uid]
        end = left_at(record.state) if record is not None and record.state is not None else None
        until = self._seen_at if end is None else min(int(end), now + _LEEWAY)
        for leaf in self._homes.pop(uid, ()):
            self._end(leaf, self._open[leaf].pop(uid), now if until is None else until)

    def _end(self, leaf: Leaf, seen: Sighting, until: int) -> None:
        self._ended.setdefault(leaf, []).append(dataclasses.replace(seen, until=until, open=False))

    def _find_orphans(self, now: int) -> None:
        """Close what meters name and is not started any more, at the end its record tells of, if it does."""
        for leaf, meter in self.meters.items():
            for uid, entry in meter.open.items():
                record = self._sight.started.get(uid)
                if uid in self._sight.left_alone or (record is not None and record.attempt == entry.attempt):
                    continue
                self._orphaned.add(leaf)
                record = record or self._sight.others.get(uid)
                end = left_at(record.state) if record is not None and record.state is not None else None
                if end is not None and entry.until < end <= now + _LEEWAY:
                    seen = Sighting(uid, entry.attempt, entry.owner, entry.amounts, 0, int(end))
                    self._end(leaf, seen, int(end))
