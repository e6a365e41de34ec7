# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods of a mirror: sorted as if they were sorted anew each time, whatever changed since the last time."""

from __future__ import annotations

import os
import random
import types
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.pod_table import (
    MirroredPod,
    PodTable,
    mirrored_pod,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import PodIndex, index_pods
from ansible_collections.muster.kube.tests.support.cluster_model import pod

COURSES = 2000 if float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1 else 200
SEED = int(os.environ.get("MUSTER_SEED", "1"))


def raw_pod(
    number: int, namespace: str = "a", gang: str | None = None, owners: t.Sequence[str] = (), phase: str = "Running"
) -> dict[str, t.Any]:
    raw = pod(f"p{number}", on="n", namespace=namespace, labels={"muster.kube/gang": gang} if gang else {}, phase=phase)
    raw["metadata"]["uid"] = f"uid-{number}"
    if owners:
        raw["metadata"]["ownerReferences"] = [{"kind": "Job", "name": uid, "uid": uid} for uid in owners]
    return raw


def kept(*raws: dict[str, t.Any]) -> list[MirroredPod]:
    return [seen for seen in map(mirrored_pod, raws) if seen is not None]


def records(*places: tuple[str, str]) -> list[t.Any]:
    """As much of records as is asked for: namespace and uid."""
    return [types.SimpleNamespace(namespace=namespace, uid=uid) for namespace, uid in places]


def plain(index: PodIndex) -> tuple[dict[t.Any, t.Any], ...]:
    """An index without the order of its pods."""
    return tuple(
        {key: sorted((view.uid, view.phase) for view in pods) for key, pods in part.items()}
        for part in (index.by_gang, index.by_owner)
    )


def expected(
    items: t.Iterable[MirroredPod], started: t.Sequence[t.Any], parents: t.Mapping[str, t.Sequence[str]]
) -> t.Any:
    """The same by sorting everything anew."""
    asked = {(record.namespace, record.uid) for record in started}
    homes = {record.namespace for record in started}
    views = [item.gang_pod for item in items if item.gang_pod is not None]
    wanted = [
        view
        for view in views
        if (view.namespace in homes if view.gang is None else not view.finished or (view.namespace, view.gang) in asked)
    ]
    return plain(index_pods(wanted, parents))


def test_a_pod_that_ended_and_belongs_to_nobody_is_not_kept() -> None:
    assert kept(raw_pod(1, phase="Succeeded")) == []
    assert (
        len(kept(raw_pod(1), raw_pod(2, gang="g", phase="Failed"), raw_pod(3, owners=["o"], phase="Failed"))) == 2 + 1
    )


def test_what_ended_is_shown_of_started_gangs_only() -> None:
    pods = PodTable()
    pods.update(kept(raw_pod(1, gang="g"), raw_pod(2, gang="g", phase="Failed"), raw_pod(3, gang="h", phase="Failed")))
    assert plain(pods.index([], {})) == ({("a", "g"): [("uid-1", "Running")]}, {})
    shown = plain(pods.index(records(("a", "g")), {}))
    assert shown == ({("a", "g"): [("uid-1", "Running"), ("uid-2", "Failed")]}, {})


def test_changes_that_were_told_to_somebody_else_are_found() -> None:
    pods, items = PodTable(), kept(raw_pod(1, gang="g"), raw_pod(2, gang="g"))
    pods.update(items)
    pods.update(items[:1], [])
    assert plain(pods.index([], {})) == ({("a", "g"): [("uid-1", "Running")]}, {})


def test_pods_that_did_not_change_are_the_very_same() -> None:
    pods, started = PodTable(), records(("a", "g"))
    items = kept(raw_pod(1, gang="g"), raw_pod(2, owners=["o"]))
    pods.update(items)
    before = pods.index(started, {})
    pods.update([*items, *kept(raw_pod(3, gang="h"))])
    after = pods.index(started, {})
    assert after.by_gang["a", "g"] is before.by_gang["a", "g"]
    assert after.by_owner["a", "o"] is before.by_owner["a", "o"]
    # What a cycle was given does not change under its hands.
    assert ("a", "h") not in before.by_gang


@pytest.mark.parametrize("part", range(2))
def test_after_any_course_pods_are_sorted_as_if_anew(part: int) -> None:
    for number in range(part * COURSES // 2, (part + 1) * COURSES // 2):
        rng = random.Random(SEED * 100_000 + number)
        pods, items = PodTable(), {}
        for _step in range(rng.randint(1, 12)):
            changes = []
            for _change in range(rng.randint(0, 4)):
                uid = rng.randrange(8)
                owners = rng.sample(["o1", "o2", "o3"], rng.randint(0, 2))
                made = raw_pod(
                    uid,
                    rng.choice("ab"),
                    rng.choice([None, "g1", "g2"]),
                    owners,
                    rng.choice(["Running", "Pending", "Succeeded", "Failed"]),
                )
                seen = mirrored_pod(made)
                before = items.pop(uid, None)
                if seen is not None and rng.random() < 0.8:
                    items[uid] = seen
                changes.append((before, items.get(uid)))
            started = records(*rng.sample([("a", "g1"), ("b", "g1"), ("a", "g3")], rng.randint(0, 3)))
            parents = {"o1": ("top",)} if rng.random() < 0.3 else {}
            pods.update(list(items.values()), rng.choice([None, changes, changes]))
            assert plain(pods.index(started, parents)) == expected(items.values(), started, parents), number
