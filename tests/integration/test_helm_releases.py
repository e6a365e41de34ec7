# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Releases of the real helm: made once, put right, upgraded, finished after a death anywhere, and taken away."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import http.server
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.chart import located_chart
from ansible_collections.muster.kube.plugins.module_utils._flow.component.sources.helm_plan import plan_release
from ansible_collections.muster.kube.plugins.module_utils._host.processes import find_process
from ansible_collections.muster.kube.plugins.module_utils._host.yaml_text import load_yaml
from ansible_collections.muster.kube.plugins.module_utils._kube.helm.releases import (
    find_releases,
    list_revisions,
    read_whole,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_release import HelmMark
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, Recorded, Rule, assert_no_writes
from ansible_collections.muster.kube.tests.support.helm_charts import (
    PACKAGE,
    RELEASE,
    HelmRuns,
    open_runs,
    write_chart,
)
from ansible_collections.muster.kube.tests.support.live_cluster import DEADLINE, wait_until
from ansible_collections.muster.kube.tests.support.shared_cluster import built_program

pytestmark = pytest.mark.full
SECRET = {"password": "hunter22-of-the-gadget"}


@pytest.fixture(scope="module")
def helm() -> str:
    """The path of helm."""
    return str(built_program("helm") / "helm")


@pytest.fixture
def chart(tmp_path: pathlib.Path) -> pathlib.Path:
    """The chart."""
    return write_chart(tmp_path)


@pytest.fixture
def runs(cluster: t.Any, namespace: str, helm: str, chart: pathlib.Path) -> HelmRuns:
    """Runs in a namespace of the test's own."""
    return open_runs(cluster.kubeconfig, helm, chart, namespace)


def read(runs: HelmRuns, plural: str, name: str, api: str = "v1") -> t.Any:
    """An object of the test's namespace."""
    return get_object(runs.client, resource_path(api, plural, runs.namespace, name))


def change(runs: HelmRuns, plural: str, name: str, api: str, what: t.Any) -> None:
    """Change an object as somebody by hand."""
    path = resource_path(api, plural, runs.namespace, name)
    patch(runs.client, path, what, patch_type="merge", field_manager="somebody")


def statuses(runs: HelmRuns) -> list[str]:
    """The statuses of all revisions."""
    return [item.status for item in list_revisions(runs.client, runs.namespace, RELEASE)]


def versions(runs: HelmRuns) -> dict[str, str]:
    """The resourceVersions of all that the release has in its namespace."""
    found = {}
    for api, plural in (("v1", "configmaps"), ("v1", "secrets"), ("helm.example.com/v1", "gadgets")):
        path = resource_path(api, plural, runs.namespace)
        for item in list_objects(runs.client, path, keep=lambda obj: obj["metadata"]).items:
            found[f"{plural} {item['name']}"] = item["resourceVersion"]
    return found


def test_a_release_is_made_once_and_a_second_run_writes_nothing(cluster, runs, tmp_path):
    foretold = runs.plan(SECRET, size=2)
    assert foretold.decision.action == "installed"
    assert statuses(runs) == []
    assert runs.run(SECRET, size=2) == "installed"
    release = read_whole(runs.client, list_revisions(runs.client, runs.namespace, RELEASE)[-1])
    assert (release.chart, release.chart_version, release.app_version) == ("gadget", "1.2.3", "9")
    assert release.values == {"size": 2, **SECRET}
    assert release.revision.mark == foretold.mark
    # A chart may ask for the kinds that it defines itself.
    assert read(runs, "configmaps", "settings")["data"] == {"size": "2", "kinds": "true", "text": "a line\n"}
    before = versions(runs)
    (tmp_path / "proxy").mkdir()
    with ApiProxy(cluster.kubeconfig, tmp_path / "proxy") as proxy:
        again = open_runs(str(proxy.kubeconfig), runs.helm.program.path, runs.chart, runs.namespace)
        assert again.run(SECRET, size=2) == "unchanged"
        assert proxy.requests
        assert_no_writes(proxy)
    assert versions(runs) == before


def test_an_upgrade_writes_one_revision_runs_hooks_and_removes_what_went(runs):
    runs.run(size=1, extra=True)
    hook = read(runs, "configmaps", "hooked")
    assert hook["data"] == {"upgrade": "false"}
    assert runs.run(size=3) == "upgraded"
    assert statuses(runs) == ["superseded", "deployed"]
    assert read(runs, "deployments", "operator", "apps/v1")["spec"]["replicas"] == 3
    assert read(runs, "configmaps", "extra") is None
    again = read(runs, "configmaps", "hooked")
    assert (again["data"], again["metadata"]["uid"] == hook["metadata"]["uid"]) == ({"upgrade": "true"}, False)
    assert runs.run(size=3) == "unchanged"
    # No values at all are those of the chart, and not those of before.
    assert runs.run() == "upgraded"
    assert read(runs, "deployments", "operator", "apps/v1")["spec"]["replicas"] == 1
    assert runs.run() == "unchanged"


@pytest.mark.parametrize(
    ("plural", "name", "api", "what", "revisions"),
    [
        ("deployments", "operator", "apps/v1", {"spec": {"replicas": 7}}, 2),
        ("configmaps", "settings", "v1", {"data": {"size": None}}, 2),
        ("configmaps", "settings", "v1", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}}, 2),
        ("gadgets", "one", "helm.example.com/v1", {"spec": {"size": 7}}, 1),
        ("gadgets", "one", "helm.example.com/v1", None, 2),
        ("configmaps", "settings", "v1", None, 2),
    ],
)
def test_what_was_changed_by_hand_is_put_right(runs, plural, name, api, what, revisions):
    runs.run()
    wanted = read(runs, plural, name, api)
    if what is None:
        delete(runs.client, resource_path(api, plural, runs.namespace, name))
    else:
        change(runs, plural, name, api, what)
    assert runs.plan().decision.action == "repaired"
    assert runs.run() == "repaired"
    found = read(runs, plural, name, api)
    for part in ("spec", "data"):
        assert found.get(part) == wanted.get(part)
    assert found["metadata"]["labels"] == wanted["metadata"]["labels"]
    assert len(statuses(runs)) == revisions
    assert runs.run() == "unchanged"


def test_what_a_chart_makes_anew_or_looks_up_is_no_reason_to_upgrade(runs):
    assert runs.run(looked=True) == "installed"
    kept = read(runs, "secrets", "looked")["data"]
    assert runs.run(looked=True) == "unchanged"
    assert runs.run(looked=True, size=2) == "upgraded"
    assert read(runs, "secrets", "looked")["data"] == kept
    assert runs.run(looked=True, size=2) == "unchanged"


class Running(t.NamedTuple):
    """A run in a process of its own, and the helm that it has started."""

    process: subprocess.Popen
    helm: int


def find_helm(namespace: str) -> int | None:
    """The process of a helm that writes in a namespace."""
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if words[1:2] in ([b"upgrade"], [b"uninstall"]) and namespace.encode() in words:
                return int(entry.name)
    return None


@contextlib.contextmanager
def halfway(cluster: t.Any, runs: HelmRuns, count: int, **values: t.Any) -> t.Iterator[Running]:
    """A run whose helm waits for a hook that never ends."""
    told = {"kubeconfig": cluster.kubeconfig, "helm": runs.helm.program.path, "chart": str(runs.chart)}
    told.update(namespace=runs.namespace, secret=SECRET, values={"slow": True, **values})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen([sys.executable, "-m", PACKAGE], stdin=subprocess.PIPE, env=environment) as process:
        process.stdin.write(json.dumps(told).encode())
        process.stdin.close()
        try:

            def waits() -> bool:
                assert process.poll() is None, "it ended by itself"
                return len(statuses(runs)) == count and read(runs, "jobs", "slow", "batch/v1") is not None

            wait_until("helm to wait for its hook", waits)
            helm = find_helm(runs.namespace)
            assert helm is not None
            yield Running(process, helm)
        finally:
            process.kill()
            process.wait(DEADLINE)
            wait_until("helm to be gone", lambda: find_helm(runs.namespace) is None)


def text_in_processes(text: str) -> list[str]:
    """Where a text is to be seen in arguments and environments of processes."""
    found = []
    # Processes come and go meanwhile.
    for entry in os.listdir("/proc"):
        for path in (pathlib.Path("/proc", entry, name) for name in ("cmdline", "environ") if entry.isdigit()):
            with contextlib.suppress(OSError):
                found += [str(path)] if text.encode() in path.read_bytes() else []
    return found


@pytest.mark.parametrize("before", [0, 1], ids=["install", "upgrade"])
@pytest.mark.parametrize("dies", ["helm", "run"])
def test_whatever_is_killed_the_next_run_finishes(cluster, runs, dies, before):
    if before:
        runs.run(SECRET)
    with halfway(cluster, runs, before + 1, size=2, extra=True) as running:
        assert text_in_processes(SECRET["password"]) == []
        os.kill(running.helm if dies == "helm" else running.process.pid, signal.SIGKILL)
        assert running.process.wait(DEADLINE) != 0
        wait_until("helm to be gone", lambda: find_process(running.helm) is None)
    assert statuses(runs)[-1] == ("pending-upgrade" if before else "pending-install")
    assert runs.plan(SECRET, size=3).decision.action == ("upgraded" if before else "installed")
    runs.run(SECRET, size=3)
    assert statuses(runs) == ["superseded", "deployed"][1 - before :]
    assert read(runs, "deployments", "operator", "apps/v1")["spec"]["replicas"] == 3
    # What only the unfinished revision asked for is gone.
    assert read(runs, "configmaps", "extra") is None
    assert runs.run(SECRET, size=3) == "unchanged"


def test_an_unfinished_release_can_be_taken_away(cluster, runs):
    runs.run(SECRET, extra=True)
    with halfway(cluster, runs, 2):
        pass
    assert statuses(runs) == ["deployed", "pending-upgrade"]
    assert runs.remove() == "removed"
    assert statuses(runs) == []
    for plural, name, api in (("configmaps", "extra", "v1"), ("deployments", "operator", "apps/v1")):
        assert read(runs, plural, name, api) is None
    assert runs.remove() == "unchanged"


class DeadlyProxy(ApiProxy):
    """A way to the API server on which helm dies over one of its writes, before the server hears of it or after."""

    namespace, when = "", "before"
    # How many writes helm lives for; None for all.
    left: int | None = None

    def record(self, request: Recorded) -> Rule | None:
        """Note a request, and kill who sent it when it is the one."""
        rule = super().record(request)
        if not request.write or self.left is None:
            return rule
        self.left -= 1
        if self.left != 0:
            return rule
        pid = find_helm(self.namespace)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until("helm to be gone", lambda: find_process(pid) is None)
        return Rule(None, re.compile(""), 1, None, cut="before") if self.when == "before" else rule


def deaths(runs: HelmRuns, proxy: DeadlyProxy, course: str) -> t.Iterator[int]:
    """Each write of an install, an upgrade or a removal at which helm died; the release is gone before each."""
    deadly = dataclasses.replace(
        runs.helm, kubeconfig=lambda: load_yaml(proxy.kubeconfig.read_bytes(), "kubeconfig")[0]
    )
    doomed = dataclasses.replace(runs, helm=deadly)
    for number in itertools.count(1):
        runs.remove()
        if course != "install":
            runs.run(SECRET)
        proxy.left = number
        try:
            doomed.remove() if course == "removal" else doomed.run(SECRET, size=2, extra=True)
        except MusterError as error:
            if "signal 9" not in str(error):
                raise
            # What was on its way when helm died may arrive at any time; here it has.
            wait_until("the last write to arrive", lambda: proxy.writes[-1].status is not None)
            yield number
        else:
            return
        finally:
            proxy.left = None


@pytest.mark.parametrize("course", ["install", "upgrade", "removal"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_helm_that_dies_over_any_write_is_followed_by_a_run_that_finishes(cluster, runs, tmp_path, course, when):
    (tmp_path / "proxy").mkdir()
    points = []
    with DeadlyProxy(cluster.kubeconfig, tmp_path / "proxy") as proxy:
        proxy.namespace, proxy.when = runs.namespace, when
        for number in deaths(runs, proxy, course):
            points.append(number)
            if course == "removal":
                runs.remove()
                assert statuses(runs) == []
                assert read(runs, "configmaps", "settings") is None
                continue
            runs.run(SECRET, size=3)
            found = statuses(runs)
            assert (found[-1], found.count("deployed")) == ("deployed", 1)
            assert not any(status.startswith("pending") for status in found)
            assert read(runs, "deployments", "operator", "apps/v1")["spec"]["replicas"] == 3
            assert read(runs, "configmaps", "extra") is None
            assert read(runs, "configmaps", "hooked") is not None
            assert runs.run(SECRET, size=3) == "unchanged"
    assert len(points) >= 6


@contextlib.contextmanager
def repository(directory: pathlib.Path) -> t.Iterator[str]:
    """A repository of what lies in a directory."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_chart_is_fetched_from_a_repository_and_its_digest_is_checked(runs, tmp_path):
    shelf = tmp_path / "shelf"
    for words in (["package", str(runs.chart), "--destination", str(shelf)], ["repo", "index", str(shelf)]):
        command = [runs.helm.program.path, *words]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    [archive] = shelf.glob("*.tgz")
    digest = f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
    with repository(shelf) as address:
        source = dataclasses.replace(runs.source({}, {}), chart="gadget", repository=address, version="1.2.3")
        with located_chart(runs.helm, dataclasses.replace(source, digest=digest)) as chart:
            assert (chart.name, chart.version, chart.digest) == ("gadget", "1.2.3", digest)
            assert plan_release(runs.client, runs.helm, chart, source).decision.action == "installed"
        for wrong, words in (
            ({"digest": f"sha256:{'0' * 64}"}, f"its digest is {digest} and not sha256:0"),
            ({"version": "9.9.9"}, "Cannot fetch chart gadget: "),
        ):
            with (
                pytest.raises(MusterError, match=words),
                located_chart(runs.helm, dataclasses.replace(source, **wrong)),
            ):
                pass
    packed = dataclasses.replace(runs, chart=archive)
    assert packed.run() == "installed"
    assert runs.run() == "unchanged"


def by_hand(runs: HelmRuns, *arguments: str) -> subprocess.CompletedProcess:
    """Helm as somebody calls it."""
    config = runs.chart.parent / "by-hand.kubeconfig"
    config.write_text(json.dumps(runs.client.kubeconfig()), encoding="utf-8")
    command = [runs.helm.program.path, *arguments, "--namespace", runs.namespace, "--kubeconfig", str(config)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)


def test_a_release_of_somebody_else_is_named_with_its_version_and_left_as_it_is(runs):
    by_hand(runs, "install", RELEASE, str(runs.chart))
    before = versions(runs)
    plan = runs.plan(size=2)
    assert (plan.decision.action, plan.release.chart_version) == ("found", "1.2.3")
    for action in (lambda: runs.run(size=2), runs.remove):
        with pytest.raises(MusterError, match=f"the release {runs.namespace}/{RELEASE} is of somebody else"):
            action()
    assert versions(runs) == before
    found = find_releases(runs.client, runs.namespace).releases
    assert (runs.namespace, "gadget") in [(item.revision.namespace, item.chart) for item in found]


def test_an_object_of_another_release_is_named_and_left_as_it_is(runs):
    by_hand(runs, "install", "other", str(runs.chart))
    before = versions(runs)
    plan = runs.plan()
    assert plan.decision.action == "found"
    assert f"ConfigMap {runs.namespace}/settings is of the helm release {runs.namespace}/other" in plan.decision.words
    with pytest.raises(MusterError, match="is of the helm release"):
        runs.run()
    assert versions(runs) == before


def test_what_somebody_did_to_our_release_by_hand_is_put_back(runs):
    runs.run()
    by_hand(runs, "upgrade", RELEASE, str(runs.chart), "--set", "size=5")
    assert runs.run() == "upgraded"
    assert read(runs, "deployments", "operator", "apps/v1")["spec"]["replicas"] == 1
    by_hand(runs, "rollback", RELEASE, "2")
    assert runs.run() == "upgraded"
    assert runs.run() == "unchanged"


def test_a_failed_run_tells_why_without_secrets_and_is_tried_again(runs):
    with pytest.raises(MusterError) as told:
        runs.run(SECRET, needed="x")
    assert "(not shown) is not to be seen" in str(told.value)
    assert SECRET["password"] not in str(told.value)
    assert statuses(runs) == []
    source = runs.source({"slow": True}, {})
    with pytest.raises(MusterError, match=r"Cannot install release .*: .*failed post-install"):
        runs.helm.upgrade(str(runs.chart), source, HelmMark("gadgets", "x", 1), 2)
    assert statuses(runs) == ["failed"]
    assert runs.run() == "installed"
    assert statuses(runs) == ["deployed"]


def test_a_render_asks_the_server_and_takes_nothing_else_for_granted(runs):
    plan = runs.plan()
    assert [change.obj["kind"] for change in plan.first] == ["CustomResourceDefinition"]
    kinds = [change.obj["kind"] for change in plan.changes]
    assert sorted(kinds) == ["ConfigMap", "Deployment", "Gadget", "Secret"]
    assert [hook["metadata"]["name"] for hook in plan.render.hooks] == ["hooked"]
