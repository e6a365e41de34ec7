# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The quota tree: queues with what each is entitled to, lends and borrows, as an administrator declared it.

Amounts are scaled integers as everywhere (milli-units of cpu, whole units of everything else), by flavor and resource.
A tree without flavors has one that has no name.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t
from collections.abc import Mapping
from fractions import Fraction

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import LabelSelector, label_selector

Reclaim = t.Literal["any", "lower_priority", "never"]
Stop = t.Literal["none", "hold", "drain"]
Fair = t.Literal["borrowed", "usage"]
Period = t.Literal["month", "quarter", "year"]
OverCapacity = t.Literal["refuse", "warn"]
Backend = t.Literal["embedded", "kueue", "resourcequota"]

RECLAIMS: tuple[Reclaim, ...] = t.get_args(Reclaim)
STOPS: tuple[Stop, ...] = t.get_args(Stop)
FAIRS: tuple[Fair, ...] = t.get_args(Fair)
PERIODS: tuple[Period, ...] = t.get_args(Period)
OVER_CAPACITIES: tuple[OverCapacity, ...] = t.get_args(OverCapacity)
BACKENDS: tuple[Backend, ...] = t.get_args(Backend)
# Of these exactly one hands out a tree: two of them would each hand out the whole.
COUNTING: tuple[Backend, ...] = ("embedded", "kueue")

NO_FLAVOR = ""
# The tree that a gang means when it names a queue and no tree.
DEFAULT_TREE = "default"


class FlavorResource(t.NamedTuple):
    """What amounts are counted by: a kind of nodes, and a resource on them."""

    flavor: str
    resource: str


# Scaled amounts by flavor and resource; what is missing is zero for nominal and extra, and no limit for limits.
QuotaAmounts = Mapping[FlavorResource, int]


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaFlavor:
    """A kind of nodes that is counted apart; pods charged to it are confined to nodes with these labels."""

    name: str
    node_labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerations: tuple[Data, ...] = ()
    unknown: Data = dataclasses.field(default_factory=dict)

    @property
    def confines(self) -> bool:
        """Whether pods charged to it differ from what their user wrote."""
        return bool(self.node_labels or self.tolerations)


@dataclasses.dataclass(frozen=True, slots=True)
class UserLimits:
    """What one user may have in a queue: gangs started and waiting, and scaled amounts; None is no limit."""

    running: int | None = None
    pending: int | None = None
    resources: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class QueueBudget:
    """Resource-hours that a queue may use in a period, in scaled amounts."""

    hours: Mapping[str, int]
    period: Period = "month"


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaQueue:
    """One queue as declared: a leaf with a nominal amount that gangs are charged to, or one above others.

    extra is a pool of its own that an inner queue adds to what its queues bring; capacity is the most they may have
    together. hard says that nothing may be borrowed. note is for people. unknown holds keys of a later version, to be
    written back.
    """

    name: str
    parent: str | None = None
    nominal: QuotaAmounts = dataclasses.field(default_factory=dict)
    extra: QuotaAmounts = dataclasses.field(default_factory=dict)
    capacity: QuotaAmounts = dataclasses.field(default_factory=dict)
    borrowing_limit: QuotaAmounts = dataclasses.field(default_factory=dict)
    lending_limit: QuotaAmounts = dataclasses.field(default_factory=dict)
    hard: bool = False
    weight: Fraction = Fraction(1)
    priority_cap: int | None = None
    namespaces: tuple[str, ...] = ()
    selector: Data | None = None
    default: bool = False
    reclaim: Reclaim = "any"
    user_limits: UserLimits = UserLimits()
    budget: QueueBudget | None = None
    stop: Stop = "none"
    note: str = ""
    unknown: Data = dataclasses.field(default_factory=dict)

    def most_borrowed(self, key: FlavorResource) -> int | None:
        """The most it may borrow; None without a limit."""
        return 0 if self.hard else self.borrowing_limit.get(key)

    @property
    def namespace_selector(self) -> LabelSelector | None:
        """The selector of namespaces, None without one."""
        return label_selector(self.selector)

    @property
    def open_to_all(self) -> bool:
        """Whether gangs of every namespace may name this leaf: it names neither namespaces nor a selector."""
        return not self.namespaces and self.selector is None


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaSettings:
    """What holds for the whole tree; times are seconds, prices are per hour of one unit (a core, a GPU, a GiB)."""

    fair: Fair = "borrowed"
    half_life: float = 7 * 86_400.0
    min_run_time: float = 600.0
    nominate_timeout: float = 300.0
    max_evictions: int = 10
    prices: Mapping[FlavorResource, Fraction] = dataclasses.field(default_factory=dict)
    unknown: Data = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class QuotaTree:
    """A tree that was found sound: one root, every parent known, no cycle. Queues are sorted by their paths.

    label is that of records by which gangs name their queue, if it is not called like the tree. priorities are names of
    priorities for those who know them by names only.
    """

    name: str
    queues: tuple[QuotaQueue, ...]
    flavors: tuple[QuotaFlavor, ...] = ()
    settings: QuotaSettings = QuotaSettings()
    over_capacity: OverCapacity = "refuse"
    backends: tuple[Backend, ...] = ("embedded",)
    label: str | None = None
    priorities: Mapping[str, int] = dataclasses.field(default_factory=dict)
    unknown: Data = dataclasses.field(default_factory=dict)

    @property
    def counted_by(self) -> Backend:
        """Who hands out what the tree has."""
        return next(backend for backend in COUNTING if backend in self.backends)

    @property
    def queue_label(self) -> str:
        """The label of records that names a gang's queue."""
        return self.label or self.name

    @functools.cached_property
    def by_name(self) -> Mapping[str, QuotaQueue]:
        """The queues by their names."""
        return {queue.name: queue for queue in self.queues}

    @functools.cached_property
    def root(self) -> QuotaQueue:
        """The queue above all others."""
        return next(queue for queue in self.queues if queue.parent is None)

    @functools.cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the queues right below each queue; empty for leaves."""
        below: dict[str, list[str]] = {queue.name: [] for queue in self.queues}
        for queue in self.queues:
            if queue.parent is not None:
                below[queue.parent].append(queue.name)
        return {name: tuple(names) for name, names in below.items()}

    @functools.cached_property
    def leaves(self) -> tuple[QuotaQueue, ...]:
        """The queues that gangs are charged to."""
        return tuple(queue for queue in self.queues if not self.children[queue.name])

    @functools.cached_property
    def naming(self) -> Mapping[str, tuple[QuotaQueue, ...]]:
        """The leaves that name each namespace."""
        found: dict[str, tuple[QuotaQueue, ...]] = {}
        for queue in self.leaves:
            for namespace in dict.fromkeys(queue.namespaces):
                found[namespace] = (*found.get(namespace, ()), queue)
        return found

    @functools.cached_property
    def default_leaf(self) -> QuotaQueue | None:
        """The leaf of gangs that no other rule gives one."""
        return next((queue for queue in self.leaves if queue.default), None)

    def ancestry(self, name: str) -> tuple[str, ...]:
        """The names of a queue and of all above it, the root last."""
        names = [name]
        while (parent := self.by_name[names[-1]].parent) is not None:
            names.append(parent)
        return tuple(names)

    def path(self, name: str) -> str:
        """A queue's place for people: the names from the root down to it."""
        return "/".join(reversed(self.ancestry(name)))

    @functools.cached_property
    def flavor_names(self) -> tuple[str, ...]:
        """The flavors in the order in which they are tried."""
        return tuple(flavor.name for flavor in self.flavors) or (NO_FLAVOR,)

    @functools.cached_property
    def resources(self) -> tuple[str, ...]:
        """The resources that the tree counts: those that any queue has an amount of; others are not its business."""
        amounts = (part for queue in self.queues for part in (queue.nominal, queue.extra, queue.capacity))
        return tuple(sorted({key.resource for part in amounts for key in part}))

    @functools.cached_property
    def keys(self) -> tuple[FlavorResource, ...]:
        """Everything that is counted: each resource of the tree in each flavor."""
        return tuple(FlavorResource(flavor, name) for flavor in self.flavor_names for name in self.resources)
