# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs of records: how large they are in this cluster, and the objects of one attempt as they will be created."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Collection, Iterable

from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest, made_of
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import (
    Gang,
    confined,
    gang_of_kinds,
    sized_podsets,
    steer_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.start_size import reserved_sizes
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    KEEP_ANNOTATION,
    Plan,
    named_templates,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import texts
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet, require_readable
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import Charge, kinds_of
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import raised
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.concurrent_starts import LabelKeys

Data = dict[str, t.Any]
Steering = t.Mapping[str, t.Sequence[str]]

# What a podset of a batch is charged to, by tree: the flavors of its start.
FLAVORS_KEY = "flavors"
# More than this is not kept of what one gang was promised, unless its sizes alone take more.
PROMISE_BYTES = 16 * 1024
_SIZES = ("name", "count", "requests", FLAVORS_KEY)


def spec_of(record: Record) -> GangSpec:
    """The specification of a record; one that cannot be read is refused with what is wrong."""
    if record.spec is None:
        raise BadInput("read", f"the gang {record.key}", record.unreadable)
    return record.spec


def sized_gang(record: Record, snapshot: Snapshot) -> Gang:
    """The gang as its specification and the cluster make it."""
    spec = spec_of(record)
    podsets, made = sized_podsets(spec, snapshot), made_of(spec.planned, KEEP_ANNOTATION)
    # Where podsets are declared, templates are changed that tell nothing of their sizes.
    for podset in (*podsets, *(named_templates(spec) if spec.podsets is not None else ())):
        require_readable(podset)
    return Gang(record.name, spec.namespace, podsets, made.claim_names if made.claims else frozenset(), made)


def demand_of(record: Record, gang: Gang) -> Gang:
    """The gang no smaller than earlier attempts turned out to be, without the objects that they left behind."""
    observed = record.state.observed if record.state is not None else ()
    if observed:
        gang = dataclasses.replace(gang, podsets=raised(gang.podsets, _beside_size(record, observed)))
    if record.attempt > 1 and (gang.made.kept or gang.made.claims):
        gang = dataclasses.replace(gang, made=gang.made.once_more())
    return gang


def _beside_size(record: Record, observed: Collection[Data]) -> Iterable[Data]:
    """What was seen of a gang, without what the size of an elastic one made of it: another attempt has another one."""
    terms = record.spec.elastic if record.spec is not None else None
    if terms is None:
        return observed
    range_ = terms.range
    mine = (
        {**item, "count": 0}
        if range_.axis == "pods"
        else {**item, "requests": {name: value for name, value in item["requests"].items() if name != range_.resource}}
        for item in observed
        if item["name"] == range_.podset
    )
    return [*(item for item in observed if item["name"] != range_.podset), *mine]


def reserved_of(gang: Gang) -> tuple[Data, ...]:
    """A gang's demand as records and batches keep it."""
    return reserved_sizes(gang.podsets)


def started_gang(gang: Gang, charged: Collection[Charge]) -> Gang:
    """A gang as its objects were created: confined to nodes of the flavors that it was charged to."""
    kinds = kinds_of(charged) if charged else {}
    return gang_of_kinds(gang, kinds) if kinds else gang


def promise_of(gang: Gang, steering: Steering, keys: LabelKeys, charged: Iterable[Charge] = ()) -> tuple[Data, ...]:
    """A gang's demand as a batch keeps it: besides the sizes whatever decides which nodes will do, and its flavors.

    Whoever holds the Lease next may be allowed to read the batch, but not the record. keys are those of labels that
    rules of other pods ask for. Of very long rules only the sizes are kept: all gangs under way share the batch.
    """
    promise = tuple(_promised(confined(podset, steering.get(podset.name)), keys) for podset in gang.podsets)
    for charge in charged:
        for item in promise:
            if item["name"] in charge.flavors:
                item.setdefault(FLAVORS_KEY, {})[charge.tree] = charge.flavors[item["name"]]
    long = len(canonical_json(promise)) > PROMISE_BYTES
    return tuple({key: item[key] for key in _SIZES if key in item} for item in promise) if long else promise


def _promised(podset: PodSet, keys: LabelKeys) -> Data:
    """One podset, such that declared_podsets makes one of it that goes where it goes; other labels tell nothing."""
    requests = {name: amount for name, amount in podset.requests.items() if name != "pods"}
    promised: Data = {"name": podset.name, "count": podset.count, "requests": texts(requests)}
    spec = dict(podset.placement)
    labels = (podset.template.get("metadata") or {}).get("labels") or {}
    if spec:
        promised["spec"] = spec
    minds_others = bool(spec.keys() & {"affinity", "topologySpreadConstraints"})
    told = {key: str(value) for key, value in labels.items() if minds_others or (keys is not None and key in keys)}
    if told:
        promised["labels"] = told
    return promised


def steered_plan(record: Record, plan: Plan, steering: Steering, charged: Collection[Charge] = ()) -> Plan:
    """The objects of an attempt, confined to the nodes that the verdict names; the same for whoever carries it out.

    charged tells the flavors of podsets, whose nodes they are confined to as well.
    """
    kinds = kinds_of(charged) if charged else {}
    if not steering and not kinds:
        return plan
    spec = spec_of(record)
    named = Gang(record.name, spec.namespace, tuple(named_templates(spec)))
    objects = steer_objects([item.object for item in plan], named, steering, kinds)
    return tuple(dataclasses.replace(item, object=obj) for item, obj in zip(plan, objects, strict=True))


def steerable(record: Record, steering: Steering) -> bool:
    """Whether each podset to be steered has a template in the gang's objects that can carry the affinity."""
    return not steering or set(steering) <= reachable_podsets(spec_of(record))


def reachable_podsets(request: GangRequest) -> frozenset[str]:
    """The podsets that have a template in the gang's objects, to which something can be added."""
    return frozenset(podset.name for podset in named_templates(request))
