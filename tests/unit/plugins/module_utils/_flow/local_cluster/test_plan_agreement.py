# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode shows the plan that the next run carries out, however the cluster is found; then nothing is left to do.

Drawn are processes that ended or were never confirmed, nodes and objects that somebody deleted or changed, programs
that must be built again, state files of older versions, runs that were interrupted, and settings that change.
Processes, programs and the machine are replaced; state file, certificates and requests to the API server are real.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import typing as t

import pytest
import yaml
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import (
    cluster,
    cluster_processes,
    reconcile,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.programs import BuiltProgram, Go
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.real_node import RealNode
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import Layout
from ansible_collections.muster.kube.plugins.module_utils._host.distribution_programs import HostPrograms
from ansible_collections.muster.kube.plugins.module_utils._host.processes import Process
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster import plan
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
    NodeGroup,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

SEED = int(os.environ.get("MUSTER_SEED", "1"))
FULL = float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1
COURSES = 30 if FULL else 3
STEPS = 30
NODES = "/api/v1/nodes/"
SERVERS = ("etcd", "kube-apiserver")


def process_entry(name: str, **more: t.Any) -> dict[str, t.Any]:
    """One entry of the catalogue."""
    return {
        "name": name,
        "binary": "serve",
        "ports": ["http"],
        "arguments": ["--port={port:http}"],
        "health": {"url": "http://127.0.0.1:{port:http}/"},
        **more,
    }


class Machine:
    """Processes, programs and the real node, of which only this object knows."""

    def __init__(self, folder: pathlib.Path, api: t.Any, resources: str) -> None:
        self.folder = folder
        self.api = api
        self.resources = resources
        self.alive: dict[Process, str] = {}
        self.leaders: set[Process] = set()
        self.versions: dict[str, int] = {}
        self.bridge = self.address = False
        self.started = 0
        # The number of starts after which a run is interrupted, and a client that ends when its server does.
        self.interrupted_at = 0
        self.fragile = ""

    def start(self, _command: t.Any, _environment: t.Any, _log: t.Any, _uid: str, name: str) -> Process:
        """Start a process; a kubelet registers its node."""
        self.started += 1
        process = Process(self.started, "now")
        self.alive[process] = name
        if self.fragile and name == "kube-apiserver":
            self.kill(self.fragile)
        if self.started == self.interrupted_at:
            raise KeyboardInterrupt
        return process

    def stop(self, processes: t.Iterable[Process], _grace: float) -> None:
        """Stop processes."""
        for process in list(processes):
            self.alive.pop(process, None)

    def kill(self, name: str) -> None:
        """End all processes of a name."""
        self.stop([process for process, other in self.alive.items() if other == name], 0)

    def find(self, catalogue: t.Any, names: t.Iterable[str], *_rest: t.Any) -> tuple[Go, list[BuiltProgram]]:
        """Where programs lie."""
        programs = [catalogue.programs[name] for name in dict.fromkeys(names)]
        return Go("go", "1"), [
            BuiltProgram(program, self.folder / f"{program.name}-{self.versions.get(program.name, 0)}")
            for program in programs
        ]

    def build(self, catalogue: t.Any, names: t.Iterable[str], *_rest: t.Any) -> dict[str, BuiltProgram]:
        """Build programs."""
        found = {item.program.name: item for item in self.find(catalogue, names)[1]}
        for item in found.values():
            item.directory.mkdir(parents=True, exist_ok=True)
            (item.directory / "resources.json").write_text(self.resources)
        return found

    def remove_real_node(self, _layout: Layout, state: t.Any) -> None:
        """Remove the real node."""
        for name in ("kubelet", "containerd"):
            self.kill(name)
            state.processes.pop(name, None)
        self.bridge = self.address = False
        state.real_node = ""

    def register(self, name: str) -> None:
        """Register a node as a kubelet does when it starts."""
        labels = {"muster.kube/node-group": name.removesuffix("-0"), "muster.kube/real": "true"}
        node = {"metadata": {"name": name, "labels": labels}, "kind": "Node", "status": {"capacity": {"cpu": "2"}}}
        node["status"]["allocatable"] = {"cpu": "2"}
        if f"{NODES}{name}" not in self.api.objects:
            self.api._post("/api/v1/nodes", {}, node)


class Course:
    """One cluster and what happens to it, drawn by a seed."""

    def __init__(self, machine: Machine, folder: pathlib.Path, chance: random.Random) -> None:
        self.machine = machine
        self.api = machine.api
        self.files = folder / "files"
        self.layout = Layout(folder / "cache", "c")
        self.chance = chance
        self.spec = self.draw_spec()
        # Whether something happened of which neither the state file nor an API server that is down can tell.
        self.hidden = False
        self.planned: list[t.Any] = []
        self.carried_out: list[t.Any] = []

    def draw_spec(self) -> ClusterSpec:
        """Any wish."""
        draw = self.chance.choice
        group = NodeGroup(
            "node",
            draw((0, 1, 2)),
            draw(("4", "8")),
            "1Gi",
            110,
            extended=draw(((), (("x/gpu", "2"),))),
            labels=draw(((), (("row", "1"),), (("row", "2"),))),
            taints=draw(((), (Taint("k", "NoSchedule", draw(("", "v"))),))),
        )
        real = draw(([], [], [NodeGroup(draw(("real", "other")), 1, "", "", 110, real=True)]))
        return ClusterSpec(
            "c",
            (group, *real),
            operators=draw(((), ("ray",))),
            feature_gates=draw(((), (("A", True),))),
            registry=draw((False, True)),
            component_flags=draw(((), (("kube-scheduler", (("v", "2"),)),))),
            audit_log=draw((False, False, True)),
            services=bool(real) and draw((False, True)),
        )

    def run(self, **options: t.Any) -> dict[str, t.Any]:
        """One task."""
        self.planned.clear()
        self.carried_out.clear()
        return cluster.run(
            ClusterOptions(self.spec, self.layout.cache, self.files, 10.0, **options), lambda _text: None
        )

    def happen(self) -> None:
        """A few things at once."""
        machine, chance = self.machine, self.chance
        for name in sorted(set(machine.alive.values())):
            if chance.random() < 0.15:
                machine.kill(name)
        if chance.random() < 0.1:
            for process in list(machine.alive):
                machine.alive.pop(process)
        if chance.random() < 0.2:
            machine.address = False
            machine.bridge = machine.bridge and chance.random() < 0.5
        events = (self.disturb_nodes, self.disturb_objects, self.edit_state, self.rebuild, self.remove_kubeconfig)
        for event in events:
            if chance.random() < 0.3:
                event()
        if chance.random() < 0.5:
            self.spec = self.draw_spec()
        if chance.random() < 0.2:
            self.interrupt()

    def disturb_nodes(self) -> None:
        """Delete, change and add nodes."""
        self.hidden = True
        for path in [path for path in self.api.objects if path.startswith(NODES)]:
            node = self.api.objects[path]
            what = self.chance.randrange(5)
            if what == 0:
                del self.api.objects[path]
            elif what == 1:
                node["metadata"]["labels"].update({"row": "9", "of-others": "x"})
            elif what == 2:
                node["status"]["allocatable"]["cpu"] = "1"
        if self.chance.random() < 0.3:
            labels = {"muster.kube/node-group": "old"}
            node = {"name": "old-0", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
            self.api.objects.setdefault(f"{NODES}old-0", {"metadata": {**node, "resourceVersion": "1"}})

    def disturb_objects(self) -> None:
        """Delete and change objects of operators."""
        self.hidden = True
        for path in [path for path in self.api.objects if "/nodes/" not in path and "serviceaccounts" not in path]:
            if self.chance.random() < 0.3:
                del self.api.objects[path]
            elif self.chance.random() < 0.3:
                self.api.objects[path]["metadata"].pop("annotations", None)

    def edit_state(self) -> None:
        """Make the state file that of an older version, or of a start that was not confirmed."""
        if not self.layout.state.exists():
            return
        data = json.loads(self.layout.state.read_text())
        if self.chance.random() < 0.5:
            self.hidden = True
            data.pop("nodes", None)
        else:
            for record in data["processes"].values():
                if self.chance.random() < 0.3:
                    record["pid"], record["born"] = None, ""
        self.layout.state.write_text(json.dumps(data))

    def rebuild(self) -> None:
        """Have a program of another version."""
        name = self.chance.choice(("kubernetes", "ray"))
        self.machine.versions[name] = self.machine.versions.get(name, 0) + 1
        # What a program brings is known once it is built.
        self.hidden = True

    def remove_kubeconfig(self) -> None:
        """Delete the kubeconfig, which the next run writes again."""
        self.layout.kubeconfig.unlink(missing_ok=True)

    def interrupt(self) -> None:
        """Let a run be killed in the middle of its starts."""
        self.machine.interrupted_at = self.machine.started + self.chance.choice((1, 2, 5))
        try:
            self.run()
            self.hidden = False
        except KeyboardInterrupt:
            self.hidden = True
        self.machine.interrupted_at = 0

    def asked(self) -> bool:
        """Whether the API server can be asked."""
        return set(SERVERS) <= set(self.machine.alive.values())

    def compare(self) -> None:
        """Compare check mode, the run after it, and the run after that."""
        exact = self.asked() or not self.hidden
        self.machine.fragile = self.chance.choice(("", "", "kube-scheduler"))
        before = dict(self.machine.alive)
        self.api.writes.clear()
        shown = self.run(check_mode=True)
        expected = list(self.planned)
        assert (self.api.writes, self.machine.alive) == ([], before)
        assert shown["actions"] == plan.describe_actions(expected)
        done = self.run()
        assert self.carried_out[: len(expected)] == expected
        assert done["actions"] == plan.describe_actions(self.carried_out)
        if exact and not self.machine.fragile:
            assert done["actions"] == shown["actions"]
        self.machine.fragile = ""
        self.hidden = False
        self.rest()

    def rest(self) -> None:
        """A further run finds nothing to do, and does nothing."""
        self.api.writes.clear()
        state = self.layout.state.stat()
        assert self.run(check_mode=True)["actions"] == []
        again = self.run()
        assert (again["actions"], again["changed"]) == ([], False)
        assert self.api.writes == []
        assert self.layout.state.stat().st_ino == state.st_ino
        assert self.layout.kubeconfig.exists()
        assert all(item["running"] for item in again["components"].values())
        assert set(again["components"]) == {*self.machine.alive.values()}


@pytest.fixture
def course(request, tmp_path, catalogue_data, program_directory, api, client, monkeypatch):
    """A course whose seed is the parameter of the test."""
    machine = Machine(tmp_path / "built", api, (program_directory / "resources.json").read_text())
    catalogue_data["programs"]["ray"] = {"module": "m", "version": "v2", "binaries": {"serve": "m/serve"}}
    catalogue_data["programs"]["pause"] = {"module": "p", "version": "v1", "binaries": {"pause": "p/pause"}}
    catalogue_data["operators"]["ray"]["program"] = "ray"
    registry = process_entry("registry", package="some-registry")
    catalogue_data["registry"] = registry
    catalogue_data["programs"]["forward"] = {"module": "f", "version": "v1", "binaries": {"serve": "f/serve"}}
    catalogue_data["services"] = process_entry("service-forwarder", program="forward")
    kubelet = process_entry("kubelet", program="kubernetes", identity={"user": "system:node:{node}"})
    catalogue_data["real_node"] = [process_entry("containerd", package="containerd"), kubelet]
    made = Course(machine, tmp_path, random.Random(request.param))
    made.files.mkdir()
    (made.files / "programs.yml").write_text(yaml.safe_dump(catalogue_data))
    replace_machine(machine, client, monkeypatch)
    record_actions(made, monkeypatch)
    return made


def replace_machine(machine: Machine, client: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing reach the real one."""
    programs = {name: pathlib.Path("/usr/bin/serve") for name in ("registry", "containerd")}
    host = HostPrograms(programs, {"runc": "/runc"}, "/cni")
    monkeypatch.setattr(cluster, "find_host_programs", lambda *_args: host)
    monkeypatch.setattr(cluster, "check_data_path", lambda _path: None)
    monkeypatch.setattr(cluster, "stop_in_order", lambda processes: machine.stop(processes, 0))
    for name, replacement in {
        "start_process": machine.start,
        "stop_processes": machine.stop,
        "is_running": lambda process: process in machine.alive,
        "find_marked": lambda _uid: dict(machine.alive),
        "is_session_leader": lambda _process: True,
        "is_healthy": lambda *_args: True,
        "wait_healthy": lambda *_args: None,
        "wait_free": lambda *_args: True,
    }.items():
        monkeypatch.setattr(cluster_processes, name, replacement)
    for module in (cluster, reconcile):
        monkeypatch.setattr(module, "connect", lambda *_args, **_kwargs: client)
        monkeypatch.setattr(module, "remove_real_node", machine.remove_real_node)
    monkeypatch.setattr(reconcile, "find_programs", machine.find)
    monkeypatch.setattr(reconcile, "ensure_programs", machine.build)
    monkeypatch.setattr(RealNode, "assign_subnet", lambda self, _report: setattr(self.state, "subnet", "10.213.0.0/24"))
    monkeypatch.setattr(RealNode, "prepare", lambda _self: None)
    monkeypatch.setattr(RealNode, "has_bridge", lambda _self: machine.bridge)
    monkeypatch.setattr(RealNode, "create_bridge", lambda _self: setattr(machine, "bridge", True))
    monkeypatch.setattr(RealNode, "has_service_address", lambda _self: machine.address)
    monkeypatch.setattr(RealNode, "set_service_address", lambda _self, present: setattr(machine, "address", present))
    monkeypatch.setattr(
        RealNode, "ensure_sandbox_image", lambda self, _deadline: machine.register(self.group.node_name(0))
    )


def record_actions(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the course see what is planned and what is carried out."""
    make_plan, carry_out = plan.plan_cluster, reconcile.ClusterRun._carry_out_each

    def recorded_plan(*arguments: t.Any) -> t.Any:
        course.planned[:] = make_plan(*arguments)
        return list(course.planned)

    def recorded_carry_out(self: t.Any, actions: t.Any) -> None:
        carry_out(self, actions)
        course.carried_out.extend(actions)

    monkeypatch.setattr(plan, "plan_cluster", recorded_plan)
    monkeypatch.setattr(reconcile.ClusterRun, "_carry_out_each", recorded_carry_out)


@pytest.mark.parametrize("course", [SEED * 1000 + number for number in range(COURSES)], indirect=True)
def test_check_mode_shows_what_the_next_run_does(course):
    for _step in range(STEPS):
        course.happen()
        course.compare()


@pytest.mark.parametrize("course", [SEED], indirect=True)
@pytest.mark.parametrize("check_mode", [True, False])
def test_a_state_file_of_another_version_is_refused_and_left_alone(course, check_mode):
    course.run()
    data = json.loads(course.layout.state.read_text())
    for change in ({"state_version": 2}, {"later": True}):
        course.layout.state.write_text(json.dumps({**data, **change}))
        alive = dict(course.machine.alive)
        with pytest.raises(MusterError, match="version of the collection"):
            course.run(check_mode=check_mode)
        assert (course.machine.alive, json.loads(course.layout.state.read_text())) == (alive, {**data, **change})


@pytest.mark.parametrize("course", [SEED], indirect=True)
def test_nodes_of_a_stopped_cluster_are_compared_with_those_written_last(course):
    """The API server cannot be asked, yet check mode shows the nodes that the run will write."""
    course.spec = ClusterSpec("c", (NodeGroup("node", 2, "8", "1Gi", 110),))
    course.run()
    course.machine.alive.clear()
    course.spec = ClusterSpec("c", (NodeGroup("node", 1, "4", "1Gi", 110),), operators=("ray",))
    (course.machine.folder / "ray-0").mkdir()
    (course.machine.folder / "ray-0" / "resources.json").write_text(course.machine.resources)
    shown = course.run(check_mode=True)["actions"]
    assert shown[:3] == [f"restart {name}, which had ended" for name in (*SERVERS, "kube-scheduler")]
    assert shown[3:] == [
        "write CustomResourceDefinition rayclusters.ray.io",
        "write Namespace ray",
        "write Secret ray/ray",
        "write ValidatingWebhookConfiguration ray-hooks",
        "start ray",
        "change node node-0",
        "delete node node-1",
    ]
    assert course.run()["actions"] == shown


@pytest.mark.parametrize("course", [SEED], indirect=True)
def test_an_operator_of_an_interrupted_run_is_stopped_when_it_is_not_wanted_any_more(course):
    course.spec = ClusterSpec("c", operators=("ray",))
    course.machine.interrupted_at = 4
    with pytest.raises(KeyboardInterrupt):
        course.run()
    assert "ray" in course.machine.alive.values()
    course.machine.interrupted_at = 0
    course.spec = ClusterSpec("c")
    assert "stop ray" in course.run()["actions"]
    assert "ray" not in course.machine.alive.values()
    assert not [path for path in course.api.objects if "webhook" in path]
