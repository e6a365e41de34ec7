# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of repetitions from frames, and what identifies a run."""

from __future__ import annotations

import base64
import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import NO_FRAME, Frame
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import (
    ITEM_KEYS,
    USAGE_KEYS,
    ItemFacts,
    RunFile,
    RunSpec,
    item_from_frame,
    kept_bytes,
    result_lines,
    run_data,
    run_hash,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_result import outcome_problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_summary import summarize
from hypothesis import given
from hypothesis import strategies as st

FACTS = ItemFacts(3, "registry/app@sha256:1", "sha256:1", placement_verified=True)
SPEC = RunSpec(image="app:1", script=b"true\n")


def stream(data: bytes, half: int = 1000) -> dict[str, t.Any]:
    """A stream as the collector hands it over."""
    tail = data[-half:] if len(data) > half else b""
    packed = {"head": data[:half], "tail": tail}
    return {"bytes": len(data), "half": half, **{key: base64.b64encode(part).decode() for key, part in packed.items()}}


def payload(**changes: t.Any) -> dict[str, t.Any]:
    """The result of a script that went well."""
    return {
        "version": 1,
        "index": 3,
        "exit_code": 0,
        "signal": None,
        "terminated": False,
        "output_held": False,
        "wall_seconds": 1.5,
        "start": 1_700_000_000.25,
        "end": 1_700_000_001.75,
        "usage": {"source": "getrusage", "user_seconds": 1.25, "max_rss_bytes": None, "max_rss_floor_bytes": 9000},
        "stdout": stream(b"out\n"),
        "stderr": stream(b"err\n"),
        "script_sha256": "ab",
        "warmup": {"runs": 0, "failures": []},
        "hostname": "pod-3",
        "os_release": {"ID": "debian"},
        "notes": [],
        "hwinfo": {"limits": {"cpu": 0.5}, "pressure": {"memory_peak_bytes": 77, "oom_kill": 0}, "absent": {}},
        **changes,
    }


def item(facts: ItemFacts = FACTS, **changes: t.Any) -> dict[str, t.Any]:
    """The item of a changed result."""
    return item_from_frame(Frame(payload(**changes)), facts)


def test_a_whole_result():
    found = item()
    assert tuple(found) == ITEM_KEYS
    assert tuple(found["usage"]) == USAGE_KEYS
    assert found["index"] == 3
    assert found["stdout"] == "out\n"
    assert found["stdout_json"] is False
    assert found["start"] == "2023-11-14T22:13:20.250000Z"
    assert found["end"] == "2023-11-14T22:13:21.750000Z"
    assert found["image_digest"] == "sha256:1"
    assert found["placement_verified"] is True
    assert (found["reason"], found["message"]) == (None, "")
    assert found["usage"]["cgroup_memory_peak_bytes"] == 77
    assert found["hwinfo"]["limits"]["cpu"] == 0.5


def test_missing_usage_has_reasons():
    absent = item()["hwinfo"]["absent"]
    assert absent["usage.max_rss_bytes"] == "it is less than the 9000 bytes of the process that measured it"
    absent = item(usage={"source": "proc"})["hwinfo"]["absent"]
    assert absent["usage.ru_nvcsw"] == "python3 is not in the image"
    assert absent["usage.max_rss_bytes"] == "the script ended before it was looked at"
    found = item(hwinfo={"absent": {"pressure.memory_peak_bytes": "old kernel"}}, usage=None)
    assert found["hwinfo"]["absent"]["usage.cgroup_memory_peak_bytes"] == "old kernel"


@pytest.mark.parametrize(
    ("text", "value", "is_json"),
    [
        (b'{"a": [1, 2.5]}\n', {"a": [1, 2.5]}, True),
        (b"42\n", 42, True),
        (b"", "", False),
        (b" \n", " \n", False),
        (b'{"a": 1} trailing', '{"a": 1} trailing', False),
        (b'{"a": NaN}', '{"a": NaN}', False),
        (b'{"a": 1e999}', '{"a": 1e999}', False),
        (b'"\\ud800"', '"\\ud800"', False),
        (b"\xff", "�", False),
    ],
)
def test_output_is_parsed_when_it_is_json(text, value, is_json):
    found = item(stdout=stream(text))
    assert (found["stdout"], found["stdout_json"]) == (value, is_json)


def test_deep_json_stays_text():
    deep = b"[" * 500 + b"]" * 500
    assert item(stdout=stream(deep))["stdout"] == deep.decode()


@given(data=st.binary(max_size=60), half=st.integers(1, 25))
def test_no_byte_is_lost_or_doubled(data, half):
    found = item(stderr=stream(data, half))
    if len(data) <= 2 * half:
        assert found["stderr"] == data.decode(errors="replace")
        assert found["truncated"]["stderr"] == 0
    else:
        head, tail = (part.decode(errors="replace") for part in (data[:half], data[-half:]))
        dropped = len(data) - 2 * half
        assert found["stderr"] == f"{head}\n[... {dropped} bytes left out ...]\n{tail}"
        assert found["truncated"]["stderr"] == dropped


def test_cut_json_is_no_json():
    assert item(stdout=stream(b"1" * 30, 10))["stdout_json"] is False


@pytest.mark.parametrize(
    ("changes", "facts", "reason", "words"),
    [
        ({"exit_code": 3}, {}, "script_failed", "the script ended with exit code 3"),
        ({"exit_code": 139, "signal": 11}, {}, "script_failed", "the script was ended by signal 11"),
        ({"exit_code": 143, "signal": 15, "terminated": True}, {}, "cancelled", "the script was told to stop"),
        ({"exit_code": 143, "terminated": True}, {"reason": "timeout", "message": "too long"}, "timeout", "too long"),
        (
            {"exit_code": 137, "signal": 9, "hwinfo": {"pressure": {"oom_kill": 1}}},
            {"reason": "script_failed", "message": "exit code 137"},
            "oom",
            "the script was killed because its container used more memory than its limit",
        ),
        ({"exit_code": 137, "signal": 9}, {}, "script_failed", "the script was ended by signal 9"),
        ({}, {"reason": "evicted", "message": "node lost"}, "evicted", "node lost"),
        ({"notes": ["odd"], "output_held": True}, {}, None, "processes the script left behind held its output open"),
    ],
)
def test_reasons(changes, facts, reason, words):
    found = item(dataclasses.replace(FACTS, **facts), **changes)
    assert found["reason"] == reason
    assert words in found["message"]


def test_failed_warm_up_runs_are_told():
    failure = {"run": 1, "exit_code": 4, "stderr": base64.b64encode(b"cold\n").decode()}
    found = item(warmup={"runs": 2, "failures": [failure, {"run": 2, "exit_code": 5, "stderr": ""}]})
    assert found["message"] == "warm-up run 1 ended with exit code 4: cold; warm-up run 2 ended with exit code 5"


def test_without_a_frame_the_pod_tells_what_it_can():
    facts = ItemFacts(
        0, "app", exit_code=137, started=0.0, finished=2.0, node_name="n1", reason="oom", message="killed"
    )
    found = item_from_frame(Frame(None, NO_FRAME), facts)
    assert tuple(found) == ITEM_KEYS
    assert (found["exit_code"], found["reason"], found["message"]) == (137, "oom", f"killed; {NO_FRAME}")
    assert (found["start"], found["end"]) == ("1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:02.000000Z")
    assert found["hwinfo"]["node"]["name"] == "n1"
    assert (found["stdout"], found["stderr"], found["truncated"]) == ("", "", {"stdout": 0, "stderr": 0})
    assert item_from_frame(Frame(None, "cut"), ItemFacts(0, "app"))["reason"] == "lost_result"


def test_a_later_damaged_frame_is_told():
    assert item_from_frame(Frame(payload(), "damaged"), FACTS)["message"] == "damaged"


@pytest.mark.parametrize(
    "change",
    [
        {"script": b"false\n"},
        {"args": ("a",)},
        {"interpreter": "python3"},
        {"environment": ({"name": "A", "value": "1"},)},
        {"files": (RunFile("/a", b"1"),)},
        {"workdir": "/tmp"},
        {"repetitions": 2},
        {"parallelism": 2},
        {"warmup": 1},
        {"allowed_failures": 1},
        {"timeout": 5},
        {"output_bytes": 5},
        {"resources": {"cpu": "1"}},
        {"hardware": {"arch": "arm64"}},
        {"runtime_class": "kata"},
        {"security": {"runAsUser": 1}},
    ],
)
def test_whatever_shapes_the_results_changes_the_identity(change):
    assert run_hash(dataclasses.replace(SPEC, **change), "sha256:1") != run_hash(SPEC, "sha256:1")


def test_the_identity_knows_the_image_by_its_digest():
    assert run_hash(SPEC, "sha256:1") != run_hash(SPEC, "sha256:2")
    assert run_hash(SPEC, "sha256:1") == run_hash(dataclasses.replace(SPEC, image="other:2"), "sha256:1")
    assert run_hash(SPEC, None) != run_hash(dataclasses.replace(SPEC, image="other:2"), None)


def test_the_identity_is_stable_and_holds_no_contents():
    files = (RunFile("/b", b"secret"), RunFile("/a", b"2"))
    spec, turned = (dataclasses.replace(SPEC, files=order) for order in (files, files[::-1]))
    assert run_hash(spec, None) == run_hash(turned, None)
    assert "secret" not in str(run_data(spec, None))
    assert run_hash(SPEC, "sha256:1") == "66a58c16c156d1c04db7e563122b2565298b18912b6ca5ce8f0164217630918a"


@pytest.mark.parametrize(
    "changes",
    [
        {"wall_seconds": "fast"},
        {"wall_seconds": -1},
        {"wall_seconds": True},
        {"exit_code": "0"},
        {"exit_code": 1.5},
        {"signal": []},
        {"start": 1e300},
        {"start": -5},
        {"end": {}},
        {"usage": []},
        {"usage": {"user_seconds": "1"}},
        {"stdout": "text"},
        {"stdout": {"bytes": "many", "head": "", "tail": ""}},
        {"stderr": {"bytes": 1, "head": 5}},
        {"warmup": []},
        {"warmup": {"failures": [1]}},
        {"warmup": {"failures": [{"stderr": 4}]}},
        {"notes": "note"},
        {"notes": [{}]},
        {"hwinfo": 3},
        {"hwinfo": {"pressure": []}},
        {"hwinfo": {"cpu": {"flags": 5}}},
        {"hwinfo": {"cpu": {"arch": []}}},
        {"hwinfo": {"gpus": [1]}},
        {"os_release": "debian"},
        {"hostname": 7},
        {"wall_seconds": 10**400},
        {"usage": {"user_seconds": float("nan")}},
        {"hostname": "\ud800"},
    ],
)
def test_a_result_of_wrong_types_is_lost(changes: dict[str, t.Any]) -> None:
    found = item(**changes)
    assert tuple(found) == ITEM_KEYS
    assert found["reason"] == "lost_result"
    assert "the result cannot be used" in found["message"]
    assert (found["wall_seconds"], found["stdout"]) == (None, "")
    assert outcome_problem({"items": [found], "reason": "lost_result", "message": ""}) is None


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(payload())), NESTED, max_size=4))
def test_whatever_a_script_writes_can_be_stored_and_read(changes: dict[str, t.Any]) -> None:
    found = item(**changes)
    canonical_json(found).encode()
    assert outcome_problem({"items": [found]}) is None
    summarize([found])


@pytest.mark.parametrize(
    ("changes", "seen", "words"),
    [
        ({"exit_code": 0}, {"exit_code": 1, "reason": "script_failed"}, "says exit code 0, its container ended with 1"),
        ({"exit_code": 0}, {"exit_code": 3}, "says exit code 0"),
        ({"exit_code": 2}, {"exit_code": 0}, "says exit code 2"),
        ({"wall_seconds": 100.0}, {}, "the times of the result"),
        ({"start": 1_600_000_000.0}, {}, "the times of the result"),
        ({"end": 1_800_000_000.0}, {}, "the times of the result"),
    ],
)
def test_a_result_that_contradicts_the_kubelet_is_lost(changes, seen, words):
    facts = {"exit_code": 0, "started": 1_700_000_000.0, "finished": 1_700_000_002.0, **seen}
    found = item(dataclasses.replace(FACTS, **facts), **changes)
    assert found["reason"] == seen.get("reason", "lost_result")
    assert words in found["message"]
    assert found["wall_seconds"] is None
    assert found["exit_code"] == facts["exit_code"]


def test_a_result_that_agrees_with_the_kubelet_counts():
    facts = dataclasses.replace(FACTS, exit_code=0, started=1_700_000_000.0, finished=1_700_000_002.0)
    assert item(facts)["reason"] is None


@pytest.mark.parametrize(
    ("changes", "agrees"),
    [
        ({"start": 1_699_999_990.0}, True),
        ({"start": 1_699_999_989.5}, False),
        ({"end": 1_700_000_012.0}, True),
        ({"end": 1_700_000_012.5}, False),
        ({"wall_seconds": 22.0}, True),
        ({"wall_seconds": 22.5}, False),
        ({"start": None, "end": None, "wall_seconds": None}, True),
    ],
)
def test_clocks_may_differ_by_ten_seconds(changes, agrees):
    facts = dataclasses.replace(FACTS, exit_code=0, started=1_700_000_000.0, finished=1_700_000_002.0)
    assert (item(facts, **changes)["reason"] is None) is agrees
    # Where the kubelet does not say both, nothing can be compared.
    assert item(dataclasses.replace(facts, started=None), **changes)["reason"] is None
    assert item(dataclasses.replace(facts, finished=None), **changes)["reason"] is None


def test_all_that_a_run_stores_has_a_limit():
    assert (SPEC.repetitions, SPEC.output_bytes, kept_bytes(SPEC)) == (1, 65536, 65536)
    assert kept_bytes(dataclasses.replace(SPEC, repetitions=256)) == 65536
    assert kept_bytes(dataclasses.replace(SPEC, repetitions=1024)) == 16384
    # Base64 of base64 of both streams, in lines of 57 bytes, and room for the facts.
    assert result_lines(SPEC) >= 2 * 65536 * 4 / 3 / 57
    longer = result_lines(dataclasses.replace(SPEC, output_bytes=65536 + 57 * 3)) - result_lines(SPEC)
    assert longer == 2 * 4
    assert result_lines(dataclasses.replace(SPEC, warmup=3)) > result_lines(SPEC) + 3 * 1000 * 4 / 3 / 57


@pytest.mark.parametrize(
    ("output_bytes", "warmup", "lines"),
    [
        # 2 streams of 64 KiB and 64 bytes in base64, 256 KiB for the facts, in lines of 57 bytes, and 1000 lines more.
        (65536, 0, 8668),
        (0, 0, 5602),
        # The end of stderr of a warm-up run is 1000 bytes in base64, with 100 bytes beside it.
        (0, 57, 7038),
    ],
)
def test_the_lines_that_a_result_takes_at_most(output_bytes, warmup, lines):
    assert result_lines(dataclasses.replace(SPEC, output_bytes=output_bytes, warmup=warmup)) == lines


def test_files_are_readable_by_everybody_and_writable_by_nobody():
    assert RunFile("/a", b"").mode == 0o444
    assert run_data(dataclasses.replace(SPEC, files=(RunFile("/a", b""),)), None)["files"][0]["mode"] == 0o444


@pytest.mark.parametrize(
    ("signal", "killed", "terminated", "reason"),
    [
        (9, 1, False, "oom"),
        (9, 0, False, "script_failed"),
        (15, 1, False, "script_failed"),
        (9, 0, True, "cancelled"),
        (9, 1, True, "oom"),
    ],
)
def test_only_a_kill_for_memory_is_one(signal, killed, terminated, reason):
    found = item(
        exit_code=128 + signal, signal=signal, terminated=terminated, hwinfo={"pressure": {"oom_kill": killed}}
    )
    assert found["reason"] == reason


def test_all_that_has_to_be_said_is_said_in_order():
    facts = dataclasses.replace(FACTS, reason="evicted", message="node lost")
    found = item_from_frame(Frame(payload(output_held=True, notes=["odd"]), "damaged"), facts)
    held = "processes the script left behind held its output open and were not waited for"
    assert found["message"] == f"node lost; damaged; {held}; odd"


@pytest.mark.parametrize(
    ("changes", "fine"),
    [
        ({"wall_seconds": 0}, True),
        ({"wall_seconds": -0.1}, False),
        ({"start": 0, "end": 253_402_300_799}, True),
        ({"end": 253_402_300_800}, False),
        ({"start": -1}, False),
        ({"signal": True}, False),
        ({"terminated": 1}, False),
        ({"exit_code": False}, False),
        ({"usage": {"user_seconds": True}}, False),
        ({"usage": {"source": "proc", "user_seconds": None}}, True),
        ({"notes": ["a", 1]}, False),
        ({"warmup": {"runs": 1.5}}, False),
        ({"warmup": {"runs": 1, "failures": [{"stderr": "", "run": 1}, {"stderr": 4}]}}, False),
        ({"hwinfo": {"cpu": {"caches": {"l1": {"size": 1}, "l2": "1M"}}}}, True),
        ({"hwinfo": {"cpu": {"caches": {"l1": {"size": {}}}}}}, False),
        ({"hwinfo": {"gpus": [{"product": "A"}, {"memory": {"total": 1}}]}}, True),
        ({"hwinfo": {"gpus": [{"product": "A"}, 1]}}, False),
        ({"hwinfo": {"node": {"labels": {"a": "b"}}}}, True),
        ({"hwinfo": {"node": {"labels": ["a"]}}}, False),
    ],
)
def test_a_result_is_believed_only_as_a_whole(changes: dict[str, t.Any], fine: bool) -> None:
    assert (item(**changes)["reason"] != "lost_result") is fine


GOOD_ITEM = {"index": 0, "stdout": "", "stderr": "", "hwinfo": {}}


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        ({}, None),
        ({"items": []}, None),
        ({"items": [GOOD_ITEM], "reason": "oom", "message": "m"}, None),
        ({"reason": 1}, "reason and message are no texts"),
        ({"reason": "oom", "message": 1}, "reason and message are no texts"),
        ({"items": {}}, "items is no list"),
        ({"items": [GOOD_ITEM, 1]}, "items[1] is no mapping"),
        ({"items": [GOOD_ITEM, {"index": 0, "stdout": ""}]}, "items[1]: stderr, hwinfo is not as it was stored"),
        ({"items": [{**GOOD_ITEM, "index": "0"}]}, "items[0]: index is not as it was stored"),
        ({"items": [{**GOOD_ITEM, "placement_verified": 1}]}, "items[0]: placement_verified is not as it was stored"),
    ],
)
def test_stored_outcomes_are_read_with_distrust(outcome: dict[str, t.Any], problem: str | None) -> None:
    assert outcome_problem(outcome) == problem
