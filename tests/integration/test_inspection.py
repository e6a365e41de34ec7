# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inspections on a node that really runs pods: results, failures and their reasons, hardware, deaths at every write."""

from __future__ import annotations

import concurrent.futures
import pathlib
import shutil
import subprocess
import tempfile
import threading
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job import logs as recorded_logs
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.nodes import NoSuchHardware
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import ITEM_KEYS
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection import run_failure
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.inspector import Inspector
from ansible_collections.muster.kube.tests.support.live_cluster import DEADLINE, wait_until
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE

# Without a limit of the CPU: the shell of the collector is slow enough.
SMALL = {"memory": "64Mi"}
ONE_CPU = {"cpu": "1", "memory": "64Mi"}
HERE = {"requests": SMALL, "hardware": {"node_selector": ON_REAL_NODE}}

ECHO = """#!/bin/sh
printf '{"index": %s, "arg": "%s", "word": "%s"}' "$MUSTER_INDEX" "$1" "$WORD"
cat /data/a >&2
"""


ODD = """
case $MUSTER_INDEX in
  0) head -c 52428800 /dev/zero | tr '\\0' x; echo end ;;
  1) printf 'a\\377b' ;;
  2) echo parent; (sleep 300; echo child) & ;;
  3) echo begun; kill -9 $$ ;;
  4) exec 1>&-; echo gone ;;
esac
"""

# On a busy machine a program may get less than its limit for a while, so it works until the limit has held it back.
UNTIL_THROTTLED = """
for stat in /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/cpu/cpu.stat; do [ -r $stat ] && break; done
throttled() { sed -n 's/^nr_throttled //p' $stat; }
before=$(throttled)
until [ "$(throttled)" -gt "$before" ]; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done
"""

# Inspections of several tests that only look at the answer.
TASKS: dict[str, dict[str, t.Any]] = {
    "late": {"script": "echo begun; exec sleep 600", "timeout": "30"},
    "nothing": {"image": "nothing:1", "script": "true"},
    "odd": {"script": ODD, "repetitions": 5, "parallelism": 5, "allowed_failures": 2, "output_bytes": 1000},
    "greedy": {"script": "dd if=/dev/zero of=/dev/null bs=200M count=1"},
    "homeless": {
        "script": "true",
        "start_timeout": "2",
        "run": {"requests": {"cpu": "900"}},
        "image": "registry.example.com/any:1",
    },
    "slow": {
        "script": UNTIL_THROTTLED,
        "run": {"requests": {"cpu": "200m", "memory": "64Mi"}, "hardware": {"node_selector": ON_REAL_NODE}},
    },
}
# At once.
WIDTH = 3


@pytest.fixture
def proxy(real_cluster, tmp_path):
    """A proxy that counts writes."""
    with ApiProxy(real_cluster.kubeconfig, tmp_path) as running:
        yield running


@pytest.fixture
def inspector(real_cluster, real_namespace, proxy):
    """Inspections in busybox on the real node, through the proxy."""
    return Inspector(proxy.kubeconfig, real_namespace, image=real_cluster.busybox_image(), run=HERE, start_timeout="60")


def inspect_alone(real_cluster, name: str) -> tuple[Inspector, dict[str, t.Any]]:
    """One of the tasks in a namespace of its own: who ran it, and the answer."""
    space = real_cluster.live.namespace(f"inspection-{name}")
    busybox = real_cluster.busybox_image()
    made = Inspector(real_cluster.kubeconfig, space, image=busybox, run=HERE, start_timeout="60")
    task = TASKS[name]
    image = {"image": f"{real_cluster.registry}/{task['image']}"} if name == "nothing" else {}
    return made, made.run(**{**task, **image})


@pytest.fixture(scope="module")
def begun(real_cluster):
    """The tasks, begun together, since mostly they wait."""
    real_cluster.busybox_image()
    with concurrent.futures.ThreadPoolExecutor(WIDTH) as pool:
        yield {name: pool.submit(inspect_alone, real_cluster, name) for name in TASKS}
    for name in TASKS:
        real_cluster.live.clear_namespace(f"inspection-{name}")


def test_five_runs_give_five_complete_results_and_the_second_task_only_reads(inspector, proxy, real_cluster):
    task = {
        # Long enough for clocks that know hundredths of seconds only.
        "script": f"{ECHO}sleep 0.1 2>/dev/null || sleep 1\n",
        "args": ["$(x) 'q'"],
        "env": {"WORD": "$(ok)"},
        "files": [{"path": "/data/a", "content": "grüße\n"}],
        "identifier": "five",
        "repetitions": 5,
        "parallelism": 2,
    }
    first = inspector.run(**task)
    assert (first["phase"], first["changed"], first["cached"], first["reason"]) == ("Succeeded", True, False, None)
    assert [item["stdout"]["index"] for item in first["runs"]] == [0, 1, 2, 3, 4]
    for item in first["runs"]:
        assert set(item) == set(ITEM_KEYS)
        assert (item["exit_code"], item["stdout_json"], item["stderr"]) == (0, True, "grüße\n")
        assert (item["stdout"]["arg"], item["stdout"]["word"]) == ("$(x) 'q'", "$(ok)")
        assert item["hwinfo"]["node"]["name"] == real_cluster.node
        assert item["placement_verified"] is True
        assert item["image_digest"].startswith("sha256:")
        assert item["wall_seconds"] >= 0.05
    assert first["summary"]["succeeded"] == 5
    assert set(first["summary"]["wall_seconds"]) == {"median", "q1", "q3", "min", "max"}
    assert first["inspection_id"] == f"inspection-five-{first['run_hash'][:10]}"
    assert first["verdict"]["answer"] == "fits"
    assert inspector.names("batch/v1", "jobs") == []
    proxy.forget()
    second = inspector.run(**task)
    assert_no_writes(proxy)
    assert (second["changed"], second["cached"], second["runs"]) == (False, True, first["runs"])
    checked = inspector.run(check_mode=True, **task)
    assert (checked["would_run"], checked["runs"]) == (False, first["runs"])
    assert_no_writes(proxy)


def test_check_mode_tells_what_would_happen_and_writes_nothing(inspector, proxy):
    answer = inspector.run(check_mode=True, script="true")
    assert (answer["would_run"], answer["changed"], answer["phase"]) == (True, True, "Pending")
    assert answer["verdict"]["answer"] == "fits"
    assert_no_writes(proxy)


# From here on, so that they wait while others run; nobody after this is told that there is room.
@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize(
    ("script", "reason", "expected"),
    [
        ("echo out; echo err >&2; exit 3", "script_failed", {"exit_code": 3, "stdout": "out\n", "stderr": "err\n"}),
        ("echo begun; kill -9 $$", "script_failed", {"signal": 9, "stdout": "begun\n"}),
    ],
)
def test_a_script_that_fails_is_a_result(inspector, proxy, script, reason, expected):
    answer = inspector.run(script=script)
    assert answer["failed"]
    assert (answer["phase"], answer["reason"]) == ("Failed", reason)
    assert {key: answer["runs"][0][key] for key in expected} == expected
    assert f"{reason}: " in answer["msg"]
    proxy.forget()
    again = inspector.run(script=script, fail_when_failed=False)
    assert_no_writes(proxy)
    assert ("failed" in again, again["runs"]) == (False, answer["runs"])


def test_a_run_that_takes_too_long_ends_with_what_it_wrote_so_far(begun):
    _inspector, answer = begun["late"].result()
    assert (answer["reason"], answer["runs"][0]["reason"]) == ("timeout", "timeout")
    assert answer["runs"][0]["stdout"] == "begun\n"


def test_scripts_that_misbehave_still_give_one_result_each(begun):
    _inspector, answer = begun["odd"].result()
    assert (answer["phase"], answer["reason"]) == ("Succeeded", None)
    loud, binary, forking, killed, closed = answer["runs"]
    assert loud["truncated"]["stdout"] == 52428800 + 4 - 1000
    assert loud["stdout"].startswith("x" * 500)
    assert loud["stdout"].endswith("end\n")
    assert binary["stdout"] == "a\ufffdb"
    assert (forking["stdout"], forking["reason"]) == ("parent\n", None)
    assert (killed["signal"], killed["reason"]) == (9, "script_failed")
    assert closed["stdout"] == ""
    assert answer["summary"] == {**answer["summary"], "succeeded": 4 - (closed["exit_code"] != 0)}


def test_a_script_that_takes_too_much_memory(begun):
    _inspector, answer = begun["greedy"].result()
    assert (answer["reason"], answer["runs"][0]["reason"]) == ("oom", "oom")


def test_an_image_that_does_not_exist(begun):
    inspector, answer = begun["nothing"].result()
    assert (answer["reason"], answer["runs"][0]["reason"]) == ("image_pull", "image_pull")
    assert "nothing:1" in answer["message"]
    assert inspector.names("batch/v1", "jobs") == []


def test_a_full_quota_is_waited_for_and_shown_and_then_tried_again(inspector, real_cluster):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": inspector.namespace}}
    real_cluster.live.create({**quota, "spec": {"hard": {"requests.memory": "32Mi"}}})
    path = resource_path("v1", "resourcequotas", inspector.namespace, "q")
    client = real_cluster.client
    wait_until("the quota", lambda: client.request("GET", path).json()["status"].get("hard"))
    answer = inspector.run(script="true", start_timeout="3")
    assert (answer["reason"], answer["runs"][0]["reason"]) == ("quota", "quota")
    assert answer["verdict"]["answer"] != "fits"
    assert any("quota" in line for line in inspector.said)
    delete(client, path)
    again = inspector.run(script="true", start_timeout="60")
    assert (again["phase"], again["attempt"]) == ("Succeeded", 2)


def test_no_room_ends_as_unschedulable(begun):
    _inspector, answer = begun["homeless"].result()
    assert (answer["reason"], answer["runs"][0]["reason"]) == ("unschedulable", "unschedulable")
    assert answer["verdict"]["answer"] == "never"


def run_beside(inspector: Inspector, **task: t.Any) -> tuple[threading.Thread, list[dict[str, t.Any]]]:
    """A task in a thread of its own, and where its answer will be."""
    answers: list[dict[str, t.Any]] = []
    thread = threading.Thread(target=lambda: answers.append(inspector.run(**task)), daemon=True)
    thread.start()
    return thread, answers


def running_pod(real_cluster, namespace: str) -> str:
    """The name of the only pod, once it runs."""

    def find() -> str | None:
        pods = real_cluster.live.pods(namespace)
        return next((pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"), None)

    return wait_until("a running pod", find)


@pytest.mark.full  # the Job's controller waits 10 s before it makes another pod
def test_a_pod_that_is_evicted_is_replaced(inspector, real_cluster):
    thread, answers = run_beside(inspector, script="trap 'exit 1' TERM; sleep 2 & wait; echo done")
    pod = running_pod(real_cluster, inspector.namespace)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": inspector.namespace},
    }
    create(real_cluster.client, resource_path("v1", "pods", inspector.namespace, pod, "eviction"), eviction)
    thread.join(DEADLINE)
    assert (answers[0]["phase"], answers[0]["runs"][0]["stdout"]) == ("Succeeded", "done\n")


def test_a_pod_that_is_deleted_counts_as_evicted(inspector, real_cluster):
    thread, answers = run_beside(inspector, script="exec sleep 600")
    pod = running_pod(real_cluster, inspector.namespace)
    delete(real_cluster.client, resource_path("v1", "pods", inspector.namespace, pod))
    thread.join(DEADLINE)
    assert (answers[0]["reason"], answers[0]["runs"][0]["reason"]) == ("evicted", "evicted")


def test_hardware_that_no_node_has_is_refused_before_anything_is_created(inspector, proxy, real_cluster):
    with pytest.raises(NoSuchHardware) as refused:
        inspector.run(script="true", run={"hardware": {"cpu": {"family": 4711}, "node_selector": ON_REAL_NODE}})
    near = refused.value.as_result()["near_misses"]
    assert near[0]["node"] == real_cluster.node
    assert any("family" in text for text in near[0]["missing"])
    assert_no_writes(proxy)


def test_a_node_that_loses_its_label_does_not_verify(inspector, real_cluster):
    node = resource_path("v1", "nodes", name=real_cluster.node)
    label = "feature.node.kubernetes.io/cpu-model.family"
    patch(real_cluster.client, node, {"metadata": {"labels": {label: "4712"}}}, patch_type="merge")
    hardware = {"cpu": {"family": 4712}, "node_selector": ON_REAL_NODE}
    answer = inspector.run(script="true", run={"requests": SMALL, "hardware": hardware})
    patch(real_cluster.client, node, {"metadata": {"labels": {label: None}}}, patch_type="merge")
    assert (answer["phase"], answer["placement_verified"]) == ("Succeeded", False)
    rows = {(row["what"], row["source"]): row["ok"] for row in answer["placements"][0]["found"]}
    assert rows[("cpu family 4712", "node")] is True
    assert rows[("cpu family 4712", "container")] is False


class Gpus:
    """A GPU that nodes claim to have."""

    hardware: t.ClassVar = {"gpu": {"product": ["NVIDIA-Test"]}}

    def __init__(self, real_cluster):
        self.client = real_cluster.client

    def put(self, name: str, there: bool) -> None:
        """Let a node say that it has the GPU, or that it has none."""
        node = resource_path("v1", "nodes", name=name)
        label, amount = ("NVIDIA-Test", "1") if there else (None, None)
        labels = {"metadata": {"labels": {"nvidia.com/gpu.product": label}}}
        patch(self.client, node, labels, patch_type="merge")
        amounts = {"nvidia.com/gpu": amount}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        patch(self.client, f"{node}/status", status, patch_type="merge")


@pytest.fixture
def gpus(real_cluster):
    """No node has a GPU before and after."""
    found = Gpus(real_cluster)
    yield found
    for name in (real_cluster.node, "simulated-1"):
        found.put(name, False)


def test_a_stack_is_built_where_there_is_no_gpu_and_run_where_there_is_one(inspector, proxy, real_cluster, gpus):
    task = {
        "image": None,
        "stack": {"base": inspector.defaults["image"], "files": [{"path": "/opt/odd", "content": 'it\'s "ä"\n'}]},
        "script": "cat /opt/odd",
        "build": {
            "repository": f"{real_cluster.registry}/inspected",
            "builder_image": real_cluster.builder_image(),
            "tier": "baseline",
            "host_network": True,
            "insecure_registries": [real_cluster.registry],
            "requests": {"cpu": "50m", "memory": "32Mi"},
            "hardware": {"gpu": {"count": 0}, "node_selector": ON_REAL_NODE},
        },
        "run": {"requests": SMALL, "hardware": gpus.hardware},
    }
    with pytest.raises(NoSuchHardware, match="NVIDIA-Test"):
        inspector.run(**task)
    assert_no_writes(proxy)
    gpus.put("simulated-1", True)
    planned = inspector.run(check_mode=True, **task)
    assert (planned["would_run"], planned["inspection_id"]) == (True, None)
    assert planned["dockerfile"].startswith("FROM ")
    assert_no_writes(proxy)

    def when_the_build_runs(text: str) -> None:
        if text.startswith("build-") and text.endswith("running"):
            gpus.put(real_cluster.node, True)
            gpus.put("simulated-1", False)

    inspector.on_report = when_the_build_runs
    answer = inspector.run(**task)
    assert (answer["phase"], answer["runs"][0]["stdout"]) == ("Succeeded", 'it\'s "ä"\n')
    assert (answer["status"]["build"]["phase"], answer["status"]["build"]["node"]) == ("succeeded", real_cluster.node)
    assert answer["runs"][0]["image_digest"] == answer["image_digest"]
    assert answer["placement_verified"] is True
    proxy.forget()
    again = inspector.run(**task)
    assert_no_writes(proxy)
    assert (again["changed"], again["runs"]) == (False, answer["runs"])
    (told,) = inspector.info(logs=True)
    assert told["status"]["build"]["spec_hash"] == answer["spec_hash"]
    assert "STEP" in told["logs"]["build"]


def test_a_pod_on_a_node_that_only_pretends_loses_its_result(inspector, real_cluster, monkeypatch):
    # Its log is asked for again and again, since another node might come back.
    monkeypatch.setattr(recorded_logs, "_LOG_SECONDS", 1.0)
    here = {"requests": SMALL, "hardware": {"node_selector": {"kubernetes.io/hostname": "simulated-0"}}}
    thread, answers = run_beside(inspector, script="true", run=here)
    pod = resource_path("v1", "pods", inspector.namespace, running_pod(real_cluster, inspector.namespace))
    patch(real_cluster.client, f"{pod}/status", {"status": {"phase": "Succeeded"}}, patch_type="merge")
    thread.join(DEADLINE)
    assert (answers[0]["reason"], answers[0]["runs"][0]["reason"]) == ("lost_result", "lost_result")
    assert answers[0]["runs"][0]["stdout"] == ""


def test_a_pod_that_no_node_ends_is_given_up_and_the_others_go_on(inspector, real_cluster, monkeypatch):
    """Simulated pods run for ever. The others get a Job of their own, which finds no place on the closed node."""
    monkeypatch.setattr(run_failure, "HANG_SECONDS", 5.0)
    there = {"requests": SMALL, "hardware": {"node_selector": {"kubernetes.io/hostname": "simulated-0"}}}
    thread, answers = run_beside(inspector, script="true", run=there, repetitions=3, timeout="2", start_timeout="15")
    first = running_pod(real_cluster, inspector.namespace)
    cordon(real_cluster, "simulated-0", True)
    thread.join(DEADLINE)
    cordon(real_cluster, "simulated-0", False)
    assert answers[0]["runs"][0]["reason"] == "evicted", answers[0]["message"]
    assert "did not end it" in answers[0]["runs"][0]["message"]
    assert [item["reason"] for item in answers[0]["runs"][1:]] == ["unschedulable", "unschedulable"]
    assert first.rpartition("-")[0].endswith("-0")
    assert inspector.names("batch/v1", "jobs") == []


def cordon(real_cluster, name: str, closed: bool) -> None:
    """Let no further pod onto a node, or let them again."""
    node = resource_path("v1", "nodes", name=name)
    patch(real_cluster.client, node, {"spec": {"unschedulable": closed}}, patch_type="merge")


def test_a_limit_of_a_fifth_of_a_cpu_shows_as_throttling(begun):
    _inspector, answer = begun["slow"].result()
    hwinfo = answer["hwinfo"]
    assert hwinfo["limits"]["cpu"] == 0.2
    assert hwinfo["pressure"]["nr_throttled"] > 0


def test_info_tells_specification_results_and_logs(inspector):
    made = inspector.run(script="echo hello", identifier="told", labels={"team": "a"})
    (found,) = inspector.info(identifier="told", logs=True)
    assert (found["inspection_id"], found["phase"], found["runs"]) == (
        made["inspection_id"],
        "Succeeded",
        made["runs"],
    )
    assert found["specification"]["script"] == "echo hello"
    assert found["logs"]["runs"] == [{"index": 0, "stdout": "hello\n", "stderr": "", "pod": None}]
    assert inspector.info(labels="team=b") == []
    again = inspector.run(script="echo hello", identifier="told", force=True)
    assert (again["changed"], again["attempt"], again["inspection_id"]) == (True, 2, made["inspection_id"])
    removed = inspector.remove(identifier="told")
    assert (removed["changed"], removed["removed"]) == (True, [made["inspection_id"]])
    assert inspector.info() == []
    assert inspector.remove(identifier="told")["changed"] is False


def test_without_waiting_the_task_comes_back_and_a_later_one_gets_the_results(inspector):
    first = inspector.run(script="echo later", wait=False)
    assert (first["phase"] in ("Pending", "Running"), first["runs"]) == (True, [])
    (found,) = inspector.info()
    assert found["phase"] in ("Pending", "Running")
    last = inspector.run(script="echo later")
    assert (last["phase"], last["runs"][0]["stdout"], last["attempt"]) == ("Succeeded", "later\n", 1)


def test_a_removed_inspection_is_cancelled(inspector, real_cluster):
    thread, answers = run_beside(inspector, script="exec sleep 600", identifier="bye")
    running_pod(real_cluster, inspector.namespace)
    inspector.remove(identifier="bye")
    thread.join(DEADLINE)
    assert (answers[0]["phase"], answers[0]["reason"]) == ("Cancelled", "cancelled")
    wait_until("nothing to be left", lambda: inspector.names("v1", "configmaps") == [])
    assert inspector.names("batch/v1", "jobs") == []


@pytest.fixture
def podman(monkeypatch, real_cluster):
    """Podman with a storage of its own, made to run where even less is allowed than on usual machines."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    limits = '["nofile=1024:1024", "nproc=1024:1024"]'
    # A short name: podman waits in vain for containers whose sockets have long ones.
    with tempfile.TemporaryDirectory(prefix="pm-") as place:
        settings = {
            "CONTAINERS_CONF": '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
            f'[containers]\ndefault_ulimits = {limits}\nnetns = "host"\n',
            "CONTAINERS_STORAGE_CONF": f'[storage]\ndriver = "vfs"\nrunroot = "{place}/r"\ngraphroot = "{place}/s"\n',
            "CONTAINERS_REGISTRIES_CONF": f'[[registry]]\nlocation = "{real_cluster.registry}"\ninsecure = true\n',
        }
        for name, text in settings.items():
            path = pathlib.Path(place) / f"{name}.conf"
            path.write_text(text, encoding="utf-8")
            monkeypatch.setenv(name, str(path))
        monkeypatch.setenv("XDG_CACHE_HOME", f"{place}/cache")
        yield
        subprocess.run(
            ["podman", "system", "reset", "--force"], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )


def test_the_local_engine_gives_results_with_the_same_keys_and_needs_no_cluster(inspector, podman):
    task = {
        "script": ECHO,
        "args": ["$(x) 'q'"],
        "env": {"WORD": "$$"},
        "files": [{"path": "/data/a", "content": "grüße\n"}],
        "repetitions": 2,
    }
    there = inspector.run(**task, run={**HERE, "requests": ONE_CPU})
    alone = Inspector("/nowhere", "none", image=inspector.defaults["image"], run={"requests": ONE_CPU}, engine="local")
    here = alone.run(**task)
    assert (here["phase"], here["changed"]) == ("Succeeded", True)
    assert set(here) == set(there)
    for ours, theirs in zip(here["runs"], there["runs"], strict=True):
        assert set(ours) == set(theirs)
        assert set(ours["hwinfo"]) == set(theirs["hwinfo"])
        assert (ours["stdout"], ours["stderr"]) == (theirs["stdout"], theirs["stderr"])
        assert ours["image_digest"] == theirs["image_digest"]
        assert ours["hwinfo"]["limits"] == {**ours["hwinfo"]["limits"], "cpu": 1.0, "memory_bytes": 64 * 2**20}
    again = alone.run(**task)
    assert (again["changed"], again["runs"]) == (False, here["runs"])
    failed = alone.run(script="echo a; exit 4", repetitions=2)
    assert (failed["reason"], failed["runs"][0]["exit_code"], failed["runs"][1]["reason"]) == (
        "script_failed",
        4,
        "cancelled",
    )
    late = alone.run(script="echo begun; exec sleep 600", timeout="2")
    assert (late["reason"], late["runs"][0]["stdout"]) == ("timeout", "begun\n")
    assert alone.run(image="localhost/nothing:1", script="true")["reason"] == "image_pull"
    assert alone.remove(engine="local", inspection_id=here["inspection_id"])["removed"] == [here["inspection_id"]]


def test_the_local_engine_builds_the_stack_of_a_task_for_a_cluster(inspector, podman):
    stack = {"base": inspector.defaults["image"], "files": [{"path": "/opt/odd", "content": 'it\'s "ä"\n'}]}
    alone = Inspector("/nowhere", "none", stack=stack, build={"engine": "podman"}, engine="local")
    answer = alone.run(script="cat /opt/odd", run={"requests": ONE_CPU})
    assert (answer["phase"], answer["runs"][0]["stdout"]) == ("Succeeded", 'it\'s "ä"\n')
    assert (answer["status"]["build"]["phase"], answer["dockerfile"].partition(" ")[0]) == ("succeeded", "FROM")
    again = alone.run(script="cat /opt/odd", run={"requests": ONE_CPU})
    assert (again["changed"], again["runs"]) == (False, answer["runs"])
