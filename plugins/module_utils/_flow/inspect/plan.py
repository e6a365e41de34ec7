# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run of an inspection read strictly out of the task's options, and the names that follow from it."""

from __future__ import annotations

import dataclasses
import math
import re
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.objects import PodOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import InspectionOptions
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import file_content
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import (
    HardwareAsk,
    hardware_data,
    hardware_from_data,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import (
    OUTPUT_BYTES,
    RunFile,
    RunSpec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_security import read_security
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_volumes import read_volumes
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, Fields, given_fields
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware import (
    affinity_terms,
    gpu_requests,
    gpu_tolerations,
)

INSPECTION_LABEL = "muster.kube/inspection"
IDENTIFIER_LABEL = "muster.kube/identifier"

_IDENTIFIER = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,20}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN_PREFIX = "MUSTER_"
_MODE = re.compile(r"0?[0-7]{3}")
_MOST_REPETITIONS = 1000
_MOST_WARMUPS = 1000
_MOST_OUTPUT = 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class RunPlan:
    """A run: what shapes its results, the hardware asked for, and what only the pods need to know."""

    spec: RunSpec
    ask: HardwareAsk
    tolerations: tuple[Data, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    service_account: str | None = None
    priority_class: str | None = None
    home: str | None = None

    def with_image(self, image: str) -> RunPlan:
        """The same run in another image."""
        return dataclasses.replace(self, spec=dataclasses.replace(self.spec, image=image))

    def pod_options(self, nodes: t.Sequence[Data] | None) -> PodOptions:
        """What the pods need to know, with the affinity for the hardware on these nodes."""
        affinity = affinity_terms(self.ask, nodes)
        return PodOptions(
            affinity={"nodeAffinity": affinity} if affinity else None,
            tolerations=(*self.tolerations, *gpu_tolerations(self.ask)),
            pull_secrets=self.pull_secrets,
            service_account=self.service_account,
            priority_class=self.priority_class,
            home=self.home,
            live=True,
        )


def label_keys(terms: PodOptions) -> tuple[str, ...]:
    """The labels by which nodes are chosen, worth keeping with the results."""
    affinity = ((terms.affinity or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    choices = (affinity or {}).get("nodeSelectorTerms") or ()
    return tuple(sorted({item["key"] for choice in choices for item in choice["matchExpressions"]}))


def plan_run(terms: InspectionOptions, script: bytes, image: str) -> RunPlan:
    """Read the options of the run; the first thing that is wrong is named with its option."""
    run = terms.run
    fields = Fields(given_fields(run), "run")
    ask = hardware_from_data(run.hardware, "run: hardware")
    files = _files(fields, run.files)
    taken = {item.path for item in files} | {fields.text("home") or ""}
    spec = RunSpec(
        image=image,
        script=script,
        args=tuple(str(item) for item in run.args),
        interpreter=fields.text("interpreter"),
        environment=_environment(fields),
        files=files,
        workdir=fields.text("workdir"),
        repetitions=_count(fields, "repetitions", 1, _MOST_REPETITIONS),
        parallelism=_count(fields, "parallelism", 1, _MOST_REPETITIONS),
        warmup=_count(fields, "warmup", 0, _MOST_WARMUPS),
        allowed_failures=_count(fields, "allowed_failures", 0, _MOST_REPETITIONS),
        timeout=_seconds(terms.timeout),
        output_bytes=_count(fields, "output_bytes", 2, _MOST_OUTPUT, OUTPUT_BYTES),
        resources={**_amounts(fields), **gpu_requests(ask)},
        hardware=hardware_data(ask),
        runtime_class=fields.text("runtime_class"),
        security=read_security(run.security, "run: security"),
        volumes=read_volumes(run.volumes, "run: volumes", taken),
    )
    return RunPlan(
        spec=spec,
        ask=ask,
        tolerations=tuple(dict(item) for item in run.tolerations),
        pull_secrets=run.pull_secrets,
        service_account=fields.text("service_account"),
        priority_class=fields.text("priority_class"),
        home=fields.text("home"),
    )


def checked_identifier(identifier: str | None) -> str | None:
    """The user's part of the name."""
    if identifier is not None and not _IDENTIFIER.fullmatch(identifier):
        raise BadInput("read", "identifier", f"1 to 22 of a-z, 0-9 and '-' inside are needed, not {identifier!r}")
    return identifier


def inspection_name(identifier: str | None, identity: str) -> str:
    """The id of an inspection, which is the name of its record."""
    return f"inspection-{identifier}-{identity[:10]}" if identifier else f"inspection-{identity[:10]}"


def _count(fields: Fields, key: str, low: int, high: int, default: int | None = None) -> int:
    """A whole number between bounds, the lower one when missing."""
    if fields.get(key) is None:
        return low if default is None else default
    return fields.whole(key, low, high)


def _seconds(timeout: float) -> int:
    """The timeout of one repetition in whole seconds, as pods have it."""
    seconds = math.ceil(timeout)
    if not 1 <= seconds <= INT32:
        raise BadInput("read", "timeout", f"at least one second is needed, not {timeout:g}")
    return seconds


def _environment(fields: Fields) -> tuple[Data, ...]:
    """Variables as a pod has them, in the order of their names."""
    entries: list[Data] = []
    for name, value in sorted(fields.mapping("env").items()):
        if not _VARIABLE.fullmatch(str(name)) or str(name).startswith(_OWN_PREFIX):
            raise fields.fail(f"env.{name}", f"it cannot be the name of a variable, or begins with {_OWN_PREFIX}")
        if isinstance(value, Mapping):
            inner = Fields(value, f"run: env.{name}")
            inner.only(("secret", "key"))
            source = {"name": inner.required_text("secret"), "key": inner.required_text("key")}
            entries.append({"name": str(name), "valueFrom": {"secretKeyRef": source}})
            continue
        text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
        entries.append({"name": str(name), "value": text})
    return tuple(entries)


def _files(fields: Fields, files: t.Iterable[Data]) -> tuple[RunFile, ...]:
    """Files for the script."""
    found = []
    for index, data in enumerate(files):
        inner = Fields(data, f"run: files[{index}]")
        inner.only(("path", "content", "content_base64", "mode"))
        mode = inner.text("mode") or "0444"
        if not _MODE.fullmatch(mode):
            raise inner.fail("mode", f"an octal number such as 0755 is needed, not {mode!r}")
        found.append(RunFile(inner.required_text("path"), file_content(inner), int(mode, 8)))
    paths = [item.path for item in found]
    if len(set(paths)) < len(paths):
        raise fields.fail("files", "a path is given twice")
    return tuple(found)


def _amounts(fields: Fields) -> dict[str, str]:
    """Amounts by resource, which are requests and limits at once."""
    found: dict[str, str] = {}
    for name, value in fields.mapping("requests").items():
        try:
            amount = parse_quantity(value)
        except BadInput as error:
            raise fields.fail(f"requests.{name}", error.cause) from error
        if amount <= 0:
            raise fields.fail(f"requests.{name}", f"more than nothing is needed, not {value!r}")
        found[str(name)] = str(value)
    return dict(sorted(found.items()))
