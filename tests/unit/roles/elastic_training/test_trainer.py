# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file for trainings in processes of its own, against an API server in memory over real HTTP."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import progress_name
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_http import HttpCluster
from ansible_collections.muster.kube.tests.unit.test_memory_elastic import gpus, one_that_runs, running, submit
from ansible_collections.muster.kube.tests.unit.test_memory_progress import is_asked, stored
from ansible_collections.muster.kube.tests.unit.test_memory_quota import state

FOLDER = pathlib.Path(__file__).resolve().parents[4] / "roles/elastic_training/files"
TRAINER = "system:serviceaccount:a:trainer"
LOOP = """
import muster_trainer
for step in range(first, last + 1):
    if muster_trainer.report(step, total=1000):
        print("saving", step)
        muster_trainer.saved(step)
"""
# As the Trainer of transformers calls its callbacks.
CALLBACK = """
import types
import muster_trainer
callback = muster_trainer.MusterCallback(every=2)
args, control = types.SimpleNamespace(), types.SimpleNamespace(should_save=False)
state = types.SimpleNamespace(global_step=0, max_steps=1000, is_world_process_zero=rank == 0)
callback.on_train_begin(args, state, control, model=None)
for step in range(first, last + 1):
    state.global_step = step
    callback.on_step_end(args, state, control, model=None)
    if control.should_save:
        print("saving", step)
        control.should_save = False
        callback.on_save(args, state, control)
"""
ENDS = "callback.on_train_end(args, state, control)"


class Trainings:
    """Starts trainings against a stage."""

    def __init__(self, stage: MemoryStage, folder: pathlib.Path) -> None:
        """The account of the pods may read and change ConfigMaps of its namespace, and no more."""
        self.stage = stage
        self.server = HttpCluster(stage.cluster, {"sesame": TRAINER})
        stage.cluster.denials += [
            Denial(TRAINER, ("list", "watch", "create", "update", "delete"), None, None),
            Denial(TRAINER, None, None, ["b", "muster-system", ""]),
        ]
        self.token = folder / "token"
        self.token.write_text("sesame\n", encoding="utf-8")

    def run(
        self, code: str, first: int = 1, last: int = 5, rank: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """One process with these lines."""
        with self.server.served() as address:
            given = {
                "PYTHONPATH": str(FOLDER),
                "MUSTER_GANG": "one",
                "MUSTER_NAMESPACE": "a",
                "MUSTER_API": address,
                "MUSTER_TOKEN_FILE": str(self.token),
                "MUSTER_REPORT_SECONDS": "0",
                "MUSTER_PAUSE_SECONDS": "0",
                "RANK": str(rank),
                **environment,
            }
            text = f"first, last, rank = {first}, {last}, {rank}\n{code}"
            return subprocess.run(
                [sys.executable, "-I", "-B", "-c", f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\n{text}"],
                env=given,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )


@pytest.fixture(name="stage")
def one_gang() -> t.Iterator[MemoryStage]:
    """A gang of two to ten GPUs that runs with all of them."""
    with one_that_runs(1000) as made:
        yield made


@pytest.fixture(name="trainings")
def some_trainings(stage: MemoryStage, tmp_path: pathlib.Path) -> Trainings:
    """Trainings on it."""
    return Trainings(stage, tmp_path)


def report_of(stage: MemoryStage) -> dict[str, t.Any]:
    """What the trainer wrote last."""
    return t.cast("dict[str, t.Any]", stored(stage, "one")["report.json"])


def test_steps_and_checkpoints_arrive(stage: MemoryStage, trainings: Trainings) -> None:
    done = trainings.run(LOOP + "muster_trainer.saved(last)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    told = report_of(stage)
    assert (told["step"], told["total"], told["checkpoint"]["step"], told["completed"]) == (5, 1000, 5, False)
    stage.run_for(120)
    known = stored(stage, "one")["progress.json"]
    assert (known["seen"]["step"], known["seen"]["size"], known["checkpoints"][-1][1]) == (5, 10, 5)
    path = f"/api/v1/namespaces/a/configmaps/{progress_name('one')}"
    assert {(method, where) for method, where, _user in trainings.server.asked} == {("GET", path), ("PATCH", path)}


@pytest.mark.parametrize("code", [LOOP, CALLBACK], ids=["functions", "callback"])
def test_it_saves_when_a_planned_resize_asks_for_it_and_then_the_resize_is_done(
    stage: MemoryStage, trainings: Trainings, code: str
) -> None:
    submit(stage, "new", 2)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    stage.run_for(30)
    done = trainings.run(code, 10, 30)
    assert done.returncode == 0, done.stderr
    # Once, though it reported many more steps.
    assert len(done.stdout.splitlines()) == 1
    assert stage.run_until(lambda: running(stage, "one", "new"), 120)
    assert gpus(stage) == {"one": 8, "new": 2}
    assert "lost_seconds" not in state(stage, "one")["resize"]
    # The process of the next attempt finds that it was answered.
    assert trainings.run(code, 31, 40).stdout == ""


def test_the_end_is_told(stage: MemoryStage, trainings: Trainings) -> None:
    assert trainings.run(CALLBACK + ENDS, 1, 7).returncode == 0
    assert report_of(stage)["completed"]
    stage.run_for(120)
    assert stored(stage, "one")["progress.json"]["total"] == 7


def test_only_rank_zero_of_a_gang_reports(trainings: Trainings) -> None:
    for code in (LOOP, CALLBACK):
        assert trainings.run(code, rank=1).returncode == 0
        assert trainings.run(code, MUSTER_GANG="").returncode == 0
    assert trainings.server.asked == []


def test_steps_are_reported_now_and_then(trainings: Trainings) -> None:
    assert trainings.run(LOOP, 1, 500, MUSTER_REPORT_SECONDS="3600").returncode == 0
    assert [method for method, _path, _user in trainings.server.asked] == ["GET", "PATCH"]


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, b"{}"), (404, b"{}"), (500, b"oops"), (200, b"no json"), (200, b"[]"), (200, b'{"data": 3}')],
)
def test_no_answer_ends_a_training(trainings: Trainings, status: int, body: bytes) -> None:
    trainings.server.instead = [(status, body)] * 100
    done = trainings.run(LOOP + CALLBACK)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    "damage",
    [
        {"asked.json": '{"save_after": 1' + "0" * 400 + "}"},
        {"asked.json": '{"save_after": NaN}'},
        {"asked.json": '{"save_after": -Infinity}'},
        {"asked.json": '{"a":' * 50_000},
        {"report.json": '{"checkpoint": {"time": 1, "step": 1e400}}'},
        {"report.json": '{"checkpoint": {"time": 1, "step": NaN}}'},
        {"report.json": '{"checkpoint": {"time": Infinity, "step": 1}}'},
        {"report.json": "[" * 50_000},
    ],
    ids=lambda damage: next(iter(damage.values()))[:45],
)
def test_nothing_that_others_wrote_ends_a_training(trainings: Trainings, damage: dict[str, str]) -> None:
    trainings.server.instead = [(200, json.dumps({"data": damage}).encode())] * 100
    done = trainings.run("import muster_trainer\nmuster_trainer.report(1)\nmuster_trainer.saved(1)\n" + LOOP)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_no_server_ends_a_training(trainings: Trainings) -> None:
    done = trainings.run(LOOP + CALLBACK, MUSTER_API="http://127.0.0.1:9")
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert "cannot be reported" in done.stderr
    assert "no pod" in trainings.run(LOOP, MUSTER_API="").stderr


@pytest.mark.parametrize("address", ["http://192.0.2.1:9", "http://[2001:db8::1]:9", "//localhost:9", "localhost:9"])
def test_a_token_is_sent_to_no_other_machine_as_it_is(trainings: Trainings, address: str) -> None:
    done = trainings.run(LOOP, MUSTER_API=address)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert "does not begin with https" in done.stderr


def test_it_cannot_report_for_others(stage: MemoryStage, trainings: Trainings) -> None:
    before = stage.cluster.all("configmaps", "b")
    done = trainings.run(LOOP, MUSTER_NAMESPACE="b")
    assert "HTTP 403" in done.stderr
    assert stage.cluster.all("configmaps", "b") == before


def test_processes_agree_on_when_to_save(trainings: Trainings) -> None:
    code = """
import types
import muster_trainer
class Asked:
    def report(self, step, total):
        return True
for said, expected in ((True, [4, 8]), (False, [])):
    for zero in (True, False):
        told = []
        callback = muster_trainer.MusterCallback(Asked(), every=4, agree=lambda asked: said)
        for step in range(1, 10):
            control = types.SimpleNamespace(should_save=False)
            callback.on_step_end(None, types.SimpleNamespace(global_step=step, is_world_process_zero=zero), control)
            told += [step] * control.should_save
        print(told == expected)
"""
    assert trainings.run(code).stdout.split() == ["True"] * 4


PAUSES = """
import json
import muster_trainer
answers = [json.loads(answer) for answer in ANSWERS]
reporter = muster_trainer.Reporter({"MUSTER_GANG": "one", "MUSTER_PAUSE_SECONDS": "5"})
clock, slept = [1000.0], []
def ask(method, body):
    reporter._offset = 0.0
    if isinstance(answers[0], str):
        raise OSError(answers[0])
    return {"data": {} if answers[0] is None else {"asked.json": json.dumps({"save_after": answers[0]})}}
def sleep(seconds):
    slept.append(seconds)
    clock[0] += seconds
    del answers[: len(answers) > 1]
reporter._ask = ask
muster_trainer.time.monotonic = lambda: clock[0]
muster_trainer.time.sleep = sleep
for step in (10, 20):
    asked = reporter.report(step)
    clock[0] += 1
    reporter.saved(step)
    print(asked, len(slept))
"""


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        # Nobody asks.
        ([None], ["False 0", "False 0"]),
        # Its pod does not end after all; the natural checkpoint that comes next is none that anybody asked for.
        ([1000.5], ["True 5", "False 5"]),
        # It is taken back, and asked for anew.
        ([1000.5, 1000.5, None, 2000], ["True 2", "False 2"]),
        # While it waits it is asked for another one.
        ([1000.5, 1000.5, 1001.5], ["True 2", "True 7"]),
        # Whoever does not answer is not waited for.
        ([1000.5, "the line is cut"], ["True 1", "False 1"]),
    ],
)
def test_it_waits_for_the_end_of_its_pod_after_a_checkpoint_that_was_asked_for(
    trainings: Trainings, answers: list[t.Any], told: list[str]
) -> None:
    done = trainings.run(f"ANSWERS = {[json.dumps(item) for item in answers]!r}{PAUSES}")
    assert done.stdout.splitlines() == told, done.stderr


def test_the_name_is_the_one_that_dispatchers_use(trainings: Trainings) -> None:
    names = ["train", "a" * 237, "a" * 238, "a" * 253]
    code = f"import json, muster_trainer\nprint(json.dumps([muster_trainer.progress_name(n) for n in {names!r}]))"
    assert json.loads(trainings.run(code).stdout) == [progress_name(name) for name in names]
