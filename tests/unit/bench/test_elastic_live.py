# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The live bench of sizes counts as it says: its load, the delays, and whose writes are whose."""

from __future__ import annotations

import collections

from ansible_collections.muster.kube.bench.dispatching.accounts import Account
from ansible_collections.muster.kube.bench.dispatching.observer import note_patch
from ansible_collections.muster.kube.bench.dispatching.resizes import count_writes, delays
from ansible_collections.muster.kube.bench.elastic_live import LiveRun, bars, build_load
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import spec_of_record

RECORDS, JOBS = "/api/v1/namespaces/bench/configmaps", "/apis/batch/v1/namespaces/bench/jobs"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/dispatch"
SCALE, SUSPEND = {"method": "scale", "id": "1"}, {"method": "suspend", "id": "2"}


def test_half_of_the_jobs_have_other_pods_and_half_larger_ones() -> None:
    load = build_load(1, 4, 5, 6)
    axes = [spec_of_record(record).elastic.range.axis for record in load.elastic]
    assert axes == ["pods", "per_pod", "pods", "per_pod"]
    assert load.names == {"e000", "e001", "e002", "e003"}
    assert collections.Counter(load.events) == {"deleted": 2, "ended": 2, "newcomer": 2}
    assert len(load.foreign) == len(load.fixed) == 2


def test_a_seed_makes_the_same_events() -> None:
    assert build_load(1, 4, 5, 9) == build_load(1, 4, 5, 9)
    assert build_load(1, 4, 5, 9).events != build_load(2, 4, 5, 9).events


def test_a_delay_ends_with_the_first_patch_before_the_next_gpus_are_free() -> None:
    assert delays([10.0, 20.0, 30.0], [9.0, 10.5, 11.0, 31.0]) == [0.5, 1.0]


def test_writes_are_those_of_the_resize_that_a_record_tells_of() -> None:
    writes = [
        (0.5, "PUT", LEASE, {"batch": 1}),
        (0.6, "PUT", f"{RECORDS}/a", {"phase": "running", "method": "scale", "id": "0"}),
        (1.0, "PUT", LEASE, {"batch": 2}),
        (1.1, "PUT", f"{RECORDS}/a", {"phase": "rescaling", **SCALE}),
        (1.2, "PATCH", f"{JOBS}/a", {}),
        (1.3, "PUT", LEASE, {"batch": 2}),
        (1.4, "PUT", f"{RECORDS}/a", {"phase": "running", **SCALE}),
        (2.0, "PUT", LEASE, {"batch": 3}),
        (2.1, "PUT", f"{RECORDS}/b", {"phase": "rescaling", **SUSPEND}),
        (2.2, "PATCH", f"{JOBS}/b", {}),
        (2.3, "PATCH", f"{JOBS}/b", {}),
        (2.4, "PUT", f"{RECORDS}/b", {"phase": "rescaling", **SUSPEND}),
        (2.5, "PUT", f"{RECORDS}/b", {"phase": "running", **SUSPEND}),
        (3.0, "PUT", LEASE, {"batch": 4}),
        (3.1, "POST", RECORDS, {}),
        (3.2, "POST", JOBS, {}),
    ]
    found = count_writes(writes, {"a", "b"}, 1.0)
    assert found.resizes == {"scale": 1, "suspend": 1}
    assert found.writes["scale"] == {"PUT lease": 1, "PUT record": 2, "PATCH job": 1}
    assert (found.each("scale"), found.each("suspend")) == (4.0, 6.0)
    assert (found.others["POST jobs"], found.others["PUT lease"]) == (1, 1)


def test_each_patch_is_noted_once() -> None:
    assert not list(note_patch({"name": "a"}))
    noted = list(note_patch({"name": "a", "annotations": {"muster.kube/resize": "1.sized"}}))
    assert noted == [("patched", "a 1.sized", "a")]


def test_bars_are_for_what_there_was() -> None:
    writes = count_writes([(1.0, "PUT", f"{RECORDS}/a", {"phase": "rescaling", **SCALE})], {"a"}, 0.0)
    seen = {"gone": [(2.0, ""), (3.0, "e000")], "ended": [(0.5, "f")], "patched": [(4.0, "e000")]}
    run = LiveRun(build_load(1, 1, 1, 3), 1.0, seen, [(0, 0.01)], writes, Account({}, {}, {}))
    assert run.delays("gone", "ended") == run.delays("gone") == [2.0]
    told = [str(bar) for bar in bars([run])]
    assert told == [
        "seconds from GPUs free to the first patch, p50, 2 (bar: at most 1): MISSED",
        "writes of a resize by scale 1 (bar: at most 4): kept",
    ]
