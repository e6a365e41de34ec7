# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of every test run: markers, random suites, and what happens to a skipped test.

A skip hides a hole. All of them are listed with their reasons at the end; with MUSTER_STRICT=1 each reason must be one
of EXPECTED_SKIPS, or the run fails.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
import typing as t

import hypothesis
import pytest

# Nothing is skipped where everything of bindep.txt is installed and root runs the tests.
EXPECTED_SKIPS: tuple[str, ...] = ()
FULL = float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1

hypothesis.settings.register_profile(
    "muster", derandomize=not FULL, deadline=None, database=None, max_examples=1000 if FULL else 100, print_blob=True
)
hypothesis.settings.load_profile("muster")

SKIPS = pytest.StashKey[list[tuple[str, str]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers and prepare the list of skips."""
    config.addinivalue_line("markers", "integration: needs the local cluster")
    config.addinivalue_line("markers", "full: needs programs or time that only `make full` has")
    config.addinivalue_line("markers", "proves(row, proof): shows how far a row of the catalogue of operators works")
    config.stash[SKIPS] = []


def pytest_report_header() -> str:
    """Say what a repetition of this run needs to know."""
    scale, seed = os.environ.get("MUSTER_SCALE", "0.1"), os.environ.get("MUSTER_SEED", "1")
    return f"muster: scale {scale}, seed {seed}, strict {os.environ.get('MUSTER_STRICT', '0')}"


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test, or a whole file, did not run."""
    if expected_failure := getattr(report, "wasxfail", ""):
        return str(expected_failure)
    place_and_reason = report.longrepr
    reason = place_and_reason[2] if isinstance(place_and_reason, tuple) else str(place_and_reason)
    return reason.removeprefix("Skipped: ")


def is_expected(reason: str) -> bool:
    """Whether a skip for this reason is accepted in a strict run."""
    return any(re.search(pattern, reason) for pattern in EXPECTED_SKIPS)


class SkipKeeper:
    """Remember every skip, those that other processes of the run report included."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a skipped test."""
        if report.skipped:
            self.config.stash[SKIPS].append((report.nodeid, skip_reason(report)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a skipped file."""
        if report.skipped:
            self.config.stash[SKIPS].append((report.nodeid, skip_reason(report)))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a strict run that skipped what it should not have skipped."""
        strict = os.environ.get("MUSTER_STRICT") == "1"
        if strict and session.exitstatus == pytest.ExitCode.OK and unexpected(self.config):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: t.Any) -> None:
        """List the skips."""
        skips = self.config.stash[SKIPS]
        if not skips:
            return
        terminalreporter.section("not run")
        for nodeid, reason in sorted(set(skips)):
            mark = "expected" if is_expected(reason) else "UNEXPECTED"
            terminalreporter.write_line(f"{mark}: {nodeid}: {reason}")


class DurationKeeper:
    """Add up what the tests of each file took, setup and teardown included, and write it down at the end."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.seconds: dict[str, float] = collections.defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one part of one test."""
        self.seconds[pathlib.PurePath(report.nodeid.partition("::")[0]).name] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the table, the longest file first."""
        table = {name: round(spent, 1) for name, spent in sorted(self.seconds.items(), key=lambda entry: -entry[1])}
        self.path.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


def unexpected(config: pytest.Config) -> list[tuple[str, str]]:
    """The skips that a strict run does not accept."""
    return [(nodeid, reason) for nodeid, reason in config.stash[SKIPS] if not is_expected(reason)]


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep the list in the process that prints the results; workers of a parallel run only report to it."""
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(SkipKeeper(session.config), "muster-skips")
        if kept := os.environ.get("MUSTER_DURATIONS"):
            session.config.pluginmanager.register(DurationKeeper(pathlib.Path(kept)), "muster-durations")
