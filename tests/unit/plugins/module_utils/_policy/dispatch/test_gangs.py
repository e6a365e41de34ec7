# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a batch tells of the pods it promises to those who may not read their record."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import new_state
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import (
    PROMISE_BYTES,
    demand_of,
    promise_of,
    reserved_of,
    sized_gang,
    spec_of,
    steerable,
)
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def away_from(app: str, *namespaces: str) -> t.Any:
    """The affinity of pods that stay away from others with this label."""
    avoid: cases.Object = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": cases.HOSTNAME}
    if namespaces:
        avoid["namespaces"] = list(namespaces)
    return {"podAntiAffinity": {REQUIRED: [avoid]}}


def promised(keys: t.Any, **spec: t.Any) -> t.Any:
    """The labels that an entry keeps of a Job's pods."""
    labels = {"app": "x", "run": "r-17"}
    podsets = infer_podsets([job("j", 1, labels=labels, requests={"cpu": "1"}, **spec)], namespace="a")
    (kept,) = promise_of(Gang("g", "a", tuple(podsets)), {}, keys)
    return kept.get("labels")


def test_labels_are_kept_where_somebody_asks_for_them() -> None:
    """Labels that nobody asks for would only make equal demands differ."""
    assert promised(None) is None
    assert promised(frozenset({"tier"})) is None
    assert promised(frozenset({"app", "tier"})) == {"app": "x"}
    assert {"app": "x", "run": "r-17"}.items() <= promised(None, affinity=away_from("x")).items()


@pytest.mark.parametrize("app", ["x", "y"])
def test_a_promised_pod_repels_a_gang_that_keeps_away_from_its_label(app: str) -> None:
    """It does not exist yet, and its record may not be read: only the batch tells of it."""
    with MemoryStage(1) as stage:
        for name in ("a", "b"):
            stage.add_namespace(name)
        stage.add_nodes(*cases.node_pool("p", 1))
        first = cases.job("first-j", "p", 1)
        first["spec"]["template"]["metadata"]["labels"] = {"app": "x"}
        stage.cluster.add("configmaps", cases.gang_record("first", "a", [first]))
        second = cases.job("second-j", "p", 1)
        second["spec"]["template"]["spec"]["affinity"] = away_from(app, "a")
        stage.cluster.add("configmaps", cases.gang_record("second", "b", [second]))
        stage.cluster.denials.append(Denial("two", ("list",), ("configmaps",), ("",)))
        one = stage.dispatcher("one", ["a"])
        one.cycle()
        one.release()
        assert stage.cluster.all("pods") == []
        stage.dispatcher("two", ["b"]).cycle()
        started = [obj["metadata"]["name"] for obj in stage.cluster.all("jobs")]
        assert started == (["first-j"] if app == "x" else ["first-j", "second-j"])


def record_of(*objects: cases.Object, **options: t.Any) -> Record:
    """A record that holds these objects."""
    raw = cases.gang_record("g", "a", objects, **options)
    raw["metadata"]["uid"] = "u"
    return record_from_api(raw)


def test_what_a_record_keeps_of_a_demand_are_the_sizes() -> None:
    gang = Gang("g", "a", tuple(infer_podsets([job("j", 2, requests={"cpu": "1"})], namespace="a")))
    assert reserved_of(gang) == ({"name": "j", "count": 2, "requests": {"cpu": "1", "pods": "1"}},)


def test_a_record_without_a_gang_says_why() -> None:
    broken = dataclasses.replace(record_of(cases.job("j", None)), spec=None, spec_problem="it is no JSON")
    with pytest.raises(BadInput, match="the gang a/g: it is no JSON"):
        spec_of(broken)
    with pytest.raises(BadInput, match="its record holds no gang"):
        spec_of(dataclasses.replace(broken, spec_problem=None))


def test_only_podsets_with_a_template_can_be_steered() -> None:
    known = record_of(cases.job("j", None))
    assert steerable(known, {})
    assert steerable(known, {"j": ["n1"]})
    assert not steerable(known, {"other": ["n1"]})
    declared = record_of(cases.service("s"), podsets=[{"name": "w", "count": 1, "requests": {"cpu": "1"}}])
    assert steerable(declared, {})
    assert not steerable(declared, {"w": ["n1"]})


def test_a_gang_is_no_smaller_than_it_turned_out_to_be() -> None:
    known = record_of(cases.job("j", None, 1))
    gang = sized_gang(known, Snapshot())
    assert demand_of(known, gang) is gang
    seen = dataclasses.replace(
        new_state("", ""), observed=({"name": "j", "count": 3, "requests": {"cpu": "2", "pods": "1"}},)
    )
    (grown,) = demand_of(dataclasses.replace(known, state=seen), gang).podsets
    assert (grown.count, grown.requests["cpu"]) == (3, 2000)


def test_what_an_earlier_attempt_left_behind_is_not_made_again() -> None:
    objects = [cases.job("j", None, 1), cases.service("s"), cases.service("kept"), cases.claim("c")]
    objects[2]["metadata"]["annotations"] = {"muster.kube/keep": "true"}
    known = record_of(*objects)
    gang = sized_gang(known, Snapshot())
    assert demand_of(known, gang) is gang
    assert (gang.made.amounts()["services"], gang.made.tried) == (2, False)
    later = dataclasses.replace(known, state=dataclasses.replace(new_state("", ""), attempt=2))
    again = demand_of(later, gang).made
    assert (again.amounts()["services"], again.tried) == (1, True)
    assert [claim.name for claim in again.claims] == ["c"]
    plain = record_of(cases.job("j", None, 1))
    gang = sized_gang(plain, Snapshot())
    assert demand_of(dataclasses.replace(plain, state=later.state), gang) is gang


def test_of_very_long_rules_a_batch_keeps_the_sizes_only() -> None:
    (podset,) = infer_podsets(
        [job("j", 1, requests={"cpu": "1"}, nodeSelector={"k": "x" * PROMISE_BYTES})], namespace="a"
    )
    (kept,) = promise_of(Gang("g", "a", (podset,)), {}, None)
    assert set(kept) == {"name", "count", "requests"}
    (podset,) = infer_podsets([job("j", 1, requests={"cpu": "1"}, nodeSelector={"k": "x"})], namespace="a")
    assert promise_of(Gang("g", "a", (podset,)), {}, None)[0]["spec"] == {"nodeSelector": {"k": "x"}}
