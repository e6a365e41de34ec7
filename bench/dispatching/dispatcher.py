# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dispatcher in a process of its own, so that what it takes can be told from what others take.

It reads its orders as JSON from the first argument, says `ready` after its first cycle, and ends when all gangs are in
one of the wanted phases. Then it prints what its cycles took as one line of JSON and waits until its input is closed,
since what a process took is known only as long as it is there.
"""

from __future__ import annotations

import json
import sys
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions


class Watcher:
    """What the cycles of one run take."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self.cycles: list[tuple[int, float]] = []

    def see(self, cycle: t.Any) -> None:
        """Note how many gangs waited in a cycle and how long it decided."""
        if not self.cycles:
            print("ready", flush=True)
        waiting = sum(record.phase == "queued" for record in cycle.records.values())
        self.cycles.append((waiting, cycle.seconds.get("decide", 0.0)))


def main() -> None:
    """Dispatch as ordered."""
    orders = json.loads(sys.argv[1])
    auth = {"kubeconfig": orders["kubeconfig"]}
    terms = DispatchOptions(
        namespaces=(orders["namespace"],),
        duration=orders["most_seconds"],
        keep_finished=None,
        **({"start_timeout": orders["most_seconds"]} if orders["podless"] else {}),
    )

    def done(phases: t.Mapping[str, str]) -> bool:
        """Whether all gangs are where they are wanted."""
        return len(phases) == orders["gangs"] and all(phase in orders["phases"] for phase in phases.values())

    watcher = Watcher()
    result = run_dispatch(connect(auth), connect(auth), terms, lambda _text: None, until=done, on_cycle=watcher.see)
    told = {"cycles": watcher.cycles, "requests": dict(result.requests), "seconds": result.seconds}
    print(json.dumps({**told, "done": done(result.phases), "warnings": result.warnings[:5]}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
