# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A data-parallel training in as many processes as there are GPUs, whose result is the same for any number, bit by bit.

All numbers are whole and taken modulo a prime, so a sum does not depend on its order. Each step has the same samples,
dealt out to the processes; what they found is added up, and all make the same change. A step takes less time the more
processes there are. Rank 0 keeps checkpoints and a log of what it computed in TRAINING_FOLDER, where a file `last`
says after which step it ends. It goes on with the last checkpoint.

NGPU                number of processes
TRAINING_SAVES      how many steps lie between two checkpoints
TRAINING_SECONDS    what a step of one process takes
TRAINING_SIGTERM    what rank 0 does then: "end" at once, or "save" and end with 0
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import signal
import socket
import sys
import time
import types
import typing as t

import muster_trainer

PRIME = 2**61 - 1
WEIGHTS = 8
SAMPLES = 12
RATE = 3
FOLDER = pathlib.Path(os.environ["TRAINING_FOLDER"])
CHECKPOINT = FOLDER / "checkpoint.json"
LOG = FOLDER / "log"
# As programs end that were told to by SIGTERM.
TERMINATED = 143


class Ranks:
    """The processes of a training; each calls the same functions in the same order."""

    def __init__(self, size: int) -> None:
        """Start the others; each returns from here with its own rank."""
        self.size, self.rank = size, 0
        self._links: list[t.IO[bytes]] = []
        for rank in range(1, size):
            here, there = socket.socketpair()
            if os.fork() == 0:
                self.rank, self._links = rank, [there.makefile("rwb")]
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                return
            self._links.append(here.makefile("rwb"))

    def sum(self, numbers: list[int]) -> list[int]:
        """The numbers of all processes, added up; all get the same."""
        if self.rank:
            self._tell(numbers)
            return t.cast("list[int]", self._told(self._links[0]))
        for link in self._links:
            numbers = [(one + other) % PRIME for one, other in zip(numbers, self._told(link), strict=True)]
        self._tell(numbers)
        return numbers

    def agree(self, said: t.Any) -> t.Any:
        """What rank 0 says."""
        if self.rank:
            return self._told(self._links[0])
        self._tell(said)
        return said

    def _tell(self, what: t.Any) -> None:
        for link in self._links:
            link.write(json.dumps(what).encode() + b"\n")
            link.flush()

    def _told(self, link: t.IO[bytes]) -> t.Any:
        line = link.readline()
        if not line:
            # Another process has ended, and with it the training.
            os._exit(1)
        return json.loads(line)


def numbers(*key: object) -> list[int]:
    """Whole numbers that follow from a key."""
    found = (hashlib.sha256(repr((*key, place)).encode()).digest() for place in range(WEIGHTS + 1))
    return [int.from_bytes(digest[:8], "big") % PRIME for digest in found]


def gradient(weights: list[int], step: int, sample: int) -> list[int]:
    """What one sample says of each weight."""
    *given, wanted = numbers("sample", step, sample)
    error = (sum(one * other for one, other in zip(weights, given, strict=True)) - wanted) % PRIME
    return [error * value % PRIME for value in given]


def trained(ranks: Ranks, weights: list[int], step: int) -> list[int]:
    """The weights after a step."""
    mine = [0] * WEIGHTS
    for sample in range(ranks.rank, SAMPLES, ranks.size):
        found = gradient(weights, step, sample)
        mine = [(one + other) % PRIME for one, other in zip(mine, found, strict=True)]
    time.sleep(float(os.environ["TRAINING_SECONDS"]) / ranks.size)
    return [(one - RATE * other) % PRIME for one, other in zip(weights, ranks.sum(mine), strict=True)]


def store(path: pathlib.Path, step: int, weights: list[int]) -> None:
    """Write a file that is there as a whole or not at all."""
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as stream:
        json.dump({"step": step, "weights": weights}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    draft.rename(path)


def note(*words: object) -> None:
    """One line of the log."""
    with LOG.open("ab", buffering=0) as stream:
        stream.write((" ".join(map(str, words)) + "\n").encode())


def last_step() -> int | None:
    """After which step it ends, as far as that is known."""
    with contextlib.suppress(FileNotFoundError):
        return int((FOLDER / "last").read_text(encoding="utf-8"))
    return None


def main() -> None:
    """Train until the last step."""
    told: list[int] = []
    saves = os.environ["TRAINING_SIGTERM"] == "save"
    signal.signal(signal.SIGTERM, lambda *_: told.append(1) if saves else os._exit(TERMINATED))
    ranks = Ranks(int(os.environ["NGPU"]))
    os.environ["RANK"] = str(ranks.rank)
    found = json.loads(CHECKPOINT.read_text(encoding="utf-8")) if CHECKPOINT.exists() else None
    step, weights = (found["step"], found["weights"]) if found else (0, numbers("weights")[:WEIGHTS])
    callback = muster_trainer.MusterCallback(every=1, agree=ranks.agree)
    state = types.SimpleNamespace(global_step=step, max_steps=0, is_world_process_zero=ranks.rank == 0)
    control = types.SimpleNamespace(should_save=False)

    def save() -> None:
        """Keep a checkpoint, and tell of it when it is there."""
        if ranks.rank == 0:
            store(CHECKPOINT, step, weights)
            note("saved", step)
        callback.on_save(None, state, control)

    if ranks.rank == 0:
        note("run", ranks.size, step)
    callback.on_train_begin(None, state, control)
    while True:
        last, ends = ranks.agree([last_step(), bool(told)])
        if ends:
            save()
            sys.exit(0)
        if last is not None and step >= last:
            break
        step += 1
        weights = trained(ranks, weights, step)
        if ranks.rank == 0:
            note("step", step)
        state.global_step, control.should_save = step, False
        callback.on_step_end(None, state, control)
        if control.should_save or step % int(os.environ["TRAINING_SAVES"]) == 0:
            save()
    callback.on_train_end(None, state, control)
    if ranks.rank == 0:
        store(FOLDER / "result.json", step, weights)


if __name__ == "__main__":
    main()
