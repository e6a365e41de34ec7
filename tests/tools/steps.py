# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run make targets as the steps of one test run: name and time of each, short output when green, all of it when red.

Beside the seconds that a step took stand those of processors: on a busy machine only these can be compared.

Steps after `main` take longest: they run one after the other from the beginning, with their output shown as it comes.
Those after `beside` run at the same time, two at once and with low priority, so that no processor is ever idle; their
output is kept back. Those after `after` follow, two at once as well, for they have clusters of their own. Those after
`alone` come last, one at a time, for they measure. Every step runs, even when another one failed. A step that takes
longer than MUSTER_STEP_LIMIT seconds is ended and counts as failed.
Usage: steps.py LOG_DIRECTORY main STEP... beside STEP... after STEP... alone STEP...
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import typing

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import budgets

PASSED = re.compile(r"\b(\d+) passed\b")
PRINTING = threading.Lock()
# Tests of these steps run in another step too, with other versions of what they need.
AGAIN = frozenset({"smoke216"})
AT_ONCE = 2
BESIDE_NICENESS = 10
STEP_LIMIT = 5400.0
# What a step that is ended gets for putting its clusters away.
LAST_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one step went."""

    step: str
    code: int
    seconds: float
    processor_seconds: float
    log: pathlib.Path

    def tests_passed(self) -> int:
        """The sum of what pytest reported in this step."""
        lines = self.log.read_text(errors="replace").splitlines()
        return sum(int(found.group(1)) for line in lines if (found := PASSED.search(line)) and " in " in line)


def say(text: str) -> None:
    """Print whole pieces of text, also when two steps end at once."""
    with PRINTING:
        print(text, flush=True)


class Runner:
    """Runs steps, several at the same time, and ends them when the run is interrupted."""

    def __init__(self, logs: pathlib.Path, limit: float) -> None:
        """Keep where the logs go and how many seconds a step may take."""
        self.logs = logs
        self.limit = limit
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(self, step: str, live: bool = False, niceness: int = 0) -> Outcome:
        """Run `make STEP`; the log is kept, and shown as it grows when live."""
        log, account = self.logs / f"{step}.log", self.logs / f"{step}.processor"
        account.unlink(missing_ok=True)
        say(f"==> {step}")
        started = time.monotonic()
        with open(log, "wb") as stream:
            code = self._follow(self._command(step, niceness, account), stream, live)
            if time.monotonic() - started > self.limit:
                stream.write(f"The step took longer than {self.limit:.0f} s and was ended.\n".encode())
        outcome = Outcome(step, code, time.monotonic() - started, read_account(account), log)
        if code and not live:
            say(log.read_text(errors="replace"))
        verdict = "FAILED" if code else "ok"
        times = f"{outcome.seconds:.0f} s, {outcome.processor_seconds:.0f} s of processors"
        say(f"<== {step}: {verdict}, {times}{describe_tests(outcome.tests_passed())}")
        return outcome

    @staticmethod
    def _command(step: str, niceness: int, account: pathlib.Path) -> list[str]:
        """What to start; its processor time goes to the account."""
        measured = [sys.executable, str(pathlib.Path(__file__).with_name("processor_time.py")), str(account)]
        priority = ["nice", "-n", str(niceness)] if niceness else []
        return [*measured, *priority, os.environ.get("MAKE", "make"), "--no-print-directory", "-k", step]

    def _follow(self, command: list[str], stream: typing.BinaryIO, live: bool) -> int:
        """Start a program, in a process group of its own so that all of it can be ended, and keep what it prints."""
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, process_group=0
        )
        self._running.add(process)
        alarm = threading.Timer(self.limit, end, [process])
        alarm.start()
        try:
            for chunk in iter(lambda: process.stdout.read1() if process.stdout else b"", b""):
                stream.write(chunk)
                stream.flush()
                if live:
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.flush()
            return process.wait()
        except KeyboardInterrupt:
            end(process)
            raise
        finally:
            alarm.cancel()
            self._running.discard(process)

    def end_all(self) -> None:
        """End what runs."""
        for process in list(self._running):
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a whole process group to end, as Ctrl-C does; what does not listen, or is left by the others, is killed."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGINT)
        process.wait(LAST_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def read_account(account: pathlib.Path) -> float:
    """The processor time of a step; 0 for one that was killed."""
    return float(account.read_text()) if account.exists() else 0.0


def describe_tests(count: int) -> str:
    """What to add to a line about a step that ran tests."""
    return f", {count} tests passed" if count else ""


def parse_steps(arguments: list[str]) -> dict[str, list[str]]:
    """The steps of each kind, in their order."""
    groups: dict[str, list[str]] = {"main": [], "beside": [], "after": [], "alone": []}
    current = groups["main"]
    for argument in arguments:
        if argument in groups:
            current = groups[argument]
        else:
            current.append(argument)
    return groups


def summary(outcomes: list[Outcome], seconds: float) -> str:
    """The closing table and the number of tests that passed, each counted once."""
    width = max(len(outcome.step) for outcome in outcomes)
    lines = ["", "step".ljust(width) + "  result  seconds  processors  tests"]
    for outcome in outcomes:
        verdict = "FAILED" if outcome.code else "ok"
        tests = outcome.tests_passed() or ""
        times = f"{outcome.seconds:7.0f}  {outcome.processor_seconds:10.0f}"
        lines.append(f"{outcome.step.ljust(width)}  {verdict:6}  {times}  {tests:>5}".rstrip())
    failed = [f"{outcome.step} (log: {outcome.log})" for outcome in outcomes if outcome.code]
    total = sum(outcome.tests_passed() for outcome in outcomes if outcome.step not in AGAIN)
    again = sum(outcome.tests_passed() for outcome in outcomes if outcome.step in AGAIN)
    twice = f" ({again} of them again with the oldest versions)" if again else ""
    used = sum(outcome.processor_seconds for outcome in outcomes)
    green = f"{len(outcomes) - len(failed)} of {len(outcomes)} steps green"
    lines.append(f"{total} tests passed{twice}, {green}, {seconds:.0f} s in all, {used:.0f} s of processors")
    return "\n".join(lines + [f"FAILED: {step}" for step in failed])


def run_all(runner: Runner, groups: dict[str, list[str]]) -> list[Outcome]:
    """Run the steps of all groups; the outcomes are in the order of the groups."""
    with (
        concurrent.futures.ThreadPoolExecutor(1) as in_front,
        concurrent.futures.ThreadPoolExecutor(AT_ONCE) as beside,
    ):
        begun: list[concurrent.futures.Future[Outcome]] = []
        try:
            begun += [in_front.submit(runner.run, step, live=True) for step in groups["main"]]
            begun += [beside.submit(runner.run, step, niceness=BESIDE_NICENESS) for step in groups["beside"]]
            concurrent.futures.wait(begun)
            begun += [beside.submit(runner.run, step) for step in groups["after"]]
            outcomes = [future.result() for future in begun]
        except KeyboardInterrupt:
            for future in begun:
                future.cancel()
            runner.end_all()
            raise
    return outcomes + [runner.run(step, live=True) for step in groups["alone"]]


def main(log_directory: str, *arguments: str) -> int:
    """Run all steps and say how they went."""
    logs = pathlib.Path(log_directory)
    logs.mkdir(parents=True, exist_ok=True)
    durations = logs.parent / "durations.json"
    durations.unlink(missing_ok=True)
    runner = Runner(logs, float(os.environ.get("MUSTER_STEP_LIMIT") or STEP_LIMIT))
    started = time.monotonic()
    outcomes = run_all(runner, parse_steps(list(arguments)))
    within_budget = budgets.report(durations)
    print(summary(outcomes, time.monotonic() - started), flush=True)
    return int(any(outcome.code for outcome in outcomes) or not within_budget)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
