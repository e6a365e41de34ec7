# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of an inspection: files for its pods, and one Indexed Job whose indexes are the repetitions."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import (
    FileBundle,
    JobContext,
    bundle_files,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.inspection import RunSpec, kept_bytes
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.run_security import security_context
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

Object = dict[str, t.Any]

CONTAINER = "run"
CONTENT_FOLDER = "/muster/content"
WORK_FOLDER = "/muster/work"
HWINFO_FILE = f"{WORK_FOLDER}/hwinfo.json"
OLD_HOME = "/home/amun"
OLD_HWINFO_FOLDER = f"{OLD_HOME}/hwinfo"
# Default requests of a pod, so that it is not the first to be evicted; these are no limits.
DEFAULT_REQUESTS = {"cpu": "500m", "memory": "256Mi"}

_GRACE = 5
# How long a pod is given to end.
STOP_SECONDS = 20
_WORK_SIZE = "1Gi"
_HWINFO_SIZE = "1Mi"
_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_ABSOLUTE = re.compile(r"(?:/[^/]+)+")


@dataclasses.dataclass(frozen=True, slots=True)
class PodOptions:
    """What a cluster needs to know to run the pods, besides the run itself; none of it shapes the results."""

    affinity: Mapping[str, t.Any] | None = None
    tolerations: tuple[Mapping[str, t.Any], ...] = ()
    pull_secrets: tuple[str, ...] = ()
    service_account: str | None = None
    priority_class: str | None = None
    # Whether the collector shows the script's output in the log while it runs.
    live: bool = False
    # A folder of its own for the script, empty and writable for any user.
    home: str | None = None


def run_bundles(spec: RunSpec, collector: str) -> tuple[FileBundle, ...]:
    """Collector, script and files, spread over as many ConfigMaps as they need."""
    paths = {_file_key(position): item for position, item in enumerate(spec.files)}
    files = {"collector.sh": collector.encode(), "script": spec.script}
    files |= {key: item.content for key, item in paths.items()}
    return bundle_files(files, lambda key: f"file {paths[key].path}" if key in paths else f"the {key}")


def run_job(spec: RunSpec, terms: PodOptions, bundles: Sequence[FileBundle], context: JobContext) -> Object:
    """The Job: one index for each repetition, none of them tried twice unless the cluster itself broke it off."""
    labels = dict(context.labels)
    count = spec.repetitions if context.indexes is None else len(context.indexes)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": context.name, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": min(spec.parallelism, count),
            "backoffLimitPerIndex": 0,
            "maxFailedIndexes": min(max(spec.allowed_failures - context.failed, 0), count),
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
            },
            "template": {"metadata": {"labels": labels}, "spec": _pod(spec, terms, bundles, context)},
        },
    }


def _pod(spec: RunSpec, terms: PodOptions, bundles: Sequence[FileBundle], context: JobContext) -> Object:
    """The pod of one repetition; its deadline is the timeout, so that its log outlives it."""
    pod: Object = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": spec.timeout,
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [_container(spec, terms, context)],
        "volumes": [
            {"name": "content", "projected": {"defaultMode": 0o444, "sources": _sources(spec, bundles, context)}},
            {"name": "work", "emptyDir": {"sizeLimit": _WORK_SIZE}},
            {"name": "hwinfo", "emptyDir": {"sizeLimit": _HWINFO_SIZE}},
            *([{"name": "home", "emptyDir": {"sizeLimit": _WORK_SIZE}}] if terms.home else ()),
            *(volume.volume(f"volume-{number}") for number, volume in enumerate(spec.volumes)),
        ],
    }
    optional = {
        "affinity": terms.affinity,
        "tolerations": [dict(item) for item in terms.tolerations],
        "imagePullSecrets": [{"name": name} for name in terms.pull_secrets],
        "serviceAccountName": terms.service_account,
        "priorityClassName": terms.priority_class,
        "runtimeClassName": spec.runtime_class,
    }
    return pod | {key: value for key, value in optional.items() if value}


def _container(spec: RunSpec, terms: PodOptions, context: JobContext) -> Object:
    """The container: the collector as its program, the script's arguments as its own."""
    container: Object = {
        "name": CONTAINER,
        "image": spec.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", f"{CONTENT_FOLDER}/collector.sh"],
        "args": [_literal(text) for text in spec.args],
        "env": [*(_user_entry(entry) for entry in spec.environment), *_environment(spec, terms, context)],
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "content", "mountPath": CONTENT_FOLDER, "readOnly": True},
            {"name": "work", "mountPath": WORK_FOLDER},
            *([{"name": "home", "mountPath": terms.home}] if terms.home else ()),
            {"name": "hwinfo", "mountPath": OLD_HWINFO_FOLDER},
            *(
                {
                    "name": "content",
                    "mountPath": _checked_path(item.path),
                    "subPath": _file_key(position),
                    "readOnly": True,
                }
                for position, item in enumerate(spec.files)
            ),
            *(volume.mount(f"volume-{number}") for number, volume in enumerate(spec.volumes)),
        ],
    }
    limits = {"limits": dict(spec.resources)} if spec.resources else {}
    container["resources"] = {"requests": {**DEFAULT_REQUESTS, **spec.resources}, **limits}
    container["securityContext"] = security_context(spec.security)
    return container


def _user_entry(entry: Mapping[str, t.Any]) -> Object:
    """A variable of the user; its value is what it says, as it is without a cluster."""
    literal = {"value": _literal(str(entry["value"]))} if entry.get("value") is not None else {}
    return {**entry, **literal}


def _environment(spec: RunSpec, terms: PodOptions, context: JobContext) -> list[Object]:
    """The variables of the collector."""
    plain = {
        "MUSTER_SCRIPT": f"{CONTENT_FOLDER}/script",
        "MUSTER_WORK": WORK_FOLDER,
        "MUSTER_HWINFO": HWINFO_FILE,
        "MUSTER_WORKDIR": spec.workdir or "",
        "MUSTER_INTERPRETER": spec.interpreter or "",
        "MUSTER_WARMUP": str(spec.warmup),
        "MUSTER_OUTPUT_BYTES": str(kept_bytes(spec)),
        "MUSTER_GRACE": str(_GRACE),
        "MUSTER_LIVE": "1" if terms.live else "0",
    }
    plain |= _secrets(spec)
    if context.indexes is not None:
        plain["MUSTER_INDEXES"] = " ".join(str(index) for index in context.indexes)
    fields = {
        "MUSTER_INDEX": _INDEX_FIELD,
        "MUSTER_NODE_NAME": "spec.nodeName",
        "MUSTER_POD_NAME": "metadata.name",
        "MUSTER_POD_UID": "metadata.uid",
    }
    limits = {"MUSTER_LIMIT_CPU": ("limits.cpu", "1m"), "MUSTER_LIMIT_MEMORY": ("limits.memory", "1")}
    return [
        *({"name": name, "value": _literal(value)} for name, value in plain.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        *(
            {
                "name": name,
                "valueFrom": {
                    "resourceFieldRef": {"containerName": CONTAINER, "resource": resource, "divisor": divisor}
                },
            }
            for name, (resource, divisor) in limits.items()
        ),
    ]


def _secrets(spec: RunSpec) -> dict[str, str]:
    """Where the values lie that the collector masks in all that is kept of the script's output."""
    variables = [str(entry["name"]) for entry in spec.environment if "secretKeyRef" in (entry.get("valueFrom") or {})]
    paths = [volume.path for volume in spec.volumes if volume.source == "secret"]
    told = {"MUSTER_SECRET_VARIABLES": " ".join(variables), "MUSTER_SECRET_PATHS": "\n".join(paths)}
    return {name: value for name, value in told.items() if value}


def _sources(spec: RunSpec, bundles: Sequence[FileBundle], context: JobContext) -> list[Object]:
    """The ConfigMaps behind the volume with all files; the user's files get their own modes."""
    modes = {_file_key(position): item.mode for position, item in enumerate(spec.files)}
    return [
        {
            "configMap": {
                "name": context.bundles[bundle.key],
                "items": [
                    {"key": key, "path": key, **({"mode": modes[key]} if key in modes else {})} for key in bundle.files
                ],
            }
        }
        for bundle in bundles
    ]


def _file_key(position: int) -> str:
    """The name of a user's file inside the volume; the name that the user gave could be anything."""
    return f"file-{position:04d}"


def _checked_path(path: str) -> str:
    """A path where a file can be mounted."""
    parts = path.split("/")
    if not _ABSOLUTE.fullmatch(path) or {".", ".."} & set(parts) or ":" in path:
        raise BadInput("mount", f"file {path}", "an absolute path without '.', '..' and ':' is needed")
    return path


def _literal(text: str) -> str:
    """A text that reaches the process as it is: the kubelet would expand variables."""
    return text.replace("$", "$$")
