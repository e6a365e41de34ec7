# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare what the integration tests of each capability took with what they may take.

The budgets stand in tests/integration/capabilities.json: seconds of one worker on a machine with two processors that
does nothing else. Machines differ, so to be over a budget is a failure only with MUSTER_STRICT_TIME=1, and only by more
than half. With a capability that is over, look for tests that start Ansible or a cluster where a call would do.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib

CAPABILITIES = pathlib.Path(__file__).resolve().parents[1] / "integration" / "capabilities.json"
TOLERANCE = 1.5


@dataclasses.dataclass(frozen=True)
class Spent:
    """What one capability took, in seconds."""

    capability: str
    seconds: float
    budget: float

    @property
    def over(self) -> bool:
        """Whether it took so much more that something must have changed."""
        return self.seconds > TOLERANCE * self.budget


def spent(durations: dict[str, float], capabilities: dict[str, dict[str, object]]) -> list[Spent]:
    """The capabilities whose tests ran, the most expensive first."""
    found = [
        Spent(name, sum(durations.get(file, 0.0) for file in entry["files"]), float(entry["seconds"]))
        for name, entry in capabilities.items()
    ]
    return sorted((item for item in found if item.seconds), key=lambda item: -item.seconds)


def table(items: list[Spent]) -> str:
    """The comparison as text."""
    width = max(len("capability"), *(len(item.capability) for item in items))
    lines = ["", "capability".ljust(width) + "  seconds  budget"]
    for item in items:
        remark = "  OVER" if item.over else ""
        lines.append(f"{item.capability.ljust(width)}  {item.seconds:7.0f}  {item.budget:6.0f}{remark}")
    return "\n".join(lines)


def report(durations: pathlib.Path, capabilities: pathlib.Path = CAPABILITIES) -> bool:
    """Print the comparison for a run that has kept its durations; returns whether it passes."""
    if not durations.exists():
        return True
    items = spent(json.loads(durations.read_text()), json.loads(capabilities.read_text()))
    if not items:
        return True
    print(table(items), flush=True)
    return os.environ.get("MUSTER_STRICT_TIME") != "1" or not any(item.over for item in items)
