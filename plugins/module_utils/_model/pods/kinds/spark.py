# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pods of SparkApplications: one driver, which makes the executors (v1beta2, Spark 3).

The operator hands the application to spark-submit, and Spark works out what its pods ask for: memory is the heap and an
overhead beside it. What the application itself says counts more than its sparkConf.
"""

from __future__ import annotations

import dataclasses
import math
import re
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    ExpectedPods,
    ItemOutcome,
    Kind,
    KindEnding,
    Object,
    Path,
    Reader,
    TemplateUse,
    with_labels,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import value_at

_MEBI = 1024**2
_MEMORY = re.compile(r"([0-9]+)([kmgtp]?)b?")
_UNITS = {"": 1, "k": 1024, "m": _MEBI, "g": 1024**3, "t": 1024**4, "p": 1024**5}
_USUAL_HEAP = "1g"
_LEAST_OVERHEAD = 384
# Python and R run beside the heap and get more.
_JVM_OVERHEAD, _OTHER_OVERHEAD = 0.1, 0.4
# What the pods of a role take over from the application as it is.
_POD_FIELDS = ("affinity", "hostNetwork", "priorityClassName", "runtimeClassName", "schedulerName")
_STATE: Path = ("applicationState", "state")


@dataclasses.dataclass(frozen=True, slots=True)
class _Role:
    """Driver or executor of an application."""

    reader: Reader
    name: str

    def path(self, *fields: str) -> Path:
        """Where a field of the role lies."""
        return ("spec", self.name, *fields)

    def given(self, field: str, conf: str) -> str | None:
        """A setting of the role, else the one of the configuration, as text."""
        return _given(self.reader, self.path(field), conf)


def _application(reader: Reader) -> list[TemplateUse]:
    """The driver and the executors it begins with."""
    return [_pods(_Role(reader, "driver"), 1), _pods(_Role(reader, "executor"), _executors(reader))]


def _executors(reader: Reader) -> int:
    """How many executors a start makes; with dynamic allocation the largest of three numbers."""
    instances = _count(reader, ("spec", "executor", "instances"), "spark.executor.instances")
    if not _is_dynamic(reader.obj):
        return 1 if instances is None else instances
    fields = ("initialExecutors", "minExecutors")
    least = [
        _count(reader, ("spec", "dynamicAllocation", field), f"spark.dynamicAllocation.{field}") for field in fields
    ]
    return max(instances or 0, *(count or 0 for count in least))


def _is_dynamic(obj: Object) -> bool:
    """Whether the number of executors follows the work."""
    places = (("spec", "dynamicAllocation", "enabled"), ("spec", "sparkConf", "spark.dynamicAllocation.enabled"))
    told = (value_at(obj, path) for path in places)
    return str(next((value for value in told if value is not None), "")).lower() == "true"


def _pods(role: _Role, count: int) -> TemplateUse:
    """The pods of one role; labels and affinity in a template are lost where the role has an affinity of its own."""
    reader, path = role.reader, role.path("template")
    reader.mapping(role.path())
    given = reader.get(path) is not None
    template = reader.template(path) if given else {"spec": {"containers": [{"name": f"spark-{role.name}"}]}}
    own = reader.mapping((*path, "spec", "containers", 0, "resources"), required=False) if given else {}
    first, *others = template["spec"]["containers"]
    containers = [{**first, "resources": _resources(own, role)}, *others, *_entries(reader, role.path("sidecars"))]
    spec = {**template["spec"], **_placement(role, template["spec"]), "containers": containers}
    labels = {"sparkoperator.k8s.io/app-name": reader.name, "spark-role": role.name}
    fixed = {**reader.mapping(role.path("labels"), required=False), **labels}
    reachable = given and reader.get(role.path("affinity")) is None
    whole = with_labels({**template, "spec": spec}, {}, fixed)
    return TemplateUse(f"{reader.name}/{role.name}", count, whole, path if reachable else None)


def _placement(role: _Role, template: Object) -> dict[str, t.Any]:
    """What the application says about placing the pods of a role, in the fields of a pod; lists are made longer."""
    reader = role.reader
    fields = {field: reader.get(role.path(field)) for field in _POD_FIELDS}
    mounted = [mount.get("name") for mount in _entries(reader, role.path("volumeMounts"))]
    more = {
        "initContainers": _entries(reader, role.path("initContainers")),
        "tolerations": _entries(reader, role.path("tolerations")),
        "volumes": [item for item in _entries(reader, ("spec", "volumes")) if item.get("name") in mounted],
    }
    fields.update({field: [*(template.get(field) or ()), *entries] for field, entries in more.items() if entries})
    selectors = (("spec", "nodeSelector"), role.path("nodeSelector"))
    selector = {key: text for path in selectors for key, text in reader.mapping(path, required=False).items()}
    fields["nodeSelector"] = {**(template.get("nodeSelector") or {}), **selector} if selector else None
    return {field: value for field, value in fields.items() if value is not None}


def _resources(own: Object, role: _Role) -> dict[str, t.Any]:
    """What Spark makes its container ask for, beside what the template says."""
    reader, name = role.reader, role.name
    memory = f"{_memory(role)}Mi"
    cores = role.given("coreRequest", f"spark.kubernetes.{name}.request.cores")
    cpu = cores or role.given("cores", f"spark.{name}.cores") or "1"
    limits: dict[str, t.Any] = {"memory": memory}
    core_limit = role.given("coreLimit", f"spark.kubernetes.{name}.limit.cores")
    if core_limit is not None:
        limits["cpu"] = core_limit
    if reader.mapping(role.path("gpu"), required=False):
        limits[reader.text(role.path("gpu", "name"))] = reader.count(role.path("gpu", "quantity"), 0)
    requests = {"cpu": cpu, "memory": memory}
    return {"requests": {**(own.get("requests") or {}), **requests}, "limits": {**(own.get("limits") or {}), **limits}}


def _memory(role: _Role) -> int:
    """Mebibytes of one pod: the heap, what lies beside it, and what executors keep outside of the JVM."""
    reader, name = role.reader, role.name
    heap = _mebibytes(reader, role.path("memory"), role.given("memory", f"spark.{name}.memory") or _USUAL_HEAP)
    overhead = role.given("memoryOverhead", f"spark.{name}.memoryOverhead")
    if overhead is not None:
        total = heap + _mebibytes(reader, role.path("memoryOverhead"), overhead)
    else:
        total = heap + max(int(_overhead_factor(role) * heap), _LEAST_OVERHEAD)
    return total + (_outside_of_jvm(reader) if name == "executor" else 0)


def _overhead_factor(role: _Role) -> float:
    """The part of the heap that is added where no overhead is given."""
    conf: Path = ("spec", "sparkConf")
    places = (
        (*conf, f"spark.{role.name}.memoryOverheadFactor"),
        (*conf, "spark.kubernetes.memoryOverheadFactor"),
        ("spec", "memoryOverheadFactor"),
    )
    for path in places:
        given = role.reader.get(path)
        if given is not None:
            return _number(role.reader, path, given)
    return _OTHER_OVERHEAD if role.reader.get(("spec", "type")) in ("Python", "R") else _JVM_OVERHEAD


def _outside_of_jvm(reader: Reader) -> int:
    """Mebibytes of an executor's Python processes and of its memory off the heap."""
    conf = reader.mapping(("spec", "sparkConf"), required=False)
    python, off_heap = conf.get("spark.executor.pyspark.memory"), conf.get("spark.memory.offHeap.size")
    total = 0
    if python is not None and reader.get(("spec", "type")) == "Python":
        total += _mebibytes(reader, ("spec", "sparkConf", "spark.executor.pyspark.memory"), python)
    if off_heap is not None and str(conf.get("spark.memory.offHeap.enabled")).lower() == "true":
        total += _mebibytes(reader, ("spec", "sparkConf", "spark.memory.offHeap.size"), off_heap, plain=1)
    return total


def _mebibytes(reader: Reader, path: Path, value: t.Any, plain: int = _MEBI) -> int:
    """An amount as Java writes it (512m, 2g); plain is the unit of a number without one."""
    found = _MEMORY.fullmatch(str(value).strip().lower())
    if found is None:
        raise reader.fail(path, f"an amount of memory like 512m or 2g is needed, not {value!r}")
    unit = plain if str(value).strip().isdecimal() else _UNITS[found[2]]
    return int(found[1]) * unit // _MEBI


def _given(reader: Reader, path: Path, conf: str) -> str | None:
    """A setting of the application, else the one of its configuration, as text."""
    value = reader.get(path)
    if value is None:
        value = reader.get(("spec", "sparkConf", conf))
    return None if value is None else str(value)


def _count(reader: Reader, path: Path, conf: str) -> int | None:
    """A whole number that may be written as text."""
    text = _given(reader, path, conf)
    if text is not None and not text.isdecimal():
        raise reader.fail(path, f"a whole number that is not negative is needed, not {text!r}")
    return None if text is None else int(text)


def _entries(reader: Reader, path: Path) -> list[Object]:
    """The entries of a list that may be missing."""
    return [reader.mapping(item) for item in reader.items(path, required=False)]


def _number(reader: Reader, path: Path, value: t.Any) -> float:
    """A number that is not negative and may be written as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise reader.fail(path, f"a number that is not negative is needed, not {value!r}")
    return number


def _expected(obj: Object, uses: Sequence[TemplateUse]) -> list[ExpectedPods]:
    """The driver, and executors, which it makes when it runs; where their number follows the work, as many as live."""
    driver, executors = uses
    now = executors.count
    told = value_at(obj, ("status", "executorState"))
    if _is_dynamic(obj) and isinstance(told, Mapping) and value_at(obj, ("status", *_STATE)) == "RUNNING":
        now = min(now, sum(state in ("PENDING", "RUNNING") for state in told.values()))
    return [ExpectedPods(driver.name, 1, 1), ExpectedPods(executors.name, now, 0)]


def _outcome(obj: Object) -> ItemOutcome | None:
    """By the state of the application; failed submissions and runs that are tried again are no end."""
    ends: dict[str, ItemOutcome] = {"COMPLETED": "succeeded", "FAILED": "failed"}
    return ends.get(str(value_at(obj, ("status", *_STATE))))


def _message(obj: Object) -> str:
    """What the operator says about a failure."""
    return str(value_at(obj, ("status", "applicationState", "errorMessage")) or "")


def _ends(obj: Object) -> bool:
    """Applications that are not begun again whenever they end."""
    return bool(value_at(obj, ("spec", "restartPolicy", "type")) != "Always")


SPARK_KINDS = (
    Kind(
        "sparkoperator.k8s.io",
        "SparkApplication",
        _application,
        _expected,
        ending=KindEnding(_outcome, _message, applies=_ends, ttl=("spec", "timeToLiveSeconds")),
        status_fields=(_STATE, ("executorState",)),
        # The driver owns the executors.
        owners=(("v1", "Pod"),),
    ),
)
