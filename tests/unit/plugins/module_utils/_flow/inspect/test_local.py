# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The local engine with a stand-in for podman: what it is called with, what is made of its answers, what is kept."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect import local
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support.frames import framed
from ansible_collections.muster.kube.tests.support.inspector import terms_of

# Notes its arguments, and answers as the files beside it say.
STAND_IN = """#!{python} -IS
import json, pathlib, sys, time
place = pathlib.Path({place!r})
arguments = sys.argv[1:]
with (place / "calls").open("a") as calls:
    calls.write(json.dumps(arguments) + "\\n")
if arguments[:2] == ["image", "inspect"]:
    if not (place / "image").exists():
        sys.exit(1)
    print((place / "image").read_text())
elif arguments[0] == "pull":
    print("no such image", file=sys.stderr)
    sys.exit(125)
elif arguments[:2] == ["container", "inspect"]:
    if not (place / "started").exists():
        sys.exit(125)
    print((place / "started").read_text())
elif arguments[0] == "stop":
    (place / "stopped").write_text("")
elif arguments[0] == "run" and (place / "slow").exists():
    time.sleep(2)
    (place / "started").write_text(str(time.time_ns()))
    while not (place / "stopped").exists():
        time.sleep(0.05)
    sys.stdout.write((place / "log").read_text())
    sys.exit(143)
elif arguments[0] == "inspect":
    print((place / "oom").exists() and "true" or "false")
elif arguments[0] == "run":
    sys.stdout.write((place / "log").read_text())
    sys.exit(int((place / "code").read_text()))
"""


class Podman:
    """The stand-in as tests see it."""

    def __init__(self, place):
        self.place = place
        self.answer(0)
        (place / "image").write_text("sha256:abc sha256:def")

    def answer(self, code: int, **payload: t.Any) -> None:
        """What a run ends with."""
        (self.place / "code").write_text(str(code))
        (self.place / "log").write_bytes(framed({"exit_code": code, "wall_seconds": 1.0, **payload}))

    def calls(self, *begin: str) -> list[list[str]]:
        """Calls that begin like this."""
        lines = (self.place / "calls").read_text().splitlines() if (self.place / "calls").exists() else []
        return [call for call in map(json.loads, lines) if call[: len(begin)] == list(begin)]


@pytest.fixture
def podman(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "podman"
    program.write_text(STAND_IN.format(python=sys.executable, place=str(tmp_path)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Podman(tmp_path)


def no_cluster():
    raise AssertionError("nothing here may need a cluster")


def inspect(*, check_mode=False, **options):
    task = {"image": "localhost/x:1", "script": "true", "engine": "local", **options}
    return run_inspection(no_cluster, terms_of(task, check_mode=check_mode), print)


def test_the_container_of_the_job_is_run(podman):
    answer = inspect(args=["a $b"], env={"A": "$(x)"}, run={"requests": {"cpu": "1500m", "memory": "1Gi"}})
    (call,) = podman.calls("run")
    assert call[-2:] == ["/muster/content/collector.sh", "a $b"]
    assert call[call.index("--entrypoint") + 1] == "/bin/sh"
    assert call[call.index("--cpus") + 1] == "1.5"
    assert call[call.index("--memory") + 1] == f"{2**30}b"
    assert {"A=$(x)", "MUSTER_INDEX=0", "MUSTER_LIMIT_CPU=1500", f"MUSTER_LIMIT_MEMORY={2**30}"} <= set(call)
    assert any(word.endswith(":/muster/content:ro") for word in call)
    assert len(podman.calls("rm", "--force")) == 1
    assert (answer["phase"], answer["image_digest"], answer["namespace"]) == ("Succeeded", "sha256:def", None)


def test_rights_are_those_of_a_pod(podman):
    inspect()
    (call,) = podman.calls("run")
    assert call[call.index("--cap-drop") + 1] == "all"
    assert call[call.index("--security-opt") + 1] == "no-new-privileges"
    assert "--user" not in call
    inspect(
        security={"run_as_user": 7, "run_as_group": 8, "capabilities": ["NET_RAW"], "seccomp_profile": "Unconfined"}
    )
    call = podman.calls("run")[-1]
    assert call[call.index("--user") + 1] == "7:8"
    assert call[call.index("--cap-add") + 1] == "NET_RAW"
    assert "seccomp=unconfined" in call
    inspect(security={"privileged": True})
    assert "--privileged" in podman.calls("run")[-1]


def test_results_are_kept_until_they_are_removed_or_forced(podman):
    first = inspect(identifier="mine")
    assert inspect(check_mode=True, identifier="mine")["would_run"] is False
    second = inspect(identifier="mine")
    assert (second["changed"], second["cached"], second["runs"]) == (False, True, first["runs"])
    assert len(podman.calls("run")) == 1
    inspect(identifier="mine", force=True)
    assert len(podman.calls("run")) == 2
    gone = {"state": "absent", "image": None, "script": None, "identifier": "mine"}
    assert inspect(check_mode=True, **gone)["removed"] == [first["inspection_id"]]
    assert inspect(**gone)["removed"] == [first["inspection_id"]]
    assert inspect(**gone)["changed"] is False


def test_check_mode_runs_nothing(podman):
    answer = inspect(check_mode=True)
    assert (answer["would_run"], answer["changed"], podman.calls("run")) == (True, True, [])
    (podman.place / "image").unlink()
    assert inspect(check_mode=True)["would_run"] is True
    assert podman.calls("pull") == []


def test_another_image_of_the_same_name_is_another_inspection(podman):
    first = inspect()
    (podman.place / "image").write_text("sha256:other sha256:def")
    assert inspect()["run_hash"] != first["run_hash"]


def test_runs_stop_after_too_many_failures(podman):
    podman.answer(3)
    answer = inspect(repetitions=3, allowed_failures=1)
    assert [item["reason"] for item in answer["runs"]] == ["script_failed", "script_failed", "cancelled"]
    assert len(podman.calls("run")) == 2
    assert answer["failed"]


def test_memory(podman):
    podman.answer(137)
    (podman.place / "oom").touch()
    assert inspect()["reason"] == "oom"


def test_an_image_that_cannot_be_had(podman):
    (podman.place / "image").unlink()
    answer = inspect()
    assert (answer["reason"], answer["message"]) == ("image_pull", "no such image")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"run": {"hardware": {"gpu": {}}}}, "cannot give GPUs"),
        ({"run": {"requests": {"example.com/x": "1"}}}, "cpu and memory only"),
        ({"env": {"A": {"secret": "s", "key": "k"}}}, "knows no Secrets"),
    ],
)
def test_what_podman_cannot_do_is_refused_rather_than_dropped(podman, options, complaint):
    with pytest.raises(BadInput, match=complaint):
        inspect(**options)
    assert podman.calls("run") == []


def test_without_podman_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MusterError, match="podman is not installed"):
        inspect()


def test_a_timeout_begins_with_the_container_however_long_podman_needs(podman):
    (podman.place / "slow").write_text("")
    answer = inspect(timeout="1")
    assert (answer["reason"], len(podman.calls("stop"))) == ("timeout", 1)
    looks = len(podman.calls("container", "inspect"))
    assert looks >= 2, "it was looked for before it ran, and stopped when it had run for so long"


def test_podman_that_goes_on_after_its_container_was_stopped_is_ended(podman, monkeypatch):
    (podman.place / "slow").write_text("")
    program = pathlib.Path(os.environ["PATH"].partition(os.pathsep)[0]) / "podman"
    program.write_text(program.read_text().replace('(place / "stopped").write_text("")', "pass"))
    monkeypatch.setattr(local, "_STOP_SECONDS", 1)
    answer = inspect(timeout="1")
    assert (answer["phase"], answer["reason"]) == ("Failed", "timeout")
