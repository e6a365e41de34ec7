# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rights of scripts on a node that really runs pods, who refuses pods, and results of the greatest size."""

from __future__ import annotations

import base64
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
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


def test_a_missing_secret_is_named_and_the_run_is_tried_again_when_it_is_there(inspector, real_cluster):
    task = {"script": 'test "$A" = word', "env": {"A": {"secret": "late", "key": "k"}}}
    answer = inspector.run(**task, start_timeout="10")
    assert (answer["reason"], answer["runs"][0]["reason"]) == ("config", "config")
    assert 'secret "late" not found' in answer["msg"]
    metadata = {"name": "late", "namespace": inspector.namespace}
    real_cluster.live.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"k": "word"}})
    again = inspector.run(**task)
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


def test_volumes_are_there_and_words_of_secrets_reach_neither_result_nor_record_nor_log(inspector, real_cluster):
    words = {"word": "kept-to-itself", "file": "one-line\nanother-line\n"}
    space = {"namespace": inspector.namespace}
    live = real_cluster.live
    live.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "words", **space}, "stringData": words})
    live.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "open", **space}, "data": {"a": "seen"}})
    script = """
        echo "$WORD"; cat /etc/words/file /etc/one; cat /etc/open/a; echo; echo x > /scratch/x && cat /scratch/x
        (echo y > /etc/open/y) 2>/dev/null || echo read-only
        cat /etc/words/word >&2; exit 3"""
    answer = inspector.run(
        script=script,
        env={"WORD": {"secret": "words", "key": "word"}},
        volumes=[
            {"path": "/etc/words", "secret": "words"},
            {"path": "/etc/one", "secret": "words", "key": "word"},
            {"path": "/etc/open", "config_map": "open"},
            {"path": "/scratch", "empty_dir": {"size": "1Mi"}},
        ],
        security={"run_as_user": 1000},
    )
    mask = "*" * 8
    [run] = answer["runs"]
    assert run["stdout"].split("\n")[:3] == [mask] * 3
    assert run["stdout"].endswith("seen\nx\nread-only\n")
    assert (run["stderr"], answer["reason"]) == (mask, "script_failed")
    path = resource_path("v1", "configmaps", inspector.namespace)
    stored = list_objects(inspector.connect(), path, keep=lambda raw: raw).items
    heap = json.dumps([answer, stored, inspector.said])
    assert answer["inspection_id"] in heap
    for text in (words["word"], "one-line", "another-line"):
        assert text not in heap
        assert base64.b64encode(text.encode()).decode() not in heap


def test_a_volume_that_is_missing_is_named(inspector):
    answer = inspector.run(script="true", volumes=[{"path": "/etc/x", "secret": "nonsuch"}], start_timeout="15")
    assert answer["reason"] == "config"
    assert 'secret "nonsuch" not found' in answer["msg"]
