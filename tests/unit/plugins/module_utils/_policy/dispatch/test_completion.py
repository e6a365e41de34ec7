# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Completion: by kind, by rules of every form, and what counts as failed."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import pods_by_podset
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.completion import Endings, is_accepted
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.gang_model import (
    condition,
    deployment,
    ended,
    gang_pod,
    live,
    ray_cluster,
    spec_of,
)

JOB, OTHER, WEB = job("work", 2), job("other", 1), deployment()
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}


def search(expression, obj):
    """A stand-in for jmespath: the key of the status with this name."""
    return (obj.get("status") or {}).get(expression)


def ended_of(spec, items, pods=(), kept=None):
    """How the objects of the gang ended."""
    podsets = infer_podsets(spec.objects, namespace="default")
    return Endings(spec, podsets, pods_by_podset(podsets, pods, items), items, kept or {}, search)


def done(spec, items, pods=(), kept=None):
    """Whether the gang is done."""
    return ended_of(spec, items, pods, kept).done()


COMPLETE = live(JOB, status=ended("Complete"))
FAILED = live(JOB, status=ended("Failed"))


@pytest.mark.parametrize(
    ("objects", "items", "expected"),
    [
        ((JOB,), {0: COMPLETE}, True),
        ((JOB,), {0: live(JOB)}, False),
        ((JOB,), {0: FAILED}, False),
        ((JOB,), {}, False),
        ((JOB,), {0: None}, False),
        ((JOB, OTHER), {0: COMPLETE, 1: live(OTHER)}, False),
        ((JOB, OTHER), {0: COMPLETE, 1: live(OTHER, status=ended("Complete"))}, True),
        ((JOB, WEB), {0: COMPLETE, 1: live(WEB)}, True),
        ((JOB, SERVICE), {0: COMPLETE}, True),
        ((WEB,), {0: live(WEB, status=ended("Complete"))}, False),
        ((ray_cluster(),), {0: live(ray_cluster())}, False),
        ((SERVICE,), {0: live(SERVICE)}, False),
    ],
)
def test_without_rules_the_kinds_decide(objects, items, expected):
    assert done(spec_of(*objects), items) is expected


@pytest.mark.parametrize(
    "rules", [{}, {"completion": [{"item": 0, "type": "Complete"}]}, {"completion": [{"pods": True}]}]
)
def test_an_object_that_went_is_done_if_it_was_seen_to_be(rules):
    short = job("work", 2)
    short["spec"]["ttlSecondsAfterFinished"] = 0
    spec = spec_of(short, **rules)
    assert not done(spec, {0: None})
    assert done(spec, {0: None}, kept={0: "succeeded"})
    assert not done(spec, {0: None}, kept={0: "failed"})
    assert done(spec, {}, kept={0: "succeeded"})
    assert not done(spec, {0: live(short)}, kept={0: "succeeded"})


def test_an_empty_list_of_rules_never_completes():
    assert not done(spec_of(JOB, completion=[]), {0: COMPLETE})


@pytest.mark.parametrize(
    ("rule", "status", "expected"),
    [
        ({"type": "complete"}, ended("Complete"), True),
        ({"type": "Complete"}, {"conditions": [condition("Complete", "False")]}, False),
        ({"type": "Available", "status": "False"}, {"conditions": [condition("Available", "False")]}, True),
        ({"contains": "Progress"}, ended("Progressing"), True),
        ({"contains": "Progress"}, {"conditions": [condition("Progressing", "False")]}, False),
        ({"jmespath": "ready"}, {"ready": 2}, True),
        ({"jmespath": "ready"}, {"ready": 0}, False),
    ],
)
def test_each_form_of_rule(rule, status, expected):
    spec = spec_of(JOB, completion=[{"item": 0, **rule}])
    assert done(spec, {0: live(JOB, status=status)}) is expected


def test_one_rule_of_an_object_is_enough_but_every_named_object_counts():
    rules = [{"item": 0, "type": "Complete"}, {"item": 0, "type": "Failed"}, {"item": 1, "type": "Complete"}]
    spec = spec_of(JOB, OTHER, completion=rules)
    assert not done(spec, {0: FAILED, 1: live(OTHER)})
    assert done(spec, {0: FAILED, 1: live(OTHER, status=ended("Complete"))})


def test_a_rule_that_nobody_can_evaluate_does_not_hold():
    spec = spec_of(JOB, completion=[{"item": 0, "jmespath": "ready"}])
    assert not is_accepted(spec, live(JOB, status={"ready": 1}), 0, None)


def test_an_object_without_status_is_not_done():
    group = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "g"}, "spec": {}}
    assert not done(spec_of(group, completion=[{"item": 0, "type": "Complete"}]), {0: live(group)})


def test_all_pods_must_succeed():
    spec = spec_of(WEB, completion=[{"pods": True}])
    over = gang_pod("web", phase="Succeeded")
    assert not done(spec, {0: live(WEB)}, [over, gang_pod("web")])
    assert done(spec, {0: live(WEB)}, [over, over])


def test_of_a_job_with_more_work_than_pods_the_job_itself_is_asked():
    spec = spec_of(JOB, completion=[{"pods": True}])
    over = [gang_pod("work", phase="Succeeded")] * 2
    assert not done(spec, {0: live(JOB)}, over)
    assert done(spec, {0: COMPLETE}, over)


def test_a_gang_without_pods_has_none_that_succeeded():
    assert not done(spec_of(SERVICE, completion=[{"pods": True}]), {0: live(SERVICE)})


def test_failed_objects_unless_a_rule_accepts_it():
    items = {0: FAILED, 1: live(OTHER), 2: None}
    assert ended_of(spec_of(JOB, OTHER, WEB), items).failed() == [0]
    assert ended_of(spec_of(JOB, OTHER, WEB, completion=[]), items).failed() == [0]
    content = spec_of(JOB, OTHER, WEB, completion=[{"item": 0, "contains": "failed"}])
    assert ended_of(content, items).failed() == []


def test_only_what_ends_by_itself_has_an_outcome_to_miss():
    spec = spec_of(JOB, OTHER, WEB)
    ended = ended_of(spec, {0: None, 1: None, 2: None}, kept={1: "succeeded"})
    assert (ended.failed(), ended.unknown(), ended.vanished()) == ([], [0], [2])
    assert ended_of(spec, {0: live(JOB)}).unknown() == []


def test_what_was_noted_of_an_object_holds_until_it_is_seen_again():
    kept = {0: "succeeded", 1: "failed"}
    assert ended_of(spec_of(JOB, OTHER), {0: None}, kept=kept).seen() == kept
    assert ended_of(spec_of(JOB, OTHER), {0: FAILED, 1: live(OTHER)}, kept=kept).seen() == {0: "failed"}
