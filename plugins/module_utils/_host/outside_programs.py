# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one runner of programs that others wrote, such as helm: found with their version, and never left behind.

A program gets no input, an environment of its own, and what is secret in files that only we may read. It is ended with
all that it started when its time is over and when we are gone, even by SIGKILL.
"""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import os
import pathlib
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

MOST_OUTPUT = 64 * 1024 * 1024
# Of what a program says about its troubles, the end counts.
ERROR_BYTES = 64 * 1024
# How long a program that was asked to end may take to do so.
GRACE_SECONDS = 5.0
_VERSION_SECONDS = 60.0
_POLL_SECONDS = 0.05
_READ_BYTES = 64 * 1024
_ERROR_LINES = 20
_VERSION = re.compile(r"v?(\d+(?:\.\d+)+)")
# Its standard input is a pipe of which we hold the other end: when we are gone the guard reads its end, takes the files
# away and ends everything that was started. Whoever sends SIGTERM to all means the program only.
_GUARDED = """
exec 3<&0 </dev/null
trap '' TERM
(
  exec >/dev/null 2>&1
  read -r _ <&3
  [ -z "$1" ] || rm -rf -- "$1"
  kill -s KILL 0
) &
guard=$!
(shift; trap - TERM; exec "$@" 3<&-) &
program=$!
exec >/dev/null 2>&1 3<&-
wait "$program"
code=$?
kill -s KILL "$guard"
wait "$guard"
exit "$code"
"""


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramNeed:
    """Which program is needed, and how it tells its version."""

    name: str
    version_arguments: tuple[str, ...]
    at_least: tuple[int, ...]
    # The first version that is not known to work.
    below: tuple[int, ...] | None = None

    def in_words(self) -> str:
        """The versions that do."""
        newest = f", older than {_dotted(self.below)}" if self.below is not None else ""
        return f"{self.name} {_dotted(self.at_least)} or newer{newest}"


@dataclasses.dataclass(frozen=True, slots=True)
class OutsideProgram:
    """A program of this machine that is new enough."""

    name: str
    path: str
    version: tuple[int, ...]


class ProgramTrouble(MusterError):
    """A program could not be run to its end."""


class InputFile(t.NamedTuple):
    """An argument, or a variable, that is the path of a file which is there only as long as the program runs."""

    name: str
    content: str | bytes


Argument: t.TypeAlias = "str | InputFile"
Environment = collections.abc.Mapping[str, Argument]
# Raises when whoever runs a program has lost the right to.
Hold = collections.abc.Callable[[], None]


@dataclasses.dataclass(frozen=True, slots=True)
class FinishedProgram:
    """What a program left: its exit code, its whole output, and the end of what it said about its troubles."""

    code: int
    output: bytes
    errors: str

    @property
    def last_words(self) -> str:
        """Why it failed, in its own words, on one line."""
        lines = [line.strip() for line in self.errors.splitlines() if line.strip()][-_ERROR_LINES:]
        how = f"it was ended by signal {self.code - 128}" if self.code > 128 else f"it failed with code {self.code}"
        return "; ".join(lines) or how


def find_program(
    need: ProgramNeed, environment: collections.abc.Mapping[str, str], path: str | None = None
) -> OutsideProgram:
    """The program at this path, or the first of its name that the environment's PATH leads to.

    One that is missing, too old or too new is refused with what was found and what is needed.
    """
    found = shutil.which(path or need.name, path=environment.get("PATH", os.defpath))
    if found is None:
        where = f"there is no program {path}" if path else "it is not installed, or PATH does not lead to it"
        raise MusterError("use", need.name, f"{where}; needed is {need.in_words()}")
    asked = OutsideProgram(need.name, os.path.abspath(found), ())
    told = run_program(asked, need.version_arguments, environment=environment, timeout=_VERSION_SECONDS)
    match = _VERSION.search(told.output.decode(errors="replace"))
    if told.code or match is None:
        raise MusterError("use", need.name, f"{found} does not tell its version; needed is {need.in_words()}")
    version = tuple(int(part) for part in match[1].split("."))
    if not _is_in_range(need, version):
        cause = f"{found} has version {_dotted(version)}; needed is {need.in_words()}"
        raise MusterError("use", need.name, cause)
    return dataclasses.replace(asked, version=version)


def _allow() -> None:
    """Nobody has to be asked."""


def _is_in_range(need: ProgramNeed, version: tuple[int, ...]) -> bool:
    """Whether a version is one that does; what is not told of it counts as zero."""
    full = (*version, 0, 0, 0)[:3]
    return full >= need.at_least and (need.below is None or full < need.below)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def run_program(
    program: OutsideProgram,
    arguments: collections.abc.Sequence[Argument],
    *,
    environment: Environment,
    timeout: float,
    most_output: int = MOST_OUTPUT,
    directory: pathlib.Path | None = None,
    hold: Hold | None = None,
) -> FinishedProgram:
    """Run a program to its end; the caller looks at its exit code.

    One that takes too long or writes too much is ended, with all that it started, and told as an error. So it is when
    hold, which is called before it starts and again and again while it runs, raises an error, which is passed on.
    """
    if hold is not None:
        hold()
    words = " ".join([program.name, *(item for item in arguments[:1] if isinstance(item, str))])
    with _written_inputs(arguments, environment) as inputs:
        command = ["/bin/sh", "-c", _GUARDED, "sh", inputs.folder, program.path, *inputs.arguments]
        try:
            with _GuardedRun(command, inputs.environment, directory, words, most_output) as running:
                return running.finish(timeout, hold or _allow)
        except OSError as error:
            raise ProgramTrouble("run", words, str(error)) from error


class _Inputs(t.NamedTuple):
    """Arguments and environment with the paths of their files."""

    arguments: list[str]
    environment: dict[str, str]
    # Where the files are; empty when there are none.
    folder: str


@contextlib.contextmanager
def _written_inputs(arguments: collections.abc.Sequence[Argument], environment: Environment) -> t.Iterator[_Inputs]:
    """The files of a run, in a folder of their own that goes with it."""
    files = [item for item in (*arguments, *environment.values()) if isinstance(item, InputFile)]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_private_folder()) if files else ""
        paths = {}
        for number, file in enumerate(files):
            paths[id(file)] = path = f"{folder}/{number}-{file.name}"
            content = file.content.encode() if isinstance(file.content, str) else file.content
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(content)

        def written(item: Argument) -> str:
            """A text as it is, a file as its path."""
            return paths[id(item)] if isinstance(item, InputFile) else item

        variables = {"PATH": os.defpath, **{name: written(item) for name, item in environment.items()}}
        yield _Inputs([written(item) for item in arguments], variables, folder)


@contextlib.contextmanager
def _private_folder() -> t.Iterator[str]:
    """A new folder that only we may look into; the guard of a run may have removed it before."""
    folder = tempfile.mkdtemp(prefix="muster-kube-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _GuardedRun:
    """A program under way, in a session of its own together with its guard."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        directory: pathlib.Path | None,
        words: str,
        most_output: int,
    ) -> None:
        """Start it; the pipe that its guard reads is held open until the run is over."""
        self._words = words
        self._most_output = most_output
        self._output = bytearray()
        self._errors = bytearray()
        guarded, self._hold = os.pipe()
        try:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                command,
                stdin=guarded,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=directory,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._hold)
            raise
        finally:
            os.close(guarded)
        self._selector = selectors.DefaultSelector()
        for stream, kept in ((self._process.stdout, self._output), (self._process.stderr, self._errors)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream.fileno(), selectors.EVENT_READ, kept)

    def __enter__(self) -> _GuardedRun:
        return self

    def __exit__(self, *_error: object) -> None:
        """Whatever happened, nothing of the run stays."""
        self._kill_all()
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        os.close(self._hold)

    def finish(self, timeout: float, hold: Hold) -> FinishedProgram:
        """Read what it writes until it ends; one that does not is asked to, and then forced."""
        deadline = time.monotonic() + timeout
        while not self._has_ended():
            hold()
            if time.monotonic() > deadline:
                self._end_politely()
                told = self._last_words(": ")
                raise ProgramTrouble("run", self._words, f"it took longer than {timeout:.0f} s and was ended{told}")
            self._read(_POLL_SECONDS)
        self._kill_all()
        # What it wrote last is in the pipe; whoever else holds that open is not waited for.
        while self._read(0.0):
            continue
        code = self._process.wait()
        errors = self._errors.decode(errors="replace")
        return FinishedProgram(128 - code if code < 0 else code, bytes(self._output), errors)

    def _last_words(self, before: str) -> str:
        """The last line it wrote about its troubles, if any."""
        lines = self._errors.decode(errors="replace").strip().splitlines()[-1:]
        return "".join(before + line for line in lines)

    def _has_ended(self) -> bool:
        """Whether it ended; its id stays its own, and so does that of its group, until somebody waits for it."""
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self._process.returncode is not None or os.waitid(os.P_PID, self._process.pid, look) is not None

    def _end_politely(self) -> None:
        """Ask the program to end, so that it may tidy up, and read on meanwhile."""
        self._signal_all(signal.SIGTERM)
        grace = time.monotonic() + GRACE_SECONDS
        while not self._has_ended() and time.monotonic() < grace:
            self._read(_POLL_SECONDS)

    def _kill_all(self) -> None:
        self._signal_all(signal.SIGKILL)

    def _signal_all(self, number: signal.Signals) -> None:
        """Signal the whole group; once the end was waited for, its id may be that of others."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _read(self, seconds: float) -> bool:
        """Take what was written; false when there was nothing. The output is kept whole, of the errors the end."""
        if not self._selector.get_map():
            # Both are closed and it still runs.
            time.sleep(seconds)
            return False
        found = False
        for key, _events in self._selector.select(seconds):
            data = os.read(key.fd, _READ_BYTES)
            key.data.extend(data)
            found = found or bool(data)
            if not data:
                self._selector.unregister(key.fd)
        del self._errors[:-ERROR_BYTES]
        if len(self._output) > self._most_output:
            raise ProgramTrouble("run", self._words, f"it wrote more than {self._most_output} bytes and was ended")
        return found
