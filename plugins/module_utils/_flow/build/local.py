# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The build on this machine, with buildah or podman and no cluster; the same script, the same outcome."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.build.job import build_variables, context_files
from ansible_collections.muster.kube.plugins.module_utils._host.result_cache import (
    cache_folder,
    read_cached,
    write_cached,
)
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSettings, BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import read_frames
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    BUILD_FAILED,
    TIMEOUT,
    RunState,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._policy.image.build_outcome import build_outcome, build_times
from ansible_collections.muster.kube.plugins.module_utils._policy.image.dockerfile import Context, build_context

Program = t.Literal["buildah", "podman"]

_PROGRAMS: tuple[Program, ...] = t.get_args(Program)
_GRACE = 10.0


def find_program() -> Program:
    """The builder of this machine, buildah first."""
    for name in _PROGRAMS:
        if shutil.which(name) is not None:
            return name
    raise MusterError("build on", "this machine", "neither buildah nor podman is installed")


def outcome_folder() -> pathlib.Path:
    """Where the outcomes of local builds are kept, for the user who runs them."""
    return cache_folder("builds")


def build_locally(
    spec: BuildSpec,
    settings: BuildSettings,
    script: str,
    report: t.Callable[[str], None],
    *,
    force: bool = False,
    check_mode: bool = False,
) -> Data:
    """The outcome of a build on this machine; the same specification is not built again while its image is there."""
    program, context = find_program(), build_context(spec.stack)
    stored = None if force else _stored(program, spec, settings)
    if stored is not None:
        return _result(spec, stored, context, cached=True)
    if check_mode:
        empty = build_outcome(spec, RunState("pending"), read_frames(b""), None)
        return _result(spec, {**empty, "reason": None, "message": ""}, context, cached=False)
    report(f"{spec.reference}: building with {program}")
    outcome = _build(program, spec, settings, context_files(context, script))
    if outcome["reason"] is None:
        write_cached(outcome_folder(), spec.name, outcome, "the outcome")
    return _result(spec, outcome, context, cached=False)


def remove_locally(spec: BuildSpec, *, dry: bool = False) -> bool:
    """Forget a build and remove its image from the local storage; returns whether there was something."""
    path = outcome_folder() / f"{spec.name}.json"
    program = find_program()
    there = path.exists() or _image_id(program, spec.reference) is not None
    if there and not dry:
        path.unlink(missing_ok=True)
        subprocess.run([program, "rmi", spec.reference], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return there


def _result(spec: BuildSpec, outcome: Data, context: Context, *, cached: bool) -> Data:
    """The keys of the task's result."""
    defaults = {"engine_used": "podman", "tier": None, "created": None, "node": None, **build_times(None, None)}
    more = {"name": spec.name, "cached": cached, "changed": not cached, "dockerfile": context.dockerfile}
    return {**defaults, **outcome, **more}


def _stored(program: Program, spec: BuildSpec, settings: BuildSettings) -> Data | None:
    """The outcome of an earlier build whose image is still there, and was pushed if that is wanted."""
    outcome = read_cached(outcome_folder(), spec.name)
    if outcome is None or (settings.push and not outcome.get("pushed")):
        return None
    present = _image_id(program, spec.reference)
    return outcome if present is not None and present == str(outcome.get("image_id")).removeprefix("sha256:") else None


def _image_id(program: Program, reference: str) -> str | None:
    """The id of an image in the local storage; None when it is not there."""
    command = [program, "images", "--no-trunc", "--quiet", "--filter", f"reference={reference}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    found = ended.stdout.split()
    return found[0].removeprefix("sha256:") if ended.returncode == 0 and found else None


def _build(program: Program, spec: BuildSpec, settings: BuildSettings, files: t.Mapping[str, bytes]) -> Data:
    """Lay out the context in a folder of its own and run the script there."""
    with tempfile.TemporaryDirectory(prefix="muster-build-") as name:
        folder = pathlib.Path(name)
        for part in ("context", "work", "secrets"):
            (folder / part).mkdir()
        for key, content in files.items():
            (folder / "context" / key).write_bytes(content)
        _copy_secrets(spec, folder / "secrets")
        variables = {
            **build_variables(spec, settings),
            "MUSTER_BUILDER": program,
            "MUSTER_CONTEXT": str(folder / "context"),
            "MUSTER_WORK": str(folder / "work"),
            "MUSTER_SECRETS": str(folder / "secrets"),
        }
        begun, started = time.time(), time.monotonic()
        state, log = _run(folder / "context" / "build.sh", variables, settings.timeout)
        times = build_times(begun, begun + time.monotonic() - started)
    outcome = build_outcome(spec, state, read_frames(log), log)
    return {**outcome, **times, "program": program, "pushed": settings.push}


def _copy_secrets(spec: BuildSpec, folder: pathlib.Path) -> None:
    """Each build secret as a file only this user can read."""
    for secret in spec.stack.secrets:
        if secret.file is None:
            cause = "name the file that holds it (file)"
            raise BadInput("build", f"the stack: build secret {secret.id}", cause)
        try:
            content = pathlib.Path(os.path.expanduser(secret.file)).read_bytes()
        except OSError as error:
            raise BadInput("read", f"the stack: build secret {secret.id}", str(error)) from error
        target = folder / secret.id
        target.touch(mode=0o600)
        target.write_bytes(content)


def _run(script: pathlib.Path, variables: t.Mapping[str, str], timeout: float) -> tuple[RunState, bytes]:
    """Run the builder's script to its end, or end it with all that it started."""
    process = subprocess.Popen(
        ["/bin/sh", str(script)],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        log = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        return RunState("failed", TIMEOUT, f"it ran longer than {timeout:g} s"), _last_words(process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return (RunState("succeeded") if process.returncode == 0 else RunState("failed", BUILD_FAILED)), log


def _last_words(process: subprocess.Popen[bytes]) -> bytes:
    """What a script printed that was told to end; it gets a moment, then everything of it is killed."""
    try:
        log = process.communicate(timeout=_GRACE)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        log = process.communicate()[0]
    return log
