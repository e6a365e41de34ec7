# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AppWrappers as MCAD's users write them (v1beta1), read as gangs; and gangs written as AppWrappers.

What MCAD never read (service, selector, the items' replicas, minavailable and priority) means nothing here either. A
word of completionstatus is done when the type of a condition contains it, in any case of letters, as in MCAD; but the
condition must be true, while MCAD took a false one too. An AppWrapper without any such word never completes.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import (
    GROWTHS,
    OWN_PREFIX,
    GangSpec,
    Requeue,
    read_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import QUEUE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import read_amounts
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import NeedsPodsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import (
    PodSet,
    declared_podsets,
    infer_podsets,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, Fields, plain_value
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import quantity_text

WRAPPER_API = "workload.codeflare.dev/v1beta1"
WRAPPER_KIND = "AppWrapper"
MANAGED_LABEL = "muster.kube/managed"
SUSPENDED_ANNOTATION = "muster.kube/suspended"

_MOST_SECONDS = 10**9
_OBJECT_PLACE = re.compile(r"\bobjects\[(\d+)\]")


def spec_of_wrapper(obj: Mapping[str, t.Any]) -> GangSpec:
    """The gang an AppWrapper describes; complaints name the field of the AppWrapper."""
    metadata = Fields(obj.get("metadata"), f"{WRAPPER_KIND}: metadata")
    where = f"{WRAPPER_KIND} {metadata.get('namespace')}/{metadata.get('name')}"
    spec = Fields(plain_value(obj.get("spec"), where, "spec"), f"{where}: spec")
    labels = plain_value(metadata.mapping("labels"), where, "metadata.labels")
    items = tuple(_items(spec))
    data = {
        "name": metadata.get("name"),
        "namespace": metadata.get("namespace"),
        "queue": labels.get(QUEUE_LABEL) or None,
        "priority": spec.get("priority"),
        "priority_slope": spec.get("priorityslope"),
        "suspended": metadata.mapping("annotations").get(SUSPENDED_ANNOTATION) == "true",
        "objects": [item.object for item in items],
        "podsets": _podsets(items, str(metadata.get("namespace"))),
        "completion": [{"item": item.index, "contains": word} for item in items for word in item.words],
        "labels": {key: value for key, value in labels.items() if not key.startswith(OWN_PREFIX)},
        **_scheduling(spec),
    }
    try:
        return read_spec(data, where)
    except BadInput as error:
        target = _OBJECT_PLACE.sub(r"spec.resources.GenericItems[\1].generictemplate", error.target)
        target = target.replace(": priority_slope", ": spec.priorityslope").replace(": priority", ": spec.priority")
        raise BadInput(error.action, target, error.cause) from error


def wrap(spec: GangSpec) -> Data:
    """The AppWrapper that describes this gang; BadInput names the option it cannot hold."""
    where = f"gang {spec.namespace}/{spec.name}"
    _refuse_unknown_to_wrappers(spec, where)
    podsets = _pods_by_item(spec, where)
    items = [
        {
            "generictemplate": obj,
            **({"custompodresources": podsets[index]} if index in podsets else {}),
            **_completion_words(spec, index, where),
        }
        for index, obj in enumerate(spec.objects)
    ]
    labels = {**spec.labels, MANAGED_LABEL: "true", **({QUEUE_LABEL: spec.queue} if spec.queue else {})}
    metadata: Data = {"name": spec.name, "namespace": spec.namespace, "labels": labels}
    if spec.suspended:
        metadata["annotations"] = {SUSPENDED_ANNOTATION: "true"}
    wrapper = {
        "apiVersion": WRAPPER_API,
        "kind": WRAPPER_KIND,
        "metadata": metadata,
        "spec": {
            **({"priority": spec.priority} if spec.priority else {}),
            **({"priorityslope": spec.priority_slope} if spec.priority_slope else {}),
            "schedulingSpec": _written_scheduling(spec, where),
            "resources": {"GenericItems": items},
        },
    }
    _require_same_pods(spec, wrapper, where)
    return wrapper


@dataclasses.dataclass(frozen=True, slots=True)
class _Item:
    """One entry of GenericItems: the object, its declared pods (count, requests and limits) and its words."""

    index: int
    where: str
    object: Data
    pods: tuple[Data, ...]
    words: tuple[str, ...]


def _items(spec: Fields) -> Iterator[_Item]:
    """The wrapped objects in their order."""
    resources = Fields(spec.get("resources"), f"{spec.where}.resources")
    entries = resources.sequence("GenericItems")
    if not entries:
        raise resources.fail("GenericItems", "the AppWrapper wraps nothing; give at least one item")
    for index, entry in enumerate(entries):
        place = f"{spec.where}.resources.GenericItems[{index}]"
        item = Fields(entry, place)
        wrapped = item.mapping("generictemplate")
        if not wrapped:
            raise item.fail("generictemplate", "the item holds no object")
        declared = tuple(
            _declared_pods(f"{place}.custompodresources[{number}]", pods)
            for number, pods in enumerate(item.sequence("custompodresources"))
        )
        listed = item.get("completionstatus")
        words = () if listed in (None, "") else (item.text("completionstatus") or "").lower().split(",")
        unique = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
        yield _Item(index, place, dict(wrapped), declared, unique)


def _declared_pods(where: str, entry: t.Any) -> Data:
    """One size of pods: what is missing or zero in requests is taken from limits, and zeros are left out."""
    fields = Fields(entry, where)
    count = 1 if fields.get("replicas") is None else fields.whole("replicas", 0, INT32 - 1)
    given: dict[str, Data] = {}
    for key in ("requests", "limits"):
        try:
            amounts = read_amounts(fields.get(key), key)
        except BadInput as error:
            raise BadInput(error.action, f"{where}.{error.target}", error.cause) from error
        given[key] = {name: fields.mapping(key)[name] for name, amount in amounts.items() if amount}
    return {"count": count, "requests": {**given["limits"], **given["requests"]}, "limits": given["limits"]}


def _podsets(items: Sequence[_Item], namespace: str) -> list[Data] | None:
    """The pods of all items, when any of them declares its own; the others' are inferred, so that none is forgotten."""
    if not any(item.pods for item in items):
        return None
    inferred = _inferred(items, namespace)
    taken = {podset.name for found in inferred.values() for podset in found}
    podsets: list[Data] = []
    for item in items:
        found = inferred.get(item.index, [])
        if not item.pods:
            podsets += [{"name": p.name, "count": p.count, **_template(p)} for p in found]
        elif len(item.pods) == len(found):
            podsets += [
                {"name": p.name, **_sized(pods), **_without_sizes(_template(p))}
                for pods, p in zip(item.pods, found, strict=True)
            ]
        else:
            for number, pods in enumerate(item.pods):
                stem = _stem(item.object)
                podsets.append({"name": _free(stem if len(item.pods) == 1 else f"{stem}/{number}", taken)})
                podsets[-1].update(_sized(pods))
    return podsets


def _inferred(items: Sequence[_Item], namespace: str) -> dict[int, list[PodSet]]:
    """The podsets each object would have by itself, named as in a gang without declarations."""
    known: list[_Item] = []
    for item in items:
        try:
            infer_podsets([item.object], namespace=namespace)
        except NeedsPodsets as error:
            if not item.pods:
                raise BadInput(
                    "read", item.where, f"{error.cause.partition(';')[0]}; declare its pods as custompodresources"
                ) from error
            continue
        except BadInput as error:
            raise BadInput(error.action, f"{item.where}: {error.target}", error.cause) from error
        known.append(item)
    found: dict[int, list[PodSet]] = {}
    for podset in infer_podsets([item.object for item in known], namespace=namespace) if known else ():
        found.setdefault(known[podset.source_index].index, []).append(podset)
    return found


def _template(podset: PodSet) -> Data:
    """Spec and labels of a podset's pods, as a declared podset holds them."""
    metadata = podset.template.get("metadata") or {}
    return {"spec": dict(podset.template["spec"]), "labels": dict(metadata.get("labels") or {})}


def _without_sizes(template: Data) -> Data:
    """The template's constraints without anything that asks for resources: the declaration says how much."""
    spec = {key: value for key, value in template["spec"].items() if key not in ("resources", "overhead")}
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [{k: v for k, v in item.items() if k != "resources"} for item in spec[field]]
    return {**template, "spec": spec}


def _sized(pods: Data) -> Data:
    """Count and size of declared pods; pods that ask for nothing are said to, or they would count as forgotten."""
    return {**pods, "requests": pods["requests"] or {"cpu": 0}}


def _stem(obj: Mapping[str, t.Any]) -> str:
    """What the podsets of an object are named after."""
    metadata = obj.get("metadata")
    given = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, Mapping) else None
    return str(given or obj.get("kind") or "podset").rstrip("-").lower()


def _free(name: str, taken: set[str]) -> str:
    """A name not used before."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    taken.add(free)
    return free


def _scheduling(spec: Fields) -> Data:
    """The rules of a started gang; in an AppWrapper zero means none."""
    rules = Fields(spec.mapping("schedulingSpec"), f"{spec.where}.schedulingSpec")
    again = Fields(rules.mapping("requeuing"), f"{rules.where}.requeuing")
    span = Fields(rules.mapping("dispatchDuration"), f"{rules.where}.dispatchDuration")
    usual = Requeue()
    growth = again.get("growthType") or usual.growth
    return {
        "min_available": _positive(rules, "minAvailable"),
        "requeue": {
            "time": usual.time if again.get("timeInSeconds") is None else max(0, _seconds(again, "timeInSeconds")),
            "growth": growth if growth in GROWTHS else "none",
            "max_time": _positive(again, "maxTimeInSeconds"),
            "limit": _positive(again, "maxNumRequeuings"),
        },
        "max_run_time": _positive(span, "limit"),
    }


def _positive(fields: Fields, key: str) -> int | None:
    """A number above zero, else None."""
    value = _seconds(fields, key)
    return value if value > 0 else None


def _seconds(fields: Fields, key: str) -> int:
    """A whole number as AppWrappers hold it, 0 when missing."""
    return fields.whole(key, -INT32, INT32 - 1)


def _refuse_unknown_to_wrappers(spec: GangSpec, where: str) -> None:
    """Options for which an AppWrapper has no field."""
    held = {
        "min_available": not isinstance(spec.min_available, Mapping) and spec.min_available != 0,
        "requeue.limit": spec.requeue.limit != 0,
        "requeue.pause": not spec.requeue.pause,
        "requeue.max_time": spec.requeue.max_time != 0,
        "max_run_time": spec.max_run_time != 0,
        "exit_codes": not spec.exit_codes_terminal and not spec.exit_codes_retryable,
        "ttl": spec.ttl is None,
        "elastic": spec.elastic is None,
    }
    for option, fine in held.items():
        if not fine:
            raise _cannot(where, option, "an AppWrapper has no field for this value")


def _cannot(where: str, option: str, why: str) -> BadInput:
    """The error for an option that only a ConfigMap record can hold."""
    return BadInput(
        "write as an AppWrapper", f"{where}: {option}", f"{why}; leave it out or keep the gang as ConfigMap"
    )


def _written_scheduling(spec: GangSpec, where: str) -> Data:
    """The rules of a started gang in MCAD's fields."""
    seconds = {
        "requeue.time": spec.requeue.time,
        "requeue.max_time": spec.requeue.max_time or 0,
        "max_run_time": spec.max_run_time or 0,
    }
    for option, value in seconds.items():
        if value != int(value) or value > _MOST_SECONDS:
            raise _cannot(where, option, f"an AppWrapper takes whole seconds up to {_MOST_SECONDS}")
    return {
        **({"minAvailable": spec.min_available} if spec.min_available else {}),
        "requeuing": {
            "timeInSeconds": int(spec.requeue.time),
            "growthType": spec.requeue.growth,
            "maxTimeInSeconds": int(seconds["requeue.max_time"]),
            "maxNumRequeuings": spec.requeue.limit or 0,
        },
        **({"dispatchDuration": {"limit": int(spec.max_run_time)}} if spec.max_run_time else {}),
    }


def _completion_words(spec: GangSpec, index: int, where: str) -> Data:
    """The words that say when an item is done; what a kind itself calls done is written out."""
    if spec.completion is None:
        inferred = _usual_word(spec.objects[index], where)
        return {"completionstatus": inferred} if inferred else {}
    words: list[str] = []
    for place, entry in enumerate(spec.completion):
        word = entry.get("contains") or (entry.get("type") if entry.get("status") == "True" else None)
        if word is None or "," in word or word != word.strip():
            raise _cannot(where, f"completion[{place}]", "an AppWrapper takes types of conditions that become true")
        if entry["item"] == index:
            words.append(word)
    return {"completionstatus": ",".join(words)} if words else {}


def _usual_word(obj: Data, where: str) -> str | None:
    """The condition by which an object of this kind says that it is done; None for kinds that never end."""
    ending = kind_of(obj).ending
    if ending is None or not ending.applies(obj):
        return None
    if ending.done_word is None:
        raise _cannot(where, "completion", f"a {obj['kind']} has no condition that says it is done")
    return ending.done_word


def _pods_by_item(spec: GangSpec, where: str) -> dict[int, list[Data]]:
    """Declared podsets as custompodresources of the items they belong to, as far as names tell."""
    if spec.podsets is None:
        return {}
    items = [_Item(index, f"{where}: objects[{index}]", obj, ({},), ()) for index, obj in enumerate(spec.objects)]
    inferred = _inferred(items, spec.namespace)
    owners = {podset.name: index for index, found in inferred.items() for podset in found}
    stems = {_stem(item.object): item.index for item in items}
    bearing = [item.index for item in items if kind_of(item.object).may_make_pods]
    pods: dict[int, list[Data]] = {}
    for podset in declared_podsets(spec.podsets, namespace=spec.namespace):
        owner = owners.get(podset.name, stems.get(podset.name.partition("/")[0]))
        if owner is None and len(bearing) == 1:
            owner = bearing[0]
        if owner is None:
            raise _cannot(where, "podsets", f"it cannot be told which object the pods of {podset.name} belong to")
        pods.setdefault(owner, []).append(
            {"replicas": podset.count, "requests": _texts(podset.requests), "limits": _texts(podset.limits)}
        )
    return pods


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as quantities; a pod is a pod without being told so."""
    return {name: quantity_text(name, amount) for name, amount in sorted(amounts.items()) if name != "pods"}


def _require_same_pods(spec: GangSpec, wrapper: Data, where: str) -> None:
    """Read the AppWrapper back and refuse it when its pods are not those that were declared."""
    if spec.podsets is None:
        return
    again = [_demand(item, spec.namespace) for item in spec_of_wrapper(wrapper).podsets or ()]
    for item in spec.podsets:
        size, template = _demand(item, spec.namespace)
        same = [found for found in again if found[0] == size and (not _has_template(item) or found[1] == template)]
        if not same:
            break
        again.remove(same[0])
    else:
        if not again:
            return
    raise _cannot(where, "podsets", "an AppWrapper cannot describe these pods beside the objects' own templates")


def _has_template(item: Mapping[str, t.Any]) -> bool:
    """Whether a declared podset says more than count and size."""
    return bool(item.get("spec") or item.get("labels"))


def _demand(item: Mapping[str, t.Any], namespace: str) -> tuple[Data, Data]:
    """Count and size of a declared podset, and its template without sizes."""
    podset = declared_podsets([item], namespace=namespace)[0]
    size = {"count": podset.count, "requests": _texts(podset.requests), "limits": _texts(podset.limits)}
    return size, _without_sizes(_template(podset))
