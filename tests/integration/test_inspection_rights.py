# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rights and volumes of scripts on a node that really runs pods, who refuses pods, and results of the greatest size."""

from __future__ import annotations

import base64
import concurrent.futures
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.tests.support.inspector import Inspector
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE

HERE = {"requests": {"cpu": "100m", "memory": "128Mi"}, "hardware": {"node_selector": ON_REAL_NODE}}
WHO = "id -u; pwd; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status; echo x > file && cat file"
MOST = 1024 * 1024


@pytest.fixture
def inspector(real_cluster, real_namespace):
    """Inspections in busybox on the real node."""
    return Inspector(
        real_cluster.kubeconfig, real_namespace, image=real_cluster.busybox_image(), run=HERE, start_timeout="60"
    )


LATE = {"script": 'test "$A" = word', "env": {"A": {"secret": "late", "key": "k"}}}
MISSING = {"script": "true", "volumes": [{"path": "/etc/x", "secret": "nonsuch"}]}


@pytest.fixture(scope="module")
def waiting(real_cluster):
    """Inspections that wait in vain, begun together, and the inspector who began them."""
    space = real_cluster.live.namespace("inspection-waits")
    made = Inspector(real_cluster.kubeconfig, space, image=real_cluster.busybox_image(), run=HERE)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        late = pool.submit(made.run, **LATE, start_timeout="20")
        yield made, {"late": late, "missing": pool.submit(made.run, **MISSING, start_timeout="20")}
    real_cluster.live.clear_namespace(space)


@pytest.mark.usefixtures("waiting")  # so that they wait while others run
def test_an_image_that_is_not_run_as_root_can_be_inspected_where_pods_are_restricted(inspector, real_cluster):
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    patch(real_cluster.client, resource_path("v1", "namespaces", name=inspector.namespace), level, patch_type="merge")
    refused = inspector.run(script=WHO, workdir="/muster/work")
    assert (refused["phase"], refused["reason"]) == ("Failed", "refused")
    assert 'violates PodSecurity "restricted' in refused["msg"]
    assert "runAsNonRoot" in refused["runs"][0]["message"]
    answer = inspector.run(script=WHO, workdir="/muster/work", security={"run_as_user": 1000})
    assert answer["phase"] == "Succeeded", answer["message"]
    lines = answer["runs"][0]["stdout"].split("\n")
    assert lines[:2] == ["1000", "/muster/work"]
    assert lines[2].split() == ["CapEff:", "0000000000000000"]
    assert lines[3].split() == ["NoNewPrivs:", "1"]
    assert lines[4] == "x"


def test_a_request_of_amun_runs_as_its_user_in_its_folder(inspector, real_cluster):
    build = {
        "repository": f"{real_cluster.registry}/amun",
        "builder_image": real_cluster.builder_image(),
        "tier": "baseline",
        "host_network": True,
        "insecure_registries": [real_cluster.registry],
        "requests": {"cpu": "50m", "memory": "32Mi"},
        "hardware": {"node_selector": ON_REAL_NODE},
    }
    request = {"base": inspector.defaults["image"], "script": f"#!/bin/sh\n{WHO}\ncat hwinfo/info.json > /dev/null"}
    answer = inspector.run(image=None, specification=request, build=build)
    assert answer["phase"] == "Succeeded", answer["message"]
    lines = answer["runs"][0]["stdout"].split("\n")
    assert (lines[:2], lines[4]) == (["1042", "/home/amun"], "x")


def test_a_missing_secret_is_named_and_the_run_is_tried_again_when_it_is_there(waiting, real_cluster):
    inspector, begun = waiting
    answer = begun["late"].result()
    assert (answer["reason"], answer["runs"][0]["reason"]) == ("config", "config")
    assert 'secret "late" not found' in answer["msg"]
    metadata = {"name": "late", "namespace": inspector.namespace}
    real_cluster.live.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"k": "word"}})
    again = inspector.run(**LATE, start_timeout="60")
    assert (again["phase"], again["attempt"]) == ("Succeeded", 2), again["message"]


def test_an_account_that_does_not_exist_is_named(inspector):
    answer = inspector.run(script="true", service_account="nobody")
    assert answer["reason"] == "refused"
    assert 'serviceaccount "nobody" not found' in answer["msg"]


def test_results_of_the_greatest_size_arrive(inspector):
    script = f"head -c {MOST} /dev/urandom; head -c {MOST} /dev/urandom >&2"
    answer = inspector.run(script=script, output_bytes=MOST)
    assert (answer["phase"], answer["reason"]) == ("Succeeded", None), answer["message"]
    (item,) = answer["runs"]
    assert item["truncated"] == {"stdout": 0, "stderr": 0}
    assert min(len(item["stdout"]), len(item["stderr"])) > MOST // 2


def test_a_result_of_wrong_types_that_a_script_wrote_harms_nobody(inspector):
    """It is written when the collector has written its own, so it is the last in the log."""
    content = '{"exit_code":0,"wall_seconds":"fast"}'
    forge = f"""
    printf -- '-----BEGIN MUSTER RESULT v1 {len(content)} -----\\n'
    printf '%s' '{content}' | base64
    printf -- '-----END MUSTER RESULT-----\\n'
    """
    script = f"(while [ -d /muster/work/.collector.1 ]; do :; done; {forge}) > /proc/1/fd/1 2> /dev/null &"
    answer = inspector.run(script=script)
    assert answer["reason"] in (None, "lost_result")
    assert [entry["problem"] for entry in inspector.info()] == [None]
    assert answer["runs"][0]["wall_seconds"] != "fast"


@pytest.fixture
def claim(inspector, real_cluster, tmp_path):
    """The folder behind a claim named data, bound to a volume that is a folder of the node."""
    folder = tmp_path / "data"
    (folder / "results").mkdir(parents=True)
    (folder / "results").chmod(0o777)
    (folder / "given").write_text("given\n", encoding="utf-8")
    name = f"data-{inspector.namespace}"
    shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    reference = {"namespace": inspector.namespace, "name": "data"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**shared, "capacity": {"storage": "1Mi"}, "hostPath": {"path": str(folder)}, "claimRef": reference},
    }
    asked = {**shared, "volumeName": name, "resources": {"requests": {"storage": "1Mi"}}}
    real_cluster.live.create(volume)
    real_cluster.live.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": reference, "spec": asked}
    )
    yield folder
    delete(real_cluster.client, resource_path("v1", "persistentvolumes", name=name))


def test_volumes_are_there_and_words_of_secrets_reach_neither_result_nor_record_nor_log(inspector, real_cluster, claim):
    words = {"word": "kept-to-itself", "file": "one-line\nanother-line\n"}
    space = {"namespace": inspector.namespace}
    live = real_cluster.live
    live.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "words", **space}, "stringData": words})
    live.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "open", **space}, "data": {"a": "seen"}})
    script = """
        echo "$WORD"; cat /etc/words/file /etc/one; cat /etc/open/a; echo; echo x > /scratch/x && cat /scratch/x
        (echo y > /etc/open/y) 2>/dev/null || echo read-only
        cat /data/given; (echo z > /data/results/z) 2>/dev/null || echo read-only; echo kept > /results/kept
        cat /etc/words/word >&2; exit 3"""
    answer = inspector.run(
        script=script,
        env={"WORD": {"secret": "words", "key": "word"}},
        volumes=[
            {"path": "/etc/words", "secret": "words"},
            {"path": "/etc/one", "secret": "words", "key": "word"},
            {"path": "/etc/open", "config_map": "open"},
            {"path": "/scratch", "empty_dir": {"size": "1Mi"}},
            {"path": "/data", "persistent_volume_claim": "data"},
            {"path": "/results", "persistent_volume_claim": "data", "sub_path": "results", "read_only": False},
        ],
        security={"run_as_user": 1000},
    )
    mask = "*" * 8
    [run] = answer["runs"]
    assert run["stdout"].split("\n")[:3] == [mask] * 3
    assert run["stdout"].endswith("seen\nx\nread-only\ngiven\nread-only\n")
    assert {path.name: path.read_text(encoding="utf-8") for path in (claim / "results").iterdir()} == {"kept": "kept\n"}
    assert (run["stderr"], answer["reason"]) == (mask, "script_failed")
    path = resource_path("v1", "configmaps", inspector.namespace)
    stored = list_objects(inspector.connect(), path, keep=lambda raw: raw).items
    heap = json.dumps([answer, stored, inspector.said])
    assert answer["inspection_id"] in heap
    for text in (words["word"], "one-line", "another-line"):
        assert text not in heap
        assert base64.b64encode(text.encode()).decode() not in heap


def test_a_volume_that_is_missing_is_named(waiting):
    answer = waiting[1]["missing"].result()
    assert answer["reason"] == "config"
    assert 'secret "nonsuch" not found' in answer["msg"]


def test_a_matrix_is_inspected_cell_by_cell_and_stored(inspector):
    axes = {
        "greeting": {"day": {"env": {"WORD": "good day"}}, "night": {"env": {"WORD": "good night"}}},
        "code": {"0": {"args": ["0"]}, "3": {"args": ["3"]}},
    }
    task = {"script": 'echo "$WORD"; exit $1', "matrix": {"axes": axes, "exclude": [{"greeting": "day", "code": "3"}]}}
    answer = inspector.run(**task)
    assert (answer["failed"], answer["reason"]) == (True, "script_failed")
    told = [(cell["name"], cell["runs"][0]["stdout"], cell["reason"]) for cell in answer["matrix"]]
    assert told == [
        ("greeting=day code=0", "good day\n", None),
        ("greeting=night code=0", "good night\n", None),
        ("greeting=night code=3", "good night\n", "script_failed"),
    ]
    again = inspector.run(**task)
    assert (again["changed"], again["cached"]) == (False, True)
    assert [cell["runs"] for cell in again["matrix"]] == [cell["runs"] for cell in answer["matrix"]]


def test_a_cancelled_inspection_keeps_what_ended_and_the_next_task_runs_the_rest(inspector):
    # The second repetition waits for a file in a volume that nobody writes, until it is told to stop.
    task = {
        "script": 'echo "$MUSTER_INDEX"; [ "$MUSTER_INDEX" = 0 ] || [ -e /etc/go/now ] || exec sleep 600',
        "identifier": "cut",
        "repetitions": 2,
        "fail_when_failed": False,
        "volumes": [{"path": "/etc/go", "config_map": "go"}],
    }
    go = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "go", "namespace": inspector.namespace}}
    path = resource_path("v1", "configmaps", inspector.namespace)
    create(inspector.connect(), path, go)
    stopped = []

    def stop(text):
        if "1 of 2" in text and not stopped:
            stopped.append(inspector.cancel(identifier="cut")["cancelled"])

    inspector.on_report = stop
    answer = inspector.run(**task)
    assert stopped == [[answer["inspection_id"]]]
    assert (answer["phase"], [run["reason"] for run in answer["runs"]]) == ("Cancelled", [None, "cancelled"])
    assert inspector.names("batch/v1", "jobs") == []
    patch(inspector.connect(), f"{path}/go", {"data": {"now": "x"}}, patch_type="merge")
    again = inspector.run(**task)
    assert (again["phase"], again["attempt"]) == ("Succeeded", 2)
    assert again["runs"][0] == answer["runs"][0]
