# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Job of an inspection and the files of its pods."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.objects import (
    PodOptions,
    run_bundles,
    run_job,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.plan import plan_run
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import BUNDLE_BYTES, JobContext
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import RunFile, RunSpec, run_data
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_volumes import read_volumes
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.inspector import terms_of

SPEC = RunSpec(
    image="registry/app@sha256:1",
    script=b"#!/bin/sh\n\xff",
    args=("$(HOME)", "a b"),
    environment=({"name": "MODE", "value": "cheap $$ $(X)"}, {"name": "KEY", "valueFrom": {"secretKeyRef": {}}}),
    files=(RunFile("/data/input file.csv", b"1;2", 0o440), RunFile("/opt/tool", b"#!/bin/sh\n", 0o555)),
    interpreter="python3 -u",
    repetitions=5,
    parallelism=9,
    warmup=1,
    allowed_failures=2,
    timeout=90,
    resources={"cpu": "500m", "nvidia.com/gpu": "1"},
)


def job(spec: RunSpec = SPEC, terms: PodOptions | None = None) -> dict[str, t.Any]:
    """The Job of a run whose ConfigMaps are called after their keys."""
    bundles = run_bundles(spec, "collector\n")
    names = {bundle.key: f"map-{bundle.key}" for bundle in bundles}
    return run_job(spec, terms or PodOptions(), bundles, JobContext("run-1", {"muster.kube/inspection": "i"}, names))


def pod(spec: RunSpec = SPEC, terms: PodOptions | None = None) -> dict[str, t.Any]:
    """The pod of it."""
    return t.cast(dict[str, t.Any], job(spec, terms)["spec"]["template"]["spec"])


def test_the_job_runs_each_repetition_once():
    made = job()
    assert made["metadata"] == {"name": "run-1", "labels": {"muster.kube/inspection": "i"}}
    spec = {key: value for key, value in made["spec"].items() if key != "template"}
    assert spec == {
        "completionMode": "Indexed",
        "completions": 5,
        "parallelism": 5,
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 2,
        "podFailurePolicy": {
            "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
    }
    assert made["spec"]["template"]["metadata"]["labels"] == {"muster.kube/inspection": "i"}


def test_the_pod():
    made = pod()
    assert made["restartPolicy"] == "Never"
    assert made["activeDeadlineSeconds"] == 90
    assert made["automountServiceAccountToken"] is False
    assert not {"affinity", "nodeSelector", "tolerations", "imagePullSecrets", "serviceAccountName"} & set(made)
    container = made["containers"][0]
    assert container["image"] == "registry/app@sha256:1"
    assert container["command"] == ["/bin/sh", "/muster/content/collector.sh"]
    assert container["args"] == ["$$(HOME)", "a b"]
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "256Mi", "nvidia.com/gpu": "1"},
        "limits": {"cpu": "500m", "nvidia.com/gpu": "1"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_the_environment_reaches_the_script_as_it_was_written():
    entries = pod()["containers"][0]["env"]
    assert entries[:2] == [
        {"name": "MODE", "value": "cheap $$$$ $$(X)"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {}}},
    ]
    values = {entry["name"]: entry.get("value") for entry in entries}
    assert values["MUSTER_INTERPRETER"] == "python3 -u"
    assert values["MUSTER_WARMUP"] == "1"
    assert values["MUSTER_OUTPUT_BYTES"] == "65536"
    assert values["MUSTER_LIVE"] == "0"
    fields = {entry["name"]: entry["valueFrom"] for entry in entries if "valueFrom" in entry}
    assert fields["MUSTER_NODE_NAME"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert fields["MUSTER_LIMIT_CPU"]["resourceFieldRef"]["divisor"] == "1m"
    assert "job-completion-index" in fields["MUSTER_INDEX"]["fieldRef"]["fieldPath"]
    names = [entry["name"] for entry in entries]
    assert len(names) == len(set(names))


def test_names_of_the_collector_are_refused():
    task = {"image": "i", "script": "true", "env": {"MUSTER_SCRIPT": "x"}}
    with pytest.raises(
        BadInput, match=r"env\.MUSTER_SCRIPT: it cannot be the name of a variable, or begins with MUSTER_"
    ):
        plan_run(terms_of(task), b"true", "i")


def test_files_are_mounted_where_they_belong():
    made = pod()
    assert made["volumes"] == [
        {
            "name": "content",
            "projected": {
                "defaultMode": 0o444,
                "sources": [
                    {
                        "configMap": {
                            "name": "map-c0",
                            "items": [
                                {"key": "collector.sh", "path": "collector.sh"},
                                {"key": "script", "path": "script"},
                                {"key": "file-0000", "path": "file-0000", "mode": 0o440},
                                {"key": "file-0001", "path": "file-0001", "mode": 0o555},
                            ],
                        }
                    }
                ],
            },
        },
        {"name": "work", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "hwinfo", "emptyDir": {"sizeLimit": "1Mi"}},
    ]
    mounts = made["containers"][0]["volumeMounts"]
    assert {"name": "hwinfo", "mountPath": "/home/amun/hwinfo"} in mounts
    assert mounts[3] == {
        "name": "content",
        "mountPath": "/data/input file.csv",
        "subPath": "file-0000",
        "readOnly": True,
    }


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/a/./b", "/a:b", "/", "/a/", "//a", ""])
def test_paths_that_cannot_be_mounted_are_refused(path):
    with pytest.raises(BadInput, match="an absolute path"):
        job(dataclasses.replace(SPEC, files=(RunFile(path, b""),)))


def test_many_files_need_several_maps():
    files = tuple(RunFile(f"/f{number}", bytes(BUNDLE_BYTES // 2)) for number in range(3))
    spec = dataclasses.replace(SPEC, files=files)
    bundles = run_bundles(spec, "collector\n")
    assert [sorted(bundle.files) for bundle in bundles] == [
        ["collector.sh", "file-0000", "script"],
        ["file-0001", "file-0002"],
    ]
    assert bundles[0].files["script"] == SPEC.script
    assert [source["configMap"]["name"] for source in pod(spec)["volumes"][0]["projected"]["sources"]] == [
        "map-c0",
        "map-c1",
    ]


def test_a_file_that_fits_no_map_is_refused_with_its_size():
    files = (RunFile("/big", bytes(BUNDLE_BYTES + 1)),)
    with pytest.raises(BadInput, match=f"file /big: it has {BUNDLE_BYTES + 1} bytes of at most {BUNDLE_BYTES}"):
        run_bundles(dataclasses.replace(SPEC, files=files), "")


def test_what_only_the_cluster_needs_to_know():
    affinity = {"nodeAffinity": {"x": 1}}
    terms = PodOptions(
        affinity=affinity,
        tolerations=({"key": "gpu"},),
        pull_secrets=("pull",),
        service_account="runner",
        priority_class="low",
        live=True,
    )
    spec = dataclasses.replace(SPEC, runtime_class="kata", security={"run_as_user": 1000})
    made = pod(spec, terms)
    assert made["affinity"] == affinity
    assert made["tolerations"] == [{"key": "gpu"}]
    assert made["imagePullSecrets"] == [{"name": "pull"}]
    assert made["serviceAccountName"] == "runner"
    assert made["priorityClassName"] == "low"
    assert made["runtimeClassName"] == "kata"
    context = made["containers"][0]["securityContext"]
    assert (context["runAsUser"], context["runAsNonRoot"]) == (1000, True)
    assert made["volumes"][1]["emptyDir"]["sizeLimit"] == "1Gi"
    assert job(spec, terms)["metadata"]["labels"] == {"muster.kube/inspection": "i"}


def test_a_pod_asks_for_something_even_if_the_task_does_not():
    container = pod(dataclasses.replace(SPEC, resources={}))["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "500m", "memory": "256Mi"}}
    container = pod(dataclasses.replace(SPEC, resources={"cpu": "2"}))["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "2", "memory": "256Mi"}, "limits": {"cpu": "2"}}


def test_a_home_of_its_own_is_an_empty_folder():
    made = pod(SPEC, PodOptions(home="/home/x"))
    (mount,) = [item for item in made["containers"][0]["volumeMounts"] if item["mountPath"] == "/home/x"]
    (volume,) = [item for item in made["volumes"] if item["name"] == mount["name"]]
    assert "emptyDir" in volume
    assert not [item for item in pod()["volumes"] if item["name"] == "home"]


@pytest.mark.parametrize(
    ("repetitions", "asked", "kept"),
    [(1, 1048576, 1048576), (16, 1048576, 1048576), (256, 65536, 65536), (1000, 65536, 16777), (1000, 100, 100)],
)
def test_all_repetitions_together_keep_no_more_than_is_stored(repetitions, asked, kept):
    made = pod(dataclasses.replace(SPEC, repetitions=repetitions, output_bytes=asked))
    values = {entry["name"]: entry.get("value") for entry in made["containers"][0]["env"]}
    assert values["MUSTER_OUTPUT_BYTES"] == str(kept)


def test_volumes_are_mounted_and_the_collector_is_told_what_to_mask():
    volumes = read_volumes(
        [{"path": "/a", "config_map": "m"}, {"path": "/b", "secret": "s"}, {"path": "/c d", "secret": "t", "key": "k"}],
        "volumes",
    )
    made = pod(dataclasses.replace(SPEC, volumes=volumes))
    assert [item["name"] for item in made["volumes"]][-3:] == ["volume-0", "volume-1", "volume-2"]
    container = made["containers"][0]
    assert [item["mountPath"] for item in container["volumeMounts"]][-3:] == ["/a", "/b", "/c d"]
    told = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert told["MUSTER_SECRET_PATHS"] == "/b\n/c d"
    assert told["MUSTER_SECRET_VARIABLES"] == "KEY"
    assert "MUSTER_SECRET_PATHS" not in {entry["name"] for entry in pod()["containers"][0]["env"]}


def test_volumes_belong_to_what_identifies_a_run_and_none_changes_nothing():
    assert "volumes" not in run_data(SPEC, None)
    volumes = read_volumes([{"path": "/b", "secret": "s"}], "volumes")
    assert run_data(dataclasses.replace(SPEC, volumes=volumes), None)["volumes"] == [
        {"path": "/b", "source": "secret", "name": "s", "read_only": True}
    ]
