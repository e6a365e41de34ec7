# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a program and write down the processor time that it and all it started took, in seconds.

The system adds a process to the account of whoever collects it, and one whose parent is gone would be collected by the
first process of the machine. So this one takes in what loses its parent: the processes of clusters do. What still runs
when the program has ended is not counted.
Usage: processor_time.py FILE PROGRAM ARGUMENT...
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import resource
import signal
import subprocess
import sys

# From <sys/prctl.h>.
PR_SET_CHILD_SUBREAPER = 36


def run(command: list[str]) -> int:
    """Run a program to its end, and collect all that ends before; its exit code as a shell tells it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Ctrl-C is for the program; a handler, unlike a signal that is ignored, is not handed down.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == program.pid:
            code = program.returncode = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main(target: str, *command: str) -> int:
    """Run the program and write the file."""
    code = run(list(command))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pathlib.Path(target).write_text(f"{used.ru_utime + used.ru_stime:.1f}\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
