# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images built for real: by buildah in pods of a real node, pushed to a real registry."""

from __future__ import annotations

import concurrent.futures
import gzip
import io
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import tarfile
import typing as t
import urllib.request

import pytest
from ansible_collections.muster.kube.plugins.module_utils._args.image_build import (
    image_build_argument_spec,
    image_build_terms,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.build import local
from ansible_collections.muster.kube.plugins.module_utils._flow.build.info import BuildQuestion, answer_builds
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import BuildFailed, BuildTerms, run_build
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.plugins.module_utils._model.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.dockerfile import GENERATOR_VERSION
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.play import play_tasks
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE, RealCluster

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "roles/inspection/files/build.sh"
ODD = 'it\'s "quoted" $HOME `id` \\n\n\tzwölf €\n\nEOF\n'
NAMESPACE = "image-build"
# Builds side by side: a build waits for disk and registry as much as for a processor.
WIDTH = 3
WRITES = 5
KINDS = "application/vnd.oci.image.manifest.v1+json,application/vnd.docker.distribution.manifest.v2+json"


class Died(BaseException):
    """The process was killed at a write."""


class MortalClient(KubeClient):
    """A client whose process dies at its nth write, before the server hears of it or before the answer is heard."""

    number = 0
    dies_at = 0
    after = False

    def request(self, method: str, *arguments: t.Any, **named: t.Any) -> t.Any:
        """One request, or death."""
        if method == "GET":
            return super().request(method, *arguments, **named)
        self.number += 1
        dies = self.number == self.dies_at
        if dies and not self.after:
            raise Died
        answer = super().request(method, *arguments, **named)
        if dies:
            raise Died
        return answer


class Site:
    """The cluster as these tests use it."""

    def __init__(self, cluster: RealCluster) -> None:
        self.cluster = cluster
        self.registry = cluster.registry
        self.busybox = cluster.busybox_image()
        self.builder = cluster.builder_image()

    def options(self, **changes: t.Any) -> dict[str, t.Any]:
        """Options of the module that fit this site."""
        return {
            "namespace": NAMESPACE,
            "image": f"{self.registry}/test/stack",
            "builder_image": self.builder,
            "tier": "baseline",
            "host_network": True,
            "insecure_registries": [self.registry],
            "hardware": {"node_selector": ON_REAL_NODE},
            "requests": {"cpu": "50m", "memory": "32Mi"},
            **changes,
        }

    def terms(self, *, check_mode: bool = False, **changes: t.Any) -> BuildTerms:
        """The same as terms of the flow."""
        spec = image_build_argument_spec()
        params = {name: entry.get("default") for name, entry in spec.items()}
        params |= {"build_script": SCRIPT.read_text(encoding="utf-8"), **self.options(**changes)}
        return BuildTerms(**image_build_terms(params, check_mode, GENERATOR_VERSION))

    def connect(self) -> KubeClient:
        return connect({"kubeconfig": self.cluster.kubeconfig}, environ={})

    def build(self, client: KubeClient | None = None, **changes: t.Any) -> dict[str, t.Any]:
        """Build, and return a failure like any other result."""
        made = client or self.connect()
        try:
            return run_build(lambda: made, self.terms(**changes), lambda _text: None)
        except BuildFailed as error:
            return error.as_result()

    def jobs(self, namespace: str = NAMESPACE) -> list[str]:
        """Names of all Jobs that are not on their way out."""
        path = resource_path("batch/v1", "jobs", namespace)
        return list_objects(self.cluster.client, path, keep=lambda job: job["metadata"]["name"]).items

    def digests(self, repository: str) -> dict[str, str]:
        """The tags of a repository in the registry and their digests."""
        base = f"http://{self.registry}/v2/{repository}"
        with urllib.request.urlopen(f"{base}/tags/list") as answer:
            tags = json.load(answer)["tags"]
        found = {}
        for tag in tags:
            request = urllib.request.Request(f"{base}/manifests/{tag}", headers={"Accept": KINDS}, method="HEAD")
            with urllib.request.urlopen(request) as answer:
                found[tag] = answer.headers["Docker-Content-Digest"]
        return found

    def layers(self, reference: str) -> list[bytes]:
        """The unpacked layers of an image in the registry, those of its base (one in all our bases) left out."""
        repository, _colon, tag = reference.removeprefix(f"{self.registry}/").rpartition(":")
        base = f"http://{self.registry}/v2/{repository}"
        request = urllib.request.Request(f"{base}/manifests/{tag}", headers={"Accept": KINDS})
        with urllib.request.urlopen(request) as answer:
            manifest = json.load(answer)
        found = []
        for layer in manifest["layers"][1:]:
            with urllib.request.urlopen(f"{base}/blobs/{layer['digest']}") as answer:
                found.append(gzip.decompress(answer.read()))
        return found

    def file_in(self, layers: list[bytes], path: str) -> tuple[bytes, int]:
        """Content and mode of a file, in the last layer that has it."""
        for layer in reversed(layers):
            with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                if path in archive.getnames():
                    content = archive.extractfile(path)
                    assert content is not None
                    return content.read(), archive.getmember(path).mode & 0o7777
        raise AssertionError(f"no layer has {path}")


@pytest.fixture(scope="module")
def site(real_cluster):
    """One namespace for all builds, so that the builder image is pulled once."""
    made = Site(real_cluster)
    real_cluster.live.namespace(NAMESPACE)
    yield made
    real_cluster.live.drop_namespace(NAMESPACE)


def small(site, content=ODD):
    """A stack that is built in a few seconds."""
    return {"base": site.busybox, "files": [{"path": "/etc/odd name", "content": content, "mode": "0640"}]}


def own(site, *lines):
    """A stack with a Dockerfile of its own."""
    return {"dockerfile": "\n".join([f"FROM {site.busybox}", *lines, ""])}


def test_a_playbook_builds_once_rebuilds_for_a_changed_file_and_removes(site, tmp_path):
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
    assert site.jobs() == []


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


def certificates() -> bytes | None:
    """What this machine trusts, when it was told where that is; a package index may need it."""
    path = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    return pathlib.Path(path).read_bytes() if path else None


@pytest.mark.full
def test_native_and_python_packages_and_a_secret_that_stays_out(site):
    token = secrets.token_hex(16)
    values = {"token": token, **({"ca": certificates().decode()} if certificates() else {})}
    site.cluster.live.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "build", "namespace": NAMESPACE},
            "stringData": values,
        }
    )
    uses = {"token": "mount", "ca": "ca"}
    stack = {
        "base": site.cluster.base_image(),
        "packages": ["hello", "tree"],
        "python": {"packages": ["iniconfig==2.0.0"]},
        "files": [{"path": "/opt/odd", "content": ODD}],
        "secrets": [{"id": name, "use": uses[name], "secret": "build", "key": name} for name in values],
    }
    image = f"{site.registry}/test/debian"
    built = site.build(stack=stack, image=image)
    assert built["reason"] is None, built["log"]
    native = {entry["name"] for entry in built["packages"]["dpkg"]}
    assert {"hello", "tree", "python3"} <= native
    assert {"name": "iniconfig", "version": "2.0.0"} in built["packages"]["pip"]
    assert built["packages"]["rpm"] is None
    assert built["base_digest"].startswith("sha256:")
    assert site.digests("test/debian") == {built["image"].rpartition(":")[2]: built["digest"]}
    layers = site.layers(built["image"])
    assert site.file_in(layers, "opt/odd")[0] == ODD.encode()
    assert not any(token.encode() in layer for layer in layers)
    assert token not in json.dumps(built)
    record = get_object(site.cluster.client, resource_path("v1", "configmaps", NAMESPACE, built["name"]))
    assert token not in json.dumps(record)


@pytest.fixture(scope="module")
def failures(site):
    """Every sort of failure, provoked side by side."""
    quota = {"hard": {"requests.cpu": "1"}}
    site.cluster.live.namespace("image-build-full")
    site.cluster.live.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "small", "namespace": "image-build-full"},
            "spec": quota,
        }
    )
    nowhere = {"image": "127.0.0.1:1/test/x", "insecure_registries": ["127.0.0.1:1", site.registry]}
    no_image = f"{site.registry}/no/such:1"
    cases: dict[str, dict[str, t.Any]] = {
        "push_failed": {"stack": small(site, "push"), **nowhere},
        "builder_pull": {"stack": small(site, "builder"), "builder_image": no_image},
        "timeout": {"stack": own(site, "RUN sleep 600"), "timeout": "5"},
        "oom": {"stack": own(site, "RUN tail /dev/zero"), "limits": {"memory": "128Mi"}},
        "build_failed": {"stack": own(site, "RUN echo doomed; exit 3")},
        "image_pull": {"stack": {"base": no_image}},
        "own_image_pull": {"stack": {"dockerfile": f"FROM {no_image}\nRUN true\n"}},
        "quota": {
            "stack": small(site, "quota"),
            "namespace": "image-build-full",
            "requests": {"cpu": "2"},
            "start_timeout": "2",
        },
        "unschedulable": {
            "stack": small(site, "room"),
            "requests": {"cpu": "900"},
            "hardware": None,
            "start_timeout": "2",
        },
    }
    with concurrent.futures.ThreadPoolExecutor(WIDTH) as pool:
        made = {name: pool.submit(site.build, **case) for name, case in cases.items()}
    yield {name: future.result() for name, future in made.items()}
    site.cluster.live.drop_namespace("image-build-full")


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
    assert "RUN sleep 600" in failures["timeout"]["log"]
    names = {result["name"] for result in failures.values()}
    assert names & {*site.jobs(), *site.jobs("image-build-full")} == set()


def test_no_tier_works_where_admission_refuses_them_all(site):
    space = "image-build-strict"
    level = {"pod-security.kubernetes.io/enforce": "baseline"}
    site.cluster.live.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "labels": level}})
    account = resource_path("v1", "serviceaccounts", space, "default")
    wait_until("the default account", lambda: get_object(site.cluster.client, account))
    with pytest.raises(MusterError) as caught:
        site.build(stack=small(site, "strict"), namespace=space, tier="auto")
    result = caught.value.as_result()
    assert result["reason"] == "build_failed"
    assert set(result["tiers_refused"]) == {"userns", "baseline", "unconfined", "privileged"}
    assert "violates PodSecurity" in result["tiers_refused"]["baseline"]
    assert "privileged" in result["msg"]
    assert site.jobs(space) == []
    site.cluster.live.drop_namespace(space)


def test_user_namespaces_are_refused_at_once_by_a_runtime_without_them(site):
    result = site.build(stack=small(site, "userns"), tier="userns", host_network=False)
    if result["reason"] is None:
        pytest.skip("the container runtime of this machine has user namespaces")
    assert result["reason"] == "build_failed"
    assert "user namespaces" in result["message"]


def test_hardware_no_node_has_is_refused_before_anything_is_created(site):
    client = site.connect()
    asked = {"node_selector": {"example.com/none": "here"}}
    with pytest.raises(MusterError, match="none of 3 nodes has it") as caught:
        site.build(client, stack=small(site, "hardware"), hardware=asked)
    assert caught.value.as_result()["reason"] == "unschedulable"
    assert client.writes == 0


def killed_and_run_again(site: Site, number: int, after: bool) -> dict[str, t.Any]:
    """One build whose task dies at a write and is then run again."""
    options = {"stack": small(site, "mortal"), "image": f"{site.registry}/mortal/{number}{'after' if after else ''}"}
    client = site.connect()
    client.__class__ = MortalClient
    client.dies_at, client.after = number, after
    with pytest.raises(Died):
        site.build(client, **options)
    return site.build(**options)


def test_killed_at_every_write_and_run_again(site):
    points = [(number, after) for number in range(1, WRITES + 1) for after in (False, True)]
    with concurrent.futures.ThreadPoolExecutor(WIDTH) as pool:
        results = list(pool.map(lambda point: killed_and_run_again(site, *point), points))
    for (number, after), result in zip(points, results, strict=True):
        repository = f"mortal/{number}{'after' if after else ''}"
        assert result["reason"] is None, result
        assert result["attempt"] == 1
        assert site.digests(repository) == {result["image"].rpartition(":")[2]: result["digest"]}
    names = {result["name"] for result in results}
    assert names & set(site.jobs()) == set()
    known = answer_builds(site.cluster.client, BuildQuestion(namespace=NAMESPACE))["builds"]
    assert {entry["name"]: entry["attempt"] for entry in known if entry["name"] in names} == dict.fromkeys(names, 1)


def test_an_evicted_build_says_so(site):
    image = f"{site.registry}/test/evicted"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        building = pool.submit(site.build, stack=own(site, "RUN sleep 600"), image=image)
        name = site.terms(stack=own(site, "RUN sleep 600"), image=image).spec.name
        selector = f"batch.kubernetes.io/job-name={name}"

        def running():
            pods = site.cluster.live.pods(NAMESPACE, selector)
            return pods[0]["metadata"]["name"] if pods and pods[0]["status"]["phase"] == "Running" else None

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


def test_layers_are_kept_in_a_repository_when_asked(site):
    options = {"stack": own(site, "RUN echo once > /made"), "cache": f"{site.registry}/test/cache"}
    first = site.build(**options, image=f"{site.registry}/test/layers")
    second = site.build(**options, image=f"{site.registry}/test/layers", force=True)
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
        subprocess.run([program, "rmi", "--all", "--force"], check=False, capture_output=True)
        # The storage makes its folder a mount point of its own.
        subprocess.run(["umount", str(tmp_path / "graph" / "overlay")], check=False, capture_output=True)
