# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One metric of an inspection's runs, and the hardware they ran on."""

from __future__ import annotations

import dataclasses
import statistics
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields, finite_number

# Facts that decide how fast a run is; two results that differ in one of them measure different machines.
_CPU_FACTS = ("arch", "vendor", "family", "model", "level")
_LIMIT_FACTS = ("cpu", "memory_bytes")
_GPU_FACTS = ("vendor", "product", "memory_bytes")
_NAME_KEYS = ("name", "inspection_id", "id", "identifier")


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """The values of one metric in the runs that succeeded.

    failed and missing are the indexes of runs that did not succeed and of those that lack the metric. hardware has
    for each fact all values found, as text; a fact that no run reports is not in it.
    """

    name: str
    values: tuple[float, ...]
    failed: tuple[int, ...]
    missing: tuple[int, ...]
    hardware: dict[str, tuple[str, ...]]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The quarter points of at least one value, with the ends included; of one value that value."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    return low, median, high


def read_measurement(result: t.Any, metric: str, number: int) -> Measurement:
    """A metric of one result; number is its place among the results, for a result that has no name."""
    fields = Fields(result, f"result {number}")
    name = next((str(fields.get(key)) for key in _NAME_KEYS if fields.get(key)), str(number))
    values: list[float] = []
    failed: list[int] = []
    missing: list[int] = []
    hardware: dict[str, set[str]] = {}
    for place, item in enumerate(read_runs(fields, f"result {name}")):
        index = place if item.get("index") is None else item.whole("index", 0, 2**31)
        if item.get("reason") is not None or item.get("exit_code") != 0:
            failed.append(index)
            continue
        value = metric_value(item.data, metric)
        if value is None:
            missing.append(index)
            continue
        values.append(value)
        for fact, found in hardware_facts(item.get("hwinfo")).items():
            hardware.setdefault(fact, set()).add(found)
    facts = {fact: tuple(sorted(found)) for fact, found in sorted(hardware.items())}
    return Measurement(name, tuple(values), tuple(failed), tuple(missing), facts)


def read_runs(result: Fields, where: str) -> list[Fields]:
    """The runs of a result; results of earlier releases call them items."""
    key = "runs" if "runs" in result.data else "items"
    return [Fields(data, f"{where}: {key}[{place}]") for place, data in enumerate(result.sequence(key))]


def value_at_path(data: t.Any, path: str) -> t.Any:
    """What is at a dotted path of mappings and lists; None when a part of it is missing."""
    for part in path.split("."):
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and part.isdecimal() and int(part) < len(data):
            data = data[int(part)]
        else:
            return None
    return data


def metric_value(item: Mapping[str, t.Any], metric: str) -> float | None:
    """The number at a dotted path, such as usage.user_seconds or stdout.@result.rate; None when there is no number."""
    return finite_number(value_at_path(item, metric))


def hardware_facts(hwinfo: t.Any) -> dict[str, str]:
    """What a run saw of its machine, as far as it decides about speed; facts that are not known are left out."""
    if not isinstance(hwinfo, Mapping):
        return {}
    facts = {f"cpu.{fact}": value for fact, value in _known(hwinfo.get("cpu"), _CPU_FACTS).items()}
    facts.update({f"limits.{fact}": value for fact, value in _known(hwinfo.get("limits"), _LIMIT_FACTS).items()})
    cpus = _known(hwinfo.get("limits"), ("cpuset",)).get("cpuset")
    if cpus:
        # With exclusive CPUs each pod has others, and only their number decides.
        facts["limits.cpuset"] = _cpu_count(cpus)
    gpus = hwinfo.get("gpus")
    if isinstance(gpus, Sequence) and not isinstance(gpus, str):
        shown = sorted(" ".join(_known(gpu, _GPU_FACTS).values()) for gpu in gpus)
        facts["gpus"] = ", ".join(shown) or "none"
    return facts


def _cpu_count(cpuset: str) -> str:
    """How many CPUs a list such as 0-3,8 names; a text that is none stays as it is."""
    count = 0
    for part in cpuset.strip().split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal() or int(last) < int(first):
            return cpuset
        count += int(last) - int(first) + 1
    return str(count)


def _known(data: t.Any, names: Sequence[str]) -> dict[str, str]:
    """Some values of a mapping as text, those that are there."""
    if not isinstance(data, Mapping):
        return {}
    return {name: str(data[name]) for name in names if data.get(name) is not None}


def hardware_differences(measurements: Sequence[Measurement]) -> list[str]:
    """Each fact that is not the same in all runs that report it, with who has what."""
    found = []
    for fact in sorted({fact for measurement in measurements for fact in measurement.hardware}):
        holders = [(one.name, one.hardware[fact]) for one in measurements if fact in one.hardware]
        if len({value for _name, values in holders for value in values}) > 1:
            found.append(f"{fact} is " + ", ".join(f"{' and '.join(values)} in {name}" for name, values in holders))
    return found


def hardware_unknown(measurements: Sequence[Measurement]) -> list[str]:
    """The names of results that do not say what CPU they ran on."""
    return [one.name for one in measurements if one.values and "cpu.model" not in one.hardware]
