# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole use case on the small cluster: real processes, a remembering API server."""

from __future__ import annotations

import os
import pathlib
import signal
import time
import types

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import cluster, reconcile
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster_processes import Processes
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import BuiltProgram, Go
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import (
    Layout,
    read_state,
    write_state,
)
from ansible_collections.muster.kube.plugins.module_utils._host.files import exclusive
from ansible_collections.muster.kube.plugins.module_utils._host.processes import (
    find_marked,
    find_process,
    is_alive,
    stop_processes,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
    NodeGroup,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import (
    BadInput,
    MissingLibrary,
    MusterError,
)

NODES = (NodeGroup("node", 2, "8", "1Gi", 110),)
KEYS = {
    "changed",
    "actions",
    "name",
    "kubeconfig",
    "server",
    "version",
    "components",
    "nodes",
    "operators",
    "directory",
    "kubectl",
    "registry",
    "audit_log",
    "real_node",
    "programs",
}


class Bench:
    """Runs the use case."""

    def __init__(self, tmp_path, catalogue_data):
        self.cache = tmp_path / "cache"
        self.files = tmp_path / "files"
        self.files.mkdir()
        self.data = catalogue_data
        self.told = []

    def run(self, name="c", *, state="present", check_mode=False, timeout=60.0, **spec):
        (self.files / "programs.yml").write_text(yaml.safe_dump(self.data))
        spec.setdefault("nodes", NODES)
        request = ClusterOptions(ClusterSpec(name, **spec), self.cache, self.files, timeout, check_mode, state)
        return cluster.run(request, self.told.append)

    def layout(self, name="c"):
        return Layout(self.cache, name)

    def pid(self, component, name="c"):
        return read_state(self.layout(name)).processes[component].pid


@pytest.fixture
def bench(tmp_path, catalogue_data, program_directory, api, client, monkeypatch):
    """The bench; programs are there already and every cluster talks to the same remembering API server."""

    def programs(catalogue, names, *_rest):
        return {name: BuiltProgram(catalogue.programs[name], program_directory) for name in names}

    monkeypatch.setattr(reconcile, "ensure_programs", programs)
    monkeypatch.setattr(reconcile, "find_programs", lambda *args: (Go("go", "1"), list(programs(*args).values())))
    for module in (cluster, reconcile):
        monkeypatch.setattr(module, "connect", lambda *_args, **_kwargs: client)
    made = Bench(tmp_path, catalogue_data)
    yield made
    for path in (made.cache / "clusters").glob("*/cluster.json"):
        stop_processes(find_marked(read_state(made.layout(path.parent.name)).uid), 5)


def test_the_time_of_building_is_not_that_of_waiting(bench, program_directory, monkeypatch):
    unbuilt = program_directory.rename(program_directory.with_name("unbuilt"))
    find, wait, seconds, deadlines = reconcile.ensure_programs, reconcile.wait_ready, [0.0], []

    def build(*arguments):
        unbuilt.rename(program_directory)
        seconds[0] = 1000.0
        return find(*arguments)

    def wait_ready(client, nodes, deadline, report):
        deadlines.append(deadline)
        return wait(client, nodes, deadline, report)

    clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + seconds[0], sleep=time.sleep)
    monkeypatch.setattr(reconcile, "time", clock)
    monkeypatch.setattr(reconcile, "ensure_programs", build)
    monkeypatch.setattr(reconcile, "wait_ready", wait_ready)
    assert "build kubernetes v1.2.3" in bench.run(timeout=60.0)["actions"]
    assert deadlines[0] > time.monotonic() + 1000


def test_a_cluster_is_made_and_a_second_run_changes_and_writes_nothing(bench, api):
    first = bench.run(operators=("ray",))
    assert first["changed"]
    assert set(first) == KEYS | {"diff"}
    assert first["nodes"] == {"count": 2, "ready": 2, "groups": {"node": {"count": 2, "ready": 2}}}
    assert [name for name, item in first["components"].items() if item["running"]] == [
        "etcd",
        "kube-apiserver",
        "kube-scheduler",
        "ray",
    ]
    assert first["diff"]["prepared"].splitlines() == first["actions"]
    state = bench.layout().state.stat()
    api.writes.clear()
    second = bench.run(operators=("ray",))
    assert (second["changed"], second["actions"]) == (False, [])
    assert "diff" not in second
    assert api.writes == []
    assert second["components"] == first["components"]
    assert bench.layout().state.stat().st_ino == state.st_ino


def test_check_mode_tells_the_same_actions_and_does_nothing(bench, api):
    predicted = bench.run(operators=("ray",), check_mode=True)
    assert not bench.cache.exists()
    assert api.writes == []
    made = bench.run(operators=("ray",))
    assert predicted["actions"] == made["actions"]
    assert "write CustomResourceDefinition rayclusters.ray.io" in made["actions"]
    assert predicted["changed"]
    assert set(predicted) == set(made)
    assert bench.run(operators=("ray",), check_mode=True)["changed"] is False


def test_check_mode_sees_changes_of_nodes_operators_and_settings(bench, api):
    bench.run(operators=("ray",))
    api.writes.clear()
    pids = {name: item["pid"] for name, item in bench.run(operators=("ray",))["components"].items()}
    del api.objects["/api/v1/namespaces/ray"]
    nodes = (NodeGroup("node", 1, "4", "1Gi", 110),)
    predicted = bench.run(operators=("ray",), nodes=nodes, feature_gates=(("A", True),), check_mode=True)
    assert predicted["actions"] == [
        "restart etcd with changed settings",
        "restart kube-apiserver with changed settings",
        "write Namespace ray",
        "change node node-0",
        "delete node node-1",
    ]
    assert bench.run(check_mode=True)["actions"] == ["stop ray"]
    assert api.writes == []
    assert {name: item["pid"] for name, item in predicted["components"].items()} == pids
    real = bench.run(operators=("ray",), nodes=nodes, feature_gates=(("A", True),))
    assert real["actions"] == predicted["actions"]


def test_a_component_that_ended_is_restarted_with_the_same_ports(bench):
    first = bench.run()
    ended = read_state(bench.layout("c")).processes["kube-scheduler"]
    os.kill(ended.pid, signal.SIGKILL)
    # A signal is only on its way when kill returns.
    while is_alive(ended):
        time.sleep(0.01)
    repaired = bench.run()
    assert repaired["actions"] == ["restart kube-scheduler, which had ended"]
    assert repaired["components"]["kube-scheduler"]["ports"] == first["components"]["kube-scheduler"]["ports"]
    assert repaired["components"]["etcd"] == first["components"]["etcd"]
    assert bench.run()["changed"] is False


def test_what_a_dead_process_holds_is_deleted_before_the_next_one_starts(bench, api, monkeypatch):
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    scheduler = bench.data["control_plane"][2]
    scheduler["clears"] = [leases]
    bench.run()
    assert ("DELETE", leases) not in api.writes
    api.objects[f"{leases}/node-0"] = {"metadata": {"name": "node-0"}}
    started = []
    start = Processes.start

    def recorded(self, prepared):
        started.append((prepared.spec.name, f"{leases}/node-0" in api.objects))
        start(self, prepared)

    monkeypatch.setattr(Processes, "start", recorded)
    for name in ("kube-apiserver", "kube-scheduler"):
        stop_processes([find_process(bench.pid(name))], 5)
    bench.run()
    assert started == [("kube-apiserver", True), ("kube-scheduler", False)]


def test_check_mode_sees_an_ended_component(bench):
    bench.run()
    process = find_process(bench.pid("etcd"))
    stop_processes([process], 5)
    assert bench.run(check_mode=True)["actions"] == ["restart etcd, which had ended"]
    assert not is_alive(process)


def test_a_new_cluster_that_fails_is_cleaned_up_and_the_log_is_shown(bench):
    bench.data["control_plane"][2]["arguments"].append("--nonsense")
    with pytest.raises(MusterError, match=r"(?s)Cannot start kube-scheduler: it exited.*unknown flag: --nonsense"):
        bench.run()
    assert not bench.layout().directory.exists()
    assert not [path for path in pathlib.Path("/proc").iterdir() if _is_child_of(path, bench.cache)]


def _is_child_of(entry, cache):
    """Whether a process was started for a cluster in this cache."""
    try:
        return entry.name.isdigit() and str(cache).encode() in (entry / "environ").read_bytes()
    except OSError:
        return False


def test_an_existing_cluster_whose_repair_fails_keeps_its_data(bench):
    bench.run()
    scheduler = bench.data["control_plane"][2]["arguments"]
    scheduler.append("--nonsense")
    with pytest.raises(MusterError, match="kube-scheduler"):
        bench.run()
    assert bench.layout().state.exists()
    assert is_alive(find_process(bench.pid("etcd")))
    scheduler.remove("--nonsense")
    assert bench.run()["actions"] == ["restart kube-scheduler, which had ended"]


def test_a_component_that_stays_sick_is_given_up(bench, monkeypatch):
    bench.data["control_plane"][1]["arguments"].append("--sick")
    wait = Processes.wait

    def impatient(self, prepared, deadline):
        wait(self, prepared, 0.0 if prepared.spec.name == "kube-apiserver" else deadline)

    monkeypatch.setattr(Processes, "wait", impatient)
    with pytest.raises(MusterError, match="Cannot start kube-apiserver: not healthy after"):
        bench.run()
    assert not bench.layout().directory.exists()


def test_an_interrupted_start_is_continued(bench, monkeypatch):
    real_start = Processes.start

    def interrupted(self, prepared):
        real_start(self, prepared)
        if prepared.spec.name == "kube-apiserver":
            raise KeyboardInterrupt

    monkeypatch.setattr(Processes, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    monkeypatch.setattr(Processes, "start", real_start)
    pid = bench.pid("etcd")
    continued = bench.run()
    assert continued["actions"][0] == "start kube-scheduler"
    assert continued["components"]["etcd"]["pid"] == pid


def test_a_directory_without_state_is_no_obstacle(bench):
    bench.layout().directory.mkdir(parents=True)
    (bench.layout().directory / "leftover").touch()
    bench.run()
    assert not (bench.layout().directory / "leftover").exists()


def test_absent_stops_and_removes_and_leaves_others_alone(bench):
    bench.run()
    bench.run("other")
    ports = {name: set() for name in ("c", "other")}
    for name, found in ports.items():
        for item in read_state(bench.layout(name)).ports.values():
            found.update(item.values())
    assert not ports["c"] & ports["other"]
    process, neighbor = find_process(bench.pid("etcd")), find_process(bench.pid("etcd", "other"))
    predicted = bench.run(state="absent", check_mode=True)
    assert predicted["changed"]
    assert is_alive(process)
    removed = bench.run(state="absent")
    assert removed["actions"] == predicted["actions"] == ["remove cluster c"]
    assert set(removed) == KEYS | {"diff"}
    assert removed["kubeconfig"] is None
    assert not is_alive(process)
    assert is_alive(neighbor)
    assert not bench.layout().directory.exists()
    assert bench.run(state="absent")["changed"] is False


def test_absent_finds_a_process_whose_id_was_never_written(bench):
    bench.run()
    state = read_state(bench.layout())
    process = find_process(state.processes["etcd"].pid)
    state.processes["etcd"].pid = None
    write_state(bench.layout(), state)
    bench.run(state="absent")
    assert not is_alive(process)


def test_an_operator_that_is_no_longer_wanted_is_stopped(bench, api):
    bench.run(operators=("ray",))
    pid = bench.pid("ray")
    changed = bench.run()
    assert changed["actions"] == ["stop ray"]
    assert find_process(pid) is None
    assert not [name for name in api.objects if "webhook" in name]
    assert changed["operators"] == []
    assert bench.run()["changed"] is False


def test_an_operator_that_the_catalogue_no_longer_has_is_stopped(bench):
    bench.run(operators=("ray",))
    del bench.data["operators"]["ray"]
    assert bench.run(check_mode=True)["actions"] == ["stop ray"]
    assert bench.run()["actions"] == ["stop ray"]
    assert bench.run()["changed"] is False


def test_a_second_run_at_the_same_time_says_who_is_first(bench):
    with (
        exclusive(bench.layout().lock, "cluster c", 1.0, bench.told.append),
        pytest.raises(MusterError, match=rf"cluster c: it is held by process {os.getpid()}"),
    ):
        bench.run(timeout=0.1)


def test_clusters_are_listed_with_their_components(bench):
    assert cluster.describe_clusters(bench.cache, None) == []
    made = bench.run()
    stop_processes([find_process(bench.pid("kube-scheduler"))], 5)
    (found,) = cluster.describe_clusters(bench.cache, None)
    assert set(found) == KEYS - {"changed", "actions"}
    assert found["kubeconfig"] == made["kubeconfig"]
    assert found["nodes"]["ready"] == 2
    assert [item["running"] for item in found["components"].values()] == [True, True, False]
    assert cluster.describe_clusters(bench.cache, "c") == [found]
    assert cluster.describe_clusters(bench.cache, "unknown") == []


def test_a_stopped_cluster_is_listed_without_nodes(bench):
    bench.run()
    stop_processes(find_marked(read_state(bench.layout()).uid), 5)
    (found,) = cluster.describe_clusters(bench.cache, None)
    assert found["nodes"]["count"] == 0


def test_an_existing_cluster_gives_the_same_keys(bench, api):
    api.objects["/version"] = {"gitVersion": "v1.30.0"}
    api.objects["/api/v1/nodes/real"] = {
        "metadata": {"name": "real"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    request = ClusterOptions(ClusterSpec("x"), bench.cache, provider="existing", auth={"kubeconfig": "/k"})
    result = cluster.run(request, bench.told.append)
    assert set(result) == KEYS
    assert (result["changed"], result["version"], result["kubeconfig"]) == (False, "v1.30.0", "/k")
    assert (result["nodes"]["count"], result["nodes"]["ready"]) == (1, 1)
    assert api.writes == []


def test_the_catalogue_must_be_given(bench):
    with pytest.raises(BadInput, match="option files"):
        cluster.run(ClusterOptions(ClusterSpec("x"), bench.cache), bench.told.append)


def test_an_unknown_operator_is_refused_before_anything_happens(bench):
    with pytest.raises(BadInput, match=r"operators\[0\]"):
        bench.run(operators=("rey",))
    assert not bench.cache.exists()


def test_a_program_that_is_no_process_is_shown_when_it_was_asked_for(bench):
    bench.data["programs"]["tool"] = {"module": "x", "version": "v1.0.0", "binaries": {"tool": "x/tool"}}
    assert bench.run(programs=("tool",))["programs"]["tool"]["version"] == "v1.0.0"
    assert "tool" not in bench.run()["programs"]
    with pytest.raises(BadInput, match="'other' is not in the catalogue; known are kubernetes, tool"):
        bench.run(programs=("other",))


@pytest.mark.parametrize("name", ["KUBERNETES", "YAML", "CRYPTOGRAPHY"])
def test_a_missing_package_is_named(monkeypatch, name):
    monkeypatch.setattr(cluster, f"{name}_IMPORT_ERROR", "Traceback")
    with pytest.raises(MissingLibrary, match="(?i)" + name):
        cluster.check_libraries()


def test_an_audit_log_is_begun_shown_and_ended(bench):
    server = bench.data["control_plane"][1]
    server["arguments"] += ["--audit-log-path={audit_log}", "--audit-policy-file={audit_policy}"]
    assert bench.run()["audit_log"] is None
    made = bench.run(audit_log=True)
    assert made["actions"] == ["restart kube-apiserver with changed settings"]
    assert made["audit_log"] == str(bench.layout().directory / "logs" / "audit.log")
    assert cluster.describe_clusters(bench.cache, "c")[0]["audit_log"] == made["audit_log"]
    assert bench.run(audit_log=True)["changed"] is False
    assert bench.run()["audit_log"] is None
    assert '"audit_log"' not in bench.layout().state.read_text()


@pytest.fixture
def with_registry(bench, program_directory, monkeypatch):
    """The catalogue knows a registry, and the distribution ships it under its other name."""
    bench.data["registry"] = {
        "package": "some-registry",
        "binary": "no-such-registry",
        "alternatives": ["serve"],
        "ports": ["http"],
        "arguments": ["--port={port:http}"],
        "health": {"url": "http://127.0.0.1:{port:http}/"},
    }
    monkeypatch.setenv("PATH", f"{program_directory}:{os.environ['PATH']}")
    return bench


def test_a_registry_is_started_shown_and_dropped(with_registry):
    predicted = with_registry.run(registry=True, check_mode=True)
    made = with_registry.run(registry=True)
    assert made["actions"] == predicted["actions"]
    assert made["registry"] == f"127.0.0.1:{made['components']['registry']['ports']['http']}"
    assert with_registry.run(registry=True)["changed"] is False
    assert cluster.describe_clusters(with_registry.cache, "c")[0]["registry"] == made["registry"]
    assert with_registry.run(check_mode=True)["actions"] == ["stop registry"]
    dropped = with_registry.run()
    assert (dropped["actions"], dropped["registry"]) == (["stop registry"], None)
    assert find_process(made["components"]["registry"]["pid"]) is None


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_registry_that_is_not_installed_is_named_with_its_package(with_registry, check_mode):
    with_registry.data["registry"]["alternatives"] = []
    with pytest.raises(MusterError, match=r"no-such-registry \(Debian package some-registry\)"):
        with_registry.run(registry=True, check_mode=check_mode)
    assert not with_registry.layout().directory.exists()


def test_progress_is_told(bench):
    bench.run(operators=("ray",))
    assert bench.told == ["starting etcd", "starting kube-apiserver", "starting kube-scheduler", "starting ray"]
