# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The builder's script: one frame at the end of the log whatever happens, files byte for byte, secrets by file."""

from __future__ import annotations

import base64
import os
import pathlib
import signal
import subprocess
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build.job import context_files
from ansible_collections.muster.kube.plugins.module_utils._model.frame import read_frames
from ansible_collections.muster.kube.plugins.module_utils._policy.dockerfile import Context, ContextFile
from ansible_collections.muster.kube.tests.support.fake_builder import SCRIPT, FakeBuilder
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until

ODD = bytes(range(256))
CONTEXT = Context("FROM x\n", (ContextFile(" a 'dir'/ file ", ODD, "0750"), ContextFile("$(id)", b"plain")))


@pytest.fixture
def fake(tmp_path):
    return FakeBuilder(tmp_path / "fake")


@pytest.fixture
def start(tmp_path, fake):
    """Starts the script with the usual variables, some of them changed."""

    def begin(**changes: str) -> subprocess.Popen[bytes]:
        folders = {name: tmp_path / name for name in ("context", "work", "secrets")}
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
        for key, content in context_files(CONTEXT, "").items():
            (folders["context"] / key).write_bytes(content)
        (folders["secrets"] / "token").write_bytes(b"geheim")
        variables = {
            "MUSTER_CONTEXT": str(folders["context"]),
            "MUSTER_WORK": str(folders["work"]),
            "MUSTER_SECRETS": str(folders["secrets"]),
            "MUSTER_IMAGE": "r/x:1",
            "MUSTER_BASE": "b:1",
            "MUSTER_LABEL": "l=1",
        }
        return subprocess.Popen(
            ["/bin/sh", str(SCRIPT)],
            env={**fake.environment(), **variables, **changes},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )

    return begin


def ended(process: subprocess.Popen[bytes]) -> tuple[int, dict[str, t.Any], bytes]:
    """Exit code, frame and log."""
    log = process.communicate(timeout=60)[0]
    frame = read_frames(log)
    assert frame.payload is not None, log
    assert log.endswith(b"-----END MUSTER RESULT-----\n")
    return process.returncode, frame.payload, log


def test_pull_build_list_push(start, fake):
    code, frame, log = ended(start())
    assert code == 0
    assert (frame["stage"], frame["exit_code"], frame["terminated"]) == ("done", 0, False)
    assert (frame["digest"], frame["base_digest"], frame["image_id"]) == ("sha256:d1", "sha256:ba", "sha256:1d")
    assert base64.b64decode(frame["packages"]) == b"@dpkg\nii  hello 2.10\n@pip\nx 1\n"
    assert fake.verbs == ["pull", "inspect", "build", "from", "run", "rm", "push"]
    assert log.startswith(b"STEP 1")


def test_files_arrive_byte_for_byte_with_their_names_and_modes(start, fake):
    ended(start())
    odd = fake.state / "context" / " a 'dir'" / " file "
    assert (odd.read_bytes(), odd.stat().st_mode & 0o777) == (ODD, 0o750)
    assert (fake.state / "context" / "$(id)").read_bytes() == b"plain"


def test_secrets_reach_the_builder_as_files_only(start, fake):
    log = ended(start())[2]
    assert (fake.state / "secrets").read_bytes() == b"geheim"
    assert "geheim" not in "\n".join(fake.calls)
    assert b"geheim" not in log


@pytest.mark.parametrize(("verb", "stage"), [("pull", "pull"), ("build", "build"), ("push", "push")])
def test_a_failed_step_names_its_stage_and_keeps_the_code(start, verb, stage):
    code, frame, log = ended(start(FAKE_FAILS=verb))
    assert (code, frame["exit_code"], frame["stage"]) == (7, 7, stage)
    assert f"Error: {verb} went wrong".encode() in log


def test_an_image_without_a_shell_has_no_package_list(start):
    code, frame, _log = ended(start(FAKE_FAILS="from"))
    assert (code, frame["stage"], frame["packages"]) == (0, "done", "")


@pytest.mark.parametrize("verb", ["pull", "build", "push"])
def test_a_signal_ends_the_builder_and_is_told(start, fake, verb):
    process = start(FAKE_HANGS=verb)
    wait_until("the builder to hang", (fake.state / "waiting").exists, pause=0.02)
    os.kill(process.pid, signal.SIGTERM)
    code, frame, _log = ended(process)
    assert (code, frame["stage"], frame["terminated"]) == (143, verb, True)


def test_options_reach_the_builder(start, fake):
    ended(
        start(MUSTER_CACHE="r/c", MUSTER_PLATFORM="linux/arm64", MUSTER_INSECURE="r", MUSTER_PUSH="no", MUSTER_BASE="")
    )
    (build,) = [call for call in fake.calls if call.split()[1] == "build"]
    assert "--layers --cache-from r/c --cache-to r/c" in build
    assert "--platform linux/arm64" in build
    assert "--tls-verify=false" in build
    assert "--label l=1" in build
    assert not {"pull", "push"} & set(fake.verbs)


def test_podman_does_the_same(start, fake):
    code, frame, _log = ended(start(MUSTER_BUILDER="podman"))
    assert (code, frame["stage"], frame["digest"], frame["base_digest"]) == (0, "done", "sha256:d1", "sha256:ba")
    assert {call.split()[0] for call in fake.calls} == {"podman"}
    assert base64.b64decode(frame["packages"]).startswith(b"@dpkg")


def test_storage_falls_back_when_overlay_cannot_be_had(start):
    assert b"storage driver: overlay\n" in ended(start(MUSTER_STORAGE="overlay"))[2]
    assert b"storage driver: vfs\n" in ended(start(MUSTER_STORAGE="overlay", FAKE_NO_OVERLAY="1"))[2]


def test_a_probe_builds_the_shell_itself(start, fake):
    code, frame, _log = ended(start(MUSTER_PROBE="yes"))
    assert (code, frame["stage"]) == (0, "done")
    assert fake.verbs == ["build"]
    shell = fake.state / "context" / "bin" / "sh"
    assert shell.read_bytes() == pathlib.Path("/bin/sh").read_bytes()
