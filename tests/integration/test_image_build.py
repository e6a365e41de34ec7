# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images built for real: by buildah in pods of a real node, pushed to a real registry."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import re
import secrets
import shutil
import subprocess

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build import local
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import read_log
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, patch
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.tests.support.build_site import ODD, BuildSite, own, small
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.play import play_tasks

NAMESPACE = "image-build"
# Has a quota that is too small.
FULL_NAMESPACE = "image-build-full"
# Builds side by side.
WIDTH = 4
# A time-out that no other build has.
LONG = 597


@pytest.fixture(scope="module")
def site(real_cluster):
    """One namespace for all builds, so that the builder image is pulled once."""
    made = BuildSite(real_cluster, NAMESPACE)
    real_cluster.live.namespace(NAMESPACE)
    yield made
    real_cluster.live.drop_namespace(NAMESPACE)


def failing(site):
    """A task for every sort of failure; those that only wait come first."""
    no_image = f"{site.registry}/no/such:1"
    return {
        "builder_pull": {"stack": small(site, "builder"), "builder_image": no_image},
        "timeout": {"stack": own(site, "RUN sleep 600"), "timeout": str(LONG)},
        "quota": {
            "stack": small(site, "quota"),
            "namespace": FULL_NAMESPACE,
            "requests": {"cpu": "2"},
            "start_timeout": "2",
        },
        "unschedulable": {
            "stack": small(site, "room"),
            "requests": {"cpu": "900"},
            "hardware": None,
            "start_timeout": "2",
        },
        "push_failed": {
            "stack": small(site, "push"),
            "image": "127.0.0.1:1/test/x",
            "insecure_registries": ["127.0.0.1:1", site.registry],
        },
        "oom": {"stack": own(site, "RUN tail /dev/zero"), "limits": {"memory": "128Mi"}},
        "build_failed": {"stack": own(site, "RUN echo doomed; exit 3")},
        "image_pull": {"stack": {"base": no_image}},
        "own_image_pull": {"stack": {"dockerfile": f"FROM {no_image}\nRUN true\n"}},
    }


def shorten_time(site):
    """Let the time of a build be over as soon as it is under way, however long that took."""
    client, pods = site.connect(), resource_path("v1", "pods", NAMESPACE)

    def under_way():
        found = list_objects(client, pods, keep=lambda raw: raw).items
        for pod in (item for item in found if item["spec"].get("activeDeadlineSeconds") == LONG):
            name = pod["metadata"]["name"]
            with contextlib.suppress(ApiError):
                if b"STEP 2/" in read_log(client, NAMESPACE, name, "build"):
                    return name
        return None

    name = wait_until("the build with a time-out", under_way, seconds=LONG)
    patch(client, f"{pods}/{name}", {"spec": {"activeDeadlineSeconds": 1}}, patch_type="merge")


def build_twice(site):
    """A build, and a new attempt of it, with the layers kept in a repository."""
    options = {
        "stack": own(site, "RUN echo once > /made"),
        "image": f"{site.registry}/test/layers",
        "cache": f"{site.registry}/test/cache",
    }
    return site.build(**options), site.build(**options, force=True)


@pytest.fixture(scope="module")
def under_way(site):
    """Builds of several tests, begun together: mostly they wait, for a deadline, the disk or the registry."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": FULL_NAMESPACE}}
    site.cluster.live.namespace(FULL_NAMESPACE)
    site.cluster.live.create({**quota, "spec": {"hard": {"requests.cpu": "1"}}})
    with concurrent.futures.ThreadPoolExecutor(WIDTH + 1) as pool:
        shortened = pool.submit(shorten_time, site)
        futures = {name: pool.submit(site.build, **task) for name, task in failing(site).items()}
        yield {**futures, "twice": pool.submit(build_twice, site), "shortened": shortened}
    site.cluster.live.drop_namespace(FULL_NAMESPACE)


@pytest.fixture(scope="module")
def failures(site, under_way):
    """What became of all the tasks that fail."""
    under_way["shortened"].result()
    return {name: under_way[name].result() for name in failing(site)}


def test_a_playbook_builds_once_rebuilds_for_a_changed_file_and_removes(site, under_way, tmp_path):
    image = f"{site.registry}/test/play"
    defaults = site.options(image=image, kubeconfig=site.cluster.kubeconfig, tier="auto")
    del defaults["namespace"]
    task = {"muster.kube.image_build": {"namespace": NAMESPACE, "stack": small(site)}}
    changed = {"muster.kube.image_build": {"namespace": NAMESPACE, "stack": small(site, ODD + "\n")}}
    known = {
        "muster.kube.image_build_info": {
            "namespace": NAMESPACE,
            "image": image,
            "kubeconfig": site.cluster.kubeconfig,
        }
    }
    gone = {"muster.kube.image_build": {**task["muster.kube.image_build"], "state": "absent"}}
    played = play_tasks(
        tmp_path,
        {
            "preview": {**task, "check_mode": True},
            "first": task,
            "again": task,
            "preview_again": {**task, "check_mode": True},
            "changed": changed,
            "known": known,
            "gone": gone,
            "still_gone": gone,
        },
        module_defaults={"muster.kube.image_build": defaults},
    )
    first = played["first"]
    assert not first["failed"], first.get("msg")
    assert (played["preview"]["changed"], played["preview"]["image"]) == (True, first["image"])
    assert (first["changed"], first["cached"], first["ran"], first["tier"]) == (True, False, "in_process", "baseline")
    assert "node cannot have a user namespace" in first["tiers_refused"]["userns"]
    assert "succeeded" in played.output
    for name in ("again", "preview_again"):
        assert (played[name]["changed"], played[name]["cached"]) == (False, True)
        assert played[name]["digest"] == first["digest"]
    assert played["changed"]["spec_hash"] != first["spec_hash"]
    assert not played["changed"]["cached"]
    assert site.digests("test/play") == {
        first["image"].rpartition(":")[2]: first["digest"],
        played["changed"]["image"].rpartition(":")[2]: played["changed"]["digest"],
    }
    builds = {entry["image"]: entry for entry in played["known"]["builds"]}
    assert builds[first["image"]]["phase"] == "succeeded"
    assert builds[first["image"]]["specification"] == small(site)
    assert builds[first["image"]]["outcome"]["digest"] == first["digest"]
    assert (played["gone"]["changed"], played["still_gone"]["changed"]) == (True, False)
    layers = site.layers(first["image"])
    assert site.file_in(layers, "etc/odd name") == (ODD.encode(), 0o640)


def test_a_second_run_reads_and_does_not_write(site):
    stack = small(site, "second run")
    first = site.build(stack=stack)
    client = site.connect()
    again = site.build(client, stack=stack)
    assert (client.writes, again["changed"], again["cached"]) == (0, False, True)
    assert {**again, "cached": False, "changed": True} == first
    assert first["name"] not in site.jobs()


def test_a_build_secret_is_read_and_stays_out_of_image_record_and_log(site):
    token = secrets.token_hex(16)
    metadata = {"name": "small", "namespace": NAMESPACE}
    site.cluster.live.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"t": token}})
    check = "RUN --mount=type=secret,id=token,required=true wc -c < /run/secrets/token > /length"
    stack = {**own(site, check), "secrets": [{"id": "token", "secret": "small", "key": "t"}]}
    built = site.build(stack=stack, image=f"{site.registry}/test/secret")
    assert built["reason"] is None, built["log"]
    layers = site.layers(built["image"])
    assert site.file_in(layers, "length")[0].strip() == b"32"
    assert not any(token.encode() in layer for layer in layers)
    assert token not in json.dumps(built)
    record = get_object(site.cluster.client, resource_path("v1", "configmaps", NAMESPACE, built["name"]))
    assert token not in json.dumps(record)


@pytest.mark.parametrize(
    ("case", "reason", "words"),
    [
        ("build_failed", "build_failed", "exit status 3"),
        ("push_failed", "push_failed", "127.0.0.1:1"),
        ("image_pull", "image_pull", "no/such"),
        ("own_image_pull", "image_pull", "no/such"),
        ("builder_pull", "image_pull", "ImagePullBackOff"),
        ("timeout", "timeout", "deadline"),
        ("oom", "oom", "memory"),
        ("quota", "quota", "exceeded quota"),
        ("unschedulable", "unschedulable", "Insufficient cpu"),
    ],
)
def test_a_failure_has_its_reason(failures, case, reason, words):
    result = failures[case]
    assert result["reason"] == reason, result
    assert words in result["message"]
    assert words in result["msg"]
    assert result["error"]["object"] == f"image {result['image']}"
    assert result["digest"] is None


def test_a_failed_build_keeps_its_log_and_leaves_no_job(failures, site):
    assert "doomed" in failures["build_failed"]["log"]
    assert "STEP 2/" in failures["timeout"]["log"]
    names = {result["name"] for result in failures.values()}
    assert names & {*site.jobs(), *site.jobs(FULL_NAMESPACE)} == set()


def test_no_tier_works_where_admission_refuses_them_all(site):
    space = "image-build-strict"
    level = {"pod-security.kubernetes.io/enforce": "baseline"}
    site.cluster.live.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": level}})
    account = resource_path("v1", "serviceaccounts", space, "default")
    wait_until("the default account", lambda: get_object(site.cluster.client, account))
    with pytest.raises(MusterError) as caught:
        site.build(stack=small(site, "strict"), namespace=space, tier="auto")
    result = caught.value.as_result()
    assert result["reason"] == "refused"
    assert set(result["tiers_refused"]) == {"userns", "baseline", "unconfined", "privileged"}
    assert "violates PodSecurity" in result["tiers_refused"]["baseline"]
    assert "privileged" in result["msg"]
    assert site.jobs(space) == []
    site.cluster.live.drop_namespace(space)


def test_user_namespaces_work_or_are_refused_at_once_by_a_runtime_without_them(site):
    result = site.build(stack=small(site, "userns"), tier="userns", host_network=False)
    if result["reason"] is None:
        assert (result["tier"], result["changed"], result["cached"]) == ("userns", True, False)
        assert re.fullmatch("sha256:[0-9a-f]{64}", result["digest"])
    else:
        assert (result["reason"], result["digest"]) == ("build_failed", None)
        assert "user namespaces" in result["message"]


def test_hardware_no_node_has_is_refused_before_anything_is_created(site):
    client = site.connect()
    asked = {"node_selector": {"example.com/none": "here"}}
    with pytest.raises(MusterError, match="none of 3 nodes has it") as caught:
        site.build(client, stack=small(site, "hardware"), hardware=asked)
    assert caught.value.as_result()["reason"] == "unschedulable"
    assert client.writes == 0


def test_an_evicted_build_says_so(site):
    image = f"{site.registry}/test/evicted"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        building = pool.submit(site.build, stack=own(site, "RUN sleep 600"), image=image)
        name = site.terms(stack=own(site, "RUN sleep 600"), image=image).spec.name
        selector = f"batch.kubernetes.io/job-name={name}"

        def running():
            pods = site.cluster.live.pods(NAMESPACE, selector)
            builders = pods[0]["status"].get("initContainerStatuses") if pods else None
            return pods[0]["metadata"]["name"] if builders and builders[0]["state"].get("running") else None

        pod = wait_until("the build to run", running)
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": NAMESPACE},
            "deleteOptions": {"gracePeriodSeconds": 2},
        }
        create(site.cluster.client, resource_path("v1", "pods", NAMESPACE, pod, "eviction"), eviction)
        result = building.result()
    assert (result["reason"], result["digest"]) == ("evicted", None), result


def test_layers_are_kept_in_a_repository_when_asked(under_way):
    first, second = under_way["twice"].result()
    assert (first["reason"], second["reason"], second["attempt"]) == (None, None, 2)
    assert "Cache pulled from remote" not in first["log"]
    assert "Cache pulled from remote" in second["log"], second["log"]


def test_a_build_is_cancelled_by_removing_it(site):
    stack = own(site, "RUN sleep 600")
    started = site.build(stack=stack, image=f"{site.registry}/test/cancel", wait=False)
    assert (started["phase"], started["reason"], started["digest"]) == ("pending", None, None)
    assert started["name"] in site.jobs()
    removed = site.build(stack=stack, image=f"{site.registry}/test/cancel", state="absent")
    assert removed["changed"]
    assert started["name"] not in site.jobs()


@pytest.mark.parametrize("program", ["buildah", "podman"])
def test_the_machine_itself_builds_the_same_without_a_cluster(site, program, tmp_path, monkeypatch):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    storage = f'[storage]\ndriver = "overlay"\ngraphroot = "{tmp_path}/graph"\nrunroot = "{tmp_path}/run"\n'
    (tmp_path / "storage.conf").write_text(storage)
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(tmp_path / "storage.conf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    monkeypatch.setattr(local, "find_program", lambda: program)
    options = {"stack": small(site), "engine": "podman", "image": "localhost/test/local", "tier": "auto"}
    try:
        first = site.build(**options)
        assert (first["reason"], first["engine_used"], first["program"]) == (None, "podman", program), first["log"]
        assert first["spec_hash"] == site.terms(stack=small(site)).spec.spec_hash
        again = site.build(**options)
        assert (again["cached"], again["changed"], again["image_id"]) == (True, False, first["image_id"])
        broken = site.build(**{**options, "stack": own(site, "RUN echo doomed; exit 3")})
        assert broken["reason"] == "build_failed"
        assert site.build(**options, state="absent")["changed"]
        assert not site.build(**options)["cached"]
    finally:
        subprocess.run([program, "rmi", "--all", "--force"], check=False, capture_output=True, stdin=subprocess.DEVNULL)
        # The storage makes its folder a mount point of its own.
        subprocess.run(
            ["umount", str(tmp_path / "graph" / "overlay")], check=False, capture_output=True, stdin=subprocess.DEVNULL
        )
