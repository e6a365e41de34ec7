# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random quota trees as users declare them, and what happens in them: workloads that come, and some that end."""

from __future__ import annotations

import random
import typing as t

from ansible_collections.muster.kube.tests.support.kueue_oracle import PodSetAsk

Declaration = dict[str, t.Any]

# One step of amounts, in the units that are counted: small enough for limits to bind, odd enough to show bad rounding.
STEPS = {"cpu": 300, "memory": 7 * 2**20 + 1, "nvidia.com/gpu": 1}
# Weights that floating point has exactly: Kueue rounds shares up, and with others a share can come out one too high.
WEIGHTS = ("0", "250m", "500m", "1", "1", "1", "1500m", "2", "3")
DEPTH = 4


class Submission(t.NamedTuple):
    """A workload comes to a leaf."""

    name: str
    leaf: str
    podsets: tuple[PodSetAsk, ...]
    priority: int = 0


class Ending(t.NamedTuple):
    """One of the started workloads ends: this one, counted round."""

    number: int


def quantity(resource: str, amount: int) -> str:
    """An amount as people write it."""
    return f"{amount}m" if resource == "cpu" else str(amount)


class TreeMaker:
    """Random trees of one seed."""

    def __init__(self, chance: random.Random, reclaim: str = "never", flavors: t.Sequence[int] = (2, 2, 3)) -> None:
        """Decide what a tree counts."""
        self._chance = chance
        self._reclaim = reclaim
        self._flavors = [f"f{number}" for number in range(chance.choice(flavors))]
        self._resources = sorted(chance.sample(sorted(STEPS), chance.choice((2, 2, 3))))

    def declaration(self) -> Declaration:
        """A tree of at most four levels."""
        queues = [self._inner("root", None)]
        depths = {"root": 1}
        for number in range(self._chance.randint(0, 3)):
            parent = self._chance.choice([name for name, depth in depths.items() if depth < DEPTH - 1])
            depths[f"i{number}"] = depths[parent] + 1
            queues.append(self._inner(f"i{number}", parent))
        childless = set(depths) - {queue.get("parent") for queue in queues}
        homes = [*sorted(childless), *self._chance.choices(sorted(depths), k=self._chance.randint(1, 3))]
        queues += [self._leaf(f"q{number}", home) for number, home in enumerate(homes)]
        self._chance.shuffle(queues)
        if self._chance.random() < 0.03:
            queues = [{**self._leaf("alone", None), "parent": None}]
        return {"flavors": [{"name": name} for name in self._flavors], "queues": queues}

    def _leaf(self, name: str, parent: str | None) -> Declaration:
        """A leaf; what it lends is part of its nominal amount."""
        nominal = self._amounts(0.85, lambda _flavor, _name: self._chance.randint(0, 6))
        # Kueue refuses whatever asks for a resource that its queue does not know; to a tree it is no business of its.
        nominal |= {(self._flavors[0], kind): 0 for kind in self._resources if (self._flavors[0], kind) not in nominal}
        made: Declaration = {
            "name": name,
            "parent": parent,
            "reclaim": self._reclaim,
            "nominal": self._written(nominal),
        }
        if parent is not None:
            made |= self._limits(lambda flavor, kind: self._chance.randint(0, nominal.get((flavor, kind), 0)))
        return {**made, "weight": self._chance.choice(WEIGHTS)}

    def _inner(self, name: str, parent: str | None) -> Declaration:
        """A queue above others, perhaps with a pool of its own."""
        extra = self._amounts(0.25, lambda _flavor, _name: self._chance.randint(0, 5))
        made: Declaration = {"name": name, "extra": self._written(extra), "weight": self._chance.choice(WEIGHTS)}
        if parent is None:
            return made
        return {**made, "parent": parent, **self._limits(lambda _flavor, _name: self._chance.randint(0, 10))}

    def _limits(self, lending: t.Callable[[str, str], int]) -> Declaration:
        """What is lent and borrowed at most; few queues are hard."""
        limits: Declaration = {"lending_limit": self._written(self._amounts(0.3, lending))}
        if self._chance.random() < 0.08:
            return {**limits, "hard": True}
        borrowing = self._amounts(0.35, lambda _flavor, _name: self._chance.choice((0, 1, 1, 2, 3, 5)))
        return {**limits, "borrowing_limit": self._written(borrowing)}

    def _amounts(self, odds: float, draw: t.Callable[[str, str], int]) -> dict[tuple[str, str], int]:
        """Steps by flavor and resource, of some of them."""
        keys = [(flavor, name) for flavor in self._flavors for name in self._resources]
        return {key: draw(*key) for key in keys if self._chance.random() < odds}

    def _written(self, amounts: t.Mapping[tuple[str, str], int]) -> Declaration:
        """Amounts as users declare them."""
        made: Declaration = {}
        for (flavor, name), steps in amounts.items():
            made.setdefault(flavor, {})[name] = quantity(name, steps * STEPS[name])
        return made

    def events(
        self, leaves: t.Sequence[str], count: int, endings: float = 0.25, sizes: t.Sequence[int] = (1, 1, 2, 2, 3, 12)
    ) -> list[Submission | Ending]:
        """What happens one after the other; a workload has so many steps of a resource at most."""
        chance = self._chance
        return [
            Ending(chance.randrange(1000))
            if chance.random() < endings
            else self._submission(f"w{number}", leaves, sizes)
            for number in range(count)
        ]

    def _submission(self, name: str, leaves: t.Sequence[str], sizes: t.Sequence[int]) -> Submission:
        """A workload of one to three podsets."""
        most = self._chance.choice(sizes)
        podsets = tuple(self._podset(most) for _ in range(self._chance.choice((1, 1, 1, 2, 3))))
        return Submission(name, self._chance.choice(leaves), podsets, self._chance.randint(0, 3))

    def _podset(self, most: int) -> PodSetAsk:
        """Some pods that request one or more of the resources."""
        asked = self._chance.sample(self._resources, self._chance.randint(1, len(self._resources)))
        requests = {name: self._chance.randint(1, most) * STEPS[name] for name in sorted(asked)}
        return PodSetAsk(self._chance.choice((1, 1, 2, 3)), requests)
