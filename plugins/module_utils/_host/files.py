# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of this machine: written in one step, and locked against a second run."""

from __future__ import annotations

import collections.abc
import contextlib
import fcntl
import os
import pathlib
import tempfile
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

Report = collections.abc.Callable[[str], None]


def write_file(path: pathlib.Path, content: str | bytes, mode: int = 0o600, folder_mode: int = 0o700) -> None:
    """Write a file in one step; its folder is made if it is missing, private by default."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=folder_mode)
    replace_file(path, content, mode)


def ensure_file(path: pathlib.Path, content: bytes) -> None:
    """Write a file only when it is missing or differs, so that no reader that watches it wakes up in vain."""
    if not path.is_file() or path.read_bytes() != content:
        write_file(path, content)


def read_if_there(path: pathlib.Path) -> bytes:
    """The content of a file; nothing when it does not exist."""
    return path.read_bytes() if path.is_file() else b""


def replace_file(path: pathlib.Path, content: str | bytes, mode: int) -> None:
    """Put a new file in place of an old one such that half of it is never read, even after a power failure."""
    data = content.encode() if isinstance(content, str) else content
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def exclusive(path: pathlib.Path, what: str, timeout: float, report: Report) -> t.Iterator[None]:
    """Hold a lock file; a second run waits and says who holds it, and gives up after the timeout."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout
        waiting = False
        while not _try_lock(descriptor):
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
            if time.monotonic() > deadline:
                raise MusterError("use", what, f"it is held by {holder}; waited {timeout:.0f} s")
            if not waiting:
                report(f"waiting for {what}, held by {holder}")
                waiting = True
            time.sleep(0.1)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Take the lock if it is free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
