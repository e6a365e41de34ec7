# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the collector on this machine under one of several shells, with or without the programs an image may lack."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import read_frames
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import ItemFacts, item_from_frame

COLLECTOR = pathlib.Path(__file__).parents[2] / "roles" / "inspection" / "files" / "collector.sh"
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
# Never reached when things work.
PATIENCE = 120.0
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# A small image: no python3, base64, setsid, timeout, lscpu, perl.
FEW_PROGRAMS = [
    "cat",
    "chmod",
    "cp",
    "date",
    "head",
    "kill",
    "mkdir",
    "mkfifo",
    "od",
    "rm",
    "sha256sum",
    "sleep",
    "tail",
    "tee",
    "tr",
    "uname",
    "wc",
]
_HANGING = 60


@dataclasses.dataclass(frozen=True)
class Ran:
    """What came of it."""

    code: int
    log: bytes
    stderr: bytes
    payload: dict[str, t.Any]
    item: dict[str, t.Any]


def shell_command(name: str) -> list[str]:
    """The command of a shell, by the full path of its program; empty when it is not on this machine."""
    program, *options = SHELLS[name]
    found = shutil.which(program, path=SYSTEM_PATH)
    return [found, *options] if found else []


def small_path(folder: pathlib.Path) -> str:
    """A PATH with nothing but a few programs."""
    programs = folder / "few-programs"
    programs.mkdir(exist_ok=True)
    for name in FEW_PROGRAMS:
        target = shutil.which(name, path=SYSTEM_PATH)
        if target and not (programs / name).exists():
            (programs / name).symlink_to(target)
    return str(programs)


def collector_environment(folder: pathlib.Path, script: bytes, settings: dict[str, str]) -> dict[str, str]:
    """The environment of a run whose files all lie in one folder."""
    (folder / "work").mkdir(exist_ok=True)
    (folder / "script-as-given").write_bytes(script)
    given = {"PATH": SYSTEM_PATH, "MUSTER_SCRIPT": str(folder / "script-as-given"), "MUSTER_WORK": str(folder / "work")}
    return {**given, **settings}


def start_collector(
    shell: str,
    folder: pathlib.Path,
    script: bytes,
    /,
    *args: str,
    wrapper: tuple[str, ...] = (),
    collector: pathlib.Path = COLLECTOR,
    **settings: str,
) -> subprocess.Popen[bytes]:
    """Begin a run; wrapper is a command that starts the collector."""
    return subprocess.Popen(
        [*wrapper, *shell_command(shell), str(collector), *args],
        env=collector_environment(folder, script, settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
    )


def finish_collector(process: subprocess.Popen[bytes]) -> Ran:
    """Wait for a run and read its result."""
    log, stderr = process.communicate(timeout=_HANGING)
    frame = read_frames(log)
    item = item_from_frame(frame, ItemFacts(0, "image"))
    return Ran(process.returncode, log, stderr, frame.payload or {}, item)


def run_collector(
    shell: str, folder: pathlib.Path, script: bytes, /, *args: str, wrapper: tuple[str, ...] = (), **settings: str
) -> Ran:
    """One whole run."""
    return finish_collector(start_collector(shell, folder, script, *args, wrapper=wrapper, **settings))


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for_file(path: pathlib.Path, process: subprocess.Popen[bytes]) -> str:
    """The contents of a file as soon as a process that runs has written it."""
    end = time.monotonic() + PATIENCE
    while not (path.exists() and path.read_text().endswith("\n")):
        if time.monotonic() > end:
            raise AssertionError(f"{path.name} was not written in {PATIENCE:.0f} s")
        if process.poll() is not None:
            raise AssertionError(f"the collector ended with {process.returncode} before {path.name} was written")
        os.sched_yield()
    return path.read_text()
