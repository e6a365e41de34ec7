# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arithmetic of quota trees against the real Kueue, decision by decision, on random trees."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import random
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import ensure_present
from ansible_collections.muster.kube.plugins.module_utils._kube.client import parallel
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    FlavorResource,
    QuotaAmounts,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.backends.kueue_objects import (
    build_kueue_objects,
    kueue_name,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import (
    FlavorAssignment,
    assign_flavors,
    flavored,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.victims import (
    Asker,
    Evictable,
    by_leaf,
    choose_victims,
)
from ansible_collections.muster.kube.tests.support.kueue_oracle import Amounts, Judgement, KueueTree, PodSetAsk, Sight
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster
from ansible_collections.muster.kube.tests.support.quota_cases import STEPS, Submission, TreeMaker
from ansible_collections.muster.kube.tests.support.shared_cluster import (
    FILES,
    build_programs,
    cache_directory,
    running_cluster,
)

TREES = 300
EVENTS = 14
CLASSIC_TREES = 200
CLASSIC_EVENTS = 14
# So many trees are fed at once.
WIDTH = 50
# Without fair sharing nothing tells when Kueue knows a cohort, and of many at once it hears late.
CLASSIC_WIDTH = 20
NAMESPACE = "agreement"
# Kueue decides anew of each workload, also of those that look alike.
GATES = "VisibilityOnDemand=false,SchedulingEquivalenceHashing=false"
# It tells by a reason of its own what can never be; where workloads evict others, it cannot write such a reason.
TELLING_GATES = f"{GATES},UnadmittedWorkloadsObservability=true"
FAIR_SHARING = "fairSharing:\n  preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]\n"
# A difference in what a cohort tells is found by waiting in vain.
SHARE_SECONDS = 240.0


@pytest.fixture(scope="module")
def cluster() -> t.Iterator[LiveCluster]:
    """A cluster with Kueue and nothing else."""
    build_programs("kueue")
    with running_cluster(f"kueue-{os.getpid()}", operators=("kueue",), component_flags=kueue_flags()) as running:
        running.namespace(NAMESPACE)
        yield running


def kueue_flags(gates: str = GATES, **flags: str) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Flags of Kueue as the options of a cluster have them."""
    return (("kueue", (("feature-gates", gates), *flags.items())),)


def configure(cluster: LiveCluster, *, fair: bool) -> None:
    """Let Kueue share fairly or not; it is started anew if that is not what it does."""
    usual = pathlib.Path(cluster.kubeconfig).parent / "configuration" / "kueue.yaml"
    flags = kueue_flags()
    if fair:
        changed = usual.with_name("kueue-fair.yaml")
        changed.write_text(usual.read_text(encoding="utf-8") + FAIR_SHARING, encoding="utf-8")
        flags = kueue_flags(TELLING_GATES, config=str(changed))
    spec = ClusterSpec(cluster.result["name"], operators=("kueue",), component_flags=flags)
    ensure_present(ClusterOptions(spec, cache_directory(), FILES, 300.0), lambda _text: None)


def demands_of(podsets: t.Sequence[PodSetAsk]) -> dict[str, dict[str, int]]:
    """What podsets ask for in all."""
    return {
        str(number): {key: amount * ask.count for key, amount in ask.requests.items()}
        for number, ask in enumerate(podsets)
    }


class Ours:
    """A tree as we count it."""

    def __init__(self, tree: QuotaTree) -> None:
        """Begin with nothing used."""
        self.tree = tree
        self.usage = TreeUsage(tree)
        self.started: dict[str, tuple[str, t.Mapping[FlavorResource, int]]] = {}

    def submit(self, name: str, leaf: str, podsets: t.Sequence[PodSetAsk]) -> Judgement:
        """Start a workload if it fits; what is said of it, in Kueue's words."""
        demands = demands_of(podsets)
        assignment = assign_flavors(self.usage, leaf, demands)
        if assignment.answer.answer != "fits":
            return self._refusal(leaf, demands, assignment)
        self.usage.charge(leaf, assignment.amounts)
        self.started[name] = (leaf, assignment.amounts)
        names = [kueue_name(self.tree.name, flavor) for flavor in assignment.flavors.values()]
        flavors = [dict.fromkeys(ask.requests, flavor) for ask, flavor in zip(podsets, names, strict=True)]
        return Judgement("fits", tuple(flavors))

    def end(self, name: str) -> None:
        """End a workload."""
        self.usage.release(*self.started.pop(name))

    def _refusal(
        self, leaf: str, demands: t.Mapping[str, t.Mapping[str, int]], assignment: FlavorAssignment
    ) -> Judgement:
        """Of the first podset that does not fit what each flavor lacks, as Kueue tells it."""
        taken: dict[FlavorResource, int] = collections.Counter()
        for name, demand in demands.items():
            asked = {flavor: self._asked(flavor, demand, taken) for flavor in self.tree.flavor_names}
            if not self.usage.fits(leaf, asked[assignment.flavors[name]]):
                break
            taken.update(flavored(self.tree, assignment.flavors[name], demand))
        fixed = self.usage.entitlements
        judged = Judgement("waits", (), {}, {})
        for amounts in asked.values():
            for key, lacking in self.usage.answer(leaf, amounts).short.items():
                named = (kueue_name(self.tree.name, key.flavor), key.resource)
                most = fixed.columns[key].potential[fixed.place[leaf]]
                (judged.capped if amounts[key] > most else judged.short)[named] = (
                    most if amounts[key] > most else lacking
                )
        never = all(self.usage.never_fits(leaf, amounts) for amounts in asked.values())
        if len(demands) == 1:
            assert never == (assignment.answer.answer == "never")
        return dataclasses.replace(judged, answer="never" if never else "waits")

    def _asked(self, flavor: str, demand: t.Mapping[str, int], taken: QuotaAmounts) -> QuotaAmounts:
        """What a podset would have of a flavor together with those before it."""
        return {key: amount + taken.get(key, 0) for key, amount in flavored(self.tree, flavor, demand).items()}

    def named(self, leaf: str, figure: t.Callable[[str, FlavorResource], int]) -> Amounts:
        """A figure of a leaf for all that is counted, in Kueue's names."""
        return {(kueue_name(self.tree.name, key.flavor), key.resource): figure(leaf, key) for key in self.tree.keys}

    def borrows(self, name: str) -> bool:
        """Whether a workload was started, and its leaf uses more of what it asked for than its own."""
        leaf, amounts = self.started.get(name, ("", {}))
        return any(self.borrowed(leaf, key) for key in amounts)

    def borrowed(self, leaf: str, key: FlavorResource) -> int:
        """What a leaf uses beyond its nominal amount."""
        return next(level.borrowed for level in self.usage.standing(leaf) if level.key == key)


class Classic:
    """One tree in which workloads evict others, in Kueue and with us."""

    def __init__(self, cluster: LiveCluster, sight: Sight, seed: int, number: int) -> None:
        """Draw the tree and what happens in it; one flavor, since Kueue tries eviction in one flavor only."""
        self._seed = f"{seed}/classic/{number}"
        maker = TreeMaker(random.Random(self._seed), "any", (1,))
        self._tree = read_tree(f"c{number}", maker.declaration())
        self._events = maker.events([leaf.name for leaf in self._tree.leaves], CLASSIC_EVENTS, 0.0, (1, 1, 2))
        self._usage = TreeUsage(self._tree)
        self._started: dict[str, Evictable] = {}
        objects = build_kueue_objects(self._tree, {NAMESPACE: {}}).objects
        self._theirs = KueueTree(cluster, sight, self._tree.name, objects)
        self.differences: list[str] = []
        self.larger: list[str] = []
        self.counts: collections.Counter[str] = collections.Counter()

    def run(self) -> Classic:
        """Let everything happen on both sides; afterwards ours has what Kueue has."""
        self._theirs.plant()
        for number, event in enumerate(self._events):
            if isinstance(event, Submission):
                self._submit(number, event)
            elif self._started:
                name = sorted(self._started)[event.number % len(self._started)]
                self._end(name)
                self._theirs.release(name)
        self._theirs.uproot()
        return self

    def _end(self, name: str) -> None:
        gone = self._started.pop(name)
        self._usage.release(gone.leaf, gone.amounts)

    def _submit(self, number: int, event: Submission) -> None:
        """One workload that may evict others."""
        name = f"{self._tree.name}-{event.name}"
        found = assign_flavors(self._usage, event.leaf, demands_of(event.podsets))
        asker = Asker(event.leaf, found.amounts, event.priority)
        chosen = choose_victims(self._usage, asker, by_leaf(self._started.values()))
        queue = kueue_name(self._tree.name, event.leaf)
        theirs = self._theirs.submit_over(name, queue, event.podsets, event.priority, hoped=chosen is not None)
        word = "refused" if theirs is None else "evicted" if theirs else "let in"
        self.counts[word] += 1
        if (chosen is None) != (theirs is None):
            ours = None if chosen is None else [victim.uid for victim in chosen]
            line = f"seed {self._seed}, event {number}: {event}: victims ours {ours}, Kueue's {theirs}"
            line += f" {self._theirs.said}" if theirs is None else ""
            self.differences.append(line)
        elif chosen and theirs:
            self._compare_sums(number, event, [victim.uid for victim in chosen], theirs)
        for victim in theirs or ():
            self._end(victim)
        if theirs is not None:
            self._usage.charge(event.leaf, found.amounts)
            self._started[name] = Evictable(name, event.leaf, found.amounts, event.priority, float(number))

    def _compare_sums(self, number: int, event: Submission, ours: t.Sequence[str], theirs: t.Sequence[str]) -> None:
        """Note when our victims have more than Kueue's, all resources in steps."""
        own, other = (
            sum(amount / STEPS[key.resource] for name in names for key, amount in self._started[name].amounts.items())
            for names in (ours, theirs)
        )
        if own > other:
            self.larger.append(
                f"seed {self._seed}, event {number}: {event}: victims"
                f" ours {ours} ({own:g}), Kueue's {theirs} ({other:g})"
            )


def test_gangs_get_in_by_eviction_where_they_do_with_kueue(cluster: LiveCluster, seed, scale):
    configure(cluster, fair=False)
    began = time.monotonic()
    sight = Sight(cluster.client)
    with sight.following():
        numbers = range(round(CLASSIC_TREES * scale))
        made = parallel(
            [lambda number=number: Classic(cluster, sight, seed, number).run() for number in numbers], CLASSIC_WIDTH
        )
    counts = sum((item.counts for item in made), collections.Counter())
    larger = [line for item in made for line in item.larger]
    print(f"\n{len(made)} trees, {dict(counts)}, {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
    print("\n".join([f"more victims than Kueue: {len(larger)} of {counts['evicted']}", *larger]))
    differences = [line for item in made for line in item.differences]
    assert not differences, "\n".join(differences)
    assert len(larger) <= counts["evicted"] * 0.05
    assert counts["evicted"] >= len(made) / 3


class Comparison:
    """One tree in Kueue and with us, and where they differ."""

    def __init__(self, cluster: LiveCluster, sight: Sight, seed: int, number: int) -> None:
        """Draw the tree and what happens in it; the same seed and number give the same again."""
        self._seed = f"{seed}/{number}"
        chance = random.Random(self._seed)
        maker = TreeMaker(chance)
        self.tree = read_tree(f"t{number}", maker.declaration())
        leaves = [leaf.name for leaf in self.tree.leaves]
        self._events = maker.events(leaves, EVENTS)
        self._ours = Ours(self.tree)
        objects = build_kueue_objects(self.tree, {NAMESPACE: {}}).objects
        for obj in objects:
            if obj["kind"] == "ClusterQueue":
                obj["spec"]["preemption"]["withinClusterQueue"] = "Never"
        self._theirs = KueueTree(cluster, sight, self.tree.name, objects)
        self.differences: list[str] = []
        self.counts: collections.Counter[str] = collections.Counter()

    def run(self) -> Comparison:
        """Let everything happen on both sides."""
        self._theirs.plant()
        self._theirs.wait_fair()
        for number, event in enumerate(self._events):
            if isinstance(event, Submission):
                self._submit(number, event)
            elif self._ours.started:
                name = sorted(self._ours.started)[event.number % len(self._ours.started)]
                self._ours.end(name)
                self._theirs.release(name)
                self.counts["ended"] += 1
            self._compare_figures(number)
            if self.differences:
                break
        self._theirs.uproot()
        return self

    def _differ(self, number: int, what: str, ours: t.Any, theirs: t.Any) -> None:
        """Note a difference so that it can be looked at again."""
        self.differences.append(f"seed {self._seed}, event {number}: {what}: ours {ours}, Kueue's {theirs}")

    def _submit(self, number: int, event: Submission) -> None:
        """One workload on both sides."""
        name = f"{self.tree.name}-{event.name}"
        expected = self._ours.submit(name, event.leaf, event.podsets)
        queue = kueue_name(self.tree.name, event.leaf)
        judged = self._theirs.submit(name, queue, event.podsets, expected=expected)
        self.counts["borrows" if self._ours.borrows(name) else expected.answer] += 1
        for field in ("answer", "flavors", "short", "capped"):
            ours, theirs = getattr(expected, field), getattr(judged, field)
            if ours != theirs:
                self._differ(number, f"{field} of {event}", ours, f"{theirs} {judged.message}")

    def _compare_figures(self, number: int) -> None:
        """Reservation and borrowed of each leaf, and the shares of all queues."""
        ours = self._ours
        for leaf in self.tree.leaves:
            theirs = self._theirs.figures(kueue_name(self.tree.name, leaf.name))
            figures = (
                ("reserved", ours.named(leaf.name, ours.usage.used), theirs.reserved),
                ("borrowed", ours.named(leaf.name, ours.borrowed), theirs.borrowed),
                ("share", ours.usage.share(leaf.name).rounded, theirs.share),
            )
            for what, own, other in figures:
                if own != other:
                    self._differ(number, f"{what} of {leaf.name}", own, other)
                self.counts["figures"] += 1
        for queue in self.tree.queues:
            if self.tree.children[queue.name] and not self.differences:
                own = ours.usage.share(queue.name).rounded
                other = self._theirs.cohort_share(kueue_name(self.tree.name, queue.name), own, SHARE_SECONDS)
                self.counts["figures"] += 1
                if own != other:
                    self._differ(number, f"share of {queue.name}", own, other)


def test_every_decision_is_that_of_kueue(cluster: LiveCluster, seed, scale):
    configure(cluster, fair=True)
    began = time.monotonic()
    sight = Sight(cluster.client)
    with sight.following():
        numbers = range(round(TREES * scale))
        made = parallel(
            [lambda number=number: Comparison(cluster, sight, seed, number).run() for number in numbers], WIDTH
        )
    counts = sum((item.counts for item in made), collections.Counter())
    print(f"\n{len(made)} trees, {dict(counts)}, {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
    differences = [line for item in made for line in item.differences]
    assert not differences, "\n".join(differences)
    # Enough of everything happened.
    assert all(counts[word] >= len(made) / 3 for word in ("fits", "borrows", "waits", "never", "ended")), counts
