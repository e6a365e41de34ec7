# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what inspection and inspection_info return to the values of a section that compares them."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.report.inspections.questions import differing_questions
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import unit_for
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.measurement import (
    hardware_facts,
    metric_value,
    read_measurement,
    read_runs,
    value_at_path,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report.inspections import (
    Fact,
    FailedRun,
    Inspections,
    Packages,
    Plot,
    Point,
    ReportedChange,
    Result,
    Sample,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Fields, finite_number
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.comparison import (
    compare_results,
    read_terms,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_summary import last_words

Item = Mapping[str, t.Any]

_USUAL_METRIC = "wall_seconds"
_TITLES = {
    "wall_seconds": "Wall time",
    "usage.user_seconds": "CPU time of the script",
    "usage.system_seconds": "CPU time of the system",
    "usage.max_rss_bytes": "Peak memory of the script",
    "usage.cgroup_memory_peak_bytes": "Peak memory of the container",
}
_DECIDING = {
    "cpu.arch": "CPU architecture",
    "cpu.vendor": "CPU vendor",
    "cpu.family": "CPU family",
    "cpu.model": "CPU model",
    "cpu.level": "CPU level",
    "limits.cpu": "CPU limit",
    "limits.memory_bytes": "Memory limit",
    "limits.cpuset": "CPUs allowed",
    "gpus": "GPUs",
}
_FURTHER = {
    "cpu.brand": "CPU",
    "cpu.threads": "CPU threads",
    "cpu.governor": "Frequency governor",
    "memory.total_bytes": "Memory",
    "kernel": "Kernel",
    "virtualized": "Virtualized",
    "node.instance_type": "Instance type",
    "node.runtime": "Container runtime",
}
_PACKAGE_KINDS = ("dpkg", "rpm", "apk", "pip")


def read_inspections(data: Mapping[str, t.Any], where: str) -> Inspections:
    """A section from the user's values; where names it in complaints."""
    section = Fields(data, where)
    entries = [Fields(entry, f"{where}.inspections[{place}]") for place, entry in enumerate(_given(section))]
    names = _names(entries)
    metrics = [
        Fields(entry, f"{where}.metrics[{place}]")
        for place, entry in enumerate(section.sequence("metrics") or [{"metric": _USUAL_METRIC}])
    ]
    runs = [_items(entry) for entry in entries]
    allowed = section.flag("allow_different_hardware")
    asked, scripts = differing_questions(entries)
    return Inspections(
        title=str(section.get("title") or "Inspections"),
        results=tuple(_result(*parts) for parts in zip(names, entries, runs, strict=True)),
        plots=tuple(_plot(metric, names, runs, allowed) for metric in metrics),
        hardware=_hardware(runs),
        packages=_packages(names, entries),
        failures=tuple(found for parts in zip(names, entries, runs, strict=True) for found in _failures(*parts)),
        asked=asked,
        scripts=scripts,
    )


def _given(section: Fields) -> list[t.Any]:
    """The results to show; there is nothing to show without any."""
    found = section.sequence("inspections")
    if not found:
        raise section.fail("inspections", "results of muster.kube.inspection are needed")
    return found


def _names(entries: Iterable[Fields]) -> tuple[str, ...]:
    """What each result is called; a name that was used before gets a number."""
    names: list[str] = []
    for number, entry in enumerate(entries, 1):
        name = read_measurement(entry.data, _USUAL_METRIC, number).name
        names.append(name if name not in names else f"{name} ({number})")
    return tuple(names)


def _items(entry: Fields) -> list[Item]:
    return [run.data for run in read_runs(entry, entry.where)]


def _succeeded(item: Item) -> bool:
    """Whether a run counts: the same rule as in the comparison."""
    return item.get("reason") is None and item.get("exit_code") == 0


def _result(name: str, entry: Fields, items: Sequence[Item]) -> Result:
    """One inspection in short."""
    throttled = [_number(value_at_path(item, "hwinfo.pressure.nr_throttled")) for item in items]
    known = [count for count in throttled if count is not None]
    return Result(
        name=name,
        inspection_id=str(entry.get("inspection_id") or ""),
        image=str(entry.get("image") or _first(items, "image")),
        image_digest=str(entry.get("image_digest") or _first(items, "image_digest")),
        nodes=_texts_at(items, "hwinfo.node.name"),
        runs=len(items),
        failed=sum(not _succeeded(item) for item in items),
        throttled=sum(known) if known else None,
        measured=_measured(items),
    )


def _measured(items: Sequence[Item]) -> tuple[float, float] | None:
    """When the first run began and the last one ended, as far as known."""
    moments = [
        moment
        for item in items
        for key in ("start", "end")
        if isinstance(item.get(key), str) and (moment := read_time(item[key])) is not None
    ]
    return (min(moments), max(moments)) if moments else None


def _plot(metric: Fields, names: Sequence[str], runs: Sequence[Sequence[Item]], allowed: bool) -> Plot:
    """One metric of all results, compared with the first where that can be done."""
    path = metric.required_text("metric")
    terms = {
        "metric": path,
        "direction": metric.get("direction") or "lower",
        "threshold": 5.0 if metric.get("threshold") is None else metric.get("threshold"),
        "allow_different_hardware": allowed,
    }
    wanted = read_terms(terms)
    changes, refusal = _changes(names, runs, terms) if len(names) > 1 else ([None], None)
    samples = tuple(
        _sample(name, items, path, change) for name, items, change in zip(names, runs, changes, strict=True)
    )
    title = str(metric.get("title") or _TITLES.get(path, path))
    return Plot(path, title, str(metric.get("unit") or ""), wanted.direction, samples, refusal)


def _changes(
    names: Sequence[str], runs: Sequence[Sequence[Item]], terms: Mapping[str, t.Any]
) -> tuple[list[ReportedChange | None], str | None]:
    """For each result how it differs from the first; or nothing at all, and why."""
    results = [{"name": name, "runs": list(items)} for name, items in zip(names, runs, strict=True)]
    try:
        compared = compare_results(results, read_terms(terms))
    except BadInput as error:
        return [None] * len(names), error.cause
    return [None, *(_change(entry) for entry in compared["comparisons"])], None


def _change(entry: Mapping[str, t.Any]) -> ReportedChange:
    """A comparison's data as a value."""
    interval = entry["interval_percent"]
    return ReportedChange(
        verdict=entry["verdict"],
        percent=entry["change_percent"],
        interval=None if interval is None else (interval[0], interval[1]),
        p_value=entry["p_value"],
        reason=entry["reason"],
        detectable=entry["detectable_percent"],
    )


def _sample(name: str, items: Sequence[Item], metric: str, change: ReportedChange | None) -> Sample:
    """The values of one metric in the runs that succeeded."""
    points = []
    missing = 0
    for place, item in enumerate(items):
        if not _succeeded(item):
            continue
        value = metric_value(item, metric)
        if value is None:
            missing += 1
        else:
            points.append(Point(_index(item, place), value))
    return Sample(name, tuple(points), missing, change)


def _failures(name: str, entry: Fields, items: Sequence[Item]) -> list[FailedRun]:
    """Every run that failed; the whole inspection where no run has a reason."""
    found = [
        FailedRun(name, _index(item, place), _why(item), str(item.get("message") or ""), last_words(item))
        for place, item in enumerate(items)
        if not _succeeded(item)
    ]
    if not found and entry.get("reason"):
        found.append(FailedRun(name, None, str(entry.get("reason")), str(entry.get("message") or "")))
    return found


def _why(item: Item) -> str:
    return str(item.get("reason") or f"exit code {item.get('exit_code')}")


def _hardware(runs: Sequence[Sequence[Item]]) -> tuple[Fact, ...]:
    """What the runs saw of their machines, without unknown facts."""
    counted = [[item for item in items if _succeeded(item)] or list(items) for items in runs]
    seen = [[hardware_facts(item.get("hwinfo")) for item in items] for items in counted]
    facts = []
    for path, title in _DECIDING.items():
        values = tuple(_distinct([_readable(path, one.get(path)) for one in found]) for found in seen)
        facts.append(Fact(title, values, True))
    for path, title in _FURTHER.items():
        values = tuple(
            _distinct([_readable(path, value_at_path(item, f"hwinfo.{path}")) for item in items]) for items in counted
        )
        facts.append(Fact(title, values))
    systems = tuple(_distinct([_system(item) for item in items]) for items in counted)
    facts.append(Fact("System of the image", systems))
    return tuple(fact for fact in facts if any(fact.values))


def _readable(path: str, value: t.Any) -> str:
    """A fact for people: bytes in a size that suits, yes and no instead of booleans."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if path == "limits.cpu":
        return str(value).removesuffix(".0")
    if path.endswith("_bytes"):
        number = finite_number(int(value) if isinstance(value, str) and value.isdecimal() else value)
        return str(value) if number is None else unit_for(path, number).text(number)
    return str(value)


def _system(item: Item) -> str:
    """The operating system of the image, by its full name where it has one."""
    release = item.get("os_release")
    if not isinstance(release, Mapping):
        return ""
    release = {str(key).lower(): value for key, value in release.items()}
    short = " ".join(str(release[key]) for key in ("id", "version_id") if release.get(key))
    return str(release.get("pretty_name") or short)


def _distinct(values: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(value for value in values if value))


def _packages(names: Sequence[str], entries: Sequence[Fields]) -> Packages | None:
    """Packages that differ; None unless two results list theirs."""
    lists = [_package_versions(entry) for entry in entries]
    if sum(one is not None for one in lists) < 2:
        return None
    every = sorted({package for one in lists if one is not None for package in one})
    facts = []
    for kind, name in every:
        values = tuple("" if one is None else one.get((kind, name), "absent") for one in lists)
        facts.append(Fact(f"{name} ({kind})", values))
    differing = tuple(fact for fact in facts if fact.differs)
    unlisted = tuple(name for name, one in zip(names, lists, strict=True) if one is None)
    return Packages(differing, len(facts) - len(differing), unlisted)


def _package_versions(entry: Fields) -> dict[tuple[str, str], str] | None:
    """The packages of the image by kind and name; several versions of one are joined."""
    packages = value_at_path(entry.data, "status.build.packages") or value_at_path(
        entry.data, "status.build.outcome.packages"
    )
    if not isinstance(packages, Mapping):
        return None
    found: dict[tuple[str, str], list[str]] = {}
    for kind in _PACKAGE_KINDS:
        for package in packages.get(kind) or ():
            if isinstance(package, Mapping) and package.get("name"):
                found.setdefault((kind, str(package["name"])), []).append(str(package.get("version") or "any"))
    return {key: ", ".join(sorted(set(versions))) for key, versions in found.items()}


def _texts_at(items: Sequence[Item], path: str) -> tuple[str, ...]:
    """Different texts at a path of the runs, once each."""
    return tuple(dict.fromkeys(str(value) for item in items if (value := value_at_path(item, path))))


def _first(items: Sequence[Item], path: str) -> str:
    return next(iter(_texts_at(items, path)), "")


def _index(item: Item, place: int) -> int:
    found = item.get("index")
    return found if isinstance(found, int) else place


def _number(value: t.Any) -> int | None:
    """A count, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
