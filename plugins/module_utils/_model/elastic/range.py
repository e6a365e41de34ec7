# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sizes an elastic job may have: a range as it is declared, and as it is once the job's objects are known."""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Axis
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, without_none

NGPU = "NGPU"


@dataclasses.dataclass(frozen=True, slots=True)
class GlobalBatch:
    """The samples of one step of training, the same at every size, and the variables that tell a trainer its part.

    most_per_device is the most that a GPU takes at once; None when nothing is said about it.
    """

    value: int
    per_device_env: str
    accumulation_env: str | None = None
    most_per_device: int | None = None

    def environment(self, devices: int) -> dict[str, str]:
        """The variables for so many GPUs: per device x devices x accumulation is the value."""
        share = self.value // devices
        if self.accumulation_env is None:
            return {self.per_device_env: str(share)}
        each = largest_divisor(share, self.most_per_device or share)
        return {self.per_device_env: str(each), self.accumulation_env: str(share // each)}


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of a number that is at most so large."""
    most = max(1, most)
    if number <= most:
        return number
    # Divisors come in pairs, of which one is at most the root: numbers go up to billions.
    pairs = ((each, number // each) for each in range(1, math.isqrt(number) + 1) if number % each == 0)
    return max(each for pair in pairs for each in pair if each <= most)


@dataclasses.dataclass(frozen=True, slots=True)
class DeclaredRange:
    """A range as somebody wrote it; what is None is found out from the objects."""

    min: int
    max: int
    step: int | None = None
    sizes: tuple[int, ...] | None = None
    resource: str | None = None
    podset: str | None = None
    axis: Axis | None = None
    batch: GlobalBatch | None = None

    @property
    def written_sizes(self) -> tuple[int, ...]:
        """The sizes that are meant, whatever the global batch says about them."""
        if self.sizes is not None:
            return tuple(size for size in self.sizes if self.min <= size <= self.max)
        return tuple(range(self.min, self.max + 1, self.step or 1))

    def as_data(self) -> Data:
        """The range as it is stored, in the form in which users write it."""
        data = dataclasses.asdict(self)
        batch = data.pop("batch")
        if batch is not None:
            del batch["most_per_device"]
            data["global_batch"] = without_none(batch)
        data["sizes"] = None if self.sizes is None else list(self.sizes)
        return without_none(data)


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """The sizes a job may have, ascending, and what they count: GPUs of each pod of a podset, or its pods.

    A size brings unit GPUs each, and pods beside the podset have fixed ones.
    """

    sizes: tuple[int, ...]
    resource: str
    podset: str
    axis: Axis
    unit: int = 1
    fixed: int = 0
    batch: GlobalBatch | None = None

    @property
    def min(self) -> int:
        """The smallest size."""
        return self.sizes[0]

    @property
    def max(self) -> int:
        """The largest size."""
        return self.sizes[-1]

    def gpus(self, size: int) -> int:
        """All GPUs of the job at a size."""
        return self.fixed + self.unit * size

    def within(self, most: int) -> int | None:
        """The largest allowed size that is at most so large; None when even the smallest is larger."""
        place = bisect.bisect_right(self.sizes, most)
        return self.sizes[place - 1] if place else None

    def up_to(self, most: int) -> Range:
        """The same with no larger sizes than this one; the smallest stays."""
        return dataclasses.replace(self, sizes=tuple(size for size in self.sizes if size <= max(most, self.min)))

    def larger(self, size: int) -> int | None:
        """The next larger allowed size; None at the maximum."""
        place = bisect.bisect_right(self.sizes, size)
        return self.sizes[place] if place < len(self.sizes) else None

    def smaller(self, size: int) -> int | None:
        """The next smaller allowed size; None at the minimum."""
        place = bisect.bisect_left(self.sizes, size)
        return self.sizes[place - 1] if place else None


def dividing(sizes: Sequence[int], devices: Sequence[int], batch: GlobalBatch | None) -> tuple[int, ...]:
    """The sizes whose GPUs share a global batch evenly; all of them without one."""
    pairs = zip(sizes, devices, strict=True)
    return tuple(size for size, count in pairs if batch is None or (count > 0 and batch.value % count == 0))
