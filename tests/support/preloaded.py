# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A python for plays whose libraries are there already, since importing them takes longer than most tasks.

Ansible and all modules run in processes of their own as ever; these are forks of one that has imported the libraries.
"""

from __future__ import annotations

import atexit
import functools
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ADDRESS = "MUSTER_PRELOADED"


class Preloaded:
    """The process to fork from, and the program that takes the place of python."""

    def __init__(self, directory: pathlib.Path) -> None:
        """Start it; it ends with this process, or when it is closed."""
        client = (HERE / "preloaded_client.py").read_text(encoding="utf-8").replace("@PYTHON@", sys.executable)
        self.python = directory / "python"
        self.python.write_text(f"#!{sys.executable} -IS\n{client}", encoding="utf-8")
        self.python.chmod(0o755)
        address = directory / "socket"
        self.environment = {ADDRESS: str(address)}
        self._process = subprocess.Popen(
            [sys.executable, HERE / "preloaded_server.py", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            raise AssertionError(f"the process to fork from ended with {self._process.wait()}")

    def close(self) -> None:
        """End it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


@functools.cache
def preloaded() -> Preloaded:
    """The one of this test process."""
    directory = tempfile.TemporaryDirectory(prefix="preloaded-")
    made = Preloaded(pathlib.Path(directory.name))
    atexit.register(directory.cleanup)
    atexit.register(made.close)
    return made
