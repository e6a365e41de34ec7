# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real ansible-rulebook, from an environment of its own, with a rulebook of this collection."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[5]
TOOLS = pathlib.Path(__file__).resolve().parents[1] / "tools" / "environments.py"
# Never reached when things work.
_LAST_SECONDS = 60.0


def environment_of_rulebooks() -> pathlib.Path:
    """The environment with ansible-rulebook; it is made if it is not there."""
    cache = os.environ["MUSTER_CACHE"]
    for verb in ("make", "paths"):
        command = [sys.executable, str(TOOLS), verb, cache, "rulebook"]
        told = subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    return pathlib.Path(told.strip().splitlines()[-1])


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    parents: dict[int, list[int]] = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of a program, in parentheses, may hold anything.
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


class Rulebook:
    """One run of it; ended by its own id when the block is left."""

    def __init__(self, directory: pathlib.Path, name: str, variables: t.Mapping[str, t.Any]) -> None:
        """Nothing is started yet."""
        self._directory = directory
        self.log = directory / "rulebook.log"
        inventory, settings = directory / "inventory.json", directory / "settings.json"
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory.write_text(json.dumps({"all": {"hosts": {"localhost": local}}}), encoding="utf-8")
        settings.write_text(json.dumps(dict(variables)), encoding="utf-8")
        home = environment_of_rulebooks()
        program = str(home / "bin" / "ansible-rulebook")
        self._command = [program, "-r", name, "-i", str(inventory), "--vars", str(settings)]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBECONFIG"))}
        self._environment = {
            **inherited,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT),
            "ANSIBLE_NOCOLOR": "1",
            "HOME": str(directory),
            "PATH": f"{home / 'bin'}:{inherited['PATH']}",
            "PYTHONUNBUFFERED": "1",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> t.Self:
        """Start."""
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_error: object) -> None:
        """Kill what is left of it and of the playbooks that it started, which have sessions of their own."""
        if self._process is not None and self._process.poll() is None:
            for pid in (*descendants(self._process.pid), self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait(_LAST_SECONDS)

    def interrupt(self) -> int:
        """Ask it to end as Ctrl-C does; how it ended."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(_LAST_SECONDS)

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process is not None and self._process.poll() is None

    def said(self) -> str:
        """Everything it has printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def plays(self) -> int:
        """How many playbooks have ended."""
        return len(re.findall("^PLAY RECAP", self.said(), re.MULTILINE))
