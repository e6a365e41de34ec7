# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP service for real: installed by its role, its program under the account of the role, and real clients."""

from __future__ import annotations

import dataclasses
import functools
import http.client
import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, Unauthorized
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import (
    authenticated_user,
    get_object,
    list_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import progress_name
from ansible_collections.muster.kube.tests.support.accounts import account_kubeconfig, may
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.http_service import HttpAnswer, HttpCaller
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.role_course import Role, RoleCourse, changes, proxies_for
from ansible_collections.muster.kube.tests.support.service_world import (
    GPU,
    TRAINER_FILE,
    ServiceProcess,
    account,
    expired,
    server_of,
    start_training,
    token_of,
    trainer_token,
    write_certificate,
)

Object = dict[str, t.Any]
NAME = f"svc-{os.getpid()}"
SPACES = (f"svc-a-{os.getpid()}", f"svc-b-{os.getpid()}")
# Of the tests' dispatchers.
LEASE = f"dispatch-{SPACES[0]}"
SETTINGS = {
    "elastic_training_namespace": SPACES[0],
    "elastic_training_accounts": [{"name": "reporter", "gangs": ["one"]}],
    "elastic_training_service": True,
    "elastic_training_service_name": NAME,
    "elastic_training_service_namespace": SPACES[0],
    "elastic_training_service_image": "example.com/muster",
    "elastic_training_service_namespaces": list(SPACES),
    "elastic_training_service_lease_namespace": "default",
    "elastic_training_service_lease_name": LEASE,
}
CONFIGMAPS = {"apiGroups": [""], "resources": ["configmaps"]}
LOST = (http.client.HTTPException, OSError)


@dataclasses.dataclass(frozen=True)
class World:
    """Two namespaces with trainings called one and two, the service before them, and tokens."""

    cluster: LiveCluster
    stage: Stage
    other: Stage
    service: ServiceProcess
    token: str
    boss: str

    @property
    def caller(self) -> HttpCaller:
        """A client of the service."""
        return self.service.caller

    @functools.cached_property
    def trainer(self) -> str:
        """The token of the pod of the gang one."""
        return trainer_token(self.stage, "one")

    def report(self, epochs: float, token: str | None, name: str = "one", **more: t.Any) -> HttpAnswer:
        """What the notifier of the original sends."""
        told = {"job_name": name, "last_checkpoint_time": time.time(), "completed_epochs": epochs, **more}
        return self.caller.ask("PUT", "/update_last_checkpoint", token, told)

    def stored(self, name: str = "one") -> Object:
        """The ConfigMap with the progress of a gang."""
        found = self.stage.raw(progress_name(name))
        assert found is not None
        return found

    def epochs(self, name: str = "one") -> float:
        """The epochs that are stored."""
        return float(self.caller.ask("GET", f"/get_job/{name}", self.boss).body["completed_epochs"])


@pytest.fixture(scope="module", name="spaces")
def two_spaces(cluster: LiveCluster) -> t.Iterator[tuple[Stage, Stage]]:
    """Two namespaces with nodes."""
    stages = tuple(Stage(cluster, cluster.namespace(name)) for name in SPACES)
    for stage in stages:
        stage.add_nodes(1, cpu="64", **{GPU: "10"})
    yield stages
    for stage in stages:
        stage.close()
        cluster.clear_namespace(stage.namespace)


@dataclasses.dataclass(frozen=True)
class Installation:
    played: t.Any
    proxies: dict[str, ApiProxy]


@pytest.fixture(scope="module", name="installation")
def the_role(
    cluster: LiveCluster, spaces: tuple[Stage, Stage], tmp_path_factory: pytest.TempPathFactory
) -> t.Iterator[Installation]:
    """The role applied: in check mode, for real, and again."""
    folder = tmp_path_factory.mktemp("role")
    role = Role("muster.kube.elastic_training", SETTINGS)
    with proxies_for(cluster, folder, "check", "again") as proxies:
        course = RoleCourse(role, cluster, folder)
        course.apply_in_vain("no_image", elastic_training_service_image="")
        course.apply("check", proxies["check"].kubeconfig, check=True)
        course.apply("install")
        course.apply("again", proxies["again"].kubeconfig)
        yield Installation(course.play(), proxies)
    gone = RoleCourse(role, cluster, tmp_path_factory.mktemp("gone"))
    gone.apply("absent", elastic_training_state="absent")
    gone.play()
    for kind in ("clusterroles", "clusterrolebindings"):
        found = list_objects(
            cluster.client,
            resource_path("rbac.authorization.k8s.io/v1", kind),
            keep=lambda obj: obj["metadata"]["name"],
            label_selector=f"muster.kube/component=elastic-service.{NAME}",
        )
        assert found.items == []


@pytest.fixture(scope="module", name="world")
def a_world(
    cluster: LiveCluster,
    spaces: tuple[Stage, Stage],
    installation: Installation,
    tmp_path_factory: pytest.TempPathFactory,
) -> t.Iterator[World]:
    """Trainings, and the program of the service with the rights that its role gave it."""
    stage, other = spaces
    start_training(stage, "one", 2, (2, 4))
    start_training(stage, "two", 2, (2, 4))
    start_training(other, "three", 2, (2, 4))
    start_training(other, "two", 2, (2, 4))
    folder = tmp_path_factory.mktemp("service")
    write_certificate(folder)
    server, authority = server_of(cluster, folder)
    token = token_of(cluster, SPACES[0], NAME)
    options = [f"--namespace={space}" for space in SPACES]
    options += ["--lease-namespace=default", f"--lease-name={LEASE}", "--body-seconds=2", "--header-seconds=2"]
    service = ServiceProcess(folder, server, token, authority, *options)
    boss = account(cluster, SPACES[0], "boss", {**CONFIGMAPS, "verbs": ["*"]})
    with service.running():
        made = World(cluster, stage, other, service, token, boss)
        wait_until("the rights of the service", lambda: made.report(0.0, made.boss).status == 200)
        yield made
    assert not [line for line in service.lines if token[-40:] in line or "fault" in line], service.lines


# The role.


def test_the_role_needs_an_image(installation: Installation) -> None:
    assert "Set elastic_training_service_image" in installation.played["no_image"]


def test_check_mode_and_a_second_run_write_nothing(installation: Installation) -> None:
    for name in ("check", "again"):
        assert installation.proxies[name].requests
        assert_no_writes(installation.proxies[name])
    assert changes(installation.played, "check") == 1
    assert changes(installation.played, "again") == 0


def test_the_account_of_the_service_has_the_rights_it_needs_and_no_more(
    cluster: LiveCluster, installation: Installation
) -> None:
    user = f"system:serviceaccount:{SPACES[0]}:{NAME}"
    for space in SPACES:
        for verb in ("get", "list", "create", "update", "patch"):
            assert may(cluster, user, verb, "configmaps", namespace=space)
        for verb, resource, group in (
            ("delete", "configmaps", ""),
            ("get", "secrets", ""),
            ("create", "pods", ""),
            ("delete", "pods", ""),
            ("patch", "jobs", "batch"),
            ("create", "jobs", "batch"),
            ("impersonate", "serviceaccounts", ""),
            ("create", "rolebindings", "rbac.authorization.k8s.io"),
            ("create", "serviceaccounts", ""),
        ):
            assert not may(cluster, user, verb, resource, group, namespace=space), (verb, resource)
    assert not may(cluster, user, "update", "configmaps", namespace="kube-system")
    assert not may(cluster, user, "get", "configmaps", namespace="kube-system")
    assert not may(cluster, user, "update", "leases", "coordination.k8s.io", namespace="default", name=LEASE)
    assert may(cluster, user, "create", "tokenreviews", "authentication.k8s.io")
    assert may(cluster, user, "create", "subjectaccessreviews", "authorization.k8s.io")


def test_the_account_of_a_training_may_report_for_its_gangs_and_nothing_more(
    cluster: LiveCluster, installation: Installation
) -> None:
    assert changes(installation.played, "again") == 0
    user, here = f"system:serviceaccount:{SPACES[0]}:reporter", {"namespace": SPACES[0]}
    mine = progress_name("one")
    for verb in ("get", "patch"):
        assert may(cluster, user, verb, "configmaps", **here, name=mine), verb
        for name in (progress_name("two"), "one", "muster-quota-tree", ""):
            assert not may(cluster, user, verb, "configmaps", **here, name=name), (verb, name)
        assert not may(cluster, user, verb, "configmaps", namespace=SPACES[1], name=mine), verb
    for verb in ("create", "update", "delete", "deletecollection", "list", "watch"):
        assert not may(cluster, user, verb, "configmaps", **here, name=mine), verb
    for group, resource in (
        ("", "pods"),
        ("", "secrets"),
        ("", "serviceaccounts"),
        ("batch", "jobs"),
        ("kubeflow.org", "pytorchjobs"),
        ("ray.io", "rayclusters"),
        ("coordination.k8s.io", "leases"),
        ("rbac.authorization.k8s.io", "rolebindings"),
    ):
        for verb in ("get", "create", "update", "patch", "delete", "impersonate"):
            assert not may(cluster, user, verb, resource, group, **here), (verb, resource)
    assert not may(cluster, user, "create", "serviceaccounts", **here, subresource="token", name="reporter")


def test_a_training_writes_the_progress_of_its_gang_alone(world: World, tmp_path: pathlib.Path) -> None:
    metadata = {"name": "reporter", "namespace": SPACES[0]}
    world.cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    client = connect({"kubeconfig": account_kubeconfig(world.cluster, SPACES[0], "reporter", tmp_path)})
    told = {"metadata": {"annotations": {"example.com/seen": "yes"}}}
    assert patch(client, resource_path("v1", "configmaps", SPACES[0], progress_name("one")), told)
    for name in (progress_name("two"), "one"):
        before = get_object(world.cluster.client, resource_path("v1", "configmaps", SPACES[0], name))
        with pytest.raises(Forbidden, match="reporter"):
            patch(client, resource_path("v1", "configmaps", SPACES[0], name), told)
        assert get_object(world.cluster.client, resource_path("v1", "configmaps", SPACES[0], name)) == before
    with pytest.raises(Forbidden, match="reporter"):
        list_objects(client, resource_path("v1", "configmaps", SPACES[0]), keep=lambda obj: obj)


# Who asks.


def test_tokens(world: World) -> None:
    before = world.stored()["metadata"]["resourceVersion"]
    assert world.report(0.5, None).status == 401
    assert world.report(0.5, "nonsense").status == 401
    assert world.report(0.5, expired(world.cluster, world.trainer)).status == 401
    assert world.report(0.5, trainer_token(world.stage, "two")).status == 403
    assert world.report(0.5, trainer_token(world.other, "three")).status == 403
    assert world.report(0.5, token_of(world.cluster, SPACES[1], "default")).status == 403
    assert world.stored()["metadata"]["resourceVersion"] == before
    assert world.report(0.5, world.trainer).status == 200
    assert world.stored()["metadata"]["resourceVersion"] != before


def test_a_token_is_good_for_nothing_once_its_pod_is_gone(world: World) -> None:
    bare = world.stage.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "stray",
                "namespace": SPACES[0],
                "labels": {"muster.kube/gang": world.stage.record("one").uid},
            },
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        }
    )[0]
    token = token_of(world.cluster, SPACES[0], "default", bare)
    delete(world.cluster.client, resource_path("v1", "pods", SPACES[0], "stray"), grace_seconds=0)
    wait_until("the token to end", lambda: world.report(0.5, token).status == 401)


def test_one_name_in_two_namespaces(world: World) -> None:
    answer = world.report(0.5, world.boss, "two")
    assert (answer.status, answer.body["namespaces"]) == (409, [SPACES[0]])
    assert "and others" in answer.body["error"]
    assert world.report(0.5, world.boss, f"{SPACES[0]}/two").status == 200
    assert world.report(0.5, world.boss, f"{SPACES[1]}/two").status == 403
    assert world.report(0.5, trainer_token(world.other, "two"), "two").body["namespace"] == SPACES[1]
    assert world.report(0.5, world.boss, "kube-system/two").status == 404


# What is sent.


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'{"job_name": "one"}', 400),
        (b'{"job_name": "one", "last_checkpoint_time": NaN, "completed_epochs": 1}', 400),
        (b'{"job_name": "one", "last_checkpoint_time": 1, "completed_epochs": -1}', 400),
        (b'{"job_name": "one", "last_checkpoint_time": 1, "completed_epochs": "1"}', 400),
        (b'{"job_name": "../one", "last_checkpoint_time": 1, "completed_epochs": 1}', 400),
        (b'{"job_name": "one", "last_checkpoint_time": 1, "completed_epochs": 5, "total_epochs": 2}', 400),
        (b"[" * 50_000, 400),
        (b'{"a": "' + b"a" * 70_000 + b'"}', 413),
        (b"\xff\xfe", 400),
    ],
)
def test_malformed_and_oversized_bodies_change_nothing(world: World, body: bytes, status: int) -> None:
    before = world.stored()["metadata"]["resourceVersion"]
    assert world.caller.ask("PUT", "/update_last_checkpoint", world.trainer, body).status == status
    assert world.stored()["metadata"]["resourceVersion"] == before


def test_slow_clients_keep_nobody_waiting(world: World) -> None:
    slow = []
    for _turn in range(30):
        connection = world.caller.connect()
        connection.putrequest("PUT", "/update_last_checkpoint")
        connection.putheader("Authorization", f"Bearer {world.trainer}")
        connection.putheader("Content-Length", "1000")
        connection.endheaders(b"{")
        slow.append(connection)
    assert world.report(0.5, world.trainer).status == 200
    assert {connection.getresponse().status for connection in slow} == {408}
    for connection in slow:
        connection.close()


def test_thousands_of_duplicates_change_nothing(world: World, scale: float) -> None:
    told = {"job_name": "one", "last_checkpoint_time": time.time(), "completed_epochs": 0.75, "total_epochs": 8}
    assert world.caller.ask("PUT", "/update_last_checkpoint", world.trainer, told).status == 200
    before = world.stored()["metadata"]["resourceVersion"]
    seen: set[int] = set()

    def repeat(count: int) -> None:
        """The same report on one connection."""
        kept = world.caller.connect()
        for turn in range(count):
            # Other ranks report the same a moment later.
            body = {**told, "last_checkpoint_time": told["last_checkpoint_time"] + turn % 3}
            seen.add(world.caller.ask("PUT", "/update_last_checkpoint", world.trainer, body, kept).status)
        kept.close()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(repeat, int(1250 * scale)) for _turn in range(8)]:
            done.result()
    assert seen == {200}
    assert world.stored()["metadata"]["resourceVersion"] == before


def test_times_out_of_order(world: World, seed: int) -> None:
    began = json.loads(world.stored()["data"]["progress.json"])["seen"]["time"]
    wait_until("some time to pass", lambda: time.time() > began + 1)
    told = [(began + 0.02 * step, 1 + 0.01 * step) for step in range(1, 40)]
    random.Random(seed).shuffle(told)
    latest = max(told)
    for moment, epochs in told:
        body = {"job_name": "one", "last_checkpoint_time": moment, "completed_epochs": epochs}
        assert world.caller.ask("PUT", "/update_last_checkpoint", world.trainer, body).status == 200
    assert world.epochs() == pytest.approx(latest[1])
    stored = json.loads(world.stored()["data"]["progress.json"])
    times = [moment for moment, _step in stored["checkpoints"]]
    assert times == sorted(times)


# Deaths.


@pytest.fixture(name="frail")
def behind_a_proxy(world: World, tmp_path: pathlib.Path) -> t.Iterator[tuple[ServiceProcess, ApiProxy]]:
    """Another process of the service, whose requests to the API server can be held."""
    write_certificate(tmp_path)
    with ApiProxy(world.cluster.kubeconfig, tmp_path) as proxy:
        options = [f"--namespace={space}" for space in SPACES]
        service = ServiceProcess(tmp_path, proxy.url, world.token, str(tmp_path / "tls.crt"), *options)
        with service.running():
            yield service, proxy


@pytest.mark.parametrize("written", [True, False], ids=["after the write", "before the write"])
def test_killed_between_write_and_answer(world: World, frail: tuple[ServiceProcess, ApiProxy], written: bool) -> None:
    service, proxy = frail
    epochs = world.epochs() + 0.01
    body = {"job_name": "one", "last_checkpoint_time": time.time(), "completed_epochs": epochs}
    held = proxy.hold(method="PUT", path=progress_name("one"))
    answers: list[object] = []

    def send() -> None:
        """What the client sees."""
        try:
            answers.append(service.caller.ask("PUT", "/update_last_checkpoint", world.trainer, body).status)
        except LOST as error:
            answers.append(type(error))

    client = threading.Thread(target=send)
    client.start()
    held.wait_for_arrival()
    if written:
        service.signal(signal.SIGSTOP)
        held.release()
        wait_until("the write", lambda: world.epochs() == pytest.approx(epochs))
    service.kill()
    client.join(60)
    # No success was told.
    assert answers
    assert 200 not in answers
    proxy.clear()
    caller = service.start()
    assert caller.ask("PUT", "/update_last_checkpoint", world.trainer, body).status == 200
    assert world.epochs() == pytest.approx(epochs)
    version = world.stored()["metadata"]["resourceVersion"]
    assert caller.ask("PUT", "/update_last_checkpoint", world.trainer, body).status == 200
    assert world.stored()["metadata"]["resourceVersion"] == version


def test_nothing_is_lost_after_a_success_however_often_it_is_killed(
    world: World, frail: tuple[ServiceProcess, ApiProxy], scale: float, seed: int
) -> None:
    service, _proxy = frail
    rng = random.Random(seed)
    acknowledged = itertools.count()
    sent = base = world.epochs()
    for _death in range(max(2, int(20 * scale))):
        over, last = threading.Event(), [sent]

        def work(over: threading.Event = over, last: list[float] = last) -> None:
            """Report one checkpoint after the other until the service dies."""
            nonlocal sent
            while not over.is_set():
                sent = round(sent + 0.001, 3)
                body = {"job_name": "one", "last_checkpoint_time": time.time(), "completed_epochs": sent}
                try:
                    if service.caller.ask("PUT", "/update_last_checkpoint", world.trainer, body).status == 200:
                        last[0] = sent
                        next(acknowledged)
                except LOST:
                    return

        client = threading.Thread(target=work)
        client.start()
        for _turn in range(rng.randint(1, 5)):
            seen = world.epochs()
            wait_until("another report", lambda seen=seen: world.epochs() > seen)
        service.kill()
        over.set()
        client.join(60)
        assert world.epochs() >= last[0] > base
        service.start()
    assert next(acknowledged) > 0


def test_it_ends_in_order(frail: tuple[ServiceProcess, ApiProxy]) -> None:
    service, _proxy = frail
    assert service.caller.ask("GET", "/readyz").status == 200
    assert service.end() == 0
    assert service.lines[-1].endswith("ended")


# Jobs.


def test_jobs_are_queued_and_removed_with_the_rights_of_the_caller(world: World) -> None:
    submitter = account(world.cluster, SPACES[0], "submitter", {**CONFIGMAPS, "verbs": ["create", "get", "list"]})
    viewer = account(world.cluster, SPACES[0], "viewer", {**CONFIGMAPS, "verbs": ["get", "list"]})
    made = world.stage.job("queued", 1, **{"cpu": "100m", GPU: "2"})
    body = {"definition": made, "namespace": SPACES[0], "range": {"min": 2, "max": 4}}
    refused = world.caller.ask("POST", "/jobs", viewer, body)
    assert refused.status == 403
    assert "viewer" in refused.body["error"]
    assert world.caller.ask("POST", "/jobs", submitter, {**body, "namespace": SPACES[1]}).status == 403
    assert world.caller.ask("POST", "/jobs", submitter, {**body, "namespace": "default"}).status == 404
    assert world.stage.raw("queued") is None
    answer = world.caller.ask("POST", "/jobs", submitter, body)
    assert answer.status == 201, answer.body
    record = world.stage.raw("queued")
    assert record is not None
    # The record says who queued it: the caller, not the service.
    assert record["metadata"]["annotations"]["muster.kube/user"] == f"system:serviceaccount:{SPACES[0]}:submitter"
    assert world.caller.ask("POST", "/jobs", submitter, body).status == 200
    assert world.caller.ask("GET", "/get_job/queued", viewer).body["gpu_assigned"] == 0
    assert world.caller.ask("PUT", "/update_job", viewer, {"job_name": "queued", "total_epochs": 3}).status == 403
    assert world.caller.ask("DELETE", "/jobs?name=queued", submitter).status == 403
    assert world.caller.ask("DELETE", "/delete_job", world.boss, {"job_name": "queued"}).status == 200
    assert world.stage.raw("queued") is None


def test_a_client_of_a_caller_has_no_credentials_of_ours(world: World) -> None:
    """The tests' own client has a certificate by which the server would let it do everything."""
    viewer = account(world.cluster, SPACES[0], "guest", {**CONFIGMAPS, "verbs": ["get"]})
    guest, before = world.cluster.client.bearing(viewer), world.cluster.client.writes
    assert authenticated_user(guest) == f"system:serviceaccount:{SPACES[0]}:guest"
    assert get_object(guest, resource_path("v1", "configmaps", SPACES[0], "one")) is not None
    for refused in (resource_path("v1", "nodes"), resource_path("v1", "configmaps", SPACES[1], "two")):
        with pytest.raises(Forbidden, match="guest"):
            get_object(guest, refused)
    with pytest.raises(Unauthorized, match="the token of the caller") as caught:
        get_object(world.cluster.client.bearing("wrong-token"), resource_path("v1", "nodes"))
    assert "wrong-token" not in str(caught.value)
    assert world.cluster.client.writes == before


def test_lists_hold_what_the_caller_may_read(world: World) -> None:
    mine = world.caller.ask("GET", "/get_all_jobs", world.boss)
    assert [job["job_name"] for job in mine.body] == ["one", "two"]
    own = world.caller.ask("GET", "/get_all_jobs", world.trainer)
    assert [job["job_name"] for job in own.body] == ["one"]
    assert world.caller.ask("GET", "/get_all_jobs", token_of(world.cluster, SPACES[1], "default")).status == 403
    assert world.caller.ask("GET", "/freegpu", world.boss).status == 403


def test_the_document_names_every_code_that_was_answered(world: World) -> None:
    document = world.caller.ask("GET", "/openapi.json").body
    assert document["openapi"].startswith("3.")
    told = document["paths"]["/update_last_checkpoint"]["put"]
    assert {"200", "400", "401", "403", "404", "408", "409", "413"} <= set(told["responses"])


def test_the_file_for_trainings_reports_through_the_service(world: World, tmp_path: pathlib.Path) -> None:
    token = tmp_path / "token"
    token.write_text(trainer_token(world.stage, "two"), encoding="utf-8")
    code = "import muster_trainer\nfor step in range(1, 4):\n    muster_trainer.report(step, total=100)\n"
    ended = subprocess.run(
        [sys.executable, "-B", "-c", f"import sys\nsys.path.insert(0, {str(TRAINER_FILE.parent)!r})\n{code}"],
        env={
            "MUSTER_GANG": "two",
            "MUSTER_NAMESPACE": SPACES[0],
            "MUSTER_API": f"https://localhost:{world.caller.port}",
            "MUSTER_CA_FILE": str(world.service.folder / "tls.crt"),
            "MUSTER_TOKEN_FILE": str(token),
            "MUSTER_REPORT_SECONDS": "0",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(world.stored("two")["data"]["report.json"])["step"] == 3


def test_a_wish_for_another_size_ends_verified(world: World) -> None:
    stage = world.other
    chief = account(world.cluster, SPACES[1], "chief", {**CONFIGMAPS, "verbs": ["get", "list", "update"]})
    start_training(stage, "wish", 2, (2, 4), timing="now", cooldown=0, restart_cost=0)
    assert stage.state("wish").allotment == 2

    def refusal() -> str | None:
        """Why it keeps its size."""
        refused = world.caller.ask("POST", "/scale/wish", chief)
        assert refused.status == 409
        return t.cast(str, refused.body["reason"])

    # In its first second nothing is known that a larger size could save.
    wait_until("no room to be the reason", lambda: refusal() == "no_room")
    assert world.caller.ask("POST", "/scale/wish", world.boss).status == 403
    delete(stage.client, resource_path("v1", "configmaps", SPACES[1], "three"))
    wait_until("its pod to be gone", lambda: len(stage.cluster.pods(SPACES[1])) == 2)
    answer = world.caller.ask("POST", "/scale/wish", chief)
    assert (answer.status, answer.body["step"]) == (202, "asked"), answer.body
    address = answer.headers["location"]
    again = world.caller.ask("POST", "/scale/wish", chief)
    assert (again.status, again.headers["location"]) == (202, address)
    stage.run_for(lambda _phases: bool(world.caller.ask("GET", address, chief).body["done"]))
    told = world.caller.ask("GET", address, chief).body
    assert (told["step"], told["from"], told["to"]) == ("verified", 2, 4)
    assert stage.state("wish").allotment == 4
