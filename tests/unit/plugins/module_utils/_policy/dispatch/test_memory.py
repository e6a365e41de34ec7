# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is remembered of records, and what makes it be worked out anew."""

from __future__ import annotations

import copy
import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import digest, read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import new_state
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import NamespaceRules, Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch import memory as memory_module
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import REFUSED_SECONDS, Memory
from ansible_collections.muster.kube.tests.support.cluster_model import job

LIMITS = {
    "metadata": {"uid": "l", "resourceVersion": "1"},
    "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]},
}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}}


def record(*objects, uid="u", **options):
    data = {"name": "g", "namespace": "default", "objects": list(objects or [job("j", 2)]), **options}
    raw = build_record(read_spec(data, "gang"))
    raw["metadata"].update(uid=uid, resourceVersion="1")
    return record_from_api(raw)


def snapshot(**changes):
    limits = copy.deepcopy(LIMITS)
    limits["metadata"].update(changes)
    return Snapshot(rules={"default": NamespaceRules(limit_ranges=(limits,))})


@pytest.fixture
def sized(monkeypatch):
    """How often a gang was worked out."""
    calls = []
    real = memory_module.sized_gang
    monkeypatch.setattr(memory_module, "sized_gang", lambda *arguments: calls.append(1) or real(*arguments))
    return calls


def test_a_gang_is_sized_once_while_nothing_changes(sized):
    memory, gang = Memory(), record()
    first, second = (memory.size(gang, snapshot())[0] for _turn in range(2))
    assert first is second
    assert first.podsets[0].requests["cpu"]
    assert len(sized) == 1


def test_another_limit_range_sizes_it_anew(sized):
    memory, gang = Memory(), record()
    rough, problem = memory.rough_size(gang)
    assert (rough.podsets[0].requests.get("cpu"), problem) == (None, None)
    assert memory.size(gang, snapshot())[0].podsets[0].requests["cpu"]
    memory.size(gang, snapshot(resourceVersion="2"))
    assert len(sized) == 3


def test_another_specification_is_another_gang(sized):
    memory = Memory()
    assert memory.size(record(job("j", 2)), snapshot())[0].podsets[0].count == 2
    assert memory.size(record(job("j", 5)), snapshot())[0].podsets[0].count == 5


def test_what_is_wrong_is_told_and_remembered(sized):
    memory, broken = Memory(), record({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}})
    for _turn in range(2):
        gang, problem = memory.size(broken, snapshot())
        assert gang is None
        assert "podsets" in problem
    assert len(sized) == 1


def test_a_record_that_cannot_be_read_has_no_gang():
    raw = build_record(read_spec({"name": "g", "namespace": "default", "objects": [job("j", 1)]}, "gang"))
    raw["metadata"].update(uid="u", resourceVersion="1")
    raw["data"] = {"gang.json": "{"}
    unreadable = record_from_api(raw)
    memory = Memory()
    assert memory.size(unreadable, snapshot())[0] is None
    assert "JSON" in memory.rough_size(unreadable)[1]
    assert (memory.watched_items(unreadable), memory.permitted(unreadable, lambda: "no")) == ({}, None)


def test_only_items_that_tell_something_are_watched():
    memory = Memory()
    assert memory.watched_items(record(SERVICE, job("j", 1))) == {1: (("batch/v1", "Job"), "j")}
    asked = record(SERVICE, job("j", 1), completion=[{"item": 0, "jmespath": "status"}])
    assert set(memory.watched_items(asked)) == {0, 1}


def test_a_permission_is_remembered_and_a_refusal_asked_again():
    memory, gang, answers = Memory(), record(), ["no", None, "never asked"]
    assert [memory.permitted(gang, lambda: answers.pop(0)) for _turn in range(3)] == ["no", None, None]


def test_gangs_that_are_gone_are_forgotten(sized):
    memory, gang = Memory(), record()
    memory.size(gang, snapshot())
    memory.keep_only({"other"})
    memory.size(gang, snapshot())
    assert len(sized) == 2


def test_the_class_of_a_demand_is_remembered_until_the_gang_grows():
    memory, gang = Memory(), record()
    small = memory.size(gang, snapshot())[0]
    first = memory.demand_class(gang, small, None)
    assert memory.demand_class(gang, small, None) is first
    assert memory.demand_class(gang, small.resized({"j": 9}), None) != first


def test_the_class_is_worked_out_anew_where_other_labels_matter():
    memory, gang = Memory(), record(job("j", 2, labels={"app": "x"}))
    small = memory.size(gang, snapshot())[0]
    assert memory.demand_class(gang, small, frozenset({"app"})) != memory.demand_class(gang, small, None)


def test_deadlines_are_read_once(monkeypatch):
    calls = []
    real = memory_module.kind_of
    monkeypatch.setattr(memory_module, "kind_of", lambda *values, **more: calls.append(1) or real(*values, **more))
    limited = job("a", 1)
    limited["spec"]["activeDeadlineSeconds"] = 60
    memory, gang = Memory(), record(limited, job("b", 1), SERVICE)
    assert [memory.deadlines(gang) for _turn in range(2)] == [(60.0, None)] * 2
    assert len(calls) == 3


def test_a_job_on_a_cluster_that_exists_is_watched_though_it_makes_no_pods():
    spec = {"entrypoint": "true", "submissionMode": "HTTPMode", "clusterSelector": {"ray.io/cluster": "shared"}}
    ray = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": spec}
    watched = Memory().watched_items(record(job("j", 1), ray, SERVICE))
    assert watched == {0: (("batch/v1", "Job"), "j"), 1: (("ray.io/v1", "RayJob"), "r")}


def test_a_record_that_cannot_be_read_says_why_wherever_it_is_asked():
    unreadable = dataclasses.replace(record(), spec=None, spec_problem="it is no JSON")
    memory = Memory()
    assert memory.size(unreadable, snapshot()) == memory.rough_size(unreadable) == (None, "it is no JSON")
    with pytest.raises(BadInput, match="it is no JSON"):
        memory.plan(unreadable, {})
    empty = dataclasses.replace(record(), spec=None)
    assert memory.size(empty, snapshot()) == (None, "its record holds no gang")


def test_only_what_was_asked_is_permitted():
    memory, gang = Memory(), record()
    assert not memory.is_permitted(gang)
    memory.permitted(gang, lambda: "no")
    assert not memory.is_permitted(gang)
    memory.permitted(gang, lambda: None)
    assert memory.is_permitted(gang)
    assert not memory.is_permitted(dataclasses.replace(gang, spec=None))


def test_the_class_of_a_gang_that_grew_is_that_of_its_size():
    memory, gang = Memory(), record()
    large = memory.size(gang, snapshot())[0].resized({"j": 9})
    assert memory.demand_class(gang, large, None) == memory_module.demand_class(large, None)
    unknown = dataclasses.replace(gang, spec=None)
    assert memory.demand_class(unknown, large, None) == memory_module.demand_class(large, None)


def test_a_refusal_of_the_server_holds_for_a_while():
    memory, gang = Memory(), record()
    assert memory.refused(gang, 0.0) is None
    memory.note_refused(gang, 100.0, "quota", "full")
    assert memory.refused(gang, 100.0 + REFUSED_SECONDS - 0.1) == ("quota", "full")
    assert memory.refused(gang, 100.0 + REFUSED_SECONDS) is None
    other = dataclasses.replace(gang, spec=None)
    memory.note_refused(other, 100.0, "quota", "full")
    assert memory.refused(other, 100.0) is None
    assert memory.refused(record(job("k", 1)), 100.0) is None


def test_a_fingerprint_is_that_of_the_specification():
    memory, gang = Memory(), record()
    assert memory.digest(gang) == digest(gang.spec)
    assert memory.digest(dataclasses.replace(gang, spec=None)) is None


def test_an_error_of_ours_is_told_apart_and_a_later_size_forgets_it(monkeypatch):
    def fail(*_arguments):
        raise ZeroDivisionError("boom")

    memory, gang, real = Memory(), record(), memory_module.sized_gang
    monkeypatch.setattr(memory_module, "sized_gang", fail)
    assert memory.size(gang, snapshot()) == (None, None)
    assert "ZeroDivisionError" in memory.unforeseen(gang)
    assert memory.rough_size(gang) == (None, None)
    monkeypatch.setattr(memory_module, "sized_gang", real)
    assert memory.size(gang, snapshot(resourceVersion="2"))[0] is not None
    assert memory.unforeseen(gang) is None
    assert memory.unforeseen(dataclasses.replace(gang, spec=None)) is None


def test_each_attempt_has_a_plan_of_its_own():
    memory, gang = Memory(), record()
    again = dataclasses.replace(gang, state=dataclasses.replace(new_state("", ""), attempt=2))
    first = memory.plan(gang, {})
    assert memory.plan(gang, {}) is first
    labels = [memory.plan(item, {})[0].object["metadata"]["labels"]["muster.kube/attempt"] for item in (gang, again)]
    assert labels == ["1", "2"]
    assert memory.watched_items(gang) == memory.watched_items(again)


def test_a_plan_is_steered_where_a_verdict_says_so():
    memory, gang = Memory(), record()
    (plain,), (steered,) = memory.plan(gang, {}), memory.plan(gang, {"j": ("n1",)})
    assert "affinity" not in plain.object["spec"]["template"]["spec"]
    assert "n1" in str(steered.object["spec"]["template"]["spec"]["affinity"])


def test_names_that_are_given_twice_make_a_gang_nothing_is_watched_of():
    twice = record(job("j", 1), job("j", 1))
    assert Memory().watched_items(twice) == {}
