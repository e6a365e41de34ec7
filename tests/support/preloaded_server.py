# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preloaded process: it has the libraries of Ansible and of modules, and forks a process for each script.

Nothing of Ansible itself is loaded, for that reads settings from the environment when it is imported. Nothing of the
collection is, for scripts bring their own: a module of Ansible comes with more than a hundred source files in an
archive, and python compiles those anew each time. Here they are compiled once. It ends when its standard input does.
Usage: preloaded_server.py SOCKET
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import hashlib
import importlib
import json
import marshal
import os
import pathlib
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import types
import typing as t
import zipimport

LIBRARIES = (
    "cryptography.fernet",
    "cryptography.x509",
    "jinja2.nativetypes",
    "jinja2.sandbox",
    "jsonschema",
    "kubernetes.client",
    "kubernetes.config",
    "kubernetes.dynamic",
    "kubernetes.dynamic.discovery",
    "multiprocessing.queues",
    "yaml",
)

Order = dict[str, t.Any]


def serve(listener: socket.socket) -> tuple[Order, list[int]] | None:
    """Returns in each forked process with its order and its standard streams, and with None when all is over."""
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        callers = {caller: handle for handle, (_pid, caller) in running.items()}
        ready = select.select([0, listener, *running, *callers], [], [])[0]
        if 0 in ready:
            for pid, _caller in running.values():
                end(pid)
            return None
        for item in ready:
            # Who asked is gone, so nobody wants its end any more.
            if item in callers and callers[item] in running:
                end(running[callers[item]][0])
            if item in running:
                report(running, item)
        if listener in ready:
            caller = listener.accept()[0]
            order, streams = receive(caller)
            pid = os.fork()
            if pid == 0:
                for opened in (listener, caller, *callers):
                    opened.close()
                for handle in running:
                    os.close(handle)
                return order, streams
            for stream in streams:
                os.close(stream)
            running[os.pidfd_open(pid)] = (pid, caller)


def receive(caller: socket.socket) -> tuple[Order, list[int]]:
    """What a client wants."""
    size, streams, _flags, _address = socket.recv_fds(caller, 8, 3)
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += caller.recv(1 << 20)
    return json.loads(text), streams


def report(running: dict[int, tuple[int, socket.socket]], handle: int) -> None:
    """Tell a client how its process ended."""
    pid, caller = running.pop(handle)
    os.close(handle)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError), caller:
        caller.sendall(str(code if code >= 0 else 128 - code).encode())


def end(pid: int) -> None:
    """Kill a process and all it started in its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def become(order: Order, streams: list[int]) -> None:
    """In the new process: what the client had."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww"))
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["directory"])
    os.umask(order["umask"])
    sys.argv[:] = order["arguments"]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)


def main() -> None:
    """Load, serve, and run what was asked for."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    keep_compiled(pathlib.Path(sys.argv[1]).with_name("compiled"))
    # Memory that is not looked at again is not copied by those that are forked.
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        asked = serve(listener)
    if asked is not None:
        become(*asked)
        leave(run_script())


def keep_compiled(folder: pathlib.Path) -> None:
    """Let sources in archives be compiled once for all processes; what is in the folder already is only read."""
    folder.mkdir(exist_ok=True)
    compile_source = zipimport._compile_source  # type: ignore[attr-defined]

    def find_or_compile(place: str, source: bytes) -> types.CodeType:
        """The code of a source file; its name in the archive is part of it, the archive is another one each time."""
        name = place.partition(".zip/")[2]
        kept = folder / hashlib.sha256(name.encode() + b"\0" + source).hexdigest()
        with contextlib.suppress(FileNotFoundError):
            return t.cast("types.CodeType", marshal.loads(kept.read_bytes()))
        code: types.CodeType = compile_source(place, source)
        partial = kept.with_name(f"{kept.name}.{os.getpid()}")
        partial.write_bytes(marshal.dumps(code))
        partial.rename(kept)
        return code

    zipimport._compile_source = find_or_compile  # type: ignore[attr-defined]


def run_script() -> int:
    """Run the script as the main program; its exit code."""
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - whatever it is, it ends the program as it would end python
        traceback.print_exc()
        return 1
    return 0


def leave(code: int) -> t.NoReturn:
    """End as python does, but without taking apart all libraries, which would copy their memory."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
