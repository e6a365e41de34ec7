# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run make targets as the steps of one test run: name and time of each, short output when green, all of it when red.

Steps after `together` run side by side, two at a time, with their output kept back; those after `alone` run one after
the other with their output shown as it comes, since they take long. Every step runs, even when an earlier one failed.
Usage: steps.py LOG_DIRECTORY together STEP... alone STEP...
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

PASSED = re.compile(r"\b(\d+) passed\b")
PRINTING = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How one step went."""

    step: str
    code: int
    seconds: float
    log: pathlib.Path

    def tests_passed(self) -> int:
        """The sum of what pytest reported in this step."""
        lines = self.log.read_text(errors="replace").splitlines()
        return sum(int(found.group(1)) for line in lines if (found := PASSED.search(line)) and " in " in line)


def say(text: str) -> None:
    """Print whole pieces of text, also when two steps end at once."""
    with PRINTING:
        print(text, flush=True)


def run_step(step: str, logs: pathlib.Path, live: bool) -> Outcome:
    """Run `make STEP`; the log is kept, and shown as it grows when live."""
    log = logs / f"{step}.log"
    say(f"==> {step}")
    started = time.monotonic()
    command = [os.environ.get("MAKE", "make"), "--no-print-directory", "-k", step]
    with open(log, "wb") as stream:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        for chunk in iter(lambda: process.stdout.read1() if process.stdout else b"", b""):
            stream.write(chunk)
            stream.flush()
            if live:
                sys.stdout.buffer.write(chunk)
                sys.stdout.flush()
        code = process.wait()
    outcome = Outcome(step, code, time.monotonic() - started, log)
    if code and not live:
        say(log.read_text(errors="replace"))
    verdict = "FAILED" if code else "ok"
    say(f"<== {step}: {verdict}, {outcome.seconds:.0f} s{describe_tests(outcome.tests_passed())}")
    return outcome


def describe_tests(count: int) -> str:
    """What to add to a line about a step that ran tests."""
    return f", {count} tests passed" if count else ""


def parse_steps(arguments: list[str]) -> dict[str, list[str]]:
    """The steps to run together and those to run alone."""
    groups: dict[str, list[str]] = {"together": [], "alone": []}
    current = groups["alone"]
    for argument in arguments:
        if argument in groups:
            current = groups[argument]
        else:
            current.append(argument)
    return groups


def summary(outcomes: list[Outcome]) -> str:
    """The closing table and the number of tests that passed."""
    width = max(len(outcome.step) for outcome in outcomes)
    lines = ["", "step".ljust(width) + "  result  seconds  tests"]
    for outcome in outcomes:
        verdict = "FAILED" if outcome.code else "ok"
        tests = outcome.tests_passed() or ""
        lines.append(f"{outcome.step.ljust(width)}  {verdict:6}  {outcome.seconds:7.0f}  {tests:>5}".rstrip())
    failed = [f"{outcome.step} (log: {outcome.log})" for outcome in outcomes if outcome.code]
    total = sum(outcome.tests_passed() for outcome in outcomes)
    lines.append(f"{total} tests passed, {len(outcomes) - len(failed)} of {len(outcomes)} steps green")
    return "\n".join(lines + [f"FAILED: {step}" for step in failed])


def main(log_directory: str, *arguments: str) -> int:
    """Run all steps and say how they went."""
    logs = pathlib.Path(log_directory)
    logs.mkdir(parents=True, exist_ok=True)
    groups = parse_steps(list(arguments))
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        outcomes = list(pool.map(lambda step: run_step(step, logs, False), groups["together"]))
    outcomes += [run_step(step, logs, True) for step in groups["alone"]]
    print(summary(outcomes), flush=True)
    return int(any(outcome.code for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
