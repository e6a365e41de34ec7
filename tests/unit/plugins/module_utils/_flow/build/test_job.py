# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Job of a build: its context, its rights in each tier, its secrets and its deadlines."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build.job import (
    build_job,
    build_variables,
    bundle_context,
    context_files,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import JobContext
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSettings, BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import BuildSecret, Stack
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import hardware_from_data
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import Context, ContextFile

SPEC = BuildSpec(Stack("debian:12"), "r.example.com/x", "ab" * 32)
CONTEXT_OF_JOB = JobContext("build-1", {"a": "b"}, {"c0": "build-1-c0-1", "c1": "build-1-c1-2"})
CONTEXT = Context("FROM x\n", (ContextFile(" odd name", b"\xff", "0600"), ContextFile("b/c", b"")))


USUAL = BuildSettings()


def pod_of(settings=USUAL, tier="baseline", spec=SPEC, affinity=None, probe=False):
    job = build_job(spec, settings, tier, affinity, CONTEXT_OF_JOB, probe=probe)
    return job["spec"]["template"]["spec"]


def variables_of(container):
    return {entry["name"]: entry["value"] for entry in container["env"]}


def mounts_of(container):
    return {mount["name"] for mount in container["volumeMounts"]}


def test_the_context_travels_as_files_with_an_index():
    files = context_files(CONTEXT, "#!/bin/sh\n")
    assert files["Dockerfile"] == b"FROM x\n"
    assert files["build.sh"] == b"#!/bin/sh\n"
    assert files["index"] == b"0600\nf0001\n odd name\n0644\nf0002\nb/c\n"
    assert (files["f0001"], files["f0002"]) == (b"\xff", b"")


def test_a_large_context_takes_several_maps_and_too_large_a_file_is_refused():
    half = ContextFile("a", b"x" * 600_000)
    bundles = bundle_context(Context("FROM x", (half, dataclasses.replace(half, name="b"))), "s")
    assert [bundle.key for bundle in bundles] == ["c0", "c1"]
    assert {key for bundle in bundles for key in bundle.files} >= {"f0001", "f0002", "index", "Dockerfile"}
    with pytest.raises(BadInput, match=r"file big.*1000000 bytes"):
        bundle_context(Context("", (ContextFile("big", b"x" * 1_000_000),)), "s")
    with pytest.raises(BadInput, match="bytes of at most"):
        bundle_context(Context("", tuple(ContextFile(f"f{n}", b"x" * 900_000) for n in range(17))), "s")


@pytest.mark.parametrize(
    ("tier", "expected"),
    [
        ("userns", {"runAsUser": 0, "capabilities": {"add": ["SETFCAP"]}}),
        ("baseline", {"runAsUser": 0, "capabilities": {"add": ["SETFCAP"]}}),
        (
            "unconfined",
            {
                "runAsUser": 0,
                "capabilities": {"add": ["SETFCAP"]},
                "seccompProfile": {"type": "Unconfined"},
                "appArmorProfile": {"type": "Unconfined"},
            },
        ),
        ("privileged", {"runAsUser": 0, "privileged": True}),
    ],
)
def test_rights_of_each_tier(tier, expected):
    pod = pod_of(tier=tier)
    assert pod["initContainers"][0]["securityContext"] == pod["containers"][0]["securityContext"] == expected
    assert pod.get("hostUsers") == (False if tier == "userns" else None)
    assert pod["automountServiceAccountToken"] is False


def test_the_pod_has_the_deadline_and_the_job_a_later_one():
    job = build_job(SPEC, BuildSettings(timeout=10.5, start_timeout=60), "baseline", None, CONTEXT_OF_JOB)
    assert job["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 11
    assert job["spec"]["activeDeadlineSeconds"] == 371
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["metadata"]["labels"] == {"a": "b"}


def test_secrets_are_mounted_as_files_and_never_stand_in_the_environment():
    secrets = (BuildSecret("token", secret="s", key="k"), BuildSecret("plain", secret="s"))
    spec = dataclasses.replace(SPEC, stack=Stack("debian:12", secrets=secrets))
    pod = pod_of(BuildSettings(pull_secret="pull", push_secret="push"), spec=spec)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["secrets"]["projected"]["sources"] == [
        {"secret": {"name": "s", "items": [{"key": "k", "path": "token"}]}},
        {"secret": {"name": "s", "items": [{"key": "plain", "path": "plain"}]}},
    ]
    assert volumes["auth-push"]["secret"]["secretName"] == "push"
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    (builder,), (pusher,) = pod["initContainers"], pod["containers"]
    assert all("valueFrom" not in entry for entry in (*builder["env"], *pusher["env"]))
    assert mounts_of(builder) | mounts_of(pusher) == set(volumes)
    assert mounts_of(builder) & mounts_of(pusher) == {"context", "out"}


def test_only_who_pushes_has_the_push_secret_and_nothing_of_the_build_runs_there():
    secrets = (BuildSecret("token", secret="s"), BuildSecret("c", "netrc", "s"), BuildSecret("ca", "ca", "s"))
    spec = dataclasses.replace(SPEC, stack=Stack("debian:12", secrets=secrets))
    pod = pod_of(BuildSettings(pull_secret="pull", push_secret="push"), spec=spec)
    (builder,), (pusher,) = pod["initContainers"], pod["containers"]
    assert (builder["name"], pusher["name"]) == ("build", "push")
    assert {"secrets", "auth-pull"} <= mounts_of(builder)
    assert "auth-push" not in mounts_of(builder)
    assert not {"secrets", "auth-pull", "build-storage", "build-work"} & mounts_of(pusher)
    told, pushing = variables_of(builder), variables_of(pusher)
    assert (told["MUSTER_PART"], pushing["MUSTER_PART"]) == ("build", "push")
    assert "MUSTER_PUSH_AUTH" not in told
    assert pushing["MUSTER_PUSH_AUTH"] == "/muster/auth/push/config.json"
    assert (told["MUSTER_CONFIGS"], told["MUSTER_OPEN"]) == ("c", "ca")
    (out,) = [mount for mount in pusher["volumeMounts"] if mount["name"] == "out"]
    assert out["readOnly"]
    (values,) = [volume for volume in pod["volumes"] if volume["name"] == "build-private"]
    assert values["emptyDir"]["medium"] == "Memory"


def test_a_probe_mounts_no_secret():
    secrets = (BuildSecret("token", secret="s"),)
    spec = dataclasses.replace(SPEC, stack=Stack("debian:12", secrets=secrets))
    pod = pod_of(BuildSettings(push_secret="push"), spec=spec, probe=True)
    (builder,) = pod["containers"]
    assert "initContainers" not in pod
    assert {volume["name"] for volume in pod["volumes"]} == mounts_of(builder)
    assert mounts_of(builder) == {"context", "out", "build-work", "build-storage", "build-private"}
    assert variables_of(builder)["MUSTER_PROBE"] == "yes"


def test_a_secret_without_a_kubernetes_secret_is_refused():
    spec = dataclasses.replace(SPEC, stack=Stack("debian:12", secrets=(BuildSecret("token", file="/x"),)))
    with pytest.raises(BadInput, match="build secret token"):
        pod_of(spec=spec)


def test_resources_placement_and_network():
    settings = BuildSettings(
        requests={"cpu": "1"},
        limits={"memory": "1Gi"},
        hardware=hardware_from_data({"gpu": {"vendor": "nvidia", "count": 1}}, "hardware"),
        tolerations=({"key": "t", "operator": "Exists"},),
        host_network=True,
        service_account="builder",
    )
    pod = pod_of(settings, affinity={"required": []})
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "nvidia.com/gpu": "1"},
        "limits": {"memory": "1Gi", "nvidia.com/gpu": "1"},
    }
    assert pod["affinity"] == {"nodeAffinity": {"required": []}}
    assert [entry["key"] for entry in pod["tolerations"]] == ["t", "nvidia.com/gpu"]
    assert (pod["hostNetwork"], pod["dnsPolicy"], pod["serviceAccountName"]) == (True, "Default", "builder")
    assert "hostNetwork" not in pod_of()


def test_what_the_script_is_told():
    spec = dataclasses.replace(SPEC, stack=Stack(None, dockerfile="FROM y"))
    assert build_variables(spec, BuildSettings())["MUSTER_BASE"] == ""
    told = build_variables(SPEC, BuildSettings(cache="r/c", insecure_registries=("a", "b"), push=False))
    assert told == {
        "MUSTER_IMAGE": SPEC.reference,
        "MUSTER_BASE": "debian:12",
        "MUSTER_PLATFORM": "",
        "MUSTER_LABEL": f"muster.kube.spec-hash={SPEC.spec_hash}",
        "MUSTER_PUSH": "no",
        "MUSTER_INSECURE": "a b",
        "MUSTER_CACHE": "r/c",
    }
