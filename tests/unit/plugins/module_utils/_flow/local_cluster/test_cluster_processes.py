# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes: ports that stay, fingerprints that tell a change, recovery after an interruption."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
import time

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import cluster_processes
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import (
    build_catalogue,
    read_catalogue,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import ensure_certificates
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster_processes import (
    Processes,
    stop_in_order,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import (
    ClusterState,
    Layout,
    ProcessRecord,
    read_state,
    write_state,
)
from ansible_collections.muster.kube.plugins.module_utils._host.processes import (
    Process,
    find_marked,
    is_alive,
    start_process,
    stop_processes,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import ClusterSpec
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError


@pytest.fixture
def catalogue(catalogue_data, tmp_path):
    """The small catalogue, with one program that waits for a marker file."""
    catalogue_data["control_plane"][2]["markers"] = [str(tmp_path / "outside" / "deep" / "tls.crt")]
    return build_catalogue(catalogue_data)


@pytest.fixture
def processes(tmp_path, catalogue):
    """The processes of a cluster; whatever they started is ended."""
    layout = Layout(tmp_path / "cache", "c")
    state = ClusterState.new("c")
    made = Processes(layout, state, ClusterSpec("c"), tmp_path, lambda _text: None)
    made.assign_ports(catalogue.control_plane)
    ensure_certificates(layout, catalogue.control_plane)
    yield made
    stop_processes(find_marked(state.uid), 5)


def prepare(processes, catalogue, directory):
    return [processes.prepare(component, directory) for component in catalogue.control_plane]


@pytest.mark.parametrize("services", [False, True])
def test_webhooks_are_called_at_the_addresses_of_pods_when_there_are_services(processes, services):
    real = read_catalogue(pathlib.Path(__file__).resolve().parents[6] / "roles" / "local_cluster" / "files")
    [server] = [process for process in real.control_plane if process.name == "kube-apiserver"]
    processes.assign_ports(real.control_plane)
    processes.spec = ClusterSpec("c", services=services)
    command = processes.prepare(server, pathlib.Path("/programs")).command
    assert [text for text in command if "aggregator" in text] == ["--enable-aggregator-routing=true"] * services


def test_ports_are_chosen_once(processes, catalogue):
    before = {name: dict(ports) for name, ports in processes.state.ports.items()}
    processes.assign_ports(catalogue.processes(ClusterSpec("c", operators=("ray",))))
    after = processes.state.ports
    assert {name: after[name] for name in before} == before
    assert set(after["ray"]) == {"health", "webhook"}
    assert len({port for ports in after.values() for port in ports.values()}) == 5


def test_all_processes_start_and_are_described(processes, catalogue, program_directory):
    processes.start_all(prepare(processes, catalogue, program_directory), time.monotonic() + 60)
    shown = processes.describe()
    assert list(shown) == ["etcd", "kube-apiserver", "kube-scheduler"]
    assert all(item["running"] and item["pid"] for item in shown.values())
    assert read_state(processes.layout) == processes.state
    configuration = processes.layout.configuration
    assert (configuration / "scheduler.yaml").read_text() == f"server: {processes.state.server()}\n"
    assert processes.state.server() in (configuration / "kube-scheduler.kubeconfig").read_text()


def test_marker_files_are_there_only_while_programs_start(processes, catalogue, program_directory, tmp_path):
    marker = tmp_path / "outside" / "deep" / "tls.crt"
    prepared = prepare(processes, catalogue, program_directory)
    with processes.markers(prepared):
        assert marker.exists()
    assert not (tmp_path / "outside").exists()
    marker.parent.mkdir(parents=True)
    marker.write_text("of somebody else")
    with processes.markers(prepared):
        assert marker.read_text() == "of somebody else"
    assert marker.exists()


def test_a_component_is_running_outdated_stopped_or_absent(processes, catalogue, program_directory):
    etcd = catalogue.control_plane[0]
    assert processes.condition(etcd, program_directory) == "absent"
    prepared = processes.prepare(etcd, program_directory)
    processes.start(prepared)
    assert processes.condition(etcd, program_directory) == "running"
    processes.spec = ClusterSpec("c", feature_gates=(("A", True),))
    assert processes.condition(etcd, program_directory) == "outdated"
    assert processes.condition(etcd, program_directory / "rebuilt") == "outdated"
    processes.spec = ClusterSpec("c", component_flags=(("etcd", (("v", "2"),)),))
    assert processes.condition(etcd, program_directory) == "outdated"
    stop_processes([processes.process("etcd")], 5)
    assert processes.condition(etcd, program_directory) == "stopped"


def test_a_port_that_somebody_took_is_named(processes, catalogue, program_directory, monkeypatch):
    monkeypatch.setattr(cluster_processes, "PORT_SECONDS", 0.1)
    port = processes.state.ports["etcd"]["secure"]
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        with pytest.raises(MusterError, match=f"Cannot start etcd: its secure port {port} is in use"):
            processes.start(processes.prepare(catalogue.control_plane[0], program_directory))


def test_a_start_that_was_interrupted_before_the_pid_was_written_is_adopted(processes, catalogue, program_directory):
    prepared = processes.prepare(catalogue.control_plane[0], program_directory)
    log = processes.layout.log("etcd")
    processes.state.processes["etcd"] = ProcessRecord(prepared.fingerprint, str(log))
    write_state(processes.layout, processes.state)
    process = start_process(prepared.command, {}, log, processes.state.uid, "etcd")
    while process not in find_marked(processes.state.uid):
        assert is_alive(process)
    stop_in_order(dict.fromkeys(processes.adopt(), ""))
    assert processes.process("etcd") == process
    assert processes.condition(catalogue.control_plane[0], program_directory) == "running"


def test_a_process_that_no_record_knows_is_stopped_and_recorded_ones_are_not(processes, catalogue, program_directory):
    processes.start(processes.prepare(catalogue.control_plane[0], program_directory))
    stray = start_process(["sleep", "60"], {}, processes.layout.log("x"), processes.state.uid, "etcd")
    other = start_process(["sleep", "60"], {}, processes.layout.log("x"), "another-cluster", "etcd")
    while stray not in find_marked(processes.state.uid):
        assert is_alive(stray)
    stop_in_order(dict.fromkeys(processes.adopt(), ""))
    assert not is_alive(stray)
    assert is_alive(other)
    assert processes.process("etcd") is not None
    stop_processes([other], 5)


def test_clients_stop_before_the_api_server_and_that_before_its_store(monkeypatch):
    stopped = []
    monkeypatch.setattr(cluster_processes, "stop_processes", lambda processes, _grace: stopped.append(list(processes)))
    etcd, server, client, other = (Process(number, "x") for number in range(4))
    stop_in_order({etcd: "etcd", server: "kube-apiserver", client: "kube-scheduler", other: "kwok"})
    assert stopped == [[client, other], [server], [etcd]]


def test_stopping_forgets_the_process(processes, catalogue, program_directory):
    processes.start(processes.prepare(catalogue.control_plane[0], program_directory))
    process = processes.process("etcd")
    processes.stop("etcd")
    processes.stop("never-started")
    assert not is_alive(process)
    assert processes.describe() == {}


def test_a_child_of_a_component_is_not_taken_for_a_stray(processes, tmp_path):
    variables = {"MUSTER_LOCAL_CLUSTER": processes.state.uid, "MUSTER_LOCAL_COMPONENT": "containerd"}
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=variables)
    stray = start_process(["sleep", "60"], {}, tmp_path / "log", processes.state.uid, "containerd")
    deadline = time.monotonic() + 60
    while len(find_marked(processes.state.uid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    stop_in_order(dict.fromkeys(processes.adopt(), ""))
    assert child.poll() is None
    assert not is_alive(stray)
    child.communicate(b"\n")
