# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever stands in a log or a record, it is read or has a problem in words, and what is stored can be read again."""

from __future__ import annotations

import json
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build.info import BuildInfoOptions, answer_builds
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.info import (
    InspectionInfoOptions,
    answer_inspections,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import RECORD_KEY, build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    STATE_BYTES,
    newer_state,
    read_state,
    state_problem,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BUILD_LABEL, BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import Stack
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import read_frames
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import ItemFacts, item_from_frame
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import RunState
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_result import (
    checked_result,
    outcome_problem,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json, parse_json
from ansible_collections.muster.kube.plugins.module_utils._policy.image.build_outcome import build_outcome
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_summary import summarize
from ansible_collections.muster.kube.plugins.module_utils._store.run_records import new_record
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.frames import framed
from ansible_collections.muster.kube.tests.support.gang_records import state_in
from ansible_collections.muster.kube.tests.support.inspection_cases import item
from ansible_collections.muster.kube.tests.support.job_api import MAPS, JobApi
from ansible_collections.muster.kube.tests.support.random_size import examples
from ansible_collections.muster.kube.tests.support.random_values import damage, encodable

SEED = int(os.environ.get("MUSTER_SEED", "1"))
# Of each of the five kinds of data.
EACH = examples(200)
STREAM = {"bytes": 4, "head": "b3V0Cg==", "tail": "", "dropped": 0}
RESULT = {
    **{"version": 1, "index": 3, "exit_code": 0, "signal": None, "terminated": False, "output_held": False},
    **{"wall_seconds": 1.5, "start": 1_700_000_000.25, "end": 1_700_000_001.75, "stdout": STREAM, "stderr": STREAM},
    "usage": {"source": "getrusage", "user_seconds": 1.25, "max_rss_bytes": None},
    **{"script_sha256": "ab", "hostname": "pod-3", "os_release": {"ID": "debian"}, "notes": ["x"]},
    "warmup": {"runs": 1, "failures": [{"index": 0, "exit_code": 1, "stderr": "x"}]},
    "hwinfo": {
        "cpu": {"arch": "x86_64", "flags": ["avx"], "threads": 4},
        **{"limits": {"cpu": 0.5}, "pressure": {"oom_kill": 0}, "absent": {"gpus": "none"}, "gpus": []},
    },
}
BUILT = {
    **{"stage": "done", "exit_code": 0, "terminated": False, "digest": "sha256:1", "base_digest": "sha256:2"},
    **{"image_id": "sha256:3", "packages": "QHBpcAp4IDEK", "oom_kill": 0},
}
SPEC = BuildSpec(Stack("debian:12"), "r/x", "ab" * 32)
STATES = (RunState("succeeded"), RunState("failed", "build_failed", "it ended"), RunState("failed", "evicted", "disk"))


@pytest.fixture
def chance(request):
    return random.Random(f"{SEED} {request.node.name}")


def stored(data: t.Any) -> t.Any:
    """Data as they come back from a record."""
    text = canonical_json(data)
    text.encode()
    return parse_json(text, "the record")


def broken(chance: random.Random, log: bytes) -> bytes:
    """A log with some of its bytes lost, changed or repeated."""
    start, end = sorted(chance.randrange(len(log) + 1) for _round in range(2))
    return log[:start] + chance.choice((b"", log[start:end] * 2, chance.randbytes(5))) + log[end:]


def test_frames_of_runs_become_items_that_can_be_read(chance):
    for _round in range(EACH):
        log = framed(damage(chance, RESULT)[0])
        frame = read_frames(broken(chance, log) if chance.random() < 0.3 else log)
        facts = ItemFacts(3, "i@sha256:1", "sha256:1", placement_verified=True)
        found = stored({"items": [item_from_frame(frame, facts)], "reason": None, "message": ""})
        assert outcome_problem(found) is None
        assert found["items"][0]["reason"] or checked_result(frame).payload is not None
        stored(summarize(found["items"]))


def test_frames_of_builds_become_outcomes_that_can_be_read(chance):
    for _round in range(EACH):
        log = b"STEP 1\n" + framed(damage(chance, BUILT)[0])
        read = broken(chance, log) if chance.random() < 0.3 else log
        found = stored(build_outcome(SPEC, chance.choice(STATES), read_frames(read), read))
        texts = ("digest", "image_id", "base_digest", "reason", "message", "log")
        assert all(found[key] is None or isinstance(found[key], str) for key in texts)
        assert found["reason"] or found["digest"] or found["image_id"]


def ask_runs(api: JobApi) -> list[dict[str, t.Any]]:
    return answer_inspections(api.client(), InspectionInfoOptions(logs=True))["inspections"]


def ask_builds(api: JobApi) -> list[dict[str, t.Any]]:
    return answer_builds(api.client(), BuildInfoOptions())["builds"]


OUTCOMES = {
    "muster.kube/inspection": (
        ask_runs,
        {"items": [item(0, 1.0)], "reason": None, "message": "", "phase": "Succeeded", "warnings": []},
    ),
    BUILD_LABEL: (ask_builds, {**build_outcome(SPEC, STATES[0], read_frames(framed(BUILT)), b""), "tier": "baseline"}),
}


@pytest.mark.parametrize("label", OUTCOMES)
def test_records_of_jobs_are_told_whatever_they_hold(chance, label):
    ask, outcome = OUTCOMES[label]
    spec = {"run": {"repetitions": 1}, "script": "x", "image": "i", "labels": {}, "stack": {"base": "b"}}
    for _round in range(EACH):
        record = new_record("team", "one", {label: "one"}, spec, "hash", 60.0)
        data = {**record["data"], "outcome": outcome, "spec": spec, "finished": "1700000000"}
        texts = {key: value for key, value in encodable(damage(chance, data)[0]).items() if value is not None}
        record["data"] = {key: value if isinstance(value, str) else json.dumps(value) for key, value in texts.items()}
        api = JobApi()
        api.put(f"{MAPS}/one", record)
        json.dumps(ask(api)).encode()


def test_records_of_gangs_are_read_or_have_a_problem(chance):
    spec = {"name": "g", "namespace": "team", "queue": "q", "priority": 3, "min_available": 1, "ttl": 60}
    whole = read_spec({**spec, "objects": [job("a", 2, requests={"cpu": "1"})], "requeue": {"limit": 3}}, "g")
    good = json.loads(build_record(whole)["data"][RECORD_KEY])
    for _round in range(EACH):
        raw = build_record(whole)
        raw["metadata"] |= {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-11-16T03:00:00Z"}
        raw["data"][RECORD_KEY] = json.dumps(damage(chance, good)[0])
        record = record_from_api(raw)
        assert (record.spec is None) == bool(record.spec_problem or record.newer)
        if record.spec is not None:
            assert (
                record_from_api({**raw, **build_record(record.spec), "metadata": raw["metadata"]}).spec == record.spec
            )


def test_states_of_gangs_are_read_or_have_a_problem(chance):
    good = json.loads(state_text(state_in("running", attempt=2)))
    for _round in range(EACH):
        text = json.dumps(damage(chance, good)[0])
        annotations = {STATE_ANNOTATION: text}
        state = read_state(annotations)
        assert (state is None) == bool(state_problem(annotations) or newer_state(annotations)), text
        if state is not None:
            again = written_again(state)
            # Of what is too large only the parts stay that decide.
            assert again == state or len(text) > STATE_BYTES // 2, text
            assert again is None or (again.phase, again.attempt) == (state.phase, state.attempt), text


def written_again(state):
    """The state as it is read after it was written; None when it is refused because it cannot be made small enough."""
    try:
        return read_state({STATE_ANNOTATION: state_text(state)})
    except BadInput:
        return None
