# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run every integration test many times in a row while two builds run beside it: none may depend on a fast machine.

What passed is kept in a ledger for the state of the tree, so that a soak that was interrupted goes on where it stopped.
The builds compile Python's own library again and again, in as many processes as make the wanted load. They are ended
with the soak, even when it is killed.
Usage: soak.py TREE WORKPLACE [--rounds N] [--load N] [--fresh] [--pytest COMMAND] [--select MARKS] [TEST...]

pytest loads this file as a plugin, too: it leaves out what has passed often enough and notes each end at once.
"""

from __future__ import annotations

import argparse
import collections.abc
import compileall
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import typing

BUILDS = 2
SAMPLE_SECONDS = 15.0
NICENESS = 5
# Exit codes of pytest: all passed, some failed, nothing was left to run.
EXPECTED = (0, 1, 5)
LEDGER_VARIABLE = "MUSTER_SOAK_LEDGER"
LINES_VARIABLE = "MUSTER_SOAK_LINES"
ROUND_VARIABLE = "MUSTER_SOAK_ROUND"
# What a run writes itself.
NOT_HASHED = {"__pycache__", ".pytest_cache", ".git"}


@dataclasses.dataclass
class Ledger:
    """How often each test passed in a row in one state of the tree, what failed and where that stands, and the load."""

    state: str
    passes: dict[str, int] = dataclasses.field(default_factory=dict)
    failures: list[dict[str, typing.Any]] = dataclasses.field(default_factory=list)
    loads: list[float] = dataclasses.field(default_factory=list)

    def note(self, outcomes: collections.abc.Mapping[str, str], number: int, log: str) -> None:
        """Count one round: who failed begins anew."""
        for test, outcome in outcomes.items():
            if outcome == "failed":
                self.passes[test] = 0
                self.failures.append({"test": test, "round": number, "log": log})
            else:
                self.passes[test] = self.passes.get(test, 0) + 1

    def is_done(self, rounds: int) -> bool:
        """Whether each test that was seen passed often enough, and none ever failed."""
        return bool(self.passes) and not self.failures and min(self.passes.values()) >= rounds


def read_ledger(path: pathlib.Path, state: str) -> Ledger:
    """The ledger of that state of the tree; an empty one when there is none, or it is of another state."""
    try:
        found = Ledger(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Ledger(state)
    return found if found.state == state else Ledger(state)


def write_ledger(path: pathlib.Path, ledger: Ledger) -> None:
    """Keep the ledger, in one step."""
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(dataclasses.asdict(ledger), indent=1, sort_keys=True), encoding="utf-8")
    temporary.replace(path)


def outcomes_of(lines: collections.abc.Iterable[str]) -> dict[str, str]:
    """What became of each test whose end was noted; a line that was not written whole is left out."""
    ends: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        with contextlib.suppress(ValueError, KeyError):
            told = json.loads(line)
            ends.setdefault(told["test"], []).append((told["when"], told["outcome"]))
    found = {}
    for test, phases in ends.items():
        if any(outcome == "failed" for _when, outcome in phases):
            found[test] = "failed"
        elif phases[-1][0] == "teardown":
            found[test] = "skipped" if any(outcome == "skipped" for _when, outcome in phases) else "passed"
    return found


def state_of(tree: pathlib.Path) -> str:
    """A digest of all files of the tree, by name and contents."""
    digest = hashlib.sha256()
    for path in sorted(tree.rglob("*")):
        parts = path.relative_to(tree).parts
        if path.is_file() and not NOT_HASHED & set(parts):
            digest.update("/".join(parts).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def jobs_of(load: int, processors: int) -> list[int]:
    """How many processes each build has: together the wanted load, and no processor idle."""
    wanted = max(load, processors)
    return [wanted // BUILDS + (number < wanted % BUILDS) for number in range(BUILDS)]


def load_words(loads: collections.abc.Sequence[float], wanted: int) -> str:
    """The load that was seen, in words."""
    if not loads:
        return "no load was seen"
    middle = statistics.median(loads)
    text = f"load {min(loads):.1f} to {max(loads):.1f}, median {middle:.1f}"
    return text if middle >= wanted else f"{text}, which is less than the {wanted} aimed at"


class Builds:
    """Two builds that run as long as the block lasts, and a look at the load now and then."""

    def __init__(self, load: int, loads: list[float]) -> None:
        """Nothing runs yet; loads takes what is seen."""
        self._jobs = jobs_of(load, os.cpu_count() or 1)
        self._loads = loads
        self._processes: list[subprocess.Popen[bytes]] = []
        self._over = threading.Event()

    def __enter__(self) -> Builds:
        """Start the processes."""
        command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--build"]
        for _job in range(sum(self._jobs)):
            self._processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        threading.Thread(target=self._look, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """End the processes that were started here."""
        self._over.set()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()

    def _look(self) -> None:
        """Note the load of the last minute."""
        while not self._over.wait(SAMPLE_SECONDS):
            self._loads.append(round(os.getloadavg()[0], 2))


def build() -> None:
    """One process of a build: compile until the soak is over."""
    os.nice(NICENESS)
    parent = os.getppid()
    with tempfile.TemporaryDirectory(prefix="muster-soak-") as place:
        sys.pycache_prefix = place
        for path in _endless(sorted(pathlib.Path(os.__file__).parent.glob("*.py"))):
            if os.getppid() != parent:
                return
            compileall.compile_file(path, force=True, quiet=2)


def _endless(paths: collections.abc.Sequence[pathlib.Path]) -> collections.abc.Iterator[pathlib.Path]:
    """The same files again and again."""
    while True:
        yield from paths


class Soak:
    """One soak, in a workplace that holds its ledger and the output of its rounds."""

    def __init__(self, asked: argparse.Namespace) -> None:
        """Take up the ledger of this state of the tree."""
        self._asked = asked
        self._tree: pathlib.Path = asked.tree.resolve()
        self._place: pathlib.Path = asked.workplace.resolve()
        self._place.mkdir(parents=True, exist_ok=True)
        self._path = self._place / "ledger.json"
        self._lines = self._place / "lines"
        state = state_of(self._tree)
        self.ledger = Ledger(state) if asked.fresh else read_ledger(self._path, state)

    def run(self) -> bool:
        """All rounds that are left; whether everything passed in each of them."""
        with Builds(self._asked.load, self.ledger.loads):
            for number in range(1, self._asked.rounds + 1):
                self._round(number)
        return self.ledger.is_done(self._asked.rounds)

    def _round(self, number: int) -> None:
        """Run what has not passed so often yet; what ended counts even when the round is broken off."""
        log = self._place / f"round-{number}.log"
        self._lines.unlink(missing_ok=True)
        write_ledger(self._path, self.ledger)
        variables = {
            **os.environ,
            "PYTHONPATH": str(pathlib.Path(__file__).resolve().parent),
            LEDGER_VARIABLE: str(self._path),
            LINES_VARIABLE: str(self._lines),
            ROUND_VARIABLE: str(number),
        }
        command = [*shlex.split(self._asked.pytest), "-p", "soak", "-m", self._asked.select, *self._asked.tests]
        print(f"round {number} of {self._asked.rounds}: {log}", flush=True)
        try:
            with log.open("ab") as output:
                code = subprocess.run(
                    command,
                    cwd=self._tree,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                ).returncode
        finally:
            outcomes = outcomes_of(self._lines.read_text(encoding="utf-8").splitlines() if self._lines.exists() else ())
            self.ledger.note(outcomes, number, str(log))
            write_ledger(self._path, self.ledger)
        if code not in EXPECTED:
            raise SystemExit(f"pytest ended with {code}: {log}")
        failed = sum(outcome == "failed" for outcome in outcomes.values())
        print(f"  {len(outcomes) - failed} passed, {failed} failed", flush=True)

    def tell(self) -> None:
        """What failed, where that stands, and under which load."""
        for failure in self.ledger.failures:
            print(f"FAILED {failure['test']} in round {failure['round']}: {failure['log']}")
        print(f"{len(self.ledger.passes)} tests, {load_words(self.ledger.loads, self._asked.load)}")


def pytest_collection_modifyitems(config: typing.Any, items: list[typing.Any]) -> None:
    """Leave out what has passed as often as this round asks for."""
    passes = json.loads(pathlib.Path(os.environ[LEDGER_VARIABLE]).read_text(encoding="utf-8"))["passes"]
    number = int(os.environ[ROUND_VARIABLE])
    done = [item for item in items if passes.get(item.nodeid, 0) >= number]
    if done:
        config.hook.pytest_deselected(items=done)
        items[:] = [item for item in items if passes.get(item.nodeid, 0) < number]


def pytest_runtest_logreport(report: typing.Any) -> None:
    """Note the end of each part of a test, in the process that gathers the reports of all workers."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        told = {"test": report.nodeid, "when": report.when, "outcome": report.outcome}
        with pathlib.Path(os.environ[LINES_VARIABLE]).open("a", encoding="utf-8") as lines:
            lines.write(f"{json.dumps(told)}\n")


def arguments(words: collections.abc.Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("workplace", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--load", type=int, default=8)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--pytest", default="pytest")
    parser.add_argument("--select", default="integration and not full")
    parser.add_argument("tests", nargs="*", default=["tests/integration"])
    return parser.parse_intermixed_args(words)


def main() -> int:
    """Run the rounds, and tell."""
    soak = Soak(arguments())
    try:
        passed = soak.run()
    finally:
        soak.tell()
    return 0 if passed else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--build"]:
        build()
    else:
        sys.exit(main())
