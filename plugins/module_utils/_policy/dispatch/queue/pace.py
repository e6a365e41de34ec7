# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pace: no more pods are asked of the controllers than they make before gangs are given up for not having any.

Controllers make the pods of all gangs one after the other, a stock controller manager 20 in a second. Gangs started
beyond that would only be undone and started again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod

# Pods made within so many seconds tell how fast controllers are.
RECENT_SECONDS = 30.0
# So many pods may be missing however slow controllers seem: where nothing was asked of them nothing is known.
LEAST_PODS = 1000
# What is missing should come within this part of the time gangs are given: controllers may get slower.
_PART = 1 / 3


def pods_to_make(gang: Gang) -> int:
    """How many of a gang's pods controllers have to make; bare pods are there once the gang is started."""
    return sum(podset.count for podset in gang.podsets if podset.path != ())


def made_per_second(pods: Iterable[GangPod], tickets: frozenset[str], now: float) -> float:
    """How many of these pods controllers made lately; those owned by nothing but tickets were made by a dispatcher."""
    recent = {pod.uid for pod in pods if pod.created > now - RECENT_SECONDS and not tickets.issuperset(pod.owner_uids)}
    return len(recent) / RECENT_SECONDS


class Pace:
    """How many pods are missing, those of this cycle's starts included, and whether one more gang may start."""

    def __init__(self, rate: float, start_timeout: float) -> None:
        """The rate is that of pods made lately; start_timeout is how long gangs may lack pods."""
        self.missing = 0
        self._most = max(LEAST_PODS, rate * start_timeout * _PART)

    def expect(self, pods: int) -> None:
        """Count pods that controllers have to make."""
        self.missing += pods

    def allows(self, pods: int) -> bool:
        """Whether so many more pods would come in time; where none is missing even the largest gang may start."""
        return not pods or not self.missing or self.missing + pods <= self._most
