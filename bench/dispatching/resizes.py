# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What resizes cost and how soon they begin, counted from what a dispatcher wrote and what an observer saw."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

# When, method, path, and what the record or the Lease says after it.
Write = tuple[float, str, str, t.Mapping[str, t.Any]]
BEGINS = ("rescaling", "resizing")


@dataclasses.dataclass(frozen=True)
class ResizeWrites:
    """The writes of resizes by their method, by what was written; others are about gangs of fixed size."""

    resizes: t.Mapping[str, int]
    writes: t.Mapping[str, t.Mapping[str, int]]
    others: t.Mapping[str, int]

    def each(self, method: str) -> float:
        """Writes of one resize, its Events and its marks on tickets not counted."""
        counted = sum(count for what, count in self.writes.get(method, {}).items() if what not in ("POST event",))
        return counted / max(1, self.resizes.get(method, 0))


def count_writes(writes: t.Iterable[Write], gangs: t.Collection[str], since: float) -> ResizeWrites:
    """Sort writes after a moment by the resize that they belong to.

    Those about an elastic gang belong to its last resize. A write of the Lease that changes the batch belongs to the
    resizes whose records are written next, since it is their commit; one that a start follows, or nothing, is none.
    """
    resizes: collections.Counter[str] = collections.Counter()
    found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    others: collections.Counter[str] = collections.Counter()
    current: dict[str, tuple[str, str]] = {}
    waiting: list[tuple[str, str]] = []
    batch = None
    for moment, method, path, said in sorted(writes, key=lambda item: item[0]):
        plural, name = path.rstrip("/").split("/")[-2:]
        if moment < since:
            batch = said.get("batch", batch)
            continue
        if plural == "leases":
            if said.get("batch") != batch:
                waiting.append((method, "lease"))
            batch = said.get("batch", batch)
            continue
        if method == "POST" and name == "configmaps" and plural != "muster-system":
            # A start was committed.
            others["PUT lease"] += len(waiting)
            waiting.clear()
        if name not in gangs:
            others[f"{method} {plural if name not in ('configmaps', 'events', 'jobs') else name}"] += 1
            continue
        if said.get("phase") in BEGINS and current.get(name, ("", ""))[1] != said["id"]:
            current[name] = said["method"], said["id"]
            resizes[said["method"]] += 1
            for pair in waiting:
                found[said["method"]][" ".join(pair)] += 1
            waiting.clear()
        how = current.get(name, ("none", ""))[0]
        found[how][f"{method} {'record' if plural == 'configmaps' else plural[:-1]}"] += 1
    others["PUT lease"] += len(waiting)
    return ResizeWrites(resizes, found, others)


def delays(freed: t.Iterable[float], patched: t.Sequence[float]) -> list[float]:
    """Seconds from each moment at which GPUs became free to the first patch after it; without one there is none."""
    moments, found = sorted(freed), []
    for turn, moment in enumerate(moments):
        end = moments[turn + 1] if turn + 1 < len(moments) else float("inf")
        first = min((at for at in patched if moment <= at < end), default=None)
        if first is not None:
            found.append(first - moment)
    return found
