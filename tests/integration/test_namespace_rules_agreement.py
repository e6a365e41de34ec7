# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceQuotas and LimitRanges: the verdict against the admission of the real API server, in random namespaces.

Each gang is created twice: where a quota lacks one unit of one resource, and where it has exactly enough.
"""

from __future__ import annotations

import collections
import dataclasses
import random
import re
from functools import partial

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import decide
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import needs_of, read_snapshot
from ansible_collections.muster.kube.plugins.module_utils._kube.client import parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import list_and_watch
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import (
    GangRequest,
    made_of,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang, sized_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import base_resource
from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import MadeObjects
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    amount_text,
    parse_quantity,
    unscaled,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import (
    judge_namespace,
    quota_use,
)
from ansible_collections.muster.kube.tests.support.live_cluster import DEADLINE, wait_until
from ansible_collections.muster.kube.tests.support.namespace_rule_cases import make_space, shared_objects
from ansible_collections.muster.kube.tests.support.pod_cases import runtime_classes

SPACES = 200
BATCH = 40
TICKET = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ticket"}}
BOUND = re.compile(r"(?:(minimum|maximum) (\S+) usage per|([^\s[]+) max limit to request ratio per) (\w+) is")
OUR_BOUND = re.compile(
    r"(?:of|for) (\S+), the (minimum|maximum) is|for (\S+?),? their ratio|times its request for (\S+)$"
)
EXCEEDED = re.compile(r"exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)$")


@dataclasses.dataclass
class Trial:
    """A namespace under way: what may be created there at all, and which resource of which quota is one short."""

    space: object
    objects: list = dataclasses.field(default_factory=list)
    hard: dict = dataclasses.field(default_factory=dict)
    short: tuple | None = None
    used: dict = dataclasses.field(default_factory=dict)
    refused: list = dataclasses.field(default_factory=list)


def gang_of_objects(objects, snapshot, namespace, *, ticket):
    """The gang of these objects, or one object alone, for which nobody makes a ticket."""
    # Pods are not counted among what is made, so that of one only the ticket is.
    a_pod = {"apiVersion": "v1", "kind": "Pod"}
    made = made_of(objects or [a_pod])
    if not ticket:
        ours = collections.Counter(dict(made_of([a_pod]).counts))
        made = dataclasses.replace(made, counts=tuple((collections.Counter(dict(made.counts)) - ours).items()))
    request = GangRequest("g", namespace, tuple(objects), None)
    podsets = sized_podsets(request, snapshot) if objects else ()
    return Gang("g", namespace, podsets, made.claim_names, made)


def ask(obj, snapshot, namespace, taken):
    """What the rules say of one object."""
    gang = gang_of_objects([obj], snapshot, namespace, ticket=False)
    pairs = [(podset, podset.constraints) for podset in gang.podsets]
    space, _hopeful = judge_namespace(gang, pairs, snapshot, taken)
    return space, quota_use(gang, space)


def read(cluster, trials):
    """The rules of all namespaces as they are now."""
    names = [trial.space.name for trial in trials]
    needs = needs_of([Gang("g", name, (), made=MadeObjects()) for name in names])
    needs = dataclasses.replace(needs, claims=True, runtime_classes=True)
    return read_snapshot(cluster.client, needs).snapshot


def prepare(cluster, trials):
    """Namespaces with what is there before, and their rules."""
    names = {trial.space.name for trial in trials}
    cluster.create(*({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names))
    for plural, name in (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")):
        seen = set()
        # Whatever controllers put into a namespace has to be there: it counts.
        for step in list_and_watch(
            cluster.client,
            resource_path("v1", plural),
            lambda raw: raw["metadata"]["namespace"],
            timeout=DEADLINE,
            field_selector=f"metadata.name={name}",
        ):
            seen |= {*step.items, step.item}
            if names <= seen:
                break
        assert names <= seen
    cluster.create(*(obj for trial in trials for obj in trial.space.before))
    cluster.create(*(obj for trial in trials for obj in (*trial.space.limit_ranges, *trial.space.quotas)))
    wait_for_quotas(cluster, trials)


def wait_for_quotas(cluster, trials):
    """Watch until what all quotas limit is in force."""
    behind = {(trial.space.name, quota["metadata"]["name"]) for trial in trials for quota in trial.space.quotas}
    path = resource_path("v1", "resourcequotas")
    for step in list_and_watch(cluster.client, path, lambda raw: raw, timeout=DEADLINE):
        for quota in (*step.items, *([step.item] if step.item else ())):
            status, meta = quota.get("status") or {}, quota["metadata"]
            if status.get("hard") == quota["spec"]["hard"] and status.get("used", {}).keys() == status["hard"].keys():
                behind.discard((meta["namespace"], meta["name"]))
        if not behind:
            return
    raise AssertionError(f"waited in vain for the quotas {sorted(behind)}")


def attempt(cluster, obj, *, dry_run):
    """The server's words when it refuses an object; None when it takes it."""
    while True:
        try:
            create(cluster.client, cluster.path(obj, named=False), obj, dry_run=dry_run)
        except ApiError as error:
            # Admission read a quota that was changed meanwhile.
            if error.status == 409 and "resourcequotas" in error.message:
                continue
            if error.status not in (403, 422):
                raise
            return error.message
        return None


def server_words(message):
    """What a refusal is about, in words that ours can be compared with."""
    if message is None:
        return None
    if "must specify" in message:
        quota = re.search(r"failed quota: (\S+):", message)[1]
        parts = message.partition("must specify ")[2].split("; ")
        stated = [re.fullmatch(r"(\S+) for: (\S+)", part) for part in parts]
        return "unstated", quota, frozenset((item[1], frozenset(item[2].split(","))) for item in stated)
    bounds = frozenset((found[1] or "ratio", found[2] or found[3]) for found in BOUND.finditer(message))
    if bounds:
        return "bounds", bounds
    assert re.search("must be (less|greater) than or equal to", message), message
    return ("invalid",)


def our_words(problems, limit_ranges):
    """The same of our problems: all answers the server may give, which looks at its rules in no particular order."""
    if not problems:
        return [None]
    if any("with its defaults" in text for text in problems):
        return [("invalid",)]
    answers = []
    for limit_range in limit_ranges:
        start = f"LimitRange {limit_range['metadata']['name']}:"
        found = [OUR_BOUND.search(text) for text in problems if text.startswith(start)]
        if found:
            answers.append(("bounds", frozenset((item[2] or "ratio", item[1] or item[3] or item[4]) for item in found)))
    if answers:
        return answers
    wanted = collections.defaultdict(set)
    for text in problems:
        words = re.fullmatch(r"ResourceQuota (\S+) wants (\S+) stated by each container of \S+, but not by (.+)", text)
        wanted[words[1]].add((words[2], frozenset(words[3].split(", "))))
    return [("unstated", quota, frozenset(found)) for quota, found in wanted.items()]


def try_dry(cluster, trial, snapshot):
    """With room for all: what is refused for its own sake is so by both, in the same words."""
    space = trial.space
    for obj in space.asked:
        said, _use = ask(obj, snapshot, space.name, {})
        ours = our_words(said.problems, space.limit_ranges)
        heard = []

        def agree(obj=obj, ours=ours, heard=heard):
            heard[:] = [attempt(cluster, obj, dry_run=True)]
            return server_words(heard[0]) in ours

        # Admission follows the rules by a watch of its own.
        try:
            wait_until("both to agree", agree, seconds=10.0, pause=0.2)
        except AssertionError:
            pytest.fail(f"{space.name} {obj}: we say {said.problems}, the server {heard[0]}")
        if not said.problems:
            trial.objects.append(obj)


def tighten(trial, snapshot, chance):
    """Limits with exactly enough for the gang, but one unit less of one resource."""
    namespace = trial.space.name
    trial.objects.append({**TICKET, "metadata": {"name": "ticket", "namespace": namespace}})
    gang = gang_of_objects(trial.objects[:-1], snapshot, namespace, ticket=True)
    verdict = decide(snapshot, [gang], cumulative=False, advice=False)[0]
    assert verdict.space.passed, verdict.space
    lines = {(line.quota, line.resource): line for line in verdict.space.quotas}
    trial.hard = {key: line.used + line.requested for key, line in lines.items()}
    trial.used = {key: line.used + line.requested for key, line in lines.items()}
    if lines:
        trial.short = chance.choice(sorted(lines))
        trial.hard[trial.short] -= unscaled(base_resource(trial.short[1]), 1)


def set_limits(cluster, trials):
    """Write the limits of all trials and wait until they are in force."""

    def write(trial, quota):
        name = quota["metadata"]["name"]
        hard = {
            resource: amount_text(base_resource(resource), amount)
            for (owner, resource), amount in trial.hard.items()
            if owner == name
        }
        if hard:
            path = resource_path("v1", "resourcequotas", trial.space.name, name)
            patch(cluster.client, path, {"spec": {"hard": hard}})

    parallel([lambda trial=trial, quota=quota: write(trial, quota) for trial in trials for quota in trial.space.quotas])
    wait_for_quotas(cluster, trials)


def amounts(text):
    """What a refusal says of each resource, in nano-units."""
    return {name: parse_quantity(value) for name, _, value in (part.rpartition("=") for part in text.split(","))}


def in_nanos(lines, pick):
    """The same of our lines."""
    return {line.resource: pick(line) for line in lines}


def try_short(cluster, trial, snapshot):
    """One unit is missing: the gang waits for it, and the server refuses the object that we say it does."""
    namespace = trial.space.name
    gang = gang_of_objects(trial.objects[:-1], snapshot, namespace, ticket=True)
    verdict = decide(snapshot, [gang], cumulative=False, advice=False)[0]
    short = {(line.quota, line.resource): line.short for line in verdict.space.quotas if line.short}
    expected = {trial.short: unscaled(base_resource(trial.short[1]), 1)} if trial.short else {}
    assert short == expected, f"{namespace}: {verdict.space}"
    if trial.short:
        line = next(item for item in verdict.space.quotas if (item.quota, item.resource) == trial.short)
        expected = "never" if line.requested > line.hard else "waits"
        assert (verdict.answer, verdict.reason) == (expected, "namespace_quota"), namespace
    taken = {}
    for obj in trial.objects:
        said, use = ask(obj, snapshot, namespace, taken)
        message = attempt(cluster, obj, dry_run=False)
        trace = f"{namespace} {obj}: we say {said}, the server {message}"
        assert (message is None) == said.passed, trace
        if message is None:
            for key, amount in use.items():
                taken[key] = taken.get(key, 0) + amount
            continue
        trial.refused.append(obj)
        quota, requested, used, limited = EXCEEDED.search(message).groups()
        lines = [line for line in said.quotas if line.short and line.quota == quota]
        numbers = [in_nanos(lines, pick) for pick in (lambda x: x.requested, lambda x: x.used, lambda x: x.hard)]
        assert [amounts(requested), amounts(used), amounts(limited)] == numbers, trace
    assert bool(trial.refused) == bool(trial.short), f"{namespace}: {trial.short}"


def try_enough(cluster, trial):
    """With the missing unit the server takes the rest, and everything is used up."""
    for obj in trial.refused:

        def taken(obj=obj):
            message = attempt(cluster, obj, dry_run=False)
            if message is None:
                return True
            # Admission still goes by the limit of before.
            found = EXCEEDED.search(message)
            stale = trial.hard[trial.short] - unscaled(base_resource(trial.short[1]), 1)
            limited = amounts(found[4]) if found else None
            assert limited == {trial.short[1]: stale}, f"{trial.space.name} {obj}: {message}"
            return False

        wait_until("the new limit", taken, seconds=10.0, pause=0.05)


def all_used(cluster, trials):
    """What the server says is used in the end, against what we said would be.

    Right after a new limit the quota controller may write a count from before the last object, which it learns of
    later, and it counts again only when a limit changes: so it is given another one.
    """
    expected = {
        (trial.space.name, quota, resource): amount
        for trial in trials
        for (quota, resource), amount in trial.used.items()
    }
    if wrong := differences(cluster, expected):
        for namespace, quota in {key[:2] for key in wrong}:
            path = resource_path("v1", "resourcequotas", namespace, quota)
            patch(cluster.client, path, {"spec": {"hard": {"count/leases.coordination.k8s.io": "100"}}})
        wait_until(f"quotas to count {wrong}", lambda: not differences(cluster, expected), seconds=60.0)


def differences(cluster, expected):
    """Where quotas do not count what was expected."""
    found = list_objects(cluster.client, resource_path("v1", "resourcequotas"), keep=lambda raw: raw).items
    used = {(item["metadata"]["namespace"], item["metadata"]["name"]): item["status"]["used"] for item in found}
    counted = {key: parse_quantity(used[key[:2]][key[2]]) for key in expected}
    return {key: (counted[key], amount) for key, amount in expected.items() if counted[key] != amount}


@pytest.fixture(scope="module")
def classes(cluster):
    """Classes of pods and claims, as long as these tests run."""
    objects = [*shared_objects(), *runtime_classes()]
    cluster.create(*objects)
    yield
    parallel([lambda item=item: delete(cluster.client, cluster.path(item)) for item in objects])


def test_verdict_and_admission_agree(cluster, classes, scale, seed):
    count, refusals, problems = max(20, int(SPACES * scale)), 0, 0
    for first in range(0, count, BATCH):
        numbers = range(first, min(count, first + BATCH))
        trials = [Trial(make_space(seed, number, f"rules-{number}")) for number in numbers]
        prepare(cluster, trials)
        snapshot = read(cluster, trials)
        parallel([partial(try_dry, cluster, trial, snapshot) for trial in trials])
        for trial in trials:
            tighten(trial, snapshot, random.Random(f"{seed}/{trial.space.name}"))
        set_limits(cluster, trials)
        snapshot = read(cluster, trials)
        parallel([partial(try_short, cluster, trial, snapshot) for trial in trials])
        for trial in trials:
            if trial.short:
                trial.hard[trial.short] += unscaled(base_resource(trial.short[1]), 1)
        set_limits(cluster, trials)
        parallel([partial(try_enough, cluster, trial) for trial in trials])
        all_used(cluster, trials)
        refusals += sum(len(trial.refused) for trial in trials)
        problems += sum(len(trial.space.asked) + 1 - len(trial.objects) for trial in trials)
        parallel([lambda trial=trial: cluster.drop_namespace(trial.space.name) for trial in trials])
    print(f"{count} namespaces: {refusals} refusals for one unit, {problems} objects refused for their own sake")
    # Otherwise the cases tell nothing.
    assert refusals >= count
    assert problems > count / 4
