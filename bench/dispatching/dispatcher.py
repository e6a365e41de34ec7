# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dispatcher in a process of its own, so that what it takes can be told from what others take.

It reads its orders as JSON from the first argument, says `ready` after its first cycle, and ends when all gangs are in
one of the wanted phases. Then it prints what its cycles took as one line of JSON and waits until its input is closed,
since what a process took is known only as long as it is there. Ordered to run until it reads a line, it also tells its
writes: when, method, path, and what a record or the Lease says after it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import typing as t
import zlib

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._kube.client import Response, connect
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import BATCH_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import read_state
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions


class Writes:
    """What a run wrote. Answers are read at the end, when nothing is measured any more."""

    def __init__(self) -> None:
        """Nothing so far."""
        self._heard: list[tuple[float, str, str, bytes]] = []

    def hear(self, method: str, path: str, answer: Response | None) -> None:
        """A write is over."""
        told = path.rpartition("/")[0].endswith(("/configmaps", "/leases"))
        body = answer.body if told and answer is not None else b""
        self._heard.append((time.monotonic(), method, path.partition("?")[0], body))

    def told(self) -> list[list[t.Any]]:
        """All of them."""
        return [[moment, method, path, self._said(body)] for moment, method, path, body in self._heard]

    @staticmethod
    def _said(body: bytes) -> dict[str, t.Any]:
        """The phase and the resize of a record, or the batch of the Lease."""
        notes = (json.loads(body).get("metadata") or {}).get("annotations") or {} if body else {}
        state, batch = read_state(notes), notes.get(BATCH_ANNOTATION)
        resize = None if state is None else state.resize
        said = {} if state is None else {"phase": state.phase, "size": state.allotment}
        if resize is not None:
            said |= {"method": resize.method, "id": resize.id or resize.since, "why": state.transitions[-1].reason}
        return said | ({} if batch is None else {"batch": zlib.crc32(batch.encode())})


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
    client, writes, stopped = connect(auth), Writes(), threading.Event()
    terms = DispatchOptions(
        namespaces=(orders["namespace"],),
        duration=orders["most_seconds"],
        keep_finished=None,
        **({"start_timeout": orders["most_seconds"]} if orders["podless"] else {}),
    )

    def done(phases: t.Mapping[str, str]) -> bool:
        """Whether all gangs are where they are wanted, or there was a line."""
        if orders.get("until_line"):
            return stopped.is_set()
        return len(phases) == orders["gangs"] and all(phase in orders["phases"] for phase in phases.values())

    def wait_for_line() -> None:
        """Until somebody says that this was all."""
        sys.stdin.readline()
        stopped.set()

    if orders.get("until_line"):
        client.listen(writes.hear)
        threading.Thread(target=wait_for_line, daemon=True).start()
    watcher = Watcher()
    result = run_dispatch(client, connect(auth), terms, lambda _text: None, until=done, on_cycle=watcher.see)
    told = {"cycles": watcher.cycles, "requests": dict(result.requests), "seconds": result.seconds}
    told["writes"] = writes.told()
    print(json.dumps({**told, "done": done(result.phases), "warnings": result.warnings[:5]}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
