# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a started gang goes on with after its record was edited; the rest is shown on a real cluster."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.edits import started_spec
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._kube.records import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.podset import declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.state import new_state
from ansible_collections.muster.kube.tests.support.gang_cases import job, service

RESERVED = ({"name": "a", "count": 2, "requests": {"cpu": "1", "pods": "1"}},)
STATE = dataclasses.replace(new_state("2026-01-01T00:00:00Z", "w/1/1", "running"), reserved=RESERVED)


def record(*objects, **options):
    data = {"name": "g", "namespace": "default", "objects": list(objects), **options}
    raw = build_record(read_spec(data, "gang"))
    raw["metadata"].update(uid="u", resourceVersion="1")
    return record_from_api(raw)


def started(edited, *objects):
    sized, _problem = Memory().rough_size(edited)
    return started_spec(edited, STATE, objects, sized)


def test_sizes_are_those_of_the_start_and_other_settings_those_of_now():
    edited = record(job("a", "pool", 9, cpu="7"), max_run_time=60)
    spec = started(edited, job("a", "pool", 2))
    podset = declared_podsets(spec.podsets, namespace="default")[0]
    assert (podset.name, podset.count, podset.requests) == ("a", 2, {"cpu": 1000, "pods": 1})
    assert podset.template["spec"]["nodeSelector"] == {"muster-test/pool": "pool"}
    assert spec.max_run_time == 60


def test_a_podset_that_is_gone_from_the_record_still_counts():
    spec = started(record(job("b", None, 1)), job("a", None, 2))
    assert [(item["name"], item["count"]) for item in spec.podsets] == [("a", 2)]
    assert [obj["metadata"]["name"] for obj in spec.objects] == ["a"]


def test_rules_of_completion_follow_their_object():
    rules = [{"item": 0, "type": "Ready"}, {"item": 1, "type": "Complete"}]
    edited = record(service("new"), job("a", None, 2), completion=rules)
    spec = started(edited, job("a", None, 2))
    assert [(entry["item"], entry["type"]) for entry in spec.completion] == [(0, "Complete")]


def test_without_a_rule_about_what_was_started_the_kinds_decide():
    edited = record(service("new"), completion=[{"item": 0, "type": "Ready"}])
    assert started(edited, job("a", None, 2)).completion is None


def test_never_complete_stays_never():
    assert started(record(job("a", None, 2), completion=[]), job("a", None, 2)).completion == ()


def test_a_record_that_cannot_be_read_goes_on_as_it_was_started():
    raw = record(job("a", None, 2)).raw
    broken = record_from_api({**raw, "data": {"gang.json": "{"}})
    spec = started_spec(broken, STATE, [job("a", None, 2)], None)
    assert (spec.name, spec.namespace, len(spec.objects), len(spec.podsets)) == ("g", "default", 1, 1)
