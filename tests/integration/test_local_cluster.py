# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""local_cluster for real: module, role and playbook make clusters, repair them and take them away.

Starting ansible-playbook takes longer than most of what is tested here. So one play shows that tasks do what the use
case does, and the rest calls the use case itself with options as a task has them.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import typing as t

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.modules.local_cluster import FACE
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import cluster as cluster_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import reconcile
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import Layout, read_state
from ansible_collections.muster.kube.plugins.module_utils._host.processes import find_marked, find_process
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import FIELD_MANAGER, create, delete
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
    NodeGroup,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.modules import local_cluster, local_cluster_info
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.play import play_tasks, run_playbook
from ansible_collections.muster.kube.tests.support.real_cluster import reason_to_skip
from ansible_collections.muster.kube.tests.support.shared_cluster import build_programs, built_program

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ROOT / "roles" / "local_cluster" / "files"
CACHE = pathlib.Path(os.environ.get("MUSTER_CACHE") or pathlib.Path.home() / ".cache" / "muster-kube")
NODES = [{"name": "node", "count": 2, "cpu": "8", "memory": "8118372Ki", "extended": {"nvidia.com/gpu": 8}}]
OTHER_NODES = [
    {**NODES[0], "count": 1, "cpu": "9", "labels": {"row": "1"}},
    {"name": "extra", "cpu": "1", "memory": "1Gi", "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
]


class Runner:
    """Runs the module's work on clusters whose names belong to this run."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.names: set[str] = set()

    def play(self, playbook: str | pathlib.Path, *arguments: str) -> str:
        """What one ansible-playbook prints, which must not fail."""
        printed, code = run_playbook(self.directory, playbook, *arguments)
        assert code == 0, printed
        return printed

    def run(self, name: str, *, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """The result of one task, without Ansible around it."""
        self.names.add(name)
        wanted = {"name": name, "cache": str(CACHE), "files": str(FILES), **options}
        checked = ArgumentSpecValidator(FACE.spec).validate(wanted)
        assert not checked.error_messages, checked.error_messages
        request = FACE.options(checked.validated_parameters, check_mode)
        try:
            return {"failed": False, **cluster_flow.run(request, lambda _text: None)}
        except MusterError as error:
            return {"failed": True, **error.as_result()}

    def state(self, name: str):
        """What the cluster remembers."""
        return read_state(Layout(CACHE, name))

    def client(self, name: str):
        """A connection to the cluster."""
        return connect({"kubeconfig": str(Layout(CACHE, name).kubeconfig)})


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """The runner; its clusters are removed at the end."""
    made = Runner(tmp_path_factory.mktemp("play"))
    yield made
    for name in made.names:
        made.run(name, state="absent")


@pytest.fixture(scope="module")
def name(runner):
    """A running cluster with two nodes."""
    own = f"own-{os.getpid()}"
    made = runner.run(own, nodes=NODES)
    assert made["failed"] is False, made["msg"]
    assert made["changed"] is True
    return own


@pytest.fixture(scope="module")
def played(runner, name, tmp_path_factory):
    """What tasks answer about that cluster; none of them changes it."""
    kubeconfig = str(Layout(CACHE, name).kubeconfig)
    options = {"name": name, "nodes": NODES, "cache": str(CACHE)}
    tasks = {
        "here": {"muster.kube.local_cluster": options},
        "there": {"muster.kube.local_cluster": options, "async": 120, "poll": 1},
        "predicted": {"muster.kube.local_cluster": {**options, "nodes": OTHER_NODES}, "check_mode": True},
        "known": {"muster.kube.local_cluster_info": {"name": name, "cache": str(CACHE)}},
        "existing": {"muster.kube.local_cluster": {"name": "other", "provider": "existing", "kubeconfig": kubeconfig}},
    }
    return play_tasks(tmp_path_factory.mktemp("tasks"), tasks)


def written(client) -> dict[str, t.Any]:
    """What the module wrote on everything it manages, and when, by path; controllers go on with the same objects."""
    found = {}
    for api, kind in (
        ("/api/v1", "nodes"),
        ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
        ("/api/v1", "secrets"),
    ):
        for item in list_objects(client, f"{api}/{kind}", keep=lambda item: item["metadata"]).items:
            place = f"/namespaces/{item['namespace']}" if "namespace" in item else ""
            path = f"{api}{place}/{kind}/{item['name']}"
            # Lists leave out who wrote which field.
            metadata = get_object(client, path)["metadata"]
            ours = [entry for entry in metadata["managedFields"] if entry["manager"] == FIELD_MANAGER]
            found[path] = metadata["uid"], ours
    return found


def test_a_second_run_changes_nothing_and_writes_nothing(runner, name):
    client = runner.client(name)
    before, state = written(client), Layout(CACHE, name).state.read_bytes()
    assert all(before[f"/api/v1/nodes/node-{index}"][1] for index in range(2))
    again = runner.run(name, nodes=NODES)
    assert (again["changed"], again["actions"]) == (False, [])
    assert written(client) == before
    assert Layout(CACHE, name).state.read_bytes() == state


def test_the_module_answers_like_the_action_and_both_like_the_use_case(runner, name, played):
    here, module, direct = played["here"], played["there"], runner.run(name, nodes=NODES)
    assert not module["failed"], module
    assert (here["ran"], module["ran"]) == ("in_process", "module")
    assert {key: module[key] for key in here if key != "ran"} == {key: here[key] for key in here if key != "ran"}
    assert {key: here[key] for key in direct} == json.loads(json.dumps(direct))


def test_nodes_are_reconciled(runner, name, played):
    client = runner.client(name)
    predicted = runner.run(name, nodes=OTHER_NODES, check_mode=True)
    assert len(list_objects(client, "/api/v1/nodes", keep=lambda node: node).items) == 2
    changed = runner.run(name, nodes=OTHER_NODES)
    assert (
        changed["actions"]
        == predicted["actions"]
        == played["predicted"]["actions"]
        == ["create node extra-0", "change node node-0", "delete node node-1"]
    )
    node, extra = get_object(client, "/api/v1/nodes/node-0"), get_object(client, "/api/v1/nodes/extra-0")
    assert node["status"]["allocatable"]["cpu"] == "9"
    assert node["metadata"]["labels"]["row"] == "1"
    assert extra["spec"]["taints"] == [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    assert runner.run(name, nodes=NODES)["changed"] is True
    restored = get_object(client, "/api/v1/nodes/node-0")
    assert "row" not in restored["metadata"]["labels"]
    assert get_object(client, "/api/v1/nodes/extra-0") is None


def test_a_component_that_died_is_restarted(runner, name):
    before = runner.run(name, nodes=NODES)["components"]
    os.kill(before["kube-scheduler"]["pid"], signal.SIGKILL)
    wait_until("the scheduler to end", lambda: find_process(before["kube-scheduler"]["pid"]) is None)
    predicted = runner.run(name, nodes=NODES, check_mode=True)
    repaired = runner.run(name, nodes=NODES)
    assert repaired["actions"] == predicted["actions"] == ["restart kube-scheduler, which had ended"]
    assert repaired["components"]["kube-scheduler"]["ports"] == before["kube-scheduler"]["ports"]
    assert repaired["components"]["kube-scheduler"]["pid"] != before["kube-scheduler"]["pid"]
    assert {key: value for key, value in repaired["components"].items() if key != "kube-scheduler"} == {
        key: value for key, value in before.items() if key != "kube-scheduler"
    }


def pod(name: str, **annotations: str) -> dict[str, t.Any]:
    """A small pod."""
    keys = {key.replace("_", "-"): value for key, value in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {f"muster.kube/{key}": value for key, value in keys.items()}},
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "first", "image": "none"}],
            "containers": [{"name": "main", "image": "none"}, {"name": "second", "image": "none"}],
        },
    }


def test_pods_live_as_long_as_their_annotations_say(runner, name):
    client = runner.client(name)
    pods = "/api/v1/namespaces/default/pods"
    create(client, pods, pod("runs"))
    create(client, pods, pod("ends", run_seconds="2"))
    create(client, pods, pod("fails", run_seconds="1", exit_code="3"))
    create(client, pods, pod("fails-at-once", exit_code="4"))

    def phase(item: str) -> str:
        return get_object(client, f"{pods}/{item}")["status"]["phase"]

    expected = {"runs": "Running", "ends": "Succeeded", "fails": "Failed", "fails-at-once": "Failed"}
    wait_until("all pods to be as told", lambda: {item: phase(item) for item in expected} == expected)
    for item, code in (("ends", 0), ("fails", 3), ("fails-at-once", 4)):
        statuses = get_object(client, f"{pods}/{item}")["status"]["containerStatuses"]
        assert [status["state"]["terminated"]["exitCode"] for status in statuses] == [code, code]
    for item in expected:
        delete(client, f"{pods}/{item}")
    wait_until("the pods to go", lambda: not list_objects(client, pods, keep=lambda item: item).items)


def test_jobs_complete_and_deleted_ones_leave_no_pod(runner, name):
    client = runner.client(name)
    jobs, pods = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/pods"
    for job, notes in (("done", {"muster.kube/run-seconds": "1"}), ("stays", {})):
        template = {
            "metadata": {"annotations": notes},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
        }
        spec = {"completions": 2, "parallelism": 2, "podReplacementPolicy": "Failed", "template": template}
        create(client, jobs, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job}, "spec": spec})
    assert wait_until("the job to complete", lambda: get_object(client, f"{jobs}/done")["status"].get("succeeded") == 2)
    assert wait_until(
        "the other to be active", lambda: get_object(client, f"{jobs}/stays")["status"].get("active") == 2
    )
    for job in ("done", "stays"):
        delete(client, f"{jobs}/{job}")
    wait_until("the pods to go", lambda: not list_objects(client, pods, keep=lambda item: item).items)


def test_data_survives_the_death_of_all_and_pods_run_at_once(runner, name):
    client = runner.client(name)
    create(client, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}})
    for process in find_marked(runner.state(name).uid):
        os.kill(process.pid, signal.SIGKILL)
    wait_until("all processes to end", lambda: not find_marked(runner.state(name).uid))
    assert len(runner.run(name, nodes=NODES)["actions"]) == 5
    client, path = runner.client(name), "/api/v1/namespaces/default/pods"
    assert get_object(client, "/api/v1/namespaces/kept") is not None
    create(client, path, pod("later"))
    # The dead simulator's leases on the nodes would have lasted for 40 s.
    wait_until("a pod to run", lambda: get_object(client, f"{path}/later")["status"]["phase"] == "Running", seconds=20)
    delete(client, f"{path}/later")


def test_feature_gates_and_runtime_config_restart_what_they_concern(runner, name):
    switched = runner.run(
        name,
        nodes=NODES,
        feature_gates={"GenericWorkload": True, "GangScheduling": True},
        runtime_config={"scheduling.k8s.io/v1alpha2": True},
        audit_log=True,
    )
    restarted = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    assert switched["actions"] == [f"restart {item} with changed settings" for item in restarted]
    client = runner.client(name)
    assert find_resource(client, "scheduling.k8s.io/v1alpha2", "PodGroup") is not None
    assert find_resource(client, "scheduling.k8s.io/v1alpha2", "Workload") is not None
    for kind in ("ConfigMap", "Secret"):
        word = {"data": {"word": "dGVsbCBub2JvZHk="}}
        obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "audited", "namespace": "default"}, **word}
        create(client, f"/api/v1/namespaces/default/{kind.lower()}s", obj)
    log = pathlib.Path(switched["audit_log"]).read_text(encoding="utf-8")
    events = [json.loads(line) for line in log.splitlines()]
    told = {
        item["objectRef"]["resource"]: item for item in events if (item.get("objectRef") or {}).get("name") == "audited"
    }
    assert told["configmaps"]["responseObject"]["metadata"]["uid"]
    assert (told["secrets"]["verb"], "requestObject" in told["secrets"]) == ("create", False)
    assert runner.run(name, nodes=NODES)["changed"] is True


def test_a_new_cluster_that_fails_is_cleaned_up_and_shows_the_log(runner, tmp_path):
    broken = tmp_path / "files"
    shutil.copytree(FILES, broken)
    catalogue = (broken / "programs.yml").read_text()
    marker = "- name: kube-scheduler"
    at = catalogue.index("arguments:\n", catalogue.index(marker)) + len("arguments:\n")
    (broken / "programs.yml").write_text(catalogue[:at] + "      - --nonsense\n" + catalogue[at:])
    name = f"broken-{os.getpid()}"
    failed = runner.run(name, files=str(broken))
    assert failed["failed"]
    assert failed["error"]["object"] == "kube-scheduler"
    assert "unknown flag: --nonsense" in failed["msg"]
    assert not Layout(CACHE, name).directory.exists()
    assert not _processes_in(Layout(CACHE, name).directory)


def _processes_in(directory: pathlib.Path) -> list[str]:
    """Processes that have anything to do with a directory."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if f"{directory}/" in line:
                found.append(line)
    return found


def test_two_clusters_run_side_by_side_and_absent_removes_one(runner, name):
    second = f"second-{os.getpid()}"
    made = runner.run(second)
    assert made["changed"] is True
    ports = [{port for item in runner.state(one).ports.values() for port in item.values()} for one in (name, second)]
    assert not ports[0] & ports[1]
    assert list_objects(runner.client(second), "/api/v1/nodes", keep=lambda node: node).items == []
    assert len(list_objects(runner.client(name), "/api/v1/nodes", keep=lambda node: node).items) == 2
    removed = runner.run(second, state="absent")
    assert removed["actions"] == [f"remove cluster {second}"]
    assert not Layout(CACHE, second).directory.exists()
    assert not _processes_in(Layout(CACHE, second).directory)
    assert runner.run(second, state="absent")["changed"] is False
    assert runner.run(name, nodes=NODES)["changed"] is False


def test_a_killed_start_is_recovered_by_the_next_run(runner):
    name = f"killed-{os.getpid()}"
    runner.names.add(name)
    code = (
        "import os, signal, sys\n"
        "from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import cluster\n"
        "from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import cluster_processes\n"
        "from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import *\n"
        "real = cluster_processes.start_process\n"
        "def start(command, environment, log, uid, component):\n"
        "    made = real(command, environment, log, uid, component)\n"
        "    if component == 'kube-apiserver': os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return made\n"
        "cluster_processes.start_process = start\n"
        f"request = ClusterOptions(ClusterSpec({name!r}), pathlib.Path({str(CACHE)!r}), pathlib.Path({str(FILES)!r}))\n"
        "cluster.run(request, print)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parents[2])}
    killed = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    leftovers = {component: process.pid for process, component in find_marked(runner.state(name).uid).items()}
    assert set(leftovers) == {"etcd", "kube-apiserver"}
    recovered = runner.run(name)
    assert recovered["changed"] is True
    assert all(item["running"] for item in recovered["components"].values())
    assert recovered["components"]["kube-apiserver"]["pid"] == leftovers["kube-apiserver"]
    assert len(find_marked(runner.state(name).uid)) == 5
    runner.run(name, state="absent")


def test_role_and_playbook_agree_with_the_module(runner, name):
    values = {"local_cluster_name": name, "local_cluster_nodes": NODES}
    for arguments in (["--check"], []):
        printed = runner.play("muster.kube.local_cluster", "-e", json.dumps(values), *arguments)
        assert "changed=0" in printed
        assert f"--kubeconfig {Layout(CACHE, name).kubeconfig} get nodes" in printed


def test_info_agrees_with_the_module(played):
    (found,) = played["known"]["clusters"]
    assert {key: played["here"][key] for key in found if key != "programs"} == {
        key: value for key, value in found.items() if key != "programs"
    }


@pytest.fixture(scope="module")
def kuberay_program():
    """The operator of the examples, built before the test that starts it."""
    build_programs("kuberay")


def examples_of(own: str) -> list[dict[str, t.Any]]:
    """The tasks of the documentation's examples, about a cluster of this name."""
    examples = local_cluster.EXAMPLES.replace("name: example\n", f"name: {own}\n")
    tasks = yaml.safe_load(local_cluster_info.EXAMPLES) + yaml.safe_load(examples)
    asked = [task["muster.kube.local_cluster"]["name"] for task in tasks if "muster.kube.local_cluster" in task]
    assert asked == [own] * 6
    return tasks


def wants_more(task: dict[str, t.Any]) -> bool:
    """Whether an example wants a program that takes minutes to build, or a real node."""
    nodes = task.get("muster.kube.local_cluster", {}).get("nodes", ())
    return "helm" in str(task) or any("real" in group for group in nodes)


def played_examples(runner, own: str, tasks: list[dict[str, t.Any]], site: pathlib.Path) -> str:
    """What a play of these examples tells; nothing of the cluster is left."""
    runner.names.add(own)
    site.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    told = runner.play(site)
    assert not Layout(CACHE, own).directory.exists()
    return told


def test_the_examples_of_the_documentation_work(runner, kuberay_program, tmp_path):
    own = f"example-{os.getpid()}"
    tasks = [task for task in examples_of(own) if not wants_more(task)]
    assert "changed=4" in played_examples(runner, own, tasks, tmp_path / "site.yml")


@pytest.fixture
def helm_program():
    """The program of one of the examples, built before the test that uses it."""
    built_program("helm")


@pytest.mark.full
def test_all_examples_of_the_documentation_work(runner, kuberay_program, helm_program, tmp_path):
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    own = f"example-{os.getpid()}"
    assert "failed=0" in played_examples(runner, own, examples_of(own), tmp_path / "site.yml")


def test_an_existing_cluster_is_only_looked_at(runner, name, played):
    kubeconfig = str(Layout(CACHE, name).kubeconfig)
    found = played["existing"]
    assert (found["changed"], found["kubeconfig"]) == (False, kubeconfig)
    assert found["version"] == runner.state(name).version
    assert (found["nodes"]["count"], found["nodes"]["ready"]) == (2, 2)


@pytest.fixture
def through_proxy(name, tmp_path, monkeypatch):
    """Runs the use case in this process through a proxy that records and can be told to fail."""
    with ApiProxy(Layout(CACHE, name).kubeconfig, tmp_path) as proxy:
        client = connect({"kubeconfig": str(proxy.kubeconfig)})
        monkeypatch.setattr(reconcile, "connect", lambda *_args, **_kwargs: client)

        def run(nodes: tuple[NodeGroup, ...], check_mode: bool = False) -> dict[str, t.Any]:
            request = ClusterOptions(ClusterSpec(name, nodes), CACHE, FILES, 60.0, check_mode)
            return cluster_flow.run(request, lambda _text: None)

        yield proxy, run
        proxy.clear()
        run((group(),))


def group(count: int = 2, **changes: t.Any) -> NodeGroup:
    """The nodes of the module's cluster as a value."""
    values = {"cpu": "8", "memory": "8118372Ki", "pods": 110, "extended": (("nvidia.com/gpu", "8"),), **changes}
    return NodeGroup("node", count, **values)


def test_no_write_request_leaves_when_nothing_is_to_be_done_or_in_check_mode(through_proxy):
    proxy, run = through_proxy
    assert run((group(),))["changed"] is False
    assert run((group(3, cpu="4", labels=(("a", "b"),)),), check_mode=True)["changed"] is True
    assert proxy.requests
    assert_no_writes(proxy)


def test_only_what_differs_is_written(through_proxy):
    proxy, run = through_proxy
    run((group(3, labels=(("a", "b"),)),))
    written = sorted((request.method, request.path) for request in proxy.writes)
    assert written == [("PATCH", "/api/v1/nodes/node-0"), ("PATCH", "/api/v1/nodes/node-1"), ("POST", "/api/v1/nodes")]


def test_a_conflict_is_met_by_looking_again(through_proxy):
    proxy, run = through_proxy
    taints = (Taint("k", "NoSchedule"),)
    proxy.fail(status=409, method="PATCH", path="/api/v1/nodes/node-0$", times=1)
    run((group(taints=taints),))
    patches = [request.status for request in proxy.writes if request.path == "/api/v1/nodes/node-0"]
    assert patches == [409, 200]
    assert run((group(taints=taints),))["changed"] is False


@pytest.mark.parametrize("status", [403, 422, 500])
def test_a_refused_write_names_the_node_and_the_cluster_stays(through_proxy, name, status):
    proxy, run = through_proxy
    proxy.fail(status=status, method="POST", path="/api/v1/nodes$", times=None)
    with pytest.raises(ApiError, match=f"Cannot create Node node-2: .*{status}"):
        run((group(3),))
    proxy.clear()
    assert all(item["running"] for item in run((group(),))["components"].values())


def test_reads_are_tried_again(through_proxy):
    proxy, run = through_proxy
    proxy.fail(status=429, method="GET", path="/api/v1/nodes", times=2)
    proxy.cut(when="before", method="GET", path="/api/v1/nodes", times=1)
    assert run((group(),))["changed"] is False
