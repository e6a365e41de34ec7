# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A training that really runs in a pod: what it is made of, what it has computed so far, and what it should have."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.elastic_stage import GPU
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE, RealCluster
from ansible_collections.muster.kube.tests.support.role_course import Role, RoleCourse

Object = dict[str, t.Any]

COLLECTION = pathlib.Path(__file__).parents[2]
PROGRAM = COLLECTION / "tests/integration/files/small_training.py"
CALLBACK = COLLECTION / "roles/elastic_training/files"
NAME = "train"


@dataclasses.dataclass
class Run:
    """What one start of the training did: its processes, the step it went on with, what it computed and kept."""

    processes: int
    began: int
    steps: list[int] = dataclasses.field(default_factory=list)
    saved: list[int] = dataclasses.field(default_factory=list)


class Training:
    """The gang train in a namespace of the cluster with the real node; its files are in a folder of this machine."""

    def __init__(self, cluster: RealCluster, stage: Stage, folder: pathlib.Path) -> None:
        """Nothing is there yet."""
        self.cluster = cluster
        self.stage = stage
        self.folder = folder / "training"
        self.folder.mkdir()
        self._course = folder / "course"
        self._course.mkdir()

    def install(self) -> None:
        """Have the role bring the file for trainings and the rights to report, and the program beside it."""
        settings = {
            "elastic_training_namespace": self.stage.namespace,
            "elastic_training_accounts": [{"name": "default", "gangs": [NAME]}],
        }
        course = RoleCourse(Role("muster.kube.elastic_training", settings), self.cluster, self._course)
        course.apply("installed")
        course.play()
        data = {PROGRAM.name: PROGRAM.read_text(encoding="utf-8")}
        metadata = {"name": "program", "namespace": self.stage.namespace}
        self.stage.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    def template(self, *, sigterm: str, saves: int, shell: bool = False, grace: int = 30) -> Object:
        """The pod of the training."""
        program = f"/program/{PROGRAM.name}"
        variables = {
            "NGPU": "1",
            "MUSTER_API": self.cluster.client.host,
            "MUSTER_GANG": NAME,
            "MUSTER_PAUSE_SECONDS": "120",
            "MUSTER_REPORT_SECONDS": "0.5",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": "/muster",
            "TRAINING_FOLDER": "/kept",
            "TRAINING_SAVES": str(saves),
            "TRAINING_SECONDS": "0.2",
            "TRAINING_SIGTERM": sigterm,
        }
        container = {
            "name": "pytorch",
            "image": self.cluster.python_image(),
            "command": ["/bin/sh", "-c", f"python3 {program}; exit $?"] if shell else ["python3", program],
            "env": [{"name": name, "value": value} for name, value in variables.items()],
            "resources": {"requests": {GPU: "2"}, "limits": {GPU: "2"}},
            "volumeMounts": [
                {"name": "kept", "mountPath": "/kept"},
                {"name": "muster", "mountPath": "/muster"},
                {"name": "program", "mountPath": "/program"},
            ],
        }
        spec = {
            # Only so a pod reaches an API server that listens on the loopback.
            "hostNetwork": True,
            "nodeSelector": ON_REAL_NODE,
            "terminationGracePeriodSeconds": grace,
            "containers": [container],
            "volumes": [
                {"name": "kept", "hostPath": {"path": str(self.folder), "type": "Directory"}},
                {"name": "muster", "configMap": {"name": "muster-trainer"}},
                {"name": "program", "configMap": {"name": "program"}},
            ],
        }
        return {"spec": spec}

    # What it did.

    def runs(self) -> list[Run]:
        """Each start of the training, in their order."""
        found: list[Run] = []
        log = self.folder / "log"
        for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
            word, *values = line.split()
            if word == "run":
                found.append(Run(*map(int, values)))
            else:
                {"step": found[-1].steps, "saved": found[-1].saved}[word].append(int(values[0]))
        return found

    def wait_for_steps(self, processes: int, starts: int) -> None:
        """Wait until the training, started so often, has done some steps with so many processes."""

        def is_training() -> bool:
            found = self.runs()
            return len(found) >= starts and found[-1].processes == processes and len(found[-1].steps) >= 5

        wait_until(f"steps of {processes} processes", is_training)

    def kill(self) -> int:
        """Kill all processes of its container; which of its starts that was."""
        (pod,) = self.pods()
        uid = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        count = len(self.runs())
        for process in in_container(uid):
            # All end with the first one.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        wait_until("the container to be started again", lambda: len(self.runs()) > count)
        return count - 1

    def pods(self) -> list[Object]:
        """Its pods that are to go on."""
        return [pod for pod in self.stage.pods() if pod["metadata"]["name"].startswith(f"{NAME}-")]

    def end(self) -> int:
        """Say that it ends a while from now; after which step."""
        last = max(step for run in self.runs() for step in run.steps) + 30
        draft = self.folder / "last.draft"
        draft.write_text(str(last), encoding="utf-8")
        draft.rename(self.folder / "last")
        return last

    def result(self) -> str:
        """Steps and weights at the end."""
        return (self.folder / "result.json").read_text(encoding="utf-8")


def in_container(uid: str) -> list[int]:
    """The processes of a container."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            lines = (entry / "cgroup").read_text(encoding="utf-8").splitlines() if entry.name.isdigit() else []
        except OSError:
            continue
        if any(line.endswith(f"/{uid}") for line in lines):
            found.append(int(entry.name))
    return found


def undisturbed(last: int, folder: pathlib.Path) -> str:
    """Steps and weights of the same training in one process that nobody disturbs."""
    folder.mkdir()
    (folder / "last").write_text(str(last), encoding="utf-8")
    environment = {
        "NGPU": "1",
        "PYTHONPATH": str(CALLBACK),
        "TRAINING_FOLDER": str(folder),
        "TRAINING_SAVES": "1000000",
        "TRAINING_SECONDS": "0",
        "TRAINING_SIGTERM": "end",
    }
    subprocess.run([sys.executable, "-B", PROGRAM], env=environment, check=True, stdin=subprocess.DEVNULL)
    return (folder / "result.json").read_text(encoding="utf-8")


def give_gpus(cluster: RealCluster, count: int | None) -> None:
    """Have the real node offer so many simulated GPUs; None for none any more."""
    amounts = {GPU: None if count is None else str(count)}
    path = f"{resource_path('v1', 'nodes', name=cluster.node)}/status"
    patch(cluster.client, path, {"status": {"capacity": amounts, "allocatable": amounts}})
