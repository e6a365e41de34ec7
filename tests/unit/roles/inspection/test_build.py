# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The builder's script: one frame at the end of the log whatever happens, files byte for byte, secrets by file."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import signal
import subprocess
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build.job import context_files
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import read_frames
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import Context, ContextFile
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
    assert read_time(frame["created"]) is not None
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


def test_a_step_may_not_change_its_root(start, fake):
    ended(start())
    steps = [call for call in fake.calls if call.split()[1] in ("build", "run")]
    assert len(steps) == 2
    assert all("--cap-drop CAP_SYS_CHROOT" in call for call in steps)


def test_who_builds_hands_the_image_over_and_who_pushes_takes_it(start, fake, tmp_path):
    out = {"MUSTER_OUT": str(tmp_path / "out")}
    code, frame, _log = ended(start(MUSTER_PART="build", **out))
    assert (code, frame["stage"], frame["digest"], frame["image_id"]) == (0, "built", "", "sha256:1d")
    assert fake.verbs == ["pull", "inspect", "build", "from", "run", "rm", "push", "rmi"]
    assert f"dir:{out['MUSTER_OUT']}/image" in fake.calls[-2]
    (tmp_path / "work" / "digest").unlink(missing_ok=True)
    code, frame, _log = ended(start(MUSTER_PART="push", MUSTER_PUSH_AUTH=str(accounts(tmp_path)), **out))
    assert (code, frame["stage"], frame["digest"]) == (0, "done", "sha256:d1")
    assert fake.verbs[8:] == ["pull", "push"]
    assert fake.calls[-1].split()[-2:] == ["1d", "docker://r/x:1"]


def test_a_failure_of_each_part_names_its_stage(start, tmp_path):
    out = {"MUSTER_OUT": str(tmp_path / "out")}
    assert ended(start(MUSTER_PART="build", FAKE_FAILS="push", **out))[1]["stage"] == "build"
    assert ended(start(MUSTER_PART="push", FAKE_FAILS="pull", **out))[1]["stage"] == "push"
    assert ended(start(MUSTER_PART="push", FAKE_FAILS="push", **out))[1]["stage"] == "push"


def test_an_image_with_a_secret_in_it_is_not_handed_over(start, tmp_path):
    out = tmp_path / "out"
    code, frame, log = ended(start(MUSTER_PART="build", MUSTER_OUT=str(out), FAKE_LAYER="a geheim b"))
    assert (code, frame["stage"]) == (1, "build")
    assert b"Error: the image holds the value of build secret token; it is not pushed" in log
    assert not (out / "image").exists()
    assert ended(start(MUSTER_PART="build", MUSTER_OUT=str(out), FAKE_LAYER="ordinary"))[0] == 0


def accounts(tmp_path):
    """A file with accounts of registries."""
    path = tmp_path / "accounts.json"
    one, two = (base64.b64encode(f"me:{name}-password".encode()).decode() for name in ("first", "second"))
    path.write_text(json.dumps({"auths": {"a": {"auth": one}, "b": {"auth": two, "identitytoken": "token-of-b"}}}))
    return path


def shown(start, text, **more):
    """What the log and the package list show of a text that a step printed."""
    _code, frame, log = ended(start(FAKE_SAYS=text, FAKE_LISTS=text, **more))
    return log.decode() + base64.b64decode(frame["packages"]).decode()


def test_values_of_secrets_are_masked_in_log_and_package_list(start, tmp_path):
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "url").write_text("https://me:p.a*s[s]w/rd$@packages.example.com/simple\n".replace("/rd", "-rd"))
    (folder / "netrc").write_text("machine packages.example.com login me password netrc-word\n")
    (folder / "env").write_text("HTTP_PROXY=http://proxy:3128\nAPI_TOKEN=env-token-1\n")
    (folder / "ca").write_text("-----BEGIN CERTIFICATE-----\nMIIBpublic\n-----END CERTIFICATE-----\n")
    (folder / "short").write_text("ab")
    hidden = ["p.a*s[s]w-rd$", "netrc-word", "env-token-1", "first-password", "second-password", "token-of-b"]
    hidden += [base64.b64encode(value.encode()).decode() for value in hidden]
    hidden.append(base64.b64encode(b"me:first-password").decode())
    more = {"MUSTER_CONFIGS": "netrc env", "MUSTER_OPEN": "ca", "MUSTER_PULL_AUTH": str(accounts(tmp_path))}
    for value in hidden:
        assert value not in shown(start, f"<{value}>", **more)
    plain = "packages.example.com http://proxy:3128 MIIBpublic login cab"
    assert plain in shown(start, plain, **more)


def test_a_url_without_an_account_is_no_secret(start, tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "token").write_text("")
    (tmp_path / "secrets" / "index").write_text("https://packages.example.com/simple\n")
    assert "https://packages.example.com/simple" in shown(start, "https://packages.example.com/simple")


def test_who_writes_on_after_the_end_is_not_waited_for(start):
    """A program that a step left behind still holds the way to the log."""
    code, frame, _log = ended(start(FAKE_LEAVES="1"))
    assert (code, frame["stage"]) == (0, "done")


def test_storage_falls_back_when_overlay_cannot_be_had(start):
    assert b"storage driver: overlay\n" in ended(start(MUSTER_STORAGE="overlay"))[2]
    assert b"storage driver: vfs\n" in ended(start(MUSTER_STORAGE="overlay", FAKE_NO_OVERLAY="1"))[2]


def test_a_probe_builds_the_shell_itself(start, fake):
    code, frame, _log = ended(start(MUSTER_PROBE="yes"))
    assert (code, frame["stage"]) == (0, "done")
    assert fake.verbs == ["build"]
    shell = fake.state / "context" / "bin" / "sh"
    assert shell.read_bytes() == pathlib.Path("/bin/sh").read_bytes()
